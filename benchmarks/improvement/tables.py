"""Tables of the results: changes from the clone, courses of training, what the monitors say, agreement with the sparse critic."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.improvement.plan import EVALUATED, MIDWAY, WANTED
from coda_jax.evaluation.statistics import paired_difference
from coda_jax.learning.critic.monitor import agreement


def read(folder: Path) -> list[dict[str, Any]]:
    path = folder / "results.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _final(row: dict[str, Any]) -> dict[str, Any]:
    """What the arm is judged by: its policy after the last update; the choice of the best candidate where the policy is frozen."""
    mode = "argmax" if row["arm"] == "frozen" else "policy"
    return [point for point in row["curve"] if point["mode"] == mode and "suites" in point][-1]


def _compared(rows: Sequence[dict[str, Any]], value: Any) -> str:
    """Mean over scenes of the change from the clone, seeds averaged per scene, with its 95 % interval."""
    return _gain([(r["curve"][0], _final(r)) for r in rows], value)


def _scenes_of(point: dict[str, Any]) -> np.ndarray:
    return np.asarray(point["set"]) / EVALUATED


def _suite(name: str) -> Any:
    return lambda point: np.asarray(point["suites"][name], float)


def _held_out(point: dict[str, Any]) -> np.ndarray:
    return np.concatenate([np.asarray(v, float) for v in point["suites"].values()])


def describe(results: Sequence[dict[str, Any]], folder: Path) -> str:
    """Success by arm with paired changes, the course of training, what the monitors say, agreement with the sparse critic."""
    if not results:
        return "no results yet"
    by: dict[str, list[dict[str, Any]]] = {}
    for row in results:
        by.setdefault(row["arm"], []).append(row)
    names = list(results[0]["curve"][0]["suites"])
    lines = ["Change from the clone in points, 95 %, paired by scene", ""]
    lines += ["| arm | seeds | set | validation | " + " | ".join(names) + " | minutes |", "|---" * (5 + len(names)) + "|"]
    for arm, rows in by.items():
        cells = [_compared(rows, _scenes_of), _compared(rows, _held_out), *(_compared(rows, _suite(n)).split(" ")[0] for n in names)]
        minutes = np.mean([r["wall_s"] for r in rows]) / 60
        lines.append(f"| `{arm}` | {len(rows)} | " + " | ".join(cells) + f" | {minutes:.1f} |")
    start = results[0]["curve"][0]
    lines += [
        "",
        f"The clone: {100 * _scenes_of(start).mean():.1f} % on the set, {100 * _held_out(start).mean():.1f} % on validation (seed 0)",
    ]
    lines += ["", *_choices(by)]
    lines += ["", *_courses(by)]
    lines += ["", "Success on the set, %, by updates and actor (mean over seeds)", ""]
    for arm, rows in by.items():
        points: dict[tuple[int, str], list[float]] = {}
        for row in rows:
            for point in row["curve"]:
                points.setdefault((point["updates"], point["mode"]), []).append(100 * float(_scenes_of(point).mean()))
        lines.append(f"- `{arm}`: " + ", ".join(f"{u} {mode} {np.mean(v):.1f}" for (u, mode), v in points.items()))
    lines += ["", "| arm | calibration error | correlation with returns | sd of candidates | ESS | weights: success, failure | drift |"]
    lines += ["|---" * 7 + "|"]
    for arm, rows in by.items():
        last = [row["monitors"][-1] for row in rows]

        def mean(*path: str, rows: list[dict[str, Any]] = last) -> str:
            found = []
            for row in rows:
                value: Any = row
                for name in path:
                    value = value.get(name) if isinstance(value, dict) else None
                if value is not None:
                    found.append(float(value))
            return f"{np.mean(found):.3f}" if found else "-"

        advantages = f"{mean('advantage_success')}, {mean('advantage_failure')}"
        cells = (
            mean("calibration_error"),
            mean("correlation"),
            mean("candidate_sd"),
            mean("weights", "ess"),
            advantages,
            mean("policy", "drift"),
        )
        lines.append(f"| `{arm}` | " + " | ".join(cells) + " |")
    lines += ["", *_agreements(by, folder)]
    return "\n".join(lines)


def _choices(by: dict[str, list[dict[str, Any]]]) -> list[str]:
    """What the choice of the best of the policy's candidates adds to the policy itself, with the same parameters."""
    lines = [
        "Best candidate by the critic beside the policy alone, points, 95 %, paired by scene",
        "",
        "| arm | set | validation |",
        "|---|---|---|",
    ]
    pairs: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for arm, rows in by.items():
        own = []
        for row in rows:
            argmax = [p for p in row["curve"] if p["mode"] == "argmax"]
            policy = [p for p in row["curve"] if p["mode"] == "policy"]  # of a frozen policy the clone itself
            if argmax:
                own.append((policy[-1], argmax[-1]))
        pairs += own
        if own:
            lines.append(f"| `{arm}` | {_gain(own, _scenes_of)} | {_gain(own, _held_out)} |")
    return [*lines, f"| all of them | {_gain(pairs, _scenes_of)} | {_gain(pairs, _held_out)} |"] if pairs else []


def _gain(pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]], value: Any) -> str:
    d = paired_difference(np.mean([value(after) - value(before) for before, after in pairs], 0))
    return f"{100 * d.mean:+.1f} ({100 * d.low:+.1f} .. {100 * d.high:+.1f})"


def _courses(by: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Validation success of the policy itself by updates, and the updates after which it has gained WANTED; seeds are averaged first."""
    lines = [f"Success on validation, %, by updates (the first {MIDWAY} scenes of each suite), and updates to {100 * WANTED:+.0f} points"]
    lines += ["", "| arm | by updates | updates |", "|---|---|---|"]
    for arm, rows in by.items():
        points: dict[int, list[float]] = {}
        for row in rows:
            for point in row["curve"]:
                if point["mode"] == "policy" and point["suites"]:
                    shown = [v for suite in point["suites"].values() for v in suite[:MIDWAY]]
                    points.setdefault(point["updates"], []).append(float(np.mean(shown)))
        course = [(updates, float(np.mean(v))) for updates, v in sorted(points.items())]
        if len(course) > 1:
            shown = ", ".join(f"{updates:,} {100 * p:.1f}" for updates, p in course)
            lines.append(f"| `{arm}` | {shown} | {_updates_to(course, course[0][1] + WANTED)} |")
    return lines


def _updates_to(course: Sequence[tuple[int, float]], wanted: float) -> str:
    """The first crossing, between two measurements in a straight line."""
    for (u0, p0), (u1, p1) in itertools.pairwise(course):
        if p0 < wanted <= p1:
            return f"{u0 + (u1 - u0) * (wanted - p0) / (p1 - p0):,.0f}"
    return f"not in {course[-1][0]:,}"


def _agreements(by: dict[str, list[dict[str, Any]]], folder: Path) -> list[str]:
    """Share of decisions of the first iteration, which all arms of a seed have in common, with the sparse critic's choice."""
    lines = []
    for arm, rows in by.items():
        found = []
        for row in rows:
            paths = [folder / f"q_{name}_{row['seed']}_0.npz" for name in (arm, "sparse")]
            if arm != "sparse" and all(path.exists() for path in paths):
                own, sparse = (np.load(path)["q"] for path in paths)
                if own.shape == sparse.shape:
                    found.append(agreement(own, sparse))
        if found:
            share, chance = np.mean([a.share for a in found]), found[0].chance
            lines.append(
                f"- `{arm}` chooses the sparse critic's candidate in {100 * share:.1f} % of decisions (chance {100 * chance:.0f} %)"
            )
    return lines
