"""Stage "memory": modes and programs of another run are where this one begins. They are priors: what they are worth shows itself here.

The file is hostile. Of a program only what it says is kept, written anew by us; of another policy's statistics only the order of modes.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.agents.base import SPEC_FACTOR
from coda_jax.evaluation.failures import PHASES
from coda_jax.evaluation.terminal import Progress
from coda_jax.loop import parts
from coda_jax.loop.journal import file_sha256, read_commits
from coda_jax.loop.own_programs import MACHINE, headed, retried
from coda_jax.loop.run import Finished, Run
from coda_jax.loop.strategies import STRATEGIES
from coda_jax.memory.imports import Imported, import_memory
from coda_jax.memory.provenance import IMPORTED
from coda_jax.memory.rows import Mode, Program, program_id_of
from coda_jax.programs.errors import ProgramError
from coda_jax.programs.sandbox import Sandbox
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generation import evaluate_generation, to_text

NAME = IMPORTED  # of the stage
ROUND = 0  # of what was imported and has not been changed since; rounds of this run count from 1


def wanted(config: settings.Config) -> bool:
    """Whether the run begins with another one's memory."""
    return bool(config.memory.start)


def check(config: settings.Config, workdir: Path) -> None:
    """Refuse, before anything long runs, a starting memory that cannot be used; once it was imported the file is not looked at again.

    Raises:
      InputError: the run's strategy remembers nothing, or as ``read``.
    """
    if not wanted(config):
        return
    if not (STRATEGIES[config.strategy].remembers and config.rounds.count):
        known = ", ".join(name for name, strategy in STRATEGIES.items() if strategy.remembers)
        raise InputError(
            f"config.memory.start is {config.memory.start}, but strategy {config.strategy} with {config.rounds.count} rounds uses none; "
            f"leave it empty, or take config.strategy={known} and at least one round"
        )
    commits = read_commits(workdir)
    if not (commits and NAME in commits[-1].done):
        read(config)


def read(config: settings.Config) -> Imported:
    """What the file holds.

    Raises:
      InputError: as ``import_memory``, or it holds nothing of the run's family.
    """
    path = Path(config.memory.start)
    found = import_memory(path)
    if not any(m.family in settings.families(config) for m in found.modes):
        raise InputError(f"{path} cannot be imported: it knows no difficulty mode of {config.family}; give the memory of a run with rounds")
    return found


def frozen(config: settings.Config, row: Mode | Program) -> bool:
    """Whether a mode or program is an imported one that this run must not change."""
    return config.memory.start_mode == "frozen" and row.round == ROUND


def own_texts(config: settings.Config, texts: Sequence[str], programs: Iterable[Program]) -> list[str]:
    """The texts under which this run keeps what it finds out about them; of a frozen one of ``programs`` that is a copy with its own id."""
    held = {p.text: p.program_id for p in programs if frozen(config, p)}
    return [f"# as imported program {held[text]}\n{text}" if text in held else text for text in texts]


def run_stage(run: Run) -> Finished:
    """Validate and take over, all in the commit that ends the stage.

    Raises:
      InputError: as ``read``, the file changes meanwhile, or a program kills or stalls every worker.
    """
    path = Path(run.config.memory.start)
    sha256, found = file_sha256(path), read(run.config)
    if file_sha256(path) != sha256:
        raise InputError(f"{path} was written while it was read; give the memory of a run that is finished")
    refused: collections.Counter[str] = collections.Counter()
    modes = {m.mode_id: m for m in (_mode(run.config, row, refused) for row in found.modes) if m is not None}
    programs: dict[str, tuple[Program, str]] = {}  # by id: the row, and its id in the file
    with Sandbox(parts.limits_of(run.config)) as sandbox, Progress("starting memory", len(found.programs), "programs") as progress:
        for row in found.programs:
            runtime.check_stop()
            progress.advance()
            program = _program(row, modes, sandbox, run.train, refused, path)
            if program is None:
                continue
            if program.program_id in programs:
                refused["program: the same as another one"] += 1
            programs.setdefault(program.program_id, (program, row.program_id))
    counts = collections.Counter(p.mode_id for p, _ in programs.values())
    for mode in modes.values():
        fields = {"mode": mode.mode_id, "factor": mode.factor, "phase": mode.phase, "cause": mode.cause, "status": mode.status}
        run.metrics.write("imported", round=ROUND, **fields, importance=mode.importance, programs=counts[mode.mode_id])
    run.metrics.write(
        "starting_memory",
        path=str(path),
        sha256=sha256,
        start_mode=run.config.memory.start_mode,
        modes=len(modes),
        programs={new: old for new, (_, old) in programs.items()},
        refused=dict(sorted(refused.items())),
    )
    left = f", {sum(refused.values())} rows left out" if refused else ""
    run.say(f"starting memory {path} ({run.config.memory.start_mode}): {len(modes)} modes, {len(programs)} programs{left}")
    return Finished({"done": len(modes), "unit": "modes"}, [*modes.values(), *(p for p, _ in programs.values())])


def _mode(config: settings.Config, row: Mode, refused: collections.Counter[str]) -> Mode | None:
    """The mode as this run begins with it: its severity unknown, for it was another policy's."""
    reason = None
    if row.family not in settings.families(config):
        reason = "mode: another family"
    # plain, so that no two modes share the heading of their programs (``headed``)
    elif row.phase not in PHASES or not (row.cause.isascii() and row.cause.isprintable()):
        reason = "mode: no phase or cause that our diagnoser could name"
    elif row.status == "removed" and config.memory.start_mode == "frozen":
        reason = "mode: removed, and frozen it could not come back"
    if reason is not None:
        refused[reason] += 1
        return None
    status = "removed" if row.status == "removed" else "kept"
    return dataclasses.replace(row, version=1, severity=None, status=status, round=ROUND)


def _program(
    row: Program, modes: Mapping[str, Mode], sandbox: Sandbox, catalogue: Catalogue, refused: collections.Counter[str], path: Path
) -> Program | None:
    """The program as this run begins with it: evaluated, written anew, without a verdict; a level says that the other run found one."""
    mode = modes.get(row.mode_id or "")
    if row.kind != "generation" or mode is None:
        refused["program: of another kind or of no imported mode"] += 1
        return None
    try:
        program = retried(sandbox, lambda: evaluate_generation(row.text, sandbox, catalogue))
    except ProgramError as error:
        if error.kind in MACHINE:
            raise InputError(
                f"{path} cannot be imported: its program {row.program_id} kills or stalls every worker ({error}). No program of a run "
                "does, unless this machine is out of memory or overloaded"
            ) from error
        refused[f"program: {error.kind.value}"] += 1
        return None
    if program.factor != SPEC_FACTOR[mode.factor]:
        refused["program: of another factor than its mode"] += 1
        return None
    text = headed(mode, to_text(program))
    status = "retired" if row.status == "retired" else "candidate"
    fields: dict[str, Any] = {"text": text, "program_id": program_id_of(row.kind, text), "status": status}
    return dataclasses.replace(row, **fields, version=1, verdict=None, round=ROUND)
