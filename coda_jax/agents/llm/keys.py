"""Keys of endpoints: read once, taken out of the environment, and out of everything that is logged."""

from __future__ import annotations

import logging
import os
import re

from coda_jax.programs import confine

HIDDEN = "[key]"
_USABLE = re.compile(r"[\x21-\x7e]+")
_LEAST_SECRET = 8  # characters; shorter ones are dummies of local servers, and would be found in every other word
_taken: dict[str, Key] = {}  # by variable, for the whole process: a second endpoint needs it again


class KeyFormatError(ValueError):
    """A key that cannot be sent; the message does not show it."""


class Key:
    """A key that shows itself nowhere but in ``reveal``: not in texts, copies, pickles or JSON."""

    __slots__ = ("_value",)

    def __init__(self, value: str):
        if not _USABLE.fullmatch(value):
            raise KeyFormatError("it holds blanks, line ends or characters beyond ASCII")
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Key(...)"

    def __reduce__(self):
        raise TypeError("keys are not copied or pickled")


def take(variable: str) -> Key | None:
    """The key in an environment variable, which children of this process then no longer see; None where it is not set.

    Asked again it is still there. From here on no log record of this process shows it, and where the system can, no other process of the
    same user looks into this one.

    Raises:
      KeyFormatError: it cannot be sent; the variable is named.
    """
    value = os.environ.pop(variable, "").strip()
    if value:
        try:
            _taken[variable] = Key(value)
        except KeyFormatError as error:
            raise KeyFormatError(f"the key in {variable} cannot be used: {error}; set it anew") from None
        _hide_in_logs()
        confine.hide_memory()  # the environment that this process began with still holds it
    return _taken.get(variable)


def forget() -> None:
    """Drop every key that was taken."""
    _taken.clear()


def redacted(text: str) -> str:
    """``text`` with every key that was taken blotted out."""
    for key in _taken.values():
        if len(key.reveal()) >= _LEAST_SECRET:
            text = text.replace(key.reveal(), HIDDEN)
    return text


def _hide_in_logs() -> None:
    """A filter of loggers would not see the records of their children, so every record is made by this."""
    make = logging.getLogRecordFactory()
    if getattr(make, "hides_keys", False):
        return

    def hiding(*arguments: object, **named: object) -> logging.LogRecord:
        record = make(*arguments, **named)
        try:
            text = record.getMessage()
        except Exception:  # of a caller whose arguments do not fit: logging itself reports it, without them
            record.msg, record.args = redacted(str(record.msg)), ()
            return record
        if (clean := redacted(text)) != text:
            record.msg, record.args = clean, ()
        if record.exc_info and record.exc_info[0] is not None:
            trace = logging.Formatter().formatException(record.exc_info)
            if (clean := redacted(trace)) != trace:
                record.exc_text, record.exc_info = clean, None
        return record

    hiding.hides_keys = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(hiding)
