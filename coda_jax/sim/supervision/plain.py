"""The control arm of a supervisor: the same plan again, with other noise."""

from __future__ import annotations

from collections.abc import Sequence

from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.supervision.parameters import FIRST
from coda_jax.sim.supervision.supervisor import Revision, Tried


class PlainRepeats:
    """Never changes a plan, so that what a supervisor adds is told from mere repetition."""

    def revise(self, spec: SceneSpec, tried: Sequence[Tried]) -> Revision:
        """The planner's first choice."""
        return Revision(FIRST, "the same plan with other noise")
