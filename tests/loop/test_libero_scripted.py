"""Scripted LIBERO episodes: what is kept is what the official runner reads, and carrying the actions out again gives the same."""

from __future__ import annotations

import numpy as np
import pytest

from coda_jax.evaluation.libero import records
from coda_jax.loop import libero_scripted
from coda_jax.scenes.libero import families, importing, tasks
from coda_jax.scenes.libero.suites import seed_of
from coda_jax.sim.libero.simulator import LiberoSimulator
from coda_jax.sim.simulator import episode_of

SUITE = "libero_goal"


@pytest.fixture(autouse=True)
def forgotten():
    yield
    families.remove()


@pytest.mark.libero
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--suites=libero_90"], "unknown LIBERO suite 'libero_90': use one of libero_object"),
        (["--suites=libero_goal,libero_10"], "suites are of libero_goal, libero_10; the native simulator has libero_object"),
        (["--suites=libero_goal_swap, libero_object", "--states=51"], "has initial states 0 to 49, not 50"),
    ],
)
def test_what_cannot_be_run_is_one_message(arguments, message, tmp_path, capsys):
    assert libero_scripted.main([*arguments, f"--out={tmp_path}"]) == 2
    said = capsys.readouterr().err.strip()
    assert said.startswith("error: ") and message in said and "\n" not in said
    assert not list(tmp_path.iterdir())


@pytest.mark.libero
@pytest.mark.slow
def test_episodes_are_kept_as_the_official_runner_reads_them_and_can_be_carried_out_again(tmp_path, capsys, repository, monkeypatch):
    assert libero_scripted.main([f"--suites={SUITE}", "--states=1", "--worlds=5", f"--out={tmp_path}"]) == 0
    assert f"--suites={SUITE}" in capsys.readouterr().out
    kept = {f"{e.suite}/{e.name}@{e.init_index}": e for e in records.read(tmp_path / libero_scripted.NATIVE)}
    assert sorted(kept) == sorted(f"{task.key}@0" for task in tasks.tasks(SUITE))
    assert sum(e.outcome == "success" for e in kept.values()) >= 8
    assert {(e.policy, e.observes, e.prompt_source, e.replan_steps) for e in kept.values()} == {
        (libero_scripted.PLANNER, "nothing", "bddl", libero_scripted.EXECUTED)
    }

    monkeypatch.syspath_prepend(str(repository / "third_party" / "libero_pro"))
    import replay

    official = replay.Replay(tmp_path / libero_scripted.ACTIONS, libero_scripted.EXECUTED)
    assert {scene: len(rows) for scene, rows in official.actions.items()} == {scene: e.steps for scene, e in kept.items()}
    assert replay.fixtures_of(tmp_path / libero_scripted.NATIVE) == {
        scene: {name: list(pose) for name, pose in e.fixtures.items()} for scene, e in kept.items()
    }

    won = [scene for scene, e in kept.items() if e.outcome == "success"][:4]
    specs = [importing.initial_scene(tasks.task(scene), 0, kept[scene].fixture_seed or 0) for scene in won]
    assert [kept[scene].fixture_seed for scene in won] == [seed_of(scene) for scene in won]
    sim = LiberoSimulator(len(won), 1)
    batch = sim.compile([episode_of(spec, kept[scene].step_limit, (i, 0)) for i, (scene, spec) in enumerate(zip(won, specs, strict=True))])
    state, steps = sim.reset(batch), np.zeros(len(won), int)
    for decision in range(max(kept[scene].decisions for scene in won)):
        told = [{"coda/libero/scene": scene, "coda/decision": decision} for scene in won]
        state, trace = sim.step_chunk(batch, state, np.stack([official.infer(message)["actions"] for message in told]))
        steps += trace.executed
    assert steps.tolist() == [kept[scene].steps for scene in won]
    for row, scene in enumerate(won):
        ends = kept[scene].final_qpos
        assert ends is not None and np.allclose(state.physics["qpos"][row][: len(ends)], ends, atol=1e-6)
    assert kept[won[0]].prompt == tasks.task(won[0]).problem().language
