"""Between row dataclasses and columns: plain values as they are, booleans as 0 and 1, everything else as canonical JSON."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Sequence
from typing import Annotated, Any, Generic, Literal, TypeVar, Union

from pydantic import TypeAdapter, ValidationError

from coda_jax.programs.refusal import first_error

Value = str | int | float | None
R = TypeVar("R")
_PLAIN = (str, int, float, bool, type(None))


class RowError(ValueError):
    """A stored row that is not what its type says; the message names table, row and field."""


def _leaves(hint: Any) -> set[Any]:
    """The types that a field may hold, without annotations and with literals as the types of their values."""
    origin = typing.get_origin(hint)
    if origin is Annotated:
        return _leaves(typing.get_args(hint)[0])
    if origin in (Union, types.UnionType):
        return set().union(*(_leaves(a) for a in typing.get_args(hint)))
    if origin is Literal:
        return {type(a) for a in typing.get_args(hint)}
    return {hint}


class Codec(Generic[R]):
    """Reads and writes one row type. ``columns`` are its fields in order.

    Args:
      row_type: a strict pydantic dataclass.
    """

    def __init__(self, row_type: type[R]):
        self.row_type = row_type
        hints = typing.get_type_hints(row_type, include_extras=True)
        self.columns = tuple(f.name for f in dataclasses.fields(row_type))  # type: ignore[arg-type]
        self._json = {n: TypeAdapter(hints[n]) for n in self.columns if not _leaves(hints[n]) <= set(_PLAIN)}
        self._optional = {n for n in self.columns if type(None) in _leaves(hints[n])}
        self._bool = {n for n in self.columns if bool in _leaves(hints[n])}

    def encode(self, row: R) -> dict[str, Value]:
        """Column values of a row."""
        values = {}
        for name in self.columns:
            value = getattr(row, name)
            if name in self._json and value is not None:
                value = self._json[name].dump_json(value).decode()
            values[name] = int(value) if isinstance(value, bool) else value
        return values

    def decode(self, values: Sequence[Any], where: str = "") -> R:
        """The row of column values, validated strictly.

        Raises:
          RowError: a value is of the wrong type or out of range, or JSON text is malformed or does not fit.
        """
        row: dict[str, Any] = dict(zip(self.columns, values, strict=True))
        try:
            for name, adapter in self._json.items():
                if row[name] is not None or name not in self._optional:
                    row[name] = adapter.validate_json(row[name] if isinstance(row[name], str) else "")
            for name in self._bool:
                row[name] = {0: False, 1: True}.get(row[name], row[name])
            return self.row_type(**row)
        except ValidationError as error:
            raise RowError(f"{self.row_type.__name__} {where or str(values[0])[:40]!r}: {first_error(error, 'row')}") from None
