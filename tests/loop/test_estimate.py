"""What ``--dry_run`` promises, beside a run that was measured."""

import json

import pytest

from benchmarks import estimate as benchmark
from coda_jax import config as settings
from coda_jax.evaluation.metrics import atomic_write
from coda_jax.loop import estimate, requirements
from coda_jax.loop.round_budget import WAVES, round_rollouts
from coda_jax.scenes.libero import families

# the README's quickstart on two idle cores of an x86 server: wall seconds by stage
MEASURED = {"warm-up": 14.8, "scenes": 4.0, "demonstrations": 3.1, "clone": 44.9, "evaluate": 30.0, "3 rounds": 351.0}


def quickstart() -> settings.Config:
    config = settings.default("cpu")
    config.rounds.count = 3
    config.awr.improve = "filtered"  # as it was measured
    return config


def expected(config: settings.Config, cores: int = 2) -> dict[str, float]:
    return estimate.stage_seconds(config, 250, 20, requirements.products_of_a_chunk(config), cores)


def test_the_quickstart_takes_about_what_was_measured():
    found = expected(quickstart())
    assert found.keys() == MEASURED.keys()
    for name, seconds in found.items():
        assert seconds == pytest.approx(MEASURED[name], rel=0.35), name
    assert 1 <= sum(found.values()) / sum(MEASURED.values()) < 1.15  # its rounds did not use all that they may ask for


def test_time_follows_the_work_and_the_cores():
    config = quickstart()
    one, four, many = (expected(config, cores) for cores in (1, 4, 1_000))
    assert one["clone"] / four["clone"] == pytest.approx(2.5)
    assert many["clone"] > one["clone"] / 5  # what is serial stays
    assert one["warm-up"] == four["warm-up"]
    config.clone.steps, config.horizon.pick_place, config.rounds.count = 2 * config.clone.steps, config.horizon.pick_place // 2, 0
    other = expected(config, 1)
    assert other["clone"] == pytest.approx(2 * one["clone"])
    assert other["demonstrations"] == pytest.approx(one["demonstrations"] / 2)
    assert other["evaluate"] == pytest.approx(one["evaluate"] / 4)  # once, half as long
    assert "3 rounds" not in other
    config.rounds.count = 1
    assert {"1 round"} == expected(config).keys() - other.keys()
    baseline = quickstart()
    baseline.strategy = "sft"
    assert expected(baseline, 1)["3 rounds"] < one["3 rounds"] / 2


def test_a_critic_costs_its_updates_and_its_table(tmp_path):
    plain, config = quickstart(), quickstart()
    config.awr.improve, config.rounds.practice = "awr", 0
    weighted = expected(config, 1)["3 rounds"] - expected(plain, 1)["3 rounds"]
    updates = expected(plain, 1)["clone"] * plain.schedule.most_updates / plain.clone.steps
    assert weighted == pytest.approx(3 * updates / 3 + estimate.critic_seconds(config))  # a third more for each of three rounds' updates
    config.awr.improve = "frozen"  # one block a round is enough: it is measured twice
    plain.schedule.most_updates = plain.rounds.steps
    updates = expected(plain, 1)["clone"] * plain.schedule.most_updates / plain.clone.steps
    frozen = expected(config, 1)["3 rounds"] - expected(plain, 1)["3 rounds"]
    assert frozen == pytest.approx(estimate.critic_seconds(config) - 3 * updates)
    config.awr.improve = "awr"
    config.critic.steps, config.critic.width, config.critic.layers, config.critic.batch, config.experience.rows = 500, 64, 4, 64, 65_536
    # 500 updates take 9 s; rows: 100 seeds, then 1,984 recorded rollouts and 64 demonstrations a round of 30 decisions, at most 65,536
    rows = 64_440 + 65_536 + 65_536
    assert estimate.critic_seconds(config) == pytest.approx(3 * 9 + rows * 2.3e-4)
    assert expected(config)["warm-up"] == expected(plain)["warm-up"] + 11  # s: its executables
    line = "\ncritic          "
    assert line in estimate.describe(config, tmp_path) and line not in estimate.describe(plain, tmp_path)


def test_memory_of_the_critic_is_counted():
    plain, config = quickstart(), quickstart()
    config.awr.improve = "awr"
    before = requirements.memory_bytes(config)
    assert before > requirements.memory_bytes(plain) + requirements.table_bytes(config)
    assert requirements.table_bytes(config) == pytest.approx(config.experience.rows * 2_000, rel=0.1)  # 1.9 kB a row were measured
    config.experience.rows //= 2
    assert requirements.memory_bytes(config) < before


def test_a_run_is_set_beside_its_estimate(tmp_path):
    cost = {"wall_s": 2.0, "cpu_s": 3.0, "simulated_s": 0.0, "rollouts": 7, "compiles": 0}
    atomic_write(tmp_path / "config.json", json.dumps({"config": settings.to_dict(quickstart())}).encode())
    atomic_write(tmp_path / "ledger.json", json.dumps({"starts": 1, "stages": {"clone": cost, "round_1": cost, "round_2": cost}}).encode())
    rows = {row["name"]: row for row in benchmark.compared(tmp_path, 2)}
    assert rows["clone"]["wall_s"] == 2.0 and rows["clone"]["estimate_s"] == pytest.approx(expected(quickstart())["clone"], abs=0.1)
    assert (rows["3 rounds"]["wall_s"], rows["3 rounds"]["rollouts"]) == (4.0, 14)
    assert "wall_s" not in rows["scenes"]


def of_strategy(name: str, **changes):
    config = settings.default()
    config.rounds.count, config.strategy = 1, name
    for path, value in changes.items():
        settings.override(config, path.replace("__", "."), str(value))
    settings.validate(config)
    return config


def test_rollouts_of_a_round_by_hand():
    found = round_rollouts(of_strategy("coda"))
    # 48 bases and variants twice; 20 failures of 5 arms, 8 each; 4 programs of 4 levels, 8 scenes twice; 2 tests of 32 pairs, 8 each;
    # 32 environments and as many controls, 4 each, before and after two blocks; 12 more of each environment while its band is open;
    # 4 of each environment in practice
    assert found == {
        "collect": 192,
        "diagnose": 800,
        "search": 256,
        "control": 1024,
        "measure": 3 * 64 * 4,
        "band": 3 * 32 * 12,
        "practice": 32 * 4,
    }
    assert round_rollouts(of_strategy("coda", schedule__kind="fixed"))["band"] == 32 * 12


def test_every_block_of_training_is_measured():
    one = round_rollouts(of_strategy("uniform", schedule__most_updates=1500))
    three = round_rollouts(of_strategy("uniform", schedule__most_updates=4500))
    assert (one["measure"], three["measure"]) == (2 * 32 * 4, 4 * 32 * 4)  # control variants come from control tests alone


def test_every_wave_of_the_search_in_the_band_is_counted():
    assert round_rollouts(of_strategy("success_rate"))["choose"] == WAVES * 48 * 4


def test_the_time_grows_with_the_blocks(tmp_path):
    lines = [estimate.describe(of_strategy("coda", schedule__most_updates=n), tmp_path).splitlines() for n in (1500, 3000)]
    assert "at most 2 x 1,500 updates" in "\n".join(lines[1])
    assert lines[0][-1] != lines[1][-1] and "all the rollouts and updates that rounds may ask for" in lines[1][-1]


@pytest.mark.parametrize("strategy", settings.STRATEGIES)
def test_every_strategy_has_an_estimate(strategy, tmp_path):
    config = of_strategy(strategy)
    total = sum(round_rollouts(config).values())
    assert f"at most {total:,} rollouts a round" in estimate.describe(config, tmp_path)


def test_compiling_mjx_is_not_promised(tmp_path):
    config = quickstart()
    assert "compiling MJX" not in estimate.describe(config, tmp_path)
    config.sim.backend = "mjx"
    assert "without compiling MJX, which takes a CPU minutes" in estimate.describe(config, tmp_path)


@pytest.mark.libero
def test_compiling_mjx_is_not_promised_on_libero_either(tmp_path):
    config = settings.default("cpu")
    config.family, config.evaluate.suites, config.rounds.count = "libero_goal", ("pos",), 0
    families.add()
    try:
        assert "compiling MJX" not in estimate.describe(config, tmp_path)
        config.sim.backend = "mjx"
        text = estimate.describe(config, tmp_path)
    finally:
        families.remove()
    assert "without compiling MJX, which takes a CPU minutes" in text and "(mjx)" in text
