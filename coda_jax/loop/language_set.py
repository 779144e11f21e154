"""Instructions without scenes: every training phrasing with drawn names, from which the policy learns what words mean."""

from __future__ import annotations

import numpy as np

from coda_jax.learning.policies.grounding import Phrase
from coda_jax.scenes import language
from coda_jax.scenes.catalogue import Catalogue

_REFERENCE_KIND = {"on": "support", "inside": "container", "beside": "object"}


def names(catalogue: Catalogue) -> list[str]:
    """Every colour and category of the catalogue: "red mug" and so on."""
    return [language.noun(colour, category) for category in catalogue.categories() for colour in language.COLOURS]


def phrases(catalogue: Catalogue, per_template: int, seed: int) -> list[Phrase]:
    """``per_template`` drawn instructions of each training template, with what they mean; never target and reference of one name.

    catalogue: ``Catalogue("train")``, so that no held-out word is learned.
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, 0x1A46]))
    colours = list(language.COLOURS)

    def draw(kind: str) -> str:
        categories = catalogue.categories(kind)
        return language.noun(colours[int(rng.integers(len(colours)))], categories[int(rng.integers(len(categories)))])

    found = []
    for template in language.TEMPLATES:
        if template.split != "train":
            continue
        for _ in range(per_template):
            target, reference = draw("object"), draw(_REFERENCE_KIND[template.relation])
            while reference == target:
                reference = draw(_REFERENCE_KIND[template.relation])
            found.append(Phrase(template.render(target, reference), target, reference))
    return found
