"""Limits of one program, and the checks on its text that come before any parser: size, characters, nesting, chains."""

from __future__ import annotations

import dataclasses
import re

from coda_jax.programs.errors import ErrorKind, ProgramError

MAX_LINE = 500  # characters
MAX_INDENT = 60  # columns
MAX_BRACKETS = 24  # open brackets at one place
MAX_CHAIN = 120  # operators, dots, calls and keywords in one element: each can add a level to the syntax tree
MAX_UNARY = 8  # signs or "not" in a row
MAX_ELIF = 60  # each nests in the syntax tree


@dataclasses.dataclass(frozen=True)
class Limits:
    """What one program may use.

    text_bytes: size of the text. time_s: run time inside the worker. grace_s: how much longer the parent waits before it kills the worker.
    memory_bytes: heap of the program (the worker process as a whole gets a fixed allowance on top). recursion: call depth.
    output_chars: printed characters; more fails the program. reply_chars: size of the value as JSON.
    """

    text_bytes: int
    time_s: float
    grace_s: float
    memory_bytes: int
    recursion: int
    output_chars: int
    reply_chars: int


_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*)
      | (?P<long_string>\"\"\"(?:[^\"\\]|\\[\s\S]|\"(?!\"\"))*\"\"\" | \'\'\'(?:[^\'\\]|\\[\s\S]|\'(?!\'\'))*\'\'\')
      | (?P<unclosed_long>\"\"\"|\'\'\')
      | (?P<string>\"(?:[^\"\\\n]|\\.)*\" | \'(?:[^\'\\\n]|\\.)*\')
      | (?P<unclosed>[\"\'])
      | (?P<unary>(?:(?:[-+~]|\bnot\b)[ \t]*){2,})
      | (?P<keyword>\b(?:not|and|or|in|is|if|else|elif|for|lambda|await|yield)\b)
      | (?P<word>[A-Za-z0-9_]+)
      | (?P<open>[(\[{])
      | (?P<close>[)\]}])
      | (?P<operator>:=|\*\*|//|<<|>>|[<>=!]=|[-+*/%@&|^~<>.])
      | (?P<end>[,;:\n=])
    """,
    re.VERBOSE,
)
_SIGN = re.compile(r"[-+~]|not")


def check_text(text: str, limits: Limits) -> str:
    """Refuse text that could harm or stall a parser; linear in the size of the text.

    Returns:
      The text with line ends normalised to a newline.

    Raises:
      ProgramError: kind TEXT, with the line and what to change.
    """
    if not isinstance(text, str):
        raise ProgramError(ErrorKind.TEXT, f"a program is text, not {type(text).__name__}")
    if len(text) > limits.text_bytes:
        size = f"the program has {len(text)} bytes, at most {limits.text_bytes} are read"
        raise ProgramError(ErrorKind.TEXT, f"{size}: write loops instead of lists")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > MAX_LINE:
            raise ProgramError(ErrorKind.TEXT, f"the line has {len(line)} characters, at most {MAX_LINE} are read: break it", number)
        if not line.isascii() or not line.replace("\t", " ").isprintable():
            bad = next(c for c in line if not c.isascii() or not (c.isprintable() or c == "\t"))
            raise ProgramError(ErrorKind.TEXT, f"character U+{ord(bad):04X}: a program is plain ASCII, also in its strings", number)
        indent = len(line.expandtabs(8)) - len(line.expandtabs(8).lstrip())
        if indent > MAX_INDENT and line.strip():
            what = f"indented by {indent} columns, at most {MAX_INDENT}: put inner blocks into functions"
            raise ProgramError(ErrorKind.TEXT, what, number)
    _check_nesting(text)
    return text


def _check_nesting(text: str) -> None:
    chains = [0]  # one counter for each open bracket
    elifs = 0
    for token in _TOKEN.finditer(text):
        kind, value = token.lastgroup, token.group()

        def refuse(what, token=token):
            raise ProgramError(ErrorKind.TEXT, what, text.count("\n", 0, token.start()) + 1)

        # refused here: looking for the end again from each later quote would take quadratic time
        if kind == "unclosed_long":
            refuse("the triple-quoted string is never closed: close it")
        elif kind == "unclosed":
            refuse("the string is not closed on its line: close it, and join parts with + instead of a backslash at the line's end")
        elif kind == "open":
            chains[-1] += 1
            chains.append(0)
            if len(chains) - 1 > MAX_BRACKETS:
                refuse(f"brackets nested more than {MAX_BRACKETS} deep: build the value in steps")
        elif kind == "close":
            if len(chains) > 1:
                chains.pop()
        elif kind == "unary":
            signs = len(_SIGN.findall(value))
            if signs > MAX_UNARY:
                refuse(f"{signs} signs or 'not' in a row, at most {MAX_UNARY}: one is enough")
            chains[-1] += signs
        elif kind in ("keyword", "operator"):
            elifs += value == "elif"
            chains[-1] += 1
        elif kind == "end" and (value in ",=;" or (len(chains) == 1 and value == "\n" and text[token.start() - 1 : token.start()] != "\\")):
            chains[-1] = 0
        if chains[-1] > MAX_CHAIN:
            refuse(f"one expression with more than {MAX_CHAIN} operators, calls or keywords in a chain: use sum() or a loop")
        if elifs > MAX_ELIF:
            refuse(f"more than {MAX_ELIF} elif branches: use a dict")
