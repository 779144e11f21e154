"""Shares and kappas against numbers worked by hand."""

import dataclasses

import numpy as np
import pytest

from coda_jax.evaluation.annotation.agreement import AFTER, BEFORE, CONFIRMED, Diagnosed, agreement, cohens_kappa
from coda_jax.evaluation.annotation.answers import Answer, Answers
from coda_jax.evaluation.statistics import wilson
from coda_jax.loop.agreement import plain, print_agreement

SCENE = "0123456789abcdef"


def answers(name, *labels):
    """labels: of episodes 1, 2, ...: (factor, phase), None for unsure, "" for none given."""
    given = []
    for i, label in enumerate(labels, 1):
        if label != "":
            factor, phase = label or (None, None)
            given.append(Answer(i, SCENE, factor, phase, label is None))
    return Answers("coda_jax.annotation", 1, SCENE, name, tuple(given))


S, A, E = ("SPATIAL", "grasp"), ("ATTRIBUTE", "grasp"), ("EXECUTION", "place")
DIAGNOSES = [
    Diagnosed(1, "SPATIAL", "grasp", "confirmed"),
    Diagnosed(2, "SPATIAL", "grasp", "refuted"),
    Diagnosed(3, "ATTRIBUTE", "transport", "undecided"),
    Diagnosed(4, "EXECUTION", "place", None),
    Diagnosed(5, "TASK", "place", "confirmed"),
]


def test_shares_before_and_after_validation():
    found = agreement(DIAGNOSES, answers("a", S, A, A, None, ""), answers("b", S, A, S, E, ""))
    assert found.answered == 4 and found.unsure == {"a": 1, "b": 0}

    def share(group, aspect):
        return found.shares[group, aspect][:3]

    assert share(BEFORE, "factor") == (4, 7, 4)  # 1: both, 2: neither, 3: one of two, 4: the one who was sure
    assert share(BEFORE, "phase") == (5, 7, 4)  # 3 was not told by its phase
    assert share(BEFORE, "both") == (3, 7, 4)
    assert share(AFTER, "factor") == (4, 5, 3)
    assert share(CONFIRMED, "both") == (2, 2, 1)
    low, high = found.shares[BEFORE, "factor"].interval
    assert 0 <= low < 4 / 7 < high <= 1


def test_nobody_answered():
    found = agreement(DIAGNOSES, answers("a"), answers("b"))
    assert found.answered == 0 and found.shares[BEFORE, "both"][:3] == (0, 0, 0)
    assert found.shares[BEFORE, "both"].interval == (0.0, 1.0) and found.kappas["both"].value is None


def test_kappa_by_hand():
    """Cohen's table: 20 and 15 alike, 5 and 10 not: observed 0.7, expected 0.5, kappa 0.4."""
    first = np.array([0] * 25 + [1] * 25)
    second = np.array([0] * 20 + [1] * 5 + [0] * 10 + [1] * 15)
    assert cohens_kappa(first, second) == pytest.approx(0.4)
    assert cohens_kappa(first, first) == 1 and cohens_kappa(first, 1 - first) == -1
    assert np.isnan(cohens_kappa(np.zeros(9, int), np.zeros(9, int)))


def test_annotators_who_answer_by_chance_have_no_kappa():
    rng = np.random.default_rng(0)
    labels = [S, A, E]
    a, b = (answers(n, *[labels[i] for i in rng.integers(0, 3, 300)]) for n in ("a", "b"))
    kappa = agreement([], a, b).kappas["both"]
    assert kappa.value is not None and kappa.low is not None and kappa.high is not None
    assert kappa.n == 300 and abs(kappa.value) < 0.12 and kappa.low < 0 < kappa.high
    same = agreement([], a, a).kappas["factor"]
    assert (same.value, same.low, same.high, same.agree) == (1.0, None, None, 300) and same.why == "all resamples give the same"
    assert agreement([], answers("a", S, S), answers("b", S, S)).kappas["factor"][:3] == (2, 2, None)


@pytest.mark.parametrize(
    ("first", "second", "value", "why"),
    [
        ((S, S, S), (S, S, A), 0.0, "29 % of the resamples have no kappa"),  # 8 of 27 possible ones are of S alone
        ((S, A, S), (S, A, S), 1.0, "33 % of the resamples have no kappa"),  # 9 of 27
        ((S, S, S, S), (S, S, S, S), None, "as chance alone would"),
        ((), (), None, "no failure of which both were sure"),
        ((S,) * 30, (S, A) * 15, 0.0, "all resamples give the same"),
        ((S, A) * 15, (S, A) * 15, 1.0, "all resamples give the same"),
    ],
)
def test_resamples_that_tell_nothing_give_no_interval(first, second, value, why):
    """A bootstrap that always comes to one point is no certainty."""
    kappa = agreement([], answers("a", *first), answers("b", *second)).kappas["factor"]
    assert (kappa.value, kappa.low, kappa.high) == (value, None, None) and why in kappa.why
    assert why in plain(agreement([], answers("a", *first), answers("b", *second)))["kappa"]["factor"]["why"]


def test_the_table_says_where_there_is_no_interval(capsys):
    print_agreement(agreement(DIAGNOSES, answers("a", S, S, S), answers("b", S, S, A)))
    out = capsys.readouterr().out
    assert "0.00 (no interval), 2/3 alike" in out and "kappa of factor, no interval: 29 % of the resamples have no kappa" in out
    assert "kappa of phase, no value: both gave one and the same answer" in out


def test_two_answers_to_one_diagnosis_are_not_two_diagnoses():
    def interval(*labels):
        """Of the first diagnoses, of which the annotators say these, in pairs."""
        a, b = answers("a", *labels[::2]), answers("b", *labels[1::2])
        return agreement([dataclasses.replace(DIAGNOSES[0], episode=i) for i in (1, 2)], a, b).shares[BEFORE, "factor"].interval

    assert interval(S, S) == interval(S, None) == wilson(1, 1)
    assert interval(A, A) == wilson(0, 1) and interval(S, A) == (0, 1)
    assert interval(S, S, S, S) == wilson(2, 2) and interval(S, A, A, S) == wilson(1, 2)
