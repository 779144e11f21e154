"""What a model answers when it is asked why a rollout failed, and what of it cannot be so."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from coda_jax.agents.base import Diagnosis, Evidence, Factor, Outcome
from coda_jax.agents.llm.seen import Seen
from coda_jax.agents.vocabulary import EXECUTION_CAUSE
from coda_jax.programs.errors import one_line, quote
from coda_jax.scenes.families import PHASES

NAME = "llm"
NO_CAUSE = "none"  # how a model says EXECUTION_CAUSE
MOST_STEPS, MOST_OBJECTS = 8, 6
MOST_REASON = 160  # characters of why an answer does not fit


class Answer(BaseModel):
    """seen: what happened, said before the verdict; read by nobody but the model itself. objects: that the failure is about."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    seen: Annotated[str, Field(max_length=600)]
    factor: Literal["TASK", "SPATIAL", "ATTRIBUTE", "EXECUTION"]
    phase: Annotated[str, Field(max_length=40)]
    cause: Annotated[str, Field(max_length=80)]
    steps: Annotated[list[int], Field(min_length=1, max_length=MOST_STEPS)]
    objects: Annotated[list[Annotated[str, Field(max_length=80)]], Field(max_length=MOST_OBJECTS)]
    confidence: Annotated[float, Field(ge=0.0, le=1.0)]


@dataclasses.dataclass(frozen=True)
class Rejection:
    """kind: for counters. message: one line that the model can mend its answer from."""

    kind: Literal["schema", "phase", "cause", "step", "object"]
    message: str


def parsed(text: str) -> Answer | Rejection:
    """An answer's JSON text, or what is wrong with its form."""
    try:
        return Answer.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(quote(part).strip("'") for part in first["loc"]) or "the answer"
        known = where.split(".")[0] in Answer.model_fields or where == "the answer"
        # pydantic's words, none of the model's: nothing in them to be cut but their length
        message = f"{where}: {one_line(first['msg'], MOST_REASON)}" if known else "a field that is not asked for"
        return Rejection("schema", f"the answer does not fit the schema: {message}; answer with one JSON object of its fields")


def checked(answer: Answer, outcome: Outcome, seen: Seen, causes: Mapping[Factor, Sequence[str]]) -> Diagnosis | Rejection:
    """The diagnosis, or the first thing in the answer that the episode or the vocabulary does not hold."""
    if answer.phase not in PHASES:
        return Rejection("phase", f"phase {quote(answer.phase)} does not exist; use one of {', '.join(PHASES)}")
    if answer.phase in seen.passed and answer.phase != outcome.phase:
        left = [p for p in PHASES if p not in seen.passed or p == outcome.phase]
        return Rejection(
            "phase",
            f"phase {answer.phase} was passed at step {seen.passed[answer.phase]}; the rollout failed in a later one: {', '.join(left)}",
        )
    cause = EXECUTION_CAUSE if answer.cause == NO_CAUSE else answer.cause
    if cause not in causes[answer.factor]:
        known = ", ".join(f'"{c or NO_CAUSE}"' for c in causes[answer.factor])
        return Rejection("cause", f"cause {quote(answer.cause)} is none of factor {answer.factor}; use one of {known}")
    beyond = [step for step in answer.steps if not 0 <= step <= seen.steps]
    if beyond:
        return Rejection("step", f"step {quote(beyond[0])} lies outside the rollout, which has steps 0 to {seen.steps}")
    there = seen.present()
    unknown = [name for name in answer.objects if name not in there]
    if unknown:
        return Rejection("object", f"object {quote(unknown[0])} is not in the scene; there are {', '.join(there)}")
    evidence = Evidence({}, {}, outcome.margins, tuple(sorted(set(answer.steps))))
    return Diagnosis(answer.factor, answer.phase, cause, answer.confidence, evidence, NAME)
