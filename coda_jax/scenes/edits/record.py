"""What an edit verb is, and the errors of edits."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.spec import SceneSpec

OBSERVATIONS = ("state", "pixels")


class EditError(ValueError):
    """An edit that cannot be made in this scene; the message says why and what to change."""


class FactorLockError(Exception):
    """An edit changed a factor that it does not declare: a bug of the verb, never of the caller."""


@dataclasses.dataclass(frozen=True)
class Request:
    """What a verb is asked to do. magnitude: in (0, 1]. binding: role to object id, with every role the verb needs."""

    spec: SceneSpec
    binding: Mapping[str, str]
    magnitude: float
    seed: int
    catalogue: Catalogue


@dataclasses.dataclass(frozen=True)
class Verb:
    """One way to make a scene harder.

    factor: the only factor it changes. needs: roles a binding must give it. observed_by: observation types for which a change can alter
    what the policy sees or what physics does. measure: name of the quantity of scenes/measures.py that it moves ("" for wording, which no
    number orders), and ``rises`` whether larger is harder. discrete: the magnitude picks among ordered options. what: range and unit.
    families: names of the families whose scenes it can edit; empty for all.
    """

    name: str
    factor: str
    needs: tuple[str, ...]
    observed_by: frozenset[str]
    measure: str
    rises: bool
    discrete: bool
    what: str
    apply: Callable[[Request], SceneSpec]
    families: frozenset[str] = frozenset()
