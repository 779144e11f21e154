"""Putting a generation program to work in a scene: which objects can play its roles, and the edited scene that comes out.

Source: METHOD 9 (paper, appendix A): exhaustive matching against the symbol table, ranked by relation margins, at most three kept.
"""

from __future__ import annotations

import dataclasses
import math
import zlib
from collections.abc import Callable, Iterator, Mapping

from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.edits.lock import require_lock
from coda_jax.scenes.edits.record import EditError
from coda_jax.scenes.edits.verbs import apply_edit
from coda_jax.scenes.families import read_goal
from coda_jax.scenes.generation import GenerationProgram, RoleNeed, check_program
from coda_jax.scenes.spec import SceneSpec
from coda_jax.scenes.tabletop import Tabletop

MAX_BINDINGS = 3
NEAR_M = 0.2  # centres closer than this are near, others far


@dataclasses.dataclass(frozen=True)
class Binding:
    """Who plays which role. margin: smallest margin of a measured relation, m; infinite where none is measured."""

    roles: tuple[tuple[str, str], ...]
    margin: float

    def objects(self) -> dict[str, str]:
        """Role to object id."""
        return dict(self.roles)


def _step(axis: int, sign: float) -> Callable[[Tabletop, str, str], float]:
    return lambda top, a, b: sign * (top.places[a].pos_m[axis] - top.places[b].pos_m[axis])


def _if(holds: bool) -> float:
    return math.inf if holds else -math.inf


# Margin in metres, positive where the relation holds. Seen from the base: +x is ahead, +y to the left.
_MARGINS: dict[str, Callable[[Tabletop, str, str], float]] = {
    "near": lambda top, a, b: NEAR_M - top.distance(a, b),
    "far": lambda top, a, b: top.distance(a, b) - NEAR_M,
    "left_of": _step(1, 1.0),
    "right_of": _step(1, -1.0),
    "behind": _step(0, 1.0),
    "in_front_of": _step(0, -1.0),
    "on": lambda top, a, b: _if(top.places[a].support == b and top.assets[b].kind != "container"),
    "inside": lambda top, a, b: _if(top.places[a].support == b and top.assets[b].kind == "container"),
    "same_colour": lambda top, a, b: _if(top.spec.attribute(a).colour == top.spec.attribute(b).colour),
    "same_category": lambda top, a, b: _if(top.assets[a].category == top.assets[b].category),
}


def _plays(top: Tabletop, need: RoleNeed, name: str) -> bool:
    asset, goal = top.assets[name], top.goal
    own = [role for role, n in (("target", goal.target), ("reference", goal.reference)) if n == name]  # both where it goes nowhere else
    if not own and name in top.task_objects:
        return False
    if own or need.name in ("target", "reference"):
        if need.name not in own:
            return False
    elif need.name == "obstacle" and asset.kind != "object":
        return False
    if need.kind is not None and asset.kind != need.kind:
        return False
    if need.category is not None and asset.category != need.category:
        return False
    return need.affordance is None or need.affordance in asset.affordances


def bind(program: GenerationProgram, spec: SceneSpec, catalogue: Catalogue) -> list[Binding]:
    """Bindings of a program's roles to the objects of a scene: distinct objects, every requirement and relation met.

    "target" and "reference" are the task's own, no other role is; one object plays both where the task moves it to no other. The best
    come first: largest smallest margin, then larger margins in all, then nearer to the target; at most MAX_BINDINGS. An empty list: the
    program does not fit the scene.

    Raises:
      ProgramError: the program makes no sense.
      ValueError: the scene states no target or relation.
    """
    check_program(program, catalogue)
    top = Tabletop(spec)
    found = []
    for roles in _assignments(program, top, {}):
        margins = [_MARGINS[r.name](top, roles[r.subject], roles[r.reference]) for r in program.relations]
        if any(m <= 0 for m in margins):
            continue
        measured = [m for m in margins if math.isfinite(m)]
        far = sum(top.distance(n, top.goal.target) for n in roles.values())
        rank = -round(min(margins, default=math.inf), 6), -round(sum(measured), 6), round(far, 6), tuple(roles.values())
        found.append((rank, Binding(tuple(roles.items()), min(measured, default=math.inf))))
    return [b for _, b in sorted(found, key=lambda f: f[0])[:MAX_BINDINGS]]


def unbound(program: GenerationProgram, spec: SceneSpec) -> str:
    """Why ``bind`` finds nothing, in a few words without the names of objects."""
    top = Tabletop(spec)
    missing = [need.name for need in program.roles if not any(_plays(top, need, name) for name in top.assets)]
    if missing:
        return f"no object plays {' or '.join(missing)}"
    if next(_assignments(program, top, {}), None) is None:
        return f"too few objects to play {' and '.join(need.name for need in program.roles)}"
    return f"none of its objects stand so: {', '.join(f'{r.subject} {r.name} {r.reference}' for r in program.relations)}"


def _assignments(program: GenerationProgram, top: Tabletop, chosen: Mapping[str, str]) -> Iterator[dict[str, str]]:
    if len(chosen) == len(program.roles):
        yield dict(chosen)
        return
    need = program.roles[len(chosen)]
    for name in top.assets:
        taken = [role for role, n in chosen.items() if n == name]
        if all({role, need.name} == {"target", "reference"} for role in taken) and _plays(top, need, name):
            yield from _assignments(program, top, {**chosen, need.name: name})


def generate(
    program: GenerationProgram, spec: SceneSpec, binding: Binding, seed: int, catalogue: Catalogue, level: float | None = None
) -> SceneSpec:
    """The scene that a program makes of another one.

    Args:
      binding: one of ``bind``'s.
      level: in 0..1; None for the program's own.

    Raises:
      ProgramError: the program makes no sense.
      EditError: an edit cannot be applied here; says which and why.
      FactorLockError, HeldOutContent: as apply_edit.
    """
    check_program(program, catalogue)
    chosen = program.level if level is None else level
    if not 0 <= chosen <= 1:
        raise EditError(f"level: must be between 0 and 1, not {chosen}")
    if missing := [r.name for r in program.roles if r.name not in binding.objects()]:
        raise EditError(f"the binding leaves the role {missing[0]} open: use one of bind(program, spec, catalogue)")
    made = spec
    for i, step in enumerate(program.edits):
        # a task edit may have changed who the task's own objects are
        goal = read_goal(made)
        roles = {r: {"target": goal.target, "reference": goal.reference}.get(r, n) for r, n in binding.roles}
        made = apply_edit(made, step.verb, roles, step.magnitude(chosen), zlib.crc32(f"{seed}/{i}".encode()), catalogue)
    require_lock(spec, made, program.factor, "the program")
    return made
