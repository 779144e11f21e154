"""The verbs of scene and generation programs, as source text for the sandbox: ``thing``, ``scene``, one function per helper and
combinator; ``role``, ``relation``, ``edit``, ``generation``.

The verbs only help an author: they build plain dicts and point at the line of a mistake. Nothing relies on them, since a program can
replace them for itself; coda_jax/scenes/program.py and generation.py check everything again.
"""

from __future__ import annotations

import functools
import importlib.resources

from coda_jax.programs.expressions import COMBINATORS
from coda_jax.programs.helpers import HELPERS
from coda_jax.scenes.ranges import MAX_BUILT, MAX_FIXTURES, MAX_FREE, RANGES


@functools.cache
def expression_source() -> str:
    """One function per helper and combinator, written from their registries."""
    lines = []
    for helper in HELPERS.values():
        names = ("x", "y")[: len(helper.args)]
        ids = ", ".join(f'_name("goal: {helper.name}", {n})' for n in names)
        lines.append(f'def {helper.name}({", ".join(names)}):\n    return _expression("{helper.name}", [{ids}])\n')
    for combinator in COMBINATORS.values():
        if combinator.operands == "one":
            names = ("low", "high") if combinator.numbers == 2 else ("limit",)
            values = ", ".join(f'_number("goal: {combinator.name}", {n}, (-1000, 1000, ""))' for n in names)
            head = f"def {combinator.name}(value, {', '.join(names)}):"
            lines.append(f'{head}\n    return _expression("{combinator.name}", [_value("{combinator.name}", value), {values}])\n')
        else:
            body = f'_expression("{combinator.name}", _values("{combinator.name}", values))'
            lines.append(f"def {combinator.name}(*values):\n    return {body}\n")
    return "\n".join(lines)


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
    return f"{constants}\n{_common()}\n\n{_source('sdk_source')}\n\n{expression_source()}\n\n{_refusals('generation', 'scene')}"


@functools.cache
def generation_sdk() -> str:
    """The whole source that runs in the sandbox before a generation program."""
    return f"{_common()}\n\n{_source('generation_source')}\n\n{_refusals('scene', 'generation')}\n"


def _common() -> str:
    return f'_LETTERS = "abcdefghijklmnopqrstuvwxyz"\n{_source("sdk_common")}'


def _source(name: str) -> str:
    return importlib.resources.files("coda_jax.scenes").joinpath(f"{name}.py.txt").read_text(encoding="ascii")
