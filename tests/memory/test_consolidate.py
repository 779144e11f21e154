import itertools

import pytest

from coda_jax.memory.causes import canonical, same
from coda_jax.memory.consolidate import consolidate, next_version
from tests.memory import made


@pytest.mark.parametrize(
    ("first", "second", "one"),
    [
        ("obstacle beside the target", "the obstacle beside target", True),
        ("mug_1 is 0.02 m too close to box_2", "mug_3 is too close to box_1", True),
        ("mass 1.2 kg too high", "mass too high (0.9 kg)", True),
        ("clearance", "clearance", True),
        ("friction too low", "friction too high", False),
        ("grasp slips, mass of the target is too high", "grasp slips, mass of the target is too low", False),
        ("obstacle on the left side of the target", "obstacle on the right side of the target", False),
        ("obstacle beside target", "yaw outside reach", False),
        ("object far from base", "low friction", False),
    ],
)
def test_causes_are_one_or_two(first, second, one):
    assert same(canonical(first), canonical(second)) is one
    assert same(canonical(second), canonical(first)) is one


def test_canonical_keeps_words_only():
    assert canonical("mug_1 is 0.02 m too close") == "mug close"
    assert canonical("the 3 of 4") == "the 3 of 4"  # nothing would be left
    assert canonical("Größe_2 zu klein") == "größe zu klein"
    assert canonical(canonical("mass 1.2 kg is too high")) == canonical("mass 1.2 kg is too high")


def test_diagnoses_merge_into_modes_in_any_order():
    diagnoses = [
        made.diagnosis(1, cause="obstacle_1 beside the target"),
        made.diagnosis(2, cause="obstacle_2 beside target"),
        made.diagnosis(3, cause="obstacle beside target", phase="approach"),
        made.diagnosis(4, cause="friction too low", factor="ATTRIBUTE"),
        made.diagnosis(5, cause="gripper late", factor="EXECUTION"),
    ]
    outcomes = [consolidate(order, [], "pick_place", 1) for order in itertools.permutations(diagnoses)]
    assert all(o == outcomes[0] for o in outcomes)
    found = outcomes[0]
    assert len(found.modes) == 3 and found.current == found.modes
    assert found.assignments[1] == found.assignments[2] == made.mode("obstacle beside target").mode_id
    assert found.assignments[3] != found.assignments[1] and 5 not in found.assignments
    assert found.execution == (diagnoses[4],)
    assert {(m.version, m.status, m.severity, m.importance) for m in found.modes} == {(1, "new", None, 0.0)}


def test_a_known_mode_is_kept_measured_and_credited():
    known, other = made.mode(), made.mode("friction low", factor="ATTRIBUTE", severity=0.5)
    foreign = made.mode(family="articulated")
    found = consolidate(
        [made.diagnosis(7, cause="an obstacle_4 beside the target")],
        [known, other, foreign],
        "pick_place",
        3,
        successes={known.mode_id: (2, 16), "0" * 16: (1, 2)},
        gains={known.mode_id: 0.25},
    )
    assert found.modes == (made.mode(version=2, severity=0.125, importance=0.25, status="kept", round=3),)
    assert set(found.current) == {found.modes[0], other}
    again = consolidate([], found.current, "pick_place", 4, successes={known.mode_id: (2, 16)})
    assert again.modes == ()  # nothing changed, so no version


def test_a_removed_mode_comes_back_when_it_is_diagnosed_again():
    removed = next_version(made.mode(), 2, status="removed")
    assert (removed.version, removed.round, removed.status) == (2, 2, "removed")
    assert consolidate([], [removed], "pick_place", 3).modes == ()
    back = consolidate([made.diagnosis(1)], [removed], "pick_place", 3)
    assert back.modes == (next_version(removed, 3, status="kept"),)


def test_the_most_similar_mode_takes_the_cause():
    near, far = made.mode("obstacle beside target handle"), made.mode("obstacle beside target rim edge")
    found = consolidate([made.diagnosis(1, cause="obstacle beside the target")], [far, near], "pick_place", 2)
    assert found.assignments == {1: near.mode_id}


def test_rates_must_be_rates():
    with pytest.raises(ValueError, match=r"k = 9 successes of n = 8"):
        consolidate([], [made.mode()], "pick_place", 1, successes={made.mode().mode_id: (9, 8)})
    assert next_version(made.program(), 5) == made.program()
    assert next_version(made.program(), 5, verdict="confirmed") == made.program(version=2, round=5, verdict="confirmed")
