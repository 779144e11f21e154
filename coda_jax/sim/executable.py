"""Executables that are lowered and compiled ahead of their first call, and say what that took."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax

Report = Callable[["Built"], None]


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes of an executable on one device. held: of its arguments. given: of results in buffers of their own. working: of its temporary
    values."""

    held: int
    given: int
    working: int


@dataclasses.dataclass(frozen=True)
class Built:
    """What one executable took. memory: as the compiler tells it, None where the backend does not. expected: as told before."""

    name: str
    lower_s: float
    compile_s: float
    memory: Memory | None
    expected: Memory | None = None

    def line(self) -> str:
        """ "mjx rollout: lowered in 7.7 s, compiled in 41.6 s; arguments 9 MB (9 expected), results 2 MB (2), 19 MB (16) while it runs"."""
        took = f"{self.name}: lowered in {self.lower_s:.1f} s, compiled in {self.compile_s:.1f} s"
        if self.memory is None:
            return took
        told = dataclasses.astuple(self.memory)
        before = [""] * 3 if self.expected is None else [f" ({n / 1e6:.0f})" for n in dataclasses.astuple(self.expected)]
        before[0] = before[0].replace(")", " expected)")
        held, given, working = (f"{n / 1e6:.0f} MB{b}" for n, b in zip(told, before, strict=True))
        return f"{took}; arguments {held}, results {given}, {working} while it runs"


class Executable:
    """A jitted function with one compiled executable for each layout of arguments; a call whose layout is known never traces.

    Args:
      name: in reports. function: made by jax.jit, without static arguments.
    """

    def __init__(self, name: str, function: Any):
        self.name, self._function = name, function
        self._compiled: dict[Any, Any] = {}

    def build(self, *args: Any, report: Report | None = None, expected: Memory | None = None) -> Any:
        """Lower and compile for the layout of ``args`` (arrays or ShapeDtypeStructs with shardings); at once where that was done before.

        report: hears what it took, and ``expected`` beside it.
        """
        layout = _layout(args)
        if layout not in self._compiled:
            start = time.perf_counter()
            lowered = self._function.lower(*args)
            middle = time.perf_counter()
            compiled = self._compiled[layout] = lowered.compile()
            if report is not None:
                report(Built(self.name, middle - start, time.perf_counter() - middle, _memory(compiled), expected))
        return self._compiled[layout]

    def __call__(self, *args: Any) -> Any:
        return self.build(*args)(*args)


def _memory(compiled: Any) -> Memory | None:
    told = compiled.memory_analysis()
    if told is None:
        return None
    given = told.output_size_in_bytes - told.alias_size_in_bytes
    return Memory(int(told.argument_size_in_bytes), int(given), int(told.temp_size_in_bytes))


def _layout(args: Any) -> Any:
    leaves, tree = jax.tree.flatten(args)
    return tree, tuple((leaf.shape, leaf.dtype, leaf.sharding) for leaf in leaves)
