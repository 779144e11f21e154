"""How widely the accepted scenes are edited: entropy of factor, verb and strength together (METHOD section 10)."""

from __future__ import annotations

import collections
import math
from collections.abc import Sequence

from coda_jax.scenes.edits.verbs import VERBS

TERCILES = 3

Edit = tuple[str, float]  # verb and magnitude


def tercile(magnitude: float) -> int:
    """Which third of 0..1 a magnitude lies in: 0, 1 or 2."""
    return min(int(TERCILES * magnitude), TERCILES - 1)


def coverage_bits(scenes: Sequence[Sequence[Edit]]) -> float | None:
    """Entropy, bits, of the joint histogram of (edited factor, verb, tercile of the magnitude) over edited scenes; None without any.

    A scene with several edits counts in the cell of each with an equal share; one without edits has no cell. A verb's factor is that of the
    registry.
    """
    cells: collections.defaultdict[tuple[str, str, int], float] = collections.defaultdict(float)
    for edits in scenes:
        for verb, magnitude in edits:
            factor = VERBS[verb].factor if verb in VERBS else ""
            cells[factor, verb, tercile(magnitude)] += 1 / len(edits)
    total = sum(cells.values())
    return -sum(n / total * math.log2(n / total) for n in cells.values()) + 0.0 if total else None
