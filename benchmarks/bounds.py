"""Automatic bounds: the error of a mean of log-normal incomes, over that of the best fixed power of two.

The error is the RMSE against the mean of the people's own values, so it has the bias of limiting them in it. Nobody
knows the best power of two: it is found by looking at the data, and has all of epsilon. Runs are seeded.
"""

import math

import numpy as np
from timing import Row, quantity, show

import shuffledp as sdp

PEOPLE, RUNS, MOST = 10**5, 100, 2.3
INCOMES = ((10.0, 0.6), (10.0, 0.8), (10.3, 1.0))
MODELS = {"central": {}, "shuffle": {"delta": 1e-8}}


def rows() -> list[Row]:
    return [compare(model, *each) for model in MODELS for each in INCOMES]


def compare(model: str, mu: float, sigma: float) -> Row:
    values = np.random.default_rng(1).lognormal(mu, sigma, PEOPLE)
    best, power = min((find_error(model, values, power), power) for power in range(13, 25))
    errors = [
        ask(model, values, "auto", "auto", seed).estimate.value - values.mean()
        for seed in range(RUNS)
    ]
    return quantity(
        f"mean of log-normal({mu:g}, {sigma:g}), {PEOPLE:.0e} people, epsilon 1, {model}: RMSE with automatic bounds",
        baseline=f"{best:.3g} with 0 .. 2^{power}",
        ours=math.sqrt(np.mean(np.square(errors))) / best,
        unit="x",
        at_most=MOST,
    )


def find_error(model: str, values: np.ndarray, power: int) -> float:
    answer = ask(model, values, 0.0, 2.0**power, 1)
    bias = np.minimum(values, 2.0**power).mean() - values.mean()
    return math.hypot(float(answer.estimate.stderr), bias)


def ask(model: str, values: np.ndarray, lower: object, upper: object, seed: int) -> sdp.Answer:
    return sdp.ask(
        values,
        "mean",
        lower=lower,
        upper=upper,
        on_invalid="clamp",
        epsilon=1.0,
        model=model,
        rng=sdp.SeededWords(seed),
        **MODELS[model],
    )


if __name__ == "__main__":
    show(rows(), "Automatic bounds")
