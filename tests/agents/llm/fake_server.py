"""A server of chat.completions that misbehaves as it is told, on a free port of this machine."""

from __future__ import annotations

import contextlib
import gzip
import http.server
import json
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

Behaviour = Callable[["Handler"], None]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self.server.owner.seen.append(("GET", self.path, self._named(), {}))
        self.server.owner.listing(self)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        owner = self.server.owner
        with owner.lock:
            owner.seen.append(("POST", self.path, self._named(), body))
            behaviour = owner.script.pop(0) if owner.script else owner.otherwise
        with contextlib.suppress(OSError):
            behaviour(self)

    def _named(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}

    def send(self, status: int, content: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    owner: FakeServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Silent: clients give up in the middle here."""


class FakeServer:
    """script: what the next requests meet, one after the other. otherwise: what those after them meet. seen: (method, path, headers
    by lower name, body) of every request."""

    def __init__(self, *script: Behaviour, otherwise: Behaviour | None = None):
        self.script, self.otherwise = list(script), otherwise or says("hello")
        self.listing: Behaviour = gives({"object": "list", "data": [{"id": "fake"}]})
        self.seen: list[tuple[str, str, dict[str, str], dict[str, Any]]] = []
        self.lock, self.over = threading.Lock(), threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [body for method, _, _, body in self.seen if method == "POST"]

    def __enter__(self) -> FakeServer:
        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.owner = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def completion(content: Any, *, reason: Any = "stop", usage: Any = (11, 7), **message: Any) -> dict[str, Any]:
    """The body of a successful answer. usage: (in, out), None for none, or anything to send in its place."""
    found: dict[str, Any] = {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": "fake",
        "choices": [{"index": 0, "finish_reason": reason, "message": {"role": "assistant", "content": content, **message}}],
    }
    if isinstance(usage, tuple):
        found["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    elif usage is not None:
        found["usage"] = usage
    return found


def gives(payload: Any, status: int = 200, **headers: str) -> Behaviour:
    """A response with a JSON body, or with bytes as they are."""
    content = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return lambda handler: handler.send(status, content, **headers)


def says(content: Any, **changes: Any) -> Behaviour:
    """A successful answer; ``changes`` as those of ``completion``."""
    return gives(completion(content, **changes))


def calls(name: Any, arguments: Any, identity: Any = "c1", **changes: Any) -> Behaviour:
    """An answer that calls a tool."""
    tool = {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}
    return says(None, reason="tool_calls", tool_calls=[tool], **changes)


def error(status: int, message: str = "no", param: str | None = None, **headers: str) -> Behaviour:
    return gives({"error": {"message": message, "param": param, "type": "x", "code": None}}, status, **headers)


def echo(handler: Handler) -> None:
    """The last message back, with the key that came with it."""
    last = handler.server.owner.seen[-1][3]["messages"][-1]["content"]
    handler.send(200, json.dumps(completion(f"{last} {handler.headers['authorization']}")).encode(), x_key=handler.headers["authorization"])


def reset(handler: Handler) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True


def stall(handler: Handler) -> None:
    """Nothing at all."""
    handler.server.owner.over.wait(20)
    handler.close_connection = True


def drip(handler: Handler) -> None:
    """A body of which a byte comes now and then, always before any single read would time out."""
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", "1000000")
    handler.end_headers()
    _slowly(handler, b" ")


def drip_headers(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nx-long: ")
    _slowly(handler, b"a")


def _slowly(handler: Handler, byte: bytes) -> None:
    handler.close_connection = True
    while not handler.server.owner.over.wait(0.02):
        handler.wfile.write(byte)


def endless_headers(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    handler.close_connection = True
    while not handler.server.owner.over.is_set():
        handler.wfile.write(b"x-more: " + b"a" * 1000 + b"\r\n")


def endless_continues(handler: Handler) -> None:
    handler.close_connection = True
    while not handler.server.owner.over.is_set():
        handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")


def endless_body(handler: Handler) -> None:
    """An error response whose body has no end."""
    handler.send_response(400)
    handler.send_header("content-type", "application/json")
    handler.end_headers()
    handler.close_connection = True
    while not handler.server.owner.over.is_set():
        handler.wfile.write(b" " * 4096)


def bomb(handler: Handler) -> None:
    """200 MB of blanks in 200 kB."""
    handler.send(200, _packed(), content_encoding="gzip")


def _packed() -> bytes:
    piece = gzip.compress(b" " * 10**7)
    return piece * 20


def garbage(handler: Handler) -> None:
    handler.wfile.write(b"\x00\x01 this is not HTTP\r\n\r\n")
    handler.close_connection = True
