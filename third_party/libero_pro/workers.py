"""Processes that run episodes: one policy connection and one environment each; a process that dies costs one episode."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from episode import Arena, GraphicsError, Policy, PolicyError, Settings, run
from plan import Episode, Task
from replay import Replay
from server import Address, Client, ServerError

_Key = tuple[str, str]  # suite and name of a task


class StopRun(RuntimeError):
    """The run cannot go on; the message says what to change. Episodes recorded so far stay."""


def work(pipe: Connection, tasks: Mapping[_Key, Task], settings: Settings, address: Address, actions: Path | None) -> None:
    """Of a worker: run the episodes that come through the pipe, until None comes. actions: file of them in place of a policy server."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    arena: Arena | None = None
    try:
        policy: Policy = Replay(actions, settings.replan_steps) if actions is not None else Client(address)
        while (episode := pipe.recv()) is not None:
            task = tasks[episode.suite, episode.name]
            try:
                if arena is None or arena.task != task:
                    if arena is not None:
                        arena.close()
                    arena = None
                    arena = Arena(task, settings)
                pipe.send(("record", run(arena, episode, policy, settings)))
            except (PolicyError, GraphicsError):
                raise
            except Exception as error:  # of an environment that cannot even be made
                pipe.send(("stop", f"{task.suite}, {task.name}: {type(error).__name__}: {error}"))
    except (PolicyError, GraphicsError, ServerError) as error:
        pipe.send(("stop", str(error)))
    except (OSError, EOFError) as error:
        with contextlib.suppress(OSError):
            pipe.send(("stop", f"the policy server at {address} is not there any more ({error})"))
    finally:
        if arena is not None:
            arena.close()


class _Worker:
    def __init__(self, *arguments: Any):
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=work, args=(other, *arguments), daemon=True)
        self.process.start()
        other.close()
        self.episode: Episode | None = None
        self.began = 0.0

    def give(self, episode: Episode) -> None:
        self.episode, self.began = episode, time.monotonic()
        with contextlib.suppress(OSError):  # it died while it had nothing to do: seen when its answer is waited for
            self.pipe.send(episode)

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self.pipe.send(None)
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.pipe.close()


def run_all(
    passes: Sequence[Sequence[Episode]],
    tasks: Mapping[_Key, Task],
    settings: Settings,
    address: Address,
    actions: Path | None,
    count: int,
    deadline_s: float,
    give_up: Callable[[], bool],
) -> Iterator[tuple[Episode, dict[str, Any] | None, str | None]]:
    """Yield (episode, record, None), or (episode, None, what happened) where its process died or hung, as they end.

    deadline_s: of one episode with the making of its environment. give_up: whether no further episode is to begin.

    Raises:
      StopRun: the policy server or OpenGL is missing, or an environment cannot be made.
    """
    arguments = (tasks, settings, address, actions)
    pending = [list(one) for one in passes]
    workers = [_Worker(*arguments) for _ in range(count)]
    last: dict[int, _Key] = {}
    try:
        while True:
            for number, worker in enumerate(workers):
                if worker.episode is None and not give_up() and (chosen := _next(pending, last, number)) is not None:
                    last[number] = chosen.suite, chosen.name
                    worker.give(chosen)
            busy = [worker for worker in workers if worker.episode is not None]
            if not busy:
                return
            ready = wait([worker.pipe for worker in busy], timeout=1.0)
            for worker in busy:
                episode = worker.episode
                assert episode is not None
                if worker.pipe in ready:
                    try:
                        kind, value = worker.pipe.recv()
                    except (EOFError, OSError):
                        worker.process.join(5)
                        said = f"the simulator's process ended with {worker.process.exitcode}"
                        workers[workers.index(worker)] = _replaced(worker, last, workers, arguments)
                        yield episode, None, said
                        continue
                    if kind == "stop":
                        raise StopRun(value)
                    worker.episode = None
                    yield episode, value, None
                elif time.monotonic() - worker.began > deadline_s:
                    worker.process.kill()
                    workers[workers.index(worker)] = _replaced(worker, last, workers, arguments)
                    yield episode, None, f"no answer for {deadline_s:.0f} s"
    finally:
        for worker in workers:
            if worker.episode is not None:
                worker.process.kill()
            worker.end()


def _replaced(worker: _Worker, last: dict[int, _Key], workers: Sequence[_Worker], arguments: tuple) -> _Worker:
    last.pop(workers.index(worker), None)
    worker.end()
    return _Worker(*arguments)


def _next(pending: list[list[Episode]], last: Mapping[int, _Key], worker: int) -> Episode | None:
    """The worker's own task goes on; else one that no other worker has; else any."""
    while pending and not pending[0]:
        pending.pop(0)
    if not pending:
        return None
    own, others = last.get(worker), {key for number, key in last.items() if number != worker}
    now = pending[0]
    for wanted in (lambda e: (e.suite, e.name) == own, lambda e: (e.suite, e.name) not in others, lambda e: True):
        for place, episode in enumerate(now):
            if wanted(episode):
                return now.pop(place)
    raise AssertionError("the last condition holds for every episode")
