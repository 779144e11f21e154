"""The catalogue: categories with parameter ranges, their parametric instances, and which split may see which.

Instances come from a table of ranges and a fixed low-discrepancy sequence, so the catalogue is the same on every machine and its hash
names it. Training instances fill the middle of each range, held-out instances its ends: they are new sizes, not new draws of old ones.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import hashlib
import json

from coda_jax.scenes.assets import Asset
from coda_jax.scenes.shapes import articulated, fixtures, held_out, insert, objects
from coda_jax.scenes.shapes.build import Builder, assemble, volume

VERSION = 1
SPLITS = ("train", "validation", "test")
INSTANCES = 12
MASS_RANGE_KG = (0.03, 0.4)
_TRAIN_SHARE = (0.2, 0.8)  # part of each range that training instances fill
_EDGE = 0.1  # held-out instances lie in this share at both ends


class UnknownAsset(KeyError):
    """An asset id or category that this catalogue does not hold; the message names the nearest ones."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclasses.dataclass(frozen=True)
class Category:
    """A kind of thing. ranges: lowest and highest value of each parameter (m, rad). density in kg/m^3 (hollow things: effective)."""

    name: str
    kind: str
    split: str
    builder: Builder
    density: float
    ranges: tuple[tuple[str, float, float], ...]
    affordances: tuple[str, ...] = ()


_GRASP = ("graspable",)
_CATEGORIES = (
    Category(
        "block",
        "object",
        "train",
        objects.block,
        600,
        (("width", 0.03, 0.048), ("aspect", 1.0, 1.4), ("height", 0.028, 0.056)),
        _GRASP,
    ),
    Category("ball", "object", "train", objects.ball, 500, (("radius", 0.02, 0.032),), (*_GRASP, "rollable")),
    Category(
        "carton",
        "object",
        "train",
        objects.carton,
        350,
        (("depth", 0.03, 0.046), ("width", 0.074, 0.092), ("height", 0.06, 0.1)),
        _GRASP,
    ),
    Category("can", "object", "train", objects.can, 500, (("radius", 0.023, 0.032), ("height", 0.06, 0.105)), _GRASP),
    Category(
        "bottle",
        "object",
        "train",
        objects.bottle,
        500,
        (("radius", 0.024, 0.031), ("body", 0.055, 0.075), ("neck_radius", 0.011, 0.014), ("neck", 0.02, 0.029)),
        _GRASP,
    ),
    Category(
        "mug",
        "object",
        "train",
        objects.mug,
        550,
        (("radius", 0.025, 0.032), ("height", 0.06, 0.09), ("handle", 0.018, 0.028)),
        _GRASP,
    ),
    Category(
        "banana",
        "object",
        "train",
        objects.banana,
        700,
        (("radius", 0.014, 0.019), ("segment", 0.036, 0.052), ("bend", 0.25, 0.5)),
        _GRASP,
    ),
    Category(
        "hammer",
        "object",
        "train",
        objects.hammer,
        900,
        (("radius", 0.0125, 0.016), ("length", 0.085, 0.115), ("head", 0.055, 0.08), ("thick", 0.028, 0.036)),
        _GRASP,
    ),
    Category(
        "screwdriver",
        "object",
        "validation",
        held_out.screwdriver,
        700,
        (("width", 0.026, 0.034), ("grip", 0.06, 0.08), ("shaft_radius", 0.004, 0.006), ("shaft", 0.05, 0.08)),
        _GRASP,
    ),
    Category("pear", "object", "validation", held_out.pear, 800, (("radius", 0.0245, 0.029), ("top", 0.012, 0.0145)), _GRASP),
    Category(
        "dumbbell",
        "object",
        "test",
        held_out.dumbbell,
        700,
        (("bar_radius", 0.01, 0.014), ("gap", 0.05, 0.06), ("head", 0.04, 0.05), ("thick", 0.02, 0.028)),
        _GRASP,
    ),
    Category(
        "goblet",
        "object",
        "test",
        held_out.goblet,
        600,
        (("foot", 0.026, 0.03), ("stem", 0.02, 0.032), ("radius", 0.024, 0.03), ("cup", 0.036, 0.048)),
        _GRASP,
    ),
    Category("plate", "support", "train", fixtures.plate, 0, (("radius", 0.062, 0.082), ("height", 0.01, 0.016)), ("supports",)),
    Category(
        "board",
        "support",
        "train",
        fixtures.board,
        0,
        (("width", 0.105, 0.14), ("length", 0.12, 0.16), ("height", 0.01, 0.02)),
        ("supports",),
    ),
    Category(
        "tray",
        "support",
        "train",
        fixtures.tray,
        0,
        (("width", 0.11, 0.14), ("length", 0.13, 0.17), ("height", 0.016, 0.026)),
        ("supports",),
    ),
    Category(
        "stand",
        "support",
        "train",
        fixtures.stand,
        0,
        (("width", 0.11, 0.135), ("length", 0.11, 0.135), ("height", 0.04, 0.07)),
        ("supports",),
    ),
    Category(
        "bowl",
        "container",
        "train",
        fixtures.bowl,
        0,
        (("width", 0.12, 0.14), ("depth", 0.042, 0.052), ("lean", 0.2, 0.45)),
        ("contains",),
    ),
    Category(
        "basket",
        "container",
        "train",
        fixtures.basket,
        0,
        (("width", 0.125, 0.14), ("length", 0.14, 0.17), ("depth", 0.045, 0.058)),
        ("contains",),
    ),
    Category("bin", "container", "train", fixtures.bin_, 0, (("width", 0.128, 0.15), ("depth", 0.048, 0.06)), ("contains",)),
    Category(
        "box",
        "container",
        "train",
        fixtures.box_,
        0,
        (("width", 0.125, 0.14), ("length", 0.14, 0.17), ("depth", 0.032, 0.044)),
        ("contains",),
    ),
)
# Of insertion alone: no suite that is frozen holds any, so they are not part of the hash yet.
_INSERTION = (
    Category(
        "peg",
        "object",
        "train",
        insert.peg,
        600,
        (("width", 0.028, 0.036), ("shaft", 0.056, 0.062), ("head", 0.028, 0.032)),
        (*_GRASP, "insertable"),
    ),
    Category(
        "socket",
        "container",
        "train",
        insert.socket,
        0,
        (("hole", 0.036, 0.046), ("wall", 0.014, 0.022), ("depth", 0.0495, 0.0515)),
        ("receives",),
    ),
)
_RIGID = (*_CATEGORIES, *_INSERTION)
CATEGORIES: dict[str, Category | articulated.ArticulatedCategory] = {c.name: c for c in (*_RIGID, *articulated.CATEGORIES)}


def _instance_split(category: Category, index: int) -> str:
    if category.split != "train":
        return category.split
    return "train" if index < INSTANCES - 4 else "validation" if index < INSTANCES - 2 else "test"


def _unit(category: Category, index: int, dimension: int) -> float:
    """Place of one parameter inside its range, 0..1."""
    # additive recurrence with the plastic number's powers: well spread in up to four dimensions
    spread = (0.5 + (index + 1) * (0.8191725134, 0.6710436067, 0.5497004779, 0.4503005262)[dimension]) % 1.0
    if _instance_split(category, index) == "train" or category.split != "train":
        low, high = _TRAIN_SHARE if category.split == "train" else (0.0, 1.0)
        return low + (high - low) * spread
    # each held-out instance of a category lies at another corner: parity of (index, dimension) picks the end
    at_top = bool((index >> (dimension % 2)) & 1)
    return (1.0 - _EDGE * spread) if at_top else _EDGE * spread


def _instance(category: Category, index: int) -> Asset:
    parameters = {name: round(low + (high - low) * _unit(category, index, d), 4) for d, (name, low, high) in enumerate(category.ranges)}
    shape, half = assemble(category.builder(parameters))
    mass = 1.0  # fixtures are static
    if category.kind == "object":
        mass = min(max(category.density * sum(map(volume, shape.primitives)), MASS_RANGE_KG[0]), MASS_RANGE_KG[1])
    return Asset(
        asset_id=f"{category.name}_{index:02d}",
        category=category.name,
        kind=category.kind,
        split=_instance_split(category, index),
        primitives=shape.primitives,
        half_extent_m=half,
        mass_kg=round(mass, 4),
        affordances=category.affordances,
        grasps=shape.grasps,
        cavity_pos_m=shape.cavity_pos_m,
        cavity_half_m=shape.cavity_half_m,
    )


@functools.cache
def _assets() -> tuple[Asset, ...]:
    return (*(_instance(c, i) for c in _RIGID for i in range(INSTANCES)), *articulated.assets())


@functools.cache
def catalogue_hash() -> str:
    """First 16 hex digits of the SHA-256 over version and every asset: another catalogue, another hash."""
    named = (a for a in _assets() if a.kind != "articulated" and not {"insertable", "receives"} & set(a.affordances))
    content = [VERSION, [dataclasses.asdict(a) for a in named]]
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


class Catalogue:
    """Assets by id. ``Catalogue("train")`` is what engines see; ``Catalogue.all()`` is for evaluation, compiling and refusal."""

    def __init__(self, split: str = "train") -> None:
        if split not in SPLITS:
            raise ValueError(f"unknown split {split!r}: use one of {', '.join(SPLITS)}")
        self._by_id = {a.asset_id: a for a in _assets() if a.split == split}

    @classmethod
    def all(cls) -> Catalogue:
        """Every split."""
        catalogue = cls.__new__(cls)
        catalogue._by_id = {a.asset_id: a for a in _assets()}
        return catalogue

    def __contains__(self, asset_id: object) -> bool:
        return asset_id in self._by_id

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self):
        return iter(self._by_id.values())

    def get(self, asset_id: str) -> Asset:
        """The asset.

        Raises:
          UnknownAsset: this catalogue does not hold it.
        """
        if asset_id in self._by_id:
            return self._by_id[asset_id]
        near = difflib.get_close_matches(str(asset_id), self._by_id, n=3, cutoff=0.4) or list(self._by_id)[:3]
        raise UnknownAsset(
            f"unknown asset {asset_id!r}: nearest ids are {', '.join(near)}; categories here: {', '.join(self.categories())}"
        )

    def categories(self, kind: str | None = None) -> tuple[str, ...]:
        """Names of the categories with an asset here, in table order; of one kind if given."""
        return tuple(dict.fromkeys(a.category for a in self if kind is None or a.kind == kind))

    def instances(self, category: str) -> tuple[Asset, ...]:
        """Assets of one category.

        Raises:
          UnknownAsset: this catalogue holds none.
        """
        found = tuple(a for a in self if a.category == category)
        if not found:
            near = difflib.get_close_matches(category, self.categories(), n=3, cutoff=0.4) or self.categories()
            raise UnknownAsset(f"no asset of category {category!r}: use {' or '.join(near)}")
        return found
