"""What keeps evaluation honest: no held-out content may enter training, whoever wrote the scene."""

from __future__ import annotations

from importlib.resources.abc import Traversable

from coda_jax.programs.expressions import shown
from coda_jax.scenes import families, language, suites
from coda_jax.scenes.assets import Asset
from coda_jax.scenes.catalogue import CATEGORIES, Catalogue, category_split
from coda_jax.scenes.categories import tree
from coda_jax.scenes.fingerprint import frozen_index
from coda_jax.scenes.held_layouts import held_out_geometry
from coda_jax.scenes.spec import SceneSpec


class HeldOutContent(ValueError):
    """A scene holds something that only evaluation may see. ``kind``: instance, category, layout, goal, instruction or scene."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def refuse_held_out(spec: SceneSpec, catalogue: Catalogue, folder: Traversable | None = None) -> None:
    """Refuse a scene for training if it holds held-out content.

    Args:
      catalogue: what may be used, ``Catalogue("train")``.
      folder: of the frozen suites; None for the package's own.

    Raises:
      HeldOutContent: the first finding: what, where, and what to use instead.
      UnknownAsset: an asset that no split holds.
    """
    frozen = suites.frozen_scenes(folder).get(spec.scene_id) or frozen_index(folder).same(spec)
    if frozen is not None:
        raise HeldOutContent(
            "scene",
            f"the scene is frozen for evaluation, as {frozen.scene_id} in {frozen.file}: draw one of your own, do not start from it",
        )
    family = families.family_of(spec)
    if (found := family.held_out(spec)) is not None:
        raise HeldOutContent(*found)
    if family.platform != families.TABLETOP:  # what follows is about the catalogue, the layouts and the words of our own table
        return
    everything = Catalogue.all()
    assets: dict[str, Asset] = {}
    for thing in spec.attributes.objects:
        if thing.asset not in catalogue:
            _refuse_asset(thing.object, everything.get(thing.asset), catalogue)
        assets[thing.object] = everything.get(thing.asset)
    layout = families.find_layout(spec.spatial.layout)
    if layout is not None and layout.split != "train":
        offered = ", ".join(dict.fromkeys(x.rule or x.layout_id for x in families.family_of(spec).layouts_of("train")))
        raise HeldOutContent("layout", f"layout {layout.layout_id!r} is held out for {layout.split}: use {offered}, or an id of your own")
    if (reason := held_out_geometry(spec)) is not None:
        raise HeldOutContent("layout", reason)
    _refuse_goal(spec, assets)
    _refuse_words(spec.task.instruction)


def _refuse_words(instruction: str) -> None:
    template = language.held_out(instruction)
    if template is not None:
        offered = language.templates(template.family, template.relation, "train")[0].text
        raise HeldOutContent(
            "instruction", f"instruction {instruction!r} holds a phrasing that is held out for {template.split}: write it like {offered!r}"
        )
    for word in language.words(instruction):
        category = next((CATEGORIES[w] for w in (word, word.removesuffix("s"), word.removesuffix("es")) if w in CATEGORIES), None)
        if category is not None and category.split != "train":
            offered = " or ".join(tree.nearest(category.name, Catalogue("train").categories(category.kind)))
            raise HeldOutContent(
                "instruction",
                f"instruction {instruction!r} names a {category.name}, a category held out for {category.split}: use {offered}",
            )


def _refuse_asset(name: str, asset: Asset, catalogue: Catalogue) -> None:
    if (split := category_split(asset.category)) != "train":
        offered = " or ".join(tree.nearest(asset.category, catalogue.categories(asset.kind)))
        raise HeldOutContent("category", f"{name} is a {asset.category}, a category held out for {split}: use {offered}")
    offered = ", ".join(a.asset_id for a in catalogue.instances(asset.category))
    raise HeldOutContent("instance", f"{name} uses {asset.asset_id}, an instance held out for {asset.split}: use one of {offered}")


def _refuse_goal(spec: SceneSpec, assets: dict[str, Asset]) -> None:
    family = families.family_of(spec)
    for pair in sorted(family.pairs_in(spec.task.goal, assets)):
        split = family.pairs.get(pair)
        if split != "train":
            trained = ", ".join(f"{relation} a {kind}" for relation, kind in family.pairs_of("train"))
            why = f"is held out for {split}" if split else "is never trained"
            raise HeldOutContent("goal", f"goal {shown(spec.task.goal)}: {pair[0]} a {pair[1]} {why}; goals to train on: {trained}")
