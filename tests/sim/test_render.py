"""Pictures of small scenes whose colours and shadows are known."""

import mujoco
import numpy as np
import pytest

from coda_jax.sim import render
from coda_jax.sim.cameras import WRIST, Camera

DOWN = Camera((0.0, 0.0, 1.0), (0.0, 0.0, 0.0), (0.0, 1.0, 0.0), 60.0)
SIDE = Camera((0.0, -1.0, 0.3), (0.0, 0.0, 0.3), (0.0, 0.0, 1.0), 40.0)


def model(extra="", table="", box="1 0 0 1"):
    return mujoco.MjModel.from_xml_string(f"""<mujoco><worldbody>{table}
        <body name="o0" pos="0 0 0.3"><freejoint/><geom type="box" size=".1 .1 .1" rgba="{box}"/>{extra}</body>
        </worldbody></mujoco>""")


def state(*pos):
    return np.array([*pos, 1, 0, 0, 0], float)


def dominant(picture, y, x):
    return int(np.argmax(picture[y, x]))


def test_object_appears_where_it_stands():
    pictures = render.render(model(), np.stack([state(0, 0, 0.3), state(0.25, 0, 0.3)]), SIDE, height=40, width=60)
    assert pictures.shape == (2, 40, 60, 3) and pictures.dtype == np.uint8
    assert pictures[0, 20, 30, 0] > 2 * pictures[0, 20, 30, 2]  # red in the middle
    assert pictures[1, 20, 30, 2] >= pictures[1, 20, 30, 0]  # background there once it moved right
    red = np.flatnonzero(pictures[1, 20, :, 0] > 2.0 * pictures[1, 20, :, 2])
    # pixel centres at 29.5 + 20 x / (depth tan 20 deg): left edge at depth 1.1, right edge at 0.9
    assert red.min() == pytest.approx(29.5 + 20 * 0.15 / (1.1 * np.tan(np.radians(20))), abs=1.5)
    assert red.max() == pytest.approx(29.5 + 20 * 0.35 / (0.9 * np.tan(np.radians(20))), abs=1.5)


def test_up_is_up_and_right_is_right():
    m = model(extra='<geom type="box" size=".02 .02 .02" pos="0.05 -0.11 0.05" rgba="0 1 0 1"/>')
    picture = render.render(m, state(0, 0, 0.3), SIDE, height=40, width=60)[0]
    y, x = np.argwhere(picture[..., 1] > 2.0 * picture[..., 0]).mean(axis=0)
    assert y < 20 and x > 30


@pytest.mark.parametrize("hidden", ['group="5"', 'rgba="0 1 0 0"'])
def test_hidden_geoms_are_not_drawn_and_cast_no_shadow(hidden):
    table = '<geom name="table" type="plane" size="2 2 .1" rgba=".8 .8 .8 1"/>'
    extra = f'<geom type="sphere" size=".15" pos="0 0 .2" {hidden}/>'
    plain, with_hidden = (render.render(model(e, table), state(0, 0, 0.1), DOWN)[0] for e in ("", extra))
    np.testing.assert_array_equal(plain, with_hidden)


def test_shadow_falls_away_from_the_sun():
    m = model(table='<geom name="table" type="plane" size="2 2 .1" rgba=".8 .8 .8 1"/>')
    picture = render.render(m, state(0, 0, 0.1), DOWN, height=80, width=80, table="none")[0].astype(int)
    grey = np.abs(picture[..., 0] - picture[..., 2]) < 20
    dark = np.argwhere(grey & (picture[..., 0] < 0.75 * np.percentile(picture[..., 0], 75)))
    assert len(dark) > 20
    y, x = dark.mean(axis=0)
    assert x < 40 and y < 40  # the sun stands at +x, -y: the shadow lies at -x (left) and +y (up)


def test_table_is_checkered_and_fades_far_away():
    m = model(table='<geom name="table" type="plane" size="9 9 .1" rgba=".5 .4 .3 1"/>')
    picture = render.render(m, state(0, 0, -3), DOWN, height=60, width=60)[0]
    assert len(np.unique(picture[28:32].reshape(-1, 3), axis=0)) >= 2
    far = Camera((3.0, 0.0, 1.0), (3.0, 0.0, 0.0), (0.0, 1.0, 0.0), 20.0)
    assert render.render(m, state(0, 0, -3), far)[0].min() > 180


def test_one_model_per_frame_and_chunks_give_the_same_pictures(monkeypatch):
    models = [model(box=c) for c in ("1 0 0 1", "0 1 0 1", "0 0 1 1")]
    states = np.stack([state(0, 0, 0.3)] * 3)
    whole = render.render(models, states, SIDE, height=20, width=30)
    assert [dominant(p, 10, 15) for p in whole] == [0, 1, 2]
    monkeypatch.setattr(render, "_RAYS_PER_CALL", 1)
    np.testing.assert_array_equal(render.render(models, states, SIDE, height=20, width=30), whole)
    np.testing.assert_array_equal(render.render(models[1], states[1], SIDE, height=20, width=30)[0], whole[1])


def test_mounted_camera_moves_with_its_body():
    m = mujoco.MjModel.from_xml_string("""<mujoco><worldbody><geom type="box" size=".1 .1 .1" pos="0 0 -1" rgba="1 0 0 1"/>
        <body name="hand"><freejoint/><geom type="sphere" size=".01" group="4"/></body></worldbody></mujoco>""")
    camera = Camera((0.0, 0.0, 0.0), (0.0, 0.0, -1.0), (1.0, 0.0, 0.0), 40.0, body="hand")
    half = np.sqrt(0.5)
    states = np.array([[0, 0, 0, 1, 0, 0, 0], [0.5, 0, 0, 1, 0, 0, 0], [-1, 0, -1, half, 0, -half, 0]], float)
    pictures = render.render(m, states, camera, height=20, width=20)
    is_red = pictures[:, 10, 10, 0] > 2 * pictures[:, 10, 10, 2].astype(int)
    assert is_red.tolist() == [True, False, True]  # straight above; half a metre off; turned to look along +x from the side


def test_bad_input_is_named():
    m = model()
    with pytest.raises(ValueError, match="7"):
        render.render(m, np.zeros((1, 9)))
    with pytest.raises(ValueError, match="2 models for 1 frames"):
        render.render([m, m], state(0, 0, 0))
    with pytest.raises(ValueError, match="it has: o0"):
        render.render(m, state(0, 0, 0), WRIST)
    assert render.render(m, np.zeros((0, 7))).shape == (0, 96, 128, 3)
