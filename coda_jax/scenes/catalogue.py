"""The catalogue: which assets there are, which split may see which, and the hash that names them all.

Instances come from tables of ranges (categories/) and a fixed sequence, so the catalogue is the same on every machine.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import hashlib
import json
from collections.abc import Collection

from coda_jax.scenes.assets import Asset
from coda_jax.scenes.categories import table
from coda_jax.scenes.categories.instances import INSTANCES, instance
from coda_jax.scenes.categories.record import SPLITS, Category
from coda_jax.scenes.shapes import articulated

VERSION = 2
CATEGORIES: dict[str, Category | articulated.ArticulatedCategory] = {
    c.name: c for c in (*table.CATEGORIES.values(), *articulated.CATEGORIES)
}


class UnknownAsset(KeyError):
    """An asset id or category that this catalogue does not hold; the message names the nearest ones."""

    def __str__(self) -> str:
        return str(self.args[0])


@functools.cache
def _assets() -> tuple[Asset, ...]:
    return (*(instance(c, i) for c in table.CATEGORIES.values() for i in range(INSTANCES)), *articulated.assets())


_OWN: dict[str, Asset] = {}  # assets that users added in this process (scenes/own.py)


@functools.cache
def _by_id() -> dict[str, Asset]:
    """Every asset by id, a user's own ones last."""
    return {a.asset_id: a for a in _assets()} | _OWN


def register(asset: Asset) -> None:
    """Add a user's own asset to every catalogue of its split, for this process; the hash, which names the common ones, stays.

    Raises:
      ValueError: another asset has its id, or a common category its name.
    """
    if asset.category in CATEGORIES:
        raise ValueError(f"{asset.asset_id}: {asset.category} is a category of the catalogue: use another name")
    if _OWN.get(asset.asset_id, asset) != asset:
        raise ValueError(f"two own assets are called {asset.asset_id}: give one of them another number")
    _OWN[asset.asset_id] = asset
    _by_id.cache_clear()


def unregister(asset_id: str) -> None:
    """Forget an asset that ``register`` added; nothing happens where there is none of that id."""
    _OWN.pop(asset_id, None)
    _by_id.cache_clear()


@functools.cache
def catalogue_hash() -> str:
    """First 16 hex digits of the SHA-256 over version and every asset: another catalogue, another hash."""
    content = [VERSION, [dataclasses.asdict(a) for a in _assets()]]
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


def category_split(name: str) -> str:
    """Split of a category; "train" for one that is not of the table, as of a user's own asset."""
    return CATEGORIES[name].split if name in CATEGORIES else "train"


class Catalogue:
    """Assets by id. ``Catalogue("train")`` is what engines see; ``Catalogue.all()`` is for evaluation, compiling and refusal."""

    def __init__(self, split: str = "train") -> None:
        if split not in SPLITS:
            raise ValueError(f"unknown split {split!r}: use one of {', '.join(SPLITS)}")
        self._by_id = {i: a for i, a in _by_id().items() if a.split == split}

    @classmethod
    def all(cls) -> Catalogue:
        """Every split."""
        catalogue = cls.__new__(cls)
        catalogue._by_id = _by_id()
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

    def categories(self, kind: str | None = None, affordance: str | None = None, without: Collection[str] = frozenset()) -> tuple[str, ...]:
        """Names of the categories with an asset here, in table order.

        Args:
          kind, affordance: only those of this kind, with this affordance. without: none that has one of these affordances.
        """
        fitting = (
            a.category
            for a in self
            if kind in (None, a.kind) and (affordance is None or affordance in a.affordances) and not set(without) & set(a.affordances)
        )
        return tuple(dict.fromkeys(fitting))

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
