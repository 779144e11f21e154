"""What is in LIBERO's scenes: sizes, masses and regions of the things, measured from the package's models.

``python -m benchmarks.libero_things`` measures them again from the installed package and says what differs. Lengths are in metres; a
thing's frame has its axes along the base's when it stands as LIBERO puts it (yaw 0) and its origin at the model's root body.
"""

from __future__ import annotations

import dataclasses
import math

Vec3 = tuple[float, float, float]
Quat = tuple[float, float, float, float]

FRICTION = 0.95  # sliding friction of every thing's geoms
ASSET_PREFIX = "libero/"


@dataclasses.dataclass(frozen=True)
class Region:
    """A part of a thing that predicates name, as a box along the thing's axes with its joints at zero.

    surface_m: height of the face that a thing on or in it rests on. joint: of the part it moves with, "" for none.
    """

    pos_m: Vec3
    half_m: Vec3
    surface_m: float
    joint: str = ""


@dataclasses.dataclass(frozen=True)
class Joint:
    """closed, opened: its coordinate at opening 0 and 1 (m or rad). axis: in the thing's frame, of a slide; zeros for a turn."""

    closed: float
    opened: float
    axis: Vec3 = (0.0, 0.0, 0.0)


@dataclasses.dataclass(frozen=True)
class Model:
    """One category. words: what sentences call it. up: rotation of the root body when it stands at yaw 0, wxyz.

    centre_m, half_m: its bounding box of collision geoms. jitter_m: the official sampler's radius: it takes it off both ends of a region,
    so a region narrower than twice the radius is left inside out and things scatter over radius minus half its width to both sides.
    root_m: height of a fixture's root above the workspace. joint: whose opening a placement states.
    """

    category: str
    words: str
    free: bool
    up: Quat
    centre_m: Vec3
    half_m: Vec3
    mass_kg: float
    jitter_m: float = 0.0
    root_m: float = 0.0
    regions: dict[str, Region] = dataclasses.field(default_factory=dict)
    joints: dict[str, Joint] = dataclasses.field(default_factory=dict)
    joint: str = ""

    @property
    def asset(self) -> str:
        return ASSET_PREFIX + self.category


_R = math.sqrt(0.5)
_IDENTITY, _QUARTER, _HALF = (1.0, 0.0, 0.0, 0.0), (_R, 0.0, 0.0, _R), (0.0, 0.0, 0.0, 1.0)
_CAN, _BOTTLE = (0.0, 0.0, _R, _R), (0.5, 0.5, 0.5, 0.5)
_DRAWER = Joint(0.0, -0.16, (0.0, 1.0, 0.0))


def _free(name: str, words: str, up: Quat, centre: Vec3, half: Vec3, mass: float, jitter: float, regions=None) -> Model:
    return Model(name, words, True, up, centre, half, mass, jitter_m=jitter, regions=regions or {})


def _drawer(z: float, floor: float, joint: str) -> Region:
    return Region((0.00328, 0.01128, z), (0.10224, 0.07561, 0.02993), floor, joint)


_BASKET = {"contain_region": Region((0.0, 0.0, 0.07185), (0.06108, 0.06108, 0.06949), 0.00236)}
_CABINET = Model(
    "wooden_cabinet", "cabinet", False, _IDENTITY, (0.00394, 0.0012, 0.11379), (0.12729, 0.11051, 0.1092), 9.176239, root_m=0.005,
    regions={
        "top_side": Region((0.00354, 0.01567, 0.22152), (0.12534, 0.09438, 0.00147), 0.22299),
        "top_region": _drawer(0.18563, 0.1592, "top_level"),
        "middle_region": _drawer(0.1169, 0.0895, "middle_level"),
        "bottom_region": _drawer(0.04701, 0.0209, "bottom_level"),
    },
    joints={"top_level": _DRAWER, "middle_level": _DRAWER, "bottom_level": _DRAWER},
    joint="top_level",
)  # fmt: skip
_STOVE = Model(
    "flat_stove", "stove", False, _IDENTITY, (0.09649, 0.0, 0.01501), (0.14851, 0.095, 0.03501), 4.4801, root_m=0.005,
    regions={"cook_region": Region((0.15, 0.0, 0.0), (0.075, 0.075, 0.0025), 0.0221)},
    joints={"button": Joint(0.0, 2.1)},
    joint="button",
)  # fmt: skip
_RACK = Model(
    "wine_rack", "rack", False, _IDENTITY, (0.0, 0.00254, 0.16303), (0.13438, 0.12692, 0.16521), 0.152748, root_m=0.02,
    regions={"top_region": Region((0.0, -0.08003, 0.21745), (0.10087, 0.01239, 0.02067), 0.23)},
)  # fmt: skip
_MODELS = (
    _free("akita_black_bowl", "black bowl", _QUARTER, (0.00039, -0.00018, 0.02686), (0.0535, 0.0536, 0.02527), 0.005591, 0.025),
    _free("plate", "plate", _QUARTER, (-0.00035, 0.00082, 0.00696), (0.06873, 0.06881, 0.00947), 0.011522, 0.025),
    _free("cookies", "cookie box", _QUARTER, (0.0, 0.0, 0.0), (0.04131, 0.03104, 0.0094), 0.009643, 0.025),
    _free("glazed_rim_porcelain_ramekin", "ramekin", _QUARTER, (-0.00012, -1e-05, 0.02166), (0.04455, 0.04466, 0.021), 0.00966, 0.025),
    _free("cream_cheese", "cream cheese", _HALF, (0.0, 0.0, 0.0), (0.04061, 0.02134, 0.00894), 0.006194, 0.03),
    _free("wine_bottle", "wine bottle", _HALF, (-0.00063, -7e-05, 0.07958), (0.0213, 0.02212, 0.07847), 0.015394, 0.025),
    _free("basket", "basket", _QUARTER, (-0.00014, 0.00065, 0.07495), (0.07867, 0.08476, 0.07074), 0.136107, 0.025, _BASKET),
    _free("alphabet_soup", "alphabet soup", _CAN, (0.00013, -0.00368, -0.00049), (0.03121, 0.0312, 0.0381), 0.025851, 0.025),
    _free("tomato_sauce", "tomato sauce", _CAN, (0.00012, -0.0033, -0.00049), (0.0311, 0.03082, 0.0381), 0.026633, 0.025),
    _free("salad_dressing", "salad dressing", _BOTTLE, (-0.0002, -0.00096, 6e-05), (0.01776, 0.02637, 0.07279), 0.021785, 0.025),
    _free("ketchup", "ketchup", _BOTTLE, (0.00075, 0.00045, 0.00038), (0.01838, 0.02811, 0.07281), 0.023217, 0.025),
    _free("bbq_sauce", "bbq sauce", _QUARTER, (0.0, 0.0, -0.00109), (0.01455, 0.02349, 0.05355), 0.01218, 0.015),
    _free("milk", "milk", _BOTTLE, (0.0, 9e-05, -0.00416), (0.02625, 0.02654, 0.0656), 0.031666, 0.03),
    _free("orange_juice", "orange juice", _BOTTLE, (0.0, -9e-05, -0.00416), (0.02625, 0.02654, 0.0656), 0.031666, 0.025),
    _free("butter", "butter", _HALF, (0.0, 0.0, 0.0), (0.03809, 0.01977, 0.00871), 0.005247, 0.02),
    _free("chocolate_pudding", "chocolate pudding", _HALF, (0.0005, 0.0, 0.00063), (0.0401, 0.02316, 0.01371), 0.010186, 0.025),
    _CABINET,
    _STOVE,
    _RACK,
)
MODELS: dict[str, Model] = {m.category: m for m in _MODELS}

# A drawer with a token of its own: the part of the cabinet that moves with the joint. The bottom drawer has none.
DRAWER = "wooden_cabinet_middle"
DRAWER_SUFFIX = "_middle"  # of the object's name after the cabinet's
DRAWER_MODEL = Model(
    DRAWER, "middle drawer", False, _IDENTITY, (0.00335, -0.0075, 0.1134), (0.10935, 0.1018, 0.0343), 3.0,
    joints={"middle_level": _DRAWER}, joint="middle_level",
)  # fmt: skip
ASSETS: dict[str, Model] = {m.asset: m for m in (*_MODELS, DRAWER_MODEL)}


@dataclasses.dataclass(frozen=True)
class Arena:
    """Where a problem takes place. origin_m: world position of the scene's frame: below the robot's base, at the height of the workspace.

    half_m: half sides of the workspace about ``middle_m``, in the scene's frame.
    """

    workspace: str
    category: str
    origin_m: Vec3
    half_m: tuple[float, float]

    @property
    def middle_m(self) -> tuple[float, float]:
        """The workspace's middle, from which regions count, in the scene's frame."""
        return -self.origin_m[0], -self.origin_m[1]


ARENAS: dict[str, Arena] = {
    "libero_tabletop_manipulation": Arena("main_table", "table", (-0.66, 0.0, 0.9), (0.5, 0.6)),
    "libero_floor_manipulation": Arena("floor", "floor", (-0.6, 0.0, 0.0), (0.6, 0.6)),
}


def root_of(model: Model, pos_m: Vec3, yaw_rad: float, scale: float = 1.0) -> tuple[Vec3, Quat]:
    """Pose of the root body of a thing whose box is centred at ``pos_m``, in the same frame; wxyz."""
    c, s = math.cos(yaw_rad), math.sin(yaw_rad)
    x, y, z = (scale * v for v in model.centre_m)
    half = yaw_rad / 2
    return (pos_m[0] - c * x + s * y, pos_m[1] - s * x - c * y, pos_m[2] - z), multiplied(
        (math.cos(half), 0.0, 0.0, math.sin(half)), model.up
    )


def centre_of(model: Model, root_m: Vec3, yaw_rad: float, scale: float = 1.0) -> Vec3:
    """Centre of the box of a thing whose root body is at ``root_m``; the inverse of ``root_of``."""
    c, s = math.cos(yaw_rad), math.sin(yaw_rad)
    x, y, z = (scale * v for v in model.centre_m)
    return root_m[0] + c * x - s * y, root_m[1] + s * x + c * y, root_m[2] + z


def yaw_of(model: Model, quat: Quat) -> float:
    """Yaw of a root body's rotation, rad in (-pi, pi]; a tilt is left out."""
    w, _, _, z = multiplied(quat, (model.up[0], -model.up[1], -model.up[2], -model.up[3]))
    return math.remainder(2 * math.atan2(z, w), 2 * math.pi)


def multiplied(a: Quat, b: Quat) -> Quat:
    """Product of two rotations, wxyz."""
    (w, x, y, z), (e, f, g, h) = a, b
    return w * e - x * f - y * g - z * h, w * f + x * e + y * h - z * g, w * g - x * h + y * e + z * f, w * h + x * g - y * f + z * e
