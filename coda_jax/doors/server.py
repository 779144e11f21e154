"""A policy behind openpi's websocket protocol: metadata first, then an answer to each observation; ``/healthz`` says OK.

docs/serving.md describes it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from coda_jax.doors.observations import ObservationError
from coda_jax.foreign import bound_sends
from coda_jax.learning.policies.wire import WireError, pack, unpack
from coda_jax.runtime import InputError

try:
    from websockets.exceptions import ConnectionClosed
    from websockets.http11 import Request, Response
    from websockets.sync.server import ServerConnection, serve
except ImportError as error:
    raise InputError("serving a policy needs websockets and msgpack: pip install '.[serve]'") from error

log = logging.getLogger(__name__)
HEALTH = "/healthz"
TIMING = "server_timing"
_OPEN_S = 10.0  # for a client's opening handshake
_SILENT_S = 120.0  # after which a client that answers no ping is gone; one that simulates may be silent for long
_UNREAD_S = 10.0  # for a client to take what it is sent; one that does not would keep its place, and the server from ending
_BUSY, _FAILED = 1013, 1011  # close codes: try again later, internal error

Infer = Callable[[Mapping[str, Any]], dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class ServeSettings:
    """Where a policy is served (defaults in config.py).

    host, port: to listen at; port 0 takes a free one. clients: most at once. message_mb: most of one observation.
    """

    host: str
    port: int
    clients: int
    message_mb: float


class PolicyServer:
    """Answers clients until it is closed; a thread each, ``infer`` runs in one of them at a time.

    metadata: sent to every client first. port: that it listens at.

    Raises:
      InputError: the address cannot be listened at.
    """

    def __init__(self, infer: Infer, metadata: Mapping[str, Any], settings: ServeSettings):
        self._infer, self._greeting, self._settings = infer, pack(dict(metadata)), settings
        self._one, self._room = threading.Lock(), threading.BoundedSemaphore(settings.clients)
        self.answered, self.refused = 0, 0
        try:
            self._server = serve(
                self._handle,
                settings.host,
                settings.port,
                process_request=_health,
                compression=None,
                max_size=int(settings.message_mb * 2**20),
                open_timeout=_OPEN_S,
                ping_timeout=_SILENT_S,
                logger=logging.getLogger(f"{__name__}.websockets"),
            )
        except (OSError, OverflowError) as error:
            raise InputError(
                f"cannot listen at {settings.host}:{settings.port} ({error}); choose another --config.serve.port or --config.serve.host"
            ) from error
        self.port = int(self._server.socket.getsockname()[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="policy-server", daemon=True)
        self._thread.start()

    def __enter__(self) -> PolicyServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def listening(self) -> bool:
        """Whether new clients are let in; it ends on its own only where the system has no room for another connection."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Send the clients away and stop listening."""
        self._server.shutdown()
        self._thread.join()

    def _handle(self, connection: ServerConnection) -> None:
        if not self._room.acquire(blocking=False):
            connection.close(_BUSY, f"{self._settings.clients} clients are served already")
            return
        try:
            bound_sends(connection.socket, _UNREAD_S)
            with contextlib.suppress(ConnectionClosed):
                self._converse(connection)
        finally:
            self._room.release()

    def _converse(self, connection: ServerConnection) -> None:
        connection.send(self._greeting)
        before_ms: float | None = None
        for data in connection:
            began = time.perf_counter()
            try:
                answer = self._answer(data, began, before_ms)
            except (WireError, ObservationError) as error:
                self.refused += 1
                connection.send(str(error))  # a text is a refusal; the client may send another observation
                continue
            except Exception:
                log.exception("the policy failed on an observation that passed its checks")
                connection.close(_FAILED, "the policy failed, see the server's messages")
                return
            connection.send(answer)
            self.answered += 1
            before_ms = 1000 * (time.perf_counter() - began)

    def _answer(self, data: bytes | str, began: float, before_ms: float | None) -> bytes:
        if isinstance(data, str):
            raise WireError("the message is a text; observations are msgpack in a binary message")
        message = unpack(data)
        with self._one:
            asked = time.perf_counter()
            found = self._infer(message)
        done = time.perf_counter()
        timing = {"infer_ms": 1000 * (done - asked), "wait_ms": 1000 * (asked - began)}
        return pack(found | {TIMING: timing | ({"prev_total_ms": before_ms} if before_ms is not None else {})})


def _health(connection: ServerConnection, request: Request) -> Response | None:
    return connection.respond(http.HTTPStatus.OK, "OK\n") if request.path == HEALTH else None
