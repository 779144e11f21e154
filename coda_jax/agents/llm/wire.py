"""Questions and answers as chat.completions writes them. What a server sends is read as text of an attacker."""

from __future__ import annotations

import base64
import functools
import json
import re
from collections.abc import Collection
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from coda_jax.agents.llm import keys
from coda_jax.agents.llm.called import MOST_SAID, Called
from coda_jax.agents.llm.chat import CallError, CallErrorKind, Message, Picture, Reply, Request, ToolCall
from coda_jax.agents.llm.estimate import estimated_tokens, most_tokens, text_tokens
from coda_jax.agents.llm.replies import unfenced
from coda_jax.programs.errors import one_line, quote
from coda_jax.programs.refusal import first_error

MOST_MESSAGE = 400
MOST_CALLS = 32  # tools in one turn
MOST_ARGUMENTS = 64 * 1024  # characters
_MOST_ID = 64
FEATURES = ("response_format", "tools", "seed", "max_tokens", "temperature")  # that some servers refuse
_SPOKEN_OF = {
    "response_format": ("response_format", "json_schema", "json schema", "grammar", "structured"),
    "tools": ("tool", "function call"),
    "seed": ("seed",),
    "max_tokens": ("max_tokens",),
    "temperature": ("temperature",),
}
# how servers say that they do not know a field; "requires --" is a flag that they were started without
_UNKNOWN = re.compile(
    r"unsupported|\bnot support|n't support|endpoints? (found )?that supports?\b|\bunknown\b|unrecogni[sz]ed|"
    r"unexpected (field|parameter|keyword|argument|property)|\bextra.(inputs|forbidden)|"
    r"not (permitted|available|implemented|enabled)|unavailable|requires? --|use .?max_completion_tokens"
)
# of a field that they know, with a value or a length they do not take: the next question may do better
_OF_VALUE = re.compile(
    r"too (large|small|long|high|low|many)|maximum|minimum|exceed|out of range|(greater|less|larger|longer) than|at (most|least)|"
    r"context.?(length|window|size)"
)
_CODES = frozenset({"unsupported_parameter", "unknown_parameter", "unrecognized_parameter"})
_JSON: TypeAdapter[Any] = TypeAdapter(Any)


class _Received(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class _Function(_Received):
    name: Annotated[str, Field(max_length=200)]
    arguments: Annotated[str, Field(max_length=MOST_ARGUMENTS)]


class _ToolCall(_Received):
    function: _Function
    id: str | None = None


class _Said(_Received):
    content: str | None = None
    refusal: str | None = None
    tool_calls: Annotated[list[_ToolCall], Field(max_length=MOST_CALLS)] | None = None


class _Choice(_Received):
    message: _Said
    finish_reason: str | None = None


class _Answer(_Received):
    choices: Annotated[list[_Choice], Field(min_length=1, max_length=16)]


class _Usage(_Received):
    prompt_tokens: Annotated[int, Field(gt=0)]  # no question is empty
    completion_tokens: Annotated[int, Field(ge=0)]


class _Counted(_Received):
    usage: _Usage


class _Problem(_Received):
    message: str = ""
    param: str | None = None
    code: Any = None  # some servers repeat the status here


class _Refused(_Received):
    error: _Problem


@functools.cache
def strict_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a pydantic model in the form that servers with constrained output take: every property required, no others."""

    def strict(node: Any) -> Any:
        if isinstance(node, list):
            return [strict(one) for one in node]
        if not isinstance(node, dict):
            return node
        node = {("anyOf" if k == "oneOf" else k): strict(v) for k, v in node.items() if k not in ("default", "discriminator")}
        if "properties" in node:
            node |= {"required": list(node["properties"]), "additionalProperties": False}
        return node

    return strict(model.model_json_schema())


def body_of(request: Request, model: str, temperature: float, left_out: Collection[str]) -> dict[str, Any]:
    """Arguments of chat.completions.create. left_out: of FEATURES, what this server does not take."""
    found: dict[str, Any] = {"model": model, "messages": [m for message in request.messages for m in _message(message)]}
    found["max_completion_tokens" if "max_tokens" in left_out else "max_tokens"] = request.max_tokens
    if "seed" not in left_out:
        found["seed"] = request.seed % 2**31
    if "temperature" not in left_out:
        found["temperature"] = temperature
    if request.schema is not None:
        schema = strict_schema(request.schema)
        if "response_format" not in left_out:
            named = {"name": request.schema.__name__[:64], "schema": schema, "strict": True}
            found["response_format"] = {"type": "json_schema", "json_schema": named}
        else:
            text = f"Answer with one JSON object and nothing else. It must fit this JSON schema:\n{json.dumps(schema)}"
            found["messages"].append({"role": "user", "content": text})
    if request.tools and "tools" not in left_out:
        found["tools"] = [
            {
                "type": "function",
                "function": {"name": t.name, "description": t.description, "parameters": strict_schema(t.arguments), "strict": True},
            }
            for t in request.tools
        ]
    return found


def _message(message: Message) -> list[dict[str, Any]]:
    texts = all(isinstance(part, str) for part in message.parts)
    content: Any = "\n\n".join(str(part) for part in message.parts) if texts else [p for part in message.parts for p in _part(part)]
    if message.role == "tool":
        return [{"role": "tool", "tool_call_id": message.answers, "content": content}]
    if message.calls:
        calls = [{"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}} for c in message.calls]
        return [{"role": message.role, "content": content or None, "tool_calls": calls}]
    return [{"role": message.role, "content": content}]


def _part(part: str | Picture) -> list[dict[str, Any]]:
    if isinstance(part, str):
        return [{"type": "text", "text": part}]
    shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(part.png).decode()}"}}
    return [{"type": "text", "text": part.caption}, shown] if part.caption else [shown]


def feature_refused(body: bytes, sent: Collection[str]) -> str | None:
    """Which of FEATURES a server says it does not know, among those that were sent; None where it objects to anything else."""
    try:
        problem = _Refused.model_validate_json(body).error
    except ValidationError:
        problem = _Problem(message=body[:4000].decode("utf-8", errors="replace"))
    asked = [name for name in FEATURES if name in sent]
    named = [name for name in asked if problem.param is not None and problem.param.startswith(name)]
    text = problem.message[:4000].lower()
    if str(problem.code) not in _CODES and (_OF_VALUE.search(text) or not _UNKNOWN.search(text)):
        return None
    return next(iter(named or [name for name in asked if any(word in text for word in _SPOKEN_OF[name])]), None)


def problem_text(body: bytes) -> str:
    """What a server says is wrong, in one printable line without keys."""
    try:
        text = _Refused.model_validate_json(body).error.message
    except ValidationError:
        text = body[:4000].decode("utf-8", errors="replace")
    return one_line(keys.redacted(text), 200)


def read_answer(request: Request, body: bytes) -> Called:
    """The outcome that a successful response stands for; why the model stopped is read before what it said."""
    try:
        choice = _Answer.model_validate_json(body).choices[0]
    except ValidationError as error:
        return _counted(request, body, "", CallError(CallErrorKind.SCHEMA, _short(f"no answer of a chat: {first_error(error, 'body')}")))
    said = _without_thoughts(keys.redacted(choice.message.content or ""))
    calls = tuple(
        ToolCall(_id(call.id, i), keys.redacted(call.function.name), keys.redacted(call.function.arguments))
        for i, call in enumerate(choice.message.tool_calls or [])
    )
    answer = checked(request, said, calls, choice.finish_reason or "", keys.redacted(choice.message.refusal or ""))
    return _counted(request, body, said + "".join(c.name + c.arguments for c in calls), answer)


def checked(request: Request, text: str, calls: tuple[ToolCall, ...], reason: str, refusal: str) -> Reply | CallError:
    """The reply, if what was said is complete and fits the request; its tokens are not counted yet."""
    if reason == "length":
        message = f"the answer was cut off after {request.max_tokens} tokens; ask for less, or raise config.agents.llm.answer_tokens"
        return CallError(CallErrorKind.TRUNCATED, message)
    if reason == "content_filter":
        return CallError(CallErrorKind.REFUSED, "a content filter of the server held the answer back")
    if refusal:
        return CallError(CallErrorKind.REFUSED, _short(f"the model declined: {quote(refusal, 200)}"))
    if calls:
        problem = _wrong_call(request, calls)
        return CallError(CallErrorKind.SCHEMA, _short(problem)) if problem else Reply(text, calls, (0, 0))
    if not text.strip():
        return CallError(CallErrorKind.EMPTY, "the model said nothing and called no tool")
    if request.schema is None:
        return Reply(text, (), (0, 0))
    text = unfenced(text)
    try:
        request.schema.model_validate_json(text)
    except ValidationError as error:
        return CallError(CallErrorKind.SCHEMA, _short(f"the answer does not fit: {_where_and_what(error)}"))
    return Reply(text, (), (0, 0))


def _wrong_call(request: Request, calls: tuple[ToolCall, ...]) -> str:
    offered = {tool.name for tool in request.tools}
    for call in calls:
        if call.name not in offered:
            names = f"there are: {', '.join(sorted(offered))}" if offered else "none is offered"
            return f"there is no tool {quote(call.name)}; {names}"
        try:
            arguments = _JSON.validate_json(call.arguments)
        except ValidationError:
            return f"the arguments of {call.name} are not JSON"
        if not isinstance(arguments, dict):
            return f"the arguments of {call.name} are no JSON object"
    return ""


def _where_and_what(error: ValidationError) -> str:
    """Of the first thing that is wrong with what a model wrote; names of fields may be its own."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(quote(str(part)).strip("'") for part in first["loc"][:6])
    return f"{where or 'the whole'}: {first['msg']}"


def _counted(request: Request, body: bytes, said: str, answer: Reply | CallError) -> Called:
    tokens = _server_count(request, body, said)
    estimated = tokens is None
    if tokens is None:
        tokens = estimated_tokens(request), text_tokens(said)
    if isinstance(answer, Reply):
        return Called(Reply(answer.text, answer.calls, tokens), tokens, estimated)
    return Called(answer, tokens, estimated, said[:MOST_SAID])


def _server_count(request: Request, body: bytes, said: str) -> tuple[int, int] | None:
    """Tokens (in, out) as the server counts; None where it does not, or says what cannot be: the budget is not its to give or to end."""
    try:
        usage = _Counted.model_validate_json(body).usage
    except ValidationError:
        return None
    if usage.prompt_tokens + usage.completion_tokens > most_tokens(request) or (said and not usage.completion_tokens):
        return None
    return usage.prompt_tokens, usage.completion_tokens


def _without_thoughts(text: str) -> str:
    """What a reasoning model says after having thought aloud, where its server hands both on as one text."""
    head, end, rest = text.partition("</think>")
    return rest.lstrip("\n") if end and head.lstrip().startswith("<think>") else text


def _id(given: str | None, number: int) -> str:
    usable = given is not None and 0 < len(given) <= _MOST_ID and all("\x21" <= c <= "\x7e" for c in given)
    return keys.redacted(given) if usable and given is not None else f"call_{number}"


def _short(text: str) -> str:
    return one_line(keys.redacted(text), MOST_MESSAGE)
