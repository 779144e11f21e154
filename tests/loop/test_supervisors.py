"""Who looks at failed demonstrations in a run, chosen by configuration, and what a language model then changes."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from coda_jax import config as settings
from coda_jax.agents.llm.supervision import LlmInspector, LlmSupervisor
from coda_jax.agents.llm.tally import Tally
from coda_jax.loop import parts, supervisors
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generate import sample_spec
from coda_jax.sim.supervision.batch import supervised
from coda_jax.sim.supervision.inspector import ScriptedInspector
from coda_jax.sim.supervision.parameters import FIRST, PlanParameters
from coda_jax.sim.supervision.supervisor import ScriptedSupervisor
from tests.agents.llm.transcripts import Scripted

TRAIN, ALL = Catalogue("train"), Catalogue.all()
FAILS_AT_FIRST = 53  # seed of a training scene of pick_place


def run_of(chat: Scripted | None, **changes: Any) -> Any:
    config = settings.default()
    config.sim.worlds = 1
    config.agents.update(changes)
    return SimpleNamespace(config=config, everything=ALL, train=TRAIN, chat=chat, tally=Tally())


@pytest.fixture(scope="module")
def spec():
    return sample_spec(TRAIN, "pick_place", "id", "train", FAILS_AT_FIRST)


def test_rules_look_unless_a_model_is_named(spec):
    for changes in ({}, {"kind": "llm"}, {"supervisor": "scripted"}):
        made = supervisors.tries_of(run_of(None, **changes), spec, 1, 0)
        assert type(made._inspector) is ScriptedInspector and type(made._supervisor) is ScriptedSupervisor


def test_a_model_looks_at_the_first_scenes_alone(spec):
    run = run_of(Scripted([]), supervisor="llm")
    run.config.agents.llm_supervisor.scenes = 2
    made = [supervisors.tries_of(run, spec, 1, number) for number in range(3)]
    assert [type(m._inspector) for m in made] == [LlmInspector, LlmInspector, ScriptedInspector]
    assert [type(m._supervisor) for m in made] == [LlmSupervisor, LlmSupervisor, ScriptedSupervisor]


def test_a_failed_try_is_shown_and_the_plan_that_is_answered_is_tried(spec):
    """The first try fails; the model sees it and names a plan, which is carried out."""

    def answer(request):
        if request.purpose == "inspector":
            return "nothing to add"
        return json.dumps({"reason": "slower", "give_up": False, "parameters": {"carry_speed": 0.7}})

    chat = Scripted(answer)
    run = run_of(chat, supervisor="llm")
    tries = supervisors.tries_of(run, spec, 1, 0)
    sim = parts.native_simulator(run.config, ALL, parts.training_bucket(run.config, TRAIN))
    planner, horizon = parts.planner_of(run.config), parts.horizon_of(run.config)
    found = []
    for trajectory in supervised(sim, ALL, [tries], planner, None, 0, horizon):
        found.append(trajectory)
        if len(found) == 2:
            break
    assert [t.parameters for t in found] == [FIRST, PlanParameters(carry_speed=0.7)] and not found[0].success
    counted = run.tally.counts
    assert counted["supervisor"]["accepted"] >= 1
    if "inspector" in counted:
        assert counted["inspector"]["fallback"] == counted["inspector"]["rejected:schema"]
    shown = supervisors.frames(run, found[0], [0, len(found[0].actions) - 1])
    first, last = (np.asarray(Image.open(io.BytesIO(p.png))) for p in shown)
    assert first.shape == (supervisors.HEIGHT, supervisors.WIDTH, 3) and (first != last).any()
    assert shown[0].caption == f"after control step 0, in {found[0].skills[0]}"
    assert supervisors.frames(run, found[0], [0])[0].png == shown[0].png
