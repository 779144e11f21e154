"""The words that names, regions, layouts and instructions are made of.

They go into prompts of language models later. Made of words from here, of the catalogue's categories and of colours, none of them can
carry an instruction to a model.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable

from coda_jax.scenes import families
from coda_jax.scenes.language import COLOURS, all_templates

_IN_NAMES = """
object obj item thing body block brick piece box cube ball can cup bowl plate tray bin basket goal place spot start stack tower
row pile left right middle center centre front back near far top bottom upper lower inner outer edge corner side table zone area
region free fixed small big large tiny tall short long flat round wide thin heavy light first second third fourth fifth sixth
target reference ref distractor obstacle support container fixture blocker clutter other base dest destination source src landmark
layout seed train validation test scene line ring grid arc cluster scatter random pair narrow open spread dense sparse split ood
id in on of at by and to the
"""
_IN_INSTRUCTIONS = """
a an the it its this that one ones and then so with without from to into onto in on of off at by over under above below inside
within beside besides near next close between behind before after left right middle center centre front back side top bottom
surface edge corner far end up down out away around against along touching resting standing lying sitting is are be i see belongs
leave fill which where there another other both all each only not but pick put place set lay move bring take grab grasp lift raise
carry transfer transport drop lower release let deposit position relocate shift slide push pull drag stack pile insert open shut
turn rotate rest go goes have get hold keep stand hand make deliver collect fetch find want please should must can you robot arm
gripper table tabletop desk workspace object objects item items thing things block blocks container support small smaller smallest
big bigger biggest large larger largest tiny tall taller tallest short shorter shortest long longer longest flat round wide thin
heavy light first second third colored coloured color colour shade nearest closest furthest farthest same different
"""
_WORD = re.compile(r"[a-z]+")


@functools.cache
def _name_words(registered: tuple[str, ...]) -> frozenset[str]:
    laid_out = [y for name in registered for y in families.get(name).layouts.values()]
    places = [name for y in laid_out for name in (y.layout_id, *(r.name for r in (*y.fixtures, y.target, *y.clutter)))]
    return frozenset(_IN_NAMES.split()) | set(COLOURS) | {w for name in places for w in _WORD.findall(name)} | {"close"}


@functools.cache
def _instruction_words(registered: tuple[str, ...]) -> frozenset[str]:
    said = {w for t in all_templates() if t.family in registered for w in _WORD.findall(t.text)}
    return frozenset(_IN_INSTRUCTIONS.split()) | set(COLOURS) | said


def known_words(ids: Iterable[str]) -> frozenset[str]:
    """Words that catalogue ids and categories are made of."""
    return frozenset(word for name in ids for word in _WORD.findall(name.lower()))


def strange_name_word(name: str, catalogue_words: Collection[str]) -> str | None:
    """The first word of ``name`` that is neither a name word nor of the catalogue, or None; single letters are fine."""
    known = _name_words(families.names())
    return next((w for w in _WORD.findall(name) if len(w) > 1 and w not in known and w not in catalogue_words), None)


def strange_instruction_word(instruction: str, catalogue_words: Collection[str]) -> str | None:
    """The first word of ``instruction`` that is neither about moving things nor of the catalogue (also as a plural), or None."""
    known = _instruction_words(families.names()) | set(catalogue_words)
    for word in _WORD.findall(instruction.lower()):
        if len(word) > 1 and not {word, word.removesuffix("s"), word.removesuffix("es")} & known:
            return word
    return None
