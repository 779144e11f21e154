"""The run folder: who may write it, and which configuration it belongs to. Imports no jax, so that a refusal is instant."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coda_jax
from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.runtime import InputError
from coda_jax.sim.own_robot import record
from coda_jax.sim.own_robot.errors import RobotError

CONFIG_FILE = "config.json"
PART_FILE = CONFIG_FILE + ".part"  # of a process that was killed at its start
LOCK_FILE = ".lock"
_UNREAD = ("sweep", "serve", "remote")  # sections that no run reads
# how a language model is reached: a run may go on through another address, with other patience
_FREE = tuple(f"agents.llm.{name}" for name in ("base_url", "key_variable", "deadline_s", "retries", "concurrency"))
EVALUATIONS = "evaluations"  # folder of what --mode=evaluate writes, one folder for each set of settings
_held: dict[Path, tuple[int, bool]] = {}  # locked folders: descriptor of the lock file, whether the folder itself is locked too


def git_revision() -> str | None:
    """Commit of the checkout this package runs from, with "+changes" where files differ; None for an installed wheel."""
    package = Path(coda_jax.__file__).resolve().parent

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(package), *arguments], capture_output=True, text=True, timeout=10, check=True, stdin=subprocess.DEVNULL
        ).stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")) != package.parent:
            return None  # a wheel inside somebody else's repository
        return git("rev-parse", "HEAD") + ("+changes" if git("status", "--porcelain", "--", str(package)) else "")
    except (OSError, subprocess.SubprocessError):
        return None


def read_config(workdir: Path) -> settings.Config:
    """The configuration a run folder belongs to, checked like a new one.

    Raises:
      InputError: the folder or its config.json is missing or damaged, or it has settings that this version does not know.
    """
    config = settings.default()
    stored = _read(workdir).get("config")
    if not isinstance(stored, dict):
        raise InputError(f'{workdir / CONFIG_FILE} has no "config"; restore the file or choose another --workdir')
    known = dict(settings.leaves(config))
    with config.unlocked():
        for path, value in settings.leaves(stored):
            try:
                settings.check_key(config, path)
            except InputError as error:
                raise InputError(f"{workdir / CONFIG_FILE}: {error} The folder was made by another version of coda_jax") from None
            section, _, key = path.rpartition(".")
            target = config
            for name in section.split(".") if section else ():
                target = target[name]
            try:
                target[key] = tuple(value) if isinstance(known[path], (list, tuple)) else value
            except TypeError:
                wanted = settings.describe_type(known[path])
                raise InputError(f"{workdir / CONFIG_FILE}: config.{path} is {value!r}; it must be {wanted}") from None
    settings.validate(config)
    return config


def check(workdir: Path, config: settings.Config, free: tuple[str, ...] = ()) -> bool:
    """Whether the folder already holds a run of this configuration.

    free: sections that may differ (an evaluation may use other ``evaluate`` settings than the run). Sections that no run reads always
    may; so may how a language model is reached.

    Raises:
      InputError: it holds a run of another configuration (the difference is named), or other files, or is no folder.
    """
    if not workdir.exists():
        return False
    if not workdir.is_dir():
        raise InputError(f"{workdir} is a file; --workdir must name a folder")
    if not (workdir / CONFIG_FILE).exists():
        if any(p.name not in (LOCK_FILE, PART_FILE) for p in workdir.iterdir()):
            raise InputError(f"{workdir} holds files but no {CONFIG_FILE}, so it is no run folder; choose an empty or new --workdir")
        return False
    stored = _read(workdir)
    changes = settings.differences(stored.get("config", {}), settings.to_dict(config))
    changes = [line for line in changes if line.split(":")[0].split(".")[0] not in (*free, *_UNREAD) and line.split(":")[0] not in _FREE]
    if changes:
        shown = "\n  ".join(changes[:20] + ([f"and {len(changes) - 20} more"] if len(changes) > 20 else []))
        raise InputError(
            f"{workdir} belongs to another configuration (stored -> given):\n  {shown}\nChoose another --workdir, or set these back"
        )
    _check_robot(workdir, stored, config)
    return True


def _check_robot(workdir: Path, stored: dict[str, Any], config: settings.Config) -> None:
    if stored.get("robot") != robot_fingerprint(config):
        raise InputError(
            f"{workdir} belongs to another robot: {config.robot} or its model has changed since; restore the files, or choose another "
            "--workdir"
        )


def check_robot(workdir: Path, config: settings.Config) -> None:
    """Raises InputError where the robot of a run's configuration is no longer the one that acted in it."""
    _check_robot(workdir, _read(workdir), config)


def robot_fingerprint(config: settings.Config) -> str | None:
    """What tells whether a robot of one's own is still the same; None of our own.

    Raises:
      InputError: its record or its model cannot be read.
    """
    if config.robot == settings.ROBOT:
        return None
    try:
        return record.fingerprint(Path(config.robot).resolve())
    except RobotError as error:
        raise InputError(f"config.robot: {error}") from error


@contextlib.contextmanager
def locked(workdir: Path) -> Iterator[None]:
    """Hold the folder's writer lock; the kernel frees it when the process ends, however it ends.

    The lock file names the holder. Because it can be removed, the folder itself is locked too where the file system can; where it cannot,
    ``require_held`` finds out before each commit.

    Raises:
      InputError: another process holds it (its pid and host are named), or the folder cannot be made or written.
    """
    folder = -1
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        handle = os.open(workdir / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        with contextlib.suppress(OSError):
            folder = os.open(workdir, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise InputError(f"cannot write to {workdir}: {error.strerror}; choose another --workdir") from None
    try:
        if not _take(handle) or (both := _take(folder)) is False or not _is_lock_of(handle, workdir):
            holder = os.read(handle, 300).decode(errors="replace").strip() or "another process"
            raise InputError(f"{workdir} is being written by {holder}; wait for it, stop it, or choose another --workdir")
        os.ftruncate(handle, 0)
        os.write(handle, f"pid {os.getpid()} on {socket.gethostname()}\n".encode())
        _held[workdir.resolve()] = handle, both is True
        yield
    finally:
        _held.pop(workdir.resolve(), None)
        os.close(handle)
        if folder >= 0:
            os.close(folder)


def _take(descriptor: int) -> bool | None:
    """Lock a descriptor: True, False where another process holds it, None where it cannot be locked."""
    if descriptor < 0:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_lock_of(handle: int, workdir: Path) -> bool:
    """Whether the open lock file is still the one in the folder."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(workdir / LOCK_FILE))
    except OSError:
        return False


def require_held(workdir: Path) -> None:
    """Call before a commit to a locked folder.

    Raises:
      InputError: somebody removed the lock file, and nothing else keeps a second writer out.
    """
    handle, whole = _held.get(workdir.resolve(), (-1, True))
    if not whole and not _is_lock_of(handle, workdir):
        raise InputError(
            f"{workdir / LOCK_FILE} was removed while this process was writing, so that another one may write too; this one ends at its "
            "last commit. Let one go on, with the same command"
        )


@contextlib.contextmanager
def open_run(workdir: Path, config: settings.Config) -> Iterator[Path]:
    """The folder, locked for writing, with its ``config.json`` in place; new or of the same configuration.

    Raises:
      InputError: as ``check`` and ``locked``.
    """
    existed = check(workdir, config)  # before the lock, so that a refusal leaves no trace
    with locked(workdir):
        existed = existed or check(workdir, config)
        if existed:
            _warn_of_versions(workdir)
        else:
            made = {
                "config": settings.to_dict(config),
                "robot": robot_fingerprint(config),
                "versions": runtime.versions(),
                "git_revision": git_revision(),
                "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            }
            _write_atomically(workdir / CONFIG_FILE, json.dumps(made, indent=1) + "\n")
        try:
            yield workdir
        except InputError:
            if not existed and {p.name for p in workdir.iterdir()} == {LOCK_FILE, CONFIG_FILE}:
                (workdir / CONFIG_FILE).unlink()  # nothing was begun: the folder is free for the mended settings
            raise


def _read(workdir: Path) -> dict[str, Any]:
    path = workdir / CONFIG_FILE
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path} does not exist, so {workdir} is no run folder; give the --workdir of a run") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}); restore it or choose another --workdir") from None
    if not isinstance(record, dict):
        raise InputError(f"{path} is no JSON object; restore it or choose another --workdir")
    return record


def _warn_of_versions(workdir: Path) -> None:
    before, now = _read(workdir).get("versions", {}), runtime.versions()
    if not isinstance(before, dict):
        raise InputError(f'{workdir / CONFIG_FILE}: "versions" is no object of names and versions; restore the file')
    changed = [
        f"{k} {before.get(k, 'absent')} -> {now.get(k, 'absent')}"
        for k in sorted(before.keys() | now.keys())
        if before.get(k) != now.get(k)
    ]
    if changed:
        print(f"{workdir} was started with other versions, results may differ in the last bits: {', '.join(changed)}", file=sys.stderr)


def _write_atomically(path: Path, text: str) -> None:
    part = path.with_name(PART_FILE)
    part.unlink(missing_ok=True)
    with open(part, "x", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
