"""SceneSpec to MjModel: one template per bucket, edited and recompiled for each scene.

Names are canonical (bodies ``o0..o5`` and ``f0, f1``, geoms ``o0_g1``), never the scene's own, so that all models of a bucket share one
layout and no text of a program reaches MuJoCo.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence

import mujoco
import numpy as np

from coda_jax.scenes.articulated import Articulated, made
from coda_jax.scenes.assets import Asset, Primitive
from coda_jax.scenes.catalogue import Catalogue, UnknownAsset
from coda_jax.scenes.language import COLOURS
from coda_jax.scenes.spec import ObjectAttributes, Placement, SceneSpec
from coda_jax.sim import joint as joints
from coda_jax.sim.bucket import BASE_GEOMS, FIXTURE_GEOMS, LINK_GEOMS, Bucket, smallest
from coda_jax.sim.inertia import mass_distribution
from coda_jax.sim.joint import Joint
from coda_jax.sim.panda import PANDA
from coda_jax.sim.quiet import quiet
from coda_jax.sim.robot import Robot
from coda_jax.types import ARTICULATED_TOKEN, FIXTURE_SLOTS, FREE_SLOTS, TIMESTEP_S, TOKENS

# Contact bits: (contype, conaffinity). Static things never meet each other, nor do the robot's own parts.
_STATIC, _OBJECT, _ROBOT = (1, 6), (2, 7), (4, 3)
_NOTHING = (8, 0)  # meets nobody, but counts as a collider: bounding volumes, hence the layout, stay those of the bucket
_TYPES = {
    "box": mujoco.mjtGeom.mjGEOM_BOX,
    "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER,
    "sphere": mujoco.mjtGeom.mjGEOM_SPHERE,
    "capsule": mujoco.mjtGeom.mjGEOM_CAPSULE,
    "ellipsoid": mujoco.mjtGeom.mjGEOM_ELLIPSOID,
}
PARKED_M = (0.0, 0.0, -5.0)
# MuJoCo lays its arrays out differently for a body whose inertia is diagonal at its origin: a hundredth of a millimetre off, none is.
_OFF_CENTRE_M = (1e-5, 0.0, 0.0)
FIXTURE_FRICTION = 1.0
_SHADE, _HANDLE_SHADE = 0.75, 0.5  # of the colour of a moving link: its base and its handle
VISIBLE_GROUP, HIDDEN_GROUP = 0, 5

# What collides in place of primitives, by part ("object", "fixture", "base" or "link"): one an entry of the slot, None leaves a geom empty.
Fit = Callable[[str, tuple[Primitive, ...]], Sequence[Primitive | None]]


class SceneError(ValueError):
    """A scene that cannot be built; the message names the object, the limit and the fix."""


@dataclasses.dataclass(frozen=True)
class CompiledScene:
    """One scene, ready to simulate: its model, its first state, and the constant rows of its WorldView (tokens ``o``)."""

    spec: SceneSpec
    model: mujoco.MjModel
    qpos: np.ndarray  # [q]
    index: Mapping[str, int]  # object id -> token
    half_extent: np.ndarray  # [o, 3]
    cavity_pos: np.ndarray  # [o, 3]
    cavity_half: np.ndarray  # [o, 3]
    fixture_pos: np.ndarray  # [2, 3]
    fixture_quat: np.ndarray  # [2, 4]
    present: np.ndarray  # [o] bool
    joint: Joint  # of the articulated object; one that does not move without it
    robot: Robot


def contact_sensors(bucket: Bucket) -> list[tuple[str, str, str]]:
    """(name, first, second) of every contact sensor of a bucket, in sensordata order: fingers, pairs of bodies, the table, the
    articulated slot."""
    objects = [f"o{i}" for i in range(bucket.free)]
    fixtures = [f"f{i}" for i in range(FIXTURE_SLOTS)]
    sensors = [(f"{o}_{side}", f'body1="{o}"', f'body2="finger_{side}"') for o in objects for side in ("left", "right")]
    pairs = [(a, b) for i, a in enumerate(objects) for b in objects[i + 1 :] + fixtures]
    sensors += [(f"{a}_{b}", f'body1="{a}"', f'body2="{b}"') for a, b in pairs]
    sensors += [(f"{o}_table", f'body1="{o}"', 'geom2="table"') for o in objects]
    if bucket.articulated:
        sensors += [(f"link_{side}", 'body1="link"', f'body2="finger_{side}"') for side in ("left", "right")]
        sensors += [(f"{o}_{part}", f'body1="{o}"', f'body2="{part}"') for o in objects for part in ("base", "link")]
    return sensors


@functools.cache
def template_xml(bucket: Bucket, robot: Robot = PANDA) -> str:
    """MJCF of an empty bucket: the robot, a table top at z = 0, parked slots, contact sensors. Settings: docs/simulation.md."""
    xml = [
        f'<mujoco><compiler angle="radian"/><option timestep="{TIMESTEP_S}" integrator="implicitfast" cone="elliptic" '
        'iterations="20" ls_iterations="20" impratio="10"/>'
        '<default><geom condim="4" solref="0.01 1"/>'
        f'<default class="visual"><geom contype="0" conaffinity="0" group="{VISIBLE_GROUP}" mass="0" rgba="0.93 0.93 0.95 1"/></default>'
        f'<default class="robot"><geom contype="{_ROBOT[0]}" conaffinity="{_ROBOT[1]}" mass="0" rgba="0.3 0.3 0.33 1"/></default>'
        f'<default class="slot"><geom contype="{_NOTHING[0]}" conaffinity="{_NOTHING[1]}" group="{HIDDEN_GROUP}" mass="0" '
        'type="sphere" size="0.001 0.001 0.001"/></default>'
        "</default><worldbody>"
        f'<geom name="table" type="plane" size="1.5 1.5 0.1" contype="{_STATIC[0]}" conaffinity="{_STATIC[1]}" rgba="0.72 0.62 0.52 1"/>'
    ]
    xml.append(robot.bodies_xml)
    for i in range(FIXTURE_SLOTS):
        geoms = "".join(f'<geom name="f{i}_g{g}" class="slot"/>' for g in range(FIXTURE_GEOMS))
        xml.append(f'<body name="f{i}" pos="{PARKED_M[0]} {PARKED_M[1]} {PARKED_M[2]}">{geoms}</body>')
    for i in range(bucket.free):
        geoms = "".join(f'<geom name="o{i}_g{g}" class="slot"/>' for g in range(bucket.geoms))
        xml.append(
            f'<body name="o{i}" pos="{i - 2.5} 3 {PARKED_M[2]}" gravcomp="1"><freejoint name="o{i}"/>'
            f'<inertial pos="{_OFF_CENTRE_M[0]} 0 0" mass="0.1" diaginertia="1e-4 1e-4 1e-4"/>{geoms}</body>'
        )
    if bucket.articulated:  # last, so that the coordinates before it are those of the bucket without it
        base, link = (
            "".join(f'<geom name="{part}_g{g}" class="slot"/>' for g in range(n))
            for part, n in (("base", BASE_GEOMS), ("link", LINK_GEOMS))
        )
        xml.append(
            f'<body name="base" pos="{PARKED_M[0]} {PARKED_M[1]} {PARKED_M[2]}">{base}<body name="link" gravcomp="1">'
            f'<joint name="link" type="slide" axis="1 0 0" limited="true" range="0 1" armature="{joints.SLIDE_ARMATURE}" frictionloss="1" '
            f'solreffriction="0.01 1" solimpfriction="{joints.STIFF} {joints.STIFF} 0.001"/>'
            f'<inertial pos="{_OFF_CENTRE_M[0]} 0 0" mass="0.1" diaginertia="1e-4 1e-4 1e-4"/>{link}</body></body>'
        )
    xml.append("</worldbody>")
    xml.append(robot.actuators_xml)
    xml.append("<sensor>")
    xml += [f'<contact name="{name}" {a} {b} num="1" data="found"/>' for name, a, b in contact_sensors(bucket)]
    return "".join(xml) + "</sensor></mujoco>"


@functools.cache
def _template(bucket: Bucket, robot: Robot) -> mujoco.MjSpec:
    quiet()
    return mujoco.MjSpec.from_string(template_xml(bucket, robot))


def _quat_of_yaw(yaw_rad: float) -> tuple[float, float, float, float]:
    return (math.cos(yaw_rad / 2), 0.0, 0.0, math.sin(yaw_rad / 2))


def _shape(geom: mujoco.MjsGeom, p: Primitive, rgba: tuple[float, ...], bits: tuple[int, int], friction: float) -> None:
    geom.type = _TYPES[p.shape]
    geom.size = p.size_m
    geom.pos = p.pos_m
    geom.quat = p.quat_wxyz
    geom.contype, geom.conaffinity = bits
    geom.group = VISIBLE_GROUP
    geom.rgba = rgba
    geom.friction = (friction, 0.005, 0.0001)


def _hide(geom: mujoco.MjsGeom) -> None:
    geom.type = _TYPES["sphere"]
    geom.size = (0.001, 0.001, 0.001)
    geom.pos, geom.quat = (0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0)
    geom.contype, geom.conaffinity = _NOTHING
    geom.group, geom.priority = HIDDEN_GROUP, 0
    geom.friction, geom.rgba = (1.0, 0.005, 0.0001), (0.5, 0.5, 0.5, 1.0)


def _set_inertial(body: mujoco.MjsBody, mass_kg: float, centre_m: np.ndarray, tensor: np.ndarray) -> None:
    principal, quat = np.empty(3), np.empty(4)
    mujoco.mju_eig3(principal, np.empty(9), quat, tensor.ravel())
    body.explicitinertial, body.mass, body.inertia = 1, mass_kg, principal
    body.ipos, body.iquat = centre_m + _OFF_CENTRE_M, quat


def scene_assets(spec: SceneSpec, catalogue: Catalogue) -> tuple[Asset, ...]:
    """The scaled asset of each object, in token order. Raises SceneError for an unknown asset."""
    assets = []
    for attribute in spec.attributes.objects:
        try:
            assets.append(made(catalogue.get(attribute.asset), attribute))
        except UnknownAsset as error:
            raise SceneError(f"{attribute.object}: {error}") from error
    return tuple(assets)


def bucket_of(spec: SceneSpec, catalogue: Catalogue) -> Bucket:
    """The smallest bucket that takes the scene. Raises SceneError naming the limit that is exceeded."""
    assets = scene_assets(spec, catalogue)
    free = [a for a in assets if a.kind == "object"]
    try:
        jointed = any(isinstance(a, Articulated) for a in assets)
        return smallest(len(free), max((len(a.primitives) for a in free), default=1), jointed)
    except ValueError as error:
        raise SceneError(str(error)) from error


def token_index(spec: SceneSpec, catalogue: Catalogue) -> dict[str, int]:
    """Token of each object id: free objects 0.., fixtures 6.., the articulated one 7. Raises SceneError when a kind has too many."""
    index, free, fixed = {}, 0, 0
    jointed: list[str] = []
    for attribute, asset in zip(spec.attributes.objects, scene_assets(spec, catalogue), strict=True):
        if asset.kind == "object":
            index[attribute.object], free = free, free + 1
        elif isinstance(asset, Articulated):
            index[attribute.object] = ARTICULATED_TOKEN
            jointed.append(attribute.object)
        else:
            index[attribute.object], fixed = FREE_SLOTS + fixed, fixed + 1
    if len(jointed) > 1:
        raise SceneError(f"{' and '.join(jointed)} are articulated; at most one fits a scene: remove the others")
    if free > FREE_SLOTS or fixed + len(jointed) > FIXTURE_SLOTS:
        raise SceneError(f"{free} free objects and {fixed + len(jointed)} fixtures; at most {FREE_SLOTS} and {FIXTURE_SLOTS}: remove some")
    return index


def as_made(part: str, primitives: tuple[Primitive, ...]) -> tuple[Primitive, ...]:
    """The Fit of the catalogue's own primitives."""
    del part
    return primitives


def compile_scene(spec: SceneSpec, catalogue: Catalogue, bucket: Bucket, robot: Robot = PANDA, fit: Fit = as_made) -> CompiledScene:
    """Build one scene in a bucket (about 1 ms). ``fit``: shapes that collide; masses and inertia are always those of the primitives.

    Raises:
      SceneError: the scene does not fit the bucket, names an unknown asset or colour, or MuJoCo refuses the model.
    """
    index = token_index(spec, catalogue)
    template = _template(bucket, robot)
    half_extent, cavity_pos, cavity_half = np.zeros((TOKENS, 3)), np.zeros((TOKENS, 3)), np.zeros((TOKENS, 3))
    present = np.zeros(TOKENS, bool)
    fixture_pos = np.tile(np.array(PARKED_M), (FIXTURE_SLOTS, 1))
    fixture_quat = np.tile(np.array([1.0, 0.0, 0.0, 0.0]), (FIXTURE_SLOTS, 1))
    free_pose: dict[int, tuple] = {}
    jointed = joints.NONE
    for attribute, asset in zip(spec.attributes.objects, scene_assets(spec, catalogue), strict=True):
        token, placement = index[attribute.object], spec.placement(attribute.object)
        if attribute.colour not in COLOURS:
            raise SceneError(f"{attribute.object}: unknown colour {attribute.colour!r}; use one of {', '.join(sorted(COLOURS))}")
        rgba = (*COLOURS[attribute.colour], 1.0)
        if isinstance(asset, Articulated):
            jointed = _put_articulated(template, bucket, asset, attribute, placement, rgba, fit)
            half_extent[token], present[token] = jointed.half_extent, True
            continue
        fixture = token >= FREE_SLOTS
        body_name = f"f{token - FREE_SLOTS}" if fixture else f"o{token}"
        limit = FIXTURE_GEOMS if fixture else bucket.geoms
        shapes = _fitted(fit, attribute.object, "fixture" if fixture else "object", asset.primitives)
        if (not fixture and token >= bucket.free) or len(shapes) > limit:
            raise SceneError(f"{attribute.object}: does not fit bucket {bucket.name} ({bucket.free} free objects of {bucket.geoms} geoms)")
        half_extent[token], cavity_pos[token], cavity_half[token] = asset.half_extent_m, asset.cavity_pos_m, asset.cavity_half_m
        present[token] = True
        body = template.body(body_name)
        quat = _quat_of_yaw(placement.yaw_rad)
        for g in range(limit):
            geom, shape = template.geom(f"{body_name}_g{g}"), shapes[g] if g < len(shapes) else None
            if shape is None:
                _hide(geom)
            elif fixture:
                _shape(geom, shape, rgba, _STATIC, FIXTURE_FRICTION)
            else:
                _shape(geom, shape, rgba, _OBJECT, attribute.friction)
                geom.priority = 1  # the object's own friction decides, so that editing it changes its grasp
        if fixture:
            body.pos, body.quat = placement.pos_m, quat
            fixture_pos[token - FREE_SLOTS], fixture_quat[token - FREE_SLOTS] = placement.pos_m, quat
        else:
            _set_inertial(body, attribute.mass_kg, *mass_distribution(asset.primitives, attribute.mass_kg))
            body.gravcomp = 0.0
            free_pose[token] = (*placement.pos_m, *quat)
    unused = [f"o{i}" for i in range(bucket.free) if i not in free_pose]
    unused += [
        f"f{i}" for i in range(FIXTURE_SLOTS) if not present[FREE_SLOTS + i] or (jointed.moves and FREE_SLOTS + i == ARTICULATED_TOKEN)
    ]
    if bucket.articulated and not jointed.moves:
        _park_articulated(template)
    for name in unused:
        body = template.body(name)
        if name[0] == "f":
            body.pos, body.quat = PARKED_M, (1.0, 0.0, 0.0, 0.0)
        else:
            _set_inertial(body, 0.1, np.zeros(3), 1e-4 * np.eye(3))
            body.gravcomp = 1.0
        for g in range(FIXTURE_GEOMS if name[0] == "f" else bucket.geoms):
            _hide(template.geom(f"{name}_g{g}"))
    try:
        model = template.compile()
    except ValueError as error:
        raise SceneError(f"MuJoCo refused scene {spec.scene_id}: {error}") from error
    qpos = model.qpos0.copy()
    first = robot.coordinates
    qpos[:first] = robot.home_command
    for token, pose in free_pose.items():
        qpos[first + 7 * token : first + 7 + 7 * token] = pose
    if bucket.articulated:
        qpos[-1] = jointed.start
    return CompiledScene(spec, model, qpos, index, half_extent, cavity_pos, cavity_half, fixture_pos, fixture_quat, present, jointed, robot)


def _fitted(fit: Fit, name: str, part: str, primitives: tuple[Primitive, ...]) -> Sequence[Primitive | None]:
    """What collides of an object's part. Raises SceneError naming the object."""
    try:
        return fit(part, primitives)
    except ValueError as error:
        raise SceneError(f"{name}: {error}") from error


def _put_articulated(
    template: mujoco.MjSpec,
    bucket: Bucket,
    asset: Articulated,
    attribute: ObjectAttributes,
    placement: Placement,
    rgba: tuple[float, ...],
    fit: Fit,
) -> Joint:
    """Fill the articulated slot; the joint as the views read it."""
    name = attribute.object
    if not bucket.articulated:
        raise SceneError(f"{name}: bucket {bucket.name} has no slot for an articulated object: use the bucket that bucket_of gives")
    if attribute.articulation is None or placement.opening is None:
        what = "articulation" if attribute.articulation is None else "opening"
        raise SceneError(f"{name}: {attribute.asset} is articulated: give it its {what}")
    parts = (("base", asset.primitives, BASE_GEOMS), ("link", asset.link.primitives, LINK_GEOMS))
    for part, primitives, limit in parts:
        shapes = _fitted(fit, name, part, primitives)
        if len(shapes) > limit:
            raise SceneError(f"{name}: its {part} has {len(shapes)} geoms; at most {limit} fit: use a simpler asset")
        for g in range(limit):
            geom, shape = template.geom(f"{part}_g{g}"), shapes[g] if g < len(shapes) else None
            if shape is None:
                _hide(geom)
                continue
            shade = _SHADE if part == "base" else _HANDLE_SHADE if g in asset.link.handle else 1.0
            _shape(geom, shape, (*(shade * c for c in rgba[:3]), 1.0), _STATIC, FIXTURE_FRICTION)
            if part == "link":
                geom.friction, geom.priority = (attribute.friction, 0.005, 0.0001), 1
    body = template.body("base")
    body.pos, body.quat = placement.pos_m, _quat_of_yaw(placement.yaw_rad)
    _set_inertial(template.body("link"), attribute.mass_kg, *mass_distribution(asset.link.primitives, attribute.mass_kg))
    joint = joints.of(asset, placement)
    joints.write(template.joint("link"), joint, attribute.articulation)
    return joint


def _park_articulated(template: mujoco.MjSpec) -> None:
    body = template.body("base")
    body.pos, body.quat = PARKED_M, (1.0, 0.0, 0.0, 0.0)
    for part, limit in (("base", BASE_GEOMS), ("link", LINK_GEOMS)):
        for g in range(limit):
            _hide(template.geom(f"{part}_g{g}"))
    _set_inertial(template.body("link"), 0.1, np.zeros(3), 1e-4 * np.eye(3))
    joints.write(template.joint("link"), joints.NONE, None)
