"""What success is worth without skill: ``python -m benchmarks.floors [--families=articulated] [--split=validation]``.

Three hands that know nothing of the task act in every scene of the frozen suites: one at rest, one that wanders at random, and one that
moves straight at the thing to be moved with open jaws; each decides once in eight control steps, as a policy of chunks does, so that the
last one overshoots and sweeps. A policy means something above the best of them. Markdown goes to stdout.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import numpy as np
from absl import app, flags

from coda_jax import config as settings
from coda_jax import runtime
from coda_jax.scenes.spec import SceneSpec
from coda_jax.sim.simulator import Simulator

_FAMILIES = flags.DEFINE_list("families", list(settings.FAMILIES), "Families whose suites are tried.")
_SPLIT = flags.DEFINE_enum("split", "validation", ["validation", "test"], "Split of the suites.")
_SEED = flags.DEFINE_integer("seed", 0, "Seed of the hand that wanders.")

_HELD_STEPS = 8  # control steps of a decision
_GAIN_PER_M = 10.0  # of the hand that pushes: full speed from 10 cm on
_MEMORY, _SPREAD = 0.7, 0.6  # of the hand that wanders: share kept from step to step, and what is added

Hand = Callable[[np.ndarray], np.ndarray]  # [b, 3] m from the grip point to the target's centre -> actions [b, 7]


def at_rest(away: np.ndarray) -> np.ndarray:
    """Nothing."""
    return np.zeros((len(away), 7))


def wandering(seed: int) -> Hand:
    """A random walk that forgets, jaws included."""
    rng, last = np.random.default_rng(seed), np.zeros((0, 7))

    def act(away: np.ndarray) -> np.ndarray:
        nonlocal last
        before = last if len(last) == len(away) else np.zeros((len(away), 7))
        last = _MEMORY * before + rng.normal(0.0, _SPREAD, (len(away), 7))
        return np.clip(last, -1.0, 1.0)

    return act


def pushing(away: np.ndarray) -> np.ndarray:
    """Straight at the target's centre, jaws open."""
    action = np.zeros((len(away), 7))
    action[:, :3] = np.clip(_GAIN_PER_M * away, -1.0, 1.0)
    action[:, 6] = -1.0
    return action


def solved(sim: Simulator, specs: list[SceneSpec], horizon: int, hand: Hand) -> int:
    """Scenes of ``specs``, at most one a world, that the hand solves within ``horizon`` control steps."""
    from coda_jax.scenes.families import read_goal
    from coda_jax.sim.simulator import episode_of

    batch = sim.compile([episode_of(spec, horizon, (i, 0)) for i, spec in enumerate(specs)])
    state = sim.reset(batch)
    rows = np.arange(len(specs))
    target = np.array([batch.models[i].index[read_goal(spec).target] for i, spec in enumerate(specs)])
    done = np.zeros(sim.worlds, bool)
    for _ in range(math.ceil(horizon / _HELD_STEPS)):
        chunk = np.zeros((sim.worlds, _HELD_STEPS, 7), np.float32)
        chunk[rows] = hand(np.asarray(state.view.pos)[rows, target] - np.asarray(state.view.ee_pos)[rows])[:, None]
        state, trace = sim.step_chunk(batch, state, chunk)
        done |= trace.terminated
    return int(done.sum())


def main(arguments: list[str]) -> None:
    if len(arguments) > 1:
        raise app.UsageError(f"unknown argument {arguments[1]}")
    runtime.setup()
    from coda_jax.evaluation.statistics import wilson
    from coda_jax.loop import parts
    from coda_jax.scenes import suites
    from coda_jax.scenes.catalogue import Catalogue

    config, catalogue = settings.default(), Catalogue.all()
    print("| family | suite | at rest | wandering | pushing | best, 95 % |")
    print("|---|---|---|---|---|---|")
    for family in _FAMILIES.value:
        for suite in settings.SUITES:
            specs = list(suites.load(family, suite, _SPLIT.value))
            config.sim.worlds = len(specs)
            sim = parts.native_simulator(config, catalogue, parts.common_bucket(specs, catalogue))
            k = [solved(sim, specs, settings.horizon(config, family), hand) for hand in (at_rest, wandering(_SEED.value), pushing)]
            low, high = wilson(max(k), len(specs))
            shares = " | ".join(f"{100 * one / len(specs):.0f} %" for one in k)
            print(f"| `{family}` | {suite} | {shares} | {100 * low:.0f} .. {100 * high:.0f} |", flush=True)
            print(f"{family} {suite}: {k} of {len(specs)}", file=sys.stderr)


if __name__ == "__main__":
    app.run(main)
