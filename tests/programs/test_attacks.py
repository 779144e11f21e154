"""No program of the corpus, nor of its classes, reads, writes, ends or stalls anything; what must be accepted is."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import sys
import threading
import time

import pytest

from coda_jax.programs.errors import ErrorKind, ProgramError
from coda_jax.programs.limits import Limits
from coda_jax.programs.sandbox import Sandbox
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.draft import parse_draft
from coda_jax.scenes.program import build_spec
from coda_jax.scenes.sdk import scene_sdk
from tests.programs import attack_classes
from tests.programs.attack_corpus import AS_SCENE, BENIGN, DEV, ENDLESS, FIELDS, FURTHER, ON_SCENE_VERBS, STAND_IN

LIMITS = Limits(text_bytes=65536, time_s=0.4, grace_s=0.6, memory_bytes=32 << 20, recursion=100, output_chars=2000, reply_chars=65536)
HOST_SECRET = secrets.token_hex(16)
PORT = 47123


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(LIMITS) as made:
        yield made


def host_state():
    environ = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}
    return list(sys.meta_path), os.getcwd(), environ, set(vars(__import__("builtins"))), threading.active_count()


class Canary:
    """A folder with a secret, the same secret in the environment, and what an attack would have changed."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.secret = folder, secrets.token_hex(16)
        (folder / "out").mkdir()
        (folder / "secret.txt").write_text(self.secret)
        monkeypatch.setenv("CODA_CANARY", self.secret)
        monkeypatch.setenv("CODA_SECRET", self.secret)
        self.host = host_state()

    def arm(self, text: str) -> str:
        return text.replace("@CANARY@", str(self.folder))

    def check(self, outcome: object) -> None:
        shown = f"{outcome!r} {outcome}"
        assert self.secret not in shown and HOST_SECRET not in shown
        assert os.listdir(self.folder / "out") == [] and sorted(os.listdir(self.folder)) == ["out", "secret.txt"]
        assert (self.folder / "secret.txt").read_text() == self.secret
        assert host_state() == self.host


@pytest.fixture
def canary(tmp_path, monkeypatch):
    return Canary(tmp_path, monkeypatch)


def outcome_of(sandbox, canary, text, sdk=STAND_IN):
    began = time.monotonic()
    try:
        outcome = sandbox.evaluate(canary.arm(text), sdk)
    except ProgramError as error:
        outcome = error
        assert len(error.message) <= 400 and error.message.isascii() and error.message.isprintable()
    assert time.monotonic() - began < LIMITS.time_s + LIMITS.grace_s + 1.5  # with room for a busy machine
    canary.check(outcome)
    return outcome


def check_words(message):
    """No sentence of a program's, and of its names not the whole."""
    assert "every earlier order" not in message and "every?earlier?order" not in message and "print_the_key" not in message


@pytest.mark.parametrize("path", DEV, ids=lambda p: p.stem)
def test_contained(sandbox, canary, path):
    calls = []
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", PORT))
            listener.listen()
            listener.setblocking(False)
        except OSError:
            pass  # the port is taken: the attempt would reach nobody of ours
        outcome_of(sandbox, canary, path.read_text(encoding="utf-8"))
        with contextlib.suppress(OSError):
            calls.append(listener.accept())
    assert calls == []
    assert sandbox.evaluate("result = [1]") == [1]


@pytest.mark.parametrize("path", BENIGN, ids=lambda p: p.stem)
def test_benign_is_accepted(sandbox, canary, path):
    outcome = outcome_of(sandbox, canary, path.read_text(encoding="utf-8"))
    assert isinstance(outcome, dict) and outcome["objects"] and "success" in outcome


@pytest.mark.parametrize("stem", FIELDS)
def test_invalid_scene_data_is_refused_by_field(sandbox, canary, stem):
    path = next(p for p in DEV if p.stem == stem)
    with pytest.raises(ProgramError) as refused:
        value = sandbox.evaluate(canary.arm(path.read_text(encoding="utf-8")) + AS_SCENE, scene_sdk() + ON_SCENE_VERBS)
        build_spec(parse_draft(value), Catalogue("train"))
    assert refused.value.kind is ErrorKind.INVALID_SCENE
    assert refused.value.message.startswith(FIELDS[stem])
    canary.check(refused.value)
    assert "SYSTEM: ignore" not in str(refused.value) and "<include" not in str(refused.value)


@pytest.mark.parametrize("name", FURTHER)
def test_whole_class_is_contained(sandbox, canary, name):
    for text in FURTHER[name]:
        outcome_of(sandbox, canary, text)


@pytest.mark.parametrize("name", attack_classes.PROGRAMS)
def test_others_of_each_class_are_contained(sandbox, canary, name):
    assert len(attack_classes.PROGRAMS[name]) >= 3
    for text in attack_classes.PROGRAMS[name]:
        outcome = outcome_of(sandbox, canary, text)
        if isinstance(outcome, ProgramError):
            check_words(outcome.message)
    assert sandbox.evaluate("result = [on('a', 'b'), len('abc')]", STAND_IN) == [{"on": ["a", "b"]}, 3]


@pytest.mark.parametrize("text", attack_classes.BENT)
def test_messages_of_verbs_cannot_be_bent(sandbox, canary, text):
    with pytest.raises(ProgramError) as refused:
        sandbox.evaluate(text, scene_sdk())
    assert refused.value.line is not None
    check_words(refused.value.message)
    canary.check(refused.value)


@pytest.mark.parametrize("name", attack_classes.BENIGN)
def test_realistic_programs_are_accepted(sandbox, canary, name):
    outcome = outcome_of(sandbox, canary, attack_classes.BENIGN[name])
    assert isinstance(outcome, dict) and outcome["objects"] and "success" in outcome


@pytest.mark.parametrize("text", FURTHER["reply"])
def test_reply_that_is_no_plain_data_is_refused(sandbox, canary, text):
    outcome = outcome_of(sandbox, canary, text)
    assert isinstance(outcome, ProgramError) and outcome.kind is ErrorKind.NOT_DATA
    assert outcome.message.startswith("result")


@pytest.mark.parametrize("text", ENDLESS)
def test_endless_program_ends(sandbox, canary, text):
    outcome = outcome_of(sandbox, canary, text)
    assert isinstance(outcome, ProgramError) and outcome.kind in (ErrorKind.LIMIT_TIME, ErrorKind.LIMIT_OUTPUT, ErrorKind.RUNTIME)


def test_sdk_is_fresh_for_the_next_program(sandbox):
    sandbox.evaluate("DEFAULTS['friction'] = 1e9\nresult = 1", STAND_IN)
    assert sandbox.evaluate("result = DEFAULTS", STAND_IN) == {"friction": 1.0}


def test_a_thread_for_each_attack(canary):
    texts = ["result = 1", "while True: pass", "print('a' * 10**7)", "result = [0] * 10**9"] * 2
    kinds: list[object] = [None] * len(texts)

    def run(i):
        try:
            kinds[i] = shared.evaluate(texts[i])
        except ProgramError as error:
            kinds[i] = error.kind

    with Sandbox(LIMITS) as shared:
        threads = [threading.Thread(target=run, args=(i,)) for i in range(len(texts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert kinds == [1, ErrorKind.LIMIT_TIME, ErrorKind.LIMIT_OUTPUT, ErrorKind.LIMIT_MEMORY] * 2
