"""Starts the interpreter's worker with as little as it needs: a script of its own, ``python -IS launch.py WORKER ARGUMENTS``.

Standard library alone. Each layer is tried and none is required: what a machine does not offer is left out, and
``python -IS launch.py --report`` tells what was, then tries in place of a worker what a layer should refuse (``confine.py`` reads it).
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import platform
import struct
import sys
from collections.abc import Callable

_spec = importlib.util.spec_from_file_location("system_calls", os.path.join(os.path.dirname(os.path.abspath(__file__)), "system_calls.py"))
assert _spec is not None and _spec.loader is not None
calls = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(calls)

PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 22, 24, 38
CAPABILITY_VERSION = 0x20080522
CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWNET = 0x04000000, 0x08000000, 0x10000000, 0x40000000
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
LANDLOCK_EXECUTE, LANDLOCK_READ_FILE = 1, 4
LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/nix/store", "/gnu/store")
FIRST_FREE = 3  # file descriptors below are the worker's input, output and complaints
MOST_DESCRIPTORS = 1 << 20

libc = ctypes.CDLL(None, use_errno=True)


def call(number: int, *arguments: object) -> int:
    """A system call.

    Raises:
      OSError: it failed.
    """
    got = libc.syscall(ctypes.c_long(number), *(ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments))
    if got < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return got


def control(option: int, *values: int) -> None:
    """prctl. Raises OSError."""
    filled = [ctypes.c_ulong(v) for v in (*values, 0, 0, 0, 0)[:4]]
    if libc.prctl(ctypes.c_int(option), *filled) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def close_files() -> None:
    """Inherited files are closed."""
    os.closerange(FIRST_FREE, min(os.sysconf("SC_OPEN_MAX"), MOST_DESCRIPTORS))


def no_new_privileges() -> None:
    """Programs with the setuid bit or file capabilities give it nothing."""
    control(PR_SET_NO_NEW_PRIVS, 1)


def new_namespaces() -> None:
    """Its own users, without one of them, and its own network, without an interface."""
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def drop_capabilities() -> None:
    """None is held, and with nothing in the bounding set a program started by root gets none either."""
    with open("/proc/sys/kernel/cap_last_cap") as file:
        last = int(file.read())
    with open("/proc/self/status") as file:
        held = next(int(line.split()[1], 16) for line in file if line.startswith("CapPrm"))
    for capability in range(last + 1 if held else 0):  # who holds none gets none either
        control(PR_CAPBSET_DROP, capability)
    nothing = ctypes.create_string_buffer(24)
    if libc.capset(ctypes.create_string_buffer(struct.pack("=Ii", CAPABILITY_VERSION, 0)), nothing) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def loader_of(executable: int) -> str | None:
    """The program that loads the libraries of a 64-bit ELF file, None if it has none."""
    head = os.pread(executable, 64, 0)
    if head[:5] != b"\x7fELF\x02":
        return None
    offset, size, count = *struct.unpack_from("<Q", head, 32), *struct.unpack_from("<HH", head, 54)
    for i in range(count):
        header = os.pread(executable, size, offset + i * size)
        if struct.unpack_from("<I", header)[0] == 3:  # PT_INTERP
            start, length = struct.unpack_from("<Q", header, 8)[0], struct.unpack_from("<Q", header, 32)[0]
            return os.pread(executable, length, start).rstrip(b"\0").decode()
    return None


def landlock(executable: int) -> None:
    """No file but the worker's own program and the system's libraries, to read; no TCP; no signal and no abstract socket outwards."""
    version = call(LANDLOCK_CREATE, 0, 0, 1)
    files = (1 << 13) - 1
    for since, bit in ((2, 13), (3, 14), (5, 15)):  # moving between folders, truncating, device control
        files |= (version >= since) << bit
    rights = struct.pack("=QQQ", files, 3, 3)[: 8 * (1 + (version >= 4) + (version >= 6))]
    ruleset = call(LANDLOCK_CREATE, ctypes.c_char_p(rights), len(rights), 0)

    def grant(path: str | int, what: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            opened = os.open(path, os.O_PATH) if isinstance(path, str) else path
            rule = ctypes.create_string_buffer(struct.pack("=Qi", what, opened))
            call(LANDLOCK_ADD, ruleset, 1, rule, 0)

    grant(executable, LANDLOCK_EXECUTE | LANDLOCK_READ_FILE)
    loader = loader_of(executable)
    if loader:
        grant(loader, LANDLOCK_EXECUTE | LANDLOCK_READ_FILE)
    for path in LIBRARIES:
        grant(path, LANDLOCK_READ_FILE)
    call(LANDLOCK_RESTRICT, ruleset, 0)


def filter_calls(executable: int) -> None:
    """Only the system calls of ``system_calls.py``."""
    found = calls.machine()
    if found is None:
        raise OSError(f"the system calls of {platform.machine()} are not listed")
    audit, column = found
    code = calls.packed(calls.program(os.getpid(), executable, column, audit))
    kept = ctypes.create_string_buffer(code, len(code))
    address = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(kept)))
    call(calls.SECCOMP[column], 1, 0, address)  # SECCOMP_SET_MODE_FILTER


def confine(executable: int, without: set[str]) -> dict[str, str]:
    """Take everything away that can be. Returns what is missing, by name of the layer, with the reason."""
    missing = {}
    layers: dict[str, Callable[[], None]] = {
        "namespaces": new_namespaces,
        "no_new_privileges": no_new_privileges,
        "capabilities": drop_capabilities,
        "landlock": lambda: landlock(executable),
        "seccomp": lambda: filter_calls(executable),
    }
    for name, apply in layers.items():
        try:
            if name in without:
                raise OSError("the worker does not run with it here")
            apply()
        except OSError as error:
            missing[name] = error.strerror or str(error)
    return missing


def main(arguments: list[str]) -> None:
    without = set(filter(None, arguments[0].split(",")))
    path, rest = arguments[1], arguments[2:]
    if rest == ["--report"]:
        report(path, without)
        return
    close_files()
    executable = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    confine(executable, without)
    argv = (ctypes.c_char_p * (len(rest) + 2))(path.encode(), *(r.encode() for r in rest), None)
    env = (ctypes.c_char_p * 1)(None)
    found = calls.machine()
    if found is not None:
        libc.syscall(ctypes.c_long(calls.EXECVEAT[found[1]]), executable, b"", argv, env, calls.AT_EMPTY_PATH)
    os.execve(executable, [path, *rest], {})


def report(path: str, without: set[str]) -> None:
    """Confine this process instead of a worker, try to get out of it, and print what happened as JSON."""
    import json
    import socket

    parent, canary, listener = os.getppid(), sys.stdin.readline().strip(), int(sys.stdin.readline())
    executable = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    missing = confine(executable, without)

    def connect() -> None:
        with socket.socket() as one:
            one.settimeout(2)
            one.connect(("127.0.0.1", listener))

    def of_parent(what: str) -> Callable[[], None]:
        return lambda: os.close(os.open(f"/proc/{parent}/{what}", os.O_RDONLY))

    def fork() -> None:
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)

    attempts = {
        "read a file": lambda: os.close(os.open(canary, os.O_RDONLY)),
        "write a file": lambda: os.close(os.open(canary, os.O_WRONLY)),
        "connect": connect,
        "signal its parent": lambda: os.kill(parent, 0),
        "read its parent's environment": of_parent("environ"),
        "read its parent's memory": of_parent("mem"),
        "start a process": fork,
    }
    done = {}
    for name, attempt in attempts.items():
        try:
            attempt()
        except OSError as error:
            done[name] = error.strerror or str(error)
        else:
            done[name] = ""
    print(json.dumps({"missing": missing, "refused": done}), flush=True)
    with contextlib.suppress(OSError):
        os.execv("/bin/sh", ["sh", "-c", "echo started"])


if __name__ == "__main__":
    main(sys.argv[1:])
