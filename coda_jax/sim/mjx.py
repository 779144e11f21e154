"""The MJX backend: ``W`` worlds of one declared bucket in one jitted scan, for accelerators and for checking the native one.

A scene is numbers in stacked leaves (mjx_model.py), so neither a new scene nor a refill compiles anything.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from coda_jax.programs import expressions
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim import joint as joints
from coda_jax.sim import mjx_buckets, mjx_model, mjx_pairs, mjx_warp
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.compile import SceneError
from coda_jax.sim.control import control_ramp
from coda_jax.sim.executable import Executable, Report
from coda_jax.sim.frames import ROBOT, geom_labels
from coda_jax.sim.mjx_library import mjx
from coda_jax.sim.mjx_size import Size, size_of
from coda_jax.sim.mjx_state import DATA, native_qpos
from coda_jax.sim.panda import PANDA
from coda_jax.sim.poses import turned
from coda_jax.sim.recording import FIELD_SHAPES
from coda_jax.sim.robot import forward_kinematics
from coda_jax.sim.simulator import Episode, SceneBatch
from coda_jax.types import (
    ACTION_DIM,
    ARTICULATED_TOKEN,
    FIXTURE_SLOTS,
    FREE_SLOTS,
    HEALTH_NAN,
    HEALTH_OVERFLOW,
    MOVING_FIELDS,
    TOKENS,
    Array,
    ChunkTrace,
    SimState,
    WorldView,
    where_rows,
)

SETTLE_STEPS = 5  # control steps with the robot held at home before the first decision
_ARM, _JOINTS = PANDA.dof, PANDA.coordinates  # arm joints; arm and finger joints, before the free bodies in qpos and qvel
_FINGERS = (TOKENS + 1, TOKENS + 2)  # after tokens and table in the contact matrix
_BASE = TOKENS + 3  # of the articulated thing: touching it is touching the thing, but fingers on it do not hold the handle
_OTHER = TOKENS + 4


@functools.partial(jax.tree_util.register_dataclass, data_fields=["fields", "qpos", "constants"], meta_fields=[])
@dataclasses.dataclass(frozen=True)
class MjxScenes:
    """What differs between worlds: model fields and first qpos, stacked over ``b``; constants are the unchanging rows of the view."""

    fields: dict[str, Array]
    qpos: Array
    constants: dict[str, Array]


@functools.cache
def _shared(bucket: Bucket) -> tuple[mujoco.MjModel, Any]:
    model = mjx_model.frame(bucket)
    return model, mjx.put_model(model, impl="jax")


def _geom_owner(model: mujoco.MjModel) -> np.ndarray:
    """Column of the contact matrix of each geom: tokens, table, left and right finger, base of an articulated thing, anything else."""
    owner = geom_labels(model).astype(int)
    owner[owner == ROBOT] = _OTHER
    for geom in range(model.ngeom):
        name = model.geom(geom).name
        if name in ("pad_left", "pad_right"):
            owner[geom] = _FINGERS[name == "pad_right"]
        elif name.startswith("base"):
            owner[geom] = _BASE
    return owner


def _touching(owner: Array, data: Any) -> Array:
    """[b, 13, 13] bool: which owners are in contact."""
    if isinstance(data, mjx_warp.Physics):
        return data.touching
    contact = data._impl.contact
    active = (contact.dist < 0)[..., None]
    first = jax.nn.one_hot(owner[contact.geom[..., 0]], _OTHER + 1) * active
    second = jax.nn.one_hot(owner[contact.geom[..., 1]], _OTHER + 1)
    pairs = jnp.einsum("bci,bcj->bij", first, second)
    return (pairs + jnp.swapaxes(pairs, 1, 2)) > 0


def _quat_of_matrix(m: Array) -> Array:
    """Unit quaternions [b, 4] (wxyz, w >= 0) of rotation matrices, by the largest of the four squared components (Shepperd 1978)."""
    xx, yy, zz = m[:, 0, 0], m[:, 1, 1], m[:, 2, 2]
    squares = jnp.stack([1 + xx + yy + zz, 1 + xx - yy - zz, 1 - xx + yy - zz, 1 - xx - yy + zz], 1)
    a, b, c = m[:, 2, 1] - m[:, 1, 2], m[:, 0, 2] - m[:, 2, 0], m[:, 1, 0] - m[:, 0, 1]
    d, e, f = m[:, 1, 0] + m[:, 0, 1], m[:, 0, 2] + m[:, 2, 0], m[:, 2, 1] + m[:, 1, 2]
    w, x, y, z = (squares[:, i] for i in range(4))
    rows = jnp.stack([jnp.stack(r, 1) for r in ([w, a, b, c], [a, x, d, e], [b, d, y, f], [c, e, f, z])], 1)
    best = jnp.take_along_axis(rows, jnp.argmax(squares, 1)[:, None, None], 1)[:, 0]
    best = best / jnp.linalg.norm(best, axis=1, keepdims=True)
    return jnp.where(best[:, :1] < 0, -best, best)


def _view(bucket: Bucket, owner: Array, scenes: MjxScenes, data: Any, pos0: Array, quat0: Array, control_step: Array) -> WorldView:
    qpos, qvel, free, articulated = data.qpos, data.qvel, bucket.free, bucket.articulated
    b = qpos.shape[0]
    constants = scenes.constants

    def tokens(values: Array, fixtures: Array, absent: tuple[float, ...] = (0.0, 0.0, 0.0)) -> Array:
        gap = jnp.broadcast_to(jnp.array(absent), (b, FREE_SLOTS - free, len(absent)))
        return jnp.where(constants["present"][..., None], jnp.concatenate([values, gap, fixtures], 1), jnp.array(absent))

    bodies = qpos[:, _JOINTS : _JOINTS + 7 * free].reshape(b, free, 7)
    speeds = qvel[:, _JOINTS : _JOINTS + 6 * free].reshape(b, free, 6)
    static = jnp.zeros((b, FIXTURE_SLOTS, 3))
    pos = tokens(bodies[..., :3], constants["fixture_pos"])
    quat = tokens(bodies[..., 3:], constants["fixture_quat"], (1.0, 0.0, 0.0, 0.0))
    linvel = tokens(speeds[..., :3], static)
    angvel = tokens(turned(bodies[..., 3:], speeds[..., 3:], jnp), static)  # MuJoCo keeps a free body's spin in its own frame
    articulation, joint_range = jnp.zeros((b, TOKENS)), jnp.zeros((b, TOKENS, 2))
    ee_pos, ee_matrix, _ = forward_kinematics(PANDA, qpos[:, :_ARM], jnp)
    touching = _touching(owner, data)
    if articulated:
        # of the slide and the hinge one stays at zero
        value, speed, jointed = qpos[:, -2] + qpos[:, -1], qvel[:, -2] + qvel[:, -1], constants["joint_high"] > 0
        handle = joints.handle_pose({name: constants[f"joint_{name}"] for name in joints.FRAME}, value, speed, jnp)
        at = ARTICULATED_TOKEN
        pos, quat, linvel, angvel = (
            field.at[:, at].set(jnp.where(jointed[:, None], moved, field[:, at]))
            for field, moved in zip((pos, quat, linvel, angvel), handle, strict=True)
        )
        articulation = articulation.at[:, at].set(jnp.where(jointed, value, 0.0))
        joint_range = joint_range.at[:, at, 1].set(constants["joint_high"])
        against = touching[:, at, : TOKENS + 1] | touching[:, _BASE, : TOKENS + 1]
        touching = touching.at[:, at, : TOKENS + 1].set(against).at[:, : TOKENS + 1, at].set(against)
    return WorldView(
        ee_pos=ee_pos,
        ee_quat=_quat_of_matrix(ee_matrix),
        gripper_opening=qpos[:, _ARM] + qpos[:, _ARM + 1],
        pos=pos,
        quat=quat,
        linvel=linvel,
        angvel=angvel,
        half_extent=constants["half_extent"],
        cavity_pos=constants["cavity_pos"],
        cavity_half=constants["cavity_half"],
        articulation=articulation,
        articulation_range=joint_range,
        finger_contact=jnp.stack([touching[:, :TOKENS, f] for f in _FINGERS], -1),
        contact=touching[:, :TOKENS, : TOKENS + 1],
        present=constants["present"],
        pos0=pos0,
        quat0=quat0,
        control_step=control_step,
    )


def _control_step(bucket: Bucket, fixed: tuple[Any, Array], fields: dict[str, Array], data: Any, action: Array, hold: Array) -> Any:
    """SUBSTEPS physics steps of every world under one action [b, 7], or under the present command where ``hold``."""
    shared, owner = fixed
    ramp = jnp.where(hold, data.ctrl[:, None], control_ramp(PANDA, data.qpos[:, :_ARM], data.ctrl, action, jnp))
    if isinstance(data, mjx_warp.Physics):
        return mjx_warp.control_step(bucket, shared, owner, fields, data, jnp.swapaxes(ramp, 0, 1))

    def substep(data, ctrl):
        def one(fields, data, ctrl):
            return mjx.step(shared.tree_replace(fields), data.replace(ctrl=ctrl))

        return jax.vmap(one)(fields, data, ctrl), None

    return _renew_contacts(shared, fields, jax.lax.scan(substep, data, jnp.swapaxes(ramp, 0, 1))[0])


def _renew_contacts(shared: Any, fields: dict[str, Array], data: Any) -> Any:
    """Contacts of the present pose; a physics step leaves those of the pose before it."""

    def one(fields, data):
        model = shared.tree_replace(fields)
        return mjx.collision(model, mjx.kinematics(model, data))

    return jax.vmap(one)(fields, data)


def _health(bucket: Bucket, fields: dict[str, Array], data: Any) -> Array:
    finite = jnp.all(jnp.isfinite(data.qpos), 1) & jnp.all(jnp.isfinite(data.qvel), 1)
    if isinstance(data, mjx_warp.Physics):
        finite &= jnp.all(jnp.isfinite(data.ctrl), 1)  # warp limits a command that is no number, and goes on
        lost = data.full
    else:
        full = jnp.all(data._impl.contact.dist < 0, 1)  # every slot taken: shallower contacts may have been dropped
        hidden = jax.vmap(functools.partial(mjx_pairs.hidden, bucket))
        lost = full | hidden(data.geom_xpos, data.geom_xmat, fields["geom_size"], fields["geom_rbound"])
    return jnp.where(finite, 0, HEALTH_NAN) | jnp.where(lost, HEALTH_OVERFLOW, 0)


def run_chunk(
    bucket: Bucket,
    fixed: tuple[Any, Array],
    scenes: MjxScenes,
    table: expressions.Table,
    horizon: Array,
    mask: Array,
    state: SimState,
    chunk: Array,
    hold: Array,
) -> tuple[SimState, ChunkTrace]:
    """Chunk [b, e, 7] of every world, inside any executable.

    fixed: MjxSimulator.fixed. hold: a scalar; true settles instead: constant command, no early stop at nu.
    """
    owner = fixed[1]

    def running(state: SimState, nu: Array) -> Array:
        return mask & (hold | (nu < 0.5)) & (state.view.control_step < horizon) & (state.health == 0)

    def step(carry, action):
        state, values = carry
        active = running(state, values[:, 0])
        data = where_rows(active, _control_step(bucket, fixed, scenes.fields, state.physics, action, hold), state.physics)
        view = _view(bucket, owner, scenes, data, state.view.pos0, state.view.quat0, state.view.control_step + active)
        state = SimState(data, view, state.stage, state.health | jnp.where(active, _health(bucket, scenes.fields, data), 0))
        values = jnp.where(active[:, None], expressions.evaluate(table, view), values)
        clipped = jnp.where(active, jnp.sum(jnp.abs(action) > 1, 1), 0)
        seen = native_qpos(bucket.articulated, data.qpos, jnp)
        return (state, values), (active, values, seen, clipped, {name: getattr(view, name) for name in MOVING_FIELDS})

    before = expressions.evaluate(table, state.view)
    (state, values), (active, predicates, qpos, clipped, moving) = jax.lax.scan(step, (state, before), jnp.swapaxes(chunk, 0, 1))
    terminated = mask & (values[:, 0] > 0.5) & (state.health == 0)
    return state, ChunkTrace(
        active=active.T,
        executed=jnp.sum(active, 0, dtype=jnp.int32),
        predicates=jnp.swapaxes(predicates, 0, 1),
        qpos=jnp.swapaxes(qpos, 0, 1),
        terminated=terminated,
        truncated=mask & ~terminated & (state.view.control_step >= horizon),
        clipped=jnp.sum(clipped, 0, dtype=jnp.int32),
        moving={name: jnp.swapaxes(values, 0, 1) for name, values in moving.items()},
    )


_replace = Executable("mjx refill", jax.jit(where_rows))


@functools.cache
def _of_bucket(bucket: Bucket) -> Callable[..., tuple[SimState, ChunkTrace]]:
    return functools.partial(run_chunk, bucket)


@functools.cache
def _chunk_program(bucket: Bucket, mesh: Mesh | None) -> Executable:
    run = _of_bucket(bucket)
    if mesh is None:
        return Executable("mjx chunk", jax.jit(run))
    here, everywhere = PartitionSpec(DATA), PartitionSpec()
    specs = (everywhere, *[here] * 6, everywhere)
    # Each device solves its own contacts; left to the partitioner, every iteration of the solver would wait for all devices.
    return Executable("mjx chunk", jax.jit(jax.shard_map(run, mesh=mesh, in_specs=specs, out_specs=here, check_vma=False)))


def _empty_view(worlds: int) -> WorldView:
    """The shapes of a view before anything was measured."""
    flags = ("finger_contact", "contact", "present")
    kinds = {name: bool if name in flags else np.float32 for name in FIELD_SHAPES}
    leaves: dict[str, Any] = {name: np.zeros((worlds, *shape), kinds[name]) for name, shape in FIELD_SHAPES.items()}
    return WorldView(**leaves, control_step=np.zeros(worlds, np.int32), regions=None)


class MjxSimulator:
    """Simulator (sim/simulator.py) on MJX.

    Args:
      catalogue: assets by id. bucket: of the scenes; the simulator's own is the declared one that takes them (mjx_buckets.py). worlds: W
        and chunk: e, both fixed per executable; resets use the executable of chunks. mesh: devices over whose axis "data" the worlds are
        spread; None for the first device alone. impl: jax, or NVIDIA's warp (mjx_warp.py), which needs the extra of that name.
        prefix_steps: longest prefix that rollouts on the device (evaluation/scan_rollouts.py) have room for, control steps.

    Raises:
      SceneError: no declared bucket takes them.
      ValueError: W does not divide by the mesh's devices.
      WarpMissingError: impl is warp, and it is not installed.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        bucket: Bucket,
        worlds: int,
        chunk: int,
        mesh: Mesh | None = None,
        impl: str = "jax",
        prefix_steps: int = 0,
    ) -> None:
        self.catalogue, self.bucket, self.worlds, self.chunk, self.mesh = catalogue, mjx_buckets.declared(bucket), worlds, chunk, mesh
        self.prefix_steps = prefix_steps
        self._kept: dict[int, tuple[SceneSpec, MjxScenes, Mapping[str, int]]] = {}
        if mesh is not None and worlds % mesh.shape[DATA]:
            raise ValueError(f"{worlds} worlds on {mesh.shape[DATA]} devices: take a multiple of {mesh.shape[DATA]} worlds")
        device = SingleDeviceSharding(jax.local_devices()[0])
        self.by_world = device if mesh is None else NamedSharding(mesh, PartitionSpec(DATA))
        self.everywhere = device if mesh is None else NamedSharding(mesh, PartitionSpec())
        self.impl, (model, shared) = impl, _shared(self.bucket)
        self._one = blank = mjx.make_data(model, impl="jax")
        home = jnp.asarray(PANDA.home_command, jnp.float32)
        spread: Any = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (worlds, *leaf.shape)), blank.replace(ctrl=home))
        if impl == "warp":
            shared, self._one = mjx_warp.shared(self.bucket), mjx_warp.blank(self.bucket, 1)
            spread = mjx_warp.placed(self.bucket, _OTHER + 1, spread.qpos, spread.ctrl)
        self.fixed = jax.device_put((shared, jnp.asarray(_geom_owner(model))), self.everywhere)
        self.blank = jax.device_put(spread, self.by_world)
        zero = np.zeros(worlds, np.int32)
        self._zero, self._settling, self._everyone = self._put((zero, zero + SETTLE_STEPS, np.ones(worlds, bool)))
        self._nothing, self._unseen = self._put((np.zeros((worlds, chunk, ACTION_DIM), np.float32), _empty_view(worlds)))
        self._hold = {hold: jax.device_put(np.asarray(hold), self.everywhere) for hold in (False, True)}

    def size(self, episode: Episode) -> Size:
        """What a world takes, told before anything is compiled."""
        return size_of(self.bucket, self._one, mjx_model.scene_fields(episode.spec, self.catalogue, self.bucket)[1])

    def chunk_fn(self) -> Callable[..., tuple[SimState, ChunkTrace]]:
        """``run_chunk`` of this bucket; equal for every simulator of it, so that executables made with it are found again."""
        return _of_bucket(self.bucket)

    def compile(self, episodes: Sequence[Episode]) -> SceneBatch:
        """Build at most W episodes; padding worlds carry the first scene and never run.

        Raises:
          SceneError: too many or no episodes, or a scene that the bucket cannot hold.
        """
        if not 0 < len(episodes) <= self.worlds:
            raise SceneError(f"{len(episodes)} episodes for {self.worlds} worlds: pass between 1 and {self.worlds}")
        filled = [*episodes, *[episodes[0]] * (self.worlds - len(episodes))]
        rows, tables = self._rows(filled)
        horizon = np.array([e.horizon for e in filled], np.int32)
        mask = np.arange(self.worlds) < len(episodes)
        models, table, horizon, mask = jax.device_put((rows, expressions.stack(tables), horizon, mask), self.by_world)
        return SceneBatch(self.bucket, (*episodes, *[None] * (self.worlds - len(episodes))), models, table, horizon, mask)

    def _rows(self, episodes: Sequence[Episode]) -> tuple[MjxScenes, list[expressions.Table]]:
        """Host arrays of one row per episode; a scene is built once, however many episodes begin in it."""
        rows = [self._built(episode.spec) for episode in episodes]
        tables = {id(e): expressions.encode(e.predicates, index) for e, (_, index) in zip(episodes, rows, strict=True)}
        return jax.tree.map(lambda *leaves: np.stack(leaves), *[r for r, _ in rows]), [tables[id(e)] for e in episodes]

    def _built(self, spec: SceneSpec) -> tuple[MjxScenes, Mapping[str, int]]:
        """Host arrays of one scene and its objects' tokens; the last 2 W are kept."""
        known = self._kept.pop(id(spec), None)
        self._kept[id(spec)] = spec, *(known[1:] if known else self._scene(spec))  # with the spec, so that no other gets its id
        if len(self._kept) > 2 * self.worlds:
            del self._kept[next(iter(self._kept))]
        return self._kept[id(spec)][1:]

    def _scene(self, spec: SceneSpec) -> tuple[MjxScenes, Mapping[str, int]]:
        scene, fields, qpos = mjx_model.scene_fields(spec, self.catalogue, self.bucket)
        if self.impl == "warp":
            fields = mjx_warp.fields_of(scene, fields)
        constants = {
            "half_extent": scene.half_extent.astype(np.float32),
            "cavity_pos": scene.cavity_pos.astype(np.float32),
            "cavity_half": scene.cavity_half.astype(np.float32),
            "fixture_pos": scene.fixture_pos.astype(np.float32),
            "fixture_quat": scene.fixture_quat.astype(np.float32),
            "present": scene.present,
        }
        if self.bucket.articulated:
            joint = {name: np.asarray(v, bool if name == "hinge" else np.float32) for name, v in joints.frame(scene.joint).items()}
            constants |= {f"joint_{name}": v for name, v in joint.items()} | {"joint_high": np.float32(scene.joint.high)}
        return MjxScenes(fields, qpos, constants), scene.index

    def prepare(self, episodes: Sequence[Episode]) -> None:
        """Build at most W scenes ahead of the ``compile`` or ``replace`` that takes them; nothing goes to the device.

        Raises:
          SceneError: the bucket cannot hold one.
        """
        for episode in episodes:
            self._built(episode.spec)

    def build(self, episode: Episode, report: Report) -> SceneBatch:
        """Build the executable of chunks and resets ahead of the first; the batch of the episode comes back."""
        batch = self.compile([episode])
        state = SimState(self.blank, self._unseen, stage=self._zero, health=self._zero)
        rows = (batch.models, batch.table, batch.horizon, batch.mask, state, self._nothing)
        _chunk_program(self.bucket, self.mesh).build(self.fixed, *rows, self._hold[False], report=report)
        return batch

    def reset(self, batch: SceneBatch) -> SimState:
        """Every world placed, then settled under the home pose with an open gripper; pos0 and quat0 are the settled poses."""
        state = SimState(self.blank.replace(qpos=batch.models.qpos), self._unseen, stage=self._zero, health=self._zero)
        for _ in range(math.ceil(SETTLE_STEPS / self.chunk)):
            state, _ = self._run(batch, state, self._nothing, self._settling, self._everyone, hold=True)
        settled = state.view
        return dataclasses.replace(state, view=dataclasses.replace(settled, pos0=settled.pos, quat0=settled.quat, control_step=self._zero))

    def replace(
        self, batch: SceneBatch, state: SimState, worlds: Sequence[int], episodes: Sequence[Episode]
    ) -> tuple[SceneBatch, SimState]:
        """Refill ``worlds`` with ``episodes``; the others stay bit-identical. No shape depends on how many are refilled.

        Raises:
          SceneError: as ``compile``; nothing is changed then.
        """
        if len(worlds) != len(episodes) or len(set(worlds)) != len(worlds):
            raise SceneError(f"{len(episodes)} episodes for worlds {list(worlds)}: name each world once, one episode each")
        if not worlds:
            return batch, state
        place = dict(zip(worlds, episodes, strict=True))
        filled = [place.get(w, episodes[0]) for w in range(self.worlds)]
        rows, tables = self._rows(filled)
        chosen = np.isin(np.arange(self.worlds), list(place))
        fresh = (rows, expressions.stack(tables), np.array([e.horizon for e in filled], np.int32), np.ones(self.worlds, bool))
        models, table, horizon, mask = _replace(*self._put((chosen, fresh, (batch.models, batch.table, batch.horizon, batch.mask))))
        new = SceneBatch(batch.bucket, tuple(place.get(w, e) for w, e in enumerate(batch.episodes)), models, table, horizon, mask)
        return new, _replace(*self._put((chosen, self.reset(new), state)))

    def step_chunk(self, batch: SceneBatch, state: SimState, chunk: Array, record: bool = False) -> tuple[SimState, ChunkTrace]:
        """Execute chunk [b, e, 7]; e other than the simulator's ``chunk`` compiles once more.

        The views are kept on the device whether asked for or not: one executable, and a record costs its transfer alone.
        """
        state, trace = self._run(batch, state, jnp.asarray(chunk, jnp.float32), batch.horizon, batch.mask, hold=False)
        return state, trace if record else dataclasses.replace(trace, moving=None)

    def _run(
        self, batch: SceneBatch, state: SimState, chunk: Array, horizon: Array, mask: Array, hold: bool
    ) -> tuple[SimState, ChunkTrace]:
        rows = self._put((batch.models, batch.table, horizon, mask, state, chunk))
        return _chunk_program(self.bucket, self.mesh)(self.fixed, *rows, self._hold[hold])

    def _put(self, tree: Any) -> Any:
        """Commit every leaf, whose first axis is worlds, to its devices: an executable is looked up by that too, a mixture would compile
        again."""
        return jax.device_put(tree, self.by_world)
