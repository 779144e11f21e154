"""A LIBERO task with few primitives: the same bodies, joints, masses, sites and actuators, other collision geoms, explicit pairs.

Made from the compiled model, since that is all that is kept of a task; what physics reads beside geoms is compared with it. The arm and the
robot's mount collide with nothing. A pair is listed where two of its bodies can move towards each other: things, drawers and knob, hand.
The table is a plane without end.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping
from typing import Any

import mujoco
import numpy as np

from coda_jax.sim.libero import sensors
from coda_jax.sim.libero.models import TaskModel
from coda_jax.sim.libero.surrogates.shapes import shapes_of

HAND = (
    "gripper0_right_gripper",
    "gripper0_leftfinger",
    "gripper0_rightfinger",
    "gripper0_finger_joint1_tip",
    "gripper0_finger_joint2_tip",
)
ITERATIONS = 20  # of the solver and of its line search
_JOINT = ("solref_limit", "solimp_limit", "solref_friction", "solimp_friction")
# What physics reads beside geoms, equal in both models.
SAME = (
    "body_pos", "body_quat", "body_ipos", "body_iquat", "body_mass", "body_inertia", "body_parentid", "body_gravcomp",
    "jnt_type", "jnt_pos", "jnt_axis", "jnt_range", "jnt_limited", "jnt_stiffness", "jnt_qposadr", "jnt_solref", "jnt_solimp",
    "qpos0", "qpos_spring", "dof_damping", "dof_armature", "dof_frictionloss", "dof_solref", "dof_solimp",
    "site_pos", "site_quat", "site_size", "site_type", "site_bodyid",
    "actuator_trnid", "actuator_gear", "actuator_ctrlrange", "actuator_ctrllimited", "actuator_forcerange", "actuator_gainprm",
    "actuator_biasprm",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, eq=False)
class Surrogate(TaskModel):
    """A task whose ``model`` has few primitives. official: the model that it stands for."""

    official: mujoco.MjModel

    def without_sensors(self, numbers: Mapping[str, int]) -> mujoco.MjModel:
        """The same for MJX, which has no contact sensors; ``numbers``: custom ones."""
        return compiled(self.official, sensed=False, numbers=numbers)


@functools.lru_cache(maxsize=256)
def surrogate(task: TaskModel) -> Surrogate:
    """The task with the model that stands for its own.

    Raises:
      ValueError: the model has parts that are not carried over (tendons, equalities), or the result differs in what it should not.
    """
    return Surrogate(task.key, task.problem, compiled(task.model), task.home, task.base, task.model)


def compiled(official: mujoco.MjModel, sensed: bool = True, numbers: Mapping[str, int] | None = None) -> mujoco.MjModel:
    """The model with few primitives; see ``surrogate``.

    sensed: with contact sensors. numbers: custom ones, MJX's limits.
    """
    if official.ntendon or official.neq or official.nmocap or official.na:
        raise ValueError("tendons, equalities, mocap bodies and activations are not carried over")
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    spec.nuserdata = official.nuserdata
    _options(spec, official)
    bodies = _bodies(spec, official)
    _actuators(spec, official)
    for i, j in _pairs(official):
        for a, b in itertools.product(_named(bodies[i]), _named(bodies[j])):
            spec.add_pair(name=f"{a}{sensors.SEPARATOR}{b}", geomname1=a, geomname2=b)
    if sensed:
        sensors.add(spec)
    for name, value in (numbers or {}).items():
        spec.add_numeric(name=name, data=[float(value)], size=1)
    model = spec.compile()
    model.opt.disableflags = official.opt.disableflags
    model.qpos_spring[:] = official.qpos_spring
    set_pairs(model)
    for name in SAME:
        if not np.allclose(getattr(official, name), getattr(model, name), atol=1e-9, rtol=1e-9):
            raise ValueError(f"{name} of the model with few primitives differs")
    return model


def _options(spec: Any, official: mujoco.MjModel) -> None:
    option, given = spec.option, official.opt
    option.timestep, option.gravity, option.integrator = given.timestep, given.gravity, given.integrator
    option.density, option.viscosity, option.wind = given.density, given.viscosity, given.wind
    # In float32 elliptic cones throw things about, and pyramids with a large impratio let them tip in the jaws (docs/mjx.md).
    option.cone, option.impratio = mujoco.mjtCone.mjCONE_PYRAMIDAL, 1.0
    option.iterations = option.ls_iterations = ITERATIONS


def _geom_name(body: str, number: int) -> str:
    return f"{body}{sensors.SEPARATOR}{number}"


def _bodies(spec: Any, official: mujoco.MjModel) -> list[Any]:
    made = [spec.worldbody]
    for i in range(1, official.nbody):
        name = official.body(i).name
        body = made[official.body_parentid[i]].add_body(
            name=name,
            pos=official.body_pos[i],
            quat=official.body_quat[i],
            explicitinertial=True,
            ipos=official.body_ipos[i],
            iquat=official.body_iquat[i],
            mass=official.body_mass[i],
            inertia=official.body_inertia[i],
            gravcomp=official.body_gravcomp[i],
        )
        for j in range(official.body_jntadr[i], official.body_jntadr[i] + official.body_jntnum[i]):
            _joint(body, official, j)
        _geoms(body, official, i)
        made.append(body)
    for s in range(official.nsite):
        made[official.site_bodyid[s]].add_site(
            name=official.site(s).name,
            pos=official.site_pos[s],
            quat=official.site_quat[s],
            size=official.site_size[s],
            type=mujoco.mjtGeom(official.site_type[s]),
        )
    return made


def _joint(body: Any, official: mujoco.MjModel, j: int) -> None:
    dof = official.jnt_dofadr[j]
    body.add_joint(
        name=official.joint(j).name,
        type=mujoco.mjtJoint(official.jnt_type[j]),
        pos=official.jnt_pos[j],
        axis=official.jnt_axis[j],
        range=official.jnt_range[j],
        limited=bool(official.jnt_limited[j]),
        margin=official.jnt_margin[j],
        ref=official.qpos0[official.jnt_qposadr[j]] if official.jnt_type[j] != mujoco.mjtJoint.mjJNT_FREE else 0.0,
        stiffness=official.jnt_stiffness[j],
        damping=official.dof_damping[dof],
        armature=official.dof_armature[dof],
        frictionloss=official.dof_frictionloss[dof],
        solref_limit=official.jnt_solref[j],
        solimp_limit=official.jnt_solimp[j],
        solref_friction=official.dof_solref[dof],
        solimp_friction=official.dof_solimp[dof],
    )


def collides(official: mujoco.MjModel, body: int) -> bool:
    """Whether a body keeps shapes: the hand, things, fixtures and the surface do."""
    if not (official.geom_bodyid == body).any() or body == 0:
        return False
    name, root = official.body(body).name, official.body(official.body_rootid[body]).name
    return name in HAND or root in sensors.SURFACES or root.endswith(sensors.ROOT)


def _geoms(body: Any, official: mujoco.MjModel, i: int) -> None:
    if not collides(official, i):
        return
    own = np.flatnonzero(official.geom_bodyid == i)
    first = own[0]
    material = {
        "friction": official.geom_friction[first],
        "solref": official.geom_solref[first],
        "solimp": official.geom_solimp[first],
        "condim": 3,  # the official finger links' 4 would make MJX compile and run its collisions twice
        "contype": 0,
        "conaffinity": 0,
        "mass": 0.0,
    }
    if body.name in sensors.SURFACES:
        half = official.geom_size[first, 2] if official.geom_type[first] == mujoco.mjtGeom.mjGEOM_BOX else 0.0
        top = official.geom_pos[first] + [0.0, 0.0, half]
        body.add_geom(name=_geom_name(body.name, 0), type=mujoco.mjtGeom.mjGEOM_PLANE, pos=top, size=(0.0, 0.0, 0.05), **material)
        return
    for number, box in enumerate(shapes_of(official, i)):
        quat = np.zeros(4)
        mujoco.mju_mat2Quat(quat, box.rotation.reshape(9))
        body.add_geom(name=_geom_name(body.name, number), type=mujoco.mjtGeom.mjGEOM_BOX, pos=box.pos, quat=quat, size=box.half, **material)


def _actuators(spec: Any, official: mujoco.MjModel) -> None:
    for a in range(official.nu):
        made = spec.add_actuator(
            name=official.actuator(a).name,
            target=official.joint(official.actuator_trnid[a, 0]).name,
            trntype=mujoco.mjtTrn(official.actuator_trntype[a]),
            gaintype=mujoco.mjtGain(official.actuator_gaintype[a]),
            biastype=mujoco.mjtBias(official.actuator_biastype[a]),
            gear=official.actuator_gear[a],
            ctrllimited=bool(official.actuator_ctrllimited[a]),
            ctrlrange=official.actuator_ctrlrange[a],
            forcelimited=bool(official.actuator_forcelimited[a]),
            forcerange=official.actuator_forcerange[a],
        )
        made.gainprm, made.biasprm = official.actuator_gainprm[a], official.actuator_biasprm[a]


def _named(body: Any) -> list[str]:
    return [geom.name for geom in body.geoms]


def _pairs(official: mujoco.MjModel) -> list[tuple[int, int]]:
    """Bodies that may meet: a free thing and anything, the hand and anything but itself."""
    kept = [i for i in range(1, official.nbody) if collides(official, i)]
    hand = [i for i in kept if official.body(i).name in HAND]
    free = [i for i in kept if official.body_jntnum[i] and official.jnt_type[official.body_jntadr[i]] == mujoco.mjtJoint.mjJNT_FREE]
    rest = [i for i in kept if i not in hand and i not in free]
    return [*itertools.combinations(free, 2), *itertools.product(free, rest), *itertools.product(hand, [*free, *rest])]


def set_pairs(model: mujoco.MjModel) -> None:
    """Contact parameters of the listed pairs, in place, from their geoms as MuJoCo takes them for pairs that are not listed: those of the
    geom with the higher priority; of equal ones the larger friction and the mean of the others, since all count alike here."""
    first, second = model.pair_geom1, model.pair_geom2
    ahead = (model.geom_priority[first] - model.geom_priority[second])[:, None]

    def of(values: np.ndarray, both: np.ndarray) -> np.ndarray:
        return np.where(ahead > 0, values[first], np.where(ahead < 0, values[second], both))

    rub, ref, imp = model.geom_friction, model.geom_solref, model.geom_solimp
    model.pair_friction[:] = of(rub, np.maximum(rub[first], rub[second]))[:, [0, 0, 1, 2, 2]]
    model.pair_solref[:] = of(ref, (ref[first] + ref[second]) / 2)
    model.pair_solimp[:] = of(imp, (imp[first] + imp[second]) / 2)
