"""Pictures of scenes: as their programs built them, and the environments that rounds built for modes."""

from __future__ import annotations

from html import escape

from coda_jax.evaluation.mode_history import number, whole
from coda_jax.evaluation.report import charts, markup
from coda_jax.evaluation.report.data import RunData

_MOST = 12  # of each group


def edits_text(verbs: object) -> str:
    """ "distance 0.31, mass 0.50" from a row's [[verb, magnitude], ...]."""
    found = []
    for verb in verbs if isinstance(verbs, list) else ():
        if isinstance(verb, list) and len(verb) >= 2:
            magnitude = number(verb[1])
            found.append(str(verb[0]) if magnitude is None else f"{verb[0]} {magnitude:.2f}")
    return ", ".join(found)


def gallery(run: RunData) -> str:
    groups: dict[int | None, list[str]] = {}
    for row in run.of_kind("scene"):
        group = groups.setdefault(whole(row.get("round")), [])
        source = run.image(row.get("file"))
        if source is None or len(group) == _MOST:
            continue
        caption = escape(charts.shorten(str(row.get("instruction", "")), 120))
        edits = edits_text(row.get("verbs"))
        if edits:
            caption += f"<br><b>{escape(charts.shorten(edits, 80))}</b> ({escape(charts.shorten(str(row.get('origin', '')), 20))})"
        group.append(markup.figure("scene", [source], caption))
    body = []
    for at in sorted((g for g in groups if groups[g]), key=lambda g: (g is not None, g or 0)):
        if at is None:
            body.append("<h3>Training scenes, as their programs built them</h3>" if len(groups) > 1 else "")
            body.append(f'<div class="gallery">{"".join(groups[at])}</div>')
        else:
            body.append(f"<h3>Round {at}: the base scene, and the environment made of it</h3>")
            body.append(f'<div class="gallery wide">{"".join(groups[at])}</div>')
    return markup.section("Scenes", "", "".join(body))
