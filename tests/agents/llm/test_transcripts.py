"""Programs as a strong model would write them, through the doors that every program passes."""

import pytest

from coda_jax.agents.base import Difficulty
from coda_jax.agents.llm.engine import WRITE, LlmEngine
from coda_jax.agents.llm.scene_author import SCENE, SceneAuthor
from coda_jax.agents.llm.tally import Tally
from coda_jax.agents.scripted.engine import ScriptedEngine
from coda_jax.loop import parts
from coda_jax.loop.rounds.variants import Batch
from coda_jax.scenes import families
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.leakage import refuse_held_out
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.demonstrate import demonstrate
from coda_jax.sim.supervision.batch import Tries
from coda_jax.sim.validity import check
from tests.agents.llm.desk import FAMILIES, PLAIN, TRAIN, bases, config_of, desk
from tests.agents.llm.transcripts import Scripted, Transcript, load

SCENES, GENERATION = load("scene"), load("generation")
SOLVABLE = [t for t in SCENES if t.about.get("solvable")]


def _counted(tally: Tally, transcript: Transcript) -> None:
    """Every answer of a transcript was counted as it says, and the door said what stands in it."""
    own = dict(tally.counts[transcript.purpose])
    refused = transcript.about.get("refused", [])
    assert own.pop("answered") == len(transcript.replies) == 1 + len(refused)
    assert own.pop("accepted") == 1
    assert own.pop("repaired", 0) == bool(refused)
    own.pop("fenced", 0)
    assert own == {kind: refused.count(kind) for kind in refused}


def _said(chat: Scripted, transcript: Transcript) -> None:
    for request, said in zip(chat.asked[1:], transcript.said, strict=True):
        assert said in str(request.messages[-1].parts[0])


def test_there_are_enough_of_every_family_and_they_vary():
    assert len(SCENES) >= 12 and len(GENERATION) >= 8
    for found in (SCENES, GENERATION):
        assert {t.about["family"] for t in found} == set(FAMILIES)
        assert sum(bool(t.about.get("refused")) for t in found) >= 3
    assert len({(t.about["family"], t.about["relation"]) for t in SCENES}) >= 11
    assert sum(len(t.about["verbs"]) == 2 for t in GENERATION) >= 3
    assert {SCENE} == {t.purpose for t in SCENES} and {WRITE} == {t.purpose for t in GENERATION}


def _scene(folder, transcript: Transcript) -> tuple[SceneSpec, Batch]:
    config, tally, batch = config_of(), Tally(), Batch()
    chat = Scripted(transcript.replies)
    with desk(folder, config, batch) as tools:
        author = SceneAuthor(chat, PLAIN, tally, TRAIN, FAMILIES, tools, 0)
        (spec,) = author.novel([transcript.about["family"]], transcript.turns[0][1])
    _counted(tally, transcript)
    _said(chat, transcript)
    return spec, batch


@pytest.mark.parametrize("transcript", SCENES, ids=lambda t: t.name)
def test_scenes_pass_every_check(transcript, tmp_path):
    spec, batch = _scene(tmp_path, transcript)
    assert spec.task.family == transcript.about["family"]
    assert families.relation(spec) == transcript.about["relation"]
    refuse_held_out(spec, TRAIN)
    assert check([spec], TRAIN, parts.validity_of(config_of()))[0].valid
    assert batch.valid == 1 and (batch.first == 0) == transcript.about.get("mended", False)


def test_the_planner_solves_them(tmp_path):
    specs = []
    for i, transcript in enumerate(SOLVABLE):
        folder = tmp_path / str(i)
        folder.mkdir()
        specs.append(_scene(folder, transcript)[0])
    config, everything = config_of(), Catalogue.all()
    sim = parts.native_simulator(config, everything, parts.training_bucket(config, TRAIN))
    jobs = Tries([parts.tries_of(config, everything, spec, 1) for spec in specs], parts.horizon_of(config), 0)
    solved = {t.episode.spec.scene_id for t in _ended(jobs, sim, everything, config) if t.success}
    assert solved == {s.scene_id for s in specs}


def _ended(jobs, sim, everything, config):
    for trajectory in demonstrate(sim, everything, jobs, parts.planner_of(config), None, 0, jobs.parameters):
        yield jobs.ended(trajectory)


@pytest.mark.parametrize("transcript", GENERATION, ids=lambda t: t.name)
def test_generation_programs_pass_the_door_and_make_valid_variants(transcript, tmp_path):
    about, tally, chat = transcript.about, Tally(), Scripted(transcript.replies)
    with desk(tmp_path, config_of(about["family"])) as tools:
        engine = LlmEngine(chat, PLAIN, tally, ScriptedEngine(TRAIN), TRAIN, tools, 0)
        difficulty = Difficulty(about["factor"], about["phase"], about["cause"])
        (text,) = engine.propose(difficulty, bases(about["family"], 20), {})
        assert [e.verb for e in tools.generation(text).edits] == about["verbs"]
    _counted(tally, transcript)
    _said(chat, transcript)
