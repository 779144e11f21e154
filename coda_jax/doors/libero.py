"""What the official LIBERO runner tells a policy of states (third_party/libero_pro), as the entries that our policies read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from coda_jax.doors.observations import ObservationError
from coda_jax.learning.policies.messages import FIELDS, PREFIX, WORDS
from coda_jax.runtime import InputError
from coda_jax.sim.libero.reported import ReportError, Reports

REPORT = PREFIX + "libero/"
ENTRIES = ("scene", "qpos", "qvel", "fixtures", "objects", "grip")  # under REPORT; sim/libero/reported.py says what they are


def translator() -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """A function that gives a message with a report of a LIBERO scene the entries of an observation; others come back as they are.

    It raises ObservationError for a report that fits no scene.
    """
    reports = Reports()

    def translated(message: Mapping[str, Any]) -> Mapping[str, Any]:
        scene = message.get(REPORT + "scene")
        if scene is None:
            return message
        missing = [name for name in ENTRIES if REPORT + name not in message]
        if missing or not isinstance(scene, str):
            raise ObservationError(f"{REPORT}{missing[0]} is missing" if missing else f"{REPORT}scene must be a text, suite/task@state")
        try:
            view, words = reports.view(**{name: message[REPORT + name] for name in ENTRIES})
        except (ReportError, InputError) as error:
            raise ObservationError(f"{REPORT}*: {error}") from error
        return {**message, **{PREFIX + name: getattr(view, name)[0] for name in FIELDS}, WORDS: list(words)}

    return translated
