"""Look for what is wrong with the LIBERO suites before running them: ``python -m coda_jax.loop.libero_lint``.

Prints tables as markdown (docs/results/libero_lint.md says what their columns mean); --physics also steps the suites' initial states in
this MuJoCo, which makes the official environments once.
"""

from __future__ import annotations

import argparse
import sys

from coda_jax import runtime
from coda_jax.runtime import InputError


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m coda_jax.loop.libero_lint",
        description="What is wrong with the LIBERO suites: goals, initial states, prompts; with --physics how their states begin.",
        epilog="The columns are explained in docs/results/libero_lint.md. Exit codes: 0 done, 2 bad input, or unscorable under --strict.",
    )
    parser.add_argument("--suites", default="", help="names as libero_goal or libero_goal_swap, separated by commas; all 20 if left out")
    parser.add_argument("--physics", action="store_true", help="step initial states in this MuJoCo (minutes a suite)")
    parser.add_argument("--every", type=int, default=5, help="of a task's initial states, every so-many-th is stepped [%(default)s]")
    parser.add_argument("--strict", action="store_true", help="exit with 2 where a task cannot be scored")
    options = parser.parse_args(arguments)
    runtime.setup()
    from coda_jax.evaluation.libero import lint
    from coda_jax.scenes.libero import tasks

    try:
        if options.every < 1:
            raise InputError(f"--every={options.every}: every first, second, ... state: use 1 or more")
        wanted = tuple(dict.fromkeys(name.strip() for name in options.suites.split(","))) if options.suites else tasks.SUITES
        physics = None
        if options.physics:
            from coda_jax.evaluation.libero import starts

            physics = starts.examine(starts.shared_models(wanted), options.every)
        found = []
        for suite in wanted:
            found.append(lint.lint(suite, physics=physics, said=lambda key: print(key, file=sys.stderr)))
        print(lint.from_files(found))
        if physics is not None:
            print(f"\n{lint.from_physics(found)}\n\n{lint.details(found)}")
        if options.strict:
            lint.refuse_unscorable(found)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
