"""Freeze the suites: ``python -m coda_jax.evaluation.freeze_suites --split=validation``.

Candidates come from the generator in the order of their seeds; an invalid one is passed over. The planner then runs every kept scene, and
its share is printed: a scene that it fails stays, since dropping it would make the suite easier than the generator.
"""

from __future__ import annotations

import collections
import sys
from collections.abc import Sequence
from pathlib import Path

from absl import app, flags

from coda_jax import runtime
from coda_jax.scenes import families, generate, suites
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.checks.record import ValiditySettings
from coda_jax.sim.demonstrate import demonstrate
from coda_jax.sim.native import NativeSimulator
from coda_jax.sim.planner import PlannerSettings
from coda_jax.sim.simulator import Episode
from coda_jax.sim.validity import check

HORIZON = 120
# The thresholds of the frozen suites are part of what is frozen; a run's own settings do not move them.
VALIDITY = ValiditySettings(
    worlds=64,
    threads=0,
    penetration_m=0.001,
    settle_s=1.0,
    settle_move_m=0.005,
    settle_tilt_rad=0.087,
    settle_speed_m_s=0.02,
    density_kg_m3=(100.0, 3000.0),
    scale=(0.7, 1.4),
    longest_m=(0.015, 0.25),
    jaw_m=0.075,
    workspace_x_m=(0.25, 0.75),
    workspace_y_m=(-0.4, 0.4),
    reach_m=0.005,
    reach_rad=0.05,
)

_SPLIT = flags.DEFINE_enum("split", "validation", ["validation", "test"], "Which suites to freeze.")
_START = flags.DEFINE_integer("start", 0, "First seed of the candidates.", lower_bound=0)
_FOLDER = flags.DEFINE_string("folder", None, "Where to write; the package's own data by default.")


def valid_scenes(family: str, suite: str, split: str, start: int, count: int) -> tuple[list[SceneSpec], collections.Counter[str]]:
    """The first ``count`` valid candidates and the reasons of those passed over."""
    stream = suites.suite_specs(family, suite, split, start)
    kept: list[SceneSpec] = []
    reasons: collections.Counter[str] = collections.Counter()
    while len(kept) < count:
        candidates = [next(stream) for _ in range(max(8, count - len(kept)))]
        for spec, report in zip(candidates, check(candidates, Catalogue.all(), VALIDITY), strict=True):
            if not report.valid:
                reasons[report.failures[0].check] += 1
            elif len(kept) < count:
                kept.append(spec)
    return kept, reasons


def planner_solves(specs: Sequence[SceneSpec]) -> int:
    """How many scenes the planner solves without disturbance."""
    catalogue = Catalogue.all()
    episodes = [Episode(s, tuple(e for _, e in families.phases(s)[::-1]), HORIZON, (i, 0)) for i, s in enumerate(specs)]
    sim = NativeSimulator(catalogue, Bucket(6, 3), 64)
    return sum(t.success for t in demonstrate(sim, catalogue, episodes, PlannerSettings(speed=1.0, attempts=3), None, 0))


def main(arguments: list[str]) -> None:
    if len(arguments) > 1:
        raise app.UsageError(f"unknown argument {arguments[1]!r}")
    runtime.setup()
    split = _SPLIT.value
    folder = Path(_FOLDER.value) if _FOLDER.value else Path(suites.__file__).parent / "data"
    for suite in generate.SUITES:
        specs, reasons = valid_scenes("pick_place", suite, split, _START.value, suites.SIZES[split])
        solved = planner_solves(specs)
        suites.write(folder, "pick_place", suite, split, specs)
        print(f"{suite:<12} {len(specs)} scenes, planner solves {solved}; passed over: {dict(reasons) or 'none'}", file=sys.stderr)


if __name__ == "__main__":
    app.run(main)
