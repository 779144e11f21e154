"""What a scene program returns, as strict records: every field optional that our own code can fill in."""

from __future__ import annotations

import json
import re
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from coda_jax.programs.errors import ErrorKind, ProgramError, quote
from coda_jax.programs.expressions import Expr
from coda_jax.programs.plain import Plain
from coda_jax.programs.refusal import refusal
from coda_jax.scenes import families
from coda_jax.scenes.ranges import IDENTIFIER, INSTRUCTION, MAX_FIXTURES, MAX_FREE, RANGES, SYMBOL

_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


def _between(field: str):
    low, high, _ = RANGES[field]
    return Field(ge=low, le=high)


Symbol = Annotated[str, Field(pattern=SYMBOL)]
Identifier = Annotated[str, Field(pattern=IDENTIFIER)]
RoleName = Literal["target", "reference", "distractor", "obstacle", "support", "container"]
RelationName = Literal["on", "inside", "beside", "near", "left_of", "right_of", "behind", "in_front_of", "under", "above"]
ROLES, RELATIONS = get_args(RoleName), get_args(RelationName)


def _registered(name: str) -> str:
    families.get(name)
    return name


FamilyName = Annotated[str, AfterValidator(_registered)]


@dataclass(frozen=True, config=_STRICT)
class ThingDraft:
    """One ``thing(...)``. Without ``z`` it rests on its support; without mass, friction or colour it has its asset's."""

    name: Symbol
    x: Annotated[float, _between("x")]
    y: Annotated[float, _between("y")]
    asset: Identifier | None = None
    category: Identifier | None = None
    instance: Annotated[int, Field(ge=0, le=9999)] | None = None
    on: Symbol = "table"
    role: RoleName | None = None
    colour: Symbol | None = None
    yaw_rad: Annotated[float, _between("yaw_rad")] = 0.0
    scale: Annotated[float, _between("scale")] = 1.0
    mass_kg: Annotated[float, _between("mass_kg")] | None = None
    friction: Annotated[float, _between("friction")] | None = None
    z: Annotated[float, _between("z")] | None = None
    region: Symbol = "table"
    clearance_m: Annotated[float, _between("clearance_m")] = 0.0


@dataclass(frozen=True, config=_STRICT)
class RelationDraft:
    name: RelationName
    subject: Symbol
    reference: Symbol


@dataclass(frozen=True, config=_STRICT)
class RoleDraft:
    object: Symbol
    role: RoleName


@dataclass(frozen=True, config=_STRICT)
class SceneDraft:
    """One ``scene(...)``. Without ``relations`` the supports are the relations; ``roles`` replaces the things' own in order and number."""

    instruction: Annotated[str, Field(pattern=INSTRUCTION)]
    objects: Annotated[tuple[ThingDraft, ...], Field(min_length=1, max_length=MAX_FREE + MAX_FIXTURES)]
    goal: Expr
    layout: Identifier = "free"
    family: FamilyName = "pick_place"
    relations: Annotated[tuple[RelationDraft, ...], Field(max_length=24)] | None = None
    roles: Annotated[tuple[RoleDraft, ...], Field(max_length=24)] | None = None


_ADAPTER: TypeAdapter[SceneDraft] = TypeAdapter(SceneDraft)
_ACCEPTED = {
    "name": "a name has 1 to 32 of a-z, 0-9 and _ and begins with a letter, such as mug_1",
    "instruction": "an instruction has 3 to 160 letters, digits, spaces and , . ' -",
    "objects": f"a scene has 1 to {MAX_FREE + MAX_FIXTURES} objects, each made with thing(...)",
    "role": f"use one of {', '.join(ROLES)}",
    "goal": "give an expression such as on('mug_1', 'plate_1')",
    "relations": f"use initially(relation, a, b) with one of {', '.join(RELATIONS)}",
}
for _field in ("subject", "reference", "object", "on", "colour", "region"):
    _ACCEPTED[_field] = "give a string of 1 to 32 of a-z, 0-9 and _"
for _field in ("asset", "category", "layout"):
    _ACCEPTED[_field] = "give a string of 1 to 48 of a-z, 0-9 and _"
for _field, (_low, _high, _unit) in RANGES.items():
    _ACCEPTED[_field] = f"give a number between {_low:g} and {_high:g}{_unit}"


def parse_draft(value: Plain) -> SceneDraft:
    """Strictly validate what a program returned.

    Raises:
      ProgramError: kind INVALID_SCENE; names the field and what it accepts.
    """
    if not isinstance(value, dict):
        raise ProgramError(ErrorKind.INVALID_SCENE, f"result: must be a scene, not {quote(value)}: end with `result = scene(...)`")
    try:
        draft = _ADAPTER.validate_json(json.dumps(value))
        _check_symbols(draft.goal, "goal")
        return draft
    except ValidationError as error:
        # the names of our own records have capitals
        accepted = _ACCEPTED | {"family": f"use one of {', '.join(families.names())}"}
        message = refusal(error, accepted, "thing(...) and scene(...)", str.islower)
        raise ProgramError(ErrorKind.INVALID_SCENE, message) from None
    except RecursionError:
        raise ProgramError(ErrorKind.INVALID_SCENE, "goal: nested too deep: flatten it, all_of takes many arguments") from None


def _check_symbols(expr: Expr, where: str) -> None:
    """Refuse text in a goal that is no name: it would go into messages, and no object is called so."""
    for part, text in ((f"{where}.op", expr.op), *((f"{where}.args[{i}]", a) for i, a in enumerate(expr.args))):
        if isinstance(text, str) and not re.fullmatch(SYMBOL, text):
            raise ProgramError(ErrorKind.INVALID_SCENE, f"{part}: {quote(text)} is no name: {_ACCEPTED['name']}")
    for i, arg in enumerate(expr.args):
        if isinstance(arg, Expr):
            _check_symbols(arg, f"{where}.args[{i}]")
