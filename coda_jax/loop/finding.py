"""What the doctor found about one thing."""

from __future__ import annotations

import dataclasses

OK, NOTE, PROBLEM = "ok", "note", "problem"


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line of the report. ``remedy`` says what to do, empty where nothing is to be done. A problem stops a run, a note does not."""

    name: str
    level: str
    text: str
    remedy: str = ""
