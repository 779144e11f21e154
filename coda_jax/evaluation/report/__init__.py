"""``report.html``: a run on one self-contained page."""

from coda_jax.evaluation.report.build import write_report

__all__ = ["write_report"]
