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


def made(config: settings.Config, kind: str, everything: Catalogue, train: Catalogue, chat: Chat | None, tally: Tally) -> Diagnoser:
    """The diagnoser of a kind. chat: of "llm"."""
    scripted = parts.scripted_diagnoser(config)
    if kind == SCRIPTED:
        return scripted
    if kind == RANDOM:
        return RandomDiagnoser(config.seed)
    assert kind == LLM and chat is not None, f"{kind} is checked with the configuration"
    chosen = LlmDiagnoserSettings(
        **config.agents.llm_diagnoser, pictures=config.agents.llm.pictures, answer_tokens=config.agents.llm.answer_tokens, seed=config.seed
    )
    return LlmDiagnoser(chat, chosen, tally, scripted, footage.Footage(config, everything, train))


def of_run(run: Run) -> Diagnoser:
    kind = settings.agent_kind(run.config, "diagnoser")
    return made(run.config, kind, run.everything, run.train, run.chat if kind == LLM else None, run.tally)
