"""What a replay is refused with before anything is simulated; the videos themselves: test_rounds.py."""

import pytest

from coda_jax.loop.replay import find
from coda_jax.memory.store import FILE, Memory
from coda_jax.runtime import InputError


def test_a_run_without_rounds_keeps_no_episodes(tmp_path):
    with Memory.open(tmp_path / FILE, frozenset()):
        pass
    with pytest.raises(InputError, match=r"keeps no episodes yet: rounds keep theirs \(config.rounds.count\), an evaluation none"):
        find(tmp_path, 1)
