"""What a run cost, by stage: also work that a kill threw away, as far as a commit came after it."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

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


class Ledger:
    """Costs by stage; ``charge`` books the time since the last charge, ``save`` writes ``ledger.json``."""

    def __init__(self, folder: Path):
        self.path = folder / FILE
        self.stages: dict[str, Cost] = {}
        self.starts = 0
        if self.path.exists():
            try:
                stored = json.loads(self.path.read_text())
                self.stages = {name: Cost(**cost) for name, cost in stored["stages"].items()}
                self.starts = int(stored["starts"])
            except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
                self.stages, self.starts = {}, 0  # costs only: a damaged ledger begins anew
        self.starts += 1
        self._wall, self._cpu = time.monotonic(), time.process_time()

    def charge(self, stage: str, physics_steps: int = 0, rollouts: int = 0, compiles: int = 0) -> float:
        """Book everything since the last charge to ``stage``; returns its wall time, s."""
        wall, cpu = time.monotonic(), time.process_time()
        spent = wall - self._wall
        cost = self.stages.setdefault(stage, Cost())
        cost.wall_s += spent
        cost.cpu_s += cpu - self._cpu
        cost.simulated_s += physics_steps * TIMESTEP_S
        cost.rollouts += rollouts
        cost.compiles += compiles
        self._wall, self._cpu = wall, cpu
        return spent

    def save(self) -> None:
        stages = {name: {k: round(v, 3) for k, v in dataclasses.asdict(cost).items()} for name, cost in self.stages.items()}
        atomic_write(self.path, json.dumps({"starts": self.starts, "stages": stages}, indent=1).encode() + b"\n")
