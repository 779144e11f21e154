"""What the frozen suites mean to a robot of one's own: they were certified with the Panda, so that some scenes may be out of its reach.

All of them count nevertheless: a result is of the same scenes whoever acts, and this says how many of them the robot can reach.
"""

from __future__ import annotations

from coda_jax import config as settings
from coda_jax.evaluation.metrics import Tally
from coda_jax.loop import evaluation, parts
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.sim.checks.reach import reach_failures
from coda_jax.sim.compile import scene_assets

Reach = dict[str, dict[str, Tally]]


def within_reach(config: settings.Config) -> Reach:
    """Scenes of each family and evaluated suite that the robot reaches, of all of them; empty for the Panda."""
    if config.robot == settings.ROBOT:
        return {}
    catalogue, validity = Catalogue.all(), parts.validity_of(config)
    found: Reach = {family: {} for family in settings.families(config)}
    for suite, every in evaluation.chosen_scenes(config).items():
        for family, by_suite in found.items():
            specs = [spec for spec in every if spec.task.family == family]
            assets = [dict(zip(spec.object_ids, scene_assets(spec, catalogue), strict=True)) for spec in specs]
            failures = reach_failures(specs, assets, validity)
            by_suite[suite] = Tally(sum(not f for f in failures), len(specs))
    return found


def describe(robot: str, found: Reach) -> str:
    """One line for the terminal; "" for the Panda."""
    if not found:
        return ""
    reached = "; ".join(f"{family} " + ", ".join(f"{suite} {t.k}/{t.n}" for suite, t in each.items()) for family, each in found.items())
    return f"The suites were certified with the {settings.ROBOT}; within reach of {robot}: {reached}. All scenes count"
