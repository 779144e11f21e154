"""Training programs: what a critic is told about the way to success, as text and as strict records.

A program names at most four subgoals over the roles of a task, each with the condition that ends it and the progress toward it, and
learning tools. The forms without a potential are a dense reward and nothing at all. docs/training_programs.md is the page for authors.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
from typing import Annotated, Any, Literal, NoReturn

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from coda_jax.programs.code import expression_code, number_code
from coda_jax.programs.errors import ErrorKind, ProgramError, quote
from coda_jax.programs.expressions import COMBINATORS, Expr, ExpressionError, shown
from coda_jax.programs.helpers import HELPERS
from coda_jax.programs.plain import Plain
from coda_jax.programs.refusal import refusal
from coda_jax.programs.sandbox import Sandbox
from coda_jax.programs.training.limits import DENSE_WEIGHT, MAX_STAGES, TOOL_RANGES
from coda_jax.programs.training.sdk import training_sdk
from coda_jax.programs.training.vocabulary import SUCCESS, check_expression

_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
_NAME = r"^[a-z][a-z0-9_]{0,31}$"
# Names go into prompts of language models later: made of these words, none of them can carry an instruction.
_IN_NAMES = """
approach approached reach reached near nearer nearby close closer closed far midway halfway half way first second third last next to at
of the in on over above under below beside inside into onto touch touched touching finger fingers grip gripper grasp grasped grasping
hold holding held lift lifted lifting raise raised up high higher carry carried carrying transport move moved moving travel align
aligned low lower lowered lowering down place placed placing put insert inserted goal done rest resting settle settled still stand
standing upright release released releasing free freed let go open opened opening retreat success target reference object table stage
subgoal step
"""
NAME_WORDS = frozenset(_IN_NAMES.split())


def _normal(expr: Expr) -> Expr:
    """Numbers to 1e-6, which is what the text of a program shows."""
    args = tuple(_normal(a) if isinstance(a, Expr) else a if isinstance(a, str) else round(float(a), 6) + 0.0 for a in expr.args)
    return Expr(expr.op, args)


Measure = Annotated[Expr, AfterValidator(_normal)]


_ROUNDED = AfterValidator(lambda value: round(value, 6))


def _between(field: str):
    low, high = TOOL_RANGES[field]
    return Field(ge=low, le=high)


@dataclass(frozen=True, config=_STRICT)
class Subgoal:
    """done: condition that ends the stage. progress: toward it, in 0..1, read where it is the next one."""

    name: Annotated[str, Field(pattern=_NAME)]
    done: Measure
    progress: Measure


@dataclass(frozen=True, config=_STRICT)
class Tools:
    """Learning tools; None leaves a setting as it is.

    demo_share, replay_share: of each batch, of the critic's and of the policy's. start_states: rollouts also begin inside certified
    demonstrations, where the diagnosed phase begins. sampling_weight: of the program's transitions beside the others' of their source.
    candidate_temperature: of the choice among candidates in rollouts to learn from.
    """

    demo_share: Annotated[float, _between("demo_share"), _ROUNDED] | None = None
    start_states: bool | None = None
    replay_share: Annotated[float, _between("replay_share"), _ROUNDED] | None = None
    sampling_weight: Annotated[float, _between("sampling_weight"), _ROUNDED] | None = None
    candidate_temperature: Annotated[float, _between("candidate_temperature"), _ROUNDED] | None = None


@dataclass(frozen=True, config=_STRICT)
class TrainingProgram:
    """A staged potential: subgoals in order, the last one is success().

    latched: a stage that was reached counts until the episode ends; else it counts while its condition, or a later one, holds.
    """

    subgoals: Annotated[tuple[Subgoal, ...], Field(min_length=1, max_length=MAX_STAGES)]
    tools: Tools = Tools()
    latched: bool = False
    kind: Literal["potential"] = "potential"

    @property
    def stages(self) -> int:
        return len(self.subgoals)

    @functools.cached_property
    def program_id(self) -> str:
        return program_id(self)


@dataclass(frozen=True, config=_STRICT)
class DenseProgram:
    """A reward at every control step, weight times an expression in 0..1. No potential: it can change which policy is best."""

    reward: Measure
    weight: Annotated[float, Field(ge=DENSE_WEIGHT[0], le=DENSE_WEIGHT[1]), _ROUNDED]
    tools: Tools = Tools()
    kind: Literal["dense"] = "dense"

    @functools.cached_property
    def program_id(self) -> str:
        return program_id(self)


@dataclass(frozen=True, config=_STRICT)
class SparseProgram:
    """Success alone."""

    tools: Tools = Tools()
    kind: Literal["sparse"] = "sparse"

    @functools.cached_property
    def program_id(self) -> str:
        return program_id(self)


AnyProgram = TrainingProgram | DenseProgram | SparseProgram


def to_json(program: AnyProgram) -> str:
    """Canonical JSON: sorted keys, no spaces, numbers rounded to 1e-6."""
    return json.dumps(dataclasses.asdict(program), sort_keys=True, separators=(",", ":"))


def digest(program: AnyProgram) -> bytes:
    """SHA-256 of the canonical JSON."""
    return hashlib.sha256(to_json(program).encode()).digest()


def program_id(program: AnyProgram) -> str:
    """First 16 hex digits of the SHA-256 of the canonical JSON: the same program, the same id, however it was written."""
    return digest(program).hex()[:16]


_ADAPTER: TypeAdapter[AnyProgram] = TypeAdapter(Annotated[AnyProgram, Field(discriminator="kind")])
_EXPRESSION = "give an expression such as at_least(grasped('target'), 1)"
_ACCEPTED = {
    "subgoals": f"give 1 to {MAX_STAGES}, each made with subgoal(name, done=..., progress=...)",
    "name": "a name has 1 to 32 of a-z, 0-9 and _ and begins with a letter, such as lifted",
    "done": _EXPRESSION,
    "progress": _EXPRESSION,
    "reward": _EXPRESSION,
    "weight": f"give a number between {DENSE_WEIGHT[0]:g} and {DENSE_WEIGHT[1]:g}",
    "latched": "give True or False",
    "start_states": "give True or False",
    "kind": "end with `result = training(...)`",
} | {name: f"give a number between {low:g} and {high:g}" for name, (low, high) in TOOL_RANGES.items()}


def evaluate_training(text: str, sandbox: Sandbox) -> AnyProgram:
    """Evaluate the text of a training program, by anyone.

    Raises:
      ProgramError: kind INVALID_TRAINING, or one of the sandbox's; names the field and what to change.
    """
    return parse_training(sandbox.evaluate(text, training_sdk(), "result = training(...)", ErrorKind.INVALID_TRAINING))


def parse_training(value: Plain) -> AnyProgram:
    """Strictly validate what a program returned.

    Raises:
      ProgramError: kind INVALID_TRAINING.
    """
    if not isinstance(value, dict):
        _refuse(f"result: must be a training program, not {quote(value)}: end with `result = training(...)`")
    try:
        program = _ADAPTER.validate_json(json.dumps(value))
    except ValidationError as error:
        # the names of our own records have capitals, and the kinds are no fields
        kinds = ("potential", "dense", "sparse")
        _refuse(refusal(error, _ACCEPTED, "subgoal, dense, tools and training", lambda part: part.islower() and part not in kinds))
    except RecursionError:
        _refuse("result: nested too deep: flatten the expressions, all_of and mean take many arguments")
    check_program(program)
    return program


def _refuse(message: str) -> NoReturn:
    raise ProgramError(ErrorKind.INVALID_TRAINING, message)


def _checked(expr: Expr, where: str, condition: bool) -> tuple[float, float]:
    if bad := _strange(expr):
        _refuse(f"{where}: {quote(bad)} is no name: use the helpers and combinators of expressions, 'target' and 'reference'")
    try:
        return check_expression(expr, condition)
    except ExpressionError as error:
        _refuse(f"{where}: {error}")


def _strange(expr: Expr, depth: int = 0) -> str | None:
    """Text in an expression that is no name; it would go into messages."""
    for text in (expr.op, *(a for a in expr.args if isinstance(a, str))):
        if not re.fullmatch(_NAME[1:-1], text):
            return text
    inner = (a for a in expr.args if isinstance(a, Expr)) if depth < MAX_STAGES * 8 else ()
    return next((found for a in inner if (found := _strange(a, depth + 1))), None)


def check_program(program: AnyProgram) -> None:
    """Whether a program makes sense: known roles and helpers, conditions where they belong, progress in 0..1, success() last.

    Raises:
      ProgramError: kind INVALID_TRAINING.
    """
    if isinstance(program, SparseProgram):
        return
    if isinstance(program, DenseProgram):
        _check_share(program.reward, "reward")
        return
    seen: dict[str, int] = {}
    for i, subgoal in enumerate(program.subgoals):
        where = f"subgoals[{i}]"
        words = [w.rstrip("0123456789") for w in subgoal.name.split("_")]
        if strange := next((w for w in words if w and w not in NAME_WORDS), None):
            _refuse(
                f"{where}.name: {quote(subgoal.name)} holds the word {quote(strange)}: use words such as near, held, lifted, over, placed"
            )
        if subgoal.name in seen:
            _refuse(f"{where}.name: {quote(subgoal.name)} is also subgoals[{seen[subgoal.name]}]: give each its own name")
        seen[subgoal.name] = i
        _checked(subgoal.done, f"{where}.done", condition=True)
        _check_share(subgoal.progress, f"{where}.progress")
        if same := [j for j, s in enumerate(program.subgoals[:i]) if s.done == subgoal.done != SUCCESS]:
            _refuse(f"{where}.done: is that of subgoals[{same[0]}]: ask for something that comes later, or leave one out")
    last = program.stages - 1
    if program.subgoals[last].done != SUCCESS:
        _refuse(f"subgoals[{last}].done: the last subgoal must be done=success(), not {shown(program.subgoals[last].done)}")
    if early := [i for i, s in enumerate(program.subgoals[:last]) if s.done == SUCCESS]:
        _refuse(f"subgoals[{early[0]}].done: success() ends the last subgoal only: ask for less, such as goal()")


def _check_share(expr: Expr, where: str) -> None:
    low, high = _checked(expr, where, condition=False)
    if low < 0.0 or high > 1.0:
        name = shown(expr)
        _refuse(f"{where}: {name} lies between {low:g} and {high:g}, but 0 to 1 is needed: wrap it, ramp({name}, lo, hi)")


def to_program(program: AnyProgram) -> str:
    """Canonical text of a program; evaluating it gives the same program."""
    parts = []
    if isinstance(program, TrainingProgram):
        for s in program.subgoals:
            done, progress = expression_code(s.done, 8), expression_code(s.progress, 8)
            parts.append(f"subgoal(\n        {json.dumps(s.name)},\n        done={done},\n        progress={progress},\n    )")
    elif isinstance(program, DenseProgram):
        parts.append(f"dense({expression_code(program.reward, 4)}, weight={number_code(program.weight)})")
    else:
        parts.append("sparse()")
    if chosen := {k: v for k, v in dataclasses.asdict(program.tools).items() if v is not None}:
        parts.append(f"tools({', '.join(f'{k}={_tool_code(v)}' for k, v in chosen.items())})")
    if isinstance(program, TrainingProgram) and program.latched:
        parts.append("latched=True")
    return "\n".join(["result = training(", *(f"    {part}," for part in parts), ")", ""])


def _tool_code(value: Any) -> str:
    return repr(value) if isinstance(value, bool) else number_code(value)


def helpers_in(expr: Expr) -> frozenset[str]:
    """Helpers named anywhere in ``expr``."""
    found = {expr.op} if expr.op in HELPERS else set()
    for arg in expr.args:
        found |= helpers_in(arg) if isinstance(arg, Expr) else set()
    return frozenset(found)


assert not {"success", "goal"} & (HELPERS.keys() | COMBINATORS.keys()), "a symbol would hide a helper"
