"""Files of programs, by anyone: which there are in a folder, and their text."""

from __future__ import annotations

from pathlib import Path

from coda_jax.foreign import read_plain
from coda_jax.programs.errors import ErrorKind, ProgramError
from coda_jax.runtime import InputError

SUFFIXES = (".py", ".scene", ".txt")


def program_files(path: Path) -> list[Path]:
    """The program files of a folder and its subfolders in sorted order, or the one file.

    Raises:
      InputError: the folder holds none, or the file's name is that of none.
    """
    if not path.is_dir():
        if path.suffix and path.suffix not in SUFFIXES:
            raise InputError(f"{path} is no program: the names of programs end with {', '.join(SUFFIXES)}")
        return [path]
    files = sorted(p for p in path.rglob("*") if p.is_file() and p.suffix in SUFFIXES)
    if not files:
        raise InputError(f"{path} holds no programs; their names end with {', '.join(SUFFIXES)}")
    return files


def read_program(path: Path, most_bytes: int) -> str:
    """Text of a program file.

    Raises:
      ProgramError: it is no plain file or larger than ``most_bytes``, cannot be read, or is no UTF-8.
    """
    try:
        raw = read_plain(path, most_bytes)
    except OSError as error:
        raise ProgramError(ErrorKind.TEXT, f"the file cannot be read: {error.strerror}: save the program as a plain file") from None
    if len(raw) > most_bytes:
        raise ProgramError(ErrorKind.TEXT, f"the file is larger than {most_bytes} bytes: write a shorter program")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ProgramError(ErrorKind.TEXT, f"byte {error.start} is no UTF-8: save the file as plain text") from None
