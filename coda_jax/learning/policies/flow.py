"""The default policy: tokens pooled by instruction queries, encoded once per decision, and a flow-matching head for the chunk.

Flow matching: Lipman et al. 2023; with x_u = (1 - u) eps + u a the head regresses a - eps (METHOD 4), and a few Euler steps integrate it.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from coda_jax.learning.policies import features, grounding, normalise, relations, rotations
from coda_jax.learning.policies.base import ChunkBatch, Params
from coda_jax.learning.policies.layers import dense, init_dense, init_mlp, layer_norm, linear, mlp, part
from coda_jax.types import ACTION_DIM, TOKENS, Array, Observation

_TIME_FREQUENCIES = 8


@dataclasses.dataclass(frozen=True)
class FlowPolicy:
    """Settings of the flow policy (defaults in config.py); hashable, a static argument of jit.

    chunk: h. width: of the hidden layers. text_dim: of the text encoder. heads: attention heads, two of them named for each goal. key_dim:
    per head. goals: most goals of a task, one after the other.
    euler_steps: of sampling. yaw_frame, multi_scale, cumulative: parts of the recipe. distractor_dropout: share of tokens without a role
    that are hidden in training. grounding_weight: of the named heads' loss on scenes (0: attention learns from actions alone).
    hard_attention: the named heads take their best token when sampling. given_roles: the named heads are replaced by the true roles, to
    tell grounding from motor failures; roles must then be passed to ``sample``. relations: among several tokens of one name the named heads
    decide by relations to other tokens (relations.py).
    """

    chunk: int
    width: int
    text_dim: int
    heads: int
    key_dim: int
    euler_steps: int
    yaw_frame: bool
    multi_scale: bool
    cumulative: bool
    distractor_dropout: float
    grounding_weight: float
    hard_attention: bool
    given_roles: bool
    relations: bool
    goals: int

    def __post_init__(self):
        for name in ("chunk", "width", "text_dim", "key_dim", "euler_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"policy.{name} is {getattr(self, name)}; it must be at least 1")
        if not 1 <= self.goals <= grounding.MOST_GOALS:
            raise ValueError(f"a policy for {self.goals} goals; it must be for 1 to {grounding.MOST_GOALS}")
        if self.heads <= self.named:
            raise ValueError(f"policy.heads is {self.heads}; it must be above {self.named}: two heads a goal are named, the rest are free")
        if not 0 <= self.distractor_dropout < 1:
            raise ValueError(f"policy.distractor_dropout is {self.distractor_dropout}; it must be in [0, 1)")

    @property
    def named(self) -> int:
        """Heads that look for the roles; they come first."""
        return grounding.NAMED_HEADS * self.goals

    def init(self, key: jax.Array) -> Params:
        """Fresh parameters: ``net`` (learned) and ``statistics`` (of the actions, set from data before training)."""
        keys = jax.random.split(key, 5)
        token, gripper = features.TOKEN_DIM[self.multi_scale], features.GRIPPER_DIM[self.multi_scale]
        offset = (9 if self.multi_scale else 3) * self.goals
        net = {
            "grounding": grounding.init(keys[0], self.text_dim, features.SHAPE_DIM, self.heads, self.named, self.key_dim),
            "clutter": init_mlp(keys[1], (token + offset, self.width // 4, self.width // 4)),
            "trunk": init_mlp(keys[2], (self.heads * token + self.width // 4 + gripper + offset + self.key_dim, self.width, self.width)),
            "words": init_dense(keys[3], self.text_dim, self.key_dim),
            "head": self.init_head(keys[4]),
        }
        if self.relations:
            net["grounding"]["relations"] = relations.init(
                jax.random.fold_in(key, 5), self.text_dim, self.multi_scale, self.key_dim, self.named
            )
        return {"net": net, "statistics": normalise.unit_statistics(self.chunk)}

    def init_head(self, key: jax.Array) -> Any:
        """Fresh layers of the flow head."""
        flat = self.chunk * ACTION_DIM
        return init_mlp(key, (flat + 2 * _TIME_FREQUENCIES + self.width, self.width, self.width, flat), last_scale=0.1)

    def trainable(self, params: Params) -> Any:
        """True for the network, False for the action statistics."""
        return {"net": jax.tree.map(lambda _: True, params["net"]), "statistics": jax.tree.map(lambda _: False, params["statistics"])}

    def with_statistics(self, params: Params, obs: Observation, actions: Array, mask: Array) -> Params:
        """``params`` whose action statistics come from n chunks: obs of n rows, actions [n, h, 7], mask [n, h]."""
        targets = normalise.encode_chunk(actions, features.heading(obs, self.yaw_frame), self.cumulative)
        return {**params, "statistics": normalise.fit_statistics(targets, mask)}

    def sample(
        self, params: Params, obs: Observation, key: jax.Array, j: int, roles: Array | None = None, temperature: Array | None = None
    ) -> Array:
        """``j`` chunks [b, j, h, 7] by Euler steps from noise; one executable per (b, j).

        key: one key, or keys [b], with which a world's chunks do not depend on the worlds beside it. temperature: [b], what the noise is
        multiplied by: 1, as in training, where None; 0 takes the flow from the middle of the noise.

        Raises:
          ValueError: ``given_roles`` is set and ``roles`` is missing.
        """
        if self.given_roles and roles is None:
            raise ValueError(f"policy.given_roles is set: pass roles [b, {grounding.ROLES}] to sample, or switch the setting off")
        return sample_chunks(self, params, obs, key, j, roles if self.given_roles else None, temperature)

    def loss(self, params: Params, batch: ChunkBatch, key: jax.Array) -> Array:
        """Flow-matching loss over the counted labels plus the weighted grounding loss, [b]."""
        motor, words = self.losses(params, batch, key)
        return motor + self.grounding_weight * words

    def losses(self, params: Params, batch: ChunkBatch, key: jax.Array) -> tuple[Array, Array]:
        """Flow-matching loss [b] and grounding loss [b], before weighting."""
        velocity, wanted, scores = self.velocities(params, batch, key)
        return flow_matching(velocity, wanted, batch.mask), self.grounding_loss(scores, batch)

    def velocities(self, params: Params, batch: ChunkBatch, key: jax.Array) -> tuple[Array, Array, Any]:
        """Velocity of the flow at a random x_u of each label, the one wanted there (a - eps), both [b, h, 7] in standardised units, and
        what ``grounding_loss`` reads. Parameters with the same action statistics meet the same x_u, u and hidden tokens at one key.
        """
        dropout_key, noise_key, time_key = jax.random.split(key, 3)
        net, b = params["net"], batch.actions.shape[0]
        tokens = jnp.arange(TOKENS)
        has_role = (tokens == batch.roles[:, : self.named, None]).any(1)
        dropped = jax.random.bernoulli(dropout_key, self.distractor_dropout, (b, TOKENS)) & ~has_role
        if self.relations:  # what lies around tells which of several things of one name is meant: there nothing is a distractor
            dropped &= ~relations.doubled(batch.obs.text, batch.obs.present, has_role)[:, None]
        obs = dataclasses.replace(batch.obs, present=batch.obs.present & ~dropped)
        context, scores = self.encode(net, obs, batch.roles if self.given_roles else None, hard=False, keys=self.keys(net, batch))

        targets = normalise.encode_chunk(batch.actions, features.heading(obs, self.yaw_frame), self.cumulative)
        targets = normalise.standardise(params["statistics"], targets).reshape(b, -1)
        noise = jax.random.normal(noise_key, targets.shape)
        u = jax.random.uniform(time_key, (b, 1))
        velocity = _velocity(net, _context_part(net, context), (1 - u) * noise + u * targets, u)
        shape = (b, self.chunk, ACTION_DIM)
        return velocity.reshape(shape), (targets - noise).reshape(shape), scores

    def encode(self, net: Any, obs: Observation, roles: Array | None, hard: bool, keys: Array | None = None) -> tuple[Array, Any]:
        """Context [b, width] of a decision, and the attention logits [b, heads, o]; ``keys`` of the names where they are known already."""
        return encode(self, net, obs, roles, hard, keys)

    def keys(self, net: Any, batch: ChunkBatch) -> Array | None:
        """Keys [b, o, heads * key_dim] of the names from the batch's word table, None without one."""
        table = batch.table
        return None if table is None else grounding.name_keys(net["grounding"], table.text)[table.names]

    def grounding_loss(self, scores: Any, batch: ChunkBatch) -> Array:
        """Cross-entropy [b] of the named heads' attention logits on the scene's tokens."""
        return grounding.cross_entropy(scores[:, : self.named], batch.roles)


def flow_matching(velocity: Array, wanted: Array, mask: Array) -> Array:
    """Squared error of the velocity [b, h, 7], mean over the counted steps of each chunk, [b]; 0 where none counts (METHOD 4)."""
    error = jnp.square(velocity - wanted).mean(-1)
    return (error * mask).sum(-1) / jnp.maximum(mask.sum(-1), 1)


def encode(
    policy: FlowPolicy, net: Any, obs: Observation, roles: Array | None, hard: bool, keys: Array | None = None
) -> tuple[Array, Array]:
    """Context [b, width] of a decision, and the attention logits [b, heads, o]; ``keys`` of the names where they are known already."""
    angle = features.heading(obs, policy.yaw_frame)
    shape = features.shape_features(obs)
    keys = grounding.name_keys(net["grounding"], obs.text) if keys is None else keys
    scores = grounding.token_scores(net["grounding"], obs.instruction, keys, shape, obs.present)
    tokens = features.token_features(obs, angle, policy.multi_scale)
    if policy.relations:
        by_name, free = jnp.split(scores, [policy.named], axis=1)
        named = relations.named_scores(net["grounding"]["relations"], by_name, obs, tokens, policy.multi_scale)
        scores = jnp.concatenate([named, free], axis=1)
    attention = jax.nn.softmax(scores, axis=-1)
    named = attention[:, : policy.named]
    if hard:
        named = jax.nn.one_hot(named.argmax(-1), TOKENS)
    if roles is not None:
        known = roles[:, : policy.named]
        named = jnp.where(known[..., None] >= 0, jax.nn.one_hot(known, TOKENS), named)
    attention = jnp.concatenate([named, attention[:, policy.named :]], axis=1)

    pooled = jnp.einsum("bho,bof->bhf", attention, tokens).reshape(tokens.shape[0], -1)
    meant = jnp.moveaxis(jnp.einsum("bho,bop->bhp", named, obs.pos), 1, 0)
    placing, around = [], []
    for target, reference in zip(meant[::2], meant[1::2], strict=True):
        placing.append(features.multi_scale(rotations.about_z(reference - target, -angle), policy.multi_scale))
        around.append(features.multi_scale(rotations.about_z(obs.pos - target[:, None], -angle[:, None]), policy.multi_scale))
    clutter = mlp(net["clutter"], jnp.concatenate([tokens, *around], axis=-1))
    clutter = jnp.where(obs.present[..., None], jax.nn.silu(clutter), 0.0).max(axis=1)
    gripper = features.gripper_features(obs, angle, policy.multi_scale)
    words = jnp.tanh(dense(net["words"], obs.instruction))
    return layer_norm(mlp(net["trunk"], jnp.concatenate([pooled, clutter, gripper, *placing, words], axis=-1))), scores


def _context_part(net: Any, context: Array) -> Array:
    """What the context adds to the head's first layer: the same at every Euler step and candidate."""
    return linear(part(net["head"][0], inputs=slice(-context.shape[-1], None)), context)


def _velocity(net: Any, context_part: Array, x: Array, u: Array) -> Array:
    """Velocity [..., h * 7] of the flow at x [..., h * 7] and time u [..., 1]."""
    phase = u * jnp.pi * 2.0 ** jnp.arange(-1, _TIME_FREQUENCIES - 1)
    inputs = jnp.concatenate([x, jnp.cos(phase), jnp.sin(phase)], axis=-1)
    first = part(net["head"][0], inputs=slice(inputs.shape[-1]))
    hidden = linear(first, inputs) + context_part + first["b"]
    return mlp(net["head"][1:], jax.nn.silu(hidden))


@functools.partial(jax.jit, static_argnames=("policy", "j"))
def sample_chunks(
    policy: FlowPolicy, params: Params, obs: Observation, key: jax.Array, j: int, roles: Array | None, temperature: Array | None = None
) -> Array:
    """Chunks [b, j, h, 7] in LIBERO's convention; see FlowPolicy.sample."""
    net, b = params["net"], obs.ee_pos.shape[0]
    context, _ = policy.encode(net, obs, roles, hard=policy.hard_attention)
    part = _context_part(net, context)[:, None]
    shape = (j, policy.chunk * ACTION_DIM)
    x = jax.random.normal(key, (b, *shape)) if key.ndim == 0 else jax.vmap(lambda k: jax.random.normal(k, shape))(key)
    if temperature is not None:
        x = x * temperature[:, None, None]
    for i in range(policy.euler_steps):
        u = jnp.full((b, j, 1), i / policy.euler_steps)
        x = x + _velocity(net, part, x, u) / policy.euler_steps
    targets = normalise.restore(params["statistics"], x.reshape(b, j, policy.chunk, ACTION_DIM))
    return normalise.decode_chunk(targets, features.heading(obs, policy.yaw_frame)[:, None], policy.cumulative)
