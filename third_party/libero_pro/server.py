"""The policy server as the runner and its workers reach it: openpi's websocket protocol."""

from __future__ import annotations

import socket
from typing import Any


class ServerError(RuntimeError):
    """There is no policy server, or it lets nobody in; the message says what to change."""


def connected(host: str, port: int) -> Any:
    """A client of the server (openpi's). host: with its scheme.

    Raises:
      ServerError: nobody is there, it is no policy server, or it has no room for another client.
    """
    from openpi_client.websocket_client_policy import WebsocketClientPolicy  # pyright: ignore[reportMissingImports]

    try:
        socket.create_connection((host.split("//")[1], port), timeout=10).close()
    except OSError as error:
        raise ServerError(
            f"no policy server answers at {host}:{port} ({error}): start one, e.g. python -m coda_jax.main --mode=serve "
            "--workdir=runs/NAME, or give its --address"
        ) from None
    try:
        client = WebsocketClientPolicy(host, port)
        metadata = client.get_server_metadata()
    except Exception as error:
        raise ServerError(
            f"{host}:{port} is no policy server of openpi's protocol, or takes no more clients ({type(error).__name__}: "
            f"{str(error)[:200]}): give another --address, or fewer --workers"
        ) from None
    if not isinstance(metadata, dict):
        raise ServerError(f"{host}:{port} is no policy server of openpi's protocol: its metadata is a {type(metadata).__name__}")
    return client
