"""k/n of LIBERO episodes by suite, perturbation and task, the two sources of prompts always apart, simulator errors apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from coda_jax.evaluation.libero.records import SOURCES, Episode, of_source
from coda_jax.evaluation.statistics import Interval, wilson
from coda_jax.foreign import shown
from coda_jax.scenes.libero import tasks

_SHOWN = 200  # characters of a value in which records differ
_CALLED = {"standard": "standard", "pos": "Pos", "task": "Task", "object": "Object", "lan": "Language"}  # as the paper calls them


@dataclasses.dataclass(frozen=True)
class Total:
    """Episodes of one row. k of n succeeded; errors: of the simulator, in neither. settled: of n, solved by the no-ops before the policy
    acted. steps: mean of the successes, None without one."""

    group: str
    source: str
    k: int
    n: int
    errors: int
    settled: int
    steps: float | None

    @property
    def interval(self) -> Interval:
        """95 %, Wilson; one episode for each initial state."""
        return wilson(self.k, self.n)


def kind_of(suite: str) -> str:
    """ "standard", "Pos", "Task", ...: what a suite changes; its own name where it belongs to none of the known suites."""
    return _CALLED[tasks.perturbation_of(suite)] if suite in tasks.SUITES else suite


def task_of(episode: Episode) -> str:
    return f"{episode.suite} {episode.task}: {episode.name}"


def totals(episodes: Iterable[Episode], group: Callable[[Episode], str] = lambda e: e.suite) -> list[Total]:
    """A row for each group and each source of prompts, groups in the order of their first episodes.

    Raises:
      ValueError: the episodes are of several policies, stacks or settings, which are not added up.
    """
    every = list(episodes)
    check_alike(every)
    found = ((name, source, of_source(own, source)) for name, own in grouped(every, group).items() for source in SOURCES)
    return [_total(name, source, own) for name, source, own in found if own]


def grouped(episodes: Iterable[Episode], group: Callable[[Episode], str] = lambda e: e.suite) -> dict[str, list[Episode]]:
    """Episodes by group, groups in the order of their first episodes."""
    found: dict[str, list[Episode]] = {}
    for e in episodes:
        found.setdefault(group(e), []).append(e)
    return found


def check_alike(episodes: Sequence[Episode]) -> None:
    """Raises ValueError where episodes differ in who acted, in which stack, or under which settings, or one name stands for two tasks or
    initial states."""
    for name in ("policy", "observes", "stack", "seed", "settle_steps", "replan_steps", "most_steps", "versions"):
        _refuse_several(name, (str(getattr(e, name)) for e in episodes))
    for suite, own in grouped(episodes).items():
        _refuse_several(f"step_limit in {suite}", (str(e.step_limit) for e in own))
    for task, own in grouped(episodes, lambda e: f"{e.suite}, {e.name}").items():
        _refuse_several(f"task of {task}", (str(e.task) for e in own))
        _refuse_several(f"bddl_sha256 of {task}", (e.bddl_sha256 for e in own))
    for state, own in grouped(episodes, lambda e: f"{e.suite}, {e.name}@{e.init_index}").items():
        _refuse_several(f"init_sha256 of {state}", (e.init_sha256 for e in own))


def _refuse_several(what: str, values: Iterable[str]) -> None:
    if len(found := sorted(set(values))) > 1:
        raise ValueError(f"the records differ in {what} ({', '.join(shown(value, _SHOWN) for value in found[:3])}): count them apart")


def _total(name: str, source: str, episodes: Sequence[Episode]) -> Total:
    counted = [e for e in episodes if e.outcome != "error"]
    steps = [e.steps for e in counted if e.outcome == "success"]
    return Total(
        name,
        source,
        len(steps),
        len(counted),
        len(episodes) - len(counted),
        sum(e.solved_by_settling for e in counted),
        sum(steps) / len(steps) if steps else None,
    )
