"""A round's training: the policy goes on from its averaged parameters, on demonstrations and on its own decisions or successes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from coda_jax import runtime
from coda_jax.evaluation.terminal import Progress
from coda_jax.learning import clone as updates
from coda_jax.learning.awr import LEAST_DEMONSTRATIONS, METRICS, policy_steps
from coda_jax.learning.dataset import Dataset
from coda_jax.learning.policies.base import Params
from coda_jax.learning.policies.grounding import LanguageSet
from coda_jax.learning.steps import Training, TrainState, init_state
from coda_jax.loop import cloning, demonstrations, improvement, parts, scales, tables
from coda_jax.loop.rounds import critic
from coda_jax.loop.run import Finished, Run


def training_of(run: Run) -> Training:
    """Settings of one round's updates: those of cloning with the round's own length and rate."""
    rounds = run.config.rounds
    return dataclasses.replace(
        parts.training_of(run.config), steps=rounds.steps, learning_rate=rounds.learning_rate, warmup=min(rounds.warmup, rounds.steps - 1)
    )


def begin(run: Run, params: Params) -> TrainState:
    """The state before a block's first update: ``params`` go on, with adapters where ``lora.rank`` asks for them."""
    return init_state(parts.policy_of(run.config), training_of(run), parts.adapted(run.config, params))


def run_stage(run: Run, round_number: int) -> Finished:
    """Train one block of ``rounds.steps`` updates, a checkpoint and a commit every ``checkpoint.every``.

    Cloning and, where a critic learns, its weighted decisions (METHOD 4); a frozen policy is left as it is.
    """
    if run.config.awr.improve == "frozen":
        return Finished({"done": 0, "unit": "updates"}, changes={"blocks": run.state.blocks + 1})
    config, training = run.config, training_of(run)
    began = config.clone.steps + run.state.blocks * config.rounds.steps
    data = cloning.dataset(config, demonstrations.load(run.folder, run.state), run.encoder)
    words = cloning.language(config, run.train, run.encoder)
    state = cloning.trained(run)
    assert run.state.checkpoint is not None, "cloning commits its last state"
    if run.state.checkpoint == began:
        state = begin(run, state.ema)
    seed = (config.seed + 1_000_003 * (1 + run.state.blocks)) % 2**32  # other batches than in earlier blocks
    with Progress(f"round {round_number}, training", training.steps, "updates") as progress:
        progress.skip(int(state.step))

        def show(step: int, loss: float, row: dict[str, float]) -> None:
            progress.update(step, loss=loss)
            run.metrics.write("train", name="policy", step=began + step, loss=loss, **row)

        def save(state: TrainState) -> None:
            step = began + int(state.step)
            checksum = run.checkpoints.save(step, state)
            run.charge(f"round_{round_number}")
            run.commit(checkpoint=step, checkpoint_sha256=checksum)

        if parts.learns(config):
            _weighted(run, round_number, training, began, data, words, seed, state, show, save)
        else:
            _cloned(run, training, data, words, seed, state, show, save)
    row = {"done": training.steps, "unit": "updates", "rows": int(data.size)}
    return Finished(row, changes={"blocks": run.state.blocks + 1})


Show = Callable[[int, float, dict[str, float]], None]
Save = Callable[[TrainState], None]


def _cloned(
    run: Run, training: Training, data: Dataset, words: LanguageSet | None, seed: int, state: TrainState, show: Show, save: Save
) -> None:
    def shown(p: updates.Progress) -> None:
        show(p.step, p.motor_loss, {"grounding_loss": p.grounding_loss, "language_loss": p.language_loss})

    policy = parts.policy_of(run.config)
    updates.clone(policy, training, data, words, seed, state, shown, save, run.config.checkpoint.every)


def _weighted(
    run: Run,
    round_number: int,
    training: Training,
    began: int,
    data: Dataset,
    words: LanguageSet | None,
    seed: int,
    state: TrainState,
    show: Show,
    save: Save,
) -> None:
    """Updates on demonstrations and weighted decisions, with what the scale doctor says of them."""
    config, policy, awr = run.config, parts.policy_of(run.config), improvement.awr_of(run.config)
    whole, weights = tables.table_of(run, round_number), critic.weights_of(run, round_number)
    judge = critic.judge_of(run)
    assert judge is not None, "the critic's stage comes first"
    counts = jnp.asarray(tables.counts_of(run, round_number, config.awr.shares, training.batch, LEAST_DEMONSTRATIONS), jnp.int32)
    key, step = jax.random.fold_in(jax.random.key(seed), 1), int(state.step)
    while step < training.steps:
        runtime.check_stop()
        count = min(updates.BLOCK, training.steps - step, config.checkpoint.every - step % config.checkpoint.every)
        state, measured = policy_steps(
            policy, training, awr, state, data, whole, counts, weights, judge.clone, words, key, jnp.asarray(count, jnp.int32)
        )
        step += count
        row = dict(zip(METRICS, np.asarray(measured).tolist(), strict=True))
        if not np.isfinite(row["loss"]):
            raise updates.DivergedError(f"the policy's loss is {row['loss']} at update {step}: lower config.rounds.learning_rate")
        show(step, row["motor_demonstrations"], {name: row[name] for name in METRICS if name != "loss"} | {"total": row["loss"]})
        if step % config.checkpoint.every == 0 or step == training.steps:
            save(state)
    rows = scales.updates(run, "policy", began, began + training.steps)
    scales.report(run, "policy", round_number, scales.of_policy(rows, training.clip_norm))
