"""What a server says it does not know is left out, for good only where it then answers; a value that it refuses costs nothing."""

import json

import pytest
from pydantic import BaseModel, ConfigDict, Field

from coda_jax.agents.llm.chat import CallError, CallErrorKind, Reply, Tool
from coda_jax.agents.llm.endpoint import Endpoint, EndpointSettings
from tests.agents.llm import fake_server as fake
from tests.agents.llm.fake_server import FakeServer
from tests.agents.llm.listed import question

Kind = CallErrorKind


class Number(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    number: int = Field(ge=0, le=9)


def settings(server: FakeServer) -> EndpointSettings:
    return EndpointSettings(server.url, "fake", temperature=0.5, deadline_s=5.0, retries=0, concurrency=4, reply_bytes=100_000)


@pytest.mark.parametrize(
    ("refusal", "gone", "instead"),
    [
        (fake.error(400, "Unsupported parameter", "response_format"), "response_format", None),
        (fake.error(422, "unknown field: json_schema"), "response_format", None),
        (fake.error(400, "seed is not supported"), "seed", None),
        (fake.error(400, "Unsupported value", "temperature"), "temperature", None),
        (fake.error(400, "use 'max_completion_tokens' instead", "max_tokens"), "max_tokens", "max_completion_tokens"),
        (fake.error(404, "No endpoints found that support tool use"), "tools", None),
        (fake.error(400, "Unrecognized request argument supplied: seed"), "seed", None),
        (fake.error(400, "Unsupported value: 'temperature' does not support 0.5 with this model"), "temperature", None),
        (fake.error(400, "llama3 does not support tools"), "tools", None),
        (fake.error(400, '"auto" tool choice requires --enable-auto-tool-choice'), "tools", None),
        (fake.gives({"error": {"message": "no", "param": "seed", "code": "unknown_parameter"}}, 400), "seed", None),
        (fake.gives({"error": {"message": "seed is not supported", "code": 400}}, 400), "seed", None),
        (fake.gives({"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"]}]}, 422), "seed", None),
    ],
)
def test_what_a_server_does_not_take_is_left_out_once_and_for_all(refusal, gone, instead):
    request = question(schema=Number, tools=(Tool("look", "Looks.", Number),))
    with FakeServer(refusal, otherwise=fake.says('```json\n{"number": 4}\n```')) as server:
        with Endpoint(settings(server)) as endpoint:
            answers = [endpoint.ask([request])[0] for _ in range(2)]
        first, *later = server.bodies
    assert all(isinstance(a, Reply) and a.text == '{"number": 4}' for a in answers)
    assert gone in first and len(later) == 2
    for body in later:
        assert gone not in body and (instead is None or instead in body)
        told = "must fit this JSON schema" in json.dumps(body["messages"])
        assert told is (gone == "response_format")
        assert first.keys() - body.keys() == {gone}


@pytest.mark.parametrize(
    "refusal",
    [
        fake.error(400, "max_tokens is too large: 5000", "max_tokens"),
        fake.error(400, "max_tokens is too large: 5000. This model supports at most 4096 completion tokens", "max_tokens"),
        fake.error(400, "This model's maximum context length is 8192 tokens; 9000 in the messages, 1000 in the tools"),
        fake.error(400, "Unsupported value: seed is out of range", "seed"),
        fake.error(400, "temperature must be a number", "temperature"),
        fake.error(400, "Invalid schema for response_format 'Number'", "response_format"),
        fake.gives({"error": {"message": "no tools", "code": {"a": []}}}, 400),
        fake.gives({"error": {"message": "too long with tools", "code": "context_length_exceeded"}}, 400),
    ],
)
def test_a_value_that_is_refused_costs_no_feature(refusal):
    request = question(schema=Number, tools=(Tool("look", "Looks.", Number),))
    with FakeServer(refusal, otherwise=fake.says('{"number": 4}')) as server, Endpoint(settings(server)) as endpoint:
        first, second = endpoint.ask([request])[0], endpoint.ask([request])[0]
        assert isinstance(first, CallError) and first.kind is Kind.REQUEST and isinstance(second, Reply)
        assert len(server.bodies) == 2 and server.bodies[0] == server.bodies[1] and not endpoint.left_out


def test_what_was_left_out_in_vain_is_sent_again():
    request = question(tools=(Tool("look", "Looks.", Number),))
    script = [fake.error(400, "tools are not supported"), fake.error(400, "bad picture")]
    with FakeServer(*script) as server, Endpoint(settings(server)) as endpoint:
        first, second = endpoint.ask([request])[0], endpoint.ask([request])[0]
        assert isinstance(first, CallError) and first.kind is Kind.REQUEST and isinstance(second, Reply)
        assert ["tools" in body for body in server.bodies] == [True, False, True] and not endpoint.left_out


def test_a_server_that_refuses_everything_ends():
    def refuse(handler):
        sent = handler.server.owner.bodies[-1]
        fake.error(400, "not supported", next(iter(name for name in ("seed", "max_tokens", "temperature") if name in sent), "model"))(
            handler
        )

    with FakeServer(otherwise=refuse) as server:
        with Endpoint(settings(server)) as endpoint:
            [answer] = endpoint.ask([question()])
        assert isinstance(answer, CallError) and answer.kind is Kind.REQUEST and not endpoint.left_out
        assert len(server.bodies) == 4
