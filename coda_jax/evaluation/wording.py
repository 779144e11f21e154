"""Causes and margins of diagnoses, and numbers of things, as a person would say them."""

from __future__ import annotations

from coda_jax.memory.causes import canonical
from coda_jax.scenes.measures import MEASURES

_TASK = {
    "target": "another object is asked for",
    "goal": "another goal is asked for",
    "wording": "the instruction is worded otherwise",
    "subgoal": "one thing more is asked for",
    "order": "the same things are asked for in another order",
    "tolerance": "a smaller distance from the axis is asked for",
}
_MORE = {"count": ("more", "fewer")}


def _sentences() -> dict[str, str]:
    """Canonical cause to words, for every quantity that a diagnosis can name."""
    found = {}
    for name, measure in MEASURES.items():
        for way, word in zip(("high", "low"), _MORE.get(measure.unit, ("larger", "smaller")), strict=True):
            found[canonical(f"{name}:{way}")] = f"{word} {measure.what}"
    return found


_SENTENCES = _sentences()


def cause_in_words(factor: str, cause: str) -> str:
    """The cause in words where it names a measured quantity or a part of the task ("target_reference_m:high" or its canonical form:
    "larger horizontal distance of target and reference"), else as it stands; hostile text stays hostile."""
    if factor == "EXECUTION":
        return "no scene factor: the motion itself fails"
    if factor == "TASK" and cause in _TASK:
        return _TASK[cause]
    return _SENTENCES.get(canonical(cause), cause)


def difficulty_in_words(factor: str, phase: str, cause: str) -> str:
    """ "SPATIAL, grasp, smaller gap of the target to its nearest neighbour": what a mode is about, on a line of the terminal."""
    return f"{factor}, {phase}, {cause_in_words(factor, cause)}"


def margin_in_words(name: str, value: float, step: int, threshold: float, unit: str) -> str:
    """What a phase measures: "gripper to target 0.041 m at best, at step 54; 0.03 m is asked for"."""
    unit = "" if unit == "share" else f" {unit}"
    return f"{name.replace('_', ' ')} {value:.3g}{unit} at best, at step {step}; {threshold:.3g}{unit} is asked for"


def counted(n: int, what: str) -> str:
    """ "1 scene", "3 scenes"."""
    return f"{n:,} {what}" + ("s" if n != 1 else "")
