"""What prompts say of programs comes from the registries: every verb, argument, range and helper is named, and follows a change."""

import dataclasses
import re

import pytest

from coda_jax.agents.llm import sdk_docs
from coda_jax.agents.llm.sdk_docs import MEANINGS, category_lines, edit_lines, generation_docs, scene_docs, signatures
from coda_jax.programs.expressions import COMBINATORS
from coda_jax.programs.helpers import HELPERS
from coda_jax.programs.sdk import GENERATION_VERBS, SCENE_VERBS
from coda_jax.scenes import families
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.edits import verbs
from coda_jax.scenes.edits.verbs import VERBS
from coda_jax.scenes.generation import KINDS, RELATIONS, ROLES
from coda_jax.scenes.ranges import RANGES

TRAIN = Catalogue("train")
ALL = families.names()


@pytest.mark.parametrize(("kind", "known"), [("scene", SCENE_VERBS), ("generation", GENERATION_VERBS)])
def test_every_verb_and_every_argument_is_explained_and_no_other(kind, known):
    assert set(signatures(kind)) == set(known)
    for verb, arguments in signatures(kind).items():
        assert set(MEANINGS[verb]) == set(arguments)
    text = scene_docs(ALL) if kind == "scene" else generation_docs(ALL)
    for verb, arguments in signatures(kind).items():
        assert f"{verb}(" in text
        assert all(f"\n  {name}: " in text for name in arguments)


@pytest.mark.parametrize("field", RANGES)
def test_every_range_is_stated_and_follows_a_change(field, monkeypatch):
    low, high, unit = RANGES[field]
    assert f"{field} {low:g} to {high:g}{unit}" in scene_docs(ALL)
    monkeypatch.setitem(RANGES, field, (0.123, 0.456, unit))
    assert f"{field} 0.123 to 0.456{unit}" in scene_docs(ALL)


def test_helpers_and_combinators_are_named():
    text = scene_docs(ALL)
    assert all(f"\n  {h.signature}: {h.formula}" in text for h in HELPERS.values())
    assert all(f"\n  {c.name}(v" in text for c in COMBINATORS.values())


def test_every_edit_verb_role_kind_and_relation_is_named_and_follows_a_change(monkeypatch):
    text = generation_docs(ALL)
    for v in VERBS.values():
        assert f"\n  {v.name}: {v.factor}, needs {', '.join(v.needs)}" in text and v.what in text
    assert all(re.search(rf"\b{word}\b", text) for word in (*ROLES, *KINDS, *RELATIONS))
    monkeypatch.setitem(verbs.VERBS, "wobble", dataclasses.replace(VERBS["mass"], name="wobble", what="how much it wobbles"))
    assert "wobble: attributes, needs target; how much it wobbles" in generation_docs(ALL)


def test_only_verbs_that_can_be_used_are_listed():
    lines = "\n".join(edit_lines(["pick_place"], "attributes"))
    assert "mass:" in lines and "joint_damping:" not in lines and "yaw:" not in lines
    assert "joint_damping:" in "\n".join(edit_lines(["articulated"], "attributes"))


def test_every_training_category_is_listed_and_no_other():
    lines = category_lines(TRAIN)
    assert [line.split(":")[0].strip() for line in lines[:-1]] == list(TRAIN.categories())
    assert set(lines[-1].removeprefix("colours: ").split(", ")) == {c for a in TRAIN for c in a.colours}


@pytest.mark.parametrize("name", ALL)
def test_families_say_their_training_phrasings_alone(name):
    text = scene_docs([name])
    for relation, by_split in families.get(name).phrases.items():
        trained = any(r == relation for r, _ in families.get(name).pairs_of("train"))
        assert all((phrase in text) == trained for phrase in by_split["train"])
        assert not any(phrase in text for split in ("validation", "test") for phrase in by_split.get(split, ()))
    held_out = [x.layout_id for split in ("validation", "test") for x in families.get(name).layouts_of(split)]
    assert not any(re.search(rf"\b{layout}\b", text) for layout in held_out)


def test_the_documentation_fits_a_small_context():
    assert len(scene_docs(["pick_place"])) + len("\n".join(category_lines(TRAIN))) < 12_000
    assert len(sdk_docs.generation_docs(["pick_place"], "spatial")) < 4000
