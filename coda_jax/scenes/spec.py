"""A scene as data: three independently editable factors, canonical JSON, hash and symbol table.

Nothing here knows physics or JAX. A SceneSpec is what a scene program evaluates to; ``scene_id`` is the hash of its canonical JSON
(numbers rounded to 1e-6), so that two programs that build the same scene get the same id.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from typing import Any

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass

from coda_jax.programs.expressions import Expr

_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, config=_STRICT)
class Relation:
    """An initial relation, e.g. ``Relation("on", "mug_1", "table")``."""

    name: str
    subject: str
    reference: str


@dataclass(frozen=True, config=_STRICT)
class Role:
    """The part an object plays: target, reference, distractor, obstacle, support or container."""

    object: str
    role: str


@dataclass(frozen=True, config=_STRICT)
class TaskFactor:
    """tau: what is asked. ``goal`` is the relation asked for (nu adds rest and release, see programs/verifier.py)."""

    family: str
    instruction: str
    goal: Expr
    relations: tuple[Relation, ...]
    roles: tuple[Role, ...]


@dataclass(frozen=True, config=_STRICT)
class Placement:
    """Where one object stands. ``pos_m`` is the centre of its bounding box in the base frame (table top at z = 0), yaw about +z.

    opening: of an articulated one at the start, as a share of its range; None for every other, whose JSON does not hold the field.
    """

    object: str
    pos_m: tuple[float, float, float]
    yaw_rad: float
    support: str
    region: str
    clearance_m: float
    opening: float | None = None


@dataclass(frozen=True, config=_STRICT)
class SpatialFactor:
    """sigma: where things are. ``layout`` is the id of the seed layout the placements were drawn from."""

    layout: str
    placements: tuple[Placement, ...]


@dataclass(frozen=True, config=_STRICT)
class Articulation:
    """What a joint is like.

    stiffness: of a spring that pulls it closed, N/m (slide) or N m/rad (hinge). damping: N s/m or N m s/rad. friction: N or N m.
    handle_scale: thickness of the handle against its asset's. range_share: the range against its asset's.
    """

    stiffness: float
    damping: float
    friction: float
    handle_scale: float
    range_share: float


@dataclass(frozen=True, config=_STRICT)
class ObjectAttributes:
    """What one object is: catalogue asset, uniform scale, mass, sliding friction, colour word.

    articulation: of an articulated one, whose mass and friction are those of its moving link; None for every other.
    """

    object: str
    asset: str
    scale: float
    mass_kg: float
    friction: float
    colour: str
    articulation: Articulation | None = None


@dataclass(frozen=True, config=_STRICT)
class AttributeFactor:
    """alpha: what things are made of, in the order of the object tokens (free objects first, then fixtures)."""

    objects: tuple[ObjectAttributes, ...]


@dataclass(frozen=True, config=_STRICT)
class SceneSpec:
    task: TaskFactor
    spatial: SpatialFactor
    attributes: AttributeFactor

    @functools.cached_property
    def scene_id(self) -> str:
        """First 16 hex digits of the SHA-256 of the canonical JSON."""
        return hashlib.sha256(to_json(self).encode()).hexdigest()[:16]

    @property
    def object_ids(self) -> tuple[str, ...]:
        return tuple(o.object for o in self.attributes.objects)

    def placement(self, object_id: str) -> Placement:
        return next(p for p in self.spatial.placements if p.object == object_id)

    def attribute(self, object_id: str) -> ObjectAttributes:
        return next(o for o in self.attributes.objects if o.object == object_id)

    def with_role(self, role: str) -> tuple[str, ...]:
        return tuple(r.object for r in self.task.roles if r.role == role)


ADAPTER: TypeAdapter[SceneSpec] = TypeAdapter(SceneSpec)
FACTORS = ("task", "spatial", "attributes")


def _canonical(value: Any) -> Any:
    if isinstance(value, float):
        rounded = round(value, 6)
        return 0.0 if rounded == 0 else rounded  # no "-0.0": it would change the hash
    if isinstance(value, dict):
        return {k: _canonical(v) for k, v in value.items() if v is not None}  # None: a field that this object has not
    if isinstance(value, (list, tuple)):
        return [_canonical(v) for v in value]
    return value


def to_json(spec: SceneSpec) -> str:
    """Canonical JSON: sorted keys, no spaces, numbers rounded to 1e-6."""
    return json.dumps(_canonical(dataclasses.asdict(spec)), sort_keys=True, separators=(",", ":"))


def from_json(text: str | bytes) -> SceneSpec:
    """Parse and strictly validate a spec.

    Raises:
      pydantic.ValidationError: a field is missing, unknown, of the wrong type, infinite or NaN; it names the field.
    """
    return ADAPTER.validate_json(text)


def changed_factors(before: SceneSpec, after: SceneSpec) -> tuple[str, ...]:
    """Names of the factors in which two specs differ (the ground of the factor lock)."""
    return tuple(
        name
        for name in FACTORS
        if _canonical(dataclasses.asdict(getattr(before, name))) != _canonical(dataclasses.asdict(getattr(after, name)))
    )
