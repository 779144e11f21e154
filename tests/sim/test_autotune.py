import json

import pytest

from coda_jax.sim.autotune import best_worlds, remember, remembered


def test_takes_the_fewest_beyond_which_little_is_gained():
    rates = {64: 100.0, 256: 350.0, 1024: 500.0, 4096: 520.0}
    tried = []

    def rate(worlds):
        tried.append(worlds)
        return rates[worlds]

    assert best_worlds(rate, [64, 256, 1024, 4096, 16384]) == (1024, rates)
    assert tried == [64, 256, 1024, 4096]  # stops at the first small gain
    assert best_worlds(rate, [64])[0] == 64


def test_memory_ends_the_search_and_is_an_error_only_at_the_first():
    def rate(worlds):
        if worlds > 256:
            raise MemoryError("too large")
        return float(worlds)

    assert best_worlds(rate, [64, 256, 1024]) == (256, {64: 64.0, 256: 256.0})
    with pytest.raises(MemoryError, match="too large"):
        best_worlds(rate, [1024, 4096])
    with pytest.raises(ValueError, match="no numbers"):
        best_worlds(rate, [])


def test_what_was_found_is_remembered_and_nonsense_is_not_believed(tmp_path):
    path = tmp_path / "deep" / "worlds.json"
    assert remembered(path, "a") is None
    remember(path, "a", 512)
    remember(path, "b", 64)
    assert remembered(path, "a") == 512 and remembered(path, "b") == 64 and remembered(path, "c") is None
    for text in ("[", "[1]", json.dumps({"a": "512"}), json.dumps({"a": True}), json.dumps({"a": -4}), json.dumps({"a": 1 << 40})):
        path.write_text(text)
        assert remembered(path, "a") is None
    remember(path, "a", 128)
    assert remembered(path, "a") == 128
