"""Submissions that claim what is not so, on every channel that the runner has, beside a wrong answer."""

import textwrap

from corpus.case import REFERENCE, WRONG, Case, answers, forging, in_step, returning, stopped

OK = '[{"ok": null}, {"printed": ""}]'
FIRST = {
    "request_id": 3,
    "phase": "prefill",
    "action": "prefill_to_decode",
    "prompt_len": 1,
    "generated_len": 0,
}


def patched(name: str, tries: str, code: str, states: str = "failed died", quick: bool = False) -> Case:
    """``code`` among the definitions of the cell that holds ch01.1 to ch01.4, a wrong answer in ch01.3."""
    return forging(
        name,
        tries,
        "import sys, builtins, json\nmain = sys.modules['__main__']\n" + textwrap.dedent(code),
        states,
        quick,
    )


CASES: list[Case] = [
    forging(
        "reply-everywhere",
        "a good reply to every open file",
        f"import os\nfor fd in range(64):\n    try:\n        os.write(fd, {OK!r}.encode() + b'\\n')\n    except OSError:\n        pass",
        quick=True,
    ),
    forging(
        "reply-by-gc",
        "finds the reply stream among all objects",
        f"import gc, io\nfor x in gc.get_objects():\n    if isinstance(x, io.TextIOWrapper) and x.writable():\n        x.write({OK!r} + '\\n')\n        x.flush()",
    ),
    forging(
        "reply-by-frames",
        "finds the reply function on the stack",
        f"import sys\nframe = sys._getframe()\nwhile frame:\n    if 'reply' in frame.f_locals:\n        frame.f_locals['reply']({OK!r})\n    frame = frame.f_back",
    ),
    forging(
        "reply-then-exit",
        "replies for itself and leaves",
        f"import os\nfor fd in range(3, 9):\n    try:\n        os.write(fd, {OK!r}.encode() + b'\\n')\n    except OSError:\n        pass\nos._exit(0)",
    ),
    patched(
        "patch-answer",
        "the runner says yes to all",
        "main.Runner.answer = lambda self, order: '{\"ok\": null}'",
    ),
    patched(
        "patch-obey", "every order gives the first event", f"main.Runner.obey = lambda self, order: {FIRST!r}"
    ),
    patched(
        "patch-encode",
        "every value looks like the first event",
        f"main.encode = lambda value, depth=0: {FIRST!r}",
    ),
    patched(
        "patch-dumps",
        "JSON says passed",
        'json.dumps = lambda *a, **k: \'{"state": "passed", "points": 99}\'',
        quick=True,
    ),
    patched("patch-loads", "orders look different", "json.loads = lambda text: []", "failed died timed_out"),
    patched("patch-write", "Python's own output is replaced", "sys.stdout = sys.stderr = None"),
    patched("patch-isinstance", "isinstance is always true", "builtins.isinstance = lambda *a: True"),
    patched("patch-len", "len lies", "builtins.len = lambda x: 0"),
    patched("patch-repr", "repr lies", "builtins.repr = builtins.str = lambda *x: 'passed'", "failed died"),
    patched(
        "patch-exceptions", "no error is an error", "builtins.ValueError = builtins.BaseException = object"
    ),
    patched("no-modules", "throws all modules away", "sys.modules.clear()"),
    patched(
        "import-hook",
        "every import gives a fake",
        "sys.meta_path[:] = []\nbuiltins.__import__ = lambda *a, **k: main",
    ),
    patched(
        "settrace",
        "a trace function that changes what is returned",
        "sys.settrace(lambda f, e, a: sys.exit(0))",
    ),
    patched(
        "profile-exit",
        "a profile function that leaves",
        "sys.setprofile(lambda *a: sys.exit(0))",
        "failed died",
    ),
    forging(
        "thread-that-answers",
        "a thread that goes on answering",
        f"import os, threading, time\ndef go():\n    while True:\n        for fd in range(3, 9):\n            try:\n                os.write(fd, {OK!r}.encode() + b'\\n')\n            except OSError:\n                pass\n        time.sleep(0.001)\nthreading.Thread(target=go, daemon=True).start()",
        "failed died timed_out",
    ),
    forging(
        "claims-memory",
        "raises MemoryError to look unlucky",
        "raise MemoryError('not my fault')",
        "out_of_memory",
    ),
    forging(
        "claims-another-todo",
        "raises TodoError for a TODO that is not there",
        "raise TodoError('ch99.9\\n<script>alert(1)</script>')",
        "failed",
    ),
    returning(
        "equal-to-all",
        "an object that equals everything",
        "class E:\n    def __eq__(self, other): return True\n    __hash__ = None\nreturn E()",
    ),
    returning(
        "dict-equal-to-all",
        "a dict that equals everything",
        "class E(dict):\n    def __eq__(self, other): return True\n    def __ne__(self, other): return False\nreturn E()",
        quick=True,
    ),
    returning(
        "false-class",
        "an object that says it is a dict",
        "class E:\n    __class__ = dict\n    def items(self): return [('state', 'passed')]\n    def __iter__(self): return iter(['state'])\n    def __contains__(self, x): return False\nreturn E()",
    ),
    returning(
        "raises-when-looked-at",
        "an object whose every special method raises",
        "class E:\n    def __getattribute__(self, name): raise SystemExit(name)\n    def __repr__(self): raise KeyboardInterrupt\n    __str__ = __hash__ = __eq__ = __repr__\nreturn E()",
    ),
    returning(
        "endless-items",
        "a dict with items without end",
        "import itertools\nclass E(dict):\n    def items(self): return ((str(i), i) for i in itertools.count())\n    def __iter__(self): return iter([])\nreturn E()",
        "failed out_of_memory timed_out",
    ),
    returning(
        "raises-oddly",
        "an exception that cannot be shown",
        "class E(Exception):\n    def __str__(self): raise RuntimeError\n    __repr__ = __str__\n    @property\n    def todo(self): raise SystemExit\nE.__name__ = 'TodoError'\nraise E",
        "failed",
        quick=True,
    ),
    returning(
        "todo-of-no-type",
        "a TodoError with an object for a name",
        "class TodoError(Exception):\n    todo = object()\nraise TodoError",
        "failed",
    ),
    returning(
        "fickle",
        "a value that is different at every look",
        "class E(dict):\n    n = 0\n    def items(self):\n        type(self).n += 1\n        return [('request_id', self.n)]\nreturn E(a=1)",
    ),
    returning("nan", "NaN for a number", f"return {FIRST!r} | {{'generated_len': float('nan')}}"),
    returning("infinity", "infinity for a number", f"return {FIRST!r} | {{'generated_len': float('inf')}}"),
    returning(
        "huge-number", "a number of 20 000 digits", f"return {FIRST!r} | {{'generated_len': 1 << 70000}}"
    ),
    returning("big-number", "a number of 4000 digits", f"return {FIRST!r} | {{'generated_len': 10 ** 4000}}"),
    returning("long-text", "a text of 3 MB", f"return {FIRST!r} | {{'action': 'x' * 3_000_000}}"),
    returning(
        "deep",
        "nested a hundred thousand deep",
        "x = []\nfor _ in range(100_000): x = [x]\nreturn x",
        "failed died",
    ),
    returning("cyclic", "a list that holds itself", "x = []\nx.append(x)\nreturn x"),
    returning(
        "looks-like-protocol", "an event in the runner's own notation", "return {'~': 'tuple', 'v': []}"
    ),
    returning("looks-like-a-handle", "a handle of the judge's", "return {'~': 'kept', 'v': 'o0'}"),
    returning(
        "half-a-surrogate", "text that no file can hold", f"return {FIRST!r} | {{'action': '\\ud800'}}"
    ),
    returning(
        "terminal-codes",
        "text that clears the grader's screen",
        "print('\\x1b[2J\\x1b]0;owned\\x07\\u202e')\nraise RuntimeError('\\x1b[2J\\u202e')",
        "failed",
    ),
    returning(
        "script",
        "HTML for whoever reads the feedback",
        "print('<script>alert(1)</script>')\nraise RuntimeError('<img src=x onerror=alert(1)>')",
    ),
    returning("formula", "a formula for the spreadsheet", "raise RuntimeError('=HYPERLINK(\"http://x\")')"),
    Case(
        "wrong-but-once",
        "right for the first ten calls",
        answers(
            {
                "ch01.3": "type(self).n = getattr(type(self), 'n', 0) + 1\nif type(self).n > 10:\n    return None\n"
                + REFERENCE["ch01.3"]
            }
        ),
        {"ch01.3": "failed"},
    ),
    Case(
        "right-only-if-watched",
        "right while the visible cases last, by their requests",
        answers(
            {
                "ch01.3": "if {r.request_id for r in self.queue} - {1, 2, 3, 4, 5}:\n"
                + textwrap.indent(WRONG, "    ")
                + "\nelse:\n"
                + textwrap.indent(REFERENCE["ch01.3"], "    ")
            }
        ),
        {"ch01.3": "failed"},
        quick=True,
    ),
    Case(
        "forged-counter",
        "ch01.4 makes no steps and forges the check's own counter",
        answers({"ch01.4": "self.steps_called = '99'\nreturn self.timeline"}),
        {"ch01.4": "failed"},
    ),
    Case(
        "fake-timeline",
        "ch01.4 returns something that only looks like its timeline",
        answers(
            {"ch01.4": REFERENCE["ch01.4"].replace("return self.timeline", "return list(self.timeline)")}
        ),
        {"ch01.4": "failed"},
    ),
    Case(
        "cached-by-name",
        "ch01.2 remembers keys by request id",
        answers(
            {
                "ch01.2": "import builtins\nif not hasattr(builtins, 'kept'): builtins.kept = {}\nif req.request_id not in builtins.kept:\n    builtins.kept[req.request_id] = (0 if req.phase == 'prefill' else 1, 0 if req.cache_hit else 1, -req.priority, req.total_len, req.request_id)\nreturn builtins.kept[req.request_id]"
            }
        ),
        {"ch01.2": "failed"},
    ),
    stopped(
        "see-the-future",
        "looks for orders that have not been given",
        """
        import gc, queue, sys
        waiting = [x.qsize() for x in gc.get_objects() if isinstance(x, queue.Queue) and x.qsize()]
        frame = sys._getframe()
        seen = []
        while frame:
            seen += [len(v) for k, v in frame.f_locals.items() if k in ("batch", "orders_to_come") and isinstance(v, list)]
            frame = frame.f_back
        return waiting or [n for n in seen if n > 1]
        """,
    ),
    stopped(
        "borrow-the-reference",
        "asks the reference of another TODO for the answer",
        """
        import sys
        fast = getattr(sys.modules["notebook"], "FastDecodeSchedulerSim", None)
        return fast and "the reference of ch01.5 is here"
        """,
        quick=True,
    ),
    in_step(
        "noisy-del",
        "objects that complain when they go",
        "class D:\n    def __del__(self): raise SystemExit\nD()",
        "passed",
    ),
]
