"""A kinematic problem with a known answer: move the grip point to the instructed token, one clipped step at a time, no physics."""

from __future__ import annotations

import numpy as np

from coda_jax.learning.dataset import Demonstration
from coda_jax.learning.policies.flow import FlowPolicy
from coda_jax.learning.policies.grounding import Phrase
from coda_jax.learning.steps import Training
from coda_jax.types import POSITION_SCALE_M, TOKENS

COLOURS = ("red", "green", "blue", "yellow", "white", "black", "orange", "purple")
OBJECTS = ("mug", "can", "bottle", "apple", "cereal box", "hammer", "marker", "sponge", "bowl", "dice")
SUPPORTS = ("plate", "tray", "shelf", "basket", "wooden box")
TEMPLATES = (
    "put the {t} on the {r}",
    "place the {t} on the {r}",
    "pick up the {t} and put it on the {r}",
    "move the {t} onto the {r}",
)


def policy(**changes) -> FlowPolicy:
    settings = {
        "chunk": 8,
        "width": 64,
        "text_dim": 384,
        "heads": 4,
        "key_dim": 32,
        "euler_steps": 5,
        "yaw_frame": True,
        "multi_scale": True,
        "cumulative": True,
        "distractor_dropout": 0.3,
        "grounding_weight": 0.1,
        "hard_attention": True,
        "given_roles": False,
        "relations": False,
        "goals": 1,
    }
    return FlowPolicy(**{**settings, **changes})


def training(**changes) -> Training:
    settings = {
        "steps": 400,
        "batch": 64,
        "learning_rate": 1e-3,
        "warmup": 10,
        "weight_decay": 1e-4,
        "clip_norm": 1.0,
        "ema": 0.99,
        "language_batch": 0,
        "language_weight": 0.1,
    }
    return Training(**{**settings, **changes})


def scene(rng: np.random.Generator, pairs, supports) -> tuple[tuple, str, tuple[int, int]]:
    """Names of the 8 tokens, instruction, roles: 2-5 free objects in random slots, 1-2 supports."""
    names: list[str | None] = [None] * TOKENS
    count = int(rng.integers(2, 6))
    chosen = rng.choice(len(pairs), count, replace=False)
    slots = rng.permutation(6)[:count]
    for slot, i in zip(slots, chosen, strict=True):
        names[slot] = pairs[i]
    fixtures = rng.choice(len(supports), 2, replace=False)
    names[6], names[7] = supports[fixtures[0]], supports[fixtures[1]]
    roles = (int(slots[0]), 6 + int(rng.integers(2)))
    template = TEMPLATES[int(rng.integers(len(TEMPLATES)))]
    return tuple(names), template.format(t=names[roles[0]], r=names[roles[1]]), roles


def demonstration(rng: np.random.Generator, pairs, supports, t: int = 12) -> Demonstration:
    """Straight to the target: action = clipped displacement / 0.05 m; the gripper closes when within 1 cm."""
    names, instruction, roles = scene(rng, pairs, supports)
    pos = np.stack([rng.uniform(0.3, 0.6, TOKENS), rng.uniform(-0.2, 0.2, TOKENS), np.full(TOKENS, 0.03)], -1)
    ee = np.array([0.45, 0.0, 0.2]) + rng.uniform(-0.05, 0.05, 3)
    spin = rng.uniform(-np.pi, np.pi)
    quat = np.array([0.0, np.cos(spin / 2), np.sin(spin / 2), 0.0])  # pointing down, any yaw
    path, actions = [], []
    for _ in range(t):
        delta = np.clip((pos[roles[0]] - ee) / POSITION_SCALE_M, -1, 1)
        close = 1.0 if np.linalg.norm(pos[roles[0]] - ee) < 0.01 else -1.0
        path.append(ee)
        actions.append([*delta, 0, 0, 0, close])
        ee = ee + delta * POSITION_SCALE_M
    zeros = np.zeros((t, TOKENS, 3))
    obs = {
        "ee_pos": np.array(path),
        "ee_quat": np.tile(quat, (t, 1)),
        "gripper_opening": np.full(t, 0.08),
        "pos": np.tile(pos, (t, 1, 1)),
        "quat": np.tile([1.0, 0, 0, 0], (t, TOKENS, 1)),
        "linvel": zeros,
        "angvel": zeros,
        "articulation": np.zeros((t, TOKENS)),
        "half_extent": np.full((TOKENS, 3), 0.03),
        "articulation_range": np.zeros((TOKENS, 2)),
        "present": np.array([n is not None for n in names]),
    }
    return Demonstration(obs, np.array(actions), np.ones(t, bool), names, instruction, roles)


def phrases(rng: np.random.Generator, pairs, supports, n: int) -> list[Phrase]:
    rows = []
    for _ in range(n):
        target, reference = pairs[rng.integers(len(pairs))], supports[rng.integers(len(supports))]
        template = TEMPLATES[int(rng.integers(len(TEMPLATES)))]
        rows.append(Phrase(template.format(t=target, r=reference), target, reference))
    return rows


def names(colours, nouns) -> list[str]:
    return [f"{c} {n}" for c in colours for n in nouns]
