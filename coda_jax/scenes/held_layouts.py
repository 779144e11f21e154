"""Held-out layouts, told by geometry: a scene may call its layout what it likes.

Only what no edit of a training scene leads to can be refused by geometry. A target on something raised and a target in a passage
between two fixtures are such. A crowd round the target (verbs clutter, clearance) and a corner of the table (verb distance) are not:
those layouts are guarded by their ids and by the fingerprint of the frozen scenes.
"""

from __future__ import annotations

import math

from coda_jax.scenes.spec import SceneSpec
from coda_jax.scenes.tabletop import CROWDED_M, Tabletop

RAISED_M = 0.03  # stands are 0.047 m and higher, trays at most 0.023 m
OPPOSITE_RAD = 2 * math.pi / 3  # two fixtures seen from the target under a larger angle stand on both sides of it


def held_out_geometry(spec: SceneSpec) -> str | None:
    """What makes a scene one of a held-out layout, with the change that mends it; None where nothing does.

    Raises:
      UnknownAsset: an asset that no split holds.
    """
    top = Tabletop(spec)
    for target in spec.with_role("target"):
        if target in top.shapes and (reason := _raised(top, target) or _passage(top, target)):
            return reason
    return None


def _raised(top: Tabletop, target: str) -> str | None:
    bottom = top.shapes[target].bottom
    if bottom <= RAISED_M:
        return None
    return (
        f"{target} stands {bottom:.3f} m above the table, on {top.places[target].support}: targets raised by more than {RAISED_M:g} m "
        "are held out for evaluation: let it stand on the table"
    )


def _passage(top: Tabletop, target: str) -> str | None:
    beside = [n for n in top.neighbours(target) if top.assets[n].kind != "object" and top.gap(n, target) < CROWDED_M]
    mine = top.shapes[target]
    angles = [math.atan2(top.shapes[n].y - mine.y, top.shapes[n].x - mine.x) for n in beside]
    for i, a in enumerate(angles):
        for j, b in enumerate(angles[:i]):
            if abs((a - b + math.pi) % (2 * math.pi) - math.pi) > OPPOSITE_RAD:
                return (
                    f"{target} stands in the passage between {beside[j]} and {beside[i]}, less than {CROWDED_M:g} m from both: such places "
                    f"are held out for evaluation: leave {CROWDED_M:g} m to one of them"
                )
    return None
