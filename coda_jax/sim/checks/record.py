"""What a failed check says, and the thresholds of all checks."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

from coda_jax.scenes.fixes import Fix
from coda_jax.sim.panda import PANDA
from coda_jax.sim.robot import Robot

CHECKS = ("compile", "names", "workspace", "table", "scale", "joint", "penetration", "reach", "settle", "success")


@dataclasses.dataclass(frozen=True)
class Failure:
    """One failed check of one object.

    check: one of CHECKS. object: id ("" for the scene as a whole). other: id of the second object, "table" or "gripper" ("" without one).
    amount: by how much, in ``unit``. message: what is wrong, where, and what to change. offer: ``fixes``, or what finds them: a search for
    room costs more than all checks together, and most failures are counted and never mended.
    """

    check: str
    object: str
    other: str
    amount: float
    unit: str
    message: str
    offer: Sequence[Fix] | Callable[[], Sequence[Fix]] = dataclasses.field(default=(), compare=False, repr=False)

    @functools.cached_property
    def fixes(self) -> tuple[Fix, ...]:
        """Changes each of which should mend it, in the order to try them; empty where no single change does."""
        return tuple(self.offer() if callable(self.offer) else self.offer)

    def row(self, fixes: bool = True) -> dict[str, Any]:
        """As plain data, with or without the fixes."""
        own = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "offer"}
        return own | {"fixes": [dataclasses.asdict(fix) for fix in self.fixes]} if fixes else own


@dataclasses.dataclass(frozen=True)
class ValiditySettings:
    """Thresholds.

    worlds: scenes that settle together (W); threads: of the physics pool, 0 for one per core.
    penetration_m: deepest overlap, and deepest a bounding box may reach below the table. pedestal_m: how high above the table a
    fixture may stand, as on a pedestal. settle_s: physics time before the looks at settle_move_m (of the centre), settle_tilt_rad (of
    the upright axis) and settle_speed_m_s.
    settle_opening: share of its range by which a joint may creep.
    density_kg_m3, scale, longest_m (longest side of a free object): plausible ranges. jaw_m: widest grasp the jaws take.
    workspace_x_m, workspace_y_m: where centres may stand. reach_m, reach_rad: largest error of the arm's solution at a waypoint.
    robot: whose reach counts.
    """

    worlds: int
    threads: int
    penetration_m: float
    pedestal_m: float
    settle_s: float
    settle_move_m: float
    settle_tilt_rad: float
    settle_speed_m_s: float
    settle_opening: float
    density_kg_m3: tuple[float, float]
    scale: tuple[float, float]
    longest_m: tuple[float, float]
    jaw_m: float
    workspace_x_m: tuple[float, float]
    workspace_y_m: tuple[float, float]
    reach_m: float
    reach_rad: float
    robot: Robot = PANDA
