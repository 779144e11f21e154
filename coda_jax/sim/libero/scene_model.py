"""One scene's physics: its task's model with the fixtures where they are placed and the things as they are made, and where it begins."""

from __future__ import annotations

import copy
import dataclasses

import mujoco
import numpy as np

from coda_jax.runtime import InputError
from coda_jax.scenes.libero import importing, states, tasks, things
from coda_jax.scenes.libero.fitting import require_fit
from coda_jax.scenes.libero.things import DRAWER, DRAWER_SUFFIX, FRICTION, Model
from coda_jax.scenes.spec import ObjectAttributes, SceneSpec
from coda_jax.sim.libero import layout, models
from coda_jax.sim.libero.control import ARM, FINGERS
from coda_jax.sim.libero.layout import Layout, root_name
from coda_jax.sim.libero.models import TaskModel
from coda_jax.sim.libero.surrogates.model import set_pairs, surrogate
from coda_jax.types import TOKENS

OPEN_FINGERS = (0.020833, -0.020833)  # m, after the official reset
PAD = "gripper0_finger_joint1_tip"  # body of a finger's pad, both alike


@dataclasses.dataclass(frozen=True, eq=False)
class SceneModel:
    """task: whose model ``model`` is a version of. start: time, qpos, qvel. scale: [o] of the tokens."""

    spec: SceneSpec
    task: TaskModel
    layout: Layout
    model: mujoco.MjModel
    start: np.ndarray
    scale: np.ndarray


def build(spec: SceneSpec, few: bool = False) -> SceneModel:
    """The physics of a LIBERO scene; ``few``: with few primitives and explicit pairs (surrogates/model.py).

    Raises:
      InputError: its layout names no task, it is none of that task (fitting.py), or the package, its files or the right MuJoCo are missing.
    """
    task = models.load(tasks.task(spec.spatial.layout))
    if few:
        task = surrogate(task)
    found = layout.of(task)
    require_fit(spec, dict(zip(found.index, found.things, strict=False)))  # behind the things the index has regions
    scale = np.ones(TOKENS)
    scale[: len(found.things)] = [o.scale for o in spec.attributes.objects]
    model = _model(spec, task, found)
    return SceneModel(spec, task, found, model, _start(spec, task, found), scale)


def _model(spec: SceneSpec, task: TaskModel, found: Layout) -> mujoco.MjModel:
    """The task's own model where nothing differs from it, else a copy."""
    origin, changed = task.base, copy.copy(task.model)
    made = False
    for attributes, thing in zip(spec.attributes.objects, found.things, strict=True):
        name = attributes.object
        if not thing.free and thing.category != DRAWER:
            place = spec.placement(name)
            root, quat = things.root_of(thing, place.pos_m, place.yaw_rad)
            body = changed.body(root_name(name))
            body.pos, body.quat = np.add(root, origin), quat
        made |= _make(changed, attributes, thing)
    if made:
        set_pairs(changed)
        mujoco.mj_setConst(changed, mujoco.MjData(changed))
    same = np.array_equal(changed.body_pos, task.model.body_pos) and np.array_equal(changed.body_quat, task.model.body_quat)
    return task.model if same and not made else changed


def _bodies(model: mujoco.MjModel, name: str) -> list[int]:
    """Bodies of a thing: its root and everything below it."""
    root = model.body(root_name(name)).id
    found = [root]
    for body in range(root + 1, model.nbody):
        if model.body_parentid[body] in found:
            found.append(body)
    return found


def _make(model: mujoco.MjModel, attributes: ObjectAttributes, thing: Model) -> bool:
    """Size, mass and friction of one thing, in place; whether anything differs from its asset."""
    scale, mass, friction = attributes.scale, attributes.mass_kg / thing.mass_kg, attributes.friction / FRICTION
    if (scale, mass, friction) == (1.0, 1.0, 1.0):
        return False
    if not thing.free and (scale != 1.0 or mass != 1.0):
        raise InputError(f"{attributes.object} is fixed: its scale stays 1 and its mass {thing.mass_kg:g} kg; change its friction or place")
    if attributes.object.endswith(DRAWER_SUFFIX):
        raise InputError(f"{attributes.object} is part of the cabinet: change the cabinet's friction")
    bodies = _bodies(model, attributes.object)
    geoms = np.flatnonzero(np.isin(model.geom_bodyid, bodies))
    sites = np.flatnonzero(np.isin(model.site_bodyid, bodies))
    if friction != 1.0:
        _rub(model, geoms, friction)
    if (model.geom_type[geoms] == mujoco.mjtGeom.mjGEOM_MESH).any() and scale != 1.0:
        raise InputError(f"{attributes.object} is made of meshes, whose size is fixed: leave its scale at 1")
    for field, rows in (("geom_size", geoms), ("geom_pos", geoms), ("geom_rbound", geoms), ("geom_aabb", geoms), ("site_pos", sites)):
        getattr(model, field)[rows] *= scale
    model.site_size[sites] *= scale
    model.body_ipos[bodies] *= scale
    model.body_pos[bodies[1:]] *= scale
    for body in bodies:
        first, count = model.body_bvhadr[body], model.body_bvhnum[body]
        model.bvh_aabb[first : first + count] *= scale
    model.body_mass[bodies] *= mass
    model.body_inertia[bodies] *= mass * scale**2
    return True


def _rub(model: mujoco.MjModel, geoms: np.ndarray, factor: float) -> None:
    """Sliding friction of one thing's geoms, in place: from then on that of all their contacts.

    MuJoCo takes the larger friction of two geoms (finger pads have 2.0) unless one has priority. Priority also decides how soft the contact
    is, so the geoms get what MuJoCo mixes for them and a pad: a grasp differs in friction alone.
    """
    pad = model.geom_bodyid == model.body(PAD).id
    model.geom_friction[geoms, 0] *= factor
    model.geom_priority[geoms] = 1
    for field in ("geom_solref", "geom_solimp"):
        values = getattr(model, field)
        values[geoms] = (values[geoms] + values[pad]) / 2


def _start(spec: SceneSpec, task: TaskModel, found: Layout) -> np.ndarray:
    """The suite's state to the last bit where the scene is one of them, else what its placements say, at rest."""
    model = task.model
    number = importing.exact_state(spec)
    if number is not None:
        rows = states.read(tasks.task(spec.spatial.layout).init, 1 + model.nq + model.nv)
        if number >= len(rows):
            raise InputError(f"{spec.spatial.layout}: the suite has the initial states 0 to {len(rows) - 1}")
        return rows[number]
    qpos = np.array(model.qpos0)
    qpos[:ARM], qpos[ARM : ARM + FINGERS] = task.home, OPEN_FINGERS
    for o, (attributes, thing) in enumerate(zip(spec.attributes.objects, found.things, strict=True)):
        place = spec.placement(attributes.object)
        if found.free[o]:
            root, quat = things.root_of(thing, place.pos_m, place.yaw_rad, attributes.scale)
            at = found.free_q[o]
            qpos[at : at + 7] = *np.add(root, task.base), *quat
        elif found.jointed[o]:
            ends = thing.joints[thing.joint]
            qpos[found.joint[o]] = ends.closed + (place.opening or 0.0) * (ends.opened - ends.closed)
    return np.concatenate([[0.0], qpos, np.zeros(model.nv)])
