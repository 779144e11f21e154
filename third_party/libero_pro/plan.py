"""Which episodes are run, and in which order. Plain data; needs nothing but the standard library."""

from __future__ import annotations

import dataclasses
import hashlib
import random
from collections.abc import Mapping, Sequence

SOURCES = ("bddl", "filename")  # where a prompt comes from
BOTH = "both"  # source of a prompt that both give alike: one episode counts for both
STEP_LIMITS = {"libero_spatial": 220, "libero_object": 280, "libero_goal": 300, "libero_10": 520, "libero_90": 400}  # by base suite


@dataclasses.dataclass(frozen=True)
class Task:
    """A task of a suite. number: in the package's order. prompts: by source. states: how many initial states it has."""

    suite: str
    number: int
    name: str
    bddl: str
    bddl_sha256: str
    prompts: Mapping[str, str]
    states: int


@dataclasses.dataclass(frozen=True)
class Episode:
    """One initial state of a task under one prompt."""

    suite: str
    task: int
    name: str
    init_index: int
    prompt: str
    source: str

    @property
    def key(self) -> tuple[str, str, int, str]:
        """What tells an episode from all others of a file of records."""
        return self.suite, self.name, self.init_index, self.source


def step_limit(suite: str) -> int:
    """Steps after which an episode of the suite has failed.

    Raises:
      ValueError: the suite belongs to no base suite.
    """
    for base in sorted(STEP_LIMITS, key=len, reverse=True):
        if suite == base or suite.startswith(base + "_"):
            return STEP_LIMITS[base]
    raise ValueError(f"{suite} belongs to none of {', '.join(STEP_LIMITS)}, so its step limit is not known")


def prompts_of(task: Task, sources: Sequence[str]) -> list[tuple[str, str]]:
    """(source, prompt) of each episode of a task: one where both sources are asked for and agree."""
    if len(sources) > 1 and len({task.prompts[s] for s in sources}) == 1:
        return [(BOTH, task.prompts[sources[0]])]
    return [(source, task.prompts[source]) for source in sources]


def episodes(tasks: Sequence[Task], sources: Sequence[str], states: int = 0, subset: int = 0, seed: int = 0) -> list[Episode]:
    """The episodes of a run, task by task.

    states: the first so many initial states of every task, 0 for all. subset: so many episodes in all, spread evenly over tasks and
    prompts (whichever initial states the seed draws; both prompts of a task get the same ones), 0 for all.
    """
    strata = [(task, source, prompt) for task in tasks for source, prompt in prompts_of(task, sources)]
    orders = {(t.suite, t.name): _order(t, states, seed if subset else None) for t in tasks}
    counts = _counts([len(orders[t.suite, t.name]) for t, _, _ in strata], _turns(strata, seed), subset) if subset else None
    found = []
    for number, (task, source, prompt) in enumerate(strata):
        chosen = orders[task.suite, task.name]
        for index in sorted(chosen if counts is None else chosen[: counts[number]]):
            found.append(Episode(task.suite, task.number, task.name, index, prompt, source))
    return found


def passes(chosen: Sequence[Episode], seed: int) -> list[list[Episode]]:
    """The episodes in passes over all tasks: 1 of each task and prompt, then 1, 2, 4, ... more, so that a run that ends early has them
    spread evenly, and yet seldom changes its task."""
    strata: dict[tuple[str, str, str], list[Episode]] = {}
    for episode in chosen:
        strata.setdefault((episode.suite, episode.name, episode.source), []).append(episode)
    for (suite, name, _), own in strata.items():
        _shuffle(own, seed, suite, name)
    found, taken, size = [], 0, 1
    while any(len(own) > taken for own in strata.values()):
        found.append([episode for own in strata.values() for episode in own[taken : taken + size]])
        taken, size = taken + size, max(1, taken + size)
    return found


def _order(task: Task, states: int, seed: int | None) -> list[int]:
    indices = list(range(min(task.states, states) if states else task.states))
    if seed is not None:
        _shuffle(indices, seed, task.suite, task.name)
    return indices


def _turns(strata: Sequence[tuple[Task, str, str]], seed: int) -> list[int]:
    """Numbers of the strata in the order in which each gets one more episode: suites alternate, tasks of one in a random order."""
    by_suite: dict[str, list[int]] = {}
    for number, (task, _, _) in enumerate(strata):
        by_suite.setdefault(task.suite, []).append(number)
    for suite, numbers in by_suite.items():
        _shuffle(numbers, seed, suite)
    longest = max(map(len, by_suite.values()), default=0)
    return [numbers[i] for i in range(longest) for numbers in by_suite.values() if i < len(numbers)]


def _counts(room: Sequence[int], turns: Sequence[int], total: int) -> list[int]:
    counts = [0] * len(room)
    left = min(total, sum(room))
    while left:
        for number in turns:
            if left and counts[number] < room[number]:
                counts[number] += 1
                left -= 1
    return counts


def _shuffle(items: list, seed: int, *names: str) -> None:
    """In place, by seed and names alone."""
    digest = hashlib.sha256("/".join((str(seed), *names)).encode()).digest()
    random.Random(int.from_bytes(digest[:8], "big")).shuffle(items)
