"""Look-alikes: a failing answer that behaves like a known mistake is told so, any other one is not."""

import json
from pathlib import Path

import pytest
from handed_in import notebook, write

from decodelab.check.feedback import as_text
from decodelab.check.rules import TodoResult
from decodelab.course import chapter_ids, load
from decodelab.grading import lookalike as room
from decodelab.grading.grade import Course, for_student, grade_file
from decodelab.grading.lookalike import Gallery, fingerprint, fingerprints, lookalike, told
from decodelab.grading.prove import Variant, submission_of
from decodelab.grading.sandbox import LEARNER
from decodelab.grading.suites import load_suite
from decodelab.lang import speaking

GRADER = Path(__file__).parents[1] / "grader"
CHAPTER = load("ch01")
IN_MEMORY = Gallery("ch01", GRADER, "test")


def likened(todo, code):
    """The name of the mistake that an answer to one TODO is likened to; None for none."""
    found = lookalike(submission_of(CHAPTER, Variant("", {todo: code})), todo, IN_MEMORY, LEARNER)
    return found and found.name


@pytest.mark.parametrize("todo", [t for c in chapter_ids() for t in load(c).todos], ids=lambda t: t.id)
def test_known_mistakes_can_be_told_apart(todo):
    prints = fingerprints(Gallery(todo.id[:4], GRADER, "test"), todo.id)
    assert all(any(seen) for seen in prints.values())
    assert len(set(prints.values())) == len(prints)


def test_every_look_is_in_both_languages_and_no_sentence():
    looks = [v.looks for c in chapter_ids() for v in load_suite(GRADER, c).WRONG if v.looks]
    assert len(looks) >= 20
    for text in looks:
        assert set(text) == {"en", "zh"}
        assert not text["en"].endswith(".")
        assert not text["zh"].endswith("。")


@pytest.mark.parametrize(
    ("todo", "name", "code"),
    [
        (
            "ch01.1",
            "handed over by position",
            """
for name, length in {"prompt_len": prompt_len, "max_new_tokens": max_new_tokens or 1}.items():
    require_length(name, length)
if max_new_tokens is not None:
    require_length("max_new_tokens", max_new_tokens)
for old in self.queue:
    if old.request_id == request_id:
        raise ValueError("I know this one")
values = [request_id, prompt_len, priority, cache_hit, max_new_tokens]
self.queue.append(RequestState(*values[:2], generated_len=priority, phase=cache_hit, priority=max_new_tokens))
""",
        ),
        (
            "ch01.2",
            "priority sign",
            """
rank = {("prefill", True): (0, 0), ("prefill", False): (0, 1), ("decode", True): (1, 0), ("decode", False): (1, 1)}
return rank[req.phase, req.cache_hit] + (req.priority, req.prompt_len + req.generated_len, req.request_id)
""",
        ),
        (
            "ch01.3",
            "first in, first out",
            """
for position in range(len(self.queue)):
    req = self.queue[position]
    if req.generated_len < req.target:
        break
else:
    return None
""",
        ),
        (
            "ch01.3",
            "largest key",
            """
queue = sorted(self.queue, key=self._schedule_key, reverse=True)
while queue and queue[0].done:
    del queue[0]
if not queue:
    return None
req = queue[0]
""",
        ),
        (
            "ch01.3",
            "static batching",
            """
if not any(not r.done for r in getattr(self, "members", ())):
    self.members = tuple(r for r in self.queue if not r.done)
waiting = sorted((r for r in self.members if not r.done), key=self._schedule_key)
if len(waiting) == 0:
    return None
req, *_ = waiting
""",
        ),
        (
            "ch01.4",
            "bound over all calls",
            """
if max_steps < 0:
    raise ValueError("no")
event = {}
while event is not None and len(self.timeline) != max(max_steps, len(self.timeline)):
    event = self.step()
return self.timeline
""",
        ),
        (
            "ch01.5",
            "key never renewed",
            """
try:
    entry = heapq.heappop(self._heap)
except IndexError:
    return None
event = self._advance(entry[1])
if event["action"] != "finish":
    heapq.heappush(self._heap, entry)
return event
""",
        ),
    ],
)
def test_a_known_mistake_in_other_clothes(todo, name, code):
    assert likened(todo, code) == name


@pytest.mark.parametrize(
    ("todo", "code"),
    [
        ("ch01.3", "raise KeyError('nothing like it')"),
        ("ch01.3", "return None"),
        ("ch01.3", "raise TodoError('ch01.3')"),
        ("ch01.3", "this is no Python"),
        ("ch01.3", "import os\nos._exit(0)"),
        (  # first in, first out, but for every third step
            "ch01.3",
            """
active = [r for r in self.queue if not r.done]
if not active:
    return None
req = active[0] if len(self.timeline) % 3 else min(active, key=self._schedule_key)
""",
        ),
        ("ch01.2", "return (0, 0, -req.priority, req.total_len, req.request_id)"),
        ("ch01.2", CHAPTER.todo("ch01.2").code),  # fails nowhere: nothing to liken
        ("ch01.4", "return self.timeline"),
    ],
)
def test_what_is_like_no_known_mistake_is_told_nothing(todo, code):
    assert likened(todo, code) is None


def test_an_answer_that_does_not_end_is_like_nothing(monkeypatch):
    monkeypatch.setattr(room, "SECONDS", 0.3)
    assert likened("ch01.3", "while True:\n    pass") is None


@pytest.mark.parametrize("state", ["passed", "not_started", "timed_out", "died", "blocked", "not_found"])
def test_only_what_failed_is_looked_at(state, monkeypatch):
    monkeypatch.setattr(room, "lookalike", lambda *_: pytest.fail("no time to waste"))
    result = TodoResult("ch01.3", state, 2.0)
    assert told(result, submission_of(CHAPTER, Variant("")), IN_MEMORY, LEARNER) is result


@pytest.fixture
def runs(monkeypatch):
    """How many fingerprints were taken."""
    taken = []

    def counted(*arguments):
        taken.append(arguments)
        return fingerprint(*arguments)

    monkeypatch.setattr(room, "fingerprint", counted)
    fingerprints.cache_clear()
    yield taken
    fingerprints.cache_clear()


def test_fingerprints_are_made_once_and_kept_in_the_folder(tmp_path, runs):
    gallery = Gallery("ch01", GRADER, "v1", tmp_path)
    made = fingerprints(gallery, "ch01.5")
    count = len(runs)
    assert count == len(made) == len(gallery.known("ch01.5")) > 0
    assert fingerprints(gallery, "ch01.5") == made
    fingerprints.cache_clear()  # as in another process
    assert fingerprints(gallery, "ch01.5") == made
    assert len(runs) == count
    (path,) = (tmp_path / ".decodelab" / "lookalikes").iterdir()
    assert {name: tuple(seen) for name, seen in json.loads(path.read_text()).items()} == made


@pytest.mark.parametrize("content", [None, "", "{", "[]", "3", '{"key never renewed": 7}', '{"x": ["y"]}'])
def test_a_lost_or_damaged_file_is_made_again(tmp_path, runs, content):
    gallery = Gallery("ch01", GRADER, "v1", tmp_path)
    made = fingerprints(gallery, "ch01.5")
    (path,) = (tmp_path / ".decodelab" / "lookalikes").iterdir()
    path.unlink() if content is None else path.write_text(content)
    fingerprints.cache_clear()
    assert fingerprints(gallery, "ch01.5") == made
    assert json.loads(path.read_text())


def test_a_new_suite_and_a_folder_that_cannot_be_written(tmp_path, runs):
    old = fingerprints(Gallery("ch01", GRADER, "v1", tmp_path), "ch01.5")
    count = len(runs)
    assert fingerprints(Gallery("ch01", GRADER, "v2", tmp_path), "ch01.5") == old
    assert len(runs) == 2 * count
    (tmp_path / "a file").write_text("")
    assert fingerprints(Gallery("ch01", GRADER, "v1", tmp_path / "a file"), "ch01.5") == old


def test_a_student_reads_it_in_the_feedback_and_learns_no_more_than_that(tmp_path):
    code = "req = None\nfor r in self.queue:\n    if not r.done:\n        req = r\nif req is None:\n    return None"
    path = write(tmp_path / "ch01.ipynb", notebook("ch01", "zh", {"ch01.3": code}))
    course = Course(GRADER, b"secret", LEARNER, tmp_path)
    graded = grade_file(path, "ch01", "s1", course)
    by_id = {r.todo: r for r in graded.todos}
    (looks,) = [v.looks for v in load_suite(GRADER, "ch01").WRONG if v.name == "last instead of best"]
    assert by_id["ch01.3"].state == "failed"
    assert by_id["ch01.3"].notes == [
        {"en": f"This looks like {looks['en']}.", "zh": f"这看起来像：{looks['zh']}。"}
    ]
    assert not [r.notes for r in graded.todos if r.todo != "ch01.3" and r.notes]
    with speaking("zh"):
        assert f"这看起来像：{looks['zh']}。" in as_text(for_student(by_id["ch01.3"], CHAPTER))
    assert [p.name[:6] for p in (tmp_path / ".decodelab" / "lookalikes").iterdir()] == ["ch01.3"]
