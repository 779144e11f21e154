"""LIBERO's things as catalogue entries: boxes of their size, and where a top-down hand may hold them.

They are made known to the catalogue only for runs that ask for LIBERO (``families.add``). Grasps are those that room is checked with; the
planner measures its own from the models.
"""

from __future__ import annotations

import math

from coda_jax.scenes.assets import Asset, Grasp, Primitive
from coda_jax.scenes.libero.things import ASSETS, FRICTION, Model

RIMMED = ("akita_black_bowl", "plate", "glazed_rim_porcelain_ramekin")  # held by the rim: wider than the hand opens
RIM_M = 0.006  # inside the outer edge, where the rim is held; its thickness
WIDEST_M = 0.075  # of a hand that opens 0.08 m
CATEGORY = "libero_"  # before a model's name: the common catalogue has a plate and a basket of its own


def _grasps(model: Model) -> tuple[Grasp, ...]:
    hx, hy, hz = model.half_m
    if not model.free:
        return ()
    if model.category in RIMMED:
        x, y, z = hx - RIM_M, hy - RIM_M, hz - RIM_M
        return (
            Grasp((0.0, y, z), math.pi / 2, RIM_M),
            Grasp((0.0, -y, z), math.pi / 2, RIM_M),
            Grasp((x, 0.0, z), 0.0, RIM_M),
            Grasp((-x, 0.0, z), 0.0, RIM_M),
        )
    across = (Grasp((0.0, 0.0, 0.0), 0.0, 2 * hx), Grasp((0.0, 0.0, 0.0), math.pi / 2, 2 * hy))
    return tuple(sorted((g for g in across if g.width_m <= WIDEST_M), key=lambda g: g.width_m))


def asset(model: Model) -> Asset:
    """One model as a catalogue entry."""
    return Asset(
        asset_id=model.asset,
        category=CATEGORY + model.category,
        kind="object" if model.free else "support",
        split="train",
        primitives=(Primitive("box", model.half_m),),
        half_extent_m=model.half_m,
        mass_kg=model.mass_kg,
        friction=FRICTION,
        colours=(),
        affordances=("graspable",) if _grasps(model) else (),
        grasps=_grasps(model),
    )


def assets() -> tuple[Asset, ...]:
    """Every thing of the three benchmarks."""
    return tuple(asset(m) for m in ASSETS.values())
