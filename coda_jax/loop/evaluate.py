"""Evaluation of a policy on the frozen suites: records, film strips, and ``--mode=evaluate``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.evaluation.failures import phase_failed, phase_reached
from coda_jax.evaluation.film import film_strip, pick_steps, write_strip
from coda_jax.evaluation.records import EvalRecord, read_records, tally, write_records
from coda_jax.evaluation.report import write_report
from coda_jax.evaluation.rollouts import Result, rollout
from coda_jax.evaluation.terminal import Progress, print_suites
from coda_jax.loop import parts
from coda_jax.runtime import InputError
from coda_jax.scenes import suites
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim import render
from coda_jax.sim.compile import compile_scene

_HEIGHT, _WIDTH = 120, 160


def suite_scenes(config: settings.Config, suite: str) -> Sequence[SceneSpec]:
    """The frozen scenes of a suite, as many as config.evaluate.scenes asks for (0: all).

    Raises:
      InputError: the suite's file is missing or was made for another catalogue.
    """
    try:
        scenes = suites.load(config.family, suite, config.evaluate.split)
    except suites.SuiteError as error:
        raise InputError(str(error)) from None
    return scenes[: config.evaluate.scenes] if config.evaluate.scenes else scenes


def planned_rollouts(config: settings.Config) -> int:
    """Rollouts of one evaluation."""
    return sum(len(suite_scenes(config, suite)) for suite in config.evaluate.suites)


def evaluate_suites(config: settings.Config, workdir: Path, params: Any, names: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Evaluate suite by suite; records and pictures are on the disk when a suite is yielded with its counts."""
    policy, encoder, sim, catalogue = parts.policy_of(config), parts.encoder_of(), parts.simulator_of(config), Catalogue.all()
    if policy.given_roles:
        raise InputError("config.policy.given_roles is an analysis of benchmarks.cloning: switch it off to evaluate")
    key = jax.random.fold_in(jax.random.key(config.seed), 2)

    def act(observation, keys):
        return policy.sample(params, observation, keys, 1)[:, 0]

    for number, suite in enumerate(names):
        runtime.check_stop()
        scenes = suite_scenes(config, suite)
        episodes = [parts.episode_of(spec, config.horizon, (i, config.seed)) for i, spec in enumerate(scenes)]
        compiled, steps = runtime.compile_count(), sim.physics_steps
        results: list[Result] = []
        with Progress(f"evaluate {suite}", len(episodes), "rollouts") as progress:
            for result in rollout(sim, catalogue, episodes, act, encoder.encode, config.evaluate.executed, key):
                results.append(result)
                progress.advance(1)
        compiles = runtime.compile_count() - compiled
        results.sort(key=lambda r: r.episode.key)
        films = _films(workdir, suite, results, config.evaluate.films)
        write_records(
            workdir,
            [
                EvalRecord(
                    family=config.family,
                    suite=suite,
                    split=config.evaluate.split,
                    moment="after",
                    scene_id=r.episode.spec.scene_id,
                    seed=config.seed,
                    success=r.success,
                    steps=r.steps,
                    phase_failed=None if r.success else phase_failed(r.predicates[:, :6]),
                    instruction=r.episode.spec.task.instruction,
                    health=r.health,
                    film=films.get(i),
                )
                for i, r in enumerate(results)
            ],
        )
        pictures = [_picture(workdir, suite, r) for r in results[:3]]
        outcome = {
            "rollouts": len(results),
            "sim_steps": sim.physics_steps - steps,
            "compiles": compiles,
            "warm": number > 0,
            "pictures": pictures,
        }
        yield suite, outcome


def _films(workdir: Path, suite: str, results: Sequence[Result], count: int) -> dict[int, str]:
    """Film strips of the first few successes and failures; result number to path relative to the run folder."""
    wanted = [i for i, r in enumerate(results) if r.success][:count] + [i for i, r in enumerate(results) if not r.success][:count]
    films = {}
    for i in wanted:
        r = results[i]
        steps = pick_steps(r.steps)
        model = compile_scene(r.episode.spec, Catalogue.all(), parts.BUCKET).model
        frames = render.render(model, np.asarray(r.qpos[steps], np.float64), render.FRONT, height=_HEIGHT, width=_WIDTH, samples=1)
        reached = phase_reached(r.predicates[:, :6])
        captions = [f"{step + 1}: {reached[step]}" for step in steps]
        relative = f"videos/eval_{suite}_{i:03d}.png"
        write_strip(workdir / relative, film_strip(frames, captions, title=r.episode.spec.task.instruction, success=r.success))
        films[i] = relative
    return films


def _picture(workdir: Path, suite: str, result: Result) -> dict[str, str]:
    from PIL import Image

    spec = result.episode.spec
    scene = compile_scene(spec, Catalogue.all(), parts.BUCKET)
    frame = render.render(scene.model, scene.qpos[None], render.FRONT, height=_HEIGHT, width=_WIDTH)[0]
    relative = f"videos/scene_{suite}_{spec.scene_id}.png"
    (workdir / relative).parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(frame).save(workdir / relative)
    return {"scene_id": spec.scene_id, "instruction": spec.task.instruction, "file": relative}


def run(config: settings.Config, workdir: Path, dry_run: bool) -> None:
    """``--mode=evaluate``: the run's newest checkpoint on the suites again, under these ``evaluate`` settings.

    Raises:
      InputError: the run has not trained a policy yet.
    """
    from coda_jax.loop.coevolve import restore_policy
    from coda_jax.loop.commit import COMMIT

    print(f"{planned_rollouts(config)} rollouts of {config.evaluate.split} suites, {config.evaluate.executed} actions of each chunk")
    if dry_run:
        return
    path = workdir / COMMIT
    state = json.loads(path.read_text("utf-8"))["state"] if path.exists() else {}
    if not state.get("clone", {}).get("done"):
        raise InputError(f"{workdir} has no trained policy yet: run --mode=run with this workdir first")
    params = restore_policy(config, workdir, int(state["demonstrations"]["blocks"]))
    for _ in evaluate_suites(config, workdir, params, list(config.evaluate.suites)):
        pass
    print_suites(tally(read_records(workdir), config.evaluate.split))
    print(f"report: {write_report(workdir)}")
