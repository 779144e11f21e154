"""nu asks for the goal, rest, an open gripper and no finger contact: each of them alone can deny it."""

from __future__ import annotations

import numpy as np
import pytest

from coda_jax.programs import expressions as ex
from coda_jax.programs.expressions import Expr
from coda_jax.programs.verifier import nu
from coda_jax.types import FREE_SLOTS
from tests.programs.worlds import view

INDEX = {"mug_1": 0, "plate_1": FREE_SLOTS}
PLACED = {
    "pos": {0: (0.5, 0, 0.04), FREE_SLOTS: (0.5, 0, 0.01)},
    "half": {FREE_SLOTS: (0.08, 0.08, 0.01)},
    "contacts": [(0, FREE_SLOTS)],
}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, 1),
        ({"contacts": []}, 0),
        ({"linvel": {0: (0, 0, -0.03)}}, 0),
        ({"linvel": {0: (0, 0, -0.01)}}, 1),
        ({"fingers": {0: (False, True)}}, 0),
        ({"fingers": {1: (True, True)}}, 1),  # the hand rests on something else
        ({"opening": 0.03}, 0),
        ({"opening": 0.05}, 1),
    ],
)
def test_nu(change, expected):
    success = nu(Expr("on", ("mug_1", "plate_1")), "mug_1")
    ex.validate(success, INDEX, condition=True)
    values = np.asarray(ex.evaluate(ex.stack([ex.encode([success], INDEX)]), view(**{**PLACED, **change})))
    assert values[0, 0] == expected
