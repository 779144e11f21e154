"""Shares of a batch: exact sums, tools that change them, bounds that hold."""

import numpy as np
import pytest

from coda_jax.learning.shares import LEAST_PRACTICE, shares
from coda_jax.programs.training.program import Tools

BASE = (0.25, 0.45, 0.2, 0.1)


def test_without_tools_the_base_is_rounded_to_whole_rows():
    assert shares(BASE, [], 100) == (25, 45, 20, 10)
    assert shares((0.25, 0.25, 0.25, 0.25), [], 6) == (2, 2, 1, 1)
    assert shares((0.97, 0.02, 0.01, 0.0), [], 100) == (97, 2, 1, 0)  # no tool, no bound
    for batch in range(1, 70):
        counts = shares(BASE, [], batch)
        assert sum(counts) == batch
        assert max(abs(np.array(counts) - batch * np.array(BASE))) < 1


def test_tools_ask_for_demonstrations_and_replay_at_the_cost_of_practice():
    asked = shares(BASE, [Tools(demo_share=0.5, sampling_weight=3.0)], 100)
    assert asked[0] == 50 and asked[3] == 10
    assert asked[1] / asked[2] == pytest.approx(45 / 20, rel=0.1)
    assert shares(BASE, [Tools(demo_share=0.5), Tools()], 1000)[0] == 375  # the other program is content with the base
    assert shares(BASE, [Tools(replay_share=0.3)], 100)[3] == 30
    assert shares(BASE, [Tools(sampling_weight=3.0, start_states=True)], 100) == shares(BASE, [], 100)


def test_practice_keeps_its_room_whatever_programs_ask_for():
    greedy = shares(BASE, [Tools(demo_share=0.7, replay_share=0.5)], 1000)
    assert (greedy[0], greedy[3]) == (700, 200)
    assert greedy[1] + greedy[2] == 1000 * LEAST_PRACTICE
    assert shares((0.5, 0.0, 0.0, 0.5), [Tools(demo_share=0.9)], 10) == (5, 0, 0, 5)  # nothing to make room with


def test_what_is_no_list_of_shares_is_refused():
    for wrong in ((0.5, 0.5), (0.5, 0.5, 0.5, -0.5), (0.5, 0.5, 0.5, 0.5)):
        with pytest.raises(ValueError, match="sum 1, for demonstration, targeted"):
            shares(wrong, [], 10)
