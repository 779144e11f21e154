"""Whether an instruction asks for what the goal measures: the same relation between the same things."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coda_jax.programs.expressions import shown
from coda_jax.scenes import families, language
from coda_jax.scenes.assets import Asset
from coda_jax.scenes.families import Family, Goal
from coda_jax.scenes.language import COLOURS, noun
from coda_jax.scenes.spec import SceneSpec

# Words of free text that say a relation of no family.
_SAYS_OTHERS: dict[str, frozenset[str]] = {
    "no relation of this family": frozenset({"under", "below", "behind", "above", "over", "between", "off", "away", "far"}),
    "what not to do": frozenset({"not", "without"}),
}


def wording_trouble(spec: SceneSpec, goals: Sequence[Goal], assets: Mapping[str, Asset]) -> str | None:
    """Why the instruction does not ask for the goal, with what to write instead; None if it does.

    An instruction made from a template must have the task's relation and name its objects in their places. Free text must say the goal's
    relation, no other, directly of the reference, and name nothing but target and reference; a task of several goals has templates only.

    Args:
      goals: the scene's, of objects in ``assets``.
      assets: the scaled ones by object id.
    """
    family, names = families.family_of(spec), families.named(goals)
    relation = str(family.relation_of(goals))
    readings = language.readings(spec.task.instruction, family.name)
    called = {n: _names(spec, assets, n) for n in assets}
    if readings:
        trouble = [_of_reading(r, relation, names, called) for r in readings]
        reason = None if None in trouble else trouble[0]
    elif len(goals) > 1:
        reason = "is none of the family's phrasings"
    else:
        reason = _of_free_text(language.words(spec.task.instruction), spec, family, goals[0], assets)
    if reason is None:
        return None
    first = language.templates(family.name, relation, "train")[0]
    better = first.render(*(noun(spec.attribute(n).colour, assets[n].category) for n in names))
    return f"the instruction {spec.task.instruction!r} {reason}, but the goal is {shown(spec.task.goal)}: write {better!r}"


def _names(spec: SceneSpec, assets: Mapping[str, Asset], name: str) -> frozenset[str]:
    """What an object may be called: colour and category, and the category alone where no other object has it."""
    category = assets[name].category
    alone = sum(a.category == category for a in assets.values()) == 1
    return frozenset({noun(spec.attribute(name).colour, category), *([category] if alone else [])})


def _of_reading(reading: language.Reading, relation: str, names: Sequence[str], called: Mapping[str, frozenset[str]]) -> str | None:
    if reading.template.relation != relation:
        return f"asks for {reading.template.relation!r}"
    for said, name in zip(reading.said, names, strict=True):
        if said not in called[name]:
            return f"says {said!r} where {name} should stand"
    return None


def _of_free_text(words: Sequence[str], spec: SceneSpec, family: Family, goal: Goal, assets: Mapping[str, Asset]) -> str | None:
    text = tuple(words)
    if goal.relation == "beside":
        text = _without(text, ("on", "the", "table"))
    own = family.says.get(goal.relation, frozenset())
    for relation, known in {**family.says, **_SAYS_OTHERS}.items():
        if relation != goal.relation and (found := next((w for w in text if w in known - own), None)) is not None:
            return f"holds {found!r}, which says {relation!r}"
    places = [i for i, w in enumerate(text) if w in own]
    if not places:
        return "says no relation"
    for i in places:
        after = next((o for o in _objects(text[i + 1 :], spec, assets)), None)
        if after is None or goal.reference not in after:
            return f"says {text[i]!r} of something other than {goal.reference}"
    for objects in _objects(text, spec, assets):
        if not objects & {goal.target, goal.reference}:
            return f"names {' or '.join(sorted(objects))} too"
    return None


def _without(text: tuple[str, ...], phrase: tuple[str, ...]) -> tuple[str, ...]:
    for i in range(len(text) - len(phrase) + 1):
        if text[i : i + len(phrase)] == phrase:
            return text[:i] + _without(text[i + len(phrase) :], phrase)
    return text


def _objects(text: Sequence[str], spec: SceneSpec, assets: Mapping[str, Asset]) -> list[frozenset[str]]:
    """For each category word of the scene in a text: the objects it can stand for, with the colour before it if there is one."""
    found = []
    for i, word in enumerate(text):
        same = {n for n, a in assets.items() if a.category == word}
        if i and text[i - 1] in COLOURS:
            same = {n for n in same if spec.attribute(n).colour == text[i - 1]} or same
        if same:
            found.append(frozenset(same))
    return found
