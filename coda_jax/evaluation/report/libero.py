"""The section of the report about LIBERO-Pro: ours beside the paper's table 2, for both sources of prompts."""

from __future__ import annotations

from coda_jax.evaluation.metrics import Tally
from coda_jax.evaluation.paper import LIBERO_PRO, LIBERO_PRO_POLICY
from coda_jax.evaluation.report import markup
from coda_jax.evaluation.report.data import RunData, pooled
from coda_jax.scenes.libero.suites import BY_NAME, PERTURBATIONS

_CALLED = {"standard": "standard LIBERO", "pos": "Pos: exchanged places", "task": "Task: other tasks"}
_PROMPTS = {"": "task file", BY_NAME: "file name"}
SEES = {"state": "states of the simulator (positions, sizes and names of all things), no pictures", "pixels": "pictures of two cameras"}

FEW = " It was rolled out among few primitives in place of the official shapes (sim.backend=mjx), which changes what succeeds."


def libero(run: RunData) -> str:
    """A row for each perturbation and source of prompts, over all families of the run; "" where none of the suites was evaluated."""
    rows = []
    for suite in PERTURBATIONS:
        for ending, prompts in _PROMPTS.items():
            before, after = (pooled(run.summary, (suite + ending,), moment) for moment in ("before", "after"))
            if before.n or after.n:
                paper = LIBERO_PRO[suite] if not ending else {}
                theirs = [f"{paper[moment]:g} %" if moment in paper else "" for moment in ("before", "after 5 rounds", "after 15 rounds")]
                rows.append((_CALLED[suite], prompts, _rate(before), _rate(after), *theirs))
    if not rows:
        return ""
    header = ["suite", "prompts from", "before", "after", "paper, before", "paper, 5 rounds", "paper, 15 rounds"]
    sees = SEES.get(str(run.setting("obs")), SEES["state"])
    note = (
        f"This policy sees {sees}; the paper's ({LIBERO_PRO_POLICY}) sees pictures and was trained on other data: the figures stand beside "
        "each other and are not the same experiment. Intervals are Wilson's, 95 %. Prompts from the file's name are what runners show that "
        "do not read the task file: in suites with other tasks they name the task that was there before."
    )
    note += FEW if run.setting("sim", "backend") == "mjx" else ""
    return markup.section("LIBERO-Pro", note, markup.table(header, rows, 2))


def _rate(total: Tally) -> str:
    return f"{markup.percent(total)} ({total.k}/{total.n}, {markup.interval_text(total)})" if total.n else ""
