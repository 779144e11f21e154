"""``--mode=check``: programs by anyone through the sandbox and every check that needs no physics, one JSON line each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from coda_jax import config as settings
from coda_jax.programs.errors import ErrorKind, ProgramError
from coda_jax.programs.limits import Limits
from coda_jax.programs.sandbox import Sandbox
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.leakage import HeldOutContent, refuse_held_out
from coda_jax.scenes.program import evaluate_scene

SUFFIXES = (".py", ".scene", ".txt")


def program_files(path: Path) -> list[Path]:
    """The program files of a folder and its subfolders in sorted order, or the one file.

    Raises:
      InputError: the folder holds none.
    """
    if not path.is_dir():
        return [path]
    files = sorted(p for p in path.rglob("*") if p.is_file() and p.suffix in SUFFIXES)
    if not files:
        raise InputError(f"{path} holds no programs; their names end with {', '.join(SUFFIXES)}")
    return files


def read_program(path: Path, most_bytes: int) -> str:
    """Text of a program file.

    Raises:
      ProgramError: it is larger than ``most_bytes``, cannot be read, or is no UTF-8.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(most_bytes + 1)
    except OSError as error:
        raise ProgramError(ErrorKind.TEXT, f"the file cannot be read: {error.strerror}") from None
    if len(raw) > most_bytes:
        raise ProgramError(ErrorKind.TEXT, f"the file is larger than {most_bytes} bytes: write a shorter program")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ProgramError(ErrorKind.TEXT, f"byte {error.start} is no UTF-8: save the file as plain text") from None


def verdict(path: Path, sandbox: Sandbox) -> dict[str, Any]:
    """One program's row: ``program, accepted`` and either the scene's id, family and instruction or ``kind, line, reason``."""
    row: dict[str, Any] = {"program": str(path), "accepted": False}
    try:
        text = read_program(path, sandbox.limits.text_bytes)
        # read with every split's assets, so that the refusal of a held-out one can say that this is the reason
        spec = evaluate_scene(text, sandbox, Catalogue.all())
        refuse_held_out(spec, Catalogue("train"))
    except ProgramError as error:
        return row | {"kind": error.kind.value, "line": error.line, "reason": error.message}
    except HeldOutContent as error:
        return row | {"kind": f"held_out_{error.kind}", "line": None, "reason": str(error)}
    objects = [o.object for o in spec.attributes.objects]
    return row | {
        "accepted": True,
        "scene_id": spec.scene_id,
        "family": spec.task.family,
        "instruction": spec.task.instruction,
        "objects": objects,
    }


def run(config: settings.Config, path: Path) -> bool:
    """Check every program below ``path`` and print one JSON object a line; True if none was refused."""
    files = program_files(path)
    accepted = True
    with Sandbox(settings.build(Limits, config.sandbox)) as sandbox:
        for file in files:
            row = verdict(file, sandbox)
            accepted &= row["accepted"]
            print(json.dumps(row), flush=True)
    return accepted
