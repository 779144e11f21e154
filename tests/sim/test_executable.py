import jax
import jax.numpy as jnp
import pytest

from coda_jax import runtime
from coda_jax.sim.executable import Executable, Memory


def test_is_built_once_for_a_layout_and_tells_what_it_took():
    traced, heard = [], []

    def double(x):
        traced.append(x.shape)
        return 2 * x

    program = Executable("double", jax.jit(double))
    program.build(jax.ShapeDtypeStruct((3,), jnp.float32, sharding=jnp.ones(3).sharding), report=heard.append)
    assert traced == [(3,)] and heard[0].name == "double" and heard[0].compile_s > 0
    assert heard[0].line().startswith("double: lowered in ")
    before = runtime.compile_count()
    assert program(jnp.ones(3)).tolist() == [2, 2, 2] and program(jnp.zeros(3)).tolist() == [0, 0, 0]
    program.build(jnp.ones(3), report=heard.append)
    assert traced == [(3,)] and len(heard) == 1 and runtime.compile_count() == before
    assert program(jnp.ones(2)).tolist() == [2, 2] and traced == [(3,), (2,)]


def test_memory_stands_beside_what_was_expected():
    heard = []
    x = jnp.ones(1_000_000)
    Executable("double", jax.jit(lambda x: 2 * x)).build(x, report=heard.append, expected=Memory(2_000_000, 3_000_000, 0))
    assert heard[0].memory is not None and heard[0].memory.held == heard[0].memory.given == 4_000_000
    assert heard[0].line().endswith("; arguments 4 MB (2 expected), results 4 MB (3), 0 MB (0) while it runs")


def test_what_is_given_away_is_no_result_of_its_own():
    heard = []
    Executable("double", jax.jit(lambda x: 2 * x, donate_argnums=0)).build(jnp.ones(1_000_000), report=heard.append)
    assert heard[0].memory == Memory(4_000_000, 0, 0)


def test_arguments_of_another_kind_are_not_taken_for_known():
    program = Executable("add", jax.jit(lambda pair: pair[0] + pair[1]))
    assert program((jnp.ones(2), jnp.ones(2))).dtype == jnp.float32
    assert program((jnp.ones(2, jnp.int32), jnp.ones(2, jnp.int32))).dtype == jnp.int32
    with pytest.raises((TypeError, IndexError)):
        program((jnp.ones(2),))
