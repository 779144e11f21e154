"""What both updates in PyTorch consist of: parameter trees, layers, AdamW after clipping."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

torch: Any = importlib.import_module("torch")  # of the extra "bench": type checkers do without it
F: Any = importlib.import_module("torch.nn.functional")
Tensor = Any
Tree = Any  # nested dicts and lists of tensors


def tensors(tree: Any) -> Tree:
    """A copy of a tree of arrays as tensors; records become dicts by field."""
    if hasattr(tree, "__dataclass_fields__"):
        return {name: tensors(getattr(tree, name)) for name in tree.__dataclass_fields__}
    if isinstance(tree, dict):
        return {name: tensors(x) for name, x in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [tensors(x) for x in tree]
    return None if tree is None else torch.from_numpy(np.array(tree))


def turned(tree: Tree) -> Tree:
    """Weights "w" from [in, out] to [out, in], which PyTorch's kernels are written for, or back; contiguous copies."""
    if isinstance(tree, dict):
        return {name: x.T.contiguous() if name == "w" else turned(x) for name, x in tree.items()}
    return [turned(x) for x in tree] if isinstance(tree, list) else tree.clone()


def leaves(tree: Tree) -> list[Tensor]:
    return jax.tree.leaves(tree)


def dense(layer: dict[str, Tensor], x: Tensor) -> Tensor:
    return F.linear(x, layer["w"], layer["b"])


def mlp(layers: list[dict[str, Tensor]], x: Tensor) -> Tensor:
    for layer in layers[:-1]:
        x = F.silu(dense(layer, x))
    return dense(layers[-1], x)


def layer_norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], eps=1e-6)


class Learner:
    """Parameters (copied from jax's) that AdamW moves after clipping of the gradient's norm, and their moving average.

    rate: of learning, by the number of updates so far. share: of the parameters in their average, likewise.
    """

    def __init__(
        self,
        net: Any,
        average: Any,
        rate: Callable[[int], float],
        share: Callable[[int], float],
        weight_decay: float,
        clip_norm: float,
    ):
        self.net, self.average = turned(tensors(net)), turned(tensors(average))
        self.leaves, self.average_leaves = leaves(self.net), leaves(self.average)
        for x in self.leaves:
            x.requires_grad_()
        self.adamw = torch.optim.AdamW(self.leaves, weight_decay=weight_decay, fused=True)
        self.rate, self.share, self.clip_norm, self.updates = rate, share, clip_norm, 0

    def descend(self, loss: Tensor) -> None:
        """One update along the gradient of ``loss``."""
        self.adamw.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.leaves, self.clip_norm, foreach=True)
        self.adamw.param_groups[0]["lr"] = self.rate(self.updates)
        self.adamw.step()
        with torch.no_grad():
            torch._foreach_lerp_(self.average_leaves, self.leaves, self.share(self.updates))
        self.updates += 1

    def parameters(self) -> Any:
        """The parameters as numpy arrays in jax's layout."""
        return jax.tree.map(lambda x: x.numpy().copy(), turned(jax.tree.map(lambda x: x.detach(), self.net)))
