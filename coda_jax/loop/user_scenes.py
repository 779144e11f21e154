"""A user's own scene programs as the first training scenes of a run: ``scenes.own_programs``."""

from __future__ import annotations

from pathlib import Path

from coda_jax import config as settings
from coda_jax.loop.program_files import program_files, read_program
from coda_jax.programs.errors import ProgramError
from coda_jax.runtime import InputError


def texts(config: settings.Config) -> list[str]:
    """The program texts of the folder, by name of file; none where none is set.

    Raises:
      InputError: there is no such folder, it holds no programs, or one of them cannot be read.
    """
    if not config.scenes.own_programs:
        return []
    folder = Path(config.scenes.own_programs)
    if not folder.is_dir():
        raise InputError(f"config.scenes.own_programs={folder} is no folder of scene programs")
    found = []
    for path in program_files(folder):
        try:
            found.append(read_program(path, config.sandbox.text_bytes))
        except ProgramError as error:
            raise InputError(f"config.scenes.own_programs: {path}: {error}") from error
    return found
