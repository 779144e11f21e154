"""How many rollouts and episodes one round has, at most: what an estimate adds up and the table must have room for."""

from __future__ import annotations

from coda_jax import config as settings
from coda_jax.loop import parts
from coda_jax.loop.strategies import STRATEGIES

WAVES = 4  # attempts to fill a round's environments


def round_rollouts(config: settings.Config) -> dict[str, int]:
    """Rollouts of one round by purpose, at most; a round whose modes are few or decided early, or that ends early, takes fewer."""
    rounds, engine, control = config.rounds, config.engine, config.control
    counts = {"collect": 2 * rounds.bases * rounds.collect}
    if STRATEGIES[config.strategy].diagnoses:
        reverts = settings.agent_kind(config, "diagnoser") != "random"  # a language model's fallback does
        counts["diagnose"] = 5 * config.diagnose.failures * config.diagnose.rerollouts if reverts else 0
        counts["search"] = engine.modes * len(engine.levels) * engine.scenes * engine.rollouts
        if settings.agent_kind(config, "engine") == "llm" and config.agents.llm.tools:
            asking = config.agents.llm_engine
            counts["try"] = engine.modes * asking.programs * asking.rollouts
        counts["control"] = 2 * control.modes * control.most_scenes * control.rollouts
    if STRATEGIES[config.strategy].proposes == "in_band":
        counts["choose"] = WAVES * rounds.bases * rounds.rollouts
    controls = min(rounds.environments, control.modes * control.most_scenes) if STRATEGIES[config.strategy].diagnoses else 0
    counts["measure"] = (1 + most_blocks(config)) * (rounds.environments + controls) * rounds.rollouts
    if parts.practises(config):
        counts["practice"] = rounds.environments * rounds.practice
    # after a training only an adaptive schedule asks, about modes
    asks = config.schedule.kind == "adaptive" and STRATEGIES[config.strategy].diagnoses
    counts["band"] = (1 + asks * most_blocks(config)) * rounds.environments * (rounds.most_rollouts - rounds.rollouts)
    return counts


def most_blocks(config: settings.Config) -> int:
    """Trainings of one round, at most; each is followed by a measurement."""
    return 1 if config.awr.improve == "frozen" else config.schedule.most_updates // config.rounds.steps


def episodes_of_a_round(config: settings.Config) -> int:
    """Episodes that a round adds to what it learns from itself: rollouts that do not measure its training, certified demonstrations."""
    counts = round_rollouts(config)
    learned = sum(counts.get(purpose, 0) for purpose in ("collect", "control", "practice"))
    return learned + config.rounds.environments * config.rounds.demos
