r"""Rounded sums: one short message per user.

A value is rounded at random, without bias, to one of the levels 0 .. k; then, with probability gamma, it is
replaced by a uniform level. So the message is k-ary randomized response over k + 1 symbols, applied to
the rounded value. With gamma about (k + 1) mu / n, mu noise messages at each level hide one person's.

    mean squared error of the sum of values in [0, 1], at most about
        n / (4 k^2)  +  n gamma / 3,        smallest for k near (1.5 n / mu)^(1/3)

Few levels round coarsely, many need more noise: no protocol with one message does better than the
order n^(1/3) that this gives.

**Privacy.** Tell the attacker which level everybody's value was rounded to in the worst case: given the
levels, the view is that of shuffled randomized response on neighbouring data sets. The law for a value
is a mixture of the laws for two levels, and the hockey-stick divergence is jointly convex, so it is at
most the largest one between two levels: the blanket of randomized response holds for all values.

**Levels.** With k levels beyond 0, lies with probability gamma, and values in [0, 1], the exact variance of one
user's estimate is, z in [0, k] the value on the scale of the levels, f its fractional part and b = 1 - gamma,

    ( c - a^2 - 2 a b z + (b - b^2) z^2 + b f (1 - f) ) / (b k)^2,   a = gamma k / 2, c = gamma k (2k + 1) / 6:

and b f (1 - f) apart this is convex in z and symmetric. So it is largest below the first level (or above
the last but one), where it is c - a^2 + b (1 - 2 a) f - b^2 f^2: a parabola in f.

Reference: Balle, Bell, Gascon, Nissim 2019, "The privacy blanket of the shuffle model".
Deviations: gamma is calibrated by evaluating the blanket (`calibration="paper"` takes the published
max(14 (k+1) ln(2/delta) / ((n-1) epsilon^2), 27 (k+1) / ((n-1) epsilon)), for epsilon <= 1 and gamma < 1),
and k minimises the error for the gamma that is used.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np

from shuffledp.accounting.base import SMALLEST_DELTA, gaussian_scale
from shuffledp.accounting.blanket import Blanket, BlanketProfile, two_level_blanket
from shuffledp.core.analyzer import Estimate, Tally, message_tally
from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.core.domain import Integers, Reals, rounding_words
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.protocol import LATE, Calibration, Crowd, Parts, Promise
from shuffledp.core.randomizer import Law, Message, Messages, Shuffled, WordSource
from shuffledp.core.validate import whole
from shuffledp.numerics.dealing import deal
from shuffledp.numerics.intervals import BoundedError
from shuffledp.numerics.rounding import exp_lower, find_largest_above
from shuffledp.protocols.shared.assembly import OneNumber, register, shuffle
from shuffledp.protocols.shared.sums import (
    Affine,
    Quadratic,
    answer,
    bound_bias,
    bound_error,
    is_average,
    moment,
    reach,
    read_scale,
    step,
    unit,
)

_MOST_LEVELS = 1 << 16
_ROUGH, _FINE = 0.3, 2e-3  # how far below its limit delta may stay, relatively
_LARGEST_EPSILON0 = 60.0
_STEEPNESS = 12.0  # of ln delta in epsilon0, usually; where the secant method starts
_SECANTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedResponse(OneNumber):
    """Code i of 0 .. G, rounded at random to levels 0 .. k, through randomized response.

    Each level is sent by `share` of the 2^word_bits words whatever the value is. The `kept` words left over
    send the level below or above i k / G, in exactly the proportion that makes the expectation right:
    `kept` is a multiple of the denominator of k / G. gamma is rounded up until that is so.

    >>> device = RoundedResponse(
    ...     domain=Reals(lower=0.0, upper=1.0, steps=4), levels=2, gamma=Fraction(1, 4), word_bits=5
    ... )
    >>> device.pmf(1)
    {(0,): Fraction(7, 16), (1,): Fraction(7, 16), (2,): Fraction(1, 8)}
    """

    domain: Integers | Reals
    levels: int
    gamma: Fraction
    word_bits: int = 64
    kept: int = field(init=False)
    share: int = field(init=False)
    proof: ClassVar[str] = (
        "privacy blanket of randomized response over the levels, Balle, Bell, Gascon, "
        "Nissim 2019, evaluated numerically"
    )
    words_per_input: ClassVar[int] = 1

    def __post_init__(self) -> None:
        whole("levels", self.levels, at_least=1, at_most=min(reach(self.domain), _MOST_LEVELS))
        whole("word_bits", self.word_bits, at_least=1, at_most=64)
        if not 0 < self.gamma < 1:
            raise ParameterError("gamma", self.gamma, "must be > 0 and < 1")
        words, symbols = 1 << self.word_bits, self.levels + 1
        most = words - symbols * math.ceil(self.gamma * words / symbols)
        kept = _find_kept(most, self._denominator, symbols, words)
        if kept is None:
            raise ParameterError(
                "levels",
                self.levels,
                f"cannot be combined with {reach(self.domain)} steps and words of "
                f"{self.word_bits} bits: nothing of the value would be left",
            )
        object.__setattr__(self, "kept", kept)
        object.__setattr__(self, "share", (words - kept) // symbols)

    @property
    def _denominator(self) -> int:
        """The denominator of k / G in lowest terms."""
        return reach(self.domain) // math.gcd(reach(self.domain), self.levels)

    @property
    def alphabet(self) -> int:
        return self.levels + 1

    def delta(self, honest: int, epsilon: float) -> float:
        """Return the delta of the blanket."""
        return self.open_curve(honest)[0].delta(epsilon)

    def open_curve(self, honest: int) -> tuple[BlanketProfile, float]:
        """Return the curve of the blanket, whose law is that of the words."""
        blankets = self.blankets()
        return BlanketProfile(blankets=blankets, n=honest, epsilon0=self.epsilon0), 0.0

    @property
    def epsilon0(self) -> float:
        """The logarithm of the largest likelihood ratio, rounded up."""
        return (math.log(self.share + self.kept) - math.log(self.share)) * (1 + 1e-12) + 1e-13

    @property
    def q(self) -> Fraction:
        """Exact probability of a level that is not that of the value."""
        return Fraction(self.share, 1 << self.word_bits)

    @property
    def b(self) -> Fraction:
        """Exact probability that the rounded value is sent for its own sake: 1 - gamma."""
        return Fraction(self.kept, 1 << self.word_bits)

    def encode(self, inputs: Codes, words: Words) -> Messages:
        size = np.uint64(reach(self.domain))
        scaled_codes = inputs.astype(np.uint64) * np.uint64(self.levels)
        low = scaled_codes // size
        # The fractional part, in units of 1 / denominator.
        part = (scaled_codes - low * size) // np.uint64(reach(self.domain) // self._denominator)
        word = words[:, 0].astype(np.uint64, copy=False)
        lies = (self.levels + 1) * self.share
        rounded = low + (word - np.uint64(lies) < part * np.uint64(self.kept // self._denominator))
        sent = np.where(word < np.uint64(lies), word // np.uint64(self.share), rounded)
        return Messages.one_each(sent.astype(np.int64))

    def pmf(self, x: int) -> Law:
        low, up = self._round(x)
        law: Law = {(y,): self.q for y in range(self.levels + 1)}
        law[(low,)] += self.b * (1 - up)
        if up:
            law[(low + 1,)] += self.b * up
        return law

    def _round(self, x: int) -> tuple[int, Fraction]:
        """Return the level below, and the probability of the one above it."""
        low, rest = divmod(x * self.levels, reach(self.domain))
        return low, Fraction(rest, reach(self.domain))

    def blankets(self) -> tuple[Blanket, ...]:
        """Return the blanket of randomized response over the levels; the module says why it holds."""
        return (_level_blanket(Fraction(self.share + self.kept, self.share), self.levels, self.q),)

    def deal(self, inputs: Counts, source: WordSource) -> Tally:
        """Deal by one walk: lies are the same for all codes, the level below and the one above are each code's own."""
        seen = np.flatnonzero(inputs)
        rounded = [self._round(x) for x in seen.tolist()]
        ups = [int(self.kept * up) for _, up in rounded]
        own = [[self.kept - up, up] for up in ups]
        lies = [self.share] * (self.levels + 1)
        dealt = deal(inputs[seen], own, self.word_bits, source, common=lies)
        counts = dealt.common.copy()
        low = np.array([low for low, _ in rounded], dtype=np.int64)
        np.add.at(counts, low, dealt.own[:, 0])
        np.add.at(counts, np.minimum(low + 1, self.levels), dealt.own[:, 1])
        return Tally(counts=counts, users=int(inputs.sum()))

    @property
    def decoder(self) -> Affine:
        """The unbiased estimate of a code from one message."""
        words, steps = 1 << self.word_bits, reach(self.domain)
        bias = self.share * self.levels * (self.levels + 1) // 2
        return Affine(
            scale=words * steps,
            offset=bias * steps,
            divisor=self.kept * self.levels,
            last=self.levels,
        )

    @property
    def level_variance(self) -> Quadratic:
        """Variance of the message of a value z = i k / G, less what rounding adds to it."""
        k, q, b = self.levels, self.q, self.b
        mean = q * k * (k + 1) / 2
        square = q * k * (k + 1) * (2 * k + 1) / 6
        return Quadratic(constant=square - mean**2, linear=-2 * mean * b, square=b - b * b)

    @property
    def code_variance(self) -> tuple[Quadratic, Fraction]:
        """The variance of the estimate of a code is at most the first, and at least the second."""
        law, scale = self.level_variance, Fraction(self.levels, reach(self.domain))
        worth = 1 / (self.b * scale)
        most = Quadratic(
            constant=worth**2 * (law.constant + self.b * self.worst_rounding),
            linear=worth**2 * scale * law.linear,
            square=worth**2 * scale**2 * law.square,
        )
        return most, worth**2 * law.range(self.levels)[0]

    @property
    def worst_rounding(self) -> Fraction:
        """The largest up (1 - up) of any code; of real values, what rounding to the grid adds to it, too."""
        half = Fraction(self._denominator // 2, self._denominator)
        grid = Fraction(self.levels, 2 * reach(self.domain)) ** 2 * rounding_words(self.domain)
        return half * (1 - half) + grid


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedSum:
    """Adds up what the messages decode to.

    The variance depends on where between two levels the values lie, which no message tells: the
    standard error takes the worst case. Intervals hold for all data with the same answer, so they cover with at
    least their level.
    """

    device: RoundedResponse
    task: str

    def influence(self) -> Fraction:
        """Return by how many people one message can move the sum: a person moves it by the whole range."""
        device = self.device
        smallest, largest = device.decoder.ends
        return (largest - smallest) / reach(device.domain)

    def tally(self, shuffled: Shuffled) -> Tally:
        return message_tally(shuffled, self.device.levels + 1)

    def estimate(self, tally: Tally) -> Estimate:
        n = tally.people()
        stderr = self._worth(n) * math.sqrt(self._message_variance(tally))
        total = self.device.decoder.total(tally.counts)
        return answer(self.device.domain, self.task, total, n, self._bound_error(stderr, n))

    def _bound_error(self, stderr: float, n: int) -> BoundedError:
        device, last = self.device, reach(self.device.domain)
        most, least = device.code_variance
        share = 1 if is_average(self.task) else n
        return bound_error(
            stderr=stderr,
            most=most.cap(last),
            least=least,
            reach=max(device.decoder(device.levels), last - device.decoder(0)),
            n=n,
            worth=float(step(device.domain, self.task, n)),
            limits=(float(share * device.domain.lower), float(share * device.domain.upper)),
            bias=bound_bias(device.domain, self.task, n),
        )

    def _message_variance(self, tally: Tally) -> float:
        """Return the variance of the sum of the messages: S2 - sum (E y)^2, the latter from S1 and S2."""
        device, n = self.device, moment(tally.counts, 0)
        first, second = moment(tally.counts, 1), moment(tally.counts, 2)
        k, b = device.levels, device.b
        mean = device.q * k * (k + 1) / 2
        square = device.q * k * (k + 1) * (2 * k + 1) / 6
        variance = second - n * mean**2 - 2 * mean * (first - n * mean) - b * (second - n * square)
        least = n * device.level_variance.range(k)[0]
        return float(max(variance + b * b * n * device.worst_rounding, least))

    def _worth(self, n: int) -> float:
        """Return what one more in the sum of the messages adds to the answer."""
        device = self.device
        codes = reach(device.domain) / (device.b * device.levels)
        return float(codes * step(device.domain, self.task, n))

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        assert isinstance(message, int)
        domain = self.device.domain
        return (Fraction(domain.lower) + unit(domain) * self.device.decoder(message),)

    def variance(self, inputs: Counts) -> float:
        device = self.device
        seen = np.flatnonzero(inputs != 0)
        z = seen * (device.levels / reach(device.domain))
        rest = seen * device.levels % reach(device.domain) / reach(device.domain)
        law = device.level_variance
        smooth = float(law.constant) + z * (float(law.linear) + z * float(law.square))
        of_sum = float(inputs[seen] @ (smooth + float(device.b) * rest * (1 - rest)))
        return self._worth(int(inputs.sum())) ** 2 * of_sum


@shuffle(
    name="rounded_sum",
    task="sum",
    title="Rounded randomized response",
    reference="Balle, Bell, Gascon, Nissim 2019",
)
def make(
    crowd: Crowd,
    promise: Promise,
    *,
    lower: float,
    upper: float,
    steps: int | None = None,
    levels: int | None = None,
    task: str = "sum",
    calibration: Calibration = Calibration.EXACT,
    word_bits: int = 64,
) -> Parts:
    """Make a sum (or a mean) of integers lower .. upper, or of reals on a grid of `steps` steps.

    `levels` is k, the best one unless given.

    >>> from shuffledp import SeededWords, run
    >>> p = make(n=10_000, epsilon=1.0, delta=1e-6, lower=0.0, upper=1.0, steps=1000)
    >>> p.randomizer.levels, p.cost.messages_max, p.cost.bits_per_message
    (7, 1, 3)
    >>> answer = run(p, [0.2, 0.4] * 5000, SeededWords(1))
    >>> round(answer.value), round(answer.stderr, 1)
    (3000, 10.5)
    """
    domain, task = read_scale(lower, upper, steps, task)
    search = RoundingSearch(
        n=crowd.trusted,
        epsilon=promise.epsilon,
        delta=promise.delta,
        possible=lambda k: fits(reach(domain), k, word_bits),
        most=min(reach(domain), _MOST_LEVELS),
    )
    if levels is not None:
        whole("levels", levels, at_least=1, at_most=search.most)
    find = search.calibrate if calibration is Calibration.EXACT else search.take_published
    k, gamma = find(levels)
    device = RoundedResponse(domain=domain, levels=k, gamma=gamma, word_bits=word_bits)
    analyzer = RoundedSum(device=device, task=task)
    return Parts(
        device,
        analyzer,
        task=task,
        deal=device.deal,
        code=device.code,
        blankets=device.blankets,
        curve=device.open_curve,
        influence=analyzer.influence,
    )


def _find_kept(most: int, denominator: int, symbols: int, words: int) -> int | None:
    """Return the largest kept <= most that `denominator` divides, while `symbols` divides words - kept.

    >>> _find_kept(20, 2, 3, 32)
    20
    >>> _find_kept(20, 3, 3, 32) is None
    True
    """
    common = math.gcd(denominator, symbols)
    if words % common:
        return None
    period = symbols // common
    first = words // common * pow(denominator // common, -1, period) % period
    times = first + (most // denominator - first) // period * period
    return denominator * times if times > 0 else None


def _level_blanket(ratio: Fraction, levels: int, q: Fraction) -> Blanket:
    return two_level_blanket(ratio=ratio, one=q, neither=(levels - 1) * q)


def fits(steps: int, levels: int, word_bits: int) -> bool:
    """Return whether words can round these steps to these levels without bias.

    >>> [k for k in range(1, 12) if fits(30, k, 64)]
    [1, 3, 6, 7, 10]
    """
    words = 1 << word_bits
    denominator = steps // math.gcd(steps, levels)
    return _find_kept(words // 2, denominator, levels + 1, words) is not None


def largest_error(k: int, gamma: float) -> float:
    """Return the largest variance of one user's estimate, over all real values.

    >>> round((10**6 * largest_error(33, 34 * 42.53e-6)) ** 0.5, 2)  # the sum of a million values
    26.44
    """
    a, b = gamma * k / 2, 1 - gamma
    f = min(max((1 - 2 * a) / (2 * b), 0.0), 1.0)
    at_zero = gamma * k * (2 * k + 1) / 6 - a * a
    return (at_zero + b * (1 - 2 * a) * f - (b * f) ** 2) / (b * k) ** 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundingSearch:
    """The search for k and gamma, for n honest users."""

    n: int
    epsilon: float
    delta: float
    possible: Callable[[int], bool]
    """Whether this number of levels fits the grid."""
    most: int

    def calibrate(self, levels: int | None) -> tuple[int, Fraction]:
        """Return the k of the smallest error (unless given), and its gamma by the blanket."""
        # Lies per level and user, if counts were normal: one count falls and another rises.
        mu = gaussian_scale(Promise(epsilon=self.epsilon, delta=self.delta))
        share = 1.15 * 2 / (mu * mu * self.n)
        if levels is None:
            # Lies per level and user hardly depend on k: once is enough to know how many.
            first = self._search_best(lambda k: self._gamma(k, share))
            share = 1 / (math.exp(self._epsilon0(first, share, _ROUGH)) + first)
            levels = self._search_best(lambda k: self._gamma(k, share))
        epsilon0 = self._epsilon0(levels, share, _FINE)
        return levels, (levels + 1) / (exp_lower(epsilon0) + levels)

    def take_published(self, levels: int | None) -> tuple[int, Fraction]:
        """Return the same with the published gamma."""
        if self.epsilon > 1 or self.n < 2:
            raise UnsupportedError(
                f"epsilon={self.epsilon!r}, n={self.n} is outside the theorem: epsilon <= 1, n >= 2"
            )
        each = max(14 * math.log(2 / self.delta) / self.epsilon**2, 27 / self.epsilon) / (
            self.n - 1
        )
        k = self._search_best(lambda k: (k + 1) * each) if levels is None else levels
        gamma = (k + 1) * each * (1 + 1e-12)
        if gamma >= 1:
            raise UnsupportedError(
                f"n={self.n} honest users are too few for the theorem at epsilon={self.epsilon!r}, "
                f"delta={self.delta!r}: gamma would be {gamma:.3g}"
            )
        return k, Fraction(gamma)

    def _gamma(self, k: int, share: float) -> float:
        """Return the gamma of randomized response with epsilon0 = epsilon, which is private by itself, or less."""
        return min((k + 1) * share, (k + 1) / (math.exp(min(self.epsilon, 700.0)) + k))

    def _search_best(self, gamma_of: Callable[[int], float]) -> int:
        """Search for the best k: rounding falls and noise rises with it, so the first rise of the error ends the
        search.
        """
        best, smallest = 0, math.inf
        for k in range(1, self.most + 1):
            gamma = gamma_of(k)
            error = largest_error(k, gamma) if gamma < 1 else math.inf
            if error > smallest * 1.5:
                break
            if error < smallest and self.possible(k):
                best, smallest = k, error
        if best == 0:
            raise UnsupportedError(f"n={self.n} users are too few, or their words too short")
        return best

    def _epsilon0(self, k: int, share: float, window: float) -> float:
        """Find nearly the largest epsilon0 whose blanket suffices, and not more."""
        limit = self.delta * (1 - 1e-6)  # room for a gamma that is rounded up afterwards

        def spare(epsilon0: float) -> float:
            if epsilon0 <= self.epsilon:
                return 1.0
            E = exp_lower(epsilon0)
            blanket = _level_blanket(E, k, 1 / (E + k))
            curve = BlanketProfile(blankets=(blanket,), n=self.n, epsilon0=epsilon0)
            return math.log(limit / max(curve.delta(self.epsilon), SMALLEST_DELTA))

        guess = math.log(max(1 / share - k, math.exp(min(1.01 * self.epsilon, 50.0))))
        near = _secant(spare, guess, window)
        if near is not None and near > self.epsilon:
            return near
        return find_largest_above(
            spare, end=_LARGEST_EPSILON0, guess=guess, tolerance=1e-5, floor=self.epsilon
        )


def _secant(spare: Callable[[float], float], guess: float, window: float) -> float | None:
    """Return an x with 0 < spare(x) < window, for a smooth decreasing function; None if it takes too long."""
    x, slope = guess, -_STEEPNESS
    value = spare(x)
    for _ in range(_SECANTS):
        if 0 < value < window:
            return x
        step = (window / 2 - value) / slope
        after = spare(x + step)
        if not math.isclose(after, value) and (after - value) / step < 0:
            slope = (after - value) / step
        x, value = x + step, after
    return None


SPEC = register(make, hints=LATE)
