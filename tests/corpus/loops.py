"""Submissions that do not come back."""

from handed_in import ENDLESS

from corpus.case import Case, answers, forging, in_step

TIMED_OUT = "timed_out"
CASES: list[Case] = [
    in_step("swallow", "a loop that catches everything", ENDLESS, TIMED_OUT, quick=True),
    Case(
        "all-five-loop",
        "every TODO loops",
        answers({f"ch01.{n}": ENDLESS for n in range(1, 6)}),
        {"all": TIMED_OUT},
    ),
    in_step("sleep", "sleeps for ever", "import time\ntime.sleep(1e6)", TIMED_OUT),
    in_step(
        "deadlock",
        "waits for a lock it holds",
        "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()",
        TIMED_OUT,
    ),
    in_step("c-loop", "a loop in C that holds the interpreter's lock", "sum(range(10**13))", TIMED_OUT),
    in_step("power", "one huge sum", "10 ** 10 ** 9", f"{TIMED_OUT} out_of_memory", quick=True),
    in_step(
        "gil-held",
        "waits in C with the interpreter's lock",
        "import ctypes\nctypes.PyDLL(None).pause()",
        TIMED_OUT,
    ),
    in_step(
        "regular-expression",
        "a regular expression that explodes",
        "import re\nre.match('(a+)+$', 'a' * 64 + 'b')",
        TIMED_OUT,
    ),
    in_step(
        "signals-blocked",
        "blocks every signal, then loops",
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\nwhile True: pass",
        TIMED_OUT,
    ),
    in_step("recursion", "calls itself", "def f():\n    return f()\nf()", "failed"),
    in_step(
        "recursion-unlimited",
        "calls itself without a limit",
        "import sys\nsys.setrecursionlimit(10**9)\nf = lambda: f()\nf()",
        "died out_of_memory timed_out failed",
    ),
    in_step("slow-steps", "a second a step", "import time\ntime.sleep(1)", TIMED_OUT),
    forging(
        "steal-orders",
        "reads the judge's orders itself",
        """
        import os, threading
        def read():
            for fd in (3, 4, 5):
                try:
                    while True:
                        os.read(fd, 9999)
                except OSError:
                    pass
        threading.Thread(target=read, daemon=True).start()
        """,
        "timed_out died failed",
    ),
    in_step(
        "hold-the-reply-lock",
        "takes the lock of the reply stream",
        """
        import sys
        frame = sys._getframe()
        while frame and "lock" not in frame.f_locals:
            frame = frame.f_back
        if frame and not frame.f_locals["lock"].locked():
            frame.f_locals["lock"].acquire()
        """,
        TIMED_OUT,
    ),
    in_step("close-orders", "closes the stream of orders", "import os\nos.close(3)", "timed_out died failed"),
]
