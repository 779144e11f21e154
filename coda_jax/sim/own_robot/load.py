"""A robot from the user's MJCF: ``robot_from_mjcf``, or a JSON record beside the model that says which of its parts are what."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from coda_jax.scenes.placement import REACH_X_M, REACH_Y_M, within_reach
from coda_jax.sim.inverse import inverse_kinematics, top_down
from coda_jax.sim.own_robot import write
from coda_jax.sim.own_robot.errors import RobotError, shown
from coda_jax.sim.own_robot.facts import facts_of
from coda_jax.sim.own_robot.hand import Hand, hand_of
from coda_jax.sim.own_robot.parts import Assembly, assemble
from coda_jax.sim.own_robot.record import check_name, files_of
from coda_jax.sim.own_robot.text import Source, read
from coda_jax.sim.panda import STIFFNESS
from coda_jax.sim.robot import START_M, Matrix, Robot, Vector, forward_kinematics

LEAST_REACH = 0.6  # share of the work area; half of the grid is low, half is high
_START_ERROR = 1e-5  # m and rad
_LOWEST_M = 0.03  # of a joint above the table
_STIFFNESS = (10.0, 1e5)
_PLAY_RAD = 0.01  # by which a home posture may be outside the limits


def robot_of(path: Path) -> Robot:
    """The robot of a record (record.py); it is called like the file.

    Raises:
      RobotError: the record or the model cannot be used.
    """
    record, source = files_of(path.resolve())
    return _loaded(
        source, record.mjcf, grip_site=record.grip_site, hand_body=record.hand_body, fingers=record.fingers, home=record.home,
        stiffness=record.stiffness, name=path.stem,
    )  # fmt: skip


def robot_from_mjcf(
    path: Path,
    *,
    grip_site: str,
    hand_body: str,
    fingers: tuple[str, str],
    home: Sequence[float] | str,
    stiffness: Sequence[float] | None = None,
    name: str | None = None,
) -> Robot:
    """An arm of 6 or 7 hinges with two sliding fingers.

    Geometry, masses and limits are the model's; servos, armature and gravity compensation are those of every robot here, and only palm and
    fingers collide. Meshes become the boxes around them.

    Args:
      grip_site: between the finger tips, z away from the hand. hand_body: whose colliding geoms are the palm. fingers: bodies of the two
        slides, left first. home: joint angles from the base on, as the model counts them (rad), or a keyframe; a posture near the start,
        which is found from it. stiffness: of the joints' servos, N m/rad. name: the file's, where left out.

    Raises:
      RobotError: the model cannot be used; the message says what to change.
    """
    name = path.stem if name is None else name
    check_name(name)
    return _loaded(
        read(path), path.name, grip_site=grip_site, hand_body=hand_body, fingers=fingers, home=home, stiffness=stiffness, name=name
    )


def _loaded(
    source: Source,
    file: str,
    *,
    grip_site: str,
    hand_body: str,
    fingers: tuple[str, str],
    home: Sequence[float] | str,
    stiffness: Sequence[float] | None,
    name: str,
) -> Robot:
    try:
        made = assemble(facts_of(source), source.couplings, grip_site, hand_body, fingers)
        return _started(described(name, made, hand_of(made), home, stiffness))
    except RobotError as error:
        raise RobotError(f"{file}: {error}") from error


def described(name: str, made: Assembly, hand: Hand, home: Sequence[float] | str, stiffness: Sequence[float] | None) -> Robot:
    """The robot that an assembly is, at the home given.

    Raises:
      RobotError: home or stiffness do not fit its joints.
    """
    joints = [p.joint for p in made.links[1:] if p.joint is not None]
    zero, lower, upper = (np.array([getattr(j, k) for j in joints]) for k in ("zero", "low", "high"))
    gains = STIFFNESS[: len(joints)].tolist() if stiffness is None else [float(v) for v in stiffness]
    if len(gains) != len(joints) or not all(_STIFFNESS[0] <= v <= _STIFFNESS[1] for v in gains):
        raise RobotError(f"stiffness has {len(gains)} values: give {len(joints)}, each of {_STIFFNESS[0]:g} to {_STIFFNESS[1]:g} N m/rad")
    posture = _posture(made, home, zero)
    for joint, angle in zip(joints, posture, strict=True):
        if not joint.low - _PLAY_RAD <= angle <= joint.high + _PLAY_RAD:
            raise RobotError(
                f"home turns joint {shown(joint.name)} to {angle + joint.zero:.5g} rad, beyond its {joint.low + joint.zero:.3g} to "
                f"{joint.high + joint.zero:.3g}: give angles in rad that it allows"
            )
    origins, rotations = write.frames_of(made)
    before, turned = np.concatenate([np.zeros((1, 3)), origins[:-1]]), np.concatenate([np.eye(3)[None], rotations[:-1]])
    return Robot(
        name=name,
        home_rad=_tuple(np.clip(posture, lower, upper)),
        lower_rad=_tuple(lower),
        upper_rad=_tuple(upper),
        translations=tuple(_tuple(r.T @ (o - b)) for r, o, b in zip(turned, origins, before, strict=True)),
        rotations=tuple(_matrix(r.T @ now) for r, now in zip(turned, rotations, strict=True)),
        tool_translation=_tuple(rotations[-1].T @ (made.grip.pos - origins[-1])),
        tool_rotation=_matrix(rotations[-1].T @ hand.rotation),
        bodies_xml=write.bodies_xml(made, hand, lower, upper),
        actuators_xml=write.actuators_xml(gains, lower, upper),
    )


def _started(robot: Robot) -> Robot:
    """The robot with the start as its home, if it reaches enough from there."""
    robot = dataclasses.replace(robot, home_rad=_start(robot))
    if (share := reach_share(robot)) < LEAST_REACH:
        raise RobotError(
            f"the hand reaches {share:.0%} of the work area with every joint above the table: give a home posture with the elbow up, move "
            "the base, or use a longer arm"
        )
    return robot


def _heights(robot: Robot, q: np.ndarray) -> np.ndarray:
    """[n, dof] heights of the joints above the table, m."""
    translations, rotations, _, _ = robot.frames
    position, rotation = np.zeros((len(q), 3)), np.tile(np.eye(3), (len(q), 1, 1))
    heights = np.zeros(q.shape)
    for i, (c, s) in enumerate(zip(np.cos(q.T), np.sin(q.T), strict=True)):
        position = position + rotation @ translations[i]
        rotation = rotation @ rotations[i]
        x, y, z = np.moveaxis(rotation, 2, 0)
        rotation = np.stack([c[:, None] * x + s[:, None] * y, c[:, None] * y - s[:, None] * x, z], axis=2)
        heights[:, i] = position[:, 2]
    return heights


def _tuple(values: np.ndarray) -> Vector:
    return tuple(float(v) for v in values)


def _matrix(rotation: np.ndarray) -> Matrix:
    return tuple(_tuple(row) for row in rotation)


def _posture(made: Assembly, home: Sequence[float] | str, zero: np.ndarray) -> np.ndarray:
    if isinstance(home, str):
        if home not in made.keys:
            known = ", ".join(shown(k) for k in made.keys) or "none"
            raise RobotError(f"there is no keyframe {shown(home)} (there are: {known}): add it, or give home as joint angles")
        if not np.isfinite(made.keys[home]).all():
            raise RobotError(f"keyframe {shown(home)} has an angle that is no number: mend it")
        return made.keys[home]
    try:
        given = np.asarray(home, float)
    except (TypeError, ValueError):
        raise RobotError(f"home is {shown(home)}: give {len(zero)} joint angles in rad, from the base on, or a keyframe") from None
    if given.shape != zero.shape or not np.isfinite(given).all():
        raise RobotError(f"home has {given.size} values: give {len(zero)} joint angles in rad, from the base on")
    return given - zero


def _start(robot: Robot) -> Vector:
    """The start posture near the home given: the jaws are symmetric, so of both turns of the hand the nearer one."""
    wanted = top_down(np.array([0.0, np.pi]))
    q, off, _ = inverse_kinematics(robot, np.tile(START_M, (2, 1)), wanted, _START_ERROR)
    turned = np.abs(forward_kinematics(robot, q)[1] - wanted).max((1, 2))  # not by the sine of the angle, which is 0 at half a turn too
    reached = (off < 2 * _START_ERROR) & (turned < 2 * _START_ERROR)
    if not reached.any():
        raise RobotError(
            f"from the home given the arm does not come to {START_M} m with the hand down and the jaws along x (it stays {off.min():.3f} m "
            "away): give a home posture nearer to that, wider limits, or a longer arm"
        )
    change = np.where(reached, np.abs(q - robot.home_rad).max(1), np.inf)
    return _tuple(q[int(change.argmin())])


def reach_share(robot: Robot) -> float:
    """Share of a grid over the work area, low and high, at which the hand can point down with some turn of the jaws and every joint
    above the table, solved from the home posture."""
    xs, ys = np.linspace(*REACH_X_M, 7), np.linspace(*REACH_Y_M, 7)
    places = [(x, y, z) for x in xs for y in ys for z in (0.02, 0.2) if within_reach(x, y)]
    yaws = np.array([0.0, np.pi / 2, np.pi, -np.pi / 2])
    points = np.repeat(np.array(places), len(yaws), axis=0)
    q, off, turned = inverse_kinematics(robot, points, top_down(np.tile(yaws, len(places))))
    free = _heights(robot, q).min(axis=1) > _LOWEST_M
    return float(((off < 0.005) & (turned < 0.05) & free).reshape(-1, len(yaws)).any(1).mean())
