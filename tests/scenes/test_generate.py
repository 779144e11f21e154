from __future__ import annotations

import collections
import itertools

import pytest

from coda_jax.programs.expressions import Expr, validate
from coda_jax.programs.limits import Limits
from coda_jax.programs.sandbox import Sandbox
from coda_jax.scenes import families, language
from coda_jax.scenes.catalogue import CATEGORIES, Catalogue
from coda_jax.scenes.generate import SUITES, recipe, sample, sample_spec
from coda_jax.scenes.layouts import LAYOUTS
from coda_jax.scenes.leakage import HeldOutContent, refuse_held_out
from coda_jax.scenes.placement import footprint, free_grasps, gap, within_reach
from coda_jax.scenes.program import evaluate_scene, to_program
from coda_jax.scenes.spec import from_json, to_json
from coda_jax.scenes.suites import suite_specs

ALL = Catalogue.all()
HELD_OUT = [(suite, split) for suite in SUITES[1:] for split in ("validation", "test")]


def _scenes(suite, split, n):
    return list(itertools.islice(suite_specs("pick_place", suite, split), n))


@pytest.fixture(scope="module")
def trained():
    return [sample_spec(Catalogue(), "pick_place", "id", "train", seed) for seed in range(60)]


@pytest.fixture(scope="module")
def held_out():
    return {key: _scenes(*key, 14) for key in HELD_OUT}


def _every(trained, held_out):
    return [*trained, *itertools.chain.from_iterable(held_out.values())]


def test_same_seed_same_scene(trained):
    again = sample_spec(Catalogue(), "pick_place", "id", "train", 7)
    assert again == trained[7] and again.scene_id == trained[7].scene_id
    assert from_json(to_json(again)).scene_id == again.scene_id
    # the catalogue's held-out content must not move the draws of training scenes
    assert sample_spec(ALL, "pick_place", "id", "train", 7).scene_id == again.scene_id
    assert len({s.scene_id for s in trained}) == len(trained)


def test_splits_of_the_id_suite_are_different_scenes(trained):
    ids = [{s.scene_id for s in _scenes("id", split, 10)} for split in ("validation", "test")] + [{s.scene_id for s in trained}]
    assert not ids[0] & ids[1] and not ids[0] & ids[2] and not ids[1] & ids[2]


def test_language_names_one_target_and_one_reference(trained, held_out):
    for spec in _every(trained, held_out):
        goal = families.read_goal(spec)
        names = {o.object: language.noun(o.colour, ALL.get(o.asset).category) for o in spec.attributes.objects}
        assert len(set(names.values())) == len(names)
        template = language.match(spec.task.instruction, spec.task.family)
        assert template is not None and template.relation == goal.relation
        assert spec.task.instruction == template.render(names[goal.target], names[goal.reference])
        assert spec.with_role("reference") == (goal.reference,) and spec.with_role("target") == (goal.target,)


def test_goal_must_be_read_from_language(trained):
    """Another free object shares a word with the target, and token order does not tell the target."""
    alike, positions = 0, collections.Counter()
    for spec in trained:
        target = spec.attribute(spec.with_role("target")[0])
        category = ALL.get(target.asset).category
        others = [o for o in spec.attributes.objects if o.object != target.object and ALL.get(o.asset).kind == "object"]
        alike += any(o.colour == target.colour or ALL.get(o.asset).category == category for o in others)
        positions[spec.object_ids.index(target.object)] += 1
    assert alike == len(trained)
    assert positions[0] < 0.6 * len(trained) and len(positions) >= 3


def test_nothing_overlaps_and_the_target_can_be_grasped(trained, held_out):
    for spec in _every(trained, held_out):
        assets = families.scaled_assets(spec)
        shapes = {}
        for p in spec.spatial.placements:
            half = assets[p.object].half_extent_m[2]
            shapes[p.object] = footprint(assets[p.object], p.pos_m[0], p.pos_m[1], p.yaw_rad, p.pos_m[2] - half)
            assert within_reach(p.pos_m[0], p.pos_m[1])
            below = 0.0 if p.support == "table" else shapes_top(spec, assets, p.support)
            assert p.pos_m[2] - half == pytest.approx(below, abs=2e-6)
        for a, b in itertools.combinations(spec.spatial.placements, 2):
            if b.object not in (a.support,) and a.object != b.support:
                assert (
                    gap(shapes[a.object], shapes[b.object]) >= min(a.clearance_m, b.clearance_m) - 3e-4 or "stand" in a.support + b.support
                )
                assert gap(shapes[a.object], shapes[b.object]) > 0
        t = spec.placement(spec.with_role("target")[0])
        others = [s for name, s in shapes.items() if name not in (t.object, t.support)]
        assert free_grasps(assets[t.object], t.pos_m[0], t.pos_m[1], t.yaw_rad, shapes[t.object].bottom, others)


def shapes_top(spec, assets, name):
    return spec.placement(name).pos_m[2] + assets[name].half_extent_m[2]


def test_sizes_and_goals(trained, held_out):
    for spec in _every(trained, held_out):
        kinds = [ALL.get(o.asset).kind for o in spec.attributes.objects]
        free = kinds.count("object")
        assert kinds == sorted(kinds, key=lambda k: k != "object")
        assert 2 <= free <= 5 and 1 <= len(kinds) - free <= 2
        validate(spec.task.goal, spec.object_ids, condition=True)
        goal = families.read_goal(spec)
        if goal.relation == "beside":
            a, b = spec.placement(goal.target).pos_m, spec.placement(goal.reference).pos_m
            limit = next(x for x in spec.task.goal.args if isinstance(x, Expr) and x.op == "at_most").args[1]
            assert isinstance(limit, float)
            assert ((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2) ** 0.5 > limit + 0.02


def test_training_covers_every_factor_and_holds_nothing_held_out(trained, tmp_path):
    for spec in trained:
        refuse_held_out(spec, Catalogue(), tmp_path)
    categories = {ALL.get(s.attribute(s.with_role("target")[0]).asset).category for s in trained}
    drawn = {c.name for c in CATEGORIES.values() if c.kind == "object" and c.split == "train"}
    assert categories <= drawn and len(categories) > 0.7 * len(drawn)
    used = {s.spatial.layout for s in trained}
    assert len(used) > 40 and {LAYOUTS[x].rule for x in used} == {x.rule for x in LAYOUTS.values() if x.split == "train"}
    assert {families.read_goal(s).relation for s in trained} == {"on", "inside", "beside"}
    assert len({o.colour for s in trained for o in s.attributes.objects}) == 8


@pytest.mark.parametrize(("suite", "split"), HELD_OUT)
def test_a_suite_varies_what_it_names_and_nothing_else(suite, split, held_out, tmp_path):
    kinds = {"instances": {"instance"}, "layouts": {"layout"}, "tasks": {"goal"}, "categories": {"category"}}[suite]
    covered = set()
    for spec in held_out[suite, split]:
        with pytest.raises(HeldOutContent) as refusal:
            refuse_held_out(spec, Catalogue(), tmp_path)
        assert refusal.value.kind in kinds and f"held out for {split}" in str(refusal.value)
        assets = [ALL.get(o.asset) for o in spec.attributes.objects]
        target = ALL.get(spec.attribute(spec.with_role("target")[0]).asset)
        assert LAYOUTS[spec.spatial.layout].split == (split if suite == "layouts" else "train")
        assert CATEGORIES[target.category].split == (split if suite == "categories" else "train")
        expected = {split} if suite == "instances" else {"train", split} if suite == "categories" else {"train"}
        assert {a.split for a in assets} <= expected
        pair = (
            families.read_goal(spec).relation,
            families.reference_kind(families.scaled_assets(spec)[families.read_goal(spec).reference]),
        )
        assert families.family_of(spec).pairs[pair] == (split if suite == "tasks" else "train")
        template = language.match(spec.task.instruction, spec.task.family)
        assert template is not None and template.split in ({"train", split} if suite == "tasks" else {"train"})
        covered.add((spec.spatial.layout, target.category, template.split))
    if suite == "layouts":
        used = {LAYOUTS[c[0]].rule for c in covered}
        assert used <= {x.rule for x in LAYOUTS.values() if x.split == split} and len(used) >= 3  # a narrow passage seldom finds its target
    if suite == "categories":
        assert {c[1] for c in covered} <= {c.name for c in CATEGORIES.values() if c.split == split} and len({c[1] for c in covered}) >= 5
    if suite == "tasks":
        assert {c[2] for c in covered} == {"train", split}


def test_text_names_the_scene():
    text = sample(Catalogue(), seed=3)
    spec = sample_spec(Catalogue(), "pick_place", "id", "train", 3)
    assert spec.task.instruction in text and all(o.asset in text for o in spec.attributes.objects)


def test_rejections_are_counted_and_errors_say_what_exists():
    counts = collections.Counter()
    sample_spec(ALL, "pick_place", "layouts", "test", 0, counts)
    sample_spec(ALL, "pick_place", "layouts", "test", 1, counts)
    assert counts["too close"] > 0
    with pytest.raises(ValueError, match="id, instances, layouts, tasks, categories"):
        recipe("lighting", "test")
    with pytest.raises(ValueError, match="no training split"):
        recipe("layouts", "train")
    with pytest.raises(ValueError, match="this version has pick_place"):
        sample_spec(ALL, "juggle", "id", "train", 0)


def test_every_suite_goes_through_the_door_as_text(held_out, trained):
    limits = Limits(
        text_bytes=65536,
        time_s=5.0,
        grace_s=5.0,
        memory_bytes=256 << 20,
        recursion=100,
        output_chars=10_000,
        reply_chars=1 << 20,
    )
    with Sandbox(limits) as sandbox:
        for spec in [trained[0], *(scenes[k] for scenes in held_out.values() for k in (0, 1))]:
            assert evaluate_scene(to_program(spec), sandbox, ALL).scene_id == spec.scene_id
