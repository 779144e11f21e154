"""The budget of a run: never passed, charged in the order of the questions, alike however answers arrive."""

import dataclasses

import pytest

from coda_jax.agents.llm.budget import Asked, Budgeted, Paid, Prices, total
from coda_jax.agents.llm.called import Called, failed
from coda_jax.agents.llm.chat import CallError, CallErrorKind, Message, Picture, Reply, Request
from coda_jax.agents.llm.estimate import estimated_tokens, most_tokens, text_tokens
from tests.agents.llm.listed import Listed, answer, question


def outcomes(answers) -> list[str]:
    return [a.kind.value if isinstance(a, CallError) else "answered" for a in answers]


def test_it_holds_and_what_does_not_fit_is_not_asked():
    one = most_tokens(question())
    source = Listed(lambda r: answer(tokens=(9, 20)))
    chat = Budgeted(source, 3 * one, 100, {})
    answers = chat.ask([question(seed=i) for i in range(20)])
    assert total(chat.asked) <= 3 * one
    got = outcomes(answers)
    n = got.index("budget")
    assert n >= 3 and got == ["answered"] * n + ["budget"] * (20 - n) and len(source.asked) == n
    assert chat.asked["test"] == Asked(9 * n, 20 * n, 0, {"answered": n, "budget": 20 - n})
    left = 3 * one - 29 * n
    assert 0 <= left < one and f"{left} of its {3 * one} tokens left" in str(answers[-1])


def test_a_smaller_question_may_still_fit():
    small = question("hi", max_tokens=1)
    chat = Budgeted(Listed(), most_tokens(small), 100, {})
    assert outcomes(chat.ask([question("long " * 50), small])) == ["budget", "answered"]


def test_waves_reserve_the_longest_answers():
    one = most_tokens(question())
    source = Listed(lambda r: answer(tokens=(5, 1)))
    chat = Budgeted(source, 4 * one + 1, 100, {})
    assert outcomes(chat.ask([question(seed=i) for i in range(9)])) == ["answered"] * 9
    assert source.waves[0] == 4 and sum(source.waves) == 9


@pytest.mark.parametrize("tokens", [50, 120, 200, 333, 1000])
def test_the_order_of_answers_changes_nothing(tokens):
    def of(request: Request) -> Called:
        return (
            answer(str(request.seed), (request.seed % 7 * 4, request.seed % 5)) if request.seed % 3 else failed(CallErrorKind.SERVER, "x")
        )

    requests = [question("a" * (i % 4), seed=i) for i in range(12)]
    found = []
    for backwards in (False, True):
        chat = Budgeted(Listed(of, backwards), tokens, 100, {})
        found.append(([repr(a) for a in chat.ask(requests)], chat.asked))
    assert found[0] == found[1]


def test_going_on_equals_never_having_stopped():
    requests = [question(seed=i) for i in range(10)]
    whole = Budgeted(Listed(), 120, 100, {})
    expected = outcomes(whole.ask(requests))
    first = Budgeted(Listed(), 120, 100, {})
    found = outcomes(first.ask(requests[:4]))
    second = Budgeted(Listed(), 120, 100, first.asked)
    assert found + outcomes(second.ask(requests[4:])) == expected and second.asked == whole.asked
    assert "budget" in expected


def test_answers_are_never_longer_than_the_settings_allow():
    source = Listed()
    Budgeted(source, 10_000, 7, {}).ask([question(max_tokens=500), question(max_tokens=3)])
    assert [r.max_tokens for r in source.asked] == [7, 3]


def test_faults_cost_what_they_took():
    cut = Called(CallError(CallErrorKind.TRUNCATED, "cut"), (11, 20), attempts=1)
    chat = Budgeted(Listed(lambda r: cut), 10_000, 100, {})
    chat.ask([question()])
    assert chat.asked["test"] == Asked(11, 20, 0, {"truncated": 1})


def test_what_was_paid_is_told_once_and_recorded_answers_are_free():
    found = {0: answer(tokens=(10, 5)), 1: dataclasses.replace(answer(), attempts=0), 2: failed(CallErrorKind.NOT_RECORDED, "x")}
    chat = Budgeted(Listed(lambda r: found[r.seed]), 10_000, 100, {})
    chat.ask([question(seed=i) for i in range(3)])
    assert chat.paid() == {"test": Paid(1, 1, 10, 5, 0.5)} and chat.paid() == {}
    assert chat.asked["test"].tokens == 30  # charged alike


def test_the_watch_is_told_of_every_answer_and_may_end_it():
    told = []
    one = most_tokens(question())
    chat = Budgeted(Listed(lambda r: answer(tokens=(5, 1))), 2 * one, 100, {}, lambda a, q: told.append((a, q)))
    chat.ask([question(seed=i) for i in range(5)])
    assert told == [(i, 5) for i in range(1, 6)]

    def stop(answers: int, questions: int) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        Budgeted(Listed(), 10_000, 100, {}, stop).ask([question()])


def test_differences_and_prices():
    before, after = Asked(5, 5, 1, {"answered": 2}), Asked(9, 6, 1, {"answered": 3, "schema": 1})
    assert after.minus(before) == Asked(4, 1, 0, {"answered": 1, "schema": 1}) and after.minus(after) == Asked()
    assert after.questions == 4 and after.tokens == 15
    assert Prices(2.0, 10.0).cost(500_000, 100_000) == pytest.approx(2.0)


def test_no_text_has_more_tokens_than_reserved():
    """Every byte may be a token of its own, in a question as in its tools and schema; a picture counts by its size."""
    text = "\u00e9\u4e2d" * 10
    plain = Request("t", (Message("user", (text,)),), 0, 50)
    assert most_tokens(plain) >= len(text.encode()) + 50 and estimated_tokens(plain) < most_tokens(plain)
    header = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
    small, large = (Request("t", (Message("user", (Picture(header + n.to_bytes(4, "big") * 2),)),), 0, 50) for n in (64, 1024))
    assert most_tokens(small) + 4000 < most_tokens(large)
    assert most_tokens(Request("t", (Message("user", (Picture(b""),)),), 0, 50)) > 50
    assert text_tokens("") == 0 and text_tokens("abcde") == 2


def test_replies_keep_their_tokens():
    chat = Budgeted(Listed(lambda r: answer(tokens=(3, 4))), 10_000, 100, {})
    [reply] = chat.ask([question()])
    assert isinstance(reply, Reply) and reply.tokens == (3, 4)
