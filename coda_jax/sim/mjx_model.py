"""Scenes as stacked leaves of one MJX model.

MJX reads geom types, joint types, contact bits and priorities while it traces, so they belong to the bucket: every slot has its fixed
shapes (mjx_buckets.py), the link of the articulated slot a slide and a hinge in series, and a scene only fills in numbers. Geoms that a
scene leaves empty are shrunk and kept where they touch nothing; the joint that a link does not have turns about no axis.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim import mjx_buckets
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.compile import HIDDEN_GROUP, CompiledScene, SceneError, compile_scene, template_xml
from coda_jax.sim.joint import HINGE_ARMATURE
from coda_jax.sim.mjx_buckets import MJX_BUCKETS
from coda_jax.sim.panda import PANDA
from coda_jax.sim.robot import Robot
from coda_jax.types import FIXTURE_SLOTS

ROBOT = PANDA  # capsules in place of its pads would halve the contacts, but slip off flat things and balls (docs/mjx.md)
EMPTY_SIZE_M = (0.001, 0.001, 0.001)
ASIDE_M = (20.0, 20.0, 2.0)  # empty slots float here; the table's plane is infinite, so they stay above it
# MJX uses bounding radii for one thing, to choose the pairs that it tests: those nearest after the radii are taken off. The true radii of
# palm, boards and walls put whatever is near them before what touches, so they are cut; those of empty geoms put them last.
_MOST_RADIUS_M, _NEVER_M = 0.03, -1000.0
_TYPES = {"box": mujoco.mjtGeom.mjGEOM_BOX, "capsule": mujoco.mjtGeom.mjGEOM_CAPSULE}

# What differs between scenes of one bucket; the rest of the model is shared by all worlds.
FIELDS = (
    "stat.meaninertia", "stat.meanmass", "stat.meansize", "stat.center",
    "body_pos", "body_quat", "body_ipos", "body_iquat", "body_mass", "body_subtreemass", "body_inertia", "body_invweight0", "body_gravcomp",
    "dof_invweight0", "dof_M0",
    "geom_size", "geom_rbound", "geom_aabb", "geom_friction", "geom_pos", "geom_quat",
)  # fmt: skip
# Also where there is an articulated slot. All of JOINT_FIELDS and the dof_ fields get one row more than native models have.
JOINT_FIELDS = (
    "dof_armature", "dof_damping", "dof_frictionloss", "jnt_pos", "jnt_axis", "jnt_range", "jnt_stiffness", "qpos0", "qpos_spring",
)  # fmt: skip


@functools.cache
def frame(bucket: Bucket) -> mujoco.MjModel:
    """The bucket's own model: all slots empty, shapes and contact bits as in every scene, no contact sensors (MJX has none by body)."""
    if bucket not in MJX_BUCKETS:
        mjx_buckets.declared(bucket)
        raise SceneError(f"bucket {bucket.name} is not declared for MJX; its scenes run in {mjx_buckets.declared(bucket).name}")
    limits = MJX_BUCKETS[bucket]
    xml = re.sub("<sensor>.*</sensor>", "", template_xml(bucket, ROBOT))
    numbers = "".join(
        f'<numeric name="{name}" data="{value}"/>'
        for name, value in (("max_contact_points", limits.contacts), ("max_geom_pairs", limits.pairs))
    )
    spec = mujoco.MjSpec.from_string(xml.replace("</mujoco>", f"<custom>{numbers}</custom></mujoco>"))
    _set_cone(spec.option)
    table = spec.geom("table")
    for body, part in _bodies(bucket):
        for g, shape in enumerate(mjx_buckets.slot_of(bucket, part)):
            geom = spec.geom(f"{body}_g{g}")
            geom.type, geom.size, geom.priority = _TYPES[shape], EMPTY_SIZE_M, int(part in ("object", "link"))
            geom.contype, geom.conaffinity = (2, 7) if part == "object" else (table.contype, table.conaffinity)
    if bucket.articulated:
        slide = spec.joint("link")
        spec.body("link").add_joint(
            name="link_hinge",
            type=mujoco.mjtJoint.mjJNT_HINGE,
            axis=(1, 0, 0),
            limited=slide.limited,
            range=slide.range,
            armature=HINGE_ARMATURE,
            frictionloss=slide.frictionloss,
            solref_friction=slide.solref_friction,
            solimp_friction=slide.solimp_friction,
        )
    return spec.compile()


def _set_cone(option: Any) -> None:
    """MJX's friction, of an MjSpec's or a model's options.

    In float32 the elliptic cone of the native backend throws objects about as soon as two of them rest on the table (of 24 scenes none
    succeeded). Pyramids hold, but with the native ``impratio`` of 10 things tip over in the jaws and when let go (docs/mjx.md).
    """
    option.cone, option.impratio = mujoco.mjtCone.mjCONE_PYRAMIDAL, 1.0


def _bodies(bucket: Bucket) -> list[tuple[str, str]]:
    """(body, part) of every slot."""
    slots = [(f"o{i}", "object") for i in range(bucket.free)] + [(f"f{i}", "fixture") for i in range(FIXTURE_SLOTS)]
    return slots + ([("base", "base"), ("link", "link")] if bucket.articulated else [])


def compiled(spec: SceneSpec, catalogue: Catalogue, bucket: Bucket, robot: Robot = ROBOT) -> CompiledScene:
    """The native model of what MJX simulates: stand-in shapes, MJX's fingers and friction cone, in a declared bucket.

    Raises:
      SceneError: the bucket or a slot cannot hold the scene.
    """
    frame(bucket)
    scene = compile_scene(spec, catalogue, bucket, robot, functools.partial(mjx_buckets.fit, bucket))
    _set_cone(scene.model.opt)
    return scene


def fields_of(model: mujoco.MjModel, names: Sequence[str], most_radius: float) -> dict[str, np.ndarray]:
    """Fields of a model as MJX holds them, float32; ``names`` has FIELDS at least. most_radius: at which bounding radii are cut, m."""
    fields = {name: np.array(operator.attrgetter(name)(model), np.float32) for name in names}
    fields["geom_aabb"] = fields["geom_aabb"].reshape(-1, 6)
    fields["geom_rbound"] = np.minimum(fields["geom_rbound"], most_radius)
    return fields


def scene_fields(spec: SceneSpec, catalogue: Catalogue, bucket: Bucket) -> tuple[CompiledScene, dict[str, np.ndarray], np.ndarray]:
    """One scene as the numbers that MJX needs.

    Returns:
      the compiled scene, FIELDS (and JOINT_FIELDS) as float32 arrays, and the first qpos [q] with empty slots set aside.

    Raises:
      SceneError: see ``compiled``.
    """
    scene = compiled(spec, catalogue, bucket)
    fields = fields_of(scene.model, (*FIELDS, *(JOINT_FIELDS if bucket.articulated else ())), _MOST_RADIUS_M)
    _set_empty_aside(scene.model, fields)
    qpos, first = np.array(scene.qpos, np.float32), ROBOT.coordinates
    for slot in range(bucket.free):
        if not scene.present[slot]:
            qpos[first + 7 * slot : first + 3 + 7 * slot] = (ASIDE_M[0] + slot, ASIDE_M[1], ASIDE_M[2])
    if bucket.articulated:
        _split_joint(fields, scene.joint.hinge, frame(bucket))
        qpos = np.append(qpos[:-1], [0.0, qpos[-1]] if scene.joint.hinge else [qpos[-1], 0.0]).astype(np.float32)
    return scene, fields, qpos


def _set_empty_aside(model: mujoco.MjModel, fields: dict[str, np.ndarray]) -> None:
    """Shrink the geoms that a scene leaves empty, into the middle of one that its body has."""
    empty = model.geom_group == HIDDEN_GROUP
    for geom in np.flatnonzero(empty):
        fields["geom_size"][geom], fields["geom_rbound"][geom] = EMPTY_SIZE_M, _NEVER_M
        body = model.geom_bodyid[geom]
        solid = np.flatnonzero((model.geom_bodyid == body) & ~empty)
        if len(solid):
            fields["geom_pos"][geom] = model.geom_pos[solid[0]]


def _split_joint(fields: dict[str, np.ndarray], hinge: bool, model: mujoco.MjModel) -> None:
    """Native models have one joint on the link, MJX a slide and a hinge: the one that is not there has no axis, so nothing moves it."""
    for name in ("dof_invweight0", "dof_M0", *JOINT_FIELDS):
        own = fields[name][-1:]
        # without an axis only the armature is left of its inertia
        blank = np.array(getattr(model, name)[-2:-1] if hinge else getattr(model, name)[-1:], np.float32)
        if name in ("dof_M0", "dof_invweight0"):
            inertia = float(model.dof_armature[-2 if hinge else -1])
            blank = np.full_like(own, inertia if name == "dof_M0" else 1 / inertia)
        elif name == "jnt_axis":
            blank = np.zeros_like(own)
        fields[name] = np.concatenate([fields[name][:-1], *((blank, own) if hinge else (own, blank))])
