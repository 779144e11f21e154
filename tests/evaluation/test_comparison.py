import pytest

from coda_jax.evaluation.comparison import before_and_after, compare_runs, paired_rows, pooled_change
from coda_jax.evaluation.metrics import Moment, Summary, Tally, write_summary
from coda_jax.evaluation.records import EvalRecord, write_records
from coda_jax.evaluation.statistics import paired_difference


def record(scene: int, seed: int, success: bool, moment: Moment = "after", suite: str = "id") -> EvalRecord:
    return EvalRecord("pick_place", suite, "validation", moment, f"{scene:016x}", seed, success, 10, None if success else "grasp", "put it")


def test_only_scenes_and_seeds_of_both_count():
    first = [record(0, 0, False), record(1, 0, True), record(2, 0, True)]
    second = [record(0, 0, True), record(1, 0, True), record(3, 0, False), record(1, 1, False)]
    (row,) = paired_rows(first, second)
    assert (row.first, row.second) == (Tally(1, 2), Tally(2, 2))
    assert row.difference.mean == pytest.approx(0.5)
    assert row.text.startswith("id: 1/2 -> 2/2, +50 points")


def test_the_scene_is_the_unit():
    before = [record(s, seed, False, "before") for s in range(10) for seed in range(2)]
    after = [record(s, seed, seed == 0, "after") for s in range(10) for seed in range(2)]
    (row,) = before_and_after(before + after, "validation")
    assert row.difference.mean == pytest.approx(0.5)
    # every scene gained exactly one half: ten scenes, not twenty rollouts
    assert row.difference == paired_difference([0.5] * 10)
    assert before_and_after(after, "validation") == []


def test_runs_are_compared_after_training(tmp_path):
    for name, wins in (("a", 3), ("b", 6)):
        folder = tmp_path / name
        write_summary(folder, Summary(0, 1.0, 1, {}, [0], 1, {}))
        write_records(folder, [record(s, 0, s < wins) for s in range(10)])
    (rows,) = compare_runs(tmp_path / "a", [tmp_path / "b"]).values()
    assert rows[0].difference.mean == pytest.approx(0.3)
    with pytest.raises(ValueError, match="summary.json does not exist"):
        compare_runs(tmp_path / "a", [tmp_path / "c"])


def test_suites_are_pooled_scene_by_scene():
    made = [record(s, 0, False, "before", suite) for suite in ("tasks", "layouts") for s in range(10)]
    made += [record(s, 0, suite == "tasks", "after", suite) for suite in ("tasks", "layouts", "id") for s in range(10)]
    change = pooled_change(made, "validation", ("tasks", "layouts"))
    assert change is not None and change.mean == pytest.approx(0.5) and change.low > 0
    assert pooled_change(made, "test", ("tasks",)) is None
    assert pooled_change(made, "validation", ("id",)) is None
