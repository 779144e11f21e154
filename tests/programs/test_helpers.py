"""Every helper against numbers worked out by hand on one small table-top."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from coda_jax.programs import expressions, helpers
from coda_jax.types import ENTITIES, FREE_SLOTS, GRIPPER, TABLE, TOKENS, WorldView
from tests.programs.worlds import view

ROOT = Path(__file__).parents[2]
HALF = math.sqrt(0.5)
YAW_90 = (HALF, 0, 0, HALF)
ROLL_90 = (HALF, HALF, 0, 0)
BIN, PLATE = FREE_SLOTS, FREE_SLOTS + 1


def measure(world: WorldView, name: str, *entities: int) -> float:
    return float(np.asarray(helpers.bank(world))[0, helpers.bank_index(name, entities)])


def test_bank_places_are_distinct_and_fill_the_bank():
    places = [helpers.bank_index(h.name, entities) for h in helpers.HELPERS.values() for entities in np.ndindex(*(ENTITIES,) * len(h.args))]
    assert sorted(places) == list(range(helpers.BANK_SIZE))
    assert helpers.bank(view()).shape == (1, helpers.BANK_SIZE)


def test_there_are_twelve_helpers():
    assert list(helpers.HELPERS) == [
        "distance", "horizontal_distance", "height_above", "grasped", "lifted", "inside",
        "on", "aligned", "upright", "opening", "still", "gripper_opening",
    ]  # fmt: skip


def test_distances():
    world = view(pos={0: (0.4, 0.1, 0.02), 1: (0.43, 0.14, 0.14)}, ee_pos=(0.4, 0.1, 0.32))
    assert measure(world, "distance", 0, 1) == pytest.approx(0.13)  # 3, 4, 12 -> 13
    assert measure(world, "distance", 1, 0) == pytest.approx(0.13)
    assert measure(world, "distance", GRIPPER, 0) == pytest.approx(0.30)
    assert measure(world, "horizontal_distance", 0, 1) == pytest.approx(0.05)
    assert measure(world, "horizontal_distance", GRIPPER, 0) == 0.0


def test_height_above_takes_turned_bounding_boxes():
    half = {0: (0.01, 0.03, 0.02), 1: (0.02, 0.02, 0.05)}
    world = view(pos={0: (0.4, 0, 0.2), 1: (0.4, 0, 0.05)}, half=half, ee_pos=(0.4, 0, 0.15))
    assert measure(world, "height_above", 0, 1) == pytest.approx(0.2 - 0.02 - 0.1)
    assert measure(world, "height_above", 1, TABLE) == pytest.approx(0.0, abs=1e-7)
    assert measure(world, "height_above", GRIPPER, 1) == pytest.approx(0.05)
    assert measure(world, "height_above", 1, 0) == pytest.approx(0.0 - 0.22)
    rolled = view(pos={0: (0.4, 0, 0.2)}, half=half, quat={0: ROLL_90})  # its y axis points up
    assert measure(rolled, "height_above", 0, TABLE) == pytest.approx(0.2 - 0.03)


def test_grasped_is_the_share_of_fingers():
    world = view(fingers={0: (True, True), 1: (False, True)})
    assert [measure(world, "grasped", o) for o in (0, 1, 2)] == [1.0, 0.5, 0.0]


def test_lifted_counts_from_the_reset():
    world = view(pos={0: (0.4, 0, 0.12)}, pos0={0: (0.4, 0.3, 0.02)})
    assert measure(world, "lifted", 0) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("pos", "expected"),
    [
        ((0.50, 0.20, 0.05), 1),  # middle of the cavity
        ((0.50, 0.29, 0.05), 1),  # the bin is turned: its long side (0.10) lies along the base's y
        ((0.50, 0.31, 0.05), 0),
        ((0.56, 0.20, 0.05), 0),  # short side 0.05
        ((0.50, 0.20, 0.081), 0),  # above the rim
        ((0.50, 0.20, 0.001), 0),  # below the cavity's floor at 0.01
    ],
)
def test_inside_the_turned_cavity(pos, expected):
    world = view(
        pos={0: pos, BIN: (0.5, 0.2, 0.04)},
        quat={BIN: YAW_90},
        half={BIN: (0.11, 0.06, 0.04)},
        cavity={BIN: ((0, 0, 0.005), (0.10, 0.05, 0.035))},
    )
    assert measure(world, "inside", 0, BIN) == expected


def test_inside_is_false_without_a_cavity():
    world = view(pos={0: (0.5, 0.2, 0.02), 1: (0.5, 0.2, 0.02)})
    assert measure(world, "inside", 0, 1) == 0.0


@pytest.mark.parametrize(
    ("pos", "touching", "expected"),
    [
        ((0.50, 0.00, 0.04), True, 1),
        ((0.50, 0.00, 0.04), False, 0),  # held above it
        ((0.50, 0.09, 0.04), True, 1),  # turned by 90 degrees: the long side lies along y
        ((0.50, 0.11, 0.04), True, 0),  # centre beyond the edge
        ((0.54, 0.00, 0.04), True, 1),
        ((0.56, 0.00, 0.04), True, 0),
        ((0.50, 0.00, 0.016), True, 1),  # 4 mm below the face, within the tolerance
        ((0.50, 0.00, 0.012), True, 0),  # beside or below the face
    ],
)
def test_on_the_turned_face(pos, touching, expected):
    world = view(
        pos={0: pos, PLATE: (0.5, 0, 0.01)},
        quat={PLATE: YAW_90},
        half={0: (0.02,) * 3, PLATE: (0.10, 0.05, 0.01)},
        contacts=[(0, PLATE)] if touching else [],
    )
    assert measure(world, "on", 0, PLATE) == expected
    assert measure(world, "on", PLATE, 0) == 0.0


@pytest.mark.parametrize(("turn", "height", "expected"), [(ROLL_90, 0.03, 1), ((HALF, -HALF, 0, 0), 0.03, 1), (ROLL_90, 0.02, 0)])
def test_on_an_object_that_lies_on_its_side(turn, height, expected):
    # a 0.04 x 0.06 x 0.20 block on its 0.20 side: the face that looks up is 0.04 x 0.20, 0.03 above the centre
    world = view(pos={0: (0.5, 0.08, 0.03 + height), 1: (0.5, 0, 0.03)}, quat={1: turn}, half={1: (0.02, 0.03, 0.10)}, contacts=[(0, 1)])
    assert measure(world, "on", 0, 1) == expected


def test_on_the_table():
    world = view(pos={0: (0.5, 0, 0.02), 1: (0.5, 0.1, 0.02), 2: (0.5, 0.2, -0.02)}, contacts=[(0, TABLE), (2, TABLE)])
    assert [measure(world, "on", o, TABLE) for o in (0, 1, 2)] == [1, 0, 0]


def test_aligned_and_upright():
    yaw_60 = (math.cos(math.pi / 6), 0, 0, math.sin(math.pi / 6))
    half_turn = (0, 0, 0, 1)
    world = view(quat={1: yaw_60, 2: half_turn, 3: ROLL_90, 4: (0, 1, 0, 0)}, ee_quat=(0, 1, 0, 0))
    assert measure(world, "aligned", 0, 1) == pytest.approx(0.5)
    assert measure(world, "aligned", 0, 2) == pytest.approx(1.0)
    assert measure(world, "aligned", 1, TABLE) == pytest.approx(0.5)
    assert measure(world, "aligned", GRIPPER, 1) == pytest.approx(0.5)
    assert [measure(world, "upright", o) for o in (0, 1, 3, 4)] == pytest.approx([1, 1, 0, -1], abs=1e-6)


def test_opening_is_a_share_of_the_range():
    world = view(joint={0: (0.5, 0.0, 2.0), 1: (-0.3, -0.3, 0.0), 2: (3.0, 0.0, 2.0)})
    assert [measure(world, "opening", o) for o in range(4)] == pytest.approx([0.25, 0.0, 1.0, 0.0])


def test_still_compares_the_speed_of_the_centre():
    world = view(linvel={0: (0.011, 0.011, 0.011), 1: (0.012, 0.012, 0.012), 2: (0, 0, -0.019)})  # 0.01905, 0.02078, 0.019
    assert [measure(world, "still", o) for o in (0, 1, 2, 3)] == [1, 0, 1, 1]


def test_gripper_opening():
    assert measure(view(opening=0.05), "gripper_opening") == pytest.approx(0.05)


def test_documentation_holds_the_registry():
    text = (ROOT / "docs" / "expressions.md").read_text()
    assert helpers.markdown_table() in text
    assert expressions.markdown_table() in text


def test_kinds_of_entities():
    assert helpers.HELPERS["on"].accepts(1, TABLE) and not helpers.HELPERS["on"].accepts(1, GRIPPER)
    assert helpers.HELPERS["distance"].accepts(0, GRIPPER) and not helpers.HELPERS["distance"].accepts(0, TABLE)
    assert all(h.accepts(i, TOKENS - 1) for h in helpers.HELPERS.values() for i in range(len(h.args)))
