"""The paper's own values that stand beside ours. Its agents were vision-language models on other scenes: not the same experiment."""

TARGETING = {"CoDA": 0.667, "uniform": 0.246}
COVERAGE_BITS = {"CoDA": 3.18, "uniform": 3.42}
VALID_SCENES = {"CoDA": 0.889, "uniform": 0.713}
LIBERO_PRO_POLICY = "pi0.5"
LIBERO_PRO = {  # table 2, per cent, by suite
    "standard": {"before": 97.1, "after 15 rounds": 97.4},
    "pos": {"before": 25.0, "after 5 rounds": 82.0, "after 15 rounds": 84.0},
    "task": {"before": 1.0, "after 5 rounds": 72.0, "after 15 rounds": 76.0},
}


def beside(values: dict[str, float], shown: str) -> str:
    """ "paper: CoDA 88.9%, uniform 71.3%" with ``shown`` as the format of a number."""
    return "paper: " + ", ".join(f"{name} {value:{shown}}" for name, value in values.items())
