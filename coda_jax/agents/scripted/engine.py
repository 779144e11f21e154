"""The scripted data engine: for a difficulty it picks the verb that moves what the diagnosis names, and writes the generation program.

The program is text and goes through the same door as anybody's. Which level lands in the band is found by rollouts, outside.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import cast

import numpy as np

from coda_jax.agents.base import SPEC_FACTOR, Cure, Difficulty, Priors
from coda_jax.agents.scripted.repair import repair
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.edits.verbs import VERBS, applied, verbs_of
from coda_jax.scenes.families import read_goal
from coda_jax.scenes.generation import EditStep, FactorName, GenerationProgram, RoleName, RoleNeed, to_text
from coda_jax.scenes.measures import MEASURES, measure
from coda_jax.scenes.spec import SceneSpec
from coda_jax.scenes.tabletop import Tabletop
from coda_jax.sim.checks.record import Failure

TASK_VERBS = {
    "target": "target_swap",
    "goal": "goal_swap",
    "wording": "paraphrase",
    "subgoal": "subgoal",
    "order": "order",
    "tolerance": "tolerance",
}
LOW = 0.1  # magnitude at level 0: something always changes
_LEAST_PRIOR, _LEAST_SHARE = 8, 0.5  # constructions from which a prior counts, and share of them that must have been valid
_PROBE = 0.75  # magnitude at which verbs are compared
_SIGNS = {"high": 1.0, "low": -1.0}
_START_LEVEL = 0.5  # of a text before its level was searched


def verbs_for(difficulty: Difficulty, bases: Sequence[SceneSpec], catalogue: Catalogue) -> list[str]:
    """Verbs of the factor that move the cause's quantity its way, the strongest first; every verb of the factor where none does.

    Strength is measured: each verb is applied to the bases and the quantity is measured again, in units of its spread over them.
    """
    factor = SPEC_FACTOR[difficulty.factor]
    own = verbs_of({b.task.family for b in bases}, factor)
    if difficulty.factor == "TASK":
        named = TASK_VERBS.get(difficulty.cause)
        return [named] if named in own else own
    quantity, _, way = difficulty.cause.partition(":")
    if quantity not in MEASURES or way not in _SIGNS:
        return own
    sign = _SIGNS[way]
    before = [measure(spec)[quantity] for spec in bases]
    spread = float(np.std(before)) or 1.0
    strength = {name: _effect(name, quantity, bases, before, catalogue) * sign / spread for name in own}
    moving = sorted((n for n in own if strength[n] > 0.1), key=lambda n: -strength[n])
    stated = [n for n in moving if VERBS[n].measure == quantity]  # of two equals, the one that is about this quantity
    return [*stated, *(n for n in moving if n not in stated)] or own


def _effect(verb: str, quantity: str, bases: Sequence[SceneSpec], before: Sequence[float], catalogue: Catalogue) -> float:
    """Mean change of the quantity over the bases to which the verb can be applied, 0 without any."""
    changes = []
    for spec, value in zip(bases, before, strict=True):
        found = applied(spec, verb, catalogue, _PROBE)
        if found is not None:
            changes.append(measure(found[1])[quantity] - value)
    return float(np.mean(changes)) if changes else 0.0


def highest(verb: str, priors: Priors) -> float:
    """Largest magnitude worth asking for, from earlier constructions: (verb, level) to (valid, built). 1 where little is known."""
    known = sorted((level, valid / built) for (name, level), (valid, built) in priors.items() if name == verb and built >= _LEAST_PRIOR)
    good = [level for level, share in known if share >= _LEAST_SHARE]
    bad = [level for level, share in known if share < _LEAST_SHARE]
    if not bad:
        return 1.0
    return max([level for level in good if level < min(bad)], default=max(2 * LOW, min(bad) / 2))


def write(difficulty: Difficulty, verb: str, level: float, priors: Priors, affordance: str | None = "graspable") -> str:
    """Text of a generation program that makes scenes difficult by one verb. affordance: that the target must have."""
    chosen = VERBS[verb]
    program = GenerationProgram(
        factor=cast(FactorName, chosen.factor),
        roles=tuple(_need(cast(RoleName, role), affordance) for role in chosen.needs),
        relations=(),
        edits=(EditStep(verb, LOW, highest(verb, priors)),),
        level=level,
    )
    return to_text(program)


def _need(role: RoleName, affordance: str | None) -> RoleNeed:
    if role == "target":
        return RoleNeed("target", affordance=affordance)
    return RoleNeed(role, kind="object") if role == "obstacle" else RoleNeed(role)


class ScriptedEngine:
    """DataEngine Protocol, deterministic, no network. catalogue: of the things that programs may use."""

    def __init__(self, catalogue: Catalogue):
        self._catalogue = catalogue

    def propose(self, difficulty: Difficulty, bases: Sequence[SceneSpec], priors: Priors) -> list[str]:
        """One program for each verb that ``verbs_for`` names, in its order."""
        held = all("graspable" in Tabletop(b).assets[read_goal(b).target].affordances for b in bases)  # a drawer opens, by its handle
        affordance = "graspable" if held else None
        return [write(difficulty, verb, _START_LEVEL, priors, affordance) for verb in verbs_for(difficulty, bases, self._catalogue)]

    def repair(self, spec: SceneSpec, failures: Sequence[Failure], factors: Collection[str]) -> tuple[SceneSpec, tuple[Cure, ...]] | None:
        """What the failed checks name, changed as far as the checks measured."""
        return repair(spec, failures, factors)
