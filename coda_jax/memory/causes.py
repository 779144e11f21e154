"""When two causes are the same difficulty: their words, without names of single objects, numbers and filler, mostly agree."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?\s*(?:mm|cm|m|kg|g|rad|deg|s|n|%)?(?![^\W_])", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")
_FILLER = {"a", "an", "and", "are", "as", "at", "be", "been", "by", "for", "from", "is", "it", "its", "of", "than", "that", "the"}
_FILLER |= {"this", "to", "too", "very", "was", "were", "with"}
_OPPOSITES = (
    ("high", "low"),
    ("heavy", "light"),
    ("large", "small"),
    ("big", "small"),
    ("left", "right"),
    ("near", "far"),
    ("close", "far"),
    ("above", "below"),
    ("over", "under"),
    ("wide", "narrow"),
    ("tall", "short"),
    ("rough", "smooth"),
    ("fast", "slow"),
    ("early", "late"),
    ("open", "closed"),
    ("inside", "outside"),
    ("front", "behind"),
    ("more", "less"),
)
_LEAST_SHARED = 0.5  # a larger share of words than this makes two causes one


_QUANTITY = re.compile(r"[a-z][a-z0-9_]*:(high|low)")  # a measured quantity and which way it went, as the scripted diagnoser says it


def canonical(cause: str) -> str:
    """The cause as a mode keeps it: lower case, "mug_1 is 0.02 m too close" becomes "mug close"; "target_mass_kg:high" stays."""
    if _QUANTITY.fullmatch(cause):
        return cause
    words = [w for w in _WORD.findall(_NUMBER.sub(" ", cause.lower())) if w not in _FILLER]
    return " ".join(words) or " ".join(cause.lower().split())


def similarity(first: str, second: str) -> float:
    """Share of words that two canonical causes have in common; 0 where one says the opposite of the other."""
    a, b = set(first.split()), set(second.split())
    for one, other in _OPPOSITES:
        if (one in a - b and other in b - a) or (other in a - b and one in b - a):
            return 0.0
    return len(a & b) / len(a | b) if a | b else 1.0


def same(first: str, second: str) -> bool:
    """Whether two canonical causes count as one; measured quantities only where they are equal, for their names share words like "gap"."""
    if _QUANTITY.fullmatch(first) or _QUANTITY.fullmatch(second):
        return first == second
    return first == second or similarity(first, second) > _LEAST_SHARED
