"""What the operating system takes from a worker: each layer by what it refuses, and as seen from outside."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import signal
import struct
import subprocess
import sys

import pytest

from coda_jax.programs import confine
from coda_jax.programs import sandbox as sandbox_module
from coda_jax.programs.limits import Limits
from coda_jax.programs.sandbox import Sandbox
from coda_jax.programs.worker import system_calls

LIMITS = Limits(text_bytes=32768, time_s=0.5, grace_s=0.5, memory_bytes=32 << 20, recursion=100, output_chars=1000, reply_chars=65536)
linux = pytest.mark.skipif(sys.platform != "linux", reason="the layers are Linux's")

# What each layer alone must refuse, and by itself.
REFUSES = {
    "landlock": ("read a file", "write a file", "start another program"),
    "seccomp": ("write a file", "connect", "signal its parent", "start a process", "start another program"),
    "namespaces": ("connect", "read its parent's environment", "read its parent's memory"),
}


@linux
@pytest.mark.parametrize("layer", REFUSES)
def test_a_layer_refuses_what_it_is_for(layer):
    others = ",".join(name for name in REFUSES if name != layer)
    measured = confine.measure(others)
    assert measured is not None and set(others.split(",")) <= set(measured.missing)
    if layer in measured.missing:
        pytest.skip(f"{layer}: {measured.missing[layer]}")
    for what in REFUSES[layer]:
        assert measured.refused[what], f"{what} was possible under {layer} alone"


@linux
def test_without_layers_everything_is_possible_so_that_the_attempts_can_tell():
    measured = confine.measure(",".join(confine.LAYERS))
    assert measured is not None and measured.layers == []
    assert {"read a file", "write a file", "signal its parent", "start a process", "start another program"} <= set(measured.escapes)
    assert measured.refused["connect"] == ""


@linux
def test_worker_is_as_confined_as_measured():
    with Sandbox(LIMITS) as box:
        seen = box.confined()
        measured = confine.measure(box.layers_left_out)
        if box.layers_left_out == ",".join(confine.LAYERS):
            pytest.skip("no launcher works here")
    assert measured is not None
    for layer, in_force in seen.items():
        assert in_force == (layer not in measured.missing), layer
    assert seen["no_new_privileges"] and seen["capabilities"]


@linux
def test_worker_inherits_no_file(tmp_path, monkeypatch):
    seen = {}
    real = sandbox_module._confine

    def look(pid, memory_bytes):
        real(pid, memory_bytes)
        seen["files"] = sorted(os.listdir(f"/proc/{pid}/fd"))
        seen["complaints"] = os.readlink(f"/proc/{pid}/fd/2")

    monkeypatch.setattr(sandbox_module, "_confine", look)
    (tmp_path / "secret").write_text("secret")
    file = os.open(tmp_path / "secret", os.O_RDONLY)
    os.set_inheritable(file, True)
    try:
        with Sandbox(LIMITS) as box:
            assert box.evaluate("result = 1") == 1
            if box.layers_left_out == ",".join(confine.LAYERS):
                pytest.skip("no launcher works here")
    finally:
        os.close(file)
    assert seen == {"files": ["0", "1", "2"], "complaints": "/dev/null"}


@linux
def test_hidden_process_is_closed_to_others_of_its_user():
    script = (
        "from coda_jax.programs import confine\nfrom coda_jax.programs.worker import launch\n"
        "launch.drop_capabilities()\n"  # of root, whom nothing else is closed to
        "def tried():\n    measured = confine.measure(','.join(confine.LAYERS))\n"
        "    return [bool(measured.refused[f\"read its parent's {what}\"]) for what in ('environment', 'memory')]\n"
        "before = tried()\nprint(before, confine.hide_memory(), tried())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[False, False] True [True, True]", done.stderr


@linux
def test_hidden_process_still_evaluates():
    script = (
        "from coda_jax.programs import confine\nfrom coda_jax.programs.limits import Limits\n"
        "from coda_jax.programs.sandbox import Sandbox\n"
        f"confine.hide_memory()\nwith Sandbox({LIMITS!r}) as box:\n    print(box.evaluate('result = 7'), box.layers_left_out)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    with Sandbox(LIMITS) as box:
        box.evaluate("result = 1")
        assert done.stdout.split(" ", 1) == ["7", f"{box.layers_left_out}\n"], done.stderr


def test_a_launcher_that_does_not_work_is_left_out(monkeypatch, tmp_path):
    broken, missing = tmp_path / "broken", tmp_path / "missing"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o700)
    monkeypatch.setattr(sandbox_module, "_settled", None)
    monkeypatch.setattr(confine, "launchers", lambda: iter([("", str(missing)), ("seccomp", str(broken)), ("all", None)]))
    with Sandbox(LIMITS) as box:
        assert box.evaluate("result = 1") == 1
        assert box.confined().get("seccomp", False) is False


def _launchers(monkeypatch, *found):
    tried = []

    def launchers():
        for without, path in found:
            tried.append(without)
            yield without, path

    monkeypatch.setattr(sandbox_module, "_settled", None)
    monkeypatch.setattr(confine, "launchers", launchers)
    return tried


@linux
def test_a_start_that_fails_once_costs_no_layer(monkeypatch, tmp_path, caplog):
    flaky, seen = tmp_path / "flaky", tmp_path / "seen"
    start = f'exec {shlex.quote(confine.worker_binary())} "$@"'
    flaky.write_text(f"#!/bin/sh\nif [ -e {seen} ]; then {start}; fi\ntouch {seen}\nexit 1\n")
    flaky.chmod(0o700)
    tried = _launchers(monkeypatch, ("", str(flaky)), ("all", None))
    with Sandbox(LIMITS) as box:
        assert box.evaluate("result = 1") == 1
        assert box.layers_left_out == "" and tried == [""] and seen.exists()
    assert not caplog.records and sandbox_module.left_out() == []


@linux
def test_what_is_left_out_is_said_once_and_not_tried_again(monkeypatch, tmp_path, caplog):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o700)
    tried = _launchers(monkeypatch, ("", str(broken)), ("seccomp,landlock", None))
    assert sandbox_module.left_out() == []
    for _ in range(2):
        with Sandbox(LIMITS) as box:
            assert box.evaluate("result = 1") == 1
    assert tried == ["", "seccomp,landlock"] and sandbox_module.left_out() == ["seccomp", "landlock"]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "run without seccomp, landlock: a worker does not start" in caplog.text


def test_a_worker_that_no_longer_starts_is_not_the_programs_fault(monkeypatch, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o700)
    monkeypatch.setattr(sandbox_module, "_settled", ("", str(broken)))
    with Sandbox(LIMITS) as box, pytest.raises(RuntimeError, match="does not start"):
        box.evaluate("result = 1")


@linux
def test_emptied_cache_does_not_stop_a_sandbox(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sandbox_module, "_settled", None)
    confine.renew()
    try:
        with Sandbox(LIMITS) as box:
            pids = []
            real = sandbox_module._confine
            monkeypatch.setattr(sandbox_module, "_confine", lambda pid, memory: (pids.append(pid), real(pid, memory)))
            assert box.evaluate("result = 1") == 1
            if box.layers_left_out == ",".join(confine.LAYERS):
                pytest.skip("no launcher works here")
            shutil.rmtree(tmp_path / "coda_jax" / "sandbox")
            os.kill(pids[0], signal.SIGKILL)
            assert box.evaluate("result = 2") == 2
            assert box.confined()["no_new_privileges"]
    finally:
        monkeypatch.undo()
        confine.renew()


@linux
def test_no_launcher_comes_from_a_folder_that_another_user_could_exchange(monkeypatch, tmp_path):
    unusable, shared, own = tmp_path / "file", tmp_path / "shared", tmp_path / "own"
    unusable.write_text("")
    shared.mkdir()
    own.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_CACHE_HOME", str(unusable))  # no folder can be made there
    monkeypatch.setattr(confine.tempfile, "gettempdir", lambda: str(shared))
    place = shared / f"coda_jax-{os.getuid()}"
    launcher_of = confine._executable.__wrapped__

    place.symlink_to(own)
    assert launcher_of("") is None and not list(own.iterdir())
    place.unlink()
    place.mkdir(mode=0o700)
    place.chmod(0o720)
    assert launcher_of("") is None
    place.chmod(0o700)
    shared.chmod(0o777)
    assert launcher_of("") is None
    shared.chmod(0o1777)  # as /tmp
    path = launcher_of("")
    assert path is not None and os.access(path, os.X_OK) and os.path.dirname(path) == str(place)


@linux
def test_a_launcher_whose_folder_was_exchanged_is_not_started(monkeypatch, tmp_path):
    traces, folder = tmp_path / "traces", tmp_path / "folder"
    folder.mkdir(mode=0o700)
    (folder / "worker").write_text(f"#!/bin/sh\necho started >> {traces}\nexit 1\n")
    (folder / "worker").chmod(0o700)
    confine.require_own(str(folder / "worker"))
    (tmp_path / "place").symlink_to(folder)
    with pytest.raises(OSError):
        confine.require_own(str(tmp_path / "place" / "worker"))
    for settled in (None, ("", str(tmp_path / "place" / "worker"))):
        monkeypatch.setattr(sandbox_module, "_settled", settled)
        monkeypatch.setattr(confine, "launchers", lambda: iter([("", str(tmp_path / "place" / "worker")), ("all", None)]))
        with Sandbox(LIMITS) as box:
            if settled:
                with pytest.raises(RuntimeError, match="does not start"):
                    box.evaluate("result = 1")
            else:
                assert box.evaluate("result = 1") == 1
    assert not traces.exists()


def judged(pid: int, number: int, *arguments: int, audit: int = system_calls.X86_64, column: int = 0) -> str:
    """What the filter says to a system call: its instructions, read as the kernel reads them."""
    data = struct.pack("=IIQ6Q", number, audit, 0, *(*arguments, 0, 0, 0, 0, 0, 0)[:6])
    code = system_calls.program(pid, 7, column, system_calls.X86_64 if column == 0 else system_calls.AARCH64)
    assert len(system_calls.packed(code)) == 8 * len(code)
    at, value = 0, 0
    while True:
        kind, yes, no, constant = code[at]
        at += 1
        if kind == 0x20:
            value = struct.unpack_from("=I", data, constant)[0]
        elif kind == 0x54:
            value &= constant
        elif kind == 0x06:
            return {0x7FFF0000: "allow", 0x80000000: "kill"}.get(constant, errno.errorcode.get(constant & 0xFFFF, "?"))
        else:
            holds = {0x15: value == constant, 0x35: value >= constant, 0x25: value > constant}[kind]
            at += yes if holds else no


@pytest.mark.parametrize(
    ("call", "arguments", "verdict"),
    [
        ((0, 63), (), "allow"),  # read
        ((41, 198), (), "EPERM"),  # socket
        ((57, 1079), (), "EPERM"),  # fork
        ((59, 221), (), "EPERM"),  # execve
        ((62, 129), (1, 9), "EPERM"),  # kill
        ((101, 117), (), "EPERM"),  # ptrace
        ((310, 270), (), "EPERM"),  # process_vm_readv
        ((319, 279), (), "EPERM"),  # memfd_create
        ((425, 425), (), "EPERM"),  # io_uring_setup
        ((317, 277), (), "EPERM"),  # seccomp
        ((257, 56), (0, 0, 0o2000000), "allow"),  # openat to read
        ((257, 56), (0, 0, 1), "EPERM"),
        ((257, 56), (0, 0, 0o100), "EPERM"),
        ((9, 222), (0, 4096, 5), "allow"),  # mmap of code
        ((9, 222), (0, 4096, 7), "EPERM"),
        ((10, 226), (0, 4096, 1), "allow"),  # mprotect
        ((10, 226), (0, 4096, 5), "EPERM"),
        ((56, 220), (0x3D0F00,), "allow"),  # clone of a thread
        ((56, 220), (17,), "EPERM"),
        ((435, 435), (), "ENOSYS"),  # clone3
        ((302, 261), (0, 7, 0), "allow"),  # prlimit, to read
        ((302, 261), (0, 7, 1 << 40), "EPERM"),
        ((302, 261), (5, 7, 0), "EPERM"),
        ((234, 131), (42, 42, 6), "allow"),  # tgkill of itself
        ((234, 131), (1, 1, 6), "EPERM"),
        ((234, 131), (42, 42, 9), "EPERM"),
        ((322, 281), (7, 1, 1, 1, 0x1000), "allow"),  # execveat of the worker
        ((322, 281), (8, 1, 1, 1, 0x1000), "EPERM"),
        ((322, 281), (7, 1, 1, 1, 0), "EPERM"),
        ((72, 25), (0, 3), "allow"),  # fcntl
        ((72, 25), (0, 8), "EPERM"),  # whose signals go where
    ],
)
def test_filter_of_system_calls(call, arguments, verdict):
    assert judged(42, call[0], *arguments) == verdict
    assert judged(42, call[1], *arguments, audit=system_calls.AARCH64, column=1) == verdict


def test_filter_ends_a_worker_that_calls_otherwise():
    assert judged(42, 0, audit=3) == "kill"  # 32-bit calls, whose numbers mean something else
    assert judged(42, 0x40000000) == "kill"  # the x32 interface
