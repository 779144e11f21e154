"""A minute of drawn programs: nothing but plain data and refusals comes out, and a seeded fault would be found."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading

import pytest

from coda_jax.programs import explain, plain, said
from coda_jax.programs import sandbox as sandbox_module
from coda_jax.programs.errors import ErrorKind, ProgramError
from coda_jax.programs.limits import Limits
from coda_jax.programs.sandbox import Sandbox
from tests.programs.fuzzer import PAYLOAD, Fuzzer, Report, child_processes, written

SEEDS = (11, 23, 37, 58)
BUDGET_S = 15.0  # of each seed
LIMITS = Limits(text_bytes=32768, time_s=0.1, grace_s=0.3, memory_bytes=16 << 20, recursion=60, output_chars=2000, reply_chars=20000)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts processes in /proc")


@pytest.fixture
def fuzzer(monkeypatch, tmp_path):
    secret = secrets.token_hex(16)
    monkeypatch.setenv("CODA_CANARY", secret)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.txt").write_text(secret)

    def host():
        environ = {key: value for key, value in os.environ.items() if key != "PYTEST_CURRENT_TEST"}
        return list(sys.meta_path), os.getcwd(), environ, os.listdir(tmp_path), sorted(vars(__import__("builtins")))

    with Sandbox(LIMITS) as box:
        box.evaluate("result = 1")
        yield Fuzzer(box, (secret, PAYLOAD.upper()), child_processes, host)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_but_data_and_refusals_comes_out(fuzzer, seed):
    files, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    report = fuzzer.run(seed, BUDGET_S)
    print(f"{report.programs} programs in {BUDGET_S:g} s, {report.kinds['accepted'] / report.programs:.0%} accepted, {dict(report.kinds)}")
    assert report.findings == []
    assert report.programs > 50 and 0.02 < report.kinds["accepted"] / report.programs < 0.9
    assert len(os.listdir("/proc/self/fd")) <= files + 1 and threading.active_count() == threads


def test_every_kind_of_outcome_is_drawn(fuzzer):
    report = Report()
    for i in range(250):
        assert fuzzer.outcome(*written(f"0-{i}"), report) == []
    assert {"accepted", "runtime", "syntax", "forbidden", "not_data", "invalid_scene", "invalid_training"} <= set(report.kinds)


def own_text_is_shown(monkeypatch, fuzzer):
    monkeypatch.setattr(said, "of_interpreter", lambda message, sentences=(): message)


def text_of_verbs_is_trusted(monkeypatch, fuzzer):
    monkeypatch.setattr(said, "of_verb", lambda message, source: message)


def replies_are_trusted(monkeypatch, fuzzer):
    monkeypatch.setattr(plain, "_check", lambda value: None)


def an_error_in_our_own_code(monkeypatch, fuzzer):
    monkeypatch.setattr(explain, "_own_error", lambda inner, message, line: 1 / 0)


def a_file_is_written(monkeypatch, fuzzer):
    real = fuzzer.box.evaluate
    monkeypatch.setattr(fuzzer.box, "evaluate", lambda *a, **k: (open("left", "w").close(), real(*a, **k))[1])


left: list[subprocess.Popen] = []


def a_process_is_left(monkeypatch, fuzzer):
    real = fuzzer.box.evaluate

    def evaluate(*a, **k):
        if not left:
            left.append(subprocess.Popen(["sleep", "60"]))
        return real(*a, **k)

    monkeypatch.setattr(fuzzer.box, "evaluate", evaluate)


def the_secret_is_told(monkeypatch, fuzzer):
    told = ProgramError(ErrorKind.RUNTIME, os.environ["CODA_CANARY"])
    monkeypatch.setattr(sandbox_module, "explained", lambda *a: told)


@pytest.mark.parametrize(
    "fault",
    [
        own_text_is_shown,
        text_of_verbs_is_trusted,
        replies_are_trusted,
        an_error_in_our_own_code,
        a_file_is_written,
        a_process_is_left,
        the_secret_is_told,
    ],
)
def test_a_fault_is_found(fuzzer, monkeypatch, fault):
    fault(monkeypatch, fuzzer)
    try:
        if not any(fuzzer.run(seed, 10.0, most=50).findings for seed in range(40)):
            pytest.fail(f"{fault.__name__} was not found in 2000 programs")
    finally:
        while left:
            left[-1].kill()
            left.pop().wait()


def test_a_seed_gives_one_program():
    assert written("3-7") == written("3-7") != written("3-8")
