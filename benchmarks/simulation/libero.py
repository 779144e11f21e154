"""The peer: LIBERO's own state-only environment step, in one process and on one core."""

from __future__ import annotations

import contextlib
import io
import time

STEP_S = 0.05  # of simulated time: 20 Hz, 25 physics steps of 2 ms


SUITES = ("libero_object", "libero_goal", "libero_spatial")


def rates(seconds: float) -> dict[str, float]:
    """``rate`` of the first task of each suite; empty without the extra."""
    found = {suite: rate(seconds, suite) for suite in SUITES}
    return {suite: value for suite, value in found.items() if value is not None}


def rate(seconds: float, suite: str, task: int = 0) -> float | None:
    """Simulated seconds a CPU-second of one task of a suite under random actions; None without the extra ``libero``."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            from libero.libero import benchmark, get_libero_path  # pyright: ignore[reportMissingImports]
            from libero.libero.envs.env_wrapper import ControlEnv  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    import os

    import numpy as np

    chosen = benchmark.get_benchmark_dict()[suite]().get_task(task)
    path = os.path.join(get_libero_path("bddl_files"), chosen.problem_folder, chosen.bddl_file)
    with contextlib.redirect_stdout(io.StringIO()):
        env = ControlEnv(
            bddl_file_name=path, has_renderer=False, has_offscreen_renderer=False, use_camera_obs=False, ignore_done=True, horizon=10**6
        )
        env.seed(0)
        env.reset()
    rng = np.random.default_rng(0)
    for _ in range(10):
        env.step([0.0] * 7)
    steps, cpu = 0, time.process_time()
    while time.process_time() - cpu < seconds:
        env.step(rng.uniform(-0.3, 0.3, 7))
        steps += 1
    spent = time.process_time() - cpu
    env.close()
    return steps * STEP_S / spent
