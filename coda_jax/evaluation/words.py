"""The words of scenes as a policy gets them: embedded, in token order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from coda_jax.scenes.catalogue import Catalogue
from coda_jax.sim.observe import scene_texts
from coda_jax.sim.simulator import Episode
from coda_jax.types import TOKENS

EmbedFn = Callable[[Sequence[str]], np.ndarray]  # n sentences to [n, d]


def embedded_words(episodes: Sequence[Episode], catalogue: Catalogue, embed: EmbedFn) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings [n, o, d] of the tokens' words, zeros where absent, and [n, d] of the instructions, of n episodes."""
    words = [(*tokens, instruction) for tokens, instruction in (scene_texts(e.spec, catalogue) for e in episodes)]
    flat = [w for row in words for w in row]
    present = np.array([bool(w) for w in flat])
    found = embed([w for w in flat if w])
    embedded = np.zeros((len(flat), found.shape[-1]), np.float32)
    embedded[present] = found
    embedded = embedded.reshape(len(words), TOKENS + 1, -1)
    return embedded[:, :TOKENS], embedded[:, TOKENS]


class Words:
    """Embedded words of the scenes in a batch of worlds."""

    def __init__(self, worlds: int, catalogue: Catalogue, embed: EmbedFn):
        self._catalogue, self._embed = catalogue, embed
        d = embed(["object"]).shape[-1]
        self.text = np.zeros((worlds, TOKENS, d), np.float32)
        self.instruction = np.zeros((worlds, d), np.float32)

    def put(self, worlds: Sequence[int], episodes: Sequence[Episode]) -> None:
        rows = np.asarray(worlds)
        self.text, self.instruction = self.text.copy(), self.instruction.copy()  # jax may still read the old ones
        self.text[rows], self.instruction[rows] = embedded_words(episodes, self._catalogue, self._embed)
