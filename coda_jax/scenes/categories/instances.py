"""Drawing a category's instances from its ranges: a fixed low-discrepancy sequence, the same on every machine.

Training instances fill the middle of each range, held-out instances its ends: they are new sizes, not new draws of old ones.
"""

from __future__ import annotations

from coda_jax.scenes.assets import Asset
from coda_jax.scenes.categories.record import Category
from coda_jax.scenes.shapes.build import assemble, volume

INSTANCES = 20
MASS_RANGE_KG = (0.03, 0.4)
# Splits of a training category's instances, by index: 12 train, 4 validation, 4 test. The two runs are the two times it was filled.
_INSTANCE_SPLITS = 8 * ("train",) + 2 * ("validation",) + 2 * ("test",) + 4 * ("train",) + 2 * ("validation",) + 2 * ("test",)
_TRAIN_SHARE = (0.2, 0.8)  # part of each range that training instances fill
_EDGE = 0.1  # held-out instances lie in this share at both ends
# additive recurrence with powers of one irrational number: well spread in up to four dimensions
_STRIDES = (0.8191725134, 0.6710436067, 0.5497004779, 0.4503005262)


def instance_split(category: Category, index: int) -> str:
    """Split of one instance: the category's own where it is held out, else by index."""
    return category.split if category.split != "train" else _INSTANCE_SPLITS[index]


def _unit(category: Category, index: int, dimension: int) -> float:
    """Place of one parameter inside its range, 0..1."""
    spread = (0.5 + (index + 1) * _STRIDES[dimension]) % 1.0
    if instance_split(category, index) == "train" or category.split != "train":
        low, high = _TRAIN_SHARE if category.split == "train" else (0.0, 1.0)
        return low + (high - low) * spread
    # each held-out instance of a category lies at another corner: parity of (index, dimension) picks the end
    at_top = bool((index >> (dimension % 2)) & 1)
    return (1.0 - _EDGE * spread) if at_top else _EDGE * spread


def instance(category: Category, index: int) -> Asset:
    """Instance ``index`` (0 to INSTANCES - 1) of a category."""
    parameters = {name: round(low + (high - low) * _unit(category, index, d), 4) for d, (name, low, high) in enumerate(category.ranges)}
    shape, half = assemble(category.builder(parameters))
    mass = 1.0  # fixtures are static
    if category.kind == "object":
        mass = min(max(category.density * sum(map(volume, shape.primitives)), MASS_RANGE_KG[0]), MASS_RANGE_KG[1])
    return Asset(
        asset_id=f"{category.name}_{index:02d}",
        category=category.name,
        kind=category.kind,
        split=instance_split(category, index),
        primitives=shape.primitives,
        half_extent_m=half,
        mass_kg=round(mass, 4),
        affordances=category.affordances,
        grasps=shape.grasps,
        cavity_pos_m=shape.cavity_pos_m,
        cavity_half_m=shape.cavity_half_m,
    )
