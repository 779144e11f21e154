"""Is a LIBERO scene a fair task? It compiles, nothing penetrates, it settles, and its goal takes more than a nudge.

Thresholds are those of our own scenes (checks/record.py), but for overlaps: LIBERO's hulls rest inside each other. Sizes and masses are
left to the edits: LIBERO's things weigh 5 g.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence

import jax
import mujoco
import numpy as np

from coda_jax.programs import expressions
from coda_jax.runtime import InputError
from coda_jax.scenes.families import family_of, read_goals
from coda_jax.scenes.fixes import Fix, aside, first_move, inward, ways
from coda_jax.scenes.libero.importing import model_of
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.checks.record import CHECKS, Failure, ValiditySettings
from coda_jax.sim.compile import SceneError
from coda_jax.sim.libero import scene_model, sensors
from coda_jax.sim.libero.scene_model import SceneModel
from coda_jax.sim.libero.simulator import NO_COMMAND, LiberoSimulator
from coda_jax.sim.simulator import Episode
from coda_jax.sim.state import rotation_matrices
from coda_jax.sim.validity import Report
from coda_jax.types import WorldView

NUDGE_M, NUDGE_JOINT = 0.01, 0.02  # of a thing to every side; of a joint both ways, m or rad
# Deepest overlap that is left to settling: on the stove a bowl rests 2.8 mm inside the burner, and a plate begins 3.4 mm inside it.
RESTING_M = 0.004
CONTROL_HZ = 20
TABLE = "table"


def check(specs: Sequence[SceneSpec], settings: ValiditySettings) -> list[Report]:
    """One report per scene, in their order; ``settings.worlds`` scenes settle together."""
    found: list[list[Failure]] = [[] for _ in specs]
    apart: list[tuple[int, SceneModel]] = []
    for i, spec in enumerate(specs):
        try:
            read_goals(spec)
            scene = scene_model.build(spec)
        except (InputError, SceneError, ValueError) as error:
            found[i].append(Failure("compile", "", "", 0.0, "", str(error)))
            continue
        found[i].extend(_unreachable(spec))
        overlaps = list(_overlaps(scene, settings))
        found[i].extend(overlaps)
        if not overlaps:  # what overlapping things would do means nothing
            apart.append((i, scene))
    for first in range(0, len(apart), settings.worlds):
        group = apart[first : first + settings.worlds]
        for (i, _), failures in zip(group, _settled([s.spec for _, s in group], settings), strict=True):
            found[i].extend(failures)
    order = {name: i for i, name in enumerate(CHECKS)}
    return [Report(s.scene_id, tuple(sorted(f, key=lambda x: order[x.check]))) for s, f in zip(specs, found, strict=True)]


def _unreachable(spec: SceneSpec) -> Iterator[Failure]:
    """What is to be moved, and where to, must be within the hand's reach."""
    goal, workspace = read_goals(spec)[0], family_of(spec).workspace
    for name in dict.fromkeys((goal.target, goal.reference)):
        x, y, _ = spec.placement(name).pos_m
        if spec.placement(name).support == TABLE and not workspace.reaches(x, y):
            over = -workspace.margin(x, y)
            message = f"{name} stands at ({x:.2f}, {y:.2f}), {over:.3f} m out of the reach of the hand: move it to the middle of the table"
            yield Failure("reach", name, "", over, "m", message, functools.partial(_into_reach, spec, name))


def _into_reach(spec: SceneSpec, name: str) -> tuple[Fix, ...]:
    """The shortest move found to where the hand gets there, or none."""
    reaches = family_of(spec).workspace.reaches
    move = first_move(spec, name, lambda after: reaches(*after.placement(name).pos_m[:2]), (*inward(spec, name), *ways()))
    return (move,) if move else ()


def _overlaps(scene: SceneModel, settings: ValiditySettings) -> Iterator[Failure]:
    """The deepest overlap of every pair of things at the start."""
    model, spec = scene.model, scene.spec
    data = mujoco.MjData(model)
    data.qpos[:] = scene.start[1 : 1 + model.nq]
    mujoco.mj_fwdPosition(model, data)
    deepest: dict[tuple[str, str], float] = {}
    most = max(settings.penetration_m, RESTING_M)
    for contact in data.contact:
        names = [_thing(model, geom) for geom in (contact.geom1, contact.geom2)]
        one, other = sorted(names, key=lambda n: n not in spec.object_ids)  # a thing first, then what stands still
        if one != other and one in spec.object_ids and contact.dist < deepest.get((one, other), -most):
            deepest[one, other] = float(contact.dist)
    for (one, other), depth in deepest.items():
        x, y, _ = spec.placement(one).pos_m
        message = f"{one} overlaps {other} by {-depth:.3f} m at ({x:.2f}, {y:.2f}): move one of them {-depth + 0.005:.3f} m away"
        kind, moved = ("table" if other == TABLE else "penetration"), functools.partial(aside, spec, one)
        yield Failure(kind, one, other, -depth, "m", message, moved)


def _thing(model: mujoco.MjModel, geom: int) -> str:
    name = model.body(model.body_rootid[model.geom_bodyid[geom]]).name
    if name in sensors.SURFACES:
        return TABLE
    return name.removesuffix(sensors.ROOT) if name.endswith(sensors.ROOT) else "gripper"


@functools.cache
def _simulator(worlds: int, threads: int) -> LiberoSimulator:
    return LiberoSimulator(worlds, threads)


def _settled(specs: Sequence[SceneSpec], settings: ValiditySettings) -> list[list[Failure]]:
    """Failures of settling and of goals that hold before anything was done."""
    sim, steps = _simulator(settings.worlds, settings.threads), max(round(settings.settle_s * CONTROL_HZ), 1)
    batch = sim.compile([Episode(spec, (family_of(spec).success(spec.task.goal, read_goals(spec)),), steps) for spec in specs])
    state = sim.reset(batch)
    at_start = state.view
    for _ in range(steps):
        state, _ = sim.step_chunk(batch, state, np.tile(NO_COMMAND, (sim.worlds, 1, 1)))
    found: list[list[Failure]] = []
    targets = [spec.object_ids.index(read_goals(spec)[0].target) for spec in specs] + [0] * (sim.worlds - len(specs))
    met = [_met(batch.table, view) for view in (at_start, state.view)]
    nudged = np.any([_met(batch.table, view) for view in nudges(state.view, targets)], axis=0)
    for world, spec in enumerate(specs):
        failures = list(_moved(spec, state.view, world, int(state.health[world]), settings))
        target = read_goals(spec)[0].target
        if any(m[world] for m in met):
            message = f"the goal {spec.task.goal} holds before anything was done: place {target} elsewhere, or ask for something else"
            failures.append(Failure("success", target, "", 1.0, "goals", message))
        elif np.asarray(nudged)[world]:
            message = f"a nudge of {target} meets the goal {spec.task.goal}: place it farther from it, or ask for something else"
            failures.append(Failure("success", target, "", NUDGE_M, "m", message, functools.partial(aside, spec, target)))
        found.append(failures)
    return found


def _met(table: expressions.Table, view: WorldView) -> np.ndarray:
    """[b] bool, the first predicate of each world."""
    return np.asarray(expressions.evaluate(table, view))[:, 0] > 0.5


def nudges(view: WorldView, targets: Sequence[int]) -> Iterator[WorldView]:
    """The views in which each world's target token is a little elsewhere, contacts as they are, and every joint a little further."""
    assert view.regions is not None, "LIBERO's views have regions"
    rows, columns = np.arange(len(targets)), np.asarray(targets)
    for x, y in ((NUDGE_M, 0.0), (-NUDGE_M, 0.0), (0.0, NUDGE_M), (0.0, -NUDGE_M)):
        origin = np.array(view.regions.origin)
        origin[rows, columns, :2] += (x, y)
        yield dataclasses.replace(view, regions=dataclasses.replace(view.regions, origin=origin))
    for way in (NUDGE_JOINT, -NUDGE_JOINT):
        joint, articulation = np.asarray(view.regions.joint) + np.float32(way), np.asarray(view.articulation) + np.float32(way)
        yield dataclasses.replace(view, articulation=articulation, regions=dataclasses.replace(view.regions, joint=joint))


def _moved(spec: SceneSpec, view: WorldView, world: int, health: int, settings: ValiditySettings) -> Iterator[Failure]:
    """Free things that do not stay as they were put."""
    if health:
        yield Failure("settle", "", "", 0.0, "", f"the physics of scene {spec.scene_id} diverges: move overlapping things apart")
        return
    places = {p.object: p for p in spec.spatial.placements}
    mine = jax.tree.map(lambda leaf: np.asarray(leaf)[world], (view.pos, view.quat, view.linvel))
    for token, (name, place) in enumerate((n, places[n]) for n in spec.object_ids):
        if not model_of(spec.attribute(name).asset).free:
            continue
        pos, quat, speed = (leaf[token] for leaf in mine)
        distance, tilt = float(np.linalg.norm(pos - place.pos_m)), float(np.arccos(np.clip(rotation_matrices(quat)[2, 2], -1.0, 1.0)))
        where, offer = f"at ({place.pos_m[0]:.2f}, {place.pos_m[1]:.2f})", functools.partial(aside, spec, name)
        if tilt > settings.settle_tilt_rad:
            message = f"{name} {where} tips by {np.degrees(tilt):.0f} degrees when left alone: put its middle over its support"
            yield Failure("settle", name, place.support, tilt, "rad", message, offer)
        elif distance > settings.settle_move_m:
            message = f"{name} {where} moves {distance:.3f} m when left alone, to ({pos[0]:.3f}, {pos[1]:.3f}): place it there"
            yield Failure("settle", name, place.support, distance, "m", message, offer)
        elif (still := float(np.linalg.norm(speed))) > settings.settle_speed_m_s:
            message = f"{name} {where} still moves at {still:.3f} m/s after {settings.settle_s:g} s: place it flat"
            yield Failure("settle", name, place.support, still, "m/s", message, offer)
