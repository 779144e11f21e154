"""What stands between a program's worker process and this machine, besides the interpreter: layers of the operating system.

The worker starts through ``worker/launch.py``, which takes from it, where the machine allows: inherited files, its own users and network,
new privileges, capabilities, all files but the system's libraries, and every system call that it does not need. On other systems than
Linux, or where nothing of it works, the worker starts as it is.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import hashlib
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
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
        path = folder / name
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            owner = folder.stat()
            if owner.st_uid != os.getuid() or owner.st_mode & 0o022:
                continue  # others could put something else there
            if not path.exists() or path.read_text() != text:
                part = folder / f".{name}-{os.getpid()}"
                part.write_text(text)
                part.chmod(0o700)
                part.replace(path)
            if os.access(path, os.X_OK):  # no, on a file system that is mounted without
                return str(path)
        except (OSError, ValueError):
            continue
    return None


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
