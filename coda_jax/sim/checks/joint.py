"""The joint of an articulated object: plausible numbers, a handle the jaws can hold, and room for the whole motion."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

from coda_jax.scenes.articulated import FAIR_AT_HANDLE, HOLDS, LEAST_HANDLE_M, Articulated, held_open
from coda_jax.scenes.assets import Asset
from coda_jax.scenes.fixes import Fix, aside
from coda_jax.scenes.placement import footprint, gap
from coda_jax.scenes.spec import Placement, SceneSpec
from coda_jax.sim.checks.record import Failure

_INSIDE = 0.01  # share by which a new number keeps from the end of its range
UNITS = {
    "slide": {"stiffness": "N/m", "damping": "N s/m", "friction": "N"},
    "hinge": {"stiffness": "N m/rad", "damping": "N m s/rad", "friction": "N m"},
}


def joint_failures(spec: SceneSpec, assets: Mapping[str, Asset]) -> Iterator[Failure]:
    """Failures of the joint; ``assets`` are the scaled ones by object id."""
    for name, asset in assets.items():
        if isinstance(asset, Articulated):
            yield from _numbers(name, asset)
            yield from _room(spec, name, assets)


def _numbers(name: str, asset: Articulated) -> Iterator[Failure]:
    joint, kind = asset.articulation, asset.link.joint
    for field, felt in FAIR_AT_HANDLE.items():
        value, unit = getattr(joint, field), UNITS[kind][field]
        low, high = (v * asset.lever_m ** (1 if field == "friction" else 2) for v in felt)
        if not low <= value <= high:
            nearest = min(max(value, low), high)
            message = (
                f"the {kind} of {name} has {field} {value:.3g} {unit}; fair is {low:.3g}..{high:.3g} {unit}: change it to {nearest:.3g}"
            )
            inside = max(low, nearest * (1 + _INSIDE if nearest > value else 1 - _INSIDE))
            fix = Fix(name, "joint_friction" if field == "friction" else field, inside)
            yield Failure("joint", name, "", abs(value - nearest), unit, message, (fix,))
    if not held_open(joint, asset.link.travel):
        most = HOLDS * joint.friction / asset.link.travel
        unit = UNITS[kind]["stiffness"]
        message = (
            f"the spring of {name} closes it again: stiffness {joint.stiffness:.3g} {unit} over {asset.link.travel:.3g} is more than "
            f"{HOLDS:g} of the friction {joint.friction:.3g}: lower the stiffness to {most:.3g} {unit}, or raise the friction"
        )
        enough = joint.friction * joint.stiffness / most * (1 + _INSIDE) if most > 0 else 0.0
        fixes = [Fix(name, "stiffness", most * (1 - _INSIDE))]
        if enough and enough <= FAIR_AT_HANDLE["friction"][1] * asset.lever_m:
            fixes.append(Fix(name, "joint_friction", enough))
        yield Failure("joint", name, "", joint.stiffness - most, unit, message, tuple(fixes))
    width = min(g.width_m for g in asset.grasps)
    if width < LEAST_HANDLE_M:
        message = (
            f"the handle of {name} is {width:.4f} m thick, at least {LEAST_HANDLE_M:g} m are held safely: "
            f"raise handle_scale to {joint.handle_scale * LEAST_HANDLE_M / width:.2f} or more"
        )
        fix = Fix(name, "handle_scale", joint.handle_scale * LEAST_HANDLE_M / width * (1 + _INSIDE))
        yield Failure("joint", name, "gripper", LEAST_HANDLE_M - width, "m", message, (fix,))


def _room(spec: SceneSpec, name: str, assets: Mapping[str, Asset]) -> Iterator[Failure]:
    """Nothing else may stand in the box that the thing fills between closed and open."""

    def shape(p: Placement):
        return footprint(assets[p.object], *p.pos_m[:2], p.yaw_rad, p.pos_m[2] - assets[p.object].half_extent_m[2])

    mine = shape(spec.placement(name))
    for p in spec.spatial.placements:
        other = shape(p) if p.object != name else None
        if other is not None and other.bottom < mine.top and (depth := -gap(mine, other)) > 0:
            message = f"{p.object} stands {depth:.3f} m within the reach of the moving part of {name}: move it {depth + 0.005:.3f} m away"
            yield Failure("joint", p.object, name, depth, "m", message, functools.partial(aside, spec, p.object))
