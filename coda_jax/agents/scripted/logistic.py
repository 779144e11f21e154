"""Ridge logistic regression in float64: convex, so few rows, constant columns and separated outcomes all have one finite answer."""

from __future__ import annotations

import numpy as np

RIDGE = 1.0  # on standardised columns: a prior of one logit per standard deviation
_INTERCEPT_RIDGE = 0.05  # keeps the intercept finite when every row succeeds or fails
_STEPS = 50
_HALVINGS = 30
_TOLERANCE = 1e-10  # of the largest coefficient change


def sigmoid(z: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-z)) without overflow."""
    return 0.5 * (1 + np.tanh(0.5 * z))


def standardise(features: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns of mean 0 and standard deviation 1, [n, f], with the mean [f] and scale [f] used; constant columns become 0.

    A constant column's scale is infinite, so that any row standardised by it is 0 there: nothing was learned about it.
    """
    x = np.asarray(features, np.float64)
    mean, scale = x.mean(axis=0), x.std(axis=0)
    constant = scale <= 1e-9 * np.maximum(1.0, np.abs(mean))
    scale = np.where(constant, np.inf, scale)
    return (x - mean) / scale, mean, scale


def log_likelihood(z: np.ndarray, k: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """Binomial log likelihood of each row, without the coefficient that does not depend on the logits ``z``."""
    return k * z - trials * np.logaddexp(0, z)


def fit(x: np.ndarray, k: np.ndarray, trials: np.ndarray, ridge: float = RIDGE) -> np.ndarray:
    """Coefficients [1 + f], intercept first, that maximise sum_i log L_i - ridge/2 |beta|^2.

    Damped Newton steps: every step is halved until the objective does not fall, so it converges from anywhere.

    Args:
      x: [n, f] standardised columns. k: [n] successes. trials: [n] of so many.
    """
    design = np.hstack([np.ones((len(x), 1)), x])
    penalty = np.full(design.shape[1], ridge)
    penalty[0] = _INTERCEPT_RIDGE
    rate = (k.sum() + 0.5) / (trials.sum() + 1)
    start = np.zeros(design.shape[1])
    start[0] = np.log(rate / (1 - rate))  # the weak penalty pulls the intercept here

    def objective(beta: np.ndarray) -> float:
        return float(log_likelihood(design @ beta, k, trials).sum() - 0.5 * (beta - start) ** 2 @ penalty)

    beta, value = start.copy(), objective(start)
    for _ in range(_STEPS):
        p = sigmoid(design @ beta)
        gradient = design.T @ (k - trials * p) - penalty * (beta - start)
        hessian = (design.T * (trials * p * (1 - p))) @ design + np.diag(penalty)
        step = np.linalg.solve(hessian, gradient)
        for _ in range(_HALVINGS):
            new = objective(beta + step)
            if new >= value - 1e-12 * abs(value):
                break
            step *= 0.5
        beta, value = beta + step, new
        if np.abs(step).max() < _TOLERANCE:
            break
    return beta
