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


def fit(x: np.ndarray, k: np.ndarray, trials: np.ndarray, weights: np.ndarray | None = None, ridge: float = RIDGE) -> np.ndarray:
    """Coefficients [r, 1 + f], intercept first, that maximise sum_i w_i log L_i - ridge/2 |beta|^2, for each row of ``weights``.

    Damped Newton steps: every step is halved until the objective does not fall, so it converges from anywhere.

    Args:
      x: [n, f] standardised columns. k: [n] successes. trials: [n] of so many. weights: [r, n], e.g. bootstrap counts; ones if None.
    """
    w = np.ones((1, len(x))) if weights is None else np.asarray(weights, np.float64)
    design = np.hstack([np.ones((len(x), 1)), x])
    columns = design.shape[1]
    products = (design[:, :, None] * design[:, None, :]).reshape(len(x), -1)  # so that all Hessians are one matrix product
    penalty = np.full(columns, ridge)
    penalty[0] = _INTERCEPT_RIDGE
    rate = (w @ k + 0.5) / (w @ trials + 1)
    start = np.zeros((len(w), columns))
    start[:, 0] = np.log(rate / (1 - rate))  # the weak penalty pulls the intercept here

    def objective(beta: np.ndarray) -> np.ndarray:
        return (w * log_likelihood(beta @ design.T, k, trials)).sum(axis=1) - 0.5 * ((beta - start) ** 2 @ penalty)

    beta, value = start.copy(), objective(start)
    for _ in range(_STEPS):
        p = sigmoid(beta @ design.T)
        gradient = (w * (k - trials * p)) @ design - penalty * (beta - start)
        hessian = ((w * trials * p * (1 - p)) @ products).reshape(-1, columns, columns) + np.diag(penalty)
        step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        for _ in range(_HALVINGS):
            new = objective(beta + step)
            worse = new < value - 1e-12 * np.abs(value)
            if not worse.any():
                break
            step[worse] *= 0.5
        beta, value = beta + step, new
        if np.abs(step).max() < _TOLERANCE:
            break
    return beta
