"""What a policy may see of a world at a decision, and the words that stand for its tokens."""

from __future__ import annotations

import dataclasses

from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.families import read_goals
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim import platforms
from coda_jax.types import Array, Observation, WorldView

_SHARED = tuple(f.name for f in dataclasses.fields(Observation) if f.name not in ("text", "instruction", "pixels"))


def observe(view: WorldView, text: Array, instruction: Array) -> Observation:
    """The observation of a moment: the visible fields of the view beside the embedded words.

    Contacts, inner boxes, reset poses and the clock stay hidden. Numpy or jax alike.

    Args:
      view: ``b`` worlds. text: [b, o, d] embeddings of ``scene_texts``' words; absent tokens get zeros. instruction: [b, d].
    """
    text = text * view.present[..., None]
    return Observation(**{name: getattr(view, name) for name in _SHARED}, text=text, instruction=instruction)


def scene_texts(spec: SceneSpec, catalogue: Catalogue) -> tuple[list[str], str]:
    """Words of every token, e.g. "red mug" ("" where the token is absent), in token order, and the instruction.

    Raises:
      SceneError: an asset is unknown, or the scene has more objects than tokens.
    """
    return platforms.of(spec).token_words(spec, catalogue), spec.task.instruction


def role_tokens(spec: SceneSpec, catalogue: Catalogue) -> tuple[int, ...]:
    """Tokens of target and reference of each goal, in the order in which they are to be reached."""
    index = platforms.token_index(spec, catalogue)
    return tuple(index[name] for goal in read_goals(spec) for name in (goal.target, goal.reference))


def words_and_roles(spec: SceneSpec, catalogue: Catalogue) -> tuple[tuple[str | None, ...], str, tuple[int, ...]]:
    """What learning keeps of a scene's text: words of every token (None where it is absent), instruction, ``role_tokens``."""
    words, instruction = scene_texts(spec, catalogue)
    return tuple(w or None for w in words), instruction, role_tokens(spec, catalogue)
