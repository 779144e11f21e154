"""``--mode=annotate``: diagnosed failures of a run on one page, for people to say why they failed without being told what was diagnosed."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from coda_jax import config as settings
from coda_jax.agents.base import Case
from coda_jax.agents.llm.episode_text import phase_lines, scene_text
from coda_jax.agents.llm.seen import Seen
from coda_jax.agents.vocabulary import Measurements, measurements
from coda_jax.evaluation.annotation.page import Item, page, sheet_of
from coda_jax.evaluation.film import webp_of
from coda_jax.evaluation.metrics import atomic_write
from coda_jax.evaluation.terminal import Progress
from coda_jax.loop import own_families
from coda_jax.loop import workdir as folders
from coda_jax.loop.footage import Footage
from coda_jax.loop.rounds.cases import collected
from coda_jax.memory.rows import Diagnosis
from coda_jax.memory.store import FILE, Memory
from coda_jax.programs.errors import one_line
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue

NAME = "annotate.html"
CLIP_SIZE = 192, 256  # of a camera's picture: the page shows clips as large as they are
_EVERY = 3  # control steps between frames of a clip
_FRAME_MS, _LAST_MS = 200, 1200
_QUALITY = 70
_INSTRUCTION_CHARS = 300


def run(folder: Path, count: int, output: Path | None) -> None:
    """Write the page with ``count`` of the run's diagnosed failures, drawn evenly from all rounds and factors by the run's seed.

    Raises:
      InputError: the run has no diagnoses, none can be carried out again, or the file cannot be written.
    """
    config = folders.read_config(folder)
    folders.check_robot(folder, config)
    own_families.add(config)
    with Memory.reading(folder / FILE) as memory:
        found = memory.rows(Diagnosis, "ORDER BY episode_id")
        if not found:
            raise InputError(f"{folder} has no diagnoses yet: rounds make them (config.rounds.count), with a strategy that diagnoses")
        items = _items(config, folder, memory, drawn(found, count, config.seed))
    if not items:
        raise InputError(f"no diagnosed rollout of {folder} goes here as it was recorded: another backend or version of the simulator")
    path = output or folder / NAME
    text = page(items, f"Why did it fail? {len(items)} rollouts").encode("utf-8", errors="replace")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, text)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; give another --output") from None
    print(f"{path}: {len(items)} of {len(found)} diagnosed failures, {len(text) / 1e6:.1f} MB, sheet {sheet_of(items)}")
    if len(items) < min(count, len(found)):
        print(f"{min(count, len(found)) - len(items)} go otherwise here than where they were recorded, and are left out")
    print(f"give the same file to two people; then --mode=agreement --workdir={folder} --answers=annotation_A.json,annotation_B.json")


def drawn(diagnoses: Sequence[Diagnosis], count: int, seed: int) -> list[Diagnosis]:
    """At most ``count`` of the diagnoses, each as likely as any other, in a random order: neither round nor factor shows in it."""
    order = np.random.default_rng(np.random.SeedSequence([seed, len(diagnoses)])).permutation(len(diagnoses))
    return [diagnoses[i] for i in order[:count]]


def _items(config: settings.Config, folder: Path, memory: Memory, chosen: Sequence[Diagnosis]) -> list[Item]:
    watch = Footage(config, Catalogue.all(), Catalogue("train"), samples=1, size=CLIP_SIZE)
    by_round: dict[int, list[int]] = defaultdict(list)
    for diagnosis in chosen:
        (round_number,) = memory.select("SELECT round FROM episodes WHERE episode_id = ?", (diagnosis.episode_id,))[0]
        by_round[round_number].append(diagnosis.episode_id)
    found: dict[int, Item] = {}
    with Progress("clips", len(chosen), "clips") as progress:
        for round_number, episodes in sorted(by_round.items()):
            cases = collected(folder, memory, round_number)
            ((first,),) = memory.select("SELECT min(episode_id) FROM episodes WHERE round = ? AND purpose = 'collect'", (round_number,))
            usual = measurements([case.spec for case in cases])
            failed = [cases[episode - first] for episode in episodes]
            for episode, case, seen in zip(episodes, failed, watch([c.outcome for c in failed]), strict=True):
                if seen is not None and seen.draw is not None:
                    found[episode] = _item(episode, case, seen, usual)
                progress.advance()
    return [found[d.episode_id] for d in chosen if d.episode_id in found]


def _item(episode: int, case: Case, seen: Seen, usual: Measurements) -> Item:
    facts = (
        ("Phases after each control step", "\n".join(phase_lines(seen))),
        ("What the scene measures", scene_text(case.spec, usual)),
    )
    instruction = one_line(case.spec.task.instruction, _INSTRUCTION_CHARS)
    return Item(episode, case.spec.scene_id, instruction, clip(seen), facts)


def clip(seen: Seen) -> bytes:
    """An animated WebP of a rollout that loops, the step under each frame."""
    assert seen.draw is not None, "only what can be drawn gets an item"
    steps = sorted({*range(1, seen.steps + 1, _EVERY), seen.steps})
    frames = [Image.open(io.BytesIO(png)) for png in seen.draw([(step, f"step {step} of {seen.steps}") for step in steps])]
    return webp_of(frames, [*[_FRAME_MS] * (len(frames) - 1), _LAST_MS], _QUALITY)
