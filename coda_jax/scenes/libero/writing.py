"""A task as the text of a task file, which is read again before anyone gets it: a name or sentence may hold anything."""

from __future__ import annotations

import dataclasses
from typing import Any

from coda_jax.programs.errors import quote
from coda_jax.scenes.libero.bddl import WRITTEN, Atom, BddlError, Problem, Region, Thing, parse


def write(problem: Problem) -> str:
    """The text of a task file: ``parse`` gives the same problem back (in lower case), and the official reader the same scene.

    Raises:
      BddlError: a name, number or the language would be read as something else.
    """
    if not problem.language.isprintable() or set(problem.language) & set("();"):
        raise BddlError(f"instruction {quote(problem.language)}: use printable characters without brackets and semicolons")
    text = _text(problem)
    try:
        again = parse(text)
    except BddlError as error:
        raise BddlError(f"the task cannot be written as a file: {error}") from error
    wanted = _lower(problem)
    if again != wanted:
        differs = next(f.name for f in dataclasses.fields(Problem) if getattr(again, f.name) != getattr(wanted, f.name))
        raise BddlError(f"the task cannot be written as a file: its {differs} would be read as something else: use plain names and numbers")
    return text


def _lower(value: Any) -> Any:
    """A problem, or a part of one, as ``parse`` gives it back."""
    if isinstance(value, Problem):
        low: dict[str, Any] = {f.name: _lower(getattr(value, f.name)) for f in dataclasses.fields(Problem)}
        low["language"] = " ".join(low["language"].split())
        return Problem(**low)
    if isinstance(value, Region | Atom | Thing):
        return type(value)(**{f.name: _lower(getattr(value, f.name)) for f in dataclasses.fields(value)})
    if isinstance(value, tuple):
        return tuple(map(_lower, value))
    return value.lower() if isinstance(value, str) else value


def _text(problem: Problem) -> str:
    regions = "".join(
        f"    ({r.name.removeprefix(r.target + '_')}\n        (:target {r.target})\n"
        + (f"        (:ranges ({' '.join('(' + ' '.join(map(repr, rect)) + ')' for rect in r.ranges)}))\n" if r.ranges else "")
        + (f"        (:yaw_rotation (({r.yaw_rad[0]!r} {r.yaw_rad[1]!r})))\n" if r.yaw_rad != (0.0, 0.0) else "")
        + "    )\n"
        for r in problem.regions
    )
    return (
        f"(define (problem {problem.name})\n  (:domain robosuite)\n  (:language {problem.language})\n  (:regions\n{regions}  )\n"
        f"  (:fixtures\n{_written_things(problem.fixtures)}  )\n  (:objects\n{_written_things(problem.objects)}  )\n"
        f"  (:obj_of_interest\n{''.join(f'    {n}' + chr(10) for n in problem.of_interest)}  )\n"
        f"  (:init\n{''.join(f'    {_written(a)}' + chr(10) for a in problem.init)}  )\n"
        f"  (:goal\n    (And {' '.join(map(_written, problem.goal))})\n  )\n)\n"
    )


def _written(atom: Atom) -> str:
    return f"({WRITTEN[atom.predicate]} {' '.join(atom.names)})"


def _written_things(things: tuple[Thing, ...]) -> str:
    by_category: dict[str, list[str]] = {}
    for thing in things:
        by_category.setdefault(thing.category, []).append(thing.name)
    return "".join(f"    {' '.join(names)} - {category}\n" for category, names in by_category.items())
