"""Settings that the tests of the critic share."""

from __future__ import annotations

from coda_jax.learning.critic.support import Support


def support(**changes) -> Support:
    settings = {"projection": "hl_gauss", "low": -2.0, "high": 1.0, "bins": 101, "margin": 2.25, "smoothing": 0.75}
    return Support(**{**settings, **changes})
