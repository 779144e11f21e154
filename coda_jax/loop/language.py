"""What a run needs of its language model before it starts, and what is said about it while it runs. Imports no jax."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.agents.llm import keys
from coda_jax.agents.llm.budget import Asked, Prices, total
from coda_jax.agents.llm.called import ANSWERED
from coda_jax.agents.llm.endpoint import OWN_ADDRESS
from coda_jax.agents.llm.keys import Key, KeyFormatError
from coda_jax.agents.llm.recording import FILE as CALLS
from coda_jax.runtime import InputError

MODEL_VARIABLE, ADDRESS_VARIABLE = "CODA_JAX_MODEL", "OPENAI_BASE_URL"
_SAID_EVERY_S = 10.0
_MOST_NAME = 200


def prepare(config: settings.Config, dry_run: bool = False) -> None:
    """Name the model in ``config``, take its key out of the environment, and refuse what cannot work, before anything is started.

    dry_run: nothing will be asked, so that what ``missing`` names may be missing.

    Raises:
      InputError: no model, no server, no key, no recording or no openai package; the message says what to set.
    """
    if not settings.asks_models(config):
        return
    llm = config.agents.llm
    try:
        key_of(config)  # first, so that no child sees it whatever comes of the rest
    except InputError:
        if not llm.replay:  # which sends none
            raise
    llm.model = llm.model or os.environ.get(MODEL_VARIABLE, "").strip()
    if not llm.model:
        raise InputError(
            "agents ask a language model, but none is named: set --config.agents.llm.model=NAME, or the environment variable "
            f"{MODEL_VARIABLE}"
        )
    if len(llm.model) > _MOST_NAME or not llm.model.isprintable():
        raise InputError(f"config.agents.llm.model must be a name of at most {_MOST_NAME} printable characters")
    if llm.replay:
        path = Path(llm.replay)
        if not path.exists():
            raise InputError(f"config.agents.llm.replay: {path} does not exist; name the {CALLS} of a run, or its folder")
        if path.is_dir() and not (path / CALLS).exists():
            raise InputError(
                f"config.agents.llm.replay: {path} holds no {CALLS}, so no language model was asked there; name the {CALLS} of a run, or "
                "its folder"
            )
        return
    if not dry_run and (problem := missing(config)):
        raise InputError(problem)


def missing(config: settings.Config) -> str:
    """What must still be set or installed before a model can be asked, and how; "" where nothing is missing.

    Raises:
      InputError: the environment's address or key cannot be used.
    """
    llm = config.agents.llm
    if not settings.asks_models(config) or llm.replay:
        return ""
    if key_of(config) is None and address_of(config) == OWN_ADDRESS:
        return (
            f"agents ask {llm.model}, but neither a server nor a key is set: set --config.agents.llm.base_url=http://... (or "
            f"{ADDRESS_VARIABLE}) to your server, or put the key of {OWN_ADDRESS} into the environment variable {llm.key_variable}, or "
            "answer from a recording with --config.agents.llm.replay=RUN/calls.jsonl"
        )
    if runtime.package_version("openai") is None:
        return "language models need the openai package: pip install '.[llm]'"
    return ""


def address_of(config: settings.Config) -> str:
    """Where the model is: as set, else as the environment says, else OpenAI's own.

    Raises:
      InputError: the environment's address cannot be used.
    """
    if config.agents.llm.base_url:
        return config.agents.llm.base_url
    found = os.environ.get(ADDRESS_VARIABLE, "").strip()
    if found:
        settings.check_address(found, ADDRESS_VARIABLE)
    return found or OWN_ADDRESS


def key_of(config: settings.Config) -> Key | None:
    """The key of the variable that the settings name, which from here on no child of this process sees.

    Raises:
      InputError: it cannot be sent.
    """
    try:
        return keys.take(config.agents.llm.key_variable)
    except KeyFormatError as error:
        raise InputError(str(error)) from None


def describe(model: str, asked: Mapping[str, Asked], budget: int, prices: Prices) -> str:
    """ "qwen: 40 questions, 31 answered; 123,456 of 500,000 tokens (25 %), 0.12"."""
    questions = sum(one.questions for one in asked.values())
    answered = sum(one.outcomes.get(ANSWERED, 0) for one in asked.values())
    tokens = total(asked)
    estimated = " in part estimated," if any(one.estimated for one in asked.values()) else ""
    cost = prices.cost(sum(one.tokens_in for one in asked.values()), sum(one.tokens_out for one in asked.values()))
    price = f", {money(cost)}" if prices.price_in or prices.price_out else ""
    spent = f"{tokens:,} of {budget:,} tokens ({100 * tokens / budget:.0f} %){price}"
    return f"{model}: {questions:,} questions, {answered:,} answered;{estimated} {spent}"


def describe_most(config: settings.Config) -> str:
    """What a run may ask and spend at most, for the dry run."""
    if not settings.asks_models(config):
        return "none: 0 tokens"
    llm, prices = config.agents.llm, Prices(config.agents.llm.price_in, config.agents.llm.price_out)
    who = ", ".join(agent for agent in settings.AGENTS if settings.agent_kind(config, agent) == "llm")
    if llm.replay:
        return f"{llm.model} as recorded in {llm.replay} ({who}): at most {llm.tokens:,} tokens, none of them paid"
    most = max(prices.cost(llm.tokens, 0), prices.cost(0, llm.tokens))
    price = f", at most {money(most)}" if most else ", no price set (config.agents.llm.price_in, price_out)"
    return f"{llm.model} at {address_of(config)} ({who}): at most {llm.tokens:,} tokens{price}"


def money(cost: float) -> str:
    return f"{cost:,.2f}" if cost >= 0.995 or not cost else f"{cost:.2g}"


class Watch:
    """Told of answers as they arrive: says now and then how many are there, and stops where a signal asks for it. While none
    arrives the endpoint looks for the signal itself.

    Nothing is lost by a stop: what arrived is recorded, and the stage asks for it again.
    """

    def __init__(self, model: str, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic):
        self._model, self._say, self._clock = model, say, clock
        self._began = self._last = clock()

    def __call__(self, answers: int, questions: int) -> None:
        """Raises Stopped as ``runtime.check_stop``."""
        now = self._clock()
        if answers == 1:
            self._began = self._last = now
        if now - self._last >= _SAID_EVERY_S and answers < questions:
            self._last = now
            self._say(f"{self._model}: {answers:,}/{questions:,} answers, {now - self._began:.0f} s")
        runtime.check_stop()
