"""The tools of the data engine: what a model may ask, what the loop must be able to tell, and how it is told."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field

from coda_jax.agents.llm import sdk_docs
from coda_jax.agents.llm.author import Refusal
from coda_jax.agents.llm.chat import Picture, Tool
from coda_jax.agents.llm.tally import Tally
from coda_jax.agents.llm.toolbox import Arguments, Toolbox, ToolRefused, Use
from coda_jax.programs.errors import one_line
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generation import GenerationProgram
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.checks.record import Failure

MOST_ASSETS, MOST_TRACES, MOST_LEVELS = 24, 12, 4
_SAID = 200  # characters of one check's message
Word = Annotated[str, Field(min_length=1, max_length=48, pattern=r"^[a-z0-9_]+$")]
ProgramText = Annotated[str, Field(min_length=1, max_length=65_536)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


class ListAssets(Arguments):
    """Assets that fit all that is given. longest_m: of the longest side."""

    category: Word | None = None
    affordance: Word | None = None
    least_longest_m: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    most_longest_m: Annotated[float, Field(ge=0.0, le=1.0)] = 1.0


class LookUpMode(Arguments):
    """A difficulty mode by its id, of 16 hexadecimal digits; left out, the list of all modes."""

    mode_id: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")] | None = None


class SimilarTraces(Arguments):
    """Earlier constructions: most like an edit verb at a magnitude, and a failed check where one is named."""

    verb: Word | None = None
    check: Word | None = None
    magnitude: Share = 0.5


class CheckProgram(Arguments):
    """A whole program text, ending with result = ..."""

    program: ProgramText


class Render(Arguments):
    """A base scene by its number in the question, or a scene program's scene."""

    base: Annotated[int, Field(ge=0, le=99)] | None = None
    program: ProgramText | None = None


class TryProgram(Arguments):
    """A generation program, and the levels at which its variants are rolled out."""

    program: ProgramText
    levels: Annotated[list[Share], Field(min_length=1, max_length=MOST_LEVELS)]


@dataclasses.dataclass(frozen=True)
class Trace:
    """A scene that failed a check: verb and magnitude of its edit, the check, both objects, the amount, the repair and if it passed."""

    verb: str
    magnitude: float
    check: str
    object: str
    other: str
    amount: float
    unit: str
    repair: str
    accepted: bool

    def said(self) -> str:
        about = f"{self.object} and {self.other}" if self.other else self.object
        ended = f"{self.repair}: {'valid' if self.accepted else 'still invalid'}" if self.repair else "given up"
        return one_line(f"{self.verb} at {self.magnitude:g}: {self.check} of {about}, {self.amount:.4g} {self.unit}; {ended}", _SAID)


@dataclasses.dataclass(frozen=True)
class Variants:
    """What a generation program makes of scenes. valid of ``tried``. refused: why others are none, reason to count."""

    tried: int
    valid: int
    refused: Mapping[str, int]


class EngineTools(Protocol):
    """What a data engine asks of whoever has the sandbox, the memory, the physics and the policy.

    But for the two doors nothing raises for what a model wrote.
    """

    def generation(self, text: str) -> GenerationProgram:
        """A generation program through its door. Raises ProgramError."""
        ...

    def scene(self, text: str) -> SceneSpec:
        """A scene program through the doors of training scenes. Raises ProgramError, HeldOutContent."""
        ...

    def modes(self) -> Sequence[Mapping[str, Any]]:
        """The difficulty modes in short: id, family, factor, phase, cause, severity."""
        ...

    def mode(self, mode_id: str) -> Mapping[str, Any] | None:
        """A mode with its evidence and measured history as plain data, None where there is none."""
        ...

    def known(self, factor: str, phase: str, cause: str, families: Sequence[str]) -> Mapping[str, Any] | None:
        """As ``mode``, by what it is; None for a difficulty that no mode stands for."""
        ...

    def traces(self, verb: str | None, check: str | None, magnitude: float, most: int) -> Sequence[Trace]:
        """Construction traces, the most similar first."""
        ...

    def taken(self) -> Sequence[GenerationProgram]:
        """This round's programs of other difficulties: the same edit for two of them would be one experiment counted twice."""
        ...

    def variants(self, program: GenerationProgram, bases: Sequence[SceneSpec], level: float) -> Variants:
        """The program on the bases at a level, checked by physics."""
        ...

    def validated(self, spec: SceneSpec, offered: bool) -> tuple[SceneSpec | None, Sequence[Failure]]:
        """A scene that passes all checks, as it is or mended; else None and what fails. offered: as an answer, not only looked at."""
        ...

    def holds(self, scene_id: str) -> bool:
        """Whether the memory has a scene already."""
        ...

    def picture(self, spec: SceneSpec) -> bytes | None:
        """PNG from the front, None where it cannot be drawn."""
        ...

    def tried(
        self, program: GenerationProgram, bases: Sequence[SceneSpec], levels: Sequence[float], rollouts: int
    ) -> Mapping[float, tuple[int, int]] | None:
        """Level to (successes, rollouts) of the present policy, about ``rollouts`` in all, at least one a level; None without one."""
        ...


Evaluate = Callable[[str], GenerationProgram | SceneSpec]  # through the door; raises Refusal


@dataclasses.dataclass
class _Desk:
    """Carries tools out for one dialogue. left: rollouts that it may still ask for."""

    tools: EngineTools
    catalogue: Catalogue
    bases: Sequence[SceneSpec]
    evaluate: Evaluate
    left: int

    def list_assets(self, asked: ListAssets) -> str:
        if asked.category is not None and asked.category not in self.catalogue.categories():
            raise ToolRefused("unknown", f"no category {asked.category}: there are {', '.join(self.catalogue.categories())}")
        if asked.category is None and asked.affordance is None and asked.least_longest_m == 0 and asked.most_longest_m == 1:
            return "\n".join(sdk_docs.category_lines(self.catalogue))
        found = [
            a
            for a in self.catalogue
            if asked.category in (None, a.category)
            and (asked.affordance is None or asked.affordance in a.affordances)
            and asked.least_longest_m <= 2 * max(a.half_extent_m) <= asked.most_longest_m
        ]
        more = [f"... and {len(found) - MOST_ASSETS} more: ask for less"] if len(found) > MOST_ASSETS else []
        return "\n".join([*map(sdk_docs.asset_line, found[:MOST_ASSETS]), *more]) or "no asset fits"

    def look_up_mode(self, asked: LookUpMode) -> str:
        if asked.mode_id is None:
            return "\n".join(one_line(str(dict(m)), _SAID) for m in self.tools.modes()) or "there are no modes yet"
        found = self.tools.mode(asked.mode_id)
        if found is None:
            raise ToolRefused("unknown", f"there is no mode {asked.mode_id}: leave mode_id out for the list")
        return facts(found)

    def similar_traces(self, asked: SimilarTraces) -> str:
        found = self.tools.traces(asked.verb, asked.check, asked.magnitude, MOST_TRACES)
        return "\n".join(t.said() for t in found) or "no construction has failed a check yet"

    def check_program(self, asked: CheckProgram) -> str:
        made = self._made(asked.program)
        if isinstance(made, GenerationProgram):
            return variants_said(self.tools.variants(made, self.bases, made.level))
        mended, failures = self.tools.validated(made, False)
        return failures_said(failures) if mended is None else "valid" if mended == made else "valid after small repairs"

    def render(self, asked: Render) -> tuple[str, Picture]:
        if (asked.base is None) == (asked.program is None):
            raise ToolRefused("arguments", "give either base or program")
        if asked.program is not None:
            made = self._made(asked.program)
            if isinstance(made, GenerationProgram):
                raise ToolRefused("arguments", "render takes scene programs; check_program takes generation programs")
        elif asked.base is not None and asked.base < len(self.bases):
            made = self.bases[asked.base]
        else:
            raise ToolRefused("unknown", f"base: there are {len(self.bases)} base scenes, from 0")
        png = self.tools.picture(made)
        if png is None:
            raise ToolRefused("unknown", "this scene cannot be drawn")
        return "the picture follows", Picture(png, f"front view: {one_line(made.task.instruction, 160)}")

    def try_program(self, asked: TryProgram) -> str:
        made = self._made(asked.program)
        if not isinstance(made, GenerationProgram):
            raise ToolRefused("arguments", "try_program takes generation programs")
        if self.left <= 0:
            raise ToolRefused("budget", "the rollouts of this question are used up: give the program")
        levels = tuple(dict.fromkeys(asked.levels))
        if len(levels) > self.left:
            raise ToolRefused("budget", f"{self.left} rollouts are left, fewer than {len(levels)} levels: ask for {self.left} at most")
        found = self.tools.tried(made, self.bases, levels, self.left)
        if found is None:
            raise ToolRefused("unknown", "there is no policy to try it with")
        self.left -= sum(n for _, n in found.values())
        shown = ", ".join(f"level {level:g}: {k} of {n} solved" for level, (k, n) in found.items())
        return f"{shown or 'no valid variant to roll out'}; {max(self.left, 0)} rollouts left"

    def _made(self, text: str) -> GenerationProgram | SceneSpec:
        try:
            return self.evaluate(text)
        except Refusal as refused:
            raise ToolRefused(f"program:{refused.kind}", refused.message) from None


_TOOLS: dict[str, tuple[type[Arguments], str]] = {
    "list_assets": (ListAssets, "List things of the training catalogue by category, affordance and size in metres."),
    "look_up_mode": (LookUpMode, "A difficulty mode with its diagnoses and measured history; without an id all modes."),
    "similar_traces": (SimilarTraces, "How earlier scenes failed their checks and which repair cured them, the most similar first."),
    "check_program": (CheckProgram, "Put a program through every check: how many of its variants are valid, what the others fail."),
    "render": (Render, "A picture of a base scene or of a scene program's scene, from the front."),
    "try_program": (TryProgram, "Roll the present policy out on a generation program's variants: successes at each level."),
}
Name = Literal["list_assets", "look_up_mode", "similar_traces", "check_program", "render", "try_program"]
WRITING: tuple[Name, ...] = ("list_assets", "look_up_mode", "similar_traces", "check_program", "render", "try_program")
SCENES: tuple[Name, ...] = ("list_assets", "similar_traces", "check_program", "render")


def toolbox(
    names: Sequence[Name],
    tools: EngineTools,
    catalogue: Catalogue,
    bases: Sequence[SceneSpec],
    evaluate: Evaluate,
    rollouts: int,
    answer_chars: int,
    purpose: str,
    tally: Tally,
) -> Toolbox:
    """The named tools for one dialogue. rollouts: most that it may ask for."""
    desk = _Desk(tools, catalogue, bases, evaluate, rollouts)
    uses = [Use(Tool(n, _TOOLS[n][1], _TOOLS[n][0]), getattr(desk, n)) for n in names if n != "try_program" or rollouts > 0]
    return Toolbox(uses, answer_chars, purpose, tally)


def facts(found: Mapping[str, Any]) -> str:
    """Plain data as lines for a prompt, each one line of printable characters."""
    return "\n".join(one_line(f"{name}: {_shown(value)}", 4 * _SAID) for name, value in found.items())


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {_shown(v)}" for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return "; ".join(map(_shown, value)) or "none"
    return "unknown" if value is None else str(value)


def failures_said(failures: Sequence[Failure]) -> str:
    """What checks say, one line each."""
    return "\n".join(one_line(f"{f.check}: {f.message}", 2 * _SAID) for f in failures[:8])


def variants_said(found: Variants) -> str:
    """How many variants are valid, and why others are none."""
    reasons = "; ".join(one_line(f"{n} x {reason}", _SAID) for reason, n in sorted(found.refused.items(), key=lambda r: (-r[1], r[0])))
    return f"{found.valid} of {found.tried} base scenes give a valid variant" + (f"; {reasons}" if reasons else "")
