"""From the loop's own records to rows of memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from coda_jax.agents.base import DIAGNOSED, Outcome
from coda_jax.loop.rounds.variants import Built, Made
from coda_jax.memory.rows import Construction, Episode, Origin, Purpose, Repair, Scene, Verb
from coda_jax.scenes.fixes import UNITS, Fix
from coda_jax.scenes.spec import SceneSpec, to_json


class SceneRows:
    """Scene rows without repeats: a scene is stored once, where it first came from.

    stored: ids that memory holds already.
    """

    def __init__(self, stored: Iterable[str]):
        self._known = set(stored)
        self.rows: list[Scene] = []

    def add(self, spec: SceneSpec, origin: Origin, round_number: int, base: SceneSpec | None = None, **fields) -> None:
        """A scene with its base before it; ``fields`` as in memory.rows.Scene."""
        if spec.scene_id in self._known:
            return
        if base is not None:
            self.add(base, "seed", round_number)
        self._known.add(spec.scene_id)
        base_id = base.scene_id if base is not None else None
        self.rows.append(Scene(spec.scene_id, to_json(spec), origin, round_number, base_scene_id=base_id, **fields))

    def add_made(self, made: Made, origin: Origin, round_number: int, program_id: str | None = None, mode_id: str | None = None) -> None:
        """A variant with what was edited."""
        if made.spec.scene_id == made.base.spec.scene_id:
            self.add(made.spec, origin, round_number)  # drawn, or written whole
            return
        self.add(
            made.spec,
            origin,
            round_number,
            made.base.spec,
            program_id=program_id,
            mode_id=mode_id,
            factor=DIAGNOSED[made.factor] if made.factor else None,
            verbs=tuple(Verb(name, magnitude) for name, magnitude in made.verbs),
            level=made.level,
        )


def episode_rows(outcomes: Sequence[Outcome], purpose: Purpose, round_number: int, policy_step: int, states: str | None) -> list[Episode]:
    """One row for each rollout, in order."""
    return [
        Episode(
            round=round_number,
            purpose=purpose,
            scene_id=o.trial.spec.scene_id,
            repeat=o.trial.key[1],
            policy_step=policy_step,
            success=o.success,
            steps=o.steps,
            phase_failed=o.phase,
            health=o.health,
            states=states,
        )
        for o in outcomes
    ]


def _repair(fix: Fix) -> Repair:
    if isinstance(fix.value, tuple):
        amount = math.hypot(*fix.value)
        dx, dy, dz = (v / amount for v in fix.value)
        return Repair("move", fix.object, amount, "m", (dx, dy, dz))
    if isinstance(fix.value, str):
        return Repair(fix.field, fix.object, 1.0, "words", None, fix.value)
    return Repair(fix.field, fix.object, fix.value, UNITS[fix.field])


def construction_rows(history: Sequence[Built], round_number: int) -> list[Construction]:
    """One row for each failed check of a build."""
    return [
        Construction(
            round=round_number,
            verb=f"{b.verb}@{b.level:g}",
            check=b.failure.check,
            object=b.failure.object,
            other=b.failure.other,
            amount=b.failure.amount,
            unit=b.failure.unit,
            repair=_repair(b.fix) if b.fix else None,
            accepted=b.accepted,
        )
        for b in history
    ]
