"""Task verbs: what is asked. They are discrete: the magnitude picks among the options, ordered from easier to harder."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TypeVar

from coda_jax.scenes import families, language
from coda_jax.scenes.edits.record import EditError, Request
from coda_jax.scenes.edits.room import trouble
from coda_jax.scenes.families import Goal
from coda_jax.scenes.language import Template
from coda_jax.scenes.spec import Role, SceneSpec
from coda_jax.scenes.tabletop import Tabletop

T = TypeVar("T")


def pick(options: Sequence[T], magnitude: float) -> T:
    """The option at a quantile in (0, 1] of the order."""
    return options[math.ceil(magnitude * len(options) - 1e-9) - 1]


def called(spec: SceneSpec, name: str) -> str:
    """The words for an object, e.g. "red mug"."""
    return families.family_of(spec).called(name, Tabletop(spec))


def asked(spec: SceneSpec, goals: Sequence[Goal]) -> SceneSpec:
    """The scene with another task over the same things: goal, instruction (the same phrasing where it can stay) and roles."""
    top, family = Tabletop(spec), families.family_of(spec)
    relation = str(family.relation_of(goals))
    said = language.match(spec.task.instruction, family.name)
    template = said if said is not None and said.relation == relation and said.split == "train" else _phrasings(spec, relation)[0]
    task = dataclasses.replace(
        spec.task,
        instruction=template.render(*(called(spec, n) for n in families.named(goals))),
        goal=family.task(goals, top.assets),
        roles=_roles(spec, top, goals),
    )
    return dataclasses.replace(spec, task=task)


def _phrasings(spec: SceneSpec, relation: str) -> tuple[Template, ...]:
    return language.templates(spec.task.family, relation, "train")


def _roles(spec: SceneSpec, top: Tabletop, goals: Sequence[Goal]) -> tuple[Role, ...]:
    """Roles by the generator's rule: fixtures keep their kind; other free things are distractors where they look like the first target."""
    targets = [g.target for g in goals]
    references = [g.reference for g in goals if g.reference not in targets]
    roles = []
    for name in spec.object_ids:
        fixed = top.assets[name].kind in ("support", "container")
        own = "target" if name in targets else "reference" if name in references else ""
        if own:
            roles.append(Role(name, own))
        if fixed:
            roles.append(Role(name, top.assets[name].kind))
        elif not own:
            roles.append(Role(name, "distractor" if _alike(spec, top, name, targets[0]) else "obstacle"))
    return tuple(roles)


def _alike(spec: SceneSpec, top: Tabletop, a: str, b: str) -> bool:
    return top.assets[a].category == top.assets[b].category or spec.attribute(a).colour == spec.attribute(b).colour


def replaced(goals: Sequence[Goal], old: str, new: str) -> tuple[Goal, ...]:
    """The goals with another object in place of one."""
    return tuple(Goal(g.relation, new if g.target == old else g.target, new if g.reference == old else g.reference) for g in goals)


def _trained(spec: SceneSpec, top: Tabletop, goals: Sequence[Goal]) -> bool:
    family = families.family_of(spec)
    return (family.relation_of(goals), family.kind_of(goals, top.assets)) in family.pairs_of("train")


def _asked_fairly(spec: SceneSpec, goals: Sequence[Goal]) -> SceneSpec | None:
    after = asked(spec, goals)
    return after if trouble(after) is None else None


def named_alone(spec: SceneSpec, *names: str) -> bool:
    """Whether each of the objects has a name, colour and category, that no other object has."""
    words = [called(spec, n) for n in spec.object_ids]
    return all(words.count(called(spec, n)) == 1 for n in names)


def target_swap(request: Request) -> SceneSpec:
    """Ask for another free object; more things that look like the new target, then less room round it, are harder."""
    top = Tabletop(request.spec)
    goal = top.goal
    options = []
    for name in top.others(*top.task_objects):
        if not top.assets[name].grasps or top.stands_on(name, goal.reference) or not named_alone(request.spec, name):
            continue
        other = replaced(top.goals, goal.target, name)
        if not _trained(request.spec, top, other):
            continue
        spec = asked(request.spec, other)
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
    family = families.family_of(request.spec)
    now = family.relation_of(top.goals)
    for other in family.other_tasks(top.goals, top.assets):
        if not named_alone(request.spec, *families.named(other)) or (spec := _asked_fairly(request.spec, other)) is None:
            continue
        relation, name = family.relation_of(other), other[0].reference
        options.append(((relation != now, round(top.distance(goal.target, name), 6), relation, name), spec))
    if not options:
        raise EditError(f"no other trained goal is possible for {goal.target} here: use a scene with a second fixture, or verb target_swap")
    return pick(sorted(options, key=lambda o: o[0]), request.magnitude)[1]


def paraphrase(request: Request) -> SceneSpec:
    """Ask in the words of another training template; those that share fewer words with the present ones come last."""
    spec = request.spec
    now = language.match(spec.task.instruction, spec.task.family)
    words = set(spec.task.instruction.split()) if now is None else set(now.text.split())
    options = [t for t in _phrasings(spec, families.relation(spec)) if t != now]
    options.sort(key=lambda t: (len(set(t.text.split()) ^ words), t.template_id))
    text = pick(options, request.magnitude).render(*(called(spec, n) for n in families.named(families.read_goals(spec))))
    return dataclasses.replace(spec, task=dataclasses.replace(spec.task, instruction=text))
