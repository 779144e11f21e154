"""Rounds at their smallest: every stage on real physics; interrupted anywhere they end the same; strategies share their budgets."""

import collections
import dataclasses
import json
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

from coda_jax import main as command_line
from coda_jax.config import STRATEGIES as NAMES
from coda_jax.evaluation.metrics import read_metrics, read_summary
from coda_jax.evaluation.records import read_records
from coda_jax.learning.experience import build
from coda_jax.learning.records import sparse_labels
from coda_jax.loop import cloning, coevolve
from coda_jax.loop import workdir as folders
from coda_jax.loop.experience import gather
from coda_jax.loop.journal import read_commits
from coda_jax.loop.rounds import collect, proposals
from coda_jax.loop.rounds.measured import measured_scenes
from coda_jax.loop.rounds.rollouts import Rollouts
from coda_jax.loop.rounds.variants import Batch
from coda_jax.loop.run import opened
from coda_jax.loop.seed_scenes import SceneSource
from coda_jax.loop.stages import next_stage, run_stage
from coda_jax.loop.strategies import STRATEGIES
from coda_jax.loop.substeps import Substeps
from coda_jax.memory.band import targeting_share
from coda_jax.memory.consolidate import next_version
from coda_jax.memory.modes import current_modes
from coda_jax.memory.programs import programs_of
from coda_jax.memory.rows import Construction, ControlTest, Diagnosis, Episode, Gain, LearningValue, Mode, Program, Scene
from coda_jax.memory.store import FILE, Memory
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.leakage import refuse_held_out
from coda_jax.scenes.spec import from_json
from tests.loop.small import outcome

REPOSITORY = Path(__file__).parents[2]
NANO = REPOSITORY / "experiments" / "nano.py"


@pytest.fixture(scope="module")
def config():
    config = command_line.load_config(str(NANO))
    config.checkpoint.keep = 10  # that a run can be cut to any commit of its last round
    return config


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nano")
    with folders.open_run(folder, config):
        coevolve.run(config, folder, dry_run=False)
    return folder


@pytest.fixture
def memory(whole):
    with Memory.reading(whole / FILE) as opened:
        yield opened


def rows_without_times(folder: Path) -> list[dict]:
    return [{k: v for k, v in r.items() if k != "wall_s"} for r in read_metrics(folder / "metrics.jsonl")]


def test_every_stage_ran_once(whole):
    names = [r["name"] for r in read_metrics(whole / "metrics.jsonl") if r["kind"] == "stage"]
    each = ["collect", "diagnose", "propose", "control", "environments", "before"]
    each += ["potentials", "practice", "critic", "train1", "after1"]
    rounds = [f"r{n}.{stage}" for n in (1, 2) for stage in each]
    assert names == ["scenes", "demonstrations", "clone", "evaluate.before", *rounds, "evaluate"]
    assert {r.moment for r in read_records(whole)} == {"before", "after"}


def test_nothing_compiles_in_rounds(whole):
    assert read_summary(whole).compiles_per_round == [0, 0, 0]


def test_rounds_leave_diagnoses_modes_tests_and_values(config, memory):
    diagnoses, modes = memory.rows(Diagnosis), memory.rows(Mode)
    assert len(diagnoses) >= 2 and modes
    assert {d.mode_id for d in diagnoses if d.factor != "EXECUTION"} <= {m.mode_id for m in modes}
    assert all(d.evidence.margins and d.evidence.steps for d in diagnoses)
    programs, tests = memory.rows(Program), memory.rows(ControlTest)
    assert {p.kind for p in programs} == {"generation", "training"}
    assert all(f"result = {p.kind}(" in p.text for p in programs)
    assert tests and all(len(t.pairs) <= config.control.most_scenes for t in tests)
    values = memory.rows(LearningValue)
    assert values and all(g.n == config.rounds.rollouts for v in values for g in v.scenes)


def test_targeted_scenes_come_from_a_mode_and_its_program(memory):
    targeted = [s for s in memory.rows(Scene) if s.origin == "targeted"]
    assert targeted
    for scene in targeted:
        assert scene.mode_id and scene.program_id and scene.base_scene_id and scene.verbs


def test_nothing_held_out_is_remembered(memory):
    train = Catalogue("train")
    scenes = memory.rows(Scene)
    assert len(scenes) > 20
    for scene in scenes:
        refuse_held_out(from_json(scene.spec), train)


def test_replay_draws_from_mastered_and_retired_modes(config, whole, tmp_path):
    copy = Path(shutil.copytree(whole, tmp_path / "copy"))
    config = config.copy_and_resolve_references()
    config.allocation.replay, config.allocation.novelty = 1.0, 0.0
    with opened(config, copy) as job:
        tests = job.memory.rows(ControlTest, "ORDER BY round")
        good, gone = tests[0].mode_id, tests[-1].mode_id
        assert good != gone and tests[-1].round == 2
        mode = next(m for m in current_modes(job.memory) if m.mode_id == gone)
        (program,) = [p for p in programs_of(job.memory, gone, "generation") if p.round == 2]
        scene = job.memory.rows(Scene)[0].scene_id
        with job.memory.transaction() as t:  # as if round 2 had refuted the one, and round 3 had taught the other
            t.add(next_version(mode, 2, status="removed"))
            t.add(dataclasses.replace(program, version=program.version + 1, status="retired", verdict="refuted"))
        assert gone not in {s.mode for s in proposals.mode_states(job, 2)[0]}  # what a round has refuted is no past of its own
        with job.memory.transaction() as t:
            t.add(LearningValue(good, 3, (Gain(scene, 0, 2, 2),), 1.0, 1.0))
        status = {s.mode: s.status for s in proposals.mode_states(job, 4)[0]}
        assert (status[good], status[gone]) == ("mastered", "retired")
        with SceneSource(job) as source:
            bases = collect.base_scenes(job, 4, source)
        ask, rollouts = proposals.Ask(job, 4, 0, bases, 6), Rollouts(job, cloning.trained(job).ema)
        found = proposals.targeted(ask, Batch(), rollouts)
        replayed = {p.mode.mode_id for p in found if p.origin == "replay" and p.mode}
        assert {good, gone} <= replayed and not any(p.origin == "targeted" for p in found)
        config.strategy = "coda_no_memory"
        assert not proposals.mode_states(job, 4)[0]


def test_undecided_environments_are_rolled_out_again(config, whole, memory):
    further = memory.rows(Episode, "WHERE purpose = 'band' ORDER BY episode_id")
    first, most = config.rounds.rollouts, config.rounds.most_rollouts
    assert further and all(first <= e.repeat < most for e in further)
    for row, told in zip(
        [r for r in read_metrics(whole / "metrics.jsonl") if r["kind"] == "targeting"], read_summary(whole).targeting, strict=True
    ):
        environments = {e.scene_id for e in read_commits(whole)[-1].environments[str(row["round"])]}
        rolled = {s: [0, 0] for s in environments}
        for e in memory.rows(Episode, "WHERE round = ? AND purpose IN ('before', 'band')", (row["round"],)):
            if e.scene_id in environments and e.policy_step == config.clone.steps + (row["round"] - 1) * config.rounds.steps:
                rolled[e.scene_id][0] += e.success
                rolled[e.scene_id][1] += 1
        assert row["rollouts"] == sum(n for _, n in rolled.values()) and row["exact"] == told.exact == 0
        assert row["share"] == told.share == pytest.approx(targeting_share([(k, n) for k, n in rolled.values()]))


def test_before_and_after_are_other_rollouts_than_those_that_chose(config, memory):
    purposes = {p for (p,) in memory.select("SELECT DISTINCT purpose FROM episodes")}
    assert {"collect", "revert", "search", "control_target", "control_other", "before", "after"} <= purposes
    before = memory.rows(Episode, "WHERE purpose = 'before' ORDER BY episode_id")
    after = memory.rows(Episode, "WHERE purpose = 'after' ORDER BY episode_id")
    assert [(e.scene_id, e.repeat) for e in before] == [(e.scene_id, e.repeat) for e in after]
    steps = [(b.policy_step, a.policy_step) for b, a in zip(before, after, strict=True)]
    first, each = config.clone.steps, config.rounds.steps
    assert set(steps) == {(first, first + each), (first + each, first + 2 * each)}


def test_the_summary_counts_what_happened(whole, memory):
    summary = read_summary(whole)
    assert summary.rounds == 2
    assert sum(summary.diagnoses.values()) == len({(t.mode_id, t.round) for t in memory.rows(ControlTest)})
    assert len(summary.modes) == 2 and all(set(m) == {"new", "kept", "removed"} for m in summary.modes)
    assert summary.tokens == 0


def test_each_round_leaves_evidence_and_pictures_of_its_environments(config, whole, memory):
    rows = read_metrics(whole / "metrics.jsonl")
    clips = [r for r in rows if r["kind"] == "evidence"]
    assert {r["round"] for r in clips} == {1, 2}
    for clip in clips:
        assert Image.open(whole / clip["file"]).width > 5 * 128
        (failed,) = memory.rows(Episode, "WHERE episode_id = ?", (clip["episode"],))
        assert not failed.success and (failed.scene_id, failed.phase_failed) == (clip["scene_id"], clip["phase"])
        (diagnosis,) = memory.rows(Diagnosis, "WHERE episode_id = ?", (clip["episode"],))
        assert diagnosis.mode_id == clip["mode"]
    for number in (1, 2):
        assert len([c for c in clips if c["round"] == number]) <= config.evaluate.films
        drawn = [r for r in rows if r["kind"] == "scene" and r.get("round") == number]
        assert 1 <= len(drawn) <= config.scenes.pictures // 2
        for row in drawn:
            scene = memory.scene(row["scene_id"])
            assert scene is not None and (scene.mode_id, scene.base_scene_id) == (row["mode"], row["base_scene_id"])
            assert Image.open(whole / row["file"]).size == (2 * 192 + 4, 144)


def test_the_report_tells_of_rounds(whole):
    page = (whole / "report.html").read_text()
    for title in ("Rounds", "Difficulty modes", "Evidence", "What failures are blamed on", "Environments of the rounds", "Cost by part"):
        assert f">{title}</h" in page
    assert len(page) < 3_000_000
    measured = [r for r in read_metrics(whole / "metrics.jsonl") if r["kind"] == "measure"]
    assert [(r["round"], r["ended"]) for r in measured] == [(1, True), (2, True)]
    assert all(set(r["environments"]) == set(r["controls"]) and r["environments"]["n"] == 8 for r in measured)


def test_replay_makes_the_video_of_a_stored_rollout(whole, memory, tmp_path, capsys):
    failed = next(e for e in memory.rows(Episode, "ORDER BY episode_id") if e.states and not e.success)
    video = tmp_path / "failed.webp"
    assert command_line.main(["--mode=replay", f"--workdir={whole}", f"--episode={failed.episode_id}", f"--output={video}"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["success"], told["steps"], told["phase_failed"]) == (False, failed.steps, failed.phase_failed)
    assert video.stat().st_size > 2000
    unkept = next(e for e in memory.rows(Episode) if not e.states)
    for number, words in ((unkept.episode_id, "were not kept"), (10**6, "has no episode")):
        assert command_line.main(["--mode=replay", f"--workdir={whole}", f"--episode={number}"]) == 2
        assert words in capsys.readouterr().err


def test_verify_tests_a_program_by_anybody(config, whole, tmp_path, capsys):
    copy = Path(shutil.copytree(whole, tmp_path / "copy"))
    before = read_commits(copy)
    program = tmp_path / "mine.py"
    program.write_text('result = generation(factor="attributes", roles=[role("target")], edits=[edit("mass")], level=1.0)\n')
    assert command_line.main(["--mode=verify", f"--workdir={copy}", f"--program={program}"]) == 0
    said = capsys.readouterr()
    told = json.loads(said.out)
    assert told["verdict"] in ("confirmed", "refuted", "undecided")
    n = config.control.rollouts
    for name in ("base", "edited", "control"):
        assert 0 <= told[name]["low"] <= told[name]["k"] / told[name]["n"] <= told[name]["high"] <= 1
        assert told[name]["n"] == told["scenes"] * n
        assert f"{name} scenes" in said.err and f"{told[name]['k']}/{told[name]['n']}" in said.err
    assert len(told["lost"]) == told["scenes"]
    assert sum(told["lost"]) == told["control"]["k"] - told["edited"]["k"] == round(told["mean"] * n * told["scenes"])
    assert 1 <= told["scenes"] <= config.control.most_scenes
    assert told["low"] <= told["mean"] <= told["high"]
    assert read_commits(copy) == before
    weak = "so weak a policy can show nothing"
    assert (weak in said.err) == (told["base"]["k"] < 0.1 * told["base"]["n"])
    nowhere = 'roles=[role("target"), role("obstacle", category="brush", affordance="supports")], edits=[edit("approach_obstacle")]'
    program.write_text(f'result = generation(factor="spatial", {nowhere})\n')
    assert command_line.main(["--mode=verify", f"--workdir={copy}", f"--program={program}"]) == 2
    assert re.search(r"approach_obstacle: no object plays obstacle, in (\d+) of \1\)", capsys.readouterr().err)
    program.write_text('result = generation(factor="spatial", roles=[role("target")], edits=[edit("mass")])\n')
    assert command_line.main(["--mode=verify", f"--workdir={copy}", f"--program={program}"]) == 2
    assert "mass changes attributes" in capsys.readouterr().err


def test_compare_sets_runs_side_by_side(whole, tmp_path, capsys):
    copy = Path(shutil.copytree(whole, tmp_path / "other"))
    assert command_line.main(["--mode=compare", f"--workdir={whole}", f"--against={copy}"]) == 0
    out = capsys.readouterr().out
    assert "other against nano" in out
    assert out.count("+0") >= 5
    assert command_line.main(["--mode=compare", f"--workdir={whole}", f"--against={tmp_path / 'nothing'}"]) == 2
    assert "nothing is no run" in capsys.readouterr().err


def cut_to(folder: Path, stage: str) -> None:
    """What a kill right after a stage's end leaves."""
    commits = read_commits(folder)
    last = max(i for i, c in enumerate(commits) if c.done and c.done[-1] == stage)
    with Memory.open(folder / FILE) as memory:
        memory.truncate(last + 1)


@pytest.mark.parametrize("stage", ["r1.environments", "r2.train1"])
def test_rounds_killed_anywhere_end_the_same(stage, config, whole, tmp_path):
    copy = Path(shutil.copytree(whole, tmp_path / "copy"))
    cut_to(copy, stage)
    (copy / "episodes" / "demos_r09.npz").write_bytes(b"an orphan")
    coevolve.run(config, copy, dry_run=False)
    assert not (copy / "episodes" / "demos_r09.npz").exists()
    assert_same(copy, whole)


class Killed(BaseException):
    """Nothing catches it, as nothing catches a kill."""


def go_on_dying(config, folder: Path, monkeypatch) -> list[str]:
    """Go on to the end in processes that die right after each sub-step's commit; the stages in which they died."""
    died = []
    flush = Substeps._flush

    def flush_and_die(self):
        flush(self)
        raise Killed(self._stage)

    monkeypatch.setattr(Substeps, "_flush", flush_and_die)
    while True:
        try:
            with opened(config, folder) as job:
                while (stage := next_stage(config, job.state)) is not None:
                    run_stage(job, stage)
                coevolve.finish(job)
            return died
        except Killed as kill:
            died.append(str(kill))


def assert_same(folder: Path, whole: Path) -> None:
    assert outcome(folder) == outcome(whole)
    with Memory.reading(folder / FILE) as again, Memory.reading(whole / FILE) as first:
        for row in (Scene, Construction, Episode, Diagnosis, Mode, Program, ControlTest, LearningValue):
            assert again.rows(row) == first.rows(row)
    assert dataclasses.replace(read_summary(folder), wall_s=0.0) == dataclasses.replace(read_summary(whole), wall_s=0.0)


def test_a_round_killed_at_every_substep_ends_the_same(config, whole, tmp_path, monkeypatch):
    """The whole run has no sub-steps, for it is small: how many there are changes nothing either."""
    copy = Path(shutil.copytree(whole, tmp_path / "copy"))
    cut_to(copy, "r1.after1")
    config = config.copy_and_resolve_references()
    config.checkpoint.rollouts = 4
    died = go_on_dying(config, copy, monkeypatch)
    assert set(died) == {
        f"r2.{stage}" for stage in ("collect", "diagnose", "propose", "control", "environments", "before", "practice", "after1")
    }
    assert died.count("r2.collect") == 4 and died.count("r2.before") >= 4  # of 16 rollouts each, and what the band asks for
    assert len(died) > 20
    assert_same(copy, whole)
    assert not list((copy / "episodes").glob("part_*"))


def test_a_run_without_rounds_has_no_round_stages(config):
    config = config.copy_and_resolve_references()
    config.rounds.count = 0
    commit = dataclasses.replace(read_commits_empty(), done=["scenes", "demonstrations", "clone"])
    stage = next_stage(config, commit)
    assert stage is not None and stage.name == "evaluate"


def read_commits_empty():
    from coda_jax.loop.journal import Commit

    return Commit()


def test_every_strategy_is_known():
    assert set(NAMES) == set(STRATEGIES)


@pytest.mark.parametrize("name", ["none", "learnability"])
def test_strategies_that_are_not_built_say_so(name, config):
    from coda_jax import config as settings

    config = config.copy_and_resolve_references()
    config.strategy = name
    with pytest.raises(InputError, match="not built yet"):
        settings.validate(config)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [s for s in NAMES if s != "coda"])
def test_strategies_fill_the_same_budget(strategy, config, tmp_path):
    config = config.copy_and_resolve_references()
    config.strategy = strategy
    config.rounds.count = 1
    coevolve.run(config, tmp_path, dry_run=False)
    last = read_commits(tmp_path)[-1]
    assert len(last.environments["1"]) == config.rounds.environments
    assert last.checkpoint == config.clone.steps + config.rounds.steps
    with Memory.reading(tmp_path / FILE) as memory:
        assert bool(memory.rows(Diagnosis)) == STRATEGIES[strategy].diagnoses
        chose = memory.rows(Episode, "WHERE purpose = 'choose'")
        assert bool(chose) == (STRATEGIES[strategy].proposes == "in_band")
        scenes = {e.scene_id for e in chose}
        assert len(chose) == len(scenes) * config.rounds.rollouts
        taken = {e.scene_id for e in last.environments["1"]}
        left = {s.origin for s in memory.rows(Scene) if s.scene_id in scenes - taken}
        assert not chose or (taken < scenes and "search" in left and left <= {"search", "novelty"})  # some are variants that were collected


@pytest.mark.slow
def test_ten_kills_at_random_moments_change_nothing(whole, tmp_path):
    """kill -9 of the whole process, then the same command; the outcome is that of the unbroken run."""
    folder = tmp_path / "killed"
    command = [sys.executable, "-m", "coda_jax.main", f"--config={NANO}", f"--workdir={folder}", "--config.checkpoint.rollouts=8"]
    rng, kills = random.Random(0), 0
    while kills < 10:
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        commits = len(read_commits(folder)) if (folder / FILE).exists() else 0
        deadline = time.monotonic() + 120
        wanted = commits + rng.randint(1, 8)  # so that ten kills spread over the whole run, imports and compilation aside
        while process.poll() is None and time.monotonic() < deadline:
            if (folder / FILE).exists() and len(read_commits(folder)) >= wanted:
                break
            time.sleep(0.02)
        time.sleep(rng.uniform(0, 0.3))
        finished = process.poll() is not None
        process.kill()
        process.wait()
        kills += 1
        if finished:
            break
    subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert kills == 10
    assert outcome(folder) == outcome(whole)
    first, again = (json.loads((f / "summary.json").read_text()) for f in (whole, folder))
    for summary in (first, again):
        del summary["wall_s"]
    assert first == again


def test_what_a_round_may_learn_from_is_gathered_from_its_files(config, whole, tmp_path):
    copy = Path(shutil.copytree(whole, tmp_path / "copy"))
    with folders.open_run(copy, config), opened(config, copy) as job:
        first, second = (gather(job, n, seeds=5) for n in (1, 2))
        heavy = gather(job, 2, seeds=0, weights={g.mode_id: 3.0 for g in second if g.mode_id})
        measured = {n: measured_scenes(job, n) for n in (1, 2)}
        whole_table = build([g.record for g in second], [sparse_labels(g.record) for g in second], job.encoder.encode, 8, 2)
    sources = [collections.Counter(g.record.source for g in found) for found in (first, second)]
    environments = [len(measured[n][0]) for n in (1, 2)]
    assert sources[0]["demonstration"] == 5 + environments[0]
    assert sources[1]["demonstration"] == 5 + sum(environments)
    earlier = sum(sources[0].values()) - sources[0]["demonstration"]
    after = config.rounds.rollouts * environments[0]
    assert sources[1]["replay"] >= earlier + after  # the first round's rollouts, those after its training too
    for found, n in ((first, 1), (second, 2)):
        untrained = {e.scene_id for e in measured[n][1]}
        assert untrained and not untrained & {g.spec.scene_id for g in found}
        practised = {e.scene_id: e.mode_id for e in measured[n][0]}
        for g in found:
            assert g.record.source in ("demonstration", "replay") or (g.record.source == "targeted") == (g.mode_id is not None)
            assert g.mode_id == practised.get(g.spec.scene_id, g.mode_id)
            assert len(g.record.views.pos) == len(g.record.actions) + 1
            assert g.record.executed[:-1].tolist() == [config.evaluate.executed] * (len(g.record.executed) - 1)
        assert sources[n - 1]["targeted"] and sources[n - 1]["control"]
        assert {g.record.weight for g in found} == {1.0}
    assert {g.record.weight for g in heavy if g.mode_id} == {3.0}
    assert sum(g.record.source == "demonstration" for g in heavy) == sum(environments)
    assert int(whole_table.size) == sum(len(g.record.moments) for g in second)
