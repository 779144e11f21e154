"""Two sets of rollouts of the same scenes, compared scene by scene: before and after the rounds, or run and run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from coda_jax.evaluation.metrics import Moment, Tally, read_summary
from coda_jax.evaluation.records import EvalRecord, read_records
from coda_jax.evaluation.statistics import PairedDifference, paired_difference


@dataclasses.dataclass(frozen=True)
class Row:
    """One suite of two sets: what each gave on the scenes of both, and the mean of second minus first with its interval."""

    family: str
    suite: str
    first: Tally
    second: Tally
    difference: PairedDifference

    @property
    def text(self) -> str:
        """ "id: 30/50 -> 36/50, +12 points (+2 .. +22)"."""
        d = self.difference
        return (
            f"{self.suite}: {self.first.k}/{self.first.n} -> {self.second.k}/{self.second.n}, "
            f"{100 * d.mean:+.0f} points ({100 * d.low:+.0f} .. {100 * d.high:+.0f})"
        )


def _by_scene(records: Iterable[EvalRecord]) -> dict[tuple[str, str], dict[str, dict[int, EvalRecord]]]:
    grouped: dict[tuple[str, str], dict[str, dict[int, EvalRecord]]] = {}
    for r in records:
        grouped.setdefault((r.family, r.suite), {}).setdefault(r.scene_id, {})[r.seed] = r
    return grouped


def paired_rows(first: Iterable[EvalRecord], second: Iterable[EvalRecord]) -> list[Row]:
    """Suites that both sets hold, on the rollouts (scene and seed) that both hold; the scene is the unit of the interval."""
    before, after = _by_scene(first), _by_scene(second)
    rows = []
    for key in before:
        pairs: dict[str, list[tuple[bool, bool]]] = {}
        for scene, by_seed in before[key].items():
            for seed, record in by_seed.items():
                other = after.get(key, {}).get(scene, {}).get(seed)
                if other is not None:
                    pairs.setdefault(scene, []).append((record.success, other.success))
        if not pairs:
            continue
        flat = [p for scene in pairs.values() for p in scene]
        difference = paired_difference([sum(b - a for a, b in scene) / len(scene) for scene in pairs.values()])
        rows.append(Row(*key, Tally(sum(a for a, _ in flat), len(flat)), Tally(sum(b for _, b in flat), len(flat)), difference))
    return rows


def of_moment(records: Iterable[EvalRecord], moment: Moment, split: str) -> list[EvalRecord]:
    return [r for r in records if r.moment == moment and r.split == split]


def before_and_after(records: Sequence[EvalRecord], split: str) -> list[Row]:
    """What the rounds of one run changed, suite by suite; empty without rounds."""
    return paired_rows(of_moment(records, "before", split), of_moment(records, "after", split))


def pooled_change(records: Sequence[EvalRecord], split: str, suites: Sequence[str]) -> PairedDifference | None:
    """What the rounds changed on all scenes of these suites together, the scene as the unit; None where nothing was measured twice."""
    chosen = [
        dataclasses.replace(r, family="all", suite="all", scene_id=f"{r.family} {r.suite} {r.scene_id}")
        for r in records
        if r.suite in suites
    ]
    rows = before_and_after(chosen, split)
    return rows[0].difference if len(rows) == 1 else None


def compare_runs(reference: Path, others: Sequence[Path]) -> Mapping[Path, list[Row]]:
    """Each other run against the reference, after training, on the splits that both were evaluated on.

    Raises:
      ValueError: a folder holds no finished run; it names the folder.
    """
    ours = _finished(reference)
    return {other: paired_rows(ours, _finished(other)) for other in others}


def _finished(folder: Path) -> list[EvalRecord]:
    read_summary(folder)
    return [r for r in read_records(folder) if r.moment == "after"]
