"""Every registered family: a new entry is tested by being registered. One of a user: tests/loop/test_own_family.py."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from coda_jax.evaluation.failures import phase_failed, phase_reached
from coda_jax.programs import expressions
from coda_jax.programs.expressions import MAX_PREDICATES, Expr, validate
from coda_jax.programs.sandbox import Sandbox
from coda_jax.programs.verifier import goal_of
from coda_jax.scenes import families, language
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.families import Family
from coda_jax.scenes.generate import SUITES, sample_spec
from coda_jax.scenes.leakage import HeldOutContent, refuse_held_out
from coda_jax.scenes.program import evaluate_scene, to_program
from coda_jax.scenes.spec import Role
from coda_jax.scenes.wording import wording_trouble
from coda_jax.sim.simulator import episode_of

TRAIN, ALL = Catalogue("train"), Catalogue.all()
NAMES = families.names()


def seed_scenes(family: str, count: int = 12):
    return [sample_spec(TRAIN, family, "id", "train", seed) for seed in range(count)]


@pytest.mark.parametrize("name", NAMES)
def test_pairs_and_phrases_are_split(name):
    family = families.get(name)
    trained = {r for r, _ in family.pairs_of("train")}
    for split in ("train", "validation", "test"):
        assert family.pairs_of(split)
        for relation in {r for r, _ in family.pairs}:
            assert language.templates(name, relation, split)
    assert trained == set(family.phrases)
    texts = [t.text for t in language.all_templates()]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("name", NAMES)
def test_sentences_without_scenes_have_names_for_every_place(name):
    for template in families.get(name).templates:
        places = families.get(name).drawn_from(template.relation, TRAIN)
        assert len(places) == len(template.places) and all(set(p) <= set(TRAIN.categories()) and p for p in places)


def test_no_training_phrase_of_any_family_holds_a_held_out_one():
    for t in language.all_templates():
        said = t.render(*("red mug", "white plate", "blue can")[: len(t.places)])
        held = language.held_out(said)
        assert (held is None) == (t.split == "train"), (t.text, held)
        assert language.match(said, t.family) == t


@pytest.mark.parametrize("name", NAMES)
def test_seed_scenes_are_tasks_of_their_family(name):
    family = families.get(name)
    for spec in seed_scenes(name):
        goals, assets = families.read_goals(spec), families.scaled_assets(spec)
        relation = families.relation(spec)
        assert (relation, family.kind_of(goals, assets)) in family.pairs_of("train")
        assert spec.task.goal == family.task(goals, assets)
        assert all(family.holds(g, assets[g.target], assets[g.reference]) for g in goals)
        assert family.goal_trouble(spec.task.goal, assets) is None and wording_trouble(spec, goals, assets) is None
        assert set(spec.with_role("target")) == {g.target for g in goals}
        assert goal_of(families.success(spec)) == spec.task.goal
        refuse_held_out(spec, TRAIN)


@pytest.mark.parametrize("name", NAMES)
def test_phases_and_margins_fit_one_table(name):
    for spec in seed_scenes(name):
        phases, margins = families.phases(spec), families.margins(spec)
        assert tuple(n for n, _ in phases) == families.PHASES
        assert [m.phase for m in margins] == list(families.PHASES) * len(families.read_goals(spec))
        assert len({m.name for m in margins}) == len(margins)
        for _, predicate in phases:
            low, high = validate(predicate, spec.object_ids)
            assert (low, high) == (0.0, 1.0)
        episode = episode_of(spec, 5, (0, 0))
        assert len(episode.predicates) <= MAX_PREDICATES
        expressions.encode(episode.predicates, {n: i for i, n in enumerate(spec.object_ids)})


@pytest.mark.parametrize("name", NAMES)
def test_programs_give_the_scene_back(name):
    from tests.scenes.test_program import LIMITS

    with Sandbox(LIMITS) as sandbox:
        for spec in seed_scenes(name, 4):
            assert evaluate_scene(to_program(spec), sandbox, TRAIN).scene_id == spec.scene_id


@pytest.mark.parametrize(("name", "suite"), list(itertools.product(NAMES, SUITES)))
def test_suites_draw_what_they_vary_from_their_split(name, suite):
    family = families.get(name)
    for seed in range(4):
        spec = sample_spec(ALL, name, suite, "validation", seed)
        goals, assets = families.read_goals(spec), families.scaled_assets(spec)
        pair = families.relation(spec), family.kind_of(goals, assets)
        assert family.pairs[pair] == ("validation" if suite == "tasks" else "train")
        assert family.layouts[spec.spatial.layout].split == ("validation" if suite == "layouts" else "train")
        if suite == "tasks":
            with pytest.raises(HeldOutContent) as found:
                refuse_held_out(spec, TRAIN)
            assert found.value.kind in ("goal", "scene")  # some are frozen


def test_the_first_unfinished_goal_is_the_one_whose_phase_failed():
    nothing, first = [0.0] * 6, [0.0, 0.5, 0.5, 0.5, 0.5, 0.5]
    assert phase_failed(np.array([nothing])) == "approach"
    assert phase_failed(np.array([nothing, [0, 0.5, 0.5, 0, 0, 0]])) == "transport"
    assert phase_failed(np.array([first])) == "approach"  # the first object is placed, the second was never approached
    second = [0.0, 1.0, 0.5, 0.5, 0.5, 0.5]
    assert phase_failed(np.array([first, second])) == "grasp"
    assert phase_failed(np.array([first, [0, 1, 1, 1, 1, 0.5]])) == "release"
    assert phase_failed(np.array([first, [1.0] * 6])) is None
    assert phase_reached(np.array([nothing, [0, 0.5, 0, 0, 0, 0], first, second, [1.0] * 6])) == [
        "start", "approach", "start", "approach", "success",
    ]  # fmt: skip


def test_values_of_combined_phases_by_hand():
    """Both goals in the states that a correct execution goes through, as a machine of 0 and 1 sees them."""
    spec = next(s for s in seed_scenes("put_inside", 40) if len(families.read_goals(s)) == 2)
    (a, b), phases = families.read_goals(spec), dict(families.phases(spec))

    def value(expr, facts) -> float:
        inner = [value(x, facts) for x in expr.args if isinstance(x, Expr)]
        if expr.op == "all_of":
            return min(inner)
        if expr.op == "any_of":
            return max(inner)
        if expr.op == "mean":
            return sum(inner) / len(inner)
        if expr.op in ("at_least", "at_most"):
            return float(inner[0] >= expr.args[1] if expr.op == "at_least" else inner[0] <= expr.args[1])
        return facts.get((expr.op, *expr.args), {"distance": 1.0, "horizontal_distance": 1.0, "gripper_opening": 0.08}.get(expr.op, 0.0))

    start: dict = {}
    placed = {("inside", a.target, a.reference): 1.0, ("still", a.target): 1.0}
    again = {**placed, ("distance", "gripper", b.target): 0.0}
    held = {**again, ("grasped", b.target): 1.0, ("lifted", b.target): 0.1, ("gripper_opening",): 0.03}
    both = {**placed, ("inside", b.target, b.reference): 1.0, ("still", b.target): 1.0}
    for facts, expected in ((start, (0, 0, 0)), (placed, (0.5, 0.5, 0.5)), (again, (1, 0.5, 0.5)), (held, (1, 1, 0.0)), (both, (1, 1, 1))):
        assert tuple(value(phases[p], facts) for p in ("approach", "grasp", "release")) == expected
    assert value(families.success(spec), placed) == 0 and value(families.success(spec), both) == 1


def test_goals_of_two_are_read_strictly():
    spec = next(s for s in seed_scenes("put_inside", 40) if len(families.read_goals(s)) == 2)
    a, b = families.read_goals(spec)
    family = families.get("put_inside")
    inside = [Expr("inside", (g.target, g.reference)) for g in (a, b)]
    assert family.read(Expr("all_of", tuple(inside[::-1])), [a.target, b.target]) == (b, a)  # the order is part of the task
    for wrong in (
        Expr("any_of", tuple(inside)),
        Expr("all_of", (inside[0], inside[0])),
        Expr("all_of", (*inside, Expr("still", (a.target,)))),
    ):
        with pytest.raises(ValueError, match="is none of put_inside: write inside"):
            family.read(wrong, [a.target, b.target])
    with pytest.raises(ValueError, match=f"{b.target} has the role target, but the goal does not move it"):
        family.read(inside[0], [a.target, b.target])
    one_role = tuple(r for r in spec.task.roles if r != Role(b.target, "target"))
    with pytest.raises(ValueError, match=f"the goal moves '{b.target}'"):
        families.read_goals(dataclasses.replace(spec, task=dataclasses.replace(spec.task, roles=one_role)))


class Near(Family):
    """Nothing but what ``register`` asks for."""

    name = "near"
    pairs = {("near", "landmark"): "train"}  # noqa: RUF012
    phrases = {"near": {"train": ("bring the {target} over to the {reference}",)}}  # noqa: RUF012


@pytest.fixture
def near():
    yield families.register(Near())
    families.unregister("near")


def test_registration_is_checked(near):
    class Other(Family):
        name = "near"
        pairs, phrases = Near.pairs, Near.phrases

    with pytest.raises(ValueError, match="there is a family near already"):
        families.register(Other())

    class Mute(Family):
        name = "mute"
        pairs = {("near", "landmark"): "train"}  # noqa: RUF012

    with pytest.raises(ValueError, match="has no training phrases for 'near'"):
        families.register(Mute())
    with pytest.raises(ValueError, match="must be 1 to 32 of a-z"):
        families.register(type("Loud", (Near,), {"name": "LOUD"})())


def test_a_hook_that_the_base_does_not_know_is_refused():
    def prsed(self, expr):
        return None

    with pytest.raises(ValueError, match=r"misspelt defines prsed, .* did you mean parsed\?"):
        families.register(type("Misspelt", (Near,), {"name": "misspelt", "prsed": prsed})())
    families.register(type("Helped", (Near,), {"name": "helped", "spots": prsed, "_prsed": prsed})())
    families.unregister("helped")
