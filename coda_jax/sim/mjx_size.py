"""How much an MJX bucket will take, before anything is compiled."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from coda_jax.sim.bucket import Bucket

# Measured with 64 worlds of f2g1: before, after, the choice between them, and the matrices of the solver.
_WHILE_STEPPING = 6


@dataclasses.dataclass(frozen=True)
class Size:
    """Of one world of a bucket. contacts: slots for them. rows: of the constraint Jacobian. state_bytes, scene_bytes: held all the time."""

    bucket: Bucket
    contacts: int
    rows: int
    state_bytes: int
    scene_bytes: int

    def held_bytes(self, worlds: int) -> int:
        """Of ``worlds`` worlds between steps."""
        return worlds * (self.state_bytes + self.scene_bytes)

    def peak_bytes(self, worlds: int) -> int:
        """About what ``worlds`` worlds take while they step."""
        return worlds * (_WHILE_STEPPING * self.state_bytes + self.scene_bytes)

    def line(self, worlds: int) -> str:
        return (
            f"MJX bucket {self.bucket.name}: {self.contacts} contacts and {self.rows} constraint rows a world; {worlds:,} worlds hold "
            f"{self.held_bytes(worlds) / 1e6:.0f} MB and take about {self.peak_bytes(worlds) / 1e6:.0f} MB while they step"
        )


def bytes_of(tree: Any) -> int:
    """Of all arrays of a tree."""
    return sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def size_of(bucket: Bucket, data: Any, fields: dict[str, np.ndarray]) -> Size:
    """Of a bucket whose mjx.Data for one world, of either implementation, is ``data`` and whose scenes bring ``fields``."""
    inside = data._impl
    if data.impl.value == "warp":
        contacts, rows = len(inside.contact__dist), int(inside.njmax)
    else:
        contacts, rows = int(inside.contact.dist.shape[-1]), int(inside.efc_J.shape[-2])
    return Size(bucket, contacts, rows, bytes_of(data), bytes_of(fields))
