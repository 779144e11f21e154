"""Rollouts with the policy inside the executable: observation, decision, chunk and refill are one scan on the device.

Episodes wait in a ring of rows on the device, placed and settled. A world that ended takes the next row between two decisions, so the
host only feeds rows and reads traces, many decisions at a time. On a mesh each device has worlds and a ring of its own and waits for no
other within a call. An episode's result is that of the loop in rollouts.py: it depends on its key and its decisions alone.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from coda_jax.evaluation.results import Pieces, Result, Timings, decision_keys, whole_chunks
from coda_jax.evaluation.scan_size import DECISIONS, RING, RolloutSize, size_of_rollouts
from coda_jax.evaluation.words import EmbedFn, embedded_words
from coda_jax.learning.policies.base import Params
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.sim.executable import Executable, Memory, Report
from coda_jax.sim.mjx_size import Size, bytes_of
from coda_jax.sim.mjx_state import DATA, resumed, saved
from coda_jax.sim.observe import observe
from coda_jax.sim.recording import FIELD_SHAPES, Strip
from coda_jax.sim.simulator import Episode, SceneBatch, Simulator
from coda_jax.types import ACTION_DIM, TOKENS, Array, ChunkTrace, Observation, SimState, WorldView, _pytree, where_rows


@runtime_checkable
class ScanSimulator(Simulator, Protocol):
    """A simulator whose chunks can be traced into a larger executable."""

    chunk: int
    prefix_steps: int
    mesh: Mesh | None
    fixed: Any
    blank: Any
    by_world: Any
    everywhere: Any

    def size(self, episode: Episode) -> Size: ...

    def build(self, episode: Episode, report: Report) -> SceneBatch: ...

    def prepare(self, episodes: Sequence[Episode]) -> None: ...

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

    view, physics, health: settled. prefix: [r, p, 7], of which ``given`` chunks count; p is the simulator's
    ``prefix_steps`` in whole chunks.
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
    chunk, room = whole[:, :e], rows.prefix.shape[1]
    if room:
        first = jnp.minimum(worlds.decision.astype(jnp.int32) * e, room - e)
        given = jax.vmap(lambda prefix, start: jax.lax.dynamic_slice(prefix, (start, 0), (e, ACTION_DIM)))(rows.prefix, first)
        chunk = jnp.where((worlds.decision < rows.given)[:, None, None], given, chunk)
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
    """An episode that was fed and has not ended. strip: where a record was asked for, once its start is known."""

    episode: Episode
    strip: Strip | None = None
    pieces: Pieces = dataclasses.field(default_factory=Pieces)


def deal(waiting: np.ndarray, share: int, number: int) -> np.ndarray:
    """How many of ``number`` episodes each device gets: one after the other to whom has fewest waiting [d], at most ``share`` each, and as
    long as its ring has room. They may add up to fewer."""
    dealt = np.zeros(len(waiting), np.int64)
    for _ in range(number):
        after = np.where((dealt < share) & (waiting + dealt < RING * share), waiting + dealt, np.iinfo(np.int64).max)
        first = int(after.argmin())
        if after[first] == np.iinfo(np.int64).max:
            break
        dealt[first] += 1
    return dealt


class _Feeder:
    """Episodes of an iterable as rows on the device; ``running``: those that have not ended, by device and number."""

    def __init__(self, sim: ScanSimulator, catalogue: Catalogue, episodes: Iterable[Episode], embed: EmbedFn, executed: int, record: bool):
        self._sim, self._catalogue, self._episodes, self._embed = sim, catalogue, iter(episodes), embed
        self._executed, self._record = executed, record
        self.devices = 1 if sim.mesh is None else sim.mesh.shape[DATA]
        self.fed = np.zeros(self.devices, np.int64)
        self.running: dict[tuple[int, int], _Running] = {}
        self._next: list[Episode] = []
        self._starts: list[tuple[WorldView, dict[int, _Running]]] = []

    def ahead(self) -> None:
        """Ask for the next W episodes and build their scenes: all of ``rows`` that needs no device."""
        more = list(itertools.islice(self._episodes, self._sim.worlds - len(self._next)))
        self._sim.prepare(more)
        self._next += more

    def rows(self, taken: np.ndarray) -> tuple[_Rows, np.ndarray] | None:
        """The next episodes, settled, at most W, and how many each device gets; None where the rings are full enough or there are no more.

        taken: [d] that each device's worlds took of those that were fed.
        """
        sim, waiting = self._sim, self.fed - taken
        if waiting.sum() > (RING - 1) * sim.worlds:
            return None
        self.ahead()
        if not self._next:
            return None
        share = sim.worlds // self.devices
        counts = deal(waiting, share, len(self._next))
        dealt = [self._next[first : first + n] for first, n in zip(np.cumsum(counts) - counts, counts, strict=True)]
        filled = [e for own in dealt for e in (*own, *[self._next[0]] * (share - len(own)))]
        self._next = self._next[counts.sum() :]
        batch = sim.compile(filled)
        state = sim.reset(batch)
        rows = self._as_rows(batch, state, filled)
        begun = {}
        for d, own in enumerate(dealt):
            for i, episode in enumerate(own):
                begun[d * share + i] = self.running[d, int(self.fed[d]) + i] = _Running(episode)
        if self._record:
            self._starts.append((state.view, begun))
        self.fed += counts
        return rows, counts.astype(np.int32)

    def begin_strips(self) -> None:
        """Fetch what the views showed at the starts of recorded episodes; waits for them."""
        for view, begun in self._starts:
            host = jax.device_get(view)
            for row, running in begun.items():
                running.strip = Strip(host, row)
        self._starts = []

    def _as_rows(self, batch: SceneBatch, state: SimState, filled: Sequence[Episode]) -> _Rows:
        text, instruction = embedded_words(filled, self._catalogue, self._embed)
        prefix = np.stack([self._prefix(episode) for episode in filled])
        given = np.array([whole_chunks(e, self._executed) for e in filled], np.uint32)
        pair = np.array([e.key for e in filled], np.uint32)
        host = jax.device_put((text, instruction, pair, prefix, given), self._sim.by_world)
        return _Rows(batch.models, batch.table, batch.horizon, *host, view=state.view, physics=saved(state.physics), health=state.health)

    def _prefix(self, episode: Episode) -> np.ndarray:
        """Its prefix in the room of a row, zeros behind; what lies beyond the horizon is never carried out."""
        room = math.ceil(self._sim.prefix_steps / self._executed) * self._executed
        row = np.zeros((room, ACTION_DIM), np.float32)
        if episode.prefix is not None:
            steps = min(whole_chunks(episode, self._executed), math.ceil(episode.horizon / self._executed)) * self._executed
            if steps > room:
                raise ValueError(
                    f"a prefix of {len(episode.prefix)} control steps, and this simulator was made with prefix_steps = "
                    f"{self._sim.prefix_steps}: give it the longest horizon of its episodes"
                )
            row[:steps] = episode.prefix[:steps]
        return row


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
    """Arguments and results as rollouts.rollout, which calls this where it can; ``timings`` has the wait for the device as physics.

    An iterable hears of a call's results while the next one runs.

    Raises:
      ValueError: an episode has a prefix, and the simulator no room for it (``prefix_steps``).
    """
    clock = timings or Timings()
    begun = time.perf_counter()
    static = _Static(sim.chunk_fn(), policy_fn.decide, executed, sim.mesh)
    advance, feed = _programs(static)
    feeder = _Feeder(sim, catalogue, episodes, embed, executed, record)
    params, key = jax.device_put((policy_fn.params, key), sim.everywhere)
    worlds = ring = heard = None
    taken, open_ = np.zeros(feeder.devices, np.int64), 0
    while True:
        start = time.perf_counter()
        # asked again before every call: the iterable may have more after what it just heard
        while (wave := feeder.rows(taken)) is not None:
            rows, counts = wave
            if worlds is None or ring is None:
                worlds, ring = _empty(sim, rows, feeder.devices)
            ring = feed(ring, rows, jax.device_put(counts, sim.by_world))
            open_ += int(counts.sum())
        steps = None
        if open_:
            assert worlds is not None and ring is not None
            worlds, ring, steps = advance(sim.fixed, params, key, worlds, ring)
        # from here on the device works, and the host tells what the call before gave and builds the scenes of the wave after
        if heard is not None:
            yield from _finished(feeder, heard, executed)
        elif steps is None:
            return
        if steps is not None:
            feeder.ahead()
        clock.refill_s += time.perf_counter() - start
        start = time.perf_counter()
        if steps is None or ring is None:
            heard = None
        else:
            if not record:
                steps = dataclasses.replace(steps, trace=dataclasses.replace(steps.trace, moving=None))
            heard, taken = jax.device_get((steps, ring.taken))
            feeder.begin_strips()
            open_ -= int(heard.ended.sum())
        clock.physics_s += time.perf_counter() - start
        clock.total_s = time.perf_counter() - begun


def build(
    sim: ScanSimulator, catalogue: Catalogue, episode: Episode, policy_fn: InScan, embed: EmbedFn, executed: int, key: Array, report: Report
) -> None:
    """Build every executable that ``scan_rollout`` with these arguments runs, ahead of it; ``report`` hears what each took, beside what
    ``expected_size`` told."""
    sim.build(episode, report)
    advance, feed = _programs(_Static(sim.chunk_fn(), policy_fn.decide, executed, sim.mesh))
    feeder = _Feeder(sim, catalogue, [episode], embed, executed, record=False)
    wave = feeder.rows(np.zeros(feeder.devices, np.int64))
    assert wave is not None
    worlds, ring = _empty(sim, wave[0], feeder.devices)
    feed.build(ring, wave[0], jax.device_put(wave[1], sim.by_world), report=report)
    size, share = expected_size(sim, episode, policy_fn, embed), sim.worlds // feeder.devices
    held = size.held_bytes(share) + bytes_of((sim.fixed, policy_fn.params))
    expected = Memory(held, size.given_bytes(share), size.working_bytes(share))
    args = (sim.fixed, *jax.device_put((policy_fn.params, key), sim.everywhere), worlds, ring)
    advance.build(*args, report=report, expected=expected)


def expected_size(sim: ScanSimulator, episode: Episode, policy_fn: InScan, embed: EmbedFn) -> RolloutSize:
    """What rollouts of episodes like ``episode`` take, told before anything is compiled."""
    text_dim = embed(["object"]).shape[-1]
    shapes = {name: (1, *shape) for name, shape in FIELD_SHAPES.items()} | {"text": (1, TOKENS, text_dim), "instruction": (1, text_dim)}
    seen = [f.name for f in dataclasses.fields(Observation) if f.name != "pixels"]
    obs = Observation(**{name: jax.ShapeDtypeStruct(shapes[name], bool if name == "present" else jnp.float32) for name in seen})
    chunk = jax.eval_shape(policy_fn.decide, policy_fn.params, obs, jax.random.split(jax.random.key(0), 1))
    return size_of_rollouts(sim, episode, text_dim, chunk.shape[1])


def _empty(sim: ScanSimulator, rows: _Rows, devices: int) -> tuple[_Worlds, _Ring]:
    """Worlds without episodes and an empty ring, shaped like ``rows``."""

    def zeros(times: int) -> _Rows:
        return jax.device_put(jax.tree.map(lambda x: np.zeros((times * x.shape[0], *x.shape[1:]), x.dtype), rows), sim.by_world)

    blank = zeros(1)
    none = np.zeros(sim.worlds, np.int32)
    parts = jax.device_put((none, none, none - 1, none.astype(np.uint32)), sim.by_world)
    state = SimState(jax.tree.map(jnp.copy, sim.blank), jax.tree.map(jnp.copy, blank.view), parts[0], parts[1])
    count = jax.device_put((np.zeros(devices, np.int32), np.zeros(devices, np.int32)), sim.by_world)
    return _Worlds(blank, state, parts[2], parts[3]), _Ring(zeros(RING), *count)


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
