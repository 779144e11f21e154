"""Seed scenes: program text through the sandbox and every check, as a language model's programs will go."""

from __future__ import annotations

import collections

from coda_jax.programs.errors import ProgramError
from coda_jax.programs.sandbox import Sandbox
from coda_jax.scenes import generate
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.leakage import HeldOutContent, refuse_held_out
from coda_jax.scenes.program import evaluate_scene
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.checks.record import ValiditySettings
from coda_jax.sim.validity import check


def seed_scenes(
    family: str, seeds: range, sandbox: Sandbox, validity: ValiditySettings, rejected: collections.Counter[str]
) -> list[tuple[int, SceneSpec]]:
    """(seed, spec) of every accepted program; refusals are counted by reason in ``rejected``."""
    catalogue = Catalogue("train")
    found: list[tuple[int, SceneSpec]] = []
    for seed in seeds:
        try:
            spec = evaluate_scene(generate.sample(catalogue, family, "id", "train", seed), sandbox, catalogue)
            refuse_held_out(spec, catalogue)
        except ProgramError as error:
            rejected[f"program: {error.kind.value}"] += 1
            continue
        except HeldOutContent as error:
            rejected[f"held out: {error.kind}"] += 1
            continue
        found.append((seed, spec))
    accepted = []
    for (seed, spec), report in zip(found, check([s for _, s in found], Catalogue.all(), validity), strict=True):
        if report.valid:
            accepted.append((seed, spec))
        else:
            rejected[f"validity: {report.failures[0].check}"] += 1
    return accepted
