"""The verbs of scene and generation programs, as source text for the sandbox: ``thing``, ``scene``; ``role``, ``relation``, ``edit``,
``generation``. coda_jax/scenes/program.py and generation.py check everything again.
"""

from __future__ import annotations

import functools

from coda_jax.programs.helpers import HELPERS
from coda_jax.programs.sdk import GENERATION_VERBS, SCENE_VERBS, TRAINING_VERBS, common_source, expression_source, refusals, source
from coda_jax.scenes.ranges import MAX_BUILT, MAX_FIXTURES, MAX_FREE, RANGES


@functools.cache
def scene_sdk() -> str:
    """The whole source that runs in the sandbox before a scene program."""
    constants = f"_RANGES = {RANGES!r}\n_MOST_BUILT = {MAX_BUILT}\n_MOST_FREE = {MAX_FREE}\n_MOST_FIXED = {MAX_FIXTURES}\n"
    others = refusals(GENERATION_VERBS, "generation", "scene") + refusals(TRAINING_VERBS, "training", "scene")
    return f"{constants}\n{common_source()}\n\n{source('coda_jax.scenes', 'sdk_source')}\n\n{expression_source('goal')}\n\n{others}"


@functools.cache
def generation_sdk() -> str:
    """The whole source that runs in the sandbox before a generation program."""
    others = refusals((*SCENE_VERBS, *HELPERS), "scene", "generation") + refusals(TRAINING_VERBS, "training", "generation")
    return f"{common_source()}\n\n{source('coda_jax.scenes', 'generation_source')}\n\n{others}\n"
