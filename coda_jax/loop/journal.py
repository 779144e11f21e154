"""The commits of a run, in its ``memory.sqlite``: what is finished, which files belong to it, how long ``metrics.jsonl`` is.

Files come first (synced, with their SHA-256), then one transaction with the stage's rows and the commit that names the files. At start
the newest commit whose files are intact is taken; what a killed process wrote after it is removed. Where commits are there and none of
them can be used, nothing is touched.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from coda_jax.agents.llm.budget import Asked
from coda_jax.memory.rows import Row
from coda_jax.memory.store import FILE, Memory
from coda_jax.programs.refusal import first_error
from coda_jax.runtime import InputError
from coda_jax.sim.supervision.tally import Tally

log = logging.getLogger(__name__)
Count = Annotated[int, Field(ge=0)]


_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, config=_STRICT)
class Environment:
    """An accepted environment of a round. number: of its base, which the noise of its rollouts folds in. mode_id: what it practises."""

    scene_id: str
    number: Count
    mode_id: str | None


@dataclass(frozen=True, config=_STRICT)
class Commit:
    """Everything a run needs to go on.

    stage: that made it. done: finished stages. metrics_bytes: length of ``metrics.jsonl``. files: path in the run folder to SHA-256.
    checkpoint, critic: steps of the policy's and the critic's checkpoints, with the SHA-256 of their folders.
    critic_round, critic_until: round whose critic was begun last, and the step at which it ends.
    next_seed: first scene seed that was not tried. own_programs: file to SHA-256 of the user's programs, which are the first of them.
    rejected: scenes by reason. accepted: valid scenes, the first ``used`` of which the planner tried. demos: certified demonstrations.
    planner: category to [successes, episodes] of first tries. causes: their failures by cause. supervised: all tries. suites: evaluated
    ones, as "before/id".
    environments: of each round that has them. blocks: trainings finished in rounds. ended_rounds: that the schedule ended.
    asked: what language models were asked, by purpose. agents: what became of what they said (agents/llm/tally.py). calls_bytes: length of
    ``calls.jsonl``.
    sim_steps: physics steps. compiles: executables built after the start. wall_s: time of committed work. left_out: layers without which
    workers of the sandbox ran, in any process of the run.
    """

    stage: str = ""
    done: list[str] = dataclasses.field(default_factory=list)
    metrics_bytes: Count = 0
    files: dict[str, str] = dataclasses.field(default_factory=dict)
    checkpoint: Count | None = None
    checkpoint_sha256: str = ""
    critic: Count | None = None
    critic_sha256: str = ""
    critic_round: Count = 0
    critic_until: Count = 0
    next_seed: Count = 0
    own_programs: dict[str, str] = dataclasses.field(default_factory=dict)
    accepted: Count = 0
    used: Count = 0
    rejected: dict[str, Count] = dataclasses.field(default_factory=dict)
    demos: Count = 0
    planner: dict[str, list[Count]] = dataclasses.field(default_factory=dict)
    causes: dict[str, Count] = dataclasses.field(default_factory=dict)
    supervised: Tally = dataclasses.field(default_factory=Tally)
    suites: list[str] = dataclasses.field(default_factory=list)
    environments: dict[str, list[Environment]] = dataclasses.field(default_factory=dict)
    blocks: Count = 0
    ended_rounds: Count = 0
    asked: dict[str, Asked] = dataclasses.field(default_factory=dict)
    agents: dict[str, dict[str, Count]] = dataclasses.field(default_factory=dict)
    calls_bytes: Count = 0
    sim_steps: Count = 0
    compiles: Count = 0
    wall_s: float = 0.0
    left_out: list[str] = dataclasses.field(default_factory=list)


_COMMIT: TypeAdapter[Commit] = TypeAdapter(Commit)


def file_sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def missing_or_changed(folder: Path, files: dict[str, str]) -> str | None:
    """What is wrong with the first file that is gone or not what was committed, or None."""
    for name, sha256 in files.items():
        path = folder / name
        if not path.is_file():
            return f"{path} is gone"
        if file_sha256(path) != sha256:
            return f"{path} is damaged: it does not match its SHA-256"
    return None


def read_commits(folder: Path) -> list[Commit]:
    """The commits of a run folder, oldest first, also while it is being written; none where there is no memory yet.

    Raises:
      InputError: the memory is damaged, or another version of this package wrote a commit.
    """
    if not (folder / FILE).exists():
        return []
    with Memory.reading(folder / FILE) as memory:
        return list(_parsed(memory).values())


def _parsed(memory: Memory) -> dict[int, Commit]:
    """Commits by number, oldest first; one with damaged rows and what follows it are left out.

    Raises:
      InputError: a whole commit (its seal fits) is none of ours: dropping it would throw away the work of another version.
    """
    found = {}
    for stored in memory.commits():
        try:
            found[stored.number] = _COMMIT.validate_json(stored.body)
        except ValidationError as error:
            raise InputError(
                f"{memory.path}: commit {stored.number} ({stored.stage}) cannot be read by this version of coda_jax "
                f"({first_error(error, 'body')}); go on with the version that wrote it, which config.json names, or choose another "
                "--workdir. Nothing was changed"
            ) from None
    return found


class Journal:
    """The commits of one run, in its memory. ``last`` is the newest intact one, an empty one for a new run.

    Args:
      memory: open for writing. problem: what is wrong with a commit's files, or None; a commit with a problem is named in a warning and the
        one before it taken. Later commits and all their rows are dropped, so that work that is done again is not stored twice.

    Raises:
      InputError: there are commits, but another version wrote one, or none is intact. Nothing was changed.
    """

    def __init__(self, memory: Memory, problem: Callable[[Commit], str | None]):
        self._memory = memory
        commits, problems = _parsed(memory), []
        newest = max(commits, default=0)
        while commits and (found := problem(commits[max(commits)])) is not None:
            problems.append(found)
            del commits[max(commits)]
        number = max(commits, default=0)
        if not number and memory.last:
            reasons = "; ".join(dict.fromkeys(problems)) or f"the rows of the first one in {memory.path.name} are damaged"
            raise InputError(
                f"none of the {memory.last} commits in {memory.path.parent} is intact ({reasons}): restore these files from a copy, or "
                "begin anew in another --workdir. Nothing was changed"
            )
        for found in problems:
            log.warning("%s; going back to the commit before", found)
        if problems:
            log.warning("%s: commits %d to %d are dropped, their files removed and their work done again", memory.path, number + 1, newest)
        self.last = commits.get(number, Commit())
        memory.truncate(number)

    def append(self, commit: Commit, rows: Iterable[Row] = ()) -> None:
        """Store rows and the commit that they belong to in one transaction; when this returns they are on the disk.

        Raises:
          StoreError: a row does not fit what is stored; nothing is. OSError: the disk is full; nothing is stored.
        """
        with self._memory.transaction() as transaction:
            for row in rows:
                transaction.add(row)
            transaction.commit(commit.stage, commit.metrics_bytes, _COMMIT.dump_json(commit).decode())
        self.last = commit
