"""How the rounds went: success round by round, what they decided, and what failures were blamed on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from html import escape
from typing import Any

from coda_jax.agents.base import FACTORS, SCRIPTED
from coda_jax.evaluation.mode_history import number, tally, whole
from coda_jax.evaluation.paper import COVERAGE_BITS, TARGETING, VALID_SCENES, beside
from coda_jax.evaluation.report import charts, markup
from coda_jax.evaluation.report.data import RunData

_NAMES = ("fresh training scenes", "the same, edited", "its environments, before", "its environments, after")
_COLOURS = ("#64748b", "#cbd5e1", "#93c5fd", "#2563eb")
_FACTOR_NAMES = (*FACTORS, "EXECUTION")
FACTOR_COLOURS = ("#7c3aed", "#2563eb", "#0f766e", "#d1d5db")
_DOMINATES = 0.5  # share of EXECUTION from which the page says what it means


def _interval(value: Any) -> tuple[float, float] | None:
    found = [number(v) for v in value] if isinstance(value, list) and len(value) == 2 else []
    if len(found) != 2 or found[0] is None or found[1] is None or not 0 <= found[0] <= found[1] <= 1:
        return None
    return found[0], found[1]


def _by_round(run: RunData, kind: str) -> dict[int, dict[str, Any]]:
    """The last row of a kind for each round."""
    return {at: row for row in run.of_kind(kind) if (at := whole(row.get("round"))) is not None}


def _block(row: dict[str, Any], name: str) -> dict[str, Any]:
    found = row.get(name)
    return found if isinstance(found, dict) else {}


def rounds(run: RunData) -> str:
    collected, measured = _by_round(run, "collect"), _by_round(run, "measure")
    groups, rows = [], []
    for at in sorted({*collected, *measured}):
        c, m = collected.get(at, {}), _block(measured.get(at, {}), "environments")
        found = [
            (tally(c.get("k"), c.get("n")), _interval(c.get("interval"))),
            (tally(c.get("edited_k"), c.get("edited_n")), _interval(c.get("edited_interval"))),
            (tally(m.get("before"), m.get("n")), _interval(m.get("before_interval"))),
            (tally(m.get("after"), m.get("n")), _interval(m.get("after_interval"))),
        ]
        bars = [
            markup.bar(f"round {at}", t, colour, interval) for (t, interval), colour in zip(found, _COLOURS, strict=True) if t is not None
        ]
        if bars:
            groups.append(bars)
        rows.append((str(at), *_facts(run, at, measured.get(at, {}))))
    if not rows:
        return ""
    header = (
        "round",
        "targeting",
        "coverage",
        "valid scenes",
        "change on its environments",
        "modes new / kept / removed",
        "tests: true / false / open",
        "updates",
        "ended because",
    )
    note = (
        "Each round: the policy tries fresh scenes and edited ones, failures become modes, modes become environments, the policy trains on "
        "them. Fresh scenes are new ones in every round. Environments are chosen where the policy fails and it trains on them, so their "
        "gain says that practice works, not that the policy generalises: that is what the suites above are for. Whiskers and ranges: 95 %. "
        "Targeting: share of the environments with 4 to 12 successes of 16 rollouts before the training; one with fewer rollouts counts as "
        f"the chance that 16 would give that, judged from all environments of the round; {beside(TARGETING, '.1%')}. Coverage: entropy of "
        "edited factor, verb and third of the magnitude together over the accepted environments that were edited"
        f"{_whole(run)}; {beside(COVERAGE_BITS, '.2f')} bits. Valid scenes: those that pass the physical checks as proposed, then after "
        f"repairs, of all proposed in the round; {beside(VALID_SCENES, '.1%')}."
    )
    body = markup.key(_NAMES, _COLOURS) + charts.bar_chart(groups, "success by round") if groups else ""
    return markup.section("Rounds", note, body + markup.table(header, rows, len(header)))


def _facts(run: RunData, at: int, measured: dict[str, Any]) -> tuple[str, ...]:
    block, modes = _block(measured, "environments"), run.summary.modes
    change = [number(v) for v in block["change"]] if isinstance(block.get("change"), list) and len(block["change"]) == 3 else []
    mean, low, high = change if len(change) == 3 else (None, None, None)
    changed = f"{markup.points(mean, low, high)} points" if mean is not None and low is not None and high is not None else ""
    counts = modes[at - 1] if 1 <= at <= len(modes) else None
    shown = " / ".join(str(counts.get(name, 0)) for name in ("new", "kept", "removed")) if counts is not None else ""
    verdicts = Counter(str(row.get("verdict")) for row in run.of_kind("control_test") if whole(row.get("round")) == at)
    tests = " / ".join(str(verdicts[name]) for name in ("confirmed", "refuted", "undecided")) if verdicts else ""
    updates = whole(measured.get("updates"))
    return (
        _targeting(run, at),
        _coverage(run, at),
        _verification(run, at),
        changed,
        shown,
        tests,
        "" if updates is None else f"{updates:,}",
        charts.shorten(str(measured.get("reason", "")), 120),
    )


def _targeting(run: RunData, at: int) -> str:
    found = run.summary.targeting[at - 1] if 1 <= at <= len(run.summary.targeting) else None
    if found is None or found.share is None:
        return ""
    return f"{found.share:.0%} of {found.environments}, {found.exact} with 16 rollouts"


def _coverage(run: RunData, at: int) -> str:
    found = run.summary.coverage[at - 1] if 1 <= at <= len(run.summary.coverage) else None
    return "" if found is None or found.bits is None else f"{found.bits:.2f} bits of {found.environments}"


def _whole(run: RunData) -> str:
    found = run.summary.run_coverage
    return "" if found is None or found.bits is None else f" ({found.bits:.2f} bits over the {found.environments} of all rounds)"


def _verification(run: RunData, at: int) -> str:
    found = run.summary.verification[at - 1] if 1 <= at <= len(run.summary.verification) else None
    if found is None or not found.proposed:
        return ""
    with_traces = "with" if found.traces else "without"
    return f"{found.first / found.proposed:.1%}, {found.valid / found.proposed:.1%} of {found.proposed}, {with_traces} traces"


def diagnoses(run: RunData) -> str:
    """Failures by the factor they were blamed on, round by round."""
    counts: dict[int, list[int]] = {}
    agents: Counter[str] = Counter()
    other = 0
    for row in run.of_kind("diagnosis"):
        at, factor = whole(row.get("round")), row.get("factor")
        if at is None or factor not in _FACTOR_NAMES:
            other += 1
            continue
        counts.setdefault(at, [0] * len(_FACTOR_NAMES))[_FACTOR_NAMES.index(factor)] += 1
        agents[str(row.get("agent", SCRIPTED))] += 1
    if not counts:
        return ""
    chart = charts.stacked_chart(
        [(f"round {at}", counts[at]) for at in sorted(counts)], _FACTOR_NAMES, FACTOR_COLOURS, "diagnoses by factor", "failures"
    )
    note = f"{_who(agents)} TASK: what is asked for. SPATIAL: where things are. ATTRIBUTE: what they are like."
    if other:
        note += f" {other} rows name no known factor and are left out."
    return markup.section("What failures are blamed on", note, chart + _execution(counts, set(agents) == {SCRIPTED}))


def _who(agents: Mapping[str, int]) -> str:
    """How failures were diagnosed."""
    reverted = "rolled out again with each changed factor put back; the factor whose return helps most is blamed"
    if set(agents) == {SCRIPTED}:
        return f"A failed rollout of an edited scene is {reverted}."
    if "llm" not in agents:
        return "Factors are drawn by chance: a base rate."
    rest = f" The other {agents[SCRIPTED]}, for which it had no usable answer, were {reverted}." if agents.get(SCRIPTED) else ""
    return f"A language model watched {agents['llm']} failed rollouts of edited scenes and named what they failed by.{rest}"


def _execution(counts: dict[int, list[int]], reverted: bool) -> str:
    """reverted: what was changed was taken back to find out."""
    much = [at for at in sorted(counts) if counts[at][-1] >= _DOMINATES * sum(counts[at])]
    if not much:
        return ""
    shares = ", ".join(f"{counts[at][-1]} of {sum(counts[at])} in round {at}" for at in much)
    why = "The policy fails about as often in the scene before any edit, so no factor is to blame" if reverted else "No factor is blamed"
    text = (
        f"Most failures are EXECUTION: {shares}. {why}: "
        "it is the skill itself (an unsteady grasp, a release too early). No environment is built for these failures; more demonstrations "
        "or a longer training help them, harder scenes do not."
    )
    return f'<p class="callout">{escape(text)}</p>'
