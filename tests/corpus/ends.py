"""Submissions that end the process, or try to end others."""

from corpus.case import Case, in_step, stopped

SIGNAL = "import os, signal\nos.kill(os.getpid(), signal.{})"
CASES: list[Case] = [
    in_step("sys-exit", "leaves with SystemExit", "import sys\nsys.exit(0)", "failed", quick=True),
    in_step("exit-of-site", "leaves with the interactive exit()", "exit()", "failed"),
    in_step("os-exit", "leaves without a word", "import os\nos._exit(0)", "died", quick=True),
    in_step("keyboard-interrupt", "raises KeyboardInterrupt", "raise KeyboardInterrupt", "failed"),
    in_step("sigkill", "kills itself", SIGNAL.format("SIGKILL"), "died"),
    in_step("sigterm", "asks itself to end", SIGNAL.format("SIGTERM"), "died"),
    in_step(
        "sigstop", "stops itself, threads and all", SIGNAL.format("SIGSTOP"), "timed_out died", quick=True
    ),
    in_step("sigalrm", "is ended by an alarm", "import signal, time\nsignal.alarm(1)\ntime.sleep(3)", "died"),
    in_step("abort", "dumps core", "import os\nos.abort()", "died"),
    in_step("segfault", "reads address 0", "import ctypes\nctypes.string_at(0)", "died", quick=True),
    in_step("exec", "becomes another program", "import os\nos.execv('/bin/true', ['true'])", "died"),
    in_step("close-all", "closes every file", "import os\nos.closerange(0, 200)", "died timed_out"),
    in_step(
        "exec-shell",
        "becomes a shell that answers",
        "import os\nos.execv('/bin/sh', ['sh', '-c', 'for i in 1 3 4 5; do echo [] >&$i; done'])",
        "died",
    ),
    in_step(
        "atexit",
        "wants the last word",
        "import atexit, os\natexit.register(os.write, 4, b'[]')\nos.kill(os.getpid(), 15)",
        "died",
    ),
    stopped(
        "kill-all",
        "kills every process it may",
        "import os\ntry:\n    os.kill(-1, 9)\nexcept OSError:\n    pass",
    ),
    stopped(
        "kill-parent",
        "kills its supervisor and its process group",
        """
        import os
        for target in (os.getppid(), -os.getpgid(os.getppid())):
            for sign in (15, 9):
                try:
                    os.kill(target, sign)
                except OSError:
                    pass
        """,
        quick=True,
    ),
    stopped(
        "kill-by-number",
        "kills all process numbers but its own",
        """
        import os
        own = {int(thread) for thread in os.listdir("/proc/self/task")}
        for pid in range(2, 66000):
            if pid not in own:
                try:
                    os.kill(pid, 9)
                except OSError:
                    pass
        """,
    ),
    stopped(
        "lower-limits-of-others",
        "sets the judge's CPU limit to nothing",
        """
        import os, resource
        for pid in {os.getppid(), *range(2, 3000)} - {os.getpid()}:
            try:
                resource.prlimit(pid, resource.RLIMIT_CPU, (0, 0))
            except OSError:
                continue
            return f"limited {pid}"
        """,
    ),
    stopped(
        "slow-others-down",
        "takes the others' turns",
        "import os\nos.setpriority(os.PRIO_USER, 0, 19)\nreturn 'reniced'",
    ),
]
