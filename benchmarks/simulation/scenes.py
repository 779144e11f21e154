"""Scenes of a given number of things, without a goal that anything could reach."""

from __future__ import annotations

from coda_jax.programs.expressions import Expr
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.spec import AttributeFactor, ObjectAttributes, Placement, Role, SceneSpec, SpatialFactor, TaskFactor
from coda_jax.sim.simulator import Episode

_PLACES_M = ((0.5, 0.0), (0.42, 0.16), (0.58, 0.16), (0.42, -0.16), (0.58, -0.16), (0.66, 0.0))
NEVER = Expr("at_least", (Expr("height_above", ("gripper", "table")), 1.9))
HORIZON = 1_000_000


def row_of(asset: str, count: int, catalogue: Catalogue) -> Episode:
    """``count`` copies of an asset of one mass on the table, apart from each other, the first in the hand's way."""
    half = catalogue.get(asset).half_extent_m[2]
    things = [(f"a_{i}", *_PLACES_M[i]) for i in range(count)]
    goal = Expr("on", ("a_0", "a_1"))
    spec = SceneSpec(
        TaskFactor("pick_place", "move it", goal, (), (Role("a_0", "target"), Role("a_1", "support"))),
        SpatialFactor("row", tuple(Placement(name, (x, y, half), 0.0, "table", "r", 0.0) for name, x, y in things)),
        AttributeFactor(tuple(ObjectAttributes(name, asset, 1.0, 0.1, 1.0, "red") for name, _, _ in things)),
    )
    return Episode(spec, (NEVER,), HORIZON)


def drawn(family: str, count: int) -> list[Episode]:
    """``count`` different scenes of a family's generator, each with its own predicates beside a goal that nothing reaches."""
    from coda_jax.scenes.generate import sample_spec
    from coda_jax.sim.simulator import episode_of

    train, made = Catalogue("train"), []
    for seed in range(count):
        spec = sample_spec(train, family, "id", "train", seed)
        watched = episode_of(spec, HORIZON, (seed, 0)).predicates
        made.append(Episode(spec, (NEVER, *watched[1:]), HORIZON, (seed, 0)))
    return made
