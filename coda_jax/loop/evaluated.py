"""Which suites an evaluation has finished, of which policy: ``evaluation.json`` in its folder, so that a stopped one goes on."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from coda_jax.evaluation.metrics import atomic_write
from coda_jax.evaluation.records import records_name
from coda_jax.loop.journal import missing_or_changed

log = logging.getLogger(__name__)
FILE = "evaluation.json"
_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, config=_STRICT)
class SuiteDone:
    """sha256: of its records. k of n rollouts succeeded, ``clipped`` action entries. sim_steps: physics steps. wall_s: what it took."""

    sha256: str
    k: Count
    n: Count
    clipped: Count
    sim_steps: Count
    wall_s: Annotated[float, Field(ge=0)]


@dataclass(frozen=True, config=_STRICT)
class Evaluated:
    """policy_sha256: of the checkpoint that was rolled out, and of the critic's where an actor chose by it. suites: finished ones."""

    policy_sha256: str
    suites: dict[str, SuiteDone] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, policy_sha256: str) -> Evaluated:
        """What a folder holds of this policy. Suites whose records are gone or changed are named in a warning and left out."""
        path = folder / FILE
        if not path.exists():
            return cls(policy_sha256)
        try:
            stored = _EVALUATED.validate_json(path.read_bytes())
        except ValidationError:
            log.warning("%s is damaged; every suite is rolled out again", path)
            return cls(policy_sha256)
        if stored.policy_sha256 != policy_sha256:
            log.warning("%s is of an earlier state of the policy; every suite is rolled out again", folder)
            return cls(policy_sha256)
        whole = {}
        for suite, done in stored.suites.items():
            if found := missing_or_changed(folder, {records_name(suite, "after"): done.sha256}):
                log.warning("%s; suite %s is rolled out again", found, suite)
            else:
                whole[suite] = done
        return cls(policy_sha256, whole)

    def with_suite(self, suite: str, done: SuiteDone) -> Evaluated:
        return dataclasses.replace(self, suites=self.suites | {suite: done})

    def store(self, folder: Path) -> None:
        atomic_write(folder / FILE, _EVALUATED.dump_json(self, indent=1) + b"\n")


_EVALUATED: TypeAdapter[Evaluated] = TypeAdapter(Evaluated)
