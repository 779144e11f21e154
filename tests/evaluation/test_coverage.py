"""Coverage by hand: entropy of factor, verb and tercile together."""

import math

import pytest

from coda_jax.evaluation.coverage import coverage_bits, tercile


def test_terciles():
    assert [tercile(m) for m in (0.0, 0.333, 0.334, 0.666, 0.667, 1.0)] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("scenes", "bits"),
    [
        ([], None),
        ([()], None),  # nothing was edited
        ([[("mass", 0.1)], [("mass", 0.2)]], 0.0),
        ([[("mass", 0.1)], [("mass", 0.9)]], 1.0),  # one verb, two thirds
        ([[("mass", 0.1)], [("yaw", 0.1)], [("yaw", 0.5)], [("paraphrase", 1.0)]], 2.0),
        ([[("mass", 0.1)], [("mass", 0.1)], [("mass", 0.1)], [("yaw", 0.1)]], 2 - 0.75 * math.log2(3)),
        ([[("mass", 0.1), ("yaw", 0.1)], [("mass", 0.1)]], 0.75 * math.log2(4 / 3) + 0.25 * 2),  # two edits share a scene
    ],
)
def test_by_hand(scenes, bits):
    assert coverage_bits(scenes) == (bits if bits is None else pytest.approx(bits, abs=1e-12))


def test_every_cell_alike_is_the_most():
    verbs = ("mass", "yaw", "paraphrase", "colour")
    assert coverage_bits([[(v, m)] for v in verbs for m in (0.1, 0.5, 0.9)]) == pytest.approx(math.log2(12))
