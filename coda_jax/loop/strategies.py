"""Where the environments of a round come from: the arms that are compared (METHOD section 10).

All else is the same: seed demonstrations and clone, bases, collected rollouts and own successes, environments, demonstrations, updates.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Strategy:
    """proposes: which function of loop/rounds/environments.py fills the round. diagnoses: failures become modes, programs and control
    tests first. remembers: modes, programs and priors of earlier rounds count."""

    proposes: str
    diagnoses: bool = False
    remembers: bool = False


STRATEGIES: dict[str, Strategy] = {
    "sft": Strategy("seeds"),
    "domain_randomization": Strategy("randomised"),
    "uniform": Strategy("uniform"),
    "success_rate": Strategy("in_band"),
    "coda_no_memory": Strategy("targeted", diagnoses=True),
    "coda": Strategy("targeted", diagnoses=True, remembers=True),
}
