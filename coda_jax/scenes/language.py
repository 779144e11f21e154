"""Sentences and the templates of the registered families that they were made from; held-out phrasings are told by their words in order."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator

from coda_jax.scenes import families
from coda_jax.scenes.phrases import COLOURS, Template, noun, words

__all__ = ["COLOURS", "Reading", "Template", "all_templates", "held_out", "match", "noun", "readings", "templates", "words"]


def all_templates() -> tuple[Template, ...]:
    """The templates of every registered family, in the order of their registration."""
    return tuple(t for name in families.names() for t in families.get(name).templates)


def templates(family: str, relation: str, split: str) -> tuple[Template, ...]:
    """Phrasings of a family's relation that belong to a split, in a fixed order."""
    return tuple(t for t in families.get(family).templates if t.relation == relation and t.split == split)


@dataclasses.dataclass(frozen=True)
class Reading:
    """A template that an instruction was made from, and the words in its places, in the order of ``template.places``."""

    template: Template
    said: tuple[str, ...]


@functools.cache
def _pattern(template: Template) -> re.Pattern[str]:
    return re.compile(template.text.format(**{place: f"(?P<{place}>.+)" for place in template.places}))


_FILLERS = frozenset(("a", "an", "the", "and", "it", "i"))


@functools.cache
def _skeleton(template: Template) -> tuple[str, ...]:
    """What is left of a phrasing without its nouns and fillers, in order."""
    return tuple(w for w in words(template.render(*[""] * len(template.places))) if w not in _FILLERS)


def readings(instruction: str, family: str) -> tuple[Reading, ...]:
    """Every way to read an instruction as a template of a family (case, punctuation and "please" do not count); none for free text."""
    text = " ".join(w for w in words(instruction) if w != "please")
    return tuple(_readings(text, families.get(family).templates))


def _readings(text: str, among: tuple[Template, ...]) -> Iterator[Reading]:
    for template in among:
        found = _pattern(template).fullmatch(text)
        if found is not None:
            yield Reading(template, tuple(found[place] for place in template.places))


def match(instruction: str, family: str) -> Template | None:
    """The first template of ``readings``, or None for free text."""
    return next((r.template for r in readings(instruction, family)), None)


def held_out(instruction: str) -> Template | None:
    """The first held-out template of any family whose words the instruction holds in their order, whatever stands between them; None
    without one."""
    said = words(instruction)
    for template in all_templates():
        if template.split == "train":
            continue
        rest = iter(said)
        if all(word in rest for word in _skeleton(template)):
            return template
    return None
