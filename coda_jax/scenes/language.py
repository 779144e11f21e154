"""Words: colours, noun phrases and the instruction templates of each relation, split like everything else that is held out."""

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


@dataclasses.dataclass(frozen=True)
class Template:
    """One phrasing of a relation; ``text`` has the places {target} and {reference}."""

    template_id: str
    relation: str
    split: str
    text: str

    def render(self, target: str, reference: str) -> str:
        return self.text.format(target=target, reference=reference)


_PHRASES = {
    "on": {
        "train": (
            "put the {target} on the {reference}",
            "place the {target} on the {reference}",
            "move the {target} onto the {reference}",
            "set the {target} on top of the {reference}",
        ),
        "validation": ("the {target} belongs on the {reference}", "take the {target} and leave it on the {reference}"),
        "test": ("let the {target} rest on the {reference}", "i want to see the {target} standing on the {reference}"),
    },
    "inside": {
        "train": (
            "put the {target} in the {reference}",
            "place the {target} inside the {reference}",
            "drop the {target} into the {reference}",
            "move the {target} into the {reference}",
        ),
        "validation": ("the {target} belongs in the {reference}", "take the {target} and leave it inside the {reference}"),
        "test": ("fill the {reference} with the {target}", "i want to see the {target} within the {reference}"),
    },
    "beside": {
        "train": (
            "put the {target} next to the {reference}",
            "place the {target} beside the {reference}",
            "move the {target} close to the {reference}",
            "set the {target} down by the {reference}",
        ),
        "validation": ("the {target} belongs beside the {reference}", "take the {target} and leave it next to the {reference}"),
        "test": ("let the {target} stand alongside the {reference}", "i want to see the {target} right by the {reference}"),
    },
}
TEMPLATES: tuple[Template, ...] = tuple(
    Template(f"{relation}_{split}_{i}", relation, split, text)
    for relation, by_split in _PHRASES.items()
    for split, texts in by_split.items()
    for i, text in enumerate(texts)
)


def noun(colour: str, category: str) -> str:
    """How an object is called, e.g. "red mug"; also the words of its token."""
    return f"{colour} {category}"


def templates(relation: str, split: str) -> tuple[Template, ...]:
    return tuple(t for t in TEMPLATES if t.relation == relation and t.split == split)


def words(text: str) -> tuple[str, ...]:
    """The words of a text in lower case; whatever joins them (hyphens, commas, several spaces) does not count."""
    return tuple(_WORD.findall(text.lower()))


@dataclasses.dataclass(frozen=True)
class Reading:
    """A template that an instruction was made from, and the words in its two places."""

    template: Template
    target: str
    reference: str


def _pattern(template: Template) -> re.Pattern[str]:
    return re.compile(template.text.format(target="(?P<target>.+)", reference="(?P<reference>.+)"))


_WORD = re.compile(r"[a-z]+")
_PATTERNS = tuple((t, _pattern(t)) for t in TEMPLATES)
_FILLERS = frozenset(("a", "an", "the", "and", "it", "i"))
# what is left of a held-out phrasing without its nouns and fillers, in order
_SKELETONS = tuple(
    (t, tuple(w for w in words(t.text.format(target="", reference="")) if w not in _FILLERS)) for t in TEMPLATES if t.split != "train"
)


def readings(instruction: str) -> tuple[Reading, ...]:
    """Every way to read an instruction as a template (case, punctuation and "please" do not count); none for free text."""
    text = " ".join(w for w in words(instruction) if w != "please")
    found = ((t, pattern.fullmatch(text)) for t, pattern in _PATTERNS)
    return tuple(Reading(t, m["target"], m["reference"]) for t, m in found if m is not None)


def match(instruction: str) -> Template | None:
    """The first template of ``readings``, or None for free text."""
    return next((r.template for r in readings(instruction)), None)


def held_out(instruction: str) -> Template | None:
    """The first held-out template whose words the instruction holds in their order, whatever stands between them; None without one."""
    for template, skeleton in _SKELETONS:
        rest = iter(words(instruction))
        if all(word in rest for word in skeleton):
            return template
    return None
