"""Low-rank adapters on the Dense layers of a parameter tree: w stays, a b of small rank is learned beside it.

The factor alpha / rank is a leaf of each adapter ("lora_scale"), not a setting: whoever holds the parameters can apply and merge them, a
checkpoint needs no configuration to act, and no call of ``dense`` has to pass it on. It is never trained.

Source: Hu et al. 2021 (2106.09685), section 4.1.
"""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from coda_jax.learning.policies.base import Params
from coda_jax.learning.policies.layers import kernel
from coda_jax.types import Array

FACTORS = ("lora_a", "lora_b")  # what is trained
_KEYS = (*FACTORS, "lora_scale")


class TargetError(ValueError):
    """No adapters can be attached as asked; the message lists the Dense layers that there are."""


def names(params: Params) -> list[str]:
    """Every Dense of the tree, e.g. "net/head/0"."""
    found: list[str] = []
    _each_dense(params, lambda name, dense: found.append(name) or dense)
    return found


def targeted(params: Params) -> list[str]:
    """Every Dense of the tree that has an adapter, by name."""
    found: list[str] = []
    _each_dense(params, lambda name, dense: (found.append(name) if "lora_a" in dense else None) or dense)
    return found


def matched(params: Params, targets: tuple[str, ...]) -> list[str]:
    """The Dense layers whose whole name one of the regular expressions ``targets`` matches.

    Raises:
      TargetError: there are no targets, or one of them is no regular expression or matches no Dense.
    """
    known = names(params)
    there = f"there are: {', '.join(known)}"
    if not targets:
        raise TargetError(f"lora.targets is empty; name at least one Dense, {there}")
    found: set[str] = set()
    for target in targets:
        try:
            own = [name for name in known if re.fullmatch(target, name)]
        except re.error as error:
            raise TargetError(f"lora.targets: {target!r} is no regular expression ({error}); {there}") from None
        if not own:
            raise TargetError(f"lora.targets: {target!r} matches the whole name of no Dense; {there}")
        found.update(own)
    return [name for name in known if name in found]


@functools.partial(jax.jit, static_argnames=("rank", "alpha", "targets"))
def attach(params: Params, rank: int, alpha: float, targets: tuple[str, ...], key: jax.Array) -> Params:
    """``params`` with an adapter at each Dense that ``targets`` name: a [in, rank] normal of variance 1 / in, b [rank, out] zero.

    What the parameters do is unchanged until b moves. An adapter's values depend on ``key`` and on its own name alone. Matrices with
    leading axes (stacked layers) get an adapter for each.

    Raises:
      TargetError: as ``matched``. ValueError: the rank is below 1, alpha is not above 0, or there are adapters already.
    """
    if rank < 1 or not alpha > 0:
        raise ValueError(f"lora.rank is {rank} and lora.alpha {alpha}; the rank must be at least 1 and alpha above 0")
    if present := targeted(params):
        raise ValueError(f"{', '.join(present)} have adapters already: merge them first")
    chosen = set(matched(params, targets))

    def adapted(name: str, dense: dict[str, Array]) -> dict[str, Array]:
        if name not in chosen:
            return dense
        *stack, fan_in, fan_out = dense["w"].shape
        normal = jax.random.normal(jax.random.fold_in(key, zlib.crc32(name.encode())), (*stack, fan_in, rank), dense["w"].dtype)
        a, b = normal * fan_in**-0.5, jnp.zeros((*stack, rank, fan_out), dense["w"].dtype)
        return {**dense, "lora_a": a, "lora_b": b, "lora_scale": jnp.full(stack, alpha / rank, dense["w"].dtype)}

    return _each_dense(params, adapted)


def merged(params: Params) -> Params:
    """``params`` with every adapter folded into its w and removed: acts the same, and is of the shape that has no adapters."""
    return _merged(params) if targeted(params) else params


@jax.jit
def _merged(params: Params) -> Params:
    return _each_dense(params, lambda _, dense: {"w": kernel(dense)} | {k: v for k, v in dense.items() if k != "w" and k not in _KEYS})


def trainable(params: Params) -> Any:
    """A tree like ``params`` of bools, True for the factors of adapters alone."""
    return jax.tree_util.tree_map_with_path(lambda path, _: getattr(path[-1], "key", None) in FACTORS, params)


def _each_dense(tree: Any, change: Callable[[str, dict[str, Any]], dict[str, Any]], name: str = "") -> Any:
    """The tree with ``change(name, dense)`` in place of every Dense, in the order of the tree.

    Raises:
      TypeError: a node is neither dict, list nor tuple, so that layers within could not be named.
    """
    if isinstance(tree, Mapping):
        if {"w", "b"} <= tree.keys() and jnp.ndim(tree["w"]) > 1:
            return change(name, dict(tree))
        return {k: _each_dense(v, change, f"{name}/{k}" if name else str(k)) for k, v in sorted(tree.items())}
    if type(tree) in (list, tuple):
        return type(tree)(_each_dense(v, change, f"{name}/{i}" if name else str(i)) for i, v in enumerate(tree))
    if tree is not None and not jax.tree_util.all_leaves([tree]):
        raise TypeError(f"parameter trees are dicts, lists and tuples of arrays, but {name or 'the root'} is a {type(tree).__name__}")
    return tree
