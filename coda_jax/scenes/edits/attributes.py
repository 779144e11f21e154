"""Attribute verbs: what things are. Sizes change where a centre is; the edit puts the thing back on its support (edits/lock.py)."""

from __future__ import annotations

import dataclasses
import math

from coda_jax.scenes.edits.path import follow
from coda_jax.scenes.edits.record import EditError, Request
from coda_jax.scenes.edits.room import trouble
from coda_jax.scenes.families import family_of
from coda_jax.scenes.shapes.build import volume
from coda_jax.scenes.spec import AttributeFactor, SceneSpec
from coda_jax.scenes.tabletop import Tabletop, rested

LARGEST_SCALE = 1.38
WIDEST_GRASP_M = 0.068  # of a hand that opens 0.08 m
HEAVIEST_KG = 0.6
LEAST_FRICTION = 0.25
LEAST_RATIO = 1.05  # a range shorter than this is none


def changed(spec: SceneSpec, name: str, **fields) -> SceneSpec:
    """The spec with fields of one object's attributes replaced, everything resting as before."""
    objects = tuple(dataclasses.replace(o, **fields) if o.object == name else o for o in spec.attributes.objects)
    return rested(dataclasses.replace(spec, attributes=AttributeFactor(objects)), spec)


def size(request: Request) -> SceneSpec:
    """Scale the target up to the jaw's limit; its mass stays, so that only size is asked about.

    A goal may state a limit measured from the sizes it was written for. The limit is of the task and stays, so a larger target has less of
    the margin left; the family says where that ends the range.
    """
    top, target = Tabletop(request.spec), request.binding["target"]
    thing, asset = request.spec.attribute(target), top.assets[target]
    if not asset.grasps:
        raise EditError(f"{target} cannot be grasped: bind a graspable target")
    factors = {
        "the largest scale": LARGEST_SCALE / thing.scale,
        "the jaws": WIDEST_GRASP_M / min(g.width_m for g in asset.grasps),
        "the least density for its mass": (thing.mass_kg / (family_of(request.spec).densities_kg_m3[0] * _volume(request.spec, target)))
        ** (1 / 3),
    }
    factors |= family_of(request.spec).size_limits(top.goals, target, top.assets)
    what = min(factors, key=lambda k: factors[k])
    if factors[what] < LEAST_RATIO:
        raise EditError(f"{target} cannot grow: {what} is reached: use another instance of {asset.category}, or verb mass")
    end = thing.scale * factors[what]

    def path(share: float) -> SceneSpec:
        return changed(request.spec, target, scale=round(thing.scale + share * (end - thing.scale), 6))

    return follow(path, request.magnitude, "use a scene with more room round the target, or verb mass")


def _volume(spec: SceneSpec, name: str) -> float:
    return sum(map(volume, Tabletop(spec).assets[name].primitives))


def _geometric(low: float, high: float, share: float) -> float:
    return low * (high / low) ** share


def _movable(request: Request) -> str:
    target = request.binding["target"]
    if Tabletop(request.spec).assets[target].kind in ("support", "container"):
        raise EditError(f"{target} is fixed, so its weight and friction change little: use a scene whose target is moved")
    return target


def mass(request: Request) -> SceneSpec:
    """Make the target heavier, in equal ratios."""
    target = _movable(request)
    now = request.spec.attribute(target).mass_kg
    end = min(HEAVIEST_KG, family_of(request.spec).densities_kg_m3[1] * _volume(request.spec, target))
    if end < now * LEAST_RATIO:
        raise EditError(f"{target} weighs {now:.3f} kg and at most {end:.3f} kg are plausible for its size: use verb friction or size")
    return changed(request.spec, target, mass_kg=round(_geometric(now, end, request.magnitude), 6))


def friction(request: Request) -> SceneSpec:
    """Make the target slippery, in equal ratios."""
    target = _movable(request)
    now = request.spec.attribute(target).friction
    if now < LEAST_FRICTION * LEAST_RATIO:
        raise EditError(f"{target} has friction {now:.3f}, the least is {LEAST_FRICTION:g}: use verb mass or size")
    return changed(request.spec, target, friction=round(_geometric(now, LEAST_FRICTION, request.magnitude), 6))


def colour(request: Request) -> SceneSpec:
    """Give other things the colour of the target (free ones) or of the reference (fixtures), the bound distractor first.

    The magnitude is the share of the things that can take it. Every name, colour and category, stays unique.
    """
    top, spec = Tabletop(request.spec), request.spec
    target, reference, first = top.goal.target, top.goal.reference, request.binding["distractor"]
    if first in (target, reference):
        raise EditError(f"{first} is the task's own: bind another object as the distractor")
    shades = {o.object: o.colour for o in spec.attributes.objects}
    others = sorted((n for n in spec.object_ids if n not in top.task_objects), key=lambda n: (n != first, top.distance(n, target), n))
    takes: list[tuple[str, str]] = []
    for name in others:
        source = reference if top.assets[name].kind != "object" and top.assets[reference].kind != "object" else target
        wanted, called = shades[source], {(shades[n], top.assets[n].category) for n in shades}
        if wanted == shades[name] or (wanted, top.assets[name].category) in called or wanted not in top.assets[name].colours:
            continue
        takes.append((name, wanted))
        shades[name] = wanted
    if not takes or takes[0][0] != first:
        raise EditError(f"{first} has that colour already or would be called like another object: bind another distractor")
    for name, wanted in takes[: math.ceil(request.magnitude * len(takes) - 1e-9)]:
        spec = changed(spec, name, colour=wanted)
    return spec


def instance(request: Request) -> SceneSpec:
    """Replace the target by another training instance of its category; the magnitude picks by difference in size, smallest first."""
    top, target = Tabletop(request.spec), request.binding["target"]
    thing = request.spec.attribute(target)
    base = request.catalogue.get(thing.asset)
    options: list[tuple[float, str, SceneSpec]] = []
    for other in request.catalogue.instances(base.category):
        if other.asset_id == thing.asset or thing.colour not in other.colours:
            continue
        spec = changed(request.spec, target, asset=other.asset_id)
        if not _plausible(spec, target) or trouble(spec) is not None:
            continue
        apart = sum(abs(a - b) for a, b in zip(base.half_extent_m, other.half_extent_m, strict=True))
        options.append((round(apart, 6), other.asset_id, spec))
    if not options:
        raise EditError(f"no other instance of {top.assets[target].category} fits where {target} stands: use verb size, or another scene")
    options.sort(key=lambda o: o[:2])
    return options[math.ceil(request.magnitude * len(options) - 1e-9) - 1][2]


def _plausible(spec: SceneSpec, name: str) -> bool:
    (low, high), volume_m3 = family_of(spec).densities_kg_m3, _volume(spec, name)
    return low * volume_m3 <= spec.attribute(name).mass_kg <= high * volume_m3
