"""A run whose data engine is a language model: its programs and scenes are used, what is refused is counted, a replay needs no server."""

import json
from collections import Counter
from pathlib import Path

import pytest

from coda_jax import main as command_line
from coda_jax.evaluation.metrics import read_metrics, read_summary
from coda_jax.loop import coevolve
from coda_jax.loop import workdir as folders
from coda_jax.loop.journal import read_commits
from coda_jax.memory.modes import current_modes
from coda_jax.memory.programs import programs_of
from coda_jax.memory.rows import Scene
from coda_jax.memory.store import FILE, Memory
from coda_jax.scenes.spec import from_json
from tests.agents.llm import fake_server as fake
from tests.agents.llm.transcripts import load
from tests.loop.small import outcome

NANO = Path(__file__).parents[2] / "experiments" / "nano.py"
ROLES = '[role("target", affordance="graspable")]'
EDITS = {"task": "paraphrase", "spatial": "yaw", "attributes": "mass"}
SCENES = [t.replies[-1] for t in load("scene") if t.about["family"] == "pick_place"]


def _program(factor: str) -> str:
    return f'result = generation(factor="{factor}", roles={ROLES}, edits=[edit("{EDITS[factor]}", low=0.3, high=1.0)])\n'


class Model:
    """Tries a program before it gives it, knows the scenes of the transcripts, and every second time talks nonsense."""

    def __init__(self) -> None:
        self.questions = Counter()

    def __call__(self, handler: fake.Handler) -> None:
        messages = handler.server.owner.seen[-1][3]["messages"]
        said = [json.dumps(m.get("content")) for m in messages]
        number = 2 if "number 2 of" in said[1] else 1
        if "You write scenes" in said[0]:
            self.questions["scene"] += 1
            # which of them depends on what is asked alone
            wave = len(said[1]) % len(SCENES)
            answer = fake.says(SCENES[wave] if number == 1 else "Perhaps a cup?")
        else:
            self.questions["generation"] += 1
            names = {"TASK": "task", "SPATIAL": "spatial", "ATTRIBUTE": "attributes"}
            factor = next(own for name, own in names.items() if f"difficulty: {name} " in said[1])
            if number == 2:
                answer = fake.says("```python\nresult = generation(edits=[edit('shake')])\n```")
            elif messages[-1]["role"] == "user" and len(messages) == 2:
                answer = fake.calls("try_program", json.dumps({"program": _program(factor), "levels": [0.5]}))
            else:
                answer = fake.says(f"It follows.\n```python\n{_program(factor)}```")
        answer(handler)


@pytest.fixture(scope="module")
def config():
    config = command_line.load_config(str(NANO))
    config.rounds.count, config.allocation.novelty = 1, 0.5
    config.agents.engine, config.agents.llm.model = "llm", "fake"
    config.agents.llm_engine.rollouts = 4
    config.evaluate.suites, config.evaluate.scenes = ("id",), 2
    return config


def _run(config, folder: Path) -> Path:
    with folders.open_run(folder, config):
        coevolve.run(config, folder, dry_run=False)
    return folder


@pytest.fixture(scope="module")
def model():
    return Model()


@pytest.fixture(scope="module")
def whole(config, model, tmp_path_factory):
    with fake.FakeServer(otherwise=model) as server:
        config.agents.llm.base_url = server.url
        return _run(config, tmp_path_factory.mktemp("llm"))


@pytest.fixture
def memory(whole):
    with Memory.reading(whole / FILE) as opened:
        yield opened


def test_every_answer_became_something_that_is_counted(whole, model):
    counts = read_commits(whole)[-1].agents
    write, scene = counts["engine.write"], counts["engine.scene"]
    assert model.questions["generation"] and model.questions["scene"]
    for own in (write, scene):
        ended = sum(n for what, n in own.items() if what.startswith("rejected:") or what in ("accepted", "no_program"))
        tools = own.get("tool:try_program", 0)
        assert own["answered"] == ended + tools
    assert write["accepted"] >= 1 and write["rejected:invalid_generation"] >= 3 and write["tool:try_program"] >= 1
    assert scene["accepted"] >= 1


def test_programs_of_the_model_are_searched_in_their_canonical_text(memory):
    found = [p for m in current_modes(memory) for p in programs_of(memory, m.mode_id, "generation")]
    verbs = {verb for p in found for verb in EDITS.values() if f'edit("{verb}", low=0.3, high=1.0)' in p.text}
    assert verbs and all("It follows" not in p.text for p in found)


def test_scenes_of_the_model_are_environments_with_demonstrations(whole, memory):
    written = [s for s in memory.rows(Scene) if s.origin == "novelty" and s.base_scene_id is None]
    assert written and all(s.verbs == () and s.mode_id is None for s in written)
    environments = {e.scene_id for e in read_commits(whole)[-1].environments["1"]}
    assert {s.scene_id for s in written} <= environments
    assert all(from_json(s.spec).spatial.layout == "free" for s in written)


def test_nothing_was_compiled_for_it(whole):
    assert read_summary(whole).compiles_per_round == [0] * len(read_summary(whole).compiles_per_round)


@pytest.mark.slow
def test_a_replay_is_the_same_run_without_a_server(config, whole, tmp_path):
    again = config.copy_and_resolve_references()
    again.agents.llm.replay = str(whole / "calls.jsonl")
    again.agents.llm.base_url = "http://127.0.0.1:9/v1"
    _run(again, tmp_path / "again")
    first, second = outcome(whole), outcome(tmp_path / "again")
    assert first["last"] == second["last"] and first["records"] == second["records"]
    assert [r for r in first["rows"] if r["kind"] == "program"] == [r for r in second["rows"] if r["kind"] == "program"]


def test_tries_are_rows_of_nobody(whole, memory):
    """Quick rollouts choose among programs; they are neither stored nor learned from."""
    assert any(r["kind"] == "stage" and "propose" in r["name"] for r in read_metrics(whole / "metrics.jsonl"))
    assert not memory.select("SELECT 1 FROM episodes WHERE purpose = 'try'")


@pytest.mark.slow
def test_nonsense_alone_leaves_the_run_to_scripted_engines(config, whole, tmp_path):
    again = config.copy_and_resolve_references()
    again.agents.llm.tools = False
    with fake.FakeServer(otherwise=fake.says("the the the (the) the")) as server:
        again.agents.llm.base_url = server.url
        _run(again, tmp_path / "nonsense")
    counts = read_commits(tmp_path / "nonsense")[-1].agents
    for own in (counts["engine.write"], counts["engine.scene"]):
        assert own["fallback"] >= 1 and "accepted" not in own
        refused = sum(n for what, n in own.items() if what.startswith("rejected:") or what == "no_program")
        assert refused == own["answered"] > 0
    assert len(read_commits(tmp_path / "nonsense")[-1].environments["1"]) == config.rounds.environments
