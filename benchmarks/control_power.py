"""Power and false acceptance of the control test, bias of Learning Value, and when a round ends: ``python -m benchmarks.control_power``.

Pure simulation, no physics. A table goes to stderr, one JSON object a line to stdout. The peer of the control test is the pooled
two-proportion z-test at one-sided 5 % on the same counts, which must not be used: it takes rollouts of one scene for independent.
"""

from __future__ import annotations

import json
import math
import sys

import numpy as np
from absl import app, flags

from benchmarks import simulated_tests
from benchmarks.simulated_tests import Population, confirmed
from coda_jax.evaluation.control_test import verdicts
from coda_jax.evaluation.statistics import Interval, wilson
from coda_jax.loop.schedule import Adaptive, Measurement, next_round

_TRIALS = flags.DEFINE_integer("trials", 1000, "Simulated tests of each row.", lower_bound=20)
DESIGNS = ((8, 4, 0), (16, 8, 0), (16, 8, 32), (32, 8, 0))
DROPS = (0.0, 0.1, 0.2, 0.3)
SIMILARITY = (1.0, 4.0, 8.0, math.inf)


def _emit(name: str, k: int, n: int, **more: object) -> None:
    interval = wilson(k, n)
    row = {
        "name": name,
        "value": round(k / n, 4),
        "unit": "share",
        "k": k,
        "n": n,
        "low": round(interval.low, 4),
        "high": round(interval.high, 4),
    }
    print(json.dumps(row | more | {"device": "cpu", "versions": {"numpy": np.__version__}}), flush=True)


def _text(k: int, n: int) -> str:
    low, high = wilson(k, n)
    return f"{k / n:6.1%} ({low:.1%} .. {high:.1%})"


def power(trials: int) -> None:
    """Confirmed and refuted shares for each design, similarity and true drop, and of A/A tests."""
    print("| similarity | B | N | drop | confirmed | refuted | pooled test rejects |\n|---|---|---|---|---|---|---|", file=sys.stderr)
    for similarity in SIMILARITY:
        population = Population(similarity=similarity)
        for scenes, n, top_up in DESIGNS:
            size = f"{scenes} to {top_up}" if top_up else str(scenes)
            for drop in (*DROPS, "A/A"):
                if isinstance(drop, str):
                    results, pooled = simulated_tests.simulated_aa_tests(population, scenes, n, trials, top_up=top_up), None
                else:
                    results = simulated_tests.simulated_tests(population, scenes, n, drop, trials, top_up=top_up)
                    pooled = simulated_tests.pooled_rejections(population, top_up or scenes, n, drop, trials)
                yes, no = confirmed(results), sum(r.verdict == "refuted" for r in results)
                extra = {} if pooled is None else {"peer": "pooled two-proportion test", "peer_value": pooled / trials}
                _emit(f"control_test_s{similarity}_b{size.replace(' ', '')}_n{n}_{drop}", yes, trials, refuted=no / trials, **extra)
                peer = "" if pooled is None else _text(pooled, trials)
                print(f"| {similarity} | {size} | {n} | {drop} | {_text(yes, trials)} | {no / trials:.1%} | {peer} |", file=sys.stderr)


def rounds(trials: int) -> None:
    """Rounds of four modes with Benjamini-Hochberg: how often a true and a false mode is confirmed."""
    print("\n| true modes of 4 | true confirmed | false confirmed | rounds with a false one |\n|---|---|---|---|", file=sys.stderr)
    population = Population()
    for true in range(5):
        drops = [0.2] * true + [0.0] * (4 - true)
        tests = [simulated_tests.simulated_tests(population, 16, 8, drop, trials, seed=i) for i, drop in enumerate(drops)]
        judged = [verdicts(each) for each in zip(*tests, strict=True)]
        right = sum(confirmed(r[:true]) for r in judged)
        wrong = sum(confirmed(r[true:]) for r in judged)
        some = sum(confirmed(r[true:]) > 0 for r in judged)
        if true < 4:
            _emit(f"round_true{true}_false_confirmed", wrong, trials * (4 - true))
        cells = [_text(right, trials * true) if true else "", _text(wrong, trials * (4 - true)) if true < 4 else "", f"{some / trials:.1%}"]
        print(f"| {true} | {' | '.join(cells)} |", file=sys.stderr)


def learning_value(trials: int) -> None:
    """Mean gain of a policy that never changes, by the rollouts that chose its scenes and by fresh ones."""
    print("\n| scenes chosen | before = choosing rollouts | before = fresh rollouts |\n|---|---|---|", file=sys.stderr)
    for rule in ("hard", "band"):
        for n in (4, 16):
            naive, fresh = simulated_tests.untrained_gains(Population(), 64, n, rule, trials)
            cells = []
            for name, gains in (("naive", naive), ("fresh", fresh)):
                interval = _mean_interval(gains)
                row = {"name": f"untrained_{rule}_n{n}_{name}", "value": float(gains.mean()), "unit": "success rate"}
                print(json.dumps(row | {"low": interval.low, "high": interval.high, "rounds": len(gains)}), flush=True)
                cells.append(f"{gains.mean():+.4f} ({interval.low:+.4f} .. {interval.high:+.4f})")
            print(f"| {rule}, N = {n} | {' | '.join(cells)} |", file=sys.stderr)


def schedule(trials: int) -> None:
    """How often the adaptive trigger ends a round, by true gain since the last 2,000 updates and number of in-band scenes."""
    print("\n| in-band scenes | N | true gain 0 | true gain 0.05 |\n|---|---|---|---|", file=sys.stderr)
    for scenes, n in ((64, 4), (128, 8), (512, 8), (1024, 16)):
        cells = []
        for gain in (0.0, 0.05):
            ended = sum(_ends(Population(), scenes, n, gain, trial) for trial in range(trials))
            _emit(f"schedule_b{scenes}_n{n}_gain{gain}", ended, trials)
            cells.append(_text(ended, trials))
        print(f"| {scenes} | {n} | {' | '.join(cells)} |", file=sys.stderr)


def _ends(population: Population, scenes: int, n: int, gain: float, trial: int) -> bool:
    rng = np.random.default_rng(trial)
    p = population.base(rng, scenes)
    rates = {0: p, 2_000: p + gain * (1 - p) / (1 - population.mean)}
    history = [
        Measurement(1 + updates, 8, {f"{i:05d}": (int(k), n) for i, k in enumerate(rng.binomial(n, rate))})
        for updates, rate in rates.items()
    ]
    return next_round(Adaptive(), history).start


def _mean_interval(values: np.ndarray) -> Interval:
    half = 1.96 * float(values.std(ddof=1)) / math.sqrt(len(values))
    return Interval(float(values.mean()) - half, float(values.mean()) + half)


def main(arguments: list[str]) -> None:
    if len(arguments) > 1:
        raise app.UsageError(f"unknown argument {arguments[1]!r}")
    power(_TRIALS.value)
    rounds(_TRIALS.value)
    learning_value(_TRIALS.value)
    schedule(max(20, _TRIALS.value // 10))


if __name__ == "__main__":
    app.run(main)
