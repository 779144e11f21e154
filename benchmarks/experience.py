"""What recorded experience costs: ``python -m benchmarks.experience [--episodes=500]``.

Bytes of an episode on disk and in the table, seconds to pack the table and to draw candidates for all of its decisions. The peer of the
candidates is the policy called for one block of worlds after the other, as rollouts do it; CPU time is compared, since a machine may be
busy. One JSON object a line to stdout.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

from absl import app, flags

from coda_jax import config as settings
from coda_jax import runtime

_EPISODES = flags.DEFINE_integer("episodes", 500, "Episodes of the table.", lower_bound=16)
_RECORDED = flags.DEFINE_integer(
    "recorded", 64, "Episodes that are rolled out and demonstrated, and repeated to fill the table.", lower_bound=2
)
_CANDIDATES = flags.DEFINE_integer("candidates", 4, "Candidates of each decision.", lower_bound=1)


def main(arguments: list[str]) -> None:
    if len(arguments) > 1:
        raise app.UsageError(f"unknown argument {arguments[1]!r}")
    runtime.setup()
    import jax
    import numpy as np

    from coda_jax.agents.base import Trial
    from coda_jax.evaluation.trials import TrialRunner
    from coda_jax.learning import experience as table
    from coda_jax.learning.records import EpisodeRecord, sparse_labels
    from coda_jax.loop import demonstrations, evaluation, parts
    from coda_jax.loop.rounds import outcomes as stored
    from coda_jax.scenes.catalogue import Catalogue
    from coda_jax.scenes.generate import sample_spec
    from coda_jax.sim.demonstrate import demonstrate
    from coda_jax.sim.observe import words_and_roles
    from coda_jax.sim.simulator import episode_of

    config, catalogue, train = settings.default(), Catalogue.all(), Catalogue("train")
    encoder, policy = parts.encoder_of(), parts.policy_of(settings.default())
    params = policy.init(jax.random.key(0))
    specs = [sample_spec(train, "pick_place", "id", "train", seed) for seed in range(_RECORDED.value)]
    base = parts.simulator(config, catalogue, parts.training_bucket(train))
    sim, act = evaluation.acting(policy, params, base, catalogue)
    runner = TrialRunner(
        sim, catalogue, act, encoder.encode, config.evaluate.executed, parts.horizon_of(config), jax.random.key(0), record=True
    )
    outcomes = runner([Trial(spec, (i, 0)) for i, spec in enumerate(specs)])
    jobs = [episode_of(spec, config.horizon.pick_place, (i, 0)) for i, spec in enumerate(specs)]
    demos = [t for t in demonstrate(base, catalogue, jobs, parts.planner_of(config), parts.noise_of(config), 0) if t.success]

    def report(name: str, value: float, unit: str, **more) -> None:
        record = {"name": name, "value": value, "unit": unit, "device": runtime.device_summary(), "versions": runtime.versions(), **more}
        print(json.dumps(record), flush=True)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "episodes" / "file.npz"
        path.parent.mkdir()
        for name, save, episodes, steps in (
            ("rollouts", lambda: stored.save(path, outcomes), len(outcomes), sum(o.steps for o in outcomes)),
            ("demonstrations", lambda: demonstrations.store(path, demos, catalogue), len(demos), sum(len(t.actions) for t in demos)),
        ):
            began = time.perf_counter()
            save()
            mean = steps / episodes
            report(
                f"{name}_on_disk",
                round(path.stat().st_size / episodes),
                "bytes/episode",
                mean_steps=round(mean, 1),
                save_ms=round(1e3 * (time.perf_counter() - began) / episodes, 2),
            )

    records = []
    for o in outcomes:
        assert o.recorded is not None
        records.append(
            EpisodeRecord(
                o.recorded.views,
                np.clip(o.actions, -1, 1),
                o.recorded.executed,
                0,
                o.success,
                "targeted",
                *words_and_roles(o.trial.spec, catalogue),
                1.0,
                o.recorded.chunks,
            )
        )
    records = [records[i % len(records)] for i in range(_EPISODES.value)]
    labels = [sparse_labels(r) for r in records]
    began, cpu = time.perf_counter(), time.process_time()
    whole = table.build(records, labels, encoder.encode, policy.chunk, _CANDIDATES.value)
    jax.block_until_ready(whole)
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(whole))
    wall_s, cpu = time.perf_counter() - began, time.process_time() - cpu
    report(
        "build",
        round(cpu, 2),
        "CPU s",
        wall_s=round(wall_s, 2),
        episodes=len(records),
        rows=int(whole.size),
        padded_rows=len(whole.episode),
    )
    report("table", round(size / len(records)), "bytes/episode", bytes=size)
    began = time.perf_counter()
    whole = table.refresh_candidates(policy, params, whole, jax.random.key(1))
    jax.block_until_ready(whole.candidates)
    compile_s = time.perf_counter() - began
    began, cpu = time.perf_counter(), time.process_time()
    whole = table.refresh_candidates(policy, params, whole, jax.random.key(1))
    jax.block_until_ready(whole.candidates)
    wall_s, taken = time.perf_counter() - began, time.process_time() - cpu
    worlds, rows = config.sim.worlds, int(whole.size)
    keys = jax.random.split(jax.random.key(2), worlds)
    blocks = [table.observation(whole, np.arange(i, i + worlds)) for i in range(0, rows - worlds, worlds)]
    jax.block_until_ready(policy.sample(params, blocks[0], keys, _CANDIDATES.value))
    cpu = time.process_time()
    for seen in blocks:
        np.asarray(policy.sample(params, seen, keys, _CANDIDATES.value))
    peer = (time.process_time() - cpu) * rows / (len(blocks) * worlds)
    more = {"rows": rows, "candidates": _CANDIDATES.value, "wall_s": round(wall_s, 2), "compile_s": round(compile_s, 2)}
    more |= {"peer": f"{worlds} decisions a call", "peer_value": round(peer, 2), "ratio": round(peer / taken, 2)}
    report("candidates", round(taken, 2), "CPU s", **more)


if __name__ == "__main__":
    app.run(main)
