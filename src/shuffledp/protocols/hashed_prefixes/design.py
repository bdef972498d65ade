r"""How many levels, rows and buckets: what finds a word of the fewest people within a budget of messages.

Levels. The first one has all prefixes of up to 20 bits as candidates, every further one up to 16 bits more for each prefix
that was found: as much as can be looked through.

Parts. Either all levels share the rows of one part, and every person is seen at one of them; or the levels before the last
share one part and the last one, which counts the winners, has a part of its own, so that everybody is counted. Two
parts need about 1.8 times the noise each, but a person who is seen at every fourth level only is a quarter of a signal.

Prediction. A word of c people has Bin(c, share) + Poisson(share * v) messages in its cells of a level, v = mu n / m + n / buckets
dummies and collisions in its mean; so its probability to pass a level's threshold is known, and the word is found
unless it fails somewhere. Words of several hundred people that collide are peeled, and v is smaller then; words of
nearly that many people make it larger. The answer to real data measures v.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.protocol import Crowd, Promise
from shuffledp.core.validate import positive
from shuffledp.numerics.rounding import find_first
from shuffledp.protocols.hashed_prefixes.decoder import Seen, bound_tail
from shuffledp.protocols.tree import joint_poisson_level

MESSAGES = 12.0
"""The budget of messages unless another one is given."""
ALARMS = (2000.0, 0.01)
"""False prefixes that a level lets through on average, and false words that are reported."""

_FIRST, _FURTHER = 20, 16  # bits
_ONE_PART, _LAST_OF_ONE = 64, 28  # rows, and those of the last level
_FINDER, _COUNTER = 32, 16  # rows of the two parts
_WIDEST, _NARROWEST = 1 << 18, 128  # buckets: in fewer, a large word is not told from noise
_WANTED = 0.95
_OTHERS = 1000  # prefixes that are large indeed: a guess, for the number of candidates


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Parts with their levels as pairs (bits, rows), and the cells of a row."""

    parts: tuple[tuple[tuple[int, int], ...], ...]
    buckets: int

    @property
    def levels(self) -> list[tuple[int, float]]:
        """(bits, share of the people who are seen there), the first level first."""
        levels = []
        for part in self.parts:
            every = sum(rows for _, rows in part)
            levels += [(bits, rows / every) for bits, rows in part]
        return sorted(levels)


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelSight:
    """How many people a word needs to be seen, level by level.

    >>> sight = LevelSight(shares=(1.0,), means=(100.0,), limits=(70.0,))
    >>> round(sight.find_probability(70), 2), sight.find_count(0.95)
    (0.47, 87)
    """

    shares: tuple[float, ...]
    means: tuple[float, ...]
    """Messages of others in the cells of a word."""
    limits: tuple[float, ...]
    """How many more messages than that a word needs."""
    spreads: tuple[float, ...] | None = None
    """The variances of these messages; None: as of Poisson numbers."""

    @classmethod
    def of(cls, seen: Sequence[Seen]) -> "LevelSight":
        """Predict from what was measured; over fewer rows, thresholds are lower about as their square root."""
        return cls(
            shares=tuple(each.share * (1 - each.lost) for each in seen),
            means=tuple(each.mean * (1 - each.lost) for each in seen),
            limits=tuple(each.limit * (1 - each.lost / 2) for each in seen),
            spreads=tuple(each.variance * (1 - each.lost) for each in seen),
        )

    def find_probability(self, count: int) -> float:
        """Bound from below the probability that a word with this count is found: otherwise it fails at some level."""
        spreads = self.means if self.spreads is None else self.spreads
        levels = zip(self.shares, self.means, self.limits, spreads, strict=True)
        missed = math.fsum(_miss(count, *level) for level in levels)
        return max(0.0, 1.0 - missed)

    def find_count(self, probability: float = _WANTED) -> int:
        """Return the smallest count that is found with this probability."""
        low, high = 0, 1
        while self.find_probability(high) < probability:
            low, high = high, 2 * high
        return find_first(lambda n: self.find_probability(n) >= probability, low, high)

    def draw_curve(self, points: int = 24) -> list[tuple[int, float]]:
        """Return counts, and the probability that a word with that count is found.

        >>> LevelSight(shares=(1.0,), means=(100.0,), limits=(70.0,)).draw_curve(3)
        [(50, 0.023), (69, 0.434), (94, 0.993)]
        """
        ends = self.find_count(0.02), self.find_count(0.99)
        counts = np.unique(np.rint(np.geomspace(*ends, points)).astype(np.int64)).tolist()
        return [(count, round(self.find_probability(count), 3)) for count in counts]


def _miss(count: int, share: float, mean: float, limit: float, spread: float) -> float:
    """Return Pr[Bin(count, share) + noise - mean <= limit], noise a scaled Poisson number with this mean and
    variance.
    """
    # scipy.stats has the same, but takes a second to import.
    from scipy.special import bdtr, ndtr, pdtr

    def stay_below(seen: Floats) -> Floats:
        room = np.floor((mean + limit - seen) / scale)
        return np.where(room < 0, 0.0, pdtr(np.maximum(room, 0.0), mean / scale))

    scale = spread / mean
    if share > 1 - 1e-3:
        return float(stay_below(np.array(float(count))))
    sd = math.sqrt(count * share * (1 - share))
    if count > 10_000:
        return float(ndtr((limit - count * share) / math.hypot(sd, math.sqrt(spread))))
    # Beyond 12 standard deviations there is nobody.
    low = max(0, math.floor(count * share - 12 * sd) - 12)
    seen = np.arange(low, min(count, math.ceil(count * share + 12 * sd) + 12) + 1)
    masses = np.diff(bdtr(seen, count, share), prepend=0.0)
    return float(masses @ stay_below(seen.astype(np.float64)))


def find_poisson_end(mean: float, tail: float) -> int:
    """Return the smallest number that a Poisson number exceeds with probability `tail` at most.

    >>> find_poisson_end(317.0, 2.5e-10), find_poisson_end(0.01, 0.5)
    (434, 0)
    """
    from scipy.special import pdtrc

    low, high = -1, 1
    while pdtrc(high, mean) > tail:
        low, high = high, 2 * high
    return find_first(lambda count: bool(pdtrc(count, mean) <= tail), low, high)


def level_tails(
    lengths: Sequence[int], alarms: tuple[float, float] = ALARMS, others: int = _OTHERS
) -> list[float]:
    """Return the probability with which a candidate of each level may raise a false alarm.

    `others` is about how many prefixes are large indeed, at every level.

    >>> level_tails([20, 35])
    [0.0019073486328125, 1.0172526041666667e-10]
    """
    candidates, start, tails = 1.0, 0, []
    for place, length in enumerate(lengths, start=1):
        allowed = alarms[place == len(lengths)]
        tails.append(bound_tail(allowed, candidates * 2.0 ** (length - start)))
        candidates, start = alarms[0] + others, length
    return tails


def predict(design: Design, *, n: int, mu: float) -> LevelSight:
    """Return what such a design sees among n people, if the cells of a word hold mu dummies on average.

    >>> design = Design(parts=(((20, 11), (35, 11), (50, 10)), ((64, 16),)), buckets=2**15)
    >>> predict(design, n=10**6, mu=109.4).find_count(0.95)
    146
    """
    shares = [share for _, share in design.levels]
    means = [share * (mu + n / design.buckets) for share in shares]
    tails = level_tails([bits for bits, _ in design.levels])
    limits = (
        find_poisson_end(mean, tail) + 0.5 - mean for mean, tail in zip(means, tails, strict=True)
    )
    return LevelSight(shares=tuple(shares), means=tuple(means), limits=tuple(limits))


def split_bits(bits: int) -> tuple[int, ...]:
    """Return how many bits each level reads: the fewest levels with few enough candidates to scan.

    >>> split_bits(64)
    (20, 35, 49, 64)
    """
    if bits <= _FIRST:
        return (bits,)
    further = -(-(bits - _FIRST) // _FURTHER)
    ends = (_FIRST + round((bits - _FIRST) * i / further) for i in range(1, further + 1))
    return (_FIRST, *ends)


def _share_rows(rows: int, bits: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Share out the rows as evenly as possible, the first levels first."""
    each, rest = divmod(rows, len(bits))
    return tuple((length, each + (i < rest)) for i, length in enumerate(bits))


def _layouts(bits: int) -> list[tuple[tuple[tuple[int, int], ...], ...]]:
    *before, last = split_bits(bits)
    if not before:
        return [(((last, _COUNTER),),)]
    one = (*_share_rows(_ONE_PART - _LAST_OF_ONE, before), (last, _LAST_OF_ONE))
    return [(one,), (_share_rows(_FINDER, before), ((last, _COUNTER),))]


def _fit_buckets(parts: int, mu: float, trusted: int, messages: float) -> int | None:
    """Return the largest power of two that the budget allows for; None if none is wide enough."""
    room = (messages / parts - 1) * trusted / mu
    if room < _NARROWEST:
        return None
    return min(_WIDEST, 1 << (math.floor(room).bit_length() - 1))


def _weigh(bits: int, crowd: Crowd, promise: Promise, messages: float) -> list[tuple[int, Design]]:
    """Return all layouts that the budget allows for, with the count that each of them finds."""
    weighed = []
    for parts in _layouts(bits):
        # Dummies of the honest people in all cells of a word.
        mu = joint_poisson_level(parts=len(parts), epsilon=promise.epsilon, delta=promise.delta)
        buckets = _fit_buckets(len(parts), mu, crowd.trusted, messages)
        if buckets is not None:
            design = Design(parts=parts, buckets=buckets)
            sight = predict(design, n=crowd.n, mu=mu * crowd.n / crowd.trusted)
            weighed.append((sight.find_count(), design))
    return sorted(weighed, key=lambda each: (each[0], len(each[1].parts)))


def choose_design(bits: int, crowd: Crowd, promise: Promise, messages: float = MESSAGES) -> Design:
    """Return the design that finds words of the fewest people; refuses a crowd in which none could be found.

    >>> crowd, promise = Crowd(n=10**6, honest=1.0), Promise(epsilon=1.0, delta=1e-8)
    >>> choose_design(64, crowd, promise).buckets, len(choose_design(64, crowd, promise, 2.1).parts)
    (32768, 1)
    >>> choose_design(64, Crowd(n=100, honest=1.0), promise)
    Traceback (most recent call last):
    shuffledp.core.errors.UnsupportedError: n=100 people are too few for any word to be seen: at least 724 are needed
    """
    budget = positive("max_messages", messages)
    if budget <= 1:
        raise ParameterError("max_messages", messages, "must be > 1: one is the word's own")
    designs = _weigh(bits, crowd, promise, budget)
    if designs and designs[0][0] <= crowd.n:
        return designs[0][1]
    needed = needed_people(bits, crowd.honest, promise, budget)
    raise UnsupportedError(
        f"n={crowd.n} people are too few for any word to be seen: at least {needed:,} are needed"
    )


@lru_cache(maxsize=64)
def needed_people(bits: int, honest: float, promise: Promise, messages: float) -> int:
    """Return the smallest n, within a percent, among whom a word that everybody has would be found."""

    def enough(n: int) -> bool:
        designs = _weigh(bits, Crowd(n=n, honest=honest), promise, messages)
        return bool(designs) and designs[0][0] <= n

    low, high = 2, 4
    while not enough(high):
        low, high = high, 2 * high
        if high > 1 << 60:
            raise UnsupportedError("no crowd is large enough: allow for more messages")
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
