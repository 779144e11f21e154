"""A run with a language model: what must be there first, what is committed, and that a kill or a replay changes nothing."""

import contextlib
import json
import os
import sys
from pathlib import Path

import pytest

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.agents.llm import endpoint, keys
from coda_jax.agents.llm.chat import CallError, Message, Reply, Request
from coda_jax.agents.llm.recording import FILE
from coda_jax.evaluation.metrics import METRICS, read_metrics
from coda_jax.loop import doctor_model, estimate, language
from coda_jax.loop import workdir as folders
from coda_jax.loop.finding import NOTE, OK, PROBLEM
from coda_jax.loop.journal import read_commits
from coda_jax.loop.run import Finished, Run, opened
from coda_jax.loop.stages import Stage, run_stage
from coda_jax.loop.summary import summary_of
from coda_jax.runtime import InputError, Stopped
from tests.agents.llm import fake_server as fake
from tests.agents.llm.fake_server import FakeServer
from tests.loop.small import small_config

SECRET = "sk-only-for-the-server-0123456789"


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "CODA_JAX_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(endpoint, "_BACKOFF_S", 0.01)
    yield
    keys.forget()


def asking(url: str = "", **changes) -> settings.Config:
    config = small_config()
    config.agents.kind = "llm"
    config.agents.llm.update({"base_url": url, "model": "fake", "retries": 0, "deadline_s": 5.0, "price_out": 2.0} | changes)
    settings.validate(config)
    return config


@contextlib.contextmanager
def started(config: settings.Config, folder: Path):
    with folders.open_run(folder, config), opened(config, folder) as job:
        yield job


def ask(run: Run, *texts: str, purpose: str = "engine.write") -> list[Reply | CallError]:
    """What an agent does: it asks, and counts what became of the answers."""
    answers = run.chat.ask([Request(purpose, (Message("user", (text,)),), i, 50) for i, text in enumerate(texts)])
    for answer in answers:
        if isinstance(answer, CallError):
            run.tally.count(purpose, answer.kind.value)
            run.tally.count(purpose, "fallback")
        else:
            run.tally.count(purpose, "answered")
            run.tally.count(purpose, "accepted" if answer.text == "good" else "rejected:syntax")
    return answers


def stage(name: str, *texts: str, stop: type[BaseException] | None = None) -> Stage:
    def work(run: Run) -> Finished:
        ask(run, *texts)
        if stop is not None:
            raise stop
        return Finished({"done": len(texts), "unit": "questions"})

    return Stage(name, "round_1", work)


def both_stages(run: Run) -> None:
    for name, texts in (("diagnose", ("a", "b")), ("propose", ("c", "b", "d"))):
        if name not in run.state.done:
            run_stage(run, stage(name, *texts))


def by_question(handler) -> None:
    """Good for one question, nonsense for the others, cut off for the last."""
    text = handler.server.owner.bodies[-1]["messages"][0]["content"]
    replies = {"a": fake.says("good"), "d": fake.says("cut", reason="length")}
    replies.get(text, fake.says(f"nonsense about {text}"))(handler)


def outcome_of(folder: Path) -> dict:
    last = read_commits(folder)[-1]
    rows = [{k: v for k, v in row.items() if k != "wall_s"} for row in read_metrics(folder / METRICS)]
    return {"asked": last.asked, "agents": last.agents, "done": last.done, "rows": rows}


def test_what_is_asked_is_committed_and_reported(tmp_path, capsys):
    with FakeServer(otherwise=by_question) as server:
        config = asking(server.url)
        with started(config, tmp_path) as job:
            both_stages(job)
            summary = summary_of(job, [])
        assert [b["max_tokens"] for b in server.bodies] == [50] * 4  # the second "b" is the question of before
    found = outcome_of(tmp_path)
    asked = found["asked"]["engine.write"]
    assert (asked.tokens_in, asked.tokens_out, asked.outcomes) == (55, 35, {"answered": 4, "truncated": 1})
    assert found["agents"] == {"engine.write": {"accepted": 1, "answered": 4, "fallback": 1, "rejected:syntax": 3, "truncated": 1}}
    assert (summary.tokens, summary.tokens_in, summary.tokens_out) == (90, 55, 35)
    assert summary.questions == {"engine.write": {"answered": 4, "truncated": 1}} and summary.agents == found["agents"]
    rows = [row for row in found["rows"] if row["kind"] == "language_model"]
    assert [(row["stage"], sum(row["outcomes"].values())) for row in rows] == [("diagnose", 2), ("propose", 3)]
    assert rows[1]["counts"] == {"answered": 2, "fallback": 1, "rejected:syntax": 2, "truncated": 1}
    ledger = json.loads((tmp_path / "ledger.json").read_text())["language_model"]["round_1"]["engine.write"]
    assert (ledger["calls"], ledger["recorded"], ledger["tokens_in"], ledger["cost"]) == (4, 1, 44, pytest.approx(28 * 2e-6))
    assert "propose: fake: 3 questions, 2 answered; 54 of 500,000 tokens" in capsys.readouterr().err


def test_a_kill_changes_nothing_and_nothing_is_paid_twice(tmp_path):
    with FakeServer(otherwise=by_question) as server:
        config = asking(server.url)
        with started(config, tmp_path / "whole") as job:
            both_stages(job)
        paid = len(server.bodies)
        with started(config, tmp_path / "killed") as job:
            run_stage(job, stage("diagnose", "a", "b"))
            with pytest.raises(KeyboardInterrupt):
                run_stage(job, stage("propose", "c", "b", "d", stop=KeyboardInterrupt))
        with started(config, tmp_path / "killed") as job:
            both_stages(job)
        assert len(server.bodies) == 2 * paid
    assert outcome_of(tmp_path / "killed") == outcome_of(tmp_path / "whole")
    ledger = json.loads((tmp_path / "killed" / "ledger.json").read_text())["language_model"]["round_1"]["engine.write"]
    assert (ledger["calls"], ledger["recorded"]) == (2, 3)  # what a killed process had not booked is lost, the answers are not


@pytest.mark.parametrize("named", ["file", "folder"])
def test_a_replay_gives_the_same_run_without_server_key_or_package(tmp_path, monkeypatch, named):
    faults = iter([fake.says("good"), fake.error(500), fake.says("nonsense"), fake.reset, fake.says("x", usage=None)])
    with FakeServer(otherwise=lambda handler: next(faults)(handler)) as server, started(asking(server.url), tmp_path / "run") as job:
        both_stages(job)
    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.setitem(sys.modules, "httpx2", None)
    recording = tmp_path / "run" / FILE if named == "file" else tmp_path / "run"
    with started(asking(replay=str(recording)), tmp_path / "replay") as job:
        both_stages(job)
        kinds = [a.kind.value for a in ask(job, "never asked") if isinstance(a, CallError)]
    assert kinds == ["not_recorded"]
    assert outcome_of(tmp_path / "replay") == outcome_of(tmp_path / "run")
    assert not (tmp_path / "replay" / FILE).exists()


def test_a_fault_of_the_way_is_asked_again_after_a_kill_unless_it_was_committed(tmp_path):
    with FakeServer(fake.error(500), fake.error(503), otherwise=fake.says("good")) as server:
        config = asking(server.url, concurrency=1)
        with started(config, tmp_path) as job, pytest.raises(KeyboardInterrupt):
            run_stage(job, stage("diagnose", "a", "b", stop=KeyboardInterrupt))
        with started(config, tmp_path) as job:
            run_stage(job, stage("diagnose", "a", "b"))
            assert job.state.asked["engine.write"].outcomes == {"answered": 2}
    with FakeServer(otherwise=fake.error(500)) as server:
        config.agents.llm.base_url = server.url  # a run may go on at another address
        with started(config, tmp_path) as job:
            run_stage(job, stage("propose", "e"))
    with FakeServer() as server:
        config.agents.llm.base_url = server.url
        with started(config, tmp_path) as job:
            assert isinstance(ask(job, "e")[0], CallError) and not server.bodies


def test_what_came_before_a_substep_stands(tmp_path):
    """Pieces of work that are committed belong to the answers that they were made from."""

    def work(run: Run) -> Finished:
        ask(run, "a")
        run.begin_stage("propose", "round_1")
        run.substeps._commit({})
        raise KeyboardInterrupt

    with FakeServer(fake.error(500), otherwise=fake.says("good")) as server:
        config = asking(server.url)
        with started(config, tmp_path) as job, pytest.raises(KeyboardInterrupt):
            run_stage(job, Stage("propose", "round_1", work))
        with started(config, tmp_path) as job:
            assert not job.state.asked and not job.tally.counts  # the stage charges them when it ends
            run_stage(job, stage("propose", "a"))
            assert job.state.asked["engine.write"].outcomes == {"server": 1}


def test_a_signal_stops_at_the_next_answer_and_loses_none(tmp_path, monkeypatch):
    with FakeServer(otherwise=fake.says("good")) as server:
        config = asking(server.url, concurrency=1)
        with monkeypatch.context() as patch, started(config, tmp_path) as job:
            patch.setattr(runtime._process, "stop", True)
            patch.setattr(endpoint, "_STOP_S", 5.0)
            with pytest.raises(Stopped):
                ask(job, "a", "b", "c")
        with started(config, tmp_path) as job:
            assert all(isinstance(a, Reply) for a in ask(job, "a", "b", "c"))
        texts = [b["messages"][0]["content"] for b in server.bodies]
    assert texts.count("a") == 1


def test_the_budget_of_the_run(tmp_path):
    with FakeServer(otherwise=fake.says("good", usage=(30, 20))) as server, started(asking(server.url, tokens=130), tmp_path) as job:
        run_stage(job, stage("diagnose", *"abcdef"))
        run_stage(job, stage("propose", "g"))
        outcomes = job.state.asked["engine.write"].outcomes
    assert outcomes == {"answered": 2, "budget": 5} and len(server.bodies) == 2


def test_the_key_is_in_no_file_of_the_run(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with FakeServer(fake.echo, otherwise=fake.error(401, f"bad key {SECRET}")) as server:
        config = asking(server.url)
        language.prepare(config)
        assert "OPENAI_API_KEY" not in os.environ
        with started(config, tmp_path) as job:
            both_stages(job)
        assert server.seen[0][2]["authorization"] == f"Bearer {SECRET}"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 4 and not any(SECRET.encode() in path.read_bytes() for path in files)


def test_scripted_runs_ask_nobody(tmp_path):
    config = small_config()
    with started(config, tmp_path) as job:
        with pytest.raises(RuntimeError, match="config.agents names none"):
            _ = job.chat
        run_stage(job, Stage("propose", "round_1", lambda run: Finished({})))
    assert not (tmp_path / FILE).exists()
    assert "language_model" not in json.loads((tmp_path / "ledger.json").read_text())


@pytest.mark.parametrize(
    ("changes", "environment", "message"),
    [
        ({"model": ""}, {}, "--config.agents.llm.model=NAME, or the environment variable CODA_JAX_MODEL"),
        ({"model": "a\nb"}, {}, "config.agents.llm.model must be a name"),
        ({}, {}, "neither a server nor a key is set"),
        ({}, {"OPENAI_API_KEY": " "}, "into the environment variable OPENAI_API_KEY"),
        ({"key_variable": "MINE"}, {"OPENAI_API_KEY": SECRET}, "into the environment variable MINE"),
        ({}, {"OPENAI_API_KEY": "two words"}, "the key in OPENAI_API_KEY cannot be used"),
        ({}, {"OPENAI_BASE_URL": "localhost:8000"}, "OPENAI_BASE_URL must be the address of a server"),
        ({}, {"OPENAI_BASE_URL": "http://me:secretword@host/v1"}, "OPENAI_BASE_URL must be an address alone"),
        ({"replay": "nowhere.jsonl"}, {}, "nowhere.jsonl does not exist"),
        ({"replay": str(Path(__file__).parent)}, {}, "holds no calls.jsonl, so no language model was asked there"),
    ],
)
def test_what_is_missing_is_named(monkeypatch, changes, environment, message):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError) as error:
        language.prepare(asking(**changes))
    assert message in str(error.value) and "secretword" not in str(error.value) and SECRET not in str(error.value)


@pytest.mark.parametrize("key", [SECRET, "two words"])
@pytest.mark.parametrize(("there", "model"), [(True, "fake"), (False, "fake"), (True, "")])
def test_a_replay_takes_the_key_out_of_the_environment_too(tmp_path, monkeypatch, key, there, model):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    recording = tmp_path / FILE
    if there:
        recording.touch()
    with contextlib.nullcontext() if there and model else pytest.raises(InputError, match="does not exist|none is named"):
        language.prepare(asking(replay=str(recording), model=model))
    assert "OPENAI_API_KEY" not in os.environ


def test_what_the_environment_names(monkeypatch):
    monkeypatch.setenv("CODA_JAX_MODEL", "from-there")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")
    config = asking(model="")
    language.prepare(config)
    assert config.agents.llm.model == "from-there" and language.address_of(config) == "http://localhost:1/v1"
    assert language.address_of(asking("http://other/v1")) == "http://other/v1"
    scripted = small_config()
    language.prepare(scripted)
    assert scripted.agents.llm.model == ""


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(runtime, "package_version", lambda name: None)
    with pytest.raises(InputError, match=r"pip install '\.\[llm\]'"):
        language.prepare(asking("http://localhost:1/v1"))


def test_the_dry_run_names_model_tokens_and_price(tmp_path):
    config = asking("http://localhost:1/v1", tokens=1_000_000, price_in=1.0, price_out=4.0)
    assert language.describe_most(config).endswith("at most 1,000,000 tokens, at most 4.00")
    assert "no price set" in language.describe_most(asking("http://localhost:1/v1", price_out=0.0))
    assert "none of them paid" in language.describe_most(asking(replay="x"))
    config.agents.engine = "scripted"
    assert "(diagnoser, potentials)" in estimate.describe(config, tmp_path)
    assert "language model  none: 0 tokens" in estimate.describe(small_config(), tmp_path)


def test_a_dry_run_says_what_is_missing_and_is_no_error(tmp_path):
    config = asking(price_out=4.0)
    language.prepare(config, dry_run=True)
    said = estimate.describe(config, tmp_path)
    assert (
        "at most 500,000 tokens, at most 2.00" in said and "MISSING         agents ask fake, but neither a server nor a key is set" in said
    )
    assert "MISSING" not in estimate.describe(asking("http://localhost:1/v1"), tmp_path)
    with pytest.raises(InputError, match="holds no calls"):
        language.prepare(asking(replay=str(tmp_path)), dry_run=True)


def test_the_watch_speaks_now_and_then():
    said, now = [], [0.0]
    watch = language.Watch("fake", said.append, lambda: now[0])
    for answers, at in ((1, 100.0), (2, 101.0), (3, 115.0), (4, 116.0), (5, 130.0)):
        now[0] = at
        watch(answers, 5)
    assert said == ["fake: 3/5 answers, 15 s"]


def test_the_doctor_speaks_to_the_server_only_where_a_model_is_asked(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with FakeServer(otherwise=fake.says('{"sum": 5}')) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        idle = doctor_model.language_model(small_config())
        assert idle.level == OK and "OPENAI_API_KEY is set" in idle.text and not server.seen
        found = doctor_model.language_model(asking())
        assert found.level == OK and "listed among 1" in found.text and "fits a schema" in found.text
        assert server.bodies[0]["max_tokens"] <= 64 and len(server.bodies) == 1
        named = doctor_model.language_model(asking(model="org/llama3:8b@q4"))
        assert named.text.startswith(f"org/llama3:8b@q4 at {server.url}, not among the 1 models listed")
        assert SECRET not in repr(found) + repr(idle)


@pytest.mark.parametrize(
    ("behaviour", "level", "text"),
    [
        (fake.says("five"), NOTE, "schema"),
        (fake.says("{", reason="length"), NOTE, "truncated"),
        (fake.error(401), PROBLEM, "request"),
        (fake.error(500), PROBLEM, "server"),
    ],
)
def test_the_doctor_says_what_is_wrong(behaviour, level, text):
    with FakeServer(otherwise=behaviour) as server:
        server.listing = fake.error(404)
        found = doctor_model.language_model(asking(server.url))
    assert found.level == level and f"({text}, " in found.text and "lists no models" in found.text and found.remedy


def test_the_doctor_on_what_cannot_work(tmp_path):
    with FakeServer() as server:
        url = server.url
    gone = doctor_model.language_model(asking(url))
    assert gone.level == PROBLEM and "does not answer" in gone.text and "is the server running" in gone.remedy
    assert doctor_model.language_model(asking(model="")).level == PROBLEM
    (tmp_path / FILE).write_text("")
    assert "0 answers recorded" in doctor_model.language_model(asking(replay=str(tmp_path))).text


@pytest.mark.parametrize(
    ("address", "clear"),
    [("http://127.0.0.1:8/v1", False), ("http://localhost/v1", False), ("https://a.b/v1", False), ("http://a.b/v1", True)],
)
def test_keys_in_clear_are_noted(address, clear):
    assert doctor_model._in_clear(address) is clear


def test_a_run_of_another_model_is_another_run(tmp_path):
    config = asking("http://localhost:1/v1")
    with folders.open_run(tmp_path, config):
        pass
    config.agents.llm.update({"base_url": "http://localhost:2/v1", "deadline_s": 9.0, "concurrency": 1, "retries": 2})
    assert folders.check(tmp_path, config)
    config.agents.llm.model = "other"
    with pytest.raises(InputError, match="agents.llm.model: 'fake' -> 'other'"):
        folders.check(tmp_path, config)
