"""Stage "potentials": every mode that is practised gets a training program, mended where the rollouts under it stop.

Scenes that practise no mode share, family by family, the program of the phase in which the round's rollouts failed most. All programs pass
the gates on demonstrations of their family.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence

from coda_jax import config as settings
from coda_jax.agents.base import Failing, Outcome, PotentialCompiler, Stalled
from coda_jax.evaluation.terminal import Progress
from coda_jax.loop import compilers, parts
from coda_jax.loop.check_training import TrainingCheck
from coda_jax.loop.own_programs import heading, patiently
from coda_jax.loop.rounds import outcomes as stored
from coda_jax.loop.rounds import recall
from coda_jax.loop.rounds.cases import collected
from coda_jax.loop.run import Finished, Run
from coda_jax.memory.programs import current_programs
from coda_jax.memory.rows import Program, program_id_of
from coda_jax.memory.store import Memory
from coda_jax.programs.sandbox import Sandbox
from coda_jax.programs.training.gates import GateError, constructed
from coda_jax.programs.training.measured import measure
from coda_jax.programs.training.program import AnyProgram, SparseProgram, TrainingProgram, evaluate_training, to_program
from coda_jax.scenes.families import PHASES
from coda_jax.sim.potentials import program_scene

_NO_MODE = ": scenes that practise no mode"  # in the first line of a program's text, after its family


@dataclasses.dataclass(frozen=True)
class InUse:
    """Training programs: of modes by their id, and those of scenes that practise none, by family."""

    modes: dict[str, AnyProgram]
    defaults: dict[str, AnyProgram]

    def of(self, mode_id: str | None, family: str) -> AnyProgram:
        """The program of a scene of ``family``; success alone where there is none."""
        found = None if mode_id is None else self.modes.get(mode_id)
        return found or self.defaults.get(family, SparseProgram())


def in_use(memory: Memory, config: settings.Config) -> InUse:
    """The active training programs, read from memory through the sandbox; success alone before there are any."""
    return _read(config, [p for p in _training(memory) if p.status == "active"])


def replaced(memory: Memory, config: settings.Config, round_number: int) -> InUse:
    """``in_use`` as it was before the round mended some of them."""
    rows = _training(memory)
    active = [p for p in rows if p.status == "active" and p.round < round_number]
    return _read(config, [*active, *(p for p in rows if p.status == "retired" and p.round == round_number)])


def met(memory: Memory, config: settings.Config, critic_round: int) -> InUse:
    """``in_use`` as it was in the critic's latest round: what it may be told, for a later program is one that it never met."""
    return replaced(memory, config, critic_round + 1)


def _training(memory: Memory) -> list[Program]:
    return [p for p in current_programs(memory) if p.kind == "training"]


def _family_of(row: Program) -> str | None:
    """Of a program of scenes that practise no mode; None for a mode's own, whose mode says it."""
    head, found, _ = row.text.partition("\n")[0].partition(_NO_MODE)
    return head.removeprefix("# ") if found and row.mode_id is None else None


def _read(config: settings.Config, rows: Sequence[Program]) -> InUse:
    found, defaults = dict[str, AnyProgram](), dict[str, AnyProgram]()
    if not rows:
        return InUse(found, defaults)
    with Sandbox(parts.limits_of(config)) as sandbox:
        for row in sorted(rows, key=lambda p: (p.round, p.program_id)):
            program = patiently(sandbox, lambda text=row.text: evaluate_training(text, sandbox))
            family = _family_of(row)
            if row.mode_id is not None:
                found[row.mode_id] = program
            elif family is not None:
                defaults[family] = program
    return InUse(found, defaults)


@dataclasses.dataclass(frozen=True)
class _Wanted:
    """A program to make or mend. heading: its first line. outcomes: recorded rollouts under it."""

    mode_id: str | None
    failing: Failing
    heading: str
    outcomes: Sequence[Outcome]


@dataclasses.dataclass
class _Work:
    """known: the row that a program replaces. old, stalled: the program that is there, with its progress where it may be mended.

    program, repairs: what is made.
    """

    want: _Wanted
    known: Program | None
    old: AnyProgram | None
    stalled: Stalled | None
    program: AnyProgram
    repairs: tuple[str, ...] = ()


def _wanted(run: Run, round_number: int) -> list[_Wanted]:
    cases = [case.outcome for case in collected(run.folder, run.memory, round_number)]
    wanted = []
    for family in settings.families(run.config):
        mine = [o for o in cases if o.trial.spec.task.family == family]
        failed = Counter(o.phase for o in mine if not o.success and o.phase)
        phase = max(PHASES, key=lambda p: (failed[p], -PHASES.index(p)))
        wanted.append(_Wanted(None, Failing(family, "EXECUTION", phase, ""), f"# {family}{_NO_MODE}, {phase}", mine))
    scenes = recall.Scenes(run.memory)
    path = run.folder / stored.file_of(round_number, "before")
    before = stored.load(path, scenes.spec) if path.exists() else []
    practised: dict[str, set[str]] = {}
    for e in run.state.environments.get(str(round_number), []):
        if e.mode_id:
            practised.setdefault(e.mode_id, set()).add(e.scene_id)
    for mode in sorted(recall.modes_of(run.memory, settings.families(run.config)), key=lambda m: m.mode_id):
        if mode.mode_id in practised:
            own = [o for o in before if o.trial.spec.scene_id in practised[mode.mode_id]]
            failing = Failing(mode.family, mode.factor, mode.phase, mode.cause)
            wanted.append(_Wanted(mode.mode_id, failing, f"{heading(mode)}, {mode.phase}", own))
    return wanted


def run_stage(run: Run, round_number: int) -> Finished:
    """Compile what is missing, refine what is there."""
    active = sorted((p for p in _training(run.memory) if p.status == "active"), key=lambda p: (p.round, p.program_id))
    known = {(p.mode_id, _family_of(p)): p for p in active}
    gates = {family: TrainingCheck(run.config, family) for family in settings.families(run.config)}
    wanted = _wanted(run, round_number)
    with (
        Sandbox(parts.limits_of(run.config)) as sandbox,
        Progress(f"round {round_number}, potentials", len(wanted), "programs") as progress,
    ):
        compiler = compilers.compiler_of(run, round_number, gates, sandbox)
        work = [
            _begun(run, want, known.get((want.mode_id, want.failing.family if want.mode_id is None else None)), sandbox) for want in wanted
        ]
        _compile([w for w in work if w.old is None], compiler, gates, sandbox)
        _refine(run, [w for w in work if w.stalled is not None], compiler, gates, sandbox)
        progress.advance(len(wanted))
    rows = []
    for done in work:
        _log(run, round_number, done)
        rows += _rows(run, round_number, done)
    return Finished({"done": len(wanted), "unit": "programs"}, rows)


def _begun(run: Run, want: _Wanted, known: Program | None, sandbox: Sandbox) -> _Work:
    """What there is for a wanted program; nothing where another phase fails most now."""
    if known is None or not known.text.startswith(f"{want.heading}\n"):
        return _Work(want, known, None, None, SparseProgram())
    old = patiently(sandbox, lambda: evaluate_training(known.text, sandbox))
    stalled = None
    if run.config.potential.refine and isinstance(old, TrainingProgram):
        stalled = _stalled(run, old, want)
    return _Work(want, known, old, stalled, old)


def _compile(work: Sequence[_Work], compiler: PotentialCompiler, gates: Mapping[str, TrainingCheck], sandbox: Sandbox) -> None:
    for one, text in zip(work, compiler.compile([w.want.failing for w in work]), strict=True):
        one.program = patiently(sandbox, lambda text=text: evaluate_training(text, sandbox))
        if isinstance(one.program, TrainingProgram):
            built = constructed(one.program, gates[one.want.failing.family].demonstrations)
            one.program, one.repairs = built.program, built.repairs


def _refine(run: Run, work: Sequence[_Work], compiler: PotentialCompiler, gates: Mapping[str, TrainingCheck], sandbox: Sandbox) -> None:
    """Mend programs where rollouts stop; one whose mended text does not pass the gates stays as it was."""
    for one, text in zip(work, compiler.refine([w.stalled for w in work if w.stalled is not None]), strict=True):
        mended = patiently(sandbox, lambda text=text: evaluate_training(text, sandbox))
        assert isinstance(mended, TrainingProgram), "a potential stays one"
        try:
            built = constructed(mended, gates[one.want.failing.family].demonstrations)
        except GateError as error:
            run.say(f"a refinement was refused: {error}")
            continue
        one.program, one.repairs = built.program, built.repairs


def _stalled(run: Run, program: TrainingProgram, want: _Wanted) -> Stalled | None:
    """A program with the progress of rollouts under it, None without any."""
    recorded = [o for o in want.outcomes if o.recorded and not o.health and o.steps]
    seen = [(program_scene(o.trial.spec, run.everything), o.recorded.views) for o in recorded if o.recorded]
    return Stalled(want.failing, program, measure(program, seen), lambda other: measure(other, seen)) if seen else None


def _rows(run: Run, round_number: int, done: _Work) -> list[Program]:
    """Rows of memory: the program that is new, and the one that it replaces."""
    if done.program == done.old:
        return []
    text, known = f"{done.want.heading}\n{to_program(done.program)}", done.known
    rows = []
    if known is not None:
        rows.append(dataclasses.replace(known, version=known.version + 1, status="retired", round=round_number))
    program_id = program_id_of("training", text)
    stored_row = run.memory.program(program_id)
    version = 1 if stored_row is None else stored_row.version + 1
    return [*rows, Program(program_id, version, "training", text, done.want.mode_id, None, "active", None, round_number)]


def _log(run: Run, round_number: int, done: _Work) -> None:
    failing, program = done.want.failing, done.program
    run.metrics.write(
        "potential",
        round=round_number,
        mode=done.want.mode_id,
        factor=failing.factor,
        phase=failing.phase,
        cause=failing.cause,
        form=program.kind,
        subgoals=[s.name for s in program.subgoals] if isinstance(program, TrainingProgram) else [],
        repairs=list(done.repairs),
        refined=done.stalled is not None and program != done.old,
        reached=None if done.stalled is None else list(done.stalled.measured.reached),
    )
