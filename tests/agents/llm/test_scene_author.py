"""Whole scenes by a model: only new, valid training scenes of the families that were asked for come back; everything is counted."""

import pytest

from coda_jax.agents.llm.chat import CallError, CallErrorKind, Picture, Reply, ToolCall
from coda_jax.agents.llm.scene_author import BUILD, SCENE, SceneAuthor
from coda_jax.agents.llm.tally import Tally
from coda_jax.loop.rounds.variants import Batch
from coda_jax.scenes.leakage import refuse_held_out
from coda_jax.scenes.program import to_program
from coda_jax.scenes.suites import frozen_scenes, load
from tests.agents.llm.desk import PLAIN, TRAIN, config_of, desk
from tests.agents.llm.transcripts import Scripted
from tests.agents.llm.transcripts import load as transcripts

GOOD = {t.name: t.replies[-1] for t in transcripts("scene")}
RING, SPOONS, DOOR = GOOD["pick_place_ring"], GOOD["pick_place_spoons"], GOOD["articulated_door"]


@pytest.fixture
def batch():
    return Batch()


@pytest.fixture
def tools(tmp_path, batch):
    with desk(tmp_path, config_of("pick_place"), batch) as opened:
        yield opened


def novel(tools, answers, count=1, settings=PLAIN):
    chat, tally = Scripted(answers), Tally()
    scenes = SceneAuthor(chat, settings, tally, TRAIN, ("pick_place",), tools, 0).novel(["pick_place"] * count, "60 scenes")
    counts = dict(tally.counts[SCENE])
    for name in ("answered", "fenced"):
        counts.pop(name, None)
    return scenes, counts, chat


REFUSED = {
    "held-out instance": (RING.replace('category="apple", instance=2', 'asset="apple_17"'), "rejected:unknown_asset"),
    "held-out category": (RING.replace('"cup", "green"', '"goblet", "green"'), "rejected:invalid_scene"),  # by its name already
    "held-out phrasing": (RING.replace("put the red apple on the yellow plate", "rest the red apple on the yellow plate"), None),
    "own wording": (RING.replace("put the red apple on", "bring the red apple onto"), "rejected:wording"),
    "another family": (RING.replace('family="pick_place"', 'family="put_inside"'), None),
    "articulated": (DOOR, "rejected:invalid_scene"),
    "held-out layout": (RING.replace('family="pick_place",', 'family="pick_place", layout="crowd_ring",'), "rejected:invalid_scene"),
    "out of range": (RING.replace("at=(0.46, 0.1)", "at=(4.6, 0.1)"), "rejected:invalid_scene"),
    "done at the start": (
        RING.replace('at=(0.46, 0.1), colour="red"', 'at=(0.5, -0.15), on="plate_1", colour="red"'),
        "rejected:invalid_scene",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_may_not_be_trained_on_is_refused_counted_and_repaired(what, tools):
    answer, kind = REFUSED[what]
    scenes, counts, chat = novel(tools, [answer, RING])
    assert len(scenes) == 1 and counts.pop("accepted") == counts.pop("repaired") == 1
    ((found, n),) = counts.items()
    assert n == 1 and found.startswith("rejected:") and kind in (None, found)
    assert "not accepted" in str(chat.asked[1].messages[-1].parts[0])


def test_frozen_scenes_are_refused(tools):
    spec = load("pick_place", "id", "validation")[0]
    assert spec.scene_id in frozen_scenes()
    scenes, counts, _ = novel(tools, [to_program(spec), RING])
    assert len(scenes) == 1 and any(k in counts for k in ("rejected:held_out_scene", "rejected:unknown_asset"))


def test_scenes_of_one_round_differ_and_missing_ones_are_counted(tools, batch):
    scenes, counts, _ = novel(tools, [RING, RING, SPOONS, RING, RING], 3)
    assert len({s.scene_id for s in scenes}) == len(scenes) == 2
    assert counts == {"accepted": 2, "rejected:known": 3, "fallback": 1}
    assert batch.valid == 2 and batch.proposed == 2
    for spec in scenes:
        refuse_held_out(spec, TRAIN)


def test_an_invalid_scene_is_mended_where_a_check_knows_how(tools, batch):
    (spec,), counts, _ = novel(tools, [RING.replace('colour="red", role="target"', 'colour="red", role="target", mass_kg=1.5')])
    assert counts == {"accepted": 1} and spec.attribute("apple_1").mass_kg < 0.7
    assert (batch.first, batch.valid) == (0, 1) and [b.accepted for b in batch.history] == [True] * len(batch.history) != []


def test_else_the_model_is_told_what_fails(tools, batch):
    tools.config.engine.repairs = 0
    (_,), counts, chat = novel(tools, [RING.replace("0.13 *", "0.01 *"), RING])
    assert counts == {"rejected:invalid_penetration": 1, "accepted": 1, "repaired": 1}
    assert "penetrates" in str(chat.asked[1].messages[-1].parts[0])
    assert (batch.proposed, batch.valid) == (2, 1) and not batch.history[-1].accepted


def test_checks_that_tools_ask_for_do_not_count_as_proposals(tools, batch):
    import dataclasses
    import json

    asks = Reply("", (ToolCall("a", "check_program", json.dumps({"program": SPOONS.split("```python\n")[1].split("```")[0]})),), (1, 1))
    scenes, counts, chat = novel(tools, [asks, RING], settings=dataclasses.replace(PLAIN, tool_rounds=2))
    assert len(scenes) == 1 and counts["tool:check_program"] == 1 and batch.proposed == 1
    assert {t.name for t in chat.asked[0].tools} == {"list_assets", "similar_traces", "check_program", "render"}
    assert str(chat.asked[1].messages[-1].parts[0]).startswith("valid")


def build(tools, answers, text="an apple among other things", png=None):
    chat, tally = Scripted(answers), Tally()
    return SceneAuthor(chat, PLAIN, tally, TRAIN, ("pick_place",), tools, 0).built(text, png), tally.counts[BUILD], chat


def test_a_described_scene_is_built(tools):
    spec, counts, chat = build(tools, [RING], "an apple\nwith $things round it")
    assert spec is not None and counts["accepted"] == 1
    assert "an apple with $things round it" in str(chat.asked[0].messages[1].parts[0])


def test_a_picture_is_shown_to_the_model(tools):
    spec, _, chat = build(tools, [SPOONS], "", b"\x89PNG....")
    assert spec is not None
    assert [p.png for p in chat.asked[0].messages[1].parts if isinstance(p, Picture)] == [b"\x89PNG...."]


def test_without_an_accepted_program_there_is_no_scene(tools):
    spec, counts, _ = build(tools, lambda request: CallError(CallErrorKind.SERVER, "500"))
    assert spec is None and counts == {"server": 1}
