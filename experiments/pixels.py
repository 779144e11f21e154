"""Pick-and-place by a policy that sees pictures of two cameras instead of the scene's state, cloned and evaluated on a CPU.

bash launch/local.sh --config=experiments/pixels.py            (6 CPU minutes: id 3/50, docs/results/pixels.md)
bash launch/local.sh --config=experiments/pixels.py:smoke      (ends within two minutes)
"""

from coda_jax import config as settings


def get_config(variant: str = "") -> settings.Config:
    config = settings.default("cpu")
    config.obs = "pixels"
    config.demos.count = 200
    config.clone.steps, config.clone.batch, config.clone.warmup = 1000, 128, 50
    config.checkpoint.every = 250
    config.evaluate.suites = ("id",)
    if variant == "smoke":
        config.sim.worlds = 16
        config.demos.count = 16
        config.clone.steps = 60
        config.evaluate.scenes = 4
    elif variant:
        raise settings.InputError(f'pixels has no variant "{variant}"; use none or smoke')
    return config
