"""Optimized local hashing: hash the category into few buckets, then randomize the bucket.

As accurate as the best unary encoding for light categories, with short messages however many
categories there are; the price is paid by the analyzer, who evaluates every hash function at every
category.
Reference: Wang, Blocki, Li, Jha 2017, "Locally differentially private protocols for frequency
estimation".
"""

from collections.abc import Set
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import ClassVar

import numpy as np

from shuffledp.accounting.blanket import Blanket, two_level_blanket
from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.core.domain import find_outside
from shuffledp.core.errors import DataError, ParameterError, UnsupportedError
from shuffledp.core.protocol import LATE, Cost, Parts
from shuffledp.core.randomizer import Law, Message, Messages, NumberCode, Shuffled
from shuffledp.core.validate import positive, whole
from shuffledp.numerics.galois import POLYNOMIALS, line, multiples, multiply
from shuffledp.numerics.rounding import exp_lower
from shuffledp.protocols.krr import KRR
from shuffledp.protocols.shared.assembly import OfCategories, local, register, shuffled
from shuffledp.protocols.shared.frequency import FrequencyAnalyzer, light_variance

_USERS = (
    255  # as many hits fit into a byte, and adding bytes is eight times faster than adding ints
)
_CATEGORIES = 512  # 255 x 512 hash values stay in the CPU's cache
_LAW_MAX = 1 << 16  # hash functions; a longer list would take seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalHashing(OfCategories):
    r"""Local hashing: (a, b, y), a hash function and a randomized bucket.

    The hash of j is the bucket floor(u g / 2^r) of u = a j + b in the field GF(2^r), r being half of
    word_bits. One word is the pair (a, b), the other one randomizes the bucket of x by g-ary
    randomized response, so the likelihood ratio is at most e^epsilon0, exactly.

    For uniform a and b the values u at two categories are independent and uniform. So the
    probability of a collision is known exactly: the sum over buckets of (size / 2^r)^2, which is 1/g
    but for the rounding of the sizes. (Families of which only an upper bound 1/g is known, as
    ((a j + b) mod P) mod g is, bias the estimate.)

    >>> hashing = LocalHashing(k=5, g=3, epsilon0=1.0, word_bits=6)
    >>> hashing.collision_probability, hashing.p, hashing.q
    (Fraction(11, 32), Fraction(9, 16), Fraction(345, 1024))
    """

    k: int
    g: int
    epsilon0: float
    word_bits: int = 32
    response: KRR = field(init=False)
    """Randomized response over the buckets."""
    words_per_input: ClassVar[int] = 2

    def __post_init__(self) -> None:
        positive("epsilon0", self.epsilon0)
        whole("word_bits", self.word_bits, at_least=4, at_most=64)
        if self.word_bits % 2 or self.r not in POLYNOMIALS:
            raise ParameterError("word_bits", self.word_bits, "must be 4, 6, 8, ..., 32 or 64")
        whole("k", self.k, at_least=2, at_most=1 << self.r)
        whole("g", self.g, at_least=2, at_most=1 << (self.r - 1))
        response = KRR(k=self.g, epsilon0=self.epsilon0, word_bits=self.word_bits)
        object.__setattr__(self, "response", response)

    @property
    def r(self) -> int:
        """Bits of a hash value before it becomes a bucket."""
        return self.word_bits // 2

    @property
    def cost(self) -> Cost:
        return Cost.fixed(self.word_bits + (self.g - 1).bit_length())

    @property
    def code(self) -> NumberCode:
        return NumberCode(sizes=self._sizes, dtype=self._dtype.name, row=True)

    @property
    def collision_probability(self) -> Fraction:
        """Exact probability that two given categories have the same bucket."""
        size, larger = divmod(1 << self.r, self.g)
        squares = (self.g - larger) * size**2 + larger * (size + 1) ** 2
        return Fraction(squares, 1 << self.word_bits)

    @property
    def p(self) -> Fraction:
        return self.response.p

    @property
    def q(self) -> Fraction:
        same = self.collision_probability
        return same * self.response.p + (1 - same) * self.response.q

    def encode(self, inputs: Codes, words: Words) -> Messages:
        a = (words[:, 0] >> words.dtype.type(self.r)).astype(self._dtype)
        b = (words[:, 0] & words.dtype.type((1 << self.r) - 1)).astype(self._dtype)
        buckets = self._bucket(multiply(a, inputs, self.k, self.r) ^ b)
        sent = self.response.encode(buckets, words[:, 1:]).payload
        return Messages.one_each(np.column_stack((a, b, sent.astype(self._dtype))))

    @property
    def _dtype(self) -> np.dtype[np.unsignedinteger]:
        return np.min_scalar_type((1 << self.r) - 1)

    def _bucket(self, hashes: Words) -> Counts:
        return (hashes.astype(np.int64) * self.g) >> self.r

    def _find_first(self, buckets: Counts) -> Counts:
        """Return the smallest hash value in a bucket v: ceil(v 2^r / g)."""
        return -((-buckets << self.r) // self.g)

    def pmf(self, x: int) -> Law:
        law: Law = {}
        functions = 1 << self.r
        if functions**2 > _LAW_MAX:
            raise UnsupportedError(f"the law has 2^{2 * self.r} hash functions")
        for a, b in product(range(functions), repeat=2):
            mine = int(self._values(a, b)[x])
            for (y,), mass in self.response.pmf(mine).items():
                assert isinstance(y, int)
                law[((a, b, y),)] = mass / functions**2
        return law

    def _values(self, a: int, b: int) -> Counts:
        """Return the bucket of each category under one hash function."""
        slope, start = np.array([[a], [b]], dtype=self._dtype)
        return self._bucket(line(start, multiples(slope, self.k, self.r), self.k)[:, 0])

    def blankets(self) -> tuple[Blanket, ...]:
        """Return what all categories' laws have in common, for the accountant of the shuffled view.

        Uses the exact collision probability: assuming 1/g would not be safe.
        """
        same, low = self.collision_probability, self.response.q
        return (
            two_level_blanket(
                ratio=self.response.p / low,
                one=(1 - same) * low,
                both=same * low,
                neither=(self.g - 2 + same) * low,
            ),
        )

    def find_supported(self, message: Message) -> Set[int]:
        assert isinstance(message, tuple)
        a, b, y = message
        return set(np.flatnonzero(self._values(a, b) == y).tolist())

    def tally(self, shuffled: Shuffled) -> Tally:
        reports = shuffled.payload
        if reports.ndim != 2 or reports.shape[1] != 3 or reports.dtype.kind not in "iu":
            shown = f"an array of shape {reports.shape} and type {reports.dtype}"
            raise DataError(f"messages are rows (a, b, y) of integers, not {shown}")
        for name, column, size in zip("aby", reports.T, self._sizes, strict=True):
            if find_outside(column, size) is not None:
                raise DataError(f"the {name} of a message is outside 0 .. {size - 1}")
        counts = np.zeros(self.k, dtype=np.int64)
        for start in range(0, len(reports), _USERS):
            self._count(counts, reports[start : start + _USERS])
        return Tally(counts=counts, users=shuffled.users)

    @property
    def _sizes(self) -> tuple[int, int, int]:
        return 1 << self.r, 1 << self.r, self.g

    def _count(self, counts: Counts, reports: Words) -> None:
        a, b = reports[:, :2].T.astype(self._dtype)
        y = reports[:, 2].astype(np.int64)
        first = self._find_first(y).astype(self._dtype)
        width = (self._find_first(y + 1) - self._find_first(y)).astype(self._dtype)
        # j = block * _CATEGORIES + rest has the hash value (b + a rest) + a block * _CATEGORIES.
        doublings = multiples(a, self.k, self.r)
        within = (_CATEGORIES - 1).bit_length()
        rests = line(b, doublings[:within], min(self.k, _CATEGORIES))
        blocks = line(np.zeros_like(b), doublings[within:], -(-self.k // _CATEGORIES))
        for start, block in zip(range(0, self.k, _CATEGORIES), blocks, strict=True):
            hashes = rests[: self.k - start] ^ block  # [categories, users]
            hashes -= first  # wraps around: everything below the bucket lands above its width
            hits = (hashes < width).view(np.uint8)
            counts[start : start + len(hits)] += np.add.reduce(hits, axis=1, dtype=np.uint8)


@local(
    name="local_hashing",
    task="histogram",
    title="optimized local hashing",
    reference="Wang, Blocki, Li, Jha 2017",
)
def make_local(*, k: int, epsilon: float, word_bits: int = 32) -> Parts:
    """Make optimized local hashing for histograms over k <= 2^(word_bits / 2) categories.

    g is the number of buckets near e^epsilon + 1 with the smallest exact variance at light
    categories.

    >>> make_local(k=1024, epsilon=3.0).randomizer.g
    21
    """
    hashing = _choose_best(k, positive("epsilon", epsilon), word_bits)
    analyzer = FrequencyAnalyzer(oracle=hashing)
    return Parts(
        hashing,
        analyzer,
        code=hashing.code,
        blankets=hashing.blankets,
        influence=analyzer.influence,
    )


def _choose_best(k: int, epsilon0: float, word_bits: int) -> LocalHashing:
    whole("word_bits", word_bits, at_least=4, at_most=64)
    below = int(exp_lower(epsilon0)) + 1
    most = 1 << (word_bits // 2 - 1)
    candidates = [
        LocalHashing(k=k, g=g, epsilon0=epsilon0, word_bits=word_bits)
        for g in sorted({2, min(below, most), min(below + 1, most)})
    ]
    return min(candidates, key=lambda hashing: light_variance(hashing.p, hashing.q))


make = shuffled(make_local)
SPEC = register(make_local, make, hints=LATE)
