"""Stage "diagnose": why edited scenes failed, and which difficulty modes that makes."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

from coda_jax import config as settings
from coda_jax.agents.base import SCRIPTED, Case, Diagnosis, Outcome, Trial
from coda_jax.loop import cloning, diagnosers
from coda_jax.loop.rounds import evidence, recall, rows
from coda_jax.loop.rounds.cases import collected
from coda_jax.loop.rounds.rollouts import Rollouts
from coda_jax.loop.run import Finished, Run
from coda_jax.memory import rows as memory_rows
from coda_jax.memory.consolidate import consolidate


def chosen_failures(cases: Sequence[Case], most: int) -> list[tuple[int, Case]]:
    """At most ``most`` failed rollouts of edited scenes, one of each scene, with their position among the rollouts.

    Scenes whose base the policy solved come first, for only there a reversion can show anything; then those that failed most often,
    for a single failure may be chance.
    """
    solved: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for case in cases:
        if case.spec.scene_id == case.base.scene_id and case.outcome.success:
            solved[case.spec.scene_id] += 1
        failed[case.spec.scene_id] += not case.outcome.success
    found: dict[str, tuple[int, Case]] = {}
    for position, case in enumerate(cases):
        edited = case.spec.scene_id != case.base.scene_id
        if edited and not case.outcome.success and not case.outcome.health:
            found.setdefault(case.spec.scene_id, (position, case))
    ranked = sorted(found.values(), key=lambda item: (not solved[item[1].base.scene_id], -failed[item[1].spec.scene_id], item[0]))
    return ranked[:most]


def run_stage(run: Run, round_number: int) -> Finished:
    """Diagnose, merge the diagnoses into modes, store both."""
    config = run.config
    assert run.state.checkpoint is not None, "cloning commits its last state"
    cases = collected(run.folder, run.memory, round_number)
    failures = chosen_failures(cases, config.diagnose.failures)
    rollouts = Rollouts(run, cloning.trained(run).ema)
    reverts: list[Outcome] = []
    with rollouts.runner("revert", round_number, 0, "diagnose") as rollout_fn:

        def watched(trials: Sequence[Trial]) -> list[Outcome]:
            found = rollout_fn(trials)
            reverts.extend(found)
            return found

        diagnoses = diagnosers.of_run(run).diagnose([c for _, c in failures], cases, watched)
    first = recall.episodes(run.memory, round_number, "collect")[0].episode_id if failures else 0
    assert first is not None
    records = [_record(first + position, d) for (position, _), d in zip(failures, diagnoses, strict=True)]
    families = {record.episode_id: case.spec.task.family for (_, case), record in zip(failures, records, strict=True)}
    changed, assignments = list[memory_rows.Mode](), dict[int, str]()
    for family in settings.families(config):
        own = [r for r in records if families[r.episode_id] == family]
        merged = consolidate(own, recall.modes_of(run.memory, (family,)), family, round_number)
        changed += merged.modes
        assignments |= merged.assignments
    scenes = rows.SceneRows(recall.scene_ids(run.memory))
    bases = {case.outcome.trial.key[0]: case.base for _, case in failures}  # re-rollouts keep the failure's number of the base
    for spec, base in ((o.trial.spec, bases[o.trial.key[0]]) for o in reverts):
        scenes.add(spec, "revert", round_number, base if spec.scene_id != base.scene_id else None)
    for (_, case), diagnosis, record in zip(failures, diagnoses, records, strict=True):
        run.metrics.write(
            "diagnosis",
            round=round_number,
            episode=record.episode_id,
            scene_id=case.spec.scene_id,
            instruction=case.spec.task.instruction,
            factor=diagnosis.factor,
            phase=diagnosis.phase,
            cause=diagnosis.cause,
            confidence=diagnosis.confidence,
            mode=assignments.get(record.episode_id),
            rollouts={arm: list(counts) for arm, counts in diagnosis.evidence.rollouts.items()},
            shares=dict(diagnosis.evidence.shares),
            margins={n: [m.value, m.step, m.threshold, m.unit] for n, m in diagnosis.evidence.margins.items()},
            **_said(diagnosis),
        )
    findings = [
        evidence.Finding(first + position, assignments.get(first + position), case, diagnosis)
        for (position, case), diagnosis in zip(failures, diagnoses, strict=True)
    ]
    evidence.draw_clips(run, round_number, cases, findings)
    counts = Counter(d.factor for d in diagnoses)
    run.say(f"round {round_number}: {len(diagnoses)} failures diagnosed: " + ", ".join(f"{f} {n}" for f, n in sorted(counts.items())))
    episodes = rows.episode_rows(reverts, "revert", round_number, run.state.checkpoint, None)
    return Finished(
        {"done": len(diagnoses), "unit": "diagnoses"},
        [*scenes.rows, *episodes, *changed, *(_with_mode(r, assignments) for r in records)],
        {},
        rollouts.physics_steps,
        rollouts.count,
    )


def _record(episode_id: int, d: Diagnosis) -> memory_rows.Diagnosis:
    margins = {f"{name}_{m.unit}": m.value for name, m in d.evidence.margins.items()}
    steps = d.evidence.steps or tuple(sorted({m.step for m in d.evidence.margins.values()}))
    evidence = memory_rows.Evidence(steps, margins)
    return memory_rows.Diagnosis(episode_id, d.factor, d.phase, d.cause or "execution", evidence, min(max(d.confidence, 0.0), 1.0))


def _said(d: Diagnosis) -> dict[str, Any]:
    """Who diagnosed and the steps that were named, where the row's other fields do not say it."""
    said: dict[str, Any] = {} if d.agent == SCRIPTED else {"agent": d.agent}
    return said | ({"steps": list(d.evidence.steps)} if d.evidence.steps else {})


def _with_mode(record: memory_rows.Diagnosis, assignments: dict[int, str]) -> memory_rows.Diagnosis:
    return dataclasses.replace(record, mode_id=assignments.get(record.episode_id))
