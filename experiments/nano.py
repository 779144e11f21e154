"""Every stage of a co-evolution in little time, for tests and for looking at how a run is put together; its figures mean nothing.

bash launch/local.sh --config=experiments/nano.py      (99 s of CPU time from an empty compilation cache, 54 s later)
"""

from coda_jax import config as settings


def get_config(variant: str = "") -> settings.Config:
    if variant:
        raise settings.InputError(f'nano has no variant "{variant}"')
    config = settings.default("cpu")
    config.update(
        {
            "horizon": {"pick_place": 60},
            "sim": {"worlds": 16},
            "planner": {"speed": 1.0},
            "demos": {"count": 16},
            "policy": {"width": 32, "key_dim": 16},
            "clone": {"steps": 100, "batch": 64, "language_batch": 32},
            "rounds": {
                "count": 2,
                "bases": 8,
                "collect": 1,
                "environments": 4,
                "demos": 1,
                "own": 4,
                "rollouts": 2,
                "most_rollouts": 4,
                "steps": 50,
                "warmup": 5,
            },
            # a policy that never succeeds would leave nothing to blame on a factor: here everything is blamed and every level used
            "diagnose": {"failures": 4, "rerollouts": 2, "least_gain": 0.0, "sure": 0.0},
            "engine": {"modes": 2, "levels": (0.5, 1.0), "scenes": 2, "rollouts": 1, "least_band": 0.0},
            "experience": {"rows": 4096, "episodes": 256, "seeds": 8},
            "critic": {"width": 16, "layers": 2, "heads": 2, "steps": 10, "batch": 8, "candidates": 2, "warmup": 2, "shift_steps": 4},
            "actor": {"candidates": 2},
            "potential": {"gate_demos": 2},
            "control": {"modes": 1, "scenes": 4, "most_scenes": 4, "rollouts": 2},
            "schedule": {"window": 50, "most_updates": 100},
            "evaluate": {"scenes": 4, "films": 1},
        }
    )
    return config
