"""Test set-up: the process is set up as for a run, and jaxtyping annotations are checked by beartype."""

from __future__ import annotations

import gc
from pathlib import Path

import jax
import psutil
import pytest
from jaxtyping import install_import_hook

import coda_jax
from coda_jax import runtime
from coda_jax.scenes.libero import package

PACKAGE = Path(coda_jax.__file__).parent


def _jaxtyped_modules() -> list[str]:
    """Modules whose source mentions jaxtyping: only these pay for the checks."""
    found = []
    for path in PACKAGE.rglob("*.py"):
        if "jaxtyping" in path.read_text(encoding="utf-8"):
            found.append(".".join(("coda_jax", *path.relative_to(PACKAGE).with_suffix("").parts)))
    return found


install_import_hook(_jaxtyped_modules(), "beartype.beartype")
runtime.setup()


_MOST_BYTES = 3e9  # of a worker, before its executables are dropped: two workers must fit a machine of 8 GB


@pytest.fixture(autouse=True, scope="module")
def _bounded_memory():
    """Executables of many tests add up to gigabytes; those of the modules before are dropped when a process has grown large."""
    yield
    if psutil.Process().memory_info().rss > _MOST_BYTES:
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def repository() -> Path:
    """The checkout; tests that need its files are skipped for an installed wheel."""
    root = PACKAGE.parent
    if not (root / "setup.py").exists():
        pytest.skip("needs the source checkout")
    return root


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need LIBERO's package are skipped where it is missing."""
    if package.installed():
        return
    for item in items:
        if item.get_closest_marker("libero"):
            item.add_marker(pytest.mark.skip(reason=f"needs {package.DISTRIBUTION}"))
