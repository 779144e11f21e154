"""The critic's update in PyTorch: the network, loss and optimiser of ``coda_jax.learning.critic``, for speed beside it.

It starts from features that are read already, so it does less than the project's own update, which reads them from observations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.learning.torch_tools import F, Learner, Tensor, Tree, dense, layer_norm, mlp, torch
from coda_jax.learning.critic.network import Critic
from coda_jax.learning.critic.steps import CriticTraining

State = dict[str, Tensor]  # objects, text, gripper, task, instruction, bias: as critic.network.StateInput


def attend(query: Tensor, key: Tensor, value: Tensor, bias: Tensor, heads: int, fused: bool) -> Tensor:
    """Attention of query [n, t, w] over key and value [n, s, w]; bias [n, 1, 1, s]. fused: by PyTorch's own kernel."""
    n, t, w = query.shape
    query, key, value = (x.reshape(n, -1, heads, w // heads).transpose(1, 2) for x in (query, key, value))
    if fused:
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
    else:
        mixed = ((query * (w // heads) ** -0.5) @ key.transpose(2, 3) + bias).softmax(-1) @ value
    return mixed.transpose(1, 2).reshape(n, t, w)


def encode(critic: Critic, net: Tree, state: State) -> list[Tensor]:
    """Keys and values of each layer, alternating, [b, s, width]."""
    first, last = net["object"]
    objects = dense(last, F.silu(dense(first, state["objects"]) + dense(net["words"], state["text"])))
    gripper = mlp(net["gripper"], state["gripper"])
    first, last = net["task"]
    task = dense(last, F.silu(dense(first, state["task"]) + dense(net["instruction"], state["instruction"])))
    tokens = layer_norm(torch.cat([objects, gripper[:, None], task[:, None]], 1))
    return list(dense(net["memory"], tokens).chunk(2 * critic.layers, -1))


def decode(critic: Critic, net: Tree, memory: list[Tensor], bias: Tensor, chunk: Tensor, mask: Tensor, fused: bool) -> Tensor:
    """Logits [b, j, v] of chunks [b, j, e, 7]; mask: [b, j, e] of the actions that count, bias: [b, s] of the memory's tokens."""
    b, j, e, _ = chunk.shape
    w = critic.width
    x = (dense(net["action"], chunk) + net["position"][:e]).reshape(b * j, e, w)
    own = torch.zeros(b * j, 1, 1, e).masked_fill(~mask.reshape(b * j, 1, 1, e), -1e9)
    bias = bias[:, None, None]
    for layer, key, value in zip(net["layers"], memory[::2], memory[1::2], strict=True):
        q, k, v = dense(layer["qkv"], layer_norm(x)).chunk(3, -1)
        x = x + dense(layer["self"], attend(q, k, v, own, critic.heads, fused))
        query = dense(layer["query"], layer_norm(x)).reshape(b, j * e, w)
        x = x + dense(layer["cross"], attend(query, key, value, bias, critic.heads, fused).reshape(b * j, e, w))
        x = x + dense(layer["down"], F.silu(dense(layer["up"], layer_norm(x))))
    weight = mask.reshape(b * j, e, 1).to(x.dtype)
    pooled = (layer_norm(x) * weight).sum(1) / weight.sum(1).clamp(min=1.0)
    return dense(net["head"], pooled).reshape(b, j, -1)


class CriticUpdate:
    """A critic with its target network and AdamW, copied from jax's parameters; a call updates it on a batch of features."""

    def __init__(self, critic: Critic, training: CriticTraining, net: Any, target: Any, fused: bool, compiled: bool):
        self.critic, self.training, self.fused = critic, training, fused

        def rate(updates: int) -> float:
            return training.learning_rate * min(updates / training.warmup if training.warmup else 1.0, 1.0)

        self.learner = Learner(net, target, rate, lambda _: training.tau, training.weight_decay, training.clip_norm)
        support = critic.support
        self.edges = torch.from_numpy(support.edges().astype(np.float32))
        self.centres = torch.from_numpy(support.centres().astype(np.float32))
        self.executed = torch.arange(critic.tokens) < critic.executed
        self.loss = torch.compile(self.loss_of, dynamic=False) if compiled else self.loss_of
        self.targets = torch.compile(self.targets_of, dynamic=False) if compiled else self.targets_of

    def targets_of(self, batch: dict[str, Any]) -> Tensor:
        """Targets [b] of the batch by the target network."""
        chunks = batch["next_chunks"]
        mask = self.executed.expand(*chunks.shape[:3])
        state, net = batch["next_state"], self.learner.average
        logits = decode(self.critic, net, encode(self.critic, net, state), state["bias"], chunks, mask, self.fused)
        q = logits.softmax(-1) @ self.centres
        backup = self.training.backup
        value = q.amax(-1) if backup.kind == "max" else q.mean(-1)
        rule = self.training.rule
        steps = batch["mask"].sum(-1)
        factor = rule.gamma**steps
        powers = rule.gamma ** torch.arange(batch["rewards"].shape[1])
        rewards = (batch["rewards"] * batch["mask"] * powers).sum(-1)
        alive = ~batch["terminal"]
        shaping = rule.beta * (alive * factor * batch["next_phi"] - batch["phi"])
        y = rewards + shaping + alive * factor * value
        return y.clamp(self.critic.support.low, self.critic.support.high)

    def loss_of(self, batch: dict[str, Any], y: Tensor) -> Tensor:
        """Cross-entropy [] with the HL-Gauss projection of y [b]."""
        state, net = batch["state"], self.learner.net
        mask = batch["read"][..., : self.critic.tokens]
        logits = decode(self.critic, net, encode(self.critic, net, state), state["bias"], batch["chunk"], mask, self.fused)[:, 0]
        sd = self.critic.support.smoothing * self.critic.support.width
        cumulative = torch.special.erf((self.edges - y[:, None]) * (0.5**0.5 / sd))
        inside = cumulative.diff(dim=-1).clamp(min=0.0)
        p = inside / (cumulative[:, -1:] - cumulative[:, :1])
        return -(p * logits.log_softmax(-1)).sum(-1).mean()

    def __call__(self, batch: dict[str, Any]) -> Tensor:
        """One update; returns the loss before it."""
        with torch.no_grad():
            y = self.targets(batch)
        loss = self.loss(batch, y)
        self.learner.descend(loss)
        return loss.detach()
