"""Programs of our own generators survive workers that die or stall."""

import os
import signal
import time
from pathlib import Path

import pytest

from coda_jax.loop.own_programs import RETRIES, patiently
from coda_jax.programs import sandbox as sandbox_module
from coda_jax.programs.errors import ErrorKind, ProgramError
from coda_jax.programs.limits import Limits
from coda_jax.programs.sandbox import Sandbox
from coda_jax.runtime import Stopped

LIMITS = Limits(32768, time_s=0.3, grace_s=0.2, memory_bytes=32 << 20, recursion=100, output_chars=1000, reply_chars=65536)


def wait_until_it_took(pid):
    """A signal reaches a process that is just running a little later."""
    for _ in range(200):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "TZ":
                return
        except OSError:
            return
        time.sleep(0.005)


@pytest.fixture
def hit(monkeypatch):
    """Sends a signal to the workers of the first programs, before they begin."""
    real = sandbox_module._confine

    def install(number, times):
        left = [times]

        def confine(pid, memory_bytes):
            real(pid, memory_bytes)
            if left[0]:
                left[0] -= 1
                os.kill(pid, number)
                wait_until_it_took(pid)

        monkeypatch.setattr(sandbox_module, "_confine", confine)

    return install


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_the_same_program_is_tried_again_in_fresh_workers(number, hit):
    with Sandbox(LIMITS) as sandbox:
        hit(number, RETRIES)
        assert patiently(sandbox, lambda: sandbox.evaluate("result = 7")) == 7
        hit(number, RETRIES + 1)
        with pytest.raises(Stopped, match=r"failed 3 times in its worker \((crashed|limit_time).*same command"):
            patiently(sandbox, lambda: sandbox.evaluate("result = 7"))


def test_a_refusal_is_no_accident():
    tried = []

    def evaluate():
        tried.append(1)
        raise ProgramError(ErrorKind.INVALID_SCENE, "no scene")

    with Sandbox(LIMITS) as sandbox, pytest.raises(ProgramError, match="no scene"):
        patiently(sandbox, evaluate)
    assert tried == [1]
