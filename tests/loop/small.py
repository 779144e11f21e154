"""The whole job at its smallest, and what of its outcome must not depend on interruptions."""

import dataclasses
from pathlib import Path

from coda_jax import config as settings
from coda_jax.evaluation.metrics import read_metrics
from coda_jax.evaluation.records import read_records
from coda_jax.loop.checkpoint import folder_digest
from coda_jax.loop.journal import read_commits

EXPERIMENT = "from tests.loop.small import small_config as get_config\n"


def small_config() -> settings.Config:
    config = settings.default()
    config.sim.worlds = 8
    config.demos.count, config.demos.wave = 6, 4
    config.policy.width = 32
    config.clone.steps, config.clone.batch, config.clone.warmup = 60, 32, 5
    config.checkpoint.every = 20
    config.evaluate.scenes, config.evaluate.films = 3, 1
    config.evaluate.suites = ("id", "tasks")
    config.scenes.pictures = 1
    config.horizon.pick_place = 90
    return config


def outcome(folder: Path) -> dict:
    """Everything a run decided, without times and without orbax' own time stamps."""
    last = dataclasses.asdict(read_commits(folder)[-1])
    del last["wall_s"], last["compiles"], last["metrics_bytes"], last["checkpoint_sha256"], last["critic_sha256"], last["calls_bytes"]
    rows = read_metrics(folder / "metrics.jsonl")
    for row in rows:
        row.pop("wall_s", None)
    arrays = folder / "checkpoints" / str(last["checkpoint"])
    assert folder_digest(arrays)
    return {"last": last, "rows": rows, "records": read_records(folder)}
