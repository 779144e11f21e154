"""Everything that a round may learn from, read back from committed files: a function of the files and the round alone."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

import numpy as np

from coda_jax.agents.base import Outcome
from coda_jax.learning.records import EpisodeRecord, decisions
from coda_jax.loop import demonstrations, seed_scenes
from coda_jax.loop.rounds import outcomes as stored
from coda_jax.loop.rounds import recall
from coda_jax.loop.rounds.measured import measured_scenes
from coda_jax.loop.run import Run
from coda_jax.memory.rows import Scene as SceneRow
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.observe import words_and_roles

_SEEDS, _CERTIFIED = re.compile(r"episodes/demos_\d{4}\.npz"), re.compile(r"episodes/demos_r(\d{2})\.npz")
_ROLLOUTS = re.compile(r"episodes/rollouts_r(\d{2})_(collect|control|before|practice|after\d+)\.npz")

_MEASURES = ("before", "after")


Told = tuple[tuple[str | None, ...], str, tuple[int, ...]]  # words of the tokens, instruction, roles: ``words_and_roles``


def rollout_record(outcome: Outcome, source: str, told: Told, weight: float) -> EpisodeRecord:
    """The record of a recorded rollout."""
    recorded = outcome.recorded
    assert recorded is not None, "only recorded outcomes come here"
    actions = np.clip(outcome.actions, -1.0, 1.0)  # as the simulator does
    return EpisodeRecord(
        recorded.views, actions, recorded.executed, recorded.prefix, outcome.success, source, *told, weight, recorded.chunks
    )


def demonstration_record(demo: demonstrations.Stored, executed: int, told: Told, weight: float) -> EpisodeRecord:
    """The record of a certified demonstration, cut into decisions of ``executed`` steps as rollouts are."""
    cut = decisions(len(demo.executed), executed)
    return EpisodeRecord(demo.views, demo.executed, cut, 0, True, "demonstration", *told, weight)


@dataclasses.dataclass(frozen=True)
class Gathered:
    """A recorded episode with what labels it.

    mode_id: the mode that its scene practises, whose training program it gets; None: none. round: of its file, 0 for seed demonstrations.
    """

    record: EpisodeRecord
    spec: SceneSpec
    mode_id: str | None
    round: int


def gather(run: Run, round_number: int, seeds: int, weights: Mapping[str, float] | None = None) -> list[Gathered]:
    """Records for the training of a round, in the order of their files, those without a decision of the policy left out.

    demonstration: the first ``seeds`` seed demonstrations, and certified ones of this round and earlier ones. targeted: this round's
    rollouts on scenes that practise a mode (practice, control tests). control: its other rollouts. replay: rollouts of earlier rounds, and
    of this one on environments that repeat mastered modes. Control variants that are measured before and after a training are in none of
    them: they stay untrained. What measures this round's training waits for the next round: rollouts after it, since all blocks of a round
    have one table, and those before it, whose very noise is rolled out again, so that having learned from them would count as a gain.

    weights: mode to ``sampling_weight`` of its training program, 1 where missing.

    Raises:
      InputError: a file is damaged; it is named.
    """
    known = _Known(run, dict(weights or {}))
    found = _demonstrations(run, round_number, seeds, known)
    untrained = {e.scene_id for n in range(1, round_number + 1) for e in measured_scenes(run, n)[1]}
    for name in sorted(run.state.files):
        match = _ROLLOUTS.fullmatch(name)
        if match is None or int(match[1]) > round_number or (int(match[1]) == round_number and match[2].startswith(_MEASURES)):
            continue
        for outcome in stored.load(run.folder / name, known.spec):
            if _is_usable(outcome) and outcome.trial.spec.scene_id not in untrained:
                found.append(known.gathered(outcome, int(match[1]), earlier=int(match[1]) < round_number))
    return found


def _is_usable(outcome: Outcome) -> bool:
    """Recorded, unflagged, and the policy decided something."""
    return outcome.recorded is not None and not outcome.health and outcome.recorded.prefix < outcome.steps


def _demonstrations(run: Run, round_number: int, seeds: int, known: _Known) -> list[Gathered]:
    found: list[Gathered] = []
    names = sorted(run.state.files)
    for name in filter(_SEEDS.fullmatch, names):
        if len(found) < seeds:
            found += [known.demonstrated(s, 0) for s in demonstrations.load_file(run.folder / name)[: seeds - len(found)]]
    for name in names:
        match = _CERTIFIED.fullmatch(name)
        if match is not None and int(match[1]) <= round_number:
            found += [known.demonstrated(s, int(match[1])) for s in demonstrations.load_file(run.folder / name)]
    return found


class _Known:
    """What the run knows of scenes: specs of memory and of the seed files, modes, words."""

    def __init__(self, run: Run, weights: dict[str, float]):
        self._run, self._weights = run, weights
        self._seeds = {scene.spec.scene_id: scene.spec for scene in seed_scenes.load(run.folder, run.state)}
        self._scenes, self._rows = recall.Scenes(run.memory), dict[str, SceneRow | None]()
        self._modes = {e.scene_id: e.mode_id for own in run.state.environments.values() for e in own}
        self._words = dict[str, Told]()

    def spec(self, scene_id: str) -> SceneSpec:
        return self._seeds[scene_id] if scene_id in self._seeds else self._scenes.spec(scene_id)

    def gathered(self, outcome: Outcome, round_number: int, earlier: bool) -> Gathered:
        spec = outcome.trial.spec
        row, mode = self._row(spec.scene_id), self._mode(spec.scene_id)
        replayed = earlier or (row is not None and row.origin == "replay")
        source = "replay" if replayed else "targeted" if mode is not None else "control"
        return Gathered(rollout_record(outcome, source, self._told(spec), self._weight(mode)), spec, mode, round_number)

    def demonstrated(self, demo: demonstrations.Stored, round_number: int) -> Gathered:
        spec, mode = self.spec(demo.scene_id), self._mode(demo.scene_id)
        made = demonstration_record(demo, self._run.config.evaluate.executed, self._told(spec), self._weight(mode))
        return Gathered(made, spec, mode, round_number)

    def _row(self, scene_id: str) -> SceneRow | None:
        if scene_id not in self._rows:
            self._rows[scene_id] = self._run.memory.scene(scene_id)
        return self._rows[scene_id]

    def _mode(self, scene_id: str) -> str | None:
        """Of the environment, or of the scene of a control test's targeted variant."""
        if scene_id in self._modes:
            return self._modes[scene_id]
        row = self._row(scene_id)
        return None if row is None else row.mode_id

    def _told(self, spec: SceneSpec) -> Told:
        if spec.scene_id not in self._words:
            self._words[spec.scene_id] = words_and_roles(spec, self._run.everything)
        return self._words[spec.scene_id]

    def _weight(self, mode: str | None) -> float:
        return 1.0 if mode is None else self._weights.get(mode, 1.0)
