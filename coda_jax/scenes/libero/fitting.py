"""Whether a scene can be one of its task: its things, each placed once, with numbers that physics can bear.

Wider than what edits may ask for: a scene may come from a file that anyone wrote.
"""

from __future__ import annotations

from collections.abc import Mapping

from coda_jax.programs.errors import quote
from coda_jax.runtime import InputError
from coda_jax.scenes.libero.things import Model
from coda_jax.scenes.spec import SceneSpec

LIMITS = {"scale": (0.1, 10.0), "mass_kg": (1e-4, 100.0), "friction": (1e-3, 10.0)}
FURTHEST_M = 20.0  # of a place, as of a region in a task file


def require_fit(spec: SceneSpec, known: Mapping[str, Model]) -> None:
    """Refuse a scene that is none of its task.

    Args:
      known: the task's things in token order (importing.models).

    Raises:
      InputError: things, assets or their order are not the task's, one of them has no place or two, or a number is out of range.
    """
    where = f"a scene of {quote(spec.spatial.layout)}"
    if spec.object_ids != tuple(known):
        raise InputError(f"{where} has {', '.join(known)}, not {', '.join(map(quote, spec.object_ids))}: keep objects and order")
    for thing in spec.attributes.objects:
        if thing.asset != known[thing.object].asset:
            asset = known[thing.object].asset
            raise InputError(f"{where}: {thing.object} is {asset}, not {quote(thing.asset)}: edit places, not what is there")
        for field, (low, high) in LIMITS.items():
            value = getattr(thing, field)
            if not low <= value <= high:
                raise InputError(f"{where}: {thing.object} has {field} {value:g}: use {low:g} to {high:g}")
    placed = [p.object for p in spec.spatial.placements]
    for name in known:
        if placed.count(name) != 1:
            raise InputError(f"{where}: {name} has {placed.count(name)} placements: give it one")
    if strange := [name for name in placed if name not in known]:
        raise InputError(f"{where}: a placement of {quote(strange[0])}, which is no thing of the task: remove it")
    for place in spec.spatial.placements:
        if not all(abs(v) <= FURTHEST_M for v in place.pos_m):
            raise InputError(f"{where}: {place.object} is further than {FURTHEST_M:g} m away: place it on the table")
        if place.opening is not None and not 0.0 <= place.opening <= 1.0:
            raise InputError(f"{where}: {place.object} has opening {place.opening:g}: use 0 (closed) to 1")
