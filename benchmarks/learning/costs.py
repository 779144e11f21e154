"""What an update costs: floating-point operations counted from shapes, and a profile by the functions of this project."""

from __future__ import annotations

import collections
import gzip
import json
import math
import re
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
from jax.extend.core import jaxprs_in_params

_TABLE = re.compile(r'^(\d+) (?:"(.*)"|\{(.*)\})$')
_OP = re.compile(r"^\s*(?:ROOT )?%?([\w.\-]+) = .*metadata=\{(.*?)\}")


def product_flops(function: Callable[..., Any], *args: Any) -> int:
    """Operations of the matrix products of one call, 2 m n k each, from the shapes of its jaxpr."""
    return _flops(jax.make_jaxpr(function)(*args).jaxpr)


def _flops(jaxpr: Any) -> int:
    total = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            (contracting, _), _ = equation.params["dimension_numbers"]
            left = equation.invars[0].aval.shape
            total += 2 * math.prod(equation.outvars[0].aval.shape) * math.prod(left[i] for i in contracting)
        for inner in jaxprs_in_params(equation.params):
            total += _flops(inner)
    return total


def _tables(hlo: str) -> dict[str, dict[int, str]]:
    """The tables of source positions before a module's computations, by name and number."""
    found: dict[str, dict[int, str]] = {}
    current = None
    for line in hlo.splitlines():
        if line in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
            current = found.setdefault(line, {})
        elif current is not None and (row := _TABLE.match(line)):
            current[int(row[1])] = row[2] or row[3]
        elif line:
            current = None
    return found


def _numbers(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", text)}


# what a function does for another counts as that one's
ALIASES = {"_matmul_forward": "dense", "matmul": "dense", "linear": "dense", "_norm_forward": "layer_norm"}
ALIASES |= dict.fromkeys(("_attend", "_forward", "_split", "_joined"), "attend")


def sources(hlo: str) -> dict[str, str]:
    """Each operation's place: the innermost of this project's functions, its pass, and whether a matrix product is part of it."""
    tables, places, products, computation = _tables(hlo), {}, set(), ""

    def function(frame: int) -> str:
        outside = "no source"
        while frame:
            row = _numbers(tables["StackFrames"][frame])
            spot = _numbers(tables["FileLocations"][row["file_location_id"]])
            if "/coda_jax/" in tables["FileNames"][spot["file_name_id"]]:
                name = tables["FunctionNames"][spot["function_name_id"]].split(".<locals>")[0]
                return ALIASES.get(name, name)
            if "/optax/" in tables["FileNames"][spot["file_name_id"]]:
                outside = "optax"
            parent = row.get("parent_frame_id", 0)
            frame = parent if parent != frame else 0
        return outside

    for line in hlo.splitlines():
        if line.startswith("%"):
            computation = line.split(" ", 1)[0]
        if not (row := _OP.match(line)):
            continue
        found = _numbers(row[2])
        called = re.search(r"calls=(%[\w.\-]+)", line)
        product = " dot(" in line or (called is not None and called[1] in products)
        if product:
            products.add(computation)
        passed = ", backward" if "transpose(jvp" in row[2] else ""
        places[row[1]] = f"{function(found.get('stack_frame_id', 0))}{passed}, {'products' if product else 'the rest'}"
    return places


def profile(run: Callable[[], Any], hlo: str, updates: int) -> list[tuple[str, float]]:
    """Share of each place in the time of ``run``'s operations, largest first.

    Times are medians of a profiler's trace over ``updates`` updates, so that what else runs on the machine weighs little, less the shortest
    one, which is what an event costs the profiler. A fusion counts as the place of its last operation, with the products inside it.
    """
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(run())
        (path,) = Path(folder).rglob("*.trace.json.gz")
        events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    times = collections.defaultdict(list)
    for event in events:
        if event.get("ph") == "X" and "hlo_op" in event.get("args", {}):
            times[event["args"]["hlo_op"]].append(event["dur"])
    medians = {name: statistics.median(durations) for name, durations in times.items()}
    places, spent, least = sources(hlo), collections.Counter(), min(medians.values())
    for name, median in medians.items():
        if not name.startswith(("while", "call", "conditional")):
            spent[places.get(name, "no source, the rest")] += (median - least) * len(times[name]) / updates
    total = sum(spent.values())
    return [(place, time / total) for place, time in spent.most_common()]
