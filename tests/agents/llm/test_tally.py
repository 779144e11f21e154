"""Counts that survive commits."""

from coda_jax.agents.llm.tally import Tally


def test_counts_add_up_and_come_back():
    tally = Tally()
    tally.count("engine.write", "answered")
    tally.count("engine.write", "answered", 2)
    tally.count("diagnoser", "fallback")
    assert tally.plain() == {"diagnoser": {"fallback": 1}, "engine.write": {"answered": 3}}
    again = Tally.from_plain(tally.plain())
    again.count("diagnoser", "fallback")
    assert tally.counts["diagnoser"]["fallback"] == 1  # a copy
    assert Tally.merged([tally, again]).counts == {"diagnoser": {"fallback": 3}, "engine.write": {"answered": 6}}
    assert again.since(tally.plain()) == {"diagnoser": {"fallback": 1}}
    assert tally.since(tally.plain()) == {}


def test_plain_does_not_depend_on_the_order_of_counting():
    one, other = Tally(), Tally()
    for tally, names in ((one, "ab"), (other, "ba")):
        for name in names:
            tally.count(name, "x")
            tally.count("c", name)
    assert str(one.plain()) == str(other.plain())
