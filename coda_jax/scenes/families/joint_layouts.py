"""Seed layouts of articulated things: their front faces the robot, and the box that they fill on their way stays free.

Training layouts leave room and turn the front a little. Held-out ones crowd the handle, turn the front further, or stand at the edge of
the reach, where training has nothing to open.
"""

from __future__ import annotations

from coda_jax.scenes.layouts import Layout, Region

_LEFT = Region("fixture_left", (0.46, 0.6), (0.2, 0.26))
_RIGHT = _LEFT.mirrored()
_FRONT_LEFT = Region("front_left", (0.47, 0.55), (0.02, 0.1))
_FRONT_RIGHT = _FRONT_LEFT.mirrored()
_FRONT_MIDDLE = Region("front_middle", (0.46, 0.56), (-0.05, 0.05))
_AROUND = Region("table", (0.34, 0.66), (-0.27, 0.27))
_TRAIN_YAW, _FIXTURE_YAW = 0.45, 0.35


def _train(layout_id: str, fixture: Region, target: Region) -> Layout:
    return Layout(layout_id, "train", (fixture, fixture), target, (_AROUND,), 0.02, _TRAIN_YAW, _FIXTURE_YAW, (1, 3))


_LAYOUTS = (
    _train("joint_left", _RIGHT, _FRONT_LEFT),
    _train("joint_right", _LEFT, _FRONT_RIGHT),
    _train("joint_middle", _LEFT, _FRONT_MIDDLE),
    _train("joint_middle_right", _RIGHT, _FRONT_MIDDLE),
    Layout(
        "joint_crowd", "validation", (_RIGHT, _RIGHT), _FRONT_LEFT, (_AROUND,), 0.012, _TRAIN_YAW, _FIXTURE_YAW, (3, 4), 3, (0.012, 0.03),
        why="three neighbours stand close to the way of the link",
    ),
    Layout(
        "joint_turned_left", "validation", (_LEFT, _LEFT), _FRONT_RIGHT, (_AROUND,), 0.02, 0.9, _FIXTURE_YAW, (1, 3),
        why="the front may be turned twice as far as in training, on the right hand side",
    ),
    Layout(
        "joint_row", "test", (_LEFT, _LEFT), Region("front_far", (0.57, 0.61), (-0.1, 0.0)), (_AROUND,), 0.012, _TRAIN_YAW, _FIXTURE_YAW,
        (3, 4), 3, (0.012, 0.03),
        why="far from the base, with three neighbours close to the way of the link",
    ),
    Layout(
        "joint_turned_right", "test", (_RIGHT, _RIGHT), _FRONT_LEFT, (_AROUND,), 0.02, 0.9, _FIXTURE_YAW, (1, 3),
        why="the front may be turned twice as far as in training, on the left hand side",
    ),
)  # fmt: skip
LAYOUTS: dict[str, Layout] = {layout.layout_id: layout for layout in _LAYOUTS}
