"""Any server that speaks OpenAI's chat.completions, under one deadline a call, whatever it does."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import email.utils
import math
import random
import re
import threading
import time
import urllib.parse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from coda_jax import runtime
from coda_jax.agents.llm import keys, wire
from coda_jax.agents.llm.called import Called, failed
from coda_jax.agents.llm.chat import CallError, CallErrorKind, Reply, Request
from coda_jax.agents.llm.estimate import estimated_tokens
from coda_jax.agents.llm.keys import Key
from coda_jax.programs.errors import one_line
from coda_jax.runtime import InputError

if TYPE_CHECKING:
    import openai

OWN_ADDRESS = "https://api.openai.com/v1"  # where neither settings nor environment name another
DUMMY_KEY = "none"  # of local servers: the package wants one, they do not read it
_BACKOFF_S, _MOST_BACKOFF_S = 0.5, 8.0
_TRY_AGAIN = (408, 409, 425, 429)  # and every 5xx
_CLOSING_S = 5.0
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.:/_\[\]-]{1,100}")  # of a server's word where it lies; without query, without words between
_STOP_S = 0.2  # a signal to stop is noticed that soon while nothing arrives
_NOT_TAKEN = (CallErrorKind.REQUEST, CallErrorKind.TOO_LARGE)  # which may be an error's body as well as an answer's


@dataclasses.dataclass(frozen=True)
class EndpointSettings:
    """base_url: ends in /v1 with most servers. deadline_s: of a call with all its tries. retries: after the first try. concurrency: most
    calls at once. reply_bytes: read of an answer."""

    base_url: str
    model: str
    temperature: float
    deadline_s: float
    retries: int
    concurrency: int
    reply_bytes: int


class _Listed(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")
    id: Annotated[str, Field(max_length=300)]


class _Models(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")
    data: Annotated[list[_Listed], Field(max_length=100_000)]


class Endpoint:
    """A Chat and a Caller. Its own thread does the waiting, so that a call ends at its deadline wherever it hangs.

    Args:
      key: None for a server that asks for none.

    Raises:
      InputError: the openai package is missing, or the environment's proxy cannot be used; the message says what to do.
    """

    def __init__(self, settings: EndpointSettings, key: Key | None = None):
        self.settings = settings
        self.left_out: set[str] = set()  # of wire.FEATURES: what this server takes no question with
        self._client = _client(settings, key)
        self._loop = asyncio.new_event_loop()
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._jitter = random.Random()  # of waiting times alone
        self._thread = threading.Thread(target=self._loop.run_forever, name="endpoint", daemon=True)
        self._thread.start()

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up what is still out and close the connections."""
        if self._loop.is_closed():
            return
        with contextlib.suppress(Exception):  # whatever a connection does at its end, it ends
            asyncio.run_coroutine_threadsafe(self._client.close(), self._loop).result(_CLOSING_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSING_S)
        if not self._thread.is_alive():
            self._loop.close()

    def ask(self, requests: Sequence[Request]) -> list[Reply | CallError]:
        """As ``Chat.ask``."""
        found: dict[int, Called] = {}
        self.call(requests, found.__setitem__)
        return [found[i].answer for i in range(len(requests))]

    def call(self, requests: Sequence[Request], done: Callable[[int, Called], None]) -> None:
        """As ``Caller.call``. Raises Stopped where a signal asks for a stop while nothing arrives; what is out is given up."""
        futures = {asyncio.run_coroutine_threadsafe(self._one(request), self._loop): i for i, request in enumerate(requests)}
        try:
            waiting = set(futures)
            while waiting:
                arrived, waiting = concurrent.futures.wait(waiting, _STOP_S, concurrent.futures.FIRST_COMPLETED)
                for future in sorted(arrived, key=futures.__getitem__):
                    done(futures[future], future.result())
                if not arrived:
                    runtime.check_stop()
        finally:
            for future in reversed(futures):  # first those that wait for a slot, which an earlier one would leave to them
                future.cancel()

    def models(self) -> list[str] | CallError:
        """Names of the models that the server lists."""
        return asyncio.run_coroutine_threadsafe(self._models(), self._loop).result()

    async def _one(self, request: Request) -> Called:
        async with self._slots:
            began = time.monotonic()
            try:
                async with asyncio.timeout(self.settings.deadline_s):
                    found = await self._tried(request, began)
            except TimeoutError:
                found = Called(self._late(), (estimated_tokens(request), 0), estimated=True, attempts=1)
            return dataclasses.replace(found, seconds=time.monotonic() - began)

    def _late(self) -> CallError:
        text = f"no answer within {self.settings.deadline_s:g} s; ask a faster model, or raise config.agents.llm.deadline_s"
        return CallError(CallErrorKind.DEADLINE, text)

    async def _tried(self, request: Request, began: float) -> Called:
        """The outcome after at most ``retries`` further tries; what a server does not take is left out, which is no retry."""
        tries, attempts = 0, 0
        without = set[str]()  # of this call, until an answer shows that it was the reason
        while True:
            body = wire.body_of(request, self.settings.model, self.settings.temperature, self.left_out | without)
            attempts += 1
            found = await self._once(request, body)
            if isinstance(found, Called):
                if not isinstance(found.answer, CallError) or found.answer.kind not in _NOT_TAKEN:
                    self.left_out |= without
                return dataclasses.replace(found, attempts=attempts)
            if found.feature:
                without.add(found.feature)
                continue
            tries += 1
            wait = self._pause_s(tries) if found.wait_s is None else found.wait_s
            left = self.settings.deadline_s - (time.monotonic() - began)
            if tries > self.settings.retries or wait >= left:
                return dataclasses.replace(found.given_up, attempts=attempts)
            await asyncio.sleep(wait)

    def _pause_s(self, tries: int) -> float:
        """Twice as long after each try, spread by chance so that calls which failed together do not come back together."""
        return min(_MOST_BACKOFF_S, _BACKOFF_S * 2 ** (tries - 1)) * self._jitter.uniform(0.5, 1.0)

    async def _once(self, request: Request, body: dict[str, Any]) -> Called | _Again:
        import openai

        try:
            response = await self._client.chat.completions.with_raw_response.create(**body)
            return wire.read_answer(request, response.content)
        except openai.APIStatusError as error:
            return self._refused(error.status_code, dict(error.response.headers), error.response.content, body)
        except Exception as error:  # a hostile server can make any layer below raise anything
            return self._broken(error, request)

    def _refused(self, status: int, headers: dict[str, str], content: bytes, sent: dict[str, Any]) -> Called | _Again:
        """A response other than 2xx."""
        said = wire.problem_text(content)
        if status in (400, 404, 422) and (feature := wire.feature_refused(content, sent)) is not None:
            return _Again(failed(CallErrorKind.REQUEST, ""), feature=feature)
        if status in _TRY_AGAIN or status >= 500:
            limited = status == 429
            kind = CallErrorKind.RATE_LIMITED if limited else CallErrorKind.SERVER
            wait = retry_after_s(headers)
            late = wait is not None and wait >= self.settings.deadline_s
            why = f"; it asks to wait {wait:.4g} s, longer than config.agents.llm.deadline_s" if late else ""
            return _Again(failed(kind, f"the server answered {status} ({said or 'without a word'}){why}"), wait)
        if 300 <= status < 400:
            address = _ADDRESS.match(keys.redacted(headers.get("location", "")))
            where = address[0] if address else "somewhere else"
            text = f"the server redirects to {where}; redirects are not followed, set config.agents.llm.base_url to where it is"
            return failed(CallErrorKind.REQUEST, keys.redacted(text))
        advice = {401: "; check the key", 403: "; check the key", 404: "; check config.agents.llm.base_url and model"}.get(status, "")
        return failed(CallErrorKind.REQUEST, f"the server answered {status} ({said or 'without a word'}){advice}")

    def _broken(self, error: Exception, request: Request | None) -> Called | _Again:
        """No response at all, or none that ends."""
        import httpx2
        import openai

        from coda_jax.agents.llm.transport import BodyTooLarge

        if isinstance(error, BodyTooLarge):
            message = f"the answer is longer than config.agents.llm.reply_bytes = {self.settings.reply_bytes}"
            spent = (0, 0) if request is None else (estimated_tokens(request), 0)
            return Called(CallError(CallErrorKind.TOO_LARGE, message), spent, estimated=True)
        if isinstance(error, (openai.APITimeoutError, TimeoutError)):
            raise TimeoutError from None
        cause = error.__cause__ or error
        text = one_line(keys.redacted(f"{type(cause).__name__}: {cause}"), 200)
        advice = "; is the server running at config.agents.llm.base_url?" if isinstance(cause, httpx2.ConnectError) else ""
        return _Again(failed(CallErrorKind.CONNECTION, f"no answer came ({text}){advice}"))

    async def _models(self) -> list[str] | CallError:
        import openai

        try:
            async with asyncio.timeout(self.settings.deadline_s):
                response = await self._client.models.with_raw_response.list()
            return [keys.redacted(model.id) for model in _Models.model_validate_json(response.content).data]
        except ValidationError:
            return CallError(CallErrorKind.SCHEMA, "the server's list of models cannot be read")
        except openai.APIStatusError as error:
            found = self._refused(error.status_code, dict(error.response.headers), error.response.content, {})
        except (TimeoutError, openai.APITimeoutError):
            return self._late()
        except Exception as error:  # as in _once
            found = self._broken(error, None)
        answer = (found.given_up if isinstance(found, _Again) else found).answer
        assert isinstance(answer, CallError), "nothing was asked"
        return answer


@dataclasses.dataclass(frozen=True)
class _Again:
    """A try that another one may mend. given_up: what is told without one. wait_s: as the server asks. feature: to be left out."""

    given_up: Called
    wait_s: float | None = None
    feature: str = ""


def retry_after_s(headers: dict[str, str]) -> float | None:
    """Seconds that a server asks to wait, in any of the three forms in use; None where it does not say, or says nonsense."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")[:40]) * unit
        except ValueError:
            continue
        return max(0.0, seconds) if not math.isnan(seconds) else None
    try:
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", "")[:80])
        return max(0.0, date.timestamp() - time.time())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _client(settings: EndpointSettings, key: Key | None) -> openai.AsyncOpenAI:
    try:
        import openai
    except ImportError:
        raise InputError("language models need the openai package: pip install '.[llm]'") from None
    from coda_jax.agents.llm import transport

    own = key.reveal() if key is not None else DUMMY_KEY
    try:
        http = transport.client(settings.base_url, settings.reply_bytes, settings.deadline_s, settings.concurrency)
        found = openai.AsyncOpenAI(api_key=own, base_url=settings.base_url, http_client=http, max_retries=0, timeout=settings.deadline_s)
    except (ImportError, ValueError, OSError, transport.InvalidURL) as error:  # a missing or broken file of certificates is an OSError
        what = (
            type(error).__name__ if isinstance(error, transport.InvalidURL) else one_line(str(error), 200)
        )  # an address may hold a password
        raise InputError(
            f"the model's address, or the proxy or certificates that the environment names (http_proxy, https_proxy, SSL_CERT_FILE, ...), "
            f"cannot be used ({what})"
        ) from None
    if urllib.parse.urlsplit(settings.base_url).hostname != urllib.parse.urlsplit(OWN_ADDRESS).hostname:
        found.organization = found.project = None  # the environment's are for that host alone
    _ = found.chat.completions, found.models  # imported when they are first named: not within a call's deadline
    return found
