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
from coda_jax.scenes.arrange import Arranger, Placed
from coda_jax.scenes.assets import Asset
from coda_jax.scenes.at_start import true_at_start
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.content import Author, Content, choice
from coda_jax.scenes.layouts import Layout
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

SUITES = ("id", "instances", "layouts", "tasks", "categories")
ATTEMPTS = 400  # fresh draws of content and places for one seed; a hundredth of this is usual
ARRANGEMENTS = 6  # arrangements of one content before other content is drawn


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
    if family not in families.names():
        raise ValueError(f"unknown family {family!r}: this version has {', '.join(families.names())}")
    counts = collections.Counter() if rejections is None else rejections
    recipe_, made_for = recipe(suite, split), families.get(family)
    rng = _stream(recipe_, family, seed)
    for _ in range(ATTEMPTS):
        layout = choice(rng, made_for.layouts_of(recipe_.layouts))
        author = Author(catalogue, recipe_, layout, rng, made_for.barred)
        try:
            made_for.compose(author)
        except families.Rejected as reason:
            counts[str(reason)] += 1
            continue
        for _ in range(ARRANGEMENTS):
            try:
                placed = Arranger(layout, rng, counts).arrange(made_for, author.content)
            except families.Rejected as reason:
                counts[str(reason)] += 1
                continue
            spec = _to_spec(made_for, recipe_, layout, author.content, placed, rng, seed)
            containers = [n for n, a in families.scaled_assets(spec).items() if a.kind == "container"]
            if not true_at_start(spec.task.goal, {p.object: p for p in spec.spatial.placements}, containers):
                return spec
            counts["goal true at the start"] += 1
    raise ValueError(f"no {recipe_.name} scene for seed {seed} in {ATTEMPTS} attempts; rejections: {dict(counts.most_common(6))}")


def sample(catalogue: Catalogue, family: str = "pick_place", suite: str = "id", split: str = "train", seed: int = 0) -> str:
    """The scene of a seed as program text, the form in which engines write scenes. Raises as ``sample_spec`` does."""
    return to_program(sample_spec(catalogue, family, suite, split, seed))


def training_scene(catalogue: Catalogue, family: str, seed: int) -> SceneSpec:
    """A training scene of any family: the generator's, or the family's own. Raises as ``sample_spec`` does."""
    own = families.get(family).seed_scene(catalogue, seed)
    return sample_spec(catalogue, family, "id", "train", seed) if own is None else own[1]


def _to_spec(
    family: families.Family, recipe_: Recipe, layout: Layout, content: Content, placed: list[Placed], rng: np.random.Generator, seed: int
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

    goals = tuple(families.Goal(relation, names[id(t)], names[id(r)]) for relation, t, r in content.goals)
    items = {names[id(p.item)]: p.item for p in placed}
    called = [language.noun(content.colours[id(items[n])], items[n].asset.category) for n in families.named(goals)]
    relation = family.relation_of(goals)
    assert relation is not None, f"{family.name} composed a task that it does not know: {goals}"
    phrasing = "train"
    if recipe_.pairs != "train" and seed % 2 == 1:
        phrasing = recipe_.pairs  # every second scene of the tasks suite is also asked for in other words
    template = choice(rng, language.templates(family.name, relation, phrasing))
    relations, roles, placements, attributes = [], [], [], []
    for p in ordered:
        name, asset = names[id(p.item)], p.item.asset
        support = names[id(placed[p.support].item)] if p.support >= 0 else "table"
        relations.append(Relation("on", name, support))
        roles.extend(Role(name, role) for role in _roles(p, content))
        centre = (round(p.x, 4), round(p.y, 4), round(p.bottom + asset.half_extent_m[2], 6))
        key = id(p.item)
        yaw, opening = round(p.yaw, 4), content.openings.get(key)
        placements.append(Placement(name, centre, yaw, support, p.region, layout.clearance_m, opening))
        drawn = (content.scale[key], content.mass[key], content.friction[key], content.colours[key], content.articulations.get(key))
        attributes.append(ObjectAttributes(name, asset.asset_id, *drawn))
    goal = family.task(goals, {name: item.asset for name, item in items.items()})
    task = TaskFactor(family.name, template.render(*called), goal, tuple(relations), tuple(roles))
    return SceneSpec(task, SpatialFactor(layout.layout_id, tuple(placements)), AttributeFactor(tuple(attributes)))


def _roles(p: Placed, content: Content) -> list[str]:
    asset: Asset = p.item.asset
    first = content.free[0]
    roles = [p.item.role] if p.item.role != "other" else []
    if asset.kind in ("support", "container"):
        roles.append(asset.kind)
    elif not roles:
        alike = asset.category == first.asset.category or content.colours[id(p.item)] == content.colours[id(first)]
        roles.append("distractor" if alike else "obstacle")
    return roles
