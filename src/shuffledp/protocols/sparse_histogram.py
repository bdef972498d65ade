"""A histogram with rare noise messages: everybody adds a few random bins to their own.

A user sends their category and a random set of noise bins, each bin being in it with a small probability
gamma (about 43 / n at epsilon = 1, delta = 1e-6, whatever k is). So 1 + k gamma messages per user, an
error that depends neither on k nor on the counts, and no bias.

The set is drawn in time proportional to its size: M ~ Poisson(lambda), moved down to a maximum that it
passes with probability below 10^-3, then M uniform bins, repeated ones dropped. Without a maximum the
bins would be perfectly independent. What is sampled is a table of 2^word_bits words, and gamma, the
estimate, the variance and the guarantee are exact for that table: nothing rests on how close it is to
Poisson.

Privacy: a neighbour's message moves from bin a to bin b. Tell the attacker even the noise in all other
bins, and who has none, one or both of a and b in their set. All bins are alike, so those who have one of
them have a or b with probability 1/2 each. With T ~ Bin(honest, `single`) of them the view is
(A + 1, T - A) or (A, T - A + 1), A ~ Bin(T, 1/2): the two-bins computation.
Reference: Balcer, Cheu 2020, "Separating local and shuffled differential privacy via histograms" (the dense
original, `zsum_histogram`).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from typing import ClassVar

import numpy as np

from shuffledp.accounting.moved_message import dummies, dummies_level
from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.protocol import LATE, Cost, Crowd, Parts, Promise
from shuffledp.core.randomizer import Law, Messages, WordSource
from shuffledp.core.validate import whole
from shuffledp.numerics import tape
from shuffledp.numerics.dealing import deal, deal_uniform
from shuffledp.protocols.shared.assembly import register, shuffle
from shuffledp.protocols.shared.frequency import FrequencyAnalyzer, Numbered

_MOST = (
    1000  # noise messages per user; the exact law of more takes seconds, and nobody would send them
)
_AT_ONCE = 1 << 16  # users whose words are drawn in one go
_CUT = 1e-3  # of Poisson's tail; a longer table would lengthen the tape for nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseHistogram(Numbered):
    """The category and the distinct ones of M uniform bins, Pr[M = m] = shares[m] / 2^word_bits.

    One word decides M, one more is there for each bin. A word that falls outside the k equal shares draws no
    bin. gamma is the probability that a given bin is in the set, `single` that exactly one of two
    given bins is.

    >>> noise = SparseHistogram(k=4, shares=(12, 2, 2), word_bits=4)
    >>> noise.gamma, noise.single
    (Fraction(11, 128), Fraction(9, 64))
    """

    k: int
    shares: tuple[int, ...]
    word_bits: int = 64
    epsilon0: ClassVar[float] = math.inf
    proof: ClassVar[str] = "how the noise splits between the two bins that change, given all else"
    p: ClassVar[Fraction] = Fraction(1)
    q: ClassVar[Fraction] = Fraction(0)
    gamma: Fraction = field(init=False)
    single: Fraction = field(init=False)

    def __post_init__(self) -> None:
        whole("word_bits", self.word_bits, at_least=1, at_most=64)
        whole("k", self.k, at_least=2, at_most=min(1 << self.word_bits, 2**40))
        shares = tuple(whole("shares", share, at_least=0) for share in self.shares)
        if sum(shares) != 1 << self.word_bits or len(shares) < 2:
            raise ParameterError("shares", self.shares, f"must sum to 2^{self.word_bits}")
        # The set misses one given bin, and two given bins, with these probabilities.
        one, two = (self._mean_power(1 - bins * self.hit) for bins in (1, 2))
        object.__setattr__(self, "shares", shares)
        object.__setattr__(self, "gamma", 1 - one)
        object.__setattr__(self, "single", 2 * (one - two))

    @property
    def hit(self) -> Fraction:
        """Exact probability that one word draws a given bin."""
        return Fraction((1 << self.word_bits) // self.k, 1 << self.word_bits)

    def _mean_power(self, base: Fraction) -> Fraction:
        """Return E[base^M], base a multiple of 2^-word_bits."""
        bits, up, total = self.word_bits, int(base * (1 << self.word_bits)), 0
        for place, share in enumerate(reversed(self.shares)):  # Horner, in units of 2^-bits
            total = total * up + (share << bits * place)
        return Fraction(total, 1 << bits * len(self.shares))

    @property
    def words_per_input(self) -> int:
        return len(self.shares)

    @property
    def cost(self) -> Cost:
        return Cost(
            messages_mean=float(1 + self.k * self.gamma),
            messages_max=self.words_per_input,
            bits_per_message=(self.k - 1).bit_length(),
            count_depends_on_value=False,
        )

    def delta(self, honest: int, epsilon: float) -> float:
        """Bound delta: T ~ Bin(honest, single) fair coins hide between which of two bins a message moved."""
        return dummies(n=honest, rho=self.single, pair=Fraction(1)).delta(epsilon)

    def encode(self, inputs: Codes, words: Words) -> Messages:
        users = len(inputs)
        owner, noise = self._sets(words)
        return Messages(
            payload=np.concatenate([inputs.astype(np.int64), noise]),
            owner=np.concatenate([np.arange(users), owner]),
            users=users,
        )

    def _sets(self, words: Words) -> tuple[Counts, Counts]:
        """Return (owner, bin) of every noise message."""
        left, first = np.arange(len(words)), words[:, 0]
        who, drawn = [], []
        for column in range(1, len(self.shares)):
            # The words below sum(shares[m:]) are those of M >= m.
            more = tape.bernoulli(first, sum(self.shares[column:]), self.word_bits)
            some = np.flatnonzero(more)
            left, first = left.take(some), first.take(some)
            who.append(left)
            drawn.append(words[left, column])
        return self._drop_repeated(who, drawn)

    def _drop_repeated(
        self, who: Iterable[Counts], drawn: Iterable[Words]
    ) -> tuple[Counts, Counts]:
        """Return (user, bin) of the words that each column of users has drawn, repeated ones dropped."""
        pairs = []
        for users, words in zip(who, drawn, strict=True):
            bins = tape.uniform(words, self.k, self.word_bits)
            hits = np.flatnonzero(bins < self.k)
            pairs.append(users.take(hits) * self.k + bins.take(hits).astype(np.int64))
        # Each column is sorted already, and a stable sort merges sorted runs.
        keys = np.sort(np.concatenate(pairs), kind="stable")
        distinct = keys[np.diff(keys, prepend=-1) != 0]
        owner = distinct // self.k
        return owner, distinct - owner * self.k

    def sizes(self) -> tuple[Fraction, ...]:
        """Return the exact law of the number of noise bins. Given their number all sets are equally likely.

        >>> SparseHistogram(k=4, shares=(12, 2, 2), word_bits=4).sizes()
        (Fraction(3, 4), Fraction(5, 32), Fraction(3, 32))
        """
        words, most = 1 << self.word_bits, len(self.shares) - 1
        share = words // self.k
        law, total = [1], [0] * (most + 1)  # weights over words^m, and over words^(most + 1)
        for m, weight in enumerate(self.shares):
            for size, mass in enumerate(law):
                total[size] += (weight * mass) << (self.word_bits * (most - m))
            free = [(self.k - size) * share for size in range(len(law))]
            grown = [0, *(mass * new for mass, new in zip(law, free, strict=True))]
            stays = [*(mass * (words - new) for mass, new in zip(law, free, strict=True)), 0]
            law = [a + b for a, b in zip(grown, stays, strict=True)]
        return tuple(Fraction(mass, words ** (most + 1)) for mass in total)

    def pmf(self, x: int) -> Law:
        law: Law = {}
        for size, mass in enumerate(self.sizes()):
            if mass:
                for bins in combinations(range(self.k), size):
                    law[x, *bins] = mass / math.comb(self.k, size)
        return law

    def deal(self, inputs: Counts, source: WordSource) -> Tally:
        """Return how many users draw M = 0, 1, ... bins; then one bin each for M = 1, all together.

        For M > 1 everybody draws M words: whether bins repeat is a matter of one person's own.
        """
        n = int(inputs.sum())
        drawing = deal([n], [self.shares], self.word_bits, source).own[0]
        noise, _ = deal_uniform(int(drawing[1]), self.k, self.word_bits, source)
        counts = inputs + noise
        for m, people in enumerate(drawing.tolist()[2:], start=2):
            for start in range(0, people, _AT_ONCE):
                some = min(_AT_ONCE, people - start)
                words = source.words(some * m, self.word_bits).reshape(some, m)
                _, bins = self._drop_repeated([np.arange(some)] * m, words.T)
                np.add.at(counts, bins, 1)
        return Tally(counts=counts, users=n)


@shuffle(
    name="sparse_histogram",
    task="histogram",
    title="Histogram with rare noise messages",
    reference="Balcer, Cheu 2020",
)
def make(crowd: Crowd, promise: Promise, *, k: int, word_bits: int = 64) -> Parts:
    """Make a histogram over k bins with 1 + k gamma messages from everybody.

    >>> p = make(n=1_024_000, k=1024, epsilon=1.0, delta=1e-6, honest=1.0)
    >>> p.analyzer.variance(np.full(1024, 1000))[:2].round(2), round(p.cost.messages_mean, 3)
    (array([42.65, 42.65]), 1.043)
    """
    whole("word_bits", word_bits, at_least=1, at_most=64)
    whole("k", k, at_least=2, at_most=min(1 << word_bits, 2**40))
    wanted = dummies_level(
        n=crowd.trusted, pair=Fraction(1), epsilon=promise.epsilon, delta=promise.delta, bits=64
    )
    device = _find_smallest(k, wanted, word_bits)
    if device is None:
        raise UnsupportedError(
            f"n={crowd.n} users, {crowd.trusted} of them honest, are too few for "
            f"epsilon={promise.epsilon!r}, delta={promise.delta!r}"
        )
    analyzer = FrequencyAnalyzer(oracle=device, noise=((1, device.gamma),))
    return Parts(
        device,
        analyzer,
        deal=device.deal,
        influence=analyzer.influence,
        offset=analyzer.offset,
    )


def _find_smallest(k: int, wanted: Fraction, bits: int) -> SparseHistogram | None:
    """Find nearly the least noise with single >= wanted; None if no gamma <= 1/2 has it.

    `UnsupportedError` if it would be too many messages.
    """
    if wanted >= Fraction(1, 2):
        return None
    gamma = float(wanted) / (1 + math.sqrt(1 - 2 * float(wanted)))  # 2 gamma (1 - gamma) = wanted
    mean, step = -math.log1p(-gamma) * k, 1e-12
    if mean > _MOST:
        raise UnsupportedError(
            f"each user would send {mean:.3g} noise messages over k={k} bins: at most {_MOST}"
        )
    most = _find_most(mean)
    while mean < k * math.log(2) * (1 + 1e-9):
        device = SparseHistogram(k=k, shares=_poisson_table(mean, most, bits), word_bits=bits)
        if device.single >= wanted:
            return device
        # Make up for what the table's rounding and its end take away, and then for ever more.
        mean *= max(float(wanted / device.single) if device.single else 1.0, 1 + step)
        step *= 2
    return None


def _find_most(mean: float) -> int:
    """Return the smallest m with Pr[Poisson(mean) > m] at most the cut."""
    tail, m = -math.expm1(-mean), 0
    while tail > _CUT or m == 0:
        m += 1
        tail -= _poisson(m, mean)
    return m


def _poisson_table(mean: float, most: int, bits: int) -> tuple[int, ...]:
    """Tabulate the shares of min(M, most) = 0, 1, ... in 2^bits words, rounded down; the rest goes to 0."""
    law = [_poisson(m, mean) for m in range(most)]
    law.append(max(0.0, 1 - sum(law)))
    # Room for rounding errors: the shares never pass 2^bits.
    scale = Fraction(1 - 1e-13) * (1 << bits)
    shares = [math.floor(Fraction(mass) * scale) for mass in law[1:]]
    while len(shares) > 1 and shares[-1] == 0:
        shares.pop()
    return ((1 << bits) - sum(shares), *shares)


def _poisson(m: int, mean: float) -> float:
    return math.exp(m * math.log(mean) - mean - math.lgamma(m + 1))


_WINS = (("n", 250), ("k", 64), ("epsilon", 1.0), ("delta", 1e-6), ("max_messages", 30))
SPEC = register(make, hints=replace(LATE, wins=_WINS))
