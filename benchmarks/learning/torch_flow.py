"""The flow policy's update in PyTorch: network, losses and optimiser of ``coda_jax.learning``, for speed beside it.

It starts from features that are read already and from drawn noise, so it does less than the project's own update.
"""

from __future__ import annotations

import math
from typing import Any

from benchmarks.learning.torch_tools import F, Learner, Tensor, Tree, dense, layer_norm, mlp, tensors, torch, turned
from coda_jax.learning.policies import features, grounding
from coda_jax.learning.policies.flow import FlowPolicy
from coda_jax.learning.steps import Training

Batch = dict[str, Tensor]


def about_z(v: Tensor, angle: Tensor) -> Tensor:
    c, s = torch.cos(angle), torch.sin(angle)
    x, y = v[..., 0], v[..., 1]
    return torch.stack([c * x - s * y, s * x + c * y, v[..., 2]], -1)


def multi_scale(p: Tensor, on: bool) -> Tensor:
    return torch.cat([4.0 * p, *(torch.tanh(s * p) for s in features.FINE_SCALES_PER_M)], -1) if on else 4.0 * p


def unit(x: Tensor, heads: int) -> Tensor:
    x = x.unflatten(-1, (heads, -1))
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)


def encode(policy: FlowPolicy, net: Tree, batch: Batch) -> tuple[Tensor, Tensor]:
    """Context [b, width] and the attention logits [b, heads, o]."""
    named, words = grounding.NAMED_HEADS, net["grounding"]
    heads, present = policy.heads, batch["present"]
    name = F.embedding(batch["names"], dense(words["name"], batch["table"])).unflatten(-1, (heads, -1))
    extra = dense(words["shape"], batch["shape"]).unflatten(-1, (heads - named, -1))
    keys = torch.cat([name[..., :named, :], name[..., named:, :] + extra], -2)
    keys = keys * torch.rsqrt((keys * keys).sum(-1, keepdim=True) + 1e-6)
    query = unit(dense(words["query"], batch["instruction"]), heads)
    scores = torch.einsum("bhd,bohd->bho", query, keys) * words["sharpness"].exp()[:, None]
    scores = scores.masked_fill(~present[:, None], grounding.ABSENT)
    attention = scores.softmax(-1)

    tokens, pos, angle = batch["tokens"], batch["pos"], batch["angle"]
    pooled = (attention @ tokens).flatten(1)
    both = attention[:, :named] @ pos
    target, reference = both[:, 0], both[:, 1]
    placing = multi_scale(about_z(reference - target, -angle), policy.multi_scale)
    around = multi_scale(about_z(pos - target[:, None], -angle[:, None]), policy.multi_scale)
    clutter = F.silu(mlp(net["clutter"], torch.cat([tokens, around], -1)))
    clutter = clutter.masked_fill(~present[..., None], 0.0).amax(1)
    instruction = torch.tanh(dense(net["words"], batch["instruction"]))
    return layer_norm(mlp(net["trunk"], torch.cat([pooled, clutter, batch["gripper"], placing, instruction], -1))), scores


def velocity(net: Tree, context: Tensor, x: Tensor, u: Tensor) -> Tensor:
    phase = u * torch.pi * 2.0 ** torch.arange(-1, 7)
    return mlp(net["head"], torch.cat([x, phase.cos(), phase.sin(), context], -1))


def cross_entropy(scores: Tensor, roles: Tensor) -> Tensor:
    """[b], mean over the known roles."""
    known = roles >= 0
    picked = scores.log_softmax(-1).gather(-1, roles.clamp(min=0)[..., None])[..., 0]
    return -(picked * known).sum(-1) / known.sum(-1).clamp(min=1)


class FlowUpdate:
    """A flow policy with its moving average and AdamW, copied from jax's parameters; a call updates it on a batch of features.

    anchor: parameters that the velocities are kept close to with ``drift_weight``, as in advantage-weighted updates; None without.
    """

    def __init__(self, policy: FlowPolicy, training: Training, net: Any, anchor: Any, drift_weight: float, compiled: bool):
        self.policy, self.training, self.drift_weight = policy, training, drift_weight

        def rate(updates: int) -> float:
            if updates < training.warmup:
                return training.learning_rate * updates / training.warmup
            done = min((updates - training.warmup) / (training.steps - training.warmup), 1.0)
            return training.learning_rate * (0.98 * 0.5 * (1 + math.cos(math.pi * done)) + 0.02)

        def share(updates: int) -> float:
            return 1 - min(training.ema, (1 + updates) / (10 + updates))

        self.learner = Learner(net, net, rate, share, training.weight_decay, training.clip_norm)
        self.anchor = None if anchor is None else turned(tensors(anchor))
        self.loss = torch.compile(self.loss_of, dynamic=False) if compiled else self.loss_of
        self.anchored = torch.compile(self.anchored_of, dynamic=False) if compiled else self.anchored_of

    def drawn(self, net: Tree, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Velocity and the wanted one, [b, h * 7], and attention logits."""
        noise, u, targets = batch["noise"], batch["u"], batch["targets"]
        context, scores = encode(self.policy, net, batch)
        return velocity(net, context, (1 - u) * noise + u * targets, u), targets - noise, scores

    def anchored_of(self, batch: Batch) -> Tensor:
        return self.drawn(self.anchor, batch)[0]

    def language(self, net: Tree, batch: Batch) -> Tensor:
        """Grounding loss [] of instructions without a scene over every name of the set."""
        words, named = net["grounding"], grounding.NAMED_HEADS
        width = named * self.policy.key_dim
        query = unit(F.linear(batch["sentences"], words["query"]["w"][:width], words["query"]["b"][:width]), named)
        name = unit(F.linear(batch["vocabulary"], words["name"]["w"][:width], words["name"]["b"][:width]), named)
        scores = torch.einsum("bhd,nhd->bhn", query, name) * words["sharpness"][:named].exp()[:, None]
        return cross_entropy(scores.masked_fill(~batch["known"], grounding.ABSENT), batch["meant"]).mean()

    def loss_of(self, batch: Batch, anchor: Tensor | None) -> Tensor:
        """All losses of an update, []."""
        net, training = self.learner.net, self.training
        found, wanted, scores = self.drawn(net, batch)
        mask = batch["mask"]
        error = (found - wanted).square().unflatten(-1, (self.policy.chunk, -1)).mean(-1)
        motor = (error * mask).sum(-1) / mask.sum(-1).clamp(min=1)
        words = cross_entropy(scores[:, : grounding.NAMED_HEADS], batch["roles"])
        total = (batch["weight"] * motor).mean() + self.policy.grounding_weight * words.mean()
        total = total + training.language_weight * self.language(net, batch)
        return total if anchor is None else total + self.drift_weight * (found - anchor).square().mean()

    def __call__(self, batch: Batch) -> Tensor:
        """One update; returns the loss before it."""
        anchor = None
        if self.anchor is not None:
            with torch.no_grad():
                anchor = self.anchored(batch)
        loss = self.loss(batch, anchor)
        self.learner.descend(loss)
        return loss.detach()
