"""Verbs of articulated targets: what the joint and its handle are like (attributes), and how far it stands from the goal (spatial)."""

from __future__ import annotations

import dataclasses

from coda_jax.scenes import openings
from coda_jax.scenes.articulated import FAIR_AT_HANDLE, LEAST_HANDLE_M, Articulated
from coda_jax.scenes.edits.attributes import LEAST_RATIO, changed
from coda_jax.scenes.edits.path import follow
from coda_jax.scenes.edits.record import EditError, Request
from coda_jax.scenes.ranges import RANGES
from coda_jax.scenes.spec import Articulation, SceneSpec, SpatialFactor
from coda_jax.scenes.tabletop import Tabletop

LEAST_RANGE_SHARE = 0.5
_THIN = 1.01  # so that rounding leaves the handle thick enough
LEAST_OPENING = 0.05  # a change of the initial opening below this is none
_SAFE = 0.9  # of what is fair, where an edit ends
_SPRING = 0.6  # of the friction: nearer to HOLDS the open joint creeps visibly


def _target(request: Request) -> tuple[str, Articulated, Articulation]:
    name = request.binding["target"]
    asset, joint = Tabletop(request.spec).assets[name], request.spec.attribute(name).articulation
    if not isinstance(asset, Articulated) or joint is None:
        raise EditError(f"{name} has no joint: use a scene of the family articulated, or verb friction")
    return name, asset, joint


def _with(request: Request, name: str, joint: Articulation, **fields: float) -> SceneSpec:
    rounded = {k: round(v, 6) for k, v in fields.items()}
    return changed(request.spec, name, articulation=dataclasses.replace(joint, **rounded))


def _fair(asset: Articulated, field: str) -> float:
    return _SAFE * FAIR_AT_HANDLE[field][1] * asset.lever_m ** (1 if field == "friction" else 2)


def _geometric(request: Request, field: str, end: float) -> SceneSpec:
    name, _, joint = _target(request)
    now = getattr(joint, field)
    if end < now * LEAST_RATIO:
        raise EditError(f"the joint of {name} has {field} {now:.3g}, at most {end:.3g} are fair: use another verb of its joint")
    return _with(request, name, joint, **{field: now * (end / now) ** request.magnitude})


def joint_friction(request: Request) -> SceneSpec:
    """Make the joint hard to move, in equal ratios."""
    _, asset, _ = _target(request)
    return _geometric(request, "friction", _fair(asset, "friction"))


def joint_damping(request: Request) -> SceneSpec:
    """Make the joint slow, in equal ratios."""
    name, asset, joint = _target(request)
    if joint.damping <= 0:
        raise EditError(f"the joint of {name} has no damping to raise in equal ratios: use verb joint_friction")
    return _geometric(request, "damping", _fair(asset, "damping"))


def joint_stiffness(request: Request) -> SceneSpec:
    """Put a spring in the joint that pulls it closed, up to what its friction still holds open."""
    name, asset, joint = _target(request)
    end = min(_fair(asset, "stiffness"), _SPRING * joint.friction / asset.link.travel)
    if end < joint.stiffness * LEAST_RATIO or end <= 0:
        raise EditError(
            f"the friction of {name}'s joint holds a spring of at most {end:.3g}, it has {joint.stiffness:.3g}: use verb joint_friction"
        )
    return _with(request, name, joint, stiffness=joint.stiffness + request.magnitude * (end - joint.stiffness))


def handle_size(request: Request) -> SceneSpec:
    """Make the handle thin."""
    name, asset, joint = _target(request)
    width = min(g.width_m for g in asset.grasps)
    end = max(RANGES["handle_scale"][0], _THIN * joint.handle_scale * LEAST_HANDLE_M / width)
    if end * LEAST_RATIO > joint.handle_scale:
        raise EditError(f"the handle of {name} is {width:.4f} m thick, the least is {LEAST_HANDLE_M:g} m: use another verb of its joint")
    return _with(request, name, joint, handle_scale=joint.handle_scale + request.magnitude * (end - joint.handle_scale))


def opening_range(request: Request) -> SceneSpec:
    """Let the joint open less far, so that the same share is a smaller motion."""
    name, _, joint = _target(request)
    if joint.range_share < LEAST_RANGE_SHARE * LEAST_RATIO:
        raise EditError(
            f"the joint of {name} opens {joint.range_share:.2f} of its range, the least is {LEAST_RANGE_SHARE:g}: use another verb"
        )
    return _with(request, name, joint, range_share=joint.range_share + request.magnitude * (LEAST_RANGE_SHARE - joint.range_share))


def initial_opening(request: Request) -> SceneSpec:
    """Start further from the goal, up to the end of the range that is farther from it now."""
    name, _, _ = _target(request)
    now = request.spec.placement(name).opening or 0.0
    aim = openings.aim(Tabletop(request.spec).goal.relation)
    end = 0.0 if now < aim else 1.0
    if abs(end - now) < LEAST_OPENING:
        raise EditError(f"{name} stands at {now:.2f} of its range, as far from the goal as can be on its side: use verb joint_friction")

    def path(share: float) -> SceneSpec:
        opening = round(now + share * (end - now), 6)
        places = tuple(dataclasses.replace(p, opening=opening) if p.object == name else p for p in request.spec.spatial.placements)
        return dataclasses.replace(request.spec, spatial=SpatialFactor(request.spec.spatial.layout, places))

    return follow(path, request.magnitude, "use a scene with more room round the handle, or verb joint_friction")
