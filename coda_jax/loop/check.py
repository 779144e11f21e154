"""``--mode=check``: programs of every kind, by anyone, through all that their kind must pass, one JSON line each.

Scenes: sandbox, refusal of held-out content, physics. Generation programs: sandbox. Training programs: sandbox, gates, certificate.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from coda_jax import config as settings
from coda_jax.loop import own_families, parts
from coda_jax.loop.check_training import TrainingCheck
from coda_jax.loop.mending import Checked, checked
from coda_jax.loop.program_files import program_files, read_program
from coda_jax.programs.errors import ProgramError
from coda_jax.programs.sandbox import Sandbox
from coda_jax.programs.training.program import AnyProgram, evaluate_training
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generation import GenerationProgram, evaluate_generation
from coda_jax.scenes.leakage import HeldOutContent, refuse_held_out
from coda_jax.scenes.program import evaluate_scene
from coda_jax.scenes.spec import FACTORS, SceneSpec

_RESULT = re.compile(r"^[ \t]*result[ \t]*=[ \t]*(scene|generation|training)[ \t]*\(", re.MULTILINE)
_STRANGE = re.compile("the catalogue here has no|holds the word|is not known here")  # messages about a word that may be a user's own
_VERB = re.compile(r"\b(scene|generation|training)[ \t]*\(")


def kind_of(text: str) -> str:
    """ "scene", "generation" or "training": the verb that the program's result is made with, or the rarest verb that it uses at all."""
    ended = _RESULT.findall(text)
    used = set(ended[-1:] or _VERB.findall(text))
    return next((kind for kind in ("training", "generation") if kind in used), "scene")


Read = SceneSpec | GenerationProgram | AnyProgram


def read(path: Path, sandbox: Sandbox, catalogue: Catalogue) -> Read | dict[str, Any]:
    """What a program describes, or why it describes nothing: ``kind, line, reason``.

    catalogue: every split's assets, so that the refusal of a held-out one can say that this is the reason.
    """
    try:
        text = read_program(path, sandbox.limits.text_bytes)
        kind = kind_of(text)
        if kind == "training":
            return evaluate_training(text, sandbox)
        if kind == "generation":
            return evaluate_generation(text, sandbox, Catalogue("train"))
        spec = evaluate_scene(text, sandbox, catalogue)
        refuse_held_out(spec, Catalogue("train"))
    except ProgramError as error:
        return {"kind": error.kind.value, "line": error.line, "reason": error.message}
    except HeldOutContent as error:
        return {"kind": f"held_out_{error.kind}", "line": None, "reason": str(error)}
    return spec


def described_generation(program: GenerationProgram) -> dict[str, Any]:
    """``accepted, program_id, factor, verbs, level`` of a generation program; whether it is hard is for ``--mode=verify``."""
    verbs = [edit.verb for edit in program.edits]
    return {"accepted": True, "program_id": program.program_id, "factor": program.factor, "verbs": verbs, "level": program.level}


def described(spec: SceneSpec, found: Checked) -> dict[str, Any]:
    """A scene's ``scene_id, family, instruction, objects``, ``kind`` and ``reason`` of the first check it fails, and all ``failures``.

    ``mended_by``: the changes with which it passes, in order, where repairs found them; ``mended_scene_id`` of what they make.
    """
    report = found.first
    row: dict[str, Any] = {
        "accepted": report.valid,
        "scene_id": spec.scene_id,
        "family": spec.task.family,
        "instruction": spec.task.instruction,
        "objects": [o.object for o in spec.attributes.objects],
    }
    if report.failures:
        first = report.failures[0]
        row |= {"kind": f"invalid_{first.check}", "line": None, "reason": first.message}
        row["failures"] = [f.row() for f in report.failures]
        if found.valid:
            row["mended_by"] = [cure.fix.said() for cures in found.cures for cure in cures]
            row["mended_scene_id"] = found.spec.scene_id
    return row


def verdicts(files: Sequence[Path], config: settings.Config) -> Iterator[dict[str, Any]]:
    """One row for each program, in order: ``program, accepted`` and what its kind's check says; scenes are checked together."""
    catalogue, train, validity, training = Catalogue.all(), Catalogue("train"), parts.validity_of(config), TrainingCheck(config)
    engine = parts.engine_of(train)
    with Sandbox(parts.limits_of(config)) as sandbox:
        for first in range(0, len(files), validity.worlds):
            some = files[first : first + validity.worlds]
            read_ones = [read(file, sandbox, catalogue) for file in some]
            specs = [s for s in read_ones if isinstance(s, SceneSpec)]
            found = iter(checked(specs, [FACTORS] * len(specs), catalogue, train, validity, engine, config.engine.repairs))
            for file, one in zip(some, read_ones, strict=True):
                if isinstance(one, SceneSpec):
                    row = described(one, next(found))
                elif isinstance(one, GenerationProgram):
                    row = described_generation(one)
                elif isinstance(one, dict):
                    row = {"accepted": False} | _hinted(one, config)
                else:
                    row = training.described(one)
                yield {"program": str(file)} | row


def _hinted(refused: dict[str, Any], config: settings.Config) -> dict[str, Any]:
    """A refusal about a word that is unknown where no own assets are, with the setting that would make some known."""
    if config.scenes.own_assets or not _STRANGE.search(refused["reason"]):
        return refused
    return refused | {"reason": f"{refused['reason']}; a thing of your own is known with --config.scenes.own_assets=FOLDER"}


def run(config: settings.Config, path: Path) -> bool:
    """Check every program below ``path`` and print one JSON object a line; True if none was refused."""
    own_families.add(config)
    accepted = True
    for row in verdicts(program_files(path), config):
        accepted &= row["accepted"]
        print(json.dumps(row), flush=True)
    return accepted
