"""An inspector for LIBERO's demonstrations: what happened to a drawer or knob, and what the planner itself says of how a try ended."""

from __future__ import annotations

import collections

import numpy as np

from coda_jax.scenes.families import read_goals
from coda_jax.scenes.libero.importing import model_of
from coda_jax.sim.demonstrate import DIVERGED, Trajectory
from coda_jax.sim.libero.planner.steps import KNOB_OFF_RAD, KNOB_ON_RAD, OPEN_AIM_M
from coda_jax.sim.plan import GAVE_UP
from coda_jax.sim.supervision.joint_events import Motion, moved
from coda_jax.sim.supervision.remarks import Critique, Remark

_AIMS = {"open": OPEN_AIM_M, "turn_on": KNOB_ON_RAD, "turn_off": KNOB_OFF_RAD}  # of the joint that the target's token shows, by relation


class LiberoInspector:
    """Inspector Protocol. Of what is carried it says only how the try ended: no plan, given up, out of time, diverged."""

    def inspect(self, trajectory: Trajectory) -> Critique:
        """The critique of a failed execution, in the order of its control steps.

        Raises:
          ValueError: the execution succeeded.
        """
        if trajectory.success:
            raise ValueError(f"episode {trajectory.episode.key} succeeded: inspect failures only")
        if trajectory.cause == DIVERGED:
            return Critique((_ending(trajectory),))
        seen = list(moved(motion)) if (motion := _motion(trajectory)) is not None else []
        ending = _ending(trajectory)
        if not seen or ending.kind != "gave_up":  # where something was seen, that it was given up adds nothing
            seen.append(ending)
        return Critique(tuple(sorted(seen, key=lambda r: r.step)))


def _motion(trajectory: Trajectory) -> Motion | None:
    """How the drawer or knob that the goal is about was moved; None where it is about something else."""
    spec, views = trajectory.episode.spec, trajectory.views
    goal = read_goals(spec)[0]
    model = model_of(spec.attribute(goal.target).asset)
    if model.free or goal.relation not in _AIMS:
        return None
    token, ends = spec.object_ids.index(goal.target), model.joints[model.joint]
    span = ends.opened - ends.closed
    return Motion(
        name=goal.target,
        aim=max((_AIMS[goal.relation] - ends.closed) / span, 0.0),
        skills=trajectory.skills,
        share=np.asarray(views.articulation[:, token], float) / abs(span),
        held=np.asarray(views.finger_contact[:, token].all(1)),
        off_m=np.linalg.norm(np.asarray(views.ee_pos, float) - np.asarray(views.pos[:, token], float), axis=1),
    )


def _ending(trajectory: Trajectory) -> Remark:
    """Why the try ended."""
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
    return Remark(steps - 1, skill, kind, "", amount, unit, cause)
