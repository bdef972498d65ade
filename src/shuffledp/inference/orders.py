"""What theory says about the number of users that a uniformity test needs, up to constants."""

import math

from shuffledp.core.errors import ParameterError
from shuffledp.inference.complexity import Order

__all__ = ["uniformity_order"]

_LOCAL = "Acharya, Canonne, Freitag, Sun, Tyagi 2021"
_SHUFFLE = "Canonne, Lyu 2022"


def uniformity_order(
    *,
    k: int,
    alpha: float,
    epsilon: float,
    delta: float,
    model: str,
    coin: str,
    method: str,
) -> Order:
    """The order of the method; a sum of terms, each of which leads somewhere.

    >>> print(uniformity_order(k=256, alpha=0.1, epsilon=1.0, delta=1e-6, model="none",
    ...                     coin="private", method="collisions"))
    k^(1/2) / alpha^2 = 1600 (an order, constants 1; Paninski 2008)
    """
    found = _terms(k, alpha, epsilon, delta)
    name = f"{model}, {coin}, {method}"
    if name not in found:
        raise ParameterError("method", method, f"has no order for {model}, {coin} coin")
    formula, value, reference = found[name]
    return Order(formula=formula, value=value, reference=reference)


def _terms(k: int, alpha: float, epsilon: float, delta: float) -> dict[str, tuple[str, float, str]]:
    free = math.sqrt(k) / alpha**2
    growth = math.expm1(min(epsilon, 300.0))
    return {
        "none, private, collisions": ("k^(1/2) / alpha^2", free, "Paninski 2008"),
        "central, private, distance": (
            "k^(1/2) / alpha^2 + k^(1/2) / (alpha epsilon^(1/2)) + k^(1/3) / (alpha^4 epsilon^2)^(1/3)"
            " + 1 / (alpha epsilon)",
            free
            + math.sqrt(k / epsilon) / alpha
            + (k / (alpha**4 * epsilon**2)) ** (1 / 3)
            + 1 / (alpha * epsilon),
            "Acharya, Sun, Zhang 2018",
        ),
        "central, private, counts": (
            "k^(1/2) / alpha^2 + k^(3/4) / (alpha epsilon)",
            free + k**0.75 / (alpha * epsilon),
            "the variance of the noise",
        ),
        "local, private, hadamard": (
            "k^(3/2) / (alpha^2 (e^epsilon - 1)^2) + k^(3/2) / (alpha^2 e^epsilon) + k^(1/2) / alpha^2",
            k**1.5 / alpha**2 * (1 / growth**2 + 1 / (1 + growth)) + free,
            _LOCAL,
        ),
        "local, public, hashed": (
            "k / (alpha^2 (e^epsilon - 1)^2) + k / (alpha^2 e^(epsilon/2)) + k^(1/2) / alpha^2",
            k / alpha**2 * (1 / growth**2 + 1 / math.sqrt(1 + growth)) + free,
            _LOCAL,
        ),
        "local, public, halving": (
            "k / (alpha^2 (e^epsilon - 1)^2) + k / alpha^2",
            k / alpha**2 * (1 / growth**2 + 1),
            _LOCAL,
        ),
        **_shuffled(k, alpha, epsilon, math.log(1 / delta) if delta else math.inf),
    }


def _shuffled(
    k: int, alpha: float, epsilon: float, log: float
) -> dict[str, tuple[str, float, str]]:
    free = math.sqrt(k) / alpha**2
    private = (
        "k^(3/4) log(1/delta)^(1/2) / (alpha epsilon) + k^(1/2) / alpha^2",
        k**0.75 * math.sqrt(log) / (alpha * epsilon) + free,
        _SHUFFLE,
    )
    public = (
        "(k^2 log(1/delta) / (alpha^4 epsilon^2))^(1/3) + (k log(1/delta))^(1/2) / (alpha epsilon)"
        " + k^(1/2) / alpha^2",
        (k**2 * log / (alpha**4 * epsilon**2)) ** (1 / 3)
        + math.sqrt(k * log) / (alpha * epsilon)
        + free,
        _SHUFFLE,
    )
    return {
        "shuffle, private, direct": private,
        "shuffle, private, amplified": private,
        "shuffle, private, correlated": (
            "k^(3/4) / (alpha epsilon) + k^(1/2) / alpha^2",
            k**0.75 / (alpha * epsilon) + free,
            "the variance of the noise",
        ),
        "shuffle, public, direct": public,
        "shuffle, public, hashed": public,
        "shuffle, public, amplified": (
            "(k log(1/delta))^(1/2) / (alpha epsilon) + k / alpha^2",
            math.sqrt(k * log) / (alpha * epsilon) + k / alpha**2,
            f"{_LOCAL}, after amplification",
        ),
    }
