"""The data engine's tools in a run: memory told as plain facts, variants built and checked, quick rollouts of the present policy."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from coda_jax import config as settings
from coda_jax.agents.base import Trial
from coda_jax.agents.llm.engine_tools import Trace, Variants
from coda_jax.evaluation.trials import success_rate
from coda_jax.evaluation.wording import counted
from coda_jax.loop.rounds import recall
from coda_jax.loop.rounds.rollouts import Rollouts
from coda_jax.loop.rounds.variants import Base, Batch, Built, Made, program_variant, verified
from coda_jax.loop.run import Run
from coda_jax.loop.strategies import STRATEGIES
from coda_jax.loop.workbench import Workbench
from coda_jax.memory.modes import learning_values
from coda_jax.memory.programs import programs_of
from coda_jax.memory.rows import Mode, mode_id_of
from coda_jax.programs.errors import ProgramError
from coda_jax.programs.sandbox import Sandbox
from coda_jax.scenes.edits.verbs import VERBS
from coda_jax.scenes.generation import GenerationProgram
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.checks.record import Failure

_EVIDENCE, _HISTORY = 4, 6  # newest rows told of a mode
WRITTEN = "scene"  # stands for the verb of a scene that was written whole


class RunTools(Workbench):
    """EngineTools Protocol. Of a strategy that does not remember, only what this round found is told.

    rollouts: of the present policy, None where none may be asked for. batch: what became of offered scenes is noted in it.
    """

    def __init__(self, run: Run, round_number: int, sandbox: Sandbox, batch: Batch, rollouts: Rollouts | None = None):
        super().__init__(run.config, run.train, sandbox)
        self._run, self._round, self._batch, self._rollouts = run, round_number, batch, rollouts
        self._remembers = STRATEGIES[run.config.strategy].remembers
        self._scenes: set[str] | None = None
        self.programs: list[GenerationProgram] = []  # of this round, as they are accepted

    def taken(self) -> Sequence[GenerationProgram]:
        return tuple(self.programs)

    def holds(self, scene_id: str) -> bool:
        if self._scenes is None:
            self._scenes = set(recall.scene_ids(self._run.memory))
        return scene_id in self._scenes

    def validated(self, spec: SceneSpec, offered: bool) -> tuple[SceneSpec | None, Sequence[Failure]]:
        found = self.checked(spec)
        if offered:
            self._batch.proposed += 1
            self._batch.first += found.first.valid
            self._batch.valid += found.valid
            for attempt, cures in enumerate(found.cures, 1):
                passed = found.valid and attempt == len(found.cures)
                self._batch.history += [Built(WRITTEN, 0.0, c.failure, c.fix, passed) for c in cures]
            if not found.valid:
                self._batch.history.append(Built(WRITTEN, 0.0, found.report.failures[0], None, False))
        return (found.spec, ()) if found.valid else (None, found.report.failures)

    # memory

    def _modes(self) -> list[Mode]:
        own = recall.modes_of(self._run.memory, settings.families(self._run.config))
        if self._remembers:
            return own
        diagnosed = recall.diagnosed_modes(self._run.memory, self._round)
        return [m for m in own if m.mode_id in diagnosed]

    def modes(self) -> Sequence[Mapping[str, Any]]:
        return [
            {"mode_id": m.mode_id, "family": m.family, "factor": m.factor, "phase": m.phase, "cause": m.cause, "success": m.severity}
            for m in self._modes()
            if m.status != "removed"
        ]

    def known(self, factor: str, phase: str, cause: str, families: Sequence[str]) -> Mapping[str, Any] | None:
        return next((found for f in families if (found := self.mode(mode_id_of(f, factor, phase, cause))) is not None), None)

    def mode(self, mode_id: str) -> Mapping[str, Any] | None:
        mode = next((m for m in self._modes() if m.mode_id == mode_id), None)
        if mode is None:
            return None
        told: dict[str, Any] = {"family": mode.family, "factor": mode.factor, "phase": mode.phase, "cause": mode.cause}
        told |= {"success": mode.severity, "evidence": self._evidence(mode_id)}
        if self._remembers:
            told |= {"importance": mode.importance, "programs": self._programs(mode_id), "control tests": self._tests(mode_id)}
            values = learning_values(self._run.memory, mode_id)[-_HISTORY:]
            told["learning values"] = [f"round {v.round}: {v.raw:+.3f} on {counted(len(v.scenes), 'scene')}" for v in values]
        return told

    def _evidence(self, mode_id: str) -> list[str]:
        """The newest diagnoses of a mode: confidence, what was asked, measured margins."""
        found = self._run.memory.select(
            "SELECT d.confidence, d.evidence, e.steps, s.verbs FROM assignments a JOIN diagnoses d USING (episode_id) "
            "JOIN episodes e USING (episode_id) JOIN scenes s USING (scene_id) WHERE a.mode_id = ? AND (? OR e.round = ?) "
            "ORDER BY episode_id DESC LIMIT ?",
            (mode_id, int(self._remembers), self._round, _EVIDENCE),
        )
        told = []
        for confidence, evidence, steps, verbs in found:
            margins = ", ".join(f"{name} {value:.3g}" for name, value in json.loads(evidence)["margins"].items())
            edits = ", ".join(f"{v['name']} {v['magnitude']:g}" for v in json.loads(verbs)) or "none"
            told.append(f"confidence {confidence:.2f}, {steps} steps, edits of the scene {edits}, margins {margins or 'none'}")
        return told

    def _programs(self, mode_id: str) -> list[str]:
        told = []
        for row in programs_of(self._run.memory, mode_id, "generation")[-_HISTORY:]:
            try:
                program = self.generation(row.text)
            except ProgramError:  # of another catalogue
                continue
            verbs = " and ".join(f"{e.verb} {e.low:g}-{e.high:g}" for e in program.edits)
            told.append(f"{verbs} at level {'none' if row.level is None else f'{row.level:g}'}, {row.verdict or 'untested'}")
        return told

    def _tests(self, mode_id: str) -> list[str]:
        found = self._run.memory.select(
            "SELECT round, mean, low, high, verdict FROM control_tests WHERE mode_id = ? AND kind = 'test' ORDER BY rowid DESC LIMIT ?",
            (mode_id, _HISTORY),
        )
        return [f"round {r}: {verdict}, {mean:+.2f} ({low:+.2f} .. {high:+.2f})" for r, mean, low, high, verdict in reversed(found)]

    def traces(self, verb: str | None, check: str | None, magnitude: float, most: int) -> Sequence[Trace]:
        """Those of the verb before those of its factor, of the check before others, near magnitudes before far ones, new before old."""
        if not recall.has_traces(self._run.config):
            return ()
        found = self._run.memory.select(
            'SELECT verb, "check", object, other, amount, unit, repair, accepted FROM constructions ORDER BY rowid DESC LIMIT 2000'
        )
        own = [_trace(*row) for row in found]
        factor = VERBS[verb].factor if verb in VERBS else None

        def distance(trace: Trace) -> tuple[bool, bool, bool, float]:
            other = VERBS[trace.verb].factor if trace.verb in VERBS else ""
            return (
                check is not None and trace.check != check,
                verb is not None and trace.verb != verb,
                factor is not None and other != factor,
                abs(trace.magnitude - magnitude),
            )

        return list(dict.fromkeys(sorted(own, key=distance)))[:most]

    # physics and policy

    def variants(self, program: GenerationProgram, bases: Sequence[SceneSpec], level: float) -> Variants:
        scratch = Batch()  # what is only looked at counts for nothing
        made, tried = self._made(program, bases, level, scratch, self.config.engine.scenes)
        return Variants(tried, len(made), scratch.refused)

    def _made(
        self, program: GenerationProgram, bases: Sequence[SceneSpec], level: float, batch: Batch, most: int
    ) -> tuple[list[Made], int]:
        """Valid variants of the first bases that take the edits, of ``most`` at most, and how many bases were tried."""
        candidates: list[Made] = []
        tried = 0
        for number, spec in enumerate(bases):
            if len(candidates) == most:
                break
            tried += 1
            made = program_variant(self._run, program, Base(number, spec), level, batch)
            if made is not None:
                candidates.append(made)
        return verified(self._run, candidates, batch, self.config.engine.repairs), tried

    def tried(
        self, program: GenerationProgram, bases: Sequence[SceneSpec], levels: Sequence[float], rollouts: int
    ) -> Mapping[float, tuple[int, int]] | None:
        if self._rollouts is None:
            return None
        each = rollouts // len(levels)
        if not each:
            return {}
        trials, owners = [], []
        for level in levels:
            made, _ = self._made(program, bases, level, Batch(), each)
            for i in range(each if made else 0):
                trials.append(Trial(made[i % len(made)].spec, (made[i % len(made)].base.number, i // len(made))))
                owners.append(level)
        if not trials:
            return {}
        with self._rollouts.runner("try", self._round, len(trials), "tries of a program") as rollout_fn:
            outcomes = rollout_fn(trials)
        own = {level: [o for o, at in zip(outcomes, owners, strict=True) if at == level] for level in dict.fromkeys(owners)}
        return {level: success_rate(some) for level, some in own.items()}


def _trace(verb: str, check: str, thing: str, other: str, amount: float, unit: str, repair: str | None, accepted: int) -> Trace:
    name, _, magnitude = verb.partition("@")
    done = ""
    if repair is not None:
        fields = json.loads(repair)
        done = (
            f"{fields['action']} {fields['object'] or 'the task'} {fields.get('value') or format(fields['amount'], '.3g')} {fields['unit']}"
        )
    return Trace(name, float(magnitude or 0.0), check, thing, other, amount, unit, done.strip(), bool(accepted))
