"""Attribution of failures to factors: known causes, mixtures, and degenerate data."""

import numpy as np
import pytest

from coda_jax.agents.scripted.logistic import sigmoid
from coda_jax.agents.scripted.regression import drop_shares

GROUPS = ("task", "task", "spatial", "spatial", "spatial", "attributes", "attributes", "attributes")


def _round(seed, slopes, n=48, trials=4, noise=0.4):
    """Scenes of which the columns in ``slopes`` lower the logit; ``noise``: what no column explains."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, len(GROUPS)))
    z = 0.5 + noise * rng.normal(size=n)
    for column, slope in slopes.items():
        z = z - slope * x[:, column]
    return x, rng.binomial(trials, sigmoid(z)), np.full(n, trials)


@pytest.mark.parametrize(("column", "factor"), [(0, "task"), (3, "spatial"), (7, "attributes")])
def test_the_one_cause_gets_the_largest_share(column, factor):
    """A scene with the cause at two standard deviations, the other columns as they come."""
    right = 0
    for seed in range(60):
        x, k, trials = _round(seed, {column: 1.5})
        x[0, column], k[0] = 2.0, 0
        shares = drop_shares(x, GROUPS, k, trials, np.zeros(len(GROUPS)))
        right += max(shares, key=lambda name: shares[name][0]) == factor
    assert right >= 57


def test_shares_by_hand():
    """A row's drop is credited to the factor whose features are off the reference in that row."""
    x, k, trials = _round(1, {0: 2.0, 5: 2.0}, n=300, trials=8, noise=0.0)
    base = np.zeros(len(GROUPS))
    probes = np.zeros((4, len(GROUPS)))
    probes[0, 0], probes[1, 5], probes[2, [0, 5]], probes[3, 0] = 2.0, 2.0, 2.0, -2.0
    rows = np.vstack([x, probes]), GROUPS, np.append(k, [0, 0, 0, 8]), np.append(trials, [8] * 4)
    got = drop_shares(*rows, base)
    assert list(got) == ["task", "spatial", "attributes"]
    task, attributes = got["task"][-4:], got["attributes"][-4:]
    assert task[0] > 0.95 and attributes[1] > 0.95
    assert task[2] == pytest.approx(0.5, abs=0.05) and attributes[2] == pytest.approx(0.5, abs=0.05)
    assert [own[-1] for own in got.values()] == [0, 0, 0]  # easier than the reference: no drop to explain
    total = sum(got.values())
    assert np.all((np.abs(total - 1) < 1e-9) | (total == 0))
    each = drop_shares(*rows, np.tile(base, (len(x) + 4, 1)))
    assert all(each[name] == pytest.approx(own) for name, own in got.items())


def test_units_and_order_do_not_matter():
    x, k, trials = _round(2, {3: 1.0})
    got = drop_shares(x, GROUPS, k, trials)
    scaled = drop_shares(x * np.geomspace(1e-3, 1e3, 8) + 7, GROUPS, k, trials)
    back = drop_shares(x[:, ::-1], GROUPS[::-1], k, trials)
    for name, own in got.items():
        assert scaled[name] == pytest.approx(own, abs=1e-6)
        assert back[name] == pytest.approx(own)


@pytest.mark.filterwarnings("error")
def test_degenerate_rounds():
    x, k, trials = _round(3, {})
    constant, outlier = x.copy(), x.copy()
    constant[:, :2], outlier[0] = 3.0, 1e6
    for features, successes, counts in (
        (x, np.zeros(48), trials),
        (x, trials, trials),
        (np.ones((48, 8)), k, trials),
        (outlier, k, trials),
        (x, (x[:, 3] < 0).astype(int), None),
        *((x[:few], k[:few], trials[:few]) for few in (1, 2, 5)),
    ):
        got = np.stack(list(drop_shares(features, GROUPS, successes, counts).values()))
        assert got.shape == (3, len(features)) and np.isfinite(got).all()
    assert not drop_shares(constant, GROUPS, k, trials, np.zeros(8))["task"].any()  # nothing was learned about it


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
        drop_shares(**({"features": x, "groups": GROUPS, "k": k, "trials": trials} | change))
