"""``decodelab demo``: the course's main job in one run, from its sources to graded submissions, a trace and a real model."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import sys
import time
import warnings
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import rmtree
from traitlets.config import Config

from decodelab import chapters
from decodelab.course import Chapter, load
from decodelab.errors import DecodeLabError
from decodelab.events import Event, write_jsonl
from decodelab.generate import Wish, answered, events_of, place, scheduler, simulated
from decodelab.grading import splice
from decodelab.grading.grade import Course, grade_file
from decodelab.grading.nbgrader_plugin import configure
from decodelab.grading.suites import load_suite
from decodelab.lang import LANGUAGES, Text, both, say, speak, spoken, tr
from decodelab.notebook.build import build, chapter_paths, instructor_notebook
from decodelab.notebook.emit import to_json
from decodelab.notebook.read import find_answers, read_notebook
from decodelab.request import Request
from decodelab.show.live import LEGEND, Lines, strip_text
from decodelab.show.plots import caption, event_strip
from decodelab.show.tell import table_text
from decodelab.workfolder import course_folder
from decodelab.workload import Trace, read_trace, synthetic

CHAPTER, MISTAKE = "ch01", "priority sign"  # a wrong variant of the chapter's suite
PROFILE = "azure-chat-like"
MARKER = ".made-by-decodelab-demo"
DRIVER = "ch07"  # the chapter whose submission drives the model
PROMPTS = ("春风", "And it came to pass, that")
STAGES = 7

NotebookJSON: TypeAlias = "dict[str, Any]"


def run(out: Path, trace: Path | str | None, rows: int, lang: str) -> int:
    """Build, grade four submissions through nbgrader, schedule ``rows`` rows of a trace, let a model write; 0 if all
    was as it must be.

    out: folder for everything it makes, emptied first if an earlier demo made it.
    trace: path or URL of a recorded trace; None for a synthetic one.
    """
    speak(lang)
    root, workload = course_folder(), read(trace, rows)
    empty(out)
    compare(root)
    chapter = load(CHAPTER)
    students = hand_in(submissions(root, chapter), out, chapter)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nbgrader's use of SQLAlchemy
        graded = grade(out, root / "grader", chapter, students)
    report(graded, out, chapter)
    timeline = schedule(workload, rows, out, chapter)
    driven = drive(root, out)
    good = as_expected(graded, chapter) and driven
    farewell(out, chapter, timeline)
    return 0 if good else 1


def stage(number: int, en: str, zh: str) -> None:
    """A line for who is waiting."""
    print(f"[{number}/{STAGES}] {tr(en=en, zh=zh)}", flush=True)


def line(en: str, zh: str) -> None:
    """One more line of a stage."""
    print(f"      {tr(en=en, zh=zh)}", flush=True)


def empty(out: Path) -> None:
    """An empty folder; one that holds anything but an earlier demo is refused, and a file."""
    if out.exists() and not (out / MARKER).exists() and (not out.is_dir() or any(out.iterdir())):
        raise DecodeLabError(
            both(
                en=f"{out} is, or holds, something that the demo did not make; name another folder with --out.",
                zh=f"{out} 不是 demo 生成的，或者里面有别的内容；请用 --out 指定另一个文件夹。",
            )
        )
    if out.exists():
        rmtree(out)
    out.mkdir(parents=True)
    (out / MARKER).touch()


def compare(root: Path) -> None:
    """Stage 1: the notebooks built from their sources, and nothing written: those that lie there may be somebody's."""
    stage(1, "Build the notebooks from solutions/", "由 solutions/ 构建 notebook")
    found = build(root, check=True)
    if other := [*found.stale, *found.missing, *found.extra]:
        names = ", ".join(other)
        raise DecodeLabError(
            both(
                en=f"Not what solutions/ makes: {names}. Run `decodelab build`, then the demo again.",
                zh=f"与 solutions/ 构建的结果不一致：{names}。请先运行 `decodelab build`，再运行 demo。",
            )
        )
    count = len(chapter_paths(root))
    line(f"{count} chapters in 2 languages, all up to date", f"{count} 章，两种语言，都是最新的")


# --- four submissions -------------------------------------------------------------------------


def submissions(root: Path, chapter: Chapter) -> dict[str, NotebookJSON]:
    """Student -> notebook: solved in each language, solved but for one mistake, and untouched."""
    source = root / "solutions" / f"{chapter.name}.py"
    solved = {lang: instructor_notebook(source, lang) for lang in LANGUAGES}
    untouched = (root / "notebooks" / spoken() / f"{chapter.name}.ipynb").read_text(encoding="utf-8")
    variants = load_suite(root / "grader", chapter.id).WRONG
    wrong = next(v for v in variants if v.name == MISTAKE).regions
    return {
        "solved-zh": solved["zh"],
        "solved-en": solved["en"],
        "one-mistake": with_answers(solved[spoken()], wrong),
        "untouched": json.loads(untouched),
    }


def with_answers(notebook: NotebookJSON, code: dict[str, str]) -> NotebookJSON:
    """A copy of a notebook with other code in some TODOs (TODO id -> code)."""
    copy = deepcopy(notebook)
    for cell in copy["cells"]:
        for todo, lines in code.items():
            source = splice.replace_region("".join(cell["source"]), todo, lines)
            if cell["cell_type"] == "code" and source is not None:
                cell["source"] = source
    return copy


def hand_in(notebooks: dict[str, NotebookJSON], out: Path, chapter: Chapter) -> list[str]:
    """Stage 2: put the notebooks where nbgrader looks for submissions; returns the students."""
    names = ", ".join(notebooks)
    stage(2, f"Make four submissions of {chapter.id}: {names}", f"生成 {chapter.id} 的四份提交：{names}")
    for student, notebook in notebooks.items():
        path = out / "submitted" / student / chapter.id / f"{chapter.name}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(to_json(notebook), encoding="utf-8")
    return list(notebooks)


# --- grading ----------------------------------------------------------------------------------


@dataclass
class Grade:
    """What the gradebook says about one TODO of a student, and the judge's reason."""

    todo: str
    points: float
    max_points: float
    reason: str = ""  # the rule that was broken, or the state; "" where no point is lost
    message: Text | None = None


Graded: TypeAlias = "dict[str, list[Grade]]"  # student -> a Grade a TODO


def grade(out: Path, grader: Path, chapter: Chapter, students: Sequence[str]) -> Graded:
    """Stages 3 to 5: nbgrader's own three steps."""
    api = nbgrader_course(out, grader)
    stage(3, "nbgrader generate_assignment: the English edition", "nbgrader generate_assignment：登记英文版")
    must(api.generate_assignment(chapter.id))
    stage(
        4,
        "nbgrader autograde: hidden workloads, in processes apart",
        "nbgrader autograde：隐藏测试，在独立进程中运行",
    )
    for student in students:
        begun = time.monotonic()
        must(api.autograde(chapter.id, student))
        seconds = time.monotonic() - begun
        line(f"{student}: {seconds:.1f} s", f"{student}：{seconds:.1f} 秒")
    stage(
        5,
        "nbgrader generate_feedback: a page for each student",
        "nbgrader generate_feedback：每个学生一页反馈",
    )
    for student in students:
        must(api.generate_feedback(chapter.id, student))
    return {student: grades(api, out, chapter, student) for student in students}


def nbgrader_course(out: Path, grader: Path) -> NbGraderAPI:
    """``out`` as an nbgrader course, also for who opens the formgrader there later."""
    (out / "nbgrader_config.py").write_text(
        "from pathlib import Path\n\n"
        "from decodelab.grading.nbgrader_plugin import configure\n\n"
        f"configure(get_config(), Path(__file__).parent, Path({str(grader)!r}), [{CHAPTER!r}])\n",
        encoding="utf-8",
    )
    config = Config()
    configure(config, out, grader, [CHAPTER])
    return NbGraderAPI(CourseDirectory(config=config), config=config)


def must(result: dict[str, Any]) -> None:
    """Stop with nbgrader's own log where a step of it failed."""
    if not result["success"]:
        raise RuntimeError(f"{result.get('log', '')}\n{result['error']}")


def grades(api: NbGraderAPI, out: Path, chapter: Chapter, student: str) -> list[Grade]:
    """A student's points from the gradebook, the reasons from the autograded notebook."""
    path = out / "autograded" / student / chapter.id / f"{chapter.name}.ipynb"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    verdicts = [cell["metadata"].get("decodelab", {}) for cell in cells]
    reasons = {v["todo"]: v for v in verdicts if "state" in v}
    with api.gradebook as gradebook:
        notebook = gradebook.find_submission_notebook(chapter.name, chapter.id, student)
        scores = {g.name: (g.score, g.max_score) for g in notebook.grades}
    found = [Grade(todo.id, *scores[todo.check_id]) for todo in chapter.todos]
    for lost in (g for g in found if g.points < g.max_points):
        verdict = reasons[lost.todo]
        started = verdict["state"] != "not_started"
        lost.reason = (verdict["rule"] if started else None) or verdict["state"]
        lost.message = verdict["message"] if started else None
    return found


def report(graded: Graded, out: Path, chapter: Chapter) -> None:
    """The table of points, the reason for each lost one, and where the pages are."""
    head = [tr(en="submission", zh="提交"), *(t.id for t in chapter.todos)]
    head += [tr(en="core", zh="核心"), tr(en="extension", zh="扩展")]
    rows = [
        [
            student,
            *(f"{g.points:g}/{g.max_points:g}" for g in found),
            percent(found, chapter, "core"),
            percent(found, chapter, "extension"),
        ]
        for student, found in graded.items()
    ]
    print("\n" + table_text(head, rows))
    print("\n" + tr(en="Lost points, and why:", zh="丢分及原因："))
    for student, found in graded.items():
        for reason in dict.fromkeys(g.reason for g in found if g.reason):
            lost = [g for g in found if g.reason == reason]
            todos = tr(en=", ", zh="、").join(g.todo for g in lost)
            print(f"  {student}  {todos}  {reason}")
            if lost[0].message:
                print(f"    {say(lost[0].message)}")
    print("\n" + tr(en="Feedback pages:", zh="反馈页面："))
    for student in graded:
        print(f"  {feedback_page(out, student, chapter)}")
    print()


def percent(found: Sequence[Grade], chapter: Chapter, level: str) -> str:
    """Points of one level as ``80 %``."""
    wanted = [g for g in found if chapter.todo(g.todo).level == level]
    most = sum(g.max_points for g in wanted)
    return f"{100 * sum(g.points for g in wanted) / most:.0f} %" if most else "-"


def feedback_page(out: Path, student: str, chapter: Chapter) -> Path:
    """Where nbgrader writes a student's feedback."""
    return out / "feedback" / student / chapter.id / f"{chapter.name}.html"


def as_expected(graded: Graded, chapter: Chapter) -> bool:
    """Whether exactly the points were lost that had to be, each for its own reason; says so if not."""
    want: dict[str, dict[str, str]] = {
        "solved-zh": {},
        "solved-en": {},
        "one-mistake": {f"{chapter.id}.2": "priority-first"},
        "untouched": {t.id: "not_started" for t in chapter.todos},
    }
    got = {student: {g.todo: g.reason for g in found if g.reason} for student, found in graded.items()}
    for student in want:
        if want[student] != got.get(student):
            line(
                f"NOT AS EXPECTED: {student} should lose {want[student]}, lost {got.get(student)}",
                f"与预期不符：{student} 应丢分 {want[student]}，实际 {got.get(student)}",
            )
    return want == got


# --- a trace ----------------------------------------------------------------------------------


def read(trace: Path | str | None, rows: int) -> Trace:
    """The whole trace, or as many synthetic requests as are wanted."""
    if rows < 1:
        raise DecodeLabError(both(en="Ask for 1 row or more: --rows 100.", zh="请至少取 1 行：--rows 100。"))
    return read_trace(trace) if trace else synthetic(PROFILE, rows)


def schedule(workload: Trace, rows: int, out: Path, chapter: Chapter) -> list[Path]:
    """Stage 6: the first rows through the scheduler that was graded 100 %; returns the files written."""
    requests = workload.requests[:rows]
    stage(
        6,
        f"Schedule {workload.name} with the scheduler of solved-{spoken()}",
        f"用 solved-{spoken()} 的调度器运行 {workload.name}",
    )
    line(
        f"rows used: {len(requests)} of {workload.rows_read} read; all enqueued in arrival order (the toy has no clock)",
        f"使用 {len(requests)} 行，共读取 {workload.rows_read} 行；按到达顺序全部入队（这个玩具调度器没有时钟）",
    )
    begun = time.monotonic()
    events = timeline_of(out / "submitted" / f"solved-{spoken()}" / chapter.id, requests, chapter)
    seconds = time.monotonic() - begun
    finished = sum(event["action"] == "finish" for event in events)
    line(
        f"{len(events)} steps in {seconds:.1f} s; {finished} of {len(requests)} requests finished",
        f"{len(events)} 步，用时 {seconds:.1f} 秒；{len(requests)} 个请求完成了 {finished} 个",
    )
    picture, log = out / "timeline.png", out / "events.jsonl"
    event_strip(events).savefig(picture, dpi=150)
    write_jsonl(log, events)
    return [picture, log]


def timeline_of(folder: Path, requests: Sequence[Request], chapter: Chapter) -> list[Event]:
    """Every event of the submission in ``folder`` on these requests, run to the end."""
    notebook = read_notebook(folder / f"{chapter.name}.ipynb")
    module = chapters.load("demo_scheduler", splice.whole(chapter, find_answers(notebook.cells, chapter)))
    scheduler = module.DecodeSchedulerSim()
    for request in requests:
        scheduler.enqueue(request.request_id, request.prompt_len, max_new_tokens=request.max_new_tokens)
    return scheduler.run(max_steps=sum(1 + r.max_new_tokens for r in requests))


# --- a real model -----------------------------------------------------------------------------


def drive(root: Path, out: Path) -> bool:
    """Stage 7: a graded scheduler serves two prompts with the embedded model; whether all was as it must be.

    Where torch is missing, it says what to install, and nothing went wrong.
    """
    stage(
        7,
        f"Grade {DRIVER} as solved-{spoken()}, and let its scheduler drive the embedded model",
        f"给 solved-{spoken()} 的 {DRIVER} 评分，再让它的调度器驱动自带的模型",
    )
    chapter = load(DRIVER)
    path = out / f"{chapter.name}.ipynb"
    notebook = instructor_notebook(root / "solutions" / f"{chapter.name}.py", spoken())
    path.write_text(to_json(notebook), encoding="utf-8")
    results = grade_file(path, DRIVER, f"solved-{spoken()}", Course.open(root / "grader", out)).todos
    passed = sum(result.state == "passed" for result in results)
    line(
        f"{DRIVER}: {passed} of {len(results)} TODOs passed, hidden workloads",
        f"{DRIVER}：{len(results)} 个 TODO 通过了 {passed} 个，用的是隐藏测试",
    )
    try:
        place("auto", "auto")
    except DecodeLabError as missing:
        print(f"      {say(missing.text)}")
        return passed == len(results)
    return stream(path) and passed == len(results)


def stream(submission: Path) -> bool:
    """Two answers as they grow, the strip of the engine and that of the simulator; whether these are the same."""
    wish = Wish(max_new_tokens=32, max_num_batched_tokens=4, block_size=4, submission=submission)
    lines = Lines([f"{number}" for number in range(1, len(PROMPTS) + 1)], sys.stdout)
    with contextlib.redirect_stdout(io.StringIO()):  # which chapters are whose
        engine = answered(PROMPTS, wish, lines)
        again = simulated(engine.steps, scheduler(engine.scheduler.config, submission))
    lines.close()
    strips = strip_text(events_of(engine.steps)), strip_text(again)
    for name, strip in zip(
        (tr(en="engine", zh="引擎"), tr(en="simulator", zh="模拟器")), strips, strict=True
    ):
        print(f"\n{name}\n{strip}")
    print(say(LEGEND))
    same = strips[0] == strips[1]
    line(
        "the same in both" if same else "NOT AS EXPECTED: they differ",
        "两边完全一样" if same else "与预期不符：两边不一样",
    )
    return same


def farewell(out: Path, chapter: Chapter, files: Sequence[Path]) -> None:
    """What to open next."""
    picture, log = files
    jupyter = Path(sys.executable).with_name("jupyter")
    print("\n" + tr(en="Open next:", zh="接下来可以打开："))
    rows = [
        [str(picture), tr(en="the timeline. ", zh="时间线。") + say(caption())],
        [str(log), tr(en="its events, one JSON object a line", zh="时间线上的事件，每行一个 JSON 对象")],
        [
            str(feedback_page(out, "one-mistake", chapter)),
            tr(en="what a student reads about the one mistake", zh="那一处错误，学生会读到怎样的反馈"),
        ],
        [
            f"{jupyter.with_name('decodelab')} generate --prompt 春风",
            tr(en="let the model go on writing", zh="让模型继续写下去"),
        ],
        ["make lab", tr(en="the notebooks, in JupyterLab", zh="在 JupyterLab 里打开 notebook")],
        [
            f"cd {shlex.quote(str(out))} && {shlex.quote(str(jupyter))} lab",
            tr(en="the formgrader: menu Nbgrader > Formgrader", zh="formgrader：菜单 Nbgrader > Formgrader"),
        ],
    ]
    for what, why in rows:
        print(f"  {what}\n    {why}")
