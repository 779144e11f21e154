"""What stages read back from memory."""

import types

import pytest

from coda_jax import config as settings
from coda_jax.loop import parts
from coda_jax.loop.rounds import propose, recall
from coda_jax.loop.rounds.variants import Base
from coda_jax.memory.store import Memory
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generate import sample_spec
from tests.memory import made


@pytest.fixture
def memory(tmp_path):
    base = made.scene(0)
    with Memory.open(tmp_path / "memory.sqlite") as memory:
        with memory.transaction() as t:
            t.add(base)
            t.add(made.mode())
            t.add(made.edited(1, base, mode_id=made.mode().mode_id, round=1))
            for purpose, successes in (("search", (False, True)), ("control_target", (False,)), ("practice", (True, True, True, True))):
                for repeat, success in enumerate(successes):
                    t.add(made.episode(1, purpose=purpose, repeat=repeat, success=success))
            t.commit("r1", 0, "{}")
        yield memory


def test_the_latest_success_of_a_mode_is_not_that_of_practice(memory):
    """It may begin inside a demonstration, and tells nothing of how hard the scenes are."""
    assert recall.latest_success(memory, made.mode().mode_id, 0.4, 0.1) == (1, 3)
    with memory.transaction() as t:
        t.add(made.episode(1, round=2, purpose="practice", success=True))
    assert recall.latest_success(memory, made.mode().mode_id, 0.4, 0.1) == (1, 3)


def test_scenes_of_another_level_do_not_count(memory):
    assert recall.latest_success(memory, made.mode().mode_id, 0.8, 0.1) == (0, 0)


@pytest.mark.parametrize(("strategy", "traces", "used"), [("coda", True, True), ("coda", False, False), ("coda_no_memory", True, False)])
def test_traces_are_priors_of_strategies_that_remember_and_can_be_switched_off(strategy, traces, used, memory):
    config = settings.default()
    config.strategy, config.engine.traces = strategy, traces
    assert recall.has_traces(config) == used
    with memory.transaction() as t:
        for _ in range(8):
            t.add(made.construction(verb="mass@1", repair=None, accepted=False))
    run = types.SimpleNamespace(config=config, memory=memory, train=Catalogue("train"))
    mode = made.mode("target_mass_kg:high", factor="ATTRIBUTE", phase="transport")
    bases = [Base(0, sample_spec(run.train, "pick_place", "id", "train", 0))]
    (text, *_) = [t for t in propose._texts(run, mode, bases, parts.engine_of(run.train)) if '"mass"' in t]  # type: ignore[arg-type]
    assert ("high=0.5" in text) == used
