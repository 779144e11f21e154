"""What stages read back from memory."""

import pytest

from coda_jax.loop.rounds import recall
from coda_jax.memory.store import Memory
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
