"""The critic, the potentials and the weighted updates inside rounds: what they leave, and that kills and damage change nothing."""

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest

from coda_jax import main as command_line
from coda_jax.agents.base import Failing
from coda_jax.evaluation.metrics import read_metrics, read_summary
from coda_jax.loop import coevolve, demonstrations, guides, improvement, parts, tables
from coda_jax.loop.check_training import TrainingCheck
from coda_jax.loop.experience import gather
from coda_jax.loop.journal import read_commits
from coda_jax.loop.round_budget import most_blocks
from coda_jax.loop.rounds import critic, measure, potentials, practice, recall, rollouts
from coda_jax.loop.rounds import outcomes as stored
from coda_jax.loop.run import Run, opened
from coda_jax.loop.stages import next_stage, run_stage
from coda_jax.loop.substeps import Substeps
from coda_jax.memory.programs import current_programs
from coda_jax.memory.rows import Episode, LearningValue, Mode, Program, mode_id_of, program_id_of
from coda_jax.memory.store import FILE, Memory
from coda_jax.programs.sandbox import Sandbox
from coda_jax.programs.training.gates import check
from coda_jax.programs.training.program import SparseProgram, TrainingProgram, evaluate_training
from coda_jax.runtime import InputError
from coda_jax.sim.simulator import episode_of
from tests.agents.llm.transcripts import Scripted, load
from tests.loop.test_rounds import Killed, assert_same

NANO = Path(__file__).parents[2] / "experiments" / "nano.py"
EVERY = 8  # updates between commits: fewer than the critic's 10


@pytest.fixture(scope="module")
def config():
    config = command_line.load_config(str(NANO))
    config.checkpoint.every, config.checkpoint.keep = EVERY, 50
    config.evaluate.suites, config.evaluate.films = ("id",), 0
    return config


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    folder = tmp_path_factory.mktemp("learning")
    coevolve.run(config, folder, dry_run=False)
    return folder


@pytest.fixture
def copy(whole, tmp_path):
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def rows(folder: Path, kind: str) -> list[dict]:
    return [r for r in read_metrics(folder / "metrics.jsonl") if r["kind"] == kind]


def cut(folder: Path, last) -> None:
    """Keep the commits up to the last one for which ``last`` holds: what a kill right after it leaves."""
    commits = read_commits(folder)
    keep = max(i for i, c in enumerate(commits) if last(c))
    with Memory.open(folder / FILE) as memory:
        memory.truncate(keep + 1)


def test_the_learning_stages_come_after_the_measurement_and_before_the_training(whole):
    names = [r["name"] for r in rows(whole, "stage")]
    for n in (1, 2):
        first = names.index(f"r{n}.before")
        assert names[first : first + 5] == [f"r{n}.{stage}" for stage in ("before", "potentials", "practice", "critic", "train1")]


def test_nothing_compiles_in_learning_rounds(whole):
    assert read_summary(whole).compiles_per_round == [0, 0, 0]


@pytest.mark.slow  # five minutes: executables of the largest bucket, and a minute of physics in them for each stage
def test_nothing_compiles_in_learning_rounds_on_mjx(tmp_path):
    config = command_line.load_config(str(NANO))
    config.sim.backend, config.sim.mjx_worlds = "mjx", 4
    config.rounds.count, config.evaluate.suites, config.evaluate.films = 1, ("id",), 0
    coevolve.run(config, tmp_path, dry_run=False)
    assert set(read_summary(tmp_path).compiles_per_round) == {0}


def test_every_mode_that_is_practised_has_a_training_program_that_passes_the_gates(config, whole):
    practised = {e.mode_id for own in read_commits(whole)[-1].environments.values() for e in own if e.mode_id}
    with Memory.reading(whole / FILE) as memory, Sandbox(parts.limits_of(config)) as sandbox:
        active = [p for p in current_programs(memory) if p.kind == "training" and p.status == "active"]
        assert practised and practised <= {p.mode_id for p in active}
        assert sum(p.mode_id is None for p in active) == 1  # of scenes that practise no mode
        for row in active:
            program = evaluate_training(row.text, sandbox)
            assert isinstance(program, TrainingProgram)
            check(program, TrainingCheck(config).demonstrations)


def test_weights_and_critics_are_committed(config, whole):
    commits = read_commits(whole)
    ends = [max(i for i, c in enumerate(commits) if c.done and c.done[-1] == f"r{n}.critic") for n in (1, 2)]
    for n, end in zip((1, 2), ends, strict=True):
        commit = commits[end]
        assert f"episodes/weights_r{n:02d}.npz" in commit.files
        assert commit.critic == commit.critic_until and commit.critic_round == n
        assert (whole / "critic" / str(commit.critic)).is_dir()
    steps = config.critic.steps
    assert commits[ends[0]].critic == steps
    begun = next(c for c in commits if c.critic_round == 2)
    assert begun.critic is not None
    assert begun.critic in (steps, steps + config.critic.shift_steps)  # goes on from the first round's, shifted where potentials changed
    assert commits[ends[1]].critic == begun.critic + steps
    assert [c.critic for c in commits if c.critic_round == 2 and c.done[-1] != "r2.critic"][:2] == [begun.critic, begun.critic + EVERY]


def test_the_log_tells_of_potentials_critic_and_scales(config, whole):
    told = rows(whole, "critic")
    assert [r["round"] for r in told] == [1, 2]
    assert all(0 < r["decisions"] < r["rows"] and 0 < r["weights"]["ess"] <= 1 for r in told)
    assert all(sum(bin[2] for bin in r["calibration"]) == r["decisions"] for r in told)
    assert {r["round"] for r in rows(whole, "potential")} == {1, 2}
    doctor = rows(whole, "doctor")
    assert [(r["round"], r["part"]) for r in doctor] == [(1, "critic"), (1, "policy"), (2, "critic"), (2, "policy")]
    for row in doctor:
        wanted = {"critic": {"ess", "clipped", "start_widths", "critic_gradient"}, "policy": {"policy_gradient", "drift"}}[row["part"]]
        assert wanted <= row["measured"].keys()
    trained = [r["step"] for r in rows(whole, "train") if r["name"] == "critic"]
    assert trained[:2] == [EVERY, config.critic.steps] and trained == sorted(set(trained))


@pytest.mark.parametrize(
    ("cut_at", "last"),
    [
        ("in front of the potentials", lambda c: c.done[-1:] == ["r2.before"]),
        ("with the second critic begun", lambda c: c.critic_round == 2 and c.critic == c.critic_until - 10),
        ("inside the critic", lambda c: c.critic_round == 1 and c.critic == EVERY),
        ("inside the training", lambda c: c.done[-1:] == ["r2.critic"] and c.checkpoint == 150 + 3 * EVERY),
        ("at the end of a training that is not committed", lambda c: c.done[-1:] == ["r2.critic"] and c.checkpoint == 200),
    ],
)
def test_a_round_killed_where_it_learns_ends_the_same(cut_at, last, config, whole, copy):
    cut(copy, last)
    (copy / "episodes" / "weights_r09.npz").write_bytes(b"an orphan")
    coevolve.run(config, copy, dry_run=False)
    assert not (copy / "episodes" / "weights_r09.npz").exists()
    assert_same(copy, whole)


def test_a_damaged_critic_is_named_and_the_commit_before_used(config, copy, caplog):
    last = read_commits(copy)[-1].critic
    assert last is not None
    victim = max((p for p in (copy / "critic" / str(last)).rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    with opened(config, copy) as job:
        assert f"critic/{last} is damaged" in caplog.text
        assert job.state.critic is not None and job.state.critic < last
        stage = next_stage(config, job.state)
        assert stage is not None and stage.name == "r2.critic"
        judge = critic.judge_of(job)
        assert judge is not None and int(judge.critic.step) == job.state.critic


def test_damaged_weights_are_refused(config, copy, caplog):
    path = copy / "episodes" / "weights_r02.npz"
    with opened(config, copy) as job:
        good = np.asarray(critic.weights_of(job, 2))
        assert good.ndim == 1 and np.isfinite(good).all() and (good > 0).any()
        np.savez(path, weights=np.full(4, np.nan), sd=0.0, seen=1)
        with pytest.raises(InputError, match=r"weights_r02\.npz holds no weights of this run"):
            critic.weights_of(job, 2)
    path.write_bytes(b"garbage")
    with opened(config, copy) as job:
        assert "weights_r02.npz is damaged" in caplog.text
        stage = next_stage(config, job.state)
        assert stage is not None and stage.name == "r2.critic"


@pytest.fixture
def grasping(config, copy):
    """A run in front of its second practice, whose targeted environments practise a phase that does not begin at once."""
    cut(copy, lambda c: c.done[-1:] == ["r2.potentials"])
    cause = "target_size:low"
    mode = Mode(mode_id_of(config.family, "ATTRIBUTE", "grasp", cause), 1, config.family, "ATTRIBUTE", "grasp", cause, None, 0.0, "new", 2)
    (text,) = improvement.compiler_of(config).compile([Failing("pick_place", "ATTRIBUTE", "grasp", cause)])
    program = Program(program_id_of("training", text), 1, "training", text, mode.mode_id, None, "active", None, 2)
    with opened(config, copy) as job:
        own = [dataclasses.replace(e, mode_id=mode.mode_id if e.mode_id else None) for e in job.state.environments["2"]]
        job.charge("round_2")
        job.commit(mode, program, environments=job.state.environments | {"2": own})
    return copy, mode.mode_id


def test_a_language_model_writes_the_potentials_where_it_is_asked_to(config, copy, monkeypatch):
    """One mode's program is good; the others are nonsense to the end, so rules write theirs, and the counts are committed."""
    good = next(t for t in load("training") if t.name == "pick_place_approach").replies[0]
    cut(copy, lambda c: c.done[-1:] == ["r2.before"])
    config = config.copy_and_resolve_references()
    config.agents.potentials = "llm"
    chat = Scripted(lambda request: good if len(chat.asked) == 1 else "hm")
    monkeypatch.setattr(Run, "chat", chat)
    with opened(config, copy) as job:
        stage = next_stage(config, job.state)
        assert stage is not None and stage.name == "r2.potentials"
        run_stage(job, stage)
        counted = job.state.agents
        assert chat.asked and counted.keys() <= {"potential.write", "potential.refine"}
        assert sum(own.get("accepted", 0) for own in counted.values()) <= 1 and counted
        assert all(own["answered"] == own.get("no_program", 0) + own.get("accepted", 0) for own in counted.values() if "fallback" in own)
        programs = potentials.in_use(job.memory, config)
        for program in (*programs.modes.values(), *programs.defaults.values()):
            assert isinstance(program, TrainingProgram)
            check(program, TrainingCheck(config).demonstrations)
        if "accepted" in counted.get("potential.write", {}):
            names = [[s.name for s in p.subgoals] for p in (*programs.modes.values(), *programs.defaults.values())]  # type: ignore[union-attr]
            assert ["halfway", "above_target", "near", "placed"] in names


def practised(config, folder: Path) -> None:
    with opened(config, folder) as job:
        stage = next_stage(config, job.state)
        assert stage is not None and stage.name == "r2.practice"
        run_stage(job, stage)


def test_rollouts_begin_inside_the_demonstrations_of_a_mode_that_asks_for_it(config, grasping):
    folder, mode = grasping
    before = read_commits(folder)[-1]
    every = before.environments["2"]
    wanted = [e for e in every if e.mode_id == mode]
    practised(config, folder)
    path = "episodes/rollouts_r02_practice.npz"
    assert wanted and path in read_commits(folder)[-1].files
    with opened(config, folder) as job:
        episodes = job.memory.rows(Episode, "WHERE purpose = 'practice' AND round = 2 ORDER BY episode_id")
        n = config.rounds.practice
        assert [(e.scene_id, e.repeat) for e in episodes] == [(e.scene_id, r) for e in every for r in range(n)]
        shown = {d.scene_id: d for d in demonstrations.load_file(folder / demonstrations.file_of_round(2))}
        specs = {t.spec.scene_id: t.spec for t in practice.trials_of(job, 2)}
        outcomes = stored.load(folder / path, specs.__getitem__)
        begun = [o for o in outcomes if o.trial.prefix is not None]
        assert [(o.trial.spec.scene_id, o.trial.key[1]) for o in begun] == [(e.scene_id, r) for e in wanted for r in range(n // 2, n)]
        for outcome in begun:
            given, demo = outcome.trial.prefix, shown[outcome.trial.spec.scene_id]
            assert given is not None and 0 < len(given) <= len(demo.executed) and outcome.recorded is not None
            np.testing.assert_array_equal(given, demo.executed[: len(given)])
            np.testing.assert_array_equal(outcome.recorded.views.pos[: len(given) + 1], demo.views.pos[: len(given) + 1])
        found = [g for g in gather(job, 2, seeds=0) if g.record.prefix]
        assert len(found) == sum(o.recorded is not None and o.steps > o.recorded.prefix and not o.health for o in begun) > 0
        assert {(g.record.source, g.mode_id) for g in found} == {("targeted", mode)}
        (row,) = [r for r in read_metrics(folder / "metrics.jsonl") if r["kind"] == "practice" and r["round"] == 2]
        assert (row["round"], row["n"], row["environments"], row["inside"]) == (2, len(outcomes), len(every), len(begun))
        assert job.memory.rows(LearningValue, "WHERE mode_id = ?", (mode,)) == []


def test_a_practice_killed_at_every_rollout_ends_the_same(config, grasping, tmp_path, monkeypatch):
    folder, _ = grasping
    again = Path(shutil.copytree(folder, tmp_path / "again"))
    practised(config, folder)
    config = config.copy_and_resolve_references()
    config.checkpoint.rollouts = 1
    flush, died = Substeps._flush, 0

    def flush_and_die(self):
        flush(self)
        raise Killed

    monkeypatch.setattr(Substeps, "_flush", flush_and_die)
    while True:
        try:
            practised(config, again)
            break
        except Killed:
            died += 1
    first, second = (read_commits(f)[-1] for f in (folder, again))
    assert died == len(first.environments["2"]) * config.rounds.practice
    assert first.files == second.files
    with Memory.reading(folder / FILE) as a, Memory.reading(again / FILE) as b:
        assert a.rows(Episode) == b.rows(Episode)


def test_a_frozen_policy_has_one_block(config, copy):
    other = config.copy_and_resolve_references()
    other.schedule.kind, other.schedule.most_updates = "fixed", 2 * other.rounds.steps
    ended = []
    for improve in ("awr", "frozen"):
        other.awr.improve = improve
        with opened(other, copy) as job:
            ended.append(measure._decide(job, 2, 1, [], set(), {}, {}).start)
    assert ended == [False, True]
    assert most_blocks(other) == 1


def test_practice_is_asked_for_by_settings(config, whole):
    def stages(**changes):
        other = config.copy_and_resolve_references()
        for path, value in changes.items():
            section, key = path.split("__")
            other[section][key] = value
        return parts.practises(other)

    assert stages()
    for changes in ({"rounds__practice": 0}, {"awr__improve": "filtered"}, {"rounds__count": 0}):
        assert not stages(**changes)
    done = [r["done"] for r in rows(whole, "stage") if r["name"].endswith(".practice")]
    assert done == [len(read_commits(whole)[-1].environments[n]) * config.rounds.practice for n in "12"]
    # this policy fails in the approach, which begins where a scene does: there is nothing to begin with
    assert [r["inside"] for r in rows(whole, "practice")] == [0, 0]


def test_what_measures_a_training_is_not_in_its_data(config, whole):
    """A rollout before the training has the noise of the one after it."""
    with opened(config, whole) as job:
        now, later = (gather(job, n, seeds=0) for n in (1, 2))
        measured = {o.trial.spec.scene_id: o for o in stored.load(whole / stored.file_of(1, "before"), recall.Scenes(job.memory).spec)}
    environments = {e.scene_id for e in read_commits(whole)[-1].environments["1"]}
    of_scene = [sum(g.spec.scene_id in environments and g.record.source != "demonstration" for g in found) for found in (now, later)]
    assert set(measured) >= environments and of_scene[0] == len(environments) * config.rounds.practice < of_scene[1]


def test_practice_has_other_noise_than_what_measures(config, whole):
    """In the first round the policy alone acts in both, from the same initial states."""
    with opened(config, whole) as job:
        spec, n = recall.Scenes(job.memory).spec, config.rounds.rollouts
        before, own = (stored.load(whole / stored.file_of(1, name), spec) for name in ("before", "practice"))
    measured, practised = ({rollouts.identity(o.trial): o.actions for o in some} for some in (before, own))
    both = measured.keys() & practised.keys()
    assert len(both) >= len(read_commits(whole)[-1].environments["1"]) * min(n, config.rounds.practice)
    assert not any(np.array_equal(measured[i][:4], practised[i][:4]) for i in both)


def test_the_oldest_make_room_in_the_table(config, whole):
    """Rollouts of earlier rounds first, then certified demonstrations of theirs; seeds and the round's own stay."""
    config = config.copy_and_resolve_references()
    with opened(config, whole) as job:
        programs = potentials.in_use(job.memory, config)
        every = tables.records_of(job, 2, programs)
        replay = [g for g in every if g.record.source == "replay" and g.round == 1]
        shown = [g for g in every if g.record.source == "demonstration" and g.round == 1]
        assert len(replay) > 1 and len(shown) > 1

        def names(room: int) -> tuple[set[str], int]:
            config.experience.episodes = room
            kept = tables.records_of(job, 2, programs)
            assert len(kept) == room
            left = [g for g in kept if g.record.source == "replay" and g.round == 1]
            assert sum(g.round in (0, 2) for g in kept) == sum(g.round in (0, 2) for g in every)
            return {g.spec.scene_id for g in kept if g.record.source == "demonstration" and g.round == 1}, len(left)

        everyone = {g.spec.scene_id for g in shown}
        assert names(len(every) - 1) == (everyone, len(replay) - 1)
        again = sum(g.record.source == "replay" and g.round == 2 for g in every)
        assert not again, "this round repeats no mode, whose rollouts would make room before demonstrations"
        assert names(len(every) - len(replay)) == (everyone, 0)
        assert len(names(len(every) - len(replay) - 1)[0]) == len(shown) - 1
        config.experience.episodes = len(every) - len(replay) - len(shown) - 1
        with pytest.raises(InputError, match=r"round 2 has \d+ episodes .* raise them"):
            tables.records_of(job, 2, programs)


def test_weights_of_another_table_are_refused(config, copy):
    other = config.copy_and_resolve_references()
    other.experience.rows *= 2
    with opened(other, copy) as job, pytest.raises(InputError, match=r"holds 4096 weights, the round's table has 8192 rows"):
        critic.weights_of(job, 2)


def test_actors_are_told_what_their_critic_met_and_choose_as_programs_ask(config, grasping):
    folder, mode = grasping
    with opened(config, folder) as job:
        before = potentials.met(job.memory, config, 1)
        (default,) = [p for p in current_programs(job.memory) if p.kind == "training" and p.status == "active" and p.mode_id is None]
        (own,) = [p for p in current_programs(job.memory) if p.mode_id == mode]
        asked = own.text.replace("start_states=True", "start_states=True, candidate_temperature=0.05")
        assert asked != own.text
        other = f"# {config.family}: scenes that practise no mode, place\nresult = training(sparse())"
        gone = "retired" if default.round < 2 else "candidate"  # what this round itself has written was never met
        job.charge("round_2")
        job.commit(
            dataclasses.replace(own, version=2, status="retired"),
            Program(program_id_of("training", asked), 1, "training", asked, mode, None, "active", None, 2),
            dataclasses.replace(default, version=default.version + 1, status=gone, round=2),
            Program(program_id_of("training", other), 1, "training", other, None, None, "active", None, 2),
        )
        family = config.family
        assert potentials.in_use(job.memory, config).of(None, family) == SparseProgram() != before.of(None, family)
        guide = guides.guide_of(job, "collect")
        assert guide is not None
        environments = {e.scene_id: e.mode_id for e in job.state.environments["2"]}
        scenes = recall.Scenes(job.memory)
        for scene, practises in environments.items():
            episode = episode_of(scenes.spec(scene), config.horizon[family], (0, 0))
            assert guide.program_of(episode) == before.of(None, family)
            found = guide.temperature_of(episode)
            assert found == (0.05 if practises == mode else None)
        assert mode in environments.values()
