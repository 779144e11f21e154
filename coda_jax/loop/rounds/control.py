"""Stage "control": does the named factor hurt more than another one? Fresh scenes, fresh rollouts, one verdict for each program."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from coda_jax import config as settings
from coda_jax.agents.base import Outcome, Trial
from coda_jax.evaluation.control_test import ControlResult, control_test, verdicts, wants_more
from coda_jax.evaluation.trials import counts_of
from coda_jax.evaluation.wording import counted, difficulty_in_words
from coda_jax.loop import cloning, parts, starting_memory
from coda_jax.loop.rounds import collect, recall, rows
from coda_jax.loop.rounds import outcomes as stored
from coda_jax.loop.rounds.certify import certify
from coda_jax.loop.rounds.rollouts import Rollouts
from coda_jax.loop.rounds.variants import Base, Batch, Made, of_family, own_program, program_variant, seed_of, verified
from coda_jax.loop.run import Finished, Run
from coda_jax.loop.seed_scenes import SceneSource
from coda_jax.memory.consolidate import next_version
from coda_jax.memory.rows import ControlTest, Mode, PairCounts, Program
from coda_jax.programs.sandbox import Sandbox
from coda_jax.scenes.edits.lock import edited_factors
from coda_jax.scenes.edits.verbs import apply_edit, matched
from coda_jax.scenes.families import read_goal
from coda_jax.scenes.generation import GenerationProgram
from coda_jax.scenes.spec import FACTORS

OBSERVATION = "state"  # what the flow policy sees
_STATUS = {"confirmed": "active", "refuted": "retired", "undecided": "candidate"}


@dataclasses.dataclass(frozen=True)
class Pair:
    """A base scene's targeted variant and its control variant."""

    target: Made
    other: Made


@dataclasses.dataclass
class Test:
    """One program under test. counts: base number to (k_target, k_control)."""

    mode: Mode
    row: Program
    supply: Pairs
    pairs: list[Pair] = dataclasses.field(default_factory=list)
    counts: dict[int, tuple[int, int]] = dataclasses.field(default_factory=dict)
    result: ControlResult | None = None


def control_variant(run: Run, program: GenerationProgram, base: Base, target: Made) -> Made | None:
    """The base edited by verbs of another factor, active for the policy's observations: one for each edit, at the same quantile.

    The factor is drawn first, then the verbs, so that a factor with many verbs is not favoured.
    """
    seed = seed_of("control", run.config.seed, base.number)
    rng = np.random.default_rng(np.random.SeedSequence([seed]))
    for factor in rng.permutation([f for f in FACTORS if f != program.factor]):
        made = _edited_alike(run, str(factor), base, target, rng, seed)
        if made is not None:
            return made
    return None


def _edited_alike(run: Run, factor: str, base: Base, target: Made, rng: np.random.Generator, seed: int) -> Made | None:
    spec, verbs = base.spec, []
    for name, magnitude in target.verbs:
        if not magnitude:
            continue
        binding = {"target": read_goal(spec).target}
        offers = matched(name, OBSERVATION, spec, binding, run.train, magnitude, seed, factor)
        if not offers:
            return None
        verb, bound = offers[int(rng.integers(len(offers)))]
        spec = apply_edit(spec, verb.name, bound, magnitude, seed, run.train)
        verbs.append((verb.name, magnitude))
    return Made(base, spec, tuple(verbs), factor, target.level) if edited_factors(base.spec, spec) else None


@dataclasses.dataclass
class Pairs:
    """A supply of pairs from fresh bases, in their order; a base is tried once. physics_steps, episodes: of the planner."""

    run: Run
    program: GenerationProgram
    bases: list[Base]
    batch: Batch
    physics_steps: int = 0
    episodes: int = 0
    tried: int = 0

    @property
    def left(self) -> int:
        return len(self.bases) - self.tried

    def take(self, count: int) -> list[Pair]:
        """Up to ``count`` further pairs of which both variants are valid and solved by the planner; fewer where the bases run out."""
        found: list[Pair] = []
        while len(found) < count and self.left:
            some = self.bases[self.tried : self.tried + count - len(found)]
            self.tried += len(some)
            found += self._built(some)
        return found

    def _built(self, bases: list[Base]) -> list[Pair]:
        run, candidates = self.run, {}
        for base in bases:
            target = program_variant(run, self.program, base, self.program.level, self.batch)
            if target is None:
                continue
            other = control_variant(run, self.program, base, target)
            if other is None:
                self.batch.refuse("no control edit applies")
                continue
            candidates[base.number] = target, other
        # nothing is mended here: a repair would be a second change of the scene
        targets = {m.base.number: m for m in verified(run, [t for t, _ in candidates.values()], self.batch, 0)}
        others = {m.base.number: m for m in verified(run, [o for _, o in candidates.values()], self.batch, 0)}
        pairs = [Pair(targets[n], others[n]) for n in candidates if n in targets and n in others]
        if not pairs:
            return []
        certified = certify(run, [m.spec for p in pairs for m in (p.target, p.other)], 1, 0, None, "planner on control variants")
        self.physics_steps, self.episodes = self.physics_steps + certified.physics_steps, self.episodes + certified.episodes
        solved = [bool(t) for t in certified.found]
        return [p for i, p in enumerate(pairs) if solved[2 * i] and solved[2 * i + 1]]


def trials_of(pairs: list[Pair], n: int) -> list[Trial]:
    """Both variants of every pair, ``n`` rollouts each with the same noise."""
    return [Trial(made.spec, (made.base.number, r)) for p in pairs for made in (p.target, p.other) for r in range(n)]


def pair_counts(pairs: list[Pair], outcomes: list[Outcome], n: int) -> dict[int, tuple[int, int]]:
    """Base number to successes of both variants; pairs with a rollout that broke in the simulator are left out."""
    counts, both = {}, counts_of(outcomes, n)
    for i, pair in enumerate(pairs):
        (k, healthy), (other, others) = both[2 * i : 2 * i + 2]
        if healthy == others == n:
            counts[pair.target.base.number] = k, other
    return counts


def judged(run: Run, counts: list[dict[int, tuple[int, int]]]) -> list[ControlResult]:
    """Verdicts of the tests of one round together; every test needs a scene."""
    settings, n = run.config.control, run.config.control.rollouts
    results = [
        control_test([t for t, _ in c.values()], [o for _, o in c.values()], n, least_drop=settings.least_drop, seed=run.config.seed)
        for c in counts
    ]
    return verdicts(results, settings.false_discovery)


def _tests(run: Run, round_number: int, sandbox: Sandbox, bases: list[Base], batch: Batch) -> list[Test]:
    """Programs of this round that no test has decided yet, in the order in which they were written."""
    modes = {m.mode_id: m for m in recall.modes_of(run.memory, settings.families(run.config)) if m.status != "removed"}
    tests, programs = [], recall.generation_programs(run.memory)
    for mode in modes.values():
        row = recall.newest([p for p in programs.get(mode.mode_id, []) if p.round == round_number])
        if row is not None and row.level is not None and row.verdict in (None, "undecided"):
            program = own_program(run, sandbox, row.text).with_level(row.level)
            tests.append(Test(mode, row, Pairs(run, program, of_family(bases, mode.family), batch)))
    diagnosed = recall.diagnosed_modes(run.memory, round_number)
    tests.sort(key=lambda t: (-diagnosed.get(t.mode.mode_id, 0), t.mode.mode_id))
    return tests[: run.config.control.modes]


def run_stage(run: Run, round_number: int) -> Finished:
    """Test, top up what is undecided, store verdicts with their scenes and rollouts."""
    config, settings = run.config, run.config.control
    assert run.state.checkpoint is not None, "cloning commits its last state"
    batch, outcomes, purposes = Batch(), [], []
    rollouts = Rollouts(run, cloning.trained(run).ema)
    with SceneSource(run) as source, Sandbox(parts.limits_of(config)) as sandbox:
        bases = collect.test_scenes(run, round_number, source) if config.control.modes else []
        tests = _tests(run, round_number, sandbox, bases, batch)
        changes = source.store()
    waiting = {id(t): settings.scenes for t in tests}
    while any(waiting.values()):
        built = [(t, t.supply.take(waiting[id(t)])) for t in tests if waiting[id(t)]]
        trials = [trial for _, pairs in built for trial in trials_of(pairs, settings.rollouts)]
        with rollouts.runner("control", round_number, len(trials), "control tests") as rollout_fn:
            found = rollout_fn(trials)
        position = 0
        for test, pairs in built:
            size = 2 * settings.rollouts * len(pairs)
            test.pairs += pairs
            test.counts |= pair_counts(pairs, found[position : position + size], settings.rollouts)
            position += size
        outcomes += found
        purposes += ["control_target" if i // settings.rollouts % 2 == 0 else "control_other" for i in range(len(found))]
        ready = [t for t in tests if t.counts]
        for test, result in zip(ready, judged(run, [t.counts for t in ready]), strict=True):
            test.result = result
        waiting = {id(t): wants_more(t.result, t.supply.left, settings.most_scenes) if t.result else 0 for t in tests}
    scenes = rows.SceneRows(recall.scene_ids(run.memory))
    results, versions = [], []
    for test in tests:
        for pair in test.pairs:
            scenes.add_made(pair.target, "control", round_number, mode_id=test.mode.mode_id, program_id=test.row.program_id)
            scenes.add_made(pair.other, "control", round_number)
        if test.result is None:
            run.say(f"round {round_number}: no scene allowed a control test of {test.supply.program.edits[0].verb}")
            continue
        results.append(_row(test, round_number, settings.rollouts))
        versions += _verdict_rows(run, test, round_number)
        _report(run, test, round_number)
    changes["files"] |= stored.keep(run, round_number, "control", outcomes)
    step = run.state.checkpoint
    episodes = [_episode(o, purpose, round_number, step) for o, purpose in zip(outcomes, purposes, strict=True)]
    return Finished(
        {"done": len(outcomes), "unit": "rollouts"},
        [*scenes.rows, *episodes, *results, *versions],
        changes,
        rollouts.physics_steps + sum(t.supply.physics_steps for t in tests),
        rollouts.count + sum(t.supply.episodes for t in tests),
    )


def _episode(outcome: Outcome, purpose: Any, round_number: int, policy_step: int):
    return rows.episode_rows([outcome], purpose, round_number, policy_step, None)[0]


def _row(test: Test, round_number: int, n: int) -> ControlTest:
    result = test.result
    assert result is not None
    specs = {p.target.base.number: p.target.base.spec.scene_id for p in test.pairs}
    pairs = tuple(PairCounts(specs[number], k, other, n) for number, (k, other) in test.counts.items())
    fields = (result.mean, result.low, result.high, result.p_value, result.verdict)
    return ControlTest(test.mode.mode_id, test.mode.version, round_number, "test", pairs, *fields)


def _verdict_rows(run: Run, test: Test, round_number: int) -> list[Program | Mode]:
    """The program with its verdict; a refuted diagnosis also retires its mode, unless that is frozen."""
    assert test.result is not None
    verdict = test.result.verdict
    program = next_version(test.row, round_number, verdict=verdict, status=_STATUS[verdict])
    changed: list[Program | Mode] = [] if program is test.row else [program]
    if verdict == "refuted" and not starting_memory.frozen(run.config, test.mode):
        changed.append(next_version(test.mode, round_number, status="removed"))
    return changed


def _report(run: Run, test: Test, round_number: int) -> None:
    r, verb = test.result, test.supply.program.edits[0].verb
    assert r is not None
    run.say(
        f"round {round_number}: {difficulty_in_words(test.mode.factor, test.mode.phase, test.mode.cause)}: {r.verdict}, {verb} costs "
        f"{100 * r.mean:+.0f} points beyond another factor ({100 * r.low:+.0f} .. {100 * r.high:+.0f}, {counted(r.scenes, 'scene')})"
    )
    run.metrics.write(
        "control_test",
        round=round_number,
        mode=test.mode.mode_id,
        factor=test.mode.factor,
        phase=test.mode.phase,
        cause=test.mode.cause,
        verb=verb,
        level=test.supply.program.level,
        mean=r.mean,
        low=r.low,
        high=r.high,
        p=r.p_value,
        verdict=r.verdict,
        scenes=r.scenes,
    )
