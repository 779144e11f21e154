"""Every verb, by being registered: unchanged at 0, harder with the magnitude, one factor only, training content only, deterministic."""

from __future__ import annotations

import dataclasses
import functools
import itertools

import pytest

from coda_jax.scenes import families, language
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.edits import verbs
from coda_jax.scenes.edits.lock import edited_factors, require_lock, reverted
from coda_jax.scenes.edits.record import EditError, FactorLockError
from coda_jax.scenes.edits.room import trouble
from coda_jax.scenes.edits.verbs import VERBS, applicable, apply_edit, matched
from coda_jax.scenes.families.pick_place import BESIDE_MARGIN_M
from coda_jax.scenes.generate import sample_spec
from coda_jax.scenes.leakage import HeldOutContent, refuse_held_out
from coda_jax.scenes.measures import MEASURES, measure
from coda_jax.scenes.spec import FACTORS, SceneSpec
from coda_jax.scenes.tabletop import Tabletop, moved, turned

TRAIN = Catalogue("train")
SEEDS = range(8)
MAGNITUDES = (0.25, 0.5, 0.75, 1.0)


@functools.cache
def seed_scene(seed: int, family: str = "pick_place") -> SceneSpec:
    return sample_spec(TRAIN, family, "id", "train", seed)


@functools.cache
def cases(name: str) -> list[tuple[SceneSpec, dict[str, str]]]:
    """The first scenes to which a verb applies."""
    found = []
    for family in sorted(VERBS[name].families) or ["pick_place"]:
        for seed in SEEDS if family == "pick_place" else range(24):  # tasks with parts are a share of their families
            bound = applicable(seed_scene(seed, family), name, TRAIN)
            if bound is not None:
                found.append((seed_scene(seed, family), bound))
            if len(found) == 2:
                return found
    raise AssertionError(f"{name} applies to {len(found)} of {len(SEEDS)} scenes")


def edited(spec, name, binding, magnitude, seed=0):
    return apply_edit(spec, name, binding, magnitude, seed, TRAIN)


@pytest.mark.parametrize("name", VERBS)
def test_changes_its_factor_only_and_leaves_a_fair_training_scene(name):
    for spec, binding in cases(name):
        assert edited(spec, name, binding, 0.0) is spec
        for magnitude in MAGNITUDES:
            after = edited(spec, name, binding, magnitude)
            assert edited_factors(spec, after) == (VERBS[name].factor,)
            assert after.object_ids == spec.object_ids
            assert trouble(after) is None
            refuse_held_out(after, TRAIN)
        assert after == edited(spec, name, binding, MAGNITUDES[-1])


@pytest.mark.parametrize("name", [v.name for v in VERBS.values() if v.measure])
def test_a_larger_magnitude_is_harder(name):
    verb = VERBS[name]
    assert MEASURES[verb.measure].factor == verb.factor
    for spec, binding in cases(name):
        values = [measure(edited(spec, name, binding, m))[verb.measure] for m in (0.0, *MAGNITUDES)]
        harder = values if verb.rises else [-v for v in values]
        assert all(b >= a - 1e-5 for a, b in itertools.pairwise(harder)), values
        assert harder[-1] > harder[0] + 1e-3


@pytest.mark.parametrize("name", ["yaw", "support_height", "reach"])
def test_magnitudes_are_quantiles_of_the_range(name):
    spec, binding = cases(name)[0]
    low, *middle, high = (measure(edited(spec, name, binding, m))[VERBS[name].measure] for m in (0.0, *MAGNITUDES))
    for share, value in zip(MAGNITUDES, middle, strict=False):
        assert (value - low) / (high - low) == pytest.approx(share, abs=0.07)  # scenes without room are skipped, 1/16 at most here


@pytest.mark.parametrize("name", ["size", "instance"])
def test_a_thing_that_grows_stays_on_its_support(name):
    for spec, binding in cases(name):
        after = edited(spec, name, binding, 1.0)
        target = binding["target"]
        assert Tabletop(after).rise(target) == pytest.approx(0.0, abs=2e-6)
        assert after.placement(target).pos_m[2] != spec.placement(target).pos_m[2]
        assert after.task == spec.task


def test_a_larger_target_keeps_its_goal_within_the_stated_limit():
    spec = next(s for s in map(seed_scene, range(40)) if families.read_goal(s).relation == "beside" and applicable(s, "size", TRAIN))
    goal = families.read_goal(spec)
    after = edited(spec, "size", {"target": goal.target}, 1.0)
    before_m, after_m = (families.radius(Tabletop(s).assets[goal.target]) for s in (spec, after))
    assert after.task.goal == spec.task.goal
    assert 0 < after_m - before_m <= BESIDE_MARGIN_M - 0.03 + 1e-6


def test_a_lifted_thing_is_no_growth():
    spec, binding = cases("size")[0]
    after = edited(spec, "size", binding, 1.0)
    place = after.placement(binding["target"])
    x, y, z = place.pos_m
    lifted = tuple(dataclasses.replace(p, pos_m=(x, y, z + 0.01)) if p is place else p for p in after.spatial.placements)
    cheat = dataclasses.replace(after, spatial=dataclasses.replace(after.spatial, placements=lifted))
    assert edited_factors(spec, cheat) == ("spatial", "attributes")
    with pytest.raises(FactorLockError, match="declares the factor attributes and changed spatial too"):
        require_lock(spec, cheat, "attributes", "verb size")


def test_a_verb_that_breaks_its_word_is_caught(monkeypatch):
    spec, binding = cases("mass")[0]
    target = binding["target"]

    def cheat(request):
        x, y, _ = request.spec.placement(target).pos_m
        return moved(VERBS["mass"].apply(request), {target: (x + 0.001, y)})

    monkeypatch.setitem(verbs.VERBS, "cheat", dataclasses.replace(VERBS["mass"], name="cheat", apply=cheat))
    with pytest.raises(FactorLockError, match="cheat declares the factor attributes"):
        edited(spec, "cheat", binding, 0.5)


@pytest.mark.parametrize("factor", FACTORS)
def test_reverting_one_factor_leaves_the_others(factor):
    spec = seed_scene(0)
    goal = families.read_goal(spec)
    made = edited(spec, "size", {"target": goal.target}, 1.0)
    made = edited(made, "reach", {"target": goal.target}, 0.5)
    made = edited(made, "paraphrase", {"target": goal.target}, 0.5)
    back = reverted(made, spec, factor)
    assert factor not in edited_factors(spec, back) and edited_factors(made, back) == (factor,)
    assert all(abs(Tabletop(back).rise(n)) < 3e-6 for n in back.object_ids)
    rest = back
    for other in FACTORS:
        rest = reverted(rest, spec, other)
    assert rest == spec


def test_colour_leaves_only_the_category_to_tell_things_apart():
    for spec, binding in cases("colour"):
        after = edited(spec, "colour", binding, 1.0)
        shown = after.attribute(binding["distractor"]).colour
        goal = families.read_goal(after)
        assert shown in {after.attribute(n).colour for n in (goal.target, goal.reference)}
        names = [(a.colour, Tabletop(after).assets[a.object].category) for a in after.attributes.objects]
        assert len(set(names)) == len(names)


def test_task_verbs_ask_for_something_else_in_training_words():
    for name, part in (("target_swap", "target"), ("goal_swap", "reference"), ("paraphrase", None)):
        for spec, binding in cases(name):
            after = edited(spec, name, binding, 1.0)
            before, now = families.read_goal(spec), families.read_goal(after)
            template = language.match(after.task.instruction, after.task.family)
            assert template is not None and template.split == "train" and template.relation == now.relation
            assert (now == before) == (part is None)
            if part == "target":
                assert now.target != before.target and now.reference == before.reference
                assert after.with_role("target") == (now.target,)
            assert after.task.instruction != spec.task.instruction


def test_matched_controls_are_of_other_factors_and_apply():
    for name in ("approach_obstacle", "mass", "paraphrase"):
        spec, binding = cases(name)[0]
        found = matched(name, "state", spec, binding, TRAIN)
        assert found
        for verb, bound in found:
            assert verb.factor != VERBS[name].factor and "state" in verb.observed_by
            assert edited(spec, verb.name, bound, 0.5) != spec
        assert {v.name for v, _ in found} == {
            v.name for v in VERBS.values() if v.factor != VERBS[name].factor and applicable(spec, v.name, TRAIN, binding=binding)
        }


def test_a_verb_that_an_observation_cannot_show_is_no_control(monkeypatch):
    spec, binding = cases("colour")[0]
    blind = dataclasses.replace(VERBS["colour"], observed_by=frozenset({"pixels"}))
    monkeypatch.setitem(verbs.VERBS, "colour", blind)
    target = {"target": binding["target"]}
    assert "colour" in {v.name for v, _ in matched("yaw", "pixels", spec, target, TRAIN)}
    assert "colour" not in {v.name for v, _ in matched("yaw", "state", spec, target, TRAIN)}


def test_refusals_say_what_to_change():
    spec, binding = cases("approach_obstacle")[0]
    goal = families.read_goal(spec)
    wrong = [
        ("fly", binding, 0.5, "unknown verb 'fly': use one of approach_obstacle"),
        ("yaw", {"target": goal.target}, 1.5, "between 0 and 1, not 1.5"),
        ("yaw", {"target": goal.target}, float("nan"), "between 0 and 1, not nan"),
        ("approach_obstacle", {"target": goal.target}, 0.5, "bind obstacle to an object"),
        ("yaw", {"target": "nothing_1"}, 0.5, f"no object nothing_1: bind one of {spec.object_ids[0]}"),
        ("yaw", {"target": binding["obstacle"]}, 0.5, f"is {goal.target}, not {binding['obstacle']}: bind target to {goal.target}"),
        ("approach_obstacle", {"target": goal.target, "obstacle": goal.target}, 0.5, "two roles: bind distinct objects"),
    ]
    for name, bound, magnitude, message in wrong:
        with pytest.raises(EditError) as caught:
            edited(spec, name, bound, magnitude)
        assert message in str(caught.value)
    with pytest.raises(EditError, match="unknown observation type 'sound'"):
        matched("yaw", "sound", spec, binding, TRAIN)


def test_held_out_scenes_are_refused():
    spec = sample_spec(Catalogue.all(), "pick_place", "categories", "test", 0)
    with pytest.raises(HeldOutContent):
        edited(spec, "reach", {"target": families.read_goal(spec).target}, 0.5)


def test_an_edit_into_a_held_out_layout_cannot_be_applied():
    """Turning a jar that fits between two fixtures makes the narrow passage that only evaluation may see."""
    spec = seed_scene(59)
    top = Tabletop(spec)
    target, (a, b) = top.goal.target, (p.pos_m for n, p in top.places.items() if top.assets[n].kind != "object")
    between = turned(moved(spec, {target: ((a[0] + b[0]) / 2, (a[1] + b[1]) / 2)}), target, 0.0)
    refuse_held_out(between, TRAIN)
    with pytest.raises(EditError, match=r"yaw would make a scene that only evaluation may see: .* stands in the passage between"):
        edited(between, "yaw", {"target": target}, 1.0)
    assert applicable(between, "yaw", TRAIN, 1.0) is None
