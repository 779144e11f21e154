"""One run in progress: its folder, its settings as plain data, and the one way to commit."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.agents.llm.budget import Asked
from coda_jax.agents.llm.chat import Chat
from coda_jax.agents.llm.tally import Tally
from coda_jax.evaluation.metrics import METRICS, MetricsWriter
from coda_jax.loop import language, parts, requirements
from coda_jax.loop import workdir as folders
from coda_jax.loop.checkpoint import Checkpoints
from coda_jax.loop.journal import Commit, Journal, missing_or_changed
from coda_jax.loop.ledger import Ledger
from coda_jax.loop.substeps import Substeps
from coda_jax.memory.rows import Row
from coda_jax.memory.store import FILE as MEMORY
from coda_jax.memory.store import Memory
from coda_jax.programs import sandbox
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.suites import frozen_scenes

CHECKPOINTS = "checkpoints"
CRITICS = "critic"
_STAGE_FILES = re.compile(
    r"(scenes|demos|own|rollouts|weights)_r?\d{2,4}(_[a-z]+\d*)?\.(jsonl|npz)|part_.+\.npz|eval_(before|after)_[A-Za-z0-9_-]+\.jsonl"
)
_HALF_WRITTEN = re.compile(r"\..+\.tmp")  # of a killed atomic_write


@dataclasses.dataclass(frozen=True)
class Finished:
    """What a stage leaves to the commit that ends it. row: of ``metrics.jsonl``. rows: of memory. changes: fields of the commit.

    physics_steps, rollouts: not booked yet.
    """

    row: dict[str, Any]
    rows: Sequence[Row] = ()
    changes: dict[str, Any] = dataclasses.field(default_factory=dict)
    physics_steps: int = 0
    rollouts: int = 0


class Run:
    """Opens a locked run folder at its last intact commit: the log is cut to it, rows and files of no commit are removed.

    Nothing is removed before that commit is found, and nothing at all where work is there but no commit of it can be used.

    config: the whole configuration. state: the last commit. memory: what the run remembers; its rows are added by ``commit``.
    train, everything: catalogues of training and of every split. substeps: of the stage in progress. tally: of what became of what language
    models said; agents count in it, and it is committed with the stage.

    Raises:
      InputError: ``memory.sqlite`` is damaged or gone, no commit of it can be used, or the folder is of another version.
    """

    def __init__(self, config: settings.Config, folder: Path, resources: contextlib.ExitStack):
        self.config, self.folder = config, folder
        self._resources = resources
        if (folder / "commits.jsonl").exists() and not (folder / MEMORY).exists():
            raise InputError(f"{folder} was made by an earlier version, which this one cannot go on with; choose another --workdir")
        _require_memory(folder)
        self.train, self.everything = Catalogue("train"), Catalogue.all()
        self.encoder = parts.encoder_of()
        self.memory = resources.enter_context(Memory.open(folder / MEMORY, frozen_scenes().keys()))
        self.checkpoints = resources.enter_context(Checkpoints(folder / CHECKPOINTS, config.checkpoint.keep))
        self.critics = resources.enter_context(Checkpoints(folder / CRITICS, config.checkpoint.keep))
        self.journal = Journal(self.memory, self._problem)
        self.checkpoints.clean()
        self.critics.clean()
        self.ledger = Ledger(folder, parts.platform_of(config).timestep_s)
        self.metrics = resources.enter_context(MetricsWriter(folder / METRICS, self.state.metrics_bytes))
        self.checkpoints.drop_above(-1 if self.state.checkpoint is None else self.state.checkpoint)
        self.critics.drop_above(-1 if self.state.critic is None else self.state.critic)
        for path in (*folder.glob(".*.tmp"), *(folder / "episodes").glob("*"), *(folder / "videos").glob(".*.tmp")):
            orphan = _STAGE_FILES.fullmatch(path.name) and f"episodes/{path.name}" not in self.state.files
            if orphan or _HALF_WRITTEN.fullmatch(path.name):
                path.unlink()
        self._compiles = runtime.compile_count()
        self.tally = Tally.from_plain(self.state.agents)
        self._asking: parts.Asking | None = None
        self._spent, self._built = 0.0, 0  # wall time and compilations charged since the last commit
        self._stage, self._stage_name = "", ""  # charged last; in progress
        self.substeps = self._no_substeps()

    @property
    def state(self) -> Commit:
        return self.journal.last

    @property
    def chat(self) -> Chat:
        """The language model that agents ask. It is reached for when it is asked for first, so a run of scripted agents needs none.

        What a stage asks is charged when it commits: a stage that commits in between must not ask again for what it asked before that.

        Raises:
          InputError: as ``parts.chat_of``. RuntimeError: no agent of this configuration asks one.
        """
        if not settings.asks_models(self.config):
            raise RuntimeError("a scripted agent asked for a language model: config.agents names none")
        if self._asking is None:
            watch = language.Watch(self.config.agents.llm.model, self.say)
            self._asking = parts.chat_of(self.config, self.folder, self.state.asked, self.state.calls_bytes, self._resources, watch)
        return self._asking.chat

    @property
    def asked(self) -> dict[str, Asked]:
        """What language models were asked so far, by purpose."""
        return dict(self.state.asked if self._asking is None else self._asking.chat.asked)

    def _problem(self, commit: Commit) -> str | None:
        metrics = self.folder / METRICS
        if commit.metrics_bytes and (not metrics.exists() or metrics.stat().st_size < commit.metrics_bytes):
            return f"{metrics} is shorter than its commit says"
        found = None if commit.checkpoint is None else self.checkpoints.problem(commit.checkpoint, commit.checkpoint_sha256)
        if found is None and commit.critic is not None:
            found = self.critics.problem(commit.critic, commit.critic_sha256)
        return found or missing_or_changed(self.folder, commit.files)

    @property
    def new_compiles(self) -> int:
        """Executables built since the last commit, as far as they were charged to a stage."""
        return self._built

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def warmed_up(self) -> None:
        """Everything is compiled: what is compiled from here on is counted against the run."""
        self.charge("warm-up")
        self._spent, self._built = 0.0, 0
        self.ledger.save()

    def charge(self, stage: str, physics_steps: int = 0, rollouts: int = 0) -> None:
        """Book time, physics and compilations since the last charge to a stage."""
        new = runtime.compile_count() - self._compiles
        self._stage = stage
        self._compiles += new
        self._built += new
        self._spent += self.ledger.charge(stage, physics_steps, rollouts, new)
        if self._asking is not None:
            self.ledger.charge_calls(stage, self._asking.chat.paid(), parts.prices_of(self.config))

    def commit(self, *rows: Row, **changes: Any) -> None:
        """Sync the log, store rows and a commit with the changed fields in one transaction, and stop here if a signal asked for it.

        Files that the commit names must be on the disk. The commit's stage is the one that was charged last.

        Raises:
          Stopped: SIGTERM or SIGINT arrived. StoreError, OSError: as ``Journal.append``. InputError: as ``folders.require_held``.
        """
        self._write_asked()
        changes |= {"asked": self.asked, "agents": self.tally.plain()}
        self._append(rows, changes | {"metrics_bytes": self.metrics.commit()})

    def _write_asked(self) -> None:
        """A row of ``metrics.jsonl`` for each purpose for which language models were asked, or something counted, since the last commit."""
        before, counted = self.state.asked, self.tally.since(self.state.agents)
        new = {purpose: one.minus(before.get(purpose, Asked())) for purpose, one in self.asked.items()}
        new = {purpose: one for purpose, one in new.items() if one.questions}
        for purpose in sorted(new.keys() | counted.keys()):
            one = new.get(purpose, Asked())
            row = {"tokens_in": one.tokens_in, "tokens_out": one.tokens_out, "estimated": one.estimated, "outcomes": one.outcomes}
            self.metrics.write("language_model", stage=self._stage_name, purpose=purpose, **row, counts=counted.get(purpose, {}))
        if new:
            llm = self.config.agents.llm
            self.say(f"{self._stage_name}: {language.describe(llm.model, new, llm.tokens, parts.prices_of(self.config))}")

    def _append(self, rows: Sequence[Row], changes: dict[str, Any]) -> None:
        folders.require_held(self.folder)
        old = self.state
        if self._asking is not None:  # also in sub-steps: what came of a question before them stands, or they would be of other work
            changes |= {"calls_bytes": self._asking.calls_bytes}
        changes |= {"left_out": sorted({*old.left_out, *sandbox.left_out()})}
        changes |= {"stage": self._stage, "wall_s": old.wall_s + self._spent, "compiles": old.compiles + self._built}
        self.journal.append(dataclasses.replace(old, **changes), rows)
        self._spent, self._built = 0.0, 0
        self.ledger.save()
        runtime.check_stop()

    def begin_stage(self, name: str, charge: str) -> None:
        """From here on ``substeps`` are those of the stage; ``charge``: whom their time is booked to."""

        def commit(files: dict[str, str]) -> None:
            self.charge(charge)
            # rows of the log since the stage's beginning are not committed: begun again, the stage writes them again
            self._append((), {"files": self.state.files | files})

        self._stage_name = name
        self.substeps = Substeps(name, self.folder, self.config.checkpoint.rollouts, self.state.files, commit)

    def end_stage(self, name: str, rows: Sequence[Row], changes: dict[str, Any]) -> None:
        """Commit what a stage leaves and that it is done, in one commit: a kill between the two would have the stage done twice.

        Its sub-steps are needed no more. Raises as ``commit``.
        """
        files = self.substeps.dropped(changes.get("files", self.state.files))
        self.commit(*rows, **changes | {"files": files, "done": [*self.state.done, name]})
        self.substeps.remove()
        self.substeps = self._no_substeps()

    def _no_substeps(self) -> Substeps:
        """Outside of stages nothing is kept."""
        return Substeps("", self.folder, None, {}, lambda _: None)


def _require_memory(folder: Path) -> None:
    """Refuse a folder that holds work but not the memory that says which of it is whole: it would be taken for a killed start."""
    if (folder / MEMORY).exists():
        return
    work = [name for name in ("episodes", CHECKPOINTS) if any((folder / name).glob("*"))]
    if work:
        raise InputError(
            f"{folder} holds {' and '.join(f'{name}/' for name in work)} but its {MEMORY} is gone: restore it from a copy, or begin anew "
            "in another --workdir. Nothing was changed"
        )


@contextlib.contextmanager
def opened(config: settings.Config, folder: Path) -> Iterator[Run]:
    """The run of a locked folder, at its last commit.

    Raises:
      InputError: as ``Run``, or this machine cannot do what the settings ask for.
    """
    requirements.check(config)
    with contextlib.ExitStack() as resources:
        yield Run(config, folder, resources)
