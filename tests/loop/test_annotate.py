"""Failed rollouts watched again; the page of a run, and what comes of two people's answers to it."""

import base64
import dataclasses
import io
import json
import re
import shutil
import types

import numpy as np
import pytest
from PIL import Image

from benchmarks.injected_bench import Bench, injected
from coda_jax import main as command_line
from coda_jax.agents.base import Outcome, SceneFactor, Trial
from coda_jax.evaluation.annotation.answers import FACTORS
from coda_jax.evaluation.metrics import Summary, write_summary
from coda_jax.loop import agreement, annotate, compare
from coda_jax.loop import workdir as folders
from coda_jax.loop.footage import HEIGHT, WIDTH, Footage
from coda_jax.loop.likeness import is_rollout
from coda_jax.loop.rounds import evidence, rows
from coda_jax.loop.rounds import outcomes as stored
from coda_jax.memory.rows import ControlTest, Diagnosis, Evidence, Mode, PairCounts, mode_id_of
from coda_jax.memory.store import FILE, Memory
from coda_jax.runtime import InputError
from coda_jax.sim.replay import replay
from coda_jax.sim.simulator import episode_of
from tests.benchmarks.open_loop import HORIZON, open_loop

CAUSES: dict[str, tuple[SceneFactor, str]] = {
    "mass": ("ATTRIBUTE", "target_mass_kg:high"),
    "goal_swap": ("TASK", "goal"),
    "reach": ("SPATIAL", "reach_radius_m:high"),
}


@pytest.fixture(scope="module")
def failures() -> list[Outcome]:
    """Two of each cause, in the order of CAUSES."""
    policy = open_loop()
    bench = Bench(policy.run, policy, policy.bases, None, {}, [])  # type: ignore[arg-type]
    made = [injected(bench, case, base) for case in CAUSES for base in policy.bases]
    return policy([Trial(m.spec, (m.base.number, 0)) for m in made])


@pytest.fixture(scope="module")
def run(failures, tmp_path_factory):
    """A run's folder with one round that collected the failures and diagnosed them, all right but the last one."""
    policy, folder = open_loop(), tmp_path_factory.mktemp("run")
    with folders.open_run(folder, policy.config):
        (folder / "episodes").mkdir(exist_ok=True)
        stored.save(folder / stored.file_of(1, "collect"), failures)
    with Memory.open(folder / FILE, frozenset()) as memory, memory.transaction() as t:
        scenes = rows.SceneRows([])
        for outcome in failures:
            scenes.add(outcome.trial.spec, "novelty", 1, policy.bases[outcome.trial.key[0]].spec)
        for row in (*scenes.rows, *rows.episode_rows(failures, "collect", 1, 0, stored.file_of(1, "collect"))):
            t.add(row)
        modes = {}
        for i, outcome in enumerate(failures):
            factor, cause = list(CAUSES.values())[i // 2]
            key = ("pick_place", factor, outcome.phase, cause)
            if i == 5:
                t.add(Diagnosis(6, "EXECUTION", outcome.phase, "execution", Evidence((1,)), 0.5))
                continue
            if key not in modes:
                modes[key] = mode_id_of(*key)
                t.add(Mode(modes[key], 1, *key, None, 0.0, "new", 1))  # type: ignore[arg-type]
                verdict = "refuted" if factor == "TASK" else "confirmed"
                t.add(ControlTest(modes[key], 1, 1, "test", (PairCounts(scenes.rows[0].scene_id, 0, 1, 1),), 0.1, 0.0, 0.2, 0.1, verdict))
            t.add(Diagnosis(i + 1, factor, outcome.phase, cause, Evidence((1,)), 0.5, modes[key]))
    return folder


def test_a_rollout_is_seen_as_it_was(failures):
    policy = open_loop()
    watch = Footage(policy.config, policy.run.everything, policy.run.train)
    seen = watch(failures)
    assert len(seen) == 6 and all(s is not None and s.steps == HORIZON for s in seen)
    heavy, carried = seen[0], seen[2]
    assert heavy is not None and carried is not None and heavy.draw is not None
    assert list(heavy.passed) == ["approach"] and list(carried.passed) == ["approach", "grasp"]
    assert heavy.phases["approach"][heavy.passed["approach"] - 1] > 0.5 > heavy.phases["approach"][heavy.passed["approach"] - 2]
    assert heavy.joints_rad.shape == (HORIZON, 7) and not heavy.nu.any()
    recorded = failures[0].recorded
    assert recorded is not None
    np.testing.assert_array_equal(np.asarray(heavy.views.pos), np.asarray(recorded.views.pos))
    (png,) = heavy.draw([(12, "step 12")])
    picture = Image.open(io.BytesIO(png))
    assert picture.width == 2 * WIDTH and picture.height > HEIGHT and len(np.unique(np.asarray(picture))) > 50


def test_what_ends_otherwise_here_is_told_from_its_record(failures):
    policy = open_loop()
    watch = Footage(policy.config, policy.run.everything, policy.run.train)
    other = dataclasses.replace(failures[0], actions=np.zeros_like(failures[0].actions[:-1]))  # of another backend, say
    (real, told, gone) = watch([failures[0], other, dataclasses.replace(other, recorded=None)])
    assert real is not None and told is not None and gone is None
    assert told.draw is None and told.joints_rad.shape == (HORIZON, 0) and told.passed == real.passed
    for name, values in real.phases.items():
        np.testing.assert_array_equal(told.phases[name], values)


def test_a_replay_that_runs_out_of_time_in_another_way_is_not_the_rollout(failures):
    """As long as the rollout and failed like it: what tells them apart is what happened."""
    policy = open_loop()
    lifted, still = failures[2], np.zeros_like(failures[2].actions)
    slower = failures[2].actions * np.array([0.9] * 6 + [1], np.float32)
    (as_it_was,) = replay(policy.sim, [(episode_of(lifted.trial.spec, HORIZON, lifted.trial.key), lifted.actions)])
    assert is_rollout(as_it_was, lifted) and is_rollout(as_it_was, dataclasses.replace(lifted, recorded=None))
    for actions in (still, slower):
        (other,) = replay(policy.sim, [(episode_of(lifted.trial.spec, HORIZON, lifted.trial.key), actions)])
        assert len(other.qpos) == lifted.steps and not other.success and not is_rollout(other, lifted)
        assert not is_rollout(other, dataclasses.replace(lifted, recorded=None))  # told by phase and margins alone
    # the same margins by another way: only the moments tell
    recorded = as_it_was.views
    moved = dataclasses.replace(recorded, ee_pos=np.asarray(recorded.ee_pos) + np.float32(0.05))
    assert not is_rollout(dataclasses.replace(as_it_was, views=moved), lifted)
    watch = Footage(policy.config, policy.run.everything, policy.run.train)
    divergent = dataclasses.replace(lifted, actions=still)
    real, told, gone = watch([lifted, divergent, dataclasses.replace(divergent, recorded=None)])
    assert real is not None and told is not None and gone is None
    assert real.draw is not None and told.draw is None and told.passed == real.passed
    run = types.SimpleNamespace(config=policy.config, everything=policy.run.everything, train=policy.run.train)
    key = (lifted.trial.spec.scene_id, lifted.trial.key[1])
    assert set(evidence._replayed(run, [lifted])) == {key} and evidence._replayed(run, [divergent]) == {}  # type: ignore[arg-type]


def data_of(path):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text("utf-8"), re.DOTALL)
    assert found
    return json.loads(found[1])


def annotated(data, path, name, factor_of):
    answers = []
    for item in data["items"]:
        factor, phase = factor_of(item["episode"])
        answers.append(
            {"episode": item["episode"], "scene_id": item["scene_id"], "factor": factor, "phase": phase, "unsure": factor is None}
        )
    record = {"kind": data["kind"], "version": data["version"], "sheet": data["sheet"], "annotator": name, "answers": answers}
    path.write_text(json.dumps(record), "utf-8")
    return path


def test_from_the_page_to_the_agreement(run, failures, tmp_path, capsys):
    assert command_line.main(["--mode=annotate", f"--workdir={run}", f"--output={tmp_path / 'page.html'}"]) == 0
    assert "6 of 6 diagnosed failures" in capsys.readouterr().out
    data = data_of(tmp_path / "page.html")
    assert sorted(i["episode"] for i in data["items"]) == [1, 2, 3, 4, 5, 6] and [i["episode"] for i in data["items"]] != [1, 2, 3, 4, 5, 6]
    for item in data["items"]:
        outcome = failures[item["episode"] - 1]
        assert (item["scene_id"], item["instruction"]) == (outcome.trial.spec.scene_id, outcome.trial.spec.task.instruction)
        movie = Image.open(io.BytesIO(base64.b64decode(item["clip"].split(",")[1])))
        assert movie.n_frames == 16 and movie.width == 2 * annotate.CLIP_SIZE[1]  # type: ignore[attr-defined]
        said = json.dumps([item["instruction"], item["facts"]])  # neither diagnosis nor mode, nor the base
        assert not [word for word in (*FACTORS, "target_mass_kg:high", "confidence", "mode", "base") if word in said]

    def truth(episode):
        return list(CAUSES.values())[(episode - 1) // 2][0], failures[episode - 1].phase

    first = annotated(data, tmp_path / "a.json", "A", truth)
    second = annotated(
        data, tmp_path / "b.json", "B", lambda e: (None, None) if e == 1 else ("SPATIAL", "place") if e in (3, 4) else truth(e)
    )
    assert command_line.main(["--mode=agreement", f"--workdir={run}", f"--answers={first},{second}"]) == 0
    assert "refuted ones removed (4)" in capsys.readouterr().out
    found = json.loads((run / agreement.NAME).read_text("utf-8"))
    factor = {group: (s["factor"]["k"], s["factor"]["n"]) for group, s in found["shares"].items()}
    # of 11 sure answers B's of 3 and 4 differ, and both of 6, which was diagnosed wrongly
    assert factor == {"all diagnoses": (7, 11), "refuted ones removed": (5, 7), "confirmed ones": (5, 5)}
    assert found["annotators"] == ["A", "B"] and found["unsure"] == {"A": 0, "B": 1} and found["kappa"]["factor"]["agree"] == 3

    copy = shutil.copytree(run, tmp_path / "later")
    assert agreement.current(copy) == found and found["verdicts"]["3"] == "refuted" and found["verdicts"]["6"] is None
    with Memory.open(copy / FILE, frozenset()) as memory:
        (test,) = memory.rows(ControlTest, "WHERE verdict = 'refuted'")
        with memory.transaction() as t:
            t.add(dataclasses.replace(test, round=2))
        assert agreement.current(copy) == found  # tested once more, and refuted again
        with memory.transaction() as t:
            t.add(dataclasses.replace(test, round=3, verdict="confirmed"))
    assert agreement.current(copy) is None
    for folder, kind in ((run, "scripted"), (copy, "random")):
        stored = json.loads((folder / folders.CONFIG_FILE).read_text("utf-8"))
        stored["config"]["agents"]["diagnoser"] = kind
        (folder / folders.CONFIG_FILE).write_text(json.dumps(stored), "utf-8")
        write_summary(folder, Summary(0, 1.0, 0, {}, [0], 0, {}))
    capsys.readouterr()
    compare._print_diagnosers({run: run, copy: copy})
    out = capsys.readouterr().out
    assert "63.6 %" in out and out.count("63.6 %") == 1  # of the copy, whose verdicts are others now, "-"
    assert "later: agreement.json is not of its last control tests" in out and f"{run.name}: agreement" not in out
    for verdicts in (None, [], {}, {"x": "refuted"}, {"99": None}, {"9" * 5000: None}):  # of an earlier version, or anybody's
        (run / agreement.NAME).write_text(json.dumps(found | {"verdicts": verdicts}), "utf-8")
        assert agreement.current(run) == (found | {"verdicts": {}} if verdicts == {} else None)


def test_answers_that_do_not_belong_together(run, tmp_path, capsys):
    annotate.run(run, 2, tmp_path / "page.html")
    data = data_of(tmp_path / "page.html")
    assert len(data["items"]) == 2

    def written(name, **change):
        return annotated(data | change, tmp_path / f"{name}{len(change)}.json", name, lambda e: ("TASK", "place"))

    good, other = written("A"), written("B", sheet="0" * 16)
    foreign = annotated(data | {"items": [{"episode": 1, "scene_id": "f" * 16}]}, tmp_path / "f.json", "C", lambda e: ("TASK", "place"))
    for answers, said in (
        ([good], "names 1 file;"),
        ([good, good], "both of annotator A"),
        ([good, other], "both must answer the same page"),
        ([good, foreign], "has no diagnosis of episode 1 in scene ffffffffffffffff"),
        ([good, tmp_path / "none.json"], "cannot read"),
    ):
        with pytest.raises(InputError, match=said):
            agreement.run(run, answers)


def test_a_run_without_diagnoses(tmp_path):
    with folders.open_run(tmp_path, open_loop().config), Memory.open(tmp_path / FILE, frozenset()):
        pass
    with pytest.raises(InputError, match="has no diagnoses yet"):
        annotate.run(tmp_path, 5, None)


def test_the_draw_is_the_same_each_time_and_takes_everything_alike():
    some = [Diagnosis(i, "EXECUTION", "grasp", "execution", Evidence(), 0.5) for i in range(1, 201)]
    drawn = annotate.drawn(some, 50, 3)
    assert drawn == annotate.drawn(some, 50, 3) != annotate.drawn(some, 50, 4) and len({d.episode_id for d in drawn}) == 50
    counts = np.bincount([d.episode_id for seed in range(400) for d in annotate.drawn(some, 50, seed)], minlength=201)[1:]
    assert counts.min() > 60 and counts.max() < 145  # 100 each on average
