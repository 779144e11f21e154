"""The verbs of scene and generation programs, as source text for the sandbox: ``thing``, ``scene``; ``role``, ``relation``, ``edit``,
``generation``. coda_jax/scenes/program.py and generation.py check everything again.
"""

from __future__ import annotations

import functools

from coda_jax.programs.helpers import HELPERS
from coda_jax.programs.sdk import common_source, expression_source, source
from coda_jax.scenes.ranges import MAX_BUILT, MAX_FIXTURES, MAX_FREE, RANGES

# verbs of the other kind of program: each says which kind this is, where calling it would be an error of no name
_OTHERS = {
    "scene": (("thing", "scene", "initially", "beside", *HELPERS), "a scene program: --mode=check and --mode=view take those"),
    "generation": (("role", "relation", "edit", "generation"), "a generation program: --mode=verify takes those"),
}


def _refusals(kind: str, wanted: str) -> str:
    verbs, words = _OTHERS[kind]
    text = f"() is a verb of {words}. Here a {wanted} program is asked for, which ends with result = {wanted}(...)"
    return "\n".join(f"def {verb}(*values, **fields):\n    raise ValueError({verb + text!r})\n" for verb in verbs)


@functools.cache
def scene_sdk() -> str:
    """The whole source that runs in the sandbox before a scene program."""
    constants = f"_RANGES = {RANGES!r}\n_MOST_BUILT = {MAX_BUILT}\n_MOST_FREE = {MAX_FREE}\n_MOST_FIXED = {MAX_FIXTURES}\n"
    verbs = source("coda_jax.scenes", "sdk_source")
    return f"{constants}\n{common_source()}\n\n{verbs}\n\n{expression_source('goal')}\n\n{_refusals('generation', 'scene')}"


@functools.cache
def generation_sdk() -> str:
    """The whole source that runs in the sandbox before a generation program."""
    return f"{common_source()}\n\n{source('coda_jax.scenes', 'generation_source')}\n\n{_refusals('scene', 'generation')}\n"
