"""A served policy decides as it does at home, whoever asks, and what strangers send does no harm."""

import functools
import socket
import threading
import time
import urllib.request

import jax
import msgpack
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from coda_jax.doors.server import TIMING, PolicyServer, ServeSettings
from coda_jax.doors.serving import ServedPolicy
from coda_jax.evaluation.asking import Asking
from coda_jax.evaluation.rollouts import rollout
from coda_jax.learning.policies.messages import message_of, rotation_vector
from coda_jax.learning.policies.pixels import PixelPolicy
from coda_jax.learning.policies.remote import RemotePolicy, RemoteSettings
from coda_jax.learning.policies.wire import pack, unpack
from coda_jax.loop.evaluation import acting
from coda_jax.runtime import InputError
from coda_jax.scenes.catalogue import Catalogue
from coda_jax.scenes.generate import sample_spec
from coda_jax.sim.bucket import Bucket
from coda_jax.sim.eyes import Eyes
from coda_jax.sim.native import NativeSimulator
from coda_jax.sim.observe import observe, scene_texts
from coda_jax.sim.panda import PANDA
from coda_jax.sim.render import NativeRenderer
from coda_jax.sim.simulator import episode_of
from coda_jax.types import Observation
from tests.learning import toy

TEXT, EXECUTED = 4, 4
LOCAL = ServeSettings(host="127.0.0.1", port=0, clients=3, message_mb=0.5)


def embed(texts):
    return np.stack([np.random.default_rng(sum(map(ord, t))).normal(size=TEXT) for t in texts]).astype(np.float32)


class Setting:
    """A policy, a simulator with two scenes in it, and what the policy sees there."""

    def __init__(self):
        self.catalogue = Catalogue.all()
        self.sim = NativeSimulator(self.catalogue, Bucket(6, 6), worlds=2)
        specs = [sample_spec(Catalogue("train"), "pick_place", "id", "train", seed) for seed in range(3)]
        self.episodes = [episode_of(spec, 8, (i, 0)) for i, spec in enumerate(specs)]
        self.policy = toy.policy(width=16, text_dim=TEXT)
        self.params = self.policy.init(jax.random.key(0))
        self.served = ServedPolicy(self.policy, self.params, embed, 0, {"families": ["pick_place"]})
        view = self.sim.reset(self.sim.compile(self.episodes[:2])).view
        self.words = [scene_texts(e.spec, self.catalogue) for e in self.episodes]
        text = np.stack([np.stack([embed([w])[0] if w else np.zeros(TEXT, np.float32) for w in words]) for words, _ in self.words[:2]])
        self.obs: Observation = jax.device_get(observe(view, text, embed([prompt for _, prompt in self.words[:2]])))

    def message(self, row=0, key=(1, 2)):
        return message_of(self.obs, row, *self.words[row], np.array(key, np.uint32))


@pytest.fixture(scope="module")
def setting():
    return Setting()


@pytest.fixture
def server(setting):
    with PolicyServer(setting.served.infer, setting.served.metadata, LOCAL) as server:
        yield server


def remote(server, **changed):
    settings = {"deadline_s": 20.0, "retries": 1, "connections": 2} | changed
    return RemotePolicy(RemoteSettings(f"ws://127.0.0.1:{server.port}", **settings))


def test_a_served_decision_is_the_policys_own(setting, server):
    key = jax.random.wrap_key_data(np.array([[1, 2], [3, 4]], np.uint32))  # type: ignore[arg-type]
    wanted = np.asarray(setting.policy.sample(setting.params, setting.obs, key, 1)[:, 0])
    with remote(server) as policy:
        assert policy.metadata["observes"] == "state" and policy.metadata["chunk"] == setting.policy.chunk
        assert policy.metadata["timing"]["compile_s"] > policy.metadata["timing"]["infer_ms"] / 1000 > 0
        found = policy.chunks([setting.message(0, (1, 2)), setting.message(1, (3, 4))], EXECUTED)
        np.testing.assert_allclose(found, wanted, atol=1e-5)
        without = {name: value for name, value in setting.message().items() if name != "coda/key"}
        first, second = policy.chunks([without], EXECUTED), policy.chunks([without], EXECUTED)
        assert np.abs(first - second).max() > 1e-4  # the server's own noise


def test_rollouts_of_the_served_policy_are_those_of_the_policy(setting, server):
    def actions(simulator, policy_fn):
        key = jax.random.key(3)
        results = rollout(simulator, setting.catalogue, setting.episodes, policy_fn, embed, EXECUTED, key)
        return np.stack([r.actions for r in sorted(results, key=lambda r: r.episode.key)])

    own = actions(*acting(setting.policy, setting.params, setting.sim, setting.catalogue))
    with remote(server) as policy:
        asking = Asking(setting.sim, setting.catalogue, policy, EXECUTED)
        np.testing.assert_allclose(actions(asking, asking), own, atol=1e-4)
    assert server.answered == 2 * len(setting.episodes)  # nobody is asked for in worlds that have ended


def test_openpis_client_is_served(setting, server):
    client = pytest.importorskip("openpi_client.websocket_client_policy", exc_type=ImportError)
    asking = client.WebsocketClientPolicy("127.0.0.1", server.port)
    assert asking.get_server_metadata()["fields"]["coda/pos"] == [8, 3]
    answer = asking.infer(setting.message())
    np.testing.assert_allclose(answer["actions"], setting.served.infer(setting.message())["actions"], atol=1e-6)
    assert answer[TIMING]["infer_ms"] > 0
    with pytest.raises(RuntimeError, match="coda/pos is missing"):
        asking.infer({name: value for name, value in setting.message().items() if name != "coda/pos"})
    assert asking.infer(setting.message())[TIMING]["prev_total_ms"] > 0  # a refusal ends nothing


def broken(**changed):
    return lambda message: message | {name.replace("__", "/"): value for name, value in changed.items()}


NAN = np.full((8, 3), np.nan, np.float32)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (broken(coda__pos=NAN), "coda/pos holds numbers that are not finite"),
        (broken(coda__linvel=NAN * 0 + 1e30), "coda/linvel holds numbers"),
        (broken(coda__pos=np.zeros((7, 3))), r"coda/pos is float64 of shape \(7, 3\); it must be numbers of shape \(8, 3\)"),
        (broken(coda__quat=np.zeros((8, 4))), "quat of object 0 has length 0"),
        (broken(coda__ee_quat=np.ones(4)), "coda/ee_quat has length 2"),
        (broken(coda__gripper_opening="wide"), "a text of 4 characters"),
        (broken(coda__present=[True] * 8), "coda/present is a list of 8"),
        (broken(prompt=3), "prompt is a int"),
        (broken(prompt="  "), "prompt is a text"),
        (broken(prompt="x" * 401), "prompt is a text of 401 characters"),
        (broken(coda__words=["a mug"]), "coda/words is a list of 1"),
        (broken(coda__words=[""] * 8), r"coda/words\[0\] is a text of 0"),
        (broken(coda__words=[3] * 8), r"coda/words\[0\] is a int"),
        (broken(coda__key=np.zeros(2, np.int64)), "coda/key is int64"),
        (broken(coda__key=[1, 2]), "coda/key is a list"),
        (lambda message: {}, "coda/ee_pos is missing"),
    ],
)
def test_observations_that_cannot_be_used_are_refused_by_name(setting, server, change, said):
    with remote(server) as policy, pytest.raises(InputError, match=f"refuses the observation: .*{said}"):
        policy.chunks([change(setting.message())], EXECUTED)


def test_a_gripper_opening_may_be_a_plain_number(setting):
    message = setting.message() | {"coda/gripper_opening": float(setting.obs.gripper_opening[0])}
    np.testing.assert_allclose(setting.served.infer(message)["actions"], setting.served.infer(setting.message())["actions"], atol=1e-6)


def test_texts_without_end_are_refused(setting, monkeypatch):
    monkeypatch.setattr("coda_jax.doors.serving._MOST_TEXTS", 12)
    served = ServedPolicy(setting.policy, setting.params, embed, 0, {})
    served.infer(setting.message())
    with pytest.raises(ValueError, match="no new ones"):
        for i in range(12):
            served.infer(setting.message() | {"prompt": f"put number {i} away"})
    served.infer(setting.message())


def test_junk_ends_nobodys_connection_but_its_own(setting, server):
    url = f"ws://127.0.0.1:{server.port}"
    with remote(server) as policy:
        with connect(url, compression=None) as stranger:
            stranger.recv()
            for junk in ("hello", b"", b"\xc1", b"\x91\x01", pack({"prompt": "x"})):
                stranger.send(junk)
                assert isinstance(stranger.recv(timeout=10), str)
            assert server.refused == 5
            stranger.send(bytes(2**20))  # more than message_mb
            with pytest.raises(ConnectionClosed):
                stranger.recv(timeout=10)
        raw = socket.create_connection(("127.0.0.1", server.port))
        raw.sendall(b"\x00" * 100_000)
        raw.close()
        assert policy.chunks([setting.message()], EXECUTED).shape == (1, setting.policy.chunk, 7)


def test_health_and_most_clients(server):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/healthz", timeout=10) as answer:
        assert answer.read() == b"OK\n"
    url = f"ws://127.0.0.1:{server.port}"
    inside = [connect(url, compression=None).__enter__() for _ in range(LOCAL.clients)]
    assert all(unpack(one.recv()) for one in inside)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="3 clients are served already"):
        remote(server)
    inside.pop().close()
    for _ in range(100):
        try:
            remote(server).close()
            break
        except InputError:
            time.sleep(0.05)
    else:
        raise AssertionError("the place that became free is not given away")
    for one in inside:
        one.close()


def test_clients_side_by_side_get_their_own_answers(setting, server):
    wanted = [setting.served.infer(setting.message(0, (i, 0)))["actions"] for i in range(8)]
    with remote(server, connections=3) as policy:
        found = policy.chunks([setting.message(0, (i, 0)) for i in range(8)], EXECUTED)
    np.testing.assert_allclose(found, wanted, atol=1e-6)


HELLO = (
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    b"Sec-WebSocket-Version: 13\r\n\r\n"
)
EMPTY_MAP = b"\x82\x81\0\0\0\0\x80"  # a masked binary frame


def test_a_client_that_reads_nothing_keeps_no_place(monkeypatch):
    monkeypatch.setattr("coda_jax.doors.server._UNREAD_S", 0.5)
    large = {"actions": np.zeros((100_000, 7), np.float32)}
    with PolicyServer(lambda message: large, {}, ServeSettings("127.0.0.1", 0, 1, 1.0)) as server, socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stranger.connect(("127.0.0.1", server.port))
        stranger.sendall(HELLO + EMPTY_MAP * 20)
        while not server.answered:
            time.sleep(0.05)
        for _ in range(100):
            try:
                with connect(f"ws://127.0.0.1:{server.port}", compression=None) as other:
                    other.recv(timeout=10)
                break
            except ConnectionClosed:  # its place is taken
                time.sleep(0.1)
        else:
            server.close = lambda: None  # which would wait for ever
            raise AssertionError("it keeps its place")
        began = time.perf_counter()
        server.close()
        assert time.perf_counter() - began < 5, "the server does not end"


def test_a_policy_that_fails_ends_one_connection_alone(setting, caplog):
    def infer(message):
        if message["prompt"] == "fail":
            raise ZeroDivisionError
        return setting.served.infer(message)

    with PolicyServer(infer, setting.served.metadata, LOCAL) as server:
        with remote(server, retries=0) as policy, pytest.raises(InputError, match="was lost .*the policy failed"):
            policy.chunks([setting.message() | {"prompt": "fail"}], EXECUTED)
        with remote(server) as policy:
            policy.chunks([setting.message()], EXECUTED)
    assert "ZeroDivisionError" in caplog.text


def test_a_port_that_is_taken(setting, server):
    with pytest.raises(InputError, match=f"cannot listen at 127.0.0.1:{server.port} .*config.serve.port"):
        PolicyServer(setting.served.infer, {}, ServeSettings("127.0.0.1", server.port, 1, 1.0))


def test_a_policy_of_pictures_is_served(setting):
    policy = PixelPolicy(
        **{name: getattr(setting.policy, name) for name in setting.policy.__dataclass_fields__},
        height=16,
        columns=24,
        patch=8,
        channels=4,
        layers=1,
        place_weight=1.0,
    )
    params = policy.init(jax.random.key(0))
    served = ServedPolicy(policy, params, embed, 0, {})
    assert served.metadata["observes"] == "pixels" and served.metadata["fields"]["coda/pixels"] == [2, 16, 24, 3]
    eyes = Eyes(setting.sim, setting.catalogue, PANDA, NativeRenderer(1), 16, 24)
    try:
        eyes.reset(eyes.compile(setting.episodes[:2]))
        pixels = eyes.look()
    except Exception as error:
        pytest.skip(f"no OpenGL here: {error}")
    obs = setting.obs.__class__(**{**vars(setting.obs), "pixels": pixels})
    words, prompt = setting.words[1]
    message = message_of(obs, 1, words, prompt, np.array([5, 6], np.uint32))
    assert message["observation/image"].shape == message["observation/wrist_image"].shape == (16, 24, 3)
    key = jax.random.wrap_key_data(np.array([[5, 6]], np.uint32))  # type: ignore[arg-type]
    wanted = np.asarray(policy.sample(params, jax.tree.map(lambda leaf: leaf[1:], obs), key, 1)[0, 0])
    np.testing.assert_allclose(served.infer(message)["actions"], wanted, atol=1e-4)
    with pytest.raises(ValueError, match=r"coda/pixels is uint8 of shape \(2, 16, 24\); it must be uint8 of shape \(2, 16, 24, 3\)"):
        served.infer(message | {"coda/pixels": pixels[1, ..., 0]})


def test_proprioception_is_openpis(setting):
    state = setting.message()["observation/state"]
    assert state.shape == (8,) and state.dtype == np.float32
    np.testing.assert_allclose(state[6:], [setting.obs.gripper_opening[0] / 2, -setting.obs.gripper_opening[0] / 2], atol=1e-6)
    np.testing.assert_allclose(rotation_vector(np.array([1.0, 0, 0, 0])), 0)
    np.testing.assert_allclose(rotation_vector(np.array([np.cos(0.2), 0, np.sin(0.2), 0])), [0, 0.4, 0], atol=1e-12)


class Scripted:
    """A server that says what the test tells it to."""

    def __init__(self, greeting, *answers):
        from websockets.sync.server import serve

        self.answers = list(answers)

        def handle(connection):
            connection.send(greeting)
            for _ in connection:
                answer = self.answers.pop(0) if self.answers else None
                if answer is None:
                    connection.close()
                    return
                if isinstance(answer, threading.Event):
                    answer.wait(10)
                    return
                connection.send(answer)

        self.server = serve(handle, "127.0.0.1", 0, compression=None)
        self.port = self.server.socket.getsockname()[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()


GREETING = pack({"server": "scripted"})
GOOD = pack({"actions": np.zeros((5, 7))})


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (pack({"actions": np.zeros((5, 8))}), r'"actions" of shape \(5, 8\)'),
        (pack({"actions": [[0.0] * 7]}), '"actions" of list'),
        (pack({}), '"actions" of NoneType'),
        (pack({"actions": np.full((5, 7), np.nan)}), "not finite"),
        (pack({"actions": np.full((5, 7), 1e300)}), "not finite"),
        (pack({"actions": np.zeros((3, 7))}), "predicts 3 actions a decision; lower config.evaluate.executed, now 4"),
        (b"\xc1", "something else than a policy's message"),
        ("Traceback\x1b[2J: no such task", "refuses the observation: Traceback .2J: no such task"),
    ],
)
def test_answers_that_are_none(answer, said):
    with Scripted(GREETING, answer) as server, remote(server) as policy, pytest.raises(InputError, match=said):
        policy.chunks([{"prompt": "x"}], EXECUTED)


def test_a_lost_server_is_asked_again_a_bounded_number_of_times():
    with Scripted(GREETING, None, GOOD) as server, remote(server) as policy:
        assert policy.chunks([{"prompt": "x"}], EXECUTED).shape == (1, 5, 7)
    with Scripted(GREETING, None, None, GOOD) as server:
        with remote(server) as policy, pytest.raises(InputError, match="was lost .*config.remote.deadline_s"):
            policy.chunks([{"prompt": "x"}], EXECUTED)
        assert server.answers == [GOOD]


def test_another_policy_at_the_same_address_is_noticed():
    with Scripted(GREETING, None, GOOD) as server, remote(server) as policy:
        policy.identity = "another"
        with pytest.raises(InputError, match="another policy answers"):
            policy.chunks([{"prompt": "x"}], EXECUTED)


def test_nobody_there():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"ws://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InputError, match=f"no policy server answers at {address} .*--mode=serve"):
            RemotePolicy(RemoteSettings(address, 5.0, 0, 1))


def test_what_speaks_another_protocol():
    with Scripted("hello") as server, pytest.raises(InputError, match="says: hello"):
        remote(server)
    with Scripted(b"\xc1") as server, pytest.raises(InputError, match="no policy server of openpi's protocol"):
        remote(server)


@pytest.mark.parametrize("metadata", [{"a": {b"b": 1}}, {"a": functools.reduce(lambda inner, _: [inner], range(1010), 0)}])
def test_metadata_that_tell_no_policy(metadata):
    with Scripted(msgpack.packb(metadata)) as server, pytest.raises(InputError, match="no policy server of openpi's protocol"):
        remote(server)


def test_a_server_that_reads_nothing_is_given_up():
    with Scripted(GREETING) as server, socket.socket() as between:
        between.bind(("127.0.0.1", 0))
        between.listen()

        def greet_and_stop():
            inner, _ = between.accept()
            outer = socket.create_connection(("127.0.0.1", server.port))
            outer.sendall(inner.recv(10_000))
            while data := outer.recv(10_000):
                inner.sendall(data)

        threading.Thread(target=greet_and_stop, daemon=True).start()
        began = time.perf_counter()
        policy = RemotePolicy(RemoteSettings(f"ws://127.0.0.1:{between.getsockname()[1]}", 0.5, 0, 1))
        with policy, pytest.raises(InputError, match="was lost"):
            policy.chunks([{"x": np.zeros(2**24 - 100, np.uint8)}], EXECUTED)
    assert time.perf_counter() - began < 40  # ten of them to say good-bye


def test_a_slow_server_is_given_up():
    began = time.perf_counter()
    with Scripted(GREETING) as server:
        server.answers = [held := threading.Event()]
        with remote(server, deadline_s=0.3, retries=0) as policy, pytest.raises(InputError, match="was lost"):
            policy.chunks([{"prompt": "x"}], EXECUTED)
        held.set()
    assert time.perf_counter() - began < 5
