"""Cells in one batch of worlds: each is what its policy does alone, and what a sweep stores of it."""

import dataclasses
import re

import jax
import numpy as np
import pytest

from coda_jax.evaluation.report.sweep import curves, write_sweep
from coda_jax.evaluation.rollouts import rollout
from coda_jax.evaluation.statistics import cluster_bootstrap, wilson
from coda_jax.evaluation.sweep import Cell, Occupied, sweep_suite
from coda_jax.evaluation.sweep_results import CellResult, append_cell, difference, interval, read_cells
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generate import sample_spec
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.native import NativeSimulator
from coda_jax.sim.simulator import episode_of
from tests.learning import toy
from tests.loop.test_acting import TEXT, embed

CATALOGUE = Catalogue.all()
CELL = CellResult("a", 20, "0" * 64, "id", "validation", 0.5, "c", 1, "0110", 3, 0, 40)


@pytest.fixture(scope="module")
def sim():
    return NativeSimulator(CATALOGUE, Bucket(6, 6), worlds=4)


@pytest.fixture(scope="module")
def episodes():
    specs = [sample_spec(Catalogue("train"), "pick_place", "id", "train", seed) for seed in range(3)]
    return [episode_of(spec, 12, (i, 0)) for i, spec in enumerate(specs)]


@pytest.mark.parametrize("block", [0, 2])
def test_a_cell_is_its_policy_alone(sim, episodes, block):
    """Bit for bit where each policy is asked by itself; up to the rounding of sums in blocks. Refills mix cells in the batch."""
    policy = toy.policy(width=16, text_dim=TEXT)
    params = [policy.init(jax.random.key(i)) for i in range(3)]
    cells = [Cell(2, 1.0), Cell(0, 0.0), Cell(0, 1.0), Cell(1, 0.7)]
    key = jax.random.key(5)
    found: list[list] = [[] for _ in cells]
    for number, result in sweep_suite(policy, params, cells, episodes, sim, CATALOGUE, embed, 4, key, block):
        found[number].append(result)
    actions = []
    for cell, results in zip(cells, found, strict=True):
        warmth = np.full(4, cell.temperature, np.float32)
        own = None if cell.temperature == 1.0 else warmth  # temperature 1 is what every other evaluation does

        def alone(obs, keys, cell=cell, own=own):
            return policy.sample(params[cell.policy], obs, keys, 1, None, own)[:, 0]

        expected = sorted(rollout(sim, CATALOGUE, episodes, alone, embed, 4, key), key=lambda r: r.episode.key)
        results.sort(key=lambda r: r.episode.key)
        for a, b in zip(results, expected, strict=True):
            assert (a.success, a.steps, a.clipped) == (b.success, b.steps, b.clipped)
            if block:
                np.testing.assert_allclose(a.qpos, b.qpos, atol=1e-3)
            else:
                np.testing.assert_array_equal(a.qpos, b.qpos)
                np.testing.assert_array_equal(a.predicates, b.predicates)
        actions.append(results[0].actions)
    assert np.abs(actions[1] - actions[2]).max() > 0.01  # the temperature counts
    assert np.abs(actions[0] - actions[2]).max() > 0.01  # and so does the policy


def test_an_episode_without_a_cell_is_refused(sim, episodes):
    with pytest.raises(TypeError, match="in_cell"):
        Occupied(sim).compile(episodes)


def test_intervals_and_differences_are_over_scenes():
    assert interval([CELL]) == wilson(2, 4)
    twice = dataclasses.replace(CELL, seeds=2, verdicts="01101111")
    assert interval([twice]) == cluster_bootstrap([1, 1, 2, 2], [2, 2, 2, 2])
    assert difference(CELL, dataclasses.replace(CELL, verdicts="0000")).mean == 0.5
    with pytest.raises(ValueError, match="no multiple of 3"):
        dataclasses.replace(CELL, seeds=3)


def test_cells_are_read_back_the_latest_of_each(tmp_path):
    path = tmp_path / "cells.jsonl"
    newer, other = dataclasses.replace(CELL, verdicts="1111"), dataclasses.replace(CELL, temperature=0.0)
    for cell in (CELL, other, newer):
        append_cell(path, cell)
    assert read_cells(path) == [newer, other]
    assert read_cells(tmp_path / "none.jsonl") == []


def test_the_page_escapes_names_and_breaks_curves_between_runs(tmp_path):
    cells = [
        dataclasses.replace(CELL, run=run, step=step, sha256=f"{run}{step}", temperature=t)
        for run in ("<b>one", "two")
        for step in (20, 40, 60)
        for t in (0.0, 1.0)
    ]
    assert curves(cells, "id").count('<path d="M') == 8 + len(cells)  # two pieces for each run and temperature, and the whiskers
    page = write_sweep(tmp_path, "<i>name", {"id": cells}, {"id": cells[0]}).read_text()
    assert "<b>" not in page and "<i>" not in page and "&lt;b&gt;one step 20" in page
    assert "<script" not in page and "http" not in page.replace("http-equiv", "")


def test_curves_that_lie_on_each_other_take_turns():
    def drawn(verdicts: dict[float, str]) -> list[tuple[str, ...]]:
        cells = [
            dataclasses.replace(CELL, step=step, sha256=str(step), temperature=t, verdicts=v)
            for step in (20, 40)
            for t, v in verdicts.items()
        ]
        return re.findall(
            r'stroke="(#\w+)" stroke-width="1.6" stroke-dasharray="([\d ]+)" stroke-dashoffset="([-\d.]+)"', curves(cells, "id")
        )

    assert drawn({0.0: "0110", 1.0: "0111"}) == []
    alike = drawn({0.0: "0110", 0.5: "0110", 1.0: "0111", 2.0: "0110"})
    assert len({colour for colour, _, _ in alike}) == 3 and {dashes for _, dashes, _ in alike} == {"8 16"}
    shifts = [5.0 * (number - 1.5) for number in (0, 1, 3)]  # px, of the whiskers
    assert [float(offset) - shift for (_, _, offset), shift in zip(alike, shifts, strict=True)] == [0.0, -8.0, -16.0]
