"""Which moments are shown."""

import pytest

from coda_jax.agents.llm.frames import chosen_steps, contact_changes, phase_changes
from tests.agents.llm.watched import HELD, LOST, REACHED, SPECS, STEPS, seen

SEEN = seen(SPECS[0])


def test_changes_are_told():
    assert phase_changes(SEEN) == [REACHED, HELD, LOST]
    assert contact_changes(SEEN) == [HELD, LOST]


def test_changes_come_before_even_spacing():
    assert chosen_steps(SEEN, 5) == [1, REACHED, HELD, LOST, STEPS]
    assert chosen_steps(SEEN, 3) == [1, LOST, STEPS]  # the change farthest from both ends
    assert set(chosen_steps(SEEN, 5)) < set(chosen_steps(SEEN, 8))


@pytest.mark.parametrize("count", [0, 1, 2, 7, STEPS, STEPS + 9])
def test_as_many_as_asked_for_and_none_twice(count):
    found = chosen_steps(SEEN, count)
    assert len(found) == min(count, STEPS) == len(set(found)) and found == sorted(found)
    assert all(1 <= step <= STEPS for step in found)
    assert not found or found[-1] == STEPS
