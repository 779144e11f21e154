"""First phase never met, on traces written by hand."""

import numpy as np
import pytest

from coda_jax.evaluation import failures


def trace(**steps):
    """[10, 6] predicates that are 1 from the given step on; a (start, stop) pair is 1 in between only."""
    out = np.zeros((10, 6), np.float32)
    for column, name in enumerate(("nu", *failures.PHASES)):
        span = steps.get(name)
        if span is not None:
            start, stop = span if isinstance(span, tuple) else (span, 10)
            out[start:stop, column] = 1
    return out


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ({}, "approach"),
        ({"approach": 2}, "grasp"),
        ({"approach": (2, 4), "grasp": (3, 5)}, "transport"),  # met for a moment is met
        ({"approach": 2, "grasp": 3, "place": 6}, "transport"),  # pushed there without carrying it
        ({"approach": 1, "grasp": 2, "transport": 3, "place": 5}, "release"),
        ({"approach": 1, "grasp": 2, "transport": 3, "place": 5, "release": 6}, "release"),  # all met, nu never
        ({"nu": 9, "approach": 1}, None),
    ],
)
def test_first_phase_never_met(steps, expected):
    assert failures.phase_failed(trace(**steps)) == expected


def test_phase_reached_labels_every_step():
    got = failures.phase_reached(trace(approach=(2, 4), grasp=3, place=4, transport=6, nu=9))
    assert got == ["start"] * 2 + ["approach"] + ["grasp"] * 3 + ["place"] * 3 + ["success"]


def test_wrong_width_is_refused():
    with pytest.raises(ValueError, match=r"expected \[t, 6\]"):
        failures.phase_failed(np.zeros((4, 5)))
