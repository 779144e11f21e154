"""An inspector without a language model: a critique measured from the record of a failed execution.

After the Robotic Safety Inspector of Scene2Demo, which writes step-wise critiques of a failed execution.
"""

from __future__ import annotations

import collections

from coda_jax.scenes.catalogue import Catalogue
from coda_jax.sim.demonstrate import DIVERGED, Trajectory
from coda_jax.sim.plan import GAVE_UP
from coda_jax.sim.supervision import events
from coda_jax.sim.supervision.events import remark
from coda_jax.sim.supervision.joint_events import joints
from coda_jax.sim.supervision.record import Record
from coda_jax.sim.supervision.remarks import Critique, Remark

_RIGID = (
    events.knocked_over,
    events.pushed,
    events.grasps,
    events.turned,
    events.collisions,
    events.releases,
    events.lost_goals,
    events.undone,
    events.blocked,
    events.out_of_reach,
)
_JOINTED = (events.pushed, joints)


class ScriptedInspector:
    """Reads what happened from positions, contacts and predicates; nothing is guessed."""

    def __init__(self, catalogue: Catalogue):
        self._catalogue = catalogue

    def inspect(self, trajectory: Trajectory) -> Critique:
        """The critique of a failed execution, in the order of its control steps.

        Raises:
          ValueError: the execution succeeded.
        """
        if trajectory.success:
            raise ValueError(
                f"episode {trajectory.episode.key} of scene {trajectory.episode.spec.scene_id} succeeded: inspect failures only"
            )
        record = Record(trajectory, self._catalogue)
        if trajectory.cause == DIVERGED:
            return Critique((remark(record, record.steps, "diverged", "", 0.0, trajectory.cause),))
        found = [r for look in (_JOINTED if record.jointed else _RIGID) for r in look(record)]
        found += _ending(record, trajectory, bool(found))
        return Critique(tuple(sorted(found, key=lambda r: r.step)))


def _ending(record: Record, trajectory: Trajectory, seen: bool) -> list[Remark]:
    """Why the try ended: without a plan, out of time, or given up with nothing else to say."""
    runs = record.runs()
    last = runs[-1][0]
    planned = [r for r in runs if r[0] != "failed"]
    if last != "failed":
        spent = collections.Counter({skill: 0 for skill, _, _ in runs})
        for skill, first, end in runs:
            spent[skill] += end - first
        skill, most = spent.most_common(1)[0]
        share = most / record.steps
        text = f"time ran out in {last}; {100 * share:.0f} % of it went into {skill}"
        late = remark(record, record.steps, "late", record.target_at(record.steps), share, text)
        return [Remark(late.step, skill, late.kind, late.object, late.amount, late.unit, late.message)]
    if not trajectory.cause.startswith(GAVE_UP) and (not planned or planned[-1][0] == "retreat"):
        step = planned[-1][2] if planned else 0
        named = next((n for n in record.spec.object_ids if n in trajectory.cause.replace(":", " ").split()), "")
        return [remark(record, step, "no_plan", named, 0.0, trajectory.cause)]
    return [] if seen else [remark(record, record.steps, "gave_up", record.target_at(record.steps), 0.0, trajectory.cause)]
