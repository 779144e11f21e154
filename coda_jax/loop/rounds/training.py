"""A round's training: the policy goes on from its averaged parameters, on demonstrations and its own successes of all rounds."""

from __future__ import annotations

import dataclasses

from coda_jax.evaluation.terminal import Progress
from coda_jax.learning import clone as updates
from coda_jax.learning.policies.base import Params
from coda_jax.learning.steps import Training, TrainState, init_state
from coda_jax.loop import cloning, demonstrations, parts
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
    """Train one block of ``rounds.steps`` updates, a checkpoint and a commit every ``checkpoint.every``."""
    config, policy, training = run.config, parts.policy_of(run.config), training_of(run)
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

        def show(p: updates.Progress) -> None:
            progress.update(p.step, loss=p.motor_loss)
            run.metrics.write(
                "train",
                name="policy",
                step=began + p.step,
                loss=p.motor_loss,
                grounding_loss=p.grounding_loss,
                language_loss=p.language_loss,
            )

        def save(state: TrainState) -> None:
            step = began + int(state.step)
            checksum = run.checkpoints.save(step, state)
            run.charge(f"round_{round_number}")
            run.commit(checkpoint=step, checkpoint_sha256=checksum)

        updates.clone(policy, training, data, words, seed, state, show, save, config.checkpoint.every)
    row = {"done": training.steps, "unit": "updates", "rows": int(data.size)}
    return Finished(row, changes={"blocks": run.state.blocks + 1})
