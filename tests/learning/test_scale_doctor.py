"""Every warning is provoked by what it warns of, computed for real, and silent on healthy values."""

import dataclasses
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coda_jax import config as settings
from coda_jax.learning import scale_doctor as doctor
from coda_jax.learning.scale_doctor import Measured
from coda_jax.memory.allocation import ModeState, value_over_exploration
from coda_jax.types import ACTION_DIM

SETTING = re.compile(r"\b[a-z]+\.[a-z]\w+")  # a dotted path in a sentence
RNG = np.random.default_rng(0)
LOW, HIGH, WIDTH = -2.0, 1.0, 3 / 96.5  # of the critic's support
HORIZON, EXECUTED = 300, 8


def said(measured: Measured) -> set[str]:
    return {warning.name for warning in doctor.examine(measured)}


def weights(sd: float, temperature: float = 1.0, n: int = 4096):
    advantages = sd * np.random.default_rng(1).normal(size=n)
    return np.minimum(np.exp(advantages / temperature), 20.0)


def candidates(spread: float, temperature: float):
    q = spread * np.random.default_rng(2).normal(size=(256, 8))
    return jax.nn.softmax(q / temperature, axis=-1)


def targets(beta: float, stages: int):
    """Chunked targets along an episode that completes its stages and succeeds."""
    phi = np.linspace(0, stages, 20, endpoint=False)
    bootstrap = 0.99 ** (8 * np.arange(20)[::-1]) - beta * phi
    return bootstrap


def probabilities(mean: float):
    """A categorical of the critic's shape, normal round ``mean``."""
    centres = (HIGH + 2.25 * WIDTH) - WIDTH * (np.arange(101)[::-1] + 0.5)
    return jax.nn.softmax(-0.5 * jnp.square((centres - mean) / (0.75 * WIDTH)))[None]


def norms(rate: float, scale: float = 1.0, updates: int = 40, start: float = 1.0):
    """Gradient norms of plain descent on scale tanh(x)^2 + x^2 / 2."""
    loss = jax.value_and_grad(lambda x: scale * jnp.square(jnp.tanh(x)) + 0.5 * scale * x * x)
    x, found = jnp.asarray(start), []
    for _ in range(updates):
        _, gradient = loss(x)
        found.append(abs(float(gradient)))
        x = x - rate * gradient
    return np.array(found)


def chunks(shift: float):
    base = np.random.default_rng(3).normal(size=(64, 8, ACTION_DIM))
    return base + shift * np.random.default_rng(4).normal(size=base.shape), base


def values_and_exploration(values, environments: float, c: float = 1.0) -> Measured:
    modes = [ModeState(str(i), "active", 8, 16, value, environments) for i, value in enumerate(values)]
    return Measured(ucb=value_over_exploration(modes, c))


SICK = {
    "weights_flat": lambda: doctor.weight_scales(weights(0.05)),  # raw advantages of sd 0.05 at temperature 1
    "weights_few": lambda: doctor.weight_scales(np.exp(4 * RNG.normal(size=4096))),
    "weights_low_entropy": lambda: doctor.weight_scales(np.arange(4096) < 400),
    "targets_clipped": lambda: doctor.target_scales(targets(beta=1.0, stages=4), LOW, HIGH, WIDTH),
    "targets_at_ends": lambda: doctor.target_scales(np.clip(targets(beta=1.0, stages=4), LOW, HIGH), LOW, HIGH, WIDTH),
    "edge_bias": lambda: doctor.edge_scales(probabilities(mean=1.06)),
    "success_invisible": lambda: doctor.discount_scales(0.99, "step", HORIZON, EXECUTED, WIDTH),
    "temperature_flat": lambda: doctor.candidate_scales(candidates(spread=0.05, temperature=0.5)),
    "exploration_dominates": lambda: values_and_exploration((0.02, 0.02), 16.0),
    "exploration_absent": lambda: values_and_exploration((0.0, 0.3), 16.0, c=0.02),
    "critic_always_clipped": lambda: doctor.gradient_scales("critic", norms(1e-4, scale=100.0), 1.0),
    "critic_gradient_explodes": lambda: doctor.gradient_scales("critic", norms(2.5), 1e9),
    "critic_gradient_vanishes": lambda: doctor.gradient_scales("critic", norms(0.1, scale=1e-8), 1.0),
    "policy_always_clipped": lambda: doctor.gradient_scales("policy", norms(1e-4, scale=100.0), 1.0),
    "policy_gradient_explodes": lambda: doctor.gradient_scales("policy", norms(2.5), 1e9),
    "policy_gradient_vanishes": lambda: doctor.gradient_scales("policy", norms(0.1, scale=1e-8), 1.0),
    "far_from_clone": lambda: doctor.drift_scales(*chunks(1.5)),
}
HEALTHY = [
    lambda: doctor.weight_scales(weights(1.0)),  # standardised advantages
    lambda: doctor.target_scales(targets(beta=0.5, stages=4), LOW, HIGH, WIDTH),
    lambda: doctor.edge_scales(probabilities(mean=1.0)),  # the largest target there is
    lambda: doctor.discount_scales(0.99, "chunk", HORIZON, EXECUTED, WIDTH),
    lambda: doctor.discount_scales(0.99, "step", 120, EXECUTED, WIDTH),
    lambda: doctor.candidate_scales(candidates(spread=1.0, temperature=0.5)),
    lambda: doctor.candidate_scales(np.ones((4, 1))),  # no choice, nothing flat
    lambda: doctor.gradient_scales("critic", norms(0.05), 1.0),
    lambda: doctor.gradient_scales("policy", norms(0.05), 1.0),
    lambda: doctor.drift_scales(*chunks(0.2)),
    lambda: values_and_exploration((0.0, 0.3), 16.0),
    lambda: Measured(),
]


@pytest.mark.parametrize("name", [rule.name for rule in doctor.RULES])
def test_each_warning_is_provoked_by_what_it_warns_of(name):
    (warning,) = [w for w in doctor.examine(SICK[name]()) if w.name == name]
    assert f"config.{warning.setting}:" in warning.text and "{" not in warning.text
    (rule,) = [r for r in doctor.RULES if r.name == name]
    assert (warning.value > warning.limit) == (rule.side == "above")


@pytest.mark.parametrize("make", HEALTHY)
def test_nothing_is_said_of_healthy_scales(make):
    assert doctor.examine(make()) == []


def test_the_numbers_of_the_method():
    """METHOD's own examples: ESS 99.8 %, 7.9 of 8 candidates, a success worth 0.049 or 0.69 at the start."""
    flat = doctor.weight_scales(weights(0.05))
    assert flat.ess == pytest.approx(0.9975, abs=5e-4)
    assert doctor.candidate_scales(candidates(0.05, 0.5)).effective_candidates == pytest.approx(7.93, abs=0.02)
    assert doctor.discount_scales(0.99, "step", 300, 8, WIDTH).start_widths == pytest.approx(0.049 / WIDTH, rel=0.01)
    assert doctor.discount_scales(0.99, "chunk", 300, 8, WIDTH).start_widths == pytest.approx(0.69 / WIDTH, rel=0.02)
    (warning,) = doctor.examine(doctor.candidate_scales(candidates(0.05, 0.5)))
    assert "7.93 of 8 candidates" in warning.text and "2.8-fold" in warning.text


def test_effective_shares_by_hand():
    half = doctor.weight_scales(np.array([1.0, 1.0, 0.0, 0.0]))
    assert (half.ess, half.weight_share) == (pytest.approx(0.5), pytest.approx(0.5))
    w = doctor.weight_scales(np.array([3.0, 1.0]))
    assert w.ess == pytest.approx(16 / 20)
    assert w.weight_share == pytest.approx(math.exp(-0.75 * math.log(0.75) - 0.25 * math.log(0.25)) / 2)


def test_targets_at_the_limit_of_float32_are_not_clipped():
    found = doctor.target_scales(np.array([1.0, 1.0000001, -2.0, 0.0], np.float32), LOW, HIGH, WIDTH)
    assert (found.clipped, found.at_ends) == (0.0, 0.75)


@pytest.mark.parametrize(
    "broken",
    [
        lambda: doctor.weight_scales(np.array([1.0, np.nan])),
        lambda: doctor.weight_scales(np.zeros(3)),
        lambda: doctor.target_scales(np.array([0.0, np.inf]), LOW, HIGH, WIDTH),
        lambda: doctor.gradient_scales("critic", np.array([1.0, np.inf]), 1.0),
        lambda: doctor.edge_scales(np.full((2, 5), np.nan)),
        lambda: doctor.drift_scales(np.full((2, 8, 7), np.nan), np.zeros((2, 8, 7))),
    ],
)
def test_what_is_not_a_number_is_said_once_for_each_measure(broken):
    measured = broken()
    names = [warning.name for warning in doctor.examine(measured)]
    assert names and len(set(names)) == len(names)
    assert set(names) == {f"{name}_not_a_number" for name in measured.numbers()}


def test_every_limit_and_every_measure_has_its_rule():
    assert {f.name for f in dataclasses.fields(doctor.Limits)} == {rule.limit for rule in doctor.RULES}
    numbers = {f.name for f in dataclasses.fields(Measured)} - {"candidates", "effective_candidates"}
    assert numbers | {"candidate_share"} == {rule.measure for rule in doctor.RULES}
    assert all(doctor.healthy(rule.measure) for rule in doctor.RULES) and doctor.healthy("candidates") == ""


@pytest.mark.parametrize("rule", doctor.RULES, ids=lambda rule: rule.name)
def test_every_setting_that_a_rule_names_is_one(rule):
    config = settings.default()
    for path in (rule.setting, *SETTING.findall(f"{rule.text} {rule.change}")):
        settings.check_key(config, path)


def test_settings_are_found_in_texts():
    assert SETTING.findall("lower it, or set awr.most_weight to 5.5; {value:.3f} of n. Then awr.temperature") == [
        "awr.most_weight",
        "awr.temperature",
    ]


def test_records_join_and_another_unit_is_refused():
    both = doctor.joined([Measured(ess=0.5, drift=0.1), Measured(ess=0.6)])
    assert both.numbers() == {"ess": 0.6, "drift": 0.1}
    with pytest.raises(ValueError, match='"second"'):
        doctor.discount_scales(0.99, "second", 300, 8, WIDTH)
