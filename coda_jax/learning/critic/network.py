"""The chunk critic: a pre-norm decoder whose action tokens read the observation's tokens, over a categorical head (METHOD 3).

The observation is encoded once per state, keys and values of every layer included, and shared by the candidates of that state.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from coda_jax.learning.critic.attention import attend
from coda_jax.learning.critic.batch import CriticBatch, ProgramInput
from coda_jax.learning.critic.early_ends import EARLY_ENDS, read_chunk
from coda_jax.learning.critic.support import Support
from coda_jax.learning.policies import features, grounding, normalise, relations, rotations
from coda_jax.learning.policies.base import Params
from coda_jax.learning.policies.layers import dense, init_dense, init_mlp, layer_norm, mlp
from coda_jax.programs.training.limits import CODE_DIM, MAX_STAGES
from coda_jax.types import ACTION_DIM, Array, Observation, _pytree

_EXPANSION = 2  # of the layers' MLP
_OPEN = 0.0  # added to attention logits of tokens that may be read


@_pytree
class StateInput:
    """What the network reads of ``b`` states, before any weight that learns.

    objects: [b, o, f] features of the tokens with the named heads' attention. text: [b, o, d]. gripper: [b, g]. task: [b, s] placing,
    stage, progress, code. instruction: [b, d]. bias: [b, o + 2] added to attention logits. heading: [b] rad, of the frame.
    """

    objects: Array
    text: Array
    gripper: Array
    task: Array
    instruction: Array
    bias: Array
    heading: Array


@_pytree
class Memory:
    """What the decoder reads of ``b`` states: keys and values [b, s, width] of each layer, bias [b, s] of attention."""

    keys: tuple[Array, ...]
    values: tuple[Array, ...]
    bias: Array


@dataclasses.dataclass(frozen=True)
class Critic:
    """Settings of the critic (defaults in config.py); hashable, a static argument of jit.

    support: bins. chunk: h. executed: e, how many actions of a candidate would be carried out. tokens: leading actions that are read, e to
    h; what lies beyond e never counts, so e is enough. width, layers, heads: of the decoder. text_dim: of the text encoder.
    grounding_heads, key_dim, goals: of the policy's grounding, of which there is a copy; the first goal is read. yaw_frame, multi_scale,
    cumulative: as the policy.
    early_ends: one of EARLY_ENDS, how a chunk is read that success cut short.
    """

    support: Support
    chunk: int
    executed: int
    tokens: int
    width: int
    layers: int
    heads: int
    text_dim: int
    grounding_heads: int
    goals: int
    key_dim: int
    yaw_frame: bool
    multi_scale: bool
    cumulative: bool
    early_ends: str

    def __post_init__(self):
        if self.early_ends not in EARLY_ENDS:
            raise ValueError(f'critic.early_ends is "{self.early_ends}"; use one of: {", ".join(EARLY_ENDS)}')
        if not 1 <= self.executed <= self.tokens <= self.chunk:
            raise ValueError(
                f"critic.tokens is {self.tokens}; it must lie between the executed actions ({self.executed}) and the chunk ({self.chunk})"
            )
        if self.layers < 1 or self.heads < 1 or self.width % self.heads:
            raise ValueError(f"critic.width is {self.width}; it must be a multiple of critic.heads ({self.heads}), with at least one layer")

    def init(self, key: jax.Array, policy: Params | None = None) -> Params:
        """Fresh parameters: ``net`` (learned), ``grounding`` and ``statistics`` (copied from a flow policy's where one is given).

        The head decodes to 0 whatever it reads.
        """
        keys = iter(jax.random.split(key, 10 + 6 * self.layers))
        object_dim = features.TOKEN_DIM[self.multi_scale] + grounding.NAMED_HEADS
        placing_dim = 9 if self.multi_scale else 3
        state_dim = placing_dim + MAX_STAGES + 2 + CODE_DIM
        w = self.width
        net = {
            "object": init_mlp(next(keys), (object_dim, w, w)),
            "words": init_dense(next(keys), self.text_dim, w),
            "gripper": init_mlp(next(keys), (features.GRIPPER_DIM[self.multi_scale], w, w)),
            "instruction": init_dense(next(keys), self.text_dim, w),
            "task": init_mlp(next(keys), (state_dim, w, w)),
            "memory": init_dense(next(keys), w, 2 * w * self.layers),
            "action": init_dense(next(keys), ACTION_DIM, w),
            "position": 0.5 * jax.random.normal(next(keys), (self.chunk, w)),
            "layers": [
                {
                    "qkv": init_dense(next(keys), w, 3 * w),
                    "self": init_dense(next(keys), w, w, scale=self.layers**-0.5),
                    "query": init_dense(next(keys), w, w),
                    "cross": init_dense(next(keys), w, w, scale=self.layers**-0.5),
                    "up": init_dense(next(keys), w, _EXPANSION * w),
                    "down": init_dense(next(keys), _EXPANSION * w, w, scale=self.layers**-0.5),
                }
                for _ in range(self.layers)
            ],
            "head": self.start_head(),
        }
        words = grounding.init(
            next(keys), self.text_dim, features.SHAPE_DIM, self.grounding_heads, grounding.NAMED_HEADS * self.goals, self.key_dim
        )
        statistics = normalise.unit_statistics(self.chunk)
        if policy is not None:
            words, statistics = policy["net"]["grounding"], policy["statistics"]
        return {"net": net, "grounding": jax.tree.map(jnp.copy, words), "statistics": jax.tree.map(jnp.copy, statistics)}

    def start_head(self) -> dict[str, Array]:
        """A head that decodes to 0: zero weights and the support's bias."""
        return {"w": jnp.zeros((self.width, self.support.bins)), "b": jnp.asarray(self.support.start_bias())}

    def trainable(self, params: Params) -> Any:
        """True for the network; the grounding's copy and the action statistics do not learn."""
        return {name: jax.tree.map(lambda _, on=(name == "net"): on, tree) for name, tree in params.items()}

    def candidate_mask(self) -> Array:
        """[h] bool: the actions of a candidate that would be carried out."""
        return jnp.arange(self.chunk) < self.executed

    def read_chunk(self, batch: CriticBatch, pick: Int[Array, " b"]) -> tuple[Float[Array, "b h 7"], Bool[Array, "b h"]]:
        """Executed actions and mask as the network reads them; pick: stand-in candidates, see early_ends.py."""
        return read_chunk(batch, self.executed, self.early_ends, pick)

    def read(self, params: Params, obs: Observation, program: ProgramInput) -> StateInput:
        """Inputs of ``b`` states; nothing in it learns, so that states of both ends of a transition may share one call."""
        return read(self, params, obs, program)

    def chunk_input(self, params: Params, heading: Float[Array, "*b"], actions: Float[Array, "*b h 7"]) -> Float[Array, "*b e 7"]:
        """The first ``tokens`` actions as the flow policy sees them, in the frame of ``heading``, standardised; nothing learns."""
        chunk = normalise.encode_chunk(actions[..., : self.tokens, :], heading, self.cumulative)
        return normalise.standardise({name: x[: self.tokens] for name, x in params["statistics"].items()}, chunk)

    def encode(self, params: Params, state: StateInput) -> Memory:
        """Keys and values of ``b`` states, for any number of chunks."""
        return encode(self, params["net"], state)

    def logits(self, params: Params, memory: Memory, chunk: Float[Array, "b j e 7"], mask: Bool[Array, "b j h"]) -> Float[Array, "b j v"]:
        """Logits of ``j`` chunk inputs of each state; mask: the actions that count, a prefix of at most ``tokens``."""
        return decode(self, params["net"], memory, chunk, mask)

    def q(self, params: Params, obs: Observation, program: ProgramInput, actions: Float[Array, "b j h 7"], mask: Array) -> Array:
        """Decoded values [b, j] of ``j`` chunks of each state; mask: [b, j, h] bool, or anything that broadcasts to it."""
        state = self.read(params, obs, program)
        heading = jnp.broadcast_to(state.heading[:, None], actions.shape[:2])
        mask = jnp.broadcast_to(mask, actions.shape[:3])
        logits = self.logits(params, self.encode(params, state), self.chunk_input(params, heading, actions), mask)
        return self.support.decode(logits)


def named_attention(critic: Critic, words: Any, obs: Observation, tokens: Array) -> Array:
    """Attention [b, 2, o] of the two named heads: where the instruction's target and reference are. It does not learn here.

    tokens: [b, o, f] ``features.token_features``, for heads that also compare relations.
    """
    width = grounding.NAMED_HEADS * critic.key_dim
    named = {
        "query": {name: x[..., :width] for name, x in words["query"].items()},
        "name": {name: x[..., :width] for name, x in words["name"].items()},
        "sharpness": words["sharpness"][: grounding.NAMED_HEADS],
    }
    named = jax.lax.stop_gradient(named)
    scores = grounding.named_scores(named, obs.instruction, grounding.name_keys(named, obs.text), obs.present)
    if "relations" in words:
        compared = jax.lax.stop_gradient(relations.of_heads(words["relations"], grounding.NAMED_HEADS))
        scores = relations.named_scores(compared, scores, obs, tokens, critic.multi_scale)
    return jax.nn.softmax(scores, axis=-1)


def read(critic: Critic, params: Params, obs: Observation, program: ProgramInput) -> StateInput:
    """See Critic.read."""
    angle = features.heading(obs, critic.yaw_frame)
    tokens = features.token_features(obs, angle, critic.multi_scale)
    named = named_attention(critic, params["grounding"], obs, tokens)
    target, reference = jnp.moveaxis((named[..., None] * obs.pos[:, None]).sum(2), 1, 0)
    placing = features.multi_scale(rotations.about_z(reference - target, -angle), critic.multi_scale)
    stage = jax.nn.one_hot(program.stage, MAX_STAGES + 1)
    bias = jnp.where(obs.present, _OPEN, grounding.ABSENT)
    return StateInput(
        objects=jnp.concatenate([tokens, jnp.swapaxes(named, 1, 2)], axis=-1),
        text=obs.text,
        gripper=features.gripper_features(obs, angle, critic.multi_scale),
        task=jnp.concatenate([placing, stage, program.progress[:, None], program.code], axis=-1),
        instruction=obs.instruction,
        bias=jnp.concatenate([bias, jnp.full((bias.shape[0], 2), _OPEN)], axis=1),
        heading=angle,
    )


def encode(critic: Critic, net: Params, state: StateInput) -> Memory:
    """See Critic.encode."""
    first, last = net["object"]
    objects = dense(last, jax.nn.silu(dense(first, state.objects) + dense(net["words"], state.text)))
    gripper = mlp(net["gripper"], state.gripper)
    first, last = net["task"]
    task = dense(last, jax.nn.silu(dense(first, state.task) + dense(net["instruction"], state.instruction)))
    tokens = layer_norm(jnp.concatenate([objects, gripper[:, None], task[:, None]], axis=1))
    memory = jnp.split(dense(net["memory"], tokens), 2 * critic.layers, axis=-1)
    return Memory(keys=tuple(memory[::2]), values=tuple(memory[1::2]), bias=state.bias)


def decode(critic: Critic, net: Params, memory: Memory, chunk: Array, mask: Array) -> Array:
    """See Critic.logits."""
    b, j, e, _ = chunk.shape
    w = critic.width
    x = (dense(net["action"], chunk) + net["position"][:e]).reshape(-1, w)  # one matrix: a CPU loops over it faster
    mask = mask[..., :e].reshape(b * j, e)
    own = jnp.where(mask, _OPEN, grounding.ABSENT)
    for layer, keys, values in zip(net["layers"], memory.keys, memory.values, strict=True):
        query, key, value = (part.reshape(b * j, e, w) for part in jnp.split(dense(layer["qkv"], layer_norm(x)), 3, axis=-1))
        x = x + dense(layer["self"], attend(query, key, value, own, critic.heads).reshape(-1, w))
        query = dense(layer["query"], layer_norm(x)).reshape(b, j * e, w)  # candidates share the keys of their state
        x = x + dense(layer["cross"], attend(query, keys, values, memory.bias, critic.heads).reshape(-1, w))
        hidden = dense(layer["up"], layer_norm(x)).reshape(b * j, e, -1)  # exp over two axes takes a CPU seven times as long
        x = x + dense(layer["down"], jax.nn.silu(hidden)).reshape(-1, w)
    weight = mask[..., None].astype(x.dtype)
    pooled = (layer_norm(x).reshape(b * j, e, w) * weight).sum(1) / jnp.maximum(weight.sum(1), 1.0)
    return dense(net["head"], pooled).reshape(b, j, -1)
