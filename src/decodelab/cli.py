"""``decodelab``: the course from a command line.

Every command takes ``--json`` (one JSON object on stdout, everything else on stderr) and ``--lang``.
Exit codes: 0 good, 1 judged and not good, 2 could not run, 130 stopped with Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import runpy
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from decodelab import __version__
from decodelab.errors import DecodeLabError, TodoError
from decodelab.lang import LANGUAGES, both, chosen, say, speak, spoken, tr

Outcome: TypeAlias = "tuple[int, dict[str, Any]]"  # exit code, what --json prints

HELP = """\
Decode Lab | 解码调度实验室

for learners | 学习者
  decodelab lab [--lang zh]      open the notebooks in work/<lang> | 打开 work/<lang> 里的 notebook
  decodelab check FILE           check a notebook | 检查一个 notebook
  decodelab hint ch01.2 [1..3]   a hint, each going further | 提示，逐条深入
  decodelab solution ch01.2      the reference and why | 参考实现与讲解
  decodelab progress             what has passed | 已经通过的 TODO
  decodelab reset ch01           a fresh notebook, yours kept as a backup | 换一份新的 notebook，旧的留作备份
  decodelab import FILE          bring a notebook from elsewhere | 导入在别处做的 notebook
  decodelab parity               your scheduler against recorded runs of vLLM's | 你的调度器对 vLLM 的运行记录
  decodelab replay TRACE         serve a trace with your scheduler | 用你的调度器服务一段 trace
  decodelab generate --prompt 春风   your engine writes | 让你的引擎写下去
for instructors | 教师
  decodelab collect DOWNLOADS --roster ROSTER.csv    downloads into submitted/ | 整理下载的作业
  decodelab grade FOLDER --out OUT   judge a class | 给全班评分
  decodelab prove ch01           wrong variants against the checks | 用错误答案检验检查本身
for authors | 作者
  decodelab build [--check] · demo · bench NAME · new-chapter ch02 NAME

decodelab COMMAND --help for more | 更多用法：decodelab 命令 --help"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    if sys.stdout is None:  # closed by whoever started this
        sys.stdout = io.StringIO()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a Windows console may not be UTF-8
            stream.reconfigure(encoding="utf-8", errors="replace")
    words = sys.argv[1:] if argv is None else argv
    try:
        args = parsed(words)
    except DecodeLabError as problem:
        code, data = failed(say(problem.text))
        if "--json" in words:
            print(json.dumps(data, ensure_ascii=False))
        return code
    if args.command is None:
        print(HELP)
        return 0
    if args.lang:
        speak(args.lang)
    elif (odd := os.environ.get("DECODELAB_LANG")) and not chosen():
        print(
            tr(
                en=f"DECODELAB_LANG={odd} is no language of this course: set it to en or zh.",
                zh=f"本课程没有 DECODELAB_LANG={odd} 这种语言：请设为 en 或 zh。",
            ),
            file=sys.stderr,
        )
    try:
        with contextlib.redirect_stdout(sys.stderr) if args.json else contextlib.nullcontext():
            code, data = attempt(args)
        if args.json:
            print(json.dumps(data, ensure_ascii=False))
        sys.stdout.flush()
    except OSError as problem:  # nobody takes our output
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(problem, BrokenPipeError):  # `head`, for instance, has just seen enough
            failed(refused(problem))
        return 2
    return code


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The arguments; DecodeLabError says what is wrong with them."""
    parser = build_parser()
    args, rest = parser.parse_known_args(words)
    if rest and not (args.command and args.takes_more):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    args.rest = [word for word in rest if word != "--"]
    return args


class Parser(argparse.ArgumentParser):
    """One that says what is wrong as every command does."""

    def error(self, message: str) -> NoReturn:
        raise DecodeLabError(
            both(
                en=f"{message}; how it is used: {self.prog} --help",
                zh=f"参数有误（{message}）；用法见 {self.prog} --help",
            )
        )


def positive(word: str) -> int:
    """A whole number from 1 on."""
    if not word.isdecimal() or int(word) < 1:
        raise argparse.ArgumentTypeError(
            tr(en=f"{word} is no whole number from 1 on", zh=f"{word} 不是正整数")
        )
    return int(word)


def limit(word: str) -> float:
    """Seconds above 0; ``inf`` for no limit."""
    with contextlib.suppress(ValueError):
        if float(word) > 0:
            return float(word)
    raise argparse.ArgumentTypeError(
        tr(en=f"{word} is no number of seconds above 0", zh=f"{word} 不是大于 0 的秒数")
    )


def at_least_0(word: str) -> float:
    """A number from 0 on."""
    with contextlib.suppress(ValueError):
        if 0 <= float(word) < float("inf"):
            return float(word)
    raise argparse.ArgumentTypeError(tr(en=f"{word} is no number from 0 on", zh=f"{word} 不是不小于 0 的数"))


def share(word: str) -> float:
    """A number above 0, at most 1."""
    with contextlib.suppress(ValueError):
        if 0 < float(word) <= 1:
            return float(word)
    raise argparse.ArgumentTypeError(
        tr(en=f"{word} is no number above 0, up to 1", zh=f"{word} 不是大于 0、不超过 1 的数")
    )


def some_text(word: str) -> str:
    """A text of at least one character."""
    if not word:
        raise argparse.ArgumentTypeError(tr(en="it needs at least one character", zh="至少要有一个字符"))
    return word


def new_file(word: str) -> Path:
    """The path of a file that can be there: its folder is."""
    path = Path(word)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(
            tr(
                en=f"{word} is a folder, or in none that there is; name a file",
                zh=f"{word} 是文件夹，或者它所在的文件夹不存在；请写一个文件名",
            )
        )
    return path


def failed(sentence: str, code: int = 2) -> Outcome:
    """What stopped a command, told on stderr."""
    print(sentence, file=sys.stderr)
    return code, {"error": sentence}


def refused(problem: OSError) -> str:
    """What the system did not let us do."""
    return tr(
        en=f"The system says: {problem}. Put that right and run the same again.",
        zh=f"系统报告：{problem}。解决之后请再运行同一条命令。",
    )


def attempt(args: argparse.Namespace) -> Outcome:
    """Run the command; what stopped it is told on stderr and makes exit code 2."""
    try:
        return args.run(args)
    except DecodeLabError as problem:
        return failed(say(problem.text))
    except TodoError as unwritten:
        return failed(f"{unwritten}")
    except KeyboardInterrupt:
        return failed(tr(en="Stopped.", zh="已停止。"), 130)
    except ModuleNotFoundError as problem:
        if (problem.name or "").startswith("decodelab"):
            raise
        return failed(
            tr(
                en=f"This command needs {problem.name}: pip install {problem.name}",
                zh=f"这个命令需要 {problem.name}：pip install {problem.name}",
            )
        )
    except BrokenPipeError:
        raise
    except OSError as problem:
        return failed(refused(problem))
    except Exception as problem:  # Python itself would exit with 1, which means "judged and not good"
        traceback.print_exc()
        return 2, {"error": f"{type(problem).__name__}: {problem}"}


def build_parser() -> argparse.ArgumentParser:
    """The commands and their arguments."""
    parser = Parser(prog="decodelab", description="Decode Lab | 解码调度实验室")
    parser.add_argument("--version", action="version", version=f"decodelab {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    def command(
        name: str, run: Callable[[argparse.Namespace], Outcome], help: str, more: bool = False
    ) -> Any:
        sub = commands.add_parser(name, help=help, description=help)
        sub.add_argument("--json", action="store_true", help="print one JSON object | 输出一个 JSON 对象")
        sub.add_argument("--lang", choices=LANGUAGES, help="language | 语言")
        sub.set_defaults(run=run, takes_more=more)
        return sub

    sub = command(
        "lab", lab, "open the notebooks in work/<lang>; more arguments go to jupyter lab", more=True
    )
    sub.add_argument("--prepare", action="store_true", help="copy the notebooks, start nothing")
    sub = command("check", check, "check a notebook with the visible checks")
    sub.add_argument("file", type=Path)
    sub = command("hint", hint, "show a hint of a TODO")
    sub.add_argument("id")
    sub.add_argument("level", type=int, nargs="?", default=1, help="1 to 3")
    sub = command("solution", solution, "show the reference of a TODO and why it is so")
    sub.add_argument("id")
    command("progress", progress, "show what has passed")
    sub = command("reset", reset, "put a fresh notebook into work/, keeping yours as a backup")
    sub.add_argument("chapter")
    sub = command("import", import_, "bring a notebook from elsewhere: keep what passes, copy it into work/")
    sub.add_argument("file", type=Path)
    sub = command("replay", replay, "serve a trace with your own scheduler on a simulated GPU")
    replay_arguments(sub)
    sub = command("generate", generate, "answer prompts with your own engine, all at once, as the text grows")
    generate_arguments(sub)
    sub = command("parity", parity, "chapter 7's scheduler against recorded runs of vLLM's, step by step")
    sub.add_argument("file", nargs="?", help="a recording; those in the package by default | 运行记录")
    sub.add_argument("--block-ids", action="store_true", help="compare physical block ids too | 也比较块号")
    sub = command("collect", collect, "sort what Canvas or Moodle lets you download into submitted/")
    sub.add_argument("downloads", type=Path, help="a folder or a zip | 文件夹或 zip")
    sub.add_argument("--roster", type=Path, required=True, help="CSV of the class | 花名册（CSV）")
    sub.add_argument("--lms", choices=["canvas", "moodle", "plain"], help="default: by the names in it")
    sub.add_argument("--out", type=Path, default=Path("submitted"), help="nbgrader's submitted folder")
    sub = command("prove", prove, "the kill matrix: wrong variants of a chapter against its checks")
    sub.add_argument("chapter")
    sub.add_argument("--seeds", type=positive, default=100, help="student seeds for the hidden suite")
    sub = command("grade", grade, "judge a folder of submissions: grades, pages and tables in OUT")
    grading_arguments(sub)
    sub = command("build", build, "make notebooks/ and the course data from solutions/")
    sub.add_argument("--check", action="store_true", help="change nothing; exit 1 if something is stale")
    sub = command(
        "demo",
        demo,
        "four submissions graded through nbgrader, a trace through the scheduler, a model that writes",
    )
    sub.add_argument("--out", type=Path, default=Path("demo"), help="folder for what it makes")
    sub.add_argument("--trace", help="path or URL of a trace (Azure CSV or Mooncake JSONL)")
    sub.add_argument("--rows", type=int, default=100, help="rows of the trace to use")
    sub = command("bench", bench, "run benchmarks/NAME.py; more arguments go to it", more=True)
    sub.add_argument("name")
    sub = command("new-chapter", new_chapter, "start a chapter: its source, its checks, its hidden suite")
    sub.add_argument("chapter")
    sub.add_argument("name")
    return parser


def replay_arguments(sub: argparse.ArgumentParser) -> None:
    """What ``decodelab replay`` takes."""
    sub.add_argument("trace", help="path or URL: Azure CSV or Mooncake JSONL | 路径或 URL")
    sub.add_argument("--rows", type=positive, help="only so many requests | 只取前若干个请求")
    sub.add_argument("--policy", default="fcfs", help="fcfs (default), sjf, priority, aging")
    sub.add_argument("--gpu", default="H100 SXM")
    sub.add_argument("--model", default="Llama-3.1-8B")
    sub.add_argument("--max-num-seqs", type=positive, default=128)
    sub.add_argument("--max-num-batched-tokens", type=positive, default=131_072)
    sub.add_argument(
        "--slo", type=limit, nargs=2, default=(1.0, 0.05), metavar=("TTFT", "TPOT"), help="seconds"
    )
    sub.add_argument("--on-bad", choices=["refuse", "skip"], default="refuse", help="malformed rows | 坏行")
    sub.add_argument("--log", type=new_file, help="write the step log to this file (.gz to compress)")


def generate_arguments(sub: argparse.ArgumentParser) -> None:
    """What ``decodelab generate`` takes."""
    sub.add_argument(
        "--prompt", action="append", required=True, help="once for each request | 每个请求写一次"
    )
    sub.add_argument(
        "--model", default="embedded", help="embedded, smollm2, OWNER/NAME or a folder | 或文件夹"
    )
    sub.add_argument("--max-new-tokens", type=positive, default=48)
    sub.add_argument(
        "--temperature", type=at_least_0, default=0.0, help="0: greedy (default) | 0：贪心（默认）"
    )
    sub.add_argument("--top-p", type=share, default=1.0)
    sub.add_argument("--seed", type=int, default=0)
    sub.add_argument(
        "--stop",
        type=some_text,
        action="append",
        default=[],
        help="text that ends an answer | 遇到就结束的文本",
    )
    sub.add_argument("--device", choices=["auto", "cpu", "cuda", "mps"], default="auto")
    sub.add_argument("--dtype", choices=["auto", "float32", "bfloat16", "float16"], default="auto")
    sub.add_argument("--max-num-seqs", type=positive, default=8)
    sub.add_argument("--max-num-batched-tokens", type=positive, default=256)
    sub.add_argument("--block-size", type=positive, default=16)
    sub.add_argument(
        "--num-blocks", type=positive, help="enough for all prompts by default | 默认够所有请求用"
    )
    sub.add_argument(
        "--submission",
        type=Path,
        help="a notebook of chapter 6 or 7, whose code runs here: its scheduler | 用它的调度器（会在本机运行它的代码）",
    )


def grading_arguments(sub: argparse.ArgumentParser) -> None:
    """What ``decodelab grade`` takes."""
    sub.add_argument(
        "folder", type=Path, help="submitted/, as collect and nbgrader have it: STUDENT/chNN/*.ipynb"
    )
    sub.add_argument(
        "--out", type=Path, required=True, help="where results go; run again to go on or to regrade"
    )
    sub.add_argument("--roster", type=Path, help="the class list, for names and numbers in lms/*.csv")
    sub.add_argument("--bom", action="store_true", help="begin CSV files with the mark that Excel wants")
    sub.add_argument("--grader", type=Path, help="the folder with suites/ and the secret; grader/ by default")
    sub.add_argument(
        "--gradebook", metavar="PATH", help="nbgrader's gradebook (sqlite:///… or a path) to fill"
    )
    who = sub.add_mutually_exclusive_group()
    who.add_argument("-j", type=positive, metavar="N", help="processes; one a core by default")
    who.add_argument("--dask", metavar="ADDRESS", help="a Dask scheduler whose workers see the same files")
    sub.add_argument("--shard", metavar="I/N", help="only this share, results only; a run without it merges")
    where = sub.add_mutually_exclusive_group()
    where.add_argument("--container", metavar="CMD", help="run student code by this command")
    where.add_argument(
        "--unsafe-no-sandbox", action="store_true", help="run strangers' code without a sandbox"
    )


# Learners ------------------------------------------------------------------------------------


def lab(args: argparse.Namespace) -> Outcome:
    from decodelab import workfolder

    folder, copied, kept = workfolder.prepare(spoken())
    for name in copied:
        print(tr(en=f"new: {name}", zh=f"新增：{name}"))
    for name in kept:
        print(tr(en=f"yours, left alone: {name}", zh=f"你的文件，未改动：{name}"))
    print(tr(en=f"You work in {folder}", zh=f"你的工作目录：{folder}"), flush=True)
    data = {"folder": str(folder), "copied": copied, "kept": kept}
    if args.prepare:
        return 0, data
    import_module("jupyterlab")  # where it is missing, say so before anything is started
    command = [sys.executable, "-m", "jupyterlab", str(workfolder.next_notebook(folder)), *args.rest]
    server = subprocess.Popen(command, stdout=sys.stderr, env=workfolder.jupyter_environment())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Jupyter gets a Ctrl-C too, and asks whether to stop
    failed = server.wait() != 0
    if failed and getattr(os, "geteuid", os.getpid)() == 0 and "--allow-root" not in args.rest:
        raise DecodeLabError(
            both(
                en="Jupyter does not run as root unless told to: work as an ordinary user, or, in a container of "
                "your own, run `decodelab lab --allow-root` (`make lab ARGS=--allow-root`).",
                zh="Jupyter 默认不以 root 身份运行：请换成普通用户；如果是在自己的容器里，请用 "
                "`decodelab lab --allow-root`（或 `make lab ARGS=--allow-root`）。",
            )
        )
    return (2 if failed else 0), data


def check(args: argparse.Namespace) -> Outcome:
    from decodelab import checkfile, records, workfolder

    checked = checkfile.check_file(args.file, args.lang)
    code, data = report(checked)
    if workfolder.own_work(args.file):
        try:
            records.save(checked.chapter, checked.lang, checked.submission, checked.results)
        except DecodeLabError as problem:
            return unkept(data, problem)
    return code, data


def unkept(data: dict[str, Any], problem: DecodeLabError) -> Outcome:
    """A verdict, told already, that could not be kept."""
    code, error = failed(say(problem.text))
    return code, data | error


def report(checked: Any) -> Outcome:
    """Feedback in words, then the fixed lines: one a TODO, the extension's count, the core's count last."""
    from decodelab.check import feedback

    chapter = checked.chapter
    for result in checked.results:
        print(feedback.as_text(result, terminal=True), end="\n\n")
    for result in checked.results:
        rule = result.finding.rule if result.finding and result.state != "not_started" else ""
        print(f"{result.todo} {result.state} {rule}".rstrip())
    (core, cores), (more, extensions) = checked.count("core"), checked.count("extension")
    if extensions:
        print(f"{chapter.id} extension: {more}/{extensions} TODOs passed")
    print(f"{chapter.id}: {core}/{cores} TODOs passed")
    todos = [
        {
            "todo": r.todo,
            "level": chapter.todo(r.todo).level,
            "state": r.state,
            "rule": r.finding.rule if r.finding else None,
            "message": say(r.finding.text) if r.finding else None,
            "points": r.points,
            "max_points": r.max_points,
        }
        for r in checked.results
    ]
    data = {
        "chapter": chapter.id,
        "lang": checked.lang,
        "todos": todos,
        "core": {"passed": core, "of": cores},
        "extension": {"passed": more, "of": extensions},
    }
    return (0 if checked.good else 1), data


def hint(args: argparse.Namespace) -> Outcome:
    from decodelab import advice
    from decodelab.show.tell import plain

    text = advice.hint_text(args.id, args.level, terminal=True)
    print(plain(text))
    return 0, {"todo": advice.normal(args.id), "level": args.level, "text": text}


def solution(args: argparse.Namespace) -> Outcome:
    from decodelab import advice
    from decodelab.show.tell import plain

    text = advice.solution_text(args.id)
    todo = advice.find_todo(args.id)
    print(plain(text))
    return 0, {"todo": todo.id, "code": todo.code, "explanation": say(todo.explanation)}


def progress(args: argparse.Namespace) -> Outcome:
    from decodelab import advice, records
    from decodelab.show.tell import table_text

    print(table_text(*advice.progress_table()))
    return 0, {"home": str(records.home()), "todos": advice.progress_rows()}


def reset(args: argparse.Namespace) -> Outcome:
    from decodelab import workfolder

    path, backup = workfolder.reset(args.chapter, args.lang)
    if backup:
        print(tr(en=f"Your notebook is kept as {backup}", zh=f"你原来的 notebook 保存为 {backup}"))
    print(tr(en=f"Fresh: {path}", zh=f"新的 notebook：{path}"))
    return 0, {"notebook": str(path), "backup": str(backup) if backup else None}


def import_(args: argparse.Namespace) -> Outcome:
    from decodelab import workfolder

    done = workfolder.import_file(args.file, args.lang)
    if done.copy:
        print(tr(en=f"Copied to {done.copy}", zh=f"已复制到 {done.copy}"), end="\n\n")
    if done.there:
        print(
            tr(
                en=f"{done.there} was there already and is left as it is; what passes below is saved.",
                zh=f"{done.there} 已经存在，没有改动；下面通过的 TODO 会保存下来。",
            ),
            end="\n\n",
        )
    code, data = report(done.checked)
    data["copy"] = str(done.copy) if done.copy else None
    return unkept(data, done.problem) if done.problem else (code, data)


def replay(args: argparse.Namespace) -> Outcome:
    from decodelab import service
    from decodelab.contract import SchedulerConfig
    from decodelab.request import SLO
    from decodelab.show.tell import table_text
    from decodelab.workload import read_trace

    if args.log and same_file(args.trace, args.log):
        raise DecodeLabError(
            both(
                en=f"--log {args.log} would overwrite the trace; give the log another name.",
                zh=f"--log {args.log} 会覆盖 trace；请给日志换一个名字。",
            )
        )
    trace = read_trace(args.trace, args.rows, args.on_bad)
    for reason in trace.reasons[:1]:
        print(
            tr(
                en=f"{trace.skipped} rows skipped; the first: {reason['en']}",
                zh=f"跳过了 {trace.skipped} 行；第一处：{reason['zh']}",
            )
        )
    config = SchedulerConfig(args.max_num_seqs, args.max_num_batched_tokens)
    slo = SLO(*args.slo)
    report = service.served(trace.requests, args.policy, args.gpu, args.model, slo, config, args.log)
    print(table_text(*service.table(report)))
    about = {"trace": trace.name, "skipped": trace.skipped}
    return 0, report | about | {"policy": args.policy, "gpu": args.gpu, "model": args.model}


def generate(args: argparse.Namespace) -> Outcome:
    from decodelab.generate import Wish, answered, report
    from decodelab.request import LEAST, Sampling
    from decodelab.show.live import Lines

    options = vars(args)
    heat = args.temperature if args.temperature >= LEAST else 0.0
    sampling = Sampling(heat, max(args.top_p, LEAST), args.seed, tuple(args.stop))
    given = {one.name: options[one.name] for one in fields(Wish) if one.name in options}
    wish = Wish(sampling=sampling, **given)
    lines = Lines([f"{number}" for number in range(1, len(args.prompt) + 1)])
    text, data = report(answered(args.prompt, wish, lines))
    lines.close()
    print(f"\n{text}")
    return 0, data


def same_file(source: str, path: Path) -> bool:
    """Whether a path or URL leads to the file at ``path``."""
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    if source.lower().startswith("file:"):
        source = url2pathname(urlsplit(source).path)
    return path.exists() and os.path.exists(source) and path.samefile(source)


def parity(args: argparse.Namespace) -> Outcome:
    """A line a recording, after the first place where it parts; its unsupported workloads are not exact."""
    from decodelab.chapters import chapter
    from decodelab.parity import RECORDED, differences, workloads

    maker, told = chapter("ch07").like_vllm, []
    for path in [args.file] if args.file else sorted(RECORDED.glob("*.jsonl.gz")):
        parted = list(differences(workloads(path), maker, args.block_ids))
        found = sorted((one for one in parted if one), key=lambda one: not one.field)  # not supported: last
        first = say(found[0].text) if found else None
        if first:
            print(first)
        exact = parted.count(None)
        print(f"{args.file or Path(path).name}: {exact}/{len(parted)} exact")
        told.append({"file": str(path), "exact": exact, "of": len(parted), "first": first})
    good = all(one["exact"] == one["of"] for one in told)
    return (0 if good else 1), {"block_ids": args.block_ids, "recordings": told}


# Instructors ---------------------------------------------------------------------------------


def collect(args: argparse.Namespace) -> Outcome:
    from decodelab.grading.collect import collect as put
    from decodelab.grading.roster import read_roster

    done = put(args.downloads, read_roster(args.roster), args.out, args.lms)
    print(*done.lines(), sep="\n")
    return (0 if done.ok else 1), done.to_json() | {"new": done.new, "updated": done.updated}


def prove(args: argparse.Namespace) -> Outcome:
    from decodelab.grading.prove import prove as proof
    from decodelab.workfolder import course_folder

    result = proof(args.chapter, course_folder() / "grader", seeds=args.seeds)
    print(*result.lines(), sep="\n")
    return (0 if result.ok else 1), result.to_json()


def grade(args: argparse.Namespace) -> Outcome:
    from decodelab.grading import batch, executors
    from decodelab.grading.roster import read_roster
    from decodelab.workfolder import course_folder

    grader = (args.grader or course_folder() / "grader").resolve()
    roster = read_roster(args.roster) if args.roster else None
    executor = executors.dask(args.dask) if args.dask else executors.local(args.j)
    means = batch.Means(grader, args.container, args.unsafe_no_sandbox)
    folder, out = args.folder.resolve(), args.out.resolve()
    try:
        done = batch.run(folder, out, means, executor, args.shard, here=not args.dask)
    except KeyboardInterrupt:
        raise DecodeLabError(
            both(en="Stopped: run the same again to go on.", zh="已停止：再次运行同一条命令即可继续。")
        ) from None
    if not args.shard:
        batch.write(done, roster, args.bom)
        if args.gradebook:
            from decodelab.grading import gradebook

            gradebook.write(done, grader, args.gradebook)
    print(*batch.lines(done), sep="\n")
    return (1 if done.ungraded else 0), done.to_json()


# Authors -------------------------------------------------------------------------------------


def build(args: argparse.Namespace) -> Outcome:
    from decodelab.notebook import build as builder
    from decodelab.workfolder import course_folder

    done = builder.build(course_folder(), check=args.check)
    for note in done.notes:
        print(say(note))
    words = {
        "stale": tr(en="out of date", zh="已过期"),
        "missing": tr(en="missing", zh="缺少"),
        "extra": tr(en="without a source", zh="没有对应的源文件"),
    }
    for kind, word in words.items():
        for name in getattr(done, kind):
            print(f"{word}: {name}")
    if done.clean:
        print(tr(en="Everything is up to date.", zh="全部是最新的。"))
    elif not args.check:
        print(tr(en="Now everything is as the sources say.", zh="现在都与源文件一致了。"))
    data = {kind: getattr(done, kind) for kind in words} | {"clean": done.clean}
    return (1 if args.check and not done.clean else 0), data


def demo(args: argparse.Namespace) -> Outcome:
    from decodelab.demo import run

    return run(args.out, args.trace, args.rows, spoken()), {"out": str(args.out)}


def bench(args: argparse.Namespace) -> Outcome:
    """Run a benchmark; its last line of output is a JSON object."""
    from decodelab.workfolder import course_folder

    folder = course_folder() / "benchmarks"
    path = folder / f"{args.name}.py"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in folder.glob("[!_]*.py")))
        raise DecodeLabError(
            both(
                en=f"There is no benchmark {args.name!r}; there are: {known}.",
                zh=f"没有名为 {args.name!r} 的基准测试；现有：{known}。",
            )
        )
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            code = runpy.run_path(str(path))["main"](args.rest)
    except SystemExit as stop:  # its own --help, or arguments that it does not take
        print(said.getvalue(), end="")
        return (0, {}) if not stop.code else (2, {"error": f"{args.name}: {' '.join(args.rest)}"})
    print(said.getvalue(), end="")
    return code or 0, json.loads(said.getvalue().strip().splitlines()[-1])


def new_chapter(args: argparse.Namespace) -> Outcome:
    from decodelab.notebook.skeleton import new_chapter as create
    from decodelab.workfolder import course_folder

    paths = [str(path) for path in create(course_folder(), args.chapter, args.name)]
    print(*paths, sep="\n")
    print(
        tr(
            en="Write these three, then run `decodelab build` (docs/authoring.md says how).",
            zh="请编写这三个文件，然后运行 `decodelab build`（写法见 docs/authoring.md）。",
        )
    )
    return 0, {"files": paths}


if __name__ == "__main__":
    sys.exit(main())
