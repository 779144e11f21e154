"""Process set-up: XLA flags, compilation cache, compile counting, devices, orderly stops. Nothing happens at import."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib.metadata
import os
import platform
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

# XLA's fusion emitters make mjx.kinematics some 450 times slower on a CPU. The flag is known to these jaxlib releases (first and
# last, tried one by one); others abort the process on it, so they are left alone.
FUSION_FLAG = "--xla_cpu_use_fusion_emitters"
FUSION_FLAG_FIRST = (0, 10, 0)
FUSION_FLAG_LAST = (0, 11, 0)

# jaxlib's batched LAPACK kernels wait on a thread of XLA's pool for other threads of it: as many of them at once as there are threads and
# the process stands still for ever (seen with MJX's Cholesky factors on two cores). Results do not depend on the number.
POOL_VARIABLES = ("PJRT_NPROC", "NPROC")
LEAST_POOL_THREADS = 8

_ACCELERATOR_PACKAGES = ("jax-cuda12-plugin", "jax-cuda13-plugin", "jax-rocm7-plugin", "libtpu")
_COMPILE_EVENT = "/jax/core/compile/backend_compile_duration"


class InputError(ValueError):
    """Something the user gave is wrong; the message says what, where and what to change. The command exits with 2."""


class Stopped(Exception):
    """The run stopped at a commit after SIGTERM or SIGINT and the same command goes on from there. The command exits with 3."""


@dataclasses.dataclass
class _Process:
    set_up: bool = False
    compiles: int = 0
    stop: bool = False


_process = _Process()


def package_version(name: str) -> str | None:
    """Version of an installed distribution, None when it is absent. Imports nothing of it."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def accelerator_expected() -> bool:
    """Whether jax will look for an accelerator here: a plugin is installed and ``JAX_PLATFORMS`` does not forbid it."""
    platforms = os.environ.get("JAX_PLATFORMS", "").lower().split(",")
    if platforms != [""]:
        return any(p not in ("", "cpu") for p in platforms)
    return any(package_version(name) for name in _ACCELERATOR_PACKAGES)


def _version_tuple(version: str) -> tuple[int, ...]:
    """(0, 10, 2) of "0.10.2"; a development or pre-release gives (), which is in no range."""
    parts = version.split(".")
    return tuple(int(p) for p in parts) if all(p.isdigit() for p in parts) else ()


def xla_flags(current: str, jaxlib_version: str | None, accelerator: bool) -> str:
    """``XLA_FLAGS`` for this process: what the user set, plus the fusion flag where it is known, useful and not set already."""
    if accelerator or jaxlib_version is None or FUSION_FLAG in current:
        return current
    if not FUSION_FLAG_FIRST <= _version_tuple(jaxlib_version) <= FUSION_FLAG_LAST:
        return current
    return f"{current} {FUSION_FLAG}=false".strip()


def cache_home() -> Path:
    """``$XDG_CACHE_HOME/coda_jax`` or ``~/.cache/coda_jax``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "coda_jax"


def _cpu_fingerprint() -> str:
    """Short hash of the processor's features: executables compiled for other features must not be loaded (shared home folders)."""
    text = platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                text += line
                break
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def compilation_cache_dir() -> Path:
    """Where compiled executables are kept between processes: one folder per jaxlib version and processor."""
    return cache_home() / "xla" / f"{package_version('jaxlib') or 'none'}-{_cpu_fingerprint()}"


def _on_duration(event: str, duration_secs: float, **kwargs: str | int) -> None:
    del duration_secs, kwargs
    if event == _COMPILE_EVENT:
        _process.compiles += 1


def setup() -> None:
    """Set XLA's flags and pool, the persistent compilation cache and the compile counter. Call it once, before any jax computation.

    What the user set in the environment (``XLA_FLAGS``, ``JAX_COMPILATION_CACHE_DIR``, ...) stays as it is. A second call does nothing.
    """
    if _process.set_up:
        return
    flags = xla_flags(os.environ.get("XLA_FLAGS", ""), package_version("jaxlib"), accelerator_expected())
    if flags:
        os.environ["XLA_FLAGS"] = flags
    if not any(name in os.environ for name in POOL_VARIABLES) and (os.cpu_count() or 1) < LEAST_POOL_THREADS:
        os.environ[POOL_VARIABLES[0]] = str(LEAST_POOL_THREADS)
    import jax

    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        folder = compilation_cache_dir()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            print(f"compiled programs are not kept between runs: {folder}: {error.strerror}", file=sys.stderr)
        else:
            jax.config.update("jax_compilation_cache_dir", str(folder))
            if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
                jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
    jax.monitoring.register_event_duration_secs_listener(_on_duration)
    _process.set_up = True


def compile_count() -> int:
    """Executables this process built or loaded from the cache since ``setup``; a call that reuses one adds nothing.

    Raises:
      RuntimeError: ``setup`` was not called, so nothing was counted.
    """
    if not _process.set_up:
        raise RuntimeError("call coda_jax.runtime.setup() first: compilations are counted from there")
    return _process.compiles


def versions() -> dict[str, str]:
    """Versions a result depends on."""
    found = {name: package_version(name) for name in ("jax", "jaxlib", "mujoco", "mujoco-mjx", "optax", "numpy", "coda-jax")}
    return {"python": platform.python_version()} | {name: version for name, version in found.items() if version}


def device_summary() -> str:
    """One line: devices, cores, versions, e.g. "1 cpu device, 2 cores, jax 0.10.2, mujoco 3.17.0". Imports jax."""
    import jax

    devices = jax.devices()
    kinds = sorted({d.device_kind if d.platform != "cpu" else "cpu" for d in devices})
    plural = "" if len(devices) == 1 else "s"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    mujoco = package_version("mujoco") or "missing"
    return f"{len(devices)} {' and '.join(kinds)} device{plural}, {cores} cores, jax {jax.__version__}, mujoco {mujoco}"


def on_nvidia() -> bool:
    """Whether jax computes on an NVIDIA device. Imports jax."""
    import jax

    return "cuda" in jax.devices()[0].client.platform_version.lower()


def check_stop() -> None:
    """Call right after a commit.

    Raises:
      Stopped: SIGTERM or SIGINT arrived since.
    """
    if _process.stop:
        raise Stopped("stopped after the last commit; the same command goes on from there")


@contextlib.contextmanager
def orderly_stop() -> Iterator[None]:
    """Inside, the first SIGTERM or SIGINT asks for a stop at the next commit; a second SIGINT interrupts at once."""

    def on_signal(number: int, frame: object) -> None:
        del frame
        if _process.stop and number == signal.SIGINT:
            raise KeyboardInterrupt
        _process.stop = True
        os.write(2, b"\nstopping at the next commit (Ctrl-C again: at once)\n")  # print is not safe inside a handler

    previous = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        _process.stop = False
        for number, handler in previous.items():
            signal.signal(number, handler)
