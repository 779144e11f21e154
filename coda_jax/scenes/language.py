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


def _pattern(template: Template) -> re.Pattern[str]:
    escaped = (
        re.escape(template.text).replace(re.escape("{target}"), "(?P<target>.+)").replace(re.escape("{reference}"), "(?P<reference>.+)")
    )
    return re.compile(escaped)


_PATTERNS = tuple((t, _pattern(t)) for t in TEMPLATES)


def match(instruction: str) -> Template | None:
    """The template an instruction was made from (case, double spaces and a final full stop do not count), or None for free text."""
    text = " ".join(instruction.lower().strip().rstrip(".!").split())
    return next((t for t, pattern in _PATTERNS if pattern.fullmatch(text)), None)
