"""Edited scenes: drawn at random or made by a program, checked on physics, mended where a check says how."""

from __future__ import annotations

import dataclasses
import re
import zlib
from collections.abc import Sequence

import numpy as np

from coda_jax.agents.base import DataEngine, Outcome
from coda_jax.loop import parts
from coda_jax.loop.mending import checked
from coda_jax.loop.own_programs import patiently
from coda_jax.loop.run import Run
from coda_jax.programs.sandbox import Sandbox
from coda_jax.scenes.edits.lock import edited_factors
from coda_jax.scenes.edits.record import EditError
from coda_jax.scenes.edits.verbs import VERBS, applied, verbs_of
from coda_jax.scenes.fixes import Fix
from coda_jax.scenes.generation import GenerationProgram, evaluate_generation
from coda_jax.scenes.lifting import bind, generate, unbound
from coda_jax.scenes.measures import MEASURES, measure
from coda_jax.scenes.spec import FACTORS, SceneSpec
from coda_jax.sim.checks.record import Failure

_NAME = re.compile(r"\b[a-z]+_\d+\b")
SECOND_FACTOR = 0.3  # share of random variants in which two factors are edited
LEAST_MAGNITUDE = 0.2
DRAWS = 6  # of verbs for one random variant
KEPT = 0.5  # of an edit's change: with less left, a variant is nearer to its base than to what its magnitude says
_NO_CHANGE = 1e-6  # of a measure, in its unit


@dataclasses.dataclass(frozen=True)
class Base:
    """A training scene that variants are made from; ``number`` is what the noise of its rollouts folds in."""

    number: int
    spec: SceneSpec


@dataclasses.dataclass(frozen=True)
class Made:
    """An edited scene and how it was made. factor: of SceneSpec, None where more than one. level: of a program."""

    base: Base
    spec: SceneSpec
    verbs: tuple[tuple[str, float], ...]
    factor: str | None
    level: float | None = None


@dataclasses.dataclass(frozen=True)
class Built:
    """One attempt to build a scene: the check that failed, the change that was tried next (None: given up), and whether the scene passed
    then."""

    verb: str
    level: float
    failure: Failure
    fix: Fix | None
    accepted: bool


@dataclasses.dataclass
class Batch:
    """made: valid variants. refused: reason to count. history: every failed check, for the engine's priors. rolled: rollouts that chose
    among valid variants, each once. proposed, first, valid: scenes that were checked, that passed as they were, that passed in the end."""

    proposed: int = 0
    first: int = 0
    valid: int = 0
    made: list[Made] = dataclasses.field(default_factory=list)
    refused: dict[str, int] = dataclasses.field(default_factory=dict)
    history: list[Built] = dataclasses.field(default_factory=list)
    rolled: list[Outcome] = dataclasses.field(default_factory=list)

    def checks(self, traces: bool) -> dict[str, int | bool]:
        """Of a row of the metrics; traces: whether earlier constructions were priors."""
        return {"proposed": self.proposed, "first": self.first, "valid": self.valid, "traces": traces}

    def refuse(self, reason: str) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + 1


def seed_of(*parts_: object) -> int:
    """A number that stands for its parts, the same on every machine."""
    return zlib.crc32("/".join(map(str, parts_)).encode())


def own_program(run: Run, sandbox: Sandbox, text: str) -> GenerationProgram:
    """A program of our own engine through the door; a worker that died or stalled is no fault of the text.

    Raises:
      ProgramError: the door refuses it. Stopped: as ``patiently``.
    """
    return patiently(sandbox, lambda: evaluate_generation(text, sandbox, run.train))


def drawn_edit(
    run: Run, spec: SceneSpec, verb: str, rng: np.random.Generator, low: float, high: float
) -> tuple[SceneSpec, tuple[str, float]] | None:
    """The scene edited by a verb at a magnitude drawn between two, and the edit; None where it cannot be applied."""
    magnitude = round(float(rng.uniform(low, high)), 3)
    found = applied(spec, verb, run.train, magnitude, int(rng.integers(2**31)))
    return (found[1], (verb, magnitude)) if found else None


def random_variant(run: Run, base: Base, rng: np.random.Generator, factors: Sequence[str] = FACTORS) -> Made | None:
    """An edit of one factor, or of two; verbs and magnitudes at random. None where no draw could be applied."""
    spec, verbs = base.spec, []
    chosen = list(rng.permutation(list(factors)))[: 2 if len(factors) > 1 and rng.random() < SECOND_FACTOR else 1]
    for factor in chosen:
        own = verbs_of((spec.task.family,), factor)
        for name in rng.permutation(own)[:DRAWS]:
            found = drawn_edit(run, spec, str(name), rng, LEAST_MAGNITUDE, 1.0)
            if found is not None:
                spec, edit = found
                verbs.append(edit)
                break
    changed = edited_factors(base.spec, spec)
    if not changed:
        return None
    return Made(base, spec, tuple(verbs), changed[0] if len(changed) == 1 else None)


def of_family(bases: Sequence[Base], family: str) -> list[Base]:
    """The bases of a family, in their order: what a mode of that family is made again in."""
    return [b for b in bases if b.spec.task.family == family]


def program_variant(run: Run, program: GenerationProgram, base: Base, level: float, batch: Batch) -> Made | None:
    """What the program makes of a base at a level, with the best binding that works; None, refused in ``batch``, where it makes nothing."""
    bindings, reason = bind(program, base.spec, run.train), ""
    if not bindings:
        reason = f"{program.edits[0].verb}: {unbound(program, base.spec)}"
    for binding in bindings:
        try:
            spec = generate(program, base.spec, binding, seed_of("generate", run.config.seed, base.number), run.train, level)
        except EditError as error:
            # without the objects' own names, so that equal reasons are counted as one
            reason = f"{program.edits[0].verb}: {_NAME.sub('it', str(error).split(':')[0])}"
            continue
        if not edited_factors(base.spec, spec):
            reason = f"{program.edits[0].verb}: nothing changed"
            continue
        verbs = tuple((step.verb, round(step.magnitude(level), 6)) for step in program.edits)
        return Made(base, spec, verbs, program.factor, level)
    batch.refuse(reason)
    return None


def took_back(made: Made, mended: SceneSpec) -> bool:
    """Whether a repair took an edit back: a factor is the base's again, or less than KEPT is left of what a verb measurably changed."""
    if mended == made.spec:
        return False
    if edited_factors(made.base.spec, mended) != edited_factors(made.base.spec, made.spec):
        return True
    at_base, edited, now = (measure(spec) for spec in (made.base.spec, made.spec, mended))
    for name in {VERBS[verb].measure for verb, _ in made.verbs} & set(MEASURES):
        change = edited[name] - at_base[name]
        if abs(change) > _NO_CHANGE and (now[name] - at_base[name]) / change < KEPT:
            return True
    return False


def verified(run: Run, candidates: Sequence[Made], batch: Batch, repairs: int, engine: DataEngine | None = None) -> list[Made]:
    """The candidates that are fair tasks, in order; invalid ones are mended within what their edits may change.

    Adds to ``batch``: valid ones, how many were so at first, refusals by check, and each failed check with the repair that was tried. A
    scene whose repair took an edit back is refused: it is no variant of what its verbs say. engine: who mends, None for the scripted one.
    """
    factors = [edited_factors(m.base.spec, m.spec) for m in candidates]
    settings, mends = parts.validity_of(run.config), engine or parts.engine_of(run.train)
    found = checked([m.spec for m in candidates], factors, run.train, run.train, settings, mends, repairs)
    made = []
    for candidate, one in zip(candidates, found, strict=True):
        kept = one.valid and not took_back(candidate, one.spec)
        batch.proposed += 1
        batch.first += one.first.valid
        verb, level = candidate.verbs[0][0], candidate.verbs[0][1]
        for attempt, cures in enumerate(one.cures, 1):
            passed = kept and attempt == len(one.cures)
            batch.history += [Built(verb, level, c.failure, c.fix, passed) for c in cures]
        if kept:
            batch.valid += 1
            made.append(dataclasses.replace(candidate, spec=one.spec))
        else:
            left = (one.report.failures or one.first.failures)[0]
            batch.history.append(Built(verb, level, left, None, False))
            batch.refuse("the repair took the edit back" if one.valid else left.check)
    batch.made.extend(made)
    return made
