"""Random edits over all families, each judged: ``python -m benchmarks.random_edits [--edits=10000] [--out=FILE]``.

A base scene of a seed, a verb, a binding and a magnitude are drawn; every fifth time a program of two verbs of one factor. What is judged:
no exception but EditError, the factor lock, the refusal of held-out content, validity, and by physics of the benchmark's own how far
anything moves when nobody touches it. With --out every edit is one line of the file and a second call goes on where the first stopped. A
table goes to stderr, one JSON object a line to stdout.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import mujoco
import numpy as np
from absl import app, flags

from benchmarks.edit_tables import table
from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.evaluation.terminal import Progress
from coda_jax.loop import parts
from coda_jax.programs.sandbox import Sandbox
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.edits.lock import edited_factors
from coda_jax.scenes.edits.record import EditError
from coda_jax.scenes.edits.verbs import VERBS, apply_edit, usual_bindings, verbs_of
from coda_jax.scenes.generate import sample_spec
from coda_jax.scenes.generation import EditStep, GenerationProgram, RoleName, RoleNeed, evaluate_generation, to_text
from coda_jax.scenes.leakage import HeldOutContent, refuse_held_out
from coda_jax.scenes.lifting import bind, generate
from coda_jax.scenes.spec import FACTORS, SceneSpec
from coda_jax.sim import validity
from coda_jax.sim.checks.record import Failure
from coda_jax.sim.compile import bucket_of, compile_scene
from coda_jax.types import FREE_SLOTS, TIMESTEP_S

_EDITS = flags.DEFINE_integer("edits", 10_000, "Edits to draw.", lower_bound=1)
_FAMILIES = flags.DEFINE_list("families", list(settings.FAMILIES), "Families of the base scenes, in turn.")
_SEED = flags.DEFINE_integer("seed", 0, "Of all draws.")
_OUT = flags.DEFINE_string("out", "", "File of one JSON line an edit; edits that it holds are not made again.")
PAIRS = 0.2  # share of programs of two verbs
SEEDS = 1_000_000  # of base scenes
WINDOW_S, LOOK_S = 1.0, 0.05
_FIXES = "move raise lower say give change scale place use put lay make remove ask write open close turn leave free"
FIXES = frozenset(_FIXES.split())  # one of them begins what a message asks for


@dataclasses.dataclass
class Edit:
    """One drawn edit. spec: None where it could not be made. row: what is written down."""

    spec: SceneSpec | None
    row: dict[str, Any]


def drawn(seed: int, number: int, families: Sequence[str], train: Catalogue, sandbox: Sandbox) -> Edit:
    """Edit ``number`` of a seed; the same whatever came before it."""
    rng = np.random.default_rng([seed, number])
    family = families[number % len(families)]
    base = int(rng.integers(SEEDS))
    row: dict[str, Any] = {"seed": seed, "number": number, "family": family, "base": base}
    try:
        spec = sample_spec(train, family, "id", "train", base)
        try:
            refuse_held_out(spec, train)
        except HeldOutContent as error:  # runs draw another seed scene instead
            return Edit(None, row | {"base_refused": str(error)})
        factor = str(rng.choice(FACTORS))
        own, magnitude = verbs_of((family,), factor), round(float(rng.uniform()), 6)
        chosen = [str(v) for v in rng.choice(own, 2 if rng.random() < PAIRS else 1, replace=False)]
        row |= {"verbs": chosen, "factor": factor, "magnitude": magnitude}
        edit_seed = int(rng.integers(2**31))
        if len(chosen) == 1:
            bindings = usual_bindings(spec, chosen[0])
            if not bindings:
                return Edit(None, row | {"error": "no object plays the roles"})
            after = apply_edit(spec, chosen[0], bindings[int(rng.integers(len(bindings)))], magnitude, edit_seed, train)
        else:
            program = evaluate_generation(to_text(_program(factor, chosen, magnitude)), sandbox, train)
            bound = bind(program, spec, train)
            if not bound:
                return Edit(None, row | {"error": "no object plays the roles"})
            after = generate(program, spec, bound[int(rng.integers(len(bound)))], edit_seed, train)
        changed = edited_factors(spec, after)
        if set(changed) - {factor}:
            row["lock"] = list(changed)
        row["changed"] = bool(changed)
        refuse_held_out(after, train)
        return Edit(after, row)
    except EditError as error:
        return Edit(None, row | {"error": str(error)})
    except Exception:  # any other is what this benchmark looks for
        return Edit(None, row | {"crash": traceback.format_exc()})


def _program(factor: str, verbs: list[str], level: float) -> GenerationProgram:
    roles = dict.fromkeys(role for verb in verbs for role in VERBS[verb].needs)
    needs = tuple(RoleNeed(cast(RoleName, r), kind="object" if r == "obstacle" else None) for r in roles)
    return GenerationProgram(cast(Any, factor), needs, tuple(EditStep(v, 0.0, 1.0) for v in verbs), level=level)


def movement_m(spec: SceneSpec, catalogue: Catalogue) -> tuple[float, float, str]:
    """Largest way of any free object in WINDOW_S from where the scene puts it, in the WINDOW_S after that, and which object went furthest.

    Plain ``mj_step`` with the arm at home and looks every LOOK_S, so that what goes and comes back is seen.
    """
    scene = compile_scene(spec, catalogue, bucket_of(spec, catalogue))
    data = mujoco.MjData(scene.model)
    data.qpos[:] = scene.qpos
    data.ctrl[:] = scene.robot.home_command
    mujoco.mj_forward(scene.model, data)
    bodies = {name: scene.model.body(f"o{token}").id for name, token in scene.index.items() if token < FREE_SLOTS}
    ways, furthest = [], ("", 0.0)
    for _ in range(2):
        start, way = data.xpos.copy(), 0.0
        for _ in range(round(WINDOW_S / LOOK_S)):
            for _ in range(round(LOOK_S / TIMESTEP_S)):
                mujoco.mj_step(scene.model, data)
            for name, body in bodies.items():
                gone = float(np.linalg.norm(data.xpos[body] - start[body]))
                way = max(way, gone)
                if gone > furthest[1]:
                    furthest = name, gone
        ways.append(way)
    return ways[0], ways[1], furthest[0]


def unexplained(failure: Failure, spec: SceneSpec) -> str:
    """What a failure lacks of object, amount with unit, and a message with a change to make; "" without a lack."""
    if failure.object not in spec.object_ids:
        return f"object {failure.object!r} is none of the scene"
    if not (np.isfinite(failure.amount) and failure.amount > 0 and failure.unit):
        return f"amount {failure.amount} {failure.unit!r}"
    words = failure.message.lower().replace(":", " ").replace(";", " ").replace(",", " ").split()
    if failure.object not in failure.message or not FIXES & set(words):
        return "message without the object or without a change"
    return ""


def judge(batch: list[Edit], everything: Catalogue, limits: validity.ValiditySettings) -> None:
    """Add validity and movement to the rows of the scenes that were made."""
    made = [e for e in batch if e.spec is not None]
    for edit, report in zip(made, validity.check([cast(SceneSpec, e.spec) for e in made], everything, limits), strict=True):
        spec = cast(SceneSpec, edit.spec)
        edit.row["valid"] = report.valid
        edit.row["failures"] = [f.row(fixes=False) | {"lacks": unexplained(f, spec)} for f in report.failures]
        first, second, name = movement_m(spec, everything)
        edit.row |= {"moved_m": round(first, 6), "moved_after_m": round(second, 6), "mover": name}


def earlier(out: Path, seed: int) -> list[dict[str, Any]]:
    """The edits that a file holds.

    Raises:
      InputError: they are of another seed, or a line of the file is broken.
    """
    try:
        rows = [json.loads(line) for line in out.read_text().splitlines()]
    except ValueError as error:
        raise InputError(f"{out} has a broken line ({error}): remove its last line, or give another --out") from error
    if [(r.get("seed"), r["number"]) for r in rows] != [(seed, i) for i in range(len(rows))]:
        raise InputError(f"{out} holds other edits than the first of --seed={seed}: give their seed, or another --out")
    return rows


def main(argv: list[str]) -> None:
    del argv
    runtime.setup()
    config = settings.default()
    config.sim.threads = 1
    limits = dataclasses.replace(parts.validity_of(config), threads=1)
    train, everything = Catalogue("train"), Catalogue.all()
    out = Path(_OUT.value) if _OUT.value else None
    rows = earlier(out, _SEED.value) if out is not None and out.exists() else []
    cpu, wall = time.process_time(), time.perf_counter()
    with Sandbox(parts.limits_of(config)) as sandbox, Progress("random edits", _EDITS.value, "edits", interval_s=30) as progress:
        progress.skip(len(rows))
        while len(rows) < _EDITS.value:
            numbers = range(len(rows), min(len(rows) + limits.worlds * 4, _EDITS.value))
            batch = [drawn(_SEED.value, n, _FAMILIES.value, train, sandbox) for n in numbers]
            judge(batch, everything, limits)
            if out is not None:
                with out.open("a") as file:
                    file.writelines(json.dumps(e.row) + "\n" for e in batch)
            rows += [e.row for e in batch]
            progress.update(len(rows), crashes=sum("crash" in r for r in rows))
    print(table(rows), file=sys.stderr)
    print(f"{time.process_time() - cpu:.0f} s of CPU, {time.perf_counter() - wall:.0f} s", file=sys.stderr)
    valid = [r for r in rows if r.get("valid")]
    figures = {
        "edits": len(rows),
        "bases_refused": sum("base_refused" in r for r in rows),
        "applied": sum("valid" in r for r in rows),
        "valid": len(valid),
        "crashes": sum("crash" in r for r in rows),
        "lock_broken": sum("lock" in r for r in rows),
        "accepted_and_moving": sum(max(r["moved_m"], r["moved_after_m"]) > 0.005 for r in valid),
        "failures_unexplained": sum(any(f["lacks"] for f in r["failures"]) for r in rows if "failures" in r),
    }
    print(json.dumps({"name": "random_edits", "value": figures, "unit": "edits", "seed": _SEED.value, "versions": runtime.versions()}))


if __name__ == "__main__":
    app.run(main)
