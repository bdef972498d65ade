"""Count-min sketch: a histogram over a huge domain, in a few rows of public hash cells.

There are `rows` public functions h_t from the categories to `width` cells. A user sends the cell (t, h_t(x)) of
every row, and in each row D uniform dummies, D = floor(rho) or one more with probability frac(rho). Messages are
short, the tally is small, and any category can be looked up in it; `hashed_histogram`, where everybody draws a
function of their own, is more accurate with fewer messages.

Privacy holds for any fixed functions. Replacing x by y takes, in each row, a message from one cell and adds one
to another (or changes nothing, if x and y collide): the two-bins computation. Rows have noise of their own, so
their privacy losses add up (`accounting.compose`).

Accuracy is over the public functions, too. h_t(x) is the first bits of a cubic polynomial of x over GF(2^32) with
coefficients derived from a public seed. For uniform coefficients the values at any four categories are
independent, so others collide with x with probability exactly 1/width, and any two others do so independently.
(Lower degrees are linear in the bits of x: whole subspaces collide at once, rarely but badly.) For one fixed seed
the same categories collide again and again: repeating the protocol with it does not average that error away.
Whoever chooses the seed must not know the data, nor may the data be chosen by someone who knows the seed: unless
one is given it comes from secure words, and is recorded among the parameters.

References: Cormode, Muthukrishnan 2005, "An improved data stream summary: the count-min sketch and its
applications"; Ghazi, Golowich, Kumar, Pagh, Velingker 2021, "On the power of multiple anonymous messages" (with
noise in every cell). Deviations: dummies for noise, calibration by the exact two-bin divergence, and an estimate
without bias next to the minimum.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.base import find_level, gaussian_delta, gaussian_scale
from shuffledp.accounting.compose import compose_delta
from shuffledp.accounting.moved_message import NoiseTotal, TwoBins, dummies, poisson_level
from shuffledp.core.analyzer import Estimate, Interval, Tally, Value, message_tally
from shuffledp.core.arrays import Codes, Counts, Floats, Words
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.protocol import LATE, Cost, Crowd, Parts, Promise
from shuffledp.core.randomizer import Law, Message, Messages, Shuffled, WordSource, join_laws
from shuffledp.core.validate import level as valid_level
from shuffledp.core.validate import whole
from shuffledp.numerics.entropy import SecureWords, SeededWords
from shuffledp.numerics.galois import check_degree, cubics
from shuffledp.numerics.intervals import BinomialSum, NoiseWindow
from shuffledp.numerics.rounding import dyadic_above
from shuffledp.protocols.dummies_histogram import DummiesHistogram
from shuffledp.protocols.shared.assembly import OfCategories, register, shuffle

_WIDEST = 1 << 26  # cells of a row
_MOST_ROWS = 64
_ALL = 1 << 24  # categories up to which all are estimated at once
_DEGREE = 32  # of the field, larger than most domains: then collisions look random
_MOST_DUMMIES = 1 << 12  # of a user in a row
_SEED_BITS = 53  # JSON numbers that every client reads as they are
_POINTS, _FEW_POINTS = 256, 32  # of the curve of a row, and of one that is smooth
_MANY = 4096.0  # messages, whose curve is smooth
_ROUNDS = 8  # each raises a low end, which lowers the variance, which raises it
_GRID = 1000  # sums of squares that are tried
_ROUNDING = 1e-12  # of n: more than the roundings of the ends


@dataclass(frozen=True, slots=True, kw_only=True)
class CountMin(OfCategories):
    """In each row t the message t width + h_t(x), and dummies: `DummiesHistogram` over the row's cells.

    `functions` are the coefficients in GF(2^r) of the rows, that of x^3 first. rho is surely + threshold / 2^word_bits.

    >>> sketch = CountMin(k=4, width=2, r=2, functions=((0, 0, 1, 0), (0, 0, 2, 3)), surely=0, threshold=1, word_bits=1)
    >>> sketch.cells(np.arange(4))
    array([[0, 0, 1, 1],
           [3, 2, 2, 3]])
    >>> sketch.pmf(0)[0, 3]
    Fraction(1, 4)
    """

    k: int
    width: int
    r: int
    functions: tuple[tuple[int, int, int, int], ...]
    surely: int
    threshold: int
    word_bits: int = 64
    epsilon0: ClassVar[float] = math.inf
    proof: ClassVar[str] = (
        "how the dummies split between the two cells that change in a row, and the sum of losses over rows"
    )

    def __post_init__(self) -> None:
        check_degree(self.r)
        whole("k", self.k, at_least=2, at_most=1 << self.r)
        whole("width", self.width, at_least=2, at_most=min(_WIDEST, 1 << self.r))
        if self.width.bit_count() != 1:
            raise ParameterError("width", self.width, "must be a power of two")
        functions = tuple((a, b, c, d) for a, b, c, d in self.functions)
        whole("rows", len(functions), at_least=1, at_most=_MOST_ROWS)
        for coefficient in sum(functions, ()):
            whole("functions", coefficient, at_least=0, at_most=(1 << self.r) - 1)
        object.__setattr__(self, "functions", functions)
        assert self.row.k == self.width  # checks the noise

    @property
    def rows(self) -> int:
        return len(self.functions)

    @property
    def row(self) -> DummiesHistogram:
        """What happens in one row, given the cell."""
        return DummiesHistogram(
            k=self.width, surely=self.surely, threshold=self.threshold, word_bits=self.word_bits
        )

    @property
    def words_per_input(self) -> int:
        return self.rows * self.row.words_per_input

    @property
    def cost(self) -> Cost:
        rho = self.row.rho
        return Cost(
            messages_mean=float(self.rows * (1 + rho)),
            messages_max=self.rows * (1 + math.ceil(rho)),
            bits_per_message=(self.rows * self.width - 1).bit_length(),
            count_depends_on_value=False,
        )

    def delta(self, honest: int, epsilon: float) -> float:
        """Bound delta: in every row at most two cells change, hidden by the row's own dummies."""
        total = dummies(n=honest, rho=self.row.rho, pair=2 * self.row.hit).total
        return rows_delta(total=total, rows=self.rows, epsilon=epsilon)

    def cells(self, codes: Codes) -> Counts:
        """Return [rows, len(codes)]: the message of each category in each row."""
        drop = self.r - (self.width.bit_length() - 1)
        hashed = cubics(self.functions, codes, self.k, self.r).astype(np.int64) >> drop
        cells: Counts = hashed + self.width * np.arange(self.rows)[:, None]
        return cells

    def encode(self, inputs: Codes, words: Words) -> Messages:
        row, each = self.row, self.row.words_per_input
        cells = self.cells(inputs)
        sent = [
            row.encode(cells[t] - t * self.width, words[:, t * each : (t + 1) * each])
            for t in range(self.rows)
        ]
        return Messages.join(sent, range(0, self.rows * self.width, self.width))

    def pmf(self, x: int) -> Law:
        cells = self.cells(np.array([x]))[:, 0].tolist()
        laws = [self.row.pmf(cell - t * self.width) for t, cell in enumerate(cells)]
        return join_laws(laws, range(0, self.rows * self.width, self.width))

    def deal(self, inputs: Counts, source: WordSource) -> Tally:
        """Deal row by row: the users' cells, and all dummies together."""
        row = self.row
        counts = [row.deal(own, source).counts for own in self.count_own(inputs)]
        return Tally(counts=np.concatenate(counts), users=int(inputs.sum()))

    def count_own(self, inputs: Counts) -> Counts:
        """Return the messages in each cell without any noise: [rows, width]."""
        held = np.flatnonzero(inputs)
        own = np.zeros((self.rows, self.width), dtype=np.int64)
        for t, cells in enumerate(self.cells(held)):
            np.add.at(own[t], cells - t * self.width, inputs[held])
        return own


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SketchError:
    r"""The error of the estimates: what the fewest and the most messages in a category's cells say of its count.

    In row t a category with c people has N_t = c + C_t + B_t messages: C_t of those who collide with it, B_t of noise,
    whose law is known (mean mu, variance v). Over the functions E[C_t] = (n - c)/w and Var[C_t] = (F - c^2) (1/w)(1 - 1/w),
    F the sum of the squares of all counts; rows are independent. Of what an interval may miss, a tenth is for a
    bound of F, and each end has two statements that fail with probability at most a quarter of the rest, g:

    - c >= min N_t - b - (n - c) / (w (p - q)), p = g^(1/rows): in one row B_t > b has probability q, and C_t > z at most
      E[C_t] / z = p - q (Markov); so in all rows one of them has at most p^rows = g.
    - c >= min N_t - mu - (n - c)/w - s sqrt(1/p - 1), s^2 = v + Var[C_t]: C_t + B_t is as far above its mean in one row
      with probability at most p (Cantelli).
    - c <= min N_t - b', as C_t >= 0, with Pr[B_t < b'] <= g / rows.
    - c <= max N_t - mu - (n - c)/w + s sqrt(1/p - 1), as in the second.

    F is bounded by Cantelli's inequality, too. The estimate of it (`sum_of_squares`) is unbiased. It is off by the
    collisions of pairs, which are uncorrelated: their variance is at most 2 F^2 / w in each row. It is off by twice the sum
    of (people in a cell)(noise there), given the functions of mean 0 and of a variance at most 4 v times the sum of the
    squared people in the cells, which is F + n^2 / w at most on average; and by the squares of the noise, see
    `_square_noise`. All of it divided by 1 - 1/w, and averaged over rows.
    """

    stderr: Floats
    fewest: Counts
    """The smallest N_t of each category."""
    most: Counts
    squares: float
    """The estimate of F."""
    n: int
    width: int
    rows: int
    noise: BinomialSum

    def interval(self, value: Value, level: float) -> Interval:
        """Return an interval that covers the truth with probability at least `level`, over noise and functions,
        whatever the data.
        """
        miss = 1 - valid_level(level)
        g, largest = 0.225 * miss, self.bound_squares(0.1 * miss)
        spread = math.sqrt(g ** (-1 / self.rows) - 1)
        # No tail of the noise that is cut is below g / rows or g / 16.
        window = self.noise.window(g / max(16, self.rows))
        n, w = float(self.n), self.width
        mean, slope = float(self.noise.centre) + n / w, 1 - 1 / w
        low = np.maximum(self._low_by_markov(window, g), 0.0)
        for _ in range(_ROUNDS):
            far = spread * self._sd(low, largest)
            low = np.maximum(low, (self.fewest - mean - far) / slope)
        far = spread * self._sd(low, largest)
        high = np.minimum(
            self.fewest - window.cut_equally(1 - 2 * g / self.rows)[0],
            (self.most - mean + far) / slope,
        )
        # Counts are whole; and the answer itself is never refused.
        seen = np.clip(value, 0, n)
        low = np.clip(np.ceil(low - _ROUNDING * n), 0, seen)
        return Interval(low, np.clip(np.floor(high + _ROUNDING * n), seen, n))

    exact_interval = interval

    def _low_by_markov(self, window: NoiseWindow, g: float) -> Floats:
        p = g ** (1 / self.rows)
        # q may depend on n, but not on what is seen: the best one for a category that nobody holds.
        tails = [min(p * share, 0.49) for share in (1 / 16, 1 / 4, 1 / 2)]
        taken = [(window.cut_equally(1 - 2 * q)[1], 1 / (self.width * (p - q))) for q in tails]
        noise, share = min(taken, key=lambda each: each[0] + self.n * each[1])
        if share >= 1:
            return np.zeros(len(self.fewest))
        low: Floats = (self.fewest - noise - self.n * share) / (1 - share)
        return low

    def _sd(self, least: Floats, largest: float) -> Floats:
        """Return the largest s of a category with at least that many people."""
        others = np.minimum(largest - least**2, (self.n - least) ** 2).clip(0)
        return np.sqrt(self.noise.variance + others * ((1 - 1 / self.width) / self.width))

    def bound_squares(self, miss: float) -> float:
        """Bound F from above, except with probability `miss`."""
        n, w = float(self.n), self.width
        F = np.geomspace(n, n * n, _GRID) if n > 1 else np.ones(1)
        crossed = 2 * np.sqrt(self.noise.variance * (F + n * n / w)) + self._square_noise()
        sd = np.sqrt(2 * F * F / w + crossed**2) / ((1 - 1 / w) * math.sqrt(self.rows))
        possible = np.flatnonzero(F - math.sqrt(1 / miss - 1) * sd <= self.squares)
        last = int(possible[-1]) + 1 if len(possible) else 0
        return float(F[min(last, len(F) - 1)])

    def _square_noise(self) -> float:
        """Bound from above the standard deviation of the sum of the squared noise in the cells of a row.

        With D dummies, the sum of squares is D and twice the pairs in one cell, which are uncorrelated: a variance of at most
        2 D^2 / w. Its mean given D is D (1 - 1/w) + (D - E[D])^2 / w; D varies like Bin(n, 1/2) at most.
        """
        n, w = float(self.n), self.width
        mean = float(self.noise.centre) * w
        pairs = 2 * (mean**2 + n / 4) / w
        return math.sqrt(pairs + (math.sqrt(n) / 2 + math.sqrt(3 * n * n / 16 + n / 4) / w) ** 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountMinAnalyzer:
    """The mean over rows of what lies in a category's cells, without the noise and the collisions.

        estimate_x = mean over t of (N[t, h_t(x)] - n rho/w - n/w) / (1 - 1/w),        w the width.

    Unbiased over the noise and the choice of the public functions; for given functions it is off by the
    collisions they happen to have. With v the variance of a cell's noise, over both,

        variance_x = (v + (1/w)(1 - 1/w) sum over y != x of c_y^2) / (rows (1 - 1/w)^2),       exactly.

    Intervals (`SketchError`) cover with at least their level for any data. That is over the choice of functions, too, not
    for given ones.

    >>> p = make(n=100_000, k=10**9, epsilon=1.0, delta=1e-6, seed=3)
    >>> p.analyzer.estimate_of(Tally(counts=np.zeros(p.randomizer.rows * p.randomizer.width,
    ...     dtype=np.int64) + 900, users=100_000), [5, 10**8]).value.shape
    (2,)
    """

    randomizer: CountMin

    def influence(self) -> Fraction:
        """Return by how many people one message can move a category: that of one row."""
        width = self.randomizer.width
        return Fraction(width, self.randomizer.rows * (width - 1))

    def tally(self, shuffled: Shuffled) -> Tally:
        return message_tally(shuffled, self.randomizer.rows * self.randomizer.width)

    def estimate(self, tally: Tally) -> Estimate:
        return self._estimate(tally, self._everything(), self.randomizer.domain.labels)

    def foresee(self, inputs: Counts) -> Estimate:
        """Return the estimate to expect for this data set: the public functions decide who collides.

        The noise of one row serves for all of them, since a category is in other cells there.
        """
        own = self.randomizer.count_own(inputs)
        noise = self.randomizer.row.deal(own[0], SeededWords(0)).counts - own[0]
        tally = Tally(counts=(own + noise).ravel(), users=int(inputs.sum()))
        return self._estimate(tally, self._everything(), None)  # a million names would take long

    def estimate_of(self, tally: Tally, categories: ArrayLike) -> Estimate:
        """Return the answer for some categories only: for domains too large to list.

        Here 5,000 of 10,000 hold the category, the others share another one. No row collides, which the
        estimate does not know: it subtracts the collisions that were to be expected.

        >>> p = make(n=10_000, k=2**32, epsilon=1.0, delta=1e-6, seed=1)
        >>> from shuffledp import SeededWords, randomize, shuffle
        >>> sent = randomize(p.randomizer, np.repeat([123_456_789, 7], 5_000), SeededWords(1))
        >>> tally = p.analyzer.tally(shuffle(sent, SeededWords(2)))
        >>> answer = p.analyzer.estimate_of(tally, [123_456_789])
        >>> answer.value.round(), answer.stderr.round()
        (array([4926.]), array([314.]))
        """
        return self._estimate(tally, self.randomizer.domain.codes(categories), None)

    def minimum(self, tally: Tally) -> Floats:
        """Return the count-min rule, for all categories: the smallest over rows of N[t, h_t(x)] - n rho/w.

        Biased: collisions only add, so without noise it is never below the truth, but mostly above; the
        minimum of several noises pulls it down again. Good when a few categories hold most of the people,
        for one row without a heavy collision is enough.

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
        squares = np.square(inputs, dtype=np.float64)
        return self._variance(squares.sum() - squares, int(inputs.sum()))

    def _everything(self) -> Codes:
        if self.randomizer.k > _ALL:
            raise UnsupportedError(
                f"all k={self.randomizer.k} categories are too many: ask for some by estimate_of"
            )
        return np.arange(self.randomizer.k)

    def _noise(self, n: int) -> tuple[float, float]:
        """Compute the mean and variance of the noise in a cell."""
        parts = self.randomizer.row.noise
        mean = sum(times * p for times, p in parts)
        variance = sum(times * p * (1 - p) for times, p in parts)
        return float(n * mean), float(n * variance)

    def _variance(self, others: Floats, n: int) -> Floats:
        """Return the variance; `others` is the sum of the squares of the other categories' counts."""
        w, noise = self.randomizer.width, self._noise(n)[1]
        total: Floats = noise + others * ((1 - 1 / w) / w)
        return total / (self.randomizer.rows * (1 - 1 / w) ** 2)

    def _estimate(self, tally: Tally, codes: Codes, labels: tuple[str, ...] | None) -> Estimate:
        n, w = tally.people(), self.randomizer.width
        counts = tally.counts[self.randomizer.cells(codes)]
        value: Floats = (counts.mean(axis=0) - self._noise(n)[0] - n / w) / (1 - 1 / w)
        error = SketchError(
            stderr=np.sqrt(self._variance(self._others(tally, value), n)),
            fewest=counts.min(axis=0),
            most=counts.max(axis=0),
            squares=self.sum_of_squares(tally),
            n=n,
            width=w,
            rows=self.randomizer.rows,
            noise=BinomialSum(parts=tuple((n * m, p) for m, p in self.randomizer.row.noise)),
        )
        return Estimate(value=value, error=error, limits=(0.0, float(n)), labels=labels)

    def _others(self, tally: Tally, value: Floats) -> Floats:
        """Return the sum of squares of the other counts: estimated, but at least what n people must have."""
        n, own = tally.users, np.clip(value, 0, tally.users)
        left = n - own
        least = np.maximum(left, left**2 / (self.randomizer.k - 1))
        guess = self.sum_of_squares(tally) - own**2
        others: Floats = np.clip(guess, least, left**2 + n)
        return others

    def sum_of_squares(self, tally: Tally) -> float:
        """Return an estimate of the sum of c_y^2 over all categories, unbiased over noise and functions.

        In each row E[sum of (N_s - n rho/w)^2] = F + (n^2 - F)/w + w v, F the sum of squares.

        >>> sketch = CountMin(k=4, width=2, r=2, functions=((0, 0, 1, 0),), surely=2, threshold=0)
        >>> CountMinAnalyzer(randomizer=sketch).sum_of_squares(Tally(counts=np.array([19, 11]), users=10))
        44.0
        """
        n, w = tally.users, self.randomizer.width
        mean, variance = self._noise(n)
        squares = float(((tally.counts - mean) ** 2).sum()) / self.randomizer.rows
        return (squares - w * variance - n * n / w) / (1 - 1 / w)


@shuffle(
    name="count_min",
    task="histogram",
    title="count-min sketch",
    reference="Ghazi, Golowich, Kumar, Pagh, Velingker 2021",
)
def make(
    crowd: Crowd,
    promise: Promise,
    *,
    k: int,
    seed: int | None = None,
    rows: int = 4,
    width: int | None = None,
    word_bits: int = 64,
) -> Parts:
    """Make a histogram over k <= 2^32 categories in `rows` rows of `width` cells, a power of two.

    `seed` is public: it fixes the functions, and everybody must use the same; by default a new one is
    drawn. Without a width, one dummy per row and user is aimed at.

    >>> p = make(n=1_000_000, k=10**6, epsilon=1.0, delta=1e-6, honest=1.0)
    >>> p.randomizer.width, round(p.cost.messages_mean, 2), p.cost.bits_per_message
    (8192, 8.75, 15)
    >>> 0 <= p.parameters["seed"] < 2**53
    True
    """
    whole("k", k, at_least=2, at_most=1 << _DEGREE)
    whole("rows", rows, at_least=1, at_most=_MOST_ROWS)
    whole("word_bits", word_bits, at_least=1, at_most=64)
    users, epsilon, delta = crowd.trusted, promise.epsilon, promise.delta
    if seed is None:
        seed = int(SecureWords().words(1, _SEED_BITS)[0])
    if width is None:
        level = poisson_level(epsilon=epsilon, delta=delta)
        width = _balance(users / (rows * level), k, word_bits)
    whole("width", width, at_least=2, at_most=min(_WIDEST, 1 << word_bits))
    rho = rows_level(
        n=users, pair=Fraction(2, width), rows=rows, epsilon=epsilon, delta=delta, bits=word_bits
    )
    if rho > _MOST_DUMMIES:
        raise UnsupportedError(
            f"n={crowd.n} users are too few: each would send {float(rho):.3g} dummies in every row"
        )
    surely = math.floor(rho)
    device = CountMin(
        k=k,
        width=width,
        r=_DEGREE,
        functions=_derive_functions(seed, rows),
        surely=surely,
        threshold=int((rho - surely) * (1 << word_bits)),
        word_bits=word_bits,
    )
    resolved = {"seed": seed, "width": width}
    analyzer = CountMinAnalyzer(randomizer=device)
    return Parts(
        device,
        analyzer,
        resolved=resolved,
        deal=device.deal,
        influence=analyzer.influence,
        foresee=analyzer.foresee,
    )


def _balance(cells: float, k: int, word_bits: int) -> int:
    """Return the power of two near `cells`; more than k of them would be wasted."""
    bits = round(math.log2(max(cells, 2.0)))
    return 1 << max(1, min(bits, (k - 1).bit_length(), word_bits, _WIDEST.bit_length() - 1))


def _derive_functions(seed: int, rows: int) -> tuple[tuple[int, int, int, int], ...]:
    words = iter(SeededWords(seed).words(4 * rows, _DEGREE).tolist())
    return tuple(zip(words, words, words, words, strict=True))


def rows_delta(*, total: NoiseTotal, rows: int, epsilon: float) -> float:
    """Bound from above the true delta for `rows` independent pairs, each with its own T ~ total: losses add up.

    >>> from shuffledp.accounting.moved_message import PoissonTotal
    >>> f"{rows_delta(total=PoissonTotal(mean=300.0), rows=4, epsilon=1.0):.1e}"
    '7.0e-07'
    """
    # One message is 2 / sqrt(T) standard deviations of a row's noise. Sums of losses are sharp near a guess of delta.
    mu = 2 * math.sqrt(rows / max(total.mean, 1e-3))
    near = min(max(gaussian_delta(mu, epsilon), 1e-90), 0.5)
    points = _POINTS if total.mean < _MANY else _FEW_POINTS
    return compose_delta([TwoBins(total=total)] * rows, epsilon=epsilon, near=near, points=points)


@lru_cache(maxsize=64)
def rows_level(
    *, n: int, pair: Fraction, rows: int, epsilon: float, delta: float, bits: int
) -> Fraction:
    """Find nearly the smallest rho, a multiple of 2^-bits, such that n users' dummies in each row suffice.

    >>> rho = rows_level(n=10**6, pair=Fraction(2, 8192), rows=4, epsilon=1.0, delta=1e-6, bits=64)
    >>> round(float(rho) * 10**6 / 8192)
    145
    """
    # Each further row costs 2 / mu^2 messages per cell, mu that of a Gaussian pair with this promise.
    level = poisson_level(epsilon=epsilon, delta=delta)
    level += (rows - 1) * 2 / gaussian_scale(Promise(epsilon=epsilon, delta=delta)) ** 2
    each = 2 / (n * float(pair))

    def delta_at(rho: float) -> float:
        total = dummies(n=n, rho=dyadic_above(rho, bits), pair=pair).total
        return rows_delta(total=total, rows=rows, epsilon=epsilon)

    rho = find_level(
        delta_at,
        delta,
        guess=level * each,
        largest=2 * (level + 10) * each,
        tolerance=5e-4,
        epsilon=epsilon,
        refusal=f"epsilon={epsilon!r} needs more dummies than this routine handles",
    )
    return dyadic_above(rho, bits)


SPEC = register(make, hints=LATE)
