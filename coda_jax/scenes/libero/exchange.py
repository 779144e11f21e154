"""The verb of LIBERO scenes alone: two free things change places, as the pairs of its position suites do."""

from __future__ import annotations

from coda_jax.scenes.edits.record import OBSERVATIONS, EditError, Request, Verb
from coda_jax.scenes.edits.room import trouble
from coda_jax.scenes.edits.spatial import require_on_table
from coda_jax.scenes.libero.tasks import FAMILIES
from coda_jax.scenes.spec import SceneSpec
from coda_jax.scenes.tabletop import Tabletop, moved


def exchange(request: Request) -> SceneSpec:
    """Exchange the places of the target and the bound free object: one option, whatever the magnitude.

    Raises:
      EditError: one of them does not stand on the table or carries something, or the exchange leaves no fair task.
    """
    top, target, bound = Tabletop(request.spec), request.binding["target"], request.binding["obstacle"]
    for name in (target, bound):
        require_on_table(top, name)
        if top.assets[name].kind != "object" or top.carried(name):
            raise EditError(f"{name} is fixed or carries something: exchange free objects with nothing on them")
    here, there = top.places[target].pos_m[:2], top.places[bound].pos_m[:2]
    after = moved(request.spec, {target: there, bound: here})
    if (reason := trouble(after)) is not None:
        raise EditError(f"not enough room: {reason}: bind another free object, or use verb distance")
    return after


EXCHANGE = Verb(
    name="exchange",
    factor="spatial",
    needs=("target", "obstacle"),
    observed_by=frozenset(OBSERVATIONS),
    measure="",
    rises=True,
    discrete=True,
    what="exchange of the places of two free objects",
    apply=exchange,
    families=frozenset(FAMILIES),
)
