"""What a robot of one's own is refused with."""

from __future__ import annotations


class RobotError(ValueError):
    """A robot that cannot be used; the message is one sentence that names the part and says what to change."""


def shown(name: object) -> str:
    """A name out of a foreign file, short and plain enough for a message."""
    text = str(name)
    return repr(text if len(text) <= 40 else text[:37] + "...")
