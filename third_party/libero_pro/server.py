"""The policy server as the runner and its workers reach it: openpi's websocket protocol, with a stranger at the other end.

openpi's own client waits for ever and reads messages of any size.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import socket
import struct
from typing import Any

from messages import unpacked

MOST_BYTES = 2**24  # of one message
_OPEN_S = 10.0  # to be let in
_SHOWN = 1000  # characters of what a server says


class ServerError(RuntimeError):
    """There is no policy server, it lets nobody in, or is another one than before; the message says what to change."""


@dataclasses.dataclass(frozen=True)
class Address:
    """Where a policy is. host: with its scheme. deadline_s: of one answer. identity: of the policy that must be there, None for any."""

    host: str
    port: int
    deadline_s: float
    identity: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Client:
    """A connection to a policy. metadata: what the server says of itself; identity: hash of it.

    Raises:
      ServerError: nobody is there, it is no policy server, another policy than the address names, or it has no room for another client.
    """

    def __init__(self, address: Address):
        from websockets.sync.client import connect

        self._deadline_s = address.deadline_s
        try:
            socket.create_connection((address.host.split("//")[1], address.port), timeout=_OPEN_S).close()
        except OSError as error:
            raise ServerError(
                f"no policy server answers at {address} ({error}): start one, e.g. python -m coda_jax.main --mode=serve "
                "--workdir=runs/NAME, or give its --address"
            ) from None
        try:
            self._ws = connect(
                str(address),
                compression=None,
                max_size=MOST_BYTES,
                open_timeout=min(_OPEN_S, address.deadline_s),
                ping_interval=None,  # a server that computes answers no pings; deadline_s bounds the wait
            ).__enter__()
            bound = struct.pack("@ll", int(address.deadline_s), 1)
            with contextlib.suppress(OSError):  # closed already: what is received says why
                self._ws.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, bound)  # sending, too, has an end
            self.metadata = unpacked(self._ws.recv(timeout=min(_OPEN_S, address.deadline_s)))
            self.identity = identity_of(self.metadata)
        except Exception as error:
            self.close()
            raise ServerError(
                f"{address} is no policy server of openpi's protocol, or takes no more clients ({type(error).__name__}: "
                f"{shown(str(error))}): give another --address, or fewer --workers"
            ) from None
        if address.identity not in (None, self.identity):
            self.close()
            raise ServerError(f"another policy answers at {address} than at the start: choose another --out, or serve the first one again")

    def infer(self, message: dict[str, Any]) -> dict[str, Any]:
        """The server's answer. Raises whatever went wrong; after that the connection is not to be used any more."""
        from openpi_client.msgpack_numpy import packb  # pyright: ignore[reportMissingImports]

        self._ws.send(packb(message))
        return unpacked(self._ws.recv(timeout=self._deadline_s))

    def close(self) -> None:
        if hasattr(self, "_ws"):
            with contextlib.suppress(Exception):
                self._ws.close()


def identity_of(metadata: dict[str, Any]) -> str:
    """SHA-256 of what a server says of itself, without how fast it is; as coda_jax/learning/policies/remote.py has it."""
    kept = {name: value for name, value in metadata.items() if name != "timing"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()


def shown(text: str) -> str:
    """What a server said as one line, without characters that could move a terminal's cursor."""
    return "".join(c if c.isprintable() else " " for c in text)[:_SHOWN].strip()
