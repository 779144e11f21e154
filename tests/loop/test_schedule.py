"""When a round ends: every reason by hand, and how often by chance."""

import numpy as np
import pytest

from coda_jax.evaluation.statistics import wilson
from coda_jax.loop.schedule import Adaptive, Fixed, Measurement, next_round


def _flat(updates, k=8, modes=8, scenes=150, n=16) -> Measurement:
    return Measurement(updates, modes, {f"s{i}": (k, n) for i in range(scenes)})


def test_fixed():
    assert not next_round(Fixed(500), [_flat(0), _flat(499)]).start
    assert next_round(Fixed(500), [_flat(0), _flat(500)]).start


def test_nothing_trained_never_ends_a_round():
    for history in ([], [_flat(0, modes=0)]):
        assert not next_round(Adaptive(), history).start
        assert not next_round(Fixed(0), history).start


def test_too_few_modes():
    assert next_round(Adaptive(), [_flat(100, modes=7)]).start
    assert not next_round(Adaptive(least_modes=2), [_flat(100, modes=2)]).start


def test_no_progress_over_the_window():
    assert next_round(Adaptive(), [_flat(500), _flat(2_500)]).start
    assert not next_round(Adaptive(), [_flat(500, scenes=100), _flat(2_500)]).start  # 0 of 100 scenes: up to 2.6 points
    assert not next_round(Adaptive(), [_flat(501), _flat(2_500)]).start  # 1,999 updates
    assert not next_round(Adaptive(), [_flat(500), _flat(2_500, k=9)]).start  # 1 / 16 in every scene
    assert next_round(Adaptive(), [_flat(500, k=4), _flat(1_000), _flat(3_000)]).start  # the newest one that is old enough
    assert next_round(Adaptive(), [_flat(500), _flat(2_500, k=4)]).start  # a loss is no progress either


def test_a_noisy_standstill_is_not_proof():
    up_and_down = Measurement(2_500, 8, {f"s{i}": (12 if i % 2 else 4, 16) for i in range(20)})
    decision = next_round(Adaptive(), [_flat(500), up_and_down])
    assert not decision.start and "20 in-band scenes moved by +0.000" in decision.reason
    assert next_round(Adaptive(most_updates=2_500), [_flat(500), up_and_down]).start


def test_only_common_scenes_count():
    other = Measurement(2_500, 8, {"elsewhere": (0, 16)})
    assert "no in-band scene" in next_round(Adaptive(), [_flat(500), other]).reason


def test_refuses():
    with pytest.raises(ValueError, match="oldest first"):
        next_round(Adaptive(), [_flat(500), _flat(500)])
    with pytest.raises(ValueError, match="scene s0 at 2500"):
        next_round(Adaptive(), [_flat(500), _flat(2_500, k=17)])


def test_real_progress_rarely_ends_a_round():
    """With a true gain of 2 points, the trigger's limit, rounds end by it in at most 5 %."""
    rng, ended, trials = np.random.default_rng(0), 0, 200
    for _ in range(trials):
        p = rng.uniform(0.2, 0.8, 60)
        counts = [rng.binomial(8, rate) for rate in (p, p + 0.02)]
        history = [
            Measurement(1 + 2_000 * i, 8, {f"s{j:02d}": (int(k), 8) for j, k in enumerate(measured)}) for i, measured in enumerate(counts)
        ]
        ended += next_round(Adaptive(), history).start
    assert wilson(ended, trials).low <= 0.05
    assert ended > 0
