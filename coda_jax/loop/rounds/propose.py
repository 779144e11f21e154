"""Stage "propose": generation programs for the round's difficulties, each with the level that lands in the band."""

from __future__ import annotations

import dataclasses

import numpy as np

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.agents.base import DataEngine, Difficulty, Trial
from coda_jax.evaluation.terminal import Progress
from coda_jax.evaluation.trials import success_rate
from coda_jax.evaluation.wording import difficulty_in_words
from coda_jax.loop import cloning, engines, parts, starting_memory
from coda_jax.loop.engine_tools import RunTools
from coda_jax.loop.own_programs import headed
from coda_jax.loop.rounds import collect, recall, rows
from coda_jax.loop.rounds.rollouts import Rollouts
from coda_jax.loop.rounds.variants import Base, Batch, Made, of_family, own_program, program_variant, seed_of, verified
from coda_jax.loop.run import Finished, Run
from coda_jax.loop.seed_scenes import SceneSource
from coda_jax.loop.strategies import STRATEGIES
from coda_jax.memory.band import band_probability, in_band
from coda_jax.memory.programs import programs_of
from coda_jax.memory.rows import Mode, Program, program_id_of
from coda_jax.programs.sandbox import Sandbox
from coda_jax.scenes.generation import GenerationProgram


@dataclasses.dataclass
class Search:
    """A program whose level is searched.

    text: as it is stored, with the level it began at. variants: level to what is rolled out. found: level to (successes, rollouts).
    """

    mode: Mode
    text: str
    program: GenerationProgram
    variants: dict[float, list[Made]]
    found: dict[float, tuple[int, int]] = dataclasses.field(default_factory=dict)

    def level(self, least: float) -> float | None:
        """The level in the band whose success is nearest to one half; without one, the likeliest; None where that is below ``least``."""
        inside = [level for level, (k, n) in self.found.items() if in_band(k, n)]
        if inside:
            return min(inside, key=lambda x: (abs(self.found[x][0] / self.found[x][1] - 0.5), x))
        likely = {level: band_probability(k, n) for level, (k, n) in self.found.items() if n}
        best = max(likely, key=lambda x: (likely[x], -x), default=None)
        return best if best is not None and likely[best] >= least else None


def wanted_modes(run: Run, round_number: int) -> list[Mode]:
    """Modes to write programs for: those diagnosed in this round, the commonest first, then remembered ones by importance."""
    diagnosed = recall.diagnosed_modes(run.memory, round_number)
    known = recall.modes_by_id(recall.modes_of(run.memory, settings.families(run.config)))
    chosen = [known[mode_id] for mode_id in diagnosed if known[mode_id].status != "removed"]
    if STRATEGIES[run.config.strategy].remembers:
        older = [m for m in known.values() if m.mode_id not in diagnosed and m.status != "removed"]
        programs = recall.generation_programs(run.memory)
        older = [m for m in older if recall.newest(programs.get(m.mode_id, [])) is not None]
        chosen += sorted(older, key=lambda m: (-m.importance, m.mode_id))
    return chosen[: run.config.engine.modes]


def run_stage(run: Run, round_number: int) -> Finished:
    """Write, evaluate, build, roll out; store programs with their levels, scenes and what construction taught."""
    config = run.config
    assert run.state.checkpoint is not None, "cloning commits its last state"
    with SceneSource(run) as source:
        bases = collect.base_scenes(run, round_number, source)
        changes = source.store()
    batch = Batch()
    rollouts = Rollouts(run, cloning.trained(run).ema)
    with Sandbox(parts.limits_of(config)) as sandbox:
        tools = RunTools(run, round_number, sandbox, batch, rollouts)
        engine = engines.engine_of(run, round_number, tools)
        searches: list[Search] = []
        modes = wanted_modes(run, round_number)
        with Progress(f"round {round_number}, programs", len(modes), "programs") as progress:
            for mode in modes:
                runtime.check_stop()
                search = _begin(run, mode, bases, batch, tools, engine)
                if search is not None:
                    searches.append(search)
                    tools.programs.append(search.program)
                progress.advance()
        trials, owners = [], []
        for search in searches:
            for level, variants in search.variants.items():
                for made in variants:
                    for repeat in range(config.engine.rollouts):
                        trials.append(Trial(made.spec, (made.base.number, repeat)))
                        owners.append((search, level))
        with rollouts.runner("search", round_number, len(trials), "search levels") as rollout_fn:
            outcomes = rollout_fn(trials)
        for search in searches:
            for level in search.variants:
                own = [o for o, (s, at) in zip(outcomes, owners, strict=True) if s is search and at == level]
                search.found[level] = success_rate(own)
    programs = [_program(run, s, round_number) for s in searches]
    scenes, least = rows.SceneRows(recall.scene_ids(run.memory)), config.engine.least_band
    for search in searches:
        for variants in search.variants.values():
            for made in variants:
                scenes.add_made(made, "search", round_number, mode_id=search.mode.mode_id)
        counts = {f"{level:g}": list(c) for level, c in search.found.items()}
        shown = ", ".join(f"{level}: {k}/{n}" for level, (k, n) in counts.items())
        mode = search.mode
        difficulty = difficulty_in_words(mode.factor, mode.phase, mode.cause)
        run.say(f"round {round_number}: {difficulty}: {search.program.edits[0].verb} at {shown}")
        run.metrics.write(
            "program",
            round=round_number,
            mode=mode.mode_id,
            factor=mode.factor,
            phase=mode.phase,
            cause=mode.cause,
            verb=search.program.edits[0].verb,
            levels=counts,
            level=search.level(least),
        )
    run.metrics.write(
        "construction",
        round=round_number,
        stage="propose",
        valid=len(batch.made),
        refused=batch.refused,
        checks=batch.checks(recall.has_traces(config)),
    )
    episodes = rows.episode_rows(outcomes, "search", round_number, run.state.checkpoint, None)
    return Finished(
        {"done": len(outcomes), "unit": "rollouts"},
        [*programs, *scenes.rows, *rows.construction_rows(batch.history, round_number), *episodes],
        changes,
        rollouts.physics_steps,
        rollouts.count,
    )


def _begin(run: Run, mode: Mode, bases: list[Base], batch: Batch, tools: RunTools, engine: DataEngine) -> Search | None:
    """The mode's program, written anew or taken from memory, and its valid variants at every level.

    tools: knows the programs of other modes of this round; the same edit for two modes would be one experiment counted twice. None where
    every program of the mode is taken.
    """
    config, taken = run.config, {p.mechanism_id for p in tools.taken()}
    bases = of_family(bases, mode.family)
    order = np.random.default_rng(np.random.SeedSequence([seed_of("search", config.seed, mode.mode_id)])).permutation(len(bases))
    shuffled = [bases[i] for i in order]
    remembered = recall.newest(programs_of(run.memory, mode.mode_id, "generation")) if STRATEGIES[config.strategy].remembers else None
    texts = [remembered.text] if remembered is not None else _texts(run, mode, shuffled, engine)
    texts = starting_memory.own_texts(config, texts, programs_of(run.memory, mode.mode_id, "generation"))
    search = None
    for text in texts:
        program = own_program(run, tools.sandbox, text)
        if program.mechanism_id in taken:
            continue
        search = Search(mode, text, program, {level: [] for level in config.engine.levels})
        for level in config.engine.levels:
            candidates: list[Made] = []
            for base in shuffled:
                made = program_variant(run, program, base, level, batch)
                if made is not None:
                    candidates.append(made)
                if len(candidates) == config.engine.scenes:
                    break
            search.variants[level] = verified(run, candidates, batch, config.engine.repairs, engine)
        if any(search.variants.values()):
            return search
    return search


def _texts(run: Run, mode: Mode, bases: list[Base], engine: DataEngine) -> list[str]:
    """Program texts for a mode, the most promising first."""
    known = recall.priors(run.memory) if recall.has_traces(run.config) else {}
    difficulty = Difficulty(mode.factor, mode.phase, mode.cause)
    # a model's program is judged by variants, of which rare edits find too few in the first scenes
    scenes = [b.spec for b in (bases if engines.asks_a_model(run.config) else bases[: run.config.engine.scenes])]
    return [headed(mode, text) for text in engine.propose(difficulty, scenes, known)]


def _program(run: Run, search: Search, round_number: int) -> Program:
    """The next version of the program, at the level found. What a text is, its level apart, keeps its verdict while it is remembered."""
    level, mode = search.level(run.config.engine.least_band), search.mode
    program_id = program_id_of("generation", search.text)
    known = next((p for p in programs_of(run.memory, mode.mode_id, "generation") if p.program_id == program_id), None)
    if known is None:
        return Program(program_id, 1, "generation", search.text, mode.mode_id, level, "candidate", None, round_number)
    fresh = known.status == "retired" or not STRATEGIES[run.config.strategy].remembers
    changed = dataclasses.replace(known, version=known.version + 1, level=level, round=round_number)
    return dataclasses.replace(changed, status="candidate", verdict=None) if fresh else changed
