"""The record of a category: a kind of thing with the ranges that its instances are drawn from."""

from __future__ import annotations

import dataclasses

from coda_jax.scenes.shapes.build import Builder

SPLITS = ("train", "validation", "test")
# What a thing can be used for. The last three are of fixtures; docs/catalogue.md says how each is tested.
AFFORDANCES = ("graspable", "rollable", "stackable", "insertable", "supports", "contains", "receives")


@dataclasses.dataclass(frozen=True)
class Category:
    """A kind of thing.

    kind: "object" (free), "support" or "container" (fixtures). split: of the whole category. ranges: lowest and highest value of each
    parameter of the builder (m, rad). density in kg/m^3 (hollow things: effective; fixtures: 0). affordances: of AFFORDANCES.
    """

    name: str
    kind: str
    split: str
    builder: Builder
    density: float
    ranges: tuple[tuple[str, float, float], ...]
    affordances: tuple[str, ...]
