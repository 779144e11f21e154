"""Who diagnoses, at one budget (the paper's table 3): re-rollouts and rules, a language model, or chance.

bash launch/local.sh --config=experiments/ablations/diagnoser.py:scripted
bash launch/local.sh --config=experiments/ablations/diagnoser.py:llm        (a model: docs/language_models.md)
bash launch/local.sh --config=experiments/ablations/diagnoser.py:random
bash launch/local.sh --config=experiments/ablations/diagnoser.py:smoke      (one round, 85 s of CPU time; --config.agents.diagnoser=random)

Everything else is the quickstart's, the other agents scripted. Three seeds each (--config.seed=0, 1, 2). Then, side by side:

bash launch/local.sh --mode=compare --workdir=runs/diagnoser-scripted --against=runs/diagnoser-llm,runs/diagnoser-random
"""

from coda_jax import config as settings


def get_config(variant: str = "scripted") -> settings.Config:
    variants = ("scripted", "llm", "random", "smoke")
    if variant not in variants:
        raise settings.InputError(f'diagnoser has no variant "{variant}"; use one of {", ".join(variants)}')
    config = settings.default("cpu")
    config.rounds.count = 3
    if variant != "smoke":
        config.agents.diagnoser = variant
        return config
    config.agents.diagnoser = "scripted"
    config.update(
        {
            "horizon": {"pick_place": 60},
            "sim": {"worlds": 16},
            "planner": {"speed": 1.0},
            "demos": {"count": 16},
            "policy": {"width": 64},
            "clone": {"steps": 300, "batch": 64, "language_batch": 32},
            "rounds": {"count": 1, "bases": 8, "environments": 4, "demos": 1, "rollouts": 2, "most_rollouts": 4, "steps": 50, "warmup": 5},
            "diagnose": {"failures": 8, "rerollouts": 2, "least_gain": 0.0, "sure": 0.0},  # so little says nothing: blame all the same
            "engine": {"modes": 2, "levels": (0.5, 1.0), "scenes": 2, "rollouts": 1, "least_band": 0.0},
            "experience": {"rows": 4096, "episodes": 256, "seeds": 8},
            "critic": {"width": 16, "layers": 2, "heads": 2, "steps": 10, "batch": 8, "candidates": 2, "warmup": 2, "shift_steps": 4},
            "actor": {"candidates": 2},
            "potential": {"gate_demos": 2},
            "control": {"modes": 2, "scenes": 4, "most_scenes": 4, "rollouts": 2},
            "schedule": {"window": 50, "most_updates": 100},
            "evaluate": {"scenes": 4, "films": 0},
        }
    )
    return config
