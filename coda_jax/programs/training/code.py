"""The program as numbers: what tells a critic which program the stage that it is given belongs to."""

from __future__ import annotations

import numpy as np

from coda_jax.programs.helpers import HELPERS
from coda_jax.programs.training.limits import CODE_DIM, MAX_STAGES
from coda_jax.programs.training.program import AnyProgram, SparseProgram, TrainingProgram, digest, helpers_in

_EACH = 1 + len(HELPERS)
_SIGNS = CODE_DIM - MAX_STAGES * _EACH
_PLACE = {name: i for i, name in enumerate(HELPERS, 1)}


def code(program: AnyProgram) -> np.ndarray:
    """float32 [CODE_DIM]: for each stage 1 where it exists and 1 for each helper in its ``done`` (goal() and success() count as none,
    being the same in every program), then the first signs of the program's hash, so that two programs differ; zeros for success alone.
    """
    values = np.zeros(CODE_DIM, np.float32)
    if isinstance(program, SparseProgram):
        return values
    if isinstance(program, TrainingProgram):
        for stage, subgoal in enumerate(program.subgoals):
            values[stage * _EACH] = 1.0
            for name in helpers_in(subgoal.done):
                values[stage * _EACH + _PLACE[name]] = 1.0
    bits = np.unpackbits(np.frombuffer(digest(program), np.uint8))[:_SIGNS]
    values[-_SIGNS:] = np.where(bits, 1.0, -1.0)
    return values
