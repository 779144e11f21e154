"""Who writes programs in a run: the scripted engine, or one that asks a language model and falls back to it."""

from __future__ import annotations

from coda_jax import config as settings
from coda_jax.agents.base import DataEngine
from coda_jax.agents.llm.engine import EngineSettings, LlmEngine
from coda_jax.agents.llm.engine_tools import EngineTools
from coda_jax.agents.llm.scene_author import SceneAuthor
from coda_jax.loop import parts
from coda_jax.loop.rounds.variants import seed_of
from coda_jax.loop.run import Run


def asks_a_model(config: settings.Config) -> bool:
    """Whether the data engine of a run is a language model."""
    return settings.agent_kind(config, "engine") == "llm"


def engine_settings(config: settings.Config) -> EngineSettings:
    own = config.agents.llm_engine
    rounds = own.tool_rounds if config.agents.llm.tools else 0
    values = {name: value for name, value in own.items() if name != "tool_rounds"}
    return EngineSettings(**values, tool_rounds=rounds, answer_tokens=config.agents.llm.answer_tokens)


def engine_of(run: Run, round_number: int, tools: EngineTools) -> DataEngine:
    """The run's data engine for one stage of a round."""
    scripted = parts.engine_of(run.train)
    if not asks_a_model(run.config):
        return scripted
    seed = seed_of("engine", run.config.seed, round_number)
    return LlmEngine(run.chat, engine_settings(run.config), run.tally, scripted, run.train, tools, seed)


def author_of(run: Run, round_number: int, wave: int, tools: EngineTools) -> SceneAuthor:
    """Who writes whole scenes, of a run whose data engine is a language model."""
    seed, chosen = seed_of("author", run.config.seed, round_number, wave), settings.families(run.config)
    return SceneAuthor(run.chat, engine_settings(run.config), run.tally, run.train, chosen, tools, seed)
