"""What a diagnosis may name as its cause: the same words whoever diagnoses, for diagnoses are merged into modes by them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from coda_jax.agents.base import SPEC_FACTOR, Factor, SceneFactor
from coda_jax.agents.scripted.causes import OTHER
from coda_jax.agents.scripted.engine import TASK_VERBS
from coda_jax.scenes.edits.verbs import verbs_of
from coda_jax.scenes.measures import MEASURES, measure
from coda_jax.scenes.spec import SceneSpec

EXECUTION_CAUSE = ""
_SPREAD = 1e-6  # less is rounding
_WAYS = ("high", "low")


def is_cause(text: str) -> bool:
    """Whether a text is a cause that a diagnosis of any round may name."""
    quantity, _, way = text.partition(":")
    return text in (EXECUTION_CAUSE, OTHER, *TASK_VERBS) or (quantity in MEASURES and way in _WAYS)


@dataclasses.dataclass(frozen=True)
class Measurements:
    """What the scenes of a round measure. values: name to [n] numbers in rising order; only quantities that differ from scene to scene.
    families: of the scenes."""

    values: Mapping[str, np.ndarray]
    families: frozenset[str]

    def quartiles(self, name: str) -> tuple[float, float, float]:
        """Lower quartile, median and upper quartile of a quantity."""
        low, middle, high = np.quantile(self.values[name], (0.25, 0.5, 0.75))
        return float(low), float(middle), float(high)

    def share_below(self, name: str, value: float) -> float:
        """Share of the scenes that measure less."""
        return float(np.searchsorted(self.values[name], value - _SPREAD)) / len(self.values[name])

    def causes(self) -> dict[Factor, tuple[str, ...]]:
        """The causes of each factor, in a fixed order: parts of the task that its verbs can change, quantities that differ, or none."""
        task = tuple(cause for cause, verb in TASK_VERBS.items() if verb in verbs_of(self.families, SPEC_FACTOR["TASK"]))
        own: dict[Factor, tuple[str, ...]] = {"TASK": (*task, OTHER)}
        measured: tuple[SceneFactor, ...] = ("SPATIAL", "ATTRIBUTE")
        for factor in measured:
            names = [name for name in self.values if MEASURES[name].factor == SPEC_FACTOR[factor]]
            own[factor] = (*(f"{name}:{way}" for name in names for way in _WAYS), OTHER)
        own["EXECUTION"] = (EXECUTION_CAUSE,)
        return own


def measurements(specs: Sequence[SceneSpec]) -> Measurements:
    """Measure the scenes, each once.

    Raises:
      ValueError: no scenes, or one that states no target to measure.
    """
    if not specs:
        raise ValueError("no scenes to measure: give those of a round")
    scenes = {spec.scene_id: spec for spec in specs}
    found = [measure(spec) for spec in scenes.values()]
    table = np.array([[own[name] for name in MEASURES] for own in found])
    values = {name: np.sort(table[:, i]) for i, name in enumerate(MEASURES) if table[:, i].std() > _SPREAD}
    return Measurements(values, frozenset(spec.task.family for spec in scenes.values()))
