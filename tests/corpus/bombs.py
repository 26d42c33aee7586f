"""Submissions that take all there is: memory, processes, files, output; and what they leave behind."""

from corpus.case import MARK, Case, forging, in_step, in_step_once, returning, stopped

ANY_END = "timed_out died out_of_memory failed"
CASES: list[Case] = [
    in_step(
        "fork-bomb",
        "forks as often as it can, everywhere",
        "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass",
        ANY_END,
        quick=True,
    ),
    in_step(
        "thread-bomb",
        "starts threads without end",
        "import threading, time\nwhile True:\n    threading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
        ANY_END,
    ),
    in_step("memory-at-once", "asks for 80 GB", "x = [0] * 10**10", "out_of_memory", quick=True),
    in_step(
        "memory-bit-by-bit",
        "asks again when refused",
        "x = []\nwhile True:\n    try:\n        x.append(bytearray(1 << 20))\n    except MemoryError:\n        pass",
        "out_of_memory timed_out",
    ),
    in_step(
        "memory-mapped",
        "maps memory beside Python's own",
        "import mmap\nx = []\nwhile True:\n    x.append(mmap.mmap(-1, 1 << 26))\n    x[-1].write(b'x' * (1 << 26))",
        "out_of_memory failed died",
    ),
    in_step(
        "memory-in-many-processes",
        "thirty children with 80 MB each",
        """
        import os, time
        for _ in range(30):
            if not os.fork():
                x = b"x" * (80 << 20)
                time.sleep(99)
        time.sleep(99)
        """,
        "out_of_memory timed_out",  # on a busy machine the thirty may not have had their memory by then
    ),
    stopped(
        "memory-of-nobody",
        "memory that no process is charged for",
        """
        import ctypes, os
        kept = []
        for make in (lambda: os.memfd_create("x"), lambda: ctypes.CDLL(None).shmget(0, 1 << 24, 0o1600)):
            try:
                kept.append(make())
            except OSError:
                pass
        return [k for k in kept if k >= 0]
        """,
    ),
    stopped(
        "fill-shm",
        "fills /dev/shm",
        """
        total = 0
        try:
            for i in range(50):
                with open(f"/dev/shm/{i}", "wb", 0) as file:
                    total += file.write(b"x" * (8 << 20))
        except OSError:
            pass
        return total if total > 80 << 20 else None
        """,
    ),
    stopped(
        "fill-device-folder",
        "fills /dev, / and every other folder",
        """
        import os
        made = []
        for folder in ("/dev", "/", "/usr", "/proc", "/sys", "/root", "/var/tmp", "/run"):
            try:
                open(f"{folder}/decodelab-was-here", "w").write("x")
                made.append(folder)
            except OSError:
                pass
        return made
        """,
    ),
    in_step_once(
        "fill-disk",
        "writes files until it is stopped",
        """
        i = 0
        try:
            while True:
                i += 1
                with open(f"{i}", "wb", 0) as file:
                    file.write(b"x" * (4 << 20))
        except OSError:
            pass
        """,
        "passed",
        landlock={"ch01.3": "died"},
    ),
    stopped(
        "sparse-file",
        "a file of a terabyte",
        "import os\nfd = os.open('x', os.O_RDWR | os.O_CREAT)\nos.ftruncate(fd, 1 << 40)\nreturn 'made it'",
    ),
    in_step_once(
        "many-files",
        "twenty thousand empty files",
        "for i in range(20000):\n    open(f'{i}', 'w').close()",
        "passed timed_out",
        landlock={"ch01.3": "died"},
    ),
    in_step(
        "file-numbers",
        "opens files until it may not",
        "type(self).kept = getattr(type(self), 'kept', [])\ntry:\n    while True:\n        self.kept.append(open('/dev/null'))\nexcept OSError:\n    pass",
        "passed",
    ),
    in_step_once(
        "flood-stdout",
        "100 MB to file 1",
        "import os\nfor _ in range(1600): os.write(1, b'x' * (1 << 16))",
        "passed",
    ),
    in_step_once(
        "flood-print", "prints without measure", "for _ in range(100): print('x' * 10**6)", "passed"
    ),
    forging(
        "flood-protocol",
        "lines without end where the answers go",
        """
        import os
        while True:
            for fd in range(3, 9):
                try:
                    os.write(fd, b'[{"ok": null}, {"printed": ""}]\\n' * 1000)
                except OSError:
                    pass
        """,
        "died timed_out",
        quick=True,
    ),
    forging(
        "flood-protocol-bytes",
        "one line without end",
        "import os\nwhile True:\n    for fd in range(3, 9):\n        try:\n            os.write(fd, b'[' * 65536)\n        except OSError:\n            pass",
        "died timed_out",
    ),
    returning(
        "huge-event", "an event of 50 MB", "return {'request_id': 'x' * 50_000_000}", "died out_of_memory"
    ),
    returning(
        "exploding-event",
        "an event whose parts are shared",
        "x = [1] * 10\nfor _ in range(11):\n    x = [x] * 10\nreturn x",
        "failed died out_of_memory timed_out",
    ),
    returning(
        "hash-flood",
        "keys that all share a hash",
        "return {(2**61 - 1) * i: 0 for i in range(1, 50_000)}",
        "died timed_out",
    ),
    in_step_once(
        "daemon",
        "a daemon by double fork",
        f"""
        import os
        if not os.fork():
            os.setsid()
            if not os.fork():
                os.execv("/bin/sleep", ["sleep", "{MARK}"])
            os._exit(0)
        """,
        "passed",
    ),
    in_step_once(
        "stubborn-daemon",
        "a daemon that ignores signals",
        """
        import os, signal, time
        if not os.fork():
            os.setsid()
            for number in range(1, 32):
                try:
                    signal.signal(number, signal.SIG_IGN)
                except (OSError, ValueError):
                    pass
            if not os.fork():
                time.sleep(9999)
            time.sleep(9999)
        """,
        "passed",
        quick=True,
    ),
    in_step_once(
        "nohup",
        "a shell's background job",
        f"import os\nos.system('nohup setsid sleep {MARK} >/dev/null 2>&1 &')",
        "passed",
    ),
    in_step_once(
        "zombies",
        "children that nobody waits for",
        "import os\nfor _ in range(20):\n    if not os.fork(): os._exit(0)",
        "passed",
    ),
    in_step(
        "leave-a-child-on-the-pipe",
        "dies, and leaves a child that holds the judge's pipes",
        "import os, time\nif not os.fork():\n    os.setsid()\n    time.sleep(9999)\nos._exit(0)",
        "died timed_out",
    ),
]
