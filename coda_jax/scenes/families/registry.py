"""The registered families, by name."""

from __future__ import annotations

import difflib
import re

from coda_jax.programs.errors import quote
from coda_jax.scenes.families.articulated import ArticulatedFamily
from coda_jax.scenes.families.base import Family
from coda_jax.scenes.families.pick_place import PickPlace
from coda_jax.scenes.families.put_inside import PutInside
from coda_jax.scenes.families.stack_insert import StackInsert
from coda_jax.scenes.layouts import Layout

_FAMILIES: dict[str, Family] = {}


def register(family: Family) -> Family:
    """Make a family known, under its name; the same one twice changes nothing.

    Raises:
      ValueError: it is no family, the name is taken or no name, a template has no training phrasing, or what it defines is named almost
        like a hook of ``Family`` that it leaves alone.
    """
    if not isinstance(family, Family):
        raise ValueError(f"{quote(family)} is no family: register an instance of a subclass of Family")
    if not re.fullmatch("[a-z][a-z_]{0,31}", family.name):
        raise ValueError(f"the family's name {quote(family.name)} must be 1 to 32 of a-z and _ and begin with a letter")
    if family.name in _FAMILIES and type(_FAMILIES[family.name]) is not type(family):
        raise ValueError(f"there is a family {family.name} already: give yours another name")
    if missing := [r for r, _ in family.pairs if not family.phrases.get(r, {}).get("train")]:
        raise ValueError(f"{family.name} has no training phrases for {quote(missing[0])}: add phrases[{missing[0]!r}]['train']")
    if not family.pairs_of("train"):
        raise ValueError(f"{family.name} has no goal pair to train on: mark one of pairs as train")
    _refuse_misspelt(family)
    return _FAMILIES.setdefault(family.name, family)


def _refuse_misspelt(family: Family) -> None:
    """A hook under a wrong name would never be asked; methods with names of their own are the family's business."""
    hooks = [name for name in vars(Family) if not name.startswith("_")]
    own = {n for kind in type(family).__mro__ if issubclass(kind, Family) and kind is not Family for n in vars(kind)}
    for name in sorted(n for n in own if not n.startswith("_") and n not in hooks):
        guess = difflib.get_close_matches(name, [h for h in hooks if h not in own], n=1, cutoff=0.8)
        if guess:
            raise ValueError(f"{family.name} defines {name}, which nothing asks for; did you mean {guess[0]}? Else give it another name")


def unregister(name: str) -> None:
    """Forget a family; nothing happens where there is none of that name."""
    _FAMILIES.pop(name, None)


def names() -> tuple[str, ...]:
    """Names of the registered families, in the order of their registration."""
    return tuple(_FAMILIES)


def get(name: str) -> Family:
    """The family.

    Raises:
      ValueError: it is not registered; the known ones are listed.
    """
    if name not in _FAMILIES:
        raise ValueError(f"the family {quote(name)} is not built: use {' or '.join(_FAMILIES)}")
    return _FAMILIES[name]


def find_layout(layout_id: str) -> Layout | None:
    """The layout of an id in any family, or None."""
    return next((f.layouts[layout_id] for f in _FAMILIES.values() if layout_id in f.layouts), None)


for _family in (PickPlace(), ArticulatedFamily(), PutInside(), StackInsert()):
    register(_family)
