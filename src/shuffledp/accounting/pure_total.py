"""The largest privacy loss of a total, over every total and every data set: what pure privacy asks.

n users each add a number z of 0 .. d to a total that everybody sees. Users who hold 0 draw z from a
law g0, those who hold 1 from g1, its mirror image g1(z) = g0(d - z); all these probabilities are
positive. If `ones` of the others hold 1 and `zeros` hold 0, their total has the law
h = g1 * ... * g1 * g0 * ... * g0, and the loss of the protected user is

    loss(ones, zeros) = max over t of | ln (g1 * h)(t) - ln (g0 * h)(t) |.

**One data set.** However unlikely a total is, its ratio counts. So h is tilted: for any theta,
q(z) = g(z) e^(theta z) / M(theta) turns the ratio into M1 (q1 * h_theta)(t) / (M0 (q0 * h_theta)(t)),
and h_theta is large around its own mean, which moves over the whole range as theta does. Each tilt is
convolved by a Fourier transform; all its errors (rounding, and what wraps around) are added up to one
number E, and a total counts as seen where E is a millionth of its probability at most. The tilts are placed closer
and closer until every total is seen.

**Rounding of a transform.** NumPy's transform of a length N = 2^t is of Cooley and Tukey's kind: each output is
a sum over the inputs, and on its way to an output an input passes t levels, each with one addition and at most one
complex product with a root of unity. An addition is off by the factor 1 + u in modulus, u = 2^-53, a product by
1 + sqrt(5) u, a root by 1 + 4 u (a test looks at all of them). So each output is the sum over inputs x_j of
x_j w^(jk) (1 + e), |e| <= 8 t u: for positive inputs with sum 1 it is off by at most 8 t u. In the Euclidean norm a
whole transform is off by at most 10 t u (Higham 2002, "Accuracy and stability of numerical algorithms", theorem
24.2: mu + gamma_4 (sqrt(2) + mu) for each level, with roots off by mu = 4 u); 16 t u is used.

**All data sets.** Revealing somebody's number only helps the attacker, so the loss does not increase
in either argument. The range of `ones` is cut into cells lo .. hi, and loss(lo, n - 1 - hi) is an upper
bound for the whole cell; cells are halved where it is too large. The mirror image swaps ones and zeros.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from shuffledp.core.arrays import Bools, Counts, Floats
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.validate import whole
from shuffledp.numerics.rounding import UNIT

Spectrum: TypeAlias = NDArray[np.complex128]

_LEVEL, _LEVEL_IN_NORM = 8.0, 16.0  # units, for each level of a transform
_POWER = 96.0  # units, for each user in a power of a spectrum
_DIRECT = 12  # so few users are convolved one by one: (2^-64)^12 does not underflow
_SEEN = 1e-6  # a total is seen by a tilt if the error is at most this part of its probability
_ALIAS = 1e-13
_FADED = 60.0  # smaller values of a spectrum than e^-60 are left out, and accounted for
_WORK = 1 << 19  # places looked at in one go: bounds the memory
_NARROW = 40.0  # wider laws of the total are smooth
_CELLS = 400
_RATES = (0.03, 0.06, 0.12, 0.25, 0.5, 1.0)  # of Chernoff's bound, as parts of the best one
_MANY = 1 << 13


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredTotal:
    """The total of users who draw from g0 or from its mirror image; `shares` is g0 as integers.

    >>> total = MirroredTotal(shares=(1, 12, 2, 1))
    >>> round(total.loss(0, 0), 6) == round(math.log(12 / 2), 6)
    True
    >>> total.loss(2, 3) < total.loss(1, 3) < total.loss(1, 1)
    True
    """

    shares: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.shares) < 2 or any(share < 1 for share in self.shares):
            raise ParameterError("shares", self.shares, "must be two or more integers >= 1")

    def loss(self, ones: int, zeros: int) -> float:
        """Bound the loss of the user from above if that many of the others hold 1, and that many 0."""
        whole("ones", ones, at_least=0)
        whole("zeros", zeros, at_least=0)
        return _loss(self.shares, ones, zeros)

    def stays_within(self, epsilon: float, users: int) -> bool:
        """Return whether the loss is at most epsilon for every data set of that many users. True is proved."""
        cells = [(0, users - 1)]
        for _ in range(_CELLS):
            if not cells:
                return True
            lo, hi = cells.pop()
            if lo > users - 1 - lo or self.loss(lo, users - 1 - hi) <= epsilon:
                continue  # the mirror image of a cell that is looked at anyway, or a safe one
            if lo == hi:
                return False
            middle = (lo + hi) // 2
            cells += [(middle + 1, hi), (lo, middle)]
        return False

    def seems_within(self, epsilon: float, users: int, reach: float) -> bool:
        """Return whether no loss above epsilon is seen, in little time: where a search for parameters may look.

        Looks at two data sets only, at totals that tilts up to `reach` make likely, and at the limit
        ln M1 - ln M0 of the loss far from there, where the law of the total is smooth. No proof.
        """
        others = users - 1
        return self.far_loss(reach) <= epsilon and all(
            self._look_near(ones, others - ones, reach) <= epsilon for ones in {0, others // 2}
        )

    def _look_near(self, ones: int, zeros: int, reach: float) -> float:
        if ones + zeros <= _DIRECT:
            return self.loss(ones, zeros)
        return _Tilted(g0=_logs(self.shares), ones=ones, zeros=zeros).look_near(reach)

    def far_loss(self, reach: float) -> float:
        """Return the limit of the loss at totals whose law is smooth, under tilts up to twice `reach`."""
        pair = _Tilted(g0=_logs(self.shares), ones=0, zeros=0)
        thetas = np.linspace(0, 2 * reach, 200)
        (_, m0), (_, m1) = pair.law(pair.g0, thetas), pair.law(pair.g0[::-1], thetas)
        return float(np.abs(m1 - m0).max())

    def largest_loss(self, users: int, tolerance: float = 0.01) -> float:
        """Bound the largest loss over all data sets from above, too large by at most about `tolerance`, relatively."""
        others = users - 1
        cells = {(0, others): self.loss(0, 0)}
        seen = max(self.loss(0, others), self.loss(others // 2, others - others // 2))
        for _ in range(_CELLS):
            (lo, hi), upper = max(cells.items(), key=lambda item: item[1])
            if upper <= seen * (1 + tolerance) or lo == hi:
                break
            del cells[lo, hi]
            middle = (lo + hi) // 2
            for first, last in ((lo, middle), (middle + 1, hi)):
                # Of a cell and its mirror image one is enough.
                if first <= others - first:
                    cells[first, last] = self.loss(first, others - last)
        return max(cells.values())


@lru_cache(maxsize=4096)
def _loss(shares: tuple[int, ...], ones: int, zeros: int) -> float:
    if zeros < ones:
        return _loss(shares, zeros, ones)  # the mirror image
    log_g = _logs(shares)
    if ones + zeros <= _DIRECT:
        return _direct(log_g, ones, zeros)
    pair = _Tilted(g0=log_g, ones=ones, zeros=zeros)
    # Tilts far apart miss some of many totals: there it is not even tried.
    step = 9.0 if pair.users * pair.d < _MANY else 4.5
    for _ in range(5):
        loss = pair.sweep(step)
        if not math.isinf(loss):
            return loss
        step /= 2
    raise UnsupportedError(
        f"the loss of {ones + zeros + 1} users cannot be certified: some totals are not resolved"
    )


def _logs(shares: tuple[int, ...]) -> Floats:
    total = math.log(sum(shares))
    return np.array([math.log(share) - total for share in shares])


def _direct(log_g: Floats, ones: int, zeros: int) -> float:
    """Sum products of positive numbers only, so every probability has a small relative error."""
    g0 = np.exp(log_g)
    g1 = g0[::-1]
    h = np.ones(1)
    for law, count in ((g0, zeros), (g1, ones)):
        for _ in range(count):
            h = np.convolve(h, law)
    ratio = np.log(np.convolve(h, g1)) - np.log(np.convolve(h, g0))
    slack = 4 * (ones + zeros + 2) * (len(log_g) + 60) * UNIT
    return float(np.abs(ratio).max()) + slack


def _powers(Q0: Spectrum, zeros: int, Q1: Spectrum, ones: int) -> Spectrum:
    """Return Q0^zeros Q1^ones; 0 where that is below e^-_FADED, as it is for most frequencies."""
    logs = np.zeros(Q0.shape)
    with np.errstate(divide="ignore"):
        for Q, count in ((Q0, zeros), (Q1, ones)):
            if count:
                logs += count * np.log(np.abs(Q))
    alive = logs > -_FADED
    powers: Spectrum = np.zeros_like(Q0)
    phases = zeros * np.angle(Q0[alive]) + ones * np.angle(Q1[alive])
    powers[alive] = np.exp(logs[alive] + 1j * phases)
    return powers


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tilted:
    """The two laws of the total, seen through exponential tilts."""

    g0: Floats
    """ln g0(z)."""
    ones: int
    zeros: int

    @property
    def d(self) -> int:
        return len(self.g0) - 1

    @property
    def users(self) -> int:
        return self.ones + self.zeros + 1

    def sweep(self, step: float) -> float:
        """Return the largest loss over all totals; infinite if tilts `step` standard deviations apart miss one."""
        return float(self._bound_losses(*self._tilts(step)).max())

    def look_near(self, reach: float) -> float:
        """Return the largest loss at totals that are likely under tilts up to `reach`."""
        thetas = np.linspace(-reach, reach, 14)
        spread = self._moments(thetas)[1]
        narrow = spread < max(_NARROW, float(spread.min()) + 1)
        best = self._bound_losses(thetas[narrow], spread[narrow])
        return float(best[np.isfinite(best)].max())

    def _bound_losses(self, thetas: Floats, spread: Floats) -> Floats:
        """Return a bound of the loss at each total, infinite where no tilt sees it."""
        best = np.full(self.users * self.d + 1, math.inf)
        lengths = self._lengths(thetas, spread)
        for N in np.unique(lengths).tolist():
            alike = thetas[lengths == N]
            size = max(1, _WORK // N)
            for start in range(0, len(alike), size):
                self._look(alike[start : start + size], N, best)
        return best

    def _look(self, thetas: Floats, N: int, best: Floats) -> None:
        """Lower `best`, the bound of the loss at each total, by what these tilts see."""
        (q0, m0), (q1, m1) = self.law(self.g0, thetas), self.law(self.g0[::-1], thetas)
        Q0, Q1 = np.fft.rfft(q0, N), np.fft.rfft(q1, N)  # [tilts, N/2 + 1]
        H = _powers(Q0, self.zeros, Q1, self.ones)
        upper = np.fft.irfft(H * Q1, N)
        lower = np.fft.irfft(H * Q0, N)
        error = self._error(np.maximum(np.abs(Q0), np.abs(Q1)), N)
        error += self._bound_wrapping(thetas, N)
        slack = self._bound_rounding(thetas)
        for row, centre in enumerate(self._moments(thetas)[0].tolist()):
            t = self._window(centre, N)
            num, den, E = upper[row, t % N], lower[row, t % N], error[row]
            seen: Bools = np.minimum(num, den) * _SEEN >= E
            num, den, t = num[seen], den[seen], t[seen]
            ratio = np.abs(m1[row] - m0[row] + np.log(num) - np.log(den))
            bound = ratio + 2.1 * E / np.minimum(num, den) + slack[row]
            best[t] = np.minimum(best[t], bound)

    def law(self, g: Floats, thetas: Floats) -> tuple[Floats, Floats]:
        """Return the tilted law q[tilts, d + 1], and ln M."""
        powers = g + np.outer(thetas, np.arange(self.d + 1) - self.d / 2)
        top = powers.max(axis=1)
        q = np.exp(powers - top[:, None])
        total = q.sum(axis=1)
        return q / total[:, None], top + np.log(total)

    def _bound_rounding(self, thetas: Floats) -> Floats:
        """Return how much rounded tilted laws may change the loss: each of n factors by a relative error."""
        size = np.abs(self.g0).max() + np.abs(thetas) * self.d + self.d + 20
        rounding: Floats = 2 * (self.users + 2) * 8 * UNIT * size
        return rounding

    def _error(self, largest: Floats, N: int) -> Floats:
        """Return how far each convolved probability may be from the exact one, by rounding.

        `largest` is the larger modulus of the two spectra at each frequency. A spectrum is off by 8 log2(N)
        units. Its power is e to a sum of logarithms (above -60, or left out) and phases: for each user the
        modulus adds 8 units, the phase 25, its multiple and sum 6, and all logarithms together 640, that is
        49 for each of 13 users or more. All of it is off like one factor among `users`. The transform back
        adds its own error in the norm, and what was left out adds e^-60.
        """
        off = (_LEVEL * math.log2(N) + _POWER) * UNIT
        largest = largest + off
        weights = np.full(largest.shape[1], 2.0)
        weights[0] = weights[-1] = 1.0
        power = np.exp((self.users - 1) * np.log(largest))
        in_powers = self.users * off * np.einsum("ij,j->i", power, weights) / N
        norm = np.sqrt(np.einsum("ij,ij,j->i", power, power, weights) / N)
        back = _LEVEL_IN_NORM * math.log2(N) * UNIT * norm
        error: Floats = 1.1 * in_powers + back + math.exp(-_FADED)
        return error

    def _bound_wrapping(self, thetas: Floats, N: int) -> Floats:
        """Bound the probability that wraps around into the window, by Chernoff's bound.

        The window ends d and more before the places where a total of the others that lies within
        `reach` of its mean would wrap to.
        """
        total = self.users * self.d
        if total < N:
            return np.zeros(len(thetas))
        centre, spread = self._moments(thetas)
        reach = N / 2 - self.d - 2
        base = self._log_moment(thetas)
        best = reach / spread**2  # for a normal law; for a Poisson one its logarithm is
        rates = np.concatenate([np.outer(_RATES, best), np.outer(_RATES, np.log1p(best))])
        shifted = np.stack([thetas + rates, thetas - rates])
        right, left = self._log_moment(shifted.ravel()).reshape(shifted.shape) - base
        right -= rates * (centre + reach)
        left += rates * (centre - reach)
        tails = np.exp(np.minimum(right, 0.0)) + np.exp(np.minimum(left, 0.0))
        smallest: Floats = tails.min(axis=0)
        return smallest * 1.01

    def _log_moment(self, thetas: Floats) -> Floats:
        """Return ln E[e^(theta T)] of the others' total, up to the same linear term for all."""
        others = self.ones + self.zeros
        moment: Floats = thetas * (others * self.d / 2)
        for g, count in ((self.g0, self.zeros), (self.g0[::-1], self.ones)):
            if count:
                moment += count * self.law(g, thetas)[1]
        return moment

    def _moments(self, thetas: Floats) -> tuple[Floats, Floats]:
        """Compute the mean and standard deviation of the others' tilted total."""
        mean, variance = np.zeros(len(thetas)), np.zeros(len(thetas))
        for g, count in ((self.g0, self.zeros), (self.g0[::-1], self.ones)):
            if count:
                first, square = self._moments_of_one(g, thetas)
                mean += count * first
                variance += count * square
        return mean, np.sqrt(np.maximum(variance, 1e-6))

    def _moments_of_one(self, g: Floats, thetas: Floats) -> tuple[Floats, Floats]:
        """Compute the mean and variance of one user's tilted number."""
        q, z = self.law(g, thetas)[0], np.arange(self.d + 1.0)
        # Products of matrices of this size wake up more threads, which wait at full speed.
        first = np.vecdot(q, z)
        return first, np.vecdot(q, z**2) - first**2

    def _window(self, centre: float, N: int) -> Counts:
        """Return the totals that a transform of length N tells apart, around the mean of the others."""
        total = self.users * self.d
        if total < N:
            return np.arange(total + 1)
        first = math.floor(centre) - N // 2 + self.d + 2
        return np.arange(max(first, 0), min(first + N - 2 * self.d - 4, total) + 1)

    def _lengths(self, thetas: Floats, spread: Floats) -> Counts:
        """Return for each tilt a power of two that is long enough for almost nothing to wrap around."""
        full = 1 << (self.users * self.d).bit_length()
        wanted = 14 * spread + 4 * self.d + 64
        lengths: Counts = np.minimum(1 << np.ceil(np.log2(wanted)).astype(np.int64), full)
        for N in (1 << power for power in range(6, full.bit_length())):
            mine = lengths == N
            if mine.any():
                short = self._bound_wrapping(thetas[mine], N) > _ALIAS
                lengths[np.flatnonzero(mine)[short]] = min(2 * N, full)
        return lengths

    def _tilts(self, step: float) -> tuple[Floats, Floats]:
        """Return tilts whose means are about `step` standard deviations apart, over the whole range."""
        last = float(np.abs(np.diff(self.g0)).max()) + math.log(self.users * self.d) + 8
        half = np.linspace(0, last, 2001)
        grid = np.concatenate([-half[:0:-1], half])
        # The mirror image, tilted to the other side: one of the two laws is enough.
        one, square = self._moments_of_one(self.g0, grid)
        mean = self.zeros * one + self.ones * (self.d - one[::-1])
        variance = self.zeros * square + self.ones * square[::-1]
        spread = np.sqrt(np.maximum(variance, 1e-6))
        # Near the ends a step of one total is as good as one of a standard deviation.
        pace = np.diff(mean) / np.maximum(spread[1:], 0.7)
        way = np.append(0.0, np.cumsum(pace))
        places = np.linspace(0, way[-1], math.ceil(way[-1] / step) + 2)
        thetas = np.interp(places, way, grid)
        return thetas, self._moments(thetas)[1]
