"""What memory remembers: one frozen dataclass per kind of row, validated strictly both when written and when read.

Ids are hashes of what they name (``scene_id_of``, ``program_id_of``, ``mode_id_of``), so that a row whose content was changed, or that
another run made up, does not pass. Rows that the store versions (Mode, Program) are added whole, one version at a time.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
TEXT_CHARS = 100_000  # of a program or a spec

Factor = Literal["TASK", "SPATIAL", "ATTRIBUTE"]
DiagnosedFactor = Literal["TASK", "SPATIAL", "ATTRIBUTE", "EXECUTION"]
Origin = Literal["seed", "novelty", "targeted", "control", "replay", "revert", "search", "randomised"]
Purpose = Literal[
    "collect", "revert", "search", "choose", "before", "after", "band", "control_target", "control_other", "practice", "evaluate"
]
ModeStatus = Literal["new", "kept", "removed"]
ProgramStatus = Literal["candidate", "active", "retired"]
Verdict = Literal["confirmed", "refuted", "undecided"]

Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
Cause = Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]+$")]
Text = Annotated[str, Field(min_length=1, max_length=TEXT_CHARS, pattern=r"^[^\x00]+$")]
Id = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Version = Annotated[int, Field(ge=1, lt=2**31)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Magnitude = Annotated[float, Field(ge=0.0)]


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def scene_id_of(spec_json: str) -> str:
    """Id of a scene from the canonical JSON of its spec, as ``SceneSpec.scene_id``."""
    return _hash(spec_json)


def program_id_of(kind: str, text: str) -> str:
    """Id of a program: the hash of its kind and text."""
    return _hash(kind, text)


def mode_id_of(family: str, factor: str, phase: str, cause: str) -> str:
    """Id of a difficulty mode: the hash of its key."""
    return _hash(family, factor, phase, cause)


def _same(what: str, given: str, wanted: str, of: str) -> None:
    if given != wanted:
        raise ValueError(f"{what} is {given}, but the hash of {of} is {wanted}: make the id from the content")


@dataclass(frozen=True, config=STRICT)
class Verb:
    """One edit of a scene: verb and magnitude in [0, 1]."""

    name: Name
    magnitude: Share


@dataclass(frozen=True, config=STRICT)
class Scene:
    """An environment that was built. The same scene is stored once, where it first came from.

    spec: canonical JSON. base_scene_id: the scene that it was edited from. program_id: the program that made it. factor, verbs: what was
    edited. level: in [0, 1]. mode_id: the difficulty it is to practise. reason: why it was rejected, None for an accepted one.
    """

    scene_id: Id
    spec: Text
    origin: Origin
    round: Count
    base_scene_id: Id | None = None
    program_id: Id | None = None
    factor: Factor | None = None
    verbs: Annotated[tuple[Verb, ...], Field(max_length=16)] = ()
    level: Share | None = None
    mode_id: Id | None = None
    reason: Name | None = None

    @property
    def accepted(self) -> bool:
        return self.reason is None

    @model_validator(mode="after")
    def _id_is_the_hash(self):
        _same("scene_id", self.scene_id, scene_id_of(self.spec), "the spec")
        if self.base_scene_id == self.scene_id:
            raise ValueError(f"scene {self.scene_id} is its own base_scene_id: name the scene it was edited from, or None")
        return self


@dataclass(frozen=True, config=STRICT)
class Repair:
    """What was changed to cure a violation: ``action`` on ``object``, "" for the task.

    action "move" goes ``amount`` in ``unit`` along ``direction``, a unit vector in the base frame; any other is the field that was set, to
    ``amount`` in ``unit`` or, where that is words, to ``value``.
    """

    action: Name
    object: Annotated[str, Field(max_length=200)]
    amount: float
    unit: Annotated[str, Field(max_length=20)]
    direction: tuple[float, float, float] | None = None
    value: Text | None = None


@dataclass(frozen=True, config=STRICT)
class Construction:
    """A check that a scene violated (see ``sim.checks.record.Failure``), by how much, the repair tried, and whether that passed.

    scene_id: the scene that was checked, None where it was never stored. verb: of the edit that built it, "" for a seed scene.
    """

    round: Count
    verb: Annotated[str, Field(max_length=200)]
    check: Name
    object: Annotated[str, Field(max_length=200)]
    other: Annotated[str, Field(max_length=200)]
    amount: float
    unit: Annotated[str, Field(max_length=20)]
    repair: Repair | None
    accepted: bool
    scene_id: Id | None = None


@dataclass(frozen=True, config=STRICT)
class Episode:
    """One rollout. Append-only.

    repeat: number among the rollouts of the scene with this purpose. policy_step: update of the policy that acted. steps: executed
    control steps. phase_failed: None for a success, else the first phase never met. health: bit flags of SimState.health; a flagged
    rollout is neither success nor failure. states: file of stored states relative to the run folder. episode_id: None until stored.
    """

    round: Count
    purpose: Purpose
    scene_id: Id
    repeat: Count
    policy_step: Count
    success: bool
    steps: Count
    phase_failed: Name | None = None
    health: Count = 0
    states: Name | None = None
    episode_id: Count | None = None


@dataclass(frozen=True, config=STRICT)
class Evidence:
    """Control steps that show it, and measured margins by name (units in the name, e.g. "clearance_m")."""

    steps: Annotated[tuple[Count, ...], Field(max_length=1000)] = ()
    margins: Annotated[dict[Name, float], Field(max_length=100)] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, config=STRICT)
class Diagnosis:
    """Why one episode failed. mode_id: filled in by consolidation; always None for EXECUTION, which no scene program can practise."""

    episode_id: Count
    factor: DiagnosedFactor
    phase: Name
    cause: Cause
    evidence: Evidence
    confidence: Share
    mode_id: Id | None = None

    @model_validator(mode="after")
    def _execution_has_no_mode(self):
        if self.factor == "EXECUTION" and self.mode_id is not None:
            raise ValueError(f"the diagnosis of episode {self.episode_id} is EXECUTION and names a mode: leave mode_id None")
        return self


@dataclass(frozen=True, config=STRICT)
class PairCounts:
    """One base scene of a control test: successes of n rollouts each of its targeted and of its control variant."""

    scene_id: Id
    k_target: Count
    k_control: Count
    n: Annotated[int, Field(ge=1, lt=2**31)]

    @model_validator(mode="after")
    def _k_within_n(self):
        if max(self.k_target, self.k_control) > self.n:
            raise ValueError(f"scene {self.scene_id}: k_target {self.k_target} and k_control {self.k_control} must lie in 0..n = {self.n}")
        return self


@dataclass(frozen=True, config=STRICT)
class ControlTest:
    """METHOD 7. kind: "test", "aa" (both variants by the same verb) or "random" (a diagnosis drawn at random); mean, low, high: drop of
    success by the named factor beyond that by another, with its interval. version: of the mode that was tested."""

    mode_id: Id
    version: Version
    round: Count
    kind: Literal["test", "aa", "random"]
    pairs: Annotated[tuple[PairCounts, ...], Field(max_length=1000)]
    mean: float
    low: float
    high: float
    p: Share
    verdict: Verdict


@dataclass(frozen=True, config=STRICT)
class Gain:
    """One scene: successes of n fresh rollouts before and after a training round, from the same states and with the same seeds."""

    scene_id: Id
    k_before: Count
    k_after: Count
    n: Annotated[int, Field(ge=1, lt=2**31)]

    @model_validator(mode="after")
    def _k_within_n(self):
        if max(self.k_before, self.k_after) > self.n:
            raise ValueError(f"scene {self.scene_id}: k_before {self.k_before} and k_after {self.k_after} must lie in 0..n = {self.n}")
        return self


@dataclass(frozen=True, config=STRICT)
class LearningValue:
    """METHOD 6: success after minus before a training round (``raw``), and shrunk toward the round's mean."""

    mode_id: Id
    round: Count
    scenes: Annotated[tuple[Gain, ...], Field(max_length=10_000)]
    raw: float
    shrunk: float


@dataclass(frozen=True, config=STRICT)
class Mode:
    """A version of a difficulty mode. Its key (family, factor, phase, cause) never changes.

    severity: current success rate of the policy, None until measured. importance: accumulated Learning Value. round: of this version.
    """

    mode_id: Id
    version: Version
    family: Name
    factor: Factor
    phase: Name
    cause: Cause
    severity: Share | None
    importance: float
    status: ModeStatus
    round: Count

    @model_validator(mode="after")
    def _id_is_the_hash(self):
        _same("mode_id", self.mode_id, mode_id_of(self.family, self.factor, self.phase, self.cause), "(family, factor, phase, cause)")
        return self


@dataclass(frozen=True, config=STRICT)
class Program:
    """A version of a generation program (Omega) or training program (Phi). Kind, text and mode never change.

    level: in [0, 1], the level found for it. verdict: of its control test, None before one.
    """

    program_id: Id
    version: Version
    kind: Literal["generation", "training"]
    text: Text
    mode_id: Id | None
    level: Share | None
    status: ProgramStatus
    verdict: Verdict | None
    round: Count

    @model_validator(mode="after")
    def _id_is_the_hash(self):
        _same("program_id", self.program_id, program_id_of(self.kind, self.text), "kind and text")
        return self


Row = Scene | Construction | Episode | Diagnosis | ControlTest | LearningValue | Mode | Program
