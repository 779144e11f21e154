"""Programs evaluated over recorded views, offline: raw values only, so that another program relabels everything (METHOD section 2).

One executable for every program and number of rows: rows go through the expression machine in blocks of one size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import jax
import numpy as np

from coda_jax.programs import expressions
from coda_jax.programs.expressions import Expr, Table
from coda_jax.programs.training.binding import Scene, bind, bind_reward
from coda_jax.programs.training.limits import MAX_STAGES
from coda_jax.programs.training.potential import current_progress, latch_rows, stage_of
from coda_jax.programs.training.program import AnyProgram, DenseProgram, TrainingProgram
from coda_jax.types import WorldView

BLOCK = 2048  # rows at once; the helper bank of a block is a few megabytes
COLUMNS = 2 * MAX_STAGES + 1  # done, progress, dense reward


@dataclasses.dataclass(frozen=True)
class ProgramTables:
    """Programs of ``m`` episodes, each in its scene.

    table: [m, COLUMNS, l]. stages: int32 [m], 0 without a potential. latched: bool [m]. weight: float32 [m] of the dense reward, else 0.
    """

    table: Table
    stages: np.ndarray
    latched: np.ndarray
    weight: np.ndarray


@dataclasses.dataclass(frozen=True)
class Values:
    """Raw values of ``n`` rows. done, progress: float32 [n, MAX_STAGES], 0 beyond a program's stages. reward: float32 [n], dense."""

    done: np.ndarray
    progress: np.ndarray
    reward: np.ndarray


@dataclasses.dataclass(frozen=True)
class Staged:
    """stage: int32 [n], latched where the program is. progress: float32 [n], toward the next subgoal. phi: float32 [n]."""

    stage: np.ndarray
    progress: np.ndarray
    phi: np.ndarray


def tables(programs: Sequence[AnyProgram], scenes: Sequence[Scene]) -> ProgramTables:
    """Tables of episodes; a pair that was there before is not encoded again.

    Raises:
      ValueError: a program cannot be bound to its scene.
    """
    known: dict[tuple[str, str], Table] = {}
    rows = []
    for program, scene in zip(programs, scenes, strict=True):
        key = (program.program_id, f"{sorted(scene.roles.items())} {scene.nu} {sorted(scene.index.items())}")
        if key not in known:
            known[key] = _encoded(program, scene)
        rows.append(known[key])
    return ProgramTables(
        expressions.stack(rows),
        np.array([p.stages if isinstance(p, TrainingProgram) else 0 for p in programs], np.int32),
        np.array([isinstance(p, TrainingProgram) and p.latched for p in programs]),
        np.array([p.weight if isinstance(p, DenseProgram) else 0.0 for p in programs], np.float32),
    )


def _encoded(program: AnyProgram, scene: Scene) -> Table:
    if isinstance(program, TrainingProgram):
        columns = (*range(program.stages), *range(MAX_STAGES, MAX_STAGES + program.stages))
        return placed_table(bind(program, scene.roles, scene.nu), columns, scene.index)
    if isinstance(program, DenseProgram):
        return placed_table((bind_reward(program, scene.roles, scene.nu),), (2 * MAX_STAGES,), scene.index)
    return placed_table((), (), scene.index)


def placed_table(exprs: Sequence[Expr], columns: Sequence[int], index: Mapping[str, int]) -> Table:
    """Table [COLUMNS, l] of one scene with each expression at its column; the others are padding, whose value is 0."""
    table = expressions.encode(exprs, index)

    def placed(leaf: np.ndarray) -> np.ndarray:
        out = np.zeros((COLUMNS, *leaf.shape[1:]), leaf.dtype)
        out[list(columns)] = leaf[: len(columns)]
        return out

    return jax.tree.map(placed, table)


def blocks(table: Table, episode: np.ndarray, views: WorldView) -> np.ndarray:
    """Values [n, COLUMNS] of tables [m, COLUMNS, l] in ``n`` moments; episode: int [n], which table reads each row."""
    n = len(episode)
    out = np.zeros((n, COLUMNS), np.float32)
    for first in range(0, n, BLOCK):
        rows = np.minimum(np.arange(first, first + BLOCK), n - 1)  # the last block repeats its last row
        mine = jax.tree.map(lambda leaf, which=episode[rows]: leaf[which], table)
        block = jax.tree.map(lambda leaf, which=rows: np.asarray(leaf)[which], views)
        out[first : first + BLOCK] = np.asarray(expressions.evaluate(mine, block))[: n - first]
    return out


def values(programs: ProgramTables, episode: np.ndarray, views: WorldView) -> Values:
    """Raw values of ``n`` recorded moments.

    Args:
      programs: of ``m`` episodes. episode: int [n], whose program reads each row. views: numpy, [n, ...].
    """
    out = blocks(programs.table, episode, views)
    done, progress = out[:, :MAX_STAGES], out[:, MAX_STAGES : 2 * MAX_STAGES]
    return Values(done, progress, out[:, -1] * programs.weight[episode])


def staged(programs: ProgramTables, episode: np.ndarray, raw: Values) -> Staged:
    """Stage, progress and potential of rows; the rows of an episode lie together, in the order of its control steps."""
    stage = latch_rows(stage_of(raw.done), np.asarray(episode), programs.latched[episode])
    progress = current_progress(stage, raw.progress)
    return Staged(stage, progress, stage.astype(np.float32) + progress)
