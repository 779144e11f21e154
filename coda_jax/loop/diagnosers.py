"""Who diagnoses: the scripted diagnoser, a language model with that one to fall back on, or chance."""

from __future__ import annotations

from coda_jax import config as settings
from coda_jax.agents.base import SCRIPTED, Diagnoser
from coda_jax.agents.llm.chat import Chat
from coda_jax.agents.llm.diagnoser import LlmDiagnoser, LlmDiagnoserSettings
from coda_jax.agents.llm.diagnosis import NAME as LLM
from coda_jax.agents.llm.tally import Tally
from coda_jax.agents.scripted.random_diagnoser import NAME as RANDOM
from coda_jax.agents.scripted.random_diagnoser import RandomDiagnoser
from coda_jax.loop import footage, parts
from coda_jax.loop.run import Run
from coda_jax.scenes.catalogue import Catalogue


def kind_of(config: settings.Config) -> str:
    """ "scripted", "llm" or "random"."""
    return config.agents.diagnoser or config.agents.kind


def made(config: settings.Config, kind: str, everything: Catalogue, train: Catalogue, chat: Chat | None, tally: Tally) -> Diagnoser:
    """The diagnoser of a kind. chat: of "llm"."""
    scripted = parts.scripted_diagnoser(config)
    if kind == SCRIPTED:
        return scripted
    if kind == RANDOM:
        return RandomDiagnoser(config.seed)
    assert kind == LLM and chat is not None, f"{kind} is checked with the configuration"
    chosen = settings.build(LlmDiagnoserSettings, config.agents.llm_diagnoser, seed=config.seed)
    return LlmDiagnoser(chat, chosen, tally, scripted, footage.Footage(config, everything, train))


def of_run(run: Run, chat: Chat | None = None) -> Diagnoser:
    return made(run.config, kind_of(run.config), run.everything, run.train, chat, Tally())
