"""Passive settling: what the scene's objects do when nobody touches them, and whether the goal holds already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import mujoco
import mujoco.batch
import numpy as np

from coda_jax.programs import expressions
from coda_jax.programs.verifier import nu
from coda_jax.scenes import families
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.checks.record import Failure, ValiditySettings
from coda_jax.sim.compile import CompiledScene
from coda_jax.sim.state import ViewBuilder, rotation_matrices
from coda_jax.types import ARTICULATED_TOKEN, FREE_SLOTS, TIMESTEP_S, WorldView


def settled_view(bucket: Bucket, scenes: Sequence[CompiledScene], settings: ValiditySettings) -> tuple[WorldView, np.ndarray]:
    """The view after ``settings.settle_s`` of physics with the arm at home, and which worlds diverged [n] (``n`` = len(scenes))."""
    n = len(scenes)
    full = [*scenes, *[scenes[0]] * (settings.worlds - n)]  # one shape whatever n is, so that the goals need no new executable
    for scene in scenes:
        scene.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
    batch = mujoco.batch.Batch(full[0].model, settings.worlds, nthread=settings.threads)
    sensors, sites, orientation = batch.bind("sensordata"), batch.bind("site_xpos"), batch.bind("xquat")
    batch.set_models([s.model for s in full])
    batch.qpos[:] = np.stack([s.qpos for s in full])
    batch.ctrl[:] = scenes[0].robot.home_command
    batch.step(np.arange(n), nstep=round(settings.settle_s / TIMESTEP_S))
    batch.forward(stage=mujoco.mjtStage.mjSTAGE_POS)
    qpos, qvel = np.array(batch.qpos), np.array(batch.qvel)
    diverged = ~(np.isfinite(qpos).all(1) & np.isfinite(qvel).all(1)) | (batch.warning > 0).any((1, 2))
    hand = scenes[0].model.body("hand").id
    step = np.zeros(settings.worlds, np.int32)
    view = ViewBuilder(bucket, full).build(qpos, qvel, sensors, sites[:, 0], orientation[:, hand], step, start=None)
    return view, diverged[:n]


def settle_failures(scene: CompiledScene, view: WorldView, world: int, diverged: bool, settings: ValiditySettings) -> Iterator[Failure]:
    """Failures of settling of one world of the view."""
    if diverged:
        yield Failure("settle", "", "", 0.0, "", f"the physics of scene {scene.spec.scene_id} diverges: move overlapping objects apart")
        return
    for name, token in scene.index.items():
        if token == ARTICULATED_TOKEN and scene.joint.moves:
            yield from _crept(scene, name, float(view.articulation[world, token]), settings)
        if token >= FREE_SLOTS:
            continue
        place = scene.spec.placement(name)
        moved = view.pos[world, token] - np.array(place.pos_m)
        distance = float(np.linalg.norm(moved))
        tilt = float(np.arccos(np.clip(rotation_matrices(view.quat[world, token])[2, 2], -1.0, 1.0)))
        speed = float(np.linalg.norm(view.linvel[world, token]))
        where = f"at ({place.pos_m[0]:.2f}, {place.pos_m[1]:.2f}, {place.pos_m[2]:.3f})"
        # A ball turns as it rolls: its own axis says nothing, its way does.
        if tilt > settings.settle_tilt_rad and not _round(scene, token):
            message = f"{name} {where} tips by {np.degrees(tilt):.0f} degrees when left alone: lay it flat, its middle over its support"
            yield Failure("settle", name, place.support, tilt, "rad", message)
        elif distance > settings.settle_move_m:
            if -moved[2] > 0.8 * distance:
                fix = f"falls {-moved[2]:.3f} m: lower it {-moved[2]:.3f} m, or put something under it"
            elif moved[2] > 0.8 * distance:
                fix = f"is pushed up {moved[2]:.3f} m: raise it {moved[2]:.3f} m"
            else:
                at = f"({view.pos[world, token, 0]:.3f}, {view.pos[world, token, 1]:.3f})"
                fix = f"moves {distance:.3f} m, to {at}: place it there, or away from what pushes it"
            yield Failure("settle", name, place.support, distance, "m", f"{name} {where} {fix}")
        elif speed > settings.settle_speed_m_s:
            message = f"{name} {where} still moves at {speed:.3f} m/s after {settings.settle_s:g} s: place it flat, away from slopes"
            yield Failure("settle", name, place.support, speed, "m/s", message)


def _crept(scene: CompiledScene, name: str, value: float, settings: ValiditySettings) -> Iterator[Failure]:
    share = (value - scene.joint.start) / scene.joint.high
    if abs(share) > settings.settle_opening:
        message = (
            f"the joint of {name} moves by {share:+.2f} of its range when left alone: "
            "give it less stiffness or more friction, and free it from what touches it"
        )
        yield Failure("settle", name, "", abs(share), "share", message)


def _round(scene: CompiledScene, token: int) -> bool:
    a, b, c = scene.half_extent[token]
    body = scene.model.body(f"o{token}")
    shown = [g for g in range(body.geomadr[0], body.geomadr[0] + body.geomnum[0]) if scene.model.geom_contype[g] == 2]
    return a == b == c and all(scene.model.geom_type[g] == mujoco.mjtGeom.mjGEOM_SPHERE for g in shown)


def goals_at_start(scenes: Sequence[CompiledScene], view: WorldView, settings: ValiditySettings) -> list[list[Failure]]:
    """Failures of success: nu must be false before anything was done, by the machine that decides every rollout."""
    tables, results = [], []
    for scene in scenes:
        failures: list[Failure] = []
        targets, family = scene.spec.with_role("target"), scene.spec.task.family
        most = families.get(family).most_targets if family in families.names() else 1
        table = expressions.encode((), scene.index)
        if not 1 <= len(targets) <= most:
            allowed = "exactly one object" if most == 1 else f"1 to {most} objects"
            message = f"{len(targets)} targets ({', '.join(targets)}): give {allowed} the role target"
            failures.append(Failure("success", "", "", float(len(targets)), "objects", message))
        else:
            try:
                table = expressions.encode((nu(scene.spec.task.goal, *targets),), scene.index)
            except expressions.ExpressionError as error:
                failures.append(Failure("success", targets[0], "", 0.0, "", f"the goal cannot be read: {error}"))
        tables.append(table)
        results.append(failures)
    stacked = expressions.stack([*tables, *[tables[0]] * (settings.worlds - len(tables))])
    met = np.asarray(expressions.evaluate(stacked, view))[:, 0] > 0
    for scene, failures, done in zip(scenes, results, met, strict=False):
        if done:
            target = scene.spec.with_role("target")[0]
            message = f"the goal {scene.spec.task.goal} holds before anything was done: place {target} elsewhere, or ask for something else"
            failures.append(Failure("success", target, "", 1.0, "", message))
    return results
