"""Training programs in ``--mode=check``: the gates on demonstrations made on the spot, and the critic's certificate."""

from __future__ import annotations

import functools
from typing import Any

from coda_jax import config as settings
from coda_jax.learning.critic.backup import Backup
from coda_jax.learning.critic.certificate import certificate
from coda_jax.learning.critic.targets import Rule
from coda_jax.loop import parts
from coda_jax.loop.seed_scenes import SEEDS_PER_RUN
from coda_jax.programs.training.gates import Demonstrated, GateError, check, constructed
from coda_jax.programs.training.program import AnyProgram, TrainingProgram, to_program
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generate import sample_spec
from coda_jax.sim.demonstrate import demonstrate
from coda_jax.sim.potentials import demonstrated
from coda_jax.sim.simulator import episode_of
from coda_jax.sim.validity import check as check_scenes

_WORLDS = 8  # scenes tried at once
_MOST_SCENES = 64


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

    @functools.cached_property
    def demonstrations(self) -> list[Demonstrated]:
        """``potential.gate_demos`` undisturbed demonstrations of training scenes, each grasped at the first attempt: where the target
        slips, losing a stage is the truth.

        Raises:
          InputError: the planner solves too few training scenes.
        """
        config, catalogue, wanted = self._config.copy_and_resolve_references(), Catalogue("train"), self._config.potential.gate_demos
        config.sim.worlds = min(config.sim.worlds, _WORLDS)
        sim = parts.native_simulator(config, catalogue, parts.training_bucket(config, catalogue))
        found: list[Demonstrated] = []
        for first in range(0, _MOST_SCENES, sim.worlds):
            seeds = range(config.seed * SEEDS_PER_RUN + first, config.seed * SEEDS_PER_RUN + first + sim.worlds)
            specs = [sample_spec(catalogue, self._family, "id", "train", seed) for seed in seeds]
            reports = check_scenes(specs, catalogue, parts.validity_of(config))
            valid = [spec for spec, report in zip(specs, reports, strict=True) if report.valid]
            horizon = parts.horizon_of(config)
            episodes = [episode_of(spec, horizon(spec), (number, 0)) for number, spec in enumerate(valid)]
            ended = demonstrate(sim, catalogue, episodes, parts.planner_of(config), None, config.seed)
            good = sorted((t for t in ended if t.success and t.attempts == 1), key=lambda t: t.episode.key)
            found += [demonstrated(t, catalogue) for t in good]
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
            reason = f"the critic's targets move values by {proven['deviation']:.2g} beside -beta Phi: use another config.critic.backup"
            return row | {"accepted": False, "kind": "certificate", "line": None, "reason": reason}
        try:
            check(program, self.demonstrations)
        except GateError as error:
            row |= {"accepted": False, "kind": f"gate_{error.gate}", "line": None, "reason": str(error)}
            row["repair"] = self._repaired(program)
        return row

    def _repaired(self, program: TrainingProgram) -> str | None:
        try:
            return to_program(constructed(program, self.demonstrations).program)
        except GateError:
            return None
