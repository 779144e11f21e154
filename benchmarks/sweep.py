"""A sweep against a plain loop over the usual evaluation: ``python -m benchmarks.sweep [--checkpoints=20] [--scenes=50]``.

A run of its own clones a policy and keeps a checkpoint every few updates. Then, in the same process: every checkpoint at every
temperature in one batch of worlds (evaluation/sweep.py), stacked and exact, and the same rollouts by one evaluation after the other. Unit:
rollouts a minute of wall time; compiling, and settling scenes for the first time, apart for all three. Where the time went, the
policy's part alone, and in how many verdicts each differs from the loop are told too. A table goes to stderr, one JSON object a line to
stdout.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from absl import app, flags, logging

from coda_jax import config as settings
from coda_jax import runtime

_CHECKPOINTS = flags.DEFINE_integer("checkpoints", 20, "Checkpoints of one cloning.", lower_bound=2)
_UPDATES = flags.DEFINE_integer("updates", 1000, "Updates of the cloning.", lower_bound=20)
_DEMOS = flags.DEFINE_integer("demos", 100, "Demonstrations that it learns from.", lower_bound=1)
_TEMPERATURES = flags.DEFINE_list("temperatures", ["0", "0.5", "1"], "Temperatures.")
_SCENES = flags.DEFINE_integer("scenes", 50, "Scenes of the suite.", lower_bound=1)
_WORLDS = flags.DEFINE_integer("worlds", 64, "Worlds stepped together, in the sweep and in the loop.", lower_bound=1)
_BLOCK = flags.DEFINE_integer("block", 16, "Worlds of one policy that decide together in the stacked sweep.", lower_bound=1)
_SUITE = flags.DEFINE_string("suite", "id", "Suite, validation split.")
_FAMILY = flags.DEFINE_string("family", "pick_place", "Family of tasks.")
_FOLDER = flags.DEFINE_string("folder", "", "Run folder of the cloning, kept and used again; a temporary one where left out.")
_DECISIONS = flags.DEFINE_integer("decisions", 20, "Decisions timed for the policy's part alone.", lower_bound=1)


@dataclasses.dataclass(frozen=True)
class Measured:
    """seconds: wall, shares: of it. verdicts: by (cell, episode key)."""

    seconds: float
    cpu_s: float
    first_s: float
    shares: dict[str, float]
    verdicts: dict[tuple, bool]


def configuration() -> settings.Config:
    """Of the run whose checkpoints are swept."""
    config = settings.default()
    config.family = _FAMILY.value
    config.demos.count = _DEMOS.value
    config.clone.steps = _UPDATES.value
    config.checkpoint.every, config.checkpoint.keep = _UPDATES.value // _CHECKPOINTS.value, _CHECKPOINTS.value
    config.evaluate.suites, config.evaluate.scenes, config.evaluate.films = (_SUITE.value,), 1, 0
    config.scenes.pictures = 0
    return config


def measure(play: Callable[..., Any], whole: int) -> Measured:
    """``play(timings, most)`` yields ((cell, key), success): first a little of it, to compile and settle, then all of it."""
    from coda_jax.evaluation.results import Timings

    began = time.perf_counter()
    dict(play(Timings(), 1))
    first_s = time.perf_counter() - began
    timings, began, cpu = Timings(), time.perf_counter(), time.process_time()
    verdicts = dict(play(timings, whole))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    shares = {
        name: round(value / seconds, 3)
        for name, value in (("physics", timings.physics_s), ("policy", timings.policy_s), ("refill", timings.refill_s))
    }
    return Measured(seconds, cpu, first_s, shares, verdicts)


class Sum:
    """Timings of several rollouts as one."""

    def __init__(self, total: Any):
        self.total = total

    def add(self, own: Any) -> None:
        for field in dataclasses.fields(own):
            setattr(self.total, field.name, getattr(self.total, field.name) + getattr(own, field.name))


def main(arguments: list[str]) -> None:
    if len(arguments) > 1:
        raise app.UsageError(f"unknown argument {arguments[1]!r}")
    runtime.setup()
    logging.set_verbosity(logging.WARNING)  # of the libraries
    with tempfile.TemporaryDirectory() as temporary:
        compare(Path(_FOLDER.value or Path(temporary) / "run"))


def compare(folder: Path) -> None:
    import jax

    from coda_jax.evaluation.results import Timings
    from coda_jax.evaluation.rollouts import rollout
    from coda_jax.evaluation.sweep import Cell, sweep_suite
    from coda_jax.loop import coevolve, evaluation, parts, sweep
    from coda_jax.loop import workdir as folders
    from coda_jax.loop.shared_rollouts import rollout_key
    from coda_jax.scenes.catalogue import Catalogue
    from coda_jax.sim.simulator import episode_of

    config, catalogue, encoder = configuration(), Catalogue.all(), parts.encoder_of()
    with contextlib.redirect_stdout(sys.stderr), folders.open_run(folder, config):
        coevolve.run(config, folder, dry_run=False)
    config.evaluate.scenes, config.sim.worlds = _SCENES.value, _WORLDS.value
    policies = sweep.kept(config, folder, ())
    params = [sweep.parameters(one) for one in policies]
    policy, horizon = parts.policy_of(config), parts.horizon_of(config)
    specs = evaluation.chosen_scenes(config)[_SUITE.value]
    episodes = [episode_of(s, horizon(s), (i, 0)) for i, s in enumerate(specs)]
    bucket = parts.common_bucket(specs, catalogue)
    key, executed = rollout_key(config.seed, _SUITE.value), config.evaluate.executed
    cells = [Cell(number, float(t)) for number in range(len(policies)) for t in _TEMPERATURES.value]
    ones = {t: jax.numpy.full(config.sim.worlds, t) for t in {c.temperature for c in cells}}

    def swept(block: int) -> Callable:
        sim = parts.simulator(config, catalogue, bucket)

        def play(timings: Timings, most: int):
            found = sweep_suite(
                policy, params, cells[:most], episodes, sim, catalogue, encoder.encode, executed, key, block, timings=timings
            )
            for cell, result in found:
                yield (cell, result.episode.key), result.success

        return play

    def looped(fresh: bool) -> Callable:
        """fresh: a simulator for each evaluation, as a process for each would have; else one for all."""
        kept_one = parts.simulator(config, catalogue, bucket)

        def play(timings: Timings, most: int):
            total = Sum(timings)
            for number, cell in enumerate(cells[:most]):
                sim = parts.simulator(config, catalogue, bucket) if fresh else kept_one
                own, warmth = Timings(), ones[cell.temperature]
                act = lambda obs, keys, c=cell, w=warmth: policy.sample(params[c.policy], obs, keys, 1, None, w)[:, 0]  # noqa: E731
                for result in rollout(sim, catalogue, episodes, act, encoder.encode, executed, key, own):
                    yield (number, result.episode.key), result.success
                total.add(own)

        return play

    rollouts = len(cells) * len(episodes)
    plans = {"loop": looped(False), "loop, simulator each": looped(True), "stacked": swept(_BLOCK.value), "exact": swept(0)}
    found: dict[str, Measured] = {}
    for name, play in plans.items():
        found[name] = measure(play, len(cells))
        print(
            f"{name:<22} {found[name].seconds:7.1f} s wall, {found[name].cpu_s:7.1f} s CPU, {found[name].shares}",
            file=sys.stderr,
            flush=True,
        )
    alone = policy_alone(policy, params, config, _DECISIONS.value)
    device, versions = runtime.device_summary(), runtime.versions()
    for name in ("stacked", "exact"):
        own, peer = found[name], found["loop"]
        differing = [key for key in peer.verdicts if own.verdicts[key] != peer.verdicts[key]]
        record = {
            "name": f"sweep_{name}",
            "value": round(60 * rollouts / own.seconds, 1),
            "unit": "rollouts/min",
            "device": device,
            "substeps": 20,
            "worlds": config.sim.worlds,
            "versions": versions,
            "compile_s": round(own.first_s, 2),
            "checkpoints": len(policies),
            "temperatures": len(_TEMPERATURES.value),
            "rollouts": rollouts,
            "shares": own.shares,
            "cpu_s": round(own.cpu_s, 1),
            "peer": "loop over the usual evaluation, one simulator",
            "peer_value": round(60 * rollouts / peer.seconds, 1),
            "peer_shares": peer.shares,
            "peer_cpu_s": round(peer.cpu_s, 1),
            "ratio": round(peer.seconds / own.seconds, 2),
            "cpu_ratio": round(peer.cpu_s / own.cpu_s, 2),
            "ratio_to_a_simulator_each": round(found["loop, simulator each"].seconds / own.seconds, 2),
            "cpu_ratio_to_a_simulator_each": round(found["loop, simulator each"].cpu_s / own.cpu_s, 2),
            "verdicts_differing": len(differing),
            "successes": sum(own.verdicts.values()),
            "peer_successes": sum(peer.verdicts.values()),
            "policy_alone_ms": alone,
        }
        print(json.dumps(record), flush=True)
        print(
            f"sweep, {name}: {record['value']} rollouts/min, loop {record['peer_value']}, ratio {record['ratio']} "
            f"(CPU {record['cpu_ratio']}); "
            f"{len(differing)} of {rollouts} verdicts differ",
            file=sys.stderr,
        )


def policy_alone(policy: Any, params: list, config: settings.Config, repeats: int) -> dict[str, float]:
    """CPU ms of deciding once for a full batch in which as many policies as there are have a world: stacked, and one after the other."""
    import jax
    import numpy as np

    from benchmarks.decisions import observation, timed
    from coda_jax.learning.policies.stacked import sample_stacked, stack

    worlds, stacked = config.sim.worlds, stack(params)
    obs, keys = observation(worlds, policy.text_dim), jax.random.split(jax.random.key(0), worlds)
    warmth, all_of_them = np.ones(worlds, np.float32), np.ones(worlds, bool)

    def mixed(policies: int) -> Callable:
        own = np.sort(np.arange(worlds) % policies)
        return lambda: sample_stacked(policy, stacked, own, all_of_them, min(_BLOCK.value, worlds), obs, keys, warmth)

    def each(policies: int) -> Callable:
        return lambda: [policy.sample(p, obs, keys, 1, None, warmth) for p in params[:policies]]

    counts = sorted({1, 2, len(params)})
    found = {f"stacked_{n}": timed(mixed(n), repeats)[1] for n in counts} | {f"each_{n}": timed(each(n), repeats)[1] for n in counts}
    return {name: round(ms, 2) for name, ms in found.items()}


if __name__ == "__main__":
    app.run(main)
