"""A model's changes of an invalid scene: single fields of single objects, under a schema, within the ranges of scene programs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from coda_jax.agents.base import Cure
from coda_jax.agents.llm.chat import CallError, Chat, Message, Request
from coda_jax.agents.llm.engine_tools import failures_said
from coda_jax.agents.llm.tally import Tally
from coda_jax.agents.llm.toolbox import Arguments
from coda_jax.agents.prompts import prompt
from coda_jax.programs.errors import one_line
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.fixes import FACTOR_OF, Fix, fixed
from coda_jax.scenes.ranges import RANGES
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.checks.record import Failure

MOST_CHANGES = 4
_WAY_M = 0.3  # farthest that one change moves a thing, along each axis
_BYTES = 20_000
FieldName = Literal[
    "pos_m",
    "yaw_rad",
    "opening",
    "scale",
    "mass_kg",
    "colour",
    "stiffness",
    "damping",
    "joint_friction",
    "handle_scale",
    "range_share",
]
Metres = Annotated[float, Field(ge=-_WAY_M, le=_WAY_M)]


class Change(Arguments):
    """One field of one object. value: the way to go for pos_m, a colour word for colour, else a number."""

    object: Annotated[str, Field(min_length=1, max_length=32)]
    field: FieldName
    value: float | Annotated[str, Field(max_length=32)] | Annotated[list[Metres], Field(min_length=3, max_length=3)]


class Changes(Arguments):
    """What would cure the failed checks; empty where nothing would."""

    changes: Annotated[list[Change], Field(max_length=MOST_CHANGES)]


def mended(
    chat: Chat,
    tally: Tally,
    purpose: str,
    spec: SceneSpec,
    failures: Sequence[Failure],
    factors: Collection[str],
    catalogue: Catalogue,
    seed: int,
    max_tokens: int,
) -> tuple[SceneSpec, tuple[Cure, ...]] | None:
    """The scene with the changes that a model names, those of ``factors`` alone; None where it names none that can be made."""
    fields = sorted(f for f, factor in FACTOR_OF.items() if factor in factors and f != "instruction")
    if not fields or not failures:
        return None
    asked = prompt("engine_mend").filled(
        most=MOST_CHANGES, fields=", ".join(fields), failures=failures_said(failures), objects="\n".join(_lines(spec))
    )
    (answer,) = chat.ask([Request(purpose, (Message("user", (asked,)),), seed, max_tokens, schema=Changes)])
    if isinstance(answer, CallError):
        tally.count(purpose, answer.kind.value)
        return None
    tally.count(purpose, "answered")
    try:
        if len(answer.text) > _BYTES:
            raise ValueError(answer.text[:40])
        named = Changes.model_validate_json(answer.text).changes
    except (ValidationError, ValueError):
        tally.count(purpose, "rejected:schema")
        return None
    cures: list[Cure] = []
    after = spec
    for change in named:
        found = _made(after, change, factors, catalogue)
        if found is None:
            tally.count(purpose, "rejected:change")
            continue
        after, fix = found
        cures.append(Cure(_cured(failures, change.object), fix))
    if after == spec:
        tally.count(purpose, "nothing_changed")
        return None
    tally.count(purpose, "accepted")
    return after, tuple(cures)


def _made(spec: SceneSpec, change: Change, factors: Collection[str], catalogue: Catalogue) -> tuple[SceneSpec, Fix] | None:
    """The scene with one change; None where it is no change of an object here, of another factor, or out of range."""
    name, field, value = change.object, change.field, change.value
    if name not in spec.object_ids or FACTOR_OF[field] not in factors:
        return None
    if field == "pos_m":
        if not isinstance(value, list):
            return None
        fix = Fix(name, field, (value[0], value[1], value[2]))
    elif field == "colour":
        made = spec.attribute(name)
        if not isinstance(value, str) or made.asset not in catalogue or value not in catalogue.get(made.asset).colours:
            return None
        fix = Fix(name, field, value)
    else:
        low, high, _ = RANGES[field]
        jointed = field != "opening" or spec.placement(name).opening is not None
        if not jointed or not isinstance(value, float) or not low <= value <= high:
            return None
        fix = Fix(name, field, value)
    try:
        after = fixed(spec, fix)
    except ValueError:
        return None
    return (after, fix) if after != spec else None


def _cured(failures: Sequence[Failure], name: str) -> Failure:
    """The failure that a change of an object is meant for: its own, else the first."""
    return next((f for f in failures if name in (f.object, f.other)), failures[0])


def _lines(spec: SceneSpec) -> list[str]:
    lines = []
    for made in spec.attributes.objects:
        p = spec.placement(made.object)
        place = " ".join(f"{v:.3f}" for v in p.pos_m)
        lines.append(one_line(f"{made.object}: {made.asset}, {place}, {p.yaw_rad:.2f}, {p.support}, {made.scale:g}", 200))
    return lines
