"""What the run cost: by part from the ledger, by stage and round, and what was refused."""

from __future__ import annotations

import re
from collections.abc import Mapping

from coda_jax.evaluation.mode_history import number
from coda_jax.evaluation.report import markup
from coda_jax.evaluation.report.data import RunData
from coda_jax.evaluation.terminal import duration, rate_text

_ROUND_STAGE = re.compile(r"r(\d{1,6})\.([a-z]+)\d{0,6}")
_ROUND = re.compile(r"round_(\d{1,6})")
_OBJECT = re.compile(r"\b[a-z]+(?:_[a-z]+)*_\d+\b")
_MOST_REASONS = 14


def by_reason(refused: Mapping[str, int]) -> dict[str, int]:
    """Refusals with the numbers of objects taken out of the reasons, the commonest first: "can_1 would fall" and "can_2 would fall"
    are one reason."""
    found: dict[str, int] = {}
    for reason, n in refused.items():
        general = _OBJECT.sub("(object)", reason)
        found[general] = found.get(general, 0) + n
    return dict(sorted(found.items(), key=lambda x: (-x[1], x[0])))


def costs(run: RunData) -> str:
    parts = [
        part for part in (_ledger(run), _round_stages(run), _stages(run), _compilations(run), _outcomes(run), _never_valid(run)) if part
    ]
    body = "".join(f"<div>{part}</div>" for part in parts)
    missing = ", ".join(run.summary.sandbox_without)
    note = f"The sandbox's workers did not start with every layer that the system can give; left out: {missing}." if missing else ""
    return markup.section("Cost and refusals", note, f'<div class="columns">{body}</div>' if parts else "")


def _ledger(run: RunData) -> str:
    rows = []
    for name, cost in run.ledger.items():
        wall, cpu, simulated, rollouts = (number(cost.get(f)) for f in ("wall_s", "cpu_s", "simulated_s", "rollouts"))
        at = _ROUND.fullmatch(name)
        shown = f"round {at[1]}" if at else name
        rows.append(
            (
                shown,
                duration(wall or 0.0),
                f"{cpu or 0:,.0f} s",
                f"{(simulated or 0) / 3600:,.2f} h",
                f"{rollouts or 0:,.0f}",
            )
        )
    if not rows:
        return ""
    header = ("part", "wall time", "CPU time", "simulated", "rollouts")
    tokens = f"{run.summary.tokens:,} tokens of language models." if run.summary.tokens else "No language model was asked: 0 tokens."
    note = f'<p class="note">Work that was done again after a stop is included. {tokens}</p>'
    return f"<h3>Cost by part</h3>{note}{markup.table(header, rows, 1)}"


def _round_stages(run: RunData) -> str:
    """Wall time of each stage of each round, as a table of stages by rounds."""
    spent: dict[str, dict[int, float]] = {}
    for row in run.of_kind("stage"):
        at, wall = _ROUND_STAGE.fullmatch(str(row.get("name", ""))), number(row.get("wall_s"))
        if at and wall is not None:
            own = spent.setdefault(at[2], {})
            own[int(at[1])] = own.get(int(at[1]), 0.0) + wall
    rounds = sorted({r for own in spent.values() for r in own})
    rows = [(stage, *(duration(own[r]) if r in own else "" for r in rounds)) for stage, own in spent.items()]
    return f"<h3>Wall time of the rounds' stages</h3>{markup.table(('stage', *(f'round {r}' for r in rounds)), rows, 1)}" if rows else ""


def _outcomes(run: RunData) -> str:
    if not run.summary.rejected:
        return ""
    total = run.summary.accepted + sum(run.summary.rejected.values())
    rows = [(reason, f"{n:,}", f"{100 * n / total:.1f} %") for reason, n in shortened(by_reason(run.summary.rejected)).items()]
    rows.append(("accepted", f"{run.summary.accepted:,}", f"{100 * run.summary.accepted / total:.1f} %"))
    return f"<h3>Scenes by outcome of the checks</h3>{markup.table(('reason', 'scenes', 'share'), rows, 1)}"


def _never_valid(run: RunData) -> str:
    """Layouts of which no draw was a valid scene: nothing was learned of them."""
    rows = [(str(row.get("layout", "")), str(row.get("reasons", ""))) for row in run.of_kind("never_valid")]
    return f"<h3>Never a valid scene, so nothing was learned of them</h3>{markup.table(('layout', 'refused for'), rows, 2)}" if rows else ""


def shortened(counts: dict[str, int], most: int = _MOST_REASONS) -> dict[str, int]:
    """The first ``most`` reasons and the sum of the others."""
    rest = list(counts.items())[most:]
    kept = dict(list(counts.items())[:most])
    return kept | ({f"{len(rest)} other reasons": sum(n for _, n in rest)} if rest else {})


def _stages(run: RunData) -> str:
    stages = []
    for row in run.of_kind("stage"):
        name = str(row.get("name", ""))
        wall, done, compiles = number(row.get("wall_s")), number(row.get("done")), number(row.get("compiles"))
        if wall is None or _ROUND_STAGE.fullmatch(name):
            continue
        rate = rate_text(done / wall, str(row.get("unit", "items"))) if done and wall > 0 else ""
        stages.append((name, duration(wall), rate, "" if compiles is None else f"{compiles:.0f}"))
    header = ("stage", "wall time", "rate", "compilations")
    return f"<h3>Time by stage</h3>{markup.table(header, stages, 1)}" if stages else ""


def _compilations(run: RunData) -> str:
    rows = [("before and after the rounds" if i == 0 else f"round {i}", str(n)) for i, n in enumerate(run.summary.compiles_per_round)]
    return f"<h3>Compilations after the start</h3>{markup.table(('', 'compilations'), rows, 1)}" if rows else ""
