"""Scenes checked in batches, and the invalid ones mended and checked again, a bounded number of times."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from coda_jax.agents.base import Cure, DataEngine
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.edits.lock import edited_factors
from coda_jax.scenes.leakage import HeldOutContent, refuse_held_out
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.checks.record import ValiditySettings
from coda_jax.sim.platforms import check
from coda_jax.sim.validity import Report


@dataclasses.dataclass(frozen=True)
class Checked:
    """A scene as it ended. spec, report: after the last change. first: report before any. cures: of each attempt, in order."""

    spec: SceneSpec
    report: Report
    first: Report
    cures: tuple[tuple[Cure, ...], ...] = ()

    @property
    def valid(self) -> bool:
        return self.report.valid


def checked(
    specs: Sequence[SceneSpec],
    factors: Sequence[Collection[str]],
    catalogue: Catalogue,
    train: Catalogue,
    settings: ValiditySettings,
    engine: DataEngine,
    repairs: int,
) -> list[Checked]:
    """Each scene checked, and mended where the engine knows how, in order.

    Args:
      factors: of SceneSpec, that may be changed in each scene.
      catalogue: of the scenes' assets. train: what may be used for training: a change that would make held-out content of it is not made.
      repairs: most attempts at one scene.
    """
    found = [Checked(s, r, r) for s, r in zip(specs, check(specs, catalogue, settings), strict=True)]
    for _ in range(repairs):
        again: list[tuple[int, SceneSpec, tuple[Cure, ...]]] = []
        for i, one in enumerate(found):
            if one.valid:
                continue
            mended = _mended(one, factors[i], train, engine)
            if mended is not None:
                again.append((i, *mended))
        for (i, spec, cures), report in zip(again, check([s for _, s, _ in again], catalogue, settings), strict=True):
            found[i] = Checked(spec, report, found[i].first, (*found[i].cures, cures))
        if not again:
            break
    return found


def _mended(one: Checked, factors: Collection[str], train: Catalogue, engine: DataEngine) -> tuple[SceneSpec, tuple[Cure, ...]] | None:
    """All failures at once, or the first that can be mended alone where all at once would make held-out content.

    What touches another factor than it may is not made, whoever proposes it.
    """
    for failures in (one.report.failures, *((f,) for f in one.report.failures)):
        found = engine.repair(one.spec, failures, factors)
        if found is None or found[0] == one.spec or not set(edited_factors(one.spec, found[0])) <= set(factors):
            continue
        try:
            refuse_held_out(found[0], train)
        except HeldOutContent:
            continue
        return found
    return None
