"""Which bodies of a model are the arm, the hand and the fingers: bodies that move as one are one part, whatever they were called."""

from __future__ import annotations

import dataclasses

import numpy as np

from coda_jax.sim.own_robot.errors import RobotError, shown
from coda_jax.sim.own_robot.facts import Body, Facts, Geom, Joint, Site

DOF = (6, 7)
_LONGEST_TURN_RAD = 4 * np.pi
_MASS_KG = (0.001, 50.0)
_GYRATION_M = 2.0  # largest radius of gyration about a joint's anchor


@dataclasses.dataclass(frozen=True)
class Part:
    """What moves as one. joint: what moves it, None of the fixed base. mass, com, inertia: of all its bodies together, world frame."""

    joint: Joint | None
    geoms: tuple[Geom, ...]
    mass: float
    com: np.ndarray
    inertia: np.ndarray


@dataclasses.dataclass(frozen=True)
class Assembly:
    """links: of the arm from the base on, links[0] fixed. palm: colliding geoms of the hand. keys: home postures by name, rad from zero."""

    links: tuple[Part, ...]
    palm: tuple[Geom, ...]
    left: Part
    right: Part
    grip: Site
    keys: dict[str, np.ndarray]


def assemble(facts: Facts, couplings: tuple[tuple[str, ...], ...], grip_site: str, hand_body: str, fingers: tuple[str, str]) -> Assembly:
    """Find the parts.

    Raises:
      RobotError: something named is not there, or the model is no chain of 6 or 7 limited hinges that ends in a hand with two slides.
    """
    names = {b.name: i for i, b in enumerate(facts.bodies)}
    grip = next((s for s in facts.sites if s.name == grip_site), None)
    if grip is None:
        known = ", ".join(shown(s.name) for s in facts.sites[:10]) or "none"
        raise RobotError(f"there is no site {shown(grip_site)} (there are: {known}): add one between the finger tips, z away from the hand")
    for what, name in (("hand_body", hand_body), ("fingers", fingers[0]), ("fingers", fingers[1])):
        if name not in names:
            known = ", ".join(shown(b.name) for b in facts.bodies[1:13])
            raise RobotError(f"{what} names the body {shown(name)}, which the model lacks; it has: {known}")
    moving: dict[int, Joint] = {}
    for joint in facts.joints:
        if joint.body in moving:
            raise RobotError(f"body {shown(facts.bodies[joint.body].name)} has two joints: give each a body of its own")
        moving[joint.body] = joint
    top = [_top(facts, moving, i) for i in range(len(facts.bodies))]
    left, right = (names[f] for f in fingers)
    hand = top[names[hand_body]]
    for name, body in zip(fingers, (left, right), strict=True):
        joint = moving.get(body)
        if joint is None or joint.kind != "slide" or top[facts.bodies[body].parent] != hand:
            raise RobotError(f"finger {shown(name)} must hang on the hand by one slide joint: other grippers are not simulated")
    if left == right or top[grip.body] != hand:
        raise RobotError(f"site {shown(grip_site)} must be fixed to the hand, between two fingers: move it to body {shown(hand_body)}")
    chain = _chain(facts, moving, top, hand)
    allowed = {moving[b].name for b in (left, right)}
    for coupling in couplings:
        if not coupling or not set(coupling) <= allowed:
            raise RobotError("an equality or tendon ties something other than the two finger joints: remove it")
    for body, joint in moving.items():
        if body not in (*chain, left, right):
            where = shown(facts.bodies[body].name)
            raise RobotError(
                f"joint {shown(joint.name)} moves {where}, which is neither in the arm nor a finger: fix the body or remove it"
            )
    arm = [moving[b] for b in chain]
    _check_arm(arm)
    parts = {b: _part(facts, top, b, moving.get(b)) for b in (0, *chain, left, right)}
    for body in (*chain, left, right):
        if not _MASS_KG[0] <= parts[body].mass <= _MASS_KG[1]:
            low, high = _MASS_KG
            where = shown(facts.bodies[body].name)
            raise RobotError(
                f"what joint {shown(moving[body].name)} moves ({where}) weighs {parts[body].mass:g} kg: give it {low} to {high}"
            )
        _check_spread(parts[body], shown(facts.bodies[body].name))
    below = [i for i in range(len(facts.bodies)) if _within(facts, i, names[hand_body]) and top[i] == hand]
    palm = tuple(g for g in facts.geoms if g.body in below and g.collides)
    keys = {k: np.array([q[j.address] - j.zero for j in arm]) for k, q in facts.keys.items()}
    return Assembly(tuple(parts[b] for b in (0, *chain)), palm, parts[left], parts[right], grip, keys)


def _top(facts: Facts, moving: dict[int, Joint], body: int) -> int:
    """The body by whose joint this one moves, 0 where none does."""
    while body > 0 and body not in moving:
        body = facts.bodies[body].parent
    return body


def _within(facts: Facts, body: int, ancestor: int) -> bool:
    while body > ancestor:
        body = facts.bodies[body].parent
    return body == ancestor


def _chain(facts: Facts, moving: dict[int, Joint], top: list[int], hand: int) -> list[int]:
    """Moving bodies from the base to the hand."""
    chain, body = [], hand
    while body > 0:
        chain.append(body)
        body = top[facts.bodies[body].parent]
    chain.reverse()
    for b in chain:
        if (kind := moving[b].kind) != "hinge":
            raise RobotError(f"joint {shown(moving[b].name)} of the arm is of type {kind}: only hinges are simulated, fix it or replace it")
    if len(chain) not in DOF:
        raise RobotError(f"{len(chain)} joints lead to the hand: an arm of {DOF[0]} or {DOF[1]} is simulated, fix or add some")
    return chain


def _check_arm(arm: list[Joint]) -> None:
    for joint in arm:
        if not joint.limited:
            raise RobotError(f"joint {shown(joint.name)} has no limits: give it a range, the lower end first")
        if not -_LONGEST_TURN_RAD <= joint.low < joint.high <= _LONGEST_TURN_RAD:
            raise RobotError(f"joint {shown(joint.name)} turns from {joint.low:.3g} to {joint.high:.3g} rad: give it a range within +-4 pi")


def _check_spread(part: Part, where: str) -> None:
    """A mass far from its joint is a slip of units, and no servo moves it."""
    assert part.joint is not None
    off = part.com - part.joint.anchor
    radius = float(np.sqrt(np.linalg.eigvalsh(part.inertia).max() / part.mass + off @ off))
    if not radius <= _GYRATION_M:
        raise RobotError(
            f"the mass that joint {shown(part.joint.name)} moves ({where}) lies {radius:.3g} m from it (radius of gyration), at most "
            f"{_GYRATION_M:g} m: mend the inertia (kg m^2) and the lengths (m)"
        )


def _part(facts: Facts, top: list[int], body: int, joint: Joint | None) -> Part:
    """Everything that moves with ``body``; what lies in the world itself (a floor) is no part of the base."""
    members = [i for i in range(1, len(facts.bodies)) if top[i] == body]
    bodies: list[Body] = [facts.bodies[i] for i in members]
    mass = sum(b.mass for b in bodies)
    com, inertia = np.zeros(3), np.zeros((3, 3))
    if mass > 0:
        com = sum((b.mass * b.com for b in bodies), np.zeros(3)) / mass
        for b in bodies:
            off = b.com - com
            inertia += b.inertia + b.mass * (off @ off * np.eye(3) - np.outer(off, off))
    geoms = tuple(g for g in facts.geoms if g.body in members)
    for g in geoms:
        if g.shape not in ("box", "sphere", "capsule", "cylinder", "ellipsoid"):
            raise RobotError(f"geom {shown(g.name)} is of type {g.shape}: use a box, sphere, capsule, cylinder, ellipsoid or mesh")
    return Part(joint, geoms, mass, com, inertia)
