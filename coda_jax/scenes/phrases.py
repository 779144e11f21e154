"""What sentences are made of: colours, noun phrases, and templates with places for the objects of a task."""

from __future__ import annotations

import dataclasses
import re

COLOURS: dict[str, tuple[float, float, float]] = {
    "red": (0.82, 0.14, 0.13),
    "green": (0.16, 0.60, 0.24),
    "blue": (0.14, 0.33, 0.80),
    "yellow": (0.93, 0.80, 0.16),
    "white": (0.93, 0.93, 0.93),
    "black": (0.12, 0.12, 0.12),
    "orange": (0.94, 0.50, 0.10),
    "purple": (0.50, 0.22, 0.66),
}
PLACES = ("target", "reference", "second")  # of a template: what is moved first, where to, and what is moved after it
_WORD = re.compile(r"[a-z]+")


@dataclasses.dataclass(frozen=True)
class Template:
    """One phrasing of a relation of a family; ``text`` has the places {target}, {reference} and, for two things to move, {second}."""

    template_id: str
    family: str
    relation: str
    split: str
    text: str

    @property
    def places(self) -> tuple[str, ...]:
        """The places of the text, in the order of PLACES."""
        return tuple(p for p in PLACES if f"{{{p}}}" in self.text)

    def render(self, *names: str) -> str:
        """The sentence with one name for each place."""
        return self.text.format(**dict(zip(self.places, names, strict=True)))


def noun(colour: str, category: str) -> str:
    """How an object is called, e.g. "red mug"; also the words of its token."""
    return f"{colour} {category}"


def words(text: str) -> tuple[str, ...]:
    """The words of a text in lower case; whatever joins them (hyphens, commas, several spaces) does not count."""
    return tuple(_WORD.findall(text.lower()))
