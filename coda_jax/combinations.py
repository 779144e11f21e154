"""Settings that cannot work, or would change nothing, beside one another."""

from __future__ import annotations

import math
from typing import Any

from coda_jax.runtime import InputError, package_version

SIGNALS_WITH_STAGES = ("diagnosed", "task_text")
MAX_STAGES = 4  # of one training program
SOURCES = 4  # of experience: demonstrations, targeted, control, replay
MOST_TEMPERATURE = 10  # of a sweep
LEAST_DEMONSTRATIONS = 0.25  # of a batch of the policy, beside weighted decisions


def check(config: Any, trains: bool) -> None:
    """Refuse such settings; each of them lies within its own limits. trains: False where a finished policy is only evaluated.

    Raises:
      InputError: it names the settings, their values and what to change.
    """
    suites = config.evaluate.suites
    if not suites or len(set(suites)) < len(suites):
        raise InputError(f"config.evaluate.suites is {suites!r}; name at least one suite, none twice")
    if config.evaluate.executed > config.policy.chunk:
        raise InputError(
            f"config.evaluate.executed is {config.evaluate.executed}, but only config.policy.chunk = {config.policy.chunk} actions "
            f"are predicted; lower the first or raise the second"
        )
    temperatures = config.sweep.temperatures
    if not temperatures or len(set(temperatures)) < len(temperatures) or not all(0 <= t <= MOST_TEMPERATURE for t in temperatures):
        raise InputError(
            f"config.sweep.temperatures is {temperatures!r}; name at least one number from 0 to {MOST_TEMPERATURE}, none twice"
        )
    if config.clone.warmup >= config.clone.steps:
        raise InputError(f"config.clone.warmup is {config.clone.warmup}; it must be below config.clone.steps ({config.clone.steps})")
    if config.obs == "pixels":
        _check_pixels(config)
    _check_warp(config)
    _check_rounds(config)
    if config.rounds.count and config.awr.improve != "filtered" and (trains or config.actor.evaluate != "policy"):
        _check_read(config, trains)
    _check_critic(config)
    _check_improvement(config)


def _check_warp(config: Any) -> None:
    wanted = {"pixels.renderer": config.pixels.renderer, "sim.mjx_impl": config.sim.mjx_impl}
    for name in [name for name, value in wanted.items() if value == "warp"]:
        if package_version("warp-lang") is None:
            raise InputError(f"config.{name} is \"warp\", which is not installed: pip install '.[warp]', or set it to jax")


def _check_pixels(config: Any) -> None:
    pixels = config.pixels
    for name in ("height", "width"):
        if pixels[name] % pixels.patch:
            raise InputError(f"config.pixels.{name} is {pixels[name]}; it must be a multiple of config.pixels.patch, {pixels.patch}")
    if config.rounds.count:
        raise InputError(
            f"config.rounds.count is {config.rounds.count}, but with config.obs=pixels there are no rounds yet: their critic and their "
            "weighted updates learn from states. Set it to 0, or config.obs to state"
        )
    if config.policy.relations:
        raise InputError("config.policy.relations compares tokens of a policy of states; config.obs=pixels has none: set it to false")
    if config.policy.given_roles:
        raise InputError("config.policy.given_roles tells a policy of states its tokens; config.obs=pixels has none: set it to false")


def _check_rounds(config: Any) -> None:
    if config.allocation.novelty + config.allocation.replay > 1:
        raise InputError(
            f"config.allocation.novelty {config.allocation.novelty} and config.allocation.replay {config.allocation.replay} are shares of "
            "one budget; together they must be at most 1"
        )
    if not 1 <= len(config.engine.levels) <= 100 or not all(0 < level <= 1 for level in config.engine.levels):
        raise InputError(f"config.engine.levels is {config.engine.levels!r}; it must be 1 to 100 numbers above 0 and at most 1")
    if config.schedule.most_updates % config.rounds.steps:
        raise InputError(
            f"config.schedule.most_updates is {config.schedule.most_updates}; it must be a multiple of config.rounds.steps, "
            f"{config.rounds.steps}: a round trains in such blocks"
        )
    if config.rounds.most_rollouts < config.rounds.rollouts:
        raise InputError(
            f"config.rounds.most_rollouts is {config.rounds.most_rollouts}; it must be at least config.rounds.rollouts, "
            f"{config.rounds.rollouts}"
        )
    if config.control.most_scenes < config.control.scenes:
        raise InputError(
            f"config.control.most_scenes is {config.control.most_scenes}; it must be at least config.control.scenes, "
            f"{config.control.scenes}"
        )


def _check_read(config: Any, trains: bool) -> None:
    critic, executed, chunk = config.critic, config.evaluate.executed, config.policy.chunk
    if not executed <= critic.tokens <= chunk:
        raise InputError(
            f"config.critic.tokens is {critic.tokens}; it must lie between config.evaluate.executed, {executed}, and config.policy.chunk, "
            f"{chunk}: the critic reads at least what is carried out of a chunk"
            + ("" if trains else "; or set config.actor.evaluate to policy")
        )


def _check_critic(config: Any) -> None:
    critic = config.critic
    if critic.width % critic.heads:
        raise InputError(f"config.critic.width is {critic.width}; it must be a multiple of config.critic.heads, {critic.heads}")
    if not critic.low < critic.high:
        raise InputError(f"config.critic.low is {critic.low}; it must be below config.critic.high, {critic.high}")
    _check_support(config)
    if critic.bins <= 2 * critic.margin + 1:
        raise InputError(
            f"config.critic.bins is {critic.bins}; with config.critic.margin = {critic.margin} bins at each end it must be above "
            f"{2 * critic.margin + 1:g}"
        )
    for path, shares in (("critic.shares", critic.shares), ("awr.shares", config.awr.shares)):
        if len(shares) != SOURCES or not all(share >= 0 for share in shares) or not math.isclose(sum(shares), 1, abs_tol=1e-6):
            raise InputError(
                f"config.{path} is {tuple(shares)!r}; it must be {SOURCES} shares, of demonstrations, targeted, control and replay, "
                "with sum 1"
            )
    if config.awr.shares[0] < LEAST_DEMONSTRATIONS:
        raise InputError(
            f"config.awr.shares is {tuple(config.awr.shares)!r}; demonstrations, the first, must get at least {LEAST_DEMONSTRATIONS}"
        )


def _check_support(config: Any) -> None:
    """The critic's bins must hold what its signal can ask for; what lies beyond would be cut off in silence."""
    critic, signal = config.critic, config.potential.signal
    if critic.high < 1:
        raise InputError(f"config.critic.high is {critic.high}; it must be at least 1, what success is worth")
    stages = MAX_STAGES if signal in SIGNALS_WITH_STAGES else 0  # refinement may split stages up to that
    lowest = 0.0 - critic.beta * stages
    if critic.low > lowest:
        raise InputError(
            f"config.critic.low is {critic.low}; with config.critic.beta {critic.beta} and programs of up to {stages} stages targets go "
            f"down to {lowest!r}: lower it to that"
        )
    steps = config.evaluate.executed if critic.gamma_unit == "chunk" else 1  # that are rewarded between two discounts
    most = config.potential.dense_weight * steps / (1 - critic.gamma) if critic.gamma < 1 else math.inf
    if signal == "free_form" and most > critic.high * (1 + 1e-9):
        raise InputError(
            f"config.potential.dense_weight is {config.potential.dense_weight}; rewards then sum up to {most:g}, beyond config.critic.high "
            f"{critic.high}: lower it to {math.floor(1e6 * critic.high * (1 - critic.gamma) / steps + 1e-6) / 1e6:g}, or raise the latter"
        )


def _check_improvement(config: Any) -> None:
    improve = config.awr.improve
    critic_acts = config.rounds.count and improve != "filtered"  # else there is no critic, and the policy acts alone
    for task in ("collect", "evaluate"):
        if config.actor[task] != "policy" and critic_acts and config.actor.candidates == 1:
            raise InputError(
                f"config.actor.{task} is {config.actor[task]}, but one candidate leaves no choice; raise config.actor.candidates, or set "
                "it to policy"
            )
    if improve == "frozen":
        if config.actor.evaluate == "policy":
            raise InputError(
                "config.awr.improve=frozen trains no policy, so with config.actor.evaluate=policy rounds would change nothing; set the "
                "latter to argmax, sample or average"
            )
        if config.lora.rank:
            raise InputError(
                f"config.lora.rank is {config.lora.rank}, but config.awr.improve=frozen trains no adapters; set it to 0, or "
                "config.awr.improve to awr"
            )
    if improve != "awr" and config.awr.drift_weight:
        raise InputError(
            f"config.awr.drift_weight is {config.awr.drift_weight}, but config.awr.improve={improve} has no updates by weights; set it to 0"
        )
