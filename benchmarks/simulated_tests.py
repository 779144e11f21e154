"""What the control test and Learning Value can tell at a given size, by simulation of scenes that differ in difficulty.

A base scene's success rate is p ~ Beta. Its variants have rates of their own around p, since every edit meets every scene
differently: control ~ Beta(s p, s (1 - p)), target likewise round p (1 - drop / E[p]). So the mean drop is exact and no rate leaves
[0, 1]; ``s`` is the similarity of the two variants, infinite where a scene's difficulty is all that matters.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from coda_jax.evaluation.control_test import ControlResult, control_test, wants_more
from coda_jax.memory.learning_value import scene_gains


@dataclasses.dataclass(frozen=True)
class Population:
    """Base success rates ~ Beta(a, b); similarity: concentration of a variant's rate around its scene's, above 0."""

    a: float = 3.0
    b: float = 2.0
    similarity: float = 8.0

    @property
    def mean(self) -> float:
        return self.a / (self.a + self.b)

    def base(self, rng: np.random.Generator, scenes: int) -> np.ndarray:
        """[b] success rates of base scenes."""
        return rng.beta(self.a, self.b, scenes)

    def variant(self, rng: np.random.Generator, p: np.ndarray) -> np.ndarray:
        """[b] success rates of one variant of each scene, with mean ``p``."""
        if math.isinf(self.similarity):
            return p
        inside = np.clip(p, 1e-9, 1 - 1e-9)
        return rng.beta(self.similarity * inside, self.similarity * (1 - inside))

    def control_counts(self, rng: np.random.Generator, scenes: int, n: int, drop: float) -> tuple[np.ndarray, np.ndarray]:
        """k_target [b], k_control [b] of ``n`` rollouts each, when the target edit costs ``drop`` on average.

        Raises:
          ValueError: ``drop`` is not within 0..E[p].
        """
        if not 0 <= drop <= self.mean:
            raise ValueError(f"drop is {drop}; it must lie in 0..{self.mean:.3f}, the mean success rate of the control variant")
        p = self.base(rng, scenes)
        target = self.variant(rng, p * (1 - drop / self.mean))
        return rng.binomial(n, target), rng.binomial(n, self.variant(rng, p))


def confirmed(results: Sequence[ControlResult]) -> int:
    """How many of the tests were confirmed: false acceptance for A/A tests, the base rate for random diagnoses."""
    return sum(r.verdict == "confirmed" for r in results)


def aa_labels(seed: int, b: int) -> np.ndarray:
    """For an A/A test, whose two variants come from one verb and magnitude: [b] bool, True where the first is called the target.

    The labels of the first scenes stay when ``b`` grows, so an A/A test can be topped up like any other.
    """
    if b < 1:
        raise ValueError(f"b is {b}; an A/A test needs at least one base scene")
    return np.random.default_rng(seed).random(b) < 0.5


def simulated_tests(
    population: Population, scenes: int, n: int, drop: float, trials: int, *, top_up: int = 0, seed: int = 0
) -> list[ControlResult]:
    """``trials`` control tests at one true drop; undecided ones are topped up to ``top_up`` scenes (0: never)."""
    most = max(scenes, top_up)
    results = []
    for trial in range(trials):
        target, control = population.control_counts(np.random.default_rng((seed, trial)), most, n, drop)
        results.append(_topped_up(target, control, scenes, n, most))
    return results


def simulated_aa_tests(population: Population, scenes: int, n: int, trials: int, *, top_up: int = 0, seed: int = 0) -> list[ControlResult]:
    """A/A tests: two variants of one edit that lowers success by a third, with random labels; every confirmed one is false."""
    most = max(scenes, top_up)
    results = []
    for trial in range(trials):
        rng = np.random.default_rng((seed, trial))
        p = population.base(rng, most) * 2 / 3
        first, second = (rng.binomial(n, population.variant(rng, p)) for _ in range(2))
        label = aa_labels(trial, most)
        results.append(_topped_up(np.where(label, first, second), np.where(label, second, first), scenes, n, most))
    return results


def _topped_up(target: np.ndarray, control: np.ndarray, scenes: int, n: int, most: int) -> ControlResult:
    result = control_test(target[:scenes], control[:scenes], n)
    while more := wants_more(result, most - result.scenes, most):
        tested = result.scenes + more
        result = control_test(target[:tested], control[:tested], n)
    return result


def pooled_rejections(population: Population, scenes: int, n: int, drop: float, trials: int, *, seed: int = 0) -> int:
    """How often the pooled two-proportion z-test rejects at one-sided 5 %: for contrast only, as it takes rollouts for independent."""
    limit, rejected = NormalDist().inv_cdf(0.95), 0
    for trial in range(trials):
        target, control = population.control_counts(np.random.default_rng((seed, trial)), scenes, n, drop)
        total = scenes * n
        p = (target.sum() + control.sum()) / (2 * total)
        se = math.sqrt(2 * p * (1 - p) / total)
        rejected += bool(se > 0 and (control.sum() - target.sum()) / total / se > limit)
    return rejected


def untrained_gains(population: Population, scenes: int, n: int, rule: str, trials: int, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Gains of a policy that does not change, on scenes chosen by the outcome of ``n`` rollouts: (naive [trials], fresh [trials]).

    naive: the choosing rollouts serve as "before". fresh: both measurements are new rollouts. Each is a round's mean over chosen
    scenes. A round in which none was chosen is left out.

    Args:
      scenes: candidates of a round. rule: "hard" chooses scenes with at most half of ``n`` successes, "band" 0.2 n <= k <= 0.8 n.

    Raises:
      ValueError: the rule has another name.
    """
    if rule not in ("hard", "band"):
        raise ValueError(f"rule is {rule!r}; choose 'hard' or 'band'")
    naive, fresh = [], []
    for trial in range(trials):
        rng = np.random.default_rng((seed, trial))
        p = population.base(rng, scenes)
        chosen_by = rng.binomial(n, p)
        chosen = 2 * chosen_by <= n if rule == "hard" else (0.2 * n <= chosen_by) & (chosen_by <= 0.8 * n)
        if not chosen.any():
            continue
        before, after = (rng.binomial(n, p[chosen]) for _ in range(2))
        naive.append(scene_gains(chosen_by[chosen], after, n).mean())
        fresh.append(scene_gains(before, after, n).mean())
    return np.array(naive), np.array(fresh)
