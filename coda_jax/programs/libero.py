"""LIBERO's own predicates as operations of the expression machine: its geometry, to the letter, and none of ours.

They ask for neither rest nor release. Objects count by the origin of their body, regions by their box; a region's rotation is applied as
it is, not its inverse, as the official check does. Compared with that check step by step in benchmarks/libero. A world without regions
has none of these: tables of other scenes never name them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import jax.numpy as jnp

from coda_jax.programs.errors import quote
from coda_jax.types import ENTITIES, REGIONS, TOKENS, Array, Regions, WorldView

NEAR_M = 0.03  # horizontal distance at which one thing is on another
BELOW_M, ABOVE_M = 0.005, 0.10  # of a region's upper face, between which a thing is on it
SUNK_M = 0.01  # below a region's box at which a thing still is in it
OPEN_M = -0.14  # joint value below which a drawer is open; above 0 it is closed
ON_RAD = 0.5  # joint value from which a knob is on; below 0 it is off


@dataclasses.dataclass(frozen=True)
class Predicate:
    """args: what each argument may be, of "object" and "region"."""

    name: str
    args: tuple[tuple[str, ...], ...]
    formula: str

    @property
    def signature(self) -> str:
        return f"{self.name}({', '.join(('a', 'b')[: len(self.args)])})"

    def trouble(self, args: Sequence[object], objects: Collection[str], regions: Collection[str]) -> str | None:
        """Why ``args`` cannot be its arguments, or None."""
        if len(args) != len(self.args):
            return f"{self.signature} takes {len(self.args)} arguments, not {len(args)}"
        for given, kinds in zip(args, self.args, strict=True):
            known = [n for kind in kinds for n in (objects if kind == "object" else regions)]
            if given not in known:
                return f"{quote(given)} is no {' or '.join(kinds)} here: use one of {', '.join(sorted(known)) or 'none in this scene'}"
        return "it relates a thing to itself: name two different ones" if len(set(args)) < len(args) else None


_OBJECT, _REGION, _EITHER = ("object",), ("region",), ("object", "region")
_REGISTRY = (
    Predicate(
        "libero_on",
        (_OBJECT, _EITHER),
        f"on a thing: touches it, is not lower, and horizontally less than {NEAR_M:g} m away; on a region: touches its thing (nothing is "
        f"asked of a region of the workspace), within its sides and from {BELOW_M:g} m below to {ABOVE_M:g} m above its upper face",
    ),
    Predicate("libero_in", (_OBJECT, _REGION), f"within the region's box along the world's axes, which reaches {SUNK_M:g} m deeper"),
    Predicate("libero_open", (_REGION,), f"the joint that the region moves with is below {OPEN_M:g} m"),
    Predicate("libero_closed", (_REGION,), "that joint is above 0"),
    Predicate("libero_turned_on", (_OBJECT,), f"the thing's joint is at {ON_RAD:g} rad or above"),
    Predicate("libero_turned_off", (_OBJECT,), "the thing's joint is below 0"),
)
PREDICATES: dict[str, Predicate] = {p.name: p for p in _REGISTRY}

# Columns: on a thing [o, o], on a region [o, r], in a region [o, r], open [r], closed [r], turned on [o], turned off [o].
_ON_THING, _ON_REGION = 0, TOKENS * TOKENS
_IN = _ON_REGION + TOKENS * REGIONS
_OPEN = _IN + TOKENS * REGIONS
_CLOSED, _ON, _OFF = _OPEN + REGIONS, _OPEN + 2 * REGIONS, _OPEN + 2 * REGIONS + TOKENS


def place(name: str, entities: Sequence[int]) -> int:
    """Column of a predicate applied to tokens, and to regions counted from ENTITIES."""
    first, last = entities[0], entities[-1]
    if name == "libero_on":
        return _ON_REGION + first * REGIONS + last - ENTITIES if last >= ENTITIES else _ON_THING + first * TOKENS + last
    if name == "libero_in":
        return _IN + first * REGIONS + last - ENTITIES
    start = {"libero_open": _OPEN, "libero_closed": _CLOSED, "libero_turned_on": _ON, "libero_turned_off": _OFF}[name]
    return start + (last - ENTITIES if last >= ENTITIES else last)


def bank(view: WorldView, regions: Regions) -> Array:
    """Every predicate for all its arguments, float32 [b, columns]; REGIONS regions must be there.

    Vectors are handled by component, each an array [b, o, r], as in ``helpers.bank``.
    """

    def parts(value: Array) -> list[Array]:
        whole = jnp.asarray(value, jnp.float32)
        return [whole[..., k] for k in range(3)]

    origin, pos, half = parts(regions.origin), parts(regions.pos), parts(regions.half)
    rotation = [parts(row) for row in jnp.moveaxis(jnp.asarray(regions.rotation, jnp.float32), 2, 0)]
    touches, contact = jnp.asarray(regions.touches, bool), jnp.asarray(view.contact, bool)[:, :, :TOKENS]
    apart = [p[:, :, None] - p[:, None] for p in origin]
    on_thing = contact & (apart[2] >= 0) & (apart[0] ** 2 + apart[1] ** 2 < NEAR_M**2)
    offset = [o[:, :, None] - p[:, None] for o, p in zip(origin, pos, strict=True)]
    across, along, up = (sum(rotation[i][k][:, None] * offset[k] for k in range(3)) for i in range(3))
    size = [h[:, None] for h in half]
    on_region = touches & (abs(across) < size[0]) & (abs(along) < size[1]) & (up > size[2] - BELOW_M) & (up < size[2] + ABOVE_M)
    in_box = jnp.ones(touches.shape, bool)
    for i in range(3):
        reach = abs(rotation[i][0] * half[0] + rotation[i][1] * half[1] + rotation[i][2] * half[2])[:, None]
        in_box &= (offset[i] < reach) & (offset[i] > -reach - (SUNK_M if i == 2 else 0.0))
    joint, knob, ends = jnp.asarray(regions.joint), jnp.asarray(view.articulation), jnp.asarray(view.articulation_range)
    turns = ends[..., 1] > ends[..., 0]
    values = (on_thing, on_region, in_box, joint < OPEN_M, joint > 0, turns & (knob >= ON_RAD), turns & (knob < 0))
    return jnp.concatenate([jnp.reshape(jnp.asarray(v, jnp.float32), (touches.shape[0], -1)) for v in values], 1)


def markdown_table() -> str:
    """The documentation's table of these predicates, one row each."""
    lines = ["| predicate | true where |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{p.signature}` | {p.formula} |" for p in _REGISTRY)])
