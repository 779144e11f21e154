"""Attribution of failures to factors: known causes, none, mixtures, and degenerate data."""

import numpy as np
import pytest

from coda_jax.agents.scripted.logistic import sigmoid
from coda_jax.agents.scripted.regression import explain
from coda_jax.evaluation.statistics import wilson

GROUPS = ("task", "task", "spatial", "spatial", "spatial", "attributes", "attributes", "attributes")


def _round(seed, slopes, n=48, trials=4, noise=0.4):
    """Scenes of which the columns in ``slopes`` lower the logit; ``noise``: what no column explains."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, len(GROUPS)))
    z = 0.5 + noise * rng.normal(size=n)
    for column, slope in slopes.items():
        z = z - slope * x[:, column]
    return x, rng.binomial(trials, sigmoid(z)), np.full(n, trials)


def _share_named(slopes, wanted, repeats=60):
    named = []
    for seed in range(repeats):
        x, k, trials = _round(seed, slopes)
        named.append(set(explain(x, GROUPS, k, trials, permutations=299, resamples=2, seed=seed).named))
    return sum(n == wanted for n in named), sum(wanted <= n for n in named), repeats


@pytest.mark.parametrize(("column", "factor"), [(0, "task"), (3, "spatial"), (7, "attributes")])
def test_one_cause_is_named(column, factor):
    """In at least 90 % of rounds the factor is among the named ones, in at least 80 % alone."""
    exact, among, repeats = _share_named({column: 1.5}, {factor})
    assert among >= 0.9 * repeats and exact >= 0.8 * repeats


def test_two_causes_are_named():
    exact, among, repeats = _share_named({2: 1.5, 6: 1.5}, {"spatial", "attributes"})
    assert among >= 0.85 * repeats and exact >= 0.75 * repeats


def test_no_cause_names_nothing_in_95_percent():
    exact, _, repeats = _share_named({}, set(), 150)
    assert wilson(repeats - exact, repeats).low <= 0.05


def test_few_overdispersed_scenes_do_not_invent_a_cause():
    """16 scenes, 8 columns, scenes that differ for reasons no column holds: a chi-square test would name a factor in most rounds."""
    false = 0
    for seed in range(150):
        x, k, trials = _round(seed, {}, n=16, trials=8, noise=2.0)
        false += bool(explain(x, GROUPS, k, trials, permutations=299, resamples=2, seed=seed).named)
    assert wilson(false, 150).low <= 0.05


def test_shares_and_intervals():
    x, k, trials = _round(0, {2: 1.5, 6: 1.5}, n=200)
    got = explain(x, GROUPS, k, trials)
    assert sum(f.share for f in got.factors.values()) == pytest.approx(1)
    assert got.factors["spatial"].low < 0.5 < got.factors["spatial"].high
    assert got.factors["task"].high < 0.1
    assert got.factors["task"].p_value > 0.05 > got.factors["spatial"].p_value
    hits = 0
    for seed in range(40):
        x, k, trials = _round(100 + seed, {2: 1.5, 6: 1.5}, n=80)
        share = explain(x, GROUPS, k, trials, permutations=1).factors["spatial"]
        hits += share.low <= 0.5 <= share.high
    assert hits >= 32  # 36 expected of a 90 % interval


def test_rows_by_hand():
    """A row's drop is credited to the factor whose features are off the reference in that row."""
    x, k, trials = _round(1, {0: 2.0, 5: 2.0}, n=300, trials=8, noise=0.0)
    base = np.zeros(len(GROUPS))
    probes = np.zeros((4, len(GROUPS)))
    probes[0, 0], probes[1, 5], probes[2, [0, 5]], probes[3, 0] = 2.0, 2.0, 2.0, -2.0
    got = explain(np.vstack([x, probes]), GROUPS, np.append(k, [0, 0, 0, 8]), np.append(trials, [8] * 4), base)
    task, _, attributes = got.rows[-4:].T
    assert task[0] > 0.95 and attributes[1] > 0.95
    assert task[2] == pytest.approx(0.5, abs=0.05) and attributes[2] == pytest.approx(0.5, abs=0.05)
    assert got.rows[-1].tolist() == [0, 0, 0]  # easier than the reference: no drop to explain
    each = np.tile(base, (len(x) + 4, 1))
    assert explain(np.vstack([x, probes]), GROUPS, np.append(k, [0, 0, 0, 8]), np.append(trials, [8] * 4), each).rows == pytest.approx(
        got.rows
    )


def test_units_and_order_do_not_matter():
    x, k, trials = _round(2, {3: 1.0})
    got = explain(x, GROUPS, k, trials)
    scaled = explain(x * np.geomspace(1e-3, 1e3, 8) + 7, GROUPS, k, trials)
    assert scaled.named == got.named and scaled.rows == pytest.approx(got.rows, abs=1e-6)
    back = explain(x[:, ::-1], GROUPS[::-1], k, trials)
    assert back.factors["spatial"].share == pytest.approx(got.factors["spatial"].share)
    assert repr(explain(x, GROUPS, k, trials)) == repr(got)


@pytest.mark.filterwarnings("error")
def test_degenerate_rounds():
    x, k, trials = _round(3, {})
    for successes in (np.zeros(48), trials):  # all fail, all succeed
        got = explain(x, GROUPS, successes, trials)
        assert got.named == () and np.isfinite(got.rows).all()
    assert explain(np.ones((48, 8)), GROUPS, k, trials).named == ()
    constant = x.copy()
    constant[:, :2] = 3.0
    assert explain(constant, GROUPS, k, trials, np.zeros(8)).factors["task"].p_value == 1.0
    for few in (1, 2, 5):
        got = explain(x[:few], GROUPS, k[:few], trials[:few])
        assert got.named == () and got.rows.shape == (few, 3)
    separated = explain(x, GROUPS, (x[:, 3] < 0).astype(int))
    assert separated.named == ("spatial",) and separated.factors["spatial"].share > 0.9
    outlier = x.copy()
    outlier[0] = 1e6
    assert np.isfinite(explain(outlier, GROUPS, k, trials).rows).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.full((48, 8), np.nan)}, "finite"),
        ({"groups": GROUPS[:-1]}, "7 columns"),
        ({"k": np.full(48, 9)}, "k <= trials"),
        ({"k": np.zeros(3)}, "one entry"),
        ({"groups": tuple("abcdefgh"), "reference": np.zeros(7)}, "reference has shape"),
    ],
)
def test_refuses(change, message):
    x, k, trials = _round(4, {})
    with pytest.raises(ValueError, match=message):
        explain(**({"features": x, "groups": GROUPS, "k": k, "trials": trials} | change))
