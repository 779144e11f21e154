"""Many workers: killed ones leave nothing behind, several run side by side."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import pytest

from coda_jax.programs import sandbox as sandbox_module
from coda_jax.programs.errors import ErrorKind, ProgramError
from coda_jax.programs.limits import Limits
from coda_jax.programs.sandbox import Sandbox, Task

LIMITS = Limits(text_bytes=32768, time_s=0.4, grace_s=0.4, memory_bytes=32 << 20, recursion=100, output_chars=1000, reply_chars=65536)
WAYS = {signal.SIGKILL: ErrorKind.CRASHED, signal.SIGABRT: ErrorKind.CRASHED, signal.SIGSTOP: ErrorKind.LIMIT_TIME}


def children() -> set[int]:
    """Processes, ended ones that wait for their parent included, whose parent this one is."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as stat:
                if int(stat.read().rpartition(")")[2].split()[1]) == os.getpid():
                    found.add(int(name))
        except OSError:
            continue  # it has just ended
    return found


def resources() -> tuple[int, int]:
    """Open files and threads of this process."""
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("count", [pytest.param(30, id="30"), pytest.param(1000, marks=pytest.mark.slow, id="1000")])
def test_killed_workers_leave_no_process_and_no_file(monkeypatch, count):
    real = sandbox_module._confine
    ways = list(WAYS)
    strikes: list[signal.Signals] = []
    pids = set()

    def confine(pid, memory_bytes):
        real(pid, memory_bytes)
        pids.add(pid)
        os.kill(pid, strikes[-1])

    before = children()
    with Sandbox(LIMITS) as box:
        assert box.evaluate("result = 1") == 1
        idle = resources()
        monkeypatch.setattr(sandbox_module, "_confine", confine)
        for i in range(count):
            strikes.append(signal.SIGSTOP if i % 10 == 9 else ways[i % 2])  # the one that the parent has to wait for more rarely
            with pytest.raises(ProgramError) as ended:
                box.evaluate("while True: pass")
            assert ended.value.kind is WAYS[strikes[-1]]
            assert len(children() - before) <= 1
        monkeypatch.undo()
        assert len(pids) == count
        assert box.evaluate("result = 2") == 2
        now = resources()  # threads of earlier tests may end meanwhile
        assert now[0] <= idle[0] and now[1] <= idle[1]
    until = time.monotonic() + 5
    while children() - before and time.monotonic() < until:
        time.sleep(0.02)
    assert children() == before
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_tasks_are_answered_in_their_order_and_side_by_side():
    roomy = Limits(**{**vars(LIMITS), "time_s": 20.0})
    busy = "for i in range({}):\n    pass\nresult = {}"
    tasks = [Task(busy.format(200_000 if i == 0 else 10, i)) for i in range(6)]
    tasks += [
        Task("result = verb()", "def verb(): return 'v'"),
        Task("x = 1", ending="result = y"),
        Task("(", invalid=ErrorKind.INVALID_SCENE),
    ]
    with Sandbox(roomy, workers=2) as box:
        outcomes = box.evaluate_many(tasks)
        assert outcomes[:7] == [0, 1, 2, 3, 4, 5, "v"]
        assert [getattr(outcome, "kind", None) for outcome in outcomes[7:]] == [ErrorKind.NOT_DATA, ErrorKind.SYNTAX]
        assert "result = y" in str(outcomes[7])


def test_as_many_workers_as_asked_for(monkeypatch):
    roomy = Limits(**{**vars(LIMITS), "time_s": 20.0, "grace_s": 20.0})
    real, barrier, seen = sandbox_module._confine, threading.Barrier(2), set()

    def confine(pid, memory_bytes):
        real(pid, memory_bytes)
        seen.add(pid)
        barrier.wait(30)  # both hold a worker at this moment

    monkeypatch.setattr(sandbox_module, "_confine", confine)
    with Sandbox(roomy, workers=2) as box:
        assert box.evaluate_many([Task("result = 1"), Task("result = 2")]) == [1, 2]
    assert len(seen) == 2
    with pytest.raises(ValueError, match="at least 1"):
        Sandbox(roomy, workers=0)
