"""What MuJoCo says of a reduced MJCF: bodies, joints, geoms, sites and keyframes as numbers in the world frame, every joint at its zero.

MuJoCo runs in a child process with limits on memory and time, so that a hostile mesh ends there.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import subprocess
import sys
from typing import Any

import numpy as np

from coda_jax import foreign
from coda_jax.sim.own_robot.errors import RobotError
from coda_jax.sim.own_robot.text import Source

TIME_S, MEMORY_BYTES = 60, 6 * 2**30
CPU_S = 4 * TIME_S  # of all its threads, so that it ends where its parent was killed
_MODULE = "coda_jax.sim.own_robot.facts"


@dataclasses.dataclass(frozen=True)
class Body:
    """parent: number of the body above it, -1 of the world. mass: kg. com: m. inertia: [3, 3] about the centre of mass, kg m^2."""

    name: str
    parent: int
    pos: np.ndarray
    rotation: np.ndarray
    mass: float
    com: np.ndarray
    inertia: np.ndarray


@dataclasses.dataclass(frozen=True)
class Joint:
    """kind: hinge, slide, ball or free. anchor: m. zero: its coordinate in the pose that all facts are of. low, high: limits from there."""

    name: str
    body: int
    kind: str
    address: int
    anchor: np.ndarray
    axis: np.ndarray
    zero: float
    limited: bool
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Geom:
    """size: as MJCF has it for the shape. collides: whether it meets anything."""

    name: str
    body: int
    shape: str
    size: np.ndarray
    pos: np.ndarray
    rotation: np.ndarray
    rgba: np.ndarray
    collides: bool


@dataclasses.dataclass(frozen=True)
class Site:
    name: str
    body: int
    pos: np.ndarray
    rotation: np.ndarray


@dataclasses.dataclass(frozen=True)
class Facts:
    """keys: coordinates [q] of each named keyframe."""

    bodies: tuple[Body, ...]
    joints: tuple[Joint, ...]
    geoms: tuple[Geom, ...]
    sites: tuple[Site, ...]
    keys: dict[str, np.ndarray]


def facts_of(source: Source) -> Facts:
    """Let MuJoCo compile the model.

    Raises:
      RobotError: MuJoCo refuses it, it takes too much, or it has numbers that are not finite.
    """
    files = {k: base64.b64encode(v).decode() for k, v in source.files.items()}
    job = json.dumps({"xml": source.xml, "files": files})
    try:
        child = foreign.run_module(_MODULE, job, TIME_S)
    except subprocess.TimeoutExpired as error:
        raise RobotError(f"MuJoCo takes more than {TIME_S} s: simplify the meshes") from error
    try:
        reply: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        raise RobotError(f"it ends MuJoCo ({_last_line(child.stderr, child.returncode)}): mend the meshes") from None
    if "error" in reply:
        raise RobotError(f"MuJoCo refuses the model ({reply['error'][:200]}): mend it")
    facts = Facts(
        bodies=tuple(Body(**_arrays(row)) for row in reply["bodies"]),
        joints=tuple(Joint(**_arrays(row)) for row in reply["joints"]),
        geoms=tuple(Geom(**_arrays(row)) for row in reply["geoms"]),
        sites=tuple(Site(**_arrays(row)) for row in reply["sites"]),
        keys={k: np.array(v) for k, v in reply["keys"].items()},
    )
    for part in (*facts.bodies, *facts.joints, *facts.geoms, *facts.sites):
        numbers = np.concatenate([np.ravel(v) for v in vars(part).values() if isinstance(v, (float, np.ndarray))])
        if not (np.isfinite(numbers).all() and np.abs(numbers).max() < 1e6):
            raise RobotError(f"{type(part).__name__.lower()} {part.name[:40]!r} has a number that is not finite or beyond 1e6: mend it")
    return facts


def _last_line(text: str, code: int) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:120] if lines else f"exit code {code}"


def _arrays(row: dict[str, Any]) -> dict[str, Any]:
    return {k: np.array(v, float) if isinstance(v, list) else v for k, v in row.items()}


def _compiled(job: dict[str, Any]) -> dict[str, Any]:
    import mujoco

    from coda_jax.sim.quiet import quiet

    quiet()
    files = {k: base64.b64decode(v) for k, v in job["files"].items()}
    model = mujoco.MjSpec.from_string(job["xml"], assets=files).compile()
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)

    def body(i: int) -> dict[str, Any]:
        frame = data.ximat[i].reshape(3, 3)
        return {
            "name": model.body(i).name, "parent": int(model.body_parentid[i]) if i else -1, "pos": data.xpos[i].tolist(),
            "rotation": data.xmat[i].reshape(3, 3).tolist(), "mass": float(model.body_mass[i]), "com": data.xipos[i].tolist(),
            "inertia": (frame @ np.diag(model.body_inertia[i]) @ frame.T).tolist(),
        }  # fmt: skip

    def joint(i: int) -> dict[str, Any]:
        address = int(model.jnt_qposadr[i])
        zero = float(model.qpos0[address])
        low, high = (float(v) - zero for v in model.jnt_range[i])
        return {
            "name": model.joint(i).name, "body": int(model.jnt_bodyid[i]), "address": address,
            "kind": ("free", "ball", "slide", "hinge")[int(model.jnt_type[i])], "anchor": data.xanchor[i].tolist(),
            "axis": data.xaxis[i].tolist(), "zero": zero, "limited": bool(model.jnt_limited[i]), "low": low, "high": high,
        }  # fmt: skip

    def geom(i: int) -> dict[str, Any]:
        material = model.geom_matid[i]
        return {
            "name": model.geom(i).name, "body": int(model.geom_bodyid[i]),
            "shape": mujoco.mjtGeom(model.geom_type[i]).name.removeprefix("mjGEOM_").lower(), "size": model.geom_size[i].tolist(),
            "pos": data.geom_xpos[i].tolist(), "rotation": data.geom_xmat[i].reshape(3, 3).tolist(),
            "rgba": (model.geom_rgba[i] if material < 0 else model.mat_rgba[material]).tolist(),
            "collides": bool(model.geom_contype[i] or model.geom_conaffinity[i]),
        }  # fmt: skip

    def site(i: int) -> dict[str, Any]:
        rotation = data.site_xmat[i].reshape(3, 3).tolist()
        return {"name": model.site(i).name, "body": int(model.site_bodyid[i]), "pos": data.site_xpos[i].tolist(), "rotation": rotation}

    return {
        "bodies": [body(i) for i in range(model.nbody)],
        "joints": [joint(i) for i in range(model.njnt)],
        "geoms": [geom(i) for i in range(model.ngeom)],
        "sites": [site(i) for i in range(model.nsite)],
        "keys": {model.key(i).name: model.key_qpos[i].tolist() for i in range(model.nkey)},
    }


def _limit() -> None:
    try:
        import resource
    except ModuleNotFoundError:  # no such limits on this system; the parent's clock is left
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


if __name__ == "__main__":
    _limit()
    try:
        answer = _compiled(json.loads(sys.stdin.read()))
    except (ValueError, MemoryError, RuntimeError) as error:
        answer = {"error": " ".join(str(error).split()) or type(error).__name__}
    print(json.dumps(answer))
