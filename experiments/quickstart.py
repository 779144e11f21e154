"""Pick-and-place from nothing on a CPU: scenes, demonstrations, a cloned policy, evaluation on five suites.

bash launch/local.sh --config=experiments/quickstart.py
bash launch/local.sh --config=experiments/quickstart.py:smoke      (ends within two minutes)
"""

from coda_jax import config as settings


def get_config(variant: str = "") -> settings.Config:
    config = settings.default("cpu")
    if variant == "smoke":
        config.sim.worlds = 16
        config.demos.count = 16
        config.clone.steps = 60
        config.evaluate.scenes = 8
    elif variant:
        raise settings.InputError(f'quickstart has no variant "{variant}"; use none, or: smoke')
    return config
