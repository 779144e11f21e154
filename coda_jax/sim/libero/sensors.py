"""Which contacts a LIBERO model measures: every free thing against everything, every finger against everything but the arm.

A body's name is LIBERO's ("plate_1_main", "wooden_cabinet_1_cabinet_top"); a sensor is called after both of its bodies and counts
contacts between their subtrees, so that the cabinet's includes its drawers'.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

FINGERS = ("gripper0_leftfinger", "gripper0_rightfinger")
SURFACES = ("table", "floor")
ROOT = "_main"  # ends the name of the root body of an object or fixture
SEPARATOR = "|"


def pairs(free: list[str], still: list[str], surface: str) -> Iterator[tuple[str, str]]:
    """Names of the bodies of every sensor.

    free: roots of what moves. still: roots of fixtures and their parts on joints. surface: "" where it is none of SURFACES.
    """
    for i, a in enumerate(free):
        for b in (*free[i + 1 :], *still, *([surface] if surface else [])):
            yield a, b
    for finger in FINGERS:
        for b in (*free, *still):
            yield finger, b


def bodies(spec: Any) -> tuple[list[str], list[str], str]:
    """Roots of free things; roots of fixtures and their jointed parts; the surface, by an MjSpec's tree."""
    free, still, surface = [], [], ""
    for body in spec.worldbody.bodies:
        if body.name in SURFACES:
            surface = body.name
        elif body.name.endswith(ROOT) and len(body.joints):
            free.append(body.name)
        elif body.name.endswith(ROOT):
            still.append(body.name)
            parts = list(body.bodies)
            while parts:
                part = parts.pop(0)
                if len(part.joints):
                    still.append(part.name)
                parts += list(part.bodies)
    return free, still, surface


def add(spec: Any) -> None:
    """Put the contact sensors into an MjSpec, behind the sensors it has."""
    import mujoco

    free, still, surface = bodies(spec)
    for a, b in pairs(free, still, surface):
        spec.add_sensor(
            name=f"{a}{SEPARATOR}{b}",
            type=mujoco.mjtSensor.mjSENS_CONTACT,
            objtype=mujoco.mjtObj.mjOBJ_XBODY,
            objname=a,
            reftype=mujoco.mjtObj.mjOBJ_XBODY,
            refname=b,
            intprm=[1 << int(mujoco.mjtConDataField.mjCONDATA_FOUND), 0, 1],
        )
