"""Instructions without scenes: language is cheap, so the words' grounding is trained on more of it than there are demonstrations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from coda_jax.learning.policies.grounding import LanguageSet, Phrase, language_set
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.language import COLOURS, TEMPLATES, noun

_PER_TEMPLATE = 60
_REFERENCES = {"on": "support", "inside": "container", "beside": "object"}


def phrases(seed: int = 0) -> tuple[list[Phrase], list[str]]:
    """Instructions of the training templates over the training catalogue's names, and all those names."""
    catalogue = Catalogue("train")
    kinds = {category: catalogue.instances(category)[0].kind for category in catalogue.categories()}
    names = [noun(colour, category) for category in kinds for colour in COLOURS]
    rng = np.random.default_rng(seed)

    def draw(kind: str) -> str:
        return noun(str(rng.choice(list(COLOURS))), str(rng.choice([c for c, k in kinds.items() if k == kind])))

    found = []
    for template in TEMPLATES:
        if template.split != "train":
            continue
        for _ in range(_PER_TEMPLATE):
            target, reference = draw("object"), draw(_REFERENCES[template.relation])
            if target != reference:
                found.append(Phrase(template.render(target, reference), target, reference))
    return found, names


def language_of(family: str, embed: Callable[[Sequence[str]], np.ndarray]) -> LanguageSet:
    """The embedded instruction set of a family (pick_place is the only one so far)."""
    assert family == "pick_place"
    found, names = phrases()
    return language_set(found, names, embed, 256)
