"""HTTP to one host with bounded answers: read to the end, never longer than allowed, never redirected, never decompressed without limit."""

from __future__ import annotations

import urllib.parse
import urllib.request

import httpx2
from httpx2 import InvalidURL as InvalidURL

_KEPT = ("content-type", "retry-after", "retry-after-ms", "location")  # headers of an answer that anything here reads


class BodyTooLarge(Exception):
    """More bytes than are read of an answer."""


class Bounded(httpx2.AsyncBaseTransport):
    """Reads every answer whole, so that nothing above it can be made to read more than ``most_bytes``."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, most_bytes: int):
        self._inner, self._most = inner, most_bytes

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        try:
            body = bytearray()
            async for piece in response.aiter_bytes():  # decompressed in pieces of bounded size
                body += piece
                if len(body) > self._most:
                    raise BodyTooLarge
        finally:
            await response.aclose()
        headers = {name: response.headers[name] for name in _KEPT if name in response.headers}
        return httpx2.Response(response.status_code, headers=headers, content=bytes(body))

    async def aclose(self) -> None:
        await self._inner.aclose()


def client(base_url: str, most_bytes: int, timeout_s: float, connections: int) -> httpx2.AsyncClient:
    """A client for ``base_url``, through the proxy that the environment names for it.

    Raises:
      ImportError: the proxy's protocol needs another package. ValueError: the proxy's address cannot be used.
    """
    limits = httpx2.Limits(max_connections=connections, max_keepalive_connections=connections)
    inner = httpx2.AsyncHTTPTransport(proxy=_proxy(base_url), limits=limits)
    return httpx2.AsyncClient(
        transport=Bounded(inner, most_bytes),
        timeout=timeout_s,
        follow_redirects=False,  # the key is for this host alone
        headers={"Accept-Encoding": "identity"},
    )


def _proxy(base_url: str) -> str | None:
    address = urllib.parse.urlsplit(base_url)
    if urllib.request.proxy_bypass(address.netloc.rpartition("@")[2]):
        return None
    proxies = urllib.request.getproxies()
    found = proxies.get(address.scheme) or proxies.get("all")
    return found if not found or "://" in found else f"http://{found}"
