"""A policy in another process: any server of openpi's websocket protocol, our own ``--mode=serve`` or a VLA's."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import queue
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from coda_jax.foreign import bound_sends, shown
from coda_jax.learning.policies.wire import WireError, pack, unpack
from coda_jax.runtime import InputError
from coda_jax.types import ACTION_DIM

try:
    from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI
    from websockets.sync.client import ClientConnection, connect
except ImportError as error:
    raise InputError("policies over the network need websockets and msgpack: pip install '.[serve]'") from error

MOST_BYTES = 2**24  # of one message
VOLATILE = "timing"  # entry of a server's metadata that says nothing about which policy it is
_OPEN_S = 10.0  # to be let in
_SHOWN = 500  # characters of what a server says
_PAUSE_S = 0.2  # before the first new connection; doubled for each further one
_LOST = (ConnectionClosed, OSError, TimeoutError)


@dataclasses.dataclass(frozen=True)
class RemoteSettings:
    """Where a policy is (defaults in config.py).

    address: "ws://host:port". deadline_s: of one answer. retries: new connections after a lost one. connections: decisions asked for side
    by side. api_key: sent as openpi does; empty for none.
    """

    address: str
    deadline_s: float
    retries: int
    connections: int
    api_key: str = dataclasses.field(default="", repr=False)


class RemotePolicy:
    """A policy that is asked over the network. It cannot be trained.

    metadata: what the server says of itself. identity: hash of it, which tells whether another policy answers.

    Raises:
      InputError: nobody answers at the address, or no policy server; the message says what to start.
    """

    def __init__(self, settings: RemoteSettings):
        self.settings = settings
        first, self.metadata = self._connect()
        self.identity = identity_of(self.metadata)
        self._idle: queue.LifoQueue[ClientConnection] = queue.LifoQueue()
        self._idle.put(first)
        self._threads = ThreadPoolExecutor(settings.connections, "remote-policy")

    def __enter__(self) -> RemotePolicy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connections."""
        self._threads.shutdown()
        while not self._idle.empty():
            with contextlib.suppress(Exception):
                self._idle.get_nowait().close()

    def chunks(self, messages: Sequence[Mapping[str, Any]], least: int) -> np.ndarray:
        """Chunks [n, h, 7] float32 for ``n`` moments (policies/messages.py), in LIBERO's convention.

        least: control steps that will be carried out of each; h is at least that.

        Raises:
          InputError: the server is lost, too slow, refuses a message, or answers with something else.
        """
        found = list(self._threads.map(lambda message: self._ask(message, least), messages))
        lengths = {len(chunk) for chunk in found}
        if len(lengths) > 1:
            raise InputError(f"{self.settings.address} answers with chunks of {sorted(lengths)} steps; they must be of one length")
        return np.stack(found)

    def _ask(self, message: Mapping[str, Any], least: int) -> np.ndarray:
        address, data = self.settings.address, pack(dict(message))
        for attempt in range(self.settings.retries + 1):
            connection = None
            try:
                connection = self._taken(renewed=attempt > 0)
                connection.send(data)
                answer = connection.recv(timeout=self.settings.deadline_s)
            except _LOST as error:
                if connection is not None:
                    with contextlib.suppress(Exception):
                        connection.close()
                if attempt == self.settings.retries:
                    raise InputError(
                        f"the policy server at {address} was lost ({_reason(error)}); start it again, then the same command, or raise "
                        "config.remote.deadline_s"
                    ) from error
                time.sleep(_PAUSE_S * 2**attempt)
                continue
            if isinstance(answer, str):
                with contextlib.suppress(Exception):
                    connection.close()  # openpi's server does so itself
                raise InputError(f"the policy server at {address} refuses the observation: {shown(answer, _SHOWN)}")
            self._idle.put(connection)
            return _actions(answer, least, address)
        raise AssertionError("the last attempt returns or raises")

    def _taken(self, renewed: bool) -> ClientConnection:
        """An idle connection; a new one where there is none, or where a lost one makes the others suspect."""
        while not renewed:
            try:
                return self._idle.get_nowait()
            except queue.Empty:
                break
        try:
            connection, metadata = self._connect()
        except InputError as error:
            raise OSError(str(error)) from error
        if identity_of(metadata) != self.identity:
            connection.close()
            raise InputError(f"another policy answers at {self.settings.address} than at the start: begin the evaluation anew")
        return connection

    def _connect(self) -> tuple[ClientConnection, dict[str, Any]]:
        address, wait = self.settings.address, self.settings.deadline_s
        headers = {"Authorization": f"Api-Key {self.settings.api_key}"} if self.settings.api_key else None
        try:
            connection = connect(
                address,
                compression=None,
                max_size=MOST_BYTES,
                open_timeout=min(wait, _OPEN_S),
                ping_timeout=None,  # a server that computes does not answer pings; deadline_s bounds the wait
                additional_headers=headers,
                proxy=None,
            ).__enter__()
        except (OSError, TimeoutError, InvalidHandshake, InvalidURI, ConnectionClosed) as error:
            raise InputError(
                f"no policy server answers at {address} ({_reason(error)}): start one, python -m coda_jax.main --mode=serve "
                "--workdir=runs/NAME or the one of a VLA, or change config.remote.address"
            ) from error
        bound_sends(connection.socket, wait)
        try:
            greeting = connection.recv(timeout=wait)
            if isinstance(greeting, bytes):
                metadata = unpack(greeting)
                identity_of(metadata)
                return connection, metadata
        except (*_LOST, WireError) as error:
            connection.close()
            raise InputError(
                f"{address} is no policy server of openpi's protocol ({_reason(error)}): it must begin with its metadata"
            ) from error
        connection.close()
        raise InputError(f"the policy server at {address} says: {shown(greeting, _SHOWN)}")


def identity_of(metadata: Mapping[str, Any]) -> str:
    """SHA-256 of what a server says of itself, without how fast it is. Raises WireError where it nests too deep or has bytes as keys."""
    kept = {name: value for name, value in metadata.items() if name != VOLATILE}
    try:
        return hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()
    except (TypeError, ValueError, RecursionError) as error:
        raise WireError(f"its metadata has no form in JSON: {error}") from error


def _actions(answer: bytes, least: int, address: str) -> np.ndarray:
    try:
        actions = unpack(answer).get("actions")
    except WireError as error:
        raise InputError(f"{address} answers with something else than a policy's message: {error}") from error
    if not isinstance(actions, np.ndarray) or actions.ndim != 2 or actions.shape[1] != ACTION_DIM or actions.dtype.kind not in "iuf":
        found = f"shape {actions.shape}" if isinstance(actions, np.ndarray) else type(actions).__name__
        raise InputError(f'{address} answers with "actions" of {found}; they must be numbers of shape (steps, {ACTION_DIM})')
    if len(actions) < least:
        raise InputError(f"{address} predicts {len(actions)} actions a decision; lower config.evaluate.executed, now {least}, to that")
    with np.errstate(over="ignore"):  # too large: infinite, refused below
        actions = actions.astype(np.float32)
    if not np.isfinite(actions).all():
        raise InputError(f"{address} answers with actions that are not finite")
    return actions


def _reason(error: BaseException) -> str:
    return shown(str(error) or type(error).__name__, _SHOWN)
