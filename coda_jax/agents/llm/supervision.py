"""A language model beside the planner: an inspector that weighs what was measured of a failed try, a supervisor that changes its plan.

Neither measures anything and neither repairs an answer: what does not fit is refused and counted, and the scripted one answers.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, create_model

from coda_jax.agents.llm.author import Refusal
from coda_jax.agents.llm.chat import CallError, Chat, Message, Picture, Request, question_seed
from coda_jax.agents.llm.replies import unfenced
from coda_jax.agents.llm.tally import Tally
from coda_jax.agents.prompts import prompt
from coda_jax.programs.errors import one_line, quote, sentence
from coda_jax.scenes.families import read_goals
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.demonstrate import Trajectory
from coda_jax.sim.plan import commute
from coda_jax.sim.supervision.parameters import FIRST, RANGES, PlanParameters
from coda_jax.sim.supervision.remarks import KINDS, Critique, Inspector, Remark
from coda_jax.sim.supervision.supervisor import Revision, Supervisor, Tried, distinct

INSPECT, SUPERVISE = "inspector", "supervisor"
WORDS, REASON = 160, 200  # characters of a model's own words that are kept
_MOST_REMARKS, _INSTRUCTION = 12, 300
T = TypeVar("T", bound=BaseModel)
S = TypeVar("S")
_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.]*\w)")
_ID = re.compile(r"\b[a-z][a-z_]*_\d+\b")

Frames = Callable[[Trajectory, Sequence[int]], Sequence[Picture]]
"""Pictures of a try after some control steps."""


class SaidRemark(BaseModel):
    """number: of a measured remark. kind: its kind, written again so that a slip of the number shows. words: what it means."""

    model_config = _STRICT
    number: Annotated[int, Field(ge=1, le=1000)]
    kind: Annotated[str, Field(max_length=32)]
    words: Annotated[str, Field(max_length=WORDS)]


class InspectorAnswer(BaseModel):
    """The remarks that explain the failure, the one that weighs most first."""

    model_config = _STRICT
    remarks: Annotated[list[SaidRemark], Field(min_length=1, max_length=_MOST_REMARKS)]


def _change(name: str) -> Any:
    low, high, _ = RANGES[name]
    return (Annotated[type(getattr(FIRST, name)) | None, Field(ge=low, le=high)], None)


_CHANGES: dict[str, Any] = {name: _change(name) for name in RANGES}
PlanChanges = create_model("PlanChanges", __config__=_STRICT, **_CHANGES)


class SupervisorAnswer(BaseModel):
    """parameters: those of the next try that differ from the planner's first choice. give_up: no plan would help."""

    model_config = _STRICT
    reason: Annotated[str, Field(max_length=400)]
    give_up: bool
    parameters: PlanChanges  # type: ignore[valid-type]


@dataclasses.dataclass(frozen=True)
class SupervisionSettings:
    """frames: most pictures of a failed try. answer_tokens: of an answer. seed: of the run."""

    frames: int
    answer_tokens: int
    seed: int


class _Asking:
    """What both share: one question under a schema, every answer counted."""

    def __init__(self, chat: Chat, settings: SupervisionSettings, tally: Tally):
        self.chat, self.settings, self.tally = chat, settings, tally

    def answer(self, purpose: str, parts: tuple[str | Picture, ...], schema: type[T], *of: object) -> T | None:
        """The answer, or None without one that fits the schema."""
        seed = question_seed(self.settings.seed, purpose, *of)
        request = Request(purpose, (Message("user", parts),), seed, self.settings.answer_tokens, schema)
        (reply,) = self.chat.ask([request])
        if isinstance(reply, CallError):
            self.tally.count(purpose, reply.kind.value)
            return None
        self.tally.count(purpose, "answered")
        try:
            return schema.model_validate_json(unfenced(reply.text))
        except (ValueError, RecursionError):  # a ValidationError is a ValueError
            self.tally.count(purpose, "rejected:schema")
            return None

    def judged(self, purpose: str, answer: T | None, judge: Callable[[T], tuple[S, str]]) -> S | None:
        """What ``judge`` makes of the answer, and how that counts; None, a fallback, without an answer or where it raises Refusal."""
        if answer is not None:
            try:
                found, what = judge(answer)
            except Refusal as refused:
                self.tally.count(purpose, f"rejected:{refused.kind}")
            else:
                self.tally.count(purpose, what)
                return found
        self.tally.count(purpose, "fallback")
        return None


class LlmInspector:
    """Inspector Protocol: chooses and ranks among what ``measured`` measures, and says what it means; it cannot add a measurement.

    Asked only where there is more than one remark. frames: None for a model that sees no pictures.
    """

    def __init__(self, chat: Chat, settings: SupervisionSettings, tally: Tally, measured: Inspector, frames: Frames | None):
        self._asking, self._measured, self._frames = _Asking(chat, settings, tally), measured, frames

    def inspect(self, trajectory: Trajectory) -> Critique:
        """The remarks that count, the one that weighs most first; all that was measured where the model's answer is refused.

        Raises:
          ValueError: the execution succeeded.
        """
        critique = self._measured.inspect(trajectory)
        if len(critique.remarks) < 2:
            return critique
        spec, asking = trajectory.episode.spec, self._asking
        kinds = "\n".join(f"  {kind}: {KINDS[kind][1]}" for kind in critique.kinds)
        listed = "\n".join(f"{i}. {_line(r)}" for i, r in enumerate(critique.remarks, 1))
        asked = prompt("inspector").filled(
            instruction=one_line(spec.task.instruction, _INSTRUCTION), kinds=kinds, remarks=listed, most=_MOST_REMARKS, words=WORDS
        )
        of = (spec.scene_id, *trajectory.episode.key, *trajectory.parameters.changes().items())
        found = asking.answer(INSPECT, (asked, *self._pictures(trajectory, critique)), InspectorAnswer, *of)
        return asking.judged(INSPECT, found, lambda answer: (_chosen(answer, critique, spec), "accepted")) or critique

    def _pictures(self, trajectory: Trajectory, critique: Critique) -> Sequence[Picture]:
        if self._frames is None or not self._asking.settings.frames:
            return ()
        steps = sorted({min(r.step, len(trajectory.actions) - 1) for r in critique.remarks})
        return self._frames(trajectory, steps[: self._asking.settings.frames])


def _line(remark: Remark) -> str:
    amount = f", {remark.amount:g} {remark.unit}" if remark.unit else ""
    return f"{remark.kind} at control step {remark.step}, in {remark.skill}{amount}: {remark.message}"


def _chosen(found: InspectorAnswer, measured: Critique, spec: SceneSpec) -> Critique:
    """The measured remarks that an answer names, each with its words behind what was measured. Raises Refusal."""
    said: list[Remark] = []
    for one in found.remarks:
        if one.number > len(measured.remarks) or measured.remarks[one.number - 1].kind != one.kind:
            raise Refusal("unmeasured", f"there is no remark {one.number} {quote(one.kind)}")
        remark = measured.remarks[one.number - 1]
        if any(remark.step == r.step and remark.kind == r.kind and remark.object == r.object for r in said):
            raise Refusal("repeated", f"remark {one.number} is given twice")
        words = sentence(one.words, WORDS)
        _require_supported(words, measured, spec)
        said.append(dataclasses.replace(remark, message=f"{remark.message}; {words}") if words else remark)
    return Critique(tuple(said))


def _require_supported(words: str, measured: Critique, spec: SceneSpec) -> None:
    """Refuse words with a number that was not measured or a thing that is not there."""
    numbers = [float(n) for r in measured.remarks for n in (*_NUMBER.findall(r.message), r.amount, r.step)]
    for text in _NUMBER.findall(words):
        half = 0.5 * 10.0 ** -len(text.partition(".")[2]) + 1e-9
        if not any(abs(float(text) - n) <= half for n in numbers):
            raise Refusal("unmeasured", f"{text} was not measured")
    if strange := [name for name in _ID.findall(words) if name not in spec.object_ids]:
        raise Refusal("unmeasured", f"there is no {strange[0]}")


class LlmSupervisor:
    """Supervisor Protocol: the next plan of a scene by a language model. fallback: answers where the model's answer is refused.

    The answer is a function of the arguments, as long as the chat gives the same question the same answer.
    """

    def __init__(self, chat: Chat, settings: SupervisionSettings, tally: Tally, fallback: Supervisor, revisions: int):
        self._asking, self._fallback, self._revisions = _Asking(chat, settings, tally), fallback, revisions

    def revise(self, spec: SceneSpec, tried: Sequence[Tried]) -> Revision:
        """The next try, or the reason to give up.

        Raises:
          ValueError: nothing has failed.
        """
        left = self._revisions - (len({t.parameters for t in tried}) - 1)
        if not tried or left <= 0:
            return self._fallback.revise(spec, tried)
        asking, instruction = self._asking, one_line(spec.task.instruction, _INSTRUCTION)
        told = {"instruction": instruction, "left": left, "parameters": parameter_docs(), "tries": "\n".join(_tries(tried))}
        of = (spec.scene_id, len(tried), *(item for t in tried for item in t.parameters.changes().items()))
        found = asking.answer(SUPERVISE, (prompt("supervisor").filled(**told),), SupervisorAnswer, *of)

        def judge(answer: SupervisorAnswer) -> tuple[Revision, str]:
            decision = _decision(answer, spec, tried)
            return decision, "accepted" if decision.parameters else "gave_up"

        return asking.judged(SUPERVISE, found, judge) or self._fallback.revise(spec, tried)


def _decision(found: SupervisorAnswer, spec: SceneSpec, tried: Sequence[Tried]) -> Revision:
    """What an answer decides. Raises Refusal."""
    reason = sentence(found.reason, REASON) or "no reason given"
    if found.give_up:
        return Revision(None, f"given up by the supervisor: {reason}")
    changes = {name: value for name, value in found.parameters.model_dump().items() if value is not None}
    parameters = PlanParameters.of(changes)
    if parameters.reverse and not commute(read_goals(spec)):
        raise Refusal("order", "the goals build on each other")
    period = math.lcm(*(t.grasps for t in tried))
    if distinct(parameters, period) in {distinct(t.parameters, period) for t in tried}:
        raise Refusal("repeated", "this plan has failed before")
    return Revision(parameters, reason)


def _tries(tried: Sequence[Tried]) -> list[str]:
    lines = []
    for number, one in enumerate(tried, 1):
        changes = ", ".join(f"{name} {value:g}" for name, value in one.parameters.changes().items())
        lines.append(f"try {number}, {changes or 'the first choice'}; grasps to choose from: {one.grasps}")
        lines += [f"  {_line(r)}" for r in one.critique.remarks]
    return lines


def parameter_docs() -> str:
    """The parameters of a plan for a prompt, from their record: what each is, its range, unit and first choice."""
    _, meanings, *_ = (inspect.getdoc(PlanParameters) or "").split("\n\n")
    ranges = [f"  {name}: {low:g} to {high:g}{unit}, first choice {getattr(FIRST, name):g}" for name, (low, high, unit) in RANGES.items()]
    return "\n".join([meanings, *ranges])
