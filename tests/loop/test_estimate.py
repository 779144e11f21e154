"""What --dry_run promises: numbers of rollouts worked by hand for the default budgets."""

import pytest

from coda_jax import config as settings
from coda_jax.loop import estimate
from coda_jax.loop.rounds.environments import WAVES


def of_strategy(name: str, **changes):
    config = settings.default()
    config.rounds.count, config.strategy = 1, name
    for path, value in changes.items():
        settings.override(config, path.replace("__", "."), str(value))
    settings.validate(config)
    return config


def test_rollouts_of_a_round_by_hand():
    found = estimate.round_rollouts(of_strategy("coda"))
    # 48 bases and variants twice; 20 failures of 5 arms, 8 each; 4 programs of 4 levels, 8 scenes twice; 2 tests of 32 pairs, 8 each;
    # 32 environments and as many controls, 4 each, before and after two blocks
    assert found == {"collect": 192, "diagnose": 800, "search": 256, "control": 1024, "measure": 3 * 64 * 4}


def test_every_block_of_training_is_measured():
    one = estimate.round_rollouts(of_strategy("uniform", schedule__most_updates=1500))
    three = estimate.round_rollouts(of_strategy("uniform", schedule__most_updates=4500))
    assert (one["measure"], three["measure"]) == (2 * 32 * 4, 4 * 32 * 4)  # control variants come from control tests alone


def test_every_wave_of_the_search_in_the_band_is_counted():
    assert estimate.round_rollouts(of_strategy("success_rate"))["choose"] == WAVES * 48 * 4


def test_the_time_grows_with_the_blocks(tmp_path):
    lines = [estimate.describe(of_strategy("coda", schedule__most_updates=n), tmp_path).splitlines() for n in (1500, 3000)]
    assert "2 x 1,500 updates at most" in "\n".join(lines[1])
    assert lines[0][-1] != lines[1][-1] and lines[1][-1].startswith("time            at most about")


@pytest.mark.parametrize("strategy", settings.STRATEGIES)
def test_every_strategy_has_an_estimate(strategy, tmp_path):
    config = of_strategy(strategy)
    total = sum(estimate.round_rollouts(config).values())
    assert f"at most {total:,} rollouts a round" in estimate.describe(config, tmp_path)
