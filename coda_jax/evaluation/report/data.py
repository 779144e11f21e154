"""What the report reads of a run folder, and the few sums several sections share."""

from __future__ import annotations

import base64
import dataclasses
import functools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from coda_jax.evaluation.comparison import Row, before_and_after
from coda_jax.evaluation.metrics import METRICS, Moment, Summary, Tally, read_metrics, read_summary
from coda_jax.evaluation.records import EvalRecord, read_records, tally
from coda_jax.evaluation.statistics import Interval, cluster_bootstrap
from coda_jax.runtime import InputError

LEDGER = "ledger.json"
IN_DISTRIBUTION = ("id", "standard")
HELD_OUT = ("instances", "layouts", "tasks", "categories", "pos", "task")
_IMAGE_TYPES = {".png": "image/png", ".webp": "image/webp", ".jpg": "image/jpeg"}
_CURVE_POINTS = 400
_IMAGE_BYTES = 2_000_000  # a larger picture would make the page unwieldy


@dataclasses.dataclass(frozen=True)
class RunData:
    folder: Path
    summary: Summary
    rows: tuple[dict[str, Any], ...]
    records: tuple[EvalRecord, ...]
    config: dict[str, Any]
    ledger: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    calls: dict[str, dict[str, dict[str, Any]]] = dataclasses.field(default_factory=dict)  # of language models, by stage and purpose

    @functools.cached_property
    def split(self) -> str | None:
        """The split whose records the summary counts; None where no split's records give its numbers."""
        splits = sorted({r.split for r in self.records})
        return next((split for split in splits if tally(self.records, split) == self.summary.suites), None)

    @functools.cached_property
    def changes(self) -> list[Row]:
        """What the rounds changed, suite by suite, on the scenes that the summary counts."""
        return before_and_after(self.records, self.split) if self.split is not None else []

    def interval(self, family: str, suite: str, moment: Moment) -> Interval | None:
        """95 % interval over scenes of a suite in which scenes have several rollouts; None where each has one, or there is one scene."""
        scenes: dict[str, list[bool]] = {}
        for r in self.records:
            if (r.family, r.suite, r.moment, r.split) == (family, suite, moment, self.split):
                scenes.setdefault(r.scene_id, []).append(r.success)
        if len(scenes) < 2 or all(len(own) == 1 for own in scenes.values()):
            return None
        return cluster_bootstrap([sum(own) for own in scenes.values()], [len(own) for own in scenes.values()])

    def setting(self, *path: str) -> Any:
        """Of the configuration in ``config.json``, which is checked nowhere before; None where it has none of that name."""
        found: Any = self.config.get("config")
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        return found

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
    rows, records = tuple(read_metrics(run_folder / METRICS)), tuple(read_records(run_folder))
    return RunData(run_folder, read_summary(run_folder), rows, records, config, *_ledger(run_folder / LEDGER))


def _ledger(path: Path) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, dict[str, Any]]]]:
    """Costs by part of the run, and of language models; a missing or damaged ledger gives none: costs only."""
    try:
        stored = json.loads(path.read_text("utf-8"))
        calls = {
            str(stage): {str(purpose): dict(one) for purpose, one in own.items()} for stage, own in stored.get("language_model", {}).items()
        }
        return {str(name): dict(cost) for name, cost in stored["stages"].items()}, calls
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}, {}


def pooled(summary: Summary, suites: Iterable[str], moment: str) -> Tally:
    """Sum of one moment over suites and families."""
    chosen = [t for f in summary.suites.values() for s in suites for m, t in f.get(s, {}).items() if m == moment]
    return Tally(sum(t.k for t in chosen), sum(t.n for t in chosen))


def thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most _CURVE_POINTS points of a curve, each the mean of its neighbours."""
    size = max(1, -(-len(points) // _CURVE_POINTS))
    pieces = [points[i : i + size] for i in range(0, len(points), size)]
    return [(sum(x for x, _ in p) / len(p), sum(y for _, y in p) / len(p)) for p in pieces]
