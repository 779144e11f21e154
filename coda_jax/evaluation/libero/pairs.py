"""Two runs on the same LIBERO episodes: two policies, before and after training, or the official and the native simulator."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from coda_jax.evaluation.libero.records import SOURCES, Episode, of_source
from coda_jax.evaluation.libero.totals import check_alike, grouped
from coda_jax.evaluation.statistics import PairedDifference, mcnemar, paired_difference

SETTINGS = ("observes", "step_limit", "settle_steps", "replan_steps", "seed")
SAME_M = 1e-5  # of positions, and of the entries of quaternions


@dataclasses.dataclass(frozen=True)
class Pair:
    """Episodes that both runs hold and neither lost to its simulator: n of them, of which ``both`` succeeded in both, ``only_first`` and
    ``only_second`` in one. errors: pairs left out since the simulator failed in one.

    same_steps: pairs of equal outcome after equally many steps. end_m: median over those of the largest difference of the final qpos (m
    or rad), None where a run did not record it.
    """

    suite: str
    source: str
    n: int
    both: int
    only_first: int
    only_second: int
    errors: int
    same_steps: int
    end_m: float | None

    @property
    def first(self) -> int:
        """Successes of the first run."""
        return self.both + self.only_first

    @property
    def second(self) -> int:
        """Successes of the second run."""
        return self.both + self.only_second

    @property
    def difference(self) -> PairedDifference:
        """Second minus first, with its 95 % interval; an episode is the unit."""
        changes = [1.0] * self.only_second + [-1.0] * self.only_first + [0.0] * (self.n - self.only_first - self.only_second)
        return paired_difference(changes)

    @property
    def p(self) -> float:
        """Exact two-sided p-value of "neither run is better" (McNemar)."""
        return mcnemar(self.only_first, self.only_second)


def pairs(first: Iterable[Episode], second: Iterable[Episode]) -> list[Pair]:
    """A row for each suite and source of prompts that both hold.

    Raises:
      ValueError: they share no episode, one run is of several policies or settings, or an episode has another task file, initial state or
        prompt in the second run.
    """
    ours, theirs = list(first), list(second)
    check_alike(ours)
    check_alike(theirs)
    rows, by_suite = [], grouped(theirs)
    for suite, own in grouped(ours).items():
        for source in SOURCES:
            mine = {e.key: e for e in of_source(own, source)}
            other = {e.key: e for e in of_source(by_suite.get(suite, ()), source)}
            matched = [(e, other[key]) for key, e in mine.items() if key in other]
            if matched:
                rows.append(_pair(suite, source, matched))
    if not rows:
        raise ValueError("the two runs share no episode: run both on the same suites, tasks, initial states and source of prompts")
    return rows


def other_settings(first: Sequence[Episode], second: Sequence[Episode]) -> list[str]:
    """Settings in which two runs differ on the episodes that both hold, e.g. "replan_steps 5 and 10", and how many of these have their
    fixtures elsewhere; what the difference of their policies also stands for."""
    theirs = {e.key: e for source in SOURCES for e in of_source(second, source)}
    ours = [e for source in SOURCES for e in of_source(first, source)]
    matched = [(e, theirs[e.key]) for e in ours if e.key in theirs]
    found = []
    for name in SETTINGS:
        a, b = ({getattr(pair[i], name) for pair in matched} for i in range(2))
        if any(getattr(e, name) != getattr(other, name) for e, other in matched):
            found.append(f"{name} {', '.join(map(str, sorted(a)))} and {', '.join(map(str, sorted(b)))}")
    if moved := sum(not _same_fixtures(e, other) for e, other in matched):
        found.append(f"the places of fixtures in {moved} of {len(matched)} episodes")
    return found


def _same_fixtures(a: Episode, b: Episode) -> bool:
    """Whether all stand within SAME_M; a quaternion and its negative are one."""
    if a.fixtures.keys() != b.fixtures.keys():
        return False
    for name, one in a.fixtures.items():
        other = b.fixtures[name]
        if len(one) != len(other) or not np.allclose(one[:3], other[:3], atol=SAME_M):
            return False
        if min(np.abs(np.subtract(one[3:], s * np.array(other[3:]))).max(initial=0.0) for s in (1, -1)) > SAME_M:
            return False
    return True


def _pair(suite: str, source: str, matched: list[tuple[Episode, Episode]]) -> Pair:
    for a, b in matched:
        for name in ("bddl_sha256", "init_sha256", "prompt"):
            values = [" ".join(getattr(e, name).lower().split()) for e in (a, b)]  # task files are read with and without their capitals
            if values[0] != values[1]:
                raise ValueError(f"{suite}, {a.name}@{a.init_index} has another {name} in the second run: these are not the same episodes")
    sound = [(a, b) for a, b in matched if "error" not in (a.outcome, b.outcome)]
    won = [(a.outcome == "success", b.outcome == "success") for a, b in sound]
    alike = [(a, b) for a, b in sound if a.outcome == b.outcome and a.steps == b.steps]
    ends = [_end(a, b) for a, b in alike]
    known = [end for end in ends if end is not None]
    return Pair(
        suite,
        source,
        len(sound),
        both=sum(a and b for a, b in won),
        only_first=sum(a and not b for a, b in won),
        only_second=sum(b and not a for a, b in won),
        errors=len(matched) - len(sound),
        same_steps=len(alike),
        end_m=float(np.median(known)) if known else None,
    )


def _end(a: Episode, b: Episode) -> float | None:
    if a.final_qpos is None or b.final_qpos is None or len(a.final_qpos) != len(b.final_qpos):
        return None
    return float(np.abs(np.subtract(a.final_qpos, b.final_qpos)).max())
