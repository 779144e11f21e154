"""Stage "critic": the critic learns from everything that was recorded, then weighs each decision of the policy (METHOD 3, 4)."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.evaluation.terminal import Progress
from coda_jax.learning import lora, scale_doctor
from coda_jax.learning.actor import check_met, selection_logits
from coda_jax.learning.awr import WEIGHT_METRICS, Spread, decision_weights, init_spread
from coda_jax.learning.clone import DivergedError
from coda_jax.learning.critic.steps import CriticState
from coda_jax.learning.experience import Experience, refresh_candidates
from coda_jax.learning.policies.base import Params
from coda_jax.loop import cloning, improvement, parts, scales, tables
from coda_jax.loop.journal import file_sha256
from coda_jax.loop.recordings import UNREADABLE, read, write
from coda_jax.loop.rounds import potentials
from coda_jax.loop.run import Finished, Run
from coda_jax.programs.training.code import code
from coda_jax.runtime import InputError
from coda_jax.types import Array, _pytree

_CANDIDATES, _TRAINING, _SHIFT = 11, 12, 13  # streams of the seed


@_pytree
class Judge:
    """What a critic's checkpoint holds. critic: its training state. clone: parameters of the policy before the first round, from which
    drift is measured."""

    critic: CriticState
    clone: Params


def start(config: settings.Config, params: Params) -> Judge:
    """Before the first round: a fresh critic that reads words and scales actions as the policy does."""
    return Judge(improvement.start_critic(config, params, config.seed), jax.tree.map(jnp.copy, params))


def template(config: settings.Config) -> Judge:
    """Shapes of a checkpoint."""
    policy = parts.policy_of(config)
    return jax.eval_shape(lambda key: start(config, policy.init(key)), jax.random.key(0))


def judge_of(run: Run) -> Judge | None:
    """The committed critic, None before the first one.

    Raises:
      InputError: it holds numbers that are not finite.
    """
    step = run.state.critic
    if step is None:
        return None
    judge: Judge = run.critics.restore(template(run.config), step).tree
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(judge)):
        raise InputError(f"the critic of update {step} in {run.folder} holds numbers that are not finite; choose another --workdir")
    return judge


def key_of(run: Run, round_number: int, stream: int) -> jax.Array:
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(run.config.seed), 1000 + stream), round_number)


def run_stage(run: Run, round_number: int) -> Finished:
    """Draw candidates, train ``critic.steps`` updates with a checkpoint and a commit every ``checkpoint.every``, weigh the decisions.

    Raises:
      DivergedError: the loss is not finite; nothing of that block is committed.
    """
    config, policy = run.config, parts.policy_of(run.config)
    acting = lora.merged(cloning.trained(run).ema)
    whole = refresh_candidates(policy, acting, tables.table_of(run, round_number), key_of(run, round_number, _CANDIDATES))
    tables.keep(run, round_number, whole)
    counts = tables.counts_of(run, round_number, config.critic.shares, config.critic.batch)
    if {config.actor.collect, config.actor.evaluate} != {"policy"}:
        _require_met(run, round_number, whole)
    judge = judge_of(run) or start(config, acting)
    if run.state.critic_round != round_number:
        judge = _carried_over(run, round_number, judge, whole, counts)
        begun = {"critic_round": round_number, "critic_until": int(judge.critic.step) + config.critic.steps}
        if run.state.critic == int(judge.critic.step):  # as it was committed: saved again, a kill in between would leave no commit a critic
            run.charge(f"round_{round_number}")
            run.commit(**begun)
        else:
            _save(run, round_number, judge, **begun)
    until, first = run.state.critic_until, run.state.critic_until - config.critic.steps
    with Progress(f"round {round_number}, critic", config.critic.steps, "updates") as progress:
        step = int(judge.critic.step)
        progress.skip(step - first)

        def show(step: int, row: dict[str, float]) -> None:
            runtime.check_stop()
            if not np.isfinite(row["loss"]):
                raise DivergedError(f"the critic's loss is {row['loss']} at update {step}: lower config.critic.learning_rate")
            progress.update(step - first, loss=row["loss"])
            run.metrics.write("train", name="critic", step=step, **row)

        while step < until:
            step = min(step + config.checkpoint.every, until)
            state = improvement.train_critic(config, judge.critic, whole, counts, key_of(run, round_number, _TRAINING), step, show)
            judge = dataclasses.replace(judge, critic=state)
            _save(run, round_number, judge)
    values = improvement.values_of(config, judge.critic.params, whole)
    advantages = improvement.advantages_of(config, whole, values)
    weights, spread, measured = decision_weights(improvement.awr_of(config), _spread(run, round_number - 1), whole, advantages)
    path = _file(round_number)
    write(run.folder / path, {"weights": np.asarray(weights), "sd": np.asarray(spread.sd), "seen": np.asarray(spread.seen)}, compress=False)
    _report(run, round_number, judge.critic, whole, values, dict(zip(WEIGHT_METRICS, np.asarray(measured).tolist(), strict=True)), weights)
    return Finished(
        {"done": config.critic.steps, "unit": "updates", "rows": int(whole.size)},
        changes={"files": run.state.files | {path: file_sha256(run.folder / path)}},
    )


def _require_met(run: Run, round_number: int, whole: Experience) -> None:
    """Refuse a table without an episode under the program that actors are told from now on (loop/guides.py).

    Raises:
      InputError: there is none.
    """
    try:
        for program in tables.programs_of(run, round_number).defaults.values():
            check_met(whole, code(program))
    except ValueError as error:
        raise InputError(
            f"round {round_number}: {error}; raise config.experience.seeds, or set config.actor.collect and config.actor.evaluate to policy"
        ) from None


def _carried_over(run: Run, round_number: int, judge: Judge, whole: Experience, counts: tuple[int, ...]) -> Judge:
    """The critic after potentials were refined: shifted or reset; unchanged where none was, or before its first update."""
    if not int(judge.critic.step):
        return judge
    now, before = tables.programs_of(run, round_number), potentials.replaced(run.memory, run.config, round_number)
    if now == before:
        return judge
    gathered = tables.records_of(run, round_number, now)
    old = improvement.relabelled(whole, [g.record for g in gathered], tables.labels_of(run, gathered, before), run.config.policy.chunk)
    key = key_of(run, round_number, _SHIFT)
    return dataclasses.replace(
        judge, critic=improvement.shift_critic(run.config, judge.critic, whole, old, counts, key, run.config.critic.shift_steps)
    )


def _save(run: Run, round_number: int, judge: Judge, **changes: Any) -> None:
    step = int(judge.critic.step)
    checksum = run.critics.save(step, judge)
    run.charge(f"round_{round_number}")
    run.commit(critic=step, critic_sha256=checksum, **changes)


def _file(round_number: int) -> str:
    return f"episodes/weights_r{round_number:02d}.npz"


def _spread(run: Run, round_number: int) -> Spread:
    """The running spread of advantages after a round; a fresh one before the first."""
    if _file(round_number) not in run.state.files:
        return init_spread()
    arrays = _read(run, round_number)
    return Spread(sd=jnp.asarray(arrays["sd"]), seen=jnp.asarray(arrays["seen"]))


def weights_of(run: Run, round_number: int) -> Array:
    """Weights [n] of the rows of the round's table.

    Raises:
      InputError: the file is damaged, or of another table.
    """
    weights, wanted = _read(run, round_number)["weights"], tables.table_of(run, round_number).terminal.shape
    if weights.shape != wanted:
        raise InputError(
            f"{run.folder / _file(round_number)} holds {len(weights)} weights, the round's table has {wanted[0]} rows; choose another "
            "--workdir"
        )
    return jnp.asarray(weights)


def _read(run: Run, round_number: int) -> dict[str, np.ndarray]:
    path = run.folder / _file(round_number)
    try:
        arrays = read(path)
        if not np.isfinite(arrays["weights"]).all() or arrays["weights"].ndim != 1:
            raise ValueError("weights are no finite numbers")
        return {name: arrays[name] for name in ("weights", "sd", "seen")}
    except (*UNREADABLE, KeyError) as error:
        raise InputError(f"{path} holds no weights of this run ({error}); choose another --workdir") from None


def _report(
    run: Run, round_number: int, state: CriticState, whole: Experience, values: Any, measured: dict[str, float], weights: Array
) -> None:
    """The critic's row in the log, and what the scale doctor says of it."""
    config, n, step = run.config, int(whole.size), int(state.step)
    rule = improvement.critic_training_of(config).rule
    judged = improvement.judged(config, whole, values)
    if judged is None:
        run.say(f"round {round_number}: no decision of the policy was recorded, so the critic has only seen demonstrations")
        return
    q = judged.candidates
    actor = improvement.actor_of(config, "sample")
    logits = selection_logits(actor, q)  # numpy: how many decisions there are differs from round to round
    choice = np.exp(logits - logits.max(-1, keepdims=True))
    choice /= choice.sum(-1, keepdims=True)
    found = scale_doctor.joined(
        [
            scale_doctor.weight_scales(np.asarray(weights)[:n][judged.own]),
            scale_doctor.candidate_scales(choice),
            scales.of_critic(scales.updates(run, "critic", step - config.critic.steps, step), config.critic.clip_norm),
            scale_doctor.discount_scales(
                rule.gamma,
                rule.gamma_unit,
                settings.longest_horizon(config),
                config.evaluate.executed,
                improvement.critic_of(config).support.width,
            ),
        ]
    )
    scales.report(run, "critic", round_number, found)
    run.metrics.write(
        "critic",
        round=round_number,
        step=step,
        decisions=len(q),
        rows=n,
        calibration=[dataclasses.astuple(b) for b in judged.curve],
        calibration_error=judged.error,
        candidate_sd=float(q.std(-1).mean()),
        weights=measured,
    )
    run.say(
        f"round {round_number}: the critic's values lie {judged.error:.3f} off what {len(q)} decisions earned; a state's "
        f"candidates differ by {q.std(-1).mean():.3f}; weights leave {measured['ess']:.0%} of the decisions effective"
    )
