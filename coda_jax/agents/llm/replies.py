"""Finding the one program, or the one JSON value, in what a language model wrote around it."""

from __future__ import annotations

import enum
import re

_FENCES = ("```", "~~~")
_MOST_NAME, _MOST_LINE = 40, 200  # characters that are looked at
_PROSE = re.compile(r"[-*>\d. ]{0,8}[A-Za-z][A-Za-z'\u2019]*,? [A-Za-z][A-Za-z'\u2019]*,? [A-Za-z]")
_KEYWORD = re.compile(r"(for|if|elif|while|return|def|assert|import|from|not|lambda|with)\b")
_NOT_PROGRAMS = {"text", "txt", "json", "bash", "sh", "shell", "console", "output", "markdown", "md", "diff", "yaml"}
_REFUSAL = re.compile(
    r"\bi(['\u2019]m| am) (sorry|unable|not able)|\bsorry,|\bi (can['\u2019]t|cannot|can not|won['\u2019]t|will not|must decline)\b", re.I
)
_REFUSAL_HEAD = 300  # characters in which a refusal says that it is one


class ReplyErrorKind(enum.StrEnum):
    """Why an answer holds no program that can be tried."""

    NO_PROGRAM = "no_program"  # words alone
    TWO_PROGRAMS = "two_programs"  # several different ones: which was meant is not ours to guess
    REFUSAL = "refusal"
    EMPTY = "empty"


_MESSAGES = {
    ReplyErrorKind.NO_PROGRAM: "the answer holds no program; answer with one program and nothing else",
    ReplyErrorKind.TWO_PROGRAMS: "the answer holds several programs; answer with one program and nothing else",
    ReplyErrorKind.REFUSAL: "the answer declines the task",
    ReplyErrorKind.EMPTY: "the answer is empty; answer with one program",
}


class ReplyError(ValueError):
    """An answer without one program. message: what to change, for the model that wrote it."""

    def __init__(self, kind: ReplyErrorKind):
        self.kind, self.message = kind, _MESSAGES[kind]
        super().__init__(f"{kind.value}: {self.message}")

    def __reduce__(self):
        return type(self), (self.kind,)


def program_in(text: str) -> tuple[str, bool]:
    """The one program that an answer holds, and whether it stood in a code fence; it may still be nonsense.

    A fence left open at the end counts as closed; the same program twice is one.

    Raises:
      ReplyError: there is none, or several.
    """
    if not text.strip():
        raise ReplyError(ReplyErrorKind.EMPTY)
    fenced = _fenced(text)
    programs = list(dict.fromkeys(body.strip("\n").rstrip() for name, body in fenced if name.lower() not in _NOT_PROGRAMS and body.strip()))
    if len(programs) > 1:
        raise ReplyError(ReplyErrorKind.TWO_PROGRAMS)
    if programs:
        return programs[0] + "\n", True
    if not fenced and _reads_as_program(text):
        return text.strip("\n").rstrip() + "\n", False
    raise ReplyError(ReplyErrorKind.REFUSAL if _REFUSAL.search(text[:_REFUSAL_HEAD]) else ReplyErrorKind.NO_PROGRAM)


def unfenced(text: str) -> str:
    """The one fenced piece of ``text``, else the whole: models that no schema binds wrap their JSON so."""
    found = _fenced(text)
    return found[0][1].strip() if len(found) == 1 else text


def _fenced(text: str) -> list[tuple[str, str]]:
    """(language, body) of every fenced piece; line by line, because patterns over text of others may take for ever."""
    pieces: list[tuple[str, str]] = []
    mark, name, body = "", "", list[str]()
    for line in text.split("\n"):
        bare = line.strip(" \t\r")
        if not mark:
            if bare.startswith(_FENCES) and "`" not in (rest := bare.lstrip(bare[0])):
                mark, name, body = bare[: len(bare) - len(rest)], rest.strip()[:_MOST_NAME], []
        elif len(bare) >= len(mark) and bare == bare[0] * len(bare) and bare[0] == mark[0]:
            pieces.append((name, "\n".join(body)))
            mark = ""
        else:
            body.append(line)
    if mark:
        pieces.append((name, "\n".join(body)))
    return pieces


def _reads_as_program(text: str) -> bool:
    """Whether bare text is code rather than prose. One with mistakes counts too, so that its author is told their line; no parser of ours
    reads it."""
    lines = [line.strip()[:_MOST_LINE] for line in text.split("\n") if line.strip()]
    prose = sum(bool(_PROSE.match(line)) and not _KEYWORD.match(line) for line in lines)
    return 2 * prose < len(lines) and any("(" in line or "=" in line for line in lines)
