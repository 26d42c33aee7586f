"""Right answers of unusual make: whatever a learner's own kernel runs and accepts gets its points everywhere.

Each is a whole notebook, found once in the file and once in the history of a kernel that ran it from top to
bottom: both must find the same code, and the hidden suite must pass it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from handed_in import ROOT, notebook

from decodelab.course import load
from decodelab.grading.judge import judge
from decodelab.grading.suites import hidden_cases
from decodelab.notebook.read import Cell, Submission, find_answers, from_content, parse

CHAPTER = load("ch01")
STUBS = {todo.id: f'raise TodoError("{todo.id}")' for todo in CHAPTER.todos}
REST = "0 if req.cache_hit else 1, -req.priority, req.total_len, req.request_id"
CHOICE = """\
active = [r for r in self.queue if not r.done]
{}if not active:
    return None
req = min(active, key=self._schedule_key)"""
APPEND = """\
require_length("prompt_len", prompt_len)
if max_new_tokens is not None:
    require_length("max_new_tokens", max_new_tokens)
if any(r.request_id == request_id for r in self.queue):
    raise ValueError("taken")
self.queue.append(RequestState(
    request_id, prompt_len, priority=priority, cache_hit=cache_hit, max_new_tokens=max_new_tokens))
"""
RUN = """\
if max_steps < 0:
    raise {}("negative")
for _ in range(max_steps):
    if self.step() is None:
        break
return self.timeline"""
STEP = f"def {{}}(self):\n{CHOICE.format('')}".replace("\n", "\n    ") + "\n    return self._advance(req)\n"


@dataclass
class Answer:
    """A solved notebook, but: other code in some TODOs, cells before and after the answer, a text replaced in it."""

    name: str
    todos: dict[str, str] = field(default_factory=dict)
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    swap: tuple[str, str] = ("", "")
    judged: tuple[str, ...] = ()

    def content(self) -> dict[str, Any]:
        made = notebook("ch01", "en", self.todos)
        cells = made["cells"]
        at = next(i for i, cell in enumerate(cells) if cell["id"] == "ch01-answer")
        for cell in cells:
            if cell["cell_type"] == "code":
                cell["source"] = "".join(cell["source"]).replace(*self.swap)
        cells[at + 1 : at + 1] = [code(source) for source in self.after]
        cells[at:at] = [code(source) for source in self.before]
        return made


def code(source: str, **more: Any) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "metadata": {},
        "outputs": [],
        "execution_count": None,
        "source": source,
    } | more


def key(name: str, first: str, *before: str, rest: str = REST) -> Answer:
    return Answer(name, {"ch01.2": f"return ({first}, {rest})"}, before)


def step(name: str, lines: str, *before: str, after: tuple[str, ...] = ()) -> Answer:
    return Answer(name, {"ch01.3": lines}, before, after)


def patched(name: str, *after: str) -> Answer:
    return Answer(name, {"ch01.3": STUBS["ch01.3"]}, after=after)


def enqueue(name: str, lines: str) -> Answer:
    return Answer(name, {"ch01.1": APPEND + lines}, judged=("ch01.1", "ch01.3"))


TRICKY_STATE = """class RequestState:
    def __init__(self, request_id, prompt_len, generated_len=0, phase="prefill", priority=0, cache_hit=False,
                 max_new_tokens=None):
        self._d = dict(request_id=request_id, prompt_len=prompt_len, generated_len=generated_len, phase=phase,
                       priority=priority, cache_hit=cache_hit, max_new_tokens=max_new_tokens)
    def __getattr__(self, name):
        try:
            return self.__dict__["_d"][name]
        except KeyError:
            raise AttributeError(name)
    def __setattr__(self, name, value):
        if name == "_d":
            object.__setattr__(self, name, value)
        else:
            self._d[name] = value
    total_len = property(lambda s: s.prompt_len + s.generated_len)
    target = property(lambda s: s.prompt_len if s.max_new_tokens is None else s.max_new_tokens)
    done = property(lambda s: s.generated_len >= s.target)
"""
PROPERTIES = """@dataclass
class RequestState:
    request_id: int
    prompt_len: int
    generated_len: int = 0
    phase: str = "prefill"
    priority: int = 0
    cache_hit: bool = False
    max_new_tokens: int | None = None
    def __post_init__(self):
        self.rank = -self.priority
    total_len = property(lambda s: s.prompt_len + s.generated_len)
    target = property(lambda s: s.prompt_len if s.max_new_tokens is None else s.max_new_tokens)
    done = property(lambda s: s.generated_len >= s.target)
"""
RANK = "RANK[req.phase]"
STATE = ("ch01.1", "ch01.2", "ch01.3", "ch01.5")
UNUSUAL = [
    Answer("subclass of ValueError", {"ch01.4": RUN.format("BadBound")}, ("class BadBound(ValueError): pass",)),
    Answer(
        "namedtuple",
        {"ch01.2": f'return Key(0 if req.phase == "prefill" else 1, {REST})'},
        ("from collections import namedtuple", 'Key = namedtuple("Key", "phase cache priority total id")'),
    ),
    key("IntEnum", "Rank[req.phase.upper()]", "from enum import IntEnum\nclass Rank(IntEnum):\n    PREFILL = 0\n    DECODE = 1"),
    key(
        "numpy",
        'np.int64(0 if req.phase == "prefill" else 1), np.bool_(not req.cache_hit)',
        "import numpy as np",
        rest="-np.int64(req.priority), np.int32(req.total_len), np.int64(req.request_id)",
    ),
    Answer(
        "str-Enum in the events",
        before=('from enum import Enum\nclass Phase(str, Enum):\n    PREFILL = "prefill"\n    DECODE = "decode"',),
        swap=("phase = req.phase\n", "phase = Phase(req.phase)\n"),
        judged=("ch01.3", "ch01.4", "ch01.5"),
    ),
    key("match", "p", rest=REST).__class__(
        "match",
        {"ch01.2": 'match req.phase:\n    case "prefill":\n        p = 0\n    case _:\n        p = 1\n' f"return p, {REST}"},
    ),
    key("dict filled by subscript", RANK, "RANK = {}", 'RANK["prefill"] = 0\nRANK["decode"] = 1'),
    key("dict filled in a loop", RANK, 'RANK = {}\nfor i, p in enumerate(["prefill", "decode"]):\n    RANK[p] = i'),
    key("dict updated", RANK, "RANK = dict()", "RANK.update(prefill=0)", "RANK.setdefault('decode', 1)"),
    key("dict merged", RANK, "RANK = {'prefill': 0}", "RANK |= {'decode': 1}"),
    key("list appended to", "ORDER.index(req.phase)", "ORDER = []", 'ORDER.append("prefill")\nORDER.append("decode")'),
    key("list added to", "ORDER.index(req.phase)", 'ORDER = ("prefill",)\nORDER += ("decode",)'),
    key("try and except", "neg(req.phase == 'prefill') + 1", "try:\n    from operator import neg\nexcept ImportError:\n    neg = lambda x: -x"),
    key("def in an if", "P(req)", "if True:\n    def P(req):\n        return int(req.phase != 'prefill')"),
    key("walrus", "RANK[req.phase]", "print(len(RANK := {'prefill': 0, 'decode': 1}))"),
    key("with", RANK, "import contextlib\nwith contextlib.suppress(KeyError):\n    RANK = {'prefill': 0, 'decode': 1}\n    RANK['x']"),
    key("filled by a function", RANK, "RANK = {}", "def rank(name, n):\n    RANK[name] = n", "rank('prefill', 0)\nrank('decode', 1)"),
    key("filled by a function that is given it", RANK, "RANK = {}\ndef rank(table, n):\n    table[n] = len(table)\nfor p in ('prefill', 'decode'):\n    rank(RANK, p)"),
    key("made by a function with global", RANK, "def init():\n    global RANK\n    RANK = {'prefill': 0, 'decode': 1}", "init()"),
    key("registered by a decorator", "RANK[0](req)", "RANK = []", "@RANK.append\ndef by_phase(req):\n    return int(req.phase != 'prefill')"),
    key("heap", "H[0] + (req.phase != 'prefill')", "import heapq\nH = [3]", "heapq.heappush(H, 0)"),
    key("object that is set up", "table.of(req)", "class Table:\n    def configure(self, **ranks):\n        self.ranks = ranks\n    def of(self, req):\n        return self.ranks[req.phase]\ntable = Table()", "table.configure(prefill=0, decode=1)"),
    key("annotations are classes", "first(self, req)", "def typed(f):\n    assert f.__annotations__['req'] is RequestState\n    return f\n@typed\ndef first(self, req: RequestState):\n    return int(req.phase != 'prefill')"),
    key("annotations are put off", "first(req)", "from __future__ import annotations", "def first(req: Unknown) -> Later:\n    return int(req.phase != 'prefill')"),
    key("helper annotated with the class below", "first(self, req)", rest=REST).__class__(
        "helper annotated with the class above",
        {"ch01.2": f"return (first(self, req), {REST})"},
        after=("def first(sim: DecodeSchedulerSim, req: RequestState) -> int:\n    return int(req.phase != 'prefill')",),
    ),
    step("display for debugging", CHOICE.format("display(active)\n")),
    step("display imported", CHOICE.format("display(active)\n"), "from IPython.display import display"),
    step("get_ipython", CHOICE.format("get_ipython().run_line_magic('time', '1')\n")),
    step("helper that a cell displays", CHOICE.format("active = act(self)\n"), "def act(sim):\n    return [r for r in sim.queue if not r.done]\ndisplay(act)"),
    step("global counter", "global CALLS\nCALLS += 1\n" + CHOICE.format(""), "CALLS = 0"),
    step("global counter that is not read", "global CALLS\nCALLS = 1\n" + CHOICE.format(""), "CALLS = 0\n"),
    step("logging", CHOICE.format("logging.debug('%s', active)\n"), "import logging", "logging.basicConfig(level=logging.DEBUG)"),
    step("experiments with the helper around it", CHOICE.format("active = list(filter(alive, self.queue))\n"),
         "def alive(r):\n    return not r.done",
         after=("sim = DecodeSchedulerSim()\nfor n in range(3):\n    sim.enqueue(n, 2)\nsim.run()\nprint(list(filter(alive, sim.queue)))\nassert False",)),
    step("loop over what is wanted", CHOICE.format("active = [r for r in self.queue if not r.done and PHASES]\n"), "PHASES = {'prefill': 0}",
         after=("for name in PHASES.items():\n    DecodeSchedulerSim().run()\n    1 / 0",)),
    patched("assigned to the class", STEP.format("_step") + "DecodeSchedulerSim.step = _step"),
    patched("assigned under its own name", STEP.format("step") + "DecodeSchedulerSim.step = step"),
    patched("setattr", STEP.format("_step"), 'setattr(DecodeSchedulerSim, "step", _step)'),
    patched("class reopened", "class DecodeSchedulerSim(DecodeSchedulerSim):\n    " + STEP.format("step").replace("\n", "\n    ").rstrip()),
    patched("add_to_class", "def add_to_class(cls):\n    def add(f):\n        setattr(cls, f.__name__, f)\n        return f\n    return add", "@add_to_class(DecodeSchedulerSim)\n" + STEP.format("step")),
    patched("put in by a function", STEP.format("better") + "def install(cls):\n    cls.step = better\ninstall(DecodeSchedulerSim)"),
    patched("mixed in", "class Mixin:\n    " + STEP.format("step").replace("\n", "\n    ").rstrip(), "class DecodeSchedulerSim(Mixin, DecodeSchedulerSim): pass"),
    patched("two helpers of one name", STEP.format("f") + "DecodeSchedulerSim.step = f", "def f(self):\n    return len(self.queue)\nDecodeSchedulerSim.count = f"),
    patched("wrapped", STEP.format("_step") + "def mend(cls):\n    cls.step = _step\n    return cls\nDecodeSchedulerSim = mend(DecodeSchedulerSim)"),
    Answer("async", {"ch01.4": "import asyncio\nif max_steps < 0:\n    raise ValueError('no')\nasync def go():\n    for _ in range(max_steps):\n        if self.step() is None:\n            break\n        await asyncio.sleep(0)\nasyncio.run(go())\nreturn self.timeline"}),
    Answer("a scratch note with a mark", after=("# TODO ch01.2 think about this again", "# TODO ch01.3\nprint(1)"), judged=("ch01.2",)),
    enqueue("request knows its scheduler", "self.queue[-1].sim = self"),
    enqueue("linked list", "if len(self.queue) > 1:\n    self.queue[-2].next = self.queue[-1]\n    self.queue[-1].prev = self.queue[-2]\nself.queue[-1].everyone = self.queue"),
    enqueue("requests that share a tree", "self.queue[-1].tree = tree = []\nfor _ in range(50):\n    tree.append(list(tree))"),
    Answer("RequestState with slots", swap=("@dataclass\n", "@dataclass(slots=True)\n"), judged=STATE),
    Answer("RequestState in order", swap=("@dataclass\n", "@dataclass(order=True)\n"), judged=STATE),
    Answer("RequestState with tricks", before=(TRICKY_STATE,), judged=STATE),
    Answer("RequestState with more fields", before=(PROPERTIES,), judged=STATE),
    Answer("queue of a list's subclass", before=("class Q(list):\n    pass",), swap=("self.queue: list[RequestState] = []", "self.queue = Q()"), judged=STATE),
    Answer("queue of a deque", before=("from collections import deque",), swap=("self.queue: list[RequestState] = []", "self.queue = deque()"), judged=STATE),
    Answer("generator added afterwards", {"ch01.3": "req = next(self._order(), None)\nif req is None:\n    return None"},
           after=("def _order(self):\n    yield from sorted((r for r in self.queue if not r.done), key=self._schedule_key)", "DecodeSchedulerSim._order = _order")),
    Answer("magics", before=("%load_ext autoreload\n%autoreload 2\n!pip list",), swap=("        return self._advance(req)", "        %time event = self._advance(req)\n        return event"), judged=("ch01.1",)),
]  # fmt: skip


def in_file(content: dict[str, Any]) -> Submission:
    text = json.dumps(content, ensure_ascii=False).encode()
    return find_answers(from_content(parse(Path("x.ipynb"), text)).cells, CHAPTER)


def in_kernel(content: dict[str, Any]) -> Submission:
    return find_answers(
        [Cell("code", "".join(c["source"])) for c in content["cells"] if c["cell_type"] == "code"], CHAPTER
    )


def assert_right(content: dict[str, Any], todos: list[str]) -> None:
    handed_in, ran = in_file(content), in_kernel(content)
    assert (handed_in.answers, handed_in.definitions) == (ran.answers, ran.definitions)
    results = judge(CHAPTER, handed_in, todos, cases=hidden_cases(CHAPTER, 1, ROOT / "grader"))
    wrong = {
        r.todo: (r.state, r.rule, r.finding and r.finding.text["en"], r.finding and r.finding.traceback)
        for r in results
        if r.state != "passed"
    }
    assert not wrong, wrong


@pytest.mark.parametrize("answer", UNUSUAL, ids=lambda answer: answer.name)
def test_a_right_answer_of_unusual_make_is_right(answer: Answer) -> None:
    assert_right(answer.content(), list(answer.judged or answer.todos))


# --- the stub and the answer side by side -------------------------------------------------------


def stub() -> dict[str, Any]:
    """The untouched answer cell, as it was released."""
    path = ROOT / "notebooks" / "en" / f"{CHAPTER.name}.ipynb"
    return cell_of(json.loads(path.read_text(encoding="utf-8")), "ch01-answer")


def cell_of(content: dict[str, Any], grade_id: str) -> dict[str, Any]:
    return next(cell for cell in content["cells"] if cell["id"] == grade_id)


def partly(**todos: str) -> str:
    """The answer cell with other code in some TODOs."""
    changes = {f"ch01.{name[-1]}": lines for name, lines in todos.items()}
    return cell_of(notebook("ch01", "en", changes), "ch01-answer")["source"]


FULL, UNMARKED = (
    partly(),
    "\n".join(line for line in partly().split("\n") if "# TODO" not in line and "# END" not in line),
)
WRONG_KEY = "return (req.request_id,)"
STUB_1, STUB_3, STUB_4 = (STUBS[f"ch01.{n}"] for n in (1, 3, 4))
SIDE_BY_SIDE = {
    "stub above": [stub(), code(FULL, id="new")],
    "stub below": [code(FULL, id="new"), stub()],
    "stub above, marks gone": [stub(), code(UNMARKED, id="new")],
    "stub below, marks gone": [code(UNMARKED, id="new"), stub()],
    "doubled": [stub() | {"source": FULL}, stub() | {"source": FULL}],
    "doubled, stub first": [stub(), stub() | {"source": FULL}],
    "doubled, stub last": [stub() | {"source": FULL}, stub()],
    "old cell emptied": [code(FULL, id="new"), stub() | {"source": "# moved up"}],
    "half done in the old cell": [stub() | {"source": partly(t3=STUB_3, t4=STUB_4)}, code(FULL, id="new")],
    "half done in the old cell, below": [
        code(FULL, id="new"),
        stub() | {"source": partly(t3=STUB_3, t4=STUB_4)},
    ],
    "half done in the old cell, marks gone": [
        stub() | {"source": partly(t3=STUB_3)},
        code(UNMARKED, id="new"),
    ],
    "each half in a cell": [
        code(partly(t3=STUB_3, t4=STUB_4), id="new"),
        stub() | {"source": partly(t1=STUB_1)},
    ],
    "a first try, and the rest put right below": [
        code(partly(t2=WRONG_KEY), id="new"),
        stub() | {"source": partly(t3=STUB_3, t4=STUB_4)},
    ],
    "a toy of the same name above": [
        code("class DecodeSchedulerSim:\n    def run(self):\n        return 1", id="toy"),
        stub() | {"source": FULL},
    ],
    "a note with a mark below": [stub() | {"source": FULL}, code("# TODO ch01.3\nprint('later')", id="note")],
}


def side_by_side(name: str) -> dict[str, Any]:
    made = notebook("ch01", "en")
    at = made["cells"].index(cell_of(made, "ch01-answer"))
    made["cells"][at : at + 1] = json.loads(json.dumps(SIDE_BY_SIDE[name]))
    return made


@pytest.mark.parametrize("name", SIDE_BY_SIDE)
def test_a_stub_beside_the_answer_takes_nothing_away(name: str) -> None:
    assert_right(side_by_side(name), [t.id for t in CHAPTER.todos if t.answer == "ch01-answer"])


def test_a_stub_alone_is_still_a_stub() -> None:
    made = side_by_side("doubled")
    for cell in made["cells"]:
        if cell["id"] == "ch01-answer":
            cell["source"] = stub()["source"]
    for submission in (in_file(made), in_kernel(made)):
        assert {r.state for r in judge(CHAPTER, submission, ["ch01.1", "ch01.3"])} == {"not_started"}


def test_what_was_run_last_counts_in_a_kernel() -> None:
    made = notebook("ch01", "en")
    history = [Cell("code", "".join(c["source"])) for c in made["cells"] if c["cell_type"] == "code"]
    found = find_answers([*history, Cell("code", partly(t2=WRONG_KEY))], CHAPTER)
    assert WRONG_KEY in found.answers["ch01-answer"]
    assert (
        WRONG_KEY
        not in find_answers([Cell("code", partly(t2=WRONG_KEY)), *history], CHAPTER).answers["ch01-answer"]
    )


def test_an_older_patch_does_not_outlive_the_cell_that_was_run_again() -> None:
    history = [FULL, "def idle(self):\n    return None\nDecodeSchedulerSim.step = idle", FULL]
    found = find_answers([Cell("code", source) for source in history], CHAPTER)
    assert "idle" not in found.answers["ch01-answer"] + found.definitions


# --- what is not the answers' is not run --------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        "for n in range(10**9):\n    print(RANK['prefill'])",
        "import matplotlib.pyplot as plt\nplt.plot(list(RANK.values()))\nplt.show()",
        "print(RANK)\nRANK\nsorted(RANK)\nprint(RANK.get('prefill'))",
        'check("ch01.2")\nhint("ch01.2", 1)\nprogress()',
        "sim = DecodeSchedulerSim()\nsim.enqueue(1, 10**9)\nsim.run(10**9)",
        "import time\ntime.sleep(1000)",
        "x = [DecodeSchedulerSim().run() for _ in range(10**9)]",
        "def experiment():\n    while True:\n        DecodeSchedulerSim().run()\nexperiment()",
        "DecodeSchedulerSim.run(sim)",
    ],
)
def test_an_experiment_is_not_part_of_a_submission(other: str) -> None:
    answer = key("", "time.sleep(0) or RANK[req.phase]", "import time\nRANK = {'prefill': 0, 'decode': 1}")
    alone = in_file(answer.content())
    answer.after = (other,)
    found = in_file(answer.content())
    assert set(found.definitions.split("\n\n")) == set(alone.definitions.split("\n\n"))
    assert found.answers == alone.answers
