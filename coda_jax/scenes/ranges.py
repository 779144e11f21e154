"""What a scene program may say: names, number ranges, words. One table for the verbs inside the sandbox and for the door outside it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from coda_jax.scenes.language import COLOURS, TEMPLATES
from coda_jax.types import FIXTURE_SLOTS, FREE_SLOTS

MAX_FREE = FREE_SLOTS
MAX_FIXTURES = FIXTURE_SLOTS
MAX_BUILT = 64  # things one program may make, used or not

# low, high, unit. The reach of the arm over the table, and what its gripper and the physics settings were measured with.
RANGES: dict[str, tuple[float, float, str]] = {
    "x": (0.2, 0.8, " m"),
    "y": (-0.5, 0.5, " m"),
    "z": (-0.05, 1.0, " m"),
    "yaw_rad": (-6.2832, 6.2832, " rad"),
    "scale": (0.5, 2.0, ""),
    "mass_kg": (0.005, 2.0, " kg"),
    "friction": (0.05, 2.0, ""),
    "clearance_m": (0.0, 0.3, " m"),
}

SYMBOL = r"^[a-z][a-z0-9_]{0,31}$"
IDENTIFIER = r"^[a-z][a-z0-9_]{0,47}$"  # catalogue and layout ids
INSTRUCTION = r"^[A-Za-z0-9 ,.'-]{3,160}$"
RESERVED_NAMES = frozenset({"table", "gripper", "world", "robot", "robot0", "base", "hand", "arm", "floor", "panda"})

# Names, regions and instructions go into prompts of language models later. They are made of words from here, of the catalogue's
# categories and of colours, so that none of them can carry an instruction to a model.
_NAME_WORDS = frozenset(
    """object obj item thing body block brick piece box cube ball can cup bowl plate tray bin basket goal place spot start stack tower row pile
    left right middle center centre front back near far top bottom upper lower inner outer edge corner side table zone area region
    free fixed small big large tiny tall short long flat round wide thin heavy light first second third fourth fifth sixth
    target reference ref distractor obstacle support container fixture blocker clutter other base dest destination source src landmark
    layout seed train validation test scene line ring grid arc cluster scatter random pair narrow open spread dense sparse split ood id
    in on of at by and to the""".split()
) | set(COLOURS)
_INSTRUCTION_WORDS = frozenset(
    """a an the it its this that one ones and then so with without from to into onto in on of off at by over under above below inside within
    beside besides near next close between behind before after left right middle center centre front back side top bottom surface edge corner
    far end up down out away around against along touching resting standing lying sitting is are be i see belongs leave fill with which where there another other both
    all each only not but pick put place set lay move bring take grab grasp lift raise carry transfer transport drop lower release leave let
    deposit position relocate shift slide push pull drag stack pile insert open close shut turn rotate rest go goes have get hold keep
    stand hand make deliver collect fetch find put want please should must can you robot arm gripper table tabletop desk workspace
    object objects item items thing things block blocks container support small smaller smallest big bigger biggest large larger largest tiny
    tall taller tallest short shorter shortest long longer longest flat round wide thin heavy light first second third
    colored coloured color colour shade nearest closest furthest farthest same different""".split()
) | set(COLOURS)
_WORD = re.compile(r"[a-z]+")
_PHRASE_WORDS = frozenset(word for template in TEMPLATES for word in _WORD.findall(template.text))


def known_words(ids: Iterable[str]) -> frozenset[str]:
    """Words that catalogue ids and categories are made of."""
    return frozenset(word for name in ids for word in _WORD.findall(name.lower()))


def strange_name_word(name: str, catalogue_words: Collection[str]) -> str | None:
    """The first word of ``name`` that is neither a name word nor of the catalogue, or None; single letters are fine."""
    return next((w for w in _WORD.findall(name) if len(w) > 1 and w not in _NAME_WORDS and w not in catalogue_words), None)


def strange_instruction_word(instruction: str, catalogue_words: Collection[str]) -> str | None:
    """The first word of ``instruction`` that is neither about moving things nor of the catalogue (also as a plural), or None."""
    known = _INSTRUCTION_WORDS | _PHRASE_WORDS | set(catalogue_words)
    for word in _WORD.findall(instruction.lower()):
        if len(word) > 1 and not {word, word.removesuffix("s"), word.removesuffix("es")} & known:
            return word
    return None
