"""An annotator's answers as a JSON file: read as if anybody might have written it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from coda_jax.agents.base import Factor
from coda_jax.foreign import read_plain
from coda_jax.programs.errors import one_line
from coda_jax.programs.refusal import first_error
from coda_jax.runtime import InputError
from coda_jax.scenes.families import Phase

KIND, VERSION = "coda_jax.annotation", 1
FACTORS: tuple[Factor, ...] = get_args(Factor)
NAME = r"[A-Za-z0-9_.-]{1,40}"  # of an annotator
_MOST_BYTES, _MOST = 2_000_000, 10_000
_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, config=_STRICT)
class Answer:
    """What an annotator says of one failure; both None where unsure."""

    episode: Annotated[int, Field(ge=1, lt=2**53)]
    scene_id: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    factor: Factor | None
    phase: Phase | None
    unsure: bool

    @model_validator(mode="after")
    def _says_something(self):
        if self.unsure != (self.factor is None) or self.unsure != (self.phase is None):
            raise ValueError(f"episode {self.episode}: factor and phase are both named, or neither and unsure is true")
        return self


@dataclass(frozen=True, config=_STRICT)
class Answers:
    """One annotator's answers to one sheet."""

    kind: Literal["coda_jax.annotation"]
    version: Literal[1]
    sheet: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    annotator: Annotated[str, Field(pattern=f"^{NAME}$")]
    answers: Annotated[tuple[Answer, ...], Field(max_length=_MOST)]

    @model_validator(mode="after")
    def _once_each(self):
        seen: set[int] = set()
        for answer in self.answers:
            if answer.episode in seen:
                raise ValueError(f"episode {answer.episode} is answered twice")
            seen.add(answer.episode)
        return self


_ADAPTER = TypeAdapter(Answers)


def read_answers(path: Path) -> Answers:
    """The answers in a file.

    Raises:
      InputError: there is no such file, it is too large, or no file that the page saves; the message names the field.
    """
    try:
        raw = read_plain(path, _MOST_BYTES)
        if len(raw) > _MOST_BYTES:
            raise InputError(f"{path} has more than {_MOST_BYTES:,} bytes: the page saves no such file")
        return _ADAPTER.validate_json(raw)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; give the files that annotators saved, --answers=A.json,B.json") from None
    except ValidationError as error:
        what = one_line(first_error(error, "the file"), 300)
        raise InputError(f"{path} is no file that the annotation page saves: {what}") from None
