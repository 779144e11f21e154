"""The seed-scene generator: from a seed to a scene, and from a scene to the program text that engines write too.

Each of the four things that suites vary (instances, layouts, goal pairs, categories) is drawn from its own split, so a suite is a
``Recipe`` and shares every other line with the training scenes.
"""

from __future__ import annotations

import collections
import dataclasses
import zlib

import numpy as np

from coda_jax.scenes import families, language
from coda_jax.scenes.arrange import Arranger, Item, Placed, Rejected
from coda_jax.scenes.assets import Asset
from coda_jax.scenes.catalogue import Catalogue, category_split
from coda_jax.scenes.layouts import Layout, layouts
from coda_jax.scenes.program import to_program
from coda_jax.scenes.spec import (
    AttributeFactor,
    ObjectAttributes,
    Placement,
    Relation,
    Role,
    SceneSpec,
    SpatialFactor,
    TaskFactor,
)
from coda_jax.types import FREE_SLOTS

SUITES = ("id", "instances", "layouts", "tasks", "categories")
ATTEMPTS = 400  # fresh draws of content and places for one seed; a hundredth of this is usual
ARRANGEMENTS = 6  # arrangements of one content before other content is drawn
SCALE_RANGE = (0.96, 1.04)
MASS_SHARE = (0.85, 1.15)
FRICTION_RANGE = (0.9, 1.1)
OTHERS_WEIGHTS = {1: 0.3, 2: 0.3, 3: 0.25, 4: 0.15}
_USES = {"object": "graspable", "support": "supports", "container": "contains"}  # what a thing of each kind must afford to be drawn
TWO_FIXTURES = 0.85  # share of scenes with a second candidate for the reference


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Split that each varied thing is drawn from; pairs also decides the phrasings of the instruction."""

    name: str
    instances: str = "train"
    layouts: str = "train"
    pairs: str = "train"
    categories: str = "train"


def recipe(suite: str, split: str) -> Recipe:
    """What a suite varies.

    Raises:
      ValueError: unknown suite or split; the message lists the known ones.
    """
    if suite not in SUITES:
        raise ValueError(f"unknown suite {suite!r}: use one of {', '.join(SUITES)}")
    if split not in ("train", "validation", "test"):
        raise ValueError(f"unknown split {split!r}: use train, validation or test")
    if split == "train" and suite != "id":
        raise ValueError(f"suite {suite!r} has no training split: training scenes are suite 'id'")
    name = f"{suite}/{split}"
    field = {"instances": "instances", "layouts": "layouts", "tasks": "pairs", "categories": "categories"}.get(suite)
    return dataclasses.replace(Recipe(name), **{field: split}) if field else Recipe(name)


def _choice(rng: np.random.Generator, items):
    return items[int(rng.integers(len(items)))]


def _uniform(rng: np.random.Generator, bounds: tuple[float, float], digits: int) -> float:
    return round(float(rng.uniform(*bounds)), digits)


@dataclasses.dataclass(frozen=True)
class _Content:
    """What stands in a scene before it is placed: fixtures and free objects (target first) with their colours."""

    relation: str
    fixtures: list[Item]
    free: list[Item]
    colours: dict[int, str]  # by id() of the item
    friction: dict[int, float]
    scale: dict[int, float]
    mass: dict[int, float]


class _Author:
    """Draws the content of one scene."""

    def __init__(self, catalogue: Catalogue, recipe_: Recipe, layout: Layout, rng: np.random.Generator) -> None:
        self.catalogue, self.recipe, self.layout, self.rng = catalogue, recipe_, layout, rng
        self.used: set[tuple[str, str]] = set()  # (colour, category) pairs: never twice, so that names are unique

    def content(self) -> _Content:
        rng = self.rng
        relation, kind = _choice(rng, families.pairs(self.recipe.pairs))
        low, high = self.layout.others
        counts = range(max(low, 1), min(high, FREE_SLOTS - 1) + 1)
        weights = np.array([OTHERS_WEIGHTS[n] for n in counts])
        others = int(rng.choice(counts, p=weights / weights.sum()))
        self.content_ = _Content(relation, [], [], {}, {}, {}, {})
        target_category = _choice(rng, self._categories("object", self.recipe.categories))
        target = self._item(target_category, "target", None)
        self._place_fixtures(kind, target)
        self.content_.free.append(target)
        for n in range(others):
            is_reference = kind == "landmark" and n == 0
            self.content_.free.append(self._companion(target, "reference" if is_reference else "other", first=n == 0))
        reference = next(i for i in [*self.content_.fixtures, *self.content_.free] if i.role == "reference")
        if not families.can_hold(relation, target.asset, reference.asset):
            raise Rejected("target does not fit the reference")
        return self.content_

    def _categories(self, kind: str, split: str) -> tuple[str, ...]:
        use = _USES[kind]
        return tuple(c for c in self.catalogue.categories(kind, use) if category_split(c) == split)

    def _item(self, category: str, role: str, colour: str | None) -> Item:
        rng = self.rng
        own = category_split(category)
        split = self.recipe.instances if own == "train" else own
        asset = _choice(rng, [a for a in self.catalogue.instances(category) if a.split == split])
        free_colours = [c for c in asset.colours if (c, category) not in self.used]
        colour = colour if colour in free_colours else _choice(rng, free_colours)
        self.used.add((colour, category))
        scale = 1.0 if asset.kind != "object" else _uniform(rng, SCALE_RANGE, 3)
        item = Item(asset.scaled(scale), role)
        c = self.content_
        c.colours[id(item)], c.scale[id(item)] = colour, scale
        c.friction[id(item)] = 1.0 if asset.kind != "object" else _uniform(rng, FRICTION_RANGE, 3)
        c.mass[id(item)] = asset.mass_kg if asset.kind != "object" else round(asset.mass_kg * scale**3 * float(rng.uniform(*MASS_SHARE)), 4)
        return item

    def _place_fixtures(self, kind: str, target: Item) -> None:
        rng, c = self.rng, self.content_
        supports, containers = self._categories("support", "train"), self._categories("container", "train")
        if self.layout.raised:
            # the stool carries the target; the reference, or a second fixture to choose from, stands elsewhere
            c.fixtures.append(self._item("stand", "other", None))
            if kind == "landmark":
                c.fixtures.append(self._item(_choice(rng, supports + containers), "other", None))
                return
            c.fixtures.append(self._item(_choice(rng, supports if kind == "support" else containers), "reference", None))
            return
        two = self.layout.passage or rng.random() < TWO_FIXTURES
        if kind == "landmark":
            for _ in range(2 if two else 1):
                c.fixtures.append(self._item(_choice(rng, supports + containers), "other", None))
            return
        same_kind = supports if kind == "support" else containers
        reference = self._item(_choice(rng, same_kind), "reference", None)
        c.fixtures.append(reference)
        if two:
            draw = rng.random()
            if draw < 0.4:  # same category, another colour: only the colour word tells them apart
                other, colour = reference.asset.category, None
            elif draw < 0.7:  # same colour, another category: only the category word does
                other, colour = _choice(rng, [x for x in supports + containers if x != reference.asset.category]), c.colours[id(reference)]
            else:
                other, colour = _choice(rng, supports + containers), None
            c.fixtures.append(self._item(other, "other", colour))
            if rng.random() < 0.5:
                c.fixtures.reverse()

    def _companion(self, target: Item, role: str, first: bool) -> Item:
        """Another free object; the first one shares the target's category or its colour, later ones may."""
        rng, colour = self.rng, self.content_.colours[id(target)]
        trained = self._categories("object", "train")
        share = rng.random() if first else rng.random() * 2
        if share < 0.5:
            return self._item(target.asset.category, role, None)
        if share < 1.0:
            return self._item(_choice(rng, [c for c in trained if c != target.asset.category]), role, colour)
        return self._item(_choice(rng, trained), role, None)


def _stream(recipe_: Recipe, family: str, seed: int) -> np.random.Generator:
    return np.random.default_rng([zlib.crc32(f"{family}/{recipe_.name}".encode()), seed])


def sample_spec(
    catalogue: Catalogue,
    family: str,
    suite: str,
    split: str,
    seed: int,
    rejections: collections.Counter[str] | None = None,
) -> SceneSpec:
    """The scene of a seed; the same on every machine.

    Args:
      catalogue: holds what the recipe draws from (``Catalogue("train")`` for training scenes, ``Catalogue.all()`` for suites).
      rejections: counts every rejected draw by reason.

    Raises:
      ValueError: unknown family, suite or split, or no scene found within the attempts (the reasons are listed).
    """
    if family not in families.FAMILIES:
        raise ValueError(f"unknown family {family!r}: this version has {', '.join(families.FAMILIES)}")
    counts = collections.Counter() if rejections is None else rejections
    recipe_ = recipe(suite, split)
    rng = _stream(recipe_, family, seed)
    for _ in range(ATTEMPTS):
        layout = _choice(rng, layouts(recipe_.layouts))
        try:
            content = _Author(catalogue, recipe_, layout, rng).content()
        except Rejected as reason:
            counts[str(reason)] += 1
            continue
        for _ in range(ARRANGEMENTS):
            try:
                placed = Arranger(layout, rng, counts).arrange(content.relation, content.fixtures, content.free)
            except Rejected as reason:
                counts[str(reason)] += 1
                continue
            return _to_spec(family, recipe_, layout, content, placed, rng, seed)
    raise ValueError(f"no {recipe_.name} scene for seed {seed} in {ATTEMPTS} attempts; rejections: {dict(counts.most_common(6))}")


def sample(catalogue: Catalogue, family: str = "pick_place", suite: str = "id", split: str = "train", seed: int = 0) -> str:
    """The scene of a seed as program text, the form in which engines write scenes. Raises as ``sample_spec`` does."""
    return to_program(sample_spec(catalogue, family, suite, split, seed))


def _to_spec(
    family: str, recipe_: Recipe, layout: Layout, content: _Content, placed: list[Placed], rng: np.random.Generator, seed: int
) -> SceneSpec:
    free = [p for p in placed if p.item.asset.kind == "object"]
    fixtures = [p for p in placed if p.item.asset.kind != "object"]
    # the order of the tokens must not tell the roles
    ordered = [free[i] for i in rng.permutation(len(free))] + [fixtures[i] for i in rng.permutation(len(fixtures))]
    numbers: collections.Counter[str] = collections.Counter()
    names: dict[int, str] = {}
    for p in ordered:
        numbers[p.item.asset.category] += 1
        names[id(p.item)] = f"{p.item.asset.category}_{numbers[p.item.asset.category]}"

    target = next(p for p in placed if p.item.role == "target")
    reference = next(p for p in placed if p.item.role == "reference")
    t, r = names[id(target.item)], names[id(reference.item)]

    def words(p: Placed) -> str:
        return language.noun(content.colours[id(p.item)], p.item.asset.category)

    phrasing = "train"
    if recipe_.pairs != "train" and seed % 2 == 1:
        phrasing = recipe_.pairs  # every second scene of the tasks suite is also asked for in other words
    template = _choice(rng, language.templates(content.relation, phrasing))
    relations, roles, placements, attributes = [], [], [], []
    for p in ordered:
        name, asset = names[id(p.item)], p.item.asset
        support = names[id(placed[p.support].item)] if p.support >= 0 else "table"
        relations.append(Relation("on", name, support))
        roles.extend(Role(name, role) for role in _roles(p, target, content))
        centre = (round(p.x, 4), round(p.y, 4), round(p.bottom + asset.half_extent_m[2], 6))
        placements.append(Placement(name, centre, round(p.yaw, 4), support, p.region, layout.clearance_m))
        key = id(p.item)
        attributes.append(
            ObjectAttributes(name, asset.asset_id, content.scale[key], content.mass[key], content.friction[key], content.colours[key])
        )
    goal = families.goal_expression(content.relation, t, r, target.item.asset, reference.item.asset)
    task = TaskFactor(family, template.render(words(target), words(reference)), goal, tuple(relations), tuple(roles))
    return SceneSpec(task, SpatialFactor(layout.layout_id, tuple(placements)), AttributeFactor(tuple(attributes)))


def _roles(p: Placed, target: Placed, content: _Content) -> list[str]:
    asset: Asset = p.item.asset
    roles = [p.item.role] if p.item.role != "other" else []
    if asset.kind != "object":
        roles.append(asset.kind)
    elif not roles:
        alike = asset.category == target.item.asset.category or content.colours[id(p.item)] == content.colours[id(target.item)]
        roles.append("distractor" if alike else "obstacle")
    return roles
