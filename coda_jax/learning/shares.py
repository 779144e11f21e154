"""How a batch is shared out among the sources of experience, and what the learning tools of training programs change about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from coda_jax.learning.records import SOURCES

BOUNDS = {"demonstration": (0.1, 0.6), "replay": (0.0, 0.3)}  # whatever programs ask for, a tenth stays for targeted and control episodes
TOOLS = {"demonstration": "demo_share", "replay": "replay_share"}
_TRADED = (SOURCES.index("targeted"), SOURCES.index("control"))  # give what the tools ask for, in proportion to their shares


def shares(base: Sequence[float], tools: Sequence[Mapping[str, float]], batch: int) -> tuple[int, ...]:
    """Rows of a batch from each of SOURCES; they sum to ``batch``.

    A tool's share is the mean of what the programs ask for, those without the tool asking for the base's share, cut to ``BOUNDS``.
    Targeted and control episodes make room for it.

    Args:
      base: shares of SOURCES, sum 1. tools: of each training program in use, name to value; other tools than ``TOOLS`` are not read.

    Raises:
      ValueError: base is no list of shares.
    """
    share = np.array(base, np.float64)
    if share.shape != (len(SOURCES),) or (share < 0).any() or not abs(share.sum() - 1) < 1e-6:
        raise ValueError(f"shares {list(base)} must be {len(SOURCES)} numbers of at least 0 with sum 1, for {', '.join(SOURCES)}")
    traded = list(_TRADED)
    room = share[traded].sum()
    if tools and room > 0:
        for source, tool in TOOLS.items():
            i = SOURCES.index(source)
            if any(tool in own for own in tools):
                share[i] = np.clip(np.mean([own.get(tool, base[i]) for own in tools]), *BOUNDS[source])
        left = 1 - (share.sum() - room)
        share[traded] *= left / room
    return _rounded(share, batch)


def _rounded(share: np.ndarray, batch: int) -> tuple[int, ...]:
    """Whole rows by largest remainders; the earlier source of equals."""
    exact = share * batch
    counts = np.floor(exact + 1e-9).astype(int)
    for i in np.argsort(-(exact - counts), kind="stable")[: batch - counts.sum()]:
        counts[i] += 1
    return tuple(counts.tolist())
