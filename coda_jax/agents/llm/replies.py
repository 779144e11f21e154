"""The program in a model's answer."""

from __future__ import annotations

import re

_FENCE = re.compile(r"```[a-zA-Z0-9_+-]*[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)
_RESULT = re.compile(r"^[ \t]*result[ \t]*=", re.MULTILINE)


class ReplyError(ValueError):
    """An answer without exactly one program. kind: no_program, two_programs, refusal or empty."""

    def __init__(self, kind: str, message: str = ""):
        self.kind = kind
        super().__init__(message or kind)


def program_in(text: str) -> tuple[str, bool]:
    """The one program of an answer, and whether it stood in a code fence.

    Raises:
      ReplyError: there is none, or more than one.
    """
    if not text.strip():
        raise ReplyError("empty")
    blocks = [b for b in _FENCE.findall(text) if _RESULT.search(b)]
    if len(blocks) > 1 or (not blocks and len(_RESULT.findall(text)) > 1):
        raise ReplyError("two_programs")
    if blocks:
        return blocks[0], True
    if not _RESULT.search(text):
        raise ReplyError("no_program")
    return text, False
