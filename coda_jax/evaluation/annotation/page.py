"""One self-contained HTML page on which a person says why rollouts failed, without being told what the diagnoser said."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
from collections.abc import Sequence
from importlib import resources
from string import Template

from coda_jax.evaluation.annotation.answers import FACTORS, KIND, NAME, VERSION
from coda_jax.scenes.families import PHASES

_MEANING = {
    "TASK": "what is asked for: it did something else",
    "SPATIAL": "where things are",
    "ATTRIBUTE": "what things are like: size, weight, grip, joints, looks",
    "EXECUTION": "nothing about the scene: the motion itself failed",
}
_FACTOR_KEYS, _PHASE_KEYS = "1234", "qwert"


@dataclasses.dataclass(frozen=True)
class Item:
    """A failure to be judged. clip: animated WebP. facts: (title, text) to be unfolded."""

    episode: int
    scene_id: str
    instruction: str
    clip: bytes = dataclasses.field(repr=False)
    facts: tuple[tuple[str, str], ...]


def sheet_of(items: Sequence[Item]) -> str:
    """Id of a sheet: which failures are on it, in which order."""
    return hashlib.sha256(json.dumps([[i.episode, i.scene_id] for i in items]).encode()).hexdigest()[:16]


def page(items: Sequence[Item], title: str) -> str:
    """The page. Texts of a run stand in it as JSON that a script puts in as text, never as markup.

    Raises:
      ValueError: there is nothing to judge.
    """
    if not items:
        raise ValueError("no failures to judge: a sheet needs at least one")
    data = {
        "kind": KIND,
        "version": VERSION,
        "sheet": sheet_of(items),
        "title": title,
        "name": f"^{NAME}$",
        "factors": [{"name": f, "key": k, "means": _MEANING[f]} for f, k in zip(FACTORS, _FACTOR_KEYS, strict=True)],
        "phases": [{"name": p, "key": k} for p, k in zip(PHASES, _PHASE_KEYS, strict=True)],
        "items": [
            {
                "episode": i.episode,
                "scene_id": i.scene_id,
                "instruction": i.instruction,
                "clip": f"data:image/webp;base64,{base64.b64encode(i.clip).decode()}",
                "facts": [list(fact) for fact in i.facts],
            }
            for i in items
        ],
    }
    text = json.dumps(data).replace("<", "\\u003c")  # no text ends the script, whatever it holds
    template = resources.files("coda_jax.evaluation.annotation").joinpath("page.html").read_text("utf-8")
    return Template(template).substitute(data=text)
