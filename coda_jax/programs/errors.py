"""The one error of program evaluation, its kinds, and the cleaning of text that a program wrote before anyone reads it."""

from __future__ import annotations

import enum
import re

MAX_MESSAGE = 400
MAX_QUOTE = 48
_MOST_BITS = 128
MAX_WORDS = 2  # of a quote: names are shown whole, sentences are not

_UNPRINTABLE = re.compile(r"[^\x20-\x7e]+")
_NOT_A_QUOTE = re.compile(r"[^A-Za-z0-9_ .,+\-*/()\[\]=']+")
_NOT_A_SENTENCE = re.compile(r"[^A-Za-z0-9_ .,;:?!%+\-/()=']+")


class ErrorKind(enum.StrEnum):
    """Why a program was refused."""

    TEXT = "text"  # refused before any parser read it: size, characters, nesting
    SYNTAX = "syntax"  # not in the Python subset
    RUNTIME = "runtime"  # the program raised an error of its own
    FORBIDDEN = "forbidden"  # asked for files, processes, network, modules or interpreter internals
    LIMIT_TIME = "limit_time"
    LIMIT_MEMORY = "limit_memory"
    LIMIT_RECURSION = "limit_recursion"
    LIMIT_OUTPUT = "limit_output"
    CRASHED = "crashed"  # its worker died; the next program gets a new one
    NOT_DATA = "not_data"  # the value is missing, or no plain data, or too large
    INVALID_SCENE = "invalid_scene"  # data, but no scene that can be used
    INVALID_GENERATION = "invalid_generation"  # data, but no generation program that can be used
    INVALID_TRAINING = "invalid_training"  # data, but no training program that can be used
    UNKNOWN_ASSET = "unknown_asset"  # an asset or category that the catalogue does not hold


class ProgramError(Exception):
    """A program that cannot be used.

    Attributes:
      kind: one of ErrorKind.
      message: one line of printable ASCII, at most MAX_MESSAGE characters: what was wrong, where, what to change. Text taken from the
        program is shortened and stripped of everything that could be read as markup or as an instruction on its own line.
      line: line of the program, from 1, or None.
    """

    def __init__(self, kind: ErrorKind, message: str, line: int | None = None):
        self.kind = kind
        self.message = one_line(message, MAX_MESSAGE)
        self.line = line
        super().__init__(str(self))

    def __str__(self) -> str:
        return f"{self.kind.value}{f' (line {self.line})' if self.line is not None else ''}: {self.message}"

    def __reduce__(self):
        return type(self), (self.kind, self.message, self.line)


def one_line(text: str, limit: int) -> str:
    """``text`` as a single line of printable ASCII of at most ``limit`` characters."""
    text = _UNPRINTABLE.sub(" ", text[: 4 * limit]).strip()
    return text if len(text) <= limit else text[: limit - 3] + "..."


def sentence(text: str, limit: int) -> str:
    """Words of a model's own, to be read as such: one line of printable ASCII without markup characters, at most ``limit`` characters."""
    return one_line(" ".join(_NOT_A_SENTENCE.sub(" ", text[: 4 * limit]).split()), limit)


def quote(value: object, limit: int = MAX_QUOTE) -> str:
    """A value that a program supplied, for use inside a message: bounded, one line, no markup characters, of a sentence two words."""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return "a huge integer"  # whose digits could take long, and of which Python writes only so many
    text = value if isinstance(value, str) else repr(value) if isinstance(value, (bool, int, float)) else type(value).__name__
    text = _NOT_A_QUOTE.sub("?", text[: 4 * limit])
    words = text.split(" ", MAX_WORDS)
    if len(words) > MAX_WORDS:
        text = " ".join(words[:MAX_WORDS]) + " ..."
    shown = text if len(text) <= limit else text[: limit - 3] + "..."
    return f"'{shown}'" if isinstance(value, str) else shown
