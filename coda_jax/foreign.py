"""What nobody vouches for: reading a file that may be anything, and a child process for work that may not end."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def open_plain(path: Path) -> Generator[BinaryIO]:
    """A plain file, opened for reading. Raises OSError as read_plain does."""
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "a null character in its name")
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)  # a file object of a folder is refused, and would leave it open
        raise OSError(errno.EINVAL, "it is no plain file")
    with os.fdopen(handle, "rb") as file:
        yield file


def read_plain(path: Path, most_bytes: int) -> bytes:
    """The first ``most_bytes`` + 1 bytes of a plain file, whatever size it claims: one more than allowed tells that it is too large.

    Raises:
      OSError: it cannot be read, or is no plain file (a pipe would wait for its writer, a device never end).
    """
    with open_plain(path) as file:
        return file.read(most_bytes + 1)


def shown(text: str, most: int) -> str:
    """What a stranger wrote as one line for a person: no characters that could move a terminal's cursor or turn the direction of reading,
    and of a text of more than ``most`` characters the middle left out."""
    plain = "".join(c if c.isprintable() else " " for c in text).strip()
    return plain if len(plain) <= most else f"{plain[: most // 2]} ... {plain[-(most // 2) :]}"


def bound_sends(connection: socket.socket, seconds: float) -> None:
    """Let a send that the other side takes nothing of fail with an OSError after so long; by itself it would wait for ever.

    A connection that is closed already is left as it is: the next message says why.
    """
    whole, rest = int(seconds), int(seconds % 1 * 1e6)
    value = struct.pack("@L", int(1000 * seconds)) if sys.platform == "win32" else struct.pack("@ll", whole, rest)
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)


def run_module(module: str, job: str, time_s: float) -> subprocess.CompletedProcess[str]:
    """Run a module of this package in a child process, with a text for its input, until it ends.

    It runs in an empty folder: libraries write logs where they run. Whatever bytes it says are read as text.

    Raises:
      subprocess.TimeoutExpired: it took longer than ``time_s`` and was killed.
    """
    home = str(Path(__file__).resolve().parents[1])
    places = os.pathsep.join(filter(None, (home, os.environ.get("PYTHONPATH"))))
    with tempfile.TemporaryDirectory() as empty:
        return subprocess.run(
            [sys.executable, "-m", module], input=job, capture_output=True, encoding="utf-8", errors="replace", timeout=time_s, check=False,
            cwd=empty, env=os.environ | {"PYTHONPATH": places},
        )  # fmt: skip


def limit(memory_bytes: int, cpu_s: int) -> None:
    """Bound what this process, a child of ``run_module``, may use from here on; it writes no files, nor a core."""
    try:
        import resource
    except ModuleNotFoundError:  # no such limits on this system; the parent's clock is left
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
