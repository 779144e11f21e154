"""Instructions without scenes."""

from __future__ import annotations

from coda_jax import config as settings
from coda_jax.loop import language_set, parts
from coda_jax.scenes import language
from coda_jax.scenes.catalogue import Catalogue


def test_phrases_say_what_is_moved_second_and_where_to():
    train = Catalogue("train")
    found = language_set.phrases(train, ("pick_place", "put_inside", "stack_insert"), 2, 3, 0)
    templates = [t for t in language.all_templates() if t.split == "train" and t.family in ("pick_place", "put_inside", "stack_insert")]
    two = sum("second" in t.places for t in templates)
    assert two and [sum(p.second is not None for p in found), sum(p.second is None for p in found)] == [3 * two, 2 * (len(templates) - two)]
    assert {n for p in found for n in p.names if n} <= set(language_set.names(train, ("pick_place",)))
    assert all(str(name) in p.instruction for p in found for name in p.names)
    towers = [p for p in found if "tower" in p.instruction]
    assert towers and all(p.second is not None and p.second[1] == p.target for p in towers)
    inside = [p for p in found if p.second is not None and "tower" not in p.instruction]
    assert inside and any(p.second is not None and p.second[1] == p.reference for p in inside)
    assert any(p.second is None for p in found)


def test_a_policy_has_heads_for_as_many_goals_as_its_families_ask_for():
    config = settings.default()
    for family, goals, heads in (("pick_place", 1, 4), ("articulated", 1, 4), ("put_inside", 2, 6), ("pick_place,stack_insert", 2, 6)):
        config.family = family
        policy = parts.policy_of(config)
        assert (policy.goals, policy.heads) == (goals, heads)
