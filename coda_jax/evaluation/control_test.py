"""Is a diagnosis true? Changing the named factor must hurt more than changing another one, scene by scene.

From each base scene come one targeted and one control variant, rolled out ``n`` times each with the same policy noise. The base
scene is the unit: rollouts of one scene share its difficulty, so pooling them as if they were independent rejects far too often.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

import numpy as np

from coda_jax.evaluation.statistics import sign_flip_test

Verdict = Literal["confirmed", "refuted", "undecided"]

LEAST_DROP = 0.10  # a smaller drop of the success rate is not worth practising
_CONFIDENCE = 0.90  # its ends are the one-sided 5 % limits
_ROUNDING = 1e-12


@dataclasses.dataclass(frozen=True)
class ControlResult:
    """One control test.

    mean: mean over base scenes of the success rate lost to the named factor beyond the control edit, in [-1, 1]. low, high: its
    one-sided 5 % limits. p_value: one-sided, of "the mean drop is not above 0". scenes: base scenes tested.
    """

    mean: float
    low: float
    high: float
    p_value: float
    verdict: Verdict
    scenes: int


def control_test(
    k_target: Sequence[int] | np.ndarray, k_control: Sequence[int] | np.ndarray, n: int, *, least_drop: float = LEAST_DROP, seed: int = 0
) -> ControlResult:
    """Test whether the targeted edit lowers success more than the control edit does.

    Confirmed: the lower limit is above 0 and the mean drop at least ``least_drop``. Refuted: the upper limit is below
    ``least_drop``, and the control variants succeed at least that often. Else undecided. With fewer than five scenes nothing can be
    excluded at 5 %.

    Args:
      k_target: [b] successes of each base scene's targeted variant, 0..n. k_control: [b] of its control variant, in the same order.
      n: rollouts of each variant. Rollouts that were used to search the edit's level must not be among them.
      seed: of the Monte Carlo sign flips that replace the exact test above 14 scenes.

    Raises:
      ValueError: shapes differ or are empty, counts outside 0..n or not whole numbers, or n < 1.

    Source: sign-flip permutation test, inverted for the limits; see ``statistics.sign_flip_test``.
    """
    target, control = _counts("k_target", k_target, n), _counts("k_control", k_control, n)
    if target.shape != control.shape:
        raise ValueError(f"k_target has {target.size} base scenes and k_control {control.size}; give both variants of each, in one order")
    lost = control - target  # whole numbers: sums and ties are exact
    test = sign_flip_test(lost, _CONFIDENCE, bounds=(-n, n), seed=seed)
    mean, low, high = float(lost.sum() / (lost.size * n)), test.low / n, test.high / n
    verdict: Verdict = "undecided"
    if low > 0 and mean >= least_drop - _ROUNDING:
        verdict = "confirmed"
    elif high < least_drop - _ROUNDING and control.sum() >= least_drop * control.size * n:
        verdict = "refuted"  # a policy that solves nothing has nothing to lose
    return ControlResult(mean, low, high, test.p_value, verdict, lost.size)


def benjamini_hochberg(p_values: Sequence[float], q: float = 0.1) -> list[bool]:
    """Which hypotheses are rejected at false discovery rate ``q``: those up to the largest i with p_(i) <= i q / m.

    Raises:
      ValueError: a p-value outside [0, 1] or NaN, or q outside (0, 1).

    Source: Benjamini & Hochberg 1995, procedure (1).
    """
    p = np.asarray(p_values, float)
    if not 0 < q < 1:
        raise ValueError(f"q is {q}; the false discovery rate must lie strictly between 0 and 1, e.g. 0.1")
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"p_values must be a flat list of numbers in [0, 1]; got {p_values}")
    if not p.size:
        return []
    ordered = np.sort(p)
    passing = np.flatnonzero(ordered <= q * np.arange(1, p.size + 1) / p.size + _ROUNDING)
    return [bool(x) for x in p <= ordered[passing[-1]]] if passing.size else [False] * p.size


def verdicts(results: Sequence[ControlResult], q: float = 0.1) -> list[ControlResult]:
    """The tests of one round together: a confirmed one that Benjamini-Hochberg does not reject becomes undecided.

    Args:
      results: every test of the round, also refuted and undecided ones, or the correction is too small.
    """
    kept = benjamini_hochberg([r.p_value for r in results], q)
    return [
        dataclasses.replace(r, verdict="undecided") if r.verdict == "confirmed" and not keep else r
        for r, keep in zip(results, kept, strict=True)
    ]


def wants_more(result: ControlResult, scenes: int, most: int = 32) -> int:
    """How many further base scenes to test: none once decided, else as many again as were tested, up to ``most`` in all.

    Args:
      result: of ``verdicts``, so that one which only the correction undid is topped up as well. scenes: base scenes still at hand.

    Raises:
      ValueError: ``scenes`` is negative.
    """
    if scenes < 0:
        raise ValueError(f"scenes is {scenes}; give the number of untested base scenes, 0 or more")
    return min(result.scenes, max(0, most - result.scenes), scenes) if result.verdict == "undecided" else 0


def _counts(name: str, values: Sequence[int] | np.ndarray, n: int) -> np.ndarray:
    counts = np.asarray(values)
    if n < 1:
        raise ValueError(f"n is {n}; each variant needs at least one rollout")
    if counts.ndim != 1 or counts.size == 0 or counts.dtype.kind not in "iu":
        raise ValueError(f"{name} must be a non-empty flat list of whole numbers, one per base scene; got {values!r}")
    wrong = np.flatnonzero((counts < 0) | (counts > n))
    if wrong.size:
        raise ValueError(f"{name}[{wrong[0]}] is {counts[wrong[0]]}; successes of n = {n} rollouts must lie in 0..{n}")
    return counts.astype(np.int64)
