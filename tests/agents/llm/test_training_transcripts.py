"""Training programs as a strong model would write them, through the door, the certificate and the gates on planner demonstrations."""

import pytest

from coda_jax import config as settings
from coda_jax.agents.base import Failing
from coda_jax.programs.training.gates import check
from coda_jax.programs.training.program import DenseProgram, Tools, TrainingProgram
from tests.agents.llm.gated import checked, desk, door
from tests.agents.llm.transcripts import Transcript, load

TRAINING = load("training")


@pytest.fixture(scope="module")
def gates():
    with door() as opened:
        yield opened


def test_there_are_enough_of_every_family_and_kind():
    assert len(TRAINING) >= 8 and {t.about["family"] for t in TRAINING} == set(settings.FAMILIES)
    assert {t.about["variant"] for t in TRAINING} == {"diagnosed", "task_text", "free_form"}
    refused = [kind for t in TRAINING for kind in t.about.get("refused", [])]
    assert {"rejected:invalid_training", "rejected:gate_falls", "rejected:gate_phase"} <= set(refused)
    assert len({t.about["phase"] for t in TRAINING if t.about["variant"] == "diagnosed"}) == 5


@pytest.mark.parametrize("transcript", TRAINING, ids=lambda t: t.name)
def test_programs_pass_the_door_and_the_gates(transcript: Transcript, gates):
    about, refused = transcript.about, transcript.about.get("refused", [])
    made = desk(gates, transcript.replies, variant=about["variant"])
    (text,) = made.compiler.compile([Failing(about["family"], about["factor"], about["phase"], about["cause"])])
    counted = dict(made.tally.counts[transcript.purpose])
    assert counted.pop("answered") == counted.pop("fenced") == len(transcript.replies) == 1 + len(refused)
    assert counted.pop("accepted") == 1 and counted.pop("repaired", 0) == bool(refused)
    assert counted == {kind: refused.count(kind) for kind in refused}
    for request, said in zip(made.chat.asked[1:], transcript.said, strict=True):
        assert said in str(request.messages[-1].parts[0])
    program = gates.read(text)
    if about["variant"] == "free_form":
        assert isinstance(program, DenseProgram)
        return
    assert isinstance(program, TrainingProgram) and not program.latched
    check(program, checked(about["family"]).demonstrations)
    assert (program.tools == Tools()) == (about["variant"] == "task_text")
