"""All task families: one policy for all of them, or one policy for each, by co-evolution on a CPU.

bash launch/local.sh --config=experiments/four_families.py                  (one policy for every family)
bash launch/local.sh --config=experiments/four_families.py:put_inside      (one family; its own policy)
bash launch/local.sh --config=experiments/four_families.py:smoke           (every family, without rounds, a few minutes)

Budget of a family: 100 demonstrations, 3,000 updates of cloning, one round of 16 environments and 750 updates; several families share one
run with the sum of them. Suites of every family must be frozen.
"""

from coda_jax import config as settings


def get_config(variant: str = "") -> settings.Config:
    config = settings.default("cpu")
    known = settings.FAMILIES
    if variant not in ("", "smoke", *known):
        raise settings.InputError(f'four_families has no variant "{variant}"; use none, smoke, {", ".join(known)}')
    chosen = (variant,) if variant in known else known
    config.family = ",".join(chosen)
    config.demos.count = 100 * len(chosen)
    config.clone.steps = 3000 * len(chosen)
    config.evaluate.scenes = 20
    config.rounds.count = 1
    config.rounds.bases = 24 * len(chosen)
    config.rounds.environments = 16 * len(chosen)
    config.rounds.steps = config.schedule.window = 750 * len(chosen)
    config.schedule.most_updates = 2 * config.rounds.steps
    config.experience.rows = 2**17  # episodes of the longest families are twice as long
    if variant == "smoke":
        config.rounds.count = 0
        config.sim.worlds = 16
        config.demos.count, config.clone.steps, config.evaluate.scenes = 8 * len(chosen), 60, 2
    return config
