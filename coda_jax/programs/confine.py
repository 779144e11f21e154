"""What stands between a program's worker process and this machine, besides the interpreter: layers of the operating system.

The worker starts through ``worker/launch.py``, which takes from it, where the machine allows: inherited files, its own users and network,
new privileges, capabilities, all files but the system's libraries, and every system call that it does not need. On other systems than
Linux, or where nothing of it works, the worker starts as it is.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import hashlib
import json
import os
import shlex
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from coda_jax.runtime import cache_home

_LAUNCH = Path(__file__).parent / "worker" / "launch.py"
# What may keep a worker from running on a strange machine, so that it is left out in turn when the whole does not work.
_ATTEMPTS = ("", "seccomp", "seccomp,landlock", "seccomp,landlock,namespaces")
REPORT_S = 20.0
LAYERS = ("namespaces", "no_new_privileges", "capabilities", "landlock", "seccomp")
_PR_SET_DUMPABLE, _PR_GET_DUMPABLE = 4, 3


def hide_memory() -> bool:
    """Make this process one that other processes of the same user cannot look into: no core dump, no debugger, no /proc/PID/environ or mem.

    Call it where a key is read. Debuggers and profilers that attach (py-spy, gdb) then need root. Returns whether it is so; False where
    the system has no such switch.
    """
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    return libc.prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0) == 0


def worker_binary() -> str:
    """The interpreter's own executable."""
    from pydantic_monty import _binary

    return os.path.abspath(_binary.find_monty_binary())


def launchers() -> Iterator[tuple[str, str | None]]:
    """(layers left out, executable that starts a worker), the most confined first; at the end None, the worker as it is."""
    if sys.platform == "linux":
        for without in _ATTEMPTS:
            path = _executable(without)
            if path:
                yield without, path
    yield ",".join(LAYERS), None


def renew() -> None:
    """Write the files of ``launchers`` again, which lie in a folder that may be emptied at any time."""
    _executable.cache_clear()
    for _ in launchers():
        pass


@functools.cache
def _executable(without: str) -> str | None:
    """A file that can be started and starts the launcher; None where no folder takes one. It is the same one for all processes."""
    command = [sys.executable, "-ISB", str(_LAUNCH), without, worker_binary()]
    # What a dying worker complains of may hold text of a program: it goes nowhere.
    text = f'#!/bin/sh\nexec {shlex.join(command)} "$@" 2>/dev/null\n'
    name = f"worker-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    for folder in (cache_home() / "sandbox", Path(tempfile.gettempdir()) / f"coda_jax-{os.getuid()}"):
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with _own_folder(folder) as at:
                if not _holds(at, name, text):
                    part = f".{name}-{os.getpid()}-{threading.get_ident()}"
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(part, dir_fd=at)  # of a killed process
                    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o700, dir_fd=at), "w") as file:
                        os.fchmod(file.fileno(), 0o700)
                        file.write(text)
                    os.replace(part, name, src_dir_fd=at, dst_dir_fd=at)
                if os.access(name, os.X_OK, dir_fd=at):  # no, on a file system that is mounted without
                    return str(folder / name)
        except (OSError, ValueError):
            continue
    return None


def require_own(path: str) -> None:
    """Raises OSError where someone else may have put something in the place of a launcher's file, or it is gone."""
    with _own_folder(Path(path).parent) as at:
        found = os.stat(Path(path).name, dir_fd=at, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise PermissionError(f"{path} is not a file that only its user can write")


@contextlib.contextmanager
def _own_folder(folder: Path) -> Iterator[int]:
    """Descriptor of a folder, no link, in which no other user can put anything and that none can exchange for another one.

    Raises:
      OSError: it is not so.
    """
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        found, parent = os.fstat(at), folder.parent.stat()
        if found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise PermissionError(f"{folder} is not a folder that only its user can write")
        if parent.st_mode & stat.S_IWOTH and not parent.st_mode & stat.S_ISVTX:
            raise PermissionError(f"{folder} can be exchanged by every user")
        yield at
    finally:
        os.close(at)


def _holds(at: int, name: str, text: str) -> bool:
    try:
        with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=at)) as file:
            return file.read() == text
    except (OSError, ValueError):
        return False


@dataclasses.dataclass(frozen=True)
class Confinement:
    """missing: layer to why it is not there. refused: what was tried from inside to how it failed, empty where it did not."""

    missing: dict[str, str]
    refused: dict[str, str]

    @property
    def layers(self) -> list[str]:
        return [name for name in LAYERS if name not in self.missing]

    @property
    def escapes(self) -> list[str]:
        return [what for what, error in self.refused.items() if not error]


def measure(without: str = "") -> Confinement | None:
    """Start the launcher without a worker and see what it could take away and whether that holds; None where it does not start."""
    if sys.platform != "linux":
        return None
    command = [sys.executable, "-ISB", str(_LAUNCH), without, worker_binary(), "--report"]
    with socket.create_server(("127.0.0.1", 0)) as listener, tempfile.NamedTemporaryFile() as canary:
        given = f"{canary.name}\n{listener.getsockname()[1]}\n"
        try:
            done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=REPORT_S, env={})
            first, *rest = done.stdout.splitlines()
            said = json.loads(first)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return None
    started = "" if rest else "refused"
    return Confinement(said["missing"], said["refused"] | {"start another program": started})


def seen_from_outside(pid: int) -> dict[str, bool]:
    """Layers that /proc shows to be in force in a running worker, or not (Landlock is not shown there); empty without /proc."""
    if not os.path.exists(f"/proc/{pid}/status"):
        return {}
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    spaces = [os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}") for kind in ("user", "net", "ipc", "uts")]
    return {
        "namespaces": all(spaces),
        "no_new_privileges": status["NoNewPrivs"].strip() == "1",
        "capabilities": all(int(status[kind], 16) == 0 for kind in ("CapPrm", "CapEff", "CapAmb", "CapInh")),
        "seccomp": status["Seccomp"].strip() == "2",
    }
