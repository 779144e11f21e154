"""Where a rollout broke: the first phase predicate it never met."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coda_jax.scenes.families import PHASES

TRUE_ABOVE = 0.5  # predicates are 0 or 1 in float32; a progress value counts as met above one half
_NEARLY_ALL = 1.0 - 1e-3  # of the goals of a task, as a share


def phase_failed(predicates: np.ndarray, phases: Sequence[str] = PHASES) -> str | None:
    """First phase that was never met, or None for a success.

    A rollout that met every phase at some time but never nu (the object rolled off after the release, or the phases were met in
    the wrong order) failed in the last phase: nothing earlier explains it. Of a task with several goals a phase predicate is the share of
    goals that met it (scenes/families/steps.py): the phases of the first unfinished goal count.

    Args:
      predicates: [t, 1 + phases] values after each executed control step; column 0 is nu, then one column per phase in order. Pass
        executed steps only.
      phases: names of columns 1...

    Raises:
      ValueError: the number of columns is not 1 + len(phases).
    """
    most = _checked(predicates, phases).max(axis=0, initial=0.0)
    if most[0] > TRUE_ABOVE:
        return None
    missing = np.flatnonzero(~_ahead(most[1:]))
    return phases[int(missing[0])] if missing.size else phases[-1]


def phase_reached(predicates: np.ndarray, phases: Sequence[str] = PHASES) -> list[str]:
    """For each control step the furthest phase of the first unfinished goal met so far without a gap; length t.

    "start" before the first, "success" at nu."""
    so_far = np.maximum.accumulate(_checked(predicates, phases), axis=0)
    depth = np.logical_and.accumulate(_ahead(so_far[:, 1:]), axis=1).sum(axis=1)
    names = ("start", *phases)
    return ["success" if nu > TRUE_ABOVE else names[int(i)] for nu, i in zip(so_far[:, 0], depth, strict=True)]


def phases_passed(predicates: np.ndarray, phases: Sequence[str] = PHASES) -> dict[str, int]:
    """Phases of the first unfinished goal that are behind a rollout at its end, to the control step (from 1) from which on they are."""
    so_far = np.maximum.accumulate(_checked(predicates, phases), axis=0)
    ahead = _ahead(so_far[:, 1:])
    passed = {}
    for name, met in zip(phases, ahead.T, strict=True):
        if met.size and met[-1]:
            passed[name] = int(np.flatnonzero(~met).max(initial=-1)) + 2
    return passed


def _ahead(shares: np.ndarray) -> np.ndarray:
    """Which phases [..., p] were met for a goal that is not finished: more often than the last phase, or for every goal."""
    return (shares > shares[..., -1:] + (1.0 - _NEARLY_ALL)) | (shares > _NEARLY_ALL)


def _checked(predicates: np.ndarray, phases: Sequence[str]) -> np.ndarray:
    values = np.asarray(predicates)
    if values.ndim != 2 or values.shape[1] != 1 + len(phases):
        raise ValueError(f"predicates have shape {values.shape}; expected [t, {1 + len(phases)}]: nu, then {', '.join(phases)}")
    return values
