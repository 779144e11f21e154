"""Process set-up: flags only where known, compile counting, orderly stops."""

import os
import signal
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

from coda_jax import runtime

FLAG = "--xla_cpu_use_fusion_emitters"


@pytest.mark.parametrize(
    ("current", "version", "accelerator", "expected"),
    [
        ("", "0.10.2", False, f"{FLAG}=false"),
        ("--xla_a=1", "0.10.0", False, f"--xla_a=1 {FLAG}=false"),
        (f"{FLAG}=true", "0.10.2", False, f"{FLAG}=true"),  # the user's choice stays
        ("", "0.11.0", False, f"{FLAG}=false"),
        ("", "0.11.1", False, ""),  # aborts on it
        ("", "0.9.2", False, ""),
        ("", "0.10.3.dev1", False, ""),
        ("--xla_a=1", "0.10.2", True, "--xla_a=1"),
        ("", None, False, ""),
    ],
)
def test_fusion_flag_only_where_known(current, version, accelerator, expected):
    assert runtime.xla_flags(current, version, accelerator) == expected


@pytest.mark.parametrize(("platforms", "expected"), [("cpu", False), ("cuda,cpu", True), ("tpu", True)])
def test_accelerator_follows_the_users_platforms(monkeypatch, platforms, expected):
    monkeypatch.setenv("JAX_PLATFORMS", platforms)
    assert runtime.accelerator_expected() is expected


def test_import_sets_nothing():
    code = "import os, sys; a = dict(os.environ); import coda_jax.runtime; assert dict(os.environ) == a; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_setup_in_a_fresh_process_starts_jax_and_uses_the_users_cache(tmp_path):
    code = (
        "from coda_jax import runtime; runtime.setup(); import jax; print(jax.config.jax_compilation_cache_dir, runtime.device_summary())"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment).stdout
    assert out.startswith(str(tmp_path / "coda_jax" / "xla"))
    assert "1 cpu device" in out


def test_compile_count_counts_new_shapes_and_nothing_else():
    double = jax.jit(lambda x: 2 * x + 1)
    three, four = jnp.zeros(3), jnp.zeros(4)
    before = runtime.compile_count()
    double(three)
    assert runtime.compile_count() == before + 1
    double(three + 0.0 * three)  # the sum is an executable or two of its own
    between = runtime.compile_count()
    double(three)
    assert runtime.compile_count() == between
    double(four)
    assert runtime.compile_count() == between + 1


def test_sigterm_asks_for_a_stop_at_the_next_commit():
    before = signal.getsignal(signal.SIGTERM)
    with runtime.orderly_stop():
        runtime.check_stop()
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(runtime.Stopped):
            runtime.check_stop()
    runtime.check_stop()
    assert signal.getsignal(signal.SIGTERM) is before


def test_second_interrupt_is_immediate():
    with pytest.raises(KeyboardInterrupt), runtime.orderly_stop():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)


STANDSTILL = """
from coda_jax import runtime
runtime.setup()
import jax, jax.numpy as jnp
import numpy as np

@jax.jit
def three_at_once(matrices):
    def step(_, found):
        factors = [jnp.linalg.cholesky(m) for m in found]
        return [m + 1e-9 * sum(f.sum() for f in factors) for m in found]
    return jax.lax.fori_loop(0, 300, step, matrices)

rows = np.random.default_rng(0).normal(size=(3, 64, 45, 45)).astype(np.float32)
matrices = [jnp.asarray(r @ r.transpose(0, 2, 1) + 10 * np.eye(45, dtype=np.float32)) for r in rows]
for _ in range(8):
    matrices = jax.block_until_ready(three_at_once(matrices))
"""


def test_batched_factors_do_not_wait_for_each_other(tmp_path):
    """On two cores and with XLA's own number of threads this program stands still within a second."""
    names = runtime.POOL_VARIABLES
    environment = {k: v for k, v in os.environ.items() if k not in names} | {"XDG_CACHE_HOME": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", STANDSTILL], check=True, env=environment, timeout=300)


@pytest.mark.parametrize(
    ("given", "cores", "expected"), [({}, 2, "8"), ({}, 64, None), ({"PJRT_NPROC": "3"}, 2, "3"), ({"NPROC": "3"}, 2, None)]
)
def test_the_pool_is_widened_where_it_is_small_and_nobody_set_it(tmp_path, given, cores, expected):
    code = f"import os; os.cpu_count = lambda: {cores}; from coda_jax import runtime; runtime.setup(); print(os.environ.get('PJRT_NPROC'))"
    environment = {k: v for k, v in os.environ.items() if k not in runtime.POOL_VARIABLES} | {"XDG_CACHE_HOME": str(tmp_path)} | given
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment).stdout
    assert out.split()[-1] == str(expected)
