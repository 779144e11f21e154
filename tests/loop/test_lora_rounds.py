"""Rounds that train adapters: what is stored, what acts, and that a killed round goes on."""

import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

from coda_jax import main as command_line
from coda_jax.evaluation.metrics import read_summary
from coda_jax.learning import lora
from coda_jax.loop import cloning, coevolve, evaluate
from coda_jax.loop import workdir as folders
from coda_jax.loop.checkpoint import Checkpoints
from coda_jax.loop.journal import read_commits
from coda_jax.memory.store import FILE, Memory
from coda_jax.runtime import InputError
from tests.loop.small import outcome

NANO = Path(__file__).parents[2] / "experiments" / "nano.py"
CLONED = 100  # updates of cloning; the round adds 50


@pytest.fixture(scope="module")
def config():
    config = command_line.load_config(str(NANO))
    config.strategy = "sft"
    config.rounds.count = 1
    config.rounds.learning_rate = 0.01
    config.schedule.kind, config.schedule.most_updates = "fixed", 50
    config.checkpoint.every, config.checkpoint.keep = 25, 3
    config.evaluate.suites, config.evaluate.films = ("id",), 0
    config.lora.rank, config.lora.targets = 4, ("net/head/.*", "net/trunk/1")
    return config


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lora")
    with folders.open_run(folder, config):
        coevolve.run(config, folder, dry_run=False)
    return folder


def state(config, folder, step):
    with Checkpoints(folder / "checkpoints", config.checkpoint.keep) as store:
        return store.restore(cloning.template(config, step), step).tree


def equal(a, b) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def test_the_round_trains_adapters_and_keeps_the_clone(config, whole):
    clone, half, trained = (state(config, whole, CLONED + steps) for steps in (0, 25, 50))
    assert lora.targeted(clone.params) == []
    assert lora.targeted(trained.params) == ["net/head/0", "net/head/1", "net/head/2", "net/trunk/1"]
    for base, now in ((clone.ema["net"], trained.params["net"]), (half.params["net"], trained.params["net"])):
        assert equal(base["head"][1]["w"], now["head"][1]["w"]) and equal(base["words"], now["words"])
    moved = [tree["net"]["head"][1]["lora_b"] for tree in (half.params, trained.params, trained.ema)]
    assert all(np.abs(b).max() > 0 for b in moved) and not equal(moved[0], moved[1])
    assert not equal(lora.merged(trained.ema)["net"], clone.ema["net"])


def test_nothing_compiles_in_a_round_with_adapters(whole):
    assert read_summary(whole).compiles_per_round == [0, 0]


@pytest.mark.parametrize("at", [CLONED, CLONED + 25])
def test_a_round_with_adapters_goes_on_after_a_kill(at, config, whole, tmp_path):
    copy = Path(shutil.copytree(whole, tmp_path / "copy"))
    commits = read_commits(copy)
    with Memory.open(copy / FILE) as memory:
        memory.truncate(1 + max(i for i, c in enumerate(commits) if (c.checkpoint or 0) <= at))
    assert read_commits(copy)[-1].checkpoint == at
    coevolve.run(config, copy, dry_run=False)
    assert outcome(copy) == outcome(whole)
    assert equal(state(config, copy, CLONED + 50), state(config, whole, CLONED + 50))


def test_evaluation_acts_with_the_merged_policy(config, whole, tmp_path):
    copy = Path(shutil.copytree(whole, tmp_path / "copy"))
    again = config.copy_and_resolve_references()
    again.evaluate.scenes = 2
    evaluate.run(again, copy, dry_run=False)
    assert read_summary(copy / "evaluations" / "validation-e4-id-2scenes").suites["pick_place"]["id"]["after"].n == 2


def test_targets_that_match_nothing_end_the_run_before_it_begins(config, tmp_path):
    wrong = config.copy_and_resolve_references()
    wrong.lora.targets = ("net/tail",)
    with folders.open_run(tmp_path, wrong), pytest.raises(InputError, match=r"net/tail.*there are: net/clutter/0"):
        coevolve.run(wrong, tmp_path, dry_run=False)
    assert read_commits(tmp_path) == [] or not read_commits(tmp_path)[-1].done
