"""Made-up records."""

from coda_jax.evaluation.libero.records import Episode

VERSIONS = {"mujoco": "2.3.7"}


def episode(**changed) -> Episode:
    values = {
        "format": 1,
        "stack": "official",
        "policy": "a" * 64,
        "observes": "state",
        "seed": 7,
        "settle_steps": 10,
        "replan_steps": 5,
        "most_steps": 0,
        "versions": VERSIONS,
        "suite": "libero_goal_swap",
        "task": 3,
        "name": "put_the_bowl_on_the_plate",
        "bddl_sha256": "b" * 64,
        "init_index": 17,
        "init_sha256": "c" * 64,
        "prompt": "put the bowl on the plate",
        "prompt_source": "bddl",
        "step_limit": 300,
        "fixture_seed": 3024,
        "fixtures": {"wine_rack_1": (0.0, 0.1, 0.9, 1.0, 0.0, 0.0, 0.0)},
        "steps": 120,
        "decisions": 24,
        "solved_by_settling": False,
        "outcome": "success",
        "error": None,
        "final_qpos": (0.1, 0.2),
        "wall_s": 3.5,
    }
    return Episode(**(values | changed))


def failed(**changed) -> Episode:
    return episode(**({"outcome": "failure", "steps": 300} | changed))


def lost(**changed) -> Episode:
    return episode(**({"outcome": "error", "error": "the state is not finite", "final_qpos": None} | changed))
