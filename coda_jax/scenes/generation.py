"""Generation programs: how a difficulty is made again in any scene that has the right roles, as text and as strict records.

A program names the one factor that it changes, the roles that it needs, how they must stand to each other, and edits with a range of
magnitudes; its level picks the magnitude. docs/edits.md is the page for authors.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
from collections.abc import Collection
from typing import Annotated, Literal, NoReturn, get_args

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from coda_jax.programs.errors import ErrorKind, ProgramError, quote
from coda_jax.programs.plain import Plain
from coda_jax.programs.refusal import refusal
from coda_jax.programs.sandbox import Sandbox
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.draft import Identifier, Symbol
from coda_jax.scenes.edits.verbs import VERBS
from coda_jax.scenes.sdk import generation_sdk
from coda_jax.scenes.spec import FACTORS

MAX_ROLES, MAX_RELATIONS, MAX_EDITS = 5, 8, 4
_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

FactorName = Literal["task", "spatial", "attributes"]
RoleName = Literal["target", "reference", "obstacle", "distractor", "neighbour", "support", "container", "landmark"]
KindName = Literal["object", "support", "container"]
RelationName = Literal["near", "far", "left_of", "right_of", "behind", "in_front_of", "on", "inside", "same_colour", "same_category"]
ROLES, KINDS, RELATIONS = get_args(RoleName), get_args(KindName), get_args(RelationName)
# 1e-6 is what the text of a program shows; adding 0 turns -0.0 into 0.0
Share = Annotated[float, Field(ge=0.0, le=1.0), AfterValidator(lambda v: round(v, 6) + 0.0)]


@dataclass(frozen=True, config=_STRICT)
class RoleNeed:
    """One role and what may play it; an omitted requirement is none."""

    name: RoleName
    kind: KindName | None = None
    category: Identifier | None = None
    affordance: Symbol | None = None


@dataclass(frozen=True, config=_STRICT)
class RoleRelation:
    """How two roles must stand to each other before the edit; scenes/lifting.py has the definitions."""

    name: RelationName
    subject: RoleName
    reference: RoleName


@dataclass(frozen=True, config=_STRICT)
class EditStep:
    """A verb with the magnitudes of level 0 and level 1."""

    verb: Symbol
    low: Share = 0.0
    high: Share = 1.0

    def magnitude(self, level: float) -> float:
        return self.low + level * (self.high - self.low)


@dataclass(frozen=True, config=_STRICT)
class GenerationProgram:
    """A generation program. Its edits are of its factor only and are made one after the other."""

    factor: FactorName
    roles: Annotated[tuple[RoleNeed, ...], Field(min_length=1, max_length=MAX_ROLES)]
    edits: Annotated[tuple[EditStep, ...], Field(min_length=1, max_length=MAX_EDITS)]
    relations: Annotated[tuple[RoleRelation, ...], Field(max_length=MAX_RELATIONS)] = ()
    level: Share = 0.5

    @property
    def program_id(self) -> str:
        """First 16 hex digits of the SHA-256 of the canonical JSON: the same program, the same id, however it was written."""
        return _hash(dataclasses.asdict(self))

    @property
    def mechanism_id(self) -> str:
        """The same without the level: what a search for the level keeps."""
        fields = dataclasses.asdict(self)
        del fields["level"]
        return _hash(fields)

    def with_level(self, level: float) -> GenerationProgram:
        """The same program at another level in 0..1."""
        return dataclasses.replace(self, level=level)


def _hash(fields: dict) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


_ADAPTER: TypeAdapter[GenerationProgram] = TypeAdapter(GenerationProgram)
_SHARE = "give a number between 0 and 1"
_ACCEPTED = {
    "factor": f"use one of {', '.join(FACTORS)}",
    "roles": f"give 1 to {MAX_ROLES}, each made with role(...), named {', '.join(ROLES)}",
    "relations": f"give at most {MAX_RELATIONS}, each made with relation(name, role, role), named {', '.join(RELATIONS)}",
    "edits": f"give 1 to {MAX_EDITS}, each made with edit(verb, low, high)",
    "kind": f"use one of {', '.join(KINDS)}",
    "category": "give a category of the catalogue, such as mug",
    "affordance": "give an affordance of the catalogue, such as graspable",
    "subject": f"use one of {', '.join(ROLES)}",
    "reference": f"use one of {', '.join(ROLES)}",
    "verb": "give the name of a verb",
    "low": _SHARE,
    "high": _SHARE,
    "level": _SHARE,
}


def evaluate_generation(text: str, sandbox: Sandbox, catalogue: Catalogue) -> GenerationProgram:
    """Evaluate the text of a generation program, by anyone.

    Raises:
      ProgramError: kind INVALID_GENERATION, or one of the sandbox's; names the field and what to change.
    """
    value = sandbox.evaluate(text, generation_sdk(), "result = generation(...)", ErrorKind.INVALID_GENERATION)
    program = parse_generation(value)
    check_program(program, catalogue)
    return program


def parse_generation(value: Plain) -> GenerationProgram:
    """Strictly validate what a program returned; ``check_program`` asks whether it makes sense.

    Raises:
      ProgramError: kind INVALID_GENERATION.
    """
    if not isinstance(value, dict):
        _refuse(f"result: must be a generation program, not {quote(value)}: end with `result = generation(...)`")
    try:
        return _ADAPTER.validate_json(json.dumps(value))
    except ValidationError as error:
        _refuse(refusal(error, _ACCEPTED, "role, relation, edit and generation"))


def _refuse(message: str) -> NoReturn:
    raise ProgramError(ErrorKind.INVALID_GENERATION, message)


def _one_of(word: str, words: Collection[str]) -> str:
    near = difflib.get_close_matches(word, list(words), n=3, cutoff=0.5)
    return f"use {' or '.join(near)}" if near else f"use one of {', '.join(sorted(words))}"


def check_program(program: GenerationProgram, catalogue: Catalogue) -> None:
    """Whether a program makes sense: known verbs of its factor, roles for all of them, known categories.

    Raises:
      ProgramError: kind INVALID_GENERATION.
    """
    names = [r.name for r in program.roles]
    if twice := [n for n in names if names.count(n) > 1]:
        _refuse(f"roles: {twice[0]} is given twice: use another of {', '.join(r for r in ROLES if r not in names)}")
    affordances = {a for asset in catalogue for a in asset.affordances}
    for i, need in enumerate(program.roles):
        if need.category is not None and need.category not in catalogue.categories():
            _refuse(
                f"roles[{i}].category: the catalogue here has no {quote(need.category)}: {_one_of(need.category, catalogue.categories())}"
            )
        if need.affordance is not None and need.affordance not in affordances:
            _refuse(f"roles[{i}].affordance: nothing here is {quote(need.affordance)}: {_one_of(need.affordance, affordances)}")
        if need.name == "target" and need.kind not in (None, "object"):
            _refuse(f"roles[{i}].kind: a {need.kind} is fixed and cannot be the target: use kind='object' or leave it out")
    for i, r in enumerate(program.relations):
        if r.subject == r.reference:
            _refuse(f"relations[{i}]: {r.name} relates {r.subject} to itself: name two roles")
        for name in (r.subject, r.reference):
            if name not in names:
                _refuse(f"relations[{i}]: the role {name} is not among roles: add role({name!r}, ...)")
    for i, step in enumerate(program.edits):
        verb = VERBS.get(step.verb)
        if verb is None:
            _refuse(f"edits[{i}].verb: there is no verb {quote(step.verb)}: {_one_of(step.verb, VERBS)}")
        if verb.factor != program.factor:
            offered = ", ".join(v.name for v in VERBS.values() if v.factor == program.factor)
            _refuse(f"edits[{i}].verb: {step.verb} changes {verb.factor}, the program's factor is {program.factor}: use one of {offered}")
        if missing := [n for n in verb.needs if n not in names]:
            _refuse(f"edits[{i}].verb: {step.verb} needs the role {missing[0]}: add role({missing[0]!r}, ...) to roles")
        if step.low > step.high:
            _refuse(f"edits[{i}].low: {step.low:g} is above high={step.high:g}: level 1 is the harder end, swap them")


def to_text(program: GenerationProgram) -> str:
    """Canonical text of a program; evaluating it gives the same program."""

    def call(verb: str, *values: str, **fields: str | float | None) -> str:
        shown = [json.dumps(v) for v in values]
        shown += [f"{k}={json.dumps(v) if isinstance(v, str) else repr(v)}" for k, v in fields.items() if v is not None]
        return f"        {verb}({', '.join(shown)}),"

    lines = ["result = generation(", f"    factor={json.dumps(program.factor)},", "    roles=["]
    lines += [call("role", r.name, kind=r.kind, category=r.category, affordance=r.affordance) for r in program.roles]
    lines += ["    ],", "    relations=["]
    lines += [call("relation", r.name, r.subject, r.reference) for r in program.relations]
    lines += ["    ],", "    edits=["]
    lines += [call("edit", e.verb, low=e.low, high=e.high) for e in program.edits]
    return "\n".join([*lines, "    ],", f"    level={program.level!r},", ")", ""])
