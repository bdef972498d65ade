"""Count-min sketch: a histogram over a huge domain, in a few rows of public hash cells.

There are `rows` public functions h_t from the categories to `width` cells. A user sends the cell (t, h_t(x)) of
every row, and in each row D uniform dummies, D = floor(rho) or one more with probability frac(rho). Messages are
short, the tally is small, and any category can be looked up in it; `hashed_histogram`, where everybody draws a
function of their own, is more accurate with fewer messages.

Privacy holds for any fixed functions. Replacing x by y takes, in each row, a message from one cell and adds one
to another (or changes nothing, if x and y collide): the two-bins computation. Rows have noise of their own, so
their privacy losses add up: `accounting.rows` bounds the law of the sum.

Accuracy is over the public functions, too. h_t(x) is the first bits of a cubic polynomial of x over GF(2^32) with
coefficients derived from a public seed. For uniform coefficients the values at any four categories are
independent, so others collide with x with probability exactly 1/width, and any two others do so independently.
(Lower degrees are linear in the bits of x: whole subspaces collide at once, rarely but badly.) For one fixed seed
the same categories collide again and again: repeating the protocol with it does not average that error away.
Whoever chooses the seed must not know the data, nor may the data be chosen by someone who knows the seed.

References: Cormode, Muthukrishnan 2005, "An improved data stream summary: the count-min sketch and its
applications"; Ghazi, Golowich, Kumar, Pagh, Velingker 2021, "On the power of multiple anonymous messages" (with
noise in every cell). Deviations: dummies for noise, calibration by the exact two-bin divergence, and an estimate
without bias next to the minimum.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.rows import rows_delta, rows_level
from shuffledp.accounting.two_bins import dummies, poisson_level
from shuffledp.core.analyzer import Tally, message_tally
from shuffledp.core.arrays import Codes, Counts, Floats
from shuffledp.core.errors import DataError, UnsupportedError
from shuffledp.core.estimate import Estimate, NormalError
from shuffledp.core.privacy import Guarantee, Model
from shuffledp.core.protocol import HONEST, Cost, ShuffleProtocol, Spec, honest_users
from shuffledp.core.randomizer import Message
from shuffledp.core.shuffler import Shuffled
from shuffledp.core.validate import fraction_of_one, positive, whole
from shuffledp.numerics.entropy import SeededWords
from shuffledp.protocols._noise_messages import assembled
from shuffledp.protocols._sketch import MOST_ROWS, WIDEST, CountMin

__all__ = ["SPEC", "CountMin", "CountMinAnalyzer", "RowsOfDummies", "make"]

_ALL = 1 << 24  # categories up to which all are estimated at once
_DEGREE = 32  # of the field, larger than most domains: then collisions look random
_MOST_DUMMIES = 1 << 12  # of a user in a row


@dataclass(frozen=True, slots=True, kw_only=True)
class CountMinAnalyzer:
    """The mean over rows of what lies in a category's cells, without the noise and the collisions.

        estimate_x = mean over t of (N[t, h_t(x)] - n rho/w - n/w) / (1 - 1/w),        w the width.

    Unbiased over the noise and the choice of the public functions; for given functions it is off by the
    collisions they happen to have. With v the variance of a cell's noise, over both,

        variance_x = (v + (1/w)(1 - 1/w) sum over y != x of c_y^2) / (rows (1 - 1/w)^2),       exactly.

    Intervals are normal, with the sum of squares estimated from the tally. What they promise is over the choice
    of functions, too, not for given ones. Simulated at 95 %: 95.0 % for many categories of like size, 94 % if
    just about one falls into a cell, and more for skewed data (99 % for Zipf's law), where the error is mostly
    small and, with probability about rows/w for each heavy category, large.

    >>> p = make(n=100_000, k=10**9, epsilon=1.0, delta=1e-6, seed=3)
    >>> p.analyzer.estimate_of(Tally(counts=np.zeros(p.randomizer.rows * p.randomizer.width,
    ...     dtype=np.int64) + 900, users=100_000), [5, 10**8]).value.shape
    (2,)
    """

    randomizer: CountMin

    def tally(self, shuffled: Shuffled) -> Tally:
        return message_tally(shuffled, self.randomizer.rows * self.randomizer.width)

    def estimate(self, tally: Tally) -> Estimate:
        return self._estimate(tally, self._everything(), self.randomizer.domain.labels)

    def estimate_of(self, tally: Tally, categories: ArrayLike) -> Estimate:
        """The answer for some categories only: for domains too large to list.

        Here 5,000 of 10,000 hold the category, the others share another one. No row collides, which the
        estimate does not know: it subtracts the collisions that were to be expected.

        >>> p = make(n=10_000, k=2**32, epsilon=1.0, delta=1e-6, seed=1)
        >>> from shuffledp import SeededWords, randomize, shuffle
        >>> sent = randomize(p.randomizer, np.repeat([123_456_789, 7], 5_000), SeededWords(1))
        >>> tally = p.analyzer.tally(shuffle(sent, SeededWords(2)))
        >>> answer = p.analyzer.estimate_of(tally, [123_456_789])
        >>> answer.value.round(), answer.stderr.round()
        (array([4927.]), array([314.]))
        """
        return self._estimate(tally, self.randomizer.domain.codes(categories), None)

    def minimum(self, tally: Tally) -> Floats:
        """The count-min rule, for all categories: the smallest over rows of N[t, h_t(x)] - n rho/w.

        Biased: collisions only add, so without noise it is never below the truth, but mostly above; the
        minimum of several noises pulls it down again. Good when a few categories hold most of the people,
        for one row without a heavy collision is enough. No interval is known for it.

        >>> sketch = CountMin(k=4, width=2, r=2, functions=((0, 0, 1, 0), (0, 0, 2, 3)), surely=2, threshold=0)
        >>> CountMinAnalyzer(randomizer=sketch).minimum(Tally(counts=np.array([25, 5, 14, 16]), users=10))
        array([ 6.,  4., -5., -5.])
        """
        noisy = (
            tally.counts[self.randomizer.cells(self._everything())] - self._noise(tally.users)[0]
        )
        lowest: Floats = noisy.min(axis=0)
        return lowest

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        raise UnsupportedError(
            "count_min is unbiased over its public functions, not for given ones"
        )

    def variance(self, inputs: Counts) -> Floats:
        own = inputs.astype(np.float64)
        return self._variance(float(own @ own) - own**2, int(inputs.sum()))

    def _everything(self) -> Codes:
        if self.randomizer.k > _ALL:
            raise UnsupportedError(
                f"all k={self.randomizer.k} categories are too many: ask for some by estimate_of"
            )
        return np.arange(self.randomizer.k)

    def _noise(self, n: int) -> tuple[float, float]:
        """Mean and variance of the noise in a cell."""
        parts = self.randomizer.row.noise
        mean = sum(times * p for times, p in parts)
        variance = sum(times * p * (1 - p) for times, p in parts)
        return float(n * mean), float(n * variance)

    def _variance(self, others: Floats, n: int) -> Floats:
        """`others` is the sum of the squares of the other categories' counts."""
        w, noise = self.randomizer.width, self._noise(n)[1]
        total: Floats = noise + others * ((1 - 1 / w) / w)
        return total / (self.randomizer.rows * (1 - 1 / w) ** 2)

    def _estimate(self, tally: Tally, codes: Codes, labels: tuple[str, ...] | None) -> Estimate:
        n, w = tally.users, self.randomizer.width
        if n < 1:
            raise DataError("the tally is of no users: at least one is needed")
        found = tally.counts[self.randomizer.cells(codes)].mean(axis=0)
        value: Floats = (found - self._noise(n)[0] - n / w) / (1 - 1 / w)
        stderr = np.sqrt(self._variance(self._others(tally, value), n))
        return Estimate(
            value=value, error=NormalError(stderr=stderr), limits=(0.0, float(n)), labels=labels
        )

    def _others(self, tally: Tally, value: Floats) -> Floats:
        """The sum of squares of the other counts: estimated, but at least what n people must have."""
        n, own = tally.users, np.clip(value, 0, tally.users)
        left = n - own
        least = np.maximum(left, left**2 / (self.randomizer.k - 1))
        guess = self.sum_of_squares(tally) - own**2
        others: Floats = np.clip(guess, least, left**2 + n)
        return others

    def sum_of_squares(self, tally: Tally) -> float:
        """An estimate of the sum of c_y^2 over all categories, unbiased over noise and functions.

        In each row E[sum of (N_s - n rho/w)^2] = F + (n^2 - F)/w + w v, F the sum of squares.

        >>> sketch = CountMin(k=4, width=2, r=2, functions=((0, 0, 1, 0),), surely=2, threshold=0)
        >>> CountMinAnalyzer(randomizer=sketch).sum_of_squares(Tally(counts=np.array([19, 11]), users=10))
        44.0
        """
        n, w = tally.users, self.randomizer.width
        mean, variance = self._noise(n)
        squares = float(((tally.counts - mean) ** 2).sum()) / self.randomizer.rows
        return (squares - w * variance - n * n / w) / (1 - 1 / w)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsOfDummies:
    """The accountant: in every row at most two cells change, hidden by the row's own dummies.

    >>> rows = RowsOfDummies(epsilon=1.0, rows=2, rho=Fraction(1, 2), hit=Fraction(1, 4))
    >>> rows.guarantee(honest=4_000).delta < 1e-6
    True
    """

    epsilon: float
    rows: int
    rho: Fraction
    hit: Fraction
    """Probability that a dummy of a row is a given cell."""

    def guarantee(self, honest: int) -> Guarantee:
        total = dummies(n=honest, rho=self.rho, pair=2 * self.hit).total
        return Guarantee(
            epsilon=self.epsilon,
            delta=rows_delta(total=total, rows=self.rows, epsilon=self.epsilon),
            model=Model.SHUFFLE,
            proof="how the dummies split between the two cells that change in a row, and the sum of losses over rows",
            honest=honest,
        )


def make(
    *,
    n: int,
    k: int,
    epsilon: float,
    delta: float,
    seed: int = 0,
    rows: int = 4,
    width: int | None = None,
    honest: float = HONEST,
    word_bits: int = 64,
) -> ShuffleProtocol:
    """A histogram over k <= 2^32 categories in `rows` rows of `width` cells, a power of two.

    `seed` is public: it fixes the functions, and everybody must use the same. Without a width, one dummy per
    row and user is aimed at.

    >>> p = make(n=1_000_000, k=10**6, epsilon=1.0, delta=1e-6, honest=1.0, seed=1)
    >>> p.randomizer.width, round(p.cost.messages_mean, 2), p.cost.bits_per_message
    (8192, 8.79, 15)
    """
    n = whole("n", n, at_least=1)
    users = honest_users(n, honest)
    positive("epsilon", epsilon)
    fraction_of_one("delta", delta)
    k = whole("k", k, at_least=2, at_most=1 << _DEGREE)
    rows = whole("rows", rows, at_least=1, at_most=MOST_ROWS)
    word_bits = whole("word_bits", word_bits, at_least=1, at_most=64)
    if width is None:
        width = _balanced(
            users / (rows * poisson_level(epsilon=epsilon, delta=delta)), k, word_bits
        )
    width = whole("width", width, at_least=2, at_most=min(WIDEST, 1 << word_bits))
    hit = Fraction(1, width)
    rho = rows_level(n=users, pair=2 * hit, rows=rows, epsilon=epsilon, delta=delta, bits=word_bits)
    if rho > _MOST_DUMMIES:
        raise UnsupportedError(
            f"n={n} users are too few: each would send {float(rho):.3g} dummies in every row"
        )
    surely = math.floor(rho)
    randomizer = CountMin(
        k=k,
        width=width,
        r=_DEGREE,
        functions=_functions(seed, rows),
        surely=surely,
        threshold=int((rho - surely) * (1 << word_bits)),
        word_bits=word_bits,
    )
    stated = {"n": n, "k": k, "epsilon": epsilon, "delta": delta, "seed": seed, "rows": rows}
    stated |= {"width": width, "honest": honest, "word_bits": word_bits}
    return assembled(
        SPEC,
        stated,
        randomizer,
        CountMinAnalyzer(randomizer=randomizer),
        RowsOfDummies(epsilon=epsilon, rows=rows, rho=rho, hit=hit),
        Cost(
            messages_mean=float(rows * (1 + rho)),
            messages_max=rows * (1 + math.ceil(rho)),
            bits_per_message=(rows * width - 1).bit_length(),
            count_depends_on_value=False,
        ),
    )


def _balanced(cells: float, k: int, word_bits: int) -> int:
    """The power of two near `cells`; more than k of them would be wasted."""
    bits = round(math.log2(max(cells, 2.0)))
    return 1 << max(1, min(bits, (k - 1).bit_length(), word_bits, WIDEST.bit_length() - 1))


def _functions(seed: int, rows: int) -> tuple[tuple[int, int, int, int], ...]:
    words = iter(SeededWords(seed).words(4 * rows, _DEGREE).tolist())
    return tuple(zip(words, words, words, words, strict=True))


# With this seed some of three categories differ in one row, and some in both.
_TINY = {"seed": 5, "honest": 1.0, "word_bits": 3}
SPEC = Spec(
    name="count_min",
    title="count-min sketch",
    task="histogram",
    reference="Ghazi, Golowich, Kumar, Pagh, Velingker 2021",
    make=make,
)
