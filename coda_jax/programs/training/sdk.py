"""The verbs of training programs, as source text for the sandbox; program.py checks everything again."""

from __future__ import annotations

import functools

from coda_jax.programs.sdk import GENERATION_VERBS, SCENE_VERBS, common_source, expression_source, refusals, source
from coda_jax.programs.training.limits import DENSE_WEIGHT, MAX_STAGES, TOOL_RANGES


@functools.cache
def training_sdk() -> str:
    """The whole source that runs in the sandbox before a training program."""
    constants = f"_MOST_SUBGOALS = {MAX_STAGES}\n_TOOLS = {TOOL_RANGES!r}\n_WEIGHT = {DENSE_WEIGHT!r}\n"
    verbs = source("coda_jax.programs.training", "training_source")
    others = refusals(SCENE_VERBS, "scene", "training") + refusals(GENERATION_VERBS, "generation", "training")
    return f"{constants}\n{common_source()}\n\n{expression_source('expression')}\n\n{verbs}\n\n{others}"
