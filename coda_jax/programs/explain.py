"""The program error that stands for what came out of a worker: kind, line, and a sentence of said.py or of our own."""

from __future__ import annotations

import dataclasses
import re

import pydantic_monty

from coda_jax.programs import said
from coda_jax.programs.errors import ErrorKind, ProgramError
from coda_jax.programs.limits import Limits

# The interpreter's names for the texts of a session: verbs, program, reading of the result; and for what the program itself has evaluated.
SDK, PROGRAM, READING, EVALUATED = "<python-input-0>", "<python-input-1>", "<python-input-2>", "<string>"

_ASKED = re.compile(r"(?:name|attribute) '([A-Za-z0-9_]+)'")
_INTERNALS = frozenset({"environ", "globals", "locals", "vars", "compile", "open", "breakpoint", "input"})
_NO_HELP = "a program only computes, without files, processes, network, environment or interpreter internals; use the verbs"


@dataclasses.dataclass(frozen=True)
class Task:
    """One call of ``Sandbox.evaluate``, of which the fields are the arguments."""

    text: str
    sdk_source: str = ""
    ending: str = "result = scene(...)"
    invalid: ErrorKind = ErrorKind.INVALID_SCENE


def explained(error: Exception, printed_too_much: bool, limits: Limits, task: Task) -> ProgramError:
    """The program error for an error of the interpreter or of its worker while ``task`` ran."""
    if printed_too_much:
        return ProgramError(ErrorKind.LIMIT_OUTPUT, f"printed more than {limits.output_chars} characters: remove print(), it is never read")
    if isinstance(error, pydantic_monty.MontyCrashedError):
        if error.timed_out:
            return _out_of_time(limits)
        return ProgramError(ErrorKind.CRASHED, "the program's worker process died: write it simpler, without deep nesting or large values")
    if not isinstance(error, (pydantic_monty.MontySyntaxError, pydantic_monty.MontyRuntimeError)):
        return ProgramError(ErrorKind.NOT_DATA, f"the program did not end with plain data ({type(error).__name__}): {_NO_HELP}")

    inner, frames = error.exception(), error.traceback()
    places = [frame.filename for frame in frames]
    line = next((min(f.line, task.text.count("\n") + 1) for f in reversed(frames) if f.filename == PROGRAM), None)
    message = error.display("msg")[: 2 * said.MAX_MESSAGE]
    lacking = said.not_in_subset(message) if isinstance(inner, NotImplementedError) else None
    if lacking is not None:
        return ProgramError(ErrorKind.SYNTAX, f"no {lacking} in the Python subset of programs: use functions, loops and dicts", line)
    if isinstance(error, pydantic_monty.MontySyntaxError):
        what = said.of_interpreter(message, said.SYNTAX) or "not understood"
        return ProgramError(ErrorKind.SYNTAX, f"{what}: correct the text; programs are a subset of Python", line)
    if isinstance(inner, TimeoutError) and not frames:
        return _out_of_time(limits)
    if isinstance(inner, MemoryError):
        what = f"needed more than {limits.memory_bytes >> 20} MiB of memory: build fewer or smaller values"
        return ProgramError(ErrorKind.LIMIT_MEMORY, what, line)
    if isinstance(inner, RecursionError):
        return ProgramError(ErrorKind.LIMIT_RECURSION, f"calls or values nested more than {limits.recursion} deep: use a loop", line)
    if places and places[0] == READING:
        if isinstance(inner, NameError):
            return ProgramError(ErrorKind.NOT_DATA, f"result is missing: end the program with `{task.ending}`")
        what = said.of_interpreter(message)
        shown = f" ({what})" if what else ""
        return ProgramError(ErrorKind.NOT_DATA, f"result is no plain data{shown}: use dicts, lists, strings and numbers")
    if places and places[-1] == SDK:
        what = said.of_verb(message, task.sdk_source) or said.of_interpreter(message)
        return ProgramError(
            task.invalid, what or "a verb got what it does not take: check its arguments, and leave the verbs as they are", line
        )
    return _own_error(inner, message, line)


def _own_error(inner: BaseException, message: str, line: int | None) -> ProgramError:
    """Of an error that was raised in the program, by the interpreter or by itself."""
    what = said.of_interpreter(message)
    kind = type(inner).__name__
    if isinstance(inner, ImportError) or (isinstance(inner, OSError) and not isinstance(inner, TimeoutError)):
        return ProgramError(ErrorKind.FORBIDDEN, f"{what or kind}: {_NO_HELP}", line)
    asked = _ASKED.search(what) if isinstance(inner, (NameError, AttributeError)) else None
    internal = asked is not None and (asked[1].startswith("__") or asked[1] in _INTERNALS)
    if internal or what.endswith("is not supported in this environment"):
        return ProgramError(ErrorKind.FORBIDDEN, f"{what}: {_NO_HELP}", line)
    if isinstance(inner, AssertionError):
        return ProgramError(ErrorKind.RUNTIME, "AssertionError: an assert of the program does not hold", line)
    if isinstance(inner, KeyError):
        key = said.shown_name(message)
        return ProgramError(
            ErrorKind.RUNTIME, f"KeyError: there is no key {key!r}" if key != said.LEFT_OUT else "KeyError: there is no such key", line
        )
    if not what:
        return ProgramError(ErrorKind.RUNTIME, f"{kind}: raised here, or by what is called here; its own text is left out", line)
    return ProgramError(ErrorKind.RUNTIME, f"{kind}: {what}", line)


def _out_of_time(limits: Limits) -> ProgramError:
    return ProgramError(ErrorKind.LIMIT_TIME, f"ran longer than {limits.time_s:g} s: bound every loop, and compute less")
