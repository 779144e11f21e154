"""What a program's author is told when the value of the program does not validate: the field, and what it accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pydantic import ValidationError

from coda_jax.programs.errors import quote


def refusal(error: ValidationError, accepted: Mapping[str, str], verbs: str, shown: Callable[[str], bool] = lambda part: True) -> str:
    """One line about the first thing that is wrong.

    accepted: field name to what it takes; where the field is not there, what encloses it counts. verbs: that an author writes with.
    shown: which parts of the place an author knows.
    """
    first = error.errors(include_url=False, include_context=False)[0]
    place = [part for part in first["loc"] if isinstance(part, int) or shown(part)]
    where = "result" if not place else ""
    for part in place[:6]:
        where += f"[{part}]" if isinstance(part, int) else f"{'.' if where else ''}{quote(part)[1:-1]}"
    known = next((part for part in reversed(place) if part in accepted), None)
    takes = f": {accepted[known]}" if isinstance(known, str) else ""
    if first["type"] == "missing":
        return f"{where}: is missing{takes}"
    if first["type"].startswith("unexpected"):
        return f"{where}: there is no such field; use the arguments of {verbs}"
    return f"{where}: {quote(first['input'])} is not accepted{takes}"


def first_error(error: ValidationError, whole: str) -> str:
    """ "field: what is wrong" of the first thing that is wrong with data of our own; ``whole`` is named where it is none of the fields."""
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or whole}: {first['msg']}"
