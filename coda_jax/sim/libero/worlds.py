"""Worlds of LIBERO tasks with the same structure: states in, policy steps at 20 Hz, everything MuJoCo knows out."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

import mujoco
import mujoco.batch
import numpy as np
from jaxtyping import Float

from coda_jax.sim.libero import compiled, control
from coda_jax.sim.libero.control import ARM, SUBSTEPS
from coda_jax.sim.libero.models import TaskModel
from coda_jax.types import HEALTH_NAN, HEALTH_OVERFLOW

GRIP_SITE = "gripper0_grip_site"
STATE_FIELDS = ("qpos", "qvel", "qacc_warmstart", "ctrl", "time", "userdata")
_READ = ("sensordata", "site_xpos", "site_xmat", "xpos", "xquat")
_SENSORS = int(mujoco.mjtDisableBit.mjDSBL_SENSOR)
_NAN_WARNINGS = [int(w) for w in (mujoco.mjtWarning.mjWARN_BADQPOS, mujoco.mjtWarning.mjWARN_BADQVEL, mujoco.mjtWarning.mjWARN_BADQACC)]
_FULL_WARNINGS = [int(w) for w in (mujoco.mjtWarning.mjWARN_CONTACTFULL, mujoco.mjtWarning.mjWARN_CNSTRFULL)]
_VELOCITY = int(mujoco.mjtStage.mjSTAGE_VEL)


class Worlds:
    """``b`` worlds, each with its own model of one structure (models.TaskModel.structure).

    After ``step`` every derived field (poses, contacts) is that of the last physics step's beginning, 2 ms before qpos and qvel: as the
    official environment leaves it, whose observations and predicates are read there. After ``place`` and ``restore`` all is of one moment.

    Args:
      tasks: one per world. threads: 0 uses every core. callback: whether the controller runs as machine code inside the batch; None where
        numba is installed. Without, numpy computes the same torques between physics steps.
    """

    def __init__(self, tasks: Sequence[TaskModel], threads: int = 0, callback: bool | None = None):
        if len({t.structure for t in tasks}) != 1:
            raise ValueError(f"one structure is needed, not those of {', '.join(sorted({t.key for t in tasks}))}")
        self.callback = compiled.available() if callback is None else callback
        self.batch = mujoco.batch.Batch(tasks[0].model, len(tasks), nthread=threads)
        fields = (*_READ, "qfrc_bias") if self.callback else (*_READ, "qfrc_bias", "M", "xanchor", "xaxis")
        self._bound = {name: self.batch.bind(name) for name in fields}
        self.set_tasks(tasks)

    def set_tasks(self, tasks: Sequence[TaskModel], models: Sequence[mujoco.MjModel] | None = None) -> None:
        """Give every world its task, and its own version of the task's model where attributes or fixtures differ."""
        self.tasks = tuple(tasks)
        self.models = tuple(models) if models is not None else tuple(t.model for t in tasks)
        self.batch.set_models(self.models)
        self._site = self.models[0].site(GRIP_SITE).id

    def __getattr__(self, name: str) -> np.ndarray:
        if name in _READ:
            return self._bound[name]
        raise AttributeError(name)

    @property
    def qpos(self) -> np.ndarray:
        """[b, q]."""
        return self.batch.qpos

    @property
    def qvel(self) -> np.ndarray:
        """[b, v]."""
        return self.batch.qvel

    @property
    def grip_pos(self) -> np.ndarray:
        """[b, 3] grip point in the world frame, m."""
        return self._bound["site_xpos"][:, self._site]

    @property
    def grip_rotation(self) -> np.ndarray:
        """[b, 3, 3] of the grip site."""
        return self._bound["site_xmat"][:, self._site].reshape(-1, 3, 3)

    def place(self, states: Float[np.ndarray, "n s"], rows: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
        """Put worlds at states (rows of time, qpos, qvel), the controller as after a reset: its rotation goal is the home pose's.

        Returns:
          As ``forward``.
        """
        ids = self._ids(rows)
        nq = self.batch.qpos.shape[1]
        self.batch.time[ids] = states[:, 0].reshape(len(ids), *self.batch.time.shape[1:])
        self.batch.qpos[ids], self.batch.qvel[ids] = states[:, 1 : 1 + nq], states[:, 1 + nq :]
        self.batch.qacc_warmstart[ids] = 0.0
        self.batch.ctrl[ids] = 0.0
        for row in ids:
            task = self.tasks[row]
            self.batch.userdata[row] = control.userdata(self._site, _at_home(task))
        return self.forward(ids)

    def forward(self, rows: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
        """Derived fields of the present state.

        Returns:
          The rows in which MuJoCo gave up; their derived fields mean nothing.
        """
        ids = self._ids(rows)
        return np.setdiff1d(ids, self._guarded(self.batch.forward, ids, stage=_VELOCITY))

    def step(self, actions: Float[np.ndarray, "n 7"], rows: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
        """One policy step of the given worlds: 25 physics steps under the controller.

        Args:
          actions: LIBERO's, entries beyond [-1, 1] are clipped; rotations about world axes; + closes the gripper, 0 holds it.

        Returns:
          The rows in which MuJoCo gave up; they keep a state from before.
        """
        ids = self._ids(rows)
        users = self.batch.userdata
        users[ids, control.ACTION : control.ACTION + ARM] = actions
        first = users[ids, control.FRESH] == control.FIRST
        users[ids[~first], control.FRESH] = control.NEW
        ran = []
        for group, left in ((ids[first], SUBSTEPS - 1), (ids[~first], SUBSTEPS)):
            with self._without_sensors():
                group = self._advance(self._first(group) if left < SUBSTEPS else group, left - 1)
            ran.append(self._advance(group, 1))
        return np.setdiff1d(ids, np.concatenate(ran))

    def step_flags(self, actions: Float[np.ndarray, "n 7"], rows: np.ndarray) -> np.ndarray:
        """One policy step, as ``step``; health flags [n] of the given worlds."""
        before = self.batch.warning[rows].copy()
        stopped = np.isin(rows, self.step(actions, rows))
        raised = (self.batch.warning[rows] > before).any(-1)
        lost = stopped | raised[:, _NAN_WARNINGS].any(1) | ~np.isfinite(self.batch.qpos[rows]).all(1)
        return np.where(lost, HEALTH_NAN, 0) | np.where(raised[:, _FULL_WARNINGS].any(1), HEALTH_OVERFLOW, 0)

    def _first(self, ids: np.ndarray) -> np.ndarray:
        """The first physics step after a reset; the rows that took it."""
        if len(ids := self._guarded(self.batch.forward, ids, stage=_VELOCITY)) == 0:
            return ids
        state = self.batch.userdata[ids]
        arm = control.first_torques(state, [_at_home(self.tasks[i]) for i in ids], self._bound["qfrc_bias"][ids, :ARM])
        self.batch.ctrl[ids] = np.concatenate([arm, control.grip(state)], 1)
        self.batch.userdata[ids] = state
        return self._guarded(self.batch.step, ids, nstep=1)

    def _advance(self, ids: np.ndarray, substeps: int) -> np.ndarray:
        """Physics steps under the controller; the rows that took them."""
        if self.callback:
            with compiled.installed():
                return self._guarded(self.batch.step, ids, nstep=substeps)
        for _ in range(substeps):
            ids = self._guarded(self.batch.forward, ids, stage=_VELOCITY)
            if len(ids):
                self._command(ids)
            ids = self._guarded(self.batch.step, ids, nstep=1)
        return ids

    def _ids(self, rows: Sequence[int] | np.ndarray | None) -> np.ndarray:
        return np.arange(len(self.tasks)) if rows is None else np.asarray(rows)

    @staticmethod
    def _guarded(call: Callable[..., None], ids: np.ndarray, **arguments: int) -> np.ndarray:
        """Call the batch for ``ids``; those in which MuJoCo raised no error."""
        if len(ids):
            try:
                call(ids, **arguments)
            except mujoco.batch.SimulationError as error:
                return np.setdiff1d(ids, error.ids)
        return ids

    def _command(self, ids: np.ndarray) -> None:
        """Torques and finger commands of the present moment, in numpy."""
        b, state = self.batch, self.batch.userdata[ids]
        position, rotation = self.grip_pos[ids], self.grip_rotation[ids]
        if state[0, control.FRESH] == control.NEW:
            control.set_goals(state, position, rotation)
        anchors, axes, mass, bias = (self._bound[f][ids] for f in ("xanchor", "xaxis", "M", "qfrc_bias"))
        half = ARM * (ARM + 1) // 2
        arm = control.torques(
            state, b.qpos[ids, :ARM], b.qvel[ids, :ARM], position, rotation, anchors[:, :ARM], axes[:, :ARM], mass[:, :half], bias[:, :ARM]
        )
        b.ctrl[ids] = np.concatenate([arm, control.grip(state)], 1)
        b.userdata[ids] = state

    @contextlib.contextmanager
    def _without_sensors(self) -> Iterator[None]:
        options = [m.opt for m in {id(m): m for m in self.models}.values()]
        for option in options:
            option.disableflags |= _SENSORS
        try:
            yield
        finally:
            for option in options:
                option.disableflags &= ~_SENSORS

    def state(self) -> dict[str, np.ndarray]:
        """Everything a later ``restore`` needs to go on bit for bit, [b, ...] each."""
        return {name: np.array(getattr(self.batch, name)).reshape(len(self.tasks), -1) for name in STATE_FIELDS}

    def restore(self, state: Mapping[str, np.ndarray], rows: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
        """Put worlds at a kept state; derived fields are those of its moment.

        Returns:
          As ``forward``.
        """
        ids = self._ids(rows)
        for name in STATE_FIELDS:
            field = getattr(self.batch, name)
            field[ids] = state[name][ids].reshape(len(ids), *field.shape[1:])
        return self.forward(ids)


@functools.lru_cache(maxsize=256)
def _at_home(task: TaskModel) -> control.Measured:
    """What the official controller measures when it is made: the arm at home, the fingers closed, nothing moving."""
    model, data = task.model, mujoco.MjData(task.model)
    data.qpos[:ARM] = task.home
    mujoco.mj_forward(model, data)
    site = data.site(GRIP_SITE)
    return control.Measured(
        home=task.home,
        position=site.xpos.copy(),
        rotation=site.xmat.reshape(3, 3).copy(),
        anchors=data.xanchor[:ARM].copy(),
        axes=data.xaxis[:ARM].copy(),
        mass=data.M[: ARM * (ARM + 1) // 2].copy(),
    )
