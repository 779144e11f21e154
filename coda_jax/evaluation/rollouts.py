"""Closed-loop rollouts: the common seam above every backend.

A queue of episodes runs in a fixed number of worlds; finished ones are refilled. Where the simulator is traced (MJX) and the policy can
be, the loop runs on the device (scan_rollouts.py); else decisions and chunks alternate here.

What happens in an episode depends on its key (scene, repeat) and the decision's number alone, never on its world or its neighbours.

An episode with a prefix begins with those actions, cut to whole chunks, in place of the policy's; the policy takes over at the next
decision. The horizon is that of a plain episode: the prefix counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import jax
import numpy as np

from coda_jax.evaluation.guidance import Guidance, Guided
from coda_jax.evaluation.results import Pieces, Result, Timings, decision_keys, whole_chunks
from coda_jax.evaluation.scan_rollouts import InScan, ScanSimulator, scan_rollout
from coda_jax.evaluation.words import EmbedFn, Words
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.sim.observe import observe
from coda_jax.sim.recording import Tape
from coda_jax.sim.refill import Refill
from coda_jax.sim.simulator import Episode, Simulator
from coda_jax.types import Array, Observation

# (observation of W worlds, keys [W] of this decision) -> chunks [W, h, 7]; the first ``executed`` rows are carried out.
# One that is Guided is also told where the episodes' training programs stand.
PolicyFn = Callable[[Observation, Array], Array] | Guided


def rollout(
    sim: Simulator,
    catalogue: Catalogue,
    episodes: Iterable[Episode],
    policy_fn: PolicyFn,
    embed: EmbedFn,
    executed: int,
    key: Array,
    timings: Timings | None = None,
    record: bool = False,
) -> Iterator[Result]:
    """Yield every episode's result, in the order in which they end.

    Args:
      episodes: of one bucket; any number, W at a time. policy_fn: samples W chunks, one executable. embed: sentences to [n, d].
      executed: e, control steps carried out of each chunk. key: folded with (scene, repeat, decision). record: results have views.
    """
    if isinstance(sim, ScanSimulator) and isinstance(policy_fn, InScan):
        yield from scan_rollout(sim, catalogue, episodes, policy_fn, embed, executed, key, timings, record)
        return
    clock = timings or Timings()
    begun = time.perf_counter()
    refill = Refill(sim, episodes)
    started = refill.start()
    if started is None:
        return
    batch, state, first = started
    words = Words(sim.worlds, catalogue, embed)
    words.put(range(len(first)), first)
    pairs = np.zeros((sim.worlds, 2), np.uint32)
    decision = np.zeros(sim.worlds, np.uint32)
    pieces = [Pieces() for _ in range(sim.worlds)]
    tape = Tape(sim.worlds) if record else None
    pairs[: len(first)] = [e.key for e in first]
    if tape:
        tape.begin(range(len(first)), state.view)
    guidance = Guidance(policy_fn, sim.worlds) if isinstance(policy_fn, Guided) else None
    if guidance:
        guidance.put(range(len(first)), first)
    clock.refill_s += time.perf_counter() - begun
    while (mask := np.asarray(batch.mask)).any():
        start = time.perf_counter()
        obs, keys = observe(state.view, words.text, words.instruction), decision_keys(key, pairs, decision)
        if isinstance(policy_fn, Guided):
            assert guidance is not None
            chunks = guidance.chunks(obs, state.view, keys, mask & ~_in_prefix(batch.episodes, decision, executed))
        else:
            chunks = np.asarray(policy_fn(obs, keys))
        whole, chunks = chunks, _with_prefixes(chunks[:, :executed], batch.episodes, decision)
        middle = time.perf_counter()
        state, trace = sim.step_chunk(batch, state, chunks, record=record or (guidance is not None and guidance.every_step))
        trace, health = jax.device_get((trace, state.health))  # at once: indexing on the device would build an executable for each shape
        end = time.perf_counter()
        clock.policy_s += middle - start
        clock.physics_s += end - middle
        decision += 1
        for w in np.flatnonzero(mask):
            n = int(trace.executed[w])
            pieces[w].add(trace.predicates[w, :n], trace.qpos[w, :n], chunks[w, :n], int(trace.clipped[w]), whole[w])
        if tape:
            tape.append(mask, trace)
        if guidance and guidance.every_step:
            guidance.passed(state.view, trace)
        ended = np.flatnonzero(mask & (trace.terminated | trace.truncated | (health != 0)))
        if len(ended):
            for w in ended:
                episode = batch.episodes[w]
                assert episode is not None
                views = tape.cut(int(w)) if tape else None
                yield pieces[w].result(episode, bool(trace.terminated[w]), int(health[w]), executed, views)
                pieces[w] = Pieces()
            batch, state, worlds, jobs = refill.replace(batch, state, ended)
            if worlds:
                words.put(worlds, jobs)
                pairs[worlds] = [e.key for e in jobs]
                decision[worlds] = 0
                if tape:
                    tape.begin(worlds, state.view)
                if guidance:
                    guidance.put(worlds, jobs)
        clock.refill_s += time.perf_counter() - end
        clock.total_s = time.perf_counter() - begun


def _in_prefix(episodes: Sequence[Episode | None], decision: np.ndarray, executed: int) -> np.ndarray:
    """[W] bool: worlds whose next chunk is their episode's prefix's."""
    return np.array([e is not None and d < whole_chunks(e, executed) for e, d in zip(episodes, decision, strict=True)])


def _with_prefixes(chunks: np.ndarray, episodes: Sequence[Episode | None], decision: np.ndarray) -> np.ndarray:
    """Chunks [W, e, 7] in which those of worlds still in their prefix are the prefix's."""
    e = chunks.shape[1]
    for w in np.flatnonzero(_in_prefix(episodes, decision, e)).tolist():
        episode = episodes[w]
        assert episode is not None and episode.prefix is not None
        first = int(decision[w]) * e
        chunks = chunks.copy() if not chunks.flags.writeable else chunks
        chunks[w] = episode.prefix[first : first + e]
    return chunks
