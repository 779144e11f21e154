"""Stage "environments": the round's accepted environments and their certified demonstrations, by the run's strategy."""

from __future__ import annotations

from coda_jax.loop import cloning, demonstrations, parts
from coda_jax.loop.journal import Environment, file_sha256
from coda_jax.loop.round_budget import WAVES
from coda_jax.loop.rounds import collect, evidence, recall, rows
from coda_jax.loop.rounds.certify import certify
from coda_jax.loop.rounds.proposals import PROPOSERS, Ask, Proposal
from coda_jax.loop.rounds.rollouts import Rollouts
from coda_jax.loop.rounds.variants import Base, Batch
from coda_jax.loop.run import Finished, Run
from coda_jax.loop.seed_scenes import SceneSource
from coda_jax.loop.strategies import STRATEGIES
from coda_jax.sim.demonstrate import Trajectory
from coda_jax.sim.supervision.tally import Tally


def run_stage(run: Run, round_number: int) -> Finished:
    """Fill the budget with scenes that are valid, new, and solved by the planner."""
    config = run.config
    propose = PROPOSERS[STRATEGIES[config.strategy].proposes]
    rollouts, batch = Rollouts(run, cloning.trained(run).ema), Batch()
    known = set(recall.scene_ids(run.memory)) if STRATEGIES[config.strategy].proposes != "seeds" else set()
    accepted: list[tuple[Proposal, list[Trajectory]]] = []
    unsolved: list[Proposal] = []
    physics, episodes, tally = 0, 0, Tally()
    with SceneSource(run) as source:
        bases = collect.base_scenes(run, round_number, source)
        changes = source.store()
    for wave in range(WAVES):
        missing = config.rounds.environments - len(accepted)
        if missing <= 0:
            break
        ask = Ask(run, round_number, wave, _rotated(bases, wave * config.rounds.environments), missing)
        offered = propose(ask, batch, rollouts)
        fresh = []
        for proposal in offered:
            if proposal.made.spec.scene_id not in known:
                known.add(proposal.made.spec.scene_id)
                fresh.append(proposal)
        certified = certify(
            run,
            [p.made.spec for p in fresh],
            config.rounds.demos,
            round_number * 1_000_000 + wave * 10_000,
            parts.noise_of(config),
            f"round {round_number}, demonstrations",
        )
        physics, episodes = physics + certified.physics_steps, episodes + certified.episodes
        tally += certified.tally
        for proposal, trajectories in zip(fresh, certified.found, strict=True):
            if trajectories:
                accepted.append((proposal, trajectories))
            else:
                unsolved.append(proposal)
    accepted = accepted[: config.rounds.environments]
    files = dict(changes["files"])
    if accepted:
        path = demonstrations.file_of_round(round_number)
        demonstrations.store(run.folder / path, [t for _, own in accepted for t in own], run.everything)
        files[path] = file_sha256(run.folder / path)
    scenes = rows.SceneRows(recall.scene_ids(run.memory))
    for proposal, _ in accepted:
        scenes.add_made(
            proposal.made,
            proposal.origin,
            round_number,
            program_id=proposal.program.program_id if proposal.program else None,
            mode_id=proposal.mode.mode_id if proposal.mode else None,
        )
    rolled = {o.trial.spec.scene_id for o in batch.rolled}
    for made in batch.made:  # candidates that were rolled out and not taken
        if made.spec.scene_id in rolled:
            scenes.add_made(made, "search", round_number)
    demos = sum(len(own) for _, own in accepted)
    origins: dict[str, int] = {}
    for proposal, _ in accepted:
        origins[proposal.origin] = origins.get(proposal.origin, 0) + 1
    shown = ", ".join(f"{origin} {n}" for origin, n in sorted(origins.items()))
    run.say(f"round {round_number}: {len(accepted)} environments ({shown}), {demos} demonstrations, planner failed in {tally.failures()}")
    run.metrics.write(
        "environments",
        round=round_number,
        accepted=len(accepted),
        origins=origins,
        demos=demos,
        unsolved=len(unsolved),
        planner=tally.row(),
        refused=batch.refused,
        checks=batch.checks(recall.has_traces(config)),
        edits=[[list(edit) for edit in p.made.verbs] for p, _ in accepted],
        verbs=[[*p.made.verbs[0], p.origin] for p, _ in accepted if p.made.verbs],
    )
    evidence.draw_environments(run, round_number, [p for p, _ in accepted])
    rejected = dict(changes["rejected"])
    for reason, n in (batch.refused | {"planner": len(unsolved)}).items():
        if n:
            rejected[reason] = rejected.get(reason, 0) + n
    changes |= {"files": files, "rejected": rejected, "demos": run.state.demos + demos}
    changes["environments"] = run.state.environments | {str(round_number): [_entry(p) for p, _ in accepted]}
    assert run.state.checkpoint is not None
    chosen_by = rows.episode_rows(batch.rolled, "choose", round_number, run.state.checkpoint, None)
    return Finished(
        {"done": len(accepted), "unit": "environments"},
        [*scenes.rows, *rows.construction_rows(batch.history, round_number), *chosen_by],
        changes,
        physics + rollouts.physics_steps,
        episodes + rollouts.count,
    )


def _entry(proposal: Proposal) -> Environment:
    return Environment(proposal.made.spec.scene_id, proposal.made.base.number, proposal.mode.mode_id if proposal.mode else None)


def _rotated(bases: list[Base], by: int) -> list[Base]:
    by %= max(len(bases), 1)
    return bases[by:] + bases[:by]
