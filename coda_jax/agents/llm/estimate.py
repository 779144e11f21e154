"""About how many tokens a question has, and at most: from the length of its parts, alike on every machine."""

from __future__ import annotations

import json
import struct

from coda_jax.agents.llm.chat import Picture, Request

_TOKEN_BYTES = 4  # of English text and code, about
_MESSAGE_TOKENS = 8  # marks around a message
_PATCH = 14  # pixels of a picture that make a token, in the models that cut finest
_PICTURE_TOKENS = 300  # of any picture, whatever its size
_PNG_SIZE = slice(16, 24)


def text_tokens(text: str) -> int:
    """About how many tokens a text has."""
    return -(-len(text.encode("utf-8", errors="replace")) // _TOKEN_BYTES)


def estimated_tokens(request: Request) -> int:
    """About how many tokens the question has, where the server does not count."""
    return -(-_text_bytes(request) // _TOKEN_BYTES) + _other_tokens(request)


def most_tokens(request: Request) -> int:
    """At most as many tokens, question and answer together: no tokenizer makes more tokens than bytes. Pictures are estimated."""
    return _text_bytes(request) + _other_tokens(request) + request.max_tokens


def _text_bytes(request: Request) -> int:
    texts = [part if isinstance(part, str) else part.caption for m in request.messages for part in m.parts]
    texts += [text for m in request.messages for call in m.calls for text in (call.name, call.arguments)]
    schemas = [tool.arguments for tool in request.tools] + ([request.schema] if request.schema is not None else [])
    texts += [tool.name + tool.description for tool in request.tools]
    texts += [json.dumps(schema.model_json_schema()) for schema in schemas]
    return sum(len(text.encode("utf-8", errors="replace")) for text in texts)


def _other_tokens(request: Request) -> int:
    pictures = [part for m in request.messages for part in m.parts if isinstance(part, Picture)]
    return _MESSAGE_TOKENS * len(request.messages) + sum(_picture_tokens(p.png) for p in pictures)


def _picture_tokens(png: bytes) -> int:
    if len(png) < _PNG_SIZE.stop:
        return _PICTURE_TOKENS
    width, height = struct.unpack(">II", png[_PNG_SIZE])
    return _PICTURE_TOKENS + -(-width // _PATCH) * -(-height // _PATCH)
