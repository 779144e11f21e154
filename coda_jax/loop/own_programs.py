"""Programs of our own generators: one that dies or stalls in the sandbox says something about the machine, not about the program."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from coda_jax.programs.errors import ErrorKind, ProgramError
from coda_jax.programs.sandbox import Sandbox
from coda_jax.runtime import Stopped

log = logging.getLogger(__name__)
T = TypeVar("T")
RETRIES = 2
_MACHINE = (ErrorKind.CRASHED, ErrorKind.LIMIT_TIME)


def patiently(sandbox: Sandbox, evaluate: Callable[[], T]) -> T:
    """``evaluate()``, again in fresh workers of ``sandbox`` after a crash or a time-out, so that both leave no trace in the result.

    Raises:
      ProgramError: the program is refused for another reason. Stopped: it failed so to the end; the same command tries again.
    """
    for left in reversed(range(RETRIES + 1)):
        try:
            return evaluate()
        except ProgramError as error:
            if error.kind not in _MACHINE:
                raise
            log.warning("a program of our own generator failed in its worker (%s); %d more attempts", error, left)
            if not left:
                raise Stopped(
                    f"stopped: a program of our own generator failed {RETRIES + 1} times in its worker ({error}): is the machine out of "
                    "memory or overloaded? The same command goes on from the last commit"
                ) from error
            sandbox.close()
    raise AssertionError("the last attempt returned or raised")
