"""MJX is loaded without lines on the output about what is not installed."""

import subprocess
import sys


def test_the_import_prints_nothing():
    code = "from coda_jax.sim.mjx_library import mjx; from mujoco import mjx as same; assert mjx is same"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == ""
