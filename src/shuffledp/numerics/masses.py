"""Masses and tails of integer laws, with relative accuracy far into the tails.

*Floats.* Loader's saddle-point form: with s(x) = ln x! - ln(sqrt(2 pi x) (x/e)^x), the error of Stirling's
formula, and D(x, m) = x ln(x/m) + m - x,

    Pr[Bin(n, p) = k]   = exp(s(n) - s(k) - s(n-k) - D(k, np) - D(n-k, n(1-p))) sqrt(n / (2 pi k (n-k)))
    Pr[NB(r, p) = k]    = r / (r+k) times "Pr[Bin(r+k, p) = k]" with real r.

No large numbers cancel. Reference: Loader 2000, "Fast and accurate computation of binomial
probabilities".

**Errors**, in units of 2^-53, if functions are right within 8 of them. All masses that are floats have a deviance D
below 745. Both parts of (1 + u) ln(1 + u) - u are at most 200 times their difference from |u| = 0.01 on, where the
series takes over: 2000 D. A mean m that is off by 2 units of itself changes D by 2 m |ln(1 + u) - u|, at most 56 D for
m <= 10^12. The logarithms of the peak make 1000. That is 1.6 million units, 2e-10, if k - m is right within itself. But
k - total p is off by 3 (v + |k - total p|), v the variance of the binomial; D changes with it by about |k - total p| / v,
so by 3 |k - total p| + 6 D. With total <= 10^9 that is at most 2 million, with total <= 10^12 and 20 standard deviations
30 million units, 3.4e-9; a negative binomial has v <= r.

*One mass or tail, on a certified side.* Masses come from Stirling's series in 60-digit decimals, tails are series of
positive terms whose rounding errors and remainder are bounded and added: an upper bound is one by proof.

*Arrays of masses and tails, each between two certified floats.* Masses are Loader's form again; the bound of its error
is added up term by term.

Tails are a continued fraction. With p the probability of a success, q = 1 - p and k + 1 <= (N + 1) p,

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
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.core.errors import UnsupportedError
from shuffledp.numerics.rounding import UNIT, float_above, float_below

RELATIVE_ERROR = 1e-9
"""Bound on the relative error of masses: binomial ones up to n = 10^9, negative binomial ones up to r = 10^9."""
FAR_ERROR = 5e-9
"""The same for binomial masses up to n = 10^12, within 20 standard deviations of the mean."""

_LOG_TAU = math.log(2 * math.pi)
_SERIES_FROM = 16  # Stirling's series has all digits from here on


def binomial_masses(k: Floats, n: int, p: float) -> Floats:
    """Return Pr[Bin(n, p) = k] for 0 < p < 1; 0 outside 0 .. n.

    >>> binomial_masses(np.array([-1.0, 0.0, 2.0, 4.0]), 4, 0.5)
    array([0.    , 0.0625, 0.375 , 0.0625])
    """
    k = np.asarray(k, dtype=np.float64)
    return np.where((k < 0) | (k > n), 0.0, np.exp(log_binomial(np.clip(k, 0, n), n, p)))


def log_binomial(k: Floats, n: int, p: float) -> Floats:
    """Return ln Pr[Bin(n, p) = k], 0 <= k <= n.

    >>> float(np.exp(log_binomial(np.array(2.0), 4, 0.5)).round(12))
    0.375
    """
    k = np.asarray(k, dtype=np.float64)
    inner = np.clip(k, 1, max(n - 1, 1))
    log = _log_split(inner, np.maximum(n - inner, 1.0), np.asarray(n, dtype=np.float64), p)
    ends = np.where(k <= 0, n * math.log1p(-p), n * math.log(p))
    return np.where((k <= 0) | (k >= n), ends, log)


def log_negative_binomial(k: Floats, r: float, p: float) -> Floats:
    """Return ln Pr[NB(r, p) = k], k >= 0: the mass is C(k + r - 1, k) (1 - p)^r p^k, for every real r > 0.

    >>> np.exp(log_negative_binomial(np.array([0.0, 1.0, 2.0]), 1.0, 0.5))
    array([0.5  , 0.25 , 0.125])
    """
    k = np.asarray(k, dtype=np.float64)
    inner = np.maximum(k, 1.0)
    log = _log_split(inner, np.full_like(inner, r), inner + r, p) + np.log(r / (r + inner))
    return np.where(k <= 0, r * math.log1p(-p), log)


def _log_split(k: Floats, rest: Floats, total: Floats, p: float) -> Floats:
    """Return ln of total! / (k! rest!) p^k (1 - p)^rest, total = k + rest, all positive reals."""
    moved = k * (1 - p) - rest * p  # k - total p, and rest - total (1 - p) up to sign
    deviance = _deviance(moved, total * p) + _deviance(-moved, total * (1 - p))
    return _log_peak(k, rest, total) - deviance


def _log_peak(k: Floats, rest: Floats, total: Floats) -> Floats:
    """Return the same without the deviances: as if k and rest were what p leads to expect."""
    errors = stirling_error(total) - stirling_error(k) - stirling_error(rest)
    log: Floats = errors + (np.log(total) - np.log(k) - np.log(rest) - _LOG_TAU) / 2
    return log


def _deviance(moved: Floats, mean: Floats) -> Floats:
    """Return D(mean + moved, mean)."""
    u = np.maximum(moved / mean, -1 + 2.0**-53)
    direct = (1 + u) * np.log1p(u) - u
    # Near 0 the two parts cancel; the series is sum_(i>=2) (-u)^i / (i (i - 1)).
    near = np.abs(u) < 0.01
    v = np.where(near, u, 0.0)  # far away, powers of u would overflow
    series = np.zeros_like(u)
    for i in range(9, 1, -1):
        series = 1 / (i * (i - 1)) - v * series
    value: Floats = mean * np.where(near, v * v * series, direct)
    return value


def stirling_error(x: Floats) -> Floats:
    """Return ln x! - ln(sqrt(2 pi x) (x/e)^x) for real x > 0, by its series from 16 on.

    Below, s(x) - s(x + 1) = (x + 1/2) ln(1 + 1/x) - 1 leads up to where the series holds.

    >>> stirling_error(np.array([1.0, 100.0])).round(8)
    array([0.08106147, 0.00083333])
    """
    x = np.asarray(x, dtype=np.float64)
    small = x < _SERIES_FROM
    big = np.where(small, x + _SERIES_FROM, x)
    inverse = 1 / (big * big)
    series = np.asarray(
        (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse / 1680))) / big
    )
    if small.any():
        steps = x[small][..., None] + np.arange(_SERIES_FROM)
        series[small] += ((steps + 0.5) * np.log1p(1 / steps) - 1).sum(axis=-1)
    return series


TINY = 1e-300
"""What upper bounds of smaller numbers are rounded up to."""

_DECIMAL = Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX)
_HALF_LOG_2_PI = Decimal("0.918938533204672741780329736405617639861397473637783412817151540")
# B_2j / (2j (2j - 1)), j = 1 .. 10; the error is less than the next one, 3e-31 at n = 32.
_STIRLING = tuple(
    _DECIMAL.divide(Decimal(top), Decimal(bottom))
    for top, bottom in (
        (1, 12),
        (-1, 360),
        (1, 1260),
        (-1, 1680),
        (1, 1188),
        (-691, 360360),
        (1, 156),
        (-3617, 122400),
        (43867, 244188),
        (-174611, 125400),
    )
)


def binomial_mass(y: int, n: int, p: Fraction) -> float:
    """Return Pr[Bin(n, p) = y], within two units in the last place (0 if below the smallest float).

    >>> binomial_mass(5, 10, Fraction(1, 2)) == 252 / 1024
    True
    """
    if not 0 <= y <= n:
        return 0.0
    if p in (0, 1):
        return float(y == n * p)
    with localcontext(_DECIMAL):
        log = _log_factorial(n) - _log_factorial(y) - _log_factorial(n - y)
        return float((log + y * _log(p) + (n - y) * _log(1 - p)).exp())


def binomial_log_ratio(y: int, r: int, n: int, p: Fraction) -> Decimal:
    """Return ln (Pr[Bin(n, p) = y - r] / Pr[Bin(n, p) = y]), r <= y <= n, within 1e-24.

    >>> round(binomial_log_ratio(2, 1, 4, Fraction(1, 2)).exp(), 20) * 3
    Decimal('2.00000000000000000001')
    """
    with localcontext(_DECIMAL):
        log = _log_factorial(y) - _log_factorial(y - r)
        log += _log_factorial(n - y) - _log_factorial(n - y + r)
        return log + r * (_log(1 - p) - _log(p))


def negative_binomial_mass(k: int, r: Fraction, p: Fraction) -> float:
    """Return Pr[NB(r, p) = k] = C(k + r - 1, k) (1 - p)^r p^k, r > 0, within two units in the last place.

    >>> negative_binomial_mass(2, Fraction(1), Fraction(1, 2))
    0.125
    """
    with localcontext(_DECIMAL):
        size = Decimal(r.numerator) / Decimal(r.denominator)
        log = _log_gamma(size + k) - _log_gamma(size) - _log_factorial(k)
        return float((log + size * _log(1 - p) + k * _log(p)).exp())


def binomial_at_most(x: int, n: int, p: Fraction) -> float:
    """Return Pr[Bin(n, p) <= x], rounded up a little if x is below the mean n p; otherwise 1.

    >>> round(binomial_at_most(3, 10, Fraction(1, 2)), 9), 176 / 1024
    (0.171875, 0.171875)
    """
    if x < 0:
        return 0.0
    if x >= n * p:
        return 1.0
    odds = float((1 - p) / p)
    down = sum_falling_series(
        binomial_mass(x, n, p), lambda i: (x - i) / (n - x + i + 1) * odds, 0.0
    )
    return min(1.0, down)


def binomial_at_least(x: int, n: int, p: Fraction) -> float:
    """Return Pr[Bin(n, p) >= x], rounded up a little if x is above the mean n p; otherwise 1.

    >>> round(binomial_at_least(7, 10, Fraction(1, 2)), 9), 176 / 1024
    (0.171875, 0.171875)
    """
    return binomial_at_most(n - x, n, 1 - p)


def sum_falling_series(first: float, ratios: Callable[[Floats], Floats], factor: float) -> float:
    """Return an upper bound, tight to about 1e-12, of sum_i m_i max(0, 1 - factor ratios(i)).

    m_0 = first (two units in the last place off at most), m_(i+1) = m_i ratios(i); the ratios may be
    three rounding errors off, must not increase with i, and fall below 1 or end in 0. factor = 0
    gives the tail of a log-concave law, factor = e^epsilon its hockey-stick divergence from itself
    shifted by one.

    >>> round(sum_falling_series(0.5, lambda i: 0.5 + 0 * i, 0.0), 12)
    1.0
    """
    total, mass, running, done, size = 0.0, 0.0, 1.0, 0, 256
    remainder = math.inf
    while remainder > UNIT * mass:
        steps = np.maximum(ratios(np.arange(done, done + size, dtype=np.float64)), 0.0)
        products = running * np.cumprod(steps)
        weights = np.concatenate(([running], products[:-1]))
        total += float(weights @ np.maximum(1 - factor * steps, 0.0))
        mass += float(weights.sum())
        running, last = float(products[-1]), float(steps[-1])
        # What is left is at most a geometric series with the last ratio.
        remainder = running / (1 - last) if last < 1 else math.inf
        done, size = done + size, min(2 * size, 1 << 16)
    # Each weight is a product of up to `done` rounded factors; each 1 - factor ratio is a few
    # rounding errors off.
    relative = 8 * (done + 16) * UNIT
    bound = max(first, TINY) * (total + remainder + 8 * UNIT * mass) * (1 + relative)
    return max(bound, TINY)


def _log(x: Fraction) -> Decimal:
    with localcontext(_DECIMAL):
        return (Decimal(x.numerator) / Decimal(x.denominator)).ln()


@lru_cache(maxsize=4096)
def _log_factorial(n: int) -> Decimal:
    """Return ln n!, within 1e-25 for n up to 10^20."""
    return _log_gamma(Decimal(n + 1))


def _log_gamma(x: Decimal) -> Decimal:
    """Return ln Gamma(x), x > 0, with the same error."""
    with localcontext(_DECIMAL):
        product = Decimal(1)
        while x < 33:  # Gamma(x + 1) = x Gamma(x), up to where Stirling's series holds
            product, x = product * x, x + 1
        y, series = x - 1, Decimal(0)
        for coefficient in reversed(_STIRLING):  # Horner in 1 / y^2
            series = coefficient + series / (y * y)
        log = (y + Decimal("0.5")) * y.ln() - y + _HALF_LOG_2_PI + series / y
        return log - product.ln()


LARGEST_TRIALS = 2**50
"""Whole numbers up to here, and sums of a few of them, are floats."""

_STIRLING_WRONG = (
    4e-14  # error of `stirling_error`: 1.3e-14 of its series, 16 steps of at most 8 units
)
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
    value, wrong = _bound_deviance(moved, np.full(inner.shape, mean))
    log = -stirling_error(inner) - value - (np.log(inner) + _LOG_TAU) / 2
    slope = np.abs(np.log1p(np.maximum(moved / mean, -1 + UNIT)))
    error = _STIRLING_WRONG + wrong + UNIT * (8 * (2 + np.log(inner)) + 2 * np.abs(moved) * slope)
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
        3 * _STIRLING_WRONG + 8 * UNIT * (2 + whole + parts),
    )
    # k - N p, by whichever of p and q loses less; both means may be off by two units.
    moved = inner - total * p if p <= q else total * q - rest
    off = 0.0 if p == 0.5 else 1.0  # half of a float is a float
    for mean, by in ((total * p, moved), (total * q, -moved)):
        value, wrong = _bound_deviance(by, mean)
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


def _bound_deviance(moved: Floats, mean: Floats) -> tuple[Floats, Floats]:
    """Return D(mean + moved, mean) of masses.py, and a bound of its error if `moved` and `mean` are exact."""
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
