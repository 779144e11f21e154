"""The tries of one scene: some at first, then revised ones after failures, in an order that does not depend on who ends first."""

from __future__ import annotations

from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.demonstrate import Trajectory
from coda_jax.sim.supervision.parameters import FIRST, PlanParameters
from coda_jax.sim.supervision.remarks import Critique, Inspector
from coda_jax.sim.supervision.supervisor import Supervisor, Tried


class SceneTries:
    """Tries numbered from 0: ``each`` at first; whenever all that were handed out have ended and fewer than ``each`` succeeded, one more.

    Its parameters are those that succeeded in the scene first, or what the supervisor makes of the failures; it is given up where the
    supervisor gives up, or after ``revisions`` further tries. So the tries of a scene are a function of how its own tries end.

    reason: why it was given up, empty before.
    """

    def __init__(self, spec: SceneSpec, each: int, revisions: int, inspector: Inspector, supervisor: Supervisor):
        self.spec, self._each, self._revisions = spec, each, revisions
        self._inspector, self._supervisor = inspector, supervisor
        self.parameters: list[PlanParameters] = [FIRST] * each
        self._ended: dict[int, Critique | None] = {}  # by number; None where it succeeded
        self._grasps: dict[int, int] = {}
        self.reason = ""

    def revisions_of(self, number: int) -> int:
        """How many changed plans were made up to a try; 0 for those at first."""
        return len(set(self.parameters[: number + 1])) - 1

    def end(self, number: int, trajectory: Trajectory) -> list[int]:
        """Note how a try ended; the numbers of the tries that are to be made next."""
        self._grasps[number] = trajectory.grasps
        self._ended[number] = None if trajectory.success else self._inspector.inspect(trajectory)
        return self._next()

    @property
    def critiques(self) -> list[Critique]:
        """Of all failures, in the order of the tries."""
        return [c for _, c in sorted(self._ended.items()) if c is not None]

    @property
    def successes(self) -> int:
        return sum(c is None for c in self._ended.values())

    @property
    def solved_at(self) -> int | None:
        """Changed plans up to the first success, None without any."""
        return next((self.revisions_of(n) for n, c in sorted(self._ended.items()) if c is None), None)

    def _next(self) -> list[int]:
        done, asked = len(self._ended), len(self.parameters)
        missing = self._each - self.successes
        if done < asked or missing <= 0 or asked >= self._each + self._revisions or self.reason:
            return []
        chosen = self._successor()
        if chosen is None:
            return []
        self.parameters.append(chosen)
        return [asked]

    def _successor(self) -> PlanParameters | None:
        failed = [Tried(self.parameters[n], c, self._grasps[n]) for n, c in sorted(self._ended.items()) if c is not None]
        unproven = {t.parameters for t in failed}
        proven = [self.parameters[n] for n, c in sorted(self._ended.items()) if c is None and self.parameters[n] not in unproven]
        if proven:  # it worked here and never failed here: again, with other noise
            return proven[-1]
        decision = self._supervisor.revise(self.spec, failed)
        self.reason = "" if decision.parameters else decision.reason
        return decision.parameters
