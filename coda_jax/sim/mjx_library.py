"""``mujoco.mjx``, without what it prints at its import where NVIDIA's warp, which it can do without, is not installed."""

from __future__ import annotations

import contextlib
import io
import sys

_ABSENT = "No module named 'warp'"

with contextlib.redirect_stdout(io.StringIO()) as _printed:
    from mujoco import mjx
    from mujoco.mjx._src import collision_driver, forward, solver, support

sys.stdout.writelines(line for line in _printed.getvalue().splitlines(keepends=True) if _ABSENT not in line)

__all__ = ["collision_driver", "forward", "mjx", "solver", "support"]
