"""How far an edit can go: a path of ever harder scenes, cut where the scene stops being a fair task."""

from __future__ import annotations

import collections
from collections.abc import Callable

from coda_jax.scenes.edits.record import EditError
from coda_jax.scenes.edits.room import trouble
from coda_jax.scenes.spec import SceneSpec

STEPS = 16
LEAST_SHARE = 0.25  # a path that ends before this share of its length is no edit worth the name

Path = Callable[[float], SceneSpec]


def reachable(path: Path) -> tuple[tuple[float, ...], str]:
    """Shares of a path's length, out of 1/STEPS .. 1, at which the scene is a fair task; and the commonest reason at the others."""
    reasons: collections.Counter[str] = collections.Counter()
    good = []
    for i in range(1, STEPS + 1):
        reason = trouble(path(i / STEPS))
        if reason is None:
            good.append(i / STEPS)
        else:
            reasons[reason] += 1
    return tuple(good), reasons.most_common(1)[0][0] if reasons else ""


def follow(path: Path, magnitude: float, advice: str) -> SceneSpec:
    """The scene at a quantile of the path, whose end is the last fair scene on it.

    A scene in the middle that is not fair is replaced by the next fair one, so a larger magnitude is never an easier scene.

    Raises:
      EditError: the path ends before LEAST_SHARE of its length; ``advice`` says what to change.
    """
    good, reason = reachable(path)
    if not good or good[-1] < LEAST_SHARE:
        raise EditError(f"not enough room: {reason}: {advice}")
    return along(path, magnitude, good)


def along(path: Path, magnitude: float, good: tuple[float, ...]) -> SceneSpec:
    """The scene at a quantile of the good part of a path."""
    wanted = magnitude * good[-1]
    exact = path(wanted)
    if trouble(exact) is None:
        return exact
    return path(next(share for share in good if share >= wanted))
