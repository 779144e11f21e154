"""A failed rollout in words and numbers, for a model that reads; nothing in it says how the scene was made."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from coda_jax.agents.base import Outcome
from coda_jax.agents.llm.seen import Seen
from coda_jax.agents.vocabulary import Measurements, is_cause
from coda_jax.programs.errors import one_line, quote
from coda_jax.scenes.families import read_goals, scaled_assets
from coda_jax.scenes.measures import MEASURES, measure
from coda_jax.scenes.spec import SceneSpec
from coda_jax.types import TOKENS

_INSTRUCTION_CHARS = 300
_MOVED_M = 0.01  # less is settling


def episode_text(outcome: Outcome, seen: Seen, steps: Sequence[int]) -> str:
    """Everything of the rollout but its pictures. steps: control steps that get a row."""
    spec = outcome.trial.spec
    parts = [
        f'Instruction: "{one_line(spec.task.instruction, _INSTRUCTION_CHARS)}"',
        "Goal: " + "; then ".join(f"{g.target} {g.relation} {g.reference}" for g in read_goals(spec)),
        "Objects: " + "; ".join(_objects(spec)),
        f"Rollout: {outcome.steps} control steps of 0.1 s, no success.",
        "Phases (value after each control step, as step-step:value): " + "; ".join(phase_lines(seen)),
        "Measured (best value reached): " + "; ".join(_margins(outcome)),
        "Moved: " + ("; ".join(_moved(seen)) or "nothing"),
        *_table(spec, seen, steps),
    ]
    return "\n".join(parts)


def scene_text(spec: SceneSpec, round_: Measurements) -> str:
    """What the scene measures beside the scenes of the round, one quantity a line."""
    own = measure(spec)
    lines = ["quantity | this scene | scenes of the round that have less | their lower quartile, median, upper quartile"]
    for name in round_.values:
        quartiles = ", ".join(_number(v) for v in round_.quartiles(name))
        lines.append(f"{name} | {_number(own[name])} | {100 * round_.share_below(name, own[name]):.0f} % | {quartiles}")
    return "\n".join(lines)


def cause_lines(names: Sequence[str]) -> list[str]:
    """Causes with what they say, one a line."""
    lines = []
    for cause in names:
        quantity, _, way = cause.partition(":")
        unit = f", {MEASURES[quantity].unit}" if quantity in MEASURES and MEASURES[quantity].unit else ""
        said = f": {way} {MEASURES[quantity].what}{unit}" if quantity in MEASURES else ""
        lines.append(f'"{cause}"{said}')
    return lines


def cause_said(cause: str) -> str:
    """A cause with what it says, on one line; of one that no diagnosis may name, what ``quote`` leaves."""
    return cause_lines([cause])[0] if is_cause(cause) else quote(cause)


def _objects(spec: SceneSpec) -> list[str]:
    assets = scaled_assets(spec)
    return [f"{o.object} ({o.colour} {assets[o.object].category}, {assets[o.object].kind})" for o in spec.attributes.objects]


def phase_lines(seen: Seen) -> list[str]:
    """Each phase, and success, as runs of equal values: "grasp 1-14:0 15-21:1 22-40:0"."""
    return [f"{name} {_runs(values)}" for name, values in (*seen.phases.items(), ("success", seen.nu))]


def _runs(values: np.ndarray) -> str:
    """ "1-11:0 12-40:1": runs of equal values with their control steps."""
    starts = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist(), len(values)]
    return " ".join(f"{a + 1}-{b}:{values[a]:.2g}" for a, b in itertools.pairwise(starts) if b > a)


def _margins(outcome: Outcome) -> list[str]:
    return [
        f"{name} {m.value:.3g} {m.unit} at step {m.step}, {m.threshold:.3g} {m.unit} asked for" for name, m in outcome.margins.items()
    ] or ["nothing"]


def _moved(seen: Seen) -> list[str]:
    path = np.asarray(seen.views.pos)
    found = []
    for name, token in seen.present().items():
        far = float(np.linalg.norm(path[-1, token] - path[0, token]))
        if far >= _MOVED_M:
            found.append(f"{name} {far:.3f} m")
    return found


def _table(spec: SceneSpec, seen: Seen, steps: Sequence[int]) -> list[str]:
    """A heading, and a row of each step: gripper, what the fingers touch, targets and what they touch, joints."""
    views, present = seen.views, seen.present()
    targets = [name for name in dict.fromkeys(g.target for g in read_goals(spec)) if name in present]
    columns = ["step", "grip point x y z m", "fingers apart m", "fingers touch"]
    columns += [f"{name} x y z m | {name} touches" for name in targets]
    jointed = {name: token for name, token in present.items() if np.ptp(np.asarray(views.articulation_range)[0, token])}
    columns += [f"joint of {name}, share of its range" for name in jointed]
    if seen.joints_rad.shape[1]:
        columns.append("arm joints deg")
    rows = [" | ".join(columns)]
    for step in steps:
        cells = [str(step), _numbers(views.ee_pos[step]), f"{float(views.gripper_opening[step]):.3f}", _fingers(seen, step)]
        for name in targets:
            cells += [_numbers(views.pos[step, present[name]]), _touching(seen, step, present[name])]
        for token in jointed.values():
            low, high = np.asarray(views.articulation_range)[step, token]
            cells.append(f"{(float(views.articulation[step, token]) - low) / (high - low):.2f}")
        if seen.joints_rad.shape[1]:
            cells.append(" ".join(str(round(float(v))) for v in np.rad2deg(seen.joints_rad[step - 1])))
        rows.append(" | ".join(cells))
    return rows


def _number(value: float) -> str:
    return f"{round(value, 6) + 0.0:.3g}"


def _numbers(values: np.ndarray) -> str:
    return " ".join(f"{float(v):.3f}" for v in values)


def _fingers(seen: Seen, step: int) -> str:
    touches = np.asarray(seen.views.finger_contact)[step]
    return ", ".join(f"{name} ({_which(touches[token])})" for name, token in seen.present().items() if touches[token].any()) or "-"


def _which(pair: np.ndarray) -> str:
    return "both" if pair.all() else "left" if pair[0] else "right"


def _touching(seen: Seen, step: int, token: int) -> str:
    touches = np.asarray(seen.views.contact)[step, token]
    named = [name for name, other in seen.present().items() if touches[other]]
    return ", ".join([*named, *(["table"] if touches[TOKENS] else [])]) or "-"
