"""What the rollouts of a round say: success counts, failures to diagnose, diagnoses to consolidate, construction priors."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from coda_jax.memory.rows import Diagnosis, Episode, Purpose
from coda_jax.memory.store import Memory

Group = Literal["mode", "program", "level", "scene", "base_scene", "origin", "purpose", "round", "policy_step"]
_GROUPS: dict[Group, str] = {
    "mode": "s.mode_id",
    "program": "s.program_id",
    "level": "s.level",
    "scene": "e.scene_id",
    "base_scene": "s.base_scene_id",
    "origin": "s.origin",
    "purpose": "e.purpose",
    "round": "e.round",
    "policy_step": "e.policy_step",
}


@dataclasses.dataclass(frozen=True)
class SuccessCount:
    """``k`` successes of ``n`` rollouts; ``flagged`` others broke in the simulator and are counted apart."""

    k: int
    n: int
    flagged: int


@dataclasses.dataclass(frozen=True)
class Prior:
    """How repairs of a check that scenes of a verb violated went. mean_repair: of the accepted ones, in ``unit``; None without one."""

    verb: str
    check: str
    action: str
    unit: str
    n: int
    accepted: int
    mean_repair: float | None

    @property
    def share_accepted(self) -> float:
        return self.accepted / self.n


def success_counts(
    memory: Memory, by: Sequence[Group], *, round: int | None = None, purpose: Purpose | None = None, mode_id: str | None = None
) -> dict[tuple[str | int | float | None, ...], SuccessCount]:
    """Successes by every combination of ``by``, over all rollouts or those of a round, a purpose, a mode's scenes."""
    given = {"e.round": round, "e.purpose": purpose, "s.mode_id": mode_id}
    chosen = {column: value for column, value in given.items() if value is not None}
    columns = [_GROUPS[group] for group in by]
    joined = any(c.startswith("s.") for c in (*columns, *chosen))
    sql = "SELECT " + "".join(f"{c}, " for c in columns) + "sum(e.success AND e.health = 0), sum(e.health = 0), sum(e.health <> 0)"
    sql += " FROM episodes e" + (" JOIN scenes s USING (scene_id)" if joined else "")
    if chosen:
        sql += " WHERE " + " AND ".join(f"{column} = ?" for column in chosen)
    if columns:
        sql += f" GROUP BY {', '.join(columns)}"
    return {tuple(key): SuccessCount(k or 0, n or 0, flagged or 0) for *key, k, n, flagged in memory.select(sql, tuple(chosen.values()))}


def undiagnosed_failures(memory: Memory, round: int, purpose: Purpose = "collect") -> list[Episode]:
    """Failed rollouts of a round, in order, that have no diagnosis; those that broke in the simulator are left out."""
    return memory.rows(
        Episode,
        "WHERE round = ? AND purpose = ? AND success = 0 AND health = 0 "
        "AND NOT EXISTS (SELECT 1 FROM diagnoses WHERE episode_id = e.episode_id) ORDER BY episode_id",
        (round, purpose),
    )


_OF_ROUND = "WHERE episode_id IN (SELECT episode_id FROM episodes WHERE round = ?)"


def unassigned_diagnoses(memory: Memory, round: int) -> list[Diagnosis]:
    """Diagnoses of a round's episodes that belong to no mode yet: what ``consolidate`` takes. EXECUTION ones are not among them."""
    tail = f"{_OF_ROUND} AND a.mode_id IS NULL AND factor <> 'EXECUTION' ORDER BY episode_id"
    return memory.rows(Diagnosis, tail, (round,))


def execution_diagnoses(memory: Memory, round: int) -> list[Diagnosis]:
    """Failures of a round that no scene factor explains."""
    return memory.rows(Diagnosis, f"{_OF_ROUND} AND factor = 'EXECUTION' ORDER BY episode_id", (round,))


def diagnoses_of(memory: Memory, mode_id: str) -> list[Diagnosis]:
    """Everything that was diagnosed as one mode, oldest first."""
    return memory.rows(
        Diagnosis, "WHERE episode_id IN (SELECT episode_id FROM assignments WHERE mode_id = ?) ORDER BY episode_id", (mode_id,)
    )


def construction_priors(memory: Memory, verb: str | None = None) -> list[Prior]:
    """By verb, check and kind of repair: how often it was accepted, and how much was needed. One verb, or all."""
    condition, parameters = ("", ()) if verb is None else ("WHERE verb = ?", (verb,))
    sql = f"""SELECT verb, "check", coalesce(json_extract(repair, '$.action'), '') AS action,
        coalesce(json_extract(repair, '$.unit'), '') AS of, count(*), sum(accepted),
        avg(CASE WHEN accepted THEN json_extract(repair, '$.amount') END)
        FROM constructions {condition} GROUP BY verb, "check", action, of ORDER BY verb, "check", action, of"""
    return [Prior(*values) for values in memory.select(sql, parameters)]
