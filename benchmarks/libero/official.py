"""The peer: the official environment of a task, state only, in this process and on one core."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from coda_jax.scenes.libero.bddl import Atom
from coda_jax.scenes.libero.tasks import Task
from coda_jax.sim.libero import control
from coda_jax.sim.libero.control import ARM
from coda_jax.sim.libero.models import TaskModel
from coda_jax.sim.libero.worlds import Worlds

_ROBOT = ("robot0_", "gripper0_")


class Official:
    """One task's environment, started as the official evaluation does: a reset, then the state."""

    def __init__(self, task: Task):
        os.environ.setdefault("LIBERO_CONFIG_PATH", tempfile.mkdtemp())
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            from libero.libero.envs.env_wrapper import ControlEnv  # pyright: ignore[reportMissingImports]

            self.env: Any = ControlEnv(
                bddl_file_name=str(task.bddl), has_renderer=False, has_offscreen_renderer=False, use_camera_obs=False, ignore_done=True,
                horizon=10**6, hard_reset=False,
            )  # fmt: skip
            self.env.seed(0)
            self.env.reset()

    @property
    def model(self) -> Any:
        return self.env.sim.model._model

    @property
    def data(self) -> Any:
        return self.env.sim.data._data

    def start(self, state: np.ndarray, native: Any) -> None:
        """Begin at a state (time, qpos, qvel) with the fixtures where the ``native`` model has them."""
        self.env.reset()
        self.env.env.robots[0].gripper.current_action = np.zeros(1)  # a soft reset leaves it where it was; a hard one makes it anew
        self.model.body_pos[:], self.model.body_quat[:] = native.body_pos, native.body_quat
        self.env.set_init_state(state)

    def step(self, action: np.ndarray) -> None:
        self.env.step(action)

    def lend(self, worlds: Worlds) -> None:
        """Put a native world at exactly this environment's state, its controller's included."""
        batch, data, robot = worlds.batch, self.data, self.env.env.robots[0]
        batch.qpos[0], batch.qvel[0], batch.ctrl[0] = data.qpos, data.qvel, data.ctrl
        batch.qacc_warmstart[0], batch.time[0] = data.qacc_warmstart, data.time
        batch.userdata[0, control.GOAL_ROT : control.GOAL_ROT + 9] = np.reshape(robot.controller.goal_ori, 9)
        batch.userdata[0, control.GRIP] = np.ravel(robot.gripper.current_action)[0]

    def holds(self, atoms: Sequence[Atom]) -> np.ndarray:
        """[atoms] bool, as the environment's own check says now."""
        judge = self.env.env._eval_predicate
        return np.array([bool(judge([a.predicate, *a.names])) for a in atoms])

    def robot_touches(self) -> bool:
        """Whether arm or hand touch anything but themselves."""
        model, data = self.model, self.data
        for contact in data.contact[: data.ncon]:
            ours = [model.body(model.geom_bodyid[g]).name.startswith(_ROBOT) for g in (contact.geom1, contact.geom2)]
            if ours[0] != ours[1]:
                return True
        return False

    def close(self) -> None:
        self.env.close()


def atoms(official: Official, task: TaskModel) -> list[Atom]:
    """Every predicate that the official environment can judge in a task's scene."""
    env = official.env.env
    objects, regions = list(env.objects_dict), list(env.object_sites_dict)
    found = [Atom("on", (a, b)) for a in objects for b in objects if a != b]
    found += [Atom(p, (a, r)) for p in ("on", "in") for a in objects for r in regions]
    jointed = [r for r in regions if env.object_sites_dict[r].joints]
    found += [Atom(p, (r,)) for p in ("open", "close") for r in jointed]
    knobs = [f for f in env.fixtures_dict if hasattr(env.get_object(f), "turn_on")]
    return found + [Atom(p, (f,)) for p in ("turnon", "turnoff") for f in knobs]


def random_actions(rng: np.random.Generator, steps: int, down: float = 0.3) -> np.ndarray:
    """[steps, 7] of random motion that sinks, so that the hand meets things; the gripper opens or closes."""
    actions = rng.uniform(-1.0, 1.0, (steps, ARM))
    actions[:, 2] = np.clip(actions[:, 2] - down, -1.0, 1.0)
    actions[:, 6] = rng.choice([-1.0, 1.0], steps)
    return actions
