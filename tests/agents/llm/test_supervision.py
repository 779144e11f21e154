"""A language model as inspector and supervisor: what was not measured, is out of range or was tried is refused, and rules answer."""

from __future__ import annotations

import dataclasses
import json

import pytest

from coda_jax.agents.llm.chat import CallError, CallErrorKind, Picture
from coda_jax.agents.llm.supervision import (
    INSPECT,
    SUPERVISE,
    InspectorAnswer,
    LlmInspector,
    LlmSupervisor,
    PlanChanges,
    SupervisionSettings,
    SupervisorAnswer,
    parameter_docs,
)
from coda_jax.agents.llm.tally import Tally
from coda_jax.scenes.families import read_goals
from coda_jax.sim.plan import commute
from coda_jax.sim.supervision.inspector import ScriptedInspector
from coda_jax.sim.supervision.parameters import FIRST, RANGES, PlanParameters
from coda_jax.sim.supervision.remarks import Critique, Inspector, Remark
from coda_jax.sim.supervision.supervisor import ScriptedSupervisor, Supervisor, Tried
from tests.agents.llm.transcripts import Answer, Scripted
from tests.sim.supervision.faulty import ALL, executed, in_mode, open_jaws, scene

SETTINGS = SupervisionSettings(frames=2, answer_tokens=500, seed=3)
HOSTILE = "<b>ignore</b>\n# system \u202e"


@pytest.fixture(scope="module")
def failed():
    """A real try whose jaws open on the way, and what was measured of it; two more remarks, so that there is a choice."""
    spec = scene("pick_place", lambda spec, goals: len(goals) == 1)
    trajectory = executed(spec, in_mode("carry", open_jaws), horizon=60)
    measured = ScriptedInspector(ALL).inspect(trajectory).remarks
    name = read_goals(spec)[0].target
    more = [
        Remark(
            9, "carry", "collided", name, 0.018, "m", f"{name} touched something in carry, which reaches 0.018 m above the underside", name
        ),
        Remark(11, "carry", "slipped", name, 0.12, "m/s", f"{name} was lost in carry, with the hand at 0.12 m/s"),
    ]
    return trajectory, Critique((*measured, *more))


class Measured:
    """An inspector whose critique is given."""

    def __init__(self, critique: Critique):
        self.critique = critique

    def inspect(self, trajectory) -> Critique:
        return self.critique


def inspected(failed, answer: Answer, frames=None, measured: Inspector | None = None) -> tuple[Critique, Tally, Scripted]:
    trajectory, critique = failed
    chat, tally = Scripted([answer]), Tally()
    inspector: Inspector = LlmInspector(chat, SETTINGS, tally, measured or Measured(critique), frames)
    return inspector.inspect(trajectory), tally, chat


def remarks(*said: tuple[int, str, str]) -> str:
    return json.dumps({"remarks": [{"number": n, "kind": kind, "words": words} for n, kind, words in said]})


def test_an_inspector_chooses_ranks_and_says_what_it_means(failed):
    _, critique = failed
    n = len(critique.remarks)
    lift = "carry it 0.02 m higher, at 0.1 m/s"
    found, tally, chat = inspected(failed, remarks((n, "slipped", "go slower"), (n - 1, "collided", lift)))
    assert [r.kind for r in found.remarks] == ["slipped", "collided"]
    for said, measured, words in zip(found.remarks, critique.remarks[::-1], ("go slower", lift), strict=False):
        assert dataclasses.replace(said, message=measured.message) == measured  # nothing measured is touched
        assert said.message == f"{measured.message}; {words}"
    assert tally.counts == {INSPECT: {"answered": 1, "accepted": 1}}
    (asked,) = chat.asked
    assert f'carry out "{failed[0].episode.spec.task.instruction}" with' in str(asked.messages[0].parts[0])
    assert (
        asked.schema is InspectorAnswer
        and asked.max_tokens == 500
        and all(r.message in asked.messages[0].parts[0] for r in critique.remarks)
    )


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (remarks((1, "toppled", "")), "rejected:unmeasured"),
        (remarks((40, "slipped", "")), "rejected:unmeasured"),
        (remarks((-1, "slipped", "")), "rejected:schema"),
        (remarks(), "rejected:schema"),
        (json.dumps({"remarks": [{"number": 1, "kind": "slipped", "words": "", "amount": 3}]}), "rejected:schema"),
        ("it slipped", "rejected:schema"),
        ("[" * 5000, "rejected:schema"),
        (CallError(CallErrorKind.BUDGET, "spent"), "budget"),
        (CallError(CallErrorKind.SCHEMA, "no JSON"), "schema"),
    ],
)
def test_what_was_not_measured_is_refused(failed, answer, kind):
    found, tally, _ = inspected(failed, answer)
    assert found == failed[1] and tally.counts[INSPECT][kind] == 1 and tally.counts[INSPECT]["fallback"] == 1


@pytest.mark.parametrize("words", ["lift it 0.3 m", "it hit jar_7", "wait 40 control steps"])
def test_words_with_numbers_or_things_of_its_own_are_refused(failed, words):
    n = len(failed[1].remarks)
    found, tally, _ = inspected(failed, remarks((n, "slipped", words)))
    assert found == failed[1] and tally.counts[INSPECT]["rejected:unmeasured"] == 1


def test_the_same_remark_twice_is_refused_and_words_are_cleaned(failed):
    n = len(failed[1].remarks)
    _, tally, _ = inspected(failed, remarks((n, "slipped", ""), (n, "slipped", "again")))
    assert tally.counts[INSPECT]["rejected:repeated"] == 1
    found, _, _ = inspected(failed, remarks((n, "slipped", HOSTILE)))
    message = found.remarks[0].message
    assert message == f"{failed[1].remarks[-1].message}; b ignore /b system"


def test_one_remark_leaves_no_choice_and_is_not_asked_about(failed):
    alone = Measured(Critique(failed[1].remarks[-1:]))
    found, tally, chat = inspected(failed, "", measured=alone)
    assert found == alone.critique and not chat.asked and not tally.counts


def test_pictures_are_of_the_steps_remarked(failed):
    seen = []

    def frames(trajectory, steps):
        seen.extend(steps)
        return [Picture(b"png", f"step {s}") for s in steps]

    n = len(failed[1].remarks)
    _, _, chat = inspected(failed, remarks((n, "slipped", "")), frames)
    assert seen == sorted({r.step for r in failed[1].remarks})[:2]
    assert [p.caption for p in chat.asked[0].messages[0].parts if isinstance(p, Picture)] == [f"step {s}" for s in seen]


def slipped(amount: float = 0.12, name: str = "can_1") -> Critique:
    return Critique((Remark(11, "carry", "slipped", name, amount, "m/s", f"{name} was lost in carry, with the hand at {amount} m/s"),))


def test_numbers_are_looked_for_in_the_words_as_they_are_shown(failed):
    n = len(failed[1].remarks)
    found, tally, _ = inspected(failed, remarks((n, "slipped", "lift it 0.3\u00e9")))
    assert found == failed[1] and tally.counts[INSPECT]["rejected:unmeasured"] == 1


def revised(spec, tried, answer: Answer, revisions: int = 3):
    chat, tally = Scripted([answer]), Tally()
    supervisor: Supervisor = LlmSupervisor(chat, SETTINGS, tally, ScriptedSupervisor(revisions), revisions)
    return supervisor.revise(spec, tried), tally.counts.get(SUPERVISE, {}), chat


def plan(reason: str = "slower", give_up: bool = False, **parameters) -> str:
    return json.dumps({"reason": reason, "give_up": give_up, "parameters": parameters})


@pytest.fixture(scope="module")
def one():
    return scene("pick_place", lambda spec, goals: len(goals) == 1)


def test_a_supervisor_answers_the_next_plan(one):
    tried = [Tried(FIRST, slipped(), 8)]
    decision, counted, chat = revised(one, tried, plan(carry_speed=0.6, squeeze_steps=3))
    assert decision.parameters == PlanParameters(carry_speed=0.6, squeeze_steps=3) and decision.reason == "slower"
    assert counted == {"answered": 1, "accepted": 1}
    asked = str(chat.asked[0].messages[0].parts[0])
    assert (
        "try 1, the first choice; grasps to choose from: 8" in asked and slipped().remarks[0].message in asked and "at most 3 more" in asked
    )
    assert f'carries out "{one.task.instruction}" with' in asked
    assert chat.asked[0].schema is SupervisorAnswer
    again = revised(one, tried, plan(lift_m=0.01))[2].asked
    assert again == chat.asked  # a function of the arguments
    other = revised(one, [*tried, Tried(PlanParameters(lift_m=0.01), slipped(), 8)], plan(lift_m=0.02))[2].asked
    assert other[0].seed != chat.asked[0].seed and "lift_m 0.01" in str(other[0].messages[0].parts[0])


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (plan(carry_speed=9.0), "rejected:schema"),
        (plan(grasp=1.5), "rejected:schema"),
        (plan(jump=1), "rejected:schema"),
        ('{"reason": "", "give_up": false, "parameters": {"lift_m": NaN}}', "rejected:schema"),
        (plan(), "rejected:repeated"),  # the first choice, which failed
        (plan(grasp=8), "rejected:repeated"),  # the same grasp again
        (plan(lift_m=0.05), "rejected:repeated"),
        (plan(reverse=1), "rejected:order"),  # one goal has no other order
        ("slower", "rejected:schema"),
        (CallError(CallErrorKind.DEADLINE, "stalled"), "deadline"),
    ],
)
def test_plans_out_of_range_or_tried_before_are_refused_and_the_rules_answer(one, answer, kind):
    tried = [Tried(FIRST, slipped(), 8), Tried(PlanParameters(lift_m=0.05), slipped(), 8)]
    decision, counted, _ = revised(one, tried, answer)
    assert counted[kind] == 1 and counted["fallback"] == 1
    assert decision == ScriptedSupervisor(3).revise(one, tried)


def test_fenced_answers_count_and_reasons_are_cleaned(one):
    text = plan(reason=HOSTILE + "x" * 300, lift_m=0.02)
    decision, counted, _ = revised(one, [Tried(FIRST, slipped(), 8)], f"```json\n{text}\n```")
    assert counted["accepted"] == 1 and decision.parameters == PlanParameters(lift_m=0.02)
    assert decision.reason.startswith("b ignore /b system x") and len(decision.reason) == 200
    said = "it slipped in carry: go slower; squeeze can_1 for longer (it's smooth)!"
    assert revised(one, [Tried(FIRST, slipped(), 8)], plan(said, lift_m=0.02))[0].reason == said


def test_it_may_give_up_and_is_not_asked_beyond_the_revisions(one):
    decision, counted, _ = revised(one, [Tried(FIRST, slipped(), 8)], plan("hopeless", give_up=True))
    assert decision.parameters is None and "hopeless" in decision.reason and counted["gave_up"] == 1
    tried = [Tried(FIRST, slipped(), 8), Tried(PlanParameters(lift_m=0.05), slipped(), 8)]
    decision, counted, chat = revised(one, tried, plan(), revisions=1)
    assert decision == ScriptedSupervisor(1).revise(one, tried) and not chat.asked and not counted
    with pytest.raises(ValueError, match="no failed try"):
        revised(one, [], plan())


def test_goals_that_commute_may_be_reversed():
    two = scene("put_inside", lambda spec, goals: len(goals) == 2 and commute(goals))
    decision, _, _ = revised(two, [Tried(FIRST, slipped(), 8)], plan(reverse=1))
    assert decision.parameters == PlanParameters(reverse=1)


def test_the_schema_and_the_page_hold_every_parameter_with_its_range():
    page = parameter_docs()
    properties = PlanChanges.model_json_schema()["properties"]
    assert set(properties) == set(RANGES)
    for name, (low, high, unit) in RANGES.items():
        assert f"  {name}: {low:g} to {high:g}{unit}, first choice {getattr(FIRST, name):g}" in page
        assert f"{name}" in page.partition("  grasp:")[0]  # and what it means
        whole = isinstance(getattr(FIRST, name), int)
        assert properties[name]["anyOf"][0] == {"maximum": high, "minimum": low, "type": "integer" if whole else "number"}
