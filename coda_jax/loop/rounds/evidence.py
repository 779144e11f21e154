"""What a round shows to people: film strips of diagnosed failures, pictures of the environments that were built for them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from coda_jax.agents.base import Case, Diagnosis, Outcome
from coda_jax.evaluation.failures import PHASES, phase_reached
from coda_jax.evaluation.film import pick_events, write_strip
from coda_jax.loop import films, parts
from coda_jax.loop.likeness import carried_out_again
from coda_jax.loop.rounds.proposals import Proposal
from coda_jax.loop.run import Run
from coda_jax.scenes.families import margins
from coda_jax.sim.demonstrate import Trajectory

FRAMES = 5  # of a clip, and one more where its margin was closest
_HEIGHT, _WIDTH, _GAP = 144, 192, 4  # px of a scene beside its base, and between them


@dataclasses.dataclass(frozen=True)
class Finding:
    """A diagnosed failure: its number in memory, the mode it was assigned to (None: EXECUTION), what was seen and what was said."""

    episode_id: int
    mode_id: str | None
    case: Case
    diagnosis: Diagnosis


def chosen(findings: Sequence[Finding], most: int) -> list[Finding]:
    """One failure of each of the ``most`` commonest modes: the one diagnosed with the highest confidence, the earliest of equals."""
    counts = Counter(f.mode_id for f in findings if f.mode_id is not None)
    ranked = sorted(counts, key=lambda mode: (-counts[mode], mode))[:most]
    return [min((f for f in findings if f.mode_id == mode), key=lambda f: (-f.diagnosis.confidence, f.episode_id)) for mode in ranked]


def base_success(cases: Sequence[Case], failed: Case) -> Outcome | None:
    """A successful rollout of the failure's base scene, with the same noise where there is one."""
    repeat = failed.outcome.trial.key[1]
    found = [c.outcome for c in cases if c.spec.scene_id == failed.base.scene_id and c.outcome.success and not c.outcome.health]
    return min(found, key=lambda o: (o.trial.key[1] != repeat, o.trial.key[1]), default=None)


def missed_margin(outcome: Outcome) -> list[Any] | None:
    """[name, value, step, threshold, unit] of the failed phase's quantity, of the first goal that missed it; None where it was reached,
    though not with what else the phase asks for."""
    for margin in margins(outcome.trial.spec):
        measured = outcome.margins.get(margin.name)
        if margin.phase == outcome.phase and measured is not None:
            reached = measured.value <= measured.threshold if margin.best == "smallest" else measured.value >= measured.threshold
            if not reached:
                return [margin.name, measured.value, measured.step, measured.threshold, measured.unit]
    return None


def draw_clips(run: Run, round_number: int, cases: Sequence[Case], findings: Sequence[Finding]) -> None:
    """Film strips of one failure of each of ``evaluate.films`` modes, and of its base scene's success where one was collected.

    Writes a row of kind "evidence" for each. Rollouts are carried out again from their recorded actions; one that goes otherwise than
    it was recorded (another backend) is no evidence and is left out.
    """
    picked = chosen(findings, run.config.evaluate.films)
    pairs = [(f, base_success(cases, f.case)) for f in picked]
    wanted = [o for f, base in pairs for o in (f.case.outcome, base) if o is not None and len(o.actions)]
    if not wanted:
        return
    again = _replayed(run, wanted)
    for finding, base in pairs:
        outcome, spec = finding.case.outcome, finding.case.spec
        trajectory = again.get(_key(outcome))
        if trajectory is None:
            continue
        margin = missed_margin(outcome)
        name = f"videos/r{round_number:02d}_{finding.mode_id}"
        _write(run, f"{name}_failed.png", trajectory, margin[2] if margin else None)
        beside = None
        if base is not None and _key(base) in again:
            beside = {"scene_id": base.trial.spec.scene_id, "instruction": base.trial.spec.task.instruction, "steps": base.steps}
            beside["file"] = f"{name}_base.png"
            _write(run, beside["file"], again[_key(base)], None)
        run.metrics.write(
            "evidence",
            round=round_number,
            mode=finding.mode_id,
            episode=finding.episode_id,
            scene_id=spec.scene_id,
            instruction=spec.task.instruction,
            factor=finding.diagnosis.factor,
            phase=outcome.phase,
            margin=margin,
            steps=outcome.steps,
            file=f"{name}_failed.png",
            base=beside,
        )


def _key(outcome: Outcome) -> tuple[str, int]:
    return outcome.trial.spec.scene_id, outcome.trial.key[1]


def _replayed(run: Run, outcomes: Sequence[Outcome]) -> dict[tuple[str, int], Trajectory]:
    # the worlds of every other native simulator of the run: another number would compile its predicates again
    sim = parts.native_simulator(run.config, run.everything, parts.training_bucket(run.config, run.train))
    recorded = {_key(o): o for o in outcomes}
    again = carried_out_again(sim, list(recorded.values()), parts.horizon_of(run.config))
    return {key: t for key, t in zip(recorded, again, strict=True) if t is not None}


def _write(run: Run, file: str, trajectory: Trajectory, closest: int | None) -> None:
    """closest: control step at which the margin was best; it gets a frame of its own."""
    steps = pick_events(phase_reached(trajectory.predicates[:, : 1 + len(PHASES)]), FRAMES)
    if closest is not None:
        steps = np.union1d(steps, [min(closest, len(trajectory.qpos)) - 1])
    spec = trajectory.episode.spec
    bucket = parts.training_bucket(run.config, run.train)
    scene = parts.platform_of(run.config).drawable(spec, run.everything, bucket, parts.robot_of(run.config))
    captions = [f"{step + 1} closest" if step + 1 == closest else f"{step + 1}" for step in steps]
    made = films.strip(scene, spec, run.everything, trajectory.qpos[steps], captions, trajectory.success, run.config.sim.threads)
    write_strip(run.folder / file, made)


def pictured(proposals: Sequence[Proposal], most: int) -> list[Proposal]:
    """At most ``most`` environments that a mode asked for: the first of each mode in turn, then second ones."""
    seen: Counter[str] = Counter()
    ranked = []
    for position, proposal in enumerate(proposals):
        if proposal.mode is not None:
            ranked.append((seen[proposal.mode.mode_id], position))
            seen[proposal.mode.mode_id] += 1
    return [proposals[position] for _, position in sorted(ranked)[:most]]


def draw_environments(run: Run, round_number: int, proposals: Sequence[Proposal]) -> None:
    """Pictures of some environments that modes asked for, their base scenes to the left; half of ``scenes.pictures`` a round."""
    for proposal in pictured(proposals, run.config.scenes.pictures // 2):
        made, mode = proposal.made, proposal.mode
        assert mode is not None, "chosen for having one"
        both = [
            np.asarray(films.picture(spec, run.train, parts.robot_of(run.config), _HEIGHT, _WIDTH)) for spec in (made.base.spec, made.spec)
        ]
        between = np.full((both[0].shape[0], _GAP, 3), 255, np.uint8)
        file = f"videos/r{round_number:02d}_scene_{made.spec.scene_id}.png"
        write_strip(run.folder / file, Image.fromarray(np.concatenate([both[0], between, both[1]], axis=1)))
        run.metrics.write(
            "scene",
            scene_id=made.spec.scene_id,
            instruction=made.spec.task.instruction,
            file=file,
            round=round_number,
            origin=proposal.origin,
            mode=mode.mode_id,
            base_scene_id=made.base.spec.scene_id,
            verbs=[list(verb) for verb in made.verbs],
        )
