"""Closed-loop rollouts with the policy in the loop: ``python -m benchmarks.rollouts [--episodes=256]``.

Unit: episodes of 80 control steps a minute and core. The peer is a plain Python loop over ``mj_step``, with the
same controller and policy.
A table goes to stderr, one JSON object a line to stdout.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from typing import Any

from absl import app, flags

from coda_jax import config as settings
from coda_jax import runtime

STEPS = 80
_EPISODES = flags.DEFINE_integer("episodes", 256, "Episodes of each measurement.", lower_bound=16)
_PEER = flags.DEFINE_integer("peer_episodes", 4, "Episodes of the one-world loop.", lower_bound=1)


def _parts(bucket, candidates: int):
    import jax

    from coda_jax.loop import parts
    from coda_jax.programs.expressions import Expr
    from coda_jax.scenes import generate
    from coda_jax.scenes.catalogue import Catalogue
    from coda_jax.sim.compile import bucket_of
    from coda_jax.sim.simulator import Episode, episode_of

    config, catalogue = settings.default(), Catalogue.all()
    policy = parts.policy_of(config)
    params = policy.init(jax.random.key(0))
    specs, seed = [], 0
    while len(specs) < 64:
        spec = generate.sample_spec(Catalogue("train"), "pick_place", "id", "train", seed)
        seed += 1
        need = bucket_of(spec, catalogue)
        if need.free <= bucket.free and need.geoms <= bucket.geoms:
            specs.append(spec)
    never = Expr("at_least", (Expr("height_above", ("gripper", "table")), 1.9))  # episodes of full length
    episodes = [
        Episode(s, (never, *(e for e in episode_of(s, STEPS, (0, 0)).predicates[1:])), STEPS, (i, 0))
        for i, s in ((i, specs[i % len(specs)]) for i in range(_EPISODES.value))
    ]

    def act(observation, keys):
        return policy.sample(params, observation, keys, candidates)[:, 0]

    return config, catalogue, act, parts.encoder_of().encode, episodes


def batched(bucket, job) -> dict[str, Any]:
    """One measurement of the batch: episodes/min/core from the process's CPU time, and where the wall time went.

    recorded: the same with every moment kept, as a share of the plain rate.
    """
    import jax

    from coda_jax.evaluation.results import Timings
    from coda_jax.evaluation.rollouts import rollout
    from coda_jax.sim.native import NativeSimulator

    config, catalogue, act, embed, episodes = job
    sim = NativeSimulator(catalogue, bucket, 64)
    executed, key = config.evaluate.executed, jax.random.key(0)
    began = time.perf_counter()
    list(rollout(sim, catalogue, episodes[:64], act, embed, executed, key))
    warm_s = time.perf_counter() - began
    timings, cpu = Timings(), time.process_time()
    n = len(list(rollout(sim, catalogue, episodes, act, embed, executed, key, timings)))
    cpu = time.process_time() - cpu
    recorded_cpu = time.process_time()
    for _ in rollout(sim, catalogue, episodes, act, embed, executed, key, record=True):
        pass
    recorded_cpu = time.process_time() - recorded_cpu
    shares = {k: round(v / timings.total_s, 3) for k, v in dataclasses.asdict(timings).items() if k != "total_s"}
    return {"value": 60 * n / cpu, "shares": shares, "recorded": cpu / recorded_cpu, "warm_s": warm_s}


def one_world(bucket, job) -> float:
    """Episodes/min/core of a plain loop over ``mj_step``, closed on its own state."""
    import jax
    import mujoco
    import numpy as np

    from coda_jax.sim import control
    from coda_jax.sim.compile import compile_scene
    from coda_jax.sim.observe import observe, scene_texts
    from coda_jax.sim.state import ViewBuilder
    from coda_jax.types import SUBSTEPS, TOKENS

    config, catalogue, act, embed, episodes = job
    key = jax.random.split(jax.random.key(0), 1)

    def play(episode) -> None:
        scene = compile_scene(episode.spec, catalogue, bucket)
        model, data = scene.model, mujoco.MjData(scene.model)
        hand, builder = model.body("hand").id, ViewBuilder(bucket, [scene])

        def see(step: int, start):
            mujoco.mj_fwdPosition(model, data)
            mujoco.mj_sensorPos(model, data)
            qpos, qvel, sensors, ee_pos, ee_quat = (
                a[None] for a in (data.qpos, data.qvel, data.sensordata, data.site_xpos[0], data.xquat[hand])
            )
            return builder.build(qpos, qvel, sensors, ee_pos, ee_quat, np.array([step], np.int32), start)

        data.qpos[:] = scene.qpos
        data.ctrl[:] = scene.robot.home_command
        words, instruction = scene_texts(episode.spec, catalogue)
        text = np.zeros((1, TOKENS, 384), np.float32)
        text[0, [bool(w) for w in words]] = embed([w for w in words if w])
        sentence = embed([instruction])
        view = see(0, None)
        for start in range(0, STEPS, config.evaluate.executed):
            chunk = np.asarray(act(observe(view, text, sentence), key))
            for i in range(min(config.evaluate.executed, STEPS - start)):
                ramp = control.control_ramp(scene.robot, data.qpos[None, :7], data.ctrl[None], chunk[:, i].astype(np.float64))
                for step in range(SUBSTEPS):
                    data.ctrl[:] = ramp[0, step]
                    mujoco.mj_step(model, data)
                view = see(start + i + 1, view)

    play(episodes[0])
    cpu = time.process_time()
    for episode in episodes[: _PEER.value]:
        play(episode)
    return 60 * _PEER.value / (time.process_time() - cpu)


def main(arguments: list[str]) -> None:
    if len(arguments) > 1:
        raise app.UsageError(f"unknown argument {arguments[1]!r}")
    runtime.setup()
    from coda_jax.sim.bucket import Bucket

    for bucket, candidates in ((Bucket(4, 3), 1), (Bucket(4, 3), 4), (Bucket(2, 3), 1), (Bucket(6, 3), 1), (Bucket(6, 6), 1)):
        job = _parts(bucket, candidates)
        row = batched(bucket, job)
        peer = one_world(bucket, job) if candidates == 1 else None
        record = {
            "name": f"rollouts_{bucket.name}_j{candidates}",
            "value": round(row["value"], 1),
            "unit": "episodes/min/core",
            "device": runtime.device_summary(),
            "substeps": 20,
            "worlds": 64,
            "versions": runtime.versions(),
            "compile_s": round(row["warm_s"], 2),
            "recorded": round(row["recorded"], 3),
            "shares": row["shares"],
        }
        if peer:
            record |= {"peer": "one-world mj_step loop", "peer_value": round(peer, 1), "ratio": round(row["value"] / peer, 2)}
        print(json.dumps(record), flush=True)
        print(
            f"{record['name']:<18} {record['value']:>8} episodes/min/core, peer {record.get('peer_value')}, "
            f"recorded {record['recorded']}, {row['shares']}",
            file=sys.stderr,
        )


if __name__ == "__main__":
    app.run(main)
