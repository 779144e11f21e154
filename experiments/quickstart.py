"""Pick-and-place from nothing on a CPU: scenes, demonstrations, a cloned policy, three rounds of co-evolution, five suites.

bash launch/local.sh --config=experiments/quickstart.py
bash launch/local.sh --config=experiments/quickstart.py:clone      (without rounds)
bash launch/local.sh --config=experiments/quickstart.py:smoke      (without rounds, ends within two minutes)
"""

from coda_jax import config as settings


def get_config(variant: str = "") -> settings.Config:
    config = settings.default("cpu")
    if variant == "smoke":
        config.sim.worlds = 16
        config.demos.count = 16
        config.clone.steps = 60
        config.evaluate.scenes = 8
    elif variant not in ("", "clone"):
        raise settings.InputError(f'quickstart has no variant "{variant}"; use none, clone or smoke')
    config.rounds.count = 0 if variant else 3
    return config
