"""One arm with one seed: iterations of rollouts, labels, critic, weights and updates from the clone on."""

from __future__ import annotations

import dataclasses
import json
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.improvement.bench import Bench, Kept, configured
from benchmarks.improvement.plan import EVALUATED, MIDWAY, say
from coda_jax.agents.base import Failing, Stalled, Trial
from coda_jax.evaluation.trials import TrialRunner
from coda_jax.learning import experience as table
from coda_jax.learning.awr import METRICS, WEIGHT_METRICS, decision_weights, init_spread, policy_steps, successful_rows
from coda_jax.learning.shares import rounded
from coda_jax.learning.steps import init_state
from coda_jax.loop import cloning, evaluation, improvement, parts
from coda_jax.loop.experience import rollout_record
from coda_jax.loop.rounds.training import training_of
from coda_jax.programs.sandbox import Sandbox
from coda_jax.programs.training.gates import GateError, check, constructed
from coda_jax.programs.training.measured import measure
from coda_jax.programs.training.program import SparseProgram, TrainingProgram, evaluate_training
from coda_jax.sim.observe import words_and_roles
from coda_jax.sim.potentials import program_scene


class Arm:
    """One arm with one seed: the policy and critic as they are now, and every episode so far."""

    def __init__(self, bench: Bench, name: str, seed: int):
        self.bench, self.name, self.seed = bench, name, seed
        self.config = configured(bench.run.config, name, seed)
        self.policy = parts.policy_of(self.config)
        rate = training_of(bench.run)  # each iteration is a block of its own, as in a round
        self.training = dataclasses.replace(rate, steps=self.bench.plan.updates, warmup=min(rate.warmup, self.bench.plan.updates - 1))
        self.updates = 0
        self.clone = cloning.trained(bench.run).ema
        self.params = self.clone
        self.critic = improvement.start_critic(self.config, self.clone, self.config.seed)
        self.spread, self.key = init_spread(), jax.random.key(self.config.seed)
        self.programs: dict[str, Any] = {}  # diagnosed phase to program
        self.phases: dict[int, str] = {}  # scene number to phase
        self.past: list[Kept] = []  # of earlier iterations
        self.curve: list[dict[str, Any]] = []
        self.monitors: list[dict[str, Any]] = []

    def outcomes(self, trials: Sequence[Any], stream: int, mode: str, record: bool, sim: Any) -> list[Any]:
        guide = None
        if mode != "policy":
            actor, critic = improvement.actor_of(self.config, mode), improvement.critic_of(self.config)
            guide = evaluation.Guide(actor, critic, self.critic.params, self.program_of, self.fallback())
        sim, act = evaluation.acting(self.policy, self.params, sim, self.bench.run.everything, guide)
        run, config = self.bench.run, self.config
        runner = TrialRunner(
            sim,
            run.everything,
            act,
            run.encoder.encode,
            config.evaluate.executed,
            parts.horizon_of(config),
            jax.random.fold_in(self.key, stream),
            record=record,
        )
        return runner(trials)

    def program_of(self, episode: Any) -> Any:
        return self.programs.get(self.phases.get(episode.key[0], ""))

    def fallback(self) -> Any:
        """The program of the commonest phase, for scenes that never failed and for other suites."""
        if not self.phases:
            return SparseProgram()
        return self.programs[Counter(self.phases.values()).most_common(1)[0][0]]

    def on_set(self, stream: int, mode: str = "policy", record: bool = False, repeats: int = EVALUATED) -> list[Any]:
        trials = [Trial(b.spec, (b.number, repeat)) for b in self.bench.scenes for repeat in range(repeats)]
        return self.outcomes(trials, stream, mode, record, self.bench.base)

    def on_suites(self, mode: str, most: int | None) -> dict[str, list[int]]:
        """Suite to successes (0 or 1) of its first ``most`` scenes, with the same noise for every arm of a seed."""
        found = {}
        for i, (suite, specs) in enumerate(evaluation.chosen_scenes(self.config).items()):
            trials = [Trial(spec, (1_000_000 * (i + 1) + n, 0)) for n, spec in enumerate(specs[:most])]
            found[suite] = [int(o.success and not o.health) for o in self.outcomes(trials, 7, mode, False, self.bench.suite_base)]
        return found

    def evaluate(self, updates: int, modes: Sequence[str] = ("policy",), most: int | None = None) -> None:
        for mode in modes:
            outcomes = self.on_set(5, mode)
            suites = self.on_suites(mode, most) if mode != "average" else {}
            by = Counter()
            for o in outcomes:
                by[o.trial.key[0]] += int(o.success and not o.health)
            row = {"updates": updates, "mode": mode, "set": [by[b.number] for b in self.bench.scenes], "suites": suites}
            self.curve.append(row)
            k, n = sum(sum(v) for v in suites.values()), sum(len(v) for v in suites.values())
            say(f"{self.name}/{self.seed} {updates} {mode}: set {sum(by.values())}/{len(outcomes)}, validation {k}/{n}")

    def begin(self) -> None:
        """The clone before anything was learned, which all arms of a seed share."""
        path = self.bench.folder / f"clone_{self.seed}.json"
        if path.exists():
            self.curve.append(json.loads(path.read_text()))
            return
        self.evaluate(0)
        path.write_text(json.dumps(self.curve[0]))

    def compile(self, failed: dict[int, str]) -> None:
        """Programs of the phases in which scenes fail; a scene keeps the phase of its latest failures."""
        self.phases |= failed
        compiler = improvement.compiler_of(self.config)
        with Sandbox(parts.limits_of(self.config)) as sandbox:
            for phase in sorted(set(self.phases.values()) - self.programs.keys()):
                (text,) = compiler.compile([Failing(self.config.family, "EXECUTION", phase, "")])
                program = evaluate_training(text, sandbox)
                if isinstance(program, TrainingProgram):
                    program = constructed(program, self.bench.gates).program
                self.programs[phase] = program

    def refine(self, outcomes: Sequence[Any]) -> int:
        """Programs mended where the rollouts under them stopped; how many changed."""
        changed, compiler = 0, improvement.compiler_of(self.config)
        with Sandbox(parts.limits_of(self.config)) as sandbox:
            for phase, program in list(self.programs.items()):
                own = [o for o in outcomes if self.phases.get(o.trial.key[0]) == phase and not o.health]
                if not own or not isinstance(program, TrainingProgram):
                    continue
                seen = [(program_scene(o.trial.spec, self.bench.run.everything), o.recorded.views) for o in own]
                failing, found = Failing(self.config.family, "EXECUTION", phase, ""), measure(program, seen)
                (text,) = compiler.refine([Stalled(failing, program, found, lambda other, seen=seen: measure(other, seen))])
                new = evaluate_training(text, sandbox)
                assert isinstance(new, TrainingProgram)
                try:
                    check(new, self.bench.gates)
                except GateError as error:
                    say(f"{self.name}/{self.seed} refinement of {phase} refused: {error}")
                    continue
                changed += new != program
                self.programs[phase] = new
        return changed

    def labelling(self, own: Sequence[Kept], programs: dict[str, Any]) -> list[Any]:
        """The program of each demonstration, all of them in turn, then of each of its ``own`` episodes."""
        used = sorted(programs)
        shown = [programs[used[i % len(used)]] for i in range(len(self.bench.demonstrations))]
        fallback = programs[Counter(self.phases.values()).most_common(1)[0][0]]
        return shown + [programs.get(self.phases.get(k.number, ""), fallback) for k in own]

    def carry_over(self, whole: Any, old: Any, key: Any) -> None:
        """Shift the critic of the table ``old`` to the refined potentials of ``whole``, as a round does."""
        config, counts = self.config, rounded(self.config.critic.shares, self.config.critic.batch)
        key = jax.random.fold_in(key, 4)
        self.critic = improvement.shift_critic(config, self.critic, whole, old, counts, key, config.critic.shift_steps)

    def iterate(self, number: int) -> None:
        config, began = self.config, time.perf_counter()
        key = jax.random.fold_in(self.key, 100 + number)
        outcomes = [
            o
            for o in self.on_set(10 + number, config.actor.collect if number else "policy", True, self.bench.plan.rollouts)
            if not o.health
        ]
        failures: dict[int, Counter] = {}
        for o in outcomes:
            if not o.success:
                failures.setdefault(o.trial.key[0], Counter())[o.phase] += 1
        self.compile({scene: phases.most_common(1)[0][0] for scene, phases in failures.items()})
        before = dict(self.programs)
        refined = self.refine(outcomes) if number and config.potential.refine else 0
        own = [*(self.kept(o) for o in outcomes if o.steps), *self.past]
        everything = [*self.bench.demonstrations, *own]
        records, scenes = [k.record for k in everything], [program_scene(k.spec, self.bench.run.everything) for k in everything]
        labels = improvement.labels_of(records, scenes, self.labelling(own, self.programs))
        whole = improvement.build(config, records, labels, self.bench.run.encoder)
        whole = table.refresh_candidates(self.policy, self.params, whole, jax.random.fold_in(key, 1))
        if refined:
            old = improvement.labels_of(records, scenes, self.labelling(own, before))
            self.carry_over(whole, improvement.relabelled(whole, records, old, config.policy.chunk), key)
        monitor: dict[str, Any] = {
            "iteration": number,
            "rows": int(whole.size),
            "refined": refined,
            "programs": {p: [s.name for s in getattr(program, "subgoals", ())] for p, program in sorted(self.programs.items())},
        }
        monitor["labelled_s"] = round(time.perf_counter() - began, 1)
        if config.awr.improve != "filtered":
            rows: list[dict[str, float]] = []
            counts = rounded(config.critic.shares, config.critic.batch)
            self.critic = improvement.train_critic(
                config,
                self.critic,
                whole,
                counts,
                jax.random.fold_in(key, 2),
                int(self.critic.step) + config.critic.steps,
                lambda _, m: rows.append(m),
            )
            monitor["critic"] = {"first": rows[0], "last": rows[-1]}
            values = improvement.values_of(config, self.critic.params, whole)
            advantages = improvement.advantages_of(config, whole, values)
            monitor |= self.judge(whole, values, advantages, number)
        else:
            advantages = jnp.zeros(whole.terminal.shape)
        monitor["critic_s"] = round(time.perf_counter() - began, 1)
        awr = improvement.awr_of(config)
        if awr.improve == "frozen":
            self.updates += self.bench.plan.updates  # that others would have had: a place on the course
        else:
            weights, self.spread, measured = decision_weights(awr, self.spread, whole, advantages)
            monitor["weights"] = dict(zip(WEIGHT_METRICS, np.asarray(measured).tolist(), strict=True))
            self.update(awr, whole, weights, key, number, monitor)
        monitor["wall_s"] = round(time.perf_counter() - began, 1)
        self.monitors.append(monitor)
        shown = {k: round(v, 3) for k, v in monitor.items() if isinstance(v, float)}
        say(f"{self.name}/{self.seed} iteration {number}: {shown}, {monitor.get('weights')}, {monitor.get('policy')}")
        self.past = [dataclasses.replace(k, record=dataclasses.replace(k.record, source="replay")) for k in own]

    def update(self, awr: Any, whole: Any, weights: Any, key: Any, number: int, monitor: dict[str, Any]) -> None:
        run = self.bench.run
        data = cloning.dataset(run.config, [s.demonstration for s in self.bench.stored], run.encoder)
        words = cloning.language(run.config, run.train, run.encoder)
        counts = jnp.asarray(awr.counts(self.training.batch), jnp.int32)
        state = init_state(self.policy, self.training, jax.tree.map(jnp.copy, self.params))
        state, row = policy_steps(
            self.policy,
            self.training,
            awr,
            state,
            data,
            whole,
            counts,
            weights,
            self.clone,
            words,
            jax.random.fold_in(key, 3),
            jnp.asarray(self.bench.plan.updates, jnp.int32),
        )
        self.params, self.updates = state.ema, self.updates + self.bench.plan.updates
        monitor["policy"] = dict(zip(METRICS, np.asarray(row).tolist(), strict=True))

    def judge(self, whole: Any, values: Any, advantages: Any, number: int) -> dict[str, Any]:
        """Calibration of the critic on the policy's own decisions, and its candidates' values for the agreement with other critics."""
        judged = improvement.judged(self.config, whole, values)
        assert judged is not None, "the policy's own rollouts are in the table"
        np.savez(self.bench.folder / f"q_{self.name}_{self.seed}_{number}.npz", q=judged.candidates)
        n = len(judged.own)
        good, advantage = (np.asarray(x)[:n][judged.own] for x in (successful_rows(whole), advantages))
        return {
            "calibration_error": judged.error,
            "calibration": [dataclasses.astuple(b) for b in judged.curve],
            "correlation": float(np.corrcoef(judged.decoded, judged.realised)[0, 1]),
            "candidate_sd": float(judged.candidates.std(-1).mean()),
            "advantage_sd": float(advantage.std()),
            "advantage_success": float(advantage[good].mean()),
            "advantage_failure": float(advantage[~good].mean()),
        }

    def kept(self, outcome: Any) -> Kept:
        told = words_and_roles(outcome.trial.spec, self.bench.run.everything)
        return Kept(rollout_record(outcome, "targeted", told, 1.0), outcome.trial.spec, outcome.trial.key[0])

    def result(self) -> dict[str, Any]:
        return {"arm": self.name, "seed": self.seed, "curve": self.curve, "monitors": self.monitors}


def run_arm(bench: Bench, name: str, seed: int) -> dict[str, Any]:
    began = time.perf_counter()
    arm = Arm(bench, name, seed)
    arm.begin()
    for number in range(bench.plan.iterations):
        arm.iterate(number)
        last = number + 1 == bench.plan.iterations
        if arm.config.awr.improve != "frozen":
            arm.evaluate(arm.updates, most=None if last else MIDWAY)
        elif not last:
            arm.evaluate(arm.updates, ("argmax",), MIDWAY)
    if arm.config.awr.improve != "filtered":
        arm.evaluate(arm.updates, ("argmax", "average"))
    return arm.result() | {"wall_s": round(time.perf_counter() - began, 1)}
