"""How many worlds to step together: the fewest beyond which a device gains little, measured once and remembered."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

LEAST_GAIN = 1.15  # the next number of worlds must bring this much more to be taken


def best_worlds(rate: Callable[[int], float], candidates: Sequence[int], least_gain: float = LEAST_GAIN) -> tuple[int, dict[int, float]]:
    """Try rising numbers of worlds until one does not step ``least_gain`` times as much a second as the one before.

    Args:
      rate: control steps a second of all worlds together; may raise MemoryError where they do not fit.

    Returns:
      the number to take, and what was measured.

    Raises:
      ValueError: no candidates. MemoryError: not even the first fits.
    """
    if not candidates:
        raise ValueError("no numbers of worlds to try")
    measured: dict[int, float] = {}
    best = candidates[0]
    for worlds in candidates:
        try:
            measured[worlds] = rate(worlds)
        except MemoryError:
            if not measured:
                raise
            break
        if len(measured) > 1 and measured[worlds] < least_gain * measured[best]:
            break
        best = worlds
    return best, measured


def remembered(path: Path, key: str) -> int | None:
    """The number of worlds that was found for ``key`` before; None where there is none or the file cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8")).get(key)
    except (OSError, ValueError, AttributeError):
        return None
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 < found <= 1 << 20 else None


def remember(path: Path, key: str, worlds: int) -> None:
    """Keep a number of worlds for ``key``; a file that cannot be written costs the next process the measurement, no more."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}
    known = known if isinstance(known, dict) else {}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**known, key: worlds}, indent=1), encoding="utf-8")
    except OSError:
        return
