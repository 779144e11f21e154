"""What stands in a seed scene before it is placed: an author draws it for a family (``Family.compose``)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import numpy as np

from coda_jax.scenes.arrange import Item
from coda_jax.scenes.assets import Asset
from coda_jax.scenes.catalogue import Catalogue, category_split
from coda_jax.scenes.families import Rejected
from coda_jax.scenes.layouts import Layout
from coda_jax.scenes.spec import Articulation
from coda_jax.types import FREE_SLOTS

SCALE_RANGE = (0.96, 1.04)
MASS_SHARE = (0.85, 1.15)
FRICTION_RANGE = (0.9, 1.1)
OTHERS_WEIGHTS = {1: 0.3, 2: 0.3, 3: 0.25, 4: 0.15}
TWO_FIXTURES = 0.85  # share of scenes with a second candidate for the reference
T = TypeVar("T")


class Recipe(Protocol):
    """Split that each varied thing is drawn from (scenes/generate.py)."""

    @property
    def instances(self) -> str: ...

    @property
    def pairs(self) -> str: ...

    @property
    def categories(self) -> str: ...


@dataclasses.dataclass(frozen=True)
class Content:
    """Fixtures and free objects (what is moved first), goals in their order as (relation, target, reference), and what each item has.

    colours, friction, scale, mass: by id() of the item. openings, articulations: likewise, of articulated ones.
    """

    goals: list[tuple[str, Item, Item]] = dataclasses.field(default_factory=list)
    fixtures: list[Item] = dataclasses.field(default_factory=list)
    free: list[Item] = dataclasses.field(default_factory=list)
    colours: dict[int, str] = dataclasses.field(default_factory=dict)
    friction: dict[int, float] = dataclasses.field(default_factory=dict)
    scale: dict[int, float] = dataclasses.field(default_factory=dict)
    mass: dict[int, float] = dataclasses.field(default_factory=dict)
    openings: dict[int, float] = dataclasses.field(default_factory=dict)
    articulations: dict[int, Articulation] = dataclasses.field(default_factory=dict)


def choice(rng: np.random.Generator, items: Sequence[T]) -> T:
    """One of them."""
    return items[int(rng.integers(len(items)))]


def _uniform(rng: np.random.Generator, bounds: tuple[float, float], digits: int) -> float:
    return round(float(rng.uniform(*bounds)), digits)


class Author:
    """Draws the content of one scene.

    recipe: split of each varied thing. barred: affordances of things that are not drawn. The names of drawn things are unique.
    """

    def __init__(self, catalogue: Catalogue, recipe: Recipe, layout: Layout, rng: np.random.Generator, barred: frozenset[str]) -> None:
        self.catalogue, self.recipe, self.layout, self.rng, self._barred = catalogue, recipe, layout, rng, barred
        self._used: set[tuple[str, str]] = set()  # (colour, category) pairs: never twice, so that names are unique
        self.content = Content()

    def choice(self, items: Sequence[T]) -> T:
        """One of them, drawn."""
        return choice(self.rng, items)

    def count_of_others(self, spare: int = 1) -> int:
        """How many other free objects the layout has; ``spare`` slots are kept for those of the task."""
        low, high = self.layout.others
        counts = range(max(low, 1), max(min(high, FREE_SLOTS - spare), max(low, 1)) + 1)
        weights = np.array([OTHERS_WEIGHTS[n] for n in counts])
        return int(self.rng.choice(counts, p=weights / weights.sum()))

    def categories(self, kind: str, split: str = "train", affords: str = "") -> tuple[str, ...]:
        """Names of the categories of a kind and split that may be drawn, or of those with an affordance, barred or not."""
        drawn = self.catalogue.categories(kind, affords) if affords else self.catalogue.categories(kind, without=self._barred)
        return tuple(c for c in drawn if category_split(c) == split)

    def with_role(self, role: str) -> Item:
        """The first item that has the role."""
        return next(i for i in [*self.content.fixtures, *self.content.free] if i.role == role)

    def item(self, category: str, role: str, colour: str | None, scales: tuple[float, float] | None = None) -> Item:
        """An instance of a category at a drawn scale, mass and friction; in ``colour`` where it has it.

        scales: lowest and highest scale; None for SCALE_RANGE of free things and 1 of fixtures.
        """
        return self._made(choice(self.rng, self._instances(category)), role, colour, scales)

    def fitting(self, categories: Sequence[str], role: str, fits: Callable[[Asset], bool]) -> Item:
        """An instance, of a category drawn from those that have any, that fits at every scale that may be drawn.

        Raises:
          Rejected: none does.
        """
        found = {c: [a for a in self._instances(c) if all(fits(a.scaled(s)) for s in SCALE_RANGE)] for c in categories}
        usable = [c for c, assets in found.items() if assets]
        if not usable:
            raise Rejected(f"nothing fits as the {role}")
        return self._made(choice(self.rng, found[choice(self.rng, usable)]), role, None, None)

    def _instances(self, category: str) -> list[Asset]:
        own = category_split(category)
        split = self.recipe.instances if own == "train" else own
        return [a for a in self.catalogue.instances(category) if a.split == split]

    def _made(self, asset: Asset, role: str, colour: str | None, scales: tuple[float, float] | None) -> Item:
        rng, category = self.rng, asset.category
        free_colours = [c for c in asset.colours if (c, category) not in self._used]
        colour = colour if colour in free_colours else choice(rng, free_colours)
        self._used.add((colour, category))
        bounds = scales or (SCALE_RANGE if asset.kind == "object" else None)
        scale = 1.0 if bounds is None else _uniform(rng, bounds, 3)
        item = Item(asset.scaled(scale), role)
        c = self.content
        c.colours[id(item)], c.scale[id(item)] = colour, scale
        c.friction[id(item)] = 1.0 if asset.kind != "object" else _uniform(rng, FRICTION_RANGE, 3)
        c.mass[id(item)] = asset.mass_kg if asset.kind != "object" else round(asset.mass_kg * scale**3 * float(rng.uniform(*MASS_SHARE)), 4)
        return item

    def add_fixtures(self, kind: str, scales: tuple[float, float] | None = None) -> None:
        """The reference where ``kind`` is a kind of fixture, and what stands beside it. scales: of the reference, as in ``item``."""
        rng, c = self.rng, self.content
        supports, containers = self.categories("support"), self.categories("container")
        if self.layout.raised:
            # the stool carries the target; the reference, or a second fixture to choose from, stands elsewhere
            c.fixtures.append(self.item("stand", "other", None))
            if kind == "landmark":
                c.fixtures.append(self.item(choice(rng, supports + containers), "other", None))
                return
            c.fixtures.append(self.item(choice(rng, supports if kind == "support" else containers), "reference", None, scales))
            return
        two = self.layout.passage or rng.random() < TWO_FIXTURES
        if kind == "landmark":
            for _ in range(2 if two else 1):
                c.fixtures.append(self.item(choice(rng, supports + containers), "other", None))
            return
        same_kind = supports if kind == "support" else containers
        reference = self.item(choice(rng, same_kind), "reference", None, scales)
        c.fixtures.append(reference)
        if two:
            draw = rng.random()
            if draw < 0.4:  # same category, another colour: only the colour word tells them apart
                other, colour = reference.asset.category, None
            elif draw < 0.7:  # same colour, another category: only the category word does
                other, colour = choice(rng, [x for x in supports + containers if x != reference.asset.category]), c.colours[id(reference)]
            else:
                other, colour = choice(rng, supports + containers), None
            c.fixtures.append(self.item(other, "other", colour))
            if rng.random() < 0.5:
                c.fixtures.reverse()

    def next_one(self, categories: Sequence[str], fits: Callable[[Asset], bool]) -> bool:
        """Add a bystander that a task with one goal more could ask for, where there is any; whether there is."""
        try:
            self.content.free.append(self.fitting(categories, "other", fits))
        except Rejected:
            return False
        return True

    def companion(self, target: Item, role: str, first: bool) -> Item:
        """Another free object; the first one shares the target's category or its colour, later ones may."""
        rng, colour = self.rng, self.content.colours[id(target)]
        trained = self.categories("object")
        share = rng.random() if first else rng.random() * 2
        if share < 0.5:
            return self.item(target.asset.category, role, None)
        if share < 1.0:
            return self.item(choice(rng, [c for c in trained if c != target.asset.category]), role, colour)
        return self.item(choice(rng, trained), role, None)
