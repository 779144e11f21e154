"""What the report reads of a run folder, and the few sums several sections share."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from coda_jax.evaluation.metrics import METRICS, Summary, Tally, read_metrics, read_summary
from coda_jax.evaluation.records import EvalRecord, read_records
from coda_jax.runtime import InputError

HELD_OUT = ("instances", "layouts", "tasks", "categories")
_IMAGE_TYPES = {".png": "image/png", ".webp": "image/webp", ".jpg": "image/jpeg"}
_IMAGE_BYTES = 2_000_000  # a larger picture would make the page unwieldy


@dataclasses.dataclass(frozen=True)
class RunData:
    folder: Path
    summary: Summary
    rows: tuple[dict[str, Any], ...]
    records: tuple[EvalRecord, ...]
    config: dict[str, Any]

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """Rows of ``metrics.jsonl`` of one kind, in the order written."""
        return [r for r in self.rows if r.get("kind") == kind]

    def image(self, relative: Any) -> str | None:
        """A picture of the run folder as a data URI; None where it is missing, too large, no picture, or outside the folder."""
        if not isinstance(relative, str) or "\0" in relative:
            return None
        path = (self.folder / relative).resolve()
        mime = _IMAGE_TYPES.get(path.suffix.lower())
        if mime is None or not path.is_relative_to(self.folder.resolve()) or not path.is_file() or path.stat().st_size > _IMAGE_BYTES:
            return None
        return f"data:{mime};base64,{base64.b64encode(path.read_bytes()).decode()}"


def load(run_folder: Path) -> RunData:
    """Read a run folder.

    Raises:
      InputError: summary.json is missing, or a file does not follow its schema; the message names file and field.
    """
    config_path = run_folder / "config.json"
    try:
        config = json.loads(config_path.read_text("utf-8")) if config_path.exists() else {}
    except (ValueError, RecursionError) as error:
        raise InputError(f"{config_path} is not JSON ({error}); restore it") from None
    if not isinstance(config, dict):
        raise InputError(f"{config_path} is no JSON object; restore it")
    return RunData(run_folder, read_summary(run_folder), tuple(read_metrics(run_folder / METRICS)), tuple(read_records(run_folder)), config)


def pooled(summary: Summary, suites: Iterable[str], moment: str) -> Tally:
    """Sum of one moment over suites and families."""
    chosen = [t for f in summary.suites.values() for s in suites for m, t in f.get(s, {}).items() if m == moment]
    return Tally(sum(t.k for t in chosen), sum(t.n for t in chosen))


def number(value: Any) -> float | None:
    """A finite-number field of a metrics row, or None."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
