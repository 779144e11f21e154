"""Every free object must stand where the generator puts it: checked with plain MuJoCo, without the simulator of the floors above."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from coda_jax.scenes.catalogue import CATEGORIES, Catalogue

OBJECTS = tuple(c.name for c in CATEGORIES.values() if c.kind == "object")


def _model(asset, condim=6):
    spec = mujoco.MjSpec()
    spec.option.timestep = 0.005
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[1, 1, 0.1])
    body = spec.worldbody.add_body(pos=[0, 0, asset.half_extent_m[2]])
    body.add_freejoint()
    for p in asset.primitives:
        body.add_geom(
            type=getattr(mujoco.mjtGeom, f"mjGEOM_{p.shape.upper()}"),
            size=p.size_m,
            pos=p.pos_m,
            quat=p.quat_wxyz,
            condim=condim,
            friction=[1.0, 0.005, 0.0005],
            solref=[0.01, 1],
            density=500,
        )
    return spec.compile()


@pytest.mark.parametrize("category", OBJECTS)
def test_stands_still(category):
    for asset in Catalogue.all().instances(category):
        model = _model(asset)
        data = mujoco.MjData(model)
        start = data.qpos.copy()
        mujoco.mj_step(model, data, 300)
        # a hundredth of a radian and a millimetre: nothing tips, sinks, rolls off or springs apart
        assert np.abs(data.qpos[:3] - start[:3]).max() < 1.5e-3, asset.asset_id
        assert 2 * np.arccos(min(1.0, abs(data.qpos[3]))) < 0.03, asset.asset_id


@pytest.mark.parametrize("category", OBJECTS)
def test_rollable_means_that_it_rolls(category):
    """A push of 0.15 m/s along x, the contact of the simulation (condim 4): only what is rollable is far away a second later."""
    asset = Catalogue.all().instances(category)[3]
    model = _model(asset, condim=4)
    data = mujoco.MjData(model)
    data.qvel[0] = 0.15
    mujoco.mj_step(model, data, 200)
    assert (data.qpos[0] > 0.05) == ("rollable" in asset.affordances), data.qpos[0]
