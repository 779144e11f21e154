"""Allocation: exact sums, hand-worked scores, and every empty case."""

import itertools
import math

import numpy as np
import pytest

from coda_jax.memory import allocation
from coda_jax.memory.allocation import ModeState, Status, allocate


def _mode(name: str, status: Status = "active", k=8, n=16, value=0.0, environments=10.0, replayed=-1) -> ModeState:
    return ModeState(name, status, k, n, value, environments, replayed)


def test_largest_remainder_by_hand():
    assert allocation.largest_remainder(64, [0.75, 0.15, 0.10]) == [48, 10, 6]  # remainders 0, 0.6, 0.4
    assert allocation.largest_remainder(3, [1, 1]) == [2, 1]
    assert allocation.largest_remainder(10, [0.1, 0.2, 0.7]) == [1, 2, 7]
    assert allocation.largest_remainder(4, [0, 0, 0]) == [2, 1, 1]
    assert allocation.largest_remainder(2, [1e-300, 1e300]) == [0, 2]
    with pytest.raises(ValueError, match="finite"):
        allocation.largest_remainder(3, [1, math.inf])


def test_scores_by_hand():
    # T = 20; a: mu 1, bonus sqrt(2 ln 20 / 16); b: mu 0, bonus sqrt(2 ln 20 / 4), p = 2.5 / 10
    got = allocation.scores([_mode("a", k=4, n=8, value=0.3, environments=16), _mode("b", k=2, n=9, value=0.1, environments=4)])
    assert got["a"] == pytest.approx(1 + math.sqrt(math.log(20) / 8))
    assert got["b"] == pytest.approx(math.sqrt(math.log(20) / 2) * 0.75)
    close = allocation.scores([_mode("a", k=4, n=8, value=0.03), _mode("b", k=4, n=8, value=0.02)])
    assert close["a"] - close["b"] == pytest.approx(0.1)  # not 1: a difference of 0.01 is not blown up
    assert allocation.scores([_mode("a", environments=0.0)]) == {"a": math.inf}


def test_values_beside_exploration_by_hand():
    modes = [_mode("a", value=0.3, environments=16), _mode("b", value=0.1, environments=4)]
    bonus = [math.sqrt(math.log(20) / 8), math.sqrt(math.log(20) / 2)]
    ratio = allocation.value_over_exploration
    assert ratio(modes) == pytest.approx(2 / sum(bonus))
    assert ratio(modes, 0.5) == pytest.approx(4 / sum(bonus))
    close = [_mode("a", value=0.03, environments=16), _mode("b", value=0.01, environments=4)]
    assert ratio(close) == pytest.approx(0.4 / sum(bonus))
    assert ratio([_mode("a"), _mode("b")]) == 0 and ratio([_mode("a"), _mode("b")], 0.0) is None
    assert ratio([_mode("a"), _mode("b", "mastered"), _mode("c", environments=0.0)]) is None


def test_mastered_and_hopeless_modes_are_less_learnable():
    assert allocation.learnability(0, 16) < 0.15 and allocation.learnability(16, 16) < 0.15
    assert allocation.learnability(4, 8) == 1.0
    assert allocation.learnability(0, 0) == 1.0


def test_the_paper_s_round():
    modes = [*(_mode(f"m{i}", value=i / 10) for i in range(5)), _mode("old", "retired"), _mode("done", "mastered")]
    got = allocate(modes, 64)
    assert (sum(got.targeted.values()), got.novelty, sum(got.replay.values()), got.total) == (48, 10, 6, 64)
    assert got.replay == {"done": 3, "old": 3}
    shares = [got.targeted[f"m{i}"] for i in range(5)]
    assert shares == sorted(shares) and shares[0] < shares[-1]


def test_untried_modes_come_first():
    modes = [_mode("good", value=0.9, environments=100.0), *(_mode(f"new{i}", k=i, n=8, environments=0.0) for i in range(4))]
    assert allocate(modes, 2, 0, 0).targeted == {"new2": 1, "new3": 1}  # p = 2.5 / 9 and 3.5 / 9 lie nearest one half
    more = allocate(modes, 40, 0, 0).targeted
    assert set(more) == {"good", "new0", "new1", "new2", "new3"} and more["new3"] > more["good"]


def test_replay_takes_turns():
    modes = [_mode("a"), _mode("r1", "retired", replayed=4), _mode("r2", "retired", replayed=2), _mode("r3", "mastered", replayed=3)]
    assert allocate(modes, 20).replay == {"r2": 1, "r3": 1}


def test_edge_cases():
    assert allocate([], 64) == allocation.Allocation({}, {}, 64)
    only_past = allocate([_mode("r", "retired")], 64)
    assert (only_past.targeted, only_past.replay, only_past.novelty) == ({}, {"r": 6}, 58)
    no_past = allocate([_mode("a")], 64)
    assert (no_past.targeted, no_past.replay, no_past.novelty) == ({"a": 54}, {}, 10)
    assert allocate([_mode("a"), _mode("b", "retired")], 1) == allocation.Allocation({"a": 1}, {}, 0)
    assert allocate([_mode("a")], 0).total == 0
    with pytest.raises(ValueError, match="at most 1"):
        allocate([], 4, 0.9, 0.2)
    with pytest.raises(ValueError, match="more than once"):
        allocate([_mode("a"), _mode("a")], 4)
    with pytest.raises(ValueError, match="mode a: k = 5"):
        _mode("a", k=5, n=4)


def test_sums_are_exact_and_order_does_not_matter():
    rng = np.random.default_rng(0)
    kinds: tuple[Status, ...] = ("active", "active", "mastered", "retired")
    for _ in range(200):
        modes = [
            _mode(f"m{i}", kinds[rng.integers(4)], int(rng.integers(17)), 16, float(rng.normal(0, 0.2)), float(rng.integers(3) * 5))
            for i in range(rng.integers(0, 9))
        ]
        budget, novelty, replay = int(rng.integers(0, 100)), float(rng.uniform(0, 0.5)), float(rng.uniform(0, 0.5))
        got = allocate(modes, budget, novelty, replay)
        assert got.total == budget and min([got.novelty, *got.targeted.values(), *got.replay.values()]) >= 0
        assert got == allocate(modes[::-1], budget, novelty, replay)


def test_small_rounds_in_every_order():
    modes = [_mode("a", value=0.2), _mode("b", value=0.1), _mode("c", "retired")]
    assert len({repr(allocate(p, 7)) for p in itertools.permutations(modes)}) == 1
