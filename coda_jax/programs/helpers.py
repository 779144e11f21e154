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


def rotation(quat: Array) -> Array:
    """Rotation matrices [..., 3, 3] of unit quaternions [..., 4], wxyz."""
    w, x, y, z = (quat[..., i] for i in range(4))
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return jnp.stack([jnp.stack(row, -1) for row in rows], -2)


def bank(view: WorldView) -> Array:
    """Every helper for every combination of entities.

    Combinations that no valid expression can name (a table's distance, say) hold numbers without meaning.

    Returns:
      float32 [b, BANK_SIZE], read at ``bank_index``.
    """
    worlds = view.pos.shape[0]
    extra = ENTITIES - TOKENS

    def entities(tokens, table, gripper):  # [b, o, ...] -> [b, e, ...]
        shape = (worlds, 1, *tokens.shape[2:])
        return jnp.concatenate([tokens, jnp.broadcast_to(table, shape), jnp.reshape(gripper, shape)], 1).astype(jnp.float32)

    no_size = jnp.zeros((worlds, 1, 3))
    pos = entities(view.pos, jnp.zeros(3), view.ee_pos)
    axes = rotation(entities(view.quat, jnp.array([1.0, 0.0, 0.0, 0.0]), view.ee_quat))
    half = entities(view.half_extent, jnp.zeros(3), no_size)
    cavity_pos = entities(view.cavity_pos, jnp.zeros(3), no_size)
    cavity_half = entities(view.cavity_half, jnp.zeros(3), no_size)
    contact = jnp.pad(jnp.asarray(view.contact, bool), ((0, 0), (0, extra), (0, extra - 1)))

    apart = pos[:, :, None] - pos[:, None]  # [b, x, y, 3], from y to x
    in_y = jnp.sum(apart[..., :, None] * axes[:, None], -2)  # the same in y's frame
    reach = jnp.sum(jnp.abs(axes[:, :, 2]) * half, -1)  # half height of the turned bounding box
    bottom, top = pos[..., 2] - reach, pos[..., 2] + reach

    up = axes[:, :, 2]  # the vertical in each entity's frame
    face = jnp.arange(3) == jnp.argmax(jnp.abs(up), -1)[..., None]  # [b, y, 3]: axis of the face that looks upward
    over = jnp.all((jnp.abs(in_y) <= half[:, None]) | face[:, None], -1)
    above_face = jnp.sum(jnp.where(face[:, None], jnp.sign(up)[:, None] * in_y - half[:, None], 0.0), -1) >= -ON_TOLERANCE_M
    on = contact & over & above_face
    on = on.at[:, :, TABLE].set(contact[:, :, TABLE] & (pos[..., 2] > 0))

    in_cavity = jnp.all(jnp.abs(in_y - cavity_pos[:, None]) <= cavity_half[:, None], -1) & jnp.all(cavity_half > 0, -1)[:, None]
    x_axis = axes[..., 0]

    low, high = view.articulation_range[..., 0], view.articulation_range[..., 1]
    span = high - low
    opening = jnp.where(span > 0, jnp.clip((view.articulation - low) / jnp.where(span > 0, span, 1.0), 0.0, 1.0), 0.0)

    def tokens_only(value):
        return jnp.pad(jnp.asarray(value, jnp.float32), ((0, 0), (0, extra)))

    values = {
        "distance": jnp.sqrt(jnp.sum(apart**2, -1)),
        "horizontal_distance": jnp.sqrt(jnp.sum(apart[..., :2] ** 2, -1)),
        "height_above": bottom[:, :, None] - top[:, None],
        "grasped": tokens_only(jnp.sum(view.finger_contact, -1) * 0.5),
        "lifted": tokens_only(view.pos[..., 2] - view.pos0[..., 2]),
        "inside": in_cavity,
        "on": on,
        "aligned": jnp.minimum(jnp.abs(jnp.sum(x_axis[:, :, None] * x_axis[:, None], -1)), 1.0),
        "upright": axes[..., 2, 2],
        "opening": tokens_only(opening),
        "still": tokens_only(jnp.sum(jnp.asarray(view.linvel) ** 2, -1) < STILL_SPEED_M_S**2),
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
