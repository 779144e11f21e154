"""A few boxes in place of many: hulls of neighbouring boxes are merged where that fills least space that was empty.

LIBERO's things are made of up to forty boxes each. Two groups of boxes become one by the smallest box around both, turned like one of them;
the pair is taken that adds least volume, as in bottom-up clustering. A cavity stays one, for closing it would add the most.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

POINTS = 8_000  # by which volumes are measured
_TURNED = 0.95  # share of the straight box's volume that a turned one must beat: jaws slip off the corners of a turned can
_SIGNS = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
_SEED = 0


@dataclasses.dataclass(frozen=True, eq=False)
class Box:
    """pos: [3] of the centre. rotation: [3, 3]. half: [3]; m, all in the frame of one body."""

    pos: np.ndarray
    rotation: np.ndarray
    half: np.ndarray

    @property
    def corners(self) -> Float[np.ndarray, "8 3"]:
        return self.pos + (_SIGNS * self.half) @ self.rotation.T

    @property
    def volume(self) -> float:
        return float(8 * np.prod(self.half))

    def holds(self, points: Float[np.ndarray, "n 3"]) -> np.ndarray:
        """[n] bool."""
        return np.asarray((np.abs((points - self.pos) @ self.rotation) <= self.half).all(1))


@dataclasses.dataclass(frozen=True, eq=False)
class Cover:
    """boxes: in place of the given ones, which lie inside of them. added: volume that was empty, as a share of the given boxes' union."""

    boxes: tuple[Box, ...]
    added: float


def around(boxes: Sequence[Box]) -> Box:
    """The smallest box around all of them, of those turned like one of them; like their frame where that is hardly larger."""
    corners = np.concatenate([b.corners for b in boxes])
    straight, *turned = [_turned_around(corners, r) for r in _distinct([np.eye(3), *(b.rotation for b in boxes)])]
    best = min(turned, key=lambda box: box.volume, default=straight)
    return best if best.volume < _TURNED * straight.volume else straight


def _turned_around(corners: np.ndarray, rotation: np.ndarray) -> Box:
    local = corners @ rotation
    low, high = local.min(0), local.max(0)
    return Box(rotation @ ((low + high) / 2), rotation, (high - low) / 2)


def _distinct(rotations: Sequence[np.ndarray]) -> list[np.ndarray]:
    kept: list[np.ndarray] = []
    for rotation in rotations:
        if all(np.abs(rotation - k).max() > 1e-6 for k in kept):
            kept.append(rotation)
    return kept


def _sampled(boxes: Sequence[Box]) -> tuple[np.ndarray, np.ndarray]:
    """Points [POINTS, 3] about the boxes, and which of them lie in one."""
    corners = np.concatenate([b.corners for b in boxes])
    points = np.random.default_rng(_SEED).uniform(corners.min(0), corners.max(0), (POINTS, 3))
    return points, np.any([b.holds(points) for b in boxes], 0)


def single(boxes: Sequence[Box]) -> Cover:
    """One box in place of all."""
    hull, (points, solid) = around(boxes), _sampled(boxes)
    return Cover((hull,), int((hull.holds(points) & ~solid).sum()) / max(int(solid.sum()), 1))


def cover(boxes: Sequence[Box], most: int, tolerance: float) -> Cover:
    """At most ``most`` boxes; fewer while what all merges together add stays within ``tolerance``, a share of the boxes' union.

    Raises:
      ValueError: no boxes, or ``most`` is not positive.
    """
    if not boxes or most < 1:
        raise ValueError(f"{len(boxes)} boxes in at most {most}: both must be at least 1")
    points, solid = _sampled(boxes)
    unit = max(int(solid.sum()), 1)
    groups = [[b] for b in boxes]
    hulls = list(boxes)
    filled = [np.zeros(POINTS, bool) for _ in boxes]  # points in the hull that were empty
    costs: dict[tuple[int, int], tuple[int, Box, np.ndarray]] = {}
    alive = list(range(len(boxes)))

    def total(fills: Sequence[np.ndarray]) -> int:
        return int(np.any(fills, 0).sum())

    def consider(i: int, j: int) -> None:
        hull = around([*groups[i], *groups[j]])
        fill = hull.holds(points) & ~solid
        costs[i, j] = int((fill & ~(filled[i] | filled[j])).sum()), hull, fill

    for i, j in itertools.combinations(alive, 2):
        consider(i, j)
    while len(alive) > 1:
        i, j = min(costs, key=lambda pair: (costs[pair][0], pair))
        _, hull, fill = costs[i, j]
        after = total([fill, *(filled[k] for k in alive if k not in (i, j))])
        if len(alive) <= most and after > tolerance * unit:
            break
        groups[i] += groups[j]
        hulls[i], filled[i] = hull, fill
        alive.remove(j)
        costs = {pair: cost for pair, cost in costs.items() if i not in pair and j not in pair}
        for k in alive:
            if k != i:
                consider(min(i, k), max(i, k))
    return Cover(tuple(hulls[k] for k in alive), total([filled[k] for k in alive]) / unit)
