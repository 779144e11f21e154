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


@dataclasses.dataclass(frozen=True)
class _Kept:
    round: int
    programs: InUse
    experience: Experience


_LAST: weakref.WeakKeyDictionary[Run, _Kept] = weakref.WeakKeyDictionary()


def records_of(run: Run, round_number: int, programs: InUse) -> list[Gathered]:
    """Recorded episodes of a round's training, as many as the table holds.

    The oldest rollouts of earlier rounds make room first, then the oldest certified demonstrations of theirs.

    Raises:
      InputError: this round's own episodes and the seed demonstrations alone are too many.
    """
    config = run.config
    weights = {mode: p.tools.sampling_weight for mode, p in programs.modes.items() if config.potential.tools and p.tools.sampling_weight}
    found = gather(run, round_number, config.experience.seeds, weights)
    rows, episodes = sum(len(g.record.moments) for g in found), len(found)
    left_out = set[int]()
    for i in _oldest_first(found, round_number):
        if rows <= config.experience.rows and episodes <= config.experience.episodes:
            break
        rows, episodes = rows - len(found[i].record.moments), episodes - 1
        left_out.add(i)
    if rows > config.experience.rows or episodes > config.experience.episodes:
        raise InputError(
            f"round {round_number} has {episodes} episodes with {rows} decisions, more than config.experience.episodes = "
            f"{config.experience.episodes} and config.experience.rows = {config.experience.rows} hold: raise them"
        )
    return [g for i, g in enumerate(found) if i not in left_out]


def _oldest_first(found: Sequence[Gathered], round_number: int) -> list[int]:
    """Places of what may make room: rollouts of earlier rounds and of repeated modes, then certified demonstrations of earlier rounds."""
    rollouts = [i for i, g in enumerate(found) if g.record.source == "replay"]
    shown = [i for i, g in enumerate(found) if g.record.source == "demonstration" and 0 < g.round < round_number]
    return [i for kind in (rollouts, shown) for i in sorted(kind, key=lambda i: found[i].round)]


def labels_of(run: Run, gathered: Sequence[Gathered], programs: InUse) -> list[Labels]:
    """What the training programs say about every episode."""
    scenes = [program_scene(g.spec, run.everything) for g in gathered]
    return improvement.labels_of([g.record for g in gathered], scenes, [programs.of(g.mode_id, g.spec.task.family) for g in gathered])


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


def counts_of(run: Run, round_number: int, base: Sequence[float], batch: int, least: float = 0.0) -> tuple[int, ...]:
    """Rows of a batch from each of SOURCES, as the learning tools of the programs ask for that the round practises under.

    least: share that demonstrations get in whole rows, whatever is asked for.
    """
    programs = programs_of(run, round_number)
    practised = {e.mode_id for e in run.state.environments.get(str(round_number), [])}
    used: list[AnyProgram] = [*(p for mode, p in programs.modes.items() if mode in practised), *programs.defaults.values()]
    tools = [p.tools for p in used] if run.config.potential.tools else []
    return shares(tuple(base), tools, batch, least)
