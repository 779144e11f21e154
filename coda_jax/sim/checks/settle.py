"""Passive settling: what the scene's objects do when nobody touches them, and whether the goal holds already."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import mujoco
import mujoco.batch
import numpy as np

from coda_jax.programs import expressions
from coda_jax.programs.verifier import nu
from coda_jax.scenes import families, openings
from coda_jax.scenes.articulated import HOLDS
from coda_jax.scenes.at_start import true_at_start
from coda_jax.scenes.fixes import Fix, Way, aside, first_move
from coda_jax.scenes.placement import gap
from coda_jax.scenes.spec import SceneSpec
from coda_jax.scenes.tabletop import Tabletop
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.checks.record import Failure, ValiditySettings
from coda_jax.sim.compile import CompiledScene
from coda_jax.sim.state import ViewBuilder, rotation_matrices
from coda_jax.types import ARTICULATED_TOKEN, FREE_SLOTS, TIMESTEP_S, WorldView

_SHARES, _FAR_FROM_AIM = (0.0, 0.25, 0.5, 0.75, 1.0), 0.2  # openings to start from, and how far from the goal's they must be
_OFF_M = 0.02  # gap to the reference from which a thing is surely not on or in it
_SOFTER = 0.5  # share of the spring that is left where one creeps


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
        spec, went = scene.spec, (float(moved[0]), float(moved[1]), float(moved[2]))
        where = f"at ({place.pos_m[0]:.2f}, {place.pos_m[1]:.2f}, {place.pos_m[2]:.3f})"
        # A ball turns as it rolls: its own axis says nothing, its way does.
        if tilt > settings.settle_tilt_rad and not _round(scene, token):
            message = f"{name} {where} tips by {np.degrees(tilt):.0f} degrees when left alone: lay it flat, its middle over its support"
            yield Failure("settle", name, place.support, tilt, "rad", message, functools.partial(_flat, spec, name))
        elif distance > settings.settle_move_m:
            if -moved[2] > 0.8 * distance:
                fix = f"falls {-moved[2]:.3f} m: lower it {-moved[2]:.3f} m, or put something under it"
            elif moved[2] > 0.8 * distance:
                fix = f"is pushed up {moved[2]:.3f} m: raise it {moved[2]:.3f} m"
            else:
                at = f"({view.pos[world, token, 0]:.3f}, {view.pos[world, token, 1]:.3f})"
                fix = f"moves {distance:.3f} m, to {at}: place it there, or away from what pushes it"
            rest = functools.partial(_at_rest, spec, name, went)
            yield Failure("settle", name, place.support, distance, "m", f"{name} {where} {fix}", rest)
        elif speed > settings.settle_speed_m_s:
            message = f"{name} {where} still moves at {speed:.3f} m/s after {settings.settle_s:g} s: place it flat, away from slopes"
            yield Failure("settle", name, place.support, speed, "m/s", message, functools.partial(_at_rest, spec, name, went))


def _crept(scene: CompiledScene, name: str, value: float, settings: ValiditySettings) -> Iterator[Failure]:
    share = (value - scene.joint.start) / scene.joint.high
    if abs(share) > settings.settle_opening:
        message = (
            f"the joint of {name} moves by {share:+.2f} of its range when left alone: "
            "give it less stiffness or more friction, and free it from what touches it"
        )
        joint, held = scene.spec.attribute(name).articulation, scene.spec.placement(name).opening or 0.0
        fixes = [Fix(name, "opening", min(max(held + share, 0.0), 1.0))]
        if joint is not None and joint.stiffness > 0:
            fixes.insert(0, Fix(name, "stiffness", _SOFTER * min(joint.stiffness, HOLDS * joint.friction / max(scene.joint.high, 1e-6))))
        yield Failure("settle", name, "", abs(share), "share", message, tuple(fixes))


def _at_rest(spec: SceneSpec, name: str, went: Way) -> tuple[Fix, ...]:
    """To where it came to rest, or flat."""
    return Fix(name, "pos_m", went), *_flat(spec, name)


def _flat(spec: SceneSpec, name: str) -> tuple[Fix, ...]:
    """Down to what is below it, to the middle of its support, or away from what is beside it."""
    top = Tabletop(spec)
    mine, support = top.shapes[name], top.places[name].support
    below = [s.top for n, s in top.shapes.items() if n not in (name, support) and s.top <= mine.bottom + 1e-3 and gap(s, mine) < 0]
    floor = max([top.surface(support) if support in top.shapes and gap(top.shapes[support], mine) < 0 else 0.0, *below])
    fixes = []
    if abs(mine.bottom - floor) > 1e-3:
        fixes.append(Fix(name, "pos_m", (0.0, 0.0, floor - mine.bottom)))
    if support in top.shapes:
        under = top.shapes[support]
        fixes.append(Fix(name, "pos_m", (under.x - mine.x, under.y - mine.y, floor - mine.bottom)))
    return *fixes, *aside(spec, name)


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
            undone = functools.partial(_undone, scene.spec, target)
            failures.append(Failure("success", target, _reference(scene.spec), 1.0, "goals", message, undone))
    return results


def _reference(spec: SceneSpec) -> str:
    goal = Tabletop(spec).goal
    return goal.reference if goal.reference != goal.target and goal.reference in spec.object_ids else ""


def _undone(spec: SceneSpec, target: str) -> tuple[Fix, ...]:
    """The target, or else the reference, away from where the goal wants it; of a joint, the openings that are not the goal's."""
    top = Tabletop(spec)
    if (now := top.places[target].opening) is not None:
        aim = openings.aim(top.goal.relation)
        ends = sorted((s for s in _SHARES if abs(s - aim) > _FAR_FROM_AIM), key=lambda s: abs(s - now))
        return tuple(Fix(target, "opening", s) for s in ends)
    containers = [n for n, a in top.assets.items() if a.kind == "container"]
    reference = _reference(spec)

    def open_task(after: SceneSpec) -> bool:
        over = Tabletop(after)
        held = reference and top.goal.relation != "beside" and over.gap(target, reference) < _OFF_M
        return not held and not true_at_start(after.task.goal, over.places, containers)

    moves = [first_move(spec, name, open_task) for name in (target, reference) if name]
    return tuple(m for m in moves if m is not None)
