"""The data engine's tools over a memory and a catalogue, without the stages of a run."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from coda_jax import config as settings
from coda_jax.agents.llm.engine import EngineSettings
from coda_jax.loop import parts
from coda_jax.loop.engine_tools import RunTools
from coda_jax.loop.rounds.variants import Batch
from coda_jax.memory.store import Memory
from coda_jax.programs.sandbox import Sandbox
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generate import sample_spec
from coda_jax.scenes.spec import SceneSpec

TRAIN = Catalogue("train")
FAMILIES = ("pick_place", "articulated", "put_inside", "stack_insert")
PLAIN = EngineSettings(programs=1, repairs=2, tool_rounds=0, tool_chars=2000, rollouts=0, mends=2, answer_tokens=1000)


def config_of(*families: str) -> Any:
    config = settings.default()
    config.family, config.sim.worlds = ",".join(families or FAMILIES), 8
    return config


@contextlib.contextmanager
def desk(folder: Path, config: Any, batch: Batch | None = None, rollouts: Any = None) -> Iterator[RunTools]:
    """Tools over an empty memory in a folder; ``tools.run`` is what they take for their run."""
    with Sandbox(parts.limits_of(config)) as sandbox, Memory.open(folder / "memory.sqlite") as memory:
        run = types.SimpleNamespace(config=config, train=TRAIN, memory=memory)
        yield RunTools(cast(Any, run), 1, sandbox, batch or Batch(), rollouts)


def bases(family: str, count: int = 4) -> list[SceneSpec]:
    return [sample_spec(TRAIN, family, "id", "train", seed) for seed in range(count)]
