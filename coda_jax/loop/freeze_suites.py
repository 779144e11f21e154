"""Freeze the evaluation suites of a split: ``python -m coda_jax.loop.freeze_suites --split=validation --start=0``.

Writes JSON lines and the manifest that every later load is checked against, once every suite of the split has proved fair. A split that
is frozen already is refused; ``--new_version`` replaces it, and the manifest counts the versions.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import coda_jax
from coda_jax import config as settings
from coda_jax import runtime

DATA = Path(coda_jax.__file__).parent / "scenes" / "data"
LEAST_SOLVED = {"pick_place": 0.95}  # share of the scenes the planner must solve for a suite to be fair
_LEAST_SOLVED = 0.8  # of the other families


def least_solved(family: str) -> float:
    """Share of the scenes of a suite that the planner must solve."""
    return LEAST_SOLVED.get(family, _LEAST_SOLVED)


def freeze(config: settings.Config, family: str, split: str, start: int, folder: Path, count: int, new_version: bool = False) -> bool:
    """Freeze every suite of a family and ``split`` with ``count`` scenes, from candidate number ``start``, if the planner solves enough of
    each.

    Returns:
      Whether it does; if not, nothing is written.

    Raises:
      SuiteError: a suite of the split is frozen already and ``new_version`` is not set.
    """
    from coda_jax.evaluation import freeze_suites
    from coda_jax.loop import parts
    from coda_jax.scenes import suites
    from coda_jax.scenes.catalogue import Catalogue

    if not new_version:
        for suite in settings.SUITES:  # before the work, not after it
            suites.refuse_frozen(folder, family, suite, split)
    catalogue = Catalogue.all()
    chosen: dict[str, freeze_suites.Selection] = {}
    fair = True
    for suite in settings.SUITES:
        taken = {i for i, s in suites.frozen_scenes(folder).items() if s.file != suites.file_name(family, suite, split)}
        taken.update(s.scene_id for kept in chosen.values() for s in kept.specs)
        candidates = suites.suite_specs(family, suite, split, start)
        selection = freeze_suites.select(candidates, count, parts.validity_of(config), frozenset(taken))
        bucket = parts.common_bucket(list(selection.specs), catalogue)
        sim = parts.native_simulator(config, catalogue, bucket)
        result = freeze_suites.solve(sim, selection.specs, parts.planner_of(config), parts.horizon_of(config))
        freeze_suites.describe(f"{suite}/{split}", selection, result, print)
        if result.k < least_solved(family) * result.n:
            print(f"  too few: at least {100 * least_solved(family):.0f} % must be solved")
            fair = False
        chosen[suite] = selection
    if fair:
        for suite, selection in chosen.items():
            suites.write(folder, family, suite, split, selection.specs, new_version)
    return fair


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m coda_jax.loop.freeze_suites", description="Freeze the evaluation suites of a split.")
    parser.add_argument("--family", default=settings.FAMILIES[0], help=f"one of {', '.join(settings.FAMILIES)}, or of your own")
    parser.add_argument("--own_families", default="", help="modules, separated by commas, that register families of your own")
    parser.add_argument("--split", choices=("validation", "test"), required=True)
    parser.add_argument("--start", type=int, default=0, help="number of the first candidate")
    parser.add_argument("--count", type=int, default=0, help="scenes per suite; 0: 50 for validation, 100 for test")
    parser.add_argument("--folder", type=Path, default=DATA, help="where to write; the package's own data folder if left out")
    parser.add_argument(
        "--new_version", action="store_true", help="replace suites that are frozen already: older results cannot be compared"
    )
    options = parser.parse_args(arguments)
    runtime.setup()
    from coda_jax.loop import own_families, parts
    from coda_jax.scenes.suites import SIZES

    try:
        with parts.mendable():
            count = options.count or SIZES[options.split]
            config = settings.default()
            config.family, config.own_families = options.family, options.own_families
            settings.validate(config)
            own_families.add(config)
            fair = freeze(config, options.family, options.split, options.start, options.folder, count, options.new_version)
    except runtime.InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if not fair:
        print("nothing was written: in suites marked above the planner solves too few scenes, so it must improve, or they are not fair")
    return 0 if fair else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
