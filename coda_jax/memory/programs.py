"""Procedural memory: the generation and training programs of a mode."""

from __future__ import annotations

from typing import Literal

from coda_jax.memory.rows import Program
from coda_jax.memory.store import CURRENT, Memory


def programs_of(memory: Memory, mode_id: str, kind: Literal["generation", "training"] | None = None) -> list[Program]:
    """Current versions of a mode's programs, by id; of one kind, or both."""
    return memory.rows(
        Program, f"WHERE p.mode_id = ? AND (? IS NULL OR kind = ?) AND {CURRENT[Program]} ORDER BY program_id", (mode_id, kind, kind)
    )


def current_programs(memory: Memory) -> list[Program]:
    """Current versions of all programs, by id."""
    return memory.rows(Program, f"WHERE {CURRENT[Program]} ORDER BY program_id")


def history(memory: Memory, program_id: str) -> list[Program]:
    """All versions of a program, oldest first."""
    return memory.rows(Program, "WHERE program_id = ? ORDER BY version", (program_id,))
