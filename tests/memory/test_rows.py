import pytest
from pydantic import ValidationError

from coda_jax.memory.codec import RowError
from coda_jax.memory.rows import ControlTest, Gain, LearningValue, PairCounts, Scene
from coda_jax.memory.transaction import CODECS
from coda_jax.scenes import generate
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.spec import to_json
from tests.memory import made

ROWS = [
    made.scene(),
    made.edited(1, made.scene(0), mode_id=made.mode().mode_id, reason="overlap"),
    made.construction(),
    made.construction(repair=None, accepted=False, scene_id=made.scene().scene_id),
    made.episode(success=False, states="episodes/states_0001.npz", episode_id=4),
    made.diagnosis(4),
    made.diagnosis(4, factor="EXECUTION"),
    made.mode(severity=None),
    made.program(),
    made.program(kind="training", mode_id=None, level=None, verdict="confirmed"),
    ControlTest(made.mode().mode_id, 1, 2, "aa", (PairCounts(made.scene().scene_id, 1, 3, 8),), 0.25, 0.1, 0.4, 0.01, "confirmed"),
    LearningValue(made.mode().mode_id, 2, (Gain(made.scene().scene_id, 1, 5, 8),), 0.5, 0.3),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row).__name__)
def test_a_row_comes_back_as_it_was(row):
    codec = CODECS[type(row)]
    assert codec.decode(list(codec.encode(row).values())) == row


def test_every_kind_is_tried():
    assert {type(row) for row in ROWS} == set(CODECS)


@pytest.mark.parametrize(
    ("row", "column", "value", "message"),
    [
        (made.scene(), "verbs", "[{}", "Scene .*: "),
        (made.scene(), "verbs", '[{"name": "x", "magnitude": 2}]', "less than or equal to 1"),
        (made.scene(), "verbs", '[{"name": "x", "magnitude": 0.5, "more": 1}]', "more"),
        (made.scene(), "verbs", None, "Scene"),
        (made.scene(), "verbs", 3, "Scene"),
        (made.scene(), "spec", "{}", "the hash of the spec"),
        (made.scene(), "origin", "dream", "origin"),
        (made.scene(), "round", -1, "round"),
        (made.scene(), "round", "1", "round"),
        (made.scene(), "level", float("inf"), "level"),
        (made.episode(), "success", 2, "success"),
        (made.episode(), "success", None, "success"),
        (made.episode(), "purpose", "fun", "purpose"),
        (made.diagnosis(1), "evidence", '{"steps": [1], "margins": {"a": NaN}}', "evidence|Diagnosis"),
        (made.diagnosis(1), "evidence", '{"steps": [1.5], "margins": {}}', "Diagnosis"),
        (made.diagnosis(1, factor="EXECUTION"), "mode_id", made.mode().mode_id, "EXECUTION and names a mode"),
        (made.mode(), "cause", "another", "the hash of .family"),
        (made.mode(), "factor", "EXECUTION", "factor"),
        (made.program(), "text", "import os", "the hash of kind and text"),
        (made.program(), "text", "x" * 100_001, "at most 100000"),
    ],
)
def test_a_stored_row_is_validated_strictly(row, column, value, message):
    codec = CODECS[type(row)]
    values = codec.encode(row) | {column: value}
    with pytest.raises(RowError, match=message):
        codec.decode(list(values.values()))


def test_counts_lie_within_their_trials():
    with pytest.raises(ValidationError, match=r"must lie in 0\.\.n = 8"):
        PairCounts(made.scene().scene_id, 1, 9, 8)
    with pytest.raises(ValidationError, match=r"must lie in 0\.\.n = 8"):
        Gain(made.scene().scene_id, 9, 1, 8)


def test_a_scene_has_the_id_of_its_spec():
    spec = generate.sample_spec(Catalogue("train"), "pick_place", "id", "train", 3)
    row = Scene(scene_id=spec.scene_id, spec=to_json(spec), origin="seed", round=0)
    assert row.scene_id == spec.scene_id and row.accepted
