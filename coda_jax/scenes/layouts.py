"""Seed layouts: where fixtures, target and clutter may stand, how close, and how they may be turned. Each belongs to one split.

Fifteen rules are written down; each gives its layout and numbered variants of it, which keep to a part of every region of the rule, so that
what a rule leaves free to another split stays free: 500 layouts in all.

Training layouts leave room and keep yaws moderate. Held-out ones are harder for a stated reason: clutter that blocks grasps, a target on
a raised stand, a target in the passage between two fixtures, corners of the table that training never uses, any yaw.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Region:
    """A rectangle on the table, base frame, m."""

    name: str
    x: tuple[float, float]
    y: tuple[float, float]

    def mirrored(self) -> Region:
        swap = {"left": "right", "right": "left"}
        name = "_".join(swap.get(word, word) for word in self.name.split("_"))
        return Region(name, self.x, (-self.y[1], -self.y[0]))


@dataclasses.dataclass(frozen=True)
class Layout:
    """An arrangement rule.

    fixtures: region of the first and of the second fixture (which is the reference is drawn). clearance_m: least gap between any two
    things. yaw_rad, fixture_yaw_rad: largest turn to either side. others: fewest and most other free objects.
    close: how many of them stand near the target, at a gap within close_gap_m. raised: the target stands on the first fixture, a stand.
    passage: the target stands between the two fixtures. why: what makes it hard (held-out ones).
    """

    layout_id: str
    split: str
    fixtures: tuple[Region, Region]
    target: Region
    clutter: tuple[Region, ...]
    clearance_m: float
    yaw_rad: float
    fixture_yaw_rad: float
    others: tuple[int, int]
    close: int = 0
    close_gap_m: tuple[float, float] = (0.0, 0.0)
    raised: bool = False
    passage: bool = False
    why: str = ""
    rule: str = ""  # layout_id of the rule that this is a variant of; its own id for the rule itself


def _region(name: str, x0: float, x1: float, y0: float, y1: float) -> Region:
    return Region(name, (x0, x1), (y0, y1))


_LEFT_NEAR = _region("left_near", 0.38, 0.46, 0.12, 0.19)
_LEFT_FAR = _region("left_far", 0.56, 0.62, 0.10, 0.19)
_RIGHT_NEAR, _RIGHT_FAR = _LEFT_NEAR.mirrored(), _LEFT_FAR.mirrored()
_MIDDLE = _region("middle", 0.40, 0.60, -0.06, 0.06)
_LEFT = _region("left", 0.38, 0.60, 0.03, 0.20)
_RIGHT = _LEFT.mirrored()
_FAR = _region("far", 0.53, 0.62, -0.19, 0.19)
_NEAR = _region("near", 0.38, 0.46, -0.19, 0.19)
_INNER = _region("inner", 0.36, 0.63, -0.22, 0.22)
_EVERYWHERE = _region("table", 0.33, 0.67, -0.27, 0.27)
_CORNER_LEFT = _region("corner_left", 0.33, 0.38, 0.20, 0.27)
_CORNER_RIGHT = _CORNER_LEFT.mirrored()
_EDGE_LEFT = _region("edge_left", 0.60, 0.66, 0.20, 0.26)
_EDGE_RIGHT = _EDGE_LEFT.mirrored()
_HALF_TURN = math.pi


def _train(layout_id: str, fixtures: tuple[Region, Region], target: Region) -> Layout:
    return Layout(layout_id, "train", fixtures, target, (_INNER,), 0.035, 0.8, 0.35, (1, 4))


_LAYOUTS = (
    _train("fixtures_left", (_LEFT_NEAR, _LEFT_FAR), _RIGHT),
    _train("fixtures_right", (_RIGHT_NEAR, _RIGHT_FAR), _LEFT),
    _train("fixtures_far", (_LEFT_FAR, _RIGHT_FAR), _NEAR),
    _train("fixtures_near", (_LEFT_NEAR, _RIGHT_NEAR), _FAR),
    _train("fixtures_split", (_region("left_middle", 0.44, 0.56, 0.14, 0.19), _region("right_middle", 0.44, 0.56, -0.19, -0.14)), _MIDDLE),
    _train("fixtures_diagonal", (_LEFT_NEAR, _RIGHT_FAR), _INNER),
    _train("fixtures_crossed", (_RIGHT_NEAR, _LEFT_FAR), _INNER),
    Layout(
        "crowd_ring", "validation", (_LEFT_FAR, _RIGHT_FAR), _NEAR, (_EVERYWHERE,), 0.012, _HALF_TURN, 0.8, (3, 4), 3, (0.012, 0.03),
        why="three neighbours round the target block part of its grasps and the approach corridor",
    ),
    Layout(
        "raised_left", "validation", (_LEFT_NEAR, _RIGHT_FAR), _LEFT, (_EVERYWHERE,), 0.02, _HALF_TURN, 0.6, (2, 4), raised=True,
        why="the target stands on a stool: grasp height, and a fall when the approach is low",
    ),
    Layout(
        "passage_across", "validation", (_region("left_side", 0.44, 0.56, 0.10, 0.16), _region("right_side", 0.44, 0.56, -0.16, -0.10)),
        _MIDDLE, (_EVERYWHERE,), 0.014, _HALF_TURN, 0.25, (2, 4), passage=True,
        why="the target stands in a narrow passage between two fixtures that fingers and palm must not touch",
    ),
    Layout(
        "corner_left", "validation", (_region("middle_far", 0.56, 0.6, -0.05, 0.02), _RIGHT_NEAR), _CORNER_LEFT, (_EVERYWHERE,), 0.014,
        _HALF_TURN, 0.8, (3, 4), 1, (0.012, 0.03),
        why="near the table's corner beside the base, where training has no object, with a neighbour close by",
    ),
    Layout(
        "crowd_row", "test", (_LEFT_NEAR, _RIGHT_NEAR), _FAR, (_EVERYWHERE,), 0.012, _HALF_TURN, 0.8, (3, 4), 3, (0.012, 0.03),
        why="a cluster of four far from the base, part of the grasps blocked",
    ),
    Layout(
        "raised_right", "test", (_RIGHT_FAR, _LEFT_NEAR), _RIGHT, (_EVERYWHERE,), 0.02, _HALF_TURN, 0.6, (2, 4), raised=True,
        why="the target stands on a stool far to the right",
    ),
    Layout(
        "passage_along", "test", (_region("near_side", 0.39, 0.41, -0.06, 0.06), _region("far_side", 0.58, 0.61, -0.06, 0.06)),
        _region("middle", 0.47, 0.53, -0.08, 0.08), (_EVERYWHERE,), 0.014, _HALF_TURN, 0.25, (2, 4), passage=True,
        why="a passage across the robot's view: the near fixture lies between the base and the target",
    ),
    Layout(
        "corner_far", "test", (_region("middle_near", 0.40, 0.44, -0.05, 0.05), _LEFT_FAR), _EDGE_RIGHT, (_EVERYWHERE,), 0.014,
        _HALF_TURN, 0.8, (3, 4), 1, (0.012, 0.03),
        why="the far right corner, at the end of the reach, with a neighbour close by",
    ),
)  # fmt: skip
_COUNTS = {"train": 52, "validation": 17, "test": 17}  # layouts of one rule: 7 x 52 + 4 x 17 + 4 x 17 = 500
_LEAST_SHARE = 0.6  # of a region's sides that a variant keeps
_LEAST_SIDE_M = 0.02
_STRIDES = tuple(0.9361**k for k in range(1, 11))  # additive recurrence: well spread in ten dimensions, as for instances of categories


def _part(region: Region, share: float, at_x: float, at_y: float) -> Region:
    """A part of a region with ``share`` of its sides, placed at the fractions at_x and at_y of the room that is left."""

    def cut(low: float, high: float, at: float) -> tuple[float, float]:
        side = min(high - low, max(share * (high - low), _LEAST_SIDE_M))
        start = low + at * (high - low - side)
        return round(start, 4), round(start + side, 4)

    return Region(region.name, cut(*region.x, at_x), cut(*region.y, at_y))


def _variant(rule: Layout, number: int) -> Layout:
    """Variant ``number`` (from 1) of a rule: parts of its regions, and somewhat more room and less turning."""
    u = [(0.5 + number * stride) % 1.0 for stride in _STRIDES]
    share = _LEAST_SHARE + (1 - _LEAST_SHARE) * u[0]
    first, second = rule.fixtures
    fewest, most = rule.others
    return dataclasses.replace(
        rule,
        layout_id=f"{rule.layout_id}_{number:02d}",
        fixtures=(_part(first, share, u[1], u[2]), _part(second, share, u[3], u[4])),
        target=_part(rule.target, share, u[5], u[6]),
        clearance_m=round(rule.clearance_m * (1 + 0.1 * u[7]), 4),
        yaw_rad=round(rule.yaw_rad * (0.6 + 0.4 * u[8]), 4),
        fixture_yaw_rad=round(rule.fixture_yaw_rad * (0.4 + 0.6 * u[9]), 4),
        others=(fewest, most) if rule.close else (fewest, max(fewest + 1, most - number % 2)),
        rule=rule.layout_id,
    )


def with_variants(rules: Sequence[Layout]) -> dict[str, Layout]:
    """Layouts by id: each rule's own and its numbered variants, as many as its split asks for."""
    return {
        layout.layout_id: layout
        for rule in rules
        for layout in (dataclasses.replace(rule, rule=rule.layout_id), *(_variant(rule, i) for i in range(1, _COUNTS[rule.split])))
    }


LAYOUTS: dict[str, Layout] = with_variants(_LAYOUTS)
