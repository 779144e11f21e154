"""An endpoint against a real model: every call is answered or counted, and a recording answers alike without it."""

import sys
from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from coda_jax.agents.llm.budget import Budgeted
from coda_jax.agents.llm.called import ANSWERED
from coda_jax.agents.llm.chat import CallErrorKind, Message, Reply, Request
from coda_jax.agents.llm.endpoint import Endpoint, EndpointSettings
from coda_jax.agents.llm.recording import FILE, OwnRecording, Recorded, Recording
from tests.agents.llm import local_model as model
from tests.agents.llm.local_model import local_model

pytestmark = pytest.mark.slow
__all__ = ["local_model"]


class Verdict(BaseModel):
    """An answer with the forms that agents ask for: a choice, a number in a range, a short text, a short list."""

    model_config = ConfigDict(strict=True, extra="forbid")
    factor: Literal["TASK", "SPATIAL", "ATTRIBUTE", "EXECUTION"]
    step: int = Field(ge=0, le=120)
    cause: str = Field(max_length=40)
    evidence: list[int] = Field(max_length=3)


def _questions() -> list[Request]:
    text = "A robot dropped a mug at step {} of 90. Say which factor is to blame, the step, the cause and the evidence steps, as JSON."
    return [Request("diagnoser", (Message("user", (text.format(10 * i),)),), i, 120, Verdict) for i in range(5)]


def test_answers_fit_or_are_counted_and_a_replay_needs_no_server(local_model, tmp_path, monkeypatch):
    settings = EndpointSettings(local_model, model.NAME, 0.7, 120.0, 0, 2, 2**20)
    with Endpoint(settings) as endpoint, OwnRecording(tmp_path / FILE, 0) as recording:
        assert endpoint.models() == [model.NAME]
        live = Budgeted(Recorded(recording, model.NAME, 0.7, endpoint), 100_000, 4096, {})
        answers = live.ask(_questions())
        assert not endpoint.left_out
    asked = live.asked["diagnoser"]
    assert asked.questions == 5 and asked.estimated == 0 and asked.tokens_in > 5 * 20
    of_the_model = {kind.value for kind in (CallErrorKind.SCHEMA, CallErrorKind.TRUNCATED, CallErrorKind.EMPTY)}
    assert set(asked.outcomes) <= {ANSWERED, *of_the_model}
    for answer in answers:
        if isinstance(answer, Reply):
            Verdict.model_validate_json(answer.text)
    monkeypatch.setitem(sys.modules, "openai", None)
    again = Budgeted(Recorded(Recording(tmp_path), model.NAME, 0.7, None), 100_000, 4096, {})
    assert [repr(a) for a in again.ask(_questions())] == [repr(a) for a in answers]
    assert again.asked == live.asked
    print(asked)


def test_an_answer_that_is_cut_off_is_counted(local_model):
    settings = EndpointSettings(local_model, model.NAME, 0.7, 60.0, 0, 1, 2**20)
    request = Request("test", (Message("user", ("Count from one to a hundred.",)),), 1, 5)
    found = {}
    with Endpoint(settings) as endpoint:
        endpoint.call([request], found.__setitem__)
    assert found[0].outcome == "truncated" and found[0].tokens[1] == 5


def test_a_deadline_holds_while_a_model_thinks(local_model):
    settings = EndpointSettings(local_model, model.NAME, 0.7, 0.3, 0, 1, 2**20)
    request = Request("test", (Message("user", ("Write a long story about a robot. " * 40,)),), 1, 4000)
    found = {}
    with Endpoint(settings) as endpoint:
        endpoint.call([request], found.__setitem__)
    assert found[0].outcome == "deadline" and found[0].seconds < 2
