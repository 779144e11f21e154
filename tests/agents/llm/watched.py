"""A failed rollout by hand: the fingers reach the target, hold it for a while, and lose it."""

import json
from collections.abc import Sequence

import numpy as np

from coda_jax.agents.base import Case, Measured, Outcome, Trial
from coda_jax.agents.llm.chat import CallError, Reply, Request
from coda_jax.agents.llm.seen import Seen
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.families import PHASES, read_goal
from coda_jax.scenes.generate import sample_spec
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.compile import token_index
from coda_jax.sim.recording import FIELD_SHAPES, moments
from coda_jax.types import FIXED_FIELDS, MOVING_FIELDS

TRAIN = Catalogue("train")
SPECS = [sample_spec(TRAIN, "pick_place", "id", "train", seed) for seed in range(6)]
STEPS, REACHED, HELD, LOST = 40, 12, 15, 22  # control steps
GOOD = {
    "seen": "The hand holds it and loses it.",
    "factor": "ATTRIBUTE",
    "phase": "transport",
    "cause": "target_mass_kg:high",
    "steps": [HELD, LOST],
    "objects": [],
    "confidence": 0.8,
}


def case(number: int = 0, base: SceneSpec | None = None) -> Case:
    spec = SPECS[number]
    margins = {"target_height": Measured(0.02, 20, 0.04, "m")}
    outcome = Outcome(Trial(spec, (number, 0)), False, STEPS, "transport", margins, 0, np.zeros((STEPS, 7), np.float32))
    return Case(base or spec, outcome)


def seen(spec: SceneSpec, draw=None) -> Seen:
    index = token_index(spec, TRAIN)
    names = [""] * FIELD_SHAPES["present"][0]
    for name, token in index.items():
        names[token] = name
    moving = {n: np.zeros((STEPS + 1, *FIELD_SHAPES[n]), np.float32) for n in MOVING_FIELDS}
    fixed = {n: np.zeros(FIELD_SHAPES[n], np.float32) for n in FIXED_FIELDS}
    target = index[read_goal(spec).target]
    moving["finger_contact"] = moving["finger_contact"].astype(bool)
    moving["finger_contact"][HELD:LOST, target] = True
    moving["contact"] = moving["contact"].astype(bool)
    moving["contact"][:, target, -1] = True
    moving["pos"][LOST:, target, 0] = 0.05
    values = {name: np.zeros(STEPS, np.float32) for name in PHASES}
    values["approach"][REACHED - 1 :] = 1
    values["grasp"][HELD - 1 : LOST - 1] = 1
    return Seen(
        tuple(names),
        moments(moving, fixed),
        np.zeros(STEPS, np.float32),
        values,
        {"approach": REACHED, "grasp": HELD},
        np.zeros((STEPS, 7)),
        draw,
    )


class Says:
    """A Chat that answers in order of the questions; ``asked`` keeps the batches."""

    def __init__(self, *answers: str | dict | CallError):
        self._answers = list(answers)
        self.asked: list[list[Request]] = []

    def ask(self, requests: Sequence[Request]) -> list[Reply | CallError]:
        self.asked.append(list(requests))
        found = [self._answers.pop(0) for _ in requests]
        return [a if isinstance(a, CallError) else Reply(a if isinstance(a, str) else json.dumps(a), (), (10, 10)) for a in found]


def text_of(request: Request) -> str:
    return "\n".join(part for message in request.messages for part in message.parts if isinstance(part, str))
