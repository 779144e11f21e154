"""Instructions without scenes: every training phrasing with drawn names, from which the policy learns what words mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coda_jax.learning.policies.grounding import Phrase
from coda_jax.scenes import families, language
from coda_jax.scenes.catalogue import Catalogue


def names(catalogue: Catalogue, chosen: Sequence[str]) -> list[str]:
    """What things are called in scenes of the chosen families: "red mug" and so on."""
    return list(dict.fromkeys(name for family in chosen for name in families.get(family).token_names(catalogue)))


def phrases(catalogue: Catalogue, chosen: Sequence[str], per_template: int, of_two_goals: int, seed: int) -> list[Phrase]:
    """``per_template`` drawn instructions of each training template of the chosen families, with what they mean; never one name twice.

    of_two_goals: instead, of a template that names what is moved second. catalogue: ``Catalogue("train")``, so that no held-out word is
    learned.
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, 0x1A46]))
    colours = list(language.COLOURS)

    def draw(categories: tuple[str, ...]) -> str:
        return language.noun(colours[int(rng.integers(len(colours)))], categories[int(rng.integers(len(categories)))])

    found = []
    for template in language.all_templates():
        if template.split != "train" or template.family not in chosen:
            continue
        family, count = families.get(template.family), of_two_goals if "second" in template.places else per_template
        if (choices := family.fillings(template.relation, catalogue)) is not None:
            found += [_filled(template, choices[int(rng.integers(len(choices)))]) for _ in range(count if choices else 0)]
            continue
        places = family.drawn_from(template.relation, catalogue)
        for _ in range(count):
            said: list[str] = []
            for categories in places:
                name = draw(categories)
                while name in said:
                    name = draw(categories)
                said.append(name)
            second = (said[2], said[family.second_reference(template.relation)]) if len(said) > 2 else None
            found.append(Phrase(template.render(*said), said[0], said[min(1, len(said) - 1)], second))
    return found


def _filled(template: language.Template, names: Sequence[tuple[str, str]]) -> Phrase:
    """names: words and token's words of each place; of one place target and reference are the same."""
    return Phrase(template.render(*(words for words, _ in names)), names[0][1], names[-1][1])
