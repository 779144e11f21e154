"""The doctor's line about the language model: is its server there, does it list the model, does an answer fit a schema."""

from __future__ import annotations

import copy
import ipaddress
import os
import time
import urllib.parse
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from coda_jax import config as settings
from coda_jax.agents.llm.chat import CallError, CallErrorKind, Message, Request
from coda_jax.agents.llm.recording import Recording
from coda_jax.loop import language, parts
from coda_jax.loop.finding import NOTE, OK, PROBLEM, Finding
from coda_jax.programs.errors import one_line
from coda_jax.runtime import InputError

_NAME = "language model"
_DEADLINE_S = 20.0  # of the model's one answer; a server that loads it first may need longer, which a note says
_ANSWER_TOKENS = 64
_OF_THE_MODEL = (CallErrorKind.SCHEMA, CallErrorKind.TRUNCATED, CallErrorKind.EMPTY, CallErrorKind.REFUSED, CallErrorKind.DEADLINE)


class _Sum(BaseModel):
    """What the model is asked for."""

    model_config = ConfigDict(strict=True, extra="forbid")
    sum: int


def language_model(config: settings.Config) -> Finding:
    """What stands between the configuration and a run whose agents ask a model; a server is only spoken to where they do."""
    key = f"{config.agents.llm.key_variable} is {'set' if os.environ.get(config.agents.llm.key_variable) else 'not set'}"
    if not settings.asks_models(config):
        return Finding(_NAME, OK, f"none is asked, agents are scripted; {key}")
    config = copy.deepcopy(config)  # the model's name is filled in
    try:
        language.prepare(config)
        if config.agents.llm.replay:
            found = Recording(Path(config.agents.llm.replay))
            return Finding(_NAME, OK, f"{len(found)} answers recorded in {found.path}; no server is asked")
        return _asked(config, key)
    except InputError as error:
        what, _, remedy = str(error).partition(": ")
        return Finding(_NAME, PROBLEM, what, remedy)


def _asked(config: settings.Config, key: str) -> Finding:
    name, address = one_line(config.agents.llm.model, 80), language.address_of(config)
    with parts.endpoint_of(config, min(_DEADLINE_S, config.agents.llm.deadline_s), 0) as endpoint:
        listed = endpoint.models()
        if isinstance(listed, CallError) and listed.kind in (CallErrorKind.CONNECTION, CallErrorKind.DEADLINE):
            return Finding(_NAME, PROBLEM, f"{address} does not answer; {key}", listed.message)
        question = Message("user", ('What is 2 + 3? Answer with JSON like {"sum": 4}.',))
        began = time.monotonic()
        [answer] = endpoint.ask([Request("doctor", (question,), 0, _ANSWER_TOKENS, _Sum)])
        took = time.monotonic() - began
        left_out = sorted(endpoint.left_out)
    if isinstance(listed, CallError):
        known = "the server lists no models"
    else:
        known = f"listed among {len(listed)}" if config.agents.llm.model in listed else f"not among the {len(listed)} models listed"
    said = f"{name} at {address}, {known}"
    if isinstance(answer, CallError):
        level = NOTE if answer.kind in _OF_THE_MODEL else PROBLEM
        return Finding(_NAME, level, f"{said}; no usable answer ({answer.kind.value}, {took:.1f} s); {key}", answer.message)
    without = f", without {' and '.join(left_out)}" if left_out else ""
    text = f"{said}; an answer that fits a schema came in {took:.1f} s{without}; {key}"
    if language.key_of(config) is not None and _in_clear(address):
        return Finding(_NAME, NOTE, text, "the key goes over the network unencrypted: use an https:// address")
    return Finding(_NAME, OK, one_line(text, 400))


def _in_clear(address: str) -> bool:
    """Whether what is sent there can be read on its way."""
    parts_of = urllib.parse.urlsplit(address)
    host = parts_of.hostname or ""
    try:
        here = ipaddress.ip_address(host).is_loopback
    except ValueError:
        here = host == "localhost"
    return parts_of.scheme == "http" and not here
