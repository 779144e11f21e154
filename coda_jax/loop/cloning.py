"""Stage "clone": the policy learns from the stored demonstrations, a checkpoint and a commit every ``checkpoint.every`` updates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from coda_jax import config as settings
from coda_jax.evaluation.terminal import Progress
from coda_jax.learning import clone as cloning
from coda_jax.learning.dataset import Dataset, Demonstration, build
from coda_jax.learning.encoders.minilm import TextEncoder
from coda_jax.learning.policies.grounding import LanguageSet, language_set
from coda_jax.learning.steps import TrainState, init_state
from coda_jax.loop import demonstrations, parts, pictures
from coda_jax.loop import language_set as phrases
from coda_jax.loop.checkpoint import CheckpointError, committed
from coda_jax.loop.journal import Commit
from coda_jax.loop.run import CHECKPOINTS, Run
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue

NAME = "clone"
_MULTIPLE = 256  # rows of the language set are padded to it


def dataset(config: settings.Config, demos: Sequence[Demonstration], encoder: TextEncoder) -> Dataset:
    """The table of the demonstrations, with room for as many as the run collects: its shapes are known before there are any."""
    most = parts.most_demonstrations(config)
    return build(demos, encoder.encode, least_rows=most * settings.longest_horizon(config), least_episodes=most)


def language(config: settings.Config, catalogue: Catalogue, encoder: TextEncoder) -> LanguageSet | None:
    """Instructions without scenes, or None where ``clone.language_batch`` is 0."""
    if not config.clone.language_batch:
        return None
    drawn = config.language
    chosen = phrases.phrases(catalogue, settings.families(config), drawn.phrases, drawn.two_goals, config.seed)
    return language_set(chosen, phrases.names(catalogue, settings.families(config)), encoder.encode, _MULTIPLE)


def template(config: settings.Config, step: int) -> TrainState:
    """Shapes of the training state of checkpoint ``step``, for restoring it without its data; only rounds train adapters."""
    policy, training = parts.policy_of(config), parts.training_of(config)

    def state(key: jax.Array) -> TrainState:
        params = policy.init(key)
        return init_state(policy, training, parts.adapted(config, params) if step > config.clone.steps else params)

    return jax.eval_shape(state, jax.random.key(0))


def trained(run: Run) -> TrainState:
    """The committed training state of a run that has cloned.

    Raises:
      InputError: it has not.
    """
    step = run.state.checkpoint
    if step is None:
        raise InputError(f"{run.folder} has no trained policy yet: let --mode=run go on with this workdir")
    return run.checkpoints.restore(template(run.config, step), step).tree


def committed_state(config: settings.Config, workdir: Path, commit: Commit) -> TrainState:
    """The training state that a commit names, without opening the run for writing.

    Raises:
      CheckpointError: it is gone, damaged, not the one that was committed, or of other settings.
    """
    if commit.checkpoint is None:
        raise CheckpointError(f"{workdir} has no committed checkpoint: let --mode=run go on with this workdir")
    shapes = template(config, commit.checkpoint)
    return committed(workdir / CHECKPOINTS, config.checkpoint.keep, shapes, commit.checkpoint, commit.checkpoint_sha256)


def run(run: Run) -> dict[str, Any]:
    """Train until ``clone.steps``; returns what the stage's row says."""
    config, policy, training = run.config, parts.policy_of(run.config), parts.training_of(run.config)
    data = dataset(config, demonstrations.load(run.folder, run.state), run.encoder)
    words = language(config, run.train, run.encoder)
    seen = pictures.table(run) if config.obs == "pixels" else None
    state = cloning.start(policy, training, data, config.seed)
    if run.state.checkpoint is not None:
        state = run.checkpoints.restore(state, run.state.checkpoint).tree
    first = int(state.step)
    with Progress(NAME, training.steps, "updates") as progress:
        progress.skip(first)

        def show(p: cloning.Progress) -> None:
            progress.update(p.step, loss=p.motor_loss)
            run.metrics.write(
                "train", name="policy", step=p.step, loss=p.motor_loss, grounding_loss=p.grounding_loss, language_loss=p.language_loss
            )

        def save(state: TrainState) -> None:
            step = int(state.step)
            checksum = run.checkpoints.save(step, state)
            run.charge(NAME)
            run.commit(checkpoint=step, checkpoint_sha256=checksum)

        cloning.clone(policy, training, data, words, config.seed, state, show, save, config.checkpoint.every, seen)
    return {"done": training.steps, "unit": "updates"}
