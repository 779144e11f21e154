"""Stage "practice": the rollouts of a round's environments that its critic and its weighted updates learn from.

They are there to learn from alone and have noise of their own: what measures a training, or decides about the band, is never in its data.
Where a mode's program asks for it (the tool ``start_states``), half of them begin where its phase begins, by demonstrations' actions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coda_jax import config as settings
from coda_jax.agents.base import Trial
from coda_jax.evaluation.starts import Shown, prefixes
from coda_jax.evaluation.trials import success_rate
from coda_jax.loop import cloning, demonstrations
from coda_jax.loop.journal import Environment
from coda_jax.loop.rounds import outcomes as stored
from coda_jax.loop.rounds import potentials, recall, rows
from coda_jax.loop.rounds.rollouts import Rollouts
from coda_jax.loop.run import Finished, Run


def run_stage(run: Run, round_number: int) -> Finished:
    """``rounds.practice`` recorded rollouts of each environment.

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
    inside = sum(p > 0 for p in given)
    begun = f", {inside} of them begun inside demonstrations, after {sum(given) / inside:.0f} control steps" if inside else ""
    run.say(f"round {round_number}: {k}/{n} in practice on its environments{begun}")
    scenes = len({t.spec.scene_id for t in trials})
    run.metrics.write("practice", round=round_number, k=k, n=n, environments=scenes, inside=inside, given=sum(given))
    assert run.state.checkpoint is not None, "cloning commits its last state"
    return Finished(
        {"done": len(outcomes), "unit": "rollouts"},
        rows.episode_rows(outcomes, "practice", round_number, run.state.checkpoint, None),
        {"files": run.state.files | stored.keep(run, round_number, "practice", outcomes)},
        rollouts.physics_steps,
        rollouts.count,
    )


def trials_of(run: Run, round_number: int) -> list[Trial]:
    """The round's trials: plain ones, and with prefixes of its demonstrations one after the other, where these come to the phase."""
    chosen = run.state.environments.get(str(round_number), [])
    scenes, n = recall.Scenes(run.memory), run.config.rounds.practice
    shown = _prefixes(run, round_number, chosen, scenes)
    trials = []
    for e in chosen:
        own, spec = shown.get(e.scene_id, []), scenes.spec(e.scene_id)
        plain = n // 2 if own else n
        trials += [Trial(spec, (e.number, repeat)) for repeat in range(plain)]
        trials += [Trial(spec, (e.number, repeat), own[(repeat - plain) % len(own)]) for repeat in range(plain, n)]
    return trials


def _prefixes(run: Run, round_number: int, chosen: Sequence[Environment], scenes: recall.Scenes) -> dict[str, list[np.ndarray]]:
    """Scene to the prefixes of its demonstrations, for scenes whose mode's program asks for start states."""
    if not run.config.potential.tools:
        return {}
    programs = potentials.in_use(run.memory, run.config).modes
    modes = recall.modes_by_id(recall.modes_of(run.memory, settings.families(run.config)))
    asking = {mode: modes[mode].phase for mode, program in programs.items() if program.tools.start_states and mode in modes}
    chosen = [e for e in chosen if e.mode_id in asking]
    if not chosen:
        return {}
    shown: dict[str, list[Shown]] = {}
    for demo in demonstrations.load_file(run.folder / demonstrations.file_of_round(round_number)):
        shown.setdefault(demo.scene_id, []).append(Shown(scenes.spec(demo.scene_id), demo.views, demo.executed))
    found: dict[str, list[np.ndarray]] = {}
    for phase in sorted(set(asking.values())):
        own = [s for e in chosen if e.mode_id and asking[e.mode_id] == phase for s in shown.get(e.scene_id, [])]
        for s, prefix in zip(own, prefixes(own, phase, run.everything), strict=True):
            if prefix is not None:
                found.setdefault(s.spec.scene_id, []).append(prefix)
    return found
