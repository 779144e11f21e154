"""What the verbs of every kind of program share, as source text for the sandbox: checks of arguments, and one function per helper and
combinator of expressions.

The verbs only help an author: they build plain dicts and point at the line of a mistake. Nothing relies on them, since a program can
replace them for itself.
"""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Iterable

from coda_jax.programs.expressions import COMBINATORS
from coda_jax.programs.helpers import HELPERS

# Verbs of each kind of program, helpers left out, and the modes that take it.
SCENE_VERBS = ("thing", "scene", "initially", "beside")
GENERATION_VERBS = ("role", "relation", "edit", "generation")
TRAINING_VERBS = ("subgoal", "tools", "dense", "sparse", "training")
_TAKEN_BY = {
    "scene": "--mode=check and --mode=view take",
    "generation": "--mode=check and --mode=verify take",
    "training": "--mode=check takes",
}


def refusals(verbs: Iterable[str], kind: str, wanted: str) -> str:
    """Verbs of another kind of program: each says which kind this is, where calling it would be an error of no name."""
    words = f"a {kind} program: {_TAKEN_BY[kind]} those"
    text = f"() is a verb of {words}. Here a {wanted} program is asked for, which ends with result = {wanted}(...)"
    return "\n".join(f"def {verb}(*values, **fields):\n    raise ValueError({verb + text!r})\n" for verb in verbs)


@functools.cache
def common_source() -> str:
    """Checks of names, numbers, texts and lists."""
    return f'_LETTERS = "abcdefghijklmnopqrstuvwxyz"\n{source("coda_jax.programs", "sdk_common")}'


@functools.cache
def expression_source(field: str) -> str:
    """One function per helper and combinator, written from their registries. field: what messages call the place of an expression."""
    lines = [f"_FIELD = {field!r}\n{source('coda_jax.programs', 'sdk_expressions')}\n"]
    for helper in HELPERS.values():
        names = ("x", "y")[: len(helper.args)]
        ids = ", ".join(f'_name("{field}: {helper.name}", {n})' for n in names)
        lines.append(f'def {helper.name}({", ".join(names)}):\n    return _expression("{helper.name}", [{ids}])\n')
    for combinator in COMBINATORS.values():
        if combinator.operands == "one":
            names = ("low", "high") if combinator.numbers == 2 else ("limit",)
            values = ", ".join(f'_number("{field}: {combinator.name}", {n}, (-1000, 1000, ""))' for n in names)
            head = f"def {combinator.name}(value, {', '.join(names)}):"
            lines.append(f'{head}\n    return _expression("{combinator.name}", [_value("{combinator.name}", value), {values}])\n')
        else:
            body = f'_expression("{combinator.name}", _values("{combinator.name}", values))'
            lines.append(f"def {combinator.name}(*values):\n    return {body}\n")
    return "\n".join(lines)


def source(package: str, name: str) -> str:
    """The text of ``name``.py.txt beside a package's modules."""
    return importlib.resources.files(package).joinpath(f"{name}.py.txt").read_text(encoding="ascii")
