"""Careless scenes are mended by changes of what a check names, within the factors that may change, and pass in the end."""

import dataclasses
import types
from typing import cast

import numpy as np
import pytest

from benchmarks.broken_scenes import MISTAKES, broken
from benchmarks.random_edits import unexplained
from coda_jax import config as settings
from coda_jax.agents.scripted.engine import ScriptedEngine
from coda_jax.agents.scripted.repair import repair
from coda_jax.loop import parts
from coda_jax.loop.mending import checked
from coda_jax.loop.rounds.rows import construction_rows
from coda_jax.loop.rounds.variants import Base, Batch, Built, Made, verified
from coda_jax.loop.run import Run
from coda_jax.memory.rows import Repair
from coda_jax.scenes import fixes
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.edits.lock import edited_factors
from coda_jax.scenes.fixes import JOINT, Fix, fixed
from coda_jax.scenes.generate import sample_spec
from coda_jax.scenes.spec import FACTORS, SceneSpec
from coda_jax.scenes.tabletop import Tabletop
from coda_jax.sim.checks import reach
from coda_jax.sim.checks.record import CHECKS, Failure
from coda_jax.sim.validity import check

TRAIN, EVERYTHING = Catalogue("train"), Catalogue.all()
LIMITS = dataclasses.replace(parts.validity_of(settings.default()), worlds=8, threads=1)
ENGINE = parts.engine_of(TRAIN)


def careless(family: str, count: int) -> list[SceneSpec]:
    rng = np.random.default_rng(7)
    return [broken(sample_spec(TRAIN, family, "id", "train", seed), rng, 1 + seed % 2)[0] for seed in range(count)]


def differences(before: SceneSpec, after: SceneSpec) -> dict[str, set[str]]:
    """Object, "" for the task, to the fields in which two scenes differ."""
    found: dict[str, set[str]] = {}
    pairs = [(o, after.attribute(o.object)) for o in before.attributes.objects]
    pairs += [(p, after.placement(p.object)) for p in before.spatial.placements]
    for old, new in pairs:
        own = {f.name for f in dataclasses.fields(old) if getattr(old, f.name) != getattr(new, f.name)}
        if own:
            found.setdefault(old.object, set()).update(own)
    if before.task != after.task:
        found[""] = {f.name for f in dataclasses.fields(before.task) if getattr(before.task, f.name) != getattr(after.task, f.name)}
    return found


@pytest.mark.parametrize("family", settings.FAMILIES)
def test_a_change_touches_what_it_names_and_nothing_else(family):
    specs = careless(family, 24)
    tried = set()
    for spec, report in zip(specs, check(specs, EVERYTHING, LIMITS), strict=True):
        for failure in report.failures:
            assert failure.check in CHECKS and unexplained(failure, spec) == ""
            for fix in failure.fixes:
                assert fix.object in (*spec.object_ids, "") and fix.said()
                try:
                    after = fixed(spec, fix)
                except ValueError as error:  # things that stand on each other in a ring cannot be put at rest
                    assert "stand on each other" in str(error)
                    continue
                tried.add(fix.field)
                assert edited_factors(spec, after) in ((), (fix.factor,))
                changes = differences(spec, after)
                carried = set(Tabletop(spec).carried(fix.object)) if fix.object else set()
                if fix.field == "pos_m":
                    assert set(changes) <= {fix.object, *carried} and all(c == {"pos_m"} for c in changes.values())
                else:  # heights follow sizes
                    own = "articulation" if fix.field in JOINT else fix.field
                    assert own in changes[fix.object] and changes.pop(fix.object) <= {own, "pos_m"}
                    assert all(n in carried and c == {"pos_m"} for n, c in changes.items())
    assert {"pos_m", "instruction"} <= tried


@pytest.mark.parametrize("factor", FACTORS)
def test_repairs_stay_within_the_factor_that_may_change(factor):
    specs = careless("put_inside", 24)
    done = 0
    for spec, report in zip(specs, check(specs, EVERYTHING, LIMITS), strict=True):
        found = repair(spec, report.failures, (factor,))
        if found is None:
            continue
        mended, cures = found
        done += 1
        assert edited_factors(spec, mended) in ((), (factor,))
        assert {c.fix.factor for c in cures} == {factor}
        assert len({c.fix.object for c in cures}) == len(cures) <= len(report.failures)
        assert {c.failure for c in cures} <= set(report.failures)
        touched = set(differences(spec, mended))
        assert touched <= {n for c in cures for n in (c.fix.object, *(Tabletop(spec).carried(c.fix.object) if c.fix.object else ()))}
    assert done


@pytest.mark.parametrize("family", settings.FAMILIES)
def test_most_careless_scenes_pass_in_the_end(family):
    specs = careless(family, 24)
    found = checked(specs, [FACTORS] * len(specs), EVERYTHING, TRAIN, LIMITS, ENGINE, 3)
    again = check([c.spec for c in found], EVERYTHING, LIMITS)
    for spec, one, report in zip(specs, found, again, strict=True):
        assert one.valid == report.valid
        assert len(one.cures) <= 3 and (one.spec == spec) == (not one.cures)
    broken_ones = [c for c in found if not c.first.valid]
    mended = sum(c.valid for c in broken_ones)
    assert len(broken_ones) >= 8 and mended >= 0.75 * len(broken_ones)


def test_without_tries_nothing_changes():
    specs = careless("pick_place", 8)
    found = checked(specs, [FACTORS] * 8, EVERYTHING, TRAIN, LIMITS, ENGINE, 0)
    assert [c.spec for c in found] == specs and not any(c.cures for c in found)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_every_mistake_makes_another_scene(mistake):
    spec = sample_spec(TRAIN, "articulated", "id", "train", 3)
    rng = np.random.default_rng(1)
    assert any(MISTAKES[mistake](spec, name, rng) != spec for name in spec.object_ids)


def test_memory_keeps_what_was_changed():
    failure = next(f for r in check(careless("pick_place", 24), EVERYTHING, LIMITS) for f in r.failures)
    changes = (Fix("mug_1", "pos_m", (0.03, 0.0, -0.04)), Fix("mug_1", "mass_kg", 0.2), Fix("", "instruction", "put it down"), None)
    rows = construction_rows([Built("yaw", 0.5, failure, fix, True) for fix in changes], 1)
    moved, *others = [r.repair for r in rows]
    assert moved is not None and moved.direction == pytest.approx((0.6, 0.0, -0.8))
    assert (moved.action, moved.object, moved.amount, moved.unit) == ("move", "mug_1", pytest.approx(0.05), "m")
    assert others == [Repair("mass_kg", "mug_1", 0.2, "kg"), Repair("instruction", "", 1.0, "words", None, "put it down"), None]


def test_a_move_leaves_the_angle_as_it_was_written():
    spec = careless("pick_place", 1)[0]
    name = spec.object_ids[0]
    places = tuple(dataclasses.replace(p, yaw_rad=5.5) if p.object == name else p for p in spec.spatial.placements)
    spec = dataclasses.replace(spec, spatial=dataclasses.replace(spec.spatial, placements=places))
    assert differences(spec, fixed(spec, Fix(name, "pos_m", (0.01, 0.0, 0.0)))) == {name: {"pos_m"}}


def test_a_repair_that_takes_the_edit_back_makes_no_variant():
    base = Base(3, sample_spec(TRAIN, "pick_place", "id", "train", 3))
    target = Tabletop(base.spec).goal.target
    sunk = fixed(base.spec, Fix(target, "pos_m", (0.0, 0.0, -0.01)))
    aside = fixed(sunk, Fix(target, "pos_m", (0.02, 0.0, 0.0)))
    heavy = fixed(base.spec, Fix(target, "mass_kg", 30.0))  # the heaviest that is plausible is a fraction of it
    run, batch = types.SimpleNamespace(config=settings.default(), train=TRAIN), Batch()
    run.config.sim.worlds = 8
    drawn = ((sunk, "reach", "spatial"), (aside, "reach", "spatial"), (heavy, "mass", "attributes"))
    candidates = [Made(base, spec, ((verb, 1.0),), factor) for spec, verb, factor in drawn]
    (found,) = verified(cast(Run, run), candidates, batch, 2)
    assert found.spec.placement(target).pos_m[0] == aside.placement(target).pos_m[0] and batch.made == [found]
    assert (batch.proposed, batch.first, batch.valid) == (3, 0, 1)
    assert batch.refused == {"the repair took the edit back": 2}
    undone = [(False, True), (False, False)]  # the change, then given up
    assert [(b.accepted, b.fix is not None) for b in batch.history] == [*undone, (True, True), *undone]


def test_an_engine_that_changes_another_factor_is_not_followed():
    class Careless(ScriptedEngine):
        def repair(self, spec, failures, factors):
            return repair(spec, failures, FACTORS)

    base = sample_spec(TRAIN, "pick_place", "id", "train", 3)
    floats = fixed(base, Fix(Tabletop(base).goal.target, "pos_m", (0.0, 0.0, 0.1)))
    for factors, mended in ((("attributes",), False), (("spatial",), True)):
        (found,) = checked([floats], [factors], EVERYTHING, TRAIN, LIMITS, Careless(TRAIN), 2)
        assert found.valid is mended and bool(found.cures) is mended


def test_a_change_of_what_is_so_already_is_none():
    base = sample_spec(TRAIN, "pick_place", "id", "train", 3)
    name = Tabletop(base).goal.target
    still, turn = Fix(name, "pos_m", (0.0, 0.0, 0.0)), Fix(name, "yaw_rad", base.placement(name).yaw_rad + 1e-3)
    failure = Failure("settle", name, "table", 0.1, "rad", "it tips: lay it flat", (still, turn))
    found = repair(base, [failure], FACTORS)
    assert found is not None and [c.fix for c in found[1]] == [turn]
    assert repair(base, [dataclasses.replace(failure, offer=(still,))], FACTORS) is None


@pytest.mark.parametrize("family", settings.FAMILIES)
def test_room_is_searched_only_where_somebody_mends(family, monkeypatch):
    def asked(*_):
        raise AssertionError("a search for room")

    monkeypatch.setattr(fixes, "stands_clear", asked)
    monkeypatch.setattr(reach, "stands_clear", asked)
    reports = check(careless(family, 24), EVERYTHING, LIMITS)
    found = [f for r in reports for f in r.failures]
    assert {"names", "penetration"} <= {f.check for f in found}
    assert all("fixes" not in f.row(fixes=False) for f in found)
    with pytest.raises(AssertionError, match="a search for room"):
        [f.row() for f in found]
