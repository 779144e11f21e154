"""Scenes as stacked leaves of one MJX model.

MJX reads geom types, contact bits and priorities while it traces, so they belong to the bucket: every slot has its fixed shapes, and a
scene only fills in numbers. Slots that a scene leaves empty are shrunk and kept where nothing can touch them.
"""

from __future__ import annotations

import dataclasses
import functools
import re

import mujoco
import numpy as np

from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.bucket import FIXTURE_GEOMS, Bucket
from coda_jax.sim.compile import HIDDEN_GROUP, CompiledScene, SceneError, compile_scene, scene_assets, template_xml
from coda_jax.sim.panda import PANDA, arm_xml
from coda_jax.types import FIXTURE_SLOTS

# Pads with two contacts with a box instead of four.
ROBOT = dataclasses.replace(PANDA, bodies_xml=arm_xml("capsule"))
# Shapes of each free slot, by bucket. A bucket outside this table has no MJX executable; fixture slots are boxes in all of them.
MJX_BUCKETS: dict[Bucket, tuple[str, ...]] = {Bucket(2, 1): ("box",)}
MAX_CONTACTS = 32  # deepest contacts kept in a world
EMPTY_SIZE_M = (0.001, 0.001, 0.001)
ASIDE_M = (20.0, 20.0, 2.0)  # empty slots float here; the table's plane is infinite, so they stay above it

# What differs between scenes of one bucket; the rest of the model is shared by all worlds.
FIELDS = (
    "stat.meaninertia", "stat.meanmass", "stat.meansize", "stat.center",
    "body_pos", "body_quat", "body_ipos", "body_iquat", "body_mass", "body_subtreemass", "body_inertia", "body_invweight0", "body_gravcomp",
    "dof_invweight0", "dof_M0",
    "geom_size", "geom_rbound", "geom_aabb", "geom_friction", "geom_pos", "geom_quat",
)  # fmt: skip


def require_fit(spec: SceneSpec, catalogue: Catalogue, bucket: Bucket) -> None:
    """Refuse what the declared MJX bucket cannot hold.

    Raises:
      SceneError: no MJX executable for this bucket, or an object has another shape than its slot.
    """
    slots = _slots(bucket)
    for attribute, asset in zip(spec.attributes.objects, scene_assets(spec, catalogue), strict=True):
        allowed = slots if asset.kind == "object" else ("box",) * FIXTURE_GEOMS
        shapes = tuple(p.shape for p in asset.primitives)
        if len(shapes) > len(allowed) or any(shape != slot for shape, slot in zip(shapes, allowed, strict=False)):
            raise SceneError(
                f"{attribute.object}: asset {attribute.asset} consists of {' + '.join(shapes)}, but the MJX bucket {bucket.name} takes "
                f"{' + '.join(slots)} as an object and up to {FIXTURE_GEOMS} boxes as a support: use an asset made of boxes, "
                "or sim.backend=native"
            )


def _slots(bucket: Bucket) -> tuple[str, ...]:
    if bucket.articulated:
        raise SceneError(f"bucket {bucket.name} has an articulated slot, which MJX executables do not have: use sim.backend=native")
    if bucket not in MJX_BUCKETS:
        declared = ", ".join(b.name for b in sorted(MJX_BUCKETS))
        raise SceneError(
            f"bucket {bucket.name} has no MJX executable (declared: {declared}): use fewer objects or geoms, or sim.backend=native"
        )
    return MJX_BUCKETS[bucket]


@functools.cache
def frame(bucket: Bucket) -> mujoco.MjModel:
    """The bucket's own model: all slots empty, shapes and contact bits as in every scene, no contact sensors (MJX has none by body)."""
    slots = _slots(bucket)
    xml = re.sub("<sensor>.*</sensor>", "", template_xml(bucket, ROBOT))
    numeric = f'<custom><numeric name="max_contact_points" data="{MAX_CONTACTS}"/></custom>'
    spec = mujoco.MjSpec.from_string(xml.replace("</mujoco>", f"{numeric}</mujoco>"))
    # In float32 the elliptic cone of the native backend throws objects about as soon as two of them rest on the table (of 24 scenes
    # none succeeded, with impratio 1 still 21). Pyramids hold; an object in the grasp creeps by up to 5 mm against native.
    spec.option.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
    table, types = spec.geom("table"), {"box": mujoco.mjtGeom.mjGEOM_BOX}
    for body, shapes, is_object in _bodies(bucket, slots):
        for g, shape in enumerate(shapes):
            geom = spec.geom(f"{body}_g{g}")
            geom.type, geom.size, geom.priority = types[shape], EMPTY_SIZE_M, int(is_object)
            geom.contype, geom.conaffinity = (2, 7) if is_object else (table.contype, table.conaffinity)
    return spec.compile()


def _bodies(bucket: Bucket, slots: tuple[str, ...]) -> list[tuple[str, tuple[str, ...], bool]]:
    objects = [(f"o{i}", slots, True) for i in range(bucket.free)]
    return objects + [(f"f{i}", ("box",) * FIXTURE_GEOMS, False) for i in range(FIXTURE_SLOTS)]


def scene_fields(spec: SceneSpec, catalogue: Catalogue, bucket: Bucket) -> tuple[CompiledScene, dict[str, np.ndarray], np.ndarray]:
    """One scene as the numbers that MJX needs.

    Returns:
      the compiled scene, FIELDS as float32 arrays, and the first qpos [q] with empty slots set aside.

    Raises:
      SceneError: see ``require_fit`` and ``compile_scene``.
    """
    require_fit(spec, catalogue, bucket)
    scene = compile_scene(spec, catalogue, bucket, ROBOT)
    fields = {}
    for name in FIELDS:
        owner = scene.model
        for part in name.split("."):
            owner = getattr(owner, part)
        fields[name] = np.array(owner, np.float32)
    fields["geom_aabb"] = fields["geom_aabb"].reshape(-1, 6)
    # Heights in the world at which the empty geoms of fixtures hang: their bodies turn about the vertical only.
    empty = [g for g in range(scene.model.ngeom) if _is_empty(scene.model, g)]
    for k, geom in enumerate(empty):
        fields["geom_size"][geom] = EMPTY_SIZE_M
        fields["geom_rbound"][geom] = np.linalg.norm(EMPTY_SIZE_M)
        if scene.model.geom(geom).name.startswith("f"):
            fields["geom_pos"][geom] = (0.0, 0.0, ASIDE_M[2] + 20.0 + k)
    qpos, first = np.array(scene.qpos, np.float32), ROBOT.coordinates
    for slot in range(bucket.free):
        if not scene.present[slot]:
            qpos[first + 7 * slot : first + 3 + 7 * slot] = (ASIDE_M[0] + slot, ASIDE_M[1], ASIDE_M[2])
    return scene, fields, qpos


def _is_empty(model: mujoco.MjModel, geom: int) -> bool:
    return model.geom_group[geom] == HIDDEN_GROUP
