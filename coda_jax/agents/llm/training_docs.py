"""What a prompt says of the verbs, tools, ranges and helpers of training programs, written from the registries that the door uses.

Nothing of it is typed by hand but the one line that says what a verb or a tool is for, and both tables must have an entry for each and no
other.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence

from coda_jax.agents.llm.sdk_docs import helper_lines
from coda_jax.programs.code import expression_code
from coda_jax.programs.expressions import MAX_DEPTH, MAX_ROWS
from coda_jax.programs.sdk import TRAINING_VERBS
from coda_jax.programs.training.landmarks import Landmark
from coda_jax.programs.training.limits import DENSE_WEIGHT, MAX_STAGES, TOOL_RANGES
from coda_jax.programs.training.program import NAME_WORDS
from coda_jax.programs.training.sdk import training_sdk
from coda_jax.programs.training.vocabulary import ROLES

_CHANGE = 0.005  # of a quantity, in its unit, from which it is told
VERBS: dict[str, str] = {
    "subgoal": "name: of the words below, joined by _. done: a condition that ends the stage. progress: an expression in 0..1, "
    "read while the subgoal is the next one",
    "tools": "learning tools, each of which may be left out",
    "dense": f"in place of subgoals: weight ({DENSE_WEIGHT[0]:g} to {DENSE_WEIGHT[1]:g}) times an expression in 0..1 is added to the "
    "reward at every control step",
    "sparse": "in place of subgoals: success alone",
    "training": f"the whole program: 1 to {MAX_STAGES} subgoal(...), or one dense(...), or sparse(); then at most one tools(...). Of the "
    "subgoals the last has done=success() and no other has. latched=True lets a stage that was reached count until the episode ends",
}
TOOLS: dict[str, str] = {
    "demo_share": "share of demonstrations in batches of critic and policy",
    "start_states": "rollouts also begin inside demonstrations, where the diagnosed phase begins",
    "replay_share": "share of earlier rounds in batches of critic and policy",
    "sampling_weight": "weight of the program's transitions beside the others'",
    "candidate_temperature": "of the choice among candidate chunks in rollouts to learn from",
}


@functools.cache
def signatures() -> dict[str, str]:
    """Verb to its call with arguments and defaults, read from the source that runs in the sandbox."""
    found: dict[str, str] = {}
    for node in ast.parse(training_sdk()).body:
        if isinstance(node, ast.FunctionDef) and node.name in TRAINING_VERBS and node.name not in found:
            node.args.kwarg = None  # what is none of the arguments is refused there
            found[node.name] = f"{node.name}({ast.unparse(node.args).replace('=None', '')})"
    return {verb: found[verb] for verb in TRAINING_VERBS}


def _tool_lines() -> list[str]:
    ranges = {name: f"{low:g} to {high:g}" for name, (low, high) in TOOL_RANGES.items()}
    return [f"  {name}: {meaning}; {ranges.get(name, 'True or False')}" for name, meaning in TOOLS.items()]


@functools.cache
def training_docs() -> str:
    """The page of training programs for a prompt."""
    lines = []
    for verb, call in signatures().items():
        lines.append(f"{call}: {VERBS[verb]}")
        lines += _tool_lines() if verb == "tools" else []
    return "\n".join(
        [
            *lines,
            f"Words of names: {', '.join(sorted(NAME_WORDS))}; numbers may follow a word.",
            f'Roles: {", ".join(repr(role) for role in ROLES)}; beside them "table" and "gripper". There are no other things.',
            "goal(): what the scene's task asks for, a condition. success(): the goal at rest and released.",
            "Of a task of two goals, goal() holds when both do; the roles are those of the first, which is left alone for the second.",
            f"Expressions, at most {MAX_DEPTH} deep and {MAX_ROWS} rows long:",
            *helper_lines(),
        ]
    )


def landmark_lines(marks: Sequence[Landmark]) -> str:
    """How demonstrations of a family go, phase by phase: medians at the beginning and at the end of each, of what changes at all."""
    lines = []
    if not marks or all(q.args != ROLES for q in marks[0].values):
        lines.append("Target and reference are one thing here: relate it to the gripper and the table alone.")
    seen = {q: [v for mark in marks for v in mark.values[q]] for q in (marks[0].values if marks else ())}
    told = [q for q, values in seen.items() if max(values) - min(values) > _CHANGE]
    for mark in marks:
        lines.append(f"{mark.phase}: control steps {mark.steps[0]} to {mark.steps[1]}, shown by {mark.shown} demonstrations")
        lines += [f"  {expression_code(q, 0)}: {_number(mark.values[q][0])} -> {_number(mark.values[q][1])}" for q in told]
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{round(value, 3) + 0.0:.3f}"
