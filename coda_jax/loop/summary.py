"""``summary.json`` of a run, from its last commit, its memory and its evaluation records: committed work only."""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from coda_jax.evaluation.coverage import coverage_bits
from coda_jax.evaluation.metrics import METRICS, Calibration, Coverage, Summary, Targeting, Verification, read_metrics
from coda_jax.evaluation.records import EvalRecord, tally
from coda_jax.loop import foreign_suites, parts
from coda_jax.loop.run import Run
from coda_jax.memory.rows import ControlTest, Mode
from coda_jax.memory.store import Memory


def summary_of(run: Run, records: Sequence[EvalRecord]) -> Summary:
    """The run's numbers for scripts."""
    state, rounds = run.state, run.state.ended_rounds
    verdicts = collections.Counter(t.verdict for t in run.memory.rows(ControlTest, "WHERE kind = 'test'"))
    rows = read_metrics(run.folder / METRICS)
    covered = [coverage_of(rows, [number]) for number in range(1, rounds + 1)]
    return Summary(
        seed=run.config.seed,
        wall_s=round(state.wall_s, 1),
        accepted=state.accepted + sum(len(e) for e in state.environments.values()),
        rejected=dict(sorted(state.rejected.items())),
        compiles_per_round=_compiles(run, rounds),
        sim_steps=state.sim_steps,
        suites=tally(records, run.config.evaluate.split),
        rounds=rounds,
        diagnoses=dict(sorted(verdicts.items())),
        modes=[modes_of_round(run.memory, number) for number in range(1, rounds + 1)],
        targeting=_targeting(run, rounds),
        coverage=covered,
        run_coverage=coverage_of(rows, range(1, rounds + 1)) if rounds else None,
        verification=[verification_of(rows, number) for number in range(1, rounds + 1)],
        critic=calibrations(rows, rounds),
        tokens=sum(one.tokens for one in state.asked.values()),
        tokens_in=sum(one.tokens_in for one in state.asked.values()),
        tokens_out=sum(one.tokens_out for one in state.asked.values()),
        tokens_estimated=sum(one.estimated for one in state.asked.values()),
        questions={purpose: one.outcomes for purpose, one in sorted(state.asked.items())},
        agents=state.agents,
        robot=parts.robot_of(run.config).name,
        within_reach=foreign_suites.within_reach(run.config),
        sandbox_without=state.left_out,
    )


def _compiles(run: Run, rounds: int) -> list[int]:
    """Executables built after the start: outside of rounds, then in each round."""
    counts = [0] * (rounds + 1)
    for row in read_metrics(run.folder / METRICS):
        if row["kind"] == "stage":
            head = str(row["name"]).partition(".")[0]
            counts[int(head[1:]) if head[:1] == "r" and head[1:].isdigit() else 0] += row["compiles"]
    return counts


def _targeting(run: Run, rounds: int) -> list[Targeting]:
    rows = {row["round"]: row for row in read_metrics(run.folder / METRICS) if row["kind"] == "targeting"}
    found = [rows[number] for number in range(1, rounds + 1)]
    return [Targeting(row["environments"], row["exact"], row["share"]) for row in found]


def coverage_of(rows: Iterable[Mapping[str, Any]], rounds: Collection[int]) -> Coverage:
    """Of the environments accepted in some rounds, from the rows of ``metrics.jsonl``; the last row of a round counts."""
    last = {row["round"]: row.get("edits", []) for row in rows if row["kind"] == "environments" and row["round"] in rounds}
    edited = [[(str(verb), float(m)) for verb, m in edits] for own in last.values() for edits in own if edits]
    return Coverage(len(edited), coverage_bits(edited))


def verification_of(rows: Iterable[Mapping[str, Any]], round_number: int) -> Verification:
    """Scenes checked of those that a round's strategy proposed, level search and environments; the last row of a stage counts.

    Variants that only look for failures (collect) or test a diagnosis (control) are drawn alike in every strategy and say nothing of it.
    """
    last = {(row["kind"], row.get("stage")): row["checks"] for row in rows if row.get("round") == round_number and "checks" in row}
    proposed, first, valid = (sum(checks[name] for checks in last.values()) for name in ("proposed", "first", "valid"))
    return Verification(proposed, first, valid, all(checks["traces"] for checks in last.values()) if last else False)


def calibrations(rows: Iterable[Mapping[str, Any]], rounds: int) -> list[Calibration]:
    """Of the finished rounds, from the rows of ``metrics.jsonl``."""
    found = {row["round"]: row for row in rows if row["kind"] == "critic" and row["round"] <= rounds}
    return [Calibration(n, found[n]["decisions"], found[n]["calibration_error"]) for n in sorted(found)]


def modes_of_round(memory: Memory, round_number: int) -> dict[str, int]:
    """Modes first seen in a round, seen before and still in use at its end, and removed in it."""
    until = memory.rows(Mode, "WHERE v.round <= ? ORDER BY m.mode_id, v.version", (round_number,))
    latest = {m.mode_id: m for m in until}
    first = {m.mode_id: m.round for m in reversed(until)}
    steps = zip([None, *until], until, strict=False)  # each version after the one before it, which may be another mode's
    gone = {
        new.mode_id
        for old, new in steps
        if new.round == round_number and new.status == "removed" and not (old and (old.mode_id, old.status) == (new.mode_id, "removed"))
    }
    return {
        "new": sum(r == round_number for r in first.values()),
        "kept": sum(first[i] < round_number and m.status != "removed" for i, m in latest.items()),
        "removed": sum(latest[i].status == "removed" for i in gone),  # a retired mode that was replayed changes too, and was gone before
    }
