"""A user's own scene programs as the first training scenes of a run: ``scenes.own_programs``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from coda_jax import config as settings
from coda_jax.loop.program_files import program_files, read_program
from coda_jax.programs.errors import ProgramError, one_line
from coda_jax.runtime import InputError

_SHOWN = 5  # names of changed files in a message


def texts(config: settings.Config) -> dict[str, str]:
    """The program texts of the folder, by name of file, in the order of the names; none where none is set.

    Raises:
      InputError: there is no such folder, it holds no programs, or one of them cannot be read.
    """
    if not config.scenes.own_programs:
        return {}
    folder = Path(config.scenes.own_programs)
    if not folder.is_dir():
        raise InputError(f"config.scenes.own_programs={folder} is no folder of scene programs")
    found = {}
    for path in program_files(folder):
        try:
            found[path.relative_to(folder).as_posix()] = read_program(path, config.sandbox.text_bytes)
        except ProgramError as error:
            raise InputError(f"config.scenes.own_programs: {path}: {error}") from error
    return found


def hashes(found: Mapping[str, str]) -> dict[str, str]:
    """SHA-256 of each text, by name of file."""
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in found.items()}


def check(config: settings.Config, found: Mapping[str, str], committed: Mapping[str, str]) -> None:
    """Refuse other programs than those of a run's commits: scenes are counted by their place among them.

    committed: ``hashes`` of them; empty before the first commit.

    Raises:
      InputError: a file was added, removed or changed since.
    """
    now = hashes(found)
    if not committed or now == committed:
        return
    changes = {
        "added": now.keys() - committed.keys(),
        "removed": committed.keys() - now.keys(),
        "changed": {name for name in now.keys() & committed.keys() if now[name] != committed[name]},
    }
    told = "; ".join(f"{what}: {_listed(sorted(names))}" for what, names in changes.items() if names)
    raise InputError(
        f"config.scenes.own_programs: {config.scenes.own_programs} is not as it was when this run began ({told}): "
        "set it back, or choose another --workdir"
    )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return one_line(", ".join(names[:_SHOWN]), 200) + more
