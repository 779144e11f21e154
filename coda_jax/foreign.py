"""What nobody vouches for: reading a file that may be anything, and a child process for work that may not end."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path


def read_plain(path: Path, most_bytes: int) -> bytes:
    """The first ``most_bytes`` + 1 bytes of a plain file, whatever size it claims: one more than allowed tells that it is too large.

    Raises:
      OSError: it cannot be read, or is no plain file (a pipe would wait for its writer, a device never end).
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is no plain file")
        return file.read(most_bytes + 1)


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
