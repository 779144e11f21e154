"""Is a scene a fair task? Every check of a batch of scenes, each failure with its amount and the change that mends it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import mujoco

from coda_jax.scenes.assets import Asset
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.checks.joint import joint_failures
from coda_jax.sim.checks.overlap import overlap_failures
from coda_jax.sim.checks.plain import plain_failures
from coda_jax.sim.checks.reach import reach_failures
from coda_jax.sim.checks.record import CHECKS, Failure, ValiditySettings
from coda_jax.sim.checks.settle import goals_at_start, settle_failures, settled_view
from coda_jax.sim.compile import CompiledScene, SceneError, bucket_of, compile_scene, scene_assets

__all__ = ["CHECKS", "Failure", "Report", "ValiditySettings", "check"]


@dataclasses.dataclass(frozen=True)
class Report:
    """The verdict on one scene: valid without failures, which come in the order of CHECKS."""

    scene_id: str
    failures: tuple[Failure, ...]

    @property
    def valid(self) -> bool:
        return not self.failures


@dataclasses.dataclass
class _Job:
    scene: CompiledScene
    assets: dict[str, Asset]
    failures: list[Failure]


def check(specs: Sequence[SceneSpec], catalogue: Catalogue, settings: ValiditySettings) -> list[Report]:
    """Check scenes in batches of ``settings.worlds`` of one bucket; one report per spec, in their order.

    A scene whose objects overlap, each other or the table, is not settled: what it would do means nothing. The checks of names and
    reach read the goals as relations between two objects (scenes/families/).
    """
    found: list[list[Failure]] = [[] for _ in specs]
    by_bucket: dict[Bucket, list[tuple[int, _Job]]] = {}
    for i, spec in enumerate(specs):
        try:
            bucket = bucket_of(spec, catalogue)
            assets = dict(zip(spec.object_ids, scene_assets(spec, catalogue), strict=True))
            job = _Job(compile_scene(spec, catalogue, bucket, settings.robot), assets, found[i])
        except SceneError as error:
            found[i].append(Failure("compile", "", "", 0.0, "", str(error)))
            continue
        by_bucket.setdefault(bucket, []).append((i, job))
    for bucket, jobs in by_bucket.items():
        scratch = mujoco.MjData(jobs[0][1].scene.model)  # all models of a bucket share its layout
        for first in range(0, len(jobs), settings.worlds):
            _check_batch(bucket, [job for _, job in jobs[first : first + settings.worlds]], scratch, settings)
    order = {name: i for i, name in enumerate(CHECKS)}
    return [Report(s.scene_id, tuple(sorted(f, key=lambda x: order[x.check]))) for s, f in zip(specs, found, strict=True)]


def _check_batch(bucket: Bucket, jobs: Sequence[_Job], scratch: mujoco.MjData, settings: ValiditySettings) -> None:
    for job, unreachable in zip(jobs, reach_failures([j.scene.spec for j in jobs], [j.assets for j in jobs], settings), strict=True):
        job.failures.extend(plain_failures(job.scene.spec, job.assets, settings))
        job.failures.extend(joint_failures(job.scene.spec, job.assets))
        job.failures.extend(overlap_failures(job.scene, job.assets, scratch, settings))
        job.failures.extend(unreachable)
    apart = [j for j in jobs if not any(f.check in ("penetration", "table") for f in j.failures)]
    if not apart:
        return
    view, diverged = settled_view(bucket, [j.scene for j in apart], settings)
    for world, (job, met) in enumerate(zip(apart, goals_at_start([j.scene for j in apart], view, settings), strict=True)):
        job.failures.extend(settle_failures(job.scene, view, world, bool(diverged[world]), settings))
        job.failures.extend(met)
