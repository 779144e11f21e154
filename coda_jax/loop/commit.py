"""What of a run is done: one small file, replaced atomically, that names the length of the metrics log and the state of every stage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from coda_jax.evaluation.metrics import METRICS, MetricsWriter, atomic_write
from coda_jax.runtime import InputError

COMMIT = "commit.json"


class Journal:
    """The run's metrics log and committed state; at start the log is cut to what the last commit names.

    Raises:
      InputError: commit.json is damaged, or the log is shorter than it says.
    """

    def __init__(self, workdir: Path):
        self._path = workdir / COMMIT
        self.state: dict[str, Any] = {}
        length = 0
        if self._path.exists():
            try:
                stored = json.loads(self._path.read_text("utf-8"))
                self.state, length = dict(stored["state"]), int(stored["metrics_bytes"])
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(f"{self._path} is damaged ({error}); choose another --workdir") from None
        try:
            self.metrics = MetricsWriter(workdir / METRICS, length)
        except ValueError as error:
            raise InputError(str(error)) from None

    def done(self, stage: str) -> bool:
        return bool(self.state.get(stage, {}).get("done"))

    def commit(self, stage: str, **fields: Any) -> None:
        """Sync the log, then replace the committed state; ``fields`` are merged into the stage's."""
        self.state[stage] = {**self.state.get(stage, {}), **fields}
        length = self.metrics.commit()
        atomic_write(self._path, json.dumps({"metrics_bytes": length, "state": self.state}).encode())

    def close(self) -> None:
        self.metrics.close()
