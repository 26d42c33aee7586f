"""Who does the work: every job comes back once, whatever happens to those who do it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from decodelab.errors import DecodeLabError
from decodelab.grading.executors import Fault, dask, local
from decodelab.lang import both

HERE = Path(__file__).parent


def double(job: int) -> int:
    return 2 * job


def fail_at_three(job: int) -> int:
    if job == 3:
        raise DecodeLabError(both(en="no suite", zh="没有测试"))
    if job == 4:
        raise ZeroDivisionError("four")
    return job


def die_at_three(job: int) -> int:
    if job == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return job


def die_once(job: Path) -> str:
    if not job.exists():
        job.touch()
        os._exit(9)
    return job.name


def pid(job: int) -> int:
    time.sleep(0.05)
    return os.getpid()


def test_every_job_comes_back() -> None:
    assert dict(local(2)(double, range(7))) == {job: 2 * job for job in range(7)}
    assert list(local(2)(double, [])) == []


def test_a_worker_is_started_once_for_many_jobs() -> None:
    pids = {result for _, result in local(2)(pid, range(8))}
    assert len(pids) == 2
    assert os.getpid() not in pids


def test_what_work_raises_is_a_fault_of_that_job_alone() -> None:
    results = dict(local(2)(fail_at_three, range(6)))
    assert results[3] == Fault(both(en="no suite", zh="没有测试"))
    assert isinstance(results[4], Fault)
    assert results[4].reason["zh"] == "ZeroDivisionError: four"
    assert [results[job] for job in (0, 1, 2, 5)] == [0, 1, 2, 5]


def test_a_worker_that_dies_takes_its_own_job_alone() -> None:
    results = dict(local(2)(die_at_three, range(6)))
    assert isinstance(results[3], Fault)
    assert "exit code -9" in results[3].reason["en"]
    assert [results[job] for job in (0, 1, 2, 4, 5)] == [0, 1, 2, 4, 5]


def test_a_job_whose_worker_died_is_tried_once_more(tmp_path: Path) -> None:
    assert list(local(1)(die_once, [tmp_path / "job"])) == [(tmp_path / "job", "job")]


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_workers_leave_when_their_parent_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import test_executors as t\n"
        "from decodelab.grading.executors import local\n"
        "if __name__ == '__main__':\n"
        "    for _, worker in local(1)(t.pid, range(999)):\n"
        "        print(worker, flush=True)\n",
        encoding="utf-8",
    )
    parent = subprocess.Popen(
        [sys.executable, script],
        env=os.environ | {"PYTHONPATH": str(HERE)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout
    worker = Path("/proc", parent.stdout.readline().strip())
    assert worker.exists()
    parent.kill()
    parent.communicate()
    ended = time.monotonic() + 10
    while worker.exists() and time.monotonic() < ended:
        time.sleep(0.05)
    assert not worker.exists()


def test_dask_says_what_to_install_and_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(DecodeLabError, match="pip install distributed"):
        dask("tcp://127.0.0.1:1")
