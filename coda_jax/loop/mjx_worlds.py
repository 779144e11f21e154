"""How MJX runs here: over which devices, and in how many worlds."""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

from coda_jax import runtime
from coda_jax.evaluation.scan_size import size_of_rollouts
from coda_jax.evaluation.terminal import interject
from coda_jax.learning.encoders.minilm import TEXT_DIM
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generate import sample_spec
from coda_jax.sim import mjx_model
from coda_jax.sim.autotune import best_worlds, remember, remembered
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.compile import SceneError
from coda_jax.sim.mjx_buckets import declared
from coda_jax.sim.mjx_state import DATA
from coda_jax.sim.simulator import Episode, episode_of
from coda_jax.types import ACTION_DIM

CANDIDATES = (256, 1024, 4096, 16384)  # for each device
_QUICK_GEOMS = 2  # of a slot: a bucket of no more is compiled in seconds (docs/mjx.md)
ON_CPU = 64  # a CPU gains nothing from more, and each number costs it a minute of compiling
_TIMED_CHUNKS = 3
_SCENES, _HORIZON = 200, 10_000
_MEMORY_SHARE = 0.7  # of a device that worlds may be expected to take


def compiles_long(bucket: Bucket) -> bool:
    """Whether the executables of a declared bucket take minutes to compile here: the large ones on a CPU."""
    return jax.default_backend() == "cpu" and bucket.geoms > _QUICK_GEOMS


@functools.cache
def announce(bucket: Bucket, worlds: int) -> None:
    """Say once in a process, before its executables are compiled, that those of a large declared bucket take a CPU minutes."""
    if compiles_long(bucket):
        interject(
            f"MJX: bucket {bucket.name} in {worlds:,} worlds; its executables take minutes to compile on a CPU, but for those that "
            "the compilation cache holds"
        )


def devices_mesh() -> Mesh | None:
    """All devices of this process on one axis; None where there is one."""
    n = jax.local_device_count()
    return jax.make_mesh((n,), (DATA,), axis_types=(AxisType.Auto,), devices=jax.local_devices()) if n > 1 else None


def most_worlds() -> int:
    """The largest number that ``worlds_for`` may choose by itself on this machine."""
    return jax.local_device_count() * (ON_CPU if jax.default_backend() == "cpu" else CANDIDATES[-1])


def worlds_for(asked: int, catalogue: Catalogue, bucket: Bucket, chunk: int, mesh: Mesh | None, names: Sequence[str], impl: str) -> int:
    """``asked``, or where that is 0 the number that this device was found to be best with, tried out at the first time.

    Args:
      names: families of which a scene is tried. impl: of MJX, jax or warp.

    Raises:
      ValueError: ``asked`` does not divide by the devices.
    """
    n = 1 if mesh is None else mesh.shape[DATA]
    if asked % n:
        raise ValueError(f"config.sim.mjx_worlds is {asked} and there are {n} devices: take a multiple of {n}, or 0")
    if asked:
        return asked
    if jax.default_backend() == "cpu":
        return ON_CPU * n
    device = jax.local_devices()[0]
    known = runtime.versions()
    key = f"{device.device_kind} x{n}, {bucket.name}, {chunk} steps, {impl}, jax {known['jax']}, mjx {known.get('mujoco-mjx', '')}"
    path = runtime.cache_home() / "mjx_worlds.json"
    found = remembered(path, key)
    if found is None:
        print(f"trying how many worlds {device.device_kind} steps best, once (config.sim.mjx_worlds sets a number)", file=sys.stderr)
        episode = _scene(catalogue, bucket, names)
        found, measured = best_worlds(lambda w: _rate(catalogue, bucket, w, chunk, mesh, episode, impl), [n * c for c in CANDIDATES])
        rates = ", ".join(f"{worlds:,}: {rate:,.0f}" for worlds, rate in measured.items())
        print(f"control steps/s by worlds: {rates}; taking {found:,}", file=sys.stderr)
        remember(path, key, found)
    return found


def _scene(catalogue: Catalogue, bucket: Bucket, names: Sequence[str]) -> Episode:
    """The generator's first scene that the bucket takes."""
    train = Catalogue("train")
    for seed in range(_SCENES):
        for name in names:
            spec = sample_spec(train, name, "id", "train", seed)
            with contextlib.suppress(SceneError, ValueError):
                mjx_model.scene_fields(spec, catalogue, declared(bucket))
                return episode_of(spec, _HORIZON, (0, 0))
    raise ValueError(f"none of {_SCENES} scenes of {', '.join(names)} fits bucket {bucket.name}: set config.sim.mjx_worlds")


def _rate(catalogue: Catalogue, bucket: Bucket, worlds: int, chunk: int, mesh: Mesh | None, episode: Episode, impl: str) -> float:
    """Control steps a second of all worlds, in copies of one scene under small random actions.

    Raises:
      MemoryError: the device would not hold them.
    """
    from coda_jax.sim.mjx import MjxSimulator

    sim = MjxSimulator(catalogue, bucket, worlds, chunk, mesh, impl)  # its first arrays are small beside what a step takes
    limit = (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit")
    peak = size_of_rollouts(sim, episode, TEXT_DIM, chunk).peak_bytes(worlds) / (1 if mesh is None else mesh.shape[DATA])
    if limit is not None and peak > _MEMORY_SHARE * limit:
        raise MemoryError(f"{worlds} worlds of bucket {bucket.name} take about {peak / 1e9:.1f} GB of {limit / 1e9:.1f} GB")
    try:
        return _measured(sim, episode)
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise MemoryError(f"{worlds} worlds of bucket {bucket.name} do not fit {jax.local_devices()[0].device_kind}") from error


def _measured(sim: Any, episode: Episode) -> float:
    worlds, chunk = sim.worlds, sim.chunk
    batch = sim.compile([episode] * worlds)
    state = sim.reset(batch)
    actions = np.random.default_rng(0).uniform(-0.3, 0.3, (_TIMED_CHUNKS + 1, worlds, chunk, ACTION_DIM)).astype(np.float32)
    state, _ = sim.step_chunk(batch, state, actions[0])
    jax.block_until_ready(state)
    start = time.perf_counter()
    for action in actions[1:]:
        state, _ = sim.step_chunk(batch, state, action)
    jax.block_until_ready(state)
    return _TIMED_CHUNKS * worlds * chunk / (time.perf_counter() - start)
