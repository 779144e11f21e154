"""One episode in the official environment: settle, ask the policy, step, judge."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from plan import Episode, Task, step_limit
from replay import scene_of
from tasks import state_sha256, states_of

NO_OP = [0.0] * 6 + [-1.0]  # stands still, gripper open
_LOST = ("mjWARN_BADQPOS", "mjWARN_BADQVEL", "mjWARN_BADQACC")  # after these MuJoCo resets the state by itself
AGENT, WRIST = "agentview", "robot0_eye_in_hand"


class Policy(Protocol):
    """A client of a policy server."""

    def infer(self, message: dict[str, Any]) -> dict[str, Any]: ...


class PolicyError(RuntimeError):
    """The policy server is lost or answers with something else than actions: the run stops, nothing is recorded."""


class GraphicsError(RuntimeError):
    """Pictures cannot be drawn here."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """How episodes are run; the same for all of a file of records.

    seed: of fixtures' places and of the policy's noise. settle_steps: no-ops first. replan_steps: actions carried out of each chunk.
    most_steps: of an episode, where that is less than the suite's limit; 0 for that limit.
    images: whether pictures are drawn and sent; resolution they are drawn at, and size they are scaled to. privileged: whether the
    simulator's state is sent under coda/libero/, which policies of states read. fixtures: by scene, poses of fixtures that replace the
    drawn ones.
    """

    seed: int
    settle_steps: int
    replan_steps: int
    most_steps: int
    images: bool
    resolution: int
    size: int
    privileged: bool
    fixtures: Mapping[str, Mapping[str, Sequence[float]]] = dataclasses.field(default_factory=dict)


class Arena:
    """The official environment of one task, used for all its episodes.

    Raises:
      GraphicsError: pictures are asked for and OpenGL is not there.
    """

    def __init__(self, task: Task, settings: Settings):
        self.task, self._settings = task, settings
        self.states = states_of(task.suite, task.name)
        logging.getLogger("robosuite_logs").setLevel(logging.ERROR)
        quiet = io.StringIO()
        with contextlib.redirect_stdout(quiet):
            drawing = {"camera_heights": settings.resolution, "camera_widths": settings.resolution} if settings.images else {}
            try:
                from libero.libero.envs.env_wrapper import ControlEnv  # which loads OpenGL where MUJOCO_GL names it

                self.env = ControlEnv(
                    bddl_file_name=task.bddl,
                    use_camera_obs=settings.images,
                    has_offscreen_renderer=settings.images,
                    hard_reset=False,  # the compiled model stays; fixtures are placed anew all the same
                    **drawing,
                )
            except Exception as error:
                if settings.images and _is_graphics(error):
                    raise GraphicsError(graphics_message(error)) from error
                raise
        if self.env.language_instruction != task.prompts["bddl"]:
            raise ValueError(
                f"{task.bddl}: the environment's instruction is {self.env.language_instruction!r}, the file's {task.prompts['bddl']!r}"
            )

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.env.close()

    def begin(self, init_index: int, fixture_seed: int) -> dict[str, np.ndarray]:
        """The observation at an initial state, fixtures placed by a seed."""
        with contextlib.redirect_stdout(io.StringIO()):
            self.env.seed(fixture_seed)
            self.env.reset()
            self._put(self._settings.fixtures.get(scene_of(self.task.suite, self.task.name, init_index), {}))
            for robot in self.env.robots:
                robot.gripper.current_action[:] = 0.0  # a reset that keeps the model also keeps the command of the episode before
            return self.env.set_init_state(self.states[init_index])

    def _put(self, poses: Mapping[str, Sequence[float]]) -> None:
        model = self.env.sim.model
        for name, pose in poses.items():
            body = model.body_name2id(self.env.env.fixtures_dict[name].root_body)
            model.body_pos[body], model.body_quat[body] = pose[:3], pose[3:]

    def fixtures(self) -> dict[str, list[float]]:
        """Position (m) and quaternion (wxyz) of every fixture's root, world frame."""
        model, inner = self.env.sim.model, self.env.env
        found = {}
        for name, fixture in inner.fixtures_dict.items():
            if fixture.root_body in model.body_names:
                body = model.body_name2id(fixture.root_body)
                found[name] = [float(x) for x in (*model.body_pos[body], *model.body_quat[body])]
        return found

    def lost(self) -> str | None:
        """What is wrong with the simulation, None while it is sound."""
        import mujoco

        data = self.env.sim.data
        for name in _LOST:
            if data._data.warning[getattr(mujoco.mjtWarning, name)].number:
                return f"MuJoCo reports {name}: the state blew up and was reset"
        return None if np.isfinite(data.qpos).all() and np.isfinite(data.qvel).all() else "the state is not finite"

    def message(self, obs: dict[str, np.ndarray], episode: Episode, decision: int) -> dict[str, Any]:
        """What the policy is told at a decision: openpi's entries for LIBERO, and what ours read besides."""
        from robosuite.utils.transform_utils import quat2axisangle

        state = [obs["robot0_eef_pos"], quat2axisangle(obs["robot0_eef_quat"].copy()), obs["robot0_gripper_qpos"]]
        found: dict[str, Any] = {
            "observation/state": np.concatenate(state).astype(np.float32),
            "prompt": episode.prompt,
            "coda/key": noise_key(self._settings.seed, episode, decision),
            "coda/decision": decision,
        }
        if self._settings.images:
            found["observation/image"] = self._picture(obs[f"{AGENT}_image"])
            found["observation/wrist_image"] = self._picture(obs[f"{WRIST}_image"])
        if self._settings.privileged:
            found |= {f"coda/libero/{name}": value for name, value in self._privileged(episode).items()}
        return found

    def _picture(self, image: np.ndarray) -> np.ndarray:
        """As openpi's client sends it: turned by 180 degrees, scaled with padding."""
        from openpi_client.image_tools import convert_to_uint8, resize_with_pad

        turned = np.ascontiguousarray(image[::-1, ::-1])
        return convert_to_uint8(resize_with_pad(turned, self._settings.size, self._settings.size))

    def _privileged(self, episode: Episode) -> dict[str, Any]:
        sim, inner = self.env.sim, self.env.env
        site = sim.model.site_name2id(inner.robots[0].gripper.important_sites["grip_site"])
        hand = sim.model.body_name2id("robot0_right_hand")
        return {
            "scene": scene_of(episode.suite, episode.name, episode.init_index),
            "qpos": np.array(sim.data.qpos),
            "qvel": np.array(sim.data.qvel),
            "fixtures": {name: np.array(pose) for name, pose in self.fixtures().items()},
            "objects": {name: self._object(inner.obj_body_id[name]) for name in inner.objects_dict},
            "grip": np.concatenate([sim.data.site_xpos[site], sim.data.body_xquat[hand]]),
        }

    def _object(self, body: int) -> np.ndarray:
        """[7]: position (m) and quaternion (wxyz) of an object's root, world frame."""
        return np.concatenate([self.env.sim.data.body_xpos[body], self.env.sim.data.body_xquat[body]])


def run(arena: Arena, episode: Episode, policy: Policy, settings: Settings) -> dict[str, Any]:
    """Run an episode; returns its record but for what all records of a file share.

    Raises:
      PolicyError: the policy is lost.
    """
    began = time.perf_counter()
    record = blank_record(arena.task, episode, arena.states[episode.init_index], settings.most_steps)
    record["fixture_seed"] = settings.seed + 1000 * episode.task + episode.init_index
    try:
        obs = arena.begin(episode.init_index, record["fixture_seed"])
        record["fixtures"] = arena.fixtures()
        for _ in range(settings.settle_steps):
            obs, _, done, _ = arena.env.step(NO_OP)
            record["solved_by_settling"] = record["solved_by_settling"] or bool(done)
        error = arena.lost()
        while error is None and record["outcome"] == "failure" and record["steps"] < record["step_limit"]:
            chunk = _asked(policy, arena.message(obs, episode, record["decisions"]), settings.replan_steps)
            record["decisions"] += 1
            for action in chunk[: min(settings.replan_steps, record["step_limit"] - record["steps"])]:
                obs, _, done, _ = arena.env.step(action)
                record["steps"] += 1
                error = arena.lost()
                if error is not None:
                    break
                if done:
                    record["outcome"] = "success"
                    break
    except PolicyError:
        raise
    except Exception as raised:  # the simulator's: counted apart
        if settings.images and _is_graphics(raised):
            raise GraphicsError(graphics_message(raised)) from raised
        error = f"{type(raised).__name__}: {raised}"[:500]
    if error is not None:
        record |= {"outcome": "error", "error": error}
    else:
        record["final_qpos"] = [float(x) for x in arena.env.sim.data.qpos]
    return record | {"wall_s": round(time.perf_counter() - began, 2)}


def blank_record(task: Task, episode: Episode, state: np.ndarray, most_steps: int) -> dict[str, Any]:
    """The record of an episode that has not begun; state: the row that it begins in."""
    limit = step_limit(episode.suite)
    return {
        "suite": episode.suite,
        "task": episode.task,
        "name": episode.name,
        "bddl_sha256": task.bddl_sha256,
        "init_index": episode.init_index,
        "init_sha256": state_sha256(state),
        "prompt": episode.prompt,
        "prompt_source": episode.source,
        "step_limit": min(limit, most_steps) if most_steps else limit,
        "fixture_seed": None,
        "fixtures": {},
        "steps": 0,
        "decisions": 0,
        "solved_by_settling": False,
        "outcome": "failure",
        "error": None,
        "final_qpos": None,
    }


def noise_key(seed: int, episode: Episode, decision: int) -> np.ndarray:
    """uint32 [2] of the policy's noise: the same for both prompts, whoever runs the episode and whenever."""
    text = f"{seed}/{episode.suite}/{episode.name}/{episode.init_index}/{decision}"
    return np.frombuffer(hashlib.sha256(text.encode()).digest()[:8], "<u4").copy()


def _asked(policy: Policy, message: dict[str, Any], least: int) -> np.ndarray:
    try:
        actions = policy.infer(message).get("actions")
    except Exception as error:
        raise PolicyError(f"the policy server failed: {type(error).__name__}: {str(error)[:1000]}") from error
    if (
        not isinstance(actions, np.ndarray)
        or actions.ndim != 2
        or actions.shape[1] != 7
        or actions.dtype.kind not in "iuf"
        or len(actions) < least
    ):
        found = f"shape {actions.shape}" if isinstance(actions, np.ndarray) else f"a {type(actions).__name__}"
        raise PolicyError(
            f'the policy server answers with "actions" of {found}; at least {least} rows of 7 numbers are needed (--replan-steps)'
        )
    actions = actions.astype(np.float64)
    if not np.isfinite(actions).all():
        raise PolicyError("the policy server answers with actions that are not finite")
    return actions


def _is_graphics(error: BaseException) -> bool:
    text = f"{type(error).__name__} {error}".lower()
    return any(
        word in text
        for word in ("egl", "opengl", "osmesa", "gl context", "glgeterror", "glx", "gladloadgl", "glfw", "framebuffer", "mjr_makecontext")
    )


def graphics_message(error: BaseException) -> str:
    """What to do where pictures cannot be drawn."""
    return (
        f"pictures cannot be drawn here ({type(error).__name__}: {str(error)[:200]}): install EGL or OSMesa (on Debian and Ubuntu apt-get "
        "install libegl1 libgles2, or libosmesa6) and set MUJOCO_GL=egl or osmesa, or give --no-images for a policy that sees states"
    )
