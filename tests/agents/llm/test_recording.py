"""Calls on disk: a question gets the answer it got, faults of the way are mended, and a file of others is read as one of an attacker."""

import dataclasses
import json
import os
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from coda_jax.agents.llm.called import Called, failed
from coda_jax.agents.llm.chat import CallError, CallErrorKind, Message, Picture, Reply, Request, Tool, ToolCall
from coda_jax.agents.llm.recording import FILE, PASSING, OwnRecording, Recorded, Recording
from coda_jax.runtime import InputError
from tests.agents.llm.listed import Listed, answer, question


class Number(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    number: int


class Other(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    other: int


def ask(path: Path, requests, source=None, settled: int = 0, model: str = "fake", temperature: float = 0.5) -> list[Called]:
    found: dict[int, Called] = {}
    with OwnRecording(path, settled) as recording:
        Recorded(recording, model, temperature, source).call(requests, found.__setitem__)
    return [found[i] for i in range(len(requests))]


def replay(path: Path, requests, model: str = "fake") -> list[Called]:
    found: dict[int, Called] = {}
    Recorded(Recording(path), model, 0.5, None).call(requests, found.__setitem__)
    return [found[i] for i in range(len(requests))]


def test_what_was_answered_is_answered_alike(tmp_path):
    path = tmp_path / FILE
    source = Listed(lambda r: answer(f"to {r.seed}", (10 + r.seed, 5)))
    requests = [question(seed=i) for i in range(3)]
    first = ask(path, requests, source)
    again = ask(path, [*requests, question(seed=3)], source)
    assert [r.seed for r in source.asked] == [0, 1, 2, 3]
    for old, new in zip(first, again, strict=False):
        assert (new.answer, new.tokens, new.estimated) == (old.answer, old.tokens, old.estimated) and new.attempts == 0
    assert [c.answer for c in replay(tmp_path, requests)] == [c.answer for c in first]


def test_every_part_of_a_question_counts():
    base = Request("a", (Message("user", ("x", Picture(b"png", "cap"))),), 1, 10, Number, (Tool("t", "d", Number),))
    changed = [
        dataclasses.replace(base, seed=2),
        dataclasses.replace(base, max_tokens=11),
        dataclasses.replace(base, schema=Other),
        dataclasses.replace(base, schema=None),
        dataclasses.replace(base, tools=()),
        dataclasses.replace(base, tools=(Tool("t", "other", Number),)),
        dataclasses.replace(base, tools=(Tool("t", "d", Other),)),
        *(
            dataclasses.replace(base, messages=(message,))
            for message in (
                Message("system", base.messages[0].parts),
                Message("user", ("y", Picture(b"png", "cap"))),
                Message("user", ("x", Picture(b"PNG", "cap"))),
                Message("user", ("x", Picture(b"png", "other"))),
                Message("user", ("x", "cap")),
                Message("assistant", ("x",), (ToolCall("1", "t", "{}"),)),
                Message("assistant", ("x",), (ToolCall("1", "t", '{"number": 1}'),)),
                Message("tool", ("x",), answers="1"),
            )
        ),
    ]
    source = Listed(lambda r: answer('{"number": 1}'))
    with _temporary() as path:
        ask(path, [base, *changed], source)
        ask(path, [base], source, model="larger")
        ask(path, [base], source, temperature=0.6)
        assert len(source.asked) == len(changed) + 3
        ask(path, [dataclasses.replace(base, purpose="b")], source)  # who asks does not
        assert len(source.asked) == len(changed) + 3


class _temporary:
    def __enter__(self) -> Path:
        import tempfile

        self._folder = tempfile.TemporaryDirectory()
        return Path(self._folder.name) / FILE

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


def test_the_same_question_twice_is_asked_once(tmp_path):
    source = Listed()
    found = ask(tmp_path / FILE, [question(), question(), question(seed=1)], source)
    assert len(source.asked) == 2 and found[0].answer == found[1].answer
    assert [c.attempts for c in found] == [1, 0, 1]


def test_texts_stand_once_and_pictures_do_not(tmp_path):
    path, text, png = tmp_path / FILE, "a long prompt " * 500, b"\x89PNG" + os.urandom(5000)
    requests = [Request("t", (Message("system", (text,)), Message("user", (Picture(png, f"frame {i}"),))), i, 5) for i in range(20)]
    ask(path, requests, Listed())
    assert path.stat().st_size < 2 * len(text) + 20 * 1200
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sum(line["kind"] == "text" and line["text"] == text for line in lines) == 1
    assert len([line for line in lines if line["kind"] == "call"]) == 20


@pytest.mark.parametrize("kind", [k for k in CallErrorKind if k not in (CallErrorKind.BUDGET, CallErrorKind.NOT_RECORDED)])
def test_what_is_asked_again_after_a_kill(tmp_path, kind):
    """Before the commit a fault of the way is mended by asking again; what the model did stands. After the commit everything stands."""
    path = tmp_path / FILE
    fault = Called(CallError(kind, "so it was"), (7, 1), True, "half an ans", attempts=1)
    assert ask(path, [question()], Listed(lambda r: fault))[0].answer == fault.answer
    settled = path.stat().st_size
    after = Listed(lambda r: answer("mended"))
    kept = ask(path, [question()], after, settled=settled)[0]
    assert not after.asked and (kept.outcome, kept.tokens, kept.estimated, kept.said) == (kind, (7, 1), True, "half an ans")
    assert replay(path, [question()])[0].outcome == kind
    found = ask(path, [question()], after, settled=0)[0]
    assert bool(after.asked) is (kind in PASSING)
    if kind in PASSING:
        assert isinstance(found.answer, Reply) and found.answer.text == "mended"
        assert replay(path, [question()])[0].answer == found.answer  # the last one counts: the run went on with it
        assert ask(path, [question()], Listed(lambda r: fault), settled=0)[0].answer == found.answer


def test_in_one_process_a_fault_stands(tmp_path):
    source = Listed(lambda r: failed(CallErrorKind.SERVER, "500"))
    found: list[Called] = []
    with OwnRecording(tmp_path / FILE, 0) as recording:
        recorded = Recorded(recording, "fake", 0.5, source)
        for _ in range(2):
            recorded.call([question()], lambda i, called: found.append(called))
    assert len(source.asked) == 1 and str(found[0].answer) == str(found[1].answer)


def test_a_half_written_line_is_cut_away(tmp_path):
    path = tmp_path / FILE
    ask(path, [question(seed=i) for i in range(2)], Listed())
    whole = path.read_bytes()
    for cut in (1, 30, len(whole.splitlines()[-1])):
        path.write_bytes(whole[:-cut])
        assert len(Recording(path)) == 1
        source = Listed()
        ask(path, [question(seed=i) for i in range(2)], source)
        assert [r.seed for r in source.asked] == [1] and path.read_bytes() == whole


def test_a_replay_says_what_it_does_not_know(tmp_path):
    ask(tmp_path / FILE, [question()], Listed())
    known, unknown, other = [*replay(tmp_path, [question(), question("what else")]), *replay(tmp_path, [question()], model="other")]
    assert isinstance(known.answer, Reply)
    for called in (unknown, other):
        assert isinstance(called.answer, CallError) and called.answer.kind is CallErrorKind.NOT_RECORDED and called.tokens == (0, 0)
    assert len((tmp_path / FILE).read_text().splitlines()) == 2  # a replay writes nothing


def test_a_recorded_answer_is_checked_like_one_of_a_server(tmp_path):
    """Whoever wrote the file cannot get past a schema, call tools that are not there, or change a question."""
    path = tmp_path / FILE
    ask(path, [question(schema=Number)], Listed(lambda r: answer("not a number")))
    assert replay(path, [question(schema=Number)])[0].outcome == "schema"
    path.unlink()
    ask(path, [question()], Listed(lambda r: Called(Reply("", (ToolCall("1", "remove", "{}"),), (1, 1)), (1, 1))))
    assert replay(path, [question()])[0].outcome == "schema"


def _changed(line: dict, **changes) -> bytes:
    return (json.dumps(line | changes) + "\n").encode()


def _call() -> dict:
    with _temporary() as path:
        ask(path, [question()], Listed())
        return json.loads(path.read_text().splitlines()[1])


def _bad_lines() -> list[bytes]:
    call = _call()
    asked, nothing = call["question"], {"answer": None, "error": None}
    return [
        b"\n",
        b"null\n",
        b"[]\n",
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b'{"kind":"call"}\n',
        b'{"kind":"other"}\n',
        b'{"kind":"text","sha256":"' + b"0" * 64 + b'","text":"not its hash"}\n',
        _changed(call, extra=1),
        _changed(call, key="0" * 64),
        _changed(call, key=call["key"].upper()),
        _changed(call, question=asked | {"seed": 9}),
        _changed(call, question=asked | {"model": "other"}),
        _changed(call, question=asked | {"temperature": "0.5"}),
        _changed(call, tokens=[-1, 0]),
        _changed(call, tokens=[1e9, 0]),
        _changed(call, tokens=[10**9, 0]),
        _changed(call, tokens=[True, 0]),
        _changed(call, tokens=[1]),
        _changed(call, estimated="no"),
        _changed(call, **nothing),
        _changed(call, error={"kind": "server", "message": "both"}),
        _changed(call, answer=None, error={"kind": "unknown", "message": "x"}),
        _changed(call, answer=None, error={"kind": "budget", "message": "x"}),
        _changed(call, answer=None, error={"kind": "server", "message": "two\nlines"}),
        _changed(call, answer=None, error={"kind": "server", "message": "x" * 2000}),
        _changed(call, answer={"text": 3, "calls": []}),
        _changed(call, answer={"text": "x", "calls": [{"id": "1", "name": "n", "arguments": "{}"}] * 100}),
        _changed(call, purpose="x" * 300),
    ]


@pytest.mark.parametrize("line", _bad_lines(), ids=range(len(_bad_lines())))
def test_lines_of_others_are_refused_by_number(tmp_path, line):
    path = tmp_path / FILE
    ask(path, [question()], Listed())
    path.write_bytes(path.read_bytes() + line)
    for read in (Recording, lambda p: OwnRecording(p, 0)):
        with pytest.raises(InputError, match=rf"{FILE}:3 ") as error:
            read(path)
        assert "\n" not in str(error.value) and len(str(error.value)) < 600


def test_a_call_without_its_text_is_refused(tmp_path):
    path = tmp_path / FILE
    ask(path, [question()], Listed())
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[1])
    with pytest.raises(InputError, match="a text of its messages is missing"):
        Recording(path)


def test_files_that_are_none(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        Recording(tmp_path / "nothing.jsonl")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="no plain file"):
        Recording(tmp_path / "pipe")
    (tmp_path / "there").write_text("untouched")
    (tmp_path / FILE).symlink_to(tmp_path / "there")
    with pytest.raises(InputError, match="link or no plain file"):
        OwnRecording(tmp_path / FILE, 0)
    assert (tmp_path / "there").read_text() == "untouched"


def test_two_never_write_one_file(tmp_path):
    path = tmp_path / FILE
    with OwnRecording(path, 0):
        path.write_bytes(b'{"half a line')
        with pytest.raises(InputError, match="calls.jsonl is being written by another process"):
            OwnRecording(path, 0)
        assert path.read_bytes() == b'{"half a line'
    OwnRecording(path, 0).close()
    assert path.read_bytes() == b""
