"""Difficulty modes as they are now: the hardest, the most valuable, and what training on them gave."""

from __future__ import annotations

from typing import Literal

from coda_jax.memory.rows import ControlTest, LearningValue, Mode
from coda_jax.memory.store import CURRENT, Memory

_OF_FAMILY = f"WHERE {CURRENT[Mode]} AND (? IS NULL OR family = ?)"


def current_modes(memory: Memory, family: str | None = None) -> list[Mode]:
    """The current version of every mode, removed ones included, by id."""
    return memory.rows(Mode, f"{_OF_FAMILY} ORDER BY mode_id", (family, family))


def top_modes(memory: Memory, family: str | None, by: Literal["severity", "importance"], limit: int) -> list[Mode]:
    """The modes in use that are hardest (lowest success first, unmeasured ones before them) or that taught most."""
    order = {"severity": "severity ASC", "importance": "importance DESC"}[by]
    return memory.rows(Mode, f"{_OF_FAMILY} AND status <> 'removed' ORDER BY {order}, mode_id LIMIT ?", (family, family, limit))


def history(memory: Memory, mode_id: str) -> list[Mode]:
    """All versions of a mode, oldest first."""
    return memory.rows(Mode, "WHERE mode_id = ? ORDER BY version", (mode_id,))


def learning_values(memory: Memory, mode_id: str) -> list[LearningValue]:
    """Learning Values of a mode, oldest first."""
    return memory.rows(LearningValue, "WHERE mode_id = ? ORDER BY round", (mode_id,))


def modes_with_learning(memory: Memory, family: str | None = None) -> list[tuple[Mode, LearningValue | None]]:
    """Every current mode with its newest Learning Value, None before the first one."""
    newest = memory.rows(LearningValue, "WHERE round = (SELECT max(round) FROM learning_values WHERE mode_id = l.mode_id)")
    values = {value.mode_id: value for value in newest}
    return [(mode, values.get(mode.mode_id)) for mode in current_modes(memory, family)]


def control_tests(memory: Memory, round: int) -> list[ControlTest]:
    """The control tests of a round, in the order made."""
    return memory.rows(ControlTest, "WHERE round = ? ORDER BY rowid", (round,))
