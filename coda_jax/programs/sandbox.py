"""Program text to plain data, in a separate worker process that can do nothing but compute.

The interpreter is pydantic-monty: a Python subset without files, processes, network or host objects. A program gets no host function and
no host value; its value leaves the worker as JSON text and is read as a stranger's bytes. Three layers hold each limit: the interpreter's
own, resource limits of the worker process, and the parent's deadline, which kills the worker. What else the operating system takes from the
worker is in confine.py; what an author is told of errors in explain.py.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import datetime
import logging
import os
import threading
from collections.abc import Sequence
from typing import Any

import pydantic_monty

from coda_jax.programs import confine
from coda_jax.programs.errors import ErrorKind, ProgramError, one_line
from coda_jax.programs.explain import Task, explained
from coda_jax.programs.limits import Limits, check_text
from coda_jax.programs.plain import Plain, parse_reply

try:
    import resource
except ImportError:  # not on Windows; the interpreter's limits and the deadline remain
    resource = None

log = logging.getLogger(__name__)

WORKER_ALLOWANCE_BYTES = 512 * 2**20  # address space of the idle worker with its code, well above the measured 0.2 GB
CHECKOUTS_PER_WORKER = 1000  # a worker is replaced after so many programs

# Nothing a program can read differs between two evaluations: the same text gives the same scene on every machine.
_OS_POLICY: Any = {
    "datetime": datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC),
    "timezone": "utc",
    "sleep": "zero",
    "process_time": "zero",
    "random_start": {"seed": 0},
}
_NO_VALUE = "\nNone\n"  # the value of the last expression need not travel
_READ = "import json as _json\n_text = _json.dumps(result)\n_text if len(_text) <= {limit} else len(_text)\n"

# The interpreter's client runs threads that a fork does not copy: a forked child of a process that used it would hang in it.
_first_user: int | None = None
_inherited: list[Any] = []  # pools of a parent process, kept alive in a forked child: collecting them would end the parent's workers


_START_S = 20.0  # a worker starts in some 0.1 s, longer on a busy machine
_TRIES = 2  # of each launcher: what fails for a passing reason must not cost a layer for the rest of the process

# (layers left out, executable) of the workers of this process: the most confined with which one runs here.
_settled: tuple[str, str | None] | None = None


def left_out() -> list[str]:
    """Layers with which no worker ran in this process; none where no worker has started."""
    return [name for name in (_settled[0] if _settled else "").split(",") if name]


class _OutputLimit(Exception):
    pass


class Sandbox:
    """Evaluates program text. Workers start with the first program; safe to share between threads, not with a forked child process.

    Args:
      limits: see Limits.
      workers: programs that can run at the same time, each in a process of its own; more threads than that wait for one another.

    Use as a context manager, or call ``close``; at the end of the process it closes itself.
    """

    def __init__(self, limits: Limits, workers: int = 1):
        if workers < 1:
            raise ValueError(f"{workers} workers: give at least 1")
        self.limits, self.workers = limits, workers
        self._pool: Any = None
        self._owner = 0
        self._lock = threading.Lock()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers; the next program starts new ones."""
        with self._lock:
            pool, self._pool = self._pool, None
            if pool is None:
                return
            if self._owner != os.getpid():
                _inherited.append(pool)
                return
            atexit.unregister(self.close)
            pool.__exit__(None, None, None)

    def evaluate(
        self, text: str, sdk_source: str = "", ending: str = "result = scene(...)", invalid: ErrorKind = ErrorKind.INVALID_SCENE
    ) -> Plain:
        """Run ``sdk_source``, then ``text``, and return the program's variable ``result``.

        Args:
          text: the program, by anyone.
          sdk_source: our own verbs, run in the same session before it. The program can change them for itself only.
          ending: the last line that a program of this kind should have, for the message where ``result`` is missing.
          invalid: kind of the errors that our verbs raise.

        Raises:
          ProgramError: the program cannot be used; the message says why and what to change.
        """
        text = check_text(text, self.limits)
        printed = _Printed(self.limits.output_chars)
        loaded = False
        try:
            with contextlib.ExitStack() as stack:
                session = self._session()
                stack.push(session)
                _confine(session.worker_pid, self.limits.memory_bytes)
                session.feed_run(sdk_source + _NO_VALUE, print_callback=printed)
                loaded = True
                session.feed_run(text + _NO_VALUE, print_callback=printed)
                if printed.over:  # the program caught the error that stopped it
                    raise _OutputLimit
                reply = session.feed_run(_READ.format(limit=self.limits.reply_chars), print_callback=printed)
        except ProgramError:
            raise
        except Exception as error:
            stalled = isinstance(error, pydantic_monty.MontyRuntimeError) and isinstance(error.exception(), TimeoutError)
            if not loaded and not stalled and not isinstance(error, pydantic_monty.MontyCrashedError):
                raise
            task = Task(text, sdk_source, ending, invalid)
            raise explained(error, printed.over or isinstance(error, _OutputLimit), self.limits, task) from None
        return parse_reply(reply, self.limits.reply_chars)

    def evaluate_many(self, tasks: Sequence[Task]) -> list[Plain | ProgramError]:
        """What ``evaluate`` returns or raises as ProgramError for each task, in their order; as many run at a time as there are workers."""

        def outcome(task: Task) -> Plain | ProgramError:
            try:
                return self.evaluate(task.text, task.sdk_source, task.ending, task.invalid)
            except ProgramError as error:
                return error

        with concurrent.futures.ThreadPoolExecutor(self.workers) as threads:
            return list(threads.map(outcome, tasks))

    @property
    def layers_left_out(self) -> str:
        """Of the workers of this process, once one has started: those with which none ran here, separated by commas."""
        return _settled[0] if _settled else ",".join(confine.LAYERS)

    def confined(self) -> dict[str, bool]:
        """Layers that the system shows to be in force in a worker, or not; empty where it shows nothing.

        Raises:
          RuntimeError: no worker starts.
        """
        with contextlib.ExitStack() as stack:
            session = self._session()
            stack.push(session)
            return confine.seen_from_outside(session.worker_pid) if session.worker_pid else {}

    def _session(self) -> Any:
        """A session with a worker of its own, already entered.

        Raises:
          RuntimeError: no worker starts, or this process was forked from one with a sandbox.
        """
        global _first_user
        failed: Exception | None = None
        for last in (False, True):
            if last:
                confine.renew()
            with self._lock:
                _first_user = _first_user or os.getpid()
                if _first_user != os.getpid():
                    raise RuntimeError(
                        "this process was forked after its parent had used a sandbox, whose threads did not come along: "
                        "start processes with multiprocessing.get_context('spawn')"
                    )
                try:
                    if self._pool is None:
                        self._pool, self._owner = _opened(self.limits, self.workers), os.getpid()
                        atexit.register(self.close)
                    pool = self._pool
                except (RuntimeError, OSError) as error:
                    failed = error
                    continue
            try:
                _require_launcher()  # a new worker may start from it
                return _checkout(pool, self.limits).__enter__()
            except (pydantic_monty.MontyCrashedError, RuntimeError, OSError) as error:  # it has not seen the program
                failed = error
        raise RuntimeError(f"the sandbox's worker does not start ({failed}): run --mode=doctor") from failed


def _require_launcher() -> None:
    """Write the file that workers of this process start from again if it is gone; OSError where that cannot be trusted."""
    path = _settled[1] if _settled else None
    if path:
        try:
            confine.require_own(path)
        except OSError:
            confine.renew()
            confine.require_own(path)


def _opened(limits: Limits, workers: int) -> Any:
    """A pool of workers as confined as this machine lets them run, which the first of a process finds out.

    Raises:
      RuntimeError, OSError: no worker starts.
    """
    global _settled
    if _settled:
        _require_launcher()
        return _pool_of(_settled[1], limits, workers).__enter__()
    failed: Exception | None = None
    for without, path in confine.launchers():
        for _ in range(_TRIES):
            try:
                pool = _tried(path, limits, workers)
            except (pydantic_monty.MontyError, RuntimeError, OSError) as error:
                failed = error
                continue
            _settled = without, path
            if without:
                why = f"a worker does not start with them: {one_line(str(failed), 200)}" if failed else "no launcher can be started here"
                log.warning("workers of the sandbox run without %s: %s (--mode=doctor tells more)", without.replace(",", ", "), why)
            return pool
    raise RuntimeError(str(failed)) from failed


def _tried(path: str | None, limits: Limits, workers: int) -> Any:
    """A pool, once a worker of it has computed something; raises where that does not work."""
    if path:
        confine.require_own(path)
    pool = _pool_of(path, limits, workers)
    pool.__enter__()
    try:
        with _checkout(pool, limits) as session:
            session.feed_run("1" + _NO_VALUE)
    except BaseException:
        pool.__exit__(None, None, None)
        raise
    return pool


def _pool_of(path: str | None, limits: Limits, workers: int) -> Any:
    wait_s = limits.time_s + limits.grace_s
    return pydantic_monty.Monty(
        binary_path=path,
        min_processes=1,
        max_processes=workers,
        checkout_timeout=60.0 + 10 * wait_s,
        request_timeout=wait_s + _START_S,
        max_checkouts_per_worker=CHECKOUTS_PER_WORKER,
        feed_duration_limit_grace=limits.grace_s,
    )


def _checkout(pool: Any, limits: Limits) -> Any:
    return pool.checkout(
        script_name="program",
        limits={
            "max_feed_duration_secs": limits.time_s,
            "max_memory": limits.memory_bytes,
            "max_recursion_depth": limits.recursion,
            "max_suspensions": 16,
            "max_total_sleep_secs": 0.0,
        },
        os_policy=_OS_POLICY,
        assert_message_annotations=False,
    )


class _Printed:
    """Counts what a program prints and stops it at the limit; the text itself is dropped."""

    def __init__(self, limit: int):
        self.limit, self.seen = limit, 0

    @property
    def over(self) -> bool:
        return self.seen > self.limit

    def __call__(self, stream: str, text: str) -> None:
        self.seen += len(text)
        if self.over:
            raise _OutputLimit


def _confine(pid: int | None, memory_bytes: int) -> None:
    """Limits on the worker process itself: no new files or sockets, nothing written, no core, no new processes, bounded memory."""
    if pid is None or resource is None or not hasattr(resource, "prlimit"):
        return
    limits = {
        resource.RLIMIT_NOFILE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NPROC: 0,
        resource.RLIMIT_AS: WORKER_ALLOWANCE_BYTES + 4 * memory_bytes,
    }
    with contextlib.suppress(OSError, ValueError):  # the worker may have just died, which the next call reports
        for which, value in limits.items():
            resource.prlimit(pid, which, (value, value))
