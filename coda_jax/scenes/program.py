"""The door between text and scenes: ``evaluate_scene`` reads a program by anyone, ``to_program`` writes the program of a scene."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterator, Mapping
from typing import NoReturn, Protocol

from coda_jax.programs.code import expression_code, number_code
from coda_jax.programs.errors import ErrorKind, ProgramError, quote
from coda_jax.programs.expressions import Expr, ExpressionError, entities, validate
from coda_jax.programs.sandbox import Sandbox
from coda_jax.scenes import families
from coda_jax.scenes.assets import Asset
from coda_jax.scenes.at_start import true_at_start
from coda_jax.scenes.draft import SceneDraft, ThingDraft, parse_draft
from coda_jax.scenes.ranges import MAX_FIXTURES, MAX_FREE, RESERVED_NAMES
from coda_jax.scenes.sdk import scene_sdk
from coda_jax.scenes.spec import AttributeFactor, ObjectAttributes, Placement, Relation, Role, SceneSpec, SpatialFactor, TaskFactor
from coda_jax.scenes.words import known_words, strange_instruction_word, strange_name_word


class Catalogue(Protocol):
    """What the door needs of a catalogue; one that holds training assets only refuses the rest."""

    def get(self, asset_id: str) -> Asset:
        """Raises KeyError (or a subclass) for an asset it does not hold."""
        ...

    def __iter__(self) -> Iterator[Asset]: ...


def evaluate_scene(text: str, sandbox: Sandbox, catalogue: Catalogue, layouts: Collection[str] | None = None) -> SceneSpec:
    """Evaluate a scene program and check everything that can be checked without physics.

    Args:
      text: program that ends with ``result = scene(...)``; docs/scene_programs.md lists the verbs.
      catalogue: assets that may be used.
      layouts: ids that may be used; None for any.

    Raises:
      ProgramError: the message names the field and what to change.
    """
    draft = parse_draft(sandbox.evaluate(text, scene_sdk()))
    return build_spec(draft, catalogue, layouts)


def build_spec(draft: SceneDraft, catalogue: Catalogue, layouts: Collection[str] | None = None) -> SceneSpec:
    """A validated draft to a spec: assets looked up, omitted fields filled in, names and goal checked.

    Raises:
      ProgramError: kinds UNKNOWN_ASSET and INVALID_SCENE.
    """
    words = known_words(part for asset in catalogue for part in (asset.asset_id, asset.category))
    _check_names(draft)
    _check_words(draft, words)
    if layouts is not None and draft.layout not in layouts:
        _refuse(f"layout: {quote(draft.layout)} is not offered here{_nearest(draft.layout, layouts)}")
    assets = {t.name: _asset(t, catalogue).scaled(t.scale) for t in draft.objects}
    free = [t for t in draft.objects if assets[t.name].kind == "object"]
    fixtures = [t for t in draft.objects if assets[t.name].kind != "object"]
    if len(free) > MAX_FREE:
        _refuse(f"objects: {len(free)} free objects, at most {MAX_FREE}: leave out {len(free) - MAX_FREE}")
    if len(fixtures) > MAX_FIXTURES:
        _refuse(f"objects: {len(fixtures)} supports and containers, at most {MAX_FIXTURES}: leave out {len(fixtures) - MAX_FIXTURES}")
    for thing in fixtures:
        if thing.on != "table":
            _refuse(f"{thing.name}.on: {assets[thing.name].category} is fixed and stands on the table: leave out on=")
    things = (*free, *fixtures)
    heights = _heights(things, assets)
    placements = tuple(
        Placement(t.name, (float(t.x), float(t.y), heights[t.name]), float(t.yaw_rad), t.on, t.region, float(t.clearance_m)) for t in things
    )
    roles = _roles(draft, things, assets)
    _check_goal(families.get(draft.family), draft.goal, roles, placements, assets)
    return SceneSpec(
        TaskFactor(draft.family, " ".join(draft.instruction.split()), draft.goal, _relations(draft, things, assets), roles),
        SpatialFactor(draft.layout, placements),
        AttributeFactor(tuple(_attributes(t, assets[t.name]) for t in things)),
    )


def _refuse(message: str, kind: ErrorKind = ErrorKind.INVALID_SCENE) -> NoReturn:
    raise ProgramError(kind, message)


def _nearest(word: str, words: Collection[str]) -> str:
    near = difflib.get_close_matches(word, list(words), n=3, cutoff=0.4) or sorted(words)[:5]
    return f": use {' or '.join(near)}" if near else ""


def _check_words(draft: SceneDraft, words: frozenset[str]) -> None:
    named = [("layout", draft.layout)]
    for thing in draft.objects:
        named += [("name", thing.name), (f"{thing.name}.region", thing.region)]
    for field, value in named:
        if strange := strange_name_word(value, words):
            use = "use a category, colour, role or place, such as mug_1 or left_tray"
            _refuse(f"{field}: {quote(value)} holds the word {quote(strange)}: {use}")
    if strange := strange_instruction_word(draft.instruction, words):
        use = "say it with colours, categories and words such as put, place, on, next to"
        _refuse(f"instruction: the word {quote(strange)} is not known here: {use}")


def _check_names(draft: SceneDraft) -> None:
    names = [t.name for t in draft.objects]
    if reserved := next((n for n in names if n in RESERVED_NAMES), None):
        _refuse(f"name: {quote(reserved)} is reserved: rename the object, such as mug_1")
    if twice := next((n for n in names if names.count(n) > 1), None):
        _refuse(f"name: {quote(twice)} is given to {names.count(twice)} objects: give each its own name")
    for thing in draft.objects:
        if thing.on != "table" and (thing.on == thing.name or thing.on not in names):
            others = ["table", *(n for n in names if n != thing.name)]
            _refuse(f"{thing.name}.on: {quote(thing.on)} is no other object of this scene{_nearest(thing.on, others)}")


def _asset(thing: ThingDraft, catalogue: Catalogue) -> Asset:
    if (thing.asset is None) == (thing.category is None):
        _refuse(f"{thing.name}: give either asset or category")
    if thing.asset is not None:
        try:
            asset = catalogue.get(thing.asset)
        except KeyError:
            ids = [a.asset_id for a in catalogue]
            message = f"{thing.name}.asset: the catalogue here has no {quote(thing.asset)}{_nearest(thing.asset, ids)}"
            raise ProgramError(ErrorKind.UNKNOWN_ASSET, message) from None
    else:
        found = sorted((a for a in catalogue if a.category == thing.category), key=lambda a: a.asset_id)
        if not found:
            categories = {a.category for a in catalogue}
            message = f"{thing.name}.category: the catalogue here has no {quote(thing.category)}{_nearest(str(thing.category), categories)}"
            raise ProgramError(ErrorKind.UNKNOWN_ASSET, message)
        number = thing.instance or 0
        if number >= len(found):
            _refuse(f"{thing.name}.instance: {number}, but {thing.category} has instances 0 to {len(found) - 1} here")
        asset = found[number]
    if thing.colour is not None and thing.colour not in asset.colours:
        _refuse(f"{thing.name}.colour: {quote(thing.colour)}: use one of {', '.join(asset.colours)}")
    return asset


def _heights(things: tuple[ThingDraft, ...], assets: Mapping[str, Asset]) -> dict[str, float]:
    """z of every centre: as given, or resting on the support (a container's floor, otherwise the top of its bounding box)."""
    heights: dict[str, float] = {}
    waiting = list(things)
    while waiting:
        ready = [t for t in waiting if t.on == "table" or t.on in heights]
        if not ready:
            _refuse(f"{waiting[0].name}.on: {' and '.join(t.name for t in waiting[:4])} stand on each other: put one of them on the table")
        for thing in ready:
            half = assets[thing.name].half_extent_m[2]
            heights[thing.name] = float(thing.z) if thing.z is not None else round(_surface(thing.on, heights, assets) + half, 6)
        waiting = [t for t in waiting if t.name not in heights]
    return heights


def _surface(support: str, heights: Mapping[str, float], assets: Mapping[str, Asset]) -> float:
    if support == "table":
        return 0.0
    asset = assets[support]
    if asset.kind == "container":
        return heights[support] + asset.cavity_pos_m[2] - asset.cavity_half_m[2]
    return heights[support] + asset.half_extent_m[2]


def _attributes(thing: ThingDraft, scaled: Asset) -> ObjectAttributes:
    mass = thing.mass_kg if thing.mass_kg is not None else round(scaled.mass_kg * thing.scale**3, 6)
    friction = thing.friction if thing.friction is not None else scaled.friction
    colour = thing.colour or scaled.colours[0]
    return ObjectAttributes(thing.name, scaled.asset_id, float(thing.scale), float(mass), float(friction), colour)


def _roles(draft: SceneDraft, things: tuple[ThingDraft, ...], assets: Mapping[str, Asset]) -> tuple[Role, ...]:
    if draft.roles is not None:
        roles = tuple(Role(r.object, r.role) for r in draft.roles)
        if unknown := next((r.object for r in roles if r.object not in assets), None):
            _refuse(f"roles: {quote(unknown)} is no object of this scene{_nearest(unknown, assets.keys())}")
        if len(set(roles)) < len(roles):
            _refuse("roles: one of them is given twice: leave it out")
    else:
        roles = tuple(Role(t.name, t.role or _usual_role(assets[t.name])) for t in things)
    targets, family = [r.object for r in roles if r.role == "target"], families.get(draft.family)
    if not 1 <= len(targets) <= family.most_targets:
        most = "exactly one: it is the object" if family.most_targets == 1 else f"1 to {family.most_targets}: they are the objects"
        _refuse(f'role: {len(targets)} objects have the role "target", a scene has {most} to be moved')
    if fixed := [t for t in targets if assets[t].kind not in family.target_kinds]:
        _refuse(f"{fixed[0]}.role: {assets[fixed[0]].category} is fixed and cannot be the target: choose a free object")
    return roles


def _usual_role(asset: Asset) -> str:
    return "distractor" if asset.kind == "object" else asset.kind


def _support_relation(support: str, assets: Mapping[str, Asset]) -> str:
    return "inside" if support != "table" and assets[support].kind == "container" else "on"


def _relations(draft: SceneDraft, things: tuple[ThingDraft, ...], assets: Mapping[str, Asset]) -> tuple[Relation, ...]:
    if draft.relations is None:
        return tuple(Relation(_support_relation(t.on, assets), t.name, t.on) for t in things)
    supports = {t.name: t.on for t in things}
    for r in draft.relations:
        for name in (r.subject, r.reference):
            if name not in supports and (name != "table" or name == r.subject):
                _refuse(f"relations: {quote(name)} is no object of this scene{_nearest(name, [*supports, 'table'])}")
        if r.subject == r.reference:
            _refuse(f"relations: {r.name}({r.subject}, {r.reference}) relates an object to itself: name two")
        if r.name in ("on", "inside") and supports[r.subject] != r.reference:
            _refuse(f"relations: {r.name}({r.subject}, {r.reference}), but {r.subject} stands on {supports[r.subject]}: make both agree")
    return tuple(Relation(r.name, r.subject, r.reference) for r in draft.relations)


def _check_goal(
    family: families.Family, goal: Expr, roles: tuple[Role, ...], placements: tuple[Placement, ...], assets: Mapping[str, Asset]
) -> None:
    containers = [name for name, asset in assets.items() if asset.kind == "container"]
    try:
        validate(goal, assets.keys(), condition=True, containers=containers, articulated=())
    except ExpressionError as error:
        _refuse(f"goal: {error}")
    targets = [r.object for r in roles if r.role == "target"]
    target = next((t for t in targets if t not in entities(goal)), targets[0])
    if target not in entities(goal):
        _refuse(f"goal: does not mention the target {target}: ask for something about it, such as on({target!r}, ...)")
    if true_at_start(goal, {p.object: p for p in placements}, containers):
        _refuse("goal: already holds at the start: move the target away from it, or ask for something else")
    try:
        family.read(goal, targets)
    except ValueError as error:
        _refuse(f"goal: {error}")
    if (reason := family.goal_trouble(goal, assets)) is not None:
        _refuse(f"goal: {reason}")


def to_program(spec: SceneSpec) -> str:
    """Canonical program text of a spec; evaluating it with a catalogue that holds its assets gives the same ``scene_id``.

    Raises:
      ValueError: the placements are not in the order of the objects.
    """
    if tuple(p.object for p in spec.spatial.placements) != spec.object_ids:
        raise ValueError("a spec lists its placements in the order of its objects: free objects, then fixtures")
    task = spec.task
    lines = [
        "result = scene(",
        f"    instruction={json.dumps(task.instruction)},",
        f"    layout={json.dumps(spec.spatial.layout)},",
        f"    family={json.dumps(task.family)},",
        "    objects=[",
        *(f"        {_thing_code(spec, name)}," for name in spec.object_ids),
        "    ],",
        "    relations=[",
        *(f"        initially({json.dumps(r.name)}, {json.dumps(r.subject)}, {json.dumps(r.reference)})," for r in task.relations),
        "    ],",
    ]
    if [r.object for r in task.roles] != list(spec.object_ids):
        pairs = ", ".join(f"({json.dumps(r.role)}, {json.dumps(r.object)})" for r in task.roles)
        lines.append(f"    roles=[{pairs}],")
    return "\n".join([*lines, f"    goal={expression_code(task.goal, 4)},", ")", ""])


def _thing_code(spec: SceneSpec, name: str) -> str:
    placed, made = spec.placement(name), spec.attribute(name)
    x, y, z = map(number_code, placed.pos_m)
    fields = {"asset": json.dumps(made.asset), "at": f"({x}, {y})", "z": z, "yaw": number_code(placed.yaw_rad)}
    fields["on"] = json.dumps(placed.support)
    if (role := next((r.role for r in spec.task.roles if r.object == name), None)) is not None:
        fields["role"] = json.dumps(role)
    fields |= {"colour": json.dumps(made.colour), "scale": number_code(made.scale), "mass_kg": number_code(made.mass_kg)}
    fields |= {"friction": number_code(made.friction), "region": json.dumps(placed.region)}
    fields["clearance_m"] = number_code(placed.clearance_m)
    return f"thing({json.dumps(name)}, {', '.join(f'{key}={code}' for key, code in fields.items())})"
