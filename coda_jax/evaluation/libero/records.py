"""Records of LIBERO episodes, official and native alike: one JSON object a line (docs/libero.md).

The official runner (third_party/libero_pro) writes them in its own process; so read them as what a stranger wrote.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from coda_jax.foreign import open_plain, shown
from coda_jax.programs.refusal import first_error
from coda_jax.runtime import InputError

FORMAT = 1
SOURCES = ("bddl", "filename")  # where a prompt comes from
MOST_BYTES = 2**28  # of a file: some 100,000 records and more
_LINE_BYTES = 2**16
_Count = Annotated[int, Field(ge=0, lt=10**9)]
_Seed = Annotated[int, Field(ge=0, lt=2**32)]
_Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,200}$")]
_Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Text = Annotated[str, Field(max_length=2000)]
_SAID = 200  # characters of what is wrong with a line
_Number = Annotated[float, Field(ge=-1e10, le=1e10)]  # beyond, MuJoCo calls a state bad
_Numbers = Annotated[tuple[_Number, ...], Field(min_length=1, max_length=500)]


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid", allow_inf_nan=False))
class Episode:
    """One episode.

    stack: official (the pinned reference stack), native (our simulator) or mjx (ours, with few primitives). policy: hash of what the
    policy says of itself. observes: what it sees. seed: of fixtures' places and of the policy's noise; settle_steps, replan_steps,
    most_steps (0: the suite's limit): settings of the run. versions: package to version. task: number in the suite, name: stem of its
    BDDL file. init_index, init_sha256: of the row of initial states. prompt_source: "both" where the two agree, one episode counts for
    both then. step_limit: after which it has failed.
    fixture_seed, fixtures: name to position (m) and quaternion (wxyz), world frame. steps, decisions: of the policy. solved_by_settling:
    the goal held during the no-ops. error: what was wrong with the simulation where outcome is "error". final_qpos: at the end.
    """

    format: Annotated[int, Field(ge=FORMAT, le=FORMAT)]
    stack: Literal["official", "native", "mjx"]
    policy: _Hash
    observes: _Text
    seed: _Seed
    settle_steps: _Count
    replan_steps: _Count
    most_steps: _Count
    versions: Annotated[dict[_Name, _Text], Field(max_length=50)]
    suite: _Name
    task: _Count
    name: _Name
    bddl_sha256: _Hash
    init_index: _Count
    init_sha256: _Hash
    prompt: _Text
    prompt_source: Literal["bddl", "filename", "both"]
    step_limit: _Count
    fixture_seed: _Seed | None
    fixtures: Annotated[dict[_Name, _Numbers], Field(max_length=50)]
    steps: _Count
    decisions: _Count
    solved_by_settling: bool
    outcome: Literal["success", "failure", "error"]
    error: _Text | None
    final_qpos: _Numbers | None
    wall_s: Annotated[float, Field(ge=0)]

    def __post_init__(self):
        if (self.outcome == "error") != (self.error is not None):
            raise ValueError(f'outcome is "{self.outcome}" and error is {"null" if self.error is None else "a text"}: only errors have one')
        if self.steps > self.step_limit:
            raise ValueError(f"{self.steps} steps are more than the limit of {self.step_limit}")

    @property
    def key(self) -> tuple[str, str, int, str]:
        """What tells an episode from all others of a file."""
        return self.suite, self.name, self.init_index, self.prompt_source


_EPISODE: TypeAdapter[Episode] = TypeAdapter(Episode)


def read(path: Path) -> list[Episode]:
    """The episodes of a file; of one that was run again the later record counts. A line that a kill cut short is left out.

    Raises:
      InputError: the file is missing, too large, or a line is no record; line and field are named.
    """
    episodes: dict[tuple[str, str, int, str], Episode] = {}
    try:
        with open_plain(path) as file:
            if os.fstat(file.fileno()).st_size > MOST_BYTES:
                raise InputError(f"{path} has more than {MOST_BYTES / 2**20:g} MB; give a file of records")
            for number, line in enumerate(iter(lambda: file.readline(_LINE_BYTES + 1), b""), 1):
                if len(line) > _LINE_BYTES:
                    raise InputError(f"{path}:{number} has more than {_LINE_BYTES} bytes; no record is that long")
                if line.endswith(b"\n"):  # else a kill cut it short
                    episode = _record(line, f"{path}:{number}")
                    episodes.pop(episode.key, None)
                    episodes[episode.key] = episode
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); give a file of records") from None
    if not episodes:
        raise InputError(f"{path} holds no records")
    return list(episodes.values())


def _record(line: bytes, where: str) -> Episode:
    try:
        return _EPISODE.validate_json(line)
    except ValidationError as error:
        raise InputError(f"{where} is no record of an episode ({shown(first_error(error, 'line'), _SAID)})") from None


def append(path: Path, episodes: Iterable[Episode]) -> None:
    """Add episodes to a file, on disk when this returns. A line that a kill cut short is taken away first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.writelines(_EPISODE.dump_json(episode) + b"\n" for episode in episodes)
        file.flush()
        os.fsync(file.fileno())


def of_source(episodes: Iterable[Episode], source: str) -> list[Episode]:
    """Episodes whose prompt came from ``source``, those of "both" among them; of an episode that is there as both the later counts."""
    chosen = (dataclasses.replace(e, prompt_source=source) for e in episodes if e.prompt_source in (source, "both"))
    return list({e.key: e for e in chosen}.values())
