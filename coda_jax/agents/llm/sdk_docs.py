"""What a prompt says of the verbs, ranges and things of scene and generation programs, written from the registries that the doors use.

Nothing of it is typed by hand but the one line that says what an argument is for, and that table must have an entry for every argument of
the verbs and no other.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection, Iterable

from coda_jax.programs.expressions import COMBINATORS
from coda_jax.programs.helpers import HELPERS
from coda_jax.programs.sdk import GENERATION_VERBS, SCENE_VERBS
from coda_jax.scenes import families
from coda_jax.scenes.assets import Asset
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.draft import RELATIONS as AT_START
from coda_jax.scenes.draft import ROLES as SCENE_ROLES
from coda_jax.scenes.edits.verbs import VERBS
from coda_jax.scenes.generation import KINDS, MAX_EDITS, MAX_RELATIONS, MAX_ROLES, RELATIONS, ROLES
from coda_jax.scenes.lifting import NEAR_M
from coda_jax.scenes.placement import REACH_X_M, REACH_Y_M
from coda_jax.scenes.ranges import MAX_FIXTURES, MAX_FREE, RANGES, RESERVED_NAMES
from coda_jax.scenes.sdk import generation_sdk, scene_sdk

# What each argument of a verb is for; its range and default are read elsewhere.
MEANINGS: dict[str, dict[str, str]] = {
    "thing": {
        "name": "lower-case words and numbers joined by _, of category, colour, role or place words: mug_1",
        "asset": "id of the catalogue; or give category and instance",
        "at": "(x, y) of the centre, m: +x away from the base, +y to the left",
        "yaw": "turn about the vertical, rad",
        "on": "name of what it stands on or in; fixtures stand on the table",
        "role": "what it is to the task",
        "colour": "a colour word of the asset",
        "scale": "factor of all lengths",
        "mass_kg": "kg; the asset's density where left out",
        "friction": "sliding friction",
        "z": "height of the centre, m; leave it out and it rests on its support",
        "region": "a place word",
        "clearance_m": "m, kept free round it",
        "category": "a category of the catalogue",
        "instance": "number among the category's instances",
        "opening": "articulated: share of its range at the start",
        "stiffness": "articulated: spring that closes",
        "damping": "articulated: of the joint",
        "joint_friction": "articulated: of the joint",
        "handle_scale": "articulated: thickness of the handle against its asset's",
        "range_share": "articulated: range against its asset's",
    },
    "scene": {
        "instruction": "what the robot is told",
        "objects": "list of thing(...)",
        "goal": "an expression about the target that does not hold at the start",
        "layout": "id of a layout",
        "family": "family of the task",
        "relations": "list of initially(...); on and inside of each support where left out",
        "roles": "list of (role, name) in place of the things' own, where one thing has two roles",
    },
    "initially": {"relation": "how they stand at the start", "subject": "name of a thing", "reference": "name of a thing, or table"},
    "beside": {"x": "the target", "y": "what it is put next to", "within_m": "largest distance of their centres, m"},
    "role": {
        "name": "of the role",
        "kind": "of what may play it",
        "category": "that it must be",
        "affordance": "that it must have",
    },
    "relation": {"name": "how the two must stand before the edit", "subject": "a role", "reference": "a role"},
    "edit": {"verb": "a verb of the table", "low": "magnitude at level 0", "high": "magnitude at level 1"},
    "generation": {
        "factor": "the only factor that is changed",
        "roles": f"1 to {MAX_ROLES} role(...), each name once",
        "edits": f"1 to {MAX_EDITS} edit(...), all of the factor, made one after the other",
        "relations": f"at most {MAX_RELATIONS} relation(...)",
        "level": "where the search for a fitting difficulty begins",
    },
}
_RANGED = {"at": ("x", "y"), "yaw": ("yaw_rad",)}  # arguments that RANGES knows under other names
_SHARES = frozenset({"low", "high", "level"})  # of generation programs, 0 to 1
_CHOICES = {
    ("thing", "role"): SCENE_ROLES,
    ("initially", "relation"): AT_START,
    ("role", "name"): ROLES,
    ("role", "kind"): KINDS,
    ("relation", "name"): RELATIONS,
}


@functools.cache
def signatures(kind: str) -> dict[str, dict[str, str]]:
    """Verb to argument to its default as text ("" where it must be given), read from the source that runs in the sandbox.

    kind: "scene" or "generation".
    """
    text, verbs = (scene_sdk(), SCENE_VERBS) if kind == "scene" else (generation_sdk(), GENERATION_VERBS)
    found: dict[str, dict[str, str]] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name in verbs and node.name not in found:
            names = [a.arg for a in node.args.args]
            defaults = [""] * (len(names) - len(node.args.defaults)) + [ast.unparse(d) for d in node.args.defaults]
            found[node.name] = dict(zip(names, defaults, strict=True))
    return found


def _range(verb: str, argument: str) -> str:
    if verb == "thing":
        fields = _RANGED.get(argument, (argument,))
        return "; ".join(f"{f} {RANGES[f][0]:g} to {RANGES[f][1]:g}{RANGES[f][2]}" for f in fields if f in RANGES)
    if argument in _SHARES:
        return "0 to 1"
    return ""


def _verb_lines(kind: str) -> list[str]:
    lines = []
    for verb, arguments in signatures(kind).items():
        lines.append(f"{verb}({', '.join(n if not d or d == 'None' else f'{n}={d}' for n, d in arguments.items())})")
        for name in arguments:
            parts = [MEANINGS[verb][name], _range(verb, name), ", ".join(_CHOICES.get((verb, name), ()))]
            lines.append(f"  {name}: {'; '.join(p for p in parts if p)}")
    return lines


def helper_lines() -> list[str]:
    """One line for each helper and combinator of expressions."""
    lines = [f"  {h.signature}: {h.formula} ({h.unit}, {h.low:g} to {h.high:g})" for h in HELPERS.values()]
    signed = {"at_least": "(v, c)", "at_most": "(v, c)", "ramp": "(v, lo, hi)"}
    return lines + [f"  {c.name}{signed.get(c.name, '(v, ...)')}: {c.formula}" for c in COMBINATORS.values()]


def family_lines(names: Iterable[str]) -> list[str]:
    """What may be asked in training scenes of the families: forms of the goal, goal pairs, phrasings."""
    lines = []
    for name in names:
        family = families.get(name)
        lines.append(f"family {name}, goal: {family.forms('x')}")
        lines.append(f"  at most {family.most_targets} with the role target, of kind {' or '.join(family.target_kinds)}")
        pairs: dict[str, list[str]] = {}
        for relation, kind in family.pairs_of("train"):
            pairs.setdefault(relation, []).append(kind)
        for relation, kinds in pairs.items():
            said = family.phrases[relation]["train"]
            lines.append(f"  {relation} ({', '.join(kinds)}): say {' | '.join(said)}")
        rules = list(dict.fromkeys(x.rule or x.layout_id for x in family.layouts_of("train")))
        lines.append(f"  layouts: free, {', '.join(rules)}")
    return lines


def _span(values: Iterable[float], digits: int = 3) -> str:
    known = list(values)
    low, high = f"{min(known):.{digits}f}", f"{max(known):.{digits}f}"
    return low if low == high else f"{low}-{high}"


def asset_line(asset: Asset) -> str:
    """One asset: id, kind, sides in metres, mass, narrowest grasp, what it affords."""
    sides = " x ".join(f"{2 * h:.3f}" for h in asset.half_extent_m)
    parts = [f"{asset.asset_id}: {asset.kind}, {sides} m, {asset.mass_kg:.3f} kg"]
    if asset.grasps:
        parts.append(f"grasp {min(g.width_m for g in asset.grasps):.3f} m")
    if max(asset.cavity_half_m):
        parts.append(f"inner {' x '.join(f'{2 * h:.3f}' for h in asset.cavity_half_m)} m")
    return ", ".join([*parts, *asset.affordances])


def category_lines(catalogue: Catalogue, categories: Collection[str] | None = None) -> list[str]:
    """One line for each category: kind, how many instances, the spans of their sides, what they afford; and the colours of all."""
    lines = []
    for name in catalogue.categories():
        if categories is not None and name not in categories:
            continue
        own = catalogue.instances(name)
        sides = " x ".join(_span(2 * a.half_extent_m[i] for a in own) for i in range(3))
        lines.append(f"  {name}: {own[0].kind}, instances 0-{len(own) - 1}, {sides} m, {', '.join(own[0].affordances)}")
    colours = list(dict.fromkeys(c for a in catalogue for c in a.colours))
    return [*lines, f"colours: {', '.join(colours)}"]


def edit_lines(of_families: Collection[str], factor: str | None = None) -> list[str]:
    """One line for each edit verb that scenes of the families take: factor, roles, range, families."""
    lines = []
    for v in VERBS.values():
        if (v.families and not v.families & set(of_families)) or factor not in (None, v.factor):
            continue
        only = f", only {' and '.join(sorted(v.families))}" if v.families else ""
        lines.append(f"  {v.name}: {v.factor}, needs {', '.join(v.needs)}{only}; {v.what}")
    return lines


def scene_docs(of_families: Collection[str]) -> str:
    """The page of scene programs for a prompt."""
    return "\n".join(
        [
            *_verb_lines("scene"),
            f"At most {MAX_FREE} free objects and {MAX_FIXTURES} fixtures (supports, containers, at most one articulated thing).",
            f"Names that are taken: {', '.join(sorted(RESERVED_NAMES))}.",
            f"The arm reaches x {REACH_X_M[0]:g} to {REACH_X_M[1]:g} m, y {REACH_Y_M[0]:g} to {REACH_Y_M[1]:g} m; the table top is z = 0.",
            "Helpers and combinators of goals:",
            *helper_lines(),
            "Tasks:",
            *family_lines(of_families),
        ]
    )


def generation_docs(of_families: Collection[str], factor: str | None = None) -> str:
    """The page of generation programs for a prompt; factor: of which alone the verbs are listed."""
    return "\n".join(
        [
            *_verb_lines("generation"),
            f"near and far: centres nearer or farther than {NEAR_M:g} m. An edit's magnitude is low + level * (high - low), a quantile of",
            "the verb's range in the scene: 0 as it is, 1 the hardest fair task there. target and reference are the task's own objects.",
            "Verbs of edits:",
            *edit_lines(of_families, factor),
        ]
    )
