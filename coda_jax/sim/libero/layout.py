"""Where a task's things are in its model's arrays: tokens, joints, regions and contact sensors as indices."""

from __future__ import annotations

import dataclasses
import functools

import mujoco
import numpy as np

from coda_jax.runtime import InputError
from coda_jax.scenes.libero import importing, placing, things
from coda_jax.scenes.libero.things import DRAWER, DRAWER_SUFFIX, Model
from coda_jax.sim.libero import sensors
from coda_jax.sim.libero.models import TaskModel
from coda_jax.types import ENTITIES, REGIONS, TOKENS

HAND = "robot0_right_hand"
NOWHERE = 0  # index that unused entries read, which a mask leaves out


@dataclasses.dataclass(frozen=True, eq=False)
class Layout:
    """Of one task. Tokens ``o`` in the order of its scenes' objects: free things, fixtures, a cabinet's middle drawer.

    index: object to token, region to ENTITIES and on. things: their models. body, free_q, free_v: [o] root body, first coordinate and
    velocity of a free thing. free, present: [o] bool. joint, joint_v: [o] coordinate and velocity of the token's joint. jointed: [o] bool.
    way: [o] sign of the joint towards opening. span: [o] its range, m or rad. slides: [o, 3] movement of the token with its joint, in
    the thing's frame. site: [r] of the regions. parent: [r] token of the region's thing, TOKENS for the workspace's. region_joint: [r]
    coordinate of the joint a region moves with, -1 without one. fingers: (sensor, token, side) rows. pairs: (sensor, token, token or TOKENS
    for the table) rows.
    """

    index: dict[str, int]
    things: tuple[Model, ...]
    body: np.ndarray
    free: np.ndarray
    present: np.ndarray
    free_q: np.ndarray
    free_v: np.ndarray
    joint: np.ndarray
    joint_v: np.ndarray
    jointed: np.ndarray
    way: np.ndarray
    span: np.ndarray
    slides: np.ndarray
    site: np.ndarray
    region: np.ndarray
    parent: np.ndarray
    region_joint: np.ndarray
    fingers: np.ndarray
    pairs: np.ndarray


def root_name(name: str) -> str:
    """Root body of an object or fixture; of a middle drawer the cabinet's."""
    return name.removesuffix(DRAWER_SUFFIX) + sensors.ROOT


@functools.lru_cache(maxsize=256)
def of(task: TaskModel) -> Layout:
    """The layout of a task.

    Raises:
      InputError: more things or regions than there is room for.
    """
    model, problem = task.model, task.problem
    known = importing.models(placing.contents(problem))
    sites = {model.site(i).name: i for i in range(model.nsite)}
    regions = [r.name for r in problem.regions if r.name in sites]
    if len(known) > TOKENS or len(regions) > REGIONS:
        raise InputError(f"{task.key} has {len(known)} things and {len(regions)} regions: at most {TOKENS} and {REGIONS} are observed")
    arrays: dict[str, np.ndarray] = {
        name: np.full(TOKENS, NOWHERE, np.int32) for name in ("body", "free_q", "free_v", "joint", "joint_v")
    } | {name: np.zeros(TOKENS, bool) for name in ("free", "present", "jointed")}
    way, span, slides = np.ones(TOKENS), np.zeros(TOKENS), np.zeros((TOKENS, 3))
    for o, (name, thing) in enumerate(known.items()):
        arrays["body"][o], arrays["present"][o], arrays["free"][o] = model.body(root_name(name)).id, True, thing.free
        if thing.free:
            joint = model.joint(f"{name}_joint0")
            arrays["free_q"][o], arrays["free_v"][o] = joint.qposadr[0], joint.dofadr[0]
        elif thing.joint:
            joint, ends = model.joint(f"{name.removesuffix(DRAWER_SUFFIX)}_{thing.joint}"), thing.joints[thing.joint]
            arrays["joint"][o], arrays["joint_v"][o], arrays["jointed"][o] = joint.qposadr[0], joint.dofadr[0], True
            span[o] = abs(ends.opened - ends.closed)
            way[o] = np.sign(ends.opened - ends.closed)
            if thing.category == DRAWER:
                slides[o] = ends.axis
    index = {name: o for o, name in enumerate(known)} | {name: ENTITIES + r for r, name in enumerate(regions)}
    site, parent, joints = np.zeros(REGIONS, np.int32), np.full(REGIONS, TOKENS, np.int32), np.full(REGIONS, -1, np.int32)
    for r, name in enumerate(regions):
        site[r] = sites[name]
        body = model.site_bodyid[sites[name]]
        root = model.body(model.body_rootid[body]).name
        if root not in sensors.SURFACES:
            parent[r] = index[root.removesuffix(sensors.ROOT)]
        if model.body_jntnum[body] and model.jnt_type[model.body_jntadr[body]] != mujoco.mjtJoint.mjJNT_FREE:
            joints[r] = model.jnt_qposadr[model.body_jntadr[body]]
    fingers, pairs = _contacts(task, index)
    return Layout(
        index, tuple(known.values()), **arrays, way=way, span=span, slides=slides, site=site, region=np.arange(REGIONS) < len(regions),
        parent=parent, region_joint=joints, fingers=fingers, pairs=pairs,
    )  # fmt: skip


def _contacts(task: TaskModel, index: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """Sensors that tokens read; those of a cabinet's other drawers are part of the cabinet's own."""
    model = task.model
    tokens = {root_name(n): o for n, o in index.items() if o < TOKENS and not n.endswith(DRAWER_SUFFIX)}
    for name, o in index.items():
        if name.endswith(DRAWER_SUFFIX):
            tokens[f"{name.removesuffix(DRAWER_SUFFIX)}_cabinet_middle"] = o
    tokens |= dict.fromkeys(sensors.SURFACES, TOKENS)
    fingers, pairs = [], []
    for i in range(model.nsensor):
        first, separator, second = model.sensor(i).name.partition(sensors.SEPARATOR)
        if not separator or second not in tokens:
            continue
        place = model.sensor_adr[i]
        if first in sensors.FINGERS:
            fingers.append((place, tokens[second], sensors.FINGERS.index(first)))
        elif first in tokens:
            pairs.append((place, tokens[first], tokens[second]))
    return np.array(fingers, np.int32).reshape(-1, 3), np.array(pairs, np.int32).reshape(-1, 3)


def cavity(thing: Model) -> tuple[np.ndarray, np.ndarray]:
    """Centre and half sizes of what a basket or drawer holds, from its box's centre in its own frame; zeros for every other."""
    region = thing.regions.get("contain_region")
    if thing.category == DRAWER:
        region = things.MODELS["wooden_cabinet"].regions["middle_region"]
    if region is None:
        return np.zeros(3), np.zeros(3)
    return np.array(region.pos_m) - thing.centre_m, np.array(region.half_m)
