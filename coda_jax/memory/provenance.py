"""Where a scene or a rollout comes from: program hash -> scene -> rollout -> update of the policy that acted."""

from __future__ import annotations

import dataclasses

from coda_jax.memory.rows import Episode, Program, Scene
from coda_jax.memory.store import CURRENT, Memory
from coda_jax.memory.transaction import StoreError

IMPORTED = "memory"  # stage whose commit stores what came from another run's memory
# the scene, the one it was edited from, and so on; UNION ends a chain that damaged rows closed to a ring
_CHAIN = """WITH RECURSIVE chain(scene_id, depth) AS (
    VALUES (?, 0) UNION SELECT s.base_scene_id, depth + 1 FROM chain c JOIN scenes s USING (scene_id)
    WHERE s.base_scene_id IS NOT NULL AND depth < 1000
)"""


@dataclasses.dataclass(frozen=True)
class Provenance:
    """programs: those that made the scenes, current versions, in the order of the scenes. scenes: the scene first, then what it was
    edited from, the seed scene last. episodes: the rollout asked for, or all of the scene; each names its ``policy_step``.

    commits: numbers of the commits that stored the scenes, in their order. imported: ids of those programs that came from another run's
    memory; the row of kind "starting_memory" in ``metrics.jsonl`` names its file.
    """

    programs: tuple[Program, ...]
    scenes: tuple[Scene, ...]
    episodes: tuple[Episode, ...]
    commits: tuple[int, ...]
    imported: tuple[str, ...]


def provenance(memory: Memory, of: str | int) -> Provenance:
    """The chain of a scene id or an episode id.

    Raises:
      StoreError: it is not stored.
    """
    episodes = memory.rows(Episode, f"WHERE {'scene_id' if isinstance(of, str) else 'episode_id'} = ? ORDER BY episode_id", (of,))
    if isinstance(of, int) and not episodes:
        raise StoreError(f"episode {of} is not in {memory.path}")
    scene_id = of if isinstance(of, str) else episodes[0].scene_id
    chain = memory.select(
        f"{_CHAIN} SELECT scene_id, program_id, commit_no FROM chain JOIN scenes USING (scene_id) ORDER BY depth", (scene_id,)
    )
    if not chain:
        raise StoreError(f"scene {scene_id} is not in {memory.path}")
    scenes = [memory.rows(Scene, "WHERE scene_id = ?", (found,))[0] for found, _, _ in chain]
    made_by = dict.fromkeys(program for _, program, _ in chain if program is not None)
    programs = [memory.rows(Program, f"WHERE program_id = ? AND {CURRENT[Program]}", (found,))[0] for found in made_by]
    sql = "SELECT program_id FROM programs JOIN commits ON number = commit_no WHERE stage = ?"
    foreign = {program for (program,) in memory.select(sql, (IMPORTED,))}
    imported = tuple(p.program_id for p in programs if p.program_id in foreign)
    return Provenance(tuple(programs), tuple(scenes), tuple(episodes), tuple(number for _, _, number in chain), imported)
