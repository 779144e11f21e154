"""What of a plan may be changed from one try of a scene to the next; the defaults are the planners' own first choice."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

# lowest and highest value, and unit
RANGES: dict[str, tuple[float, float, str]] = {
    "grasp": (0, 15, ""),
    "approach_speed": (0.2, 1.5, ""),
    "carry_speed": (0.2, 1.5, ""),
    "lower_speed": (0.2, 1.5, ""),
    "funnel": (0.5, 6.0, ""),
    "hover_m": (0.0, 0.1, " m"),
    "lift_m": (0.0, 0.1, " m"),
    "rise_m": (0.002, 0.05, " m"),
    "drop_m": (-0.003, 0.05, " m"),
    "squeeze_steps": (0, 10, " control steps"),
    "rest_steps": (0, 15, " control steps"),
    "over_m": (0.06, 0.22, " m"),
    "side": (-1, 1, ""),
    "reverse": (0, 1, ""),
    "aim_share": (0.0, 0.08, ""),
}


@dataclasses.dataclass(frozen=True)
class PlanParameters:
    """How one try of a scene differs from the planner's own first choice.

    grasp: grasps of the planner's order that are passed over, of a handle the ways to close the jaws. approach_speed, carry_speed,
    lower_speed: share of ``PlannerSettings.speed`` until the jaws close, while the object or the joint is moved, and on the last way down.
    funnel: how much better the hand must be aligned at the same height, as a factor. hover_m: further height over everything until the
    hand is over the grasp. lift_m: further height while carrying. rise_m: below the height at which everything is cleared, the
    last part of the way up on which the hand already moves to the side. drop_m: change of the height of the release over the resting place.
    squeeze_steps: control steps that the jaws get beyond the usual before the object or joint is moved. rest_steps: that what is held
    rests before it is let go. over_m: what is taller than this is passed at its side, not carried over. side: of what is passed, 1 with it
    on the right hand, -1 on the left, 0 the shorter way. reverse: 1 reaches the goals of a task from the last to the first. aim_share:
    of a joint's range, by which it is moved further than asked for.

    Raises:
      ValueError: a value is no number, no whole one where steps or grasps are counted, or outside RANGES; the message says what is allowed.
    """

    grasp: int = 0
    approach_speed: float = 1.0
    carry_speed: float = 1.0
    lower_speed: float = 1.0
    funnel: float = 1.0
    hover_m: float = 0.0
    lift_m: float = 0.0
    rise_m: float = 0.05
    drop_m: float = 0.0
    squeeze_steps: int = 0
    rest_steps: int = 0
    over_m: float = 0.22
    side: int = 0
    reverse: int = 0
    aim_share: float = 0.0

    def __post_init__(self) -> None:
        for name, (low, high, unit) in RANGES.items():
            value = getattr(self, name)
            kinds, what = ((int,), "whole number") if name in _WHOLE else ((int, float), "number")
            if isinstance(value, bool) or not isinstance(value, kinds):
                raise ValueError(f"plan parameter {name} is {value!r}: use a {what} from {low:g} to {high:g}")
            if not low <= value <= high:
                raise ValueError(f"plan parameter {name} is {value:g}{unit}: use {low:g} to {high:g}")

    @staticmethod
    def of(values: Mapping[str, Any]) -> PlanParameters:
        """The first choice with some values changed, as a file or a language model names them.

        Raises:
          ValueError: see the class; or there is no such parameter, and the message lists all.
        """
        if unknown := [name for name in values if name not in RANGES]:
            raise ValueError(f"there is no plan parameter {unknown[0]!r}: use {', '.join(RANGES)}")
        return PlanParameters(**values)

    def changes(self) -> dict[str, float]:
        """What differs from the first choice, by name."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if getattr(self, f.name) != f.default}


_WHOLE = {f.name for f in dataclasses.fields(PlanParameters) if isinstance(f.default, int)}
FIRST = PlanParameters()


class ByWorld:
    """The parameters of ``W`` worlds as arrays [b], one attribute for each field."""

    grasp: np.ndarray
    approach_speed: np.ndarray
    carry_speed: np.ndarray
    lower_speed: np.ndarray
    funnel: np.ndarray
    hover_m: np.ndarray
    lift_m: np.ndarray
    rise_m: np.ndarray
    drop_m: np.ndarray
    squeeze_steps: np.ndarray
    rest_steps: np.ndarray
    over_m: np.ndarray
    side: np.ndarray
    reverse: np.ndarray
    aim_share: np.ndarray

    def __init__(self, worlds: int):
        for f in dataclasses.fields(PlanParameters):
            setattr(self, f.name, np.full(worlds, f.default))

    def put(self, worlds: Sequence[int], chosen: Sequence[PlanParameters]) -> None:
        """Set the parameters of some worlds."""
        for w, own in zip(worlds, chosen, strict=True):
            for f in dataclasses.fields(PlanParameters):
                getattr(self, f.name)[w] = getattr(own, f.name)


def within(name: str, value: float) -> float:
    """The value, held inside the parameter's range."""
    low, high, _ = RANGES[name]
    return min(max(value, low), high)
