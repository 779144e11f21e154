"""Whether an instruction asks for what the goal measures: the same relation between the same two things."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coda_jax.programs.expressions import shown
from coda_jax.scenes import language
from coda_jax.scenes.assets import Asset
from coda_jax.scenes.families import Goal
from coda_jax.scenes.language import COLOURS, noun
from coda_jax.scenes.spec import SceneSpec

# Words of free text that say a relation. Those of no family are refused with the others.
_SAYS: dict[str, frozenset[str]] = {
    "on": frozenset({"on", "onto"}),
    "inside": frozenset({"in", "into", "inside", "within"}),
    "beside": frozenset({"beside", "besides", "by", "next", "near", "close", "against", "alongside"}),
    "no relation of this family": frozenset({"under", "below", "behind", "above", "over", "between", "off", "away", "far"}),
    "what not to do": frozenset({"not", "without"}),
}


def wording_trouble(spec: SceneSpec, goal: Goal, assets: Mapping[str, Asset]) -> str | None:
    """Why the instruction does not ask for the goal, with what to write instead; None if it does.

    An instruction made from a template must have the goal's relation and name target and reference in their places. Free text must say
    the goal's relation, no other, directly of the reference, and name nothing but the two.

    Args:
      goal: the scene's, of objects in ``assets``.
      assets: the scaled ones by object id.
    """
    readings = language.readings(spec.task.instruction)
    called = {n: _names(spec, assets, n) for n in assets}
    if readings:
        trouble = [_of_reading(r, goal, called) for r in readings]
        reason = None if None in trouble else trouble[0]
    else:
        reason = _of_free_text(language.words(spec.task.instruction), spec, goal, assets)
    if reason is None:
        return None
    first = language.templates(goal.relation, "train")[0]
    better = first.render(*(noun(spec.attribute(n).colour, assets[n].category) for n in (goal.target, goal.reference)))
    return f"the instruction {spec.task.instruction!r} {reason}, but the goal is {shown(spec.task.goal)}: write {better!r}"


def _names(spec: SceneSpec, assets: Mapping[str, Asset], name: str) -> frozenset[str]:
    """What an object may be called: colour and category, and the category alone where no other object has it."""
    category = assets[name].category
    alone = sum(a.category == category for a in assets.values()) == 1
    return frozenset({noun(spec.attribute(name).colour, category), *([category] if alone else [])})


def _of_reading(reading: language.Reading, goal: Goal, called: Mapping[str, frozenset[str]]) -> str | None:
    if reading.template.relation != goal.relation:
        return f"asks for {reading.template.relation!r}"
    for said, name in ((reading.target, goal.target), (reading.reference, goal.reference)):
        if said not in called[name]:
            return f"says {said!r} where {name} should stand"
    return None


def _of_free_text(words: Sequence[str], spec: SceneSpec, goal: Goal, assets: Mapping[str, Asset]) -> str | None:
    text = tuple(words)
    if goal.relation == "beside":
        text = _without(text, ("on", "the", "table"))
    for relation, known in _SAYS.items():
        if relation != goal.relation and (found := next((w for w in text if w in known), None)) is not None:
            return f"holds {found!r}, which says {relation!r}"
    places = [i for i, w in enumerate(text) if w in _SAYS[goal.relation]]
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
