"""What stages read back from memory: scenes with their bases, modes, programs."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence

from coda_jax import config as settings
from coda_jax.evaluation.coverage import TERCILES, tercile
from coda_jax.loop.strategies import STRATEGIES
from coda_jax.memory.modes import current_modes
from coda_jax.memory.programs import current_programs
from coda_jax.memory.rows import Episode, Mode, Program
from coda_jax.memory.store import Memory
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.edits.verbs import VERBS, verbs_of
from coda_jax.scenes.spec import SceneSpec, from_json

_ASSET = re.compile(r'"asset":"([a-z0-9_]{1,48})"')


def scene_ids(memory: Memory) -> list[str]:
    """Ids of all stored scenes."""
    return [scene_id for (scene_id,) in memory.select("SELECT scene_id FROM scenes")]


class Scenes:
    """Stored scenes by id, each read once."""

    def __init__(self, memory: Memory):
        self._memory = memory
        self._specs: dict[str, SceneSpec] = {}
        self._bases: dict[str, str] = {}

    def spec(self, scene_id: str) -> SceneSpec:
        if scene_id not in self._specs:
            row = self._memory.scene(scene_id)
            if row is None:
                raise KeyError(f"memory holds no scene {scene_id}")
            self._specs[scene_id] = from_json(row.spec)
            self._bases[scene_id] = row.base_scene_id or scene_id
        return self._specs[scene_id]

    def base(self, scene_id: str) -> SceneSpec:
        """The scene that another one was edited from, itself for an unedited one."""
        self.spec(scene_id)
        return self.spec(self._bases[scene_id])


def episodes(memory: Memory, round_number: int, purpose: str) -> list[Episode]:
    """Rollouts of a round and purpose, in the order stored."""
    return memory.rows(Episode, "WHERE round = ? AND purpose = ? ORDER BY episode_id", (round_number, purpose))


def modes_of(memory: Memory, families: Sequence[str]) -> list[Mode]:
    """The modes of families as they are now, one family after the other."""
    return [mode for family in families for mode in current_modes(memory, family)]


def modes_by_id(modes: list[Mode]) -> dict[str, Mode]:
    return {m.mode_id: m for m in modes}


def generation_programs(memory: Memory) -> dict[str, list[Program]]:
    """Mode id to its generation programs, current versions, in one query."""
    found: dict[str, list[Program]] = {}
    for program in current_programs(memory):
        if program.kind == "generation" and program.mode_id is not None:
            found.setdefault(program.mode_id, []).append(program)
    return found


def newest(programs: list[Program]) -> Program | None:
    """The program of a mode to use: the one searched last, of those an active one first; retired ones and those without a level never.

    Imported ones count until one was searched in this run (rounds count from 1), whatever came of that.
    """
    order = {"active": 1, "candidate": 0}
    here = [p for p in programs if p.round] or programs
    usable = [p for p in here if p.status in order and p.level is not None]
    return max(usable, key=lambda p: (p.round, order[p.status], p.version, p.program_id), default=None)


def latest(programs: list[Program]) -> Program | None:
    """The program of a retired mode: the one searched last that has a level, a retired one too."""
    return max((p for p in programs if p.level is not None), key=lambda p: (p.round, p.version, p.program_id), default=None)


def measured_rounds(memory: Memory) -> dict[str, int]:
    """Mode id to the last round in which a control test or a Learning Value measured it."""
    found = memory.select(
        "SELECT mode_id, max(round) FROM (SELECT mode_id, round FROM control_tests UNION ALL SELECT mode_id, round FROM learning_values) "
        "GROUP BY mode_id"
    )
    return dict(found)


def diagnosed_modes(memory: Memory, round_number: int) -> dict[str, int]:
    """Modes that failures of a round were assigned to, with how many of them; the commonest first."""
    found = memory.select(
        "SELECT mode_id, count(*) FROM assignments JOIN episodes USING (episode_id) WHERE round = ? GROUP BY mode_id "
        "ORDER BY count(*) DESC, mode_id",
        (round_number,),
    )
    return dict(found)


def described(memory: Memory, config: settings.Config, train: Catalogue, round_number: int) -> str:
    """What a memory's accepted scenes are made of, for an author of new ones: edits by factor, verb and third of the magnitude, and things.

    Of a strategy that does not remember, what this round's are made of.
    """
    every = int(STRATEGIES[config.strategy].remembers)
    found = memory.select("SELECT verbs, spec FROM scenes WHERE reason IS NULL AND (? OR round = ?)", (every, round_number))
    edits = Counter((v["name"], tercile(v["magnitude"])) for verbs, _ in found for v in json.loads(verbs))
    things = Counter(asset.rpartition("_")[0] for _, spec in found for asset in set(_ASSET.findall(spec)))
    lines = [f"{len(found)} scenes; edits by verb: how often in the low, middle and high third of the magnitude"]
    for name in (
        verbs_of(settings.families(config), "task")
        + verbs_of(settings.families(config), "spatial")
        + verbs_of(settings.families(config), "attributes")
    ):
        lines.append(f"  {VERBS[name].factor} {name}: {', '.join(str(edits[name, third]) for third in range(TERCILES))}")
    held = sorted(train.categories(), key=lambda c: (things[c], c))
    return "\n".join([*lines, "categories, how many scenes hold one: " + ", ".join(f"{c} {things[c]}" for c in held)])


def has_traces(config: settings.Config) -> bool:
    """Whether earlier constructions are priors of what a run proposes."""
    return STRATEGIES[config.strategy].remembers and config.engine.traces


def priors(memory: Memory) -> dict[tuple[str, float], tuple[int, int]]:
    """(verb, magnitude rounded up to a quarter) to (valid, built) scenes of one edit, of all rounds."""
    counts: dict[tuple[str, float], list[int]] = {}

    def count(verb: str, magnitude: float, valid: int, built: int) -> None:
        own = counts.setdefault((verb, math.ceil(4 * magnitude) / 4), [0, 0])
        own[0] += valid
        own[1] += built

    for verb, n in memory.select("SELECT verb, count(*) FROM constructions WHERE accepted = 0 AND repair IS NULL GROUP BY verb"):
        name, _, magnitude = verb.partition("@")
        count(name, float(magnitude or 0), 0, n)
    for name, magnitude, n in memory.select(
        "SELECT json_extract(verbs, '$[0].name'), json_extract(verbs, '$[0].magnitude'), count(*) FROM scenes "
        "WHERE json_array_length(verbs) = 1 AND reason IS NULL GROUP BY 1, 2"
    ):
        count(name, float(magnitude), n, n)
    return {key: (valid, built) for key, (valid, built) in sorted(counts.items())}


def latest_success(memory: Memory, mode_id: str, level: float, within: float) -> tuple[int, int]:
    """(successes, healthy rollouts) on the mode's scenes near a level, in the last round in which such scenes were rolled out.

    Practice does not count: it may begin inside a demonstration, and an actor may have chosen.
    """
    found = memory.select(
        "SELECT e.round, sum(e.success AND e.health = 0), sum(e.health = 0) FROM episodes e JOIN scenes s USING (scene_id) "
        "WHERE s.mode_id = ? AND s.level BETWEEN ? AND ? AND e.purpose <> 'practice' GROUP BY e.round ORDER BY e.round DESC LIMIT 1",
        (mode_id, level - within, level + within),
    )
    return (found[0][1], found[0][2]) if found else (0, 0)
