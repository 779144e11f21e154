"""Rollouts with the policy inside the executable: observation, decision, chunk and refill are one scan on the device.

Episodes wait in a ring of rows on the device, placed and settled. A world that ended takes the next row between two decisions, so the
host only feeds rows and reads traces, many decisions at a time. On a mesh each device has worlds and a ring of its own and waits for no
other within a call. An episode's result is that of the loop in rollouts.py: it depends on its key and its decisions alone.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from coda_jax.evaluation.results import Pieces, Result, Timings, decision_keys, whole_chunks
from coda_jax.evaluation.words import EmbedFn, embedded_words
from coda_jax.learning.policies.base import Params
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.sim.executable import Executable, Report
from coda_jax.sim.mjx_size import Size
from coda_jax.sim.mjx_state import DATA, resumed, saved
from coda_jax.sim.observe import observe
from coda_jax.sim.recording import Strip
from coda_jax.sim.simulator import Episode, SceneBatch, Simulator
from coda_jax.types import ACTION_DIM, Array, ChunkTrace, Observation, SimState, WorldView, _pytree, where_rows

PREFIX_STEPS = 256  # longest prefix that a row has room for, control steps
DECISIONS = 8  # of one call: what the host waits for at least
_RING = 2  # rows of the ring, in batches of worlds


@runtime_checkable
class ScanSimulator(Simulator, Protocol):
    """A simulator whose chunks can be traced into a larger executable."""

    chunk: int
    mesh: Mesh | None
    fixed: Any
    blank: Any
    by_world: Any
    everywhere: Any

    def size(self, episode: Episode) -> Size: ...

    def build(self, episode: Episode, report: Report) -> SceneBatch: ...

    def chunk_fn(self) -> Callable[..., tuple[SimState, ChunkTrace]]:
        """Hashable: (fixed, models, table, horizon, mask, state, chunk, hold) -> state and trace of the worlds of one device."""
        ...


@dataclasses.dataclass(frozen=True)
class InScan:
    """A policy function that may also be traced: ``decide(params, observation, keys)`` gives chunks [W, h, 7]; it is hashable and pure."""

    decide: Callable[[Params, Observation, Array], Array]
    params: Params

    def __call__(self, obs: Observation, keys: Array) -> Array:
        return self.decide(self.params, obs, keys)


@_pytree
class _Rows:
    """Episodes as a world needs them: [r, ...].

    view, physics, health: settled. prefix: [r, PREFIX_STEPS, 7], of which ``given`` chunks count.
    """

    models: Any
    table: Any
    horizon: Array
    text: Array
    instruction: Array
    pair: Array
    prefix: Array
    given: Array
    view: WorldView
    physics: dict[str, Array]
    health: Array


@_pytree
class _Worlds:
    """number: [w] int32, which of its device's episodes runs, counted as they were fed; -1 where none does."""

    rows: _Rows
    state: SimState
    number: Array
    decision: Array


@_pytree
class _Ring:
    """fed, taken: [1] int32 for each device, episodes that were put in and that a world took."""

    rows: _Rows
    fed: Array
    taken: Array


@_pytree
class _Step:
    """What the worlds did after one decision; only worlds with ``number`` >= 0 did anything."""

    number: Array
    trace: ChunkTrace
    action: Array
    whole: Array
    health: Array
    ended: Array


@dataclasses.dataclass(frozen=True)
class _Static:
    """What an executable is made for; hashable."""

    chunk_fn: Callable[..., tuple[SimState, ChunkTrace]]
    decide: Callable[[Params, Observation, Array], Array]
    executed: int
    mesh: Mesh | None


def _refill(worlds: _Worlds, ring: _Ring) -> tuple[_Worlds, _Ring]:
    """Idle worlds take the next rows of the ring, in their order; the others keep every bit."""
    idle = worlds.number < 0
    wanted = ring.taken[0] + jnp.cumsum(idle) - 1
    takes = idle & (wanted < ring.fed[0])

    def take(worlds: _Worlds) -> _Worlds:
        place = jnp.where(takes, wanted, 0) % ring.rows.horizon.shape[0]
        rows = where_rows(takes, jax.tree.map(lambda leaf: leaf[place], ring.rows), worlds.rows)
        state = worlds.state
        zero = jnp.zeros_like(state.stage)
        fresh = SimState(resumed(state.physics, rows.physics), rows.view, zero, rows.health)
        number = jnp.where(takes, wanted, worlds.number).astype(jnp.int32)
        return _Worlds(rows, where_rows(takes, fresh, state), number, jnp.where(takes, 0, worlds.decision).astype(jnp.uint32))

    worlds = jax.lax.cond(takes.any(), take, lambda same: same, worlds)
    return worlds, dataclasses.replace(ring, taken=ring.taken + takes.sum(dtype=jnp.int32))


def _decide(static: _Static, fixed: Any, params: Params, key: Array, worlds: _Worlds) -> tuple[_Worlds, _Step]:
    rows, state, e = worlds.rows, worlds.state, static.executed
    runs = worlds.number >= 0
    keys = decision_keys(key, rows.pair, worlds.decision)
    whole = static.decide(params, observe(state.view, rows.text, rows.instruction), keys)
    first = jnp.minimum(worlds.decision.astype(jnp.int32) * e, PREFIX_STEPS - e)
    given = jax.vmap(lambda prefix, start: jax.lax.dynamic_slice(prefix, (start, 0), (e, ACTION_DIM)))(rows.prefix, first)
    chunk = jnp.where((worlds.decision < rows.given)[:, None, None], given, whole[:, :e])
    state, trace = static.chunk_fn(fixed, rows.models, rows.table, rows.horizon, runs, state, chunk, jnp.asarray(False))
    ended = runs & (trace.terminated | trace.truncated | (state.health != 0))
    step = _Step(worlds.number, trace, chunk, whole, state.health, ended)
    return _Worlds(rows, state, jnp.where(ended, -1, worlds.number), worlds.decision + 1), step


def _advance(static: _Static, fixed: Any, params: Params, key: Array, worlds: _Worlds, ring: _Ring) -> tuple[_Worlds, _Ring, _Step]:
    """DECISIONS decisions of every world; steps have a leading axis of them. Worlds without an episode, and calls without any, idle."""
    shapes = jax.eval_shape(functools.partial(_decide, static), fixed, params, key, worlds)[1]

    def nothing(worlds: _Worlds) -> tuple[_Worlds, _Step]:
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return worlds, dataclasses.replace(zeros, number=worlds.number)

    def one(carry: tuple[_Worlds, _Ring], _: None) -> tuple[tuple[_Worlds, _Ring], _Step]:
        worlds, ring = _refill(*carry)
        decide = functools.partial(_decide, static, fixed, params, key)
        worlds, step = jax.lax.cond((worlds.number >= 0).any(), decide, nothing, worlds)
        return (worlds, ring), step

    (worlds, ring), steps = jax.lax.scan(one, (worlds, ring), None, length=DECISIONS)
    return worlds, ring, steps


def _feed(ring: _Ring, rows: _Rows, count: Array) -> _Ring:
    """The first ``count`` [1] of a device's ``rows`` behind those that it was fed before."""
    size, n = ring.rows.horizon.shape[0], rows.horizon.shape[0]
    place = jnp.where(jnp.arange(n) < count[0], (ring.fed[0] + jnp.arange(n)) % size, size)
    kept = jax.tree.map(lambda old, new: old.at[place].set(new, mode="drop"), ring.rows, rows)
    return _Ring(kept, ring.fed + count, ring.taken)


@functools.cache
def _programs(static: _Static) -> tuple[Executable, Executable]:
    """``_advance`` and ``_feed`` for the static's devices. What they replace is given away: rings and worlds are never copied."""
    advance, feed = functools.partial(_advance, static), _feed
    if static.mesh is not None:
        here, everywhere, traces = PartitionSpec(DATA), PartitionSpec(), PartitionSpec(None, DATA)
        specs = {"mesh": static.mesh, "check_vma": False}
        advance = jax.shard_map(advance, in_specs=(everywhere, everywhere, everywhere, here, here), out_specs=(here, here, traces), **specs)
        feed = jax.shard_map(feed, in_specs=(here, here, here), out_specs=here, **specs)
    donated = Executable("mjx rollout", jax.jit(advance, donate_argnums=(3, 4)))
    return donated, Executable("mjx feed", jax.jit(feed, donate_argnums=0))


@dataclasses.dataclass
class _Running:
    """An episode that was fed and has not ended. strip: where a record was asked for."""

    episode: Episode
    strip: Strip | None
    pieces: Pieces = dataclasses.field(default_factory=Pieces)


class _Feeder:
    """Episodes of an iterable as rows on the device; ``running``: those that have not ended, by device and number."""

    def __init__(self, sim: ScanSimulator, catalogue: Catalogue, episodes: Iterable[Episode], embed: EmbedFn, executed: int, record: bool):
        self._sim, self._catalogue, self._episodes, self._embed = sim, catalogue, iter(episodes), embed
        self._executed, self._record = executed, record
        self.devices = 1 if sim.mesh is None else sim.mesh.shape[DATA]
        self.fed = np.zeros(self.devices, np.int64)
        self.running: dict[tuple[int, int], _Running] = {}

    def rows(self) -> tuple[_Rows, np.ndarray] | None:
        """The next W episodes, settled, dealt out to the devices in turn, and how many each device gets; None when there are none."""
        sim, n = self._sim, self.devices
        got = list(itertools.islice(self._episodes, sim.worlds))
        if not got:
            return None
        share = sim.worlds // n
        dealt = [got[d::n] for d in range(n)]
        counts = np.array([len(d) for d in dealt], np.int32)
        filled = [e for own in dealt for e in (*own, *[got[0]] * (share - len(own)))]
        batch = sim.compile(filled)
        state = sim.reset(batch)
        rows = self._as_rows(batch, state, filled)
        view = jax.device_get(state.view) if self._record else None
        for d, own in enumerate(dealt):
            for i, episode in enumerate(own):
                strip = None if view is None else Strip(view, d * share + i)
                self.running[d, int(self.fed[d]) + i] = _Running(episode, strip)
        self.fed += counts
        return rows, counts

    def _as_rows(self, batch: SceneBatch, state: SimState, filled: Sequence[Episode]) -> _Rows:
        text, instruction = embedded_words(filled, self._catalogue, self._embed)
        prefix = np.zeros((len(filled), PREFIX_STEPS, ACTION_DIM), np.float32)
        for row, episode in zip(prefix, filled, strict=True):
            if episode.prefix is not None:
                if len(episode.prefix) > PREFIX_STEPS:
                    raise ValueError(f"a prefix of {len(episode.prefix)} control steps; rollouts on the device take up to {PREFIX_STEPS}")
                row[: len(episode.prefix)] = episode.prefix
        given = np.array([whole_chunks(e, self._executed) for e in filled], np.uint32)
        pair = np.array([e.key for e in filled], np.uint32)
        host = jax.device_put((text, instruction, pair, prefix, given), self._sim.by_world)
        return _Rows(batch.models, batch.table, batch.horizon, *host, view=state.view, physics=saved(state.physics), health=state.health)


def scan_rollout(
    sim: ScanSimulator,
    catalogue: Catalogue,
    episodes: Iterable[Episode],
    policy_fn: InScan,
    embed: EmbedFn,
    executed: int,
    key: Array,
    timings: Timings | None = None,
    record: bool = False,
) -> Iterator[Result]:
    """Arguments and results as rollouts.rollout, which calls this where it can; ``timings`` has the device's time as physics.

    Raises:
      ValueError: an episode's prefix is longer than PREFIX_STEPS.
    """
    clock = timings or Timings()
    begun = time.perf_counter()
    static = _Static(sim.chunk_fn(), policy_fn.decide, executed, sim.mesh)
    advance, feed = _programs(static)
    feeder = _Feeder(sim, catalogue, episodes, embed, executed, record)
    params, key = jax.device_put((policy_fn.params, key), sim.everywhere)
    worlds = ring = None
    taken, share = np.zeros(feeder.devices, np.int64), sim.worlds // feeder.devices
    while True:
        start = time.perf_counter()
        # asked again before every call: the iterable may have more after what it just heard
        while (feeder.fed - taken).max() <= (_RING - 1) * share and (wave := feeder.rows()) is not None:
            rows, counts = wave
            if worlds is None or ring is None:
                worlds, ring = _empty(sim, rows, feeder.devices)
            ring = feed(ring, rows, jax.device_put(counts, sim.by_world))
        clock.refill_s += time.perf_counter() - start
        clock.total_s = time.perf_counter() - begun
        if not feeder.running:
            return
        assert worlds is not None and ring is not None
        start = time.perf_counter()
        worlds, ring, steps = advance(sim.fixed, params, key, worlds, ring)
        if not record:
            steps = dataclasses.replace(steps, trace=dataclasses.replace(steps.trace, moving=None))
        steps, taken = jax.device_get((steps, ring.taken))
        clock.physics_s += time.perf_counter() - start
        start = time.perf_counter()
        yield from _finished(feeder, steps, executed)
        clock.refill_s += time.perf_counter() - start
        clock.total_s = time.perf_counter() - begun


def build(
    sim: ScanSimulator, catalogue: Catalogue, episode: Episode, policy_fn: InScan, embed: EmbedFn, executed: int, key: Array, report: Report
) -> None:
    """Build every executable that ``scan_rollout`` with these arguments runs, ahead of it; ``report`` hears what each took."""
    sim.build(episode, report)
    advance, feed = _programs(_Static(sim.chunk_fn(), policy_fn.decide, executed, sim.mesh))
    feeder = _Feeder(sim, catalogue, [episode], embed, executed, record=False)
    wave = feeder.rows()
    assert wave is not None
    worlds, ring = _empty(sim, wave[0], feeder.devices)
    feed.build(ring, wave[0], jax.device_put(wave[1], sim.by_world), report=report)
    advance.build(sim.fixed, *jax.device_put((policy_fn.params, key), sim.everywhere), worlds, ring, report=report)


def _empty(sim: ScanSimulator, rows: _Rows, devices: int) -> tuple[_Worlds, _Ring]:
    """Worlds without episodes and an empty ring, shaped like ``rows``."""

    def zeros(times: int) -> _Rows:
        return jax.device_put(jax.tree.map(lambda x: np.zeros((times * x.shape[0], *x.shape[1:]), x.dtype), rows), sim.by_world)

    blank = zeros(1)
    none = np.zeros(sim.worlds, np.int32)
    parts = jax.device_put((none, none, none - 1, none.astype(np.uint32)), sim.by_world)
    state = SimState(jax.tree.map(jnp.copy, sim.blank), jax.tree.map(jnp.copy, blank.view), parts[0], parts[1])
    count = jax.device_put((np.zeros(devices, np.int32), np.zeros(devices, np.int32)), sim.by_world)
    return _Worlds(blank, state, parts[2], parts[3]), _Ring(zeros(_RING), *count)


def _finished(feeder: _Feeder, steps: _Step, executed: int) -> Iterator[Result]:
    """Add what the worlds did to their episodes' pieces; those that ended come out."""
    share, trace = steps.number.shape[1] // feeder.devices, steps.trace
    for k in range(len(steps.number)):
        for w in np.flatnonzero(steps.number[k] >= 0).tolist():
            name, n = (w // share, int(steps.number[k, w])), int(trace.executed[k, w])
            mine = feeder.running[name]
            predicates, qpos, action = (np.array(values[k, w, :n]) for values in (trace.predicates, trace.qpos, steps.action))
            mine.pieces.add(predicates, qpos, action, int(trace.clipped[k, w]), np.array(steps.whole[k, w]))
            if mine.strip is not None:
                assert trace.moving is not None, "a record was asked for"
                mine.strip.append({field: np.array(values[k, w, :n]) for field, values in trace.moving.items()})
            if steps.ended[k, w]:
                del feeder.running[name]
                views = mine.strip.moments() if mine.strip else None
                yield mine.pieces.result(mine.episode, bool(trace.terminated[k, w]), int(steps.health[k, w]), executed, views)
