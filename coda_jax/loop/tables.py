"""The table that a round's critic and weighted updates learn from: a function of committed files and the round, kept while it is used."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Sequence

from coda_jax.learning.experience import Experience
from coda_jax.learning.records import Labels
from coda_jax.learning.shares import shares
from coda_jax.loop import improvement
from coda_jax.loop.experience import Gathered, gather
from coda_jax.loop.rounds import potentials
from coda_jax.loop.rounds.potentials import InUse
from coda_jax.loop.run import Run
from coda_jax.programs.training.program import AnyProgram
from coda_jax.runtime import InputError
from coda_jax.sim.potentials import program_scene

_OLD = ("replay",)  # what makes room first


@dataclasses.dataclass(frozen=True)
class _Kept:
    round: int
    programs: InUse
    experience: Experience


_LAST: weakref.WeakKeyDictionary[Run, _Kept] = weakref.WeakKeyDictionary()


def records_of(run: Run, round_number: int, programs: InUse) -> list[Gathered]:
    """Recorded episodes of a round's training, as many as the table holds: of those of earlier rounds the oldest make room.

    Raises:
      InputError: this round's own episodes alone are too many.
    """
    config = run.config
    weights = {mode: p.tools.sampling_weight for mode, p in programs.modes.items() if config.potential.tools and p.tools.sampling_weight}
    found = gather(run, round_number, config.experience.seeds, weights)
    rows, episodes = sum(len(g.record.moments) for g in found), len(found)
    kept = []
    for g in found:
        full = rows > config.experience.rows or episodes > config.experience.episodes
        if full and g.record.source in _OLD:
            rows, episodes = rows - len(g.record.moments), episodes - 1
        else:
            kept.append(g)
    if rows > config.experience.rows or episodes > config.experience.episodes:
        raise InputError(
            f"round {round_number} has {episodes} episodes with {rows} decisions, more than config.experience.episodes = "
            f"{config.experience.episodes} and config.experience.rows = {config.experience.rows} hold: raise them"
        )
    return kept


def labels_of(run: Run, gathered: Sequence[Gathered], programs: InUse) -> list[Labels]:
    """What the training programs say about every episode."""
    scenes = [program_scene(g.spec, run.everything) for g in gathered]
    return improvement.labels_of([g.record for g in gathered], scenes, [programs.of(g.mode_id) for g in gathered])


def _of_round(run: Run, round_number: int) -> _Kept:
    if run not in _LAST or _LAST[run].round != round_number:
        programs = potentials.in_use(run.memory, run.config)
        gathered = records_of(run, round_number, programs)
        built = improvement.build(run.config, [g.record for g in gathered], labels_of(run, gathered, programs), run.encoder)
        _LAST[run] = _Kept(round_number, programs, built)
    return _LAST[run]


def programs_of(run: Run, round_number: int) -> InUse:
    """The training programs under which the round's table is."""
    return _of_round(run, round_number).programs


def table_of(run: Run, round_number: int) -> Experience:
    """The round's table under its programs; without candidates before it is kept with them."""
    return _of_round(run, round_number).experience


def keep(run: Run, round_number: int, experience: Experience) -> None:
    """The round's table is ``experience`` from now on; the one before may have given its buffers away."""
    _LAST[run] = dataclasses.replace(_of_round(run, round_number), experience=experience)


def counts_of(run: Run, round_number: int, base: Sequence[float], batch: int) -> tuple[int, ...]:
    """Rows of a batch from each of SOURCES, as the learning tools of the round's programs ask for."""
    programs = programs_of(run, round_number)
    used: list[AnyProgram] = [*programs.modes.values(), programs.default]
    tools = [p.tools for p in used] if run.config.potential.tools else []
    return shares(tuple(base), tools, batch)
