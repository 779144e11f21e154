"""What a potential must pass before it is used (METHOD section 2), asked on certified demonstrations.

At the reset success is false and the stage below m; along the demonstration the stage never falls for more than one control step; at
success Phi is m. A fall punishes what the demonstration shows to be right.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from coda_jax.programs.code import expression_code
from coda_jax.programs.training.binding import Scene
from coda_jax.programs.training.program import TrainingProgram
from coda_jax.programs.training.rewrite import latched, rewritten
from coda_jax.programs.training.values import Staged, Values, staged, tables, values
from coda_jax.types import WorldView

MOST_REPAIRS = 2
_WIDE = 10_000  # a rewrite stands on one line of the message


@dataclasses.dataclass(frozen=True)
class Demonstrated:
    """One certified demonstration. name: for messages. views: numpy, [t + 1, ...], the reset first, success last."""

    name: str
    scene: Scene
    views: WorldView


class GateError(ValueError):
    """A program that the gates refuse.

    Attributes:
      gate: "reset", "falls" or "success". subgoal: number from 0. demonstration: its name. control_step: 0 is the reset.
    """

    def __init__(self, message: str, gate: str, subgoal: int, demonstration: str, control_step: int):
        self.gate, self.subgoal, self.demonstration, self.control_step = gate, subgoal, demonstration, control_step
        super().__init__(message)


def measured(program: TrainingProgram, demonstrations: Sequence[Demonstrated]) -> tuple[Values, Staged, np.ndarray]:
    """Raw values, stages and the demonstration's number of all control steps, one demonstration after the other.

    Raises:
      ValueError: no demonstrations, or a scene without one of the roles.
    """
    if not demonstrations:
        raise ValueError("the gates need at least one certified demonstration")
    episode = np.repeat(np.arange(len(demonstrations)), [len(d.views.control_step) for d in demonstrations])
    views = jax.tree.map(lambda *leaves: np.concatenate(leaves), *[d.views for d in demonstrations])
    programs = tables([program] * len(demonstrations), [d.scene for d in demonstrations])
    raw = values(programs, episode, views)
    return raw, staged(programs, episode, raw), episode


def check(program: TrainingProgram, demonstrations: Sequence[Demonstrated]) -> None:
    """Ask every gate.

    Raises:
      GateError: names the subgoal, the demonstration, the control step, and what to change. ValueError: see ``measured``.
    """
    raw, found, episode = measured(program, demonstrations)
    starts = np.searchsorted(episode, np.arange(len(demonstrations)))
    _check_reset(program, demonstrations, raw.done[starts], found.stage[starts])
    for number, demonstration in enumerate(demonstrations):
        mine = episode == number
        _check_falls(program, demonstration.name, found.stage[mine])
        _check_success(program, demonstration.name, found.stage[mine], found.phi[mine])


def _called(program: TrainingProgram, number: int) -> str:
    return f"subgoals[{number}] {program.subgoals[number].name!r}"


def _check_reset(program: TrainingProgram, demonstrations: Sequence[Demonstrated], done: np.ndarray, stage: np.ndarray) -> None:
    m = program.stages
    if full := np.flatnonzero(stage >= m).tolist():
        name = demonstrations[full[0]].name
        raise GateError(
            f"success already holds at the reset of demonstration {name}: it shows nothing, leave it out", "reset", m - 1, name, 0
        )
    for number in range(m - 1):
        if done[:, number].all():
            message = (
                f"{_called(program, number)} holds at the reset of every demonstration, here {demonstrations[0].name}, control step 0: "
            )
            raise GateError(message + "it is no subgoal; ask for more in its done=", "reset", number, demonstrations[0].name, 0)


def _check_falls(program: TrainingProgram, name: str, stage: np.ndarray) -> None:
    best = np.maximum.accumulate(stage)
    low = np.r_[stage < best, False]
    for step in np.flatnonzero(low[:-1] & low[1:]):  # the first of at least two control steps
        lost = int(best[step]) - 1
        steps = int(np.argmin(low[step:]))
        raise GateError(
            f"{_called(program, lost)} is lost in demonstration {name} at control step {step}: the stage falls from {lost + 1} to "
            f"{stage[step]} for {steps} control steps, so a correct motion would be punished; {_cure(program, lost)}",
            "falls",
            lost,
            name,
            int(step),
        )


def _cure(program: TrainingProgram, lost: int) -> str:
    other = rewritten(program).subgoals
    changed = [i for i in range(lost, program.stages) if other[i] != program.subgoals[i]]
    if not changed:
        return "give it a condition that still holds then, done=any_of(..., goal()), or write training(..., latched=True)"
    texts = [f"done={expression_code(other[i].done, -_WIDE).replace(chr(10), ' ')} in {_called(program, i)}" for i in changed]
    return f"write {' and '.join(texts)}, or training(..., latched=True)"


def _check_success(program: TrainingProgram, name: str, stage: np.ndarray, phi: np.ndarray) -> None:
    last, m = len(stage) - 1, program.stages
    if stage[-1] != m or phi[-1] != m:
        raise GateError(
            f"{_called(program, m - 1)}: demonstration {name} ends at control step {last} with Phi = {phi[-1]:g} instead of {m}: "
            "it does not end in success; leave it out",
            "success",
            m - 1,
            name,
            last,
        )


@dataclasses.dataclass(frozen=True)
class Construction:
    """A program that passed. repairs: what it took, of "rewritten" and "latched". refusals: messages on the way."""

    program: TrainingProgram
    repairs: tuple[str, ...]
    refusals: tuple[str, ...]


def constructed(program: TrainingProgram, demonstrations: Sequence[Demonstrated]) -> Construction:
    """The program as it is where it passes, else rewritten, else latched as well: at most MOST_REPAIRS repairs.

    Raises:
      GateError: no repair helps.
    """
    repairs: list[str] = []
    refusals: list[str] = []
    while True:
        try:
            check(program, demonstrations)
            return Construction(program, tuple(repairs), tuple(refusals))
        except GateError as error:
            weaker = rewritten(program)
            if error.gate != "falls" or len(repairs) == MOST_REPAIRS:
                raise
            refusals.append(str(error))
            first = "rewritten" not in repairs and weaker != program
            repairs.append("rewritten" if first else "latched")
            program = weaker if first else latched(program)
