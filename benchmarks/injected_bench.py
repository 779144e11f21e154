"""Failures with a known cause: scenes with one factor made hard on purpose, with two, and with none, and who is asked why they failed."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.injected_tables import truth_of
from coda_jax.agents.base import FACTORS, SCRIPTED, SPEC_FACTOR, Case, Diagnoser, Trial
from coda_jax.evaluation.trials import by_scene, counts_of, success_rate
from coda_jax.loop import cloning, parts
from coda_jax.loop.rounds.diagnose import chosen_failures
from coda_jax.loop.rounds.rollouts import Rollouts
from coda_jax.loop.rounds.variants import Base, Batch, Made, seed_of, verified
from coda_jax.loop.seed_scenes import SceneSource
from coda_jax.scenes.edits.record import EditError
from coda_jax.scenes.edits.room import trouble
from coda_jax.scenes.edits.task import called
from coda_jax.scenes.edits.verbs import VERBS, applied
from coda_jax.scenes.families import Goal, family_of, read_goal, scaled_assets
from coda_jax.scenes.language import templates
from coda_jax.scenes.leakage import HeldOutContent
from coda_jax.scenes.spec import Role, SceneSpec

MILD = 0.2  # magnitude of the decoys
LABELLINGS = 200
CANDIDATES = 96  # base scenes offered to each case
Change = Callable[[Any, SceneSpec], SceneSpec | None]  # (catalogue, scene) -> harder scene, None where it does not apply


def _verb(name: str, magnitude: float = 1.0) -> Change:
    def change(catalogue: Any, spec: SceneSpec) -> SceneSpec | None:
        found = applied(spec, name, catalogue, magnitude)
        return found[1] if found else None

    return change


def _target_is(**fields: float) -> Change:
    """The target with attributes beyond what the verbs allow: a cause must hurt to be found."""

    def change(catalogue: Any, spec: SceneSpec) -> SceneSpec:
        target = read_goal(spec).target
        objects = tuple(dataclasses.replace(o, **fields) if o.object == target else o for o in spec.attributes.objects)
        return dataclasses.replace(spec, attributes=dataclasses.replace(spec.attributes, objects=objects))

    return change


def _beside_support(catalogue: Any, spec: SceneSpec) -> SceneSpec | None:
    """Another goal over the same things, of the pair that the validation suite holds out; nothing is trained on it here."""
    assets, goal = scaled_assets(spec), read_goal(spec)
    found = next((n for n, a in assets.items() if a.kind == "support" and spec.placement(goal.target).support != n), None)
    if found is None or goal.relation == "beside":
        return None
    roles = tuple(r for r in spec.task.roles if r.role != "reference")
    task = dataclasses.replace(
        spec.task,
        instruction=templates(spec.task.family, "beside", "train")[0].render(called(spec, goal.target), called(spec, found)),
        goal=family_of(spec).expression(Goal("beside", goal.target, found), assets),
        roles=(*roles, Role(found, "reference")),
    )
    return dataclasses.replace(spec, task=task)


# case: what is made hard, by factor; tasks are changed first, since the others are about the task's own target
CASES: dict[str, dict[str, tuple[Change, ...]]] = {
    "support_height": {"SPATIAL": (_verb("support_height"),)},
    "reach": {"SPATIAL": (_verb("reach"), _verb("distance"))},
    "crowd": {"SPATIAL": (_verb("approach_obstacle"), _verb("clutter"))},
    "size": {"ATTRIBUTE": (_verb("size"),)},
    "mass": {"ATTRIBUTE": (_target_is(mass_kg=1.8),)},
    "friction": {"ATTRIBUTE": (_target_is(friction=0.06),)},
    "goal": {"TASK": (_beside_support,)},
    "goal_swap": {"TASK": (_verb("goal_swap"),)},
    "mixture": {"SPATIAL": (_verb("support_height"),), "ATTRIBUTE": (_target_is(mass_kg=1.8),)},
    "none": {},
}


@dataclasses.dataclass
class Bench:
    """The opened run, its policy, fresh base scenes that it solves, the results folder, who diagnoses, and rollouts of the base scenes as
    they are: what is usual, for a diagnoser that sees no base beside a failure."""

    run: Any
    rollouts: Any
    bases: list[Any]
    folder: Path
    diagnosers: Mapping[str, Diagnoser]
    unedited: Sequence[Case]

    def store(self, **row: Any) -> None:
        with (self.folder / "results.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")


def read(folder: Path) -> list[dict[str, Any]]:
    path = folder / "results.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def injected(bench: Bench, case: str, base: Any) -> Any:
    """The base with the case's hard changes and one mild edit of every other factor, or None where a hard one does not apply."""
    rng = np.random.default_rng(np.random.SeedSequence([seed_of("injected", case, base.number)]))
    spec, verbs = base.spec, []
    for factor in FACTORS:
        hard = CASES[case].get(factor, ())
        for change in hard:
            changed = change(bench.run.train, spec)
            if changed is None:
                return None
            spec = changed
            verbs.append((case, 1.0))
        if not hard:
            own = [n for n, v in VERBS.items() if v.factor == SPEC_FACTOR[factor]]
            name = str(rng.choice(own))
            try:
                found = applied(spec, name, bench.run.train, MILD)
                if found is not None:
                    spec = found[1]
                    verbs.append((name, MILD))
            except (EditError, HeldOutContent):  # the held-out goal may not be edited further
                continue
    return Made(base, spec, tuple(verbs), None) if verbs else None


def diagnose_case(bench: Bench, case: str, most: int) -> None:
    """Build scenes of a case, roll out, have ``most`` of its failures diagnosed, store one row for each and diagnoser.

    Physics is not asked whether a scene is fair: some are not, on purpose. Their geometry is.
    """
    done = {r["diagnoser"] for r in read(bench.folder) if r["kind"] == "diagnosed" and r["case"] == case}
    waiting = {name: diagnoser for name, diagnoser in bench.diagnosers.items() if name not in done}
    if not waiting:
        return
    made = [m for m in (injected(bench, case, b) for b in bench.bases) if m is not None and trouble(m.spec) is None]
    trials = [Trial(m.spec, (m.base.number, r)) for m in made for r in range(2)]
    with bench.rollouts.runner("collect", 900, len(trials), f"{case}: scenes") as rollout_fn:
        outcomes = rollout_fn(trials)
    cases = [Case(m.base.spec, o) for i, m in enumerate(made) for o in outcomes[2 * i : 2 * i + 2]]
    failures = [c for _, c in chosen_failures(cases, most)]
    k, n = success_rate(outcomes)
    for name, diagnoser in waiting.items():
        known = cases if name == SCRIPTED else [*cases, *bench.unedited]
        total = 5 * bench.run.config.diagnose.rerollouts * len(failures) if name == SCRIPTED else 0
        with bench.rollouts.runner("revert", 900, total, f"{case}: {name}") as rollout_fn:
            diagnoses = diagnoser.diagnose(failures, known, rollout_fn)
        for c, d in zip(failures, diagnoses, strict=True):
            arms = {arm: list(counts) for arm, counts in d.evidence.rollouts.items()}
            row = {"factor": d.factor, "phase": d.phase, "cause": d.cause, "confidence": d.confidence, "arms": arms, "agent": d.agent}
            bench.store(kind="diagnosis", case=case, diagnoser=name, truth=truth_of(CASES, case), scene_id=c.spec.scene_id, **row)
        bench.store(kind="diagnosed", case=case, diagnoser=name, failures=len(failures))
    if not done:
        bench.store(kind="case", case=case, k=k, n=n, scenes=len(made), failures=len(failures))


def test_diagnoses(bench: Bench, most: int) -> None:
    """Put distinct diagnoses of the scripted diagnoser to the control test: true ones name an injected factor, false ones another."""
    from coda_jax.agents.base import Difficulty
    from coda_jax.agents.scripted import engine
    from coda_jax.loop.verify import control_tested
    from coda_jax.programs.sandbox import Sandbox
    from coda_jax.scenes.generation import evaluate_generation

    rows = [r for r in read(bench.folder) if r["kind"] == "test" or r.get("diagnoser", SCRIPTED) == SCRIPTED]
    done = {(r["case"], r["factor"], r["cause"]) for r in rows if r["kind"] == "test"}
    wanted: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for row in rows:
        if row["kind"] != "diagnosis" or row["factor"] == "EXECUTION":
            continue
        true = row["factor"] in row["truth"]
        known = {(r["case"], r["factor"], r["cause"]) for r in wanted[true]}
        if (row["case"], row["factor"], row["cause"]) not in known and len(wanted[true]) < most:
            wanted[true].append(row)
    with Sandbox(parts.limits_of(bench.run.config)) as sandbox:
        for true, chosen in wanted.items():
            for row in chosen:
                if (row["case"], row["factor"], row["cause"]) in done:
                    continue
                difficulty = Difficulty(row["factor"], row["phase"], row["cause"])
                verb = engine.verbs_for(difficulty, [b.spec for b in bench.bases[:8]], bench.run.train)[0]
                program = evaluate_generation(engine.write(difficulty, verb, 1.0, {}), sandbox, bench.run.train)
                found = control_tested(bench.run, program, bench.bases, bench.rollouts, Batch())
                fields = dataclasses.asdict(found.result) if found else {"verdict": "no scene"}
                bench.store(kind="test", true=true, case=row["case"], factor=row["factor"], cause=row["cause"], verb=verb, **fields)
                print(f"{row['case']}, {row['factor']} {row['cause']} ({verb}): {fields['verdict']}", file=sys.stderr, flush=True)


def aa_arm(bench: Bench, most: int) -> None:
    """Both variants by one verb and magnitude with other seeds, labels at random: how often would that be confirmed?"""
    from benchmarks.simulated_tests import aa_labels
    from coda_jax.evaluation.control_test import control_test

    done = {r["verb"] for r in read(bench.folder) if r["kind"] == "aa"}
    settings = bench.run.config.control
    for verb in ("instance", "mass", "size", "yaw", "reach", "approach_obstacle", "colour", "target_swap")[:most]:
        if verb in done:
            continue
        pairs = []
        for base in bench.bases[: 2 * settings.scenes]:
            both = []
            for arm in range(2):
                seed = seed_of("aa", verb, base.number, arm)
                found = applied(base.spec, verb, bench.run.train, 0.75, seed)
                if found is not None:
                    both.append(Made(base, found[1], ((verb, 0.75),), VERBS[verb].factor))
            if len(both) == 2:
                pairs.append(both)
        valid = {m.spec.scene_id for m in verified(bench.run, [m for p in pairs for m in p], Batch(), 0)}
        pairs = [p for p in pairs if all(m.spec.scene_id in valid for m in p)][: settings.scenes]
        if not pairs:
            print(f"A/A {verb}: no base scene takes this edit twice", file=sys.stderr, flush=True)
            continue
        n = settings.rollouts
        # other noise in the second arm: with equal scenes and equal noise there would be nothing to compare
        trials = [Trial(m.spec, (m.base.number, arm * n + r)) for p in pairs for arm, m in enumerate(p) for r in range(n)]
        with bench.rollouts.runner("control", 901, len(trials), f"A/A {verb}") as rollout_fn:
            outcomes = rollout_fn(trials)
        k = np.array([k for k, _ in counts_of(outcomes, n)]).reshape(-1, 2)
        confirmed = 0
        for labelling in range(LABELLINGS):
            first = aa_labels(seed_of("aa", verb, labelling), len(k))
            target, other = np.where(first, k[:, 0], k[:, 1]), np.where(first, k[:, 1], k[:, 0])
            confirmed += control_test(target, other, n, least_drop=settings.least_drop).verdict == "confirmed"
        bench.store(kind="aa", verb=verb, scenes=len(k), confirmed=confirmed, labellings=LABELLINGS, k=k.tolist())
        print(f"A/A {verb}: {confirmed}/{LABELLINGS} confirmed", file=sys.stderr, flush=True)


def prepare(run: Any, folder: Path, who: Mapping[str, Diagnoser]) -> Bench:
    """Fresh scenes after those of every round, of which the policy solves 3 of 4 rollouts: only there can an edit be the cause."""
    first = run.state.used + 10 * (run.config.rounds.bases + run.config.control.most_scenes)
    with SceneSource(run) as source:
        bases = [Base(first + i, source.get(first + i).spec) for i in range(2 * CANDIDATES)]
    rollouts = Rollouts(run, cloning.trained(run).ema)
    trials = [Trial(b.spec, (b.number, 100 + r)) for b in bases for r in range(4)]
    with rollouts.runner("band", 900, len(trials), "base scenes") as rollout_fn:
        outcomes = rollout_fn(trials)
    counts = by_scene(outcomes)
    solved = [b for b in bases if counts[b.number][0] >= 3]
    print(f"{len(solved)} of {len(bases)} fresh scenes are solved in 3 of 4 rollouts or more", file=sys.stderr, flush=True)
    chosen = solved[:CANDIDATES]
    kept = {b.number: b.spec for b in chosen}
    unedited = [Case(kept[o.trial.key[0]], o) for o in outcomes if o.trial.key[0] in kept]
    return Bench(run, rollouts, chosen, folder, who, unedited)
