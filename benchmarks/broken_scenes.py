"""Scenes as a careless author writes them: a drawn scene in which one thing, or several, are changed without looking."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from coda_jax.scenes import openings
from coda_jax.scenes.edits.attributes import changed
from coda_jax.scenes.spec import SceneSpec
from coda_jax.scenes.tabletop import Tabletop, moved, shifted

Mistake = Callable[[SceneSpec, str, np.random.Generator], SceneSpec]


def _somewhere(spec: SceneSpec, name: str, rng: np.random.Generator) -> SceneSpec:
    return moved(spec, {name: (float(rng.uniform(0.3, 0.7)), float(rng.uniform(-0.3, 0.3)))})


def _nudged(spec: SceneSpec, name: str, rng: np.random.Generator) -> SceneSpec:
    x, y, _ = spec.placement(name).pos_m
    angle, far = rng.uniform(0, 2 * math.pi), rng.uniform(0.02, 0.12)
    return moved(spec, {name: (x + far * math.cos(angle), y + far * math.sin(angle))})


def _outside(spec: SceneSpec, name: str, rng: np.random.Generator) -> SceneSpec:
    return moved(spec, {name: (float(rng.uniform(0.7, 0.9)), float(rng.uniform(-0.5, 0.5)))})


def _onto_another(spec: SceneSpec, name: str, rng: np.random.Generator) -> SceneSpec:
    others = [n for n in spec.object_ids if n != name]
    if not others:
        return spec
    x, y, _ = spec.placement(str(rng.choice(others))).pos_m
    return moved(spec, {name: (x + float(rng.uniform(-0.02, 0.02)), y + float(rng.uniform(-0.02, 0.02)))})


def _floating(spec: SceneSpec, name: str, rng: np.random.Generator) -> SceneSpec:
    return shifted(spec, name, (0.0, 0.0, float(rng.uniform(0.01, 0.2))))


def _sunk(spec: SceneSpec, name: str, rng: np.random.Generator) -> SceneSpec:
    return shifted(spec, name, (0.0, 0.0, -float(rng.uniform(0.002, 0.04))))


def _size(spec: SceneSpec, name: str, rng: np.random.Generator) -> SceneSpec:
    return changed(spec, name, scale=round(float(rng.uniform(0.4, 2.2)), 6))


def _weight(spec: SceneSpec, name: str, rng: np.random.Generator) -> SceneSpec:
    return changed(spec, name, mass_kg=round(float(np.exp(rng.uniform(math.log(0.002), math.log(10.0)))), 6))


def _called_alike(spec: SceneSpec, name: str, rng: np.random.Generator) -> SceneSpec:
    """The colour and, where the catalogue has it, the looks of another thing."""
    others = [o for o in spec.attributes.objects if o.object != name]
    if not others:
        return spec
    like = others[int(rng.integers(len(others)))]
    same = Tabletop(spec).assets[name].kind == Tabletop(spec).assets[like.object].kind == "object"
    fields = {"asset": like.asset, "scale": like.scale, "mass_kg": like.mass_kg} if same else {}
    return changed(spec, name, colour=like.colour, **fields)


def _words(spec: SceneSpec, name: str, rng: np.random.Generator) -> SceneSpec:
    said = ("put it over there", f"pick up the {name.rsplit('_', 1)[0]}", "put the red thing on the blue thing", "tidy the table")
    return dataclasses.replace(spec, task=dataclasses.replace(spec.task, instruction=str(rng.choice(said))))


def _joint(spec: SceneSpec, name: str, rng: np.random.Generator) -> SceneSpec:
    joint = spec.attribute(name).articulation
    if joint is None:
        return _somewhere(spec, name, rng)
    field = str(rng.choice(["stiffness", "damping", "friction", "handle_scale"]))
    value = max(getattr(joint, field), 0.05) * float(np.exp(rng.uniform(-2.5, 2.5)))
    return changed(spec, name, articulation=dataclasses.replace(joint, **{field: round(value, 6)}))


def _done(spec: SceneSpec, name: str, rng: np.random.Generator) -> SceneSpec:
    """The target where the goal wants it."""
    top = Tabletop(spec)
    target, reference = top.goal.target, top.goal.reference
    if spec.placement(target).opening is not None:
        at = round(openings.aim(top.goal.relation), 6)
        places = tuple(dataclasses.replace(p, opening=at) if p.object == target else p for p in spec.spatial.placements)
        return dataclasses.replace(spec, spatial=dataclasses.replace(spec.spatial, placements=places))
    x, y, _ = top.places[reference].pos_m
    if top.goal.relation == "beside":
        angle = rng.uniform(0, 2 * math.pi)
        apart = top.assets[reference].half_extent_m[0] + top.assets[target].half_extent_m[0] + 0.015
        return moved(spec, {target: (x + apart * math.cos(angle), y + apart * math.sin(angle))})
    dz = top.surface(reference) - top.shapes[target].bottom
    return shifted(moved(spec, {target: (x, y)}), target, (0.0, 0.0, dz))


def _target(spec: SceneSpec) -> str:
    return Tabletop(spec).goal.target


MISTAKES: dict[str, Mistake] = {
    "put somewhere": _somewhere,
    "nudged": _nudged,
    "put outside": _outside,
    "put onto another": _onto_another,
    "left floating": _floating,
    "sunk": _sunk,
    "another size": _size,
    "another weight": _weight,
    "called alike": _called_alike,
    "loose words": _words,
    "another joint": _joint,
    "done already": _done,
}
OF_TARGET = ("another joint", "done already", "another size")  # these are about what is moved, half of the time or always


def broken(spec: SceneSpec, rng: np.random.Generator, mistakes: int) -> tuple[SceneSpec, tuple[str, ...]]:
    """The scene with so many mistakes, each of an object drawn at random, and their names."""
    chosen = [str(m) for m in rng.choice(list(MISTAKES), mistakes, replace=False)]
    for mistake in chosen:
        name = str(rng.choice(spec.object_ids))
        if mistake in OF_TARGET and rng.random() < 0.5:
            name = _target(spec)
        spec = MISTAKES[mistake](spec, name, rng)
    return spec, tuple(chosen)
