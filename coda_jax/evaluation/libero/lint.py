"""What is wrong with a benchmark before anyone runs it: every suite's goals, initial states and prompts, from its files alone."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jaxtyping import Float

from coda_jax.runtime import InputError
from coda_jax.scenes.libero import bddl, package, states, tasks
from coda_jax.scenes.libero.bddl import Atom, Problem

STATES = 50  # that a task of these benchmarks should have


@dataclasses.dataclass(frozen=True)
class Starts:
    """What physics says of a task's initial states. Of ``tried`` states:

    solved: the goal holds when an episode begins. nudged: it holds after one joint or one thing of the goal is shifted by a centimetre.
    sunk: something begins more than a centimetre inside something else. fallen: something turned over. moved: something went more than
    3 cm sideways. restless: something still moves at the end. error: why the physics could not be asked, "" otherwise.
    """

    tried: int = 0
    solved: int = 0
    nudged: int = 0
    sunk: int = 0
    fallen: int = 0
    moved: int = 0
    restless: int = 0
    error: str = ""


@dataclasses.dataclass(frozen=True)
class TaskFinding:
    """One task. problem: None where its file cannot be read. states: rows of its file, 0 where it has none; repeated: of them, again.

    trouble: why the task cannot be scored, "" where it can.
    """

    task: tasks.Task
    problem: Problem | None
    states: int
    repeated: int
    trouble: str
    starts: Starts | None = None


Physics = Callable[[tasks.Task, Problem, Float[np.ndarray, "n q"]], Starts]


def inspect(task: tasks.Task, physics: Physics | None = None) -> TaskFinding:
    """One task's findings; what cannot be read is a finding, not an error."""
    problem, rows, trouble = None, None, []
    try:
        problem = task.problem()
    except InputError as error:
        trouble.append(str(error))
    try:
        rows = states.read(task.init)
    except InputError as error:
        trouble.append(str(error))
    count = 0 if rows is None else len(rows)
    repeated = 0 if rows is None else count - len({row.tobytes() for row in rows})
    starts = physics(task, problem, rows) if physics is not None and problem is not None and rows is not None else None
    return TaskFinding(task, problem, count, repeated, "; ".join(trouble), starts)


@dataclasses.dataclass(frozen=True)
class SuiteFinding:
    """One suite.

    goals: how many tasks ask for each predicate. same_goal: the most tasks with one and the same goal. short: tasks with fewer than STATES
    states. repeated: states that are there twice. worded: tasks whose prompt made from the file's name differs from the task's own words.
    misled: tasks with the source task's things and file name, so its prompt, but another goal. twins: tasks of the same goal, things and
    places as an earlier one of the suite. sources: tasks that a source task asks already, whatever two things of one kind are called.
    """

    suite: str
    tasks: tuple[TaskFinding, ...]
    goals: Mapping[str, int]
    same_goal: int
    short: int
    repeated: int
    worded: int
    misled: int
    twins: int
    sources: int

    @property
    def unreadable(self) -> tuple[TaskFinding, ...]:
        return tuple(t for t in self.tasks if t.trouble)

    def count(self, field: str) -> tuple[int, int]:
        """Of a field of Starts: states and tried states, over the tasks whose physics was asked."""
        asked = [t.starts for t in self.tasks if t.starts is not None and not t.starts.error]
        return sum(getattr(s, field) for s in asked), sum(s.tried for s in asked)


def _anonymous(names: Sequence[str], kinds: Mapping[str, str]) -> tuple[str, ...]:
    """Names without the numbers of things, so that two of one kind are the same."""
    found = []
    for name in names:
        thing = next((t for t in kinds if name == t or name.startswith(t + "_")), "")
        found.append(kinds[thing] + name[len(thing) :] if thing else name)
    return tuple(found)


def signature(problem: Problem) -> tuple[object, ...]:
    """What a task asks and where: equal for tasks that differ only in words or in the numbers of their things."""
    kinds = {t.name: t.category for t in (*problem.objects, *problem.fixtures)}
    places = {a.names[0]: (a.predicate, _region(problem, a.names[-1], kinds)) for a in problem.init if len(a.names) == 2}
    openings = sorted(str((a.predicate, _anonymous(a.names, kinds))) for a in problem.init if len(a.names) == 1)

    def asked(atom: Atom) -> str:
        return str((atom.predicate, [(_anonymous([n], kinds), places.get(n)) for n in atom.names]))

    stand = sorted(str((kinds.get(n, n), place)) for n, place in places.items())
    return (tuple(sorted(map(asked, problem.goal))), tuple(stand), tuple(openings))


def _region(problem: Problem, name: str, kinds: Mapping[str, str]) -> object:
    ranges = problem.region(name).ranges if name in problem.region_names else ()
    return ranges or _anonymous([name], kinds)


def _goal(problem: Problem) -> str:
    return " and ".join(sorted(map(str, problem.goal)))


def lint(
    suite: str, found: package.Package | None = None, physics: Physics | None = None, said: Callable[[str], None] = lambda line: None
) -> SuiteFinding:
    """One suite's findings.

    Args:
      found: the package's folders; None for the installed one. physics: what asks the simulator; None leaves its columns out.
      said: is told the name of every task that is done.

    Raises:
      InputError: the suite is unknown, or the package is missing.
    """
    family = tasks.family_of(suite)
    sources = {t.name: _problem(t) for t in tasks.tasks(family, found)}
    known = {signature(p) for p in sources.values() if p is not None}
    findings = []
    for task in tasks.tasks(suite, found):
        findings.append(inspect(task, physics))
        said(task.key)
    read = [(t.task, t.problem) for t in findings if t.problem is not None]
    kinds = collections.Counter(bddl.WRITTEN[a.predicate] for _, p in read for a in p.goal)
    same = collections.Counter(_goal(p) for _, p in read)
    seen = collections.Counter(signature(p) for _, p in read)
    worded = misled = 0
    for task, problem in read:
        source = sources.get(task.name)
        worded += task.prompt_from_name != problem.language
        alike = source is not None and (source.objects, source.fixtures) == (problem.objects, problem.fixtures)
        misled += source is not None and alike and _goal(source) != _goal(problem)
    return SuiteFinding(
        suite=suite,
        tasks=tuple(findings),
        goals=dict(kinds.most_common()),
        same_goal=max(same.values(), default=0),
        short=sum(t.states < STATES for t in findings),
        repeated=sum(t.repeated for t in findings),
        worded=worded,
        misled=misled,
        twins=sum(n - 1 for n in seen.values()),
        sources=0 if suite == family else sum(signature(p) in known for _, p in read),
    )


def _problem(task: tasks.Task) -> Problem | None:
    try:
        return task.problem()
    except InputError:
        return None


def refuse_unscorable(findings: Sequence[SuiteFinding]) -> None:
    """Stop before a run on suites that cannot be scored.

    Raises:
      InputError: a task's file or initial states cannot be read, or are missing; names all of them.
    """
    bad = [f"{t.task.key}: {t.trouble}" for f in findings for t in f.unreadable]
    if bad:
        raise InputError(f"{len(bad)} tasks cannot be scored: {'; '.join(bad[:4])}{' ...' if len(bad) > 4 else ''}: leave their suites out")


def from_files(findings: Sequence[SuiteFinding]) -> str:
    """The table of what the files say, as markdown."""
    rows = [
        "| suite | goals | most tasks with one goal | unreadable | fewer than 50 states | repeated states | prompt from the name differs | "
        "it names another goal | asked twice | asked by a source task |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for f in findings:
        goals = ", ".join(f"{kind} {n}" for kind, n in f.goals.items())
        numbers = (len(f.unreadable), f.short, f.repeated, f.worded, f.misled, f.twins, f.sources)
        rows.append(f"| `{f.suite}` | {goals} | {f.same_goal} of {len(f.tasks)} | {' | '.join(map(str, numbers))} |")
    return "\n".join(rows)


_FIELDS = {
    "solved": "solved at the start",
    "nudged": "solved by a nudge",
    "sunk": "begins inside something",
    "fallen": "turns over",
    "moved": "slides over 3 cm",
    "restless": "still moves",
}


def from_physics(findings: Sequence[SuiteFinding]) -> str:
    """The table of what the simulator says, as markdown: states of those that were tried."""
    rows = [f"| suite | states tried | {' | '.join(_FIELDS.values())} |", "|---|---" + "|---" * len(_FIELDS) + "|"]
    for f in findings:
        _, tried = f.count("solved")
        if not tried:
            reason = next((t.starts.error for t in f.tasks if t.starts is not None and t.starts.error), "not asked")
            rows.append(f"| `{f.suite}` | 0: {reason[:100]} |{' |' * len(_FIELDS)}")
            continue
        rows.append(f"| `{f.suite}` | {tried} | {' | '.join(str(f.count(field)[0]) for field in _FIELDS)} |")
    return "\n".join(rows)


def details(findings: Sequence[SuiteFinding]) -> str:
    """The tasks behind the numbers of ``from_physics`` and ``from_files``, one line each, as markdown."""
    lines = []
    for f in findings:
        for t in f.tasks:
            if t.trouble:
                lines.append(f"- `{t.task.key}`: {t.trouble}")
            if t.starts is None:
                continue
            counts = [f"{what} {getattr(t.starts, field)}/{t.starts.tried}" for field, what in _FIELDS.items() if getattr(t.starts, field)]
            notable = [c for c in counts if not c.startswith(_FIELDS["sunk"])]
            if t.starts.error or notable:
                lines.append(f"- `{t.task.key}`: {t.starts.error or ', '.join(notable)}")
    return "\n".join(lines) or "- none"
