"""Every query of a round on a large memory: ``python -m benchmarks.memory [--episodes=100000] [--modes=5000]``.

The peer is the same question asked of the rows in Python lists, as a memory of JSON lines would hold them once loaded.
A table goes to stderr, one JSON object a line to stdout.
"""

from __future__ import annotations

import collections
import json
import platform
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from absl import app, flags

from coda_jax.loop.rounds import recall
from coda_jax.memory import episodes as rollouts
from coda_jax.memory import modes as difficulties
from coda_jax.memory import programs
from coda_jax.memory.consolidate import next_version
from coda_jax.memory.provenance import provenance
from coda_jax.memory.rows import (
    Construction,
    Diagnosis,
    Episode,
    Evidence,
    Gain,
    LearningValue,
    Mode,
    Program,
    Repair,
    Scene,
    Verb,
    mode_id_of,
    program_id_of,
    scene_id_of,
)
from coda_jax.memory.store import Memory
from coda_jax.memory.transaction import Transaction

_EPISODES = flags.DEFINE_integer("episodes", 100_000, "Rollouts in the memory.", lower_bound=100)
_MODES = flags.DEFINE_integer("modes", 5_000, "Difficulty modes in the memory.", lower_bound=10)
ROUNDS, REPEATS, FAMILY = 20, 8, "pick_place"
_SCENES_PER_COMMIT = 100
_VERBS, _CHECKS = ("clearance", "distance", "yaw", "mass"), ("overlap", "reach", "settle")


def _modes(count: int, draw: random.Random) -> list[Mode]:
    made = []
    for i in range(count):
        factor, phase = ("TASK", "SPATIAL", "ATTRIBUTE")[i % 3], ("approach", "grasp", "transport", "place", "release")[i % 5]
        cause = f"cause {i}"
        key = mode_id_of(FAMILY, factor, phase, cause)
        made.append(Mode(key, 1, FAMILY, factor, phase, cause, draw.random(), draw.random(), "new", i % ROUNDS))  # type: ignore[arg-type]
    return made


def fill(memory: Memory, episodes: int, modes: int, seed: int = 0) -> None:
    """A made-up run of 20 rounds: a scene for every 8 rollouts, two versions of each mode, a program and a Learning Value for each."""
    draw = random.Random(seed)
    known = _modes(modes, draw)
    spec = json.dumps({"objects": [{"object": f"object_{i}", "pos_m": [0.1 * i, 0.0, 0.0]} for i in range(30)]})
    scenes = [f'{{"number": {i}, "rest": {spec}}}' for i in range(episodes // REPEATS)]
    with memory.transaction() as t:
        for i, mode in enumerate(known):
            t.add(mode)
            t.add(next_version(mode, mode.round, severity=draw.random(), status="kept" if i % 10 else "removed"))
            text = _text(mode)
            t.add(Program(program_id_of("generation", text), 1, "generation", text, mode.mode_id, 0.5, "active", None, mode.round))
    for first in range(0, len(scenes), _SCENES_PER_COMMIT):
        with memory.transaction() as t:
            for i in range(first, min(first + _SCENES_PER_COMMIT, len(scenes))):
                _add_scene(t, i, scenes, known[i % modes], i < modes, draw)
            t.commit("collect", 0, "{}")


def _add_scene(t: Transaction, i: int, scenes: list[str], mode: Mode, valued: bool, draw: random.Random) -> None:
    """Scene number ``i`` with its rollouts; each is edited from the one before, every tenth begins anew."""
    round, scene_id = i * ROUNDS // len(scenes), scene_id_of(scenes[i])
    base = scene_id_of(scenes[i - 1]) if i % 10 else None
    verb, program_id = _VERBS[i % 4], program_id_of("generation", _text(mode))
    t.add(Scene(scene_id, scenes[i], "targeted", round, base, program_id, mode.factor, (Verb(verb, 0.5),), (i % 5) / 5, mode.mode_id))
    repair = Repair("move", "box", draw.random(), "m")
    t.add(Construction(round, verb, _CHECKS[i % 3], "box", "mug", 0.01, "m", repair, bool(i % 3), scene_id))
    for repeat in range(REPEATS):
        success = draw.random() < 0.5
        episode = Episode(round, "collect", scene_id, repeat, 100 * round, success, 80, None if success else mode.phase)
        number = t.add(episode)
        if number is not None and not success and draw.random() < 0.8:
            evidence = Evidence((3, 4), {"clearance_m": 0.01})
            t.add(Diagnosis(number, mode.factor, mode.phase, mode.cause, evidence, 0.7, mode.mode_id))
    if valued:
        t.add(LearningValue(mode.mode_id, round, (Gain(scene_id, 2, 5, 8),), 0.375, 0.2))


def _text(mode: Mode) -> str:
    return f"edit({mode.cause!r})  # " + "x" * 1000


QUERIES: dict[str, Callable[[Memory], object]] = {
    "success by mode, a round": lambda m: rollouts.success_counts(m, ("mode",), round=ROUNDS - 1, purpose="collect"),
    "success by program and level, a round": lambda m: rollouts.success_counts(m, ("program", "level"), round=ROUNDS - 1),
    "success by scene, a round": lambda m: rollouts.success_counts(m, ("scene",), round=ROUNDS - 1, purpose="collect"),
    "success by purpose, all rounds": lambda m: rollouts.success_counts(m, ("round", "purpose")),
    "failures without diagnosis": lambda m: rollouts.undiagnosed_failures(m, ROUNDS - 1),
    "diagnoses without mode": lambda m: rollouts.unassigned_diagnoses(m, ROUNDS - 1),
    "hardest modes": lambda m: difficulties.top_modes(m, FAMILY, "severity", 64),
    "most important modes": lambda m: difficulties.top_modes(m, FAMILY, "importance", 64),
    "modes with Learning Value": lambda m: difficulties.modes_with_learning(m, FAMILY),
    "construction priors": rollouts.construction_priors,
    "programs of 64 modes": lambda m: [programs.programs_of(m, mode.mode_id) for mode in difficulties.top_modes(m, FAMILY, "severity", 64)],
    # what the loop's own stages ask in a round (loop/rounds/recall.py)
    "programs by mode": recall.generation_programs,
    "modes of the family": lambda m: difficulties.current_modes(m, FAMILY),
    "modes diagnosed in the round": lambda m: recall.diagnosed_modes(m, ROUNDS - 1),
    "rollouts of a purpose": lambda m: recall.episodes(m, ROUNDS - 1, "collect"),
    "priors of the engine": recall.priors,
    "scene ids": recall.scene_ids,
    "last round of each mode": recall.measured_rounds,
    "provenance of an episode": lambda m: provenance(m, m.next_episode_id() - 1),
}


def measure(memory: Memory) -> dict[str, float]:
    """Seconds of each query, asked once."""
    times = {}
    for name, query in QUERIES.items():
        began = time.perf_counter()
        query(memory)
        times[name] = time.perf_counter() - began
    return times


def _peer(memory: Memory) -> float:
    """Seconds of "success by mode, a round" over all rows in lists."""
    scenes, played = memory.rows(Scene), memory.rows(Episode)
    began = time.perf_counter()
    mode_of = {s.scene_id: s.mode_id for s in scenes}
    counts: collections.Counter[str | None] = collections.Counter()
    for episode in played:
        if episode.round == ROUNDS - 1 and episode.purpose == "collect" and not episode.health:
            counts[mode_of[episode.scene_id]] += episode.success
    return time.perf_counter() - began


def main(arguments: list[str]) -> None:
    if len(arguments) > 1:
        raise app.UsageError(f"unknown argument {arguments[1]!r}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.sqlite"
        began = time.perf_counter()
        with Memory.open(path) as memory:
            fill(memory, _EPISODES.value, _MODES.value)
        filled_s = time.perf_counter() - began
        began = time.perf_counter()
        with Memory.open(path) as memory:
            opened_s = time.perf_counter() - began
            times = measure(memory)
            peer_s = _peer(memory)
        size = path.stat().st_size
    common = {"unit": "s", "device": "cpu", "versions": {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}}
    extra = {"success by mode, a round": {"peer": "Python lists", "peer_value": round(peer_s, 4)}}
    extra["success by mode, a round"]["ratio"] = round(peer_s / times["success by mode, a round"], 2)
    rows = {**times, "all queries of a round": sum(times.values()), "opening with all checks": opened_s, "filling": filled_s}
    for name, seconds in rows.items():
        print(json.dumps({"name": f"memory: {name}", "value": round(seconds, 4), **common, **extra.get(name, {})}), flush=True)
        print(f"{name:<40} {1000 * seconds:>10.1f} ms", file=sys.stderr)
    print(f"{_EPISODES.value} episodes, {_MODES.value} modes, {size / 1e6:.0f} MB", file=sys.stderr)


if __name__ == "__main__":
    app.run(main)
