"""Binomial masses and tails, and normal tails, of whole arrays, each between two certified floats.

*Masses* are Loader's saddle-point form (see masses.py); the bound of its error is added up term by term.

*Tails* are a continued fraction. With p the probability of a success, q = 1 - p and k + 1 <= (N + 1) p,

    Pr[Bin(N, p) <= k] = Pr[Bin(N, p) = k] p (N - k) / K_0,    K_n = beta_n + alpha_(n+1) / K_(n+1),
    alpha_n = n (k + 1 - n) (N - k + n - 1) (N + n) q^2 / (N - k + 2 n - 1)^2,
    beta_n  = n + n (k + 1 - n) q / (N - k + 2 n - 1)
                + (N - k + n) ((N + 1) p - k + n (1 + p)) / (N - k + 2 n + 1)

(DiDonato, Morris 1992, "Algorithm 708: significant digit computation of the incomplete beta function
ratios"; a test checks it as an identity of fractions). It ends, because alpha_(k+1) is 0. Until then all
alpha and beta are positive, so K_n lies between beta_n and infinity, and each step back turns an enclosure
of K_(n+1) into a narrower one of K_n. Nothing is subtracted, so rounding errors only add up.

p is a float, or an exact fraction between two of them. Tails fall with p and masses have one peak in p, so
both floats' enclosures together hold for what is between (a peak that close is below a unit high).

*Normal tails*. Mills' ratio M(x) = Pr[Z >= x] / phi(x) is a continued fraction, too: the repeated integrals I_n(x) =
int_x^inf (t - x)^n / n! phi(t) dt are positive, and by parts (n + 1) I_(n+1) = I_(n-1) - x I_n with I_(-1) = phi, so

    M(x) = 1 / K_0,    K_n = I_(n-1) / I_n = x + (n + 1) / K_(n+1) > x    (Laplace).

Below 2 it is e^(x^2/2) sqrt(pi/2) - sum_k x^(2k+1) / (1 3 5 ... (2k+1)): both solve M' = x M - 1 and agree at 0.

Errors are counted in units (`rounding.UNIT`, where the one assumption about the machine stands).
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.core.errors import UnsupportedError
from shuffledp.numerics.masses import TINY, stirling_error
from shuffledp.numerics.rounding import UNIT, float_above, float_below

LARGEST_TRIALS = 2**50
"""Whole numbers up to here, and sums of a few of them, are floats."""

_LOG_TAU = math.log(2 * math.pi)
_STIRLING = 4e-14  # error of `stirling_error`: 1.3e-14 of its series, 16 steps of at most 8 units
_TERMS = 18  # of the series of the deviance: the next one is below 0.1^18 / 300
_FEWEST, _MOST = 10, 256  # steps of the continued fraction
_LAPLACE = 100  # steps of Laplace's fraction: from x = 2 on its ends agree to 20 digits
_CELLS = 1 << 16  # numbers of an array that are computed at once
_STEPS = 60.0  # times 1 / z^2, z deviations below the mean: then its ends agree to 6 digits or more


def bound_mass(k: Floats, N: Floats | int, p: Fraction | float) -> tuple[Floats, Floats]:
    """Return (low, high) around Pr[Bin(N, p) = k], for whole numbers 0 <= k <= N and 0 < p < 1.

    `high` is never below 1e-300, and below that `low` is 0.

    >>> low, high = bound_mass(np.array([2.0]), np.array([4.0]), 0.5)
    >>> bool(low[0] <= 0.375 <= high[0]), bool(high[0] / low[0] < 1 + 1e-11)
    (True, True)
    """
    return _join(_bound_mass, *_read(k, N), p)


def bound_mills(k: Floats, N: Floats | int, p: Fraction | float) -> tuple[Floats, Floats]:
    """Return (low, high) around Pr[Bin(N, p) <= k] / Pr[Bin(N, p) = k], if 0 <= k <= (N + 1) p - 1.

    >>> low, high = bound_mills(np.array([1.0]), np.array([4.0]), 0.5)
    >>> low.round(12), high.round(12)  # (1 + 4) / 4
    (array([1.25]), array([1.25]))
    """
    return _join(_bound_mills, *_broadcast(k, N), p)


def bound_mills_above(k: Floats, N: Floats | int, p: Fraction | float) -> tuple[Floats, Floats]:
    """Return (low, high) around Pr[Bin(N, p) >= k] / Pr[Bin(N, p) = k], if (N + 1) p <= k <= N.

    >>> low, high = bound_mills_above(np.array([3.0]), np.array([4.0]), 0.5)
    >>> low.round(12), high.round(12)
    (array([1.25]), array([1.25]))
    """
    k, N = _broadcast(k, N)
    # At least k successes are at most N - k failures.
    return _join(lambda k, N, p, q: _bound_mills(N - k, N, q, p), k, N, p)


def bound_at_most(k: Floats, N: Floats | int, p: Fraction | float) -> tuple[Floats, Floats]:
    """Return (low, high) around Pr[Bin(N, p) <= k], for whole numbers k and N, and 0 < p < 1.

    Relatively close below the mean; above it, relatively to Pr[Bin(N, p) > k].

    >>> low, high = bound_at_most(np.array([-1.0, 1.0, 3.0]), np.array([3.0, 3.0, 3.0]), 0.5)
    >>> low.round(12), high.round(12)
    (array([0. , 0.5, 1. ]), array([0. , 0.5, 1. ]))
    """
    return _join(_bound_at_most, *_broadcast(k, N), p)


def bound_poisson_mass(k: Floats, mean: float) -> tuple[Floats, Floats]:
    """Return (low, high) around Pr[Poisson(mean) = k], for whole numbers k >= 0.

    >>> low, high = bound_poisson_mass(np.array([0.0, 1.0]), 1.0)
    >>> bool((low <= math.exp(-1)).all()), bool((high >= math.exp(-1)).all())
    (True, True)
    """
    inner = np.maximum(np.asarray(k, dtype=np.float64), 1.0)
    moved = inner - mean
    value, wrong = _deviance(moved, np.full(inner.shape, mean))
    log = -stirling_error(inner) - value - (np.log(inner) + _LOG_TAU) / 2
    slope = np.abs(np.log1p(np.maximum(moved / mean, -1 + UNIT)))
    error = _STIRLING + wrong + UNIT * (8 * (2 + np.log(inner)) + 2 * np.abs(moved) * slope)
    none = np.asarray(k) <= 0
    return _round_out(np.where(none, -mean, log), np.where(none, 16 * UNIT * mean, error))


def bound_normal_mills(x: Floats) -> tuple[Floats, Floats]:
    """Return (low, high) around Mills' ratio Pr[Z >= x] / phi(x) of a standard normal Z, for x >= -10.

    >>> low, high = bound_normal_mills(np.array([-1.0, 0.0, 1.0, 30.0]))
    >>> low.round(8)
    array([3.47705181, 1.25331414, 0.65567954, 0.03329642])
    >>> bool(np.all(high / low < 1 + 1e-12))
    True
    """
    values = np.asarray(x, dtype=np.float64)
    if values.size and not values.min() >= -10:
        raise UnsupportedError(f"Mills' ratio at {values.min()} is not certified")
    low, high = np.empty(values.shape), np.empty(values.shape)
    far, near = values >= 2, np.abs(values) < 2
    low[far], high[far] = _bound_laplace(values[far])
    # Terms that are cut fall by half or faster: all of them are below 2 2^83 / (1 3 5 ... 83) < 1e-30 if |x| < 2,
    # and below 2 10^403 / (1 3 5 ... 403) < 1e-30 up to 10.
    low[near], high[near] = _bound_mills_series(values[near], 40)
    rest = ~far & ~near
    low[rest], high[rest] = _bound_mills_series(values[rest], 200)
    return low, high


def _bound_laplace(x: Floats) -> tuple[Floats, Floats]:
    ends = np.stack([x, np.full(x.shape, math.inf)])  # around the last K
    for n in range(_LAPLACE, 0, -1):
        ends = x + n / ends[::-1]
    wrong = 2 * (_LAPLACE + 2) * UNIT  # two roundings each step; nothing is subtracted
    return 1 / ends[1] * (1 - wrong), 1 / ends[0] * (1 + wrong)


def _bound_mills_series(x: Floats, terms: int) -> tuple[Floats, Floats]:
    square = x * x
    grown = math.sqrt(math.pi / 2) * np.exp(square / 2)
    total = np.ones(x.shape)
    for k in range(terms, 0, -1):
        total = 1 + square / (2 * k + 1) * total
    total = x * total
    # All terms of the sum have one sign and at most 4 roundings a step; x^2/2 is off by a unit.
    error = UNIT * (grown * (16 + square) + np.abs(total) * 4 * (terms + 2))
    value = grown - total
    error += 4 * UNIT * np.abs(value)
    return value - error, value + error


def _join(
    bound: Callable[[Floats, Floats, float, float], tuple[Floats, Floats]],
    k: Floats,
    N: Floats,
    p: Fraction | float,
) -> tuple[Floats, Floats]:
    """Return the enclosure for p, or for all numbers between the two floats around p."""
    if isinstance(p, float):
        return bound(k, N, p, 1 - p)
    small = min(p, 1 - p)
    pairs = [
        (end, 1 - end) if 2 * p <= 1 else (1 - end, end)
        for end in sorted({float_below(small), float_above(small)})
    ]
    low, high = bound(k, N, *pairs[0])
    for pair in pairs[1:]:
        least, most = bound(k, N, *pair)
        low, high = np.minimum(low, least), np.maximum(high, most) * (1 + 4 * UNIT)
    return low, high


def _read(k: Floats, N: Floats | int) -> tuple[Floats, Floats]:
    k, N = np.asarray(k, dtype=np.float64), np.asarray(N, dtype=np.float64)
    if N.size and N.max() > LARGEST_TRIALS:
        raise UnsupportedError(f"a binomial law of {N.max():g} trials has no certified tails")
    return k, N


def _broadcast(k: Floats, N: Floats | int) -> tuple[Floats, Floats]:
    k, N = np.broadcast_arrays(*_read(k, N))
    return k, N


# From here on p and q come together. One of them was computed as 1 minus the other; the smaller one is
# exact either way (1 - p is exact for p >= 1/2), the larger one is off by at most one unit.


def _bound_at_most(k: Floats, N: Floats, p: float, q: float) -> tuple[Floats, Floats]:
    inside = (k >= 0) & (k < N)
    left = inside & (k + 1 <= (N + 1) * p)
    right = inside & ~left
    low, high = np.where(k >= N, 1.0, 0.0), np.where(k < 0, 0.0, 1.0)
    low[left], high[left] = _bound_tail(k[left], N[left], p, q)
    # Pr[X > k] is that of at most N - k - 1 failures.
    least, most = _bound_tail(N[right] - k[right] - 1, N[right], q, p)
    low[right], high[right] = np.maximum(1 - most - UNIT, 0.0), np.minimum(1 - least + UNIT, 1.0)
    return low, high


def _bound_tail(k: Floats, N: Floats, p: float, q: float) -> tuple[Floats, Floats]:
    masses, mills = _bound_mass(k, N, p, q), _bound_mills(k, N, p, q)
    low = masses[0] * mills[0] * (1 - 2 * UNIT)
    return low, np.clip(masses[1] * mills[1] * (1 + 2 * UNIT), TINY, 1.0)


def _bound_mills(k: Floats, N: Floats, p: float, q: float) -> tuple[Floats, Floats]:
    # (N + 1) p - k, by whichever of p and q loses less.
    room = (N + 1) * p - k if p <= q else (N + 1 - k) - (N + 1) * q
    wanted = _FEWEST + _STEPS * N * p * q / np.maximum(room, 1.0) ** 2
    steps = np.ceil(np.minimum(np.minimum(wanted, _MOST), k + 1))
    low, high = np.empty(k.shape), np.empty(k.shape)
    for least, most in ((0, 64), (64, _MOST)):
        group = (steps > least) & (steps <= most)
        if group.any():
            last = int(steps[group].max())
            low[group], high[group] = _step_back(k[group], N[group], room[group], p, q, last)
    return low, high


def _step_back(
    k: Floats, N: Floats, room: Floats, p: float, q: float, steps: int
) -> tuple[Floats, Floats]:
    """Enclose p (N - k) / K_0, going back from an enclosure of K_steps."""
    rest = N - k
    lost = 4 * UNIT * ((N + 1) * min(p, q) + np.abs(room))  # the error of `room`
    at_once = max(1, _CELLS // max(len(k), 1))  # steps, so that their numbers stay in the cache
    ends, after = np.ones((2, len(k))), np.array([[0.0], [math.inf]])  # K_steps from beta on
    for last in range(steps, -1, -at_once):
        n = np.arange(max(last - at_once + 1, 0), last + 1, dtype=np.float64)[:, None]
        left = np.maximum(k + 1 - n, 0.0) * n * q  # 0 from the end of the fraction on
        near = np.maximum(rest + 2 * n - 1, 1.0)
        alpha = left * (rest + n - 1) * (N + n) * q / near**2
        share = (rest + n) / (rest + 2 * n + 1)
        beta = n + left / near + share * (room + n * (1 + p))
        unsure = share * lost
        around = np.stack([beta - unsure, beta + unsure], axis=1)  # [steps at once, 2, laws]
        for i in range(len(n) - 1, -1, -1):
            ends, after = around[i] + after / ends[::-1], alpha[i]
    # Each alpha and beta has at most 12 roundings, and each step two more.
    wrong = 16 * (steps + 2) * UNIT
    top = p * rest
    return top / ends[1] * (1 - wrong), top / ends[0] * (1 + wrong)


def _bound_mass(k: Floats, N: Floats, p: float, q: float) -> tuple[Floats, Floats]:
    return _round_out(*_log_mass(k, N, p, q))


def _round_out(log: Floats, error: Floats) -> tuple[Floats, Floats]:
    low, high = np.exp(log - error), np.exp(np.minimum(log + error, 0.0))
    low = np.where(low > TINY, low, 0.0)  # the smallest floats have no relative accuracy
    return low * (1 - 16 * UNIT), np.clip(high * (1 + 16 * UNIT), TINY, 1.0)


def _log_mass(k: Floats, N: Floats, p: float, q: float) -> tuple[Floats, Floats]:
    """Return ln Pr[Bin(N, p) = k] and a bound of its error; for a single N, what depends on it alone is computed once."""
    total = np.maximum(N, 2.0)
    inner = np.minimum(np.maximum(k, 1.0), total - 1)
    rest = total - inner
    peak = stirling_error(total) - stirling_error(inner) - stirling_error(rest)
    # All three logarithms are at least 0.
    whole, parts = np.log(total), np.log(inner) + np.log(rest)
    log, error = (
        peak + (whole - parts - _LOG_TAU) / 2,
        3 * _STIRLING + 8 * UNIT * (2 + whole + parts),
    )
    # k - N p, by whichever of p and q loses less; both means may be off by two units.
    moved = inner - total * p if p <= q else total * q - rest
    off = 0.0 if p == 0.5 else 1.0  # half of a float is a float
    for mean, by in ((total * p, moved), (total * q, -moved)):
        value, wrong = _deviance(by, mean)
        log, error = log - value, error + wrong + off * 4 * UNIT * np.abs(by)
    # d ln Pr / d k times the error of `moved`, and the second order.
    slope = np.abs(np.log1p(moved / (total * p))) + np.abs(np.log1p(-moved / (total * q)))
    lost = off * 2 * UNIT * (total * min(p, q) + np.abs(moved))
    error = error + lost * (slope + lost * (1 / inner + 1 / rest))
    none, all_of_them = N * _log_complement(p, q), N * _log_complement(q, p)
    ends = np.where(k <= 0, none, all_of_them)
    at_end = (k <= 0) | (k >= N)
    return np.where(at_end, ends, log), np.where(at_end, 16 * UNIT * np.abs(ends), error)


def _log_complement(p: float, q: float) -> float:
    """Return ln (1 - p), where q is 1 - p."""
    return math.log1p(-p) if p <= q else math.log(q)


def _deviance(moved: Floats, mean: Floats) -> tuple[Floats, Floats]:
    """D(mean + moved, mean) of masses.py, and a bound of its error if `moved` and `mean` are exact."""
    u = moved / mean
    log = np.log1p(np.maximum(u, -1 + UNIT))
    grown = (1 + u) * log
    direct = grown - u
    wrong = 16 * UNIT * (np.abs(grown) + np.abs(u) + np.abs(u * log))
    # Near 0 the two parts cancel; the series is sum_(i>=2) (-u)^i / (i (i - 1)).
    near = np.abs(u) < 0.1
    v = np.where(near, u, 0.0)
    series = np.zeros_like(v)
    for i in range(_TERMS + 1, 1, -1):
        series = 1 / (i * (i - 1)) - v * series
    value = np.where(near, v * v * series, direct)
    return mean * value, mean * np.where(near, 16 * UNIT * value, wrong)
