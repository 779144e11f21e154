"""Which episodes the official runner runs; needs nothing of LIBERO."""

import json
from collections import Counter

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _path(repository, monkeypatch):
    monkeypatch.syspath_prepend(str(repository / "third_party" / "libero_pro"))


def made(suites=("libero_goal", "libero_goal_swap", "libero_object"), tasks=4, states=50):
    from plan import Task

    return [
        Task(suite, number, f"task_{number}", "", "", {"bddl": "a", "filename": "a" if number == 0 else "b"}, states)
        for suite in suites
        for number in range(tasks)
    ]


def test_prompts_that_agree_are_run_once():
    from plan import episodes

    found = episodes(made(tasks=2, states=3), ("bddl", "filename"))
    assert Counter(e.source for e in found) == {"both": 9, "bddl": 9, "filename": 9}
    assert len({e.key for e in found}) == len(found)
    assert {e.source for e in episodes(made(), ("filename",))} == {"filename"}


def test_the_first_states():
    from plan import episodes

    found = episodes(made(tasks=2), ("bddl",), states=10)
    assert [e.init_index for e in found] == list(range(10)) * 6


@pytest.mark.parametrize("count", [1, 7, 12, 100, 300])
def test_a_subset_is_spread_evenly_and_is_the_same_every_time(count):
    from plan import episodes

    tasks = made()
    found = episodes(tasks, ("bddl",), subset=count, seed=3)
    assert len(found) == count == len({e.key for e in found})
    each = Counter((e.suite, e.name) for e in found)
    assert max(each.values()) - (min(each.values()) if len(each) == len(tasks) else 0) <= 1
    suites = Counter(e.suite for e in found)
    assert max(suites.values()) - (min(suites.values()) if len(suites) == 3 else 0) <= 1
    assert found == episodes(tasks, ("bddl",), subset=count, seed=3)
    if count == 100:
        assert found != episodes(tasks, ("bddl",), subset=count, seed=4)
        assert {e.init_index for e in found} - set(range(20))  # drawn from all of them


def test_a_subset_pairs_the_prompts_and_ends_at_what_there_is():
    from plan import episodes

    found = episodes(made(), ("bddl", "filename"), subset=210, seed=0)
    by_source = {s: {(e.suite, e.name, e.init_index) for e in found if e.source == s} for s in ("bddl", "filename")}
    assert by_source["bddl"] == by_source["filename"] and by_source["bddl"]
    assert len(episodes(made(states=2), ("bddl",), subset=1000)) == 24
    assert len(episodes(made(), ("bddl",), states=2, subset=1000)) == 24


def test_passes_go_through_every_task_before_any_gets_more():
    from plan import episodes, passes

    chosen = episodes(made(tasks=3, states=10), ("bddl",))
    found = passes(chosen, 5)
    assert [len(one) for one in found] == [9, 9, 18, 36, 18]  # 1, 1, 2, 4 and the rest of each
    assert sorted(e.key for one in found for e in one) == sorted(e.key for e in chosen)
    for one in found:
        assert len(set(Counter((e.suite, e.name) for e in one).values())) == 1
    assert found == passes(chosen, 5)


def test_step_limits():
    from plan import step_limit

    assert [step_limit(s) for s in ("libero_spatial_swap", "libero_object", "libero_goal_task", "libero_10_lan")] == [220, 280, 300, 520]
    for suite in ("libero_mine", "libero_100", "libero_goals"):
        with pytest.raises(ValueError, match="step limit is not known"):
            step_limit(suite)


SAME = {
    "stack": "official",
    "policy": "a",
    "observes": "state",
    "seed": 7,
    "settle_steps": 10,
    "replan_steps": 5,
    "most_steps": 0,
    "versions": {"mujoco": "2.3.7"},
}
RECORD = {"suite": "libero_goal", "name": "task_0", "init_index": 3, "prompt_source": "bddl", "outcome": "failure"}


def test_records_go_on_where_a_kill_left_them(tmp_path):
    from written import Records

    path = tmp_path / "records.jsonl"
    first = Records(path, SAME)
    first.add(RECORD)
    first.add(RECORD | {"init_index": 4, "outcome": "error"})
    first.close()
    with path.open("ab") as file:
        file.write(b'{"format": 1, "stack": "off')
    second = Records(path, SAME)
    assert second.done == {("libero_goal", "task_0", 3, "bddl"), ("libero_goal", "task_0", 4, "bddl")}
    second.add(RECORD | {"init_index": 5})
    second.close()
    assert [json.loads(line)["init_index"] for line in path.read_text().splitlines()] == [3, 4, 5]
    assert Records(path, SAME, retry_errors=True).done == {("libero_goal", "task_0", i, "bddl") for i in (3, 5)}


@pytest.mark.parametrize("name", sorted(SAME))
def test_records_of_other_settings_are_not_continued(tmp_path, name):
    from written import Records, RecordsError

    path = tmp_path / "records.jsonl"
    first = Records(path, SAME)
    first.add(RECORD)
    first.close()
    with pytest.raises(RecordsError, match=f"was made with {name} .*choose another --out"):
        Records(path, SAME | {name: "other"})


def test_only_one_run_at_a_time_writes_a_file(tmp_path):
    from written import Records, RecordsError

    path = tmp_path / "records.jsonl"
    first = Records(path, SAME)
    with pytest.raises(RecordsError, match="another run is writing"):
        Records(path, SAME)
    first.add(RECORD)
    first.close()
    assert len(Records(path, SAME).done) == 1


def test_a_record_without_an_outcome_is_none(tmp_path):
    from written import Records, RecordsError

    path = tmp_path / "records.jsonl"
    path.write_text(json.dumps({"format": 1, **SAME, **RECORD, "outcome": None}) + "\n")
    assert len(Records(path, SAME, retry_errors=True).done) == 1
    path.write_text(json.dumps({"format": 1, **SAME, **{k: v for k, v in RECORD.items() if k != "outcome"}}) + "\n")
    with pytest.raises(RecordsError, match="records.jsonl:1 is no record"):
        Records(path, SAME, retry_errors=True)


def test_a_file_of_something_else_is_left_alone(tmp_path):
    from written import Records, RecordsError

    path = tmp_path / "notes.txt"
    path.write_text("milk\nbread\n")
    with pytest.raises(RecordsError, match="notes.txt:1 is no record"):
        Records(path, SAME)
    assert path.read_text() == "milk\nbread\n"


def test_recorded_actions_are_replayed_and_then_it_stands_still(tmp_path):
    from replay import Replay, ReplayError, fixtures_of

    rows = np.arange(7 * 7, dtype=np.float64).reshape(7, 7) / 49

    def save(name, array):
        np.savez(tmp_path / name, **{"libero_goal/task_0@3": array})  # pyright: ignore[reportArgumentType]

    save("actions.npz", rows)
    replay = Replay(tmp_path / "actions.npz", 5)

    def chunk(decision):
        return replay.infer({"coda/libero/scene": "libero_goal/task_0@3", "coda/decision": decision})["actions"]

    np.testing.assert_array_equal(np.concatenate([chunk(0), chunk(1)])[:7], rows)
    np.testing.assert_array_equal(chunk(1)[2:], [[0, 0, 0, 0, 0, 0, 1]] * 3)
    np.testing.assert_array_equal(chunk(5), [[0, 0, 0, 0, 0, 0, 1]] * 5)
    save("wrong.npz", rows[:, :6])
    save("pickled.npz", np.array([object()]))
    (tmp_path / "cut.npz").write_bytes((tmp_path / "actions.npz").read_bytes()[:-30])
    for name in ("wrong.npz", "pickled.npz", "cut.npz", "absent.npz"):
        with pytest.raises(ReplayError, match=name):
            Replay(tmp_path / name, 5)
    (tmp_path / "records.jsonl").write_text(json.dumps(RECORD | {"fixtures": {"wine_rack_1": [0.0] * 7}}) + "\n")
    assert fixtures_of(tmp_path / "records.jsonl") == {"libero_goal/task_0@3": {"wine_rack_1": [0.0] * 7}}
    with pytest.raises(ReplayError, match="is no file of records"):
        fixtures_of(tmp_path / "wrong.npz")
    for fixtures in ({"wine_rack_1": [0.0] * 6}, {"wine_rack_1": [float("nan")] * 7}, {"wine_rack_1": "here"}, [1]):
        (tmp_path / "records.jsonl").write_text(json.dumps(RECORD | {"fixtures": fixtures}) + "\n")
        with pytest.raises(ReplayError, match="is no file of records"):
            fixtures_of(tmp_path / "records.jsonl")
