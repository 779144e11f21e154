import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax.sim.mjx_state import native_qpos


@pytest.mark.parametrize("xp", [np, jnp])
def test_slide_and_hinge_are_one_joint_of_native_models(xp):
    qpos = xp.arange(12.0).reshape(2, 6)
    assert native_qpos(True, qpos, xp).tolist() == [[0, 1, 2, 3, 9], [6, 7, 8, 9, 21]]
    assert native_qpos(False, qpos, xp) is qpos
