"""Worlds of LIBERO tasks on MJX: the physics of a policy step on the device, in float32; everything else as ``Worlds``.

A policy step is one call: 25 physics steps of all worlds under the controller. Poses, contacts and sites are then read from native worlds
of the same models that are put where the device was, so that views and predicates are those of every other LIBERO simulator; that costs
a twenty-fifth of native physics, and a copy of the coordinates to the host at every policy step.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from coda_jax.sim.executable import Executable
from coda_jax.sim.libero import control
from coda_jax.sim.libero.control import ARM, SUBSTEPS
from coda_jax.sim.libero.models import TaskModel
from coda_jax.sim.libero.surrogates import mjx_control
from coda_jax.sim.libero.surrogates.model import Surrogate
from coda_jax.sim.libero.worlds import GRIP_SITE, Worlds
from coda_jax.sim.mjx_library import forward, mjx, solver, support
from coda_jax.sim.mjx_model import FIELDS as SCENE_FIELDS
from coda_jax.sim.mjx_model import fields_of
from coda_jax.sim.mjx_pairs import hidden_among
from coda_jax.types import HEALTH_NAN, HEALTH_OVERFLOW, Array

FIELDS = (*SCENE_FIELDS, "pair_friction", "pair_solref", "pair_solimp", "qpos0", "qpos_spring")
PAIRS, CONTACTS = 256, 160  # of a world: pairs of boxes that are tested, contacts that the solver sees
# Bounding radii only choose the pairs that are tested: those of the nearest centres less the radii. Of what touched in the planner's
# episodes the last had rank 760 with radii cut at 3 cm (as in mjx_model.py, whose things have no boards as large as these), 178 at 10 cm.
MOST_RADIUS_M = 0.1


@dataclasses.dataclass(frozen=True, eq=False)
class Structure:
    """What the worlds of one executable share: the model without sensors on the device, an empty state, and boxes [p, 2] that may meet."""

    device: Any
    blank: Any
    boxes: np.ndarray
    site: int

    @functools.cached_property
    def program(self) -> Executable:
        """``_policy_step`` of all worlds."""
        one = functools.partial(_policy_step, self)

        def every(shared, fields, qpos, qvel, warm, state):
            return jax.vmap(functools.partial(one, shared))(fields, qpos, qvel, warm, state)

        return Executable("libero mjx step", jax.jit(every))


_made: dict[str, Structure] = {}


@functools.lru_cache(maxsize=256)
def signature(task: TaskModel) -> str:
    """Equal for tasks that one executable takes: MJX reads these numbers while it traces."""
    m = task.model
    parts = (m.body_parentid, m.body_jntnum, m.jnt_type, m.jnt_limited, m.geom_type, m.geom_bodyid, m.pair_geom1, m.pair_geom2, m.pair_dim)
    rest = (m.site_bodyid, m.actuator_trnid, m.dof_frictionloss > 0)
    return hashlib.sha256(b"|".join(np.ascontiguousarray(a).tobytes() for a in (*parts, *rest))).hexdigest()[:16]


def structure_of(task: TaskModel) -> Structure:
    """Made once for each signature."""
    key = signature(task)
    if key not in _made:
        if not isinstance(task, Surrogate):
            raise TypeError(f"{task.key} has the official shapes, which MJX does not simulate: use its surrogate")
        model = task.without_sensors({"max_geom_pairs": PAIRS, "max_contact_points": CONTACTS})
        alike = model.geom_type[model.pair_geom1] == model.geom_type[model.pair_geom2]
        boxes = np.stack([model.pair_geom1, model.pair_geom2], 1)[alike]
        _made[key] = Structure(mjx.put_model(model, impl="jax"), mjx.make_data(model, impl="jax"), boxes, model.site(GRIP_SITE).id)
    return _made[key]


@functools.lru_cache(maxsize=512)
def _fields_of(model: mujoco.MjModel) -> dict[str, np.ndarray]:
    """What differs between worlds, float32."""
    return fields_of(model, FIELDS, MOST_RADIUS_M)


def _policy_step(own: Structure, shared: Any, fields: dict[str, Array], qpos: Array, qvel: Array, warm: Array, state: Array) -> Any:
    """Of one world: qpos and qvel at the last physics step's beginning; qpos, qvel, warm start and controller state after it; health."""
    model = shared.tree_replace(fields)

    def substep(carry, _):
        qpos, qvel, warm, state = carry
        data = own.blank.replace(qpos=qpos, qvel=qvel, qacc_warmstart=warm)
        data = forward.fwd_velocity(model, forward.fwd_position(model, data))
        position, rotation = data.site_xpos[own.site], data.site_xmat[own.site]
        waits = state[control.FRESH] != control.TAKEN
        state = jnp.where(waits, mjx_control.with_goals(state, position, rotation), state)
        arm = mjx_control.torques(
            state, qpos[:ARM], qvel[:ARM], position, rotation, data.xanchor[:ARM], data.xaxis[:ARM],
            support.full_m(model, data)[:ARM, :ARM], data.qfrc_bias[:ARM],
        )  # fmt: skip
        state, fingers = mjx_control.grip(state)
        data = data.replace(ctrl=jnp.concatenate([arm, fingers]))
        data = forward.fwd_acceleration(model, forward.fwd_actuation(model, data))
        data = forward.euler(model, solver.solve(model, data))
        full = jnp.all(data._impl.contact.dist < 0)  # every place is taken: shallower contacts may have been dropped
        hidden = hidden_among(own.boxes, PAIRS, data.geom_xpos, data.geom_xmat, model.geom_size, model.geom_rbound)
        return (data.qpos, data.qvel, data.qacc_warmstart, state), (qpos, qvel, full | hidden)

    carry = (qpos, qvel, warm, state)
    (after_qpos, after_qvel, warm, state), (before_qpos, before_qvel, lost) = jax.lax.scan(substep, carry, length=SUBSTEPS)
    finite = jnp.all(jnp.isfinite(after_qpos)) & jnp.all(jnp.isfinite(after_qvel))
    health = jnp.where(finite, 0, HEALTH_NAN) | jnp.where(jnp.any(lost), HEALTH_OVERFLOW, 0)
    return before_qpos[-1], before_qvel[-1], after_qpos, after_qvel, warm, state, health


class _Part:
    """The native batches of one signature, and their worlds one after another in one call with room for ``room``."""

    def __init__(self, batches: Sequence[Worlds], room: int):
        self.batches, self._own, self._room = batches, structure_of(batches[0].tasks[0]), room
        fields = [_fields_of(m) for worlds in batches for m in worlds.models]
        fields += [fields[0]] * (room - len(fields))
        self._fields = jax.device_put(jax.tree.map(lambda *leaves: np.stack(leaves), *fields))

    def step(self) -> tuple[np.ndarray, ...]:
        """What ``_policy_step`` gives, of every world from its batch's present state and action."""
        given = []
        for name in ("qpos", "qvel", "qacc_warmstart", "userdata"):
            rows = np.concatenate([getattr(w.batch, name).reshape(len(w.tasks), -1) for w in self.batches]).astype(np.float32)
            given.append(jnp.asarray(np.concatenate([rows, np.repeat(rows[:1], self._room - len(rows), 0)])))
        found = self._own.program(self._own.device, self._fields, *given)
        return tuple(np.asarray(leaf) for leaf in found)


class DeviceSteps:
    """Policy steps of worlds in native batches of surrogates (surrogates/model.py), on the device: one call for each signature among them.

    Args:
      batches: whose states are read and written. room: most worlds of one signature; an executable is made for it, so keep it.
    """

    def __init__(self, batches: Sequence[Worlds], room: int):
        alike: dict[str, list[Worlds]] = {}
        for worlds in batches:
            alike.setdefault(signature(worlds.tasks[0]), []).append(worlds)
        self._parts = [_Part(found, room) for found in alike.values()]

    def step(self, work: Mapping[Worlds, tuple[np.ndarray, np.ndarray]]) -> dict[Worlds, np.ndarray]:
        """One policy step of the given places of batches.

        The first after a reset is native: what the official controller measured before it is in the native worlds alone.

        Args:
          work: batch to (places [n], actions [n, 7]).

        Returns:
          batch to health flags [n]: HEALTH_NAN where the world kept its state from before; HEALTH_OVERFLOW where a contact found no place,
          or boxes overlap that were not tested.
        """
        flags: dict[Worlds, np.ndarray] = {}
        later: dict[Worlds, np.ndarray] = {}
        for worlds, (places, actions) in work.items():
            users = worlds.batch.userdata
            first = users[places, control.FRESH] == control.FIRST
            flags[worlds], later[worlds] = np.zeros(len(places), np.int32), np.flatnonzero(~first)
            if first.any():
                flags[worlds][first] = worlds.step_flags(actions[first], places[first])
            rest = places[~first]
            users[rest, control.ACTION : control.ACTION + ARM] = actions[~first]
            users[rest, control.FRESH] = control.NEW
        for part in self._parts:
            if not any(len(later.get(worlds, ())) for worlds in part.batches):
                continue
            found, at = part.step(), 0
            for worlds in part.batches:
                own, at = slice(at, at + len(worlds.tasks)), at + len(worlds.tasks)
                if len(later.get(worlds, ())):
                    places = work[worlds][0][later[worlds]]
                    flags[worlds][later[worlds]] = _taken_over(worlds, places, [leaf[own][places] for leaf in found])
        return flags


def _taken_over(worlds: Worlds, places: np.ndarray, found: Sequence[np.ndarray]) -> np.ndarray:
    """Write what the device gave into the batch; health flags."""
    before_qpos, before_qvel, qpos, qvel, warm, state, health = found
    sound = (health & HEALTH_NAN) == 0
    rows, batch = places[sound], worlds.batch
    batch.qpos[rows], batch.qvel[rows] = before_qpos[sound], before_qvel[sound]
    batch.ctrl[rows] = 0.0
    stopped = worlds.forward(rows)
    batch.qpos[rows], batch.qvel[rows] = qpos[sound], qvel[sound]
    batch.qacc_warmstart[rows] = warm[sound].reshape(len(rows), *batch.qacc_warmstart.shape[1:])
    batch.userdata[rows] = state[sound]
    batch.time[rows] += 1 / control.HZ
    return health.astype(np.int32) | np.where(np.isin(places, stopped), HEALTH_NAN, 0)
