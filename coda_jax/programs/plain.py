"""The reply of a sandbox worker, read as what it is: bytes that a stranger wrote."""

from __future__ import annotations

import json
import math
from typing import Any

from coda_jax.programs.errors import ErrorKind, ProgramError, quote
from coda_jax.programs.said import shown_name

Plain = dict | list | str | float | int | bool | None

MAX_DEPTH = 24  # an expression in a goal takes two levels for each of its own
MAX_NODES = 4096
MAX_STRING = 400
MAX_KEY = 64
_MOST_NAMES = 3  # of the keys of a place that are shown
MAX_INT = 2**53  # what a float holds exactly


def parse_reply(text: object, max_chars: int) -> Plain:
    """JSON text from a worker to plain data.

    Args:
      text: what came back, of any type.
      max_chars: largest accepted text.

    Raises:
      ProgramError: kind NOT_DATA; the message names the place, e.g. ``result.objects[0].mass_kg``.
    """
    if isinstance(text, int) or (isinstance(text, str) and len(text) > max_chars):
        size = text if isinstance(text, int) else len(text)
        raise ProgramError(ErrorKind.NOT_DATA, f"result: {quote(size)} characters as JSON, at most {max_chars} are read: return less")
    if not isinstance(text, str):
        raise ProgramError(ErrorKind.NOT_DATA, "result is no plain data: use dicts, lists, strings, numbers, True, False and None")
    try:
        value = json.loads(text, parse_int=_integer, object_pairs_hook=_pairs)
    except RecursionError:
        raise ProgramError(ErrorKind.NOT_DATA, f"result is nested more than {MAX_DEPTH} deep: flatten it") from None
    except ValueError:
        raise ProgramError(ErrorKind.NOT_DATA, "result did not come back as JSON: use dicts, lists, strings and numbers") from None
    _check(value)
    return value


def _integer(digits: str) -> int:
    if len(digits) <= 17:
        return int(digits)
    return MAX_INT * (-2 if digits[0] == "-" else 2)  # out of range either way; int() of long text is slow


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ProgramError(ErrorKind.NOT_DATA, "result: a dict has the same key twice (1 and '1' count as one): use different strings")
    return found


def _check(value: Plain) -> None:
    nodes = 0
    waiting: list[tuple[Any, tuple[str | int, ...]]] = [(value, ())]

    def refuse(path, what):
        raise ProgramError(ErrorKind.NOT_DATA, f"{_place(path)}: {what}")

    while waiting:
        item, path = waiting.pop()
        nodes += 1
        if nodes > MAX_NODES:
            refuse((), f"more than {MAX_NODES} values: return less")
        if len(path) > MAX_DEPTH:
            refuse(path[:4], f"nested more than {MAX_DEPTH} deep: flatten it")
        if isinstance(item, float) and not math.isfinite(item):
            refuse(path, f"{item!r} is no finite number: give an ordinary number")
        if isinstance(item, int) and not isinstance(item, bool) and abs(item) > MAX_INT:
            refuse(path, "the integer is larger than 2**53: give a smaller one")
        if isinstance(item, str) and len(item) > MAX_STRING:
            refuse(path, f"a string of {len(item)} characters, at most {MAX_STRING} are read: shorten it")
        if isinstance(item, dict):
            for key, inner in item.items():
                if len(key) > MAX_KEY:
                    refuse(path, f"a key of {len(key)} characters, at most {MAX_KEY}: shorten it")
                waiting.append((inner, (*path, key)))
        elif isinstance(item, list):
            if len(item) > MAX_NODES:
                refuse(path, f"a list of {len(item)} values: return fewer")
            waiting.extend((inner, (*path, i)) for i, inner in enumerate(item))


def _place(path: tuple[str | int, ...]) -> str:
    """Where in the result. A few keys that are names are shown: a program's keys, one under the other, could make a sentence."""
    shown, names = "result", 0
    for part in path:
        names += isinstance(part, str)
        if names > _MOST_NAMES:
            return shown + " ..."
        shown += f"[{part}]" if isinstance(part, int) else f".{shown_name(part)}"
    return shown
