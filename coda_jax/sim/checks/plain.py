"""Checks that need no physics: names, places, sizes and masses."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence

from coda_jax.scenes.assets import Asset
from coda_jax.scenes.families import Goal, family_of, named, read_goals
from coda_jax.scenes.fixes import Fix, first_move, ways, within_area
from coda_jax.scenes.language import noun, templates
from coda_jax.scenes.placement import within_reach
from coda_jax.scenes.shapes.build import volume
from coda_jax.scenes.spec import ObjectAttributes, SceneSpec
from coda_jax.scenes.wording import wording_trouble
from coda_jax.sim.checks.record import Failure, ValiditySettings

_INSIDE = 1e-4  # share by which a new number keeps from the end of its range, so that rounding does not leave it


def plain_failures(spec: SceneSpec, assets: Mapping[str, Asset], settings: ValiditySettings) -> Iterator[Failure]:
    """Failures of names, workspace, table and scale; ``assets`` are the scaled ones by object id."""
    yield from _names(spec, assets)
    for attribute in spec.attributes.objects:
        yield from _workspace(spec, attribute.object, settings)
        yield from _table(spec, attribute.object, assets[attribute.object], settings)
        if assets[attribute.object].kind == "object":
            yield from _scale(attribute, assets[attribute.object], settings)
    yield from _jaws(spec, assets, settings)


def _names(spec: SceneSpec, assets: Mapping[str, Asset]) -> Iterator[Failure]:
    """The instruction must ask for the goal and single out target and reference by what is seen: category, colour where needed."""
    try:
        goals = read_goals(spec)
    except ValueError as error:
        yield Failure("names", "", "", 0.0, "", str(error))
        return
    task = named(goals)
    target, reference = goals[0].target, goals[0].reference
    if unknown := [n for g in goals for n in (g.target, g.reference) if n not in assets]:
        yield Failure(
            "names",
            unknown[0],
            "",
            float(len(unknown)),
            "objects",
            f"the goal speaks of {unknown[0]}, which is no object: use {', '.join(assets)}",
        )
        return
    if (loose := family_of(spec).goal_trouble(spec.task.goal, assets)) is not None:
        yield Failure("names", target, reference, 1.0, "goals", f"{target}: {loose}")
    text = " ".join(re.findall(r"[a-z]+", spec.task.instruction.lower()))
    colour = {o.object: o.colour for o in spec.attributes.objects}
    unnamed = False
    for name in task:
        category = assets[name].category
        alike = [o for o in assets if o != name and assets[o].category == category]
        twins = [o for o in alike if colour[o] == colour[name]]
        if twins:
            message = f"{name} and {twins[0]} are both called {noun(colour[name], category)!r}: give one of them another colour"
            fixes = _other_colours(spec, assets, sorted((twins[0], name), key=lambda n: n in task))
            yield Failure("names", name, twins[0], float(len(twins)), "objects", message, fixes)
        wanted = noun(colour[name], category) if alike else category
        if not re.search(rf"\b{wanted}(s|es)?\b", text):
            reason = f"beside {' and '.join(alike)} of the same category " if alike else ""
            message = f"the instruction {spec.task.instruction!r} does not name {name} {reason}by what can be seen: say 'the {wanted}'"
            unnamed = True
            fixes = (*_wording(spec, goals, assets), *_other_colours(spec, assets, [name], text))
            yield Failure("names", name, "", 1.0, "objects", message, fixes)
    if not unnamed and (reason := wording_trouble(spec, goals, assets)) is not None:
        yield Failure("names", target, reference, 1.0, "relations", f"{target}: {reason}", _wording(spec, goals, assets))


def _wording(spec: SceneSpec, goals: Sequence[Goal], assets: Mapping[str, Asset]) -> tuple[Fix, ...]:
    """The task in the first training phrasing of its relation."""
    family = family_of(spec)
    found = templates(family.name, str(family.relation_of(goals)), "train")
    said = [noun(spec.attribute(n).colour, assets[n].category) for n in named(goals)]
    return (Fix("", "instruction", found[0].render(*said)),) if found else ()


def _other_colours(spec: SceneSpec, assets: Mapping[str, Asset], names: Sequence[str], text: str | None = None) -> tuple[Fix, ...]:
    """For each of the objects, a colour with which no other is called like it; given a text, one with which the text names it."""
    called = {noun(o.colour, assets[o.object].category) for o in spec.attributes.objects}
    fixes = []
    for name in names:
        category = assets[name].category
        free = [c for c in assets[name].colours if noun(c, category) not in called]
        free = free if text is None else [c for c in free if re.search(rf"\b{noun(c, category)}(s|es)?\b", text)]
        fixes += [Fix(name, "colour", c) for c in free[:1]]
    return tuple(fixes)


def _workspace(spec: SceneSpec, name: str, settings: ValiditySettings) -> Iterator[Failure]:
    place = spec.placement(name).pos_m
    for axis, value, (low, high) in (("x", place[0], settings.workspace_x_m), ("y", place[1], settings.workspace_y_m)):
        if not low <= value <= high:
            inside = min(max(value, low), high)
            message = (
                f"{name} stands at {axis} = {value:.3f} m, outside the workspace {low:g}..{high:g} m: "
                f"move it {abs(value - inside):.3f} m along {'+' if inside > value else '-'}{axis}"
            )
            yield Failure("workspace", name, "", abs(value - inside), "m", message, functools.partial(_inside, spec, name))


def _inside(spec: SceneSpec, name: str) -> tuple[Fix, ...]:
    """To the nearest free place of the reachable area."""
    here = spec.placement(name).pos_m
    x, y = within_area(*here[:2])
    offered = ((x - here[0] + dx, y - here[1] + dy, 0.0) for dx, dy, _ in ((0.0, 0.0, 0.0), *ways()))
    move = first_move(spec, name, lambda after: within_reach(*after.placement(name).pos_m[:2]), offered)
    return (move,) if move else ()


def _table(spec: SceneSpec, name: str, asset: Asset, settings: ValiditySettings) -> Iterator[Failure]:
    placement = spec.placement(name)
    bottom = placement.pos_m[2] - asset.half_extent_m[2]
    if bottom < -settings.penetration_m:
        message = f"{name} is {-bottom:.3f} m inside the table: raise it {-bottom:.3f} m, to z = {asset.half_extent_m[2]:.4f}"
        yield Failure("table", name, "table", -bottom, "m", message, (Fix(name, "pos_m", (0.0, 0.0, -bottom)),))
    elif asset.kind != "object" and bottom > settings.pedestal_m + settings.penetration_m:
        high = bottom - settings.pedestal_m
        message = (
            f"{name} is fixed {bottom:.3f} m above the table, at most {settings.pedestal_m:g} m, as on a pedestal, are fair: "
            f"lower it {high:.3f} m, to z = {settings.pedestal_m + asset.half_extent_m[2]:.4f}"
        )
        yield Failure("table", name, "table", high, "m", message, (Fix(name, "pos_m", (0.0, 0.0, -high)),))


def _scale(attribute: ObjectAttributes, asset: Asset, settings: ValiditySettings) -> Iterator[Failure]:
    name = attribute.object
    size = sum(map(volume, asset.primitives))
    measured = (
        ("scale", attribute.scale, settings.scale, ""),
        ("mass", attribute.mass_kg, tuple(d * size for d in settings.density_kg_m3), "kg"),
        ("longest side", 2 * max(asset.half_extent_m), settings.longest_m, "m"),
    )
    for what, value, (low, high), unit in measured:
        if not low <= value <= high:
            nearest = min(max(value, low), high)
            message = (
                f"{name} ({attribute.asset}) has {what} {value:.4g} {unit}".rstrip()
                + f"; plausible for its size is {low:.3g}..{high:.3g} {unit}".rstrip()
                + f": change it to {nearest:.3g}"
            )
            yield Failure(
                "scale", name, "", abs(value - nearest), unit or "times", message, _sizes(attribute, what, value, nearest, settings)
            )


def _sizes(attribute: ObjectAttributes, what: str, value: float, nearest: float, settings: ValiditySettings) -> tuple[Fix, ...]:
    """Another mass or scale with which a measured thing is what is nearest to it and plausible."""
    inside = nearest * (1 + _INSIDE if nearest > value else 1 - _INSIDE)
    if what == "mass":
        by = (value / inside) ** (1 / 3)  # volume goes with the cube of the scale
        fixes = [Fix(attribute.object, "mass_kg", inside), Fix(attribute.object, "scale", attribute.scale * by)]
    else:
        fixes = [Fix(attribute.object, "scale", attribute.scale * inside / value)]
    low, high = settings.scale
    return tuple(f for f in fixes if f.field != "scale" or (isinstance(f.value, float) and low <= f.value <= high))


def _jaws(spec: SceneSpec, assets: Mapping[str, Asset], settings: ValiditySettings) -> Iterator[Failure]:
    for name in spec.with_role("target"):
        if name not in assets:
            continue
        widths = [g.width_m for g in assets[name].grasps]
        if not widths:
            message = f"{name} ({spec.attribute(name).asset}) cannot be grasped: make a graspable object the target"
            yield Failure("scale", name, "gripper", 1.0, "grasps", message)
        elif min(widths) > settings.jaw_m:
            factor = settings.jaw_m / min(widths)
            thing, width = spec.attribute(name), min(widths)
            field, now = ("scale", thing.scale) if thing.articulation is None else ("handle_scale", thing.articulation.handle_scale)
            message = (
                f"the narrowest grasp of {name} is {width:.3f} m wide and the jaws take {settings.jaw_m:g} m: "
                f"{'scale it' if field == 'scale' else 'lower its handle_scale'} to {now * factor:.2f} or less"
            )
            smaller = now * factor * (1 - _INSIDE)
            fixes = (Fix(name, field, smaller),) if field != "scale" or smaller >= settings.scale[0] else ()
            yield Failure("scale", name, "gripper", min(widths) - settings.jaw_m, "m", message, fixes)
