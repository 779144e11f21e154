"""The whole loop with every agent a real language model that is too small for it: it goes on, counts, keeps its budget, and replays."""

from pathlib import Path

import pytest

from coda_jax import main as command_line
from coda_jax.evaluation.metrics import read_summary
from coda_jax.loop import coevolve
from tests.agents.llm import local_model as model
from tests.agents.llm.local_model import local_model
from tests.loop.small import outcome

pytestmark = pytest.mark.slow
__all__ = ["local_model"]
NANO = Path(__file__).parents[2] / "experiments" / "nano.py"
TOKENS = 40_000


def _config(base_url: str, replay: str = ""):
    config = command_line.load_config(str(NANO))
    config.evaluate.suites = ("id",)
    config.agents.kind = "llm"
    llm = config.agents.llm
    llm.base_url, llm.model, llm.replay = base_url, model.NAME, replay
    llm.tokens, llm.answer_tokens, llm.concurrency, llm.pictures = TOKENS, 256, 1, False
    return config


def test_a_model_of_nonsense_ends_its_run_and_a_replay_is_the_same(local_model, tmp_path):
    for name in ("first", "again"):
        (tmp_path / name).mkdir()
    coevolve.run(_config(local_model), tmp_path / "first", dry_run=False)
    summary = read_summary(tmp_path / "first")
    assert 0 < summary.tokens <= TOKENS and set(summary.compiles_per_round) == {0}
    for purpose in ("engine.write", "diagnoser", "potential.write"):
        asked = summary.questions[purpose]
        assert sum(asked.values()) > 0
    fallbacks = sum(counts.get("fallback", 0) for counts in summary.agents.values())
    assert fallbacks > 0 and "a scripted agent did the work" in (tmp_path / "first" / "report.html").read_text("utf-8")
    coevolve.run(_config("http://127.0.0.1:9/v1", str(tmp_path / "first")), tmp_path / "again", dry_run=False)
    first, again = outcome(tmp_path / "first"), outcome(tmp_path / "again")
    for found in (first, again):
        found["last"].pop("calls_bytes", None)
    assert first["last"] == again["last"] and first["records"] == again["records"]
