"""Few boxes in place of many: what a cover holds, which walls become a vessel's, how boards are made thicker. No package is needed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from coda_jax.sim.libero.surrogates import vessel
from coda_jax.sim.libero.surrogates.cover import Box, around, cover, single
from coda_jax.sim.libero.surrogates.shapes import BOARD_M, thickened

RNG = np.random.default_rng(0)


def box(pos: tuple[float, float, float], half: tuple[float, float, float], rotation: np.ndarray | None = None) -> Box:
    return Box(np.array(pos, float), np.eye(3) if rotation is None else rotation, np.array(half, float))


def crate() -> list[Box]:
    """Four walls and a floor about a cavity."""
    sides = [box((x, 0, 0.05), (0.004, 0.05, 0.05)) for x in (-0.05, 0.05)] + [
        box((0, y, 0.05), (0.05, 0.004, 0.05)) for y in (-0.05, 0.05)
    ]
    return [*sides, box((0, 0, 0.004), (0.05, 0.05, 0.004))]


def bowl(walls: int = 18, radius: float = 0.047, tilt: float = 0.25, turn: float = 0.1) -> list[Box]:
    """A ring of thin walls that lean outwards, told from their own axes in a mixed order, and a floor."""
    found = []
    for k in range(walls):
        azimuth = 2 * np.pi * k / walls + turn
        rotation = Rotation.from_euler("ZY", [azimuth, tilt]).as_matrix()  # x: thickness, y: along the rim, z: up the slope
        order = [[0, 1, 2], [1, 2, 0], [2, 0, 1]][k % 3]
        half = np.array([0.0013, 0.0093, 0.0187])
        found.append(Box(np.array([radius * np.cos(azimuth), radius * np.sin(azimuth), 0.02]), rotation[:, order], half[order]))
    return [*found, box((0, 0, 0.003), (0.02, 0.02, 0.0025))]


def test_a_cover_holds_every_box_and_keeps_the_cavity_open():
    boxes = crate()
    found = cover(boxes, 9, 0.25)
    assert len(found.boxes) == 5 and found.added < 0.01
    corners = np.concatenate([b.corners for b in boxes])
    assert np.any([Box(b.pos, b.rotation, b.half + 1e-9).holds(corners) for b in found.boxes], 0).all()
    assert not any(b.holds(np.array([[0.0, 0.0, 0.05]])).any() for b in found.boxes)


def test_pieces_of_one_box_become_one_again():
    pieces = [box((x, y, 0.0), (0.01, 0.02, 0.03)) for x, y in itertools.product((0.01, 0.03), (0.02, 0.06))]
    found = cover(pieces, 4, 0.01)
    assert len(found.boxes) == 1 and found.added == 0
    assert found.boxes[0].half == pytest.approx([0.02, 0.04, 0.03]) and found.boxes[0].pos == pytest.approx([0.02, 0.04, 0.0])


def test_a_limit_merges_on_and_says_what_that_fills():
    found = cover(crate(), 3, 0.0)
    assert len(found.boxes) == 3 and found.added > 0.5
    with pytest.raises(ValueError, match="at least 1"):
        cover([], 3, 0.1)


def test_a_turned_box_is_taken_only_where_it_is_clearly_smaller():
    turned = Rotation.from_euler("z", 0.6).as_matrix()
    plank = [box(tuple(turned @ [x, 0, 0]), (0.05, 0.01, 0.01), turned) for x in (-0.05, 0.05)]
    assert around(plank).volume == pytest.approx(8 * 0.1 * 0.01 * 0.01)
    can = [box((0, 0, 0), (0.02, 0.02, 0.04), Rotation.from_euler("z", a).as_matrix()) for a in np.linspace(0, np.pi / 2, 7)]
    assert np.allclose(single(can).boxes[0].rotation, np.eye(3))


def test_a_bowl_becomes_eight_walls_and_a_floor_with_its_radius_height_and_slope():
    found = vessel.vessel(bowl())
    assert found is not None and len(found) == vessel.SECTORS + 1
    *walls, floor = found
    azimuths = np.linspace(-np.pi, np.pi, 3601)[:-1]
    reached = []
    for azimuth in azimuths:  # where a ray at the walls' middle height meets them
        points = np.linspace(0.035, 0.06, 501)[:, None] * [np.cos(azimuth), np.sin(azimuth), 0] + [0, 0, 0.02]
        inside = np.any([w.holds(points) for w in walls], 0)
        assert inside.any(), "a gap between two walls"
        reached.append(np.linalg.norm(points[inside][:, :2], axis=1).mean())
    assert np.mean(reached) == pytest.approx(0.047, abs=3e-4)
    tops = np.concatenate([w.corners for w in walls])[:, 2]
    assert tops.max() == pytest.approx(max(b.corners[:, 2].max() for b in bowl()[:-1]), abs=5e-4)
    assert floor.corners[:, 2].max() == pytest.approx(0.0055) and floor.corners[:, 2].min() <= tops.min() + 1e-9
    foot = np.linalg.norm(floor.corners[:, :2], axis=1).max()
    assert foot < 0.047 - 0.0187 * np.sin(0.25) + 1e-9


def test_rings_one_above_another_are_told_apart():
    lower = [Box(b.pos - [0, 0, 0.012], b.rotation, b.half * [1, 1, 0.4] if k % 3 == 0 else b.half) for k, b in enumerate(bowl()[:-1])]
    found = vessel.vessel([*lower, *bowl()])
    assert found is not None and len(found) == 2 * vessel.SECTORS + 1


@pytest.mark.parametrize("boxes", [crate(), bowl()[:-1], bowl()[:8] + bowl()[-1:], [box((0, 0, 0), (0.01, 0.01, 0.01))]])
def test_other_things_are_no_vessels(boxes: list[Box]):
    assert vessel.vessel(boxes) is None


def test_boards_grow_downwards_and_walls_not_at_all():
    flat = Rotation.from_euler("y", -np.pi / 2).as_matrix()  # the thin axis is the box's x, pointing up or down
    for rotation in (flat, flat.T):
        board = thickened(box((0.1, 0.2, 0.3), (0.001, 0.05, 0.06), rotation))
        assert board.corners[:, 2].max() == pytest.approx(0.301) and board.corners[:, 2].min() == pytest.approx(0.301 - 2 * BOARD_M)
    for kept in (box((0, 0, 0), (0.001, 0.1, 0.1)), box((0, 0, 0), (0.1, 0.1, 0.01))):
        assert thickened(kept) is kept
