"""A change that mends a scene: one field of one object, or the words of the task; and the room that a moved thing needs."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from coda_jax.scenes.edits.attributes import changed
from coda_jax.scenes.placement import REACH_RADIUS_M, REACH_X_M, REACH_Y_M, gap
from coda_jax.scenes.spec import SceneSpec
from coda_jax.scenes.tabletop import Tabletop, shifted, turned

JOINT = ("stiffness", "damping", "joint_friction", "handle_scale", "range_share")
FACTOR_OF = {
    **dict.fromkeys(("pos_m", "yaw_rad", "opening"), "spatial"),
    **dict.fromkeys(("scale", "mass_kg", "colour", *JOINT), "attributes"),
    "instruction": "task",
}
UNITS = {  # of the fields that are numbers
    "yaw_rad": "rad",
    "opening": "share",
    "scale": "times",
    "mass_kg": "kg",
    "stiffness": "N/m or N m/rad",
    "damping": "N s/m, N m s/rad",
    "joint_friction": "N or N m",
    "handle_scale": "times",
    "range_share": "share",
}
APART_M = 0.005  # gap that a moved thing keeps from the others
DISTANCES_M = (0.01, 0.02, 0.03, 0.045, 0.06, 0.08, 0.1, 0.13, 0.17, 0.22)
_DIRECTIONS = tuple((math.cos(i * math.pi / 4), math.sin(i * math.pi / 4)) for i in range(8))
EDGE_M = 0.002

Way = tuple[float, float, float]


@dataclasses.dataclass(frozen=True)
class Fix:
    """One change. object: id, "" for the task. field: of FACTOR_OF.

    value: the new value, in the field's unit; of ``pos_m`` the way to go (x, y, z), m, on which comes along what stands on the object.
    """

    object: str
    field: str
    value: float | str | Way

    @property
    def factor(self) -> str:
        """The only factor of the scene that the change touches."""
        return FACTOR_OF[self.field]

    def said(self) -> str:
        """The change in words."""
        match self.field, self.value:
            case "pos_m", (dx, dy, dz):
                return f"move {self.object} by ({dx:+.4f}, {dy:+.4f}, {dz:+.4f}) m"
            case "yaw_rad", float(turned_to):
                return f"turn {self.object} to {turned_to:.3f} rad"
            case "instruction", str(text):
                return f"say {text!r}"
            case field, value:
                return f"set {field} of {self.object} to {value if isinstance(value, str) else f'{value:.6g}'}"


def fixed(spec: SceneSpec, fix: Fix) -> SceneSpec:
    """The scene with the change made; everything rests as before.

    Raises:
      ValueError: no such field, or things that stand on each other in a ring.
    """
    name, value = fix.object, fix.value
    match fix.field, value:
        case "pos_m", (dx, dy, dz):
            return shifted(spec, name, (dx, dy, dz))
        case "yaw_rad", float():
            return turned(spec, name, value)
        case "opening", float():
            places = tuple(dataclasses.replace(p, opening=round(value, 6)) if p.object == name else p for p in spec.spatial.placements)
            return dataclasses.replace(spec, spatial=dataclasses.replace(spec.spatial, placements=places))
        case "instruction", str():
            return dataclasses.replace(spec, task=dataclasses.replace(spec.task, instruction=value))
        case "colour", str():
            return changed(spec, name, colour=value)
        case "scale" | "mass_kg", float():
            return changed(spec, name, **{fix.field: round(value, 6)})
        case field, float() if field in JOINT and (joint := spec.attribute(name).articulation) is not None:
            own = {field.removeprefix("joint_"): round(value, 6)}
            return changed(spec, name, articulation=dataclasses.replace(joint, **own))
    raise ValueError(f"{fix} changes no field of a scene: use one of {', '.join(FACTOR_OF)} with a value of its kind")


def stands_clear(spec: SceneSpec, name: str, before: SceneSpec) -> bool:
    """Whether an object, with what stands on it, stands free of all others, on what it stood on in ``before``, where it can be reached
    or no further out than it was."""
    top, was = Tabletop(spec), Tabletop(before)
    mine = {name, *top.carried(name)}
    for own, other in itertools.product(mine, set(top.assets) - mine):
        a, b = top.shapes[own], top.shapes[other]
        if b.top > a.bottom + 1e-4 and b.bottom < a.top and not top.stands_on(name, other) and gap(a, b) < APART_M:
            return False
    x, y, _ = top.places[name].pos_m
    margin, under = top.workspace.margin(x, y), top.face(name)
    if margin < min(0.0, top.workspace.margin(*was.places[name].pos_m[:2]) + EDGE_M):
        return False
    if under is not None:
        across = math.cos(under.yaw) * (x - under.x) + math.sin(under.yaw) * (y - under.y)
        along = -math.sin(under.yaw) * (x - under.x) + math.cos(under.yaw) * (y - under.y)
        return abs(across) < under.hx - EDGE_M and abs(along) < under.hy - EDGE_M
    return True


def ways(distances: Sequence[float] = DISTANCES_M) -> Iterator[Way]:
    """Ways in the table plane, the short ones first."""
    for distance, (dx, dy) in itertools.product(distances, _DIRECTIONS):
        yield distance * dx, distance * dy, 0.0


def inward(spec: SceneSpec, name: str, distances: Sequence[float] = DISTANCES_M) -> Iterator[Way]:
    """Ways of an object towards the middle of the reachable area, the short ones first."""
    (x, y, _), table = spec.placement(name).pos_m, Tabletop(spec).workspace
    dx, dy = sum(table.reach_x_m) / 2 - x, sum(table.reach_y_m) / 2 - y
    length = max(math.hypot(dx, dy), 1e-9)
    for distance in distances:
        if distance < length:
            yield distance * dx / length, distance * dy / length, 0.0


def first_move(spec: SceneSpec, name: str, wanted: Callable[[SceneSpec], bool], offered: Iterable[Way] | None = None) -> Fix | None:
    """The first of the ways, of a free object also down to its support, on which it stands clear and the scene is as wanted; or None."""
    top = Tabletop(spec)
    down = -top.rise(name) if top.assets[name].kind == "object" else 0.0
    for dx, dy, dz in ways() if offered is None else offered:
        fix = Fix(name, "pos_m", (round(dx, 6), round(dy, 6), round(dz + down, 6)))
        after = fixed(spec, fix)
        if stands_clear(after, name, spec) and wanted(after):
            return fix
    return None


def aside(spec: SceneSpec, name: str) -> tuple[Fix, ...]:
    """The shortest move found to where the object stands clear, or none."""
    move = first_move(spec, name, lambda _: True)
    return (move,) if move else ()


def within_area(x: float, y: float) -> tuple[float, float]:
    """The nearest point of the reachable area."""
    x, y = min(max(x, REACH_X_M[0]), REACH_X_M[1]), min(max(y, REACH_Y_M[0]), REACH_Y_M[1])
    far = math.hypot(x, y) / (REACH_RADIUS_M - 1e-4)
    return (x, y) if far <= 1 else (x / far, y / far)
