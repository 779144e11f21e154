"""Rollouts that two suites share: where both sources of LIBERO's prompts say the same, the episodes are one and the same.

The official runner runs such an episode once and counts it for both; so it is here. Scene, place in the suite, seed and noise are equal
(``rollout_key``), so a second rollout would only be the first one again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import jax

from coda_jax import config as settings
from coda_jax.evaluation.metrics import Moment
from coda_jax.evaluation.records import EvalRecord, records_of
from coda_jax.scenes.libero.suites import BY_NAME

Known = Mapping[tuple[str, int], EvalRecord]  # by scene id and seed


def rollout_key(seed: int, suite: str) -> jax.Array:
    """Key of a suite's rollouts; the same before and after training, and for both sources of prompts, so that they can be compared scene
    by scene."""
    number = (settings.SUITES + settings.LIBERO_SUITES).index(suite.removesuffix(BY_NAME))
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), 2), number)


def twin(suite: str) -> str:
    """The suite of the same scenes under the other source of prompts, whether or not there is one."""
    return suite.removesuffix(BY_NAME) if suite.endswith(BY_NAME) else suite + BY_NAME


def known_of(folder: Path, suite: str, split: str, moment: Moment) -> Known:
    """The records of a suite that was rolled out already in ``folder``, for its twin.

    Raises:
      InputError: they are damaged. OSError: they are missing.
    """
    return {(r.scene_id, r.seed): r for r in records_of(folder, suite, moment) if r.split == split}
