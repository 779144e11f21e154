"""What the critic, its potentials and advantage-weighted updates give: ``python -m benchmarks.improvement --run=runs/clone``.

One fixed set of edited training scenes in which the cloned policy succeeds in 20 to 60 % of its rollouts. Each arm goes through the same
iterations from the same clone: roll out, label, train the critic, weight decisions, update the policy. Demonstrations are the clone's own.
Success is measured with fresh noise on the set and, one rollout a scene, on the validation suites. Every arm and seed is a line of
``results.jsonl`` in the folder, a second start skips what is there. Tables go to stdout, progress to stderr; ``--tables`` only prints.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from absl import app, flags, logging

from coda_jax import config as settings
from coda_jax import runtime

_RUN = flags.DEFINE_string("run", "runs/clone", "Run folder with the clone, made by experiments/quickstart.py:clone.")
_FOLDER = flags.DEFINE_string("folder", "runs/improvement", "Where the set of scenes and the results are kept.")
_SEEDS = flags.DEFINE_integer("seeds", 3, "Repeats: noise of rollouts and of every training.", lower_bound=1)
_ARMS = flags.DEFINE_list("arms", [], "Arms to run, all when empty.")
_SCENES = flags.DEFINE_integer("scenes", 64, "Scenes of the set.", lower_bound=4)
_ROLLOUTS = flags.DEFINE_integer("rollouts", 4, "Rollouts of each scene in each iteration.", lower_bound=1)
_ITERATIONS = flags.DEFINE_integer("iterations", 3, "Iterations of rollouts and training.", lower_bound=1)
_UPDATES = flags.DEFINE_integer("updates", 750, "Policy updates of an iteration.", lower_bound=1)
_TABLES = flags.DEFINE_bool("tables", False, "Print the tables of the results that are there and stop.")

# settings that differ from the default
ARMS: dict[str, dict[str, str]] = {
    "full": {},
    "sparse": {"potential.signal": "sparse"},
    "task_text": {"potential.signal": "task_text", "potential.refine": "false"},
    "frozen": {"awr.improve": "frozen"},
    "filtered": {"awr.improve": "filtered", "potential.signal": "sparse"},
    "demonstrations": {"awr.improve": "filtered", "potential.signal": "sparse", "awr.shares": "1.0,0.0,0.0,0.0"},
    "no_refinement": {"potential.refine": "false"},
    "free_form": {"potential.signal": "free_form"},
}
MAIN = ("full", "sparse", "task_text", "frozen", "filtered", "demonstrations")
_MIDWAY = 25  # scenes of each suite that are rolled out between iterations
EVALUATED = 4  # fresh rollouts of each scene of the set


def read(folder: Path) -> list[dict[str, Any]]:
    path = folder / "results.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def choose_scenes(run: Any, folder: Path, count: int) -> list[Any]:
    """The set: edited fresh training scenes that the clone solves once or twice in four rollouts, drawn once and kept in the folder."""
    from coda_jax.agents.base import Trial
    from coda_jax.evaluation.trials import by_scene
    from coda_jax.loop import cloning
    from coda_jax.loop.rounds.collect import random_variants
    from coda_jax.loop.rounds.rollouts import Rollouts
    from coda_jax.loop.rounds.variants import Base, Batch
    from coda_jax.loop.seed_scenes import SceneSource
    from coda_jax.scenes.spec import from_json, to_json

    path = folder / "scenes.jsonl"
    if path.exists():
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        return [Base(row["number"], from_json(row["spec"])) for row in rows]
    chosen: list[Base] = []
    rollouts, first = Rollouts(run, cloning.trained(run).ema), run.state.used
    while len(chosen) < count:
        with SceneSource(run) as source:
            bases = [Base(first + i, source.get(first + i).spec) for i in range(count)]
        first += count
        variants = [Base(m.base.number, m.spec) for m in random_variants(run, bases, Batch(), "improvement", first)]
        trials = [Trial(b.spec, (b.number, repeat)) for b in variants for repeat in range(4)]
        with rollouts.runner("search", 900, len(trials), "scenes of the set") as rollout_fn:
            counts = by_scene(rollout_fn(trials))
        chosen += [b for b in variants if counts[b.number][0] in (1, 2)]
        say(f"{len(chosen)} of {count} scenes")
    chosen = chosen[:count]
    path.write_text("".join(json.dumps({"number": b.number, "spec": to_json(b.spec)}) + "\n" for b in chosen))
    return chosen


@dataclasses.dataclass(frozen=True)
class Kept:
    """A recorded episode. number: of its scene in the set, -1 for a demonstration."""

    record: Any
    spec: Any
    number: int


@dataclasses.dataclass
class Bench:
    """The clone's run, the set, clean demonstrations for gates, and what every arm shares."""

    run: Any
    scenes: list[Any]
    folder: Path
    base: Any
    suite_base: Any
    stored: list[Any]

    @functools.cached_property
    def gates(self) -> list[Any]:
        from coda_jax.loop.check_training import TrainingCheck

        return TrainingCheck(self.run.config).demonstrations

    @functools.cached_property
    def demonstrations(self) -> list[Kept]:
        """The clone's demonstrations, cut into decisions as rollouts are."""
        from coda_jax.learning.records import EpisodeRecord, decisions
        from coda_jax.loop import seed_scenes
        from coda_jax.sim.observe import words_and_roles

        specs = {s.spec.scene_id: s.spec for s in seed_scenes.load(self.run.folder, self.run.state)}
        found = []
        for stored in self.stored:
            spec, cut = specs[stored.scene_id], decisions(len(stored.executed), self.run.config.evaluate.executed)
            told = words_and_roles(spec, self.run.everything)
            found.append(Kept(EpisodeRecord(stored.views, stored.executed, cut, 0, True, "demonstration", *told, 1.0), spec, -1))
        return found


def configured(base: settings.Config, arm: str, seed: int) -> settings.Config:
    config = base.copy_and_resolve_references().unlock()
    for path, value in ARMS[arm].items():
        settings.override(config, path, value)
    config.seed = 1000 + seed
    config.potential.tools = False  # shares, weights and start states alike in all arms: they differ in what the critic is told
    return config.lock()


class Arm:
    """One arm with one seed: the policy and critic as they are now, and every episode so far."""

    def __init__(self, bench: Bench, name: str, seed: int):
        import jax

        from coda_jax.learning.awr import init_spread
        from coda_jax.loop import cloning, improvement, parts
        from coda_jax.loop.rounds.training import training_of

        self.bench, self.name, self.seed = bench, name, seed
        self.config = configured(bench.run.config, name, seed)
        self.policy = parts.policy_of(self.config)
        rate = training_of(bench.run)  # each iteration is a block of its own, as in a round
        self.training = dataclasses.replace(rate, steps=_UPDATES.value, warmup=min(rate.warmup, _UPDATES.value - 1))
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
        import jax

        from coda_jax.evaluation.trials import TrialRunner
        from coda_jax.loop import evaluation, improvement, parts

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
        from coda_jax.programs.training.program import SparseProgram

        if not self.phases:
            return SparseProgram()
        return self.programs[Counter(self.phases.values()).most_common(1)[0][0]]

    def on_set(self, stream: int, mode: str = "policy", record: bool = False, repeats: int = EVALUATED) -> list[Any]:
        from coda_jax.agents.base import Trial

        trials = [Trial(b.spec, (b.number, repeat)) for b in self.bench.scenes for repeat in range(repeats)]
        return self.outcomes(trials, stream, mode, record, self.bench.base)

    def on_suites(self, mode: str, most: int | None) -> dict[str, list[int]]:
        """Suite to successes (0 or 1) of its first ``most`` scenes, with the same noise for every arm of a seed."""
        from coda_jax.agents.base import Trial
        from coda_jax.loop import evaluation

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
        from coda_jax.loop import improvement, parts
        from coda_jax.programs.sandbox import Sandbox
        from coda_jax.programs.training.gates import constructed
        from coda_jax.programs.training.program import TrainingProgram, evaluate_training

        self.phases |= failed
        compiler = improvement.compiler_of(self.config)
        with Sandbox(parts.limits_of(self.config)) as sandbox:
            for phase in sorted(set(self.phases.values()) - self.programs.keys()):
                program = evaluate_training(compiler.compile(self.config.family, "EXECUTION", phase, ""), sandbox)
                if isinstance(program, TrainingProgram):
                    program = constructed(program, self.bench.gates).program
                self.programs[phase] = program

    def refine(self, outcomes: Sequence[Any]) -> int:
        """Programs mended where the rollouts under them stopped; how many changed."""
        from coda_jax.loop import improvement, parts
        from coda_jax.programs.sandbox import Sandbox
        from coda_jax.programs.training.gates import GateError, check
        from coda_jax.programs.training.measured import measure
        from coda_jax.programs.training.program import TrainingProgram, evaluate_training
        from coda_jax.sim.potentials import program_scene

        changed, compiler = 0, improvement.compiler_of(self.config)
        with Sandbox(parts.limits_of(self.config)) as sandbox:
            for phase, program in list(self.programs.items()):
                own = [o for o in outcomes if self.phases.get(o.trial.key[0]) == phase and not o.health]
                if not own or not isinstance(program, TrainingProgram):
                    continue
                seen = measure(program, [(program_scene(o.trial.spec, self.bench.run.everything), o.recorded.views) for o in own])
                new = evaluate_training(compiler.refine(program, seen), sandbox)
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
        import jax

        from coda_jax.learning.shares import rounded
        from coda_jax.loop import improvement

        config, counts = self.config, rounded(self.config.critic.shares, self.config.critic.batch)
        key = jax.random.fold_in(key, 4)
        self.critic = improvement.shift_critic(config, self.critic, whole, old, counts, key, config.critic.shift_steps)

    def iterate(self, number: int) -> None:
        import jax
        import jax.numpy as jnp

        from coda_jax.learning import experience as table
        from coda_jax.learning.awr import WEIGHT_METRICS, decision_weights
        from coda_jax.learning.shares import rounded
        from coda_jax.loop import improvement
        from coda_jax.sim.potentials import program_scene

        config, began = self.config, time.perf_counter()
        key = jax.random.fold_in(self.key, 100 + number)
        outcomes = [
            o for o in self.on_set(10 + number, config.actor.collect if number else "policy", True, _ROLLOUTS.value) if not o.health
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
            monitor |= self.judge(whole, values, number)
            advantages = values.advantage
        else:
            advantages = jnp.zeros(whole.terminal.shape)
        monitor["critic_s"] = round(time.perf_counter() - began, 1)
        awr = improvement.awr_of(config)
        if awr.improve != "frozen":
            weights, self.spread, measured = decision_weights(awr, self.spread, whole, advantages)
            monitor["weights"] = dict(zip(WEIGHT_METRICS, np.asarray(measured).tolist(), strict=True))
            self.update(awr, whole, weights, key, number, monitor)
        monitor["wall_s"] = round(time.perf_counter() - began, 1)
        self.monitors.append(monitor)
        shown = {k: round(v, 3) for k, v in monitor.items() if isinstance(v, float)}
        say(f"{self.name}/{self.seed} iteration {number}: {shown}, {monitor.get('weights')}, {monitor.get('policy')}")
        self.past = [dataclasses.replace(k, record=dataclasses.replace(k.record, source="replay")) for k in own]

    def update(self, awr: Any, whole: Any, weights: Any, key: Any, number: int, monitor: dict[str, Any]) -> None:
        import jax
        import jax.numpy as jnp

        from coda_jax.learning.awr import METRICS, policy_steps
        from coda_jax.learning.steps import init_state
        from coda_jax.loop import cloning

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
            jnp.asarray(_UPDATES.value, jnp.int32),
        )
        self.params, self.updates = state.ema, self.updates + _UPDATES.value
        monitor["policy"] = dict(zip(METRICS, np.asarray(row).tolist(), strict=True))

    def judge(self, whole: Any, values: Any, number: int) -> dict[str, Any]:
        """Calibration of the critic on the policy's own decisions, and its candidates' values for the agreement with other critics."""
        from coda_jax.learning.awr import successful_rows
        from coda_jax.loop import improvement

        judged = improvement.judged(self.config, whole, values)
        assert judged is not None, "the policy's own rollouts are in the table"
        np.savez(self.bench.folder / f"q_{self.name}_{self.seed}_{number}.npz", q=judged.candidates)
        n = len(judged.own)
        good, advantage = (np.asarray(x)[:n][judged.own] for x in (successful_rows(whole), values.advantage))
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
        from coda_jax.learning.records import EpisodeRecord
        from coda_jax.sim.observe import words_and_roles

        told = words_and_roles(outcome.trial.spec, self.bench.run.everything)
        actions, r = np.clip(outcome.actions, -1.0, 1.0), outcome.recorded
        record = EpisodeRecord(r.views, actions, r.executed, r.prefix, outcome.success, "targeted", *told, 1.0, r.chunks)
        return Kept(record, outcome.trial.spec, outcome.trial.key[0])

    def result(self) -> dict[str, Any]:
        return {"arm": self.name, "seed": self.seed, "curve": self.curve, "monitors": self.monitors}


def run_arm(bench: Bench, name: str, seed: int) -> dict[str, Any]:
    began = time.perf_counter()
    arm = Arm(bench, name, seed)
    arm.begin()
    for number in range(_ITERATIONS.value):
        arm.iterate(number)
        last = number + 1 == _ITERATIONS.value
        if arm.config.awr.improve != "frozen":
            arm.evaluate(arm.updates, most=None if last else _MIDWAY)
        elif not last:
            arm.evaluate(arm.updates, ("argmax",), _MIDWAY)
    if arm.config.awr.improve != "filtered":
        arm.evaluate(arm.updates, ("argmax", "average"))
    return arm.result() | {"wall_s": round(time.perf_counter() - began, 1)}


def _final(row: dict[str, Any]) -> dict[str, Any]:
    """What the arm is judged by: its policy after the last update; the choice of the best candidate where the policy is frozen."""
    mode = "argmax" if row["arm"] == "frozen" else "policy"
    return [point for point in row["curve"] if point["mode"] == mode and "suites" in point][-1]


def _compared(rows: Sequence[dict[str, Any]], value: Any) -> str:
    """Mean over scenes of the change from the clone, seeds averaged per scene, with its 95 % interval."""
    from coda_jax.evaluation.statistics import paired_difference

    changes = np.mean([np.asarray(value(_final(r))) - np.asarray(value(r["curve"][0])) for r in rows], 0)
    d = paired_difference(changes)
    return f"{100 * d.mean:+.1f} ({100 * d.low:+.1f} .. {100 * d.high:+.1f})"


def _scenes_of(point: dict[str, Any]) -> np.ndarray:
    return np.asarray(point["set"]) / EVALUATED


def _suite(name: str) -> Any:
    return lambda point: np.asarray(point["suites"][name], float)


def _held_out(point: dict[str, Any]) -> np.ndarray:
    return np.concatenate([np.asarray(v, float) for v in point["suites"].values()])


def tables(results: Sequence[dict[str, Any]], folder: Path) -> str:
    """Success by arm with paired changes, the course of training, what the monitors say, agreement with the sparse critic."""
    if not results:
        return "no results yet"
    by: dict[str, list[dict[str, Any]]] = {}
    for row in results:
        by.setdefault(row["arm"], []).append(row)
    names = list(results[0]["curve"][0]["suites"])
    lines = ["Change from the clone in points, 95 %, paired by scene", ""]
    lines += ["| arm | seeds | set | validation | " + " | ".join(names) + " | minutes |", "|---" * (5 + len(names)) + "|"]
    for arm, rows in by.items():
        cells = [_compared(rows, _scenes_of), _compared(rows, _held_out), *(_compared(rows, _suite(n)).split(" ")[0] for n in names)]
        minutes = np.mean([r["wall_s"] for r in rows]) / 60
        lines.append(f"| `{arm}` | {len(rows)} | " + " | ".join(cells) + f" | {minutes:.1f} |")
    start = results[0]["curve"][0]
    lines += [
        "",
        f"The clone: {100 * _scenes_of(start).mean():.1f} % on the set, {100 * _held_out(start).mean():.1f} % on validation (seed 0)",
    ]
    lines += ["", "Success on the set, %, by updates and actor (mean over seeds)", ""]
    for arm, rows in by.items():
        points: dict[tuple[int, str], list[float]] = {}
        for row in rows:
            for point in row["curve"]:
                points.setdefault((point["updates"], point["mode"]), []).append(100 * float(_scenes_of(point).mean()))
        lines.append(f"- `{arm}`: " + ", ".join(f"{u} {mode} {np.mean(v):.1f}" for (u, mode), v in points.items()))
    lines += ["", "| arm | calibration error | correlation with returns | sd of candidates | ESS | weights: success, failure | drift |"]
    lines += ["|---" * 7 + "|"]
    for arm, rows in by.items():
        last = [row["monitors"][-1] for row in rows]

        def mean(*path: str, rows: list[dict[str, Any]] = last) -> str:
            found = []
            for row in rows:
                value: Any = row
                for name in path:
                    value = value.get(name) if isinstance(value, dict) else None
                if value is not None:
                    found.append(float(value))
            return f"{np.mean(found):.3f}" if found else "-"

        advantages = f"{mean('advantage_success')}, {mean('advantage_failure')}"
        cells = (
            mean("calibration_error"),
            mean("correlation"),
            mean("candidate_sd"),
            mean("weights", "ess"),
            advantages,
            mean("policy", "drift"),
        )
        lines.append(f"| `{arm}` | " + " | ".join(cells) + " |")
    lines += ["", *_agreements(by, folder)]
    return "\n".join(lines)


def _agreements(by: dict[str, list[dict[str, Any]]], folder: Path) -> list[str]:
    """Share of decisions of the first iteration, which all arms of a seed have in common, with the sparse critic's choice."""
    from coda_jax.learning.critic.monitor import agreement

    lines = []
    for arm, rows in by.items():
        found = []
        for row in rows:
            paths = [folder / f"q_{name}_{row['seed']}_0.npz" for name in (arm, "sparse")]
            if arm != "sparse" and all(path.exists() for path in paths):
                own, sparse = (np.load(path)["q"] for path in paths)
                if own.shape == sparse.shape:
                    found.append(agreement(own, sparse))
        if found:
            share, chance = np.mean([a.share for a in found]), found[0].chance
            lines.append(
                f"- `{arm}` chooses the sparse critic's candidate in {100 * share:.1f} % of decisions (chance {100 * chance:.0f} %)"
            )
    return lines


def main(arguments: list[str]) -> None:
    if len(arguments) > 1:
        raise app.UsageError(f"unknown argument {arguments[1]!r}")
    folder, workdir = Path(_FOLDER.value), Path(_RUN.value)
    folder.mkdir(parents=True, exist_ok=True)
    if not _TABLES.value:
        logging.set_verbosity(logging.WARNING)
        runtime.setup()
        from coda_jax.loop import demonstrations, evaluation, parts
        from coda_jax.loop import workdir as folders
        from coda_jax.loop.run import opened

        config = folders.read_config(workdir)
        with folders.locked(workdir), opened(config, workdir) as run:
            scenes = choose_scenes(run, folder, _SCENES.value)
            files = sorted(n for n in run.state.files if n.startswith("episodes/demos_"))
            stored = [s for n in files for s in demonstrations.load_file(run.folder / n)]
            suites = [s for specs in evaluation.chosen_scenes(config).values() for s in specs]
            bucket = parts.common_bucket(suites, run.everything)
            base = parts.simulator(config, run.everything, parts.training_bucket(run.train))
            bench = Bench(run, scenes, folder, base, parts.simulator(config, run.everything, bucket), stored)
            done = {(r["arm"], r["seed"]) for r in read(folder)}
            for seed in range(_SEEDS.value):
                for name in _ARMS.value or MAIN:
                    if (name, seed) not in done:
                        row = run_arm(bench, name, seed)
                        with (folder / "results.jsonl").open("a") as file:
                            file.write(json.dumps(row) + "\n")
    print(tables(read(folder), folder))


if __name__ == "__main__":
    app.run(main)
