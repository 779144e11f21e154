"""The 12 helpers: measurements of one moment of a world (a WorldView), each with its formula, unit, range and thresholds in one registry.

A helper reads the present moment and the reset values only. Time windows are left out on purpose: stages of a training program would
not be Markov with them. ``bank`` measures every helper for every combination of entities at once, so that a predicate is only a lookup.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import jax.numpy as jnp

from coda_jax.types import ENTITIES, GRIPPER, TABLE, TOKENS, Array, WorldView

STILL_SPEED_M_S = 0.02
ON_TOLERANCE_M = 0.005  # a resting object sinks into its support by about a tenth of a millimetre; soft contacts under load by more

OBJECT = "object"  # a token: free object, support or container
SURFACE = "object or table"
PLACE = "object or gripper"  # things with a centre; the table has none
ANY = "object, table or gripper"
_KINDS = {OBJECT: (), SURFACE: (TABLE,), PLACE: (GRIPPER,), ANY: (TABLE, GRIPPER)}


@dataclasses.dataclass(frozen=True)
class Helper:
    """What an author may ask.

    args: kinds of the entities. unit: of the value, "condition" where it is 0 or 1. low, high: every constant that the value is
    compared with lies in this range (and so does every value met on a table-top). needs: property the last argument must have.
    """

    name: str
    args: tuple[str, ...]
    unit: str
    low: float
    high: float
    formula: str
    needs: str = ""

    @property
    def signature(self) -> str:
        return f"{self.name}({', '.join(('x', 'y')[: len(self.args)])})"

    @property
    def is_condition(self) -> bool:
        return self.unit == "condition"

    def accepts(self, position: int, entity: int) -> bool:
        """Whether entity index ``entity`` may stand at argument ``position``."""
        return entity < TOKENS or entity in _KINDS[self.args[position]]


_REGISTRY = (
    Helper("distance", (PLACE, PLACE), "m", 0.0, 2.0, "Euclidean distance of the centres of x and y (gripper: its grip point)"),
    Helper("horizontal_distance", (PLACE, PLACE), "m", 0.0, 2.0, "the same in the table plane: height is left out"),
    Helper(
        "height_above",
        (PLACE, SURFACE),
        "m",
        -1.0,
        2.0,
        "lowest point of x's bounding box (gripper: its grip point) minus highest point of y's bounding box (table: 0); negative below it",
    ),
    Helper("grasped", (OBJECT,), "share", 0.0, 1.0, "share of the two fingers that touch x: 0, 0.5 or 1"),
    Helper("lifted", (OBJECT,), "m", -1.0, 2.0, "height of x's centre minus its height at the reset"),
    Helper(
        "inside",
        (OBJECT, OBJECT),
        "condition",
        0.0,
        1.0,
        "x's centre lies within the inner box (cavity) of container y, in y's frame",
        needs="container",
    ),
    Helper(
        "on",
        (OBJECT, SURFACE),
        "condition",
        0.0,
        1.0,
        "x touches y, and x's centre is over the rectangle of the upward face of y's bounding box and not more than "
        f"{ON_TOLERANCE_M:g} m below it (table: touches it, centre above 0)",
    ),
    Helper(
        "aligned",
        (PLACE, ANY),
        "share",
        0.0,
        1.0,
        "absolute cosine of the angle between the own x axes of x and y (table: the base's x axis); turning by 180 degrees changes nothing",
    ),
    Helper(
        "upright",
        (OBJECT,),
        "share",
        -1.0,
        1.0,
        "cosine of the angle between x's own z axis and the vertical: 1 standing, 0 lying, -1 upside down",
    ),
    Helper(
        "opening",
        (OBJECT,),
        "share",
        0.0,
        1.0,
        "joint value of x as a share of its range, clipped to 0..1; 0 without a joint",
        needs="articulated",
    ),
    Helper("still", (OBJECT,), "condition", 0.0, 1.0, f"speed of x's centre is below {STILL_SPEED_M_S:g} m/s"),
    Helper("gripper_opening", (), "m", 0.0, 0.08, "distance between the finger pads: 0 closed, 0.08 fully open"),
)
HELPERS: dict[str, Helper] = {h.name: h for h in _REGISTRY}

_OFFSETS: dict[str, int] = {}
BANK_SIZE = 0
for _helper in _REGISTRY:
    _OFFSETS[_helper.name] = BANK_SIZE
    BANK_SIZE += ENTITIES ** len(_helper.args)


def bank_index(name: str, entities: Iterable[int]) -> int:
    """Position in ``bank`` of helper ``name`` applied to entity indices."""
    position = 0
    for entity in entities:
        position = position * ENTITIES + entity
    return _OFFSETS[name] + position


def _rotation(w: Array, x: Array, y: Array, z: Array) -> tuple[tuple[Array, Array, Array], ...]:
    """Entries of the rotation matrices of unit quaternions, row by row."""
    return (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )


def bank(view: WorldView) -> Array:
    """Every helper for every combination of entities.

    Combinations that no valid expression can name (a table's distance, say) hold numbers without meaning. Vectors are handled by
    component, each an array [b, e] or [b, x, y]: XLA's CPU backend vectorises these and not a last axis of three.

    Returns:
      float32 [b, BANK_SIZE], read at ``bank_index``.
    """
    worlds = view.pos.shape[0]

    def components(tokens: Array, gripper: Array | None = None, table: tuple[float, ...] = (0.0, 0.0, 0.0)) -> list[Array]:
        last = jnp.zeros((worlds, len(table))) if gripper is None else jnp.asarray(gripper)
        middle = jnp.broadcast_to(jnp.array(table), last.shape)
        whole = jnp.concatenate([jnp.asarray(tokens, jnp.float32), middle[:, None], last[:, None].astype(jnp.float32)], 1)
        return [whole[..., i] for i in range(len(table))]

    def tokens_only(value: Array) -> Array:
        return jnp.pad(jnp.asarray(value, jnp.float32), ((0, 0), (0, ENTITIES - TOKENS)))

    pos = components(view.pos, view.ee_pos)
    axes = _rotation(*components(view.quat, view.ee_quat, (1.0, 0.0, 0.0, 0.0)))
    half = components(view.half_extent)
    cavity_pos, cavity_half = components(view.cavity_pos), components(view.cavity_half)
    contact = jnp.pad(jnp.asarray(view.contact, bool), ((0, 0), (0, ENTITIES - TOKENS), (0, ENTITIES - TOKENS - 1)))

    up = axes[2]  # the vertical in each entity's frame
    reach = abs(up[0]) * half[0] + abs(up[1]) * half[1] + abs(up[2]) * half[2]  # half height of the turned bounding box
    bottom, top = pos[2] - reach, pos[2] + reach

    apart = [p[:, :, None] - p[:, None] for p in pos]  # [b, x, y], from y to x
    in_y = [sum(apart[i] * axes[i][k][:, None] for i in range(3)) for k in range(3)]  # the same in y's frame

    steepest = jnp.maximum(jnp.maximum(abs(up[0]), abs(up[1])), abs(up[2]))
    over, above_face = contact, jnp.zeros(contact.shape, bool)
    for k in range(3):
        is_face = (abs(up[k]) >= steepest)[:, None]  # axis of the face of y's box that looks upward
        above_face |= is_face & (jnp.sign(up[k])[:, None] * in_y[k] - half[k][:, None] >= -ON_TOLERANCE_M)
        over &= is_face | (abs(in_y[k]) <= half[k][:, None])
    on_table = (jnp.arange(ENTITIES) == TABLE) & contact & (pos[2] > 0)[:, :, None]

    in_cavity = jnp.ones(contact.shape, bool)
    for k in range(3):
        in_cavity &= (abs(in_y[k] - cavity_pos[k][:, None]) <= cavity_half[k][:, None]) & (cavity_half[k] > 0)[:, None]

    low, high = view.articulation_range[..., 0], view.articulation_range[..., 1]
    span = high - low
    opening = jnp.where(span > 0, jnp.clip((view.articulation - low) / jnp.where(span > 0, span, 1.0), 0.0, 1.0), 0.0)
    speed2 = sum(view.linvel[..., k] ** 2 for k in range(3))
    flat2 = apart[0] ** 2 + apart[1] ** 2

    values = {
        "distance": jnp.sqrt(flat2 + apart[2] ** 2),
        "horizontal_distance": jnp.sqrt(flat2),
        "height_above": bottom[:, :, None] - top[:, None],
        "grasped": tokens_only((view.finger_contact[..., 0] * 0.5) + (view.finger_contact[..., 1] * 0.5)),
        "lifted": tokens_only(view.pos[..., 2] - view.pos0[..., 2]),
        "inside": in_cavity,
        "on": (over & above_face) | on_table,
        "aligned": jnp.minimum(abs(sum(axes[k][0][:, :, None] * axes[k][0][:, None] for k in range(3))), 1.0),
        "upright": up[2],
        "opening": tokens_only(opening),
        "still": tokens_only(speed2 < STILL_SPEED_M_S**2),
        "gripper_opening": view.gripper_opening,
    }
    return jnp.concatenate([jnp.reshape(jnp.asarray(values[h.name], jnp.float32), (worlds, -1)) for h in _REGISTRY], 1)


def markdown_table() -> str:
    """The documentation's table of helpers, one row each."""
    lines = ["| helper | value | constants within | arguments | formula |", "|---|---|---|---|---|"]
    for h in _REGISTRY:
        names = ", ".join(f"{n}: {kind}" for n, kind in zip(("x", "y"), h.args, strict=False)) or "none"
        within = "0 or 1" if h.is_condition else f"{h.low:g} .. {h.high:g}"
        lines.append(f"| `{h.signature}` | {h.unit} | {within} | {names} | {h.formula} |")
    return "\n".join(lines)
