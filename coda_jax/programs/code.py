"""Numbers and expressions written back as program text."""

from __future__ import annotations

import json

from coda_jax.programs.expressions import Expr

_LINE = 120  # characters of an expression on one line


def number_code(value: float) -> str:
    """A number to 1e-6, which is what the hash of a program sees."""
    rounded = round(float(value), 6)
    return repr(0.0 if rounded == 0 else rounded)


def expression_code(expr: Expr, indent: int) -> str:
    """Code of an expression, one argument a line where it would get long."""
    inner = [
        expression_code(a, indent + 2) if isinstance(a, Expr) else json.dumps(a) if isinstance(a, str) else number_code(a)
        for a in expr.args
    ]
    flat = f"{expr.op}({', '.join(inner)})"
    if len(flat) <= _LINE and "\n" not in flat:
        return flat
    pad = "\n" + " " * (indent + 2)
    return f"{expr.op}({pad}{f',{pad}'.join(inner)})"
