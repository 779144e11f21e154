"""Programs of our own engines: how a mode's text begins, and what a worker that dies or stalls says: something about the machine."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import TypeVar

from coda_jax.memory.rows import Mode
from coda_jax.programs.errors import ErrorKind, ProgramError
from coda_jax.programs.sandbox import Sandbox
from coda_jax.runtime import Stopped

log = logging.getLogger(__name__)
T = TypeVar("T")
RETRIES = 2
MACHINE = (ErrorKind.CRASHED, ErrorKind.LIMIT_TIME)  # kinds of error that may come from the machine
_PLAIN = re.compile(r"[^ -~]+")


def heading(mode: Mode) -> str:
    """The first line of a mode's programs: without it two modes that need the same program would share it."""
    return _PLAIN.sub(" ", f"# {mode.factor} in {mode.phase}: {mode.cause}")


def headed(mode: Mode, text: str) -> str:
    """The text of a program as stored for a mode."""
    return f"{heading(mode)}\n{text}"


def retried(sandbox: Sandbox, evaluate: Callable[[], T]) -> T:
    """``evaluate()``, again in fresh workers of ``sandbox`` after a crash or a time-out, so that both leave no trace in the result.

    Raises:
      ProgramError: the program is refused; of a kind in MACHINE: it failed so in every worker.
    """
    for left in reversed(range(RETRIES + 1)):
        try:
            return evaluate()
        except ProgramError as error:
            if error.kind not in MACHINE:
                raise
            log.warning("a program failed in its worker (%s); %d more attempts", error, left)
            if not left:
                raise
            sandbox.close()
    raise AssertionError("the last attempt returned or raised")


def patiently(sandbox: Sandbox, evaluate: Callable[[], T]) -> T:
    """``retried`` for programs of our own generators, which are not to blame.

    Raises:
      ProgramError: the program is refused for another reason. Stopped: it failed so to the end; the same command tries again.
    """
    try:
        return retried(sandbox, evaluate)
    except ProgramError as error:
        if error.kind not in MACHINE:
            raise
        raise Stopped(
            f"stopped: a program of our own generator failed {RETRIES + 1} times in its worker ({error}): is the machine out of "
            "memory or overloaded? The same command goes on from the last commit"
        ) from error
