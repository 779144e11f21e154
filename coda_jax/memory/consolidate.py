"""From single diagnoses to difficulty modes: one mode for each factor, phase and merged cause. Pure; the caller stores the outcome."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

from coda_jax.memory.causes import canonical, same, similarity
from coda_jax.memory.rows import Diagnosis, Factor, Mode, Program, mode_id_of

V = TypeVar("V", Mode, Program)


@dataclasses.dataclass(frozen=True)
class Consolidation:
    """modes: new and changed versions, to be added. current: every mode of the family as it is now, these included.

    assignments: episode id to mode id. execution: diagnoses that no scene factor explains; they belong to no mode.
    """

    modes: tuple[Mode, ...]
    current: tuple[Mode, ...]
    assignments: dict[int, str]
    execution: tuple[Diagnosis, ...]


def next_version(row: V, round: int, **changes: Any) -> V:
    """The following version of a mode or program, with ``changes``; the row itself where nothing changes."""
    changed = dataclasses.replace(row, **changes)
    return row if changed == row else dataclasses.replace(changed, version=row.version + 1, round=round)


def consolidate(
    diagnoses: Iterable[Diagnosis],
    modes: Iterable[Mode],
    family: str,
    round: int,
    successes: Mapping[str, tuple[int, int]] | None = None,
    gains: Mapping[str, float] | None = None,
) -> Consolidation:
    """Merge a round's diagnoses of one family into its modes. The order of the diagnoses does not matter.

    A cause joins the mode of its factor and phase that is most like it (see ``causes``), else it makes a new one. A mode that was there
    before becomes "kept" when it is diagnosed again, also one that was removed; all others stay as they are.

    Args:
      diagnoses: of failed episodes, without modes. modes: current versions; those of other families are left out.
      successes: mode id to (k, n) of the present policy; severity becomes k / n.
      gains: mode id to the Learning Value that is added to importance.

    Raises:
      ValueError: k and n of a mode make no rate.
    """
    before = {m.mode_id: m for m in modes if m.family == family}
    now = dict(before)
    execution: list[Diagnosis] = []
    assignments: dict[int, str] = {}
    keyed = [(d.factor, d.phase, canonical(d.cause), d.episode_id, d) for d in diagnoses]
    for factor, _, cause, _, diagnosis in sorted(keyed, key=lambda k: k[:4]):
        if factor == "EXECUTION":
            execution.append(diagnosis)
            continue
        mode = _alike(diagnosis, cause, now) or _new(diagnosis, cause, family, round)
        now[mode.mode_id] = dataclasses.replace(mode, status="kept") if mode.mode_id in before else mode
        assignments[diagnosis.episode_id] = mode.mode_id
    for mode_id, (k, n) in (successes or {}).items():
        if not 0 <= k <= n:
            raise ValueError(f"mode {mode_id} has k = {k} successes of n = {n}: k must lie in 0..n")
        if mode_id in now and n:
            now[mode_id] = dataclasses.replace(now[mode_id], severity=k / n)
    for mode_id, gain in (gains or {}).items():
        if mode_id in now:
            now[mode_id] = dataclasses.replace(now[mode_id], importance=now[mode_id].importance + gain)
    for mode_id, mode in before.items():
        now[mode_id] = next_version(mode, round, **{name: getattr(now[mode_id], name) for name in ("severity", "importance", "status")})
    current = tuple(sorted(now.values(), key=lambda m: m.mode_id))
    return Consolidation(tuple(m for m in current if m != before.get(m.mode_id)), current, assignments, tuple(execution))


def _alike(diagnosis: Diagnosis, cause: str, modes: Mapping[str, Mode]) -> Mode | None:
    fitting = [m for m in modes.values() if (m.factor, m.phase) == (diagnosis.factor, diagnosis.phase) and same(cause, m.cause)]
    return min(fitting, key=lambda m: (m.cause != cause, -similarity(cause, m.cause), m.mode_id), default=None)


def _new(diagnosis: Diagnosis, cause: str, family: str, round: int) -> Mode:
    mode_id = mode_id_of(family, diagnosis.factor, diagnosis.phase, cause)
    return Mode(mode_id, 1, family, cast(Factor, diagnosis.factor), diagnosis.phase, cause, None, 0.0, "new", round)
