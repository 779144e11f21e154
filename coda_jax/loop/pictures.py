"""Pictures of the demonstrations, drawn from their stored states before a policy of pictures is cloned.

They are no work to be kept: a file in ``pictures/`` of the run folder that is made again where it is gone, or of other demonstrations or
settings.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.evaluation.metrics import atomic_write
from coda_jax.evaluation.terminal import Progress
from coda_jax.learning.pictures import AT_ONCE, PictureTable
from coda_jax.loop import demonstrations, parts, seed_scenes
from coda_jax.loop.checkpoint import require_space
from coda_jax.loop.run import Run
from coda_jax.runtime import InputError
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.cameras import OBSERVED
from coda_jax.sim.compile import compile_scene
from coda_jax.sim.eyes import observed
from coda_jax.sim.simulator import Simulator, episode_of

NAME = "pictures"
FOLDER = "pictures"
_FILE, _MADE_OF = "demonstrations.npy", "demonstrations.json"
_VERSION = 1  # of what is drawn: raised where the same states would give other pictures


@dataclasses.dataclass(frozen=True)
class _States:
    """States of one demonstration to draw. rows: [n] of the dataset. qpos: [n, q]."""

    spec: SceneSpec
    rows: np.ndarray
    qpos: np.ndarray


def shape(config: settings.Config) -> tuple[int, int, int, int]:
    """Of what is seen at once: cameras, height, width, colours."""
    return len(OBSERVED), config.pixels.height, config.pixels.width, 3


def table(run: Run) -> PictureTable:
    """Every ``pixels.every``-th state of the stored demonstrations, drawn now or by an earlier process.

    Raises:
      InputError: they take more than ``pixels.disk_gb``. DiskFullError: fewer are free. Stopped: a signal came; drawing begins again.
    """
    folder = run.folder / FOLDER
    made_of = _made_of(run)
    states = list(_states(run))
    rows = np.concatenate([s.rows for s in states]).astype(np.int32)
    wanted = (len(rows), *shape(run.config))
    known = folder / _MADE_OF
    if known.exists() and known.read_text("utf-8") == made_of and (folder / _FILE).exists():
        pixels = np.load(folder / _FILE, mmap_mode="r")
        if pixels.shape == wanted:
            return PictureTable(rows, pixels)
    _draw(run, states, wanted)
    atomic_write(known, made_of.encode())
    return PictureTable(rows, np.load(folder / _FILE, mmap_mode="r"))


def _made_of(run: Run) -> str:
    chosen = run.config.pixels
    files = {name: digest for name, digest in run.state.files.items() if name.startswith("episodes/demos_")}
    of = {"version": _VERSION, "renderer": parts.renderer_name(run.config), "every": chosen.every, "shape": shape(run.config)}
    of["files"] = hashlib.sha256(json.dumps(sorted(files.items())).encode()).hexdigest()
    return json.dumps(of, sort_keys=True)


def _states(run: Run) -> Iterator[_States]:
    """States before every ``pixels.every``-th control step, in the dataset's order: a start's, settled again, and those after each step."""
    every, first = run.config.pixels.every, 0
    specs = {s.spec.scene_id: s.spec for s in seed_scenes.load(run.folder, run.state)}
    names = sorted(n for n in run.state.files if n.startswith("episodes/demos_"))
    stored = [one for name in names for one in demonstrations.load_file(run.folder / name)]
    starts = _starts(run, [specs[one.scene_id] for one in stored])
    for one, start in zip(stored, starts, strict=True):
        t = len(one.qpos)
        qpos = np.concatenate([start[None], one.qpos[:-1]])[::every]
        yield _States(specs[one.scene_id], first + np.arange(0, t, every), qpos)
        first += t


def _starts(run: Run, specs: Sequence[SceneSpec]) -> list[np.ndarray]:
    """Settled first state [q] of each scene."""
    sim = parts.native_simulator(run.config, run.everything, parts.training_bucket(run.config, run.train))
    return [qpos for first in range(0, len(specs), sim.worlds) for qpos in _settled(sim, specs[first : first + sim.worlds])]


def _settled(sim: Simulator, specs: Sequence[SceneSpec]) -> list[np.ndarray]:
    batch = sim.compile([episode_of(spec, 1, (0, 0)) for spec in specs])
    return list(sim.reset(batch).physics["qpos"][: len(specs)])


def _draw(run: Run, states: Sequence[_States], wanted: tuple[int, ...]) -> None:
    size, most = int(np.prod(wanted)), run.config.pixels.disk_gb * 1e9
    if size > most:
        raise InputError(
            f"pictures of {len(states)} demonstrations take {size / 1e9:.2f} GB, more than config.pixels.disk_gb = "
            f"{run.config.pixels.disk_gb:g}: raise it, or config.pixels.every = {run.config.pixels.every}, or lower config.pixels.height "
            "and width"
        )
    folder = run.folder / FOLDER
    folder.mkdir(exist_ok=True)
    (folder / _MADE_OF).unlink(missing_ok=True)
    require_space(folder, size, NAME)
    half = folder / f".{_FILE}.tmp"
    out = np.lib.format.open_memmap(half, mode="w+", dtype=np.uint8, shape=wanted)
    renderer, bucket = parts.renderer_of(run.config), parts.training_bucket(run.config, run.train)
    robot, (height, width) = parts.robot_of(run.config), wanted[2:4]
    with Progress(NAME, wanted[0] * wanted[1], "pictures") as progress:
        done = 0
        for group in _grouped(states):
            scenes = [compile_scene(s.spec, run.everything, bucket, robot) for s in group]
            each = [scene for scene, s in zip(scenes, group, strict=True) for _ in s.rows]
            qpos = np.concatenate([s.qpos for s in group])
            out[done : done + len(qpos)] = observed(renderer, each, qpos, height, width)
            done += len(qpos)
            progress.advance(len(qpos) * wanted[1])
            runtime.check_stop()
    out.flush()
    _synced(half)
    os.replace(half, folder / _FILE)
    run.charge(NAME)


def _grouped(states: Sequence[_States]) -> Iterator[list[_States]]:
    """Demonstrations together as long as they have at most AT_ONCE states."""
    group: list[_States] = []
    for one in states:
        if group and sum(len(s.rows) for s in group) + len(one.rows) > AT_ONCE:
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _synced(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
