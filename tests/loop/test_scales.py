"""What a stage measured reaches the log, the watcher and the report."""

import numpy as np

from coda_jax.evaluation.metrics import METRICS, Summary, read_metrics, write_summary
from coda_jax.evaluation.report import write_report
from coda_jax.learning import scale_doctor as doctor
from coda_jax.loop import scales
from coda_jax.loop.run import opened
from tests.loop.small import small_config


def test_a_stage_s_scales_are_logged_said_and_shown(tmp_path, capsys):
    measured = doctor.candidate_scales(np.full((1, 4), 0.25))
    with opened(small_config(), tmp_path) as job:
        scales.report(job, "critic", 2, measured)
        scales.report(job, "allocation", 2, doctor.Measured(ucb=0.5))
        scales.report(job, "policy", 2, doctor.Measured())  # nothing measured, nothing written
        job.metrics.commit()
    rows = read_metrics(tmp_path / METRICS)
    assert [(r["part"], r["measured"], len(r["warnings"])) for r in rows] == [
        ("critic", {"candidates": 4, "effective_candidates": 4.0}, 1),
        ("allocation", {"ucb": 0.5}, 0),
    ]
    text = rows[0]["warnings"][0]["text"]
    assert capsys.readouterr().err == f"round 2, critic: scale warning: {text}\n" and "4.00 of 4 candidates" in text
    write_summary(tmp_path, Summary(0, 1.0, 0, {}, [], 0, {}))
    assert "averaging shrinks the executed spread 2.0-fold" in write_report(tmp_path).read_text("utf-8")
