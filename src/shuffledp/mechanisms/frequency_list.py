r"""A private list of frequencies: how often the most frequent password occurs, the second, and so on.

The list f_1 >= f_2 >= ... >= 0 of n people says how guessable passwords are, and names none. Replacing one person lowers
one frequency by 1 and raises another, and sorting does not increase l1 distances: the list changes by at most 2.
The exponential mechanism with utility -||f - g||_1 releases each non-increasing list g of n numbers from 0 to n (an integer
partition, padded with zeros) with probability proportional to e^(-epsilon ||f - g||_1 / 4): epsilon-DP, delta = 0.

There are far fewer ordered lists than lists, so the l1 error is of the order of sqrt(n)/epsilon, while independent noise on
every place costs n/epsilon.

**Sampling.** Let W_i(v) be the weight of all ways to continue from place i with numbers at most v:
W_i(v) = sum over u <= v of e^(-c |f_i - u|) W_(i+1)(u). The places are drawn one after the other with these weights. The weights
are enclosed by integers of many bits; a word decides, and if it does not, more bits and further words do (see
numerics/entropy): the law is exact. It takes n^2 steps.

**Errors.** Let q = e^(-epsilon/4). Whatever the true list f is, and for every place i and every t >= 1,

    P(g_i >= f_i + t) <= 1 - product of (1 - q^k) over k = t .. t + n - i
    P(g_i <= f_i - t) <= 1 - product of (1 - q^k) over k = t .. t + i - 1

Proof. The law is a product of weights e^(-c |f_j - g_j|) on a distributive lattice: least and greatest of two ordered lists
are ordered. So increasing events are positively correlated (FKG), and, since e^(-c |f' - u|) / e^(-c |f - u|) does not
decrease in u for f' >= f, a larger f gives a stochastically larger g (Holley). For the first bound raise f to n before
place i and to f_i behind it, and condition on g_(i-1) = n and on g_n >= f_i: both are increasing events, so g_i only gets
larger, and lifting the ceiling n makes it larger still. What is left are n - i + 1 ordered numbers above f_i, a partition of
weight q^size into at most n - i + 1 parts, whose largest part is below t with probability given by a Gaussian binomial
coefficient: the product. The second bound is its mirror image: f_i before place i, 0 behind it, g_(i+1) = 0 and g_1 <= f_i.

Reference: Blocki, Datta, Bonneau 2016, "Differentially private password frequency lists" (the law; the sampling is ours).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.analyzer import Estimate, Interval, Value
from shuffledp.core.arrays import Counts, Floats
from shuffledp.core.errors import DataError
from shuffledp.core.privacy import Guarantee
from shuffledp.core.randomizer import WordSource
from shuffledp.core.validate import level as valid_level
from shuffledp.core.validate import whole
from shuffledp.mechanisms import promise_pure, read_exactly
from shuffledp.numerics.entropy import ExpMinus, cut_weights, find_position

_MOST = 1000  # people: a million steps
_BITS = 64  # of a word
_SLACK = 1 + 1e-9  # more than the rounding of a sum of logarithms of n floats
_START = 192  # bits of the weights; twice as many whenever they do not decide


@dataclass(frozen=True, slots=True, kw_only=True)
class FrequencyList:
    """The sorted frequencies of n people's values.

    >>> from shuffledp import SeededWords
    >>> passwords = FrequencyList(n=10, epsilon=4.0)
    >>> found = passwords.release([6, 3, 1], SeededWords(1))
    >>> len(found), bool((np.diff(found) <= 0).all())
    (10, True)
    """

    n: int
    epsilon: float

    def __post_init__(self) -> None:
        whole("n", self.n, at_least=1, at_most=_MOST)
        read_exactly("epsilon", self.epsilon)

    @property
    def guarantee(self) -> Guarantee:
        return promise_pure(
            self.epsilon,
            "the exponential mechanism on integer partitions, Blocki, Datta, Bonneau 2016",
        )

    @property
    def rate(self) -> Fraction:
        """What one unit of l1 distance costs in the exponent."""
        return Fraction(self.epsilon) / 4

    def release(self, frequencies: ArrayLike, rng: WordSource, bits: int = _BITS) -> Counts:
        """Release n frequencies, the largest first; most are 0. Each call spends the guarantee once more."""
        exact = self._read(frequencies)
        tables = _Tables(exact, self.rate, self.n)
        released, most = np.zeros(self.n, dtype=np.int64), self.n
        for place in range(self.n):
            most = tables.draw(place, most, rng, bits)
            if most == 0:
                break
            released[place] = most
        return released

    def estimate(self, released: ArrayLike) -> Estimate:
        """Read what was released as numbers with errors, the first place first; zeros are left out.

        >>> flowers = FrequencyList(n=150, epsilon=2.0)
        >>> print(flowers.estimate([58, 46, 44, 3, 1]))
            estimate   std. error   95% interval
        1         58          4.4       49 .. 65
        2         46          4.7       37 .. 54
        3         44          4.8       35 .. 50
        4          3          4.9        0 .. 11
        5          1          4.9        0 .. 10
        """
        values = np.asarray(released, dtype=np.float64)
        values = values[values > 0]
        names = tuple(str(place) for place in range(1, len(values) + 1))
        error = _PlaceError(mechanism=self, places=len(values))
        return Estimate(value=values, error=error, limits=(0.0, float(self.n)), labels=names)

    def count_certain(self, released: ArrayLike, level: float) -> int:
        """Count the places that are above what noise alone reaches: with this confidence, at least that many
        values exist.

        Places are tested in turn, up to the first that may be noise, so no place is the one too many with a
        chance above 1 - level, however many are tested.

        >>> FrequencyList(n=150, epsilon=2.0).count_certain([58, 46, 44, 3, 1], 0.95)
        3
        """
        beta, certain = 1 - valid_level(level), 0
        for value in np.asarray(released).tolist():
            if self._bound_tails(self.n - certain)[int(value)] > beta:
                break
            certain += 1
        return certain

    def _bound_tails(self, parts: int) -> Floats:
        """Bound the chance that a place is off by t = 0 .. n or more to the side to which `parts` places push it."""
        logs = np.log1p(-np.exp(-self.epsilon / 4 * np.arange(1, self.n + parts)))
        after = np.append(np.cumsum(logs[::-1])[::-1], 0.0)  # sums over k = t, t + 1, ...
        tails: Floats = -np.expm1(after[: self.n] - after[parts : self.n + parts]) * _SLACK
        bounds: Floats = np.minimum(np.append(1.0, tails), 1.0)
        return bounds

    def law(self, frequencies: ArrayLike) -> dict[tuple[int, ...], Fraction]:
        """Return every list with its probability, to about 50 digits: for n up to 6 or so.

        >>> law = FrequencyList(n=2, epsilon=1.0).law([2])
        >>> len(law), round(float(law[2, 0]), 3)
        (6, 0.228)
        """
        exact = self._read(frequencies)
        weights = {
            each: ExpMinus(self.rate * sum(abs(a - b) for a, b in zip(exact, each, strict=True)))(
                60
            )[0]
            for each in _list_ordered(self.n, self.n)
        }
        total = sum(weights.values())
        return {each: weight / total for each, weight in weights.items()}

    def _read(self, frequencies: ArrayLike) -> list[int]:
        array = np.asarray(frequencies)
        if array.ndim != 1 or array.dtype.kind not in "iu" or len(array) == 0:
            raise DataError("frequencies must be a list of integers")
        listed = sorted((int(each) for each in array.tolist() if each), reverse=True)
        if sum(listed) != self.n or (listed and listed[-1] < 0):
            raise DataError(f"frequencies must be >= 0 and sum to n={self.n}, not {sum(listed)}")
        return listed + [0] * (self.n - len(listed))


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlaceError:
    """How far each of the first places may be from the truth: by the bounds above, whatever the truth is."""

    mechanism: FrequencyList
    places: int

    @property
    def stderr(self) -> Value:
        """An upper bound on the root mean squared error."""
        odd = 2.0 * np.arange(self.mechanism.n + 1) - 1
        odd[0] = 0
        squares = [odd @ np.minimum(above + below, 1) for above, below in self._bound()]
        return np.sqrt(np.array(squares))

    def interval(self, value: Value, level: float) -> Interval:
        """Cover each place with at least this probability."""
        beta, n = (1 - valid_level(level)) / 2, self.mechanism.n
        reach = [[_find_reach(tail, beta) for tail in both] for both in self._bound()]
        above, below = np.array(reach, dtype=np.float64).reshape(-1, 2).T
        most = n // np.arange(1, self.places + 1)  # so many people may share the i-th place
        return Interval(
            np.clip(value - above, 0, most), np.minimum(np.maximum(value + below, 0), most)
        )

    exact_interval = interval

    def _bound(self) -> Iterator[tuple[Floats, Floats]]:
        for place in range(1, self.places + 1):
            tails = self.mechanism._bound_tails
            yield tails(self.mechanism.n - place + 1), tails(place)


def _find_reach(tails: Floats, beta: float) -> int:
    """Return the largest error that is not less likely than beta: all beyond it together are."""
    rare = np.flatnonzero(tails <= beta)
    return (int(rare[0]) if len(rare) else len(tails)) - 1


class _Tables:
    """Integers around the weights 2^bits e^(-c |f_i - u|) W_(i+1)(u), for every place i and number u."""

    def __init__(self, exact: Sequence[int], rate: Fraction, n: int) -> None:
        self.exact, self.rate, self.n = exact, rate, n
        self.scale = 0
        self.lows: list[list[int]] = []
        self.highs: list[list[int]] = []
        self._fill(_START)

    def draw(self, place: int, most: int, rng: WordSource, bits: int) -> int:
        """Return a number up to `most` for this place."""
        word, width = int(rng.words(1, bits)[0]), bits
        while True:
            lows, highs = self.lows[place][: most + 1], self.highs[place][: most + 1]
            # Weights that are not yet told from 0 decide nothing.
            position = find_position(word, *cut_weights(lows, highs, width)) if sum(lows) else None
            if position is not None:
                return position
            word = (word << bits) | int(rng.words(1, bits)[0])
            width += bits
            if width + _START > self.scale:
                self._fill(2 * self.scale)

    def _fill(self, scale: int) -> None:
        digits = math.ceil(0.31 * scale) + 8
        bounds = [ExpMinus(self.rate * d)(digits) for d in range(self.n + 1)]
        low = [math.floor(each * (1 << scale)) for each, _ in bounds]
        high = [math.ceil(each * (1 << scale)) for _, each in bounds]
        self.scale, self.lows, self.highs = scale, [], []
        after_low = after_high = [1 << scale] * (self.n + 1)
        for f in reversed(self.exact):
            lows = [low[abs(f - u)] * w >> scale for u, w in enumerate(after_low)]
            highs = [-(-high[abs(f - u)] * w >> scale) for u, w in enumerate(after_high)]
            self.lows.append(lows)
            self.highs.append(highs)
            after_low, after_high = list(accumulate(lows)), list(accumulate(highs))
        self.lows.reverse()
        self.highs.reverse()


def _list_ordered(places: int, most: int) -> list[tuple[int, ...]]:
    if places == 0:
        return [()]
    return [(u, *rest) for u in range(most + 1) for rest in _list_ordered(places - 1, u)]
