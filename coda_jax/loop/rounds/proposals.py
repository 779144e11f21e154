"""Candidates for the environments of a round, one function for each kind of strategy: bases in, valid variants out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

from coda_jax import config as settings
from coda_jax.agents.base import Trial
from coda_jax.evaluation.trials import counts_of
from coda_jax.learning.scale_doctor import Measured
from coda_jax.loop import engines, parts, scales
from coda_jax.loop.engine_tools import RunTools
from coda_jax.loop.rounds import collect, recall
from coda_jax.loop.rounds.rollouts import Rollouts, identity
from coda_jax.loop.rounds.variants import (
    Base,
    Batch,
    Made,
    drawn_edit,
    of_family,
    own_program,
    program_variant,
    random_variant,
    seed_of,
    verified,
)
from coda_jax.loop.run import Run
from coda_jax.loop.strategies import STRATEGIES
from coda_jax.memory.allocation import Allocation, ModeState, Status, allocate, value_over_exploration
from coda_jax.memory.band import band_probability
from coda_jax.memory.learning_value import LearningValue, credit
from coda_jax.memory.modes import learning_values
from coda_jax.memory.rows import LearningValue as MeasuredValue
from coda_jax.memory.rows import Mode, Origin, Program
from coda_jax.programs.sandbox import Sandbox
from coda_jax.scenes.spec import FACTORS

JITTER = 0.1  # of a program's level, so that its scenes differ in more than their base
# Domain randomisation varies where things are and what they are like round the seeds, never what is asked.
RANDOMISED = ("yaw", "reach", "distance", "mass", "friction", "size", "colour")
MILDEST, MILD = 0.05, 0.5  # magnitudes of randomisation


@dataclasses.dataclass(frozen=True)
class Proposal:
    """A candidate environment and what asked for it."""

    made: Made
    origin: Origin
    mode: Mode | None = None
    program: Program | None = None


@dataclasses.dataclass(frozen=True)
class Ask:
    """``count`` environments are wanted for a round, made from ``bases``; wave: how often was asked in this round before."""

    run: Run
    round_number: int
    wave: int
    bases: list[Base]
    count: int

    def seed(self, *what: object) -> tuple[object, ...]:
        return (*what, self.round_number, self.wave)


def seeds(ask: Ask, batch: Batch, rollouts: Rollouts) -> list[Proposal]:
    """The fresh scenes themselves."""
    made = [Made(b, b.spec, (), None) for b in ask.bases[: ask.count]]
    batch.made.extend(made)
    return [Proposal(m, "seed") for m in made]


def _jittered(run: Run, base: Base, rng: np.random.Generator) -> Made | None:
    spec, verbs = base.spec, []
    for name in rng.permutation(RANDOMISED)[:3]:
        found = drawn_edit(run, spec, str(name), rng, MILDEST, MILD)
        if found is not None:
            spec, edit = found
            verbs.append(edit)
    return Made(base, spec, tuple(verbs), None) if verbs else None


def randomised(ask: Ask, batch: Batch, rollouts: Rollouts) -> list[Proposal]:
    """Small changes of places and attributes round the fresh scenes."""
    made = collect.random_variants(ask.run, ask.bases, batch, *ask.seed("randomised"), draw=_jittered)
    return [Proposal(m, "randomised") for m in made[: ask.count]]


def _one_factor(run: Run, base: Base, rng: np.random.Generator) -> Made | None:
    return random_variant(run, base, rng, (FACTORS[int(rng.integers(len(FACTORS)))],))


def uniform(ask: Ask, batch: Batch, rollouts: Rollouts) -> list[Proposal]:
    """Every factor, verb and magnitude alike."""
    made = collect.random_variants(ask.run, ask.bases, batch, *ask.seed("uniform"), draw=_one_factor)
    return [Proposal(m, "novelty") for m in made[: ask.count]]


def in_band(ask: Ask, batch: Batch, rollouts: Rollouts) -> list[Proposal]:
    """Random edits of which those are kept whose success is likeliest to lie in the band, whatever the factor."""
    made = collect.random_variants(ask.run, ask.bases, batch, *ask.seed("in_band"), draw=_one_factor)
    n = ask.run.config.rounds.rollouts
    trials = [Trial(m.spec, (m.base.number, r)) for m in made for r in range(n)]
    # an earlier wave may have drawn the same scene, of the same base, so with the same noise
    known = {identity(o.trial): o for o in batch.rolled}
    missing = [trial for trial in trials if identity(trial) not in known]
    with rollouts.runner("band", ask.round_number, len(missing), "success of candidates") as rollout_fn:
        batch.rolled += rollout_fn(missing)
    known = {identity(o.trial): o for o in batch.rolled}
    counts = counts_of([known[identity(trial)] for trial in trials], n)
    ranked = sorted(range(len(made)), key=lambda i: (-band_probability(*counts[i]), i))
    return [Proposal(made[i], "novelty") for i in sorted(ranked[: ask.count])]


def mode_states(run: Run, round_number: int) -> tuple[list[ModeState], dict[str, tuple[Mode, Program]]]:
    """What allocation needs of every mode with a usable program, and these programs by mode.

    Confirmed modes alone are targeted; while there are none, undecided ones. Replayed are mastered modes, whatever was last said of
    their programs, and retired ones that were measured here in an earlier round.
    """
    remembers, programs = STRATEGIES[run.config.strategy].remembers, recall.generation_programs(run.memory)
    measured, mastered = recall.measured_rounds(run.memory), run.config.allocation.mastered
    known: dict[str, tuple[Mode, Program]] = {}
    past: dict[str, tuple[Mode, Program]] = {}
    status: dict[str, Status] = {}
    modes = recall.modes_of(run.memory, settings.families(run.config))
    values = {m.mode_id: learning_values(run.memory, m.mode_id) if remembers else [] for m in modes}
    for mode in modes:
        own = programs.get(mode.mode_id, [])
        if mode.status == "removed":
            program = recall.latest(own)
            if remembers and program is not None and measured.get(mode.mode_id, round_number) < round_number:
                past[mode.mode_id], status[mode.mode_id] = (mode, program), "retired"
            continue
        program = recall.newest(own)
        if program is not None and (remembers or program.round == round_number):
            known[mode.mode_id] = mode, program
            if values[mode.mode_id] and _success(values[mode.mode_id][-1]) >= mastered:
                past[mode.mode_id], status[mode.mode_id] = (mode, program), "mastered"
    confirmed = {m: pair for m, pair in known.items() if pair[1].verdict == "confirmed"}
    known = (confirmed or {m: pair for m, pair in known.items() if pair[1].verdict == "undecided"}) | past
    states = []
    for mode_id, (_, program) in known.items():
        assert program.level is not None
        history = [(v.round, LearningValue(v.raw, v.shrunk, float("nan"), len(v.scenes))) for v in values[mode_id]]
        earned = credit(history, round_number) if history else None
        k, n = recall.latest_success(run.memory, mode_id, program.level, JITTER)
        value, environments = (earned.mean, earned.scenes) if earned else (0.0, 0.0)
        states.append(ModeState(mode_id, status.get(mode_id, "active"), k, n, value, environments, measured.get(mode_id, -1)))
    return states, known


def _success(value: MeasuredValue) -> float:
    """Success rate on a mode's environments after they were last practised."""
    return sum(scene.k_after for scene in value.scenes) / sum(scene.n for scene in value.scenes)


def targeted(ask: Ask, batch: Batch, rollouts: Rollouts) -> list[Proposal]:
    """What the allocation asks for: scenes of each mode's program at its level, replay of mastered and retired modes, novelty."""
    run, chosen = ask.run, ask.run.config.allocation
    states, known = mode_states(run, ask.round_number)
    plan = allocate(states, ask.count, chosen.novelty, chosen.replay, c=chosen.ucb)
    if not ask.wave:
        _log(ask, plan)
        scales.report(run, "allocation", ask.round_number, Measured(ucb=value_over_exploration(states, chosen.ucb)))
    found: list[Proposal] = []
    with Sandbox(parts.limits_of(run.config)) as sandbox:
        groups: tuple[tuple[Origin, Mapping[str, int]], ...] = (("targeted", plan.targeted), ("replay", plan.replay))
        for origin, counts in groups:
            for mode_id, wanted in counts.items():
                mode, program = known[mode_id]
                found += [Proposal(m, origin, mode, program) for m in _of_program(ask, mode, program, wanted, batch, sandbox)]
    missing = ask.count - len(found)  # novelty, and what a program could not supply
    if missing > 0:
        taken = {p.made.base.number for p in found}
        free = [b for b in ask.bases if b.number not in taken] or ask.bases
        own = written(ask, free, min(missing, plan.novelty), batch) if engines.asks_a_model(run.config) else []
        found += own
        free = free[len(own) :] or free  # each written scene took the noise of a free base
        if missing > len(own):
            found += uniform(dataclasses.replace(ask, bases=free, count=missing - len(own)), batch, rollouts)
    return found[: ask.count]


def written(ask: Ask, bases: list[Base], count: int, batch: Batch) -> list[Proposal]:
    """Whole scenes by the run's language model, at most ``count``, one family after the other; the noise of each is that of a base."""
    run, chosen = ask.run, settings.families(ask.run.config)
    count = min(count, len(bases))
    if not count:
        return []
    with Sandbox(parts.limits_of(run.config)) as sandbox:
        author = engines.author_of(run, ask.round_number, ask.wave, RunTools(run, ask.round_number, sandbox, batch))
        wanted = [chosen[i % len(chosen)] for i in range(count)]
        specs = author.novel(wanted, recall.described(run.memory, run.config, run.train, ask.round_number))
    made = [Made(Base(base.number, spec), spec, (), None) for base, spec in zip(bases, specs, strict=False)]
    batch.made.extend(made)
    return [Proposal(m, "novelty") for m in made]


def _of_program(ask: Ask, mode: Mode, row: Program, wanted: int, batch: Batch, sandbox: Sandbox) -> list[Made]:
    """Valid scenes of a program over bases of its mode's family, its level jittered by base."""
    assert row.level is not None
    run = ask.run
    program = own_program(run, sandbox, row.text)  # its level is the row's
    rng = np.random.default_rng(np.random.SeedSequence([seed_of(*ask.seed("targeted", run.config.seed, row.program_id))]))
    made: list[Made] = []
    bases = of_family(ask.bases, mode.family)
    order = [bases[i] for i in rng.permutation(len(bases))]
    while order and len(made) < wanted:
        some, order = order[: wanted - len(made)], order[wanted - len(made) :]
        candidates = []
        for base in some:
            level = float(np.clip(round(row.level + rng.uniform(-JITTER, JITTER), 3), 0.0, 1.0))
            variant = program_variant(run, program, base, level, batch)
            if variant is not None:
                candidates.append(variant)
        made += verified(run, candidates, batch, run.config.engine.repairs)
    return made[:wanted]


def _log(ask: Ask, plan: Allocation) -> None:
    ask.run.metrics.write(
        "allocation", round=ask.round_number, targeted=dict(plan.targeted), replay=dict(plan.replay), novelty=plan.novelty
    )


PROPOSERS: dict[str, Callable[[Ask, Batch, Rollouts], list[Proposal]]] = {
    "seeds": seeds,
    "randomised": randomised,
    "uniform": uniform,
    "in_band": in_band,
    "targeted": targeted,
}
