"""Where LIBERO's things are held, measured from the collision geoms of the package's models.

Positions are in a thing's frame (scenes/libero/things.py) from the centre of its bounding box; a handle's and a knob's from the root.
"""

from __future__ import annotations

import dataclasses
import math

from coda_jax.scenes.libero.things import Model
from coda_jax.sim.libero.planner.hand import PALM_M, TIP_M


@dataclasses.dataclass(frozen=True)
class Hold:
    """A grasp from above. pos_m: of the grip point. closing_rad: yaw of the jaws."""

    pos_m: tuple[float, float, float]
    closing_rad: float


@dataclasses.dataclass(frozen=True)
class Rim:
    """An upright round wall that the jaws straddle. radius_m: of its middle. depth_m: of the grip point below the top."""

    radius_m: float
    depth_m: float


@dataclasses.dataclass(frozen=True)
class Handle:
    """A bar in front of a drawer, along the cabinet's x. pos_m: its middle with the drawer closed, from the cabinet's root.

    tilt_rad: of the approach, from straight down towards level.
    """

    pos_m: tuple[float, float, float]
    tilt_rad: float


RIMS = {"akita_black_bowl": Rim(0.048, 0.0142), "glazed_rim_porcelain_ramekin": Rim(0.0382, 0.012), "plate": Rim(0.0645, 0.004)}
NECKS = {"wine_bottle": 0.024}  # depth of the grip point below the top, of what is too wide or too tall below
SEATS = {"plate": 0.006, "akita_black_bowl": 0.012, "glazed_rim_porcelain_ramekin": 0.042}  # where a thing rests, above the bottom
_DIRECTIONS = 12  # about a rim
_OVER_TABLE_M = 0.004  # of the finger tips
_PALM_PLAY_M = 0.004
_WIDEST_M, _SQUARE_M = 0.038, 0.004  # half of what the jaws get around; a thing as wide both ways, within this, is held either way
_END_M = 0.016  # from the end of what is long to the grip point at the least

BAR_M = {joint: (-0.0028, -0.1016, z) for joint, z in (("top_level", 0.1839), ("middle_level", 0.1104), ("bottom_level", 0.0411))}
HANDLES = {joint: Handle(BAR_M[joint], 1.2) for joint in ("top_level", "middle_level")}
# The bottom one is out of reach: with a level hand the palm meets the table, tilted more it meets the handles above.
BAR_HALF_M = 0.0085  # of its height
WALL_TOP_M = {"top_level": 0.2157, "middle_level": 0.1460, "bottom_level": 0.0774}  # of a drawer's walls, from the cabinet's root
HANDLE_Y_M, HANDLE_HALF_M = -0.1093, 0.0444  # its outer face, and half its length
DRAWER_Y_M = (-0.0779, -0.0648)  # outer and inner face of a drawer's front
DRAWER_HALF_M = 0.1116
BODY_Y_M = (-0.0783, 0.1117)  # of the cabinet without its drawers

KNOB_M = (-0.005, 0.0012, 0.036)  # grip point on the stove's knob, whose ridge lies along x at angle 0
KNOB_HALF_M, KNOB_TOP_M = 0.052, 0.05
RACK_SLOPE_RAD = 0.48  # of the upper shelf
BURNER_M = ((0.15, 0.0), 0.095, 0.0255)  # middle, half side and top


def holds(model: Model, scale: float = 1.0) -> tuple[Hold, ...]:
    """Every way to hold a thing, in no order; none where the jaws do not open so wide."""
    x, y, top = (scale * v for v in model.half_m)
    if model.category in RIMS:
        rim = RIMS[model.category]
        turns = [2 * math.pi * i / _DIRECTIONS for i in range(_DIRECTIONS)]
        return tuple(Hold((scale * rim.radius_m * math.cos(t), scale * rim.radius_m * math.sin(t), top - rim.depth_m), t) for t in turns)
    if model.category in NECKS:
        return tuple(Hold((0.0, 0.0, top - NECKS[model.category]), math.pi * i / _DIRECTIONS) for i in range(_DIRECTIONS))
    z = min(max(top - PALM_M + _PALM_PLAY_M, TIP_M + _OVER_TABLE_M - top), top)
    found = []
    for half, other, closing in ((x, y, 0.0), (y, x, math.pi / 2)):
        if half > _WIDEST_M or half > other + _SQUARE_M:
            continue
        along = other - _END_M
        for shift in (0.0, along, -along) if along > _END_M else (0.0,):
            found.append(Hold((shift, 0.0, z) if closing else (0.0, shift, z), closing))
    return tuple(found)
