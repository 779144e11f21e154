"""An inspector for LIBERO's demonstrations: what the planner itself says of a failed try, as a remark."""

from __future__ import annotations

import collections

from coda_jax.sim.demonstrate import DIVERGED, Trajectory
from coda_jax.sim.plan import GAVE_UP
from coda_jax.sim.supervision.remarks import Critique, Remark


class LiberoInspector:
    """Inspector Protocol. Its remarks are about the end of a try: no plan, given up, out of time, diverged."""

    def inspect(self, trajectory: Trajectory) -> Critique:
        """The critique of a failed execution.

        Raises:
          ValueError: the execution succeeded.
        """
        if trajectory.success:
            raise ValueError(f"episode {trajectory.episode.key} succeeded: inspect failures only")
        steps, cause = len(trajectory.skills), trajectory.cause
        spent = collections.Counter(str(skill) for skill in trajectory.skills)
        skill, most = spent.most_common(1)[0]
        if cause == DIVERGED:
            kind, amount = "diverged", 0.0
        elif cause.startswith(GAVE_UP):
            kind, amount = "gave_up", 0.0
        elif str(trajectory.skills[-1]) == "failed":
            kind, amount = "no_plan", 0.0
        else:
            kind, amount, cause = "late", most / steps, f"{cause}; {100 * most / steps:.0f} % of the time went into {skill}"
        unit = "share" if kind == "late" else ""
        return Critique((Remark(steps, skill, kind, "", amount, unit, cause),))
