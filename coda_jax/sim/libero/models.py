"""Compiled models of LIBERO's tasks: made once by the official environment, stripped, kept in the cache, loaded with plain MuJoCo."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import lzma
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from coda_jax.foreign import read_plain, run_module
from coda_jax.runtime import InputError, cache_home
from coda_jax.scenes.libero import package, tasks
from coda_jax.scenes.libero.bddl import Problem
from coda_jax.sim.libero.control import ARM, FINGERS, TORQUE_LIMITS_NM
from coda_jax.sim.quiet import quiet

FORMAT = 1  # of the kept files
BUILD_S = 300.0  # for one official environment
_MOST_KEPT, _MOST_MODEL = 8 * 2**20, 32 * 2**20  # bytes, packed and unpacked
_HASH = hashlib.sha256().digest_size


@dataclasses.dataclass(frozen=True, eq=False)
class TaskModel:
    """One task's physics.

    key: suite and name. model: stripped, with contact sensors and the controller's userdata; shared, never written. home: [7] joints of the
    arm at a reset. base: [3] world position of our base frame's origin (the robot's base in x and y, the table top or floor in z).
    """

    key: str
    problem: Problem
    model: mujoco.MjModel
    home: np.ndarray
    base: np.ndarray

    @functools.cached_property
    def structure(self) -> str:
        """Equal for models that one batch may hold: MuJoCo asks that everything in their data has the same sizes."""
        sizes = np.asarray(self.model._sizes)  # pyright: ignore[reportAttributeAccessIssue]
        names = "".join(self.model.body(i).name for i in range(self.model.nbody))
        layout = (self.model.body_parentid, self.model.geom_bodyid, self.model.jnt_type, self.model.sensor_objid)
        return hashlib.sha256(b"".join([sizes.tobytes(), names.encode(), *(a.tobytes() for a in layout)])).hexdigest()[:16]


def folder() -> Path:
    """Where models are kept: by the versions of package, MuJoCo and file format."""
    return cache_home() / "libero" / f"{package.version() or 'none'}-mujoco{mujoco.__version__}-{FORMAT}"


def _pack(home: list[float], model: bytes) -> bytes:
    body = lzma.compress(json.dumps(home).encode() + b"\n" + model, preset=1)
    return hashlib.sha256(body).digest() + body


def _unpack(content: bytes) -> tuple[list[float], bytes]:
    """Raises ValueError for anything that ``_pack`` did not write."""
    if len(content) > _MOST_KEPT or hashlib.sha256(content[_HASH:]).digest() != content[:_HASH]:
        raise ValueError("its checksum is wrong")
    unpacked = lzma.LZMADecompressor(memlimit=256 * 2**20).decompress(content[_HASH:], _MOST_MODEL)
    head, _, model = unpacked.partition(b"\n")
    return json.loads(head), model


def _built(task: tasks.Task) -> tuple[list[float], bytes]:
    """The model as a child process makes it. Raises InputError."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "model.mjb"
        try:
            done = run_module("coda_jax.sim.libero.official", json.dumps({"bddl": str(task.bddl), "out": str(out)}), BUILD_S)
        except subprocess.TimeoutExpired as error:
            raise InputError(f"the official environment of {task.key} was not ready after {BUILD_S:.0f} s: is the machine busy?") from error
        answer: dict[str, Any] = {}
        with contextlib.suppress(ValueError, IndexError):
            answer = json.loads(done.stdout.splitlines()[-1])
        if "home" not in answer or not out.is_file():
            said = answer.get("error") or (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise InputError(f"the official environment of {task.key} could not be made ({str(said)[:400]}): {package.INSTALL}")
        return answer["home"], read_plain(out, _MOST_MODEL)


def _kept(path: Path, task: tasks.Task) -> tuple[list[float], bytes]:
    with contextlib.suppress(OSError, ValueError, lzma.LZMAError):
        return _unpack(read_plain(path, _MOST_KEPT))
    made = _built(task)
    with contextlib.suppress(OSError):  # a cache that cannot be written costs time, no more
        _keep(path, _pack(*made))
    return made


def _keep(path: Path, content: bytes) -> None:
    """Whole or not at all: others may read, and make, the same file meanwhile. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except OSError:  # a disk that is full is not to keep the half of it
        Path(name).unlink(missing_ok=True)
        raise


def load(task: tasks.Task) -> TaskModel:
    """The compiled model of a task, from the cache or from the official environment, which takes seconds.

    Raises:
      InputError: the package, the task's file or the right MuJoCo is missing, or the official environment refuses the file.
    """
    package.require_mujoco()
    problem = task.problem()
    return _load(task, hashlib.sha256(task.bddl.read_bytes()).hexdigest()[:24], problem)


@functools.lru_cache(maxsize=256)
def _load(task: tasks.Task, digest: str, problem: Problem) -> TaskModel:
    quiet()
    home, content = _kept(folder() / f"{digest}.xz", task)
    model = mujoco.MjModel.from_binary_path("task.mjb", {"task.mjb": content})
    _expect(model, task)
    # A state that diverges is evidence: keep it, where MuJoCo would silently reset it.
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
    base = np.array(model.body("robot0_base").pos)
    base[2] = surface_height(model)
    return TaskModel(task.key, problem, model, np.array(home), base)


def _expect(model: mujoco.MjModel, task: tasks.Task) -> None:
    """The layout that the controller counts on. Raises InputError."""
    arm = [model.joint(i).name for i in range(ARM + FINGERS)]
    rows = np.arange(ARM)
    chain = np.array_equal(model.M_rowadr[:ARM], rows * (rows + 1) // 2) and np.array_equal(model.M_rownnz[:ARM], rows + 1)
    limits = np.array_equal(model.actuator_ctrlrange[:ARM, 1], TORQUE_LIMITS_NM)
    if arm != [*(f"robot0_joint{i + 1}" for i in range(ARM)), "gripper0_finger_joint1", "gripper0_finger_joint2"] or not (chain and limits):
        raise InputError(f"{task.key}: the robot is not the first thing of the model: the controller knows LIBERO's mounted Panda only")


def surface_height(model: mujoco.MjModel) -> float:
    """World height of the table top, or of the floor where the things stand on it, m."""
    names = {model.body(i).name for i in range(model.nbody)}
    if "table" not in names:
        return 0.0
    geoms = np.flatnonzero(model.geom_bodyid == model.body("table").id)
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    return float(max(data.geom_xpos[g, 2] + model.geom_size[g, 2] for g in geoms))
