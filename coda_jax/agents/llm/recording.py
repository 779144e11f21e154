"""Every question to a model with what came of it, one JSON object a line: a run's memory of its calls, and what a replay answers from.

A question is known by the hash of its content: model, temperature, most tokens, messages (texts and pictures by their hashes), schema,
tools and seed. Texts stand in lines of their own, each once; pictures are not stored, for they can be drawn again. Where a question stands
there several times, the last line counts: it is what the run went on with.
"""

from __future__ import annotations

import dataclasses
import fcntl
import functools
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from coda_jax.agents.llm import wire
from coda_jax.agents.llm.called import MOST_SAID, Called, Caller, failed
from coda_jax.agents.llm.chat import CallError, CallErrorKind, Message, Reply, Request, ToolCall
from coda_jax.programs.errors import one_line, quote
from coda_jax.programs.refusal import first_error
from coda_jax.runtime import InputError

FILE = "calls.jsonl"
# faults of the way to the model, which a person may have mended since; the others are what the model itself did
PASSING = frozenset(
    {CallErrorKind.RATE_LIMITED, CallErrorKind.SERVER, CallErrorKind.CONNECTION, CallErrorKind.DEADLINE, CallErrorKind.REQUEST}
)
_NEVER = (CallErrorKind.BUDGET, CallErrorKind.NOT_RECORDED)  # ours, found anew each time
_MOST_LINE, _MOST_FILE = 2**26, 2**31  # bytes
_MOST_TEXT = 2**25
_MOST_TOKENS = 10**8
_Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Tokens = Annotated[int, Field(ge=0, le=_MOST_TOKENS)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True)


class _Text(_Strict):
    """A text that messages name by its hash."""

    kind: Literal["text"]
    sha256: _Hash
    text: Annotated[str, Field(max_length=_MOST_TEXT)]


class _Part(_Strict):
    """text: hash of one. picture: hash of one, with its size and the hash of its caption."""

    text: _Hash | None = None
    picture: _Hash | None = None
    size: Annotated[int, Field(ge=0)] | None = None


class _Tool(_Strict):
    id: Annotated[str, Field(max_length=200)]
    name: Annotated[str, Field(max_length=200)]
    arguments: Annotated[str, Field(max_length=wire.MOST_ARGUMENTS)]


class _Turn(_Strict):
    role: Literal["system", "user", "assistant", "tool"]
    parts: Annotated[list[_Part], Field(max_length=10_000)]
    calls: Annotated[list[_Tool], Field(max_length=1000)]
    answers: Annotated[str, Field(max_length=200)]


class _Question(_Strict):
    """What the hash of a question is made of."""

    model: Annotated[str, Field(max_length=1000)]
    temperature: float
    max_tokens: int
    seed: int
    messages: Annotated[list[_Turn], Field(max_length=10_000)]
    answer_schema: _Hash | None
    tools: Annotated[list[_Hash], Field(max_length=1000)]

    @property
    def key(self) -> str:
        return _hash(json.dumps(self.model_dump(exclude_none=True), sort_keys=True))


class _Answer(_Strict):
    text: Annotated[str, Field(max_length=_MOST_TEXT)]
    calls: Annotated[list[_Tool], Field(max_length=wire.MOST_CALLS)]


class _Error(_Strict):
    kind: Annotated[CallErrorKind, Field(strict=False)]
    message: Annotated[str, Field(max_length=1000, pattern=r"^[\x20-\x7e]*$")]


class _Call(_Strict):
    """A question with its answer or its error. said: beginning of an answer that does not count, for people."""

    kind: Literal["call"]
    key: _Hash
    purpose: Annotated[str, Field(max_length=200)]
    question: _Question
    answer: _Answer | None
    error: _Error | None
    tokens: tuple[_Tokens, _Tokens]
    estimated: bool
    said: Annotated[str, Field(max_length=MOST_SAID)]


_LINE: TypeAdapter[_Text | _Call] = TypeAdapter(Annotated[_Text | _Call, Field(discriminator="kind")])


def _hash(text: str | bytes) -> str:
    return hashlib.sha256(text if isinstance(text, bytes) else text.encode("utf-8", errors="surrogatepass")).hexdigest()


@functools.cache
def _schema_hash(model: type[BaseModel]) -> str:
    return _hash(json.dumps(model.model_json_schema(), sort_keys=True))


def _turn(message: Message, texts: dict[str, str]) -> _Turn:
    parts = []
    for part in message.parts:
        text = part if isinstance(part, str) else part.caption
        named = _hash(text)
        texts[named] = text
        parts.append(_Part(text=named) if isinstance(part, str) else _Part(text=named, picture=_hash(part.png), size=len(part.png)))
    calls = [_Tool(id=c.id, name=c.name, arguments=c.arguments) for c in message.calls]
    return _Turn(role=message.role, parts=parts, calls=calls, answers=message.answers)


def _question(request: Request, model: str, temperature: float) -> tuple[_Question, dict[str, str]]:
    """The question in the form that is recorded, and its texts by hash."""
    texts: dict[str, str] = {}
    question = _Question(
        model=model,
        temperature=temperature,
        max_tokens=request.max_tokens,
        seed=request.seed,
        messages=[_turn(message, texts) for message in request.messages],
        answer_schema=None if request.schema is None else _schema_hash(request.schema),
        tools=[_hash(f"{t.name}\n{t.description}\n{_schema_hash(t.arguments)}") for t in request.tools],
    )
    return question, texts


@dataclasses.dataclass(frozen=True)
class _Stored:
    """What is kept of a line in memory."""

    answer: _Answer | None
    error: _Error | None
    tokens: tuple[int, int]
    estimated: bool
    said: str

    def called(self, request: Request) -> Called:
        """As an answer to ``request``, checked like one that came from a server."""
        if self.error is not None:
            return Called(CallError(self.error.kind, self.error.message), self.tokens, self.estimated, self.said)
        assert self.answer is not None, "every call has one of the two"
        calls = tuple(ToolCall(c.id, c.name, c.arguments) for c in self.answer.calls)
        found = wire.checked(request, self.answer.text, calls, "", "")
        if isinstance(found, Reply):
            found = dataclasses.replace(found, tokens=self.tokens)
        return Called(found, self.tokens, self.estimated, self.said)


class Recording:
    """Calls by the hash of their question, read from a file.

    Args:
      path: of the file, or of a run folder that holds one.

    Raises:
      InputError: it cannot be read, or a line of it is none of ours; path and line are named. A half-written last line is left out.
    """

    def __init__(self, path: Path):
        self.path = path / FILE if path.is_dir() else path
        self._found: dict[str, _Stored] = {}
        self._texts: set[str] = set()
        self.bytes = 0  # of whole lines
        for _, line in self._lines():
            self._take(line)

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: str) -> _Stored | None:
        return self._found.get(key)

    def _take(self, line: _Text | _Call) -> None:
        if isinstance(line, _Text):
            self._texts.add(line.sha256)
        else:
            self._found[line.key] = _Stored(line.answer, line.error, line.tokens, line.estimated, line.said)

    def _lines(self) -> Iterator[tuple[int, _Text | _Call]]:
        """Every line with the place in the file at which it begins."""
        try:
            if not stat.S_ISREG(self.path.stat().st_mode):
                raise InputError(f"{self.path} is no plain file of recorded calls; name the {FILE} of a run, or its folder")
            if self.path.stat().st_size > _MOST_FILE:
                raise InputError(
                    f"{self.path} has more than {_MOST_FILE / 2**30:g} GiB, which no run records; it is damaged or none of ours"
                )
            with self.path.open("rb") as file:
                number = 0
                while line := file.readline(_MOST_LINE):
                    number += 1
                    if not line.endswith(b"\n"):
                        if len(line) == _MOST_LINE:
                            raise InputError(f"{self.path}:{number} is longer than any call; the file is damaged or none of ours")
                        return  # of a process that was killed while it wrote
                    yield self.bytes, self._parsed(line, number)
                    self.bytes += len(line)
        except OSError as error:
            raise InputError(f"{self.path} cannot be read ({error.strerror}); name the {FILE} of a run, or its folder") from None

    def _parsed(self, line: bytes, number: int) -> _Text | _Call:
        try:
            found = _LINE.validate_json(line)
        except ValidationError as error:
            problem = one_line(first_error(error, "line"), 200)
            raise InputError(f"{self.path}:{number} is no recorded call ({problem}); restore the file, or take the line out") from None
        wrong = ""
        if isinstance(found, _Text):
            wrong = "a text does not fit its hash" if _hash(found.text) != found.sha256 else ""
        elif found.key != found.question.key:
            wrong = "the question does not fit its hash"
        elif (found.answer is None) == (found.error is None):
            wrong = "it must have an answer or an error"
        elif found.error is not None and found.error.kind in _NEVER:
            wrong = f"{quote(found.error.kind.value)} is never recorded"
        elif any(named not in self._texts for turn in found.question.messages for part in turn.parts if (named := part.text)):
            wrong = "a text of its messages is missing"
        if wrong:
            raise InputError(f"{self.path}:{number} is no recorded call ({wrong}); restore the file, or take the line out")
        return found


class OwnRecording(Recording):
    """The recording that a run writes while it goes on, alone: it holds a lock on the file. Use as a context manager.

    Args:
      path: of the file, made where there is none. settled_bytes: its length at the last commit. Passing faults recorded after it were of
        work that is done again, so their questions are asked again; all else that is recorded stands.

    Raises:
      InputError: as ``Recording``, or it is a link or no plain file, or another process writes it.
    """

    def __init__(self, path: Path, settled_bytes: int):
        if (path.is_symlink() or path.exists()) and not stat.S_ISREG(path.lstat().st_mode):
            raise InputError(f"{path} is a link or no plain file; remove it, or choose another --workdir")
        self._settled = settled_bytes
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644), "ab")
        try:
            self._lock(path)  # before anything is read or cut off: its end may be half a line of another process
            super().__init__(path)
            self._file.truncate(self.bytes)
        except BaseException:
            self._file.close()
            raise

    def _lock(self, path: Path) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{path} is being written by another process; wait for its end, or write elsewhere") from None
        except OSError:
            return  # of a file system without locks

    def _lines(self) -> Iterator[tuple[int, _Text | _Call]]:
        for place, line in super()._lines():
            again = isinstance(line, _Call) and line.error is not None and line.error.kind in PASSING and place >= self._settled
            if isinstance(line, _Call) and again:
                self._found.pop(line.key, None)
            else:
                yield place, line

    def add(self, question: _Question, texts: dict[str, str], purpose: str, called: Called) -> None:
        """Write a call; when this returns it is on the disk.

        Raises:
          OSError: the disk is full.
        """
        answer, error = None, None
        if isinstance(called.answer, CallError):
            error = _Error(kind=called.answer.kind, message=one_line(called.answer.message, 1000))
        else:
            calls = [_Tool(id=c.id, name=c.name, arguments=c.arguments) for c in called.answer.calls]
            answer = _Answer(text=called.answer.text, calls=calls)
        new = [_Text(kind="text", sha256=named, text=text) for named, text in texts.items() if named not in self._texts]
        call = _Call(
            kind="call",
            key=question.key,
            purpose=one_line(purpose, 200),
            question=question,
            answer=answer,
            error=error,
            tokens=called.tokens,
            estimated=called.estimated,
            said=called.said,
        )
        written = b"".join(line.model_dump_json(exclude_none=not isinstance(line, _Call)).encode() + b"\n" for line in (*new, call))
        self._file.write(written)
        self._file.flush()
        os.fsync(self._file.fileno())
        self.bytes += len(written)
        for line in (*new, call):
            self._take(line)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> OwnRecording:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Recorded:
    """A Caller that asks ``source`` only what is not recorded, and records what comes; without a source it answers from the recording
    alone.

    model, temperature: of the source, part of every question's hash.
    """

    def __init__(self, recording: Recording, model: str, temperature: float, source: Caller | None):
        self._recording, self._model, self._temperature, self._source = recording, model, temperature, source

    def call(self, requests: Sequence[Request], done: Callable[[int, Called], None]) -> None:
        """As ``Caller.call``. The same question twice is asked once."""
        waiting: dict[str, list[int]] = {}
        questions: dict[str, tuple[_Question, dict[str, str]]] = {}
        for i, request in enumerate(requests):
            question, texts = _question(request, self._model, self._temperature)
            stored = self._recording.get(question.key)
            if stored is not None:
                done(i, stored.called(request))
            else:
                waiting.setdefault(question.key, []).append(i)
                questions[question.key] = question, texts
        if not waiting:
            return
        if self._source is None:
            text = f"{self._recording.path} does not hold this question: it is of a run with other settings, or of another version"
            for i in (i for places in waiting.values() for i in places):
                done(i, failed(CallErrorKind.NOT_RECORDED, one_line(text, wire.MOST_MESSAGE)))
            return
        order = list(waiting)

        def came(number: int, called: Called) -> None:
            key = order[number]
            if isinstance(self._recording, OwnRecording):
                self._recording.add(*questions[key], requests[waiting[key][0]].purpose, called)
            for i in waiting[key]:
                done(i, called)
                called = dataclasses.replace(called, attempts=0, seconds=0.0)  # the others cost nothing

        self._source.call([requests[waiting[key][0]] for key in order], came)
