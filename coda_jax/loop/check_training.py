"""Training programs in ``--mode=check``: the gates on demonstrations made on the spot, and the critic's certificate."""

from __future__ import annotations

import functools
from typing import Any

from coda_jax import config as settings
from coda_jax.agents.llm.potentials import Judgement
from coda_jax.learning.critic.backup import Backup
from coda_jax.learning.critic.certificate import certificate
from coda_jax.learning.critic.targets import Rule
from coda_jax.loop import parts
from coda_jax.loop.seed_scenes import SEEDS_PER_RUN
from coda_jax.programs.training.gates import Demonstrated, GateError, check, constructed
from coda_jax.programs.training.landmarks import Landmark, landmarks
from coda_jax.programs.training.program import AnyProgram, TrainingProgram, to_program
from coda_jax.programs.training.spans import Span, phase_spans, placing
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.families import PHASES
from coda_jax.scenes.generate import training_scene
from coda_jax.sim.demonstrate import demonstrate
from coda_jax.sim.platforms import check as check_scenes
from coda_jax.sim.potentials import demonstrated
from coda_jax.sim.simulator import episode_of

_WORLDS = 8  # scenes tried at once
_MOST_SCENES = 64
LEAST_INSIDE = 0.5  # of the demonstrations that show the diagnosed phase


def proof(critic: settings.Config, stages: int) -> dict[str, Any]:
    """The critic's certificate under its settings, for a potential of so many stages: ``deviation``, whether it ``holds``, and between
    which values the shaped critic lies there."""
    rule, backup = Rule(critic.gamma, critic.gamma_unit, critic.beta), Backup(critic.backup, critic.backup_temperature)
    found = certificate(rule, backup, stages)
    return {"deviation": found.deviation, "holds": found.holds, "lowest": round(found.low, 3), "highest": round(found.high, 3)}


class TrainingCheck:
    """Judges training programs; demonstrations are made with the first one."""

    def __init__(self, config: settings.Config, family: str | None = None):
        """family: whose demonstrations a program must pass on; the first of the configuration's if left out."""
        self._config, self._family = config, family or settings.families(config)[0]

    @property
    def demonstrations(self) -> list[Demonstrated]:
        """``potential.gate_demos`` undisturbed demonstrations of training scenes, each grasped at the first attempt: where the target
        slips, losing a stage is the truth.

        Raises:
          InputError: the planner solves too few training scenes.
        """
        return [shown for shown, _ in self._made]

    @property
    def spans(self) -> list[list[Span]]:
        """Where each phase lies in each of the demonstrations. Raises as ``demonstrations``."""
        return [spans for _, spans in self._made]

    @functools.cached_property
    def _made(self) -> list[tuple[Demonstrated, list[Span]]]:
        """Demonstrations with the spans of their phases.

        Raises:
          InputError: the planner solves too few training scenes.
        """
        config, catalogue, wanted = self._config.copy_and_resolve_references(), Catalogue("train"), self._config.potential.gate_demos
        config.sim.worlds = min(config.sim.worlds, _WORLDS)
        sim = parts.native_simulator(config, catalogue, parts.training_bucket(config, catalogue))
        found: list[tuple[Demonstrated, list[Span]]] = []
        for first in range(0, _MOST_SCENES, sim.worlds):
            seeds = range(config.seed * SEEDS_PER_RUN + first, config.seed * SEEDS_PER_RUN + first + sim.worlds)
            specs = [training_scene(catalogue, self._family, seed) for seed in seeds]
            reports = check_scenes(specs, catalogue, parts.validity_of(config))
            valid = [spec for spec, report in zip(specs, reports, strict=True) if report.valid]
            horizon = parts.horizon_of(config)
            episodes = [episode_of(spec, horizon(spec), (number, 0)) for number, spec in enumerate(valid)]
            ended = demonstrate(sim, catalogue, episodes, parts.planner_of(config), None, config.seed)
            good = sorted((t for t in ended if t.success and t.attempts == 1), key=lambda t: t.episode.key)
            found += [(demonstrated(t, catalogue), phase_spans(t.predicates[:, 1 : 1 + len(PHASES)])) for t in good]
            if len(found) >= wanted:
                return found[:wanted]
        raise InputError(f"the planner solved {len(found)} of {_MOST_SCENES} training scenes, {wanted} are needed: check config.planner")

    def described(self, program: AnyProgram) -> dict[str, Any]:
        """``accepted, program_id, training`` and, of a potential, ``subgoals, certificate``; where the gates refuse it ``kind, line,
        reason`` and ``repair``, the text of a program that passes."""
        row: dict[str, Any] = {"accepted": True, "program_id": program.program_id, "training": program.kind}
        if not isinstance(program, TrainingProgram):
            return row
        row["subgoals"] = [s.name for s in program.subgoals]
        row["certificate"] = proven = proof(self._config.critic, program.stages)
        if not proven["holds"]:
            return row | {"accepted": False, "kind": "certificate", "line": None, "reason": self._moved(proven)}
        try:
            check(program, self.demonstrations)
        except GateError as error:
            row |= {"accepted": False, "kind": f"gate_{error.gate}", "line": None, "reason": str(error)}
            mended = self._mended(program)
            row["repair"] = None if mended is None else to_program(mended)
        except ValueError as error:
            row |= {"accepted": False, "kind": "binding", "line": None, "reason": self._unbound(error)}
        return row

    def judged(self, program: TrainingProgram, phase: str | None) -> Judgement:
        """Certificate, gates and, where a phase is given, whether enough subgoals lie inside it in most demonstrations that show it."""
        if not (proven := proof(self._config.critic, program.stages))["holds"]:
            return Judgement("certificate", self._moved(proven))
        try:
            check(program, self.demonstrations)
        except GateError as error:
            mended = self._mended(program)
            cured = mended if mended is not None and (phase is None or not self._outside(mended, phase)) else None
            return Judgement(f"gate_{error.gate}", str(error), cured)
        except ValueError as error:
            return Judgement("binding", self._unbound(error))
        outside = "" if phase is None else self._outside(program, phase)
        return Judgement("gate_phase", outside) if outside else Judgement()

    def landmarks(self) -> list[Landmark]:
        """How the demonstrations go, phase by phase."""
        return landmarks(self.demonstrations, self.spans, PHASES)

    def _moved(self, proven: dict[str, Any]) -> str:
        return f"the critic's targets move values by {proven['deviation']:.2g} beside -beta Phi: use another config.critic.backup"

    def _unbound(self, error: ValueError) -> str:
        """Of a program that cannot be measured in the family's scenes, such as one that relates a thing to itself."""
        return f"in scenes of {self._family}: {error}"

    def _outside(self, program: TrainingProgram, phase: str) -> str:
        """Where the subgoals lie instead of inside the phase, "" where enough do."""
        spans = [own[PHASES.index(phase)] for own in self.spans]
        found = placing(program, self.demonstrations, spans)
        if found.share is None or found.share >= LEAST_INSIDE:
            return ""
        shown = [(d.name, span) for d, span in zip(self.demonstrations, spans, strict=True) if span.has_inside]
        worst = int(found.inside.sum(1).argmin())
        name, span = shown[worst]
        met = ", ".join(f"{s.name!r} at {step}" for s, step in zip(program.subgoals, found.first[worst], strict=True))
        return (
            f"in {found.share:.0%} of the demonstrations {found.needed} subgoals lie inside the phase {phase}, in {LEAST_INSIDE:.0%} they "
            f"must: in demonstration {name} it lies after control step {span.begin} up to {span.end}, and the subgoals are first "
            f"met: {met}; change the conditions of {found.needed} so that they are met there, one after the other"
        )

    def _mended(self, program: TrainingProgram) -> TrainingProgram | None:
        """The program weakened or latched by rule so that it passes, None where that does not help."""
        try:
            return constructed(program, self.demonstrations).program
        except GateError:
            return None
