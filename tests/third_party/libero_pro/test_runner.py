"""The official runner in its own environment, against servers in this process. Skipped where setup.sh has made no environment."""

import json
import os
import signal
import socket
import subprocess
import threading
import time
from types import SimpleNamespace

import msgpack
import numpy as np
import psutil
import pytest
from websockets.sync.server import serve

from coda_jax.doors.server import PolicyServer, ServeSettings
from coda_jax.evaluation.libero.records import read
from coda_jax.learning.policies.remote import identity_of
from coda_jax.learning.policies.wire import pack

METADATA = {"server": "scripted", "observes": "state", "sizes": [1, 2.5], "timing": {"infer_ms": 3.0}}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """(python of the reference environment, runner.py)."""
    from tests.conftest import PACKAGE

    folder = PACKAGE.parent / "third_party" / "libero_pro"
    python = os.environ.get("LIBERO_PRO_PYTHON") or str(folder / ".venv" / "bin" / "python")
    if not os.path.exists(python):
        pytest.skip("needs the environment of third_party/libero_pro/setup.sh, there or named by LIBERO_PRO_PYTHON")
    return [python, str(folder / "runner.py")]


class Scripted:
    """Random actions that depend on the client's key alone; remembers what it was told."""

    def __init__(self, most=10**9):
        self.seen, self.most = [], most

    def __call__(self, message):
        if len(self.seen) >= self.most:
            raise RuntimeError("enough")
        self.seen.append(message)
        return {"actions": np.random.default_rng(message["coda/key"]).uniform(-1, 1, (5, 7)).astype(np.float32)}


def served(infer):
    return PolicyServer(infer, METADATA, ServeSettings("127.0.0.1", 0, 8, 16.0))


def start(reference, server, out, *arguments):
    command = [*reference, f"--address=ws://127.0.0.1:{server.port}", "--no-images", f"--out={out}", "--most-steps=10", *arguments]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean)


def run(*arguments):
    process = start(*arguments)
    out, err = process.communicate(timeout=400)
    return process.returncode, out, err


GOAL = ("--suites=libero_goal", "--tasks=0", "--states=2")


@pytest.mark.slow
def test_episodes_are_recorded_once_and_do_not_depend_on_who_runs_them(reference, tmp_path):
    policy = Scripted()
    with served(policy) as server:
        code, _, err = run(reference, server, tmp_path / "one.jsonl", *GOAL, "--prompts=bddl,filename")
        assert code == 0, err
        one = read(tmp_path / "one.jsonl")
        assert {e.policy for e in one} == {identity_of(METADATA)}
        assert [(e.prompt_source, e.init_index) for e in one] == [("bddl", 0), ("bddl", 1), ("filename", 0), ("filename", 1)]
        assert {(e.prompt_source, e.prompt) for e in one} == {
            ("bddl", "open the middle layer of the drawer"),
            ("filename", "open the middle drawer of the cabinet"),
        }
        assert {e.versions["mujoco"] for e in one} == {"2.3.7"} and {e.step_limit for e in one} == {10}
        assert {(e.outcome, e.steps, e.decisions) for e in one} == {("failure", 10, 2)}
        assert one[0].fixtures["wine_rack_1"] != one[1].fixtures["wine_rack_1"] and one[0].fixtures == one[2].fixtures
        assert one[0].final_qpos == one[2].final_qpos and one[0].final_qpos != one[1].final_qpos  # the prompt moved nothing here
        message = policy.seen[0]
        assert message["observation/state"].shape == (8,) and message["coda/key"].dtype == np.uint32
        assert message["coda/libero/scene"] == "libero_goal/open_the_middle_drawer_of_the_cabinet@0"
        assert message["coda/libero/qpos"].shape == (41,) and message["coda/libero/qpos"].dtype == np.float64
        assert set(message["coda/libero/fixtures"]) == {"wooden_cabinet_1", "flat_stove_1", "wine_rack_1"}
        assert message["coda/libero/objects"]["plate_1"].shape == message["coda/libero/grip"].shape == (7,)
        code, out, _ = run(reference, server, tmp_path / "one.jsonl", *GOAL, "--prompts=bddl,filename")
        assert (code, len(policy.seen)) == (0, 8) and "4 recorded already, 0 to run" in out
        code, _, err = run(reference, server, tmp_path / "one.jsonl", *GOAL, "--seed=8")
        assert code == 2 and "made with seed 7, this run has 8" in err
        code, _, err = run(reference, server, tmp_path / "two.jsonl", *GOAL, "--workers=2")
        assert code == 0, err
    two = {e.init_index: e for e in read(tmp_path / "two.jsonl")}
    for e in one[:2]:  # after another episode in the same environment, or as the first one of another process
        assert two[e.init_index].final_qpos == e.final_qpos and two[e.init_index].fixtures == e.fixtures


@pytest.mark.slow
def test_a_server_without_room_for_every_worker_ends_the_run_and_no_episode(reference, tmp_path):
    with PolicyServer(Scripted(), METADATA, ServeSettings("127.0.0.1", 0, 1, 16.0)) as server:
        code, _, err = run(reference, server, tmp_path / "records.jsonl", *GOAL, "--workers=2")
    assert code == 2 and "takes no more clients" in err and "fewer --workers" in err, err
    assert all(json.loads(line)["outcome"] != "error" for line in (tmp_path / "records.jsonl").read_text().splitlines())


@pytest.mark.slow
def test_a_lost_server_a_dead_worker_and_a_signal_lose_no_record(reference, tmp_path):
    out = tmp_path / "records.jsonl"
    with served(Scripted(most=3)) as server:  # two decisions an episode
        code, _, err = run(reference, server, out, *GOAL)
        assert code == 2 and "the policy server failed" in err and "1 episodes are recorded" in err
    policy = Scripted()
    with served(policy) as server:
        process = start(reference, server, out, *GOAL)
        while not policy.seen and process.poll() is None:
            time.sleep(0.05)
        (worker,) = [c for c in psutil.Process(process.pid).children() if "spawn_main" in " ".join(c.cmdline())]
        worker.kill()
        shown, err = process.communicate(timeout=200)
        assert process.returncode == 0, err
        assert "the simulator's process ended with -9" in shown
        assert [(e.init_index, e.outcome) for e in read(out)] == [(0, "failure"), (1, "error")]
        process = start(reference, server, out, *GOAL, "--retry-errors", "--tasks=0,1")
        before = len(policy.seen)
        while len(policy.seen) == before and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        shown, err = process.communicate(timeout=200)
        assert process.returncode == 3 and "the same command goes on" in shown, (shown, err)
        assert [(e.task, e.init_index, e.outcome) for e in read(out)] == [(0, 0, "failure"), (0, 1, "failure")]


def test_what_cannot_be_run_is_said_at_once(reference, tmp_path):
    with served(Scripted()) as server:
        for arguments, said in (
            (("--suites=libero_nope",), "there is no suite libero_nope"),
            (("--suites=libero_goal_env",), "has no BDDL file"),
            (("--prompts=mine",), "--prompts=mine must be any of: bddl, filename"),
            (("--tasks=77",), "there is no task 77; these suites have tasks 0 to 9"),
            (("--tasks=0,10",), "there is no task 10; these suites have tasks 0 to 9"),
            (("--workers=0",), "it must be at least 1"),
        ):
            code, _, err = run(reference, server, tmp_path / "x.jsonl", *arguments)
            assert code == 2 and said in err, err
        np.savez(tmp_path / "actions.npz", **{"libero_goal/other@0": np.zeros((3, 7))})  # pyright: ignore[reportArgumentType]
        code, _, err = run(reference, server, tmp_path / "x.jsonl", *GOAL, f"--actions={tmp_path / 'actions.npz'}")
        assert code == 2 and "has no actions for the chosen episodes" in err, err
        (tmp_path / "actions.npz").unlink()
    code, _, err = run(reference, server, tmp_path / "x.jsonl", *GOAL)  # which has ended
    assert code == 2 and "no policy server answers at ws://127.0.0.1" in err and "--mode=serve" in err
    assert not list(tmp_path.iterdir())


class Hostile:
    """A server that greets with these bytes, and answers everything with those; None: says nothing."""

    def __init__(self, greeting, answer=None):
        self.ended = threading.Event()

        def handle(connection):
            for data in (greeting, answer):
                if data is None:
                    self.ended.wait()
                    return
                connection.send(data)
                connection.recv()

        self.server = serve(handle, "127.0.0.1", 0, compression=None)
        self.port = self.server.socket.getsockname()[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.server.shutdown()


def objects(shape):
    """Actions of Python objects at addresses that the server chose."""
    entries = {b"__ndarray__": True, b"data": b"A" * 8 * shape[0] * shape[1], b"dtype": "|O", b"shape": list(shape)}
    return msgpack.packb({"actions": entries})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("greeting", "said"),
    [
        (None, "TimeoutError"),
        ("go away\x1b[2J", "the server says: go away [2J"),
        (b"\xc1", "no policy server of openpi's protocol"),
        (msgpack.packb([1]), "the message is a list"),
        (msgpack.packb({"a": {b"b": 1}}), "no policy server of openpi's protocol"),
        (msgpack.packb({"observes": "\x1b[2J"}), 'must say in a short text what the policy "observes"'),
        (msgpack.packb({"observes": [1]}), 'must say in a short text what the policy "observes"'),
        (msgpack.packb({"a": bytes(2**24)}), "no policy server of openpi's protocol"),
        (objects((2, 7)), "'|O' is no type of numbers"),
    ],
)
def test_a_server_that_greets_with_something_else(reference, tmp_path, greeting, said):
    with Hostile(greeting) as server:
        code, _, err = run(reference, server, tmp_path / "x.jsonl", *GOAL, "--deadline=2")
    assert code == 2 and said in err and err.rstrip("\n").isprintable(), err
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_socket_that_accepts_and_says_nothing(reference, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = SimpleNamespace(port=silent.getsockname()[1])
        code, _, err = run(reference, address, tmp_path / "x.jsonl", *GOAL, "--deadline=2")
    assert code == 2 and "no policy server of openpi's protocol" in err, err


@pytest.mark.slow
def test_records_that_cannot_be_written(reference, tmp_path):
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    with served(Scripted()) as server:
        for out in ("file/records.jsonl", ".", "pipe"):
            code, _, err = run(reference, server, tmp_path / out, *GOAL)
            assert code == 2 and "cannot be written" in err and "choose another --out" in err, err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "the policy server failed: TimeoutError"),
        (objects((5, 7)), "'|O' is no type of numbers"),
        (pack({"actions": np.ones((5, 7), bool)}), 'answers with "actions" of shape (5, 7)'),
    ],
)
def test_a_server_that_answers_with_something_else(reference, tmp_path, answer, said):
    with Hostile(pack(METADATA), answer) as server:
        code, _, err = run(reference, server, tmp_path / "x.jsonl", *GOAL, "--deadline=3")
    assert code == 2 and said in err and "0 episodes are recorded" in err, err
    assert not (tmp_path / "x.jsonl").read_text()


@pytest.mark.slow
@pytest.mark.libero
def test_a_policy_of_ours_sees_the_official_scene_as_the_native_one(reference, tmp_path):
    """The same initial state in both simulators, as the policy is told of it after the no-ops."""
    import jax

    from coda_jax.doors.libero import translator
    from coda_jax.doors.serving import ServedPolicy
    from coda_jax.scenes.libero import families, importing, tasks
    from coda_jax.sim.libero.simulator import LiberoSimulator
    from coda_jax.sim.simulator import episode_of
    from tests.doors.test_serving import TEXT, embed
    from tests.learning import toy

    families.add()
    try:
        told, translate = [], translator()
        policy = toy.policy(width=16, text_dim=TEXT)

        def remembering(message):
            told.append(translate(message))
            return told[-1]

        server = ServedPolicy(policy, policy.init(jax.random.key(0)), embed, 0, {}, remembering)
        told.clear()  # of the server's own first decisions
        with PolicyServer(server.infer, server.metadata, ServeSettings("127.0.0.1", 0, 2, 16.0)) as listening:
            code, _, err = run(reference, listening, tmp_path / "records.jsonl", "--suites=libero_spatial_swap", "--tasks=3", "--states=1")
            assert code == 0, err
            assert (listening.answered, listening.refused) == (2, 0)
        (record,) = read(tmp_path / "records.jsonl")
        assert record.outcome == "failure" and record.observes == "state" and record.policy == identity_of(server.metadata)
        spec = importing.initial_scene(tasks.tasks("libero_spatial_swap")[3], 0, 0)
        sim = LiberoSimulator(1)
        view = sim.reset(sim.compile([episode_of(spec, 20, (0, 0))])).view
        first = told[0]
        assert first["coda/libero/scene"] == spec.spatial.layout and first["prompt"] == spec.task.instruction.lower()
        free = view.present[0] & (np.arange(8) < 5)
        np.testing.assert_allclose(first["coda/pos"][free], view.pos[0][free], atol=2e-3)
        np.testing.assert_allclose(first["coda/ee_pos"], view.ee_pos[0], atol=1e-3)
        np.testing.assert_allclose(first["coda/gripper_opening"], view.gripper_opening[0], atol=1e-3)
        np.testing.assert_allclose(first["coda/half_extent"], view.half_extent[0], atol=1e-6)
        assert np.abs(first["coda/pos"][5:] - view.pos[0][5:]).max() < 0.05  # fixtures are drawn anew within a centimetre, and turn
    finally:
        families.remove()
