"""Stage "practice": rollouts that begin where a mode's phase begins, by its demonstrations' own actions (the tool ``start_states``).

They are there to learn from alone: they count neither for the band nor for a Learning Value, whose rollouts begin at the scene's start.
"""

from __future__ import annotations

import numpy as np

from coda_jax import config as settings
from coda_jax.agents.base import Trial
from coda_jax.evaluation.starts import Shown, prefixes
from coda_jax.evaluation.trials import success_rate
from coda_jax.loop import cloning, demonstrations, parts
from coda_jax.loop.rounds import outcomes as stored
from coda_jax.loop.rounds import potentials, recall, rows
from coda_jax.loop.rounds.rollouts import Rollouts
from coda_jax.loop.run import Finished, Run
from coda_jax.loop.strategies import STRATEGIES


def wanted(config: settings.Config) -> bool:
    """Whether rounds have this stage; whether it finds anything to do depends on the programs in use."""
    return parts.learns(config) and STRATEGIES[config.strategy].diagnoses and config.potential.tools and config.rounds.practice > 0


def run_stage(run: Run, round_number: int) -> Finished:
    """``rounds.practice`` recorded rollouts of each environment whose mode's program asks for start states.

    Raises:
      InputError: the file of the round's demonstrations is damaged.
    """
    trials = trials_of(run, round_number)
    if not trials:
        return Finished({"done": 0, "unit": "rollouts"})
    rollouts = Rollouts(run, cloning.trained(run).ema, "collect")
    with rollouts.runner("practice", round_number, len(trials), "practice") as rollout_fn:
        outcomes = rollout_fn(trials)
    k, n = success_rate(outcomes)
    given = [o.recorded.prefix for o in outcomes if o.recorded]
    run.say(f"round {round_number}: {k}/{n} from inside demonstrations, after {np.mean(given):.0f} control steps of theirs")
    run.metrics.write("practice", round=round_number, k=k, n=n, environments=len({t.spec.scene_id for t in trials}), given=sum(given))
    assert run.state.checkpoint is not None, "cloning commits its last state"
    return Finished(
        {"done": len(outcomes), "unit": "rollouts"},
        rows.episode_rows(outcomes, "practice", round_number, run.state.checkpoint, None),
        {"files": run.state.files | stored.keep(run, round_number, "practice", outcomes)},
        rollouts.physics_steps,
        rollouts.count,
    )


def trials_of(run: Run, round_number: int) -> list[Trial]:
    """The round's trials with prefixes, its demonstrations one after the other; those that never come to the phase are left out."""
    programs, modes = (
        potentials.in_use(run.memory, run.config).modes,
        recall.modes_by_id(recall.modes_of(run.memory, settings.families(run.config))),
    )
    asking = {mode: modes[mode].phase for mode, program in programs.items() if program.tools.start_states and mode in modes}
    scenes = recall.Scenes(run.memory)
    chosen = [e for e in run.state.environments.get(str(round_number), []) if e.mode_id in asking]
    if not chosen:
        return []
    shown: dict[str, list[Shown]] = {}
    for demo in demonstrations.load_file(run.folder / demonstrations.file_of_round(round_number)):
        shown.setdefault(demo.scene_id, []).append(Shown(scenes.spec(demo.scene_id), demo.views, demo.executed))
    found: dict[str, list[np.ndarray]] = {}
    for phase in sorted(set(asking.values())):
        own = [s for e in chosen if e.mode_id and asking[e.mode_id] == phase for s in shown.get(e.scene_id, [])]
        for s, prefix in zip(own, prefixes(own, phase, run.everything), strict=True):
            if prefix is not None:
                found.setdefault(s.spec.scene_id, []).append(prefix)
    return [
        Trial(scenes.spec(e.scene_id), (e.number, repeat), found[e.scene_id][repeat % len(found[e.scene_id])])
        for e in chosen
        if e.scene_id in found
        for repeat in range(run.config.rounds.practice)
    ]
