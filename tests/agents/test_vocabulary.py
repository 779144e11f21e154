"""The words that diagnoses may use, and the diagnoser that draws from them."""

from collections import Counter

import pytest

from coda_jax.agents.base import FACTORS, SPEC_FACTOR, SceneFactor
from coda_jax.agents.scripted import causes
from coda_jax.agents.scripted.random_diagnoser import RandomDiagnoser
from coda_jax.agents.vocabulary import measurements
from coda_jax.memory.causes import canonical
from coda_jax.scenes.families import PHASES
from coda_jax.scenes.measures import MEASURES, measure
from tests.agents.llm.watched import SPECS, case


def test_causes_are_those_of_the_scripted_diagnoser():
    """Everything that it names in these scenes is in the vocabulary, but for what differs by rounding alone, and canonical: modes merge."""
    round_ = [case(n, SPECS[n - 1]) for n in range(len(SPECS))]
    found, model = measurements([c.spec for c in round_]), causes.fit(round_)
    known = found.causes()
    named: set[tuple[SceneFactor, str]] = {(factor, model.cause(one, factor)) for one in round_ for factor in FACTORS}
    missing = {cause.split(":")[0] for factor, cause in named if cause not in known[factor]}
    assert len(named) > 6 and not missing & found.values.keys() and missing <= {"target_height_m", "reference_height_m"}
    assert all(canonical(cause) == cause for factor in FACTORS for cause in known[factor])


def test_only_what_differs_can_be_a_cause():
    known = measurements(SPECS).causes()
    assert not [c for c in known["ATTRIBUTE"] if c.startswith("joint_")]  # nothing has a joint here
    assert "order" not in known["TASK"] and "target" in known["TASK"] and known["EXECUTION"] == ("",)
    for factor in ("SPATIAL", "ATTRIBUTE"):
        assert {MEASURES[c.split(":")[0]].factor for c in known[factor] if ":" in c} == {SPEC_FACTOR[factor]}
    assert measurements(SPECS[:1]).causes()["SPATIAL"] == ("other",)
    with pytest.raises(ValueError, match="no scenes"):
        measurements([])


def test_where_a_scene_lies_among_the_others():
    twice, once = measurements(SPECS * 2), measurements(SPECS)
    assert twice.quartiles("target_mass_kg") == once.quartiles("target_mass_kg")  # each scene counts once
    values = sorted(measure(s)["target_mass_kg"] for s in SPECS)
    low, middle, high = once.quartiles("target_mass_kg")
    assert values[0] < low <= middle <= high < values[-1]
    assert [once.share_below("target_mass_kg", v) for v in values] == [n / 6 for n in range(6)]


def test_chance_names_everything_alike_and_always_the_same():
    round_ = [case(n) for n in range(len(SPECS))]
    found = [d for seed in range(100) for d in RandomDiagnoser(seed).diagnose(round_, round_, lambda trials: [])]
    factors, phases = Counter(d.factor for d in found), Counter(d.phase for d in found)
    assert len(found) == 600 and all(110 <= factors[f] <= 190 for f in (*FACTORS, "EXECUTION")) and set(phases) == set(PHASES)
    known = measurements(SPECS).causes()
    assert all(d.cause in known[d.factor] and d.agent == "random" and d.confidence == 0.25 for d in found)
    again = RandomDiagnoser(7).diagnose(round_[::-1], round_, lambda trials: [])
    assert again[::-1] == RandomDiagnoser(7).diagnose(round_, round_, lambda trials: [])
    assert RandomDiagnoser(0).diagnose([], [], lambda trials: []) == []
