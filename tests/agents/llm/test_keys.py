"""A key shows itself to the server it belongs to, and nowhere else."""

import copy
import json
import logging
import os
import pickle
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from coda_jax.agents.llm import keys
from coda_jax.agents.llm.chat import CallError, Message, Reply, Request
from coda_jax.agents.llm.endpoint import Endpoint, EndpointSettings
from coda_jax.programs.limits import Limits
from coda_jax.programs.sandbox import Sandbox
from tests.agents.llm import fake_server as fake
from tests.agents.llm.fake_server import FakeServer

SECRET = "sk-never-seen-0123456789abcdef"
VARIABLE = "OPENAI_API_KEY"


@pytest.fixture
def key(monkeypatch):
    """The key in the environment, as a user sets it; log records are made as before afterwards."""
    factory = logging.getLogRecordFactory()
    monkeypatch.setenv(VARIABLE, f"{SECRET}\n")
    taken = keys.take(VARIABLE)
    assert taken is not None
    yield taken
    keys.forget()
    logging.setLogRecordFactory(factory)


def test_it_is_taken_out_of_the_environment_and_kept(key):
    assert VARIABLE not in os.environ
    assert key.reveal() == SECRET
    again = keys.take(VARIABLE)
    assert again is not None and again.reveal() == SECRET
    assert keys.take("SOME_OTHER_KEY") is None


@pytest.mark.skipif(sys.platform != "linux", reason="the switch is Linux's")
def test_other_processes_do_not_look_into_this_one():
    taken = "os.environ['K'] = 'k' * 20; keys.take('K'); print(ctypes.CDLL(None).prctl(3, 0))"
    shown = f"import ctypes, os; from coda_jax.agents.llm import keys; {taken}"
    assert subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True).stdout.strip() == "0"


def test_no_child_gets_it(key):
    shown = subprocess.run([sys.executable, "-c", "import os; print(dict(os.environ))"], capture_output=True, text=True, check=True).stdout
    assert SECRET not in shown


def test_the_sandbox_does_not_hold_it(key, monkeypatch):
    monkeypatch.setenv("ANOTHER_SECRET", SECRET)  # even one that nobody took out
    with Sandbox(Limits(10_000, 2.0, 1.0, 2**26, 100, 1000, 1000)) as sandbox:
        assert sandbox.evaluate("result = 2") == 2
        workers = psutil.Process().children(recursive=True)
        assert workers
        for worker in workers:
            for name in ("environ", "cmdline"):
                assert SECRET.encode() not in Path(f"/proc/{worker.pid}/{name}").read_bytes()


def test_it_has_no_other_form(key):
    shown = [repr(key), str(key), f"{key}", f"{key!r:>40}", str([key]), str({"key": key})]
    assert not any(SECRET in text for text in shown)
    for copied in (pickle.dumps, copy.copy, copy.deepcopy, json.dumps):
        with pytest.raises(TypeError):
            copied(key)
    assert not hasattr(key, "__dict__")


@pytest.mark.parametrize("value", ["two words", "line\nend", "schl\u00fcssel", "a\x00b"])
def test_one_that_cannot_be_sent_is_refused_without_showing_it(monkeypatch, value):
    environ = {VARIABLE: value}  # the real one cannot hold all of them
    monkeypatch.setattr(os, "environ", environ)
    with pytest.raises(keys.KeyFormatError, match=VARIABLE) as error:
        keys.take(VARIABLE)
    assert value not in str(error.value) and not environ
    keys.forget()


def test_an_empty_variable_is_no_key(monkeypatch):
    monkeypatch.setenv(VARIABLE, " ")
    assert keys.take(VARIABLE) is None


def test_logs_do_not_show_it(key, caplog):
    class Holder:
        def __repr__(self) -> str:
            return f"<holds {SECRET}>"

    with caplog.at_level(logging.DEBUG):
        log = logging.getLogger("httpcore2.http11.deep")
        log.debug("header %s", f"Bearer {SECRET}")
        log.debug(f"in the text {SECRET}")
        log.debug("%r and %s", Holder(), [b"Bearer " + SECRET.encode()])
        log.debug("%(a)s", {"a": SECRET})
        log.debug("too few %s %s", SECRET)
        try:
            raise ValueError(f"trace of {SECRET}")
        except ValueError:
            log.exception("failed")
        log.debug("nothing of it")
    shown = caplog.text + "".join(logging.Formatter().format(r) + str(r.args) + str(r.msg) for r in caplog.records)
    assert SECRET not in shown
    assert caplog.records[0].getMessage() == f"header Bearer {keys.HIDDEN}"
    assert "ValueError: trace of [key]" in caplog.text and "nothing of it" in caplog.text


def _question(text: str = "hello") -> Request:
    return Request("test", (Message("user", (text,)),), 0, 10)


def _endpoint(server: FakeServer, key: keys.Key) -> Endpoint:
    return Endpoint(EndpointSettings(server.url, "fake", 0.5, 5.0, 0, 2, 100_000), key)


def test_the_server_gets_it_and_the_libraries_log_all_but_it(key, caplog):
    with caplog.at_level(logging.DEBUG), FakeServer(otherwise=fake.echo) as server:
        for name in ("openai", "httpx2", "httpcore2"):
            caplog.set_level(logging.DEBUG, name)
        with _endpoint(server, key) as endpoint:
            [answer] = endpoint.ask([_question()])
        assert server.seen[0][2]["authorization"] == f"Bearer {SECRET}"
    assert isinstance(answer, Reply) and answer.text == f"hello Bearer {keys.HIDDEN}"
    logged = {record.name.partition(".")[0] for record in caplog.records}
    assert {"openai", "httpx2", "httpcore2"} <= logged
    assert SECRET not in caplog.text and not any(SECRET in str(r.args) for r in caplog.records)


@pytest.mark.parametrize(
    "behaviour",
    [
        fake.error(401, f"Incorrect API key provided: {SECRET}"),
        fake.error(500, SECRET * 3),
        fake.gives(f"<html>{SECRET}".encode(), 400),
        fake.gives(b"", 302, location=f"http://elsewhere/?key={SECRET}"),
        fake.says(None, refusal=SECRET),
        fake.calls(SECRET, "{}"),
    ],
)
def test_errors_do_not_show_it(key, behaviour):
    with FakeServer(otherwise=behaviour) as server, _endpoint(server, key) as endpoint:
        found = {}
        endpoint.call([_question()], found.__setitem__)
    assert isinstance(found[0].answer, CallError)
    assert SECRET not in repr(found[0]) + str(found[0].answer) + repr(found[0].answer.args)


def test_a_short_dummy_is_not_looked_for(monkeypatch):
    monkeypatch.setenv(VARIABLE, "none")
    keys.take(VARIABLE)
    assert keys.redacted("there is none") == "there is none"
    keys.forget()
