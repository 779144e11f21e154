"""What a run cost, by stage: also work that a kill threw away, as far as a commit came after it."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping
from pathlib import Path

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from coda_jax.agents.llm.budget import Paid, Prices
from coda_jax.evaluation.metrics import atomic_write
from coda_jax.types import TIMESTEP_S

FILE = "ledger.json"


@dataclass(config=ConfigDict(strict=True, extra="forbid", allow_inf_nan=False))
class Cost:
    """cpu_s: of this process with all its threads. simulated_s: physics time over all worlds. rollouts: finished episodes."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    simulated_s: float = 0.0
    rollouts: int = 0
    compiles: int = 0


@dataclass(config=ConfigDict(strict=True, extra="forbid", allow_inf_nan=False))
class Calls:
    """Of language models, by a stage for one purpose. calls: that went out, every try. recorded: answers that a recording gave instead.
    seconds: waited for, of all calls together. cost: at the prices of the configuration."""

    calls: int = 0
    recorded: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    cost: float = 0.0


class Ledger:
    """Costs by stage; ``charge`` books the time since the last charge, ``save`` writes ``ledger.json``."""

    def __init__(self, folder: Path, timestep_s: float = TIMESTEP_S):
        """timestep_s: of the physics steps that are charged."""
        self.path, self._timestep_s = folder / FILE, timestep_s
        self.stages: dict[str, Cost] = {}
        self.calls: dict[str, dict[str, Calls]] = {}
        self.starts = 0
        if self.path.exists():
            try:
                stored = json.loads(self.path.read_text())
                self.stages = {name: Cost(**cost) for name, cost in stored["stages"].items()}
                asked = stored.get("language_model", {})
                self.calls = {stage: {purpose: Calls(**one) for purpose, one in own.items()} for stage, own in asked.items()}
                self.starts = int(stored["starts"])
            except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
                self.stages, self.calls, self.starts = {}, {}, 0  # costs only: a damaged ledger begins anew
        self.starts += 1
        self._wall, self._cpu = time.monotonic(), time.process_time()

    def charge(self, stage: str, physics_steps: int = 0, rollouts: int = 0, compiles: int = 0) -> float:
        """Book everything since the last charge to ``stage``; returns its wall time, s."""
        wall, cpu = time.monotonic(), time.process_time()
        spent = wall - self._wall
        cost = self.stages.setdefault(stage, Cost())
        cost.wall_s += spent
        cost.cpu_s += cpu - self._cpu
        cost.simulated_s += physics_steps * self._timestep_s
        cost.rollouts += rollouts
        cost.compiles += compiles
        self._wall, self._cpu = wall, cpu
        return spent

    def charge_calls(self, stage: str, paid: Mapping[str, Paid], prices: Prices) -> None:
        """Book what language models were paid for, by purpose."""
        for purpose, one in paid.items():
            own = self.calls.setdefault(stage, {}).setdefault(purpose, Calls())
            for name, value in dataclasses.asdict(one).items():
                setattr(own, name, getattr(own, name) + value)
            own.cost += prices.cost(one.tokens_in, one.tokens_out)

    def save(self) -> None:
        stages = {name: _rounded(cost, 3) for name, cost in self.stages.items()}
        calls = {stage: {purpose: _rounded(one, 6) for purpose, one in own.items()} for stage, own in self.calls.items()}
        stored = {"starts": self.starts, "stages": stages} | ({"language_model": calls} if calls else {})
        atomic_write(self.path, json.dumps(stored, indent=1).encode() + b"\n")


def _rounded(cost: Cost | Calls, digits: int) -> dict[str, float]:
    return {k: round(v, digits) for k, v in dataclasses.asdict(cost).items()}
