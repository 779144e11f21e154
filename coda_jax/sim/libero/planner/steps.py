"""What a scene's goal asks the hand to do: a list of steps, put together from the goal's atom and where everything stands."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from coda_jax.programs.expressions import shown
from coda_jax.scenes.libero.goals import to_atom
from coda_jax.scenes.placement import REACH_X_M, REACH_Y_M, Footprint, gap
from coda_jax.sim.libero.planner import grips
from coda_jax.sim.libero.planner.known import KNOB, Known, region_of
from coda_jax.sim.plan import NoPlan
from coda_jax.types import TABLE, WorldView

OPEN_AIM_M, CLOSED_AIM_M = -0.156, 0.009  # of a drawer's joint, whose limits are -0.16 and 0.01
INSIDE_AIM_M = -0.135  # that a thing may be put inside and the drawer is in the way of as little as can be
ENOUGH_M = -0.125  # a drawer open so far is left as it is
KNOB_ON_RAD, KNOB_OFF_RAD = 0.8, -0.005
_BESIDE_DRAWER_M = 0.02  # of what is put aside from where the drawer opens
_BESIDE_M = (0.012, 0.004)  # of it from other things: with the first where there is room
_NEAREST_X_M = 0.4  # to the robot, that a hand pointing down reaches the table well
_ALONG_RACK_M = 0.05  # of the bottle's foot up the rack's slope, from its lip


@dataclasses.dataclass(frozen=True)
class Put:
    """Pick a thing and put it down.

    target: its token. touch: entity that it touches when it is down. token, region: what its place goes along with, -1 for none, both for
    a place on the table. offset_m: of its box's centre from that when it is down. rim_m: height over that of the walls it is put between,
    which the palm stays above; None without walls. push: it is pushed there, not picked.
    """

    target: int
    touch: int
    token: int
    region: int
    offset_m: tuple[float, float, float]
    rim_m: float | None = None
    push: bool = False


@dataclasses.dataclass(frozen=True)
class Move:
    """Bring a joint to a value.

    thing, joint: names. token: that the fingers are felt on. region: whose joint it is, -1 for a token's own.
    """

    thing: str
    joint: str
    token: int
    region: int
    aim: float


Step = Put | Move


def steps_of(known: Known, view: WorldView, world: int) -> tuple[Step, ...]:
    """The steps that reach a scene's goal from the present state.

    Raises:
      NoPlan: no skill reaches such a goal.
    """
    goal = known.spec.task.goal
    atom = to_atom(goal)
    if atom is None:
        raise NoPlan(f"the goal {shown(goal)} is none of LIBERO's: use one of its predicates")
    if atom.predicate in ("turnon", "turnoff"):
        aim = KNOB_ON_RAD if atom.predicate == "turnon" else KNOB_OFF_RAD
        return (_move(known, atom.names[0], KNOB, aim),)
    thing, part = known.thing_of(atom.names[0])
    if atom.predicate in ("open", "close"):
        region = known.part(thing, part) if thing else None
        if region is None or not region.joint:
            raise NoPlan(f"{atom} asks for no drawer")
        return (_move(known, thing, region.joint, OPEN_AIM_M if atom.predicate == "open" else CLOSED_AIM_M),)
    if not thing or part or not known.models[thing].free:
        raise NoPlan(f"{atom}: {atom.names[0]} is nothing that can be picked up")
    return _put(known, view, world, thing, atom.names[1])


def _move(known: Known, thing: str, joint: str, aim: float) -> Move:
    token = known.token.get(f"{thing}_{joint.removesuffix('_level')}", known.token[thing])
    return Move(thing, joint, token, -1 if joint == KNOB else known.region(region_of(thing, joint)), aim)


def _put(known: Known, view: WorldView, world: int, target: str, where: str) -> tuple[Step, ...]:
    token = known.token[target]
    half = float(view.half_extent[world, token, 2])
    thing, part = known.thing_of(where)
    assert view.regions is not None
    regions = view.regions.pos[world, :, 2]
    if not thing:  # a region of the table
        push = known.models[target].category == "plate"
        region = known.region(where)
        return (Put(token, TABLE, -1, region, (0.0, 0.0, half - float(regions[region])), push=push),)
    model, reference = known.models[thing], known.token[thing]
    if not part:
        under = float(view.half_extent[world, reference, 2])
        seat = known.scale[thing] * grips.SEATS[model.category] - under if model.category in grips.SEATS else under
        return (Put(token, reference, reference, -1, (0.0, 0.0, seat + half)),)
    region, index = model.regions[part], known.region(where)
    scale = known.scale[thing]
    up = scale * (region.surface_m - region.pos_m[2]) + half
    if model.free:
        return (Put(token, reference, -1, index, (0.0, 0.0, up), scale * (model.centre_m[2] + model.half_m[2] - region.pos_m[2])),)
    if region.joint:
        way = known.joint(view, world, thing, region.joint)
        ready = way < ENOUGH_M
        opened = way if ready else INSIDE_AIM_M
        middle = (grips.DRAWER_Y_M[1] + opened + grips.BODY_Y_M[0]) / 2  # of what is open
        place = known.fixed(thing)
        x, y, _ = place.at(0.0, middle - region.pos_m[1] - opened, 0.0) - place.at(0.0, 0.0, 0.0)
        put = Put(token, reference, -1, index, (float(x), float(y), up), grips.WALL_TOP_M[region.joint] - region.pos_m[2])
        if ready:
            return (put,)
        under = _under_drawer(known, thing, region.joint)
        spot = _aside(known, view, world, target, under)
        first = () if spot is None else (Put(token, TABLE, -1, -1, (*spot, half)),)
        return (*first, _move(known, thing, region.joint, INSIDE_AIM_M), put)
    if model.category == "wine_rack":
        x, y, z = _slope(known, thing) * _ALONG_RACK_M
        return (Put(token, reference, -1, index, (float(x), float(y), float(z) + half)),)
    return (Put(token, reference, -1, index, (0.0, 0.0, up)),)


def _under_drawer(known: Known, thing: str, joint: str) -> Footprint:
    """What an open drawer stands over."""
    x, front, back = known.models[thing].centre_m[0], grips.HANDLE_Y_M + INSIDE_AIM_M, grips.BODY_Y_M[0]
    return known.fixed(thing).box(x, (front + back) / 2, grips.DRAWER_HALF_M, (back - front) / 2, 0.0, grips.WALL_TOP_M[joint])


def _aside(known: Known, view: WorldView, world: int, name: str, drawer: Footprint) -> tuple[float, float] | None:
    """The nearest free place on the table for a thing that stands so near to where a drawer opens that the hand could not pick it up;
    None where it stands well."""
    token = known.token[name]
    x, y, _ = (float(v) for v in view.pos[world, token])
    hx, hy, _ = (float(v) for v in view.half_extent[world, token])
    boxes = [box for other, found in known.boxes(view, world).items() if other != name for box in found]

    def free(px: float, py: float, room: float) -> bool:
        own = Footprint(px, py, hx, hy, 0.0)
        return gap(own, drawer) >= _BESIDE_DRAWER_M and all(gap(own, box) >= room for box in boxes)

    if gap(Footprint(x, y, hx, hy, 0.0), drawer) >= _BESIDE_DRAWER_M:
        return None
    turns = np.arange(0.0, 2 * math.pi, math.pi / 16)
    spots = [(x + 0.01 * ring * math.cos(t), y + 0.01 * ring * math.sin(t)) for ring in range(2, 26) for t in turns]
    spots = [(px, py) for px, py in spots if _NEAREST_X_M <= px <= REACH_X_M[1] and abs(py) <= REACH_Y_M[1]]
    for room in _BESIDE_M:
        found = next(((px, py) for px, py in spots if free(px, py, room)), None)
        if found is not None:
            return found
    raise NoPlan(f"{name} stands where the drawer opens and there is no free place beside: move it 0.15 m away")


def _slope(known: Known, rack: str) -> np.ndarray:
    """Unit vector up the rack's shelf."""
    way = known.fixed(rack).at(0.0, math.cos(grips.RACK_SLOPE_RAD), math.sin(grips.RACK_SLOPE_RAD))
    return way - np.array(known.fixed(rack).pos_m)
