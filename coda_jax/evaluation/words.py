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
