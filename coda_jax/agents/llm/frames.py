"""Which moments of a rollout are shown: those at which something changes, before evenly spaced ones."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from coda_jax.agents.llm.seen import Seen

_LEAST_GAP = 2  # control steps between changes that are shown apart


def chosen_steps(seen: Seen, count: int) -> list[int]:
    """At most ``count`` control steps (from 1), in order: the last and the first, changes of phases, of contacts, then the widest gaps.

    Where there are more changes than room, those farthest from what is chosen already come first.
    """
    last = seen.steps
    chosen = [last, *([1] if last > 1 else [])][: max(count, 0)]
    for candidates, gap in ((phase_changes(seen), _LEAST_GAP), (contact_changes(seen), _LEAST_GAP), (range(1, last + 1), 1)):
        _fill(chosen, candidates, count, gap)
    return sorted(chosen)


def _fill(chosen: list[int], candidates: Iterable[int], count: int, gap: int) -> None:
    left = list(candidates)
    while len(chosen) < count and left:
        distance = [min((abs(step - other) for other in chosen), default=step) for step in left]
        farthest = int(np.argmax(distance))  # ties: the earliest
        if distance[farthest] < gap:
            return
        chosen.append(left.pop(farthest))


def phase_changes(seen: Seen) -> list[int]:
    """Control steps after which a phase or success reads otherwise than before."""
    return _changes(np.stack([seen.nu, *seen.phases.values()], axis=1))


def contact_changes(seen: Seen) -> list[int]:
    """Control steps after which the fingers, or two things, touch or part."""
    t = seen.steps
    touches = [np.asarray(values).reshape(t + 1, -1)[1:] for values in (seen.views.finger_contact, seen.views.contact)]
    return _changes(np.concatenate(touches, axis=1))


def _changes(values: np.ndarray) -> list[int]:
    """Rows (numbered from 1) that differ from the row before."""
    return [int(i) + 2 for i in np.flatnonzero((values[1:] != values[:-1]).any(axis=1))]
