"""Programs over recorded moments: as the machine says row by row, whatever lies in a block, without a second executable, and fast."""

from __future__ import annotations

import dataclasses
import time

import jax
import numpy as np
import pytest

from coda_jax.programs import expressions
from coda_jax.programs.training import values as values_module
from coda_jax.programs.training.binding import Scene, bind
from coda_jax.programs.training.measured import measure
from coda_jax.programs.training.program import DenseProgram, SparseProgram
from coda_jax.programs.training.values import BLOCK, staged, tables, values
from coda_jax.programs.training.vocabulary import GOAL
from coda_jax.programs.verifier import nu
from coda_jax.types import FREE_SLOTS
from tests.programs.training.made import cut, demonstrations, e, simple
from tests.programs.worlds import random_view

HELD = e("at_least", e("grasped", "target"), 1.0)
PROGRAMS = (
    simple(HELD, e("at_least", e("lifted", "target"), 0.0), GOAL),
    simple(GOAL),
    DenseProgram(e("mean", e("grasped", "target"), e("grasped", "reference")), 0.01),
    SparseProgram(),
    dataclasses.replace(simple(HELD), latched=True),
)


def scene(target: int, reference: int) -> Scene:
    names = {f"thing_{i}": i for i in (target, reference)}
    first, second = names
    return Scene({"target": first, "reference": second}, nu(e("on", first, second), first), names)


SCENES = [scene(0, 1), scene(2, FREE_SLOTS), scene(3, 4), scene(1, 0), scene(5, 2)]


def test_values_are_those_of_the_machine_row_by_row():
    n = 37
    views, episode = random_view(np.random.default_rng(0), n), np.arange(n) % len(PROGRAMS)
    programs = tables(PROGRAMS, SCENES)
    found = values(programs, episode, views)
    for row in range(n):
        program, where, one = PROGRAMS[episode[row]], SCENES[episode[row]], cut(views, np.array([row]))
        exprs = bind(program, where.roles, where.nu) if hasattr(program, "subgoals") else ()  # pyright: ignore[reportArgumentType]
        expected = np.asarray(expressions.evaluate(expressions.stack([expressions.encode(exprs, where.index)]), one))[0]
        m = len(exprs) // 2
        np.testing.assert_array_equal(found.done[row, :m], expected[:m])
        np.testing.assert_array_equal(found.progress[row, :m], expected[m : 2 * m])
        assert not found.done[row, m:].any() and not found.progress[row, m:].any()
    dense = episode == 2
    touching = views.finger_contact.mean(-1)
    np.testing.assert_allclose(found.reward[dense], 0.005 * (touching[dense, 3] + touching[dense, 4]), rtol=1e-6)
    assert not found.reward[~dense].any()


def test_latch_follows_the_program_of_each_episode():
    views = random_view(np.random.default_rng(1), 60)
    episode = np.repeat([0, 1, 2], 20)
    programs = tables([simple(HELD), dataclasses.replace(simple(HELD), latched=True), simple(HELD)], [scene(0, 1)] * 3)
    raw = values(programs, episode, views)
    found = staged(programs, episode, raw)
    free = (raw.done * np.arange(1, 5)).max(1)
    np.testing.assert_array_equal(found.stage[:20], free[:20])
    np.testing.assert_array_equal(found.stage[20:40], np.maximum.accumulate(free[20:40]))
    np.testing.assert_array_equal(found.stage[40:], free[40:])
    np.testing.assert_allclose(found.phi, found.stage + found.progress)


def test_blocks_change_nothing(monkeypatch):
    views = random_view(np.random.default_rng(2), 50)
    episode, programs = np.zeros(50, int), tables(PROGRAMS[:1], SCENES[:1])
    whole = values(programs, episode, views)
    monkeypatch.setattr(values_module, "BLOCK", 16)
    pieces = values(programs, episode, views)
    np.testing.assert_array_equal(whole.done, pieces.done)
    np.testing.assert_array_equal(whole.progress, pieces.progress)


def test_many_episodes_take_seconds_and_no_new_executable():
    views, one = random_view(np.random.default_rng(3), 5 * BLOCK), tables(PROGRAMS, SCENES)
    values(one, np.zeros(3, int), cut(views, np.arange(3)))
    compilations: list[str] = []

    def listen(event: str, duration_secs: float, **_: str | int) -> None:
        if "compile" in event:
            compilations.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    start = time.perf_counter()
    values(one, np.arange(5 * BLOCK) % 5, views)
    values(one, np.arange(100) % 5, cut(views, np.arange(100)))
    assert time.perf_counter() - start < 5.0  # about 0.3 s on a quiet machine
    assert not compilations


def test_measured_progress_of_rollouts():
    """Successes, and rollouts that end while the target is carried: they stop at the subgoal of the transport, at known distances."""
    apart = e("horizontal_distance", "target", "reference")
    near = e("all_of", HELD, e("at_most", apart, 0.05))
    program = simple(HELD, e("any_of", near, GOAL))
    program = dataclasses.replace(
        program, subgoals=tuple(dataclasses.replace(s, progress=e("mean", e("ramp", apart, 0.3, 0.05), HELD)) for s in program.subgoals)
    )
    chosen = demonstrations()[:5]
    ends, expected = [], []
    for d in chosen:
        target, reference = (d.scene.index[d.scene.roles[r]] for r in ("target", "reference"))
        held = np.flatnonzero(d.views.finger_contact[:, target].all(1))
        last = held[len(held) // 2]
        ends.append((d.scene, cut(d.views, np.arange(last + 1))))
        gaps = np.linalg.norm(d.views.pos[:, target, :2] - d.views.pos[:, reference, :2], axis=-1)
        expected.append(gaps[held[0] : last + 1].min())
    found = measure(program, [*ends, *((d.scene, d.views) for d in chosen[:2])])
    assert (found.rollouts, found.stalled) == (7, 1)
    assert found.reached[0] == 1.0 and found.reached[1:] == pytest.approx((2 / 7, 2 / 7))
    assert found.stopped == pytest.approx(5 / 7)
    assert found.best == pytest.approx(tuple(np.quantile(expected, [0.9, 0.5, 0.1])), rel=1e-5)
    assert found.entry is not None and found.entry > max(expected)
    everyone = measure(program, [(d.scene, d.views) for d in chosen])
    assert (everyone.stalled, everyone.stopped, everyone.best) == (None, 0.0, None)
    nothing = measure(simple(), [(d.scene, cut(d.views, np.arange(3))) for d in chosen])
    assert nothing.stalled == 0 and nothing.reached == (0.0,) and nothing.best is not None
    with pytest.raises(ValueError, match="no rollouts"):
        measure(program, [])


def test_views_may_be_on_the_device():
    views = random_view(np.random.default_rng(4), 8)
    programs = tables(PROGRAMS[:1], SCENES[:1])
    here = values(programs, np.zeros(8, int), views)
    there = values(programs, np.zeros(8, int), jax.tree.map(jax.numpy.asarray, views))
    np.testing.assert_array_equal(here.done, there.done)
