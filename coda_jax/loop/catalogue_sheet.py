"""The catalogue as a picture: one tile a category, or one tile an instance of a category, rendered from what the simulation compiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from coda_jax.evaluation.film import write_strip
from coda_jax.loop.view import PICTURES
from coda_jax.programs.expressions import Expr
from coda_jax.runtime import InputError
from coda_jax.scenes.articulated import Articulated
from coda_jax.scenes.assets import Asset
from coda_jax.scenes.catalogue import Catalogue, UnknownAsset
from coda_jax.scenes.categories import tree
from coda_jax.scenes.spec import AttributeFactor, ObjectAttributes, Placement, Role, SceneSpec, SpatialFactor, TaskFactor
from coda_jax.sim.cameras import Camera
from coda_jax.sim.compile import bucket_of, compile_scene
from coda_jax.sim.render import render

HEIGHT, WIDTH, COLUMNS = 120, 150, 10
_SHOWN = 3  # number of the instance that stands for its category
_WHERE_M = (0.55, -0.42)  # beside the workspace: the arm is out of the picture, the table is in it
_YAW_RAD, _LONG_YAW_RAD = 0.6, 1.1  # what is longer along y is turned so that its length is seen
_OPENING = 1 / 3
_COLOURS = ("red", "green", "blue", "yellow", "orange", "purple")
_LABEL, _GAP = 30, 4
_BACKGROUND, _INK, _MUTED, _HELD_OUT = (255, 255, 255), (31, 41, 55), (107, 114, 128), (185, 28, 28)


def scene_of(asset: Asset, colour: str) -> SceneSpec:
    """A scene of this thing alone, a joint a third open; nothing is asked of it."""
    joint = asset.articulation if isinstance(asset, Articulated) else None
    name, (x, y) = asset.category, _WHERE_M
    yaw = _LONG_YAW_RAD if asset.half_extent_m[1] > 1.2 * asset.half_extent_m[0] else _YAW_RAD
    placement = Placement(name, (x, y, asset.half_extent_m[2]), yaw, "table", "table", 0.0, _OPENING if joint else None)
    return SceneSpec(
        TaskFactor("pick_place", f"put the {name} on the table", Expr("on", (name, "table")), (), (Role(name, "target"),)),
        SpatialFactor("catalogue", (placement,)),
        AttributeFactor((ObjectAttributes(name, asset.asset_id, 1.0, asset.mass_kg, asset.friction, colour, joint),)),
    )


def _camera(asset: Asset) -> Camera:
    """Looks down at the thing from the robot's right, from as far away as its size asks for."""
    x, y = _WHERE_M
    far = 3.0 * math.dist(asset.half_extent_m, (0.0, 0.0, 0.0)) + 0.02
    eye = (x + 0.35 * far, y - 0.95 * far, 0.75 * far + asset.half_extent_m[2])
    return Camera(eye, (x, y, 0.9 * asset.half_extent_m[2]), (0.0, 0.0, 1.0), 34.0)


def tile(asset: Asset, catalogue: Catalogue, colour: str, height: int = HEIGHT, width: int = WIDTH) -> np.ndarray:
    """Picture of one asset, [height, width, 3] uint8."""
    spec = scene_of(asset, colour)
    scene = compile_scene(spec, catalogue, bucket_of(spec, catalogue))
    return render(scene.model, scene.qpos[None], _camera(asset), height=height, width=width)[0]


def sheet(assets: Sequence[Asset], catalogue: Catalogue, names: Sequence[str], notes: Sequence[str]) -> Image.Image:
    """Tiles in rows of COLUMNS, with a name and a note under each; held-out ones are named in red."""
    rows = math.ceil(len(assets) / COLUMNS)
    columns = min(COLUMNS, len(assets))
    picture = Image.new("RGB", (columns * (WIDTH + _GAP) - _GAP, rows * (HEIGHT + _LABEL + _GAP) - _GAP), _BACKGROUND)
    draw, font, small = ImageDraw.Draw(picture), ImageFont.load_default(size=13), ImageFont.load_default(size=10)
    shade = {group: _COLOURS[i % len(_COLOURS)] for i, group in enumerate(dict.fromkeys(tree.path(a.category)[-2] for a in assets))}
    for i, (asset, name, note) in enumerate(zip(assets, names, notes, strict=True)):
        left, top = i % COLUMNS * (WIDTH + _GAP), i // COLUMNS * (HEIGHT + _LABEL + _GAP)
        picture.paste(Image.fromarray(tile(asset, catalogue, shade[tree.path(asset.category)[-2]])), (left, top))
        draw.text((left + 3, top + HEIGHT), name, fill=_INK if asset.split == "train" else _HELD_OUT, font=font)
        draw.text((left + 3, top + HEIGHT + 15), note, fill=_MUTED, font=small)
    return picture


def of_categories(catalogue: Catalogue) -> Image.Image:
    """One instance of every category, in the order of the tree; under each what it is a kind of, and its split where it is held out."""
    listed = [c for c in tree.leaves() if c in catalogue.categories()]
    listed += [c for c in catalogue.categories() if c not in listed]
    assets = [catalogue.instances(c)[min(_SHOWN, len(catalogue.instances(c)) - 1)] for c in listed]
    notes = [
        tree.path(c)[-2].replace("_", " ") + ("" if a.split == "train" else f", {a.split}") for c, a in zip(listed, assets, strict=True)
    ]
    return sheet(assets, catalogue, listed, notes)


def of_instances(catalogue: Catalogue, category: str) -> Image.Image:
    """Every instance of one category, with its size in millimetres and its split.

    Raises:
      UnknownAsset: the catalogue holds none.
    """
    assets = catalogue.instances(category)
    sizes = [" x ".join(f"{2000 * h:.0f}" for h in a.half_extent_m) + " mm" for a in assets]
    return sheet(assets, catalogue, [a.asset_id for a in assets], [f"{s}, {a.split}" for s, a in zip(sizes, assets, strict=True)])


def run(what: str, output: Path | None) -> None:
    """Draw all categories (``what`` is "all") or the instances of one, and print where the picture is.

    Args:
      output: the file; None for runs/pictures/catalogue.png, or catalogue_CATEGORY.png.

    Raises:
      InputError: there is no such category, or the picture cannot be written.
    """
    catalogue = Catalogue.all()
    try:
        picture = of_categories(catalogue) if what == "all" else of_instances(catalogue, what)
    except UnknownAsset as error:
        raise InputError(f"--catalogue={what}: {error}, or all") from error
    path = output or PICTURES / ("catalogue.png" if what == "all" else f"catalogue_{what}.png")
    try:
        write_strip(path, picture)
    except (OSError, ValueError) as error:
        raise InputError(f"--output={path} cannot be written: {error}") from error
    print(f"picture: {path}")
