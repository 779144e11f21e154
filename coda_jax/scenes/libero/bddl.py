"""LIBERO's task files (BDDL, a form of PDDL): read into plain data (written from it: writing.py).

A file is one S-expression. Everything counts in lower case, as the official reader takes it: names, predicates, and the language, which
policies are told.
What this reader does not know it refuses, so that nothing of a task is lost on the way; a file may be anything and is bounded in size,
depth, words and numbers.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from pathlib import Path

from coda_jax.foreign import read_plain
from coda_jax.programs.errors import quote
from coda_jax.runtime import InputError

MAX_BYTES = 64 * 2**10
MAX_DEPTH = 16
MAX_TOKENS = 4000
MAX_NAME = 80  # characters of a name
MAX_LANGUAGE = 300  # characters
MAX_THINGS = 64  # objects, fixtures, regions, atoms of each kind
MOST_M = 20.0  # a range may reach this far from its workspace's middle: some files hide a thing ten metres away
MOST_RAD = 2 * math.pi
PREDICATES = {"on": 2, "in": 2, "open": 1, "close": 1, "turnon": 1, "turnoff": 1, "up": 1}  # with the number of their arguments
WRITTEN = {
    "on": "On",
    "in": "In",
    "open": "Open",
    "close": "Close",
    "turnon": "TurnOn",
    "turnoff": "TurnOff",
    "up": "Up",
}  # as files have it

_TOKEN = re.compile(r"[()]|[^\s()]+")
_NAME = re.compile(r"[a-z0-9_][a-z0-9_.\-]*")


class BddlError(InputError):
    """A task file that cannot be used; the message says line, what is wrong and what to change."""


@dataclasses.dataclass(frozen=True)
class Region:
    """A named part of a thing, or rectangles on a workspace.

    name: in full, target first ("main_table_plate_region"). ranges: rectangles (x low, y low, x high, y high) from the workspace's middle,
    m; empty for a part of a thing, which a site of its model describes. yaw_rad: range of the turn of fixtures placed there.
    """

    name: str
    target: str
    ranges: tuple[tuple[float, float, float, float], ...] = ()
    yaw_rad: tuple[float, float] = (0.0, 0.0)


@dataclasses.dataclass(frozen=True)
class Atom:
    """A predicate over names, e.g. ``Atom("on", ("plate_1", "main_table_plate_region"))``."""

    predicate: str
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{WRITTEN[self.predicate]}({', '.join(self.names)})"


@dataclasses.dataclass(frozen=True)
class Thing:
    """An object or fixture by its name, with its category."""

    name: str
    category: str


@dataclasses.dataclass(frozen=True)
class Problem:
    """One task. ``goal`` is a conjunction; ``objects`` move, ``fixtures`` (the workspace among them) do not. language: the instruction."""

    name: str
    language: str
    regions: tuple[Region, ...]
    fixtures: tuple[Thing, ...]
    objects: tuple[Thing, ...]
    of_interest: tuple[str, ...]
    init: tuple[Atom, ...]
    goal: tuple[Atom, ...]

    def region(self, name: str) -> Region:
        """The region of a full name. Raises BddlError where the task has none."""
        for region in self.regions:
            if region.name == name:
                return region
        raise BddlError(f"{name} is no region of this task: declare it in :regions, or name another place")

    @property
    def region_names(self) -> frozenset[str]:
        return frozenset(r.name for r in self.regions)


@dataclasses.dataclass(frozen=True)
class _Word:
    text: str
    line: int

    @property
    def low(self) -> str:
        return self.text.lower()


@dataclasses.dataclass(frozen=True)
class _Group:
    items: tuple[_Word | _Group, ...]
    line: int

    @property
    def head(self) -> str:
        first = self.items[0] if self.items else None
        return first.low if isinstance(first, _Word) else ""


def _fail(line: int, message: str) -> BddlError:
    return BddlError(f"line {line}: {message}")


def _tokens(text: str) -> Iterator[_Word]:
    count = 0
    for number, line in enumerate(text.split("\n"), 1):
        for match in _TOKEN.finditer(line.split(";", 1)[0]):
            count += 1
            if count > MAX_TOKENS:
                raise _fail(number, f"more than {MAX_TOKENS} words and brackets: a task has a few hundred, use a shorter file")
            yield _Word(match[0], number)


def _tree(text: str) -> _Group:
    """The one S-expression of a file, without recursion."""
    open_groups: list[tuple[list[_Word | _Group], int]] = []
    done: _Group | None = None
    for token in _tokens(text):
        if done is not None:
            raise _fail(token.line, f"{quote(token.text)} after the task's last bracket: remove it")
        if token.text == "(":
            if len(open_groups) == MAX_DEPTH:
                raise _fail(token.line, f"brackets nested deeper than {MAX_DEPTH}: close some of them")
            open_groups.append(([], token.line))
        elif not open_groups:
            raise _fail(token.line, f"{quote(token.text)} outside of all brackets: begin the file with (define")
        elif token.text == ")":
            items, line = open_groups.pop()
            group = _Group(tuple(items), line)
            if open_groups:
                open_groups[-1][0].append(group)
            else:
                done = group
        else:
            open_groups[-1][0].append(token)
    if open_groups:
        raise _fail(open_groups[-1][1], "a bracket that is opened here is never closed: add )")
    if done is None:
        raise _fail(1, "no task in it: begin the file with (define (problem ...)")
    return done


def _name(item: _Word | _Group, what: str) -> str:
    if isinstance(item, _Group):
        raise _fail(item.line, f"a bracket where {what} belongs: write a name")
    if len(item.text) > MAX_NAME or not _NAME.fullmatch(item.low):
        raise _fail(item.line, f"{quote(item.text)} is no name of {what}: use up to {MAX_NAME} letters, digits, _ . and -")
    return item.low


def _numbers(group: _Word | _Group, count: int, most: float, what: str) -> tuple[float, ...]:
    if isinstance(group, _Word) or len(group.items) != count:
        raise _fail(group.line, f"{what} needs a bracket with {count} numbers")
    found = []
    for item in group.items:
        try:
            value = float(item.text) if isinstance(item, _Word) else math.nan
        except ValueError:
            value = math.nan
        if not abs(value) <= most:
            shown = quote(item.text) if isinstance(item, _Word) else "a bracket"
            raise _fail(item.line, f"{what}: {shown} is no number between {-most:g} and {most:g}")
        found.append(value)
    return tuple(found)


def _region(group: _Word | _Group) -> Region:
    if isinstance(group, _Word) or not group.items:
        raise _fail(group.line, "a region is a bracket: (name (:target thing) ...)")
    name = _name(group.items[0], "a region")
    target: str | None = None
    ranges: tuple[tuple[float, float, float, float], ...] = ()
    yaw = (0.0, 0.0)
    heads: set[str] = set()
    for part in group.items[1:]:
        if isinstance(part, _Word) or len(part.items) != 2:
            raise _fail(part.line, f"region {name}: write (:target thing), (:ranges (...)), (:yaw_rotation (...)) or (:rgba (...))")
        if part.head in heads:
            raise _fail(part.line, f"region {name}: {part.head} stands there twice: the official reader forgets the first: remove one")
        heads.add(part.head)
        value = part.items[1]
        if part.head == ":target":
            target = _name(value, f"the target of region {name}")
        elif part.head in (":ranges", ":yaw_rotation"):
            if isinstance(value, _Word) or not 1 <= len(value.items) <= MAX_THINGS:
                raise _fail(part.line, f"region {name}: {part.head} needs a bracket of brackets, such as (:ranges ((0 0 0.1 0.1)))")
            if part.head == ":yaw_rotation":
                if len(value.items) != 1:
                    raise _fail(part.line, f"region {name}: one range of yaw, not {len(value.items)}")
                low, high = _numbers(value.items[0], 2, MOST_RAD, f"region {name}, yaw")
                yaw = (min(low, high), max(low, high))
                continue
            rectangles = []
            for item in value.items:
                x0, y0, x1, y1 = _numbers(item, 4, MOST_M, f"region {name}, ranges")
                if x1 < x0 or y1 < y0:
                    raise _fail(item.line, f"region {name}: a range ends before it begins: write (x_low y_low x_high y_high)")
                rectangles.append((x0, y0, x1, y1))
            ranges = tuple(rectangles)
        elif part.head == ":rgba":
            _numbers(value, 4, 1.0, f"region {name}, rgba")  # how it is drawn: no part of the task
        else:
            raise _fail(part.line, f"region {name}: unknown {quote(part.head)}: use :target, :ranges, :yaw_rotation or :rgba")
    if target is None:
        raise _fail(group.line, f"region {name} has no (:target thing): add it")
    return Region(f"{target}_{name}", target, ranges, yaw)


def _things(group: _Group, what: str) -> tuple[Thing, ...]:
    """``a_1 a_2 - a  b_1 - b`` as things in that order."""
    found: list[Thing] = []
    waiting: list[str] = []
    categories: set[str] = set()
    items = iter(group.items[1:])
    for item in items:
        if isinstance(item, _Word) and item.text == "-":
            kind = next(items, None)
            if kind is None or not waiting:
                raise _fail(item.line, f"{what}: a - needs names before it and a category after it")
            category = _name(kind, "a category")
            if category in categories:
                raise _fail(item.line, f"{what}: category {category} stands there twice: the official reader forgets the first: join them")
            categories.add(category)
            found += [Thing(n, category) for n in waiting]
            waiting = []
        else:
            waiting.append(_name(item, "a thing"))
    if waiting:
        raise _fail(group.line, f"{what}: {waiting[0]} has no category: write {waiting[0]} - category")
    return tuple(found)


def _atom(group: _Word | _Group) -> Atom:
    if isinstance(group, _Word) or not group.items:
        raise _fail(group.line, "a relation is a bracket, such as (On plate_1 main_table_plate_region)")
    predicate, names = group.head, group.items[1:]
    if predicate not in PREDICATES:
        raise _fail(group.line, f"unknown predicate {quote(predicate)}: use one of {', '.join(WRITTEN.values())}")
    if len(names) != PREDICATES[predicate]:
        raise _fail(group.line, f"{WRITTEN[predicate]} takes {PREDICATES[predicate]} names, not {len(names)}")
    return Atom(predicate, tuple(_name(n, "a thing or region") for n in names))


def _conjunction(group: _Group) -> tuple[Atom, ...]:
    if len(group.items) != 2:
        raise _fail(group.line, "the goal is one bracket: (:goal (And (On a b)))")
    inner = group.items[1]
    if isinstance(inner, _Group) and inner.head == "and":
        return tuple(_atom(a) for a in inner.items[1:])
    return (_atom(inner),)


def _checked(problem: Problem, lines: dict[str, int]) -> Problem:
    """Refuse names that stand for nothing or for two things."""
    things = [t.name for t in (*problem.fixtures, *problem.objects)]
    known: set[str] = set()
    for name in (*things, *(r.name for r in problem.regions)):
        if name in known:
            raise _fail(lines[":objects"], f"two things or regions are called {name}: rename one")
        known.add(name)
    for region in problem.regions:
        if region.target in things:
            continue
        if region.ranges:
            raise _fail(lines[":regions"], f"region {region.name}: its target {region.target} is no object or fixture: declare it")
    for section, atoms in ((":init", problem.init), (":goal", problem.goal)):
        for atom in atoms:
            if strange := [n for n in atom.names if n not in known]:
                raise _fail(lines[section], f"{atom}: {strange[0]} is no object, fixture or region of this task: declare it")
    if strange := [n for n in problem.of_interest if n not in known]:
        raise _fail(lines[":obj_of_interest"], f"{strange[0]} is of interest but not declared: declare or remove it")
    if not problem.goal:
        raise _fail(lines[":goal"], "the goal asks for nothing, so it always holds: add a relation")
    return problem


_SECTIONS = (":domain", ":language", ":regions", ":fixtures", ":objects", ":obj_of_interest", ":init", ":goal")


def parse(text: str) -> Problem:
    """A task file's text as data.

    Raises:
      BddlError: it is no task file or holds what this reader does not know; says line and what to change.
    """
    if len(text) > MAX_BYTES:
        raise BddlError(f"the text is longer than {MAX_BYTES // 1024} KiB: it is no task file")
    tree = _tree(text)
    if tree.head != "define":
        raise _fail(tree.line, "the first word is not define: begin the file with (define (problem ...)")
    parts: dict[str, _Group] = {}
    for group in tree.items[1:]:
        if isinstance(group, _Word) or not group.items:
            raise _fail(group.line, f"a section is a bracket that begins with problem, {', '.join(_SECTIONS)}")
        if group.head not in ("problem", *_SECTIONS):
            raise _fail(group.line, f"unknown section {quote(group.head)}: use problem, {', '.join(_SECTIONS)}")
        if group.head in parts:
            raise _fail(group.line, f"section {group.head} stands there twice: join them")
        if len(group.items) > 2 * MAX_THINGS + 1:
            raise _fail(group.line, f"section {group.head} has more than {2 * MAX_THINGS} entries: use fewer")
        parts[group.head] = group
    if missing := [s for s in ("problem", *_SECTIONS) if s not in parts]:
        raise _fail(tree.line, f"section {missing[0]} is missing: add it")
    for section in ("problem", ":domain"):
        if len(parts[section].items) != 2:
            raise _fail(parts[section].line, f"({section} ...) takes one name")
    if _name(parts[":domain"].items[1], "the domain") != "robosuite":
        raise _fail(parts[":domain"].line, "the domain must be robosuite")
    words = [w.low for w in parts[":language"].items[1:] if isinstance(w, _Word)]
    language = " ".join(words)
    if len(words) < len(parts[":language"].items) - 1 or not 0 < len(language) <= MAX_LANGUAGE or not language.isprintable():
        raise _fail(parts[":language"].line, f"the language is 1 to {MAX_LANGUAGE} printable characters without brackets")
    problem = Problem(
        name=_name(parts["problem"].items[1], "the problem"),
        language=language,
        regions=tuple(_region(r) for r in parts[":regions"].items[1:]),
        fixtures=_things(parts[":fixtures"], ":fixtures"),
        objects=_things(parts[":objects"], ":objects"),
        of_interest=tuple(_name(n, "a thing or region") for n in parts[":obj_of_interest"].items[1:]),
        init=tuple(_atom(a) for a in parts[":init"].items[1:]),
        goal=_conjunction(parts[":goal"]),
    )
    return _checked(problem, {s: g.line for s, g in parts.items()})


def read(path: Path) -> Problem:
    """The task in a file.

    Raises:
      BddlError: see ``parse``; the file is missing, too large or not UTF-8.
    """
    try:
        content = read_plain(path, MAX_BYTES)
    except OSError as error:
        raise BddlError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise BddlError(f"{path} is larger than {MAX_BYTES // 1024} KiB: it is no task file")
    try:
        return parse(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise BddlError(f"{path} is not UTF-8 text (byte {error.start}): save it as UTF-8") from error
    except BddlError as error:
        raise BddlError(f"{path}, {error}") from error
