"""The queries of a round against sums by hand, and their plans."""

import pytest

from benchmarks.memory import QUERIES, fill, measure
from coda_jax.memory import episodes, modes, programs
from coda_jax.memory.episodes import Prior, SuccessCount
from coda_jax.memory.provenance import provenance
from coda_jax.memory.rows import ControlTest, Gain, LearningValue
from coda_jax.memory.store import Memory
from coda_jax.memory.transaction import StoreError
from tests.memory import made

BASE, MODE, PROGRAM = made.scene(0), made.mode(), made.program()
OTHER = made.mode("friction low", factor="ATTRIBUTE", severity=0.1, importance=0.9)
EDITED = made.edited(1, BASE, program_id=PROGRAM.program_id, mode_id=MODE.mode_id, round=1)
AGAIN = made.edited(2, EDITED, level=0.6, round=2)


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    with Memory.open(tmp_path_factory.mktemp("queries") / "memory.sqlite") as opened:
        with opened.transaction() as t:
            for row in (MODE, OTHER, PROGRAM, made.program("tools()", kind="training"), BASE, EDITED):
                t.add(row)
            for repeat, success in enumerate((True, False, False)):
                t.add(made.episode(1, success=success, repeat=repeat))
            t.add(made.episode(0, success=True))
            t.add(made.episode(1, success=False, repeat=3, health=1))  # id 5: broke in the simulator
            t.add(made.episode(1, success=True, purpose="before", repeat=0))
            t.commit("collect", 0, "{}")
        with opened.transaction() as t:
            t.add(AGAIN)
            t.add(made.episode(2, success=False, round=2, policy_step=120))
            t.add(made.diagnosis(2, mode_id=MODE.mode_id))
            t.add(made.diagnosis(7, factor="EXECUTION"))
            for row in (
                made.construction(),
                made.construction(repair=made.Repair("move", "box_2", 0.04, "m")),
                made.construction(repair=made.Repair("move", "box_2", 0.4, "m"), accepted=False),
                made.construction(repair=None, accepted=False, verb=""),
            ):
                t.add(row)
            t.add(LearningValue(MODE.mode_id, 1, (Gain(EDITED.scene_id, 1, 5, 8),), 0.5, 0.4))
            t.add(LearningValue(MODE.mode_id, 2, (Gain(EDITED.scene_id, 5, 6, 8),), 0.125, 0.1))
            t.add(ControlTest(MODE.mode_id, 1, 2, "test", (), 0.3, 0.1, 0.5, 0.01, "confirmed"))
            t.add(made.mode(version=2, severity=0.5, status="kept", round=2))
            t.add(made.mode("friction low", factor="ATTRIBUTE", severity=0.1, importance=0.9, version=2, status="removed", round=2))
            t.add(made.mode("yaw", severity=None))
        yield opened


def test_success_counts(memory):
    counts = episodes.success_counts
    assert counts(memory, (), round=1, purpose="collect") == {(): SuccessCount(2, 4, 1)}
    assert counts(memory, ("mode",), round=1, purpose="collect") == {(None,): SuccessCount(1, 1, 0), (MODE.mode_id,): SuccessCount(1, 3, 1)}
    assert counts(memory, ("program", "level"))[PROGRAM.program_id, 0.4] == SuccessCount(2, 4, 1)
    assert counts(memory, ("scene", "purpose"), mode_id=MODE.mode_id) == {
        (EDITED.scene_id, "before"): SuccessCount(1, 1, 0),
        (EDITED.scene_id, "collect"): SuccessCount(1, 3, 1),
    }
    assert counts(memory, ("base_scene", "origin", "policy_step"), round=2) == {(EDITED.scene_id, "targeted", 120): SuccessCount(0, 1, 0)}
    assert counts(memory, ("round",), purpose="search") == {}
    assert counts(memory, (), round=99) == {(): SuccessCount(0, 0, 0)}


def test_failures_and_diagnoses(memory):
    assert [e.episode_id for e in episodes.undiagnosed_failures(memory, 1)] == [3]
    assert episodes.undiagnosed_failures(memory, 2) == []
    assert [d.episode_id for d in episodes.execution_diagnoses(memory, 2)] == [7]
    assert episodes.unassigned_diagnoses(memory, 1) == episodes.unassigned_diagnoses(memory, 2) == []
    assert [d.episode_id for d in episodes.diagnoses_of(memory, MODE.mode_id)] == [2]


def test_construction_priors(memory):
    moved = Prior("clearance", "overlap", "move", "m", 3, 2, (0.02 + 0.04) / 2)
    assert episodes.construction_priors(memory, "clearance") == [moved]
    assert moved.share_accepted == pytest.approx(2 / 3)
    assert episodes.construction_priors(memory) == [Prior("", "overlap", "", "", 1, 0, None), moved]


def test_modes_and_programs(memory):
    assert [m.cause for m in modes.top_modes(memory, "pick_place", "severity", 5)] == ["yaw", "obstacle beside target"]
    assert [m.cause for m in modes.top_modes(memory, None, "importance", 1)] == [
        min((made.mode("yaw"), MODE), key=lambda m: m.mode_id).cause
    ]
    assert modes.top_modes(memory, "articulated", "severity", 5) == []
    assert [m.cause for m in modes.current_modes(memory, "pick_place") if m.status == "removed"] == ["friction low"]
    assert {m.cause: v and v.round for m, v in modes.modes_with_learning(memory)} == {
        "yaw": None,
        "friction low": None,
        "obstacle beside target": 2,
    }
    assert [v.round for v in modes.learning_values(memory, MODE.mode_id)] == [1, 2]
    assert [t.verdict for t in modes.control_tests(memory, 2)] == ["confirmed"] and modes.control_tests(memory, 1) == []
    assert programs.programs_of(memory, MODE.mode_id, "generation") == [PROGRAM]
    assert len(programs.programs_of(memory, MODE.mode_id)) == 2 == len(programs.current_programs(memory))
    assert programs.history(memory, PROGRAM.program_id) == [PROGRAM]


def test_provenance_goes_back_to_the_seed_scene(memory):
    found = provenance(memory, 7)
    assert [s.scene_id for s in found.scenes] == [AGAIN.scene_id, EDITED.scene_id, BASE.scene_id]
    assert found.programs == (PROGRAM,) and found.commits == (2, 1, 1)
    assert [e.policy_step for e in found.episodes] == [120]
    assert [e.episode_id for e in provenance(memory, EDITED.scene_id).episodes] == [1, 2, 3, 5, 6]
    for unknown in (99, "0" * 16):
        with pytest.raises(StoreError, match=f"{unknown} is not in"):
            provenance(memory, unknown)


# these ask about everything there is
WHOLE = ("success by purpose, all rounds", "construction priors", "programs by mode", "priors of the engine", "scene ids")


@pytest.mark.parametrize("name", [name for name in QUERIES if name not in WHOLE])
def test_rollouts_scenes_and_programs_are_reached_by_index(memory, name):
    asked: list[str] = []
    memory._connection.set_trace_callback(asked.append)
    QUERIES[name](memory)
    memory._connection.set_trace_callback(None)
    plans = [row[3] for sql in asked for row in memory.select(f"EXPLAIN QUERY PLAN {sql}")]
    assert plans
    scans = [p for p in plans if p.startswith("SCAN") and p.split()[1] in ("e", "s", "d", "p", "a", "episodes", "scenes", "diagnoses")]
    assert scans == []


def test_a_round_of_queries_is_fast(tmp_path):
    with Memory.open(tmp_path / "memory.sqlite") as opened:
        fill(opened, episodes=5000, modes=250)
        times = measure(opened)
    assert times.keys() == QUERIES.keys()
    assert sum(times.values()) < 0.5
