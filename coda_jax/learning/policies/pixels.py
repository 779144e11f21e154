"""The policy that sees pictures of two cameras, the gripper and the instruction; the flow head and its training are FlowPolicy's.

Named heads look for target and reference in the pictures by words, as FlowPolicy's do among tokens: a cell of a picture has a key, and so
has the name of every object. What trains them is where the simulator says that the objects are: a label of training, never an input.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from coda_jax.learning.policies import features, grounding, normalise, rotations, vision
from coda_jax.learning.policies.base import ChunkBatch, Params
from coda_jax.learning.policies.flow import FlowPolicy
from coda_jax.learning.policies.layers import dense, init_dense, init_mlp, layer_norm, mlp
from coda_jax.sim.cameras import OBSERVED, seen_at
from coda_jax.types import TOKENS, Array, Observation

_PLACE_M = 0.1  # unit of the guessed places


@dataclasses.dataclass(frozen=True)
class PixelPolicy(FlowPolicy):
    """Settings of the policy of pictures; hashable. Those of FlowPolicy mean the same, but for hard_attention: when sampling, the named
    heads look near their best cell alone. ``distractor_dropout`` has nothing to hide here.

    height, columns: of a picture, pixels. patch: side of a cell, pixels. channels, layers: of the encoder. place_weight: of the loss of the
    guessed places of target and reference, within the grounding loss.
    """

    height: int
    columns: int
    patch: int
    channels: int
    layers: int
    place_weight: float

    def __post_init__(self):
        super().__post_init__()
        if self.given_roles:
            raise ValueError("policy.given_roles tells a policy of states its tokens; with obs=pixels there are none: switch it off")
        if self.relations:
            raise ValueError("policy.relations compares tokens of a policy of states; with obs=pixels there are none: switch it off")
        if self.height % self.patch or self.columns % self.patch:
            raise ValueError(f"pictures of {self.height}x{self.columns} pixels have no whole number of patches of {self.patch}")

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of cells."""
        return self.height // self.patch, self.columns // self.patch

    def init(self, key: jax.Array) -> Params:
        """Fresh parameters, as FlowPolicy's."""
        keys = jax.random.split(key, 6 + len(OBSERVED))
        seen = self.channels + 2
        pooled = len(OBSERVED) * self.heads * seen + features.GRIPPER_DIM[self.multi_scale]
        offset = (9 if self.multi_scale else 3) * (self.named + self.goals)
        net = {
            "grounding": grounding.init(keys[0], self.text_dim, seen, self.heads, self.named, self.key_dim),
            "cells": init_dense(keys[1], self.channels, self.heads * self.key_dim),
            "cameras": [vision.init(k, self.patch, self.channels, self.layers) for k in keys[6:]],
            "places": init_mlp(keys[2], (pooled, self.width, 3 * self.named), last_scale=0.1),
            "trunk": init_mlp(keys[3], (pooled + offset + self.key_dim, self.width, self.width)),
            "words": init_dense(keys[4], self.text_dim, self.key_dim),
            "head": self.init_head(keys[5]),
        }
        return {"net": net, "statistics": normalise.unit_statistics(self.chunk)}

    def encode(self, net: Any, obs: Observation, roles: Array | None, hard: bool, keys: Array | None = None) -> tuple[Array, Any]:
        """Context [b, width], and what the grounding loss reads: logits over cells of the roles [cameras, b, named, p] and of every
        token's name [cameras, b, named, o, p], and the guessed places [b, named, 3] in units of 0.1 m, relative to the grip point.

        Raises:
          ValueError: the observation has no pictures, or of another size.
        """
        del roles  # refused where the settings are made
        shape = (len(OBSERVED), self.height, self.columns, 3)
        if obs.pixels is None or obs.pixels.shape[1:] != shape:
            found = "none" if obs.pixels is None else str(obs.pixels.shape[1:])
            raise ValueError(f"the policy sees pictures {shape} (cameras, height, width, 3); the observation has {found}")
        keys = grounding.name_keys(net["grounding"], obs.text) if keys is None else keys
        asked = grounding.unit_heads(keys, self.heads)[:, :, : self.named]
        found = [self._look(net, camera, obs, asked, hard) for camera in range(len(OBSERVED))]
        angle = features.heading(obs, self.yaw_frame)
        gripper = features.gripper_features(obs, angle, self.multi_scale)
        seen = jnp.concatenate([*(pooled for pooled, _, _ in found), gripper], axis=-1)
        places = mlp(net["places"], seen).reshape(-1, self.named, 3)
        meant = _PLACE_M * places
        relative = [meant[:, i] for i in range(self.named)] + [meant[:, i + 1] - meant[:, i] for i in range(0, self.named, 2)]
        words = jnp.tanh(dense(net["words"], obs.instruction))
        where = [features.multi_scale(p, self.multi_scale) for p in relative]
        context = layer_norm(mlp(net["trunk"], jnp.concatenate([seen, *where, words], axis=-1)))
        return context, {"roles": [s for _, s, _ in found], "names": [n for _, _, n in found], "places": places}

    def _look(self, net: Any, camera: int, obs: Observation, asked: Array, hard: bool) -> tuple[Array, Array, Array]:
        """What the heads found in a picture [b, heads * (channels + 2)]; logits of roles [b, named, p] and names [b, named, o, p]."""
        assert obs.pixels is not None
        x = vision.cells(net["cameras"][camera], obs.pixels[:, camera], self.patch)
        x = x.reshape(x.shape[0], -1, self.channels)
        places = jnp.broadcast_to(vision.places(*self.grid), (*x.shape[:2], 2))
        both = jnp.concatenate([x, places], axis=-1)
        keys = dense(net["cells"], x)
        scores = grounding.token_scores(net["grounding"], obs.instruction, keys, both, jnp.ones(x.shape[:2], bool))
        named = vision.near_best(scores[:, : self.named], *self.grid) if hard else scores[:, : self.named]
        attention = jax.nn.softmax(jnp.concatenate([named, scores[:, self.named :]], axis=1), axis=-1)
        pooled = jnp.einsum("bhp,bpf->bhf", attention, both).reshape(x.shape[0], -1)
        cells = grounding.unit_heads(keys, self.heads)[:, :, : self.named]
        sharpness = jnp.exp(net["grounding"]["sharpness"][: self.named])
        return pooled, scores[:, : self.named], jnp.einsum("bohd,bphd,h->bhop", asked, cells, sharpness)

    def grounding_loss(self, scores: Any, batch: ChunkBatch) -> Array:
        """Cross-entropy [b] of the cells where roles and names are seen, mean over cameras, plus the weighted error of guessed places."""
        obs, roles = batch.obs, batch.roles[:, : self.named]
        grip = rotations.to_matrix(obs.ee_quat)
        total = jnp.zeros(roles.shape[0])
        for camera, of_roles, of_names in zip(OBSERVED, scores["roles"], scores["names"], strict=True):
            cell = vision.cell_at(*seen_at(camera, obs.pos, obs.ee_pos, grip, self.columns / self.height), *self.grid)
            cell = jnp.where(obs.present, cell, -1)
            role_cell = jnp.where(roles >= 0, jnp.take_along_axis(cell, jnp.maximum(roles, 0), axis=1), -1)
            flat = of_names.reshape(of_names.shape[0], self.named * TOKENS, -1)
            named = grounding.cross_entropy(flat, jnp.tile(cell, (1, self.named)))
            total += (grounding.cross_entropy(of_roles, role_cell) + named) / len(OBSERVED)
        return total + self.place_weight * self._place_error(scores["places"], obs, roles)

    def _place_error(self, places: Array, obs: Observation, roles: Array) -> Array:
        """Mean distance [b] of the guessed places from the true ones, in units of 0.1 m, over the roles that there are."""
        angle = features.heading(obs, self.yaw_frame)
        pos = jnp.take_along_axis(obs.pos, jnp.maximum(roles, 0)[..., None], axis=1)
        wanted = rotations.about_z(pos - obs.ee_pos[:, None], -angle[:, None]) / _PLACE_M
        distance = jnp.sqrt(jnp.square(places - wanted).sum(-1) + 1e-6)
        known = roles >= 0
        return jnp.where(known, distance, 0.0).sum(-1) / jnp.maximum(known.sum(-1), 1)
