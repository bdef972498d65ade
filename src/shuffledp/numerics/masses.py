"""Masses of integer laws, as arrays, with relative accuracy far into the tails.

Loader's saddle-point form: with s(x) = ln x! - ln(sqrt(2 pi x) (x/e)^x), the error of Stirling's
formula, and D(x, m) = x ln(x/m) + m - x,

    Pr[Poisson(m) = k]  = exp(-s(k) - D(k, m)) / sqrt(2 pi k)
    Pr[Bin(n, p) = k]   = exp(s(n) - s(k) - s(n-k) - D(k, np) - D(n-k, n(1-p))) sqrt(n / (2 pi k (n-k)))
    Pr[NB(r, p) = k]    = r / (r+k) times "Pr[Bin(r+k, p) = k]" with real r.

No large numbers cancel. Reference: Loader 2000, "Fast and accurate computation of binomial
probabilities".
"""

import math

import numpy as np

from shuffledp.core.arrays import Floats

__all__ = [
    "RELATIVE_ERROR",
    "binomial",
    "log_binomial",
    "log_negative_binomial",
    "log_poisson",
    "stirling_error",
]

RELATIVE_ERROR = 1e-9
"""Bound on the relative error up to sizes of 10^12; tests against 40 digits find below 2e-10."""

_LOG_TAU = math.log(2 * math.pi)


def binomial(k: Floats, n: int, p: float) -> Floats:
    """Pr[Bin(n, p) = k] for 0 < p < 1; 0 outside 0 .. n.

    >>> binomial(np.array([-1.0, 0.0, 2.0, 4.0]), 4, 0.5)
    array([0.    , 0.0625, 0.375 , 0.0625])
    """
    k = np.asarray(k, dtype=np.float64)
    return np.where((k < 0) | (k > n), 0.0, np.exp(log_binomial(np.clip(k, 0, n), n, p)))


def log_binomial(k: Floats, n: int, p: float) -> Floats:
    """ln Pr[Bin(n, p) = k], 0 <= k <= n.

    >>> float(np.exp(log_binomial(np.array(2.0), 4, 0.5)).round(12))
    0.375
    """
    k = np.asarray(k, dtype=np.float64)
    inner = np.clip(k, 1, max(n - 1, 1))
    log = _log_split(inner, np.maximum(n - inner, 1.0), n, p)
    ends = np.where(k <= 0, n * math.log1p(-p), n * math.log(p))
    return np.where((k <= 0) | (k >= n), ends, log)


def log_poisson(k: Floats, mean: float) -> Floats:
    """ln Pr[Poisson(mean) = k], k >= 0.

    >>> np.exp(log_poisson(np.array([0.0, 1.0, 2.0]), 1.0)).round(6)
    array([0.367879, 0.367879, 0.18394 ])
    """
    k = np.asarray(k, dtype=np.float64)
    inner = np.maximum(k, 1.0)
    log = -stirling_error(inner) - _deviance(inner, mean) - (_LOG_TAU + np.log(inner)) / 2
    return np.where(k <= 0, -mean, log)


def log_negative_binomial(k: Floats, r: float, p: float) -> Floats:
    """ln Pr[NB(r, p) = k], k >= 0: the mass is C(k + r - 1, k) (1 - p)^r p^k, for every real r > 0.

    >>> np.exp(log_negative_binomial(np.array([0.0, 1.0, 2.0]), 1.0, 0.5))
    array([0.5  , 0.25 , 0.125])
    """
    k = np.asarray(k, dtype=np.float64)
    inner = np.maximum(k, 1.0)
    log = _log_split(inner, np.full_like(inner, r), inner + r, p) + np.log(r / (r + inner))
    return np.where(k <= 0, r * math.log1p(-p), log)


def _log_split(k: Floats, rest: Floats, n: Floats | int, p: float) -> Floats:
    """ln of n! / (k! rest!) p^k (1 - p)^rest, n = k + rest, all positive reals."""
    total = np.asarray(n, dtype=np.float64)
    errors = stirling_error(total) - stirling_error(k) - stirling_error(rest)
    moved = k * (1 - p) - rest * p  # k - total p, and rest - total (1 - p) up to sign
    deviance = _deviance_of(moved, total * p) + _deviance_of(-moved, total * (1 - p))
    log: Floats = errors - deviance + (np.log(total) - np.log(k) - np.log(rest) - _LOG_TAU) / 2
    return log


def _deviance(x: Floats, mean: float) -> Floats:
    return _deviance_of(x - mean, np.asarray(mean))


def _deviance_of(moved: Floats, mean: Floats) -> Floats:
    """D(mean + moved, mean)."""
    u = np.maximum(moved / mean, -1 + 2.0**-53)
    direct = (1 + u) * np.log1p(u) - u
    # Near 0 the two parts cancel; the series is sum_(i>=2) (-u)^i / (i (i - 1)).
    series = np.zeros_like(u)
    for i in range(9, 1, -1):
        series = 1 / (i * (i - 1)) - u * series
    value: Floats = mean * np.where(np.abs(u) < 0.01, u * u * series, direct)
    return value


def stirling_error(x: Floats) -> Floats:
    """ln x! - ln(sqrt(2 pi x) (x/e)^x) for real x > 0, by its series from 16 on.

    >>> stirling_error(np.array([1.0, 100.0])).round(8)
    array([0.08106147, 0.00083333])
    """
    from scipy.special import gammaln

    x = np.asarray(x, dtype=np.float64)
    big = np.maximum(x, 16.0)
    inverse = 1 / (big * big)
    series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse / 1680))) / big
    small = x < 16
    if not small.any():
        return series
    low = np.where(small, x, 1.0)
    direct = gammaln(low + 1) - (low + 0.5) * np.log(low) + low - _LOG_TAU / 2
    return np.where(small, direct, series)
