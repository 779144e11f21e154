"""What asking a critic costs a decision: ``python -m benchmarks.acting [--worlds=64] [--repeats=50]``.

The plain policy's sample is the peer, in the same process. Times are CPU and wall milliseconds of one decision of all worlds, compiling
apart. Parameters are random: no time depends on them.
"""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
from absl import app, flags

from benchmarks.decisions import observation, timed
from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.learning.actor import Actor, act
from coda_jax.learning.critic.batch import ProgramInput
from coda_jax.loop import improvement, parts
from coda_jax.programs.training.limits import CODE_DIM

_WORLDS = flags.DEFINE_integer("worlds", 64, "Worlds that decide together.", lower_bound=1)
_REPEATS = flags.DEFINE_integer("repeats", 50, "Decisions timed.", lower_bound=1)
_WIDTH = flags.DEFINE_integer("width", 64, "Of the critic.", lower_bound=8)
_LAYERS = flags.DEFINE_integer("layers", 4, "Of the critic.", lower_bound=1)
_CANDIDATES = flags.DEFINE_list("candidates", ["4", "8"], "Candidates to choose among.")


def main(_: list[str]) -> None:
    config = settings.default()
    policy = parts.policy_of(config)
    config.critic.update({"width": _WIDTH.value, "layers": _LAYERS.value})
    critic = improvement.critic_of(config)
    worlds, repeats = _WORLDS.value, _REPEATS.value
    obs, keys = observation(worlds, policy.text_dim), jax.random.split(jax.random.key(0), worlds)
    params = policy.init(jax.random.key(1))
    critic_params = critic.init(jax.random.key(2), params)
    program = ProgramInput(jnp.zeros(worlds, jnp.int32), jnp.zeros(worlds), jnp.zeros((worlds, CODE_DIM)))
    rows = [("policy, one sample", timed(lambda: policy.sample(params, obs, keys, 1), repeats))]
    for j in map(int, _CANDIDATES.value):
        rows.append((f"policy, {j} samples", timed(lambda j=j: policy.sample(params, obs, keys, j), repeats)))
        for mode in ("sample", "argmax", "average"):
            actor = Actor(mode=mode, candidates=j, temperature=0.5, temperature_unit="std", least_sd=0.02)
            decide = lambda actor=actor: act(actor, policy, params, critic, critic_params, obs, program, keys)  # noqa: E731
            rows.append((f"{mode} of {j}", timed(decide, repeats)))
    device = jax.devices()[0]
    print(f"{worlds} worlds, policy width {policy.width}, critic width {critic.width} with {critic.layers} layers; ", end="")
    print(f"{device.platform} ({device.device_kind}), jax {jax.__version__}, Python {sys.version.split()[0]}\n")
    print("| a decision of all worlds | compile, s | CPU, ms | wall, ms |\n|---|---|---|---|")
    for name, (compiled, cpu, wall) in rows:
        print(f"| {name} | {compiled:.1f} | {cpu:.1f} | {wall:.1f} |")


if __name__ == "__main__":
    runtime.setup()
    app.run(main)
