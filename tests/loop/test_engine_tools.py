"""What the data engine is told of a memory: modes with evidence and history, similar traces, what scenes are made of."""

import dataclasses

import pytest

from coda_jax.agents.llm.engine_tools import EngineTools
from coda_jax.loop.engine_tools import RunTools
from coda_jax.loop.engines import engine_settings
from coda_jax.loop.round_budget import round_rollouts
from coda_jax.loop.rounds import recall
from coda_jax.loop.rounds.variants import Batch
from coda_jax.memory.rows import (
    Construction,
    ControlTest,
    Diagnosis,
    Episode,
    Evidence,
    Gain,
    LearningValue,
    Mode,
    PairCounts,
    Program,
    Repair,
    Scene,
    Verb,
    mode_id_of,
    program_id_of,
)
from coda_jax.scenes.spec import to_json
from tests.agents.llm.desk import TRAIN, bases, config_of, desk

CAUSE = "target_mass_kg:high"
MODE = mode_id_of("pick_place", "ATTRIBUTE", "grasp", CAUSE)
TEXT = 'result = generation(factor="attributes", roles=[role("target")], edits=[edit("mass", low=0.2, high=1.0)])\n'


def _trace(verb, check, repaired, round_number=1):
    repair = Repair("move", "mug_1", 0.02, "m", (1.0, 0.0, 0.0)) if repaired else None
    return Construction(round_number, verb, check, "mug_1", "tray_1", 0.012, "m", repair, repaired)


def _fill(memory):
    base, edited = bases("pick_place", 2)
    with memory.transaction() as made:
        made.add(Scene(base.scene_id, to_json(base), "seed", 1))
        verbs = (Verb("mass", 0.8),)
        made.add(Scene(edited.scene_id, to_json(edited), "novelty", 1, base.scene_id, factor="ATTRIBUTE", verbs=verbs))
        made.add(Mode(MODE, 1, "pick_place", "ATTRIBUTE", "grasp", CAUSE, 0.25, 0.1, "new", 1))
        number = made.add(Episode(1, "collect", edited.scene_id, 0, 0, False, 60, "grasp"))
        evidence = Evidence((12,), {"grasp_m": 0.031})
        made.add(Diagnosis(number if isinstance(number, int) else 1, "ATTRIBUTE", "grasp", CAUSE, evidence, 0.9, MODE))
        made.add(Program(program_id_of("generation", TEXT), 1, "generation", TEXT, MODE, 0.75, "active", "confirmed", 1))
        made.add(ControlTest(MODE, 1, 1, "test", (PairCounts(base.scene_id, 2, 5, 8),), 0.3, 0.1, 0.5, 0.01, "confirmed"))
        made.add(LearningValue(MODE, 1, (Gain(base.scene_id, 1, 3, 4),), 0.25, 0.2))
        for verb, check, repaired in (("yaw@0.5", "reach", True), ("mass@0.9", "scale", False), ("mass@0.25", "settle", True)):
            made.add(_trace(verb, check, repaired))


@pytest.fixture
def tools(tmp_path):
    with desk(tmp_path, config_of("pick_place")) as opened:
        _fill(opened._run.memory)
        yield opened


def test_it_keeps_the_protocol(tools):
    protocol: EngineTools = tools
    assert all(hasattr(protocol, name) for name in vars(EngineTools) if not name.startswith("_"))


def test_a_mode_is_told_with_evidence_and_history(tools):
    (short,) = tools.modes()
    assert short["mode_id"] == MODE and short["success"] == 0.25
    told = tools.known("ATTRIBUTE", "grasp", CAUSE, ["put_inside", "pick_place"])
    assert told == tools.mode(MODE)
    (evidence,) = told["evidence"]
    assert "confidence 0.90" in evidence and "grasp_m 0.031" in evidence and "mass 0.8" in evidence
    assert told["programs"] == ["mass 0.2-1 at level 0.75, confirmed"]
    assert told["control tests"] == ["round 1: confirmed, +0.30 (+0.10 .. +0.50)"]
    assert told["learning values"] == ["round 1: +0.250 on 1 scene"]
    assert tools.mode("0" * 16) is None and tools.known("TASK", "grasp", CAUSE, ["pick_place"]) is None


def test_traces_come_by_similarity(tools):
    order = [(t.verb, t.magnitude) for t in tools.traces("mass", None, 0.2, 8)]
    assert order == [("mass", 0.25), ("mass", 0.9), ("yaw", 0.5)]
    assert [t.check for t in tools.traces("mass", "reach", 0.2, 1)] == ["reach"]
    best = tools.traces("yaw", None, 0.5, 1)[0]
    assert best.said() == "yaw at 0.5: reach of mug_1 and tray_1, 0.012 m; move mug_1 0.02 m: valid"
    assert dataclasses.replace(best, repair="").said().endswith("given up")


def test_a_strategy_that_forgets_is_told_of_this_round_alone(tools):
    tools.config.strategy = "coda_no_memory"
    forgetful, later = (RunTools(tools._run, n, tools.sandbox, Batch()) for n in (1, 2))
    told = forgetful.mode(MODE)
    assert told is not None and "programs" not in told and "learning values" not in told and told["evidence"]
    assert forgetful.traces("mass", None, 0.5, 8) == ()
    assert later.modes() == [] and later.mode(MODE) is None


def test_settings_reach_the_engine():
    config = config_of("pick_place")
    found = engine_settings(config)
    assert dataclasses.asdict(found) == dict(config.agents.llm_engine) | {"answer_tokens": config.agents.llm.answer_tokens}
    config.agents.llm.tools = False
    assert engine_settings(config) == dataclasses.replace(found, tool_rounds=0)
    config.agents.kind = "llm"
    without = round_rollouts(config)
    config.agents.llm.tools = True
    assert round_rollouts(config) == without | {"try": config.engine.modes * 2 * 16}


def test_what_scenes_are_made_of(tools):
    text = recall.described(tools._run.memory, tools.config, TRAIN, 1)
    assert "2 scenes" in text and "attributes mass: 0, 0, 1" in text and "spatial yaw: 0, 0, 0" in text
    held = {TRAIN.get(o.asset).category for spec in bases("pick_place", 2) for o in spec.attributes.objects}
    assert all(f"{category} 0" not in text.split("categories")[1] for category in held) and "banana" in text


def test_stored_scenes_are_known(tools):
    assert tools.holds(bases("pick_place", 1)[0].scene_id) and not tools.holds("0" * 16)
