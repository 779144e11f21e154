"""How many things, which names and numbers a scene program may use: for the verbs inside the sandbox and the door outside it."""

from __future__ import annotations

from coda_jax.types import FIXTURE_SLOTS, FREE_SLOTS

MAX_FREE = FREE_SLOTS
MAX_FIXTURES = FIXTURE_SLOTS
MAX_BUILT = 64  # things one program may make, used or not

# low, high, unit. The reach of the arm over the table, and what its gripper and the physics settings were measured with.
RANGES: dict[str, tuple[float, float, str]] = {
    "x": (0.2, 0.8, " m"),
    "y": (-0.5, 0.5, " m"),
    "z": (-0.05, 1.0, " m"),
    "yaw_rad": (-6.2832, 6.2832, " rad"),
    "scale": (0.5, 2.0, ""),
    "mass_kg": (0.005, 2.0, " kg"),
    "friction": (0.05, 2.0, ""),
    "clearance_m": (0.0, 0.3, " m"),
    # of articulated things; what is fair for a slide or a hinge is narrower (sim/checks/joint.py)
    "opening": (0.0, 1.0, ""),
    "stiffness": (0.0, 30.0, " N/m or N m/rad"),
    "damping": (0.0, 60.0, " N s/m or N m s/rad"),
    "joint_friction": (0.0, 12.0, " N or N m"),
    "handle_scale": (0.5, 1.6, ""),
    "range_share": (0.4, 1.0, ""),
}

SYMBOL = r"^[a-z][a-z0-9_]{0,31}$"
IDENTIFIER = r"^[a-z][a-z0-9_]{0,47}$"  # catalogue and layout ids
INSTRUCTION = r"^[A-Za-z0-9 ,.'-]{3,160}$"
RESERVED_NAMES = frozenset({"table", "gripper", "world", "robot", "robot0", "base", "hand", "arm", "floor", "panda"})
