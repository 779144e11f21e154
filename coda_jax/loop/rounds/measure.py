"""Stages "before" and "after": the same fresh rollouts round a training, Learning Values, and whether the round ends."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from coda_jax import config as settings
from coda_jax.agents.base import Outcome, Trial
from coda_jax.evaluation.statistics import paired_difference
from coda_jax.evaluation.trials import counts_of, rate_interval, success_rate
from coda_jax.loop import cloning, schedule, starting_memory
from coda_jax.loop.journal import Environment
from coda_jax.loop.rounds import membership, recall, rows
from coda_jax.loop.rounds import outcomes as stored
from coda_jax.loop.rounds.measured import measured_scenes
from coda_jax.loop.rounds.rollouts import Rollouts
from coda_jax.loop.run import Finished, Run
from coda_jax.memory import band
from coda_jax.memory.consolidate import next_version
from coda_jax.memory.learning_value import gain_error, learning_values, scene_gains
from coda_jax.memory.rows import Episode, Gain, LearningValue, Purpose


def _by_mode(environments: list[Environment]) -> dict[str, list[Environment]]:
    """Environments by the mode that they practise; those of none are left out."""
    found: dict[str, list[Environment]] = {}
    for e in environments:
        if e.mode_id:
            found.setdefault(e.mode_id, []).append(e)
    return found


def _roll_out(run: Run, round_number: int, moment: Purpose, measured: list[Environment]) -> tuple[list[Outcome], Rollouts]:
    scenes, n = recall.Scenes(run.memory), run.config.rounds.rollouts
    trials = [Trial(scenes.spec(e.scene_id), (e.number, repeat)) for e in measured for repeat in range(n)]
    rollouts = Rollouts(run, cloning.trained(run).ema)
    with rollouts.runner("measure", round_number, len(trials), f"measure {moment}") as rollout_fn:
        return rollout_fn(trials), rollouts


def run_before(run: Run, round_number: int) -> Finished:
    """Fresh rollouts before the training: those that chose an environment are never its "before"."""
    environments, controls = measured_scenes(run, round_number)
    outcomes, rollouts = _roll_out(run, round_number, "before", [*environments, *controls])
    assert run.state.checkpoint is not None
    own = membership.top_up(run, round_number, rollouts, environments, outcomes, membership.open_environments)
    membership.write_targeting(run, round_number, environments, own)
    further = [o for rolled in own for o in rolled[run.config.rounds.rollouts :]]
    episodes = rows.episode_rows(outcomes, "before", round_number, run.state.checkpoint, None) + _further(run, round_number, own)
    changes = {"files": run.state.files | stored.keep(run, round_number, "before", [*outcomes, *further])}
    return Finished({"done": len(episodes), "unit": "rollouts"}, episodes, changes, rollouts.physics_steps, rollouts.count)


def _further(run: Run, round_number: int, own: list[list[Outcome]]) -> list[Episode]:
    """Rows of what was rolled out beyond the rollouts that before and after are compared by."""
    assert run.state.checkpoint is not None
    further = [o for outcomes in own for o in outcomes[run.config.rounds.rollouts :]]
    return rows.episode_rows(further, "band", round_number, run.state.checkpoint, None)


def _successes(run: Run, round_number: int, purpose: str) -> dict[str, dict[int, int]]:
    """Scene id to successes by policy step; scenes with a rollout that broke in the simulator are left out there."""
    found: dict[str, dict[int, int]] = {}
    broken: set[tuple[str, int]] = set()
    for e in recall.episodes(run.memory, round_number, purpose):
        own = found.setdefault(e.scene_id, {})
        own[e.policy_step] = own.get(e.policy_step, 0) + int(e.success)
        if e.health:
            broken.add((e.scene_id, e.policy_step))
    return {scene: {step: k for step, k in own.items() if (scene, step) not in broken} for scene, own in found.items()}


def run_after(run: Run, round_number: int, block: int) -> Finished:
    """The same rollouts after a block of training: Learning Value of every mode, and the schedule's decision."""
    config = run.config
    environments, controls = measured_scenes(run, round_number)
    outcomes, rollouts = _roll_out(run, round_number, "after", [*environments, *controls])
    assert run.state.checkpoint is not None
    n = config.rounds.rollouts
    rolled_out = zip((*environments, *controls), counts_of(outcomes, n), strict=True)
    k_after = {e.scene_id: k for e, (k, healthy) in rolled_out if healthy == n}
    before = {scene: own[min(own)] for scene, own in _successes(run, round_number, "before").items() if own}
    environments = [e for e in environments if e.scene_id in before and e.scene_id in k_after]
    controls = [e for e in controls if e.scene_id in before and e.scene_id in k_after]
    inside, further = _modes_inside(run, round_number, rollouts, environments, outcomes)
    ended = _decide(run, round_number, block, environments, inside, before, k_after)
    added: list[Any] = [*rows.episode_rows(outcomes, "after", round_number, run.state.checkpoint, None), *further]
    if ended.start:
        added += _values(run, round_number, environments, controls, before, k_after)
    run.say(f"round {round_number}: {_summary(run, environments, before, k_after)}; {ended.reason}")
    run.metrics.write(
        "measure",
        round=round_number,
        block=block,
        updates=block * config.rounds.steps,
        environments=_change(environments, before, k_after, n),
        controls=_change(controls, before, k_after, n),
        ended=ended.start,
        reason=ended.reason,
    )
    changes: dict[str, Any] = {"ended_rounds": round_number} if ended.start else {}
    changes["files"] = run.state.files | stored.keep(run, round_number, f"after{block}", outcomes)
    return Finished({"done": len(outcomes) + len(further), "unit": "rollouts"}, added, changes, rollouts.physics_steps, rollouts.count)


def _modes_inside(
    run: Run, round_number: int, rollouts: Rollouts, environments: list[Environment], outcomes: list[Outcome]
) -> tuple[set[str], list[Episode]]:
    """Modes in the band now, and the rows of the rollouts that it took beyond ``outcomes`` to tell; a fixed schedule does not ask."""
    if run.config.schedule.kind == "fixed":
        return set(), []
    chosen = {e.scene_id for e in environments}
    own = [o for o in outcomes if o.trial.spec.scene_id in chosen]
    rolled = membership.top_up(run, round_number, rollouts, environments, own, membership.open_modes)
    pools = membership.pooled(environments, [success_rate(o) for o in rolled])
    return {mode for mode, (k, n) in pools.items() if band.in_band(k, n)}, _further(run, round_number, rolled)


def _summary(run: Run, environments: list[Environment], before: dict[str, int], after: dict[str, int]) -> str:
    if not environments:
        return "no environments"
    found = _change(environments, before, after, run.config.rounds.rollouts)
    mean, low, high = found["change"]
    return (
        f"{found['before']}/{found['n']} -> {found['after']}/{found['n']} on its environments, "
        f"{100 * mean:+.0f} points ({100 * low:+.0f} .. {100 * high:+.0f})"
    )


def _change(scenes: list[Environment], before: dict[str, int], after: dict[str, int], n: int) -> dict[str, Any]:
    """Successes of ``n`` rollouts a scene before and after, each with its interval over scenes, and the paired change."""
    if not scenes:
        return {}
    first, second = ([c[e.scene_id] for e in scenes] for c in (before, after))
    change = paired_difference([(b - a) / n for a, b in zip(first, second, strict=True)])
    found: dict[str, Any] = {"scenes": len(scenes), "n": n * len(scenes), "before": sum(first), "after": sum(second)}
    found |= {f"{name}_interval": rate_interval(k, n) for name, k in (("before", first), ("after", second))}
    return found | {"change": [change.mean, change.low, change.high]}


def _decide(
    run: Run,
    round_number: int,
    block: int,
    environments: list[Environment],
    inside: set[str],
    before: dict[str, int],
    after: dict[str, int],
) -> schedule.Decision:
    config, n = run.config, run.config.rounds.rollouts
    if config.awr.improve == "frozen":  # further blocks would change nothing
        return schedule.Decision(True, "the policy is frozen, only its critic has learned")
    modes = {mode_id: [e.scene_id for e in own] for mode_id, own in _by_mode(environments).items()}
    updates = block * config.rounds.steps
    if config.schedule.kind == "fixed":
        plan: schedule.Fixed | schedule.Adaptive = schedule.Fixed(config.schedule.most_updates)
    else:
        plan = schedule.Adaptive(
            config.schedule.least_modes, config.schedule.window, config.schedule.least_gain, most_updates=config.schedule.most_updates
        )
    scenes = [s for m in modes if m in inside for s in modes[m]]
    history = []
    if before:
        history.append(schedule.Measurement(0, len(inside), {s: (before[s], n) for s in scenes}))
    earlier = _successes(run, round_number, "after")
    past = sorted({step for own in earlier.values() for step in own})
    for i, step in enumerate(past[: block - 1]):
        counts = {s: (earlier[s][step], n) for s in scenes if step in earlier.get(s, {})}
        history.append(schedule.Measurement((i + 1) * config.rounds.steps, len(inside), counts))
    history.append(schedule.Measurement(updates, len(inside), {s: (after[s], n) for s in scenes}))
    return schedule.next_round(plan, history)


def _values(
    run: Run,
    round_number: int,
    environments: list[Environment],
    controls: list[Environment],
    before: dict[str, int],
    after: dict[str, int],
) -> list[Any]:
    """Rows of Learning Values and of the modes' new versions."""
    n = run.config.rounds.rollouts

    def gains(scenes: list[Environment]) -> np.ndarray:
        return scene_gains([before[e.scene_id] for e in scenes], [after[e.scene_id] for e in scenes], n)

    by_mode = _by_mode(environments)

    def counts(scenes: list[Environment]) -> tuple[list[int], list[int]]:
        return [before[e.scene_id] for e in scenes], [after[e.scene_id] for e in scenes]

    values = learning_values({m: gains(scenes) for m, scenes in by_mode.items()}, {"controls": gains(controls)} if controls else {})
    general_error, unpractised = 0.0, None
    if controls:
        general_error = gain_error(*counts(controls), n)
        unpractised = {name: sum(k) for name, k in zip(("before", "after"), counts(controls), strict=True)} | {"n": n * len(controls)}
    known = recall.modes_by_id(recall.modes_of(run.memory, settings.families(run.config)))
    added: list[Any] = []
    for mode_id, value in values.items():
        scenes = by_mode[mode_id]
        pairs = tuple(Gain(e.scene_id, before[e.scene_id], after[e.scene_id], n) for e in scenes)
        added.append(LearningValue(mode_id, round_number, pairs, value.gain, value.value))
        k = sum(after[e.scene_id] for e in scenes)
        mode = known[mode_id]
        changed = next_version(mode, round_number, severity=k / (n * len(scenes)), importance=mode.importance + value.value)
        if changed is not mode and not starting_memory.frozen(run.config, mode):
            added.append(changed)
        run.metrics.write(
            "learning_value",
            round=round_number,
            mode=mode_id,
            factor=mode.factor,
            phase=mode.phase,
            cause=mode.cause,
            scenes=len(scenes),
            before=sum(before[e.scene_id] for e in scenes),
            after=k,
            n=n * len(scenes),
            controls=unpractised,
            gain=value.gain,
            value=value.value,
            se=math.hypot(gain_error(*counts(scenes), n), general_error),
        )
    return added
