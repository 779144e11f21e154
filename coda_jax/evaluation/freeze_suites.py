"""Choosing the scenes of a frozen suite: candidates that physics finds fair, and how many of them the planner solves.

A scene is left out only where a check finds it invalid. The planner judges the suite, not the scene: leaving out what it fails would
make every suite look solvable.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.demonstrate import Trajectory, demonstrate, success_by_category
from coda_jax.sim.planner import PlannerSettings
from coda_jax.sim.simulator import Simulator, episode_of
from coda_jax.sim.validity import ValiditySettings, check


@dataclasses.dataclass(frozen=True)
class Selection:
    """specs: the scenes kept, in order of their candidates. tried: candidates looked at. rejected: invalid ones by check."""

    specs: tuple[SceneSpec, ...]
    tried: int
    rejected: dict[str, int]


@dataclasses.dataclass(frozen=True)
class PlannerResult:
    """k of n scenes solved without disturbance; by_category: (k, n) by the target's category; failed: scene id to cause."""

    k: int
    n: int
    by_category: dict[str, tuple[int, int]]
    failed: dict[str, str]


def select(candidates: Iterator[SceneSpec], count: int, settings: ValiditySettings, taken: frozenset[str] = frozenset()) -> Selection:
    """The first ``count`` valid candidates whose ids are not ``taken`` by another suite.

    Raises:
      ValueError: fewer than one candidate in twenty is valid.
    """
    catalogue = Catalogue.all()
    kept: dict[str, SceneSpec] = {}
    rejected: Counter[str] = Counter()
    tried = 0
    while len(kept) < count:
        part = list(itertools.islice(candidates, settings.worlds))
        tried += len(part)
        for spec, report in zip(part, check(part, catalogue, settings), strict=True):
            if not report.valid:
                rejected[report.failures[0].check] += 1
            elif spec.scene_id in taken or spec.scene_id in kept:
                rejected["twice"] += 1
            else:
                kept[spec.scene_id] = spec
        if not part or (tried > 1000 and len(kept) < tried / 20):
            raise ValueError(f"{len(kept)} of {tried} candidates are valid, {count} are needed; rejected: {dict(rejected)}")
    return Selection(tuple(kept.values())[:count], tried, dict(rejected))


def solve(sim: Simulator, specs: Sequence[SceneSpec], settings: PlannerSettings, horizon: Callable[[SceneSpec], int]) -> PlannerResult:
    """Let the planner try every scene once, undisturbed."""
    catalogue = Catalogue.all()
    found: list[Trajectory] = list(
        demonstrate(sim, catalogue, [episode_of(s, horizon(s), (i, 0)) for i, s in enumerate(specs)], settings, None, 0)
    )
    failed = {t.episode.spec.scene_id: t.cause for t in sorted(found, key=lambda t: t.episode.key) if not t.success}
    return PlannerResult(len(found) - len(failed), len(found), success_by_category(found, catalogue), failed)


def describe(suite: str, selection: Selection, result: PlannerResult, say: Callable[[str], None]) -> None:
    """Say what was kept and what the planner made of it."""
    rejected = ", ".join(f"{check} {n}" for check, n in sorted(selection.rejected.items())) or "none"
    say(f"{suite}: {len(selection.specs)} scenes of {selection.tried} candidates, rejected: {rejected}")
    say(f"  planner {result.k}/{result.n}: " + ", ".join(f"{c} {k}/{n}" for c, (k, n) in result.by_category.items()))
    for scene_id, cause in result.failed.items():
        say(f"  not solved: {scene_id}, {cause}")
