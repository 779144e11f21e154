"""Rollouts by an actor that asks a critic: what the critic is told about each world's training program, decision by decision."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import jax
import numpy as np

from coda_jax.learning.actor import Selection
from coda_jax.learning.critic.batch import ProgramInput
from coda_jax.programs import expressions
from coda_jax.programs.training import code, potential, values
from coda_jax.programs.training.limits import CODE_DIM, MAX_STAGES
from coda_jax.programs.training.program import AnyProgram
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.sim import recording
from coda_jax.sim.potentials import program_scene
from coda_jax.sim.simulator import Episode
from coda_jax.types import Array, ChunkTrace, Observation, WorldView


@dataclasses.dataclass
class Choices:
    """How the decisions of running worlds were taken: sums over ``decisions``.

    effective: candidates that take part. value: Q of what was carried out. q_sd: standard deviation of Q over a state's candidates.
    spread2, departure2: squares of Selection's ``spread`` and ``departure``.
    """

    decisions: int = 0
    effective: float = 0.0
    value: float = 0.0
    q_sd: float = 0.0
    spread2: float = 0.0
    departure2: float = 0.0

    def add(self, selection: Selection, mask: np.ndarray) -> None:
        """mask: [W] bool, worlds to count."""
        found = jax.tree.map(lambda leaf: np.asarray(leaf)[mask].astype(np.float64), selection)
        self.decisions += int(mask.sum())
        self.effective += found.effective.sum()
        self.value += found.value.sum()
        self.q_sd += found.q.std(-1).sum()
        self.spread2 += np.square(found.spread).sum()
        self.departure2 += np.square(found.departure).sum()

    def means(self) -> dict[str, float]:
        """Per decision: effective, value, q_sd; ``executed_spread``: how far from the candidates' mean what is carried out lies, as a share
        of how far the candidates lie (about 1 for one of them, near 0 for their average). Empty without decisions."""
        if not self.decisions:
            return {}
        means = {name: getattr(self, name) / self.decisions for name in ("effective", "value", "q_sd")}
        return means | {"executed_spread": float(np.sqrt(self.departure2 / max(self.spread2, 1e-30)))}


@dataclasses.dataclass(frozen=True)
class Guided:
    """A policy function that is also told where each world's training program stands.

    act: (observation of W worlds, program input, keys [W], temperatures [W]) -> chunks [W, h, 7] and how they were chosen. program_of: the
    training program of an episode, None where it has none. unprogrammed: what the critic is told in that case; there is no default, for it
    must be a program of the critic's training (learning/actor.py: check_met), SparseProgram() only where some of its episodes had none.
    temperature_of: of an episode's choices.
    """

    act: Callable[[Observation, ProgramInput, Array, Array], tuple[Array, Selection]]
    program_of: Callable[[Episode], AnyProgram | None]
    unprogrammed: AnyProgram
    temperature_of: Callable[[Episode], float]
    catalogue: Catalogue
    choices: Choices = dataclasses.field(default_factory=Choices)


class Guidance:
    """Where the programs of the running episodes stand, in W worlds.

    Latched programs are read at every control step, as they are when recorded episodes are labelled; the others at decisions only.
    """

    def __init__(self, guided: Guided, worlds: int):
        self._guided = guided
        nothing = expressions.encode((), {})
        self._table = jax.tree.map(lambda leaf: np.zeros((worlds, values.COLUMNS, *leaf.shape[1:]), leaf.dtype), nothing)
        self._latched = np.zeros(worlds, bool)
        self._reached = np.zeros(worlds, np.int32)
        self._code = np.zeros((worlds, CODE_DIM), np.float32)
        self._temperature = np.ones(worlds, np.float32)

    @property
    def every_step(self) -> bool:
        """Whether control steps between decisions matter: a program is latched."""
        return bool(self._latched.any())

    def put(self, worlds: Sequence[int], episodes: Sequence[Episode]) -> None:
        """New episodes in ``worlds``, at their start."""
        guided, rows = self._guided, np.asarray(worlds)
        programs = [guided.program_of(e) or guided.unprogrammed for e in episodes]
        bound = values.tables(programs, [program_scene(e.spec, guided.catalogue) for e in episodes])

        def placed(old: np.ndarray, new: np.ndarray) -> np.ndarray:
            out = old.copy()  # jax may still read the old one
            out[rows] = new
            return out

        self._table = jax.tree.map(placed, self._table, bound.table)
        self._latched = placed(self._latched, bound.latched)
        self._reached = placed(self._reached, np.zeros(len(rows), np.int32))
        self._code = placed(self._code, np.stack([code.code(p) for p in programs]))
        self._temperature = placed(self._temperature, np.array([guided.temperature_of(e) for e in episodes], np.float32))

    def chunks(self, obs: Observation, view: WorldView, keys: Array, own: np.ndarray) -> np.ndarray:
        """Chunks [W, h, 7] of this decision. own: [W] bool, worlds that carry out what is chosen here."""
        chunks, selection = self._guided.act(obs, self.inputs(view), keys, self._temperature)
        self._guided.choices.add(selection, own)
        return np.asarray(chunks)

    def passed(self, view: WorldView, trace: ChunkTrace) -> None:
        """Let latched programs see the control steps of a chunk. view: after it, for what does not move."""
        assert trace.moving is not None, "latched programs need a record of every control step"
        moving = {name: np.asarray(values) for name, values in trace.moving.items()}
        for i in range(np.asarray(trace.active).shape[1]):
            moment = recording.with_moving(view, {name: steps[:, i] for name, steps in moving.items()})
            done, _ = self._measured(moment)
            seen = np.where(np.asarray(trace.active)[:, i], potential.stage_of(done), 0)
            self._reached = np.maximum(self._reached, seen)

    def inputs(self, view: WorldView) -> ProgramInput:
        """What the critic is told at a decision in ``view``, and remembered where a program is latched."""
        done, progress = self._measured(view)
        stage = potential.stage_of(done)
        self._reached = np.maximum(self._reached, stage)
        stage = np.where(self._latched, self._reached, stage)
        return ProgramInput(stage, potential.current_progress(stage, progress), self._code)

    def _measured(self, view: WorldView) -> tuple[np.ndarray, np.ndarray]:
        found = np.asarray(expressions.evaluate(self._table, view))
        return found[:, :MAX_STAGES], found[:, MAX_STAGES : 2 * MAX_STAGES]
