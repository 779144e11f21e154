"""How a batch is shared out among the sources of experience, and what the learning tools of training programs change about it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from coda_jax.learning.records import SOURCES
from coda_jax.programs.training.limits import TOOL_RANGES
from coda_jax.programs.training.program import Tools

LEAST_PRACTICE = 0.1  # of a batch: targeted and control episodes together, whatever programs ask for
_DEMONSTRATION, _TARGETED, _CONTROL, _REPLAY = range(len(SOURCES))


def shares(base: Sequence[float], tools: Sequence[Tools], batch: int, least: float = 0.0) -> tuple[int, ...]:
    """Rows of a batch from each of SOURCES; they sum to ``batch``.

    ``demo_share`` and ``replay_share`` of several programs count as their mean, a program without the tool asking for the base's share.
    Targeted and control episodes make room for it in proportion to their shares; what would leave them less than ``LEAST_PRACTICE`` is
    taken off replay first, then off demonstrations.

    Args:
      base: shares of SOURCES, sum 1. tools: of each training program in use; the other tools do not matter here. least: share of the
        batch that demonstrations get in whole rows.

    Raises:
      ValueError: base is no list of shares.
    """
    share = np.array(base, np.float64)
    if share.shape != (len(SOURCES),) or (share < 0).any() or not abs(share.sum() - 1) < 1e-6:
        raise ValueError(f"shares {list(base)} must be {len(SOURCES)} numbers of at least 0 with sum 1, for {', '.join(SOURCES)}")
    practice = share[_TARGETED] + share[_CONTROL]
    if practice > 0:
        share[_DEMONSTRATION] = _asked("demo_share", base[_DEMONSTRATION], tools)
        share[_REPLAY] = _asked("replay_share", base[_REPLAY], tools)
        most = max(1 - min(LEAST_PRACTICE, practice), 0.0)
        share[_REPLAY] = np.clip(most - share[_DEMONSTRATION], 0, share[_REPLAY])
        share[_DEMONSTRATION] = min(share[_DEMONSTRATION], most)
        share[[_TARGETED, _CONTROL]] *= (1 - share[_DEMONSTRATION] - share[_REPLAY]) / practice
    return rounded(share, batch, least)


def _asked(tool: str, base: float, tools: Sequence[Tools]) -> float:
    asked = [getattr(own, tool) for own in tools]
    if all(value is None for value in asked):
        return base
    return float(np.clip(np.mean([base if value is None else value for value in asked]), *TOOL_RANGES[tool]))


def rounded(share: Sequence[float] | np.ndarray, batch: int, least: float = 0.0) -> tuple[int, ...]:
    """Whole rows by largest remainders; the earlier source of equals. least: of demonstrations, at the cost of the largest other source."""
    exact = np.asarray(share, np.float64) * batch
    counts = np.floor(exact + 1e-9).astype(int)
    for i in np.argsort(-(exact - counts), kind="stable")[: batch - counts.sum()]:
        counts[i] += 1
    lacking = max(0, math.ceil(least * batch) - counts[_DEMONSTRATION])
    counts[_DEMONSTRATION] += lacking
    counts[1 + counts[1:].argmax()] -= lacking
    return tuple(counts.tolist())
