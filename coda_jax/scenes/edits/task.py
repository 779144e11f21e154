"""Task verbs: what is asked. They are discrete: the magnitude picks among the options, ordered from easier to harder."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TypeVar

from coda_jax.scenes import families, language
from coda_jax.scenes.edits.record import EditError, Request
from coda_jax.scenes.edits.room import trouble
from coda_jax.scenes.language import Template, noun
from coda_jax.scenes.spec import Role, SceneSpec
from coda_jax.scenes.tabletop import Tabletop

T = TypeVar("T")


def pick(options: Sequence[T], magnitude: float) -> T:
    """The option at a quantile in (0, 1] of the order."""
    return options[math.ceil(magnitude * len(options) - 1e-9) - 1]


def called(spec: SceneSpec, name: str) -> str:
    """The words for an object, e.g. "red mug"."""
    return noun(spec.attribute(name).colour, Tabletop(spec).assets[name].category)


def asked(spec: SceneSpec, relation: str, target: str, reference: str) -> SceneSpec:
    """The scene with another task over the same things: goal, instruction (the same phrasing where it can stay) and roles."""
    top = Tabletop(spec)
    said = language.match(spec.task.instruction)
    template = said if said is not None and said.relation == relation and said.split == "train" else _phrasings(relation)[0]
    task = dataclasses.replace(
        spec.task,
        instruction=template.render(called(spec, target), called(spec, reference)),
        goal=families.goal_expression(relation, target, reference, top.assets[target], top.assets[reference]),
        roles=_roles(spec, top, target, reference),
    )
    return dataclasses.replace(spec, task=task)


def _phrasings(relation: str) -> tuple[Template, ...]:
    return language.templates(relation, "train")


def _roles(spec: SceneSpec, top: Tabletop, target: str, reference: str) -> tuple[Role, ...]:
    """Roles by the generator's rule: fixtures keep their kind; other free things are distractors where they look like the target."""
    roles = []
    for name in spec.object_ids:
        fixed = top.assets[name].kind != "object"
        if name in (target, reference):
            roles.append(Role(name, "target" if name == target else "reference"))
        if fixed:
            roles.append(Role(name, top.assets[name].kind))
        elif name not in (target, reference):
            roles.append(Role(name, "distractor" if _alike(spec, top, name, target) else "obstacle"))
    return tuple(roles)


def _alike(spec: SceneSpec, top: Tabletop, a: str, b: str) -> bool:
    return top.assets[a].category == top.assets[b].category or spec.attribute(a).colour == spec.attribute(b).colour


def _named_alone(spec: SceneSpec, *names: str) -> bool:
    words = [called(spec, n) for n in spec.object_ids]
    return all(words.count(called(spec, n)) == 1 for n in names)


def target_swap(request: Request) -> SceneSpec:
    """Ask for another free object; more things that look like the new target, then less room round it, are harder."""
    top = Tabletop(request.spec)
    goal = top.goal
    options = []
    for name in top.others(goal.target, goal.reference):
        if not top.assets[name].grasps or top.stands_on(name, goal.reference) or not _named_alone(request.spec, name):
            continue
        spec = asked(request.spec, goal.relation, name, goal.reference)
        if trouble(spec) is None:
            alike = sum(_alike(request.spec, top, n, name) for n in top.free if n != name)
            options.append(((alike, -round(top.nearest_gap(name), 6), name), spec))
    if not options:
        raise EditError(
            f"no other free object can be asked for instead of {goal.target}: it must be graspable, fit {goal.reference} and have a name "
            "of its own: use a scene with more free objects, or verb goal_swap"
        )
    return pick(sorted(options, key=lambda o: o[0]), request.magnitude)[1]


def goal_swap(request: Request) -> SceneSpec:
    """Ask for another trained relation or reference: first the same relation with another thing, then other relations; far ones last."""
    top = Tabletop(request.spec)
    goal = top.goal
    options = []
    for relation, kind in families.pairs("train"):
        for name, asset in top.assets.items():
            same = (relation, name) == (goal.relation, goal.reference)
            if name == goal.target or same or families.reference_kind(asset) != kind or not _named_alone(request.spec, name):
                continue
            spec = asked(request.spec, relation, goal.target, name)
            if trouble(spec) is None:
                options.append(((relation != goal.relation, round(top.distance(goal.target, name), 6), relation, name), spec))
    if not options:
        raise EditError(f"no other trained goal is possible for {goal.target} here: use a scene with a second fixture, or verb target_swap")
    return pick(sorted(options, key=lambda o: o[0]), request.magnitude)[1]


def paraphrase(request: Request) -> SceneSpec:
    """Ask in the words of another training template; those that share fewer words with the present ones come last."""
    spec = request.spec
    goal = families.read_goal(spec)
    now = language.match(spec.task.instruction)
    words = set(spec.task.instruction.split()) if now is None else set(now.text.split())
    options = [t for t in _phrasings(goal.relation) if t is not now]
    options.sort(key=lambda t: (len(set(t.text.split()) ^ words), t.template_id))
    text = pick(options, request.magnitude).render(called(spec, goal.target), called(spec, goal.reference))
    return dataclasses.replace(spec, task=dataclasses.replace(spec.task, instruction=text))
