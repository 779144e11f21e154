"""What the critic, its potentials and advantage-weighted updates give: ``python -m benchmarks.improvement --run=runs/clone``.

One fixed set of edited training scenes in which the cloned policy succeeds in 20 to 60 % of its rollouts. Each arm goes through the same
iterations from the same clone: roll out, label, train the critic, weight decisions, update the policy. Demonstrations are the clone's own.
Success is measured with fresh noise on the set and, one rollout a scene, on the validation suites. Every arm and seed is a line of
``results.jsonl`` in the folder, a second start skips what is there. Tables go to stdout, progress to stderr; ``--tables`` only prints.
"""

from __future__ import annotations

import json
from pathlib import Path

from absl import app, flags, logging

from benchmarks.improvement.plan import MAIN, Plan
from coda_jax import runtime

_RUN = flags.DEFINE_string("run", "runs/clone", "Run folder with the clone, made by experiments/quickstart.py:clone.")
_FOLDER = flags.DEFINE_string("folder", "runs/improvement", "Where the set of scenes and the results are kept.")
_SEEDS = flags.DEFINE_integer("seeds", 3, "Repeats: noise of rollouts and of every training.", lower_bound=1)
_ARMS = flags.DEFINE_list("arms", [], "Arms to run, all when empty.")
_SCENES = flags.DEFINE_integer("scenes", 64, "Scenes of the set.", lower_bound=4)
_ROLLOUTS = flags.DEFINE_integer("rollouts", 4, "Rollouts of each scene in each iteration.", lower_bound=1)
_ITERATIONS = flags.DEFINE_integer("iterations", 3, "Iterations of rollouts and training.", lower_bound=1)
_UPDATES = flags.DEFINE_integer("updates", 750, "Policy updates of an iteration.", lower_bound=1)
_TABLES = flags.DEFINE_bool("tables", False, "Print the tables of the results that are there and stop.")


def main(arguments: list[str]) -> None:
    if len(arguments) > 1:
        raise app.UsageError(f"unknown argument {arguments[1]!r}")
    folder, workdir = Path(_FOLDER.value), Path(_RUN.value)
    folder.mkdir(parents=True, exist_ok=True)
    from benchmarks.improvement import tables

    if not _TABLES.value:
        logging.set_verbosity(logging.WARNING)
        runtime.setup()
        from benchmarks.improvement.arm import run_arm
        from benchmarks.improvement.bench import Bench
        from benchmarks.improvement.scenes import choose_scenes
        from coda_jax.loop import demonstrations, evaluation, parts
        from coda_jax.loop import workdir as folders
        from coda_jax.loop.run import opened

        config = folders.read_config(workdir)
        with folders.locked(workdir), opened(config, workdir) as run:
            scenes = choose_scenes(run, folder, _SCENES.value)
            files = sorted(n for n in run.state.files if n.startswith("episodes/demos_"))
            stored = [s for n in files for s in demonstrations.load_file(run.folder / n)]
            suites = [s for specs in evaluation.chosen_scenes(config).values() for s in specs]
            bucket = parts.common_bucket(suites, run.everything)
            base = parts.simulator(config, run.everything, parts.training_bucket(run.train))
            plan = Plan(_SCENES.value, _ROLLOUTS.value, _ITERATIONS.value, _UPDATES.value)
            bench = Bench(plan, run, scenes, folder, base, parts.simulator(config, run.everything, bucket), stored)
            done = {(r["arm"], r["seed"]) for r in tables.read(folder)}
            for seed in range(_SEEDS.value):
                for name in _ARMS.value or MAIN:
                    if (name, seed) not in done:
                        row = run_arm(bench, name, seed)
                        with (folder / "results.jsonl").open("a") as file:
                            file.write(json.dumps(row) + "\n")
    print(tables.describe(tables.read(folder), folder))


if __name__ == "__main__":
    app.run(main)
