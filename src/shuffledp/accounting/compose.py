r"""Several rounds: the same people are asked again, and the losses add up.

A round enters by its privacy curve alone: H(x), at least the hockey-stick divergence at epsilon = ln x. The
curve bounds both directions, so H(1/x) = 1 - (1 - H(x)) / x extends it to x < 1, and H(0) = 1. The true curve is
convex in x, so the lower convex hull of some points of H lies above it, and so does its continuation by the
last value. This piecewise linear function is itself a divergence: of a loss that is ln x_j with mass
p_j = x_j (slope after x_j - slope before), and infinite with mass H(x_last) (connect-the-dots: Doroshenko, Ghazi,
Kamath, Kumar, Manurangsi 2022). If each round's curve lies below that of such a loss, so does that of all rounds
below that of the sum of losses (Zhu, Dong, Wang 2022, "Optimal accounting of differential privacy via
characteristic function", Theorem 10): integrate one curve over the law of the other, for one round after
the other. It does not matter there whether masses sum to 1, so every mass may be rounded up.

The points are x_j = e^(j step), so the sum of all losses is a multiple s of the step, and delta(epsilon) is the sum of
its masses times (1 - e^(epsilon - s step))_+. Masses are tilted by e^(rate loss), so that the sum is centred near
epsilon, however small delta is, and the values are f(s) = e^(-rate u) (1 - e^-u)_+, u = s step - epsilon. On a circle of
`length` steps copies of f are added, which only raises the sum, and

    sum over s of Q(s) sum over m of f(s + m length) = (1/length) sum over k of F(omega_k) Phi(omega_k),

omega_k = 2 pi k / length, F the transform of f (a geometric series) and Phi the characteristic function of the tilted
masses: the product of those of all rounds, each a plain sum. Of a sum of many losses few frequencies are alive.
Nothing is transformed fast: every error is counted in units and added.

`compose_renyi` is an independent, looser way: the Renyi divergence of a curve, added over rounds.

**Other views of a privacy curve**: Renyi divergences, the trade-off of errors, the Gaussian that covers it.

A curve delta(epsilon) that bounds both directions says all of these:

- Renyi: e^((alpha - 1) D) = 1 + alpha (alpha - 1) int_0^inf (e^((alpha-1) t) + e^(-alpha t)) delta(t) dt,
- trade-off: a test that is wrong with probability alpha on one data set is wrong on the other with at least
  f(alpha) = max over epsilon of 1 - delta(epsilon) - e^epsilon alpha and e^-epsilon (1 - delta(epsilon) - alpha),
- Gaussian: the smallest mu for which telling N(0, 1) from N(mu, 1) is at least as easy: delta(epsilon) is nowhere above
  Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).

Each is computed from a table of the curve, a cell at a time, with the end of the cell that is on the safe side. Proofs
are in docs/theory/views.md. References: Dong, Roth, Su 2022, "Gaussian differential privacy"; Mironov 2017,
"Renyi differential privacy".
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shuffledp.accounting.base import (
    SMALLEST_DELTA,
    find_deltas,
    find_epsilon_at_once,
    guess_epsilon,
)
from shuffledp.accounting.positive_part import log_power
from shuffledp.core.arrays import Counts, Floats
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.privacy import Profile
from shuffledp.core.validate import fraction_of_one, non_negative, number
from shuffledp.numerics.masses import TINY, bound_normal_mills
from shuffledp.numerics.rounding import UNIT, find_smallest

CUT = 1e-290
"""What `mu` and sums of Renyi divergences leave out: the tail of the curve below this delta."""

_NEAR, _SPARSE = 80, 800  # cells of equal size up to a hundredth, and of equal ratio up to CUT
_LARGEST_EXPONENT = 600.0  # e^600 times the smallest delta is still a number
_LARGEST_MU = 20.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CurveTable:
    """A privacy curve on cells of epsilon, from 0 to the epsilon of a message alone."""

    grid: Floats
    """The ends of the cells."""
    deltas: Floats
    """The curve at the left end of each: at least its value in all of the cell."""
    rest: float = 0.0
    """The delta from the last epsilon on: of a randomizer that is not pure, its delta0."""

    def renyi(self, alpha: float) -> float:
        """Bound the Renyi divergence of order alpha > 1 from above."""
        if number("alpha", alpha) <= 1:
            raise ParameterError("alpha", alpha, "must be > 1")
        if self.rest:
            return math.inf
        return min(float(self.grid[-1]), bound_renyi(self.grid, self.deltas, alpha))

    def trade_off(self, alpha: float) -> float:
        """Bound from below the smallest error of the second kind of a test with error alpha of the first kind."""
        level = number("alpha", alpha)
        if not 0 <= level <= 1:
            raise ParameterError("alpha", alpha, "must be >= 0 and <= 1")
        epsilons, deltas = self.grid, np.append(self.deltas, self.rest)
        steep = 1 - deltas - np.exp(epsilons) * level * (1 + 800 * UNIT)
        flat = np.exp(-epsilons) * (1 - deltas - level) * (1 - 800 * UNIT)
        return max(0.0, float(max(steep.max(), flat.max())) - 4 * UNIT)

    def mu(self) -> float:
        """Return nearly the smallest mu, rounded up, of a Gaussian pair that covers the curve down to `CUT`."""
        if self.rest:
            return math.inf
        visible = np.maximum(self.deltas - CUT, 0.0)
        if not visible.any():
            return 0.0

        def missing(mu: float) -> float:
            cover = _gaussian_delta_below(self.grid[1:], mu)
            covered = bool(np.all(visible <= cover))
            return -1.0 if covered else 1.0

        smallest = find_smallest(missing, guess=1.0, largest=_LARGEST_MU, tolerance=1e-5)
        return math.inf if smallest is None else smallest


def bound_renyi(grid: Floats, deltas: Floats, alpha: float) -> float:
    """Bound the Renyi divergence of order alpha from above.

    The curve is at most deltas[i] from grid[i] on, and 0 at last.

    It is infinite where the integral leaves the floats.

    >>> round(bound_renyi(np.array([0.0, 1.0]), np.array([0.1]), 2.0), 4)
    0.3578
    """
    if (alpha - 1) * grid[-1] > _LARGEST_EXPONENT:
        return math.inf
    left, width = grid[:-1], np.diff(grid)
    growing = np.exp((alpha - 1) * left) * np.expm1((alpha - 1) * width) / (alpha - 1)
    falling = np.exp(-alpha * left) * -np.expm1(-alpha * width) / alpha
    # Nothing cancels: an exponent of 600 costs 1200 units, a sum one for each cell.
    total = alpha * (alpha - 1) * float(deltas @ (growing + falling)) * (1 + 1e-12)
    return math.log1p(total) / (alpha - 1) * (1 + 1e-12)


def _gaussian_delta_below(epsilons: Floats, mu: float) -> Floats:
    """Bound the delta of a mu-Gaussian pair from below.

    With z = epsilon/mu - mu/2 and Mills' ratio M it is phi(z) (M(z) - M(z + mu)), and it falls with epsilon. So z is
    rounded up, which is an epsilon above, and z + mu is rounded down, where M is larger; both ratios are certified.
    """
    share = epsilons / mu
    z = share - mu / 2 + 4 * UNIT * (share + mu / 2)
    difference = bound_normal_mills(z)[0] - bound_normal_mills(np.nextafter(z + mu, -math.inf))[1]
    # z^2 / 2 <= 745 is off by two units of itself, e^ by 8 more, and three operations follow.
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (1 - 1e-12)
    value: Floats = np.where(density > TINY, np.maximum(difference, 0.0) * density, 0.0)
    return value


@lru_cache(maxsize=64)
def tabulate_curve(curve: Profile, pure: float, rest: float = 0.0) -> CurveTable:
    """Return the table of a curve that holds with delta = `rest` from epsilon = `pure` on.

    >>> from shuffledp.accounting.clones import clones_2023
    >>> table = tabulate_curve(clones_2023(epsilon0=1.0, n=1000), 1.0)
    >>> round(table.mu(), 3), round(table.renyi(2.0), 5), round(table.trade_off(0.05), 3)
    (0.041, 0.00159, 0.946)
    """
    last = min(pure, curve.epsilon(max(CUT, 2 * rest)))
    near, far = np.linspace(0.0, last / 100, _NEAR), np.geomspace(last / 100, last, _SPARSE)
    cells = np.concatenate([near, far, [last, pure]]) if last else np.array([0.0, pure])
    grid = np.unique(cells)
    deltas = np.array([curve.delta(float(t)) for t in grid[:-1]])
    return CurveTable(grid=grid, deltas=deltas, rest=rest)


_POINTS = 240  # of a curve, from 0 to where it ends
_LEAST_NEAR = 1e-100
# Of delta, over all rounds: curves end there, and what lies beyond counts as lost.
_TAIL_SHARE = 1e-3
_LEAST_STEP = 2.0**-40  # below, nothing is told
_FLAT = 1e-9  # relatively: more than rounding moves a curve
_FADED = 60.0  # frequencies damped by more than e^-60 are left out, and accounted for
_GONE = math.exp(-_FADED) * (1 + 1e-3)
_FAR, _LARGE = 1e5, 0.05
_STEEPEST = 500.0  # largest exponent of a tilt
_LONGEST = 1 << 22  # steps of a circle
_FEW_PLACES = 1024  # frequencies that are looked at one by one
_ROWS = 64  # of a product of matrices
_NEARBY = np.array([0.7, 0.9, 1.0, 1.1, 1.2, 1.35, 1.6])
# Where the end of a curve is looked for.
_LEAST_END, _FIRST_END, _LAST_END, _WIDER = 1e-12, 0.1, 64.0, 3.0


def compose(rounds: Sequence[Profile], *, delta: float) -> float:
    """Bound the epsilon, at this delta, of all rounds together. Rounds may differ.

    It is never above the sum of their epsilons at equal shares of delta.

    >>> from shuffledp.accounting.amplify import profile
    >>> weekly = profile(epsilon0=1.0, n=10_000, honest=1)
    >>> 0.148 < compose([weekly] * 10, delta=1e-6) < 0.150
    True
    """
    wanted = fraction_of_one("delta", delta)
    _check_rounds(rounds)
    if wanted < _LEAST_NEAR:
        raise UnsupportedError(
            f"delta={delta!r} is below {_LEAST_NEAR:g}, where sums of losses take too long: "
            "use compose_renyi"
        )
    different = Counter(rounds)
    if len(rounds) == 1:
        return rounds[0].epsilon(wanted)
    share = wanted / len(rounds) * (1 - 2 * UNIT)
    plain = math.fsum(times * curve.epsilon(share) for curve, times in different.items())
    plain *= 1 + 4 * UNIT
    ends = {curve: _solve_end(curve, _TAIL_SHARE * share) for curve in different}
    step = max(ends.values()) / _POINTS
    if step < _LEAST_STEP:  # nothing, or nearly nothing, is told
        return plain
    total = _sum_losses(different, ends, step, wanted)
    if total.deltas(np.array([plain])).item() > wanted:
        return plain
    guess = min(total.guess, plain)
    return find_epsilon_at_once(total.deltas, wanted, epsilon0=plain, guess=guess)


def compose_delta(
    rounds: Sequence[Profile], *, epsilon: float, near: float, points: int = _POINTS
) -> float:
    """Bound delta at this epsilon from above, for all rounds together; sharp if it is not far from `near`.

    `points` of each curve are looked at: fewer are faster, and the bound is a little looser.

    >>> from shuffledp.accounting.amplify import profile
    >>> weekly = profile(epsilon0=1.0, n=10_000)
    >>> epsilon = compose([weekly] * 10, delta=1e-6)
    >>> 0.9e-6 < compose_delta([weekly] * 10, epsilon=epsilon, near=1e-6) <= 1e-6
    True
    """
    return compose_curve(rounds, near=near, points=points)(non_negative("epsilon", epsilon))


def compose_curve(
    rounds: Sequence[Profile], *, near: float, points: int = _POINTS
) -> Callable[[float], float]:
    """Return the same as a function of epsilon, which is faster for several of them.

    >>> from shuffledp.accounting.amplify import profile
    >>> delta_at = compose_curve([profile(epsilon0=1.0, n=10_000)] * 2, near=1e-6)
    >>> delta_at(0.02) > delta_at(0.08)
    True
    """
    wanted = max(fraction_of_one("near", near), _LEAST_NEAR)
    _check_rounds(rounds)
    if len(rounds) == 1:
        return lambda epsilon: min(1.0, rounds[0].delta(epsilon))
    apart, total = _sum_up(tuple(rounds), wanted, points)

    def delta_at(epsilon: float) -> float:
        if total is None:
            return min(1.0, apart)
        delta = float(total.deltas(np.array([epsilon])).item())
        if delta > _FAR * wanted:  # tilted for much smaller deltas: sharper if it is not
            delta = min(delta, float(total.tilt_for(_LARGE).deltas(np.array([epsilon])).item()))
        return min(1.0, apart, delta)

    return delta_at


def _check_rounds(rounds: Sequence[Profile]) -> None:
    if not rounds:
        raise ParameterError("rounds", rounds, "must hold at least one privacy curve")


@lru_cache(maxsize=64)
def _sum_up(
    rounds: tuple[Profile, ...], wanted: float, points: int
) -> "tuple[float, _Total | None]":
    """Return what the total variation distances add up to, and the sum of the losses (None: nothing)."""
    different = Counter(rounds)
    distances = {curve: float(find_deltas(curve, np.zeros(1)).item()) for curve in different}
    apart = math.fsum(times * distances[curve] for curve, times in different.items())
    share = _TAIL_SHARE * wanted / len(rounds)
    ends = {curve: _find_end(curve, share, distances[curve]) for curve in different}
    step = max(ends.values()) / points
    total = None if step < _LEAST_STEP else _sum_losses(different, ends, step, wanted)
    return apart * (1 + 4 * UNIT), total


def _find_end(curve: Profile, delta: float, distance: float) -> float:
    """Estimate where a curve falls below delta, or where it is smallest if it never does.

    `distance` is its delta at 0: most curves are about those of a Gaussian pair with the same one.
    """
    if distance <= delta:
        return _LEAST_END
    guesses = guess_epsilon(2.51 * distance, delta) * _NEARBY
    if guesses[-1] < _LAST_END:
        deltas = find_deltas(curve, guesses)
        if deltas[0] > delta >= deltas[-1]:
            return float(guesses[np.argmax(deltas <= delta)])
    return _search_end(curve, delta)


def _solve_end(curve: Profile, delta: float) -> float:
    """Return the epsilon at which a curve falls to delta, or about that from which on it is flat if it never does."""
    try:
        return curve.epsilon(delta)
    except UnsupportedError:
        return _search_end(curve, delta)


def _search_end(curve: Profile, delta: float) -> float:
    """Return the same for curves of any shape."""
    high = _FIRST_END
    while high > _LEAST_END and curve.delta(high / _WIDER) <= delta:
        high /= _WIDER
    best, smallest = high, math.inf
    while high < _LAST_END and smallest > delta:
        value = curve.delta(high)
        if value < smallest * (1 - _FLAT):
            best, smallest = high, value
        high *= _WIDER
    low, least = best / _WIDER, max(delta, smallest * (1 + _FLAT))
    for _ in range(4):
        middle = math.sqrt(low * best)
        low, best = (low, middle) if curve.delta(middle) <= least else (middle, best)
    return best


def _sum_losses(
    different: Mapping[Profile, int],
    ends: Mapping[Profile, float],
    step: float,
    near: float,
) -> "_Total":
    losses = tuple(_find_loss(curve, step, ends[curve]) for curve in different)
    return _Total.tilt(losses, tuple(different.values()), step, near)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loss:
    """A privacy loss: at least masses[i] at (i - last) step, i = 0 .. 2 last, and `endless` at infinity."""

    masses: Floats
    endless: float

    @property
    def places(self) -> Floats:
        last = len(self.masses) // 2
        return np.arange(-last, last + 1.0)


def _find_loss(curve: Profile, step: float, end: float) -> _Loss:
    """Return the loss whose curve is the convex hull of points of this one.

    A curve that bounds both directions is its own mirror image, and so is its hull: the mass at -j is e^(-j step) times
    that at j, and at 0 it is 1 - H(1) + 2 times the slope behind. So only x >= 1 is looked at, where all heights and
    slopes have their digits. In units, a slope is 24 off, a power of e eight and twice its exponent; a mass is a
    difference of two slopes and pays for both. A mass that comes out negative (a corner that is not convex) is raised
    to 0, which only raises the curve.
    """
    last = max(1, math.ceil(end / step))
    # At most j step, which is rounded.
    places = step * np.arange(last + 1, dtype=np.float64)
    heights = np.minimum.accumulate(find_deltas(curve, places * (1 - 4 * UNIT)))
    # Where a curve is flat, a fall by rounding would be a loss that a tilt takes for the likeliest of all.
    flat = heights <= heights[-1] * (1 + _FLAT)
    heights[flat] = heights[flat].max()
    kept = np.array(_take_hull(np.expm1(places).tolist(), heights.tolist()))
    runs = np.exp(places[kept[:-1]]) * np.expm1(step * np.diff(kept))
    slopes = np.append(np.diff(heights[kept]) / runs, 0.0)
    before = np.append(heights[0] - 1 - slopes[0], slopes[:-1])
    units = (64 + 4 * places[kept]) * UNIT
    differences = slopes - before + units * (np.abs(slopes) + np.abs(before))
    masses = np.zeros(last + 1)
    masses[kept] = np.exp(places[kept]) * np.maximum(differences, 0.0) * (1 + units)
    masses[0] = max(masses[0], TINY)  # where all is told, so that there is something to tilt
    mirrored = masses[:0:-1] * np.exp(-places[:0:-1]) * (1 + (16 + 4 * places[:0:-1]) * UNIT)
    return _Loss(masses=np.append(mirrored, masses), endless=float(heights[-1]))


def _take_hull(x: Sequence[float], heights: Sequence[float]) -> list[int]:
    """Return the indices of the lower convex hull; the first and the last point belong to it."""
    kept: list[int] = []
    for i, height in enumerate(heights):
        while len(kept) >= 2:
            one, two = kept[-2], kept[-1]
            rise, run = heights[two] - heights[one], x[two] - x[one]
            if rise * (x[i] - x[two]) < (height - heights[two]) * run:
                break
            kept.pop()
        kept.append(i)
    return kept


@dataclass(frozen=True, slots=True, kw_only=True)
class _Total:
    """The sum of all losses, tilted by e^(rate loss), as the characteristic function at the frequencies that count."""

    losses: tuple[_Loss, ...]
    times: tuple[int, ...]
    step: float
    rate: float
    guess: float
    """The tilted mean: about where delta is as wanted."""
    log_scale: float
    """The logarithm of what the tilted masses were divided by, over all rounds; from above."""
    endless: float
    length: int
    """The length of the circle, in steps."""
    place: Counts
    """The frequencies are 2 pi place / length."""
    log: Floats
    angle: Floats
    error: Floats
    """The error of the characteristic function, as `log_power` bounds it."""

    @staticmethod
    def tilt(losses: Sequence[_Loss], times: Sequence[int], step: float, near: float) -> "_Total":
        """Tilt so that the sum is near the epsilon at which delta is `near`."""
        rate = _choose_rate(losses, times, step, near)
        laws, mean, variance = [], 0.0, 0.0
        log_scale, wrong, most, lost = 0.0, 0.0, 1.0, 0.0
        for loss, rounds in zip(losses, times, strict=True):
            mass = float(loss.masses.sum()) * (1 + len(loss.masses) * UNIT)
            most *= ((mass + loss.endless) * (1 + 2 * UNIT)) ** rounds * (1 + 16 * UNIT)
            lost += rounds * math.log1p(loss.endless / mass) * (1 + 16 * UNIT)
            law, divided = _tilt_law(loss, rate * step)
            laws.append(law)
            log_scale += rounds * divided
            wrong += rounds * 32 * UNIT * (1 + abs(divided))
            average = float(law @ loss.places)
            mean += rounds * average
            variance += rounds * float(law @ (loss.places - average) ** 2)
        # In steps: copies of the sum, a circle apart, are added; e^(-rate loss) has died out by then.
        chance = max(0.0, rate * step * mean - log_scale)
        length = max(12 * math.sqrt(variance), (25 + chance) / (rate * step))
        # Odd: then all frequencies but 0 come in conjugate pairs, of which one is looked at and counts twice.
        length = 2 * math.ceil(min(length, _LONGEST) / 2) + 1
        place = _choose_places(laws, times, length)
        parts = [_transform(law, length, place) for law in laws]
        log, angle, error = (
            np.zeros(len(place)),
            np.zeros(len(place)),
            np.zeros(len(place)),
        )
        for (real, imaginary, off), rounds in zip(parts, times, strict=True):
            one = log_power(real, imaginary, np.full(len(place), off), rounds)
            log, angle, error = (
                log + one[0],
                angle + one[1],
                (1 + error) * (1 + one[2]) - 1,
            )
        return _Total(
            losses=tuple(losses),
            times=tuple(times),
            step=step,
            rate=rate,
            guess=step * mean,
            log_scale=log_scale + wrong,
            # (m + f)^T - m^T = (m + f)^T (1 - (1 + f / m)^-T), for T rounds of mass m and f at infinity
            endless=most * -math.expm1(-lost) * (1 + 32 * UNIT),
            length=length,
            place=place,
            log=log,
            angle=angle,
            error=error * (1 + 16 * UNIT),
        )

    def tilt_for(self, near: float) -> "_Total":
        """Return the same sum, tilted for another delta."""
        return _Total.tilt(self.losses, self.times, self.step, near)

    def deltas(self, epsilons: Floats) -> Floats:
        """Bound E[(1 - e^(epsilon - loss))_+] from above at each of these.

        With u_0 the distance from epsilon to the first place above it, u_0 + u_1 = step, the values e^(-rate u)
        (1 - e^-u) at u_0, u_0 + step, ... have the transform e^(-rate u_0) (1 - e^-u_0 + z a e^-u_0 (1 - e^-u_1)) /
        ((1 - z a)(1 - z b)), z = e^(-i omega), a = e^(-rate step), b = a e^-step: nothing cancels.
        """
        step, rate = self.step, self.rate
        first = np.floor(epsilons / step) + 1
        # A place that rounding moves is worth less than the units of its loss.
        above = np.clip(first * step - epsilons, 0.0, step)
        loose = 4 * UNIT * (np.abs(epsilons) + step) * (1 + rate)
        omega: Floats = (2 * np.pi / self.length) * self.place.astype(np.float64)
        u0, u1 = above[:, None], (step - above)[:, None]
        a, b = math.exp(-rate * step), math.exp(-(rate + 1) * step)
        sine, turn = np.sin(omega / 2) ** 2, np.exp(-1j * omega)
        near = _one_minus(-math.expm1(-rate * step), a, sine, omega)
        lower = np.multiply(near, _one_minus(-math.expm1(-(rate + 1) * step), b, sine, omega))
        upper = -np.expm1(-u0) + turn * (a * np.exp(-u0) * -np.expm1(-u1))
        wave = upper / lower
        phase = self.angle + np.angle(wave) - omega * first[:, None]
        size = np.abs(wave) * np.exp(self.log - rate * u0)
        error = self.error + (256 + 8 * np.abs(omega * first[:, None])) * UNIT
        twice = np.where(self.place > 0, 2.0, 1.0)
        terms = ((size * (np.cos(phase) + error) + 64 * UNIT * size) * twice).sum(axis=1)
        # The places that were left out have an e^-60th of all values each, and these are at most those at frequency 0.
        whole = size[:, 0] * np.exp(-self.log[0])
        total = terms / self.length + _GONE * np.maximum(whole, 0.0)
        total = total * (1 + (len(self.place) + 64) * UNIT) + 2 * loose * math.exp(self.log[0])
        exponent = self.log_scale - rate * epsilons
        exponent = exponent + 16 * UNIT * (np.abs(exponent) + rate * np.abs(epsilons))
        with np.errstate(over="ignore"):
            bounds: Floats = self.endless + np.maximum(total, 0.0) * np.exp(exponent)
        return np.clip(bounds, SMALLEST_DELTA, 1.0)  # what left the floats is not 0


def _one_minus(rest: float, factor: float, sine: Floats, omega: Floats) -> NDArray[np.complex128]:
    """Return 1 - factor e^(-i omega), where rest = 1 - factor and sine = sin(omega / 2)^2."""
    difference: NDArray[np.complex128] = rest + 2 * factor * sine + 1j * factor * np.sin(omega)
    return difference


def _tilt_law(loss: _Loss, rate: float) -> tuple[Floats, float]:
    """Return the masses times e^(rate place), divided by a number, each rounded up; and the logarithm of that number."""
    exponents = rate * loss.places
    shift = float(exponents[loss.masses > 0].max(initial=0.0))
    weights = loss.masses * np.exp(np.minimum(exponents - shift, 0.0))
    total = float(weights.sum())
    units = 32 + 4 * np.abs(exponents) + 4 * abs(shift)
    return weights / total * (1 + units * UNIT), shift + math.log(total)


def _choose_rate(losses: Sequence[_Loss], times: Sequence[int], step: float, near: float) -> float:
    """Choose about the rate at which the tilted mean is an epsilon of delta `near`; every rate is valid."""

    def look(rate: float) -> tuple[float, float]:
        """Estimate the logarithm of delta there, and the variance."""
        log, mean, variance = 0.0, 0.0, 0.0
        for loss, rounds in zip(losses, times, strict=True):
            law, one = _tilt_law(loss, rate)
            average = float(law @ loss.places)
            log, mean = log + rounds * one, mean + rounds * average
            variance += rounds * float(law @ (loss.places - average) ** 2)
        variance = max(variance, 1e-12)
        weight = rate * (rate / step + 1) * math.sqrt(2 * math.pi * variance)
        return log - rate * mean - math.log(weight), variance

    wanted = math.log(near)
    least = 2 / math.sqrt(look(1e-9)[1])
    normal = 0.5 * least * math.sqrt(-2 * wanted)
    # A sum with few places may have no such rate: twice what a normal one would take is enough.
    most = min(_STEEPEST / max(len(loss.masses) // 2 for loss in losses), max(2 * normal, least))
    low, high = min(least, most), most
    rate = min(max(normal, low), high)
    for _ in range(12):
        reached, variance = look(rate)
        low, high = (rate, high) if reached > wanted else (low, rate)
        if abs(reached - wanted) < 0.3 or high - low < 0.01 * high:
            break
        # The logarithm falls about like -rate^2 variance / 2.
        square = rate * rate + 2 * (reached - wanted) / variance
        guess = math.sqrt(max(square, 0.0))
        rate = guess if low < guess < high else (low + high) / 2
    return rate / step


def _choose_places(laws: Sequence[Floats], times: Sequence[int], length: int) -> Counts:
    """Return the frequencies at which the characteristic function of the sum may be more than e^-60; 0 is among them.

    The size of a characteristic function changes by at most the standard deviation times the change of the frequency:
    one value in the middle of a block bounds all of them.
    """
    last = length // 2
    every = np.arange(last + 1)
    rounds = sum(times)
    if last <= _FEW_PLACES:
        return every
    spread = []
    for law in laws:
        at = np.arange(len(law)) - len(law) // 2
        average = float(law @ at)
        spread.append(math.sqrt(float(law @ (at - average) ** 2)) * 1.001)
    widest = math.sqrt(sum(t * sd**2 for t, sd in zip(times, spread, strict=True)) / rounds)
    # As an angle; where all is told, every place is alive.
    half = math.exp(-_FADED / rounds) / (2 * widest) if widest else math.inf
    width = math.floor(min(2 * half * length / (2 * math.pi), last + 1))
    if width < 3:
        return every
    middles = np.arange(0, last + width, width) + width // 2
    reach = (width // 2 + 1) * 2 * math.pi / length
    log = np.zeros(len(middles))
    for law, t, sd in zip(laws, times, spread, strict=True):
        real, imaginary, off = _transform(law, length, middles)
        log += t * np.log(np.hypot(1 + real, imaginary) * (1 + 8 * UNIT) + off + reach * sd)
    alive = (log > -_FADED - 1).repeat(width)[: last + 1]
    alive[0] = True
    return np.flatnonzero(alive)


def _transform(law: Floats, length: int, place: Counts) -> tuple[Floats, Floats, float]:
    """Return the characteristic function at 2 pi place / length, real part less 1 and imaginary part, and their error.

    e^(i omega j) is the product of two powers, j = size a + b less the middle. In units, angles of up to pi last are
    off by three of themselves, powers by 8, products by 4, and the sum by as many as there are masses.
    """
    last = len(law) // 2
    size = math.isqrt(len(law)) + 1
    padded = np.zeros(size * size)
    padded[: len(law)] = law
    # Some at a time: larger products of matrices wake up more threads, which wait at full speed.
    blocks = np.zeros((-(-len(place) // _ROWS), _ROWS), dtype=np.int64)
    blocks.ravel()[: len(place)] = place
    fine = _turn(blocks[:, :, None] * np.arange(size), length)
    coarse = _turn(blocks[:, :, None] * (size * np.arange(size) - last), length)
    values = (coarse * (fine @ padded.reshape(size, size).T)).sum(axis=2).ravel()[: len(place)]
    off = (64 + 2 * len(law) + 12 * math.pi * len(law)) * UNIT * float(law.sum())
    return values.real - 1, values.imag, off


def _turn(place: Counts, length: int) -> NDArray[np.complex128]:
    """Return e^(2 pi i place / length): from a table of the circle, if that is shorter."""
    if length > place.size:
        return np.asarray(np.exp(2j * np.pi / length * place))
    circle: NDArray[np.complex128] = np.exp(2j * np.pi / length * np.arange(length))
    return circle[place % length]


def _steps(curve: Profile) -> tuple[Floats, Floats]:
    """Return epsilons, and delta at the left end of each cell between them.

    Beyond the last one delta is at most 1e-290. Without the part of the first law that makes it more than
    e^last times the second, which has that mass, it would be 0, and nowhere larger than it is.
    """
    last, middle = curve.epsilon(CUT), curve.epsilon(1e-15)
    grid = np.unique(np.concatenate([np.linspace(0, middle, 400), np.linspace(middle, last, 60)]))
    return grid, np.array([curve.delta(t) for t in grid[:-1]])


def compose_renyi(rounds: Sequence[Profile], *, delta: float) -> float:
    """Bound the epsilon of all rounds together by Renyi divergences: looser than `compose`, and independent of it.

    The conversion is that of Canonne, Kamath, Steinke 2020 ("The discrete Gaussian for differential
    privacy", Proposition 12).

    >>> from shuffledp.accounting.amplify import profile
    >>> 0.15 < compose_renyi([profile(epsilon0=1.0, n=10_000, honest=1)] * 10, delta=1e-6) < 0.2
    True
    """
    wanted = fraction_of_one("delta", delta)
    _check_rounds(rounds)
    left = wanted - 2 * len(rounds) * CUT  # what `_steps` leaves out of each round
    if left <= wanted / 2:
        raise UnsupportedError(f"delta={delta!r} is too small for {len(rounds)} rounds")
    different = [(_steps(curve), times) for curve, times in Counter(rounds).items()]
    best = math.inf
    for alpha in np.geomspace(1.05, 1e5, 120).tolist():
        total = sum(times * bound_renyi(*steps, alpha) for steps, times in different)
        spent = math.log(1 / left) + (alpha - 1) * math.log1p(-1 / alpha) - math.log(alpha)
        best = min(best, total + spent / (alpha - 1))
    return max(0.0, best * (1 + 1e-12))
