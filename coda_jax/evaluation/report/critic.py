"""What the critic learned, round by round: whether its values can be believed, and what they made of the policy's decisions."""

from __future__ import annotations

from typing import Any

from coda_jax.evaluation.mode_history import number, whole
from coda_jax.evaluation.report import markup, panels
from coda_jax.evaluation.report.data import RunData, thinned
from coda_jax.evaluation.report.panels import Calibrated, Curve

_MOST_ROUNDS = 12  # the latest ones are shown
_BLUE, _ORANGE, _TEAL = "#2563eb", "#c2410c", "#0f766e"
# field of the "train" rows, its name in words, its colour; one panel for each group
_CURVES = (
    (("loss", "loss, nats", _BLUE), ("entropy", "entropy of the prediction", _TEAL)),
    (("clip_share", "targets clipped", _BLUE), ("edge_mass", "mass in the edge bins", _ORANGE)),
    (("effective_candidates", "effective candidates", _BLUE),),
    (("gradient_norm", "gradient norm", _BLUE),),
    (("candidate_spread", "spread of candidates", _BLUE), ("bias", "value minus target", _ORANGE)),
)


def critic(run: RunData) -> str:
    """Calibration of each round, the round's figures, and the curves of its training."""
    rows = {at: row for row in run.of_kind("critic") if (at := whole(row.get("round"))) is not None}
    shown = {at: rows[at] for at in sorted(rows)[-_MOST_ROUNDS:]}
    curves = _training(run, rows)
    body = _calibration(shown) + _table(shown)
    if curves:
        body += f'<h3>Its training</h3><p class="note">Broken lines: where a round ended.</p>{curves}'
    note = (
        "The critic says what a chunk of actions is worth. Each dot: decisions to which it gave a similar value (across, potential added "
        "back) and the discounted reward that they earned (upright), with two standard errors, counted over episodes. On the diagonal its "
        "values can be believed; a flat row of dots tells nothing apart. Advantages, the value of a decision less that of what else the "
        "policy proposed, weigh decisions in the policy's next training."
    )
    return markup.section("Critic", note, body)


def _points(row: dict[str, Any]) -> list[Calibrated]:
    """The stored bins: low, high, count, decoded, realised, error; others are passed over."""
    found = []
    for one in row["calibration"] if isinstance(row.get("calibration"), list) else ():
        if not isinstance(one, list) or len(one) != 6:
            continue
        count, decoded, realised, error = whole(one[2]), number(one[3]), number(one[4]), number(one[5])
        if count and count > 0 and decoded is not None and realised is not None:
            found.append(Calibrated(decoded, realised, error if error is not None and error >= 0 else None, count))
    return found


def _calibration(rows: dict[int, dict[str, Any]]) -> str:
    points = {at: own for at, row in rows.items() if (own := _points(row))}
    values = [v for own in points.values() for p in own for v in (p.decoded, p.realised)]
    if not values:
        return ""
    low, high = min(0.0, *values), max(1.0, *values)
    charts = [panels.calibration_panel(own, low, high, f"round {at}") for at, own in points.items()]
    return f'<div class="panels">{"".join(charts)}</div>'


def _table(rows: dict[int, dict[str, Any]]) -> str:
    header = (
        "round",
        "decisions of the policy",
        "all rows",
        "off from returns",
        "spread of candidates",
        "sd of advantages",
        "ESS of the weights",
        "at the largest weight",
        "mean weight",
    )
    cells = []
    for at, row in rows.items():
        weights = row["weights"] if isinstance(row.get("weights"), dict) else {}
        counts = [whole(row.get(name)) for name in ("decisions", "rows")]
        numbers = [number(row.get(name)) for name in ("calibration_error", "candidate_sd")] + [number(weights.get("advantage_sd"))]
        shares = [number(weights.get(name)) for name in ("ess", "clipped")]
        cells.append(
            (
                str(at),
                *("" if c is None else f"{c:,}" for c in counts),
                *("" if v is None else f"{v:.3f}" for v in numbers),
                *("" if v is None else f"{v:.0%}" for v in shares),
                "" if (mean := number(weights.get("mean_weight"))) is None else f"{mean:.2f}",
            )
        )
    return markup.table(header, cells, 1) if cells else ""


def _training(run: RunData, rounds: dict[int, dict[str, Any]]) -> str:
    rows = [(step, row) for row in run.of_kind("train") if row.get("name") == "critic" and (step := number(row.get("step"))) is not None]
    marks = [(step, f"end of round {at}") for at, row in sorted(rounds.items()) if (step := number(row.get("step"))) is not None]
    found = []
    for fields in _CURVES:
        curves = []
        for field, name, colour in fields:
            points = [(step, value) for step, row in rows if (value := number(row.get(field))) is not None]
            curves.append(Curve(name, thinned(points), colour))
        found.append(panels.curve_panel(curves, marks))
    return f'<div class="panels">{"".join(found)}</div>' if any(found) else ""
