"""Expressions over one moment of a world, as data, and the fixed machine that evaluates them."""

from __future__ import annotations

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid", allow_inf_nan=False))
class Expr:
    """``op`` applied to ``args``: object ids, "table", "gripper", numbers or further expressions."""

    op: str
    args: tuple[Expr | str | float, ...]
