"""An endpoint against a server that does everything wrong: each fault has its kind, none hangs, none costs more than it may."""

import dataclasses
import os
import signal
import threading
import time

import psutil
import pytest
from pydantic import BaseModel, ConfigDict, Field

from coda_jax import runtime
from coda_jax.agents.llm import endpoint as module
from coda_jax.agents.llm.budget import Asked, Budgeted
from coda_jax.agents.llm.called import Called
from coda_jax.agents.llm.chat import CallError, CallErrorKind, Message, Picture, Reply, Request, Tool, ToolCall
from coda_jax.agents.llm.endpoint import Endpoint, EndpointSettings, retry_after_s
from coda_jax.agents.llm.estimate import most_tokens
from coda_jax.runtime import InputError
from tests.agents.llm import fake_server as fake
from tests.agents.llm.fake_server import FakeServer

Kind = CallErrorKind


class Number(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    number: int = Field(ge=0, le=9)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(module, "_BACKOFF_S", 0.01)


def settings(server: FakeServer, **changes) -> EndpointSettings:
    usual = {"temperature": 0.5, "deadline_s": 5.0, "retries": 1, "concurrency": 4, "reply_bytes": 100_000}
    return EndpointSettings(base_url=server.url, model="fake", **(usual | changes))


def question(text: str = "say hello", **changes) -> Request:
    return dataclasses.replace(Request("test", (Message("user", (text,)),), 3, 20), **changes)


def asked(server: FakeServer, request: Request | None = None, **changes) -> Called:
    """The outcome of one question; no deadline is passed by much, also on a busy machine."""
    found = {}
    with Endpoint(settings(server, **changes)) as endpoint:
        began = time.monotonic()
        endpoint.call([request or question()], found.__setitem__)
        assert time.monotonic() - began < endpoint.settings.deadline_s + 3
    return found[0]


def kind_of(called: Called) -> CallErrorKind:
    assert isinstance(called.answer, CallError), called
    message = called.answer.message
    assert message and message.isascii() and message.isprintable() and len(message) <= 600
    return called.answer.kind


FOREVER = {"deadline_s": 0.4}
OBJECT = {"schema": Number}
WRONG = [
    # behaviour, kind, tokens, whether estimated, settings, fields of the request
    (fake.error(429, retry_after="0"), Kind.RATE_LIMITED, (0, 0), False, {}, {}),
    (fake.error(429, retry_after="1e999"), Kind.RATE_LIMITED, (0, 0), False, {}, {}),
    (fake.error(429, retry_after="86400"), Kind.RATE_LIMITED, (0, 0), False, {}, {}),
    (fake.error(500), Kind.SERVER, (0, 0), False, {}, {}),
    (fake.error(503, "x" * 5000), Kind.SERVER, (0, 0), False, {}, {}),
    (fake.gives(b"\xff\xfe <html>", 502), Kind.SERVER, (0, 0), False, {}, {}),
    (fake.reset, Kind.CONNECTION, (0, 0), False, {}, {}),
    (fake.garbage, Kind.CONNECTION, (0, 0), False, {}, {}),
    (fake.endless_headers, Kind.CONNECTION, (0, 0), False, {}, {}),
    (fake.stall, Kind.DEADLINE, (11, 0), True, FOREVER, {}),
    (fake.drip, Kind.DEADLINE, (11, 0), True, FOREVER, {}),
    (fake.drip_headers, Kind.DEADLINE, (11, 0), True, FOREVER, {}),
    (fake.endless_continues, Kind.DEADLINE, (11, 0), True, FOREVER, {}),
    (fake.says("a" * 10_000_000), Kind.TOO_LARGE, (11, 0), True, {}, {}),
    (fake.endless_body, Kind.TOO_LARGE, (11, 0), True, {}, {}),
    (fake.bomb, Kind.TOO_LARGE, (11, 0), True, {}, {}),
    (fake.gives(b"not gzip", content_encoding="gzip"), Kind.CONNECTION, (0, 0), False, {}, {}),
    (fake.says("hel", reason="length"), Kind.TRUNCATED, (11, 7), False, {}, {}),
    (fake.says('{"number": 3}', reason="length"), Kind.TRUNCATED, (11, 7), False, {}, OBJECT),
    (fake.says("", reason="content_filter"), Kind.REFUSED, (11, 7), False, {}, {}),
    (fake.says(None, refusal="I will not <b>"), Kind.REFUSED, (11, 7), False, {}, {}),
    (fake.says(""), Kind.EMPTY, (11, 7), False, {}, {}),
    (fake.says(" \n"), Kind.EMPTY, (11, 7), False, {}, {}),
    (fake.says("<think>long</think>"), Kind.EMPTY, (11, 7), False, {}, {}),
    (fake.says("three"), Kind.SCHEMA, (11, 7), False, {}, OBJECT),
    (fake.says('{"number": 12}'), Kind.SCHEMA, (11, 7), False, {}, OBJECT),
    (fake.says('{"number": "3"}'), Kind.SCHEMA, (11, 7), False, {}, OBJECT),
    (fake.says('{"number": 3, "\u202e<x>": 1}'), Kind.SCHEMA, (11, 7), False, {}, OBJECT),
    (fake.says('{"number": 1e400}'), Kind.SCHEMA, (11, 7), False, {}, OBJECT),
    (fake.says("[" * 50_000), Kind.SCHEMA, (11, 7), False, {}, OBJECT),
    (fake.gives(b"not JSON"), Kind.SCHEMA, (11, 0), True, {}, {}),
    (fake.gives(b"[" * 50_000), Kind.SCHEMA, (11, 0), True, {}, {}),
    (fake.gives(b"\xff\xfe"), Kind.SCHEMA, (11, 0), True, {}, {}),
    (fake.gives(b'{"choices":[{"message":{"content":"\\ud800"}}]}'), Kind.SCHEMA, (11, 0), True, {}, {}),
    (fake.gives(b""), Kind.SCHEMA, (11, 0), True, {}, {}),
    (fake.gives([]), Kind.SCHEMA, (11, 0), True, {}, {}),
    (fake.gives({"choices": []}), Kind.SCHEMA, (11, 0), True, {}, {}),
    (fake.gives({"choices": "none", "usage": 3}), Kind.SCHEMA, (11, 0), True, {}, {}),
    (fake.says(3), Kind.SCHEMA, (11, 7), False, {}, {}),
    (fake.says(["a"]), Kind.SCHEMA, (11, 7), False, {}, {}),
    (fake.says("hi", tool_calls={"a": 1}), Kind.SCHEMA, (11, 7), False, {}, {}),
    (fake.calls("look", "{}"), Kind.SCHEMA, (11, 7), False, {}, {}),  # none was offered
    (fake.error(400, "bad picture"), Kind.REQUEST, (0, 0), False, {}, {}),
    (fake.error(401, "who are you"), Kind.REQUEST, (0, 0), False, {}, {}),
    (fake.error(404, "no such model"), Kind.REQUEST, (0, 0), False, {}, {}),
    (fake.gives(b"", 302, location="http://example.org/v1"), Kind.REQUEST, (0, 0), False, {}, {}),
]


@pytest.mark.parametrize("case", WRONG, ids=[f"{i}-{case[1].value}" for i, case in enumerate(WRONG)])
def test_every_fault_has_its_kind_and_an_end(case):
    behaviour, kind, tokens, estimated, changes, fields = case
    with FakeServer(otherwise=behaviour) as server:
        called = asked(server, question(**fields), **changes)
    assert kind_of(called) is kind
    if not fields:
        assert called.tokens == tokens
    assert called.estimated is estimated


@pytest.mark.parametrize(
    "first",
    [fake.error(429, retry_after="0.05"), fake.error(500), fake.error(408), fake.reset, fake.garbage],
    ids=["429", "500", "408", "reset", "garbage"],
)
def test_a_passing_fault_is_tried_again(first):
    with FakeServer(first) as server:
        called = asked(server)
        assert isinstance(called.answer, Reply) and called.answer.text == "hello" and called.attempts == 2
        assert len(server.bodies) == 2 and server.bodies[0] == server.bodies[1]


def test_tries_are_bounded():
    with FakeServer(otherwise=fake.error(500)) as server:
        assert kind_of(asked(server, retries=3)) is Kind.SERVER
        assert len(server.bodies) == 4


def test_the_server_is_given_the_time_it_asks_for():
    with FakeServer(fake.error(429, retry_after="0.3")) as server:
        began = time.monotonic()
        assert isinstance(asked(server).answer, Reply)
        assert time.monotonic() - began >= 0.3


def test_a_wait_beyond_the_deadline_is_not_begun():
    with FakeServer(otherwise=fake.error(429, retry_after="100")) as server:
        called = asked(server, retries=9)
        assert called.seconds < 4 and len(server.bodies) == 1
        assert isinstance(called.answer, CallError) and "asks to wait 100 s" in called.answer.message


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "9" * 5000}, 1e40),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 99 Oct 99999 07:28:00 GMT"}, None),
    ],
)
def test_forms_of_retry_after(headers, seconds):
    found = retry_after_s(headers)
    assert found == (seconds if seconds is None else pytest.approx(seconds))


def test_a_date_to_come_is_waited_for():
    assert (retry_after_s({"retry-after": "Fri, 01 Jan 2100 00:00:00 GMT"}) or 0.0) > 1e8


def test_nobody_there():
    with FakeServer() as server:
        gone = settings(server)
    with Endpoint(gone) as endpoint:
        [answer] = endpoint.ask([question()])
        listed = endpoint.models()
    for error in (answer, listed):
        assert isinstance(error, CallError) and error.kind is Kind.CONNECTION and "is the server running" in error.message


def test_a_redirect_takes_nothing_elsewhere():
    with FakeServer() as other, FakeServer(otherwise=fake.gives(b"", 307, location="/")) as server:
        server.otherwise = fake.gives(b"", 307, location=f"{other.url}/chat/completions")
        called = asked(server)
        assert kind_of(called) is Kind.REQUEST and f"redirects to {other.url}/chat/completions; redirects" in str(called.answer)
        assert not other.seen and len(server.seen) == 1


def test_what_is_sent():
    tool = Tool("look", "Looks.", Number)
    messages = (
        Message("system", ("be brief",)),
        Message("user", ("this:", Picture(b"\x89PNG", "frame 3"))),
        Message("assistant", (), (ToolCall("c1", "look", '{"number": 1}'),)),
        Message("tool", ("nothing",), answers="c1"),
    )
    with FakeServer(fake.says('{"number": 4}')) as server:
        called = asked(server, Request("test", messages, 2**31 + 5, 33, Number, (tool,)))
        body = server.bodies[0]
        [(_, path, _, _)] = server.seen
    assert isinstance(called.answer, Reply) and called.answer.text == '{"number": 4}' and called.answer.tokens == (11, 7)
    assert path == "/v1/chat/completions"
    assert (body["model"], body["seed"], body["max_tokens"], body["temperature"]) == ("fake", 5, 33, 0.5)
    assert body["messages"] == [
        {"role": "system", "content": "be brief"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "this:"},
                {"type": "text", "text": "frame 3"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"number": 1}'}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "nothing"},
    ]
    schema = body["response_format"]["json_schema"]
    assert schema["strict"] is True and schema["schema"]["additionalProperties"] is False and schema["schema"]["required"] == ["number"]
    assert body["tools"][0]["function"]["name"] == "look"


@pytest.mark.parametrize(
    ("behaviour", "found"),
    [
        (fake.calls("look", '{"number": 1}'), ToolCall("c1", "look", '{"number": 1}')),
        (fake.calls("look", '{"number": 99}'), ToolCall("c1", "look", '{"number": 99}')),  # its agent tells the model what is wrong
        (fake.calls("look", "{}", identity=""), ToolCall("call_0", "look", "{}")),
        (fake.calls("look", "{}", identity="\n" * 90), ToolCall("call_0", "look", "{}")),
        (fake.calls("look", "{}", identity=None), ToolCall("call_0", "look", "{}")),
        (fake.calls("remove", "{}"), Kind.SCHEMA),
        (fake.calls("look\n<script>", "{}"), Kind.SCHEMA),
        (fake.calls("look", "number=1"), Kind.SCHEMA),
        (fake.calls("look", "[1]"), Kind.SCHEMA),
        (fake.calls("look", {"number": 1}), Kind.SCHEMA),
        (fake.calls("look", "[" * 60_000), Kind.SCHEMA),
        (fake.calls("look", '"' + "a" * 70_000 + '"'), Kind.SCHEMA),
        (fake.calls(None, "{}"), Kind.SCHEMA),
    ],
)
def test_calls_of_tools(behaviour, found):
    with FakeServer(behaviour) as server:
        called = asked(server, question(tools=(Tool("look", "Looks.", Number),)))
    if isinstance(found, CallErrorKind):
        assert kind_of(called) is found
    else:
        assert isinstance(called.answer, Reply) and called.answer.calls == (found,)


@pytest.mark.parametrize("usage", [None, 3, {}, {"prompt_tokens": "11", "completion_tokens": 7}, (-1, 7), (2**80, 7), (True, 7)])
def test_tokens_that_a_server_does_not_count_are_estimated(usage):
    with FakeServer(fake.says("hello there", usage=usage)) as server:
        called = asked(server, question("x" * 400))
    assert called.estimated and called.tokens == (108, 3)


@pytest.mark.parametrize("usage", [(0, 0), (0, 3), (101, 0), (99_999_999, 1), (1, 99_999_999), (409, 20), (-5, 3), (5, -3)])
def test_counts_that_cannot_be_are_no_counts(usage):
    """Neither free questions nor the end of the budget at a server's word; what is reserved for a question is the most it may count."""
    asking = question("x" * 400)
    assert most_tokens(asking) == 428
    with (
        FakeServer(fake.says("hello there", usage=usage), fake.says("hello there", usage=(408, 20))) as server,
        Endpoint(settings(server)) as endpoint,
    ):
        chat = Budgeted(endpoint, 10_000, 100, {})
        chat.ask([asking])
        assert chat.asked["test"] == Asked(108, 3, 1, {"answered": 1})
        chat.ask([asking])
        assert chat.asked["test"] == Asked(516, 23, 1, {"answered": 2})


def test_no_more_calls_at_once_than_allowed_and_answers_in_order():
    running, most = [0], [0]

    def slow(handler):
        owner = handler.server.owner
        with owner.lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.05)
        with owner.lock:
            running[0] -= 1
        fake.says(owner.bodies[0]["messages"][0]["content"][:0] + "ok")(handler)

    with FakeServer(otherwise=slow) as server, Endpoint(settings(server, concurrency=3)) as endpoint:
        answers = endpoint.ask([question(str(i)) for i in range(9)])
    assert len(answers) == 9 and all(isinstance(a, Reply) for a in answers) and most[0] == 3


def test_answers_belong_to_their_questions():
    with FakeServer(otherwise=fake.echo) as server, Endpoint(settings(server, concurrency=1)) as endpoint:
        answers = endpoint.ask([question(f"number {i}") for i in range(4)])
    assert [a.text.split(" Bearer")[0] for a in answers if isinstance(a, Reply)] == [f"number {i}" for i in range(4)]


def test_an_interruption_gives_up_the_rest():
    class Interrupted(Exception):
        pass

    def interrupt(number, called):
        raise Interrupted

    with FakeServer(fake.says("one"), otherwise=fake.stall) as server:
        with Endpoint(settings(server, deadline_s=30.0)) as endpoint:
            began = time.monotonic()
            with pytest.raises(Interrupted):
                endpoint.call([question("a"), question("b")], interrupt)
        assert time.monotonic() - began < 15


def test_a_signal_to_stop_ends_calls_that_nothing_comes_of():
    """What arrived before is handed on; what is out is given up, long before its deadline, and what waits is not sent."""
    found, told = {}, threading.Event()

    def signals(handler):
        told.wait(20)
        os.kill(os.getpid(), signal.SIGTERM)
        fake.stall(handler)

    def done(number, called):
        found[number] = called
        told.set()

    with FakeServer(fake.says("one"), signals, otherwise=fake.stall) as server:
        one_by_one = settings(server, deadline_s=60.0, concurrency=1)
        with runtime.orderly_stop(), Endpoint(one_by_one) as endpoint, pytest.raises(runtime.Stopped):
            endpoint.call([question(text) for text in "abc"], done)
        assert list(found) == [0] and len(server.bodies) == 2


def test_listed_models():
    with FakeServer() as server, Endpoint(settings(server)) as endpoint:
        assert endpoint.models() == ["fake"]
        for listing, kind in ((fake.gives({"data": 3}), Kind.SCHEMA), (fake.error(500), Kind.SERVER), (fake.error(401), Kind.REQUEST)):
            server.listing = listing
            error = endpoint.models()
            assert isinstance(error, CallError) and error.kind is kind


def test_the_proxy_of_the_environment_is_used(monkeypatch):
    with FakeServer() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/v1").removeprefix("http://"))
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        with Endpoint(EndpointSettings("http://model.invalid/v1", "fake", 0.5, 5.0, 0, 1, 10_000)) as endpoint:
            [answer] = endpoint.ask([question()])
        assert isinstance(answer, Reply) and proxy.seen[0][1] == "http://model.invalid/v1/chat/completions"


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "openai", None)
    with pytest.raises(InputError, match=r"pip install '\.\[llm\]'"):
        Endpoint(EndpointSettings("http://127.0.0.1:9/v1", "fake", 0.5, 5.0, 0, 1, 10_000))


def test_nothing_is_left_open():
    process = psutil.Process()
    with FakeServer(otherwise=fake.drip) as server:
        before = None
        for _ in range(4):
            assert kind_of(asked(server, deadline_s=0.2)) is Kind.DEADLINE
            here = {thread.name for thread in threading.enumerate() if thread.name == "endpoint"}
            ours = [c for c in process.net_connections() if c.raddr and c.raddr.port == server.port]
            assert not here and not [c for c in ours if c.status == psutil.CONN_ESTABLISHED and c.laddr.port != server.port]
            selectors = sum("eventpoll" in os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_link(fd))
            before = selectors if before is None else before
            assert selectors == before


def _is_link(descriptor: str) -> bool:
    return os.path.islink(f"/proc/self/fd/{descriptor}")


def test_whose_organisation_it_is_stays_with_its_own_host(monkeypatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-private")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-private")
    with FakeServer() as server:
        asked(server)
        assert server.seen and "private" not in str(server.seen)


@pytest.mark.parametrize(
    ("variable", "value"), [("SSL_CERT_FILE", "/nonexistent"), ("SSL_CERT_FILE", "/etc/passwd"), ("http_proxy", "http://u:pass@[::1")]
)
def test_an_environment_that_cannot_be_used_is_named_without_its_secrets(monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    with pytest.raises(InputError, match=variable) as refused, Endpoint(EndpointSettings("http://10.0.0.1/v1", "m", 0.5, 5.0, 1, 1, 1000)):
        pass
    assert "pass@" not in str(refused.value)


def test_an_address_that_no_client_takes_is_refused():
    with pytest.raises(InputError, match="address"), Endpoint(EndpointSettings("http://[v1.a]/v1", "m", 0.5, 5.0, 1, 1, 1000)):
        pass
