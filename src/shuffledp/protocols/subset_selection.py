"""Subset selection: send a few categories, the true one more often than any other.

No frequency oracle has a smaller error for many users, constant included, at any privacy level. Its
messages are long; with sets of one category it is k-ary randomized response.
Reference: Ye, Barg 2018, "Optimal schemes for discrete distribution estimation under locally
differential privacy".
"""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import comb, exp, floor, lgamma, log

import numpy as np

from shuffledp.accounting.blanket import Blanket, two_level_blanket
from shuffledp.core.arrays import Bools, Codes, Words
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.protocol import LATE, Cost, Crowd, Parts, Promise
from shuffledp.core.randomizer import BitCode, Law, Messages
from shuffledp.core.validate import positive, whole
from shuffledp.numerics.rounding import exp_lower
from shuffledp.numerics.tape import acceptance, acceptance_float, add_distinct, bernoulli
from shuffledp.protocols.shared.assembly import fit, local, refuse_epsilon0, register
from shuffledp.protocols.shared.frequency import FrequencyAnalyzer, Marked, light_variance

_BLOCK_BYTES = 1 << 21  # the sets and draws of a block of users: about what the CPU's cache holds
_LARGEST_SET = 4096  # with more words, the exact fractions of the law take minutes
_LAW_MAX = 1 << 16  # messages; a longer list would take seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsetSelection(Marked):
    r"""Subset selection: a set of w categories, sent as a vector of k bits.

    The set holds x with probability e^epsilon0 w / (e^epsilon0 w + k - w), rounded down to
    threshold / 2^word_bits, so the likelihood ratio is at most e^epsilon0, exactly. Given that, it
    is a uniform set of w categories.

    Deviation from the paper: if a uniform draw is rejected, which has probability below
    w k / 2^word_bits whatever x is, the empty set is sent. p and q count it in.

    >>> subset = SubsetSelection(k=3, w=1, epsilon0=1.0, word_bits=4)
    >>> subset.pmf(0)[((1, 0, 0),)], subset.pmf(1)[((1, 0, 0),)]
    (Fraction(9, 16), Fraction(7, 32))
    """

    k: int
    w: int
    epsilon0: float
    word_bits: int = 64
    threshold: int = field(init=False)

    def __post_init__(self) -> None:
        whole("word_bits", self.word_bits, at_least=1, at_most=64)
        whole("k", self.k, at_least=2, at_most=1 << self.word_bits)
        whole("w", self.w, at_least=1, at_most=self.k - 1)
        positive("epsilon0", self.epsilon0)
        words = 1 << self.word_bits
        weight = exp_lower(self.epsilon0) * self.w
        threshold = int(words * weight / (weight + self.k - self.w))
        if threshold * self.k <= words * self.w:
            raise refuse_epsilon0(self.epsilon0, self.word_bits, k=self.k)
        object.__setattr__(self, "threshold", threshold)

    @property
    def accepted(self) -> Fraction:
        """Exact probability that no draw is rejected."""
        return acceptance(self.k - 1 - self.w, self.w, self.word_bits)

    @property
    def own(self) -> Fraction:
        """Exact probability that a set which is not rejected holds x."""
        return Fraction(self.threshold, 1 << self.word_bits)

    @property
    def other(self) -> Fraction:
        """Exact probability that a set which is not rejected holds a given other category."""
        return (self.w - self.own) / (self.k - 1)

    @property
    def p(self) -> Fraction:
        return self.accepted * self.own

    @property
    def q(self) -> Fraction:
        return self.accepted * self.other

    @property
    def cost(self) -> Cost:
        return Cost.fixed(_bits(self.k, self.w))

    @property
    def code(self) -> BitCode:
        return BitCode(k=self.k, ones=(0, self.w))  # the empty set: a draw was rejected

    @property
    def words_per_input(self) -> int:
        return self.w + 1

    def encode(self, inputs: Codes, words: Words) -> Messages:
        sets = np.zeros((len(inputs), self.k), dtype=np.bool_)
        step = max(1, _BLOCK_BYTES // (self.k + 8 * self.w))
        for start in range(0, len(inputs), step):
            block = slice(start, start + step)
            self._fill(sets[block], inputs[block], words[block])
        return Messages.one_each(sets)

    def _fill(self, sets: Bools, inputs: Codes, words: Words) -> None:
        # The other categories are numbered 0 .. k-2 by calling the last one x. Sets with x have
        # w - 1 of them, sets without x have w: one step of Floyd's method more, before the others.
        # Both kinds are rejected by the same words, so a rejection says nothing about x.
        rows = np.arange(len(inputs))
        holds = bernoulli(words[:, 0], self.threshold, self.word_bits)
        accepted = add_distinct(sets, words[:, 1:2], self.k - 1 - self.w, self.word_bits)
        sets[holds] = False
        accepted &= add_distinct(sets, words[:, 2:], self.k - self.w, self.word_bits)
        sets[:, -1] = sets[rows, inputs]
        sets[rows, inputs] = holds
        sets[~accepted] = False

    def pmf(self, x: int) -> Law:
        if comb(self.k, self.w) > _LAW_MAX:
            raise UnsupportedError(f"the law of k={self.k} has C({self.k}, {self.w}) messages")
        law: Law = {((0,) * self.k,): 1 - self.accepted}
        with_x = self.p / comb(self.k - 1, self.w - 1)
        without_x = (self.accepted - self.p) / comb(self.k - 1, self.w)
        for chosen in combinations(range(self.k), self.w):
            message = tuple(int(j in chosen) for j in range(self.k))
            law[(message,)] = with_x if x in chosen else without_x
        return law

    def blankets(self) -> tuple[Blanket, ...]:
        """Return what all categories' laws have in common, for the accountant of the shuffled view."""
        # A blanket has floats: the exact probability of acceptance has thousands of digits for nothing.
        accepted = Fraction(acceptance_float(self.k - 1 - self.w, self.w, self.word_bits))
        without = accepted * (1 - self.own)
        ratio = self.own / (1 - self.own) * Fraction(self.k - self.w, self.w)
        return (
            two_level_blanket(
                ratio=ratio,
                one=without * self.w / (self.k - 1),
                both=accepted * self.own * (self.w - 1) / (self.k - 1) / ratio,
                neither=without * (self.k - 1 - self.w) / (self.k - 1) + 1 - accepted,
            ),
        )


@local(
    name="subset_selection", task="histogram", title="subset selection", reference="Ye, Barg 2018"
)
def make_local(*, k: int, epsilon: float, word_bits: int = 64) -> Parts:
    """Make subset selection for histograms over k categories.

    w is the neighbour of k / (e^epsilon + 1) with the smaller variance at light categories.

    >>> make_local(k=1024, epsilon=3.0).randomizer.w
    48
    """
    subset = _choose_best(whole("k", k, at_least=2), positive("epsilon", epsilon), word_bits)
    analyzer = FrequencyAnalyzer(oracle=subset, apart=True)
    return Parts(
        subset,
        analyzer,
        code=subset.code,
        blankets=subset.blankets,
        influence=analyzer.influence,
    )


@lru_cache(maxsize=256)
def _bits(k: int, w: int) -> int:
    """Return enough bits for C(k, w) sets and the empty one."""
    bits = (lgamma(k + 1) - lgamma(w + 1) - lgamma(k - w + 1)) / log(2)
    if bits > 60 and floor(bits * (1 - 1e-9)) == floor(bits * (1 + 1e-9)):
        return floor(bits) + 1  # without a number of thousands of digits
    return comb(k, w).bit_length()


def _choose_best(k: int, epsilon0: float, word_bits: int) -> SubsetSelection:
    below = int(k / (exp_lower(epsilon0) + 1))
    candidates = [
        SubsetSelection(k=k, w=w, epsilon0=epsilon0, word_bits=word_bits)
        for w in (below, below + 1)
        if 1 <= w < k
    ]
    return min(candidates, key=lambda subset: light_variance(subset.own, subset.other))


def _best_size(k: int, epsilon0: float) -> int:
    """Return the same w, but for roundings."""
    below = int(k / (exp_lower(epsilon0) + 1))
    return min((w for w in (below, below + 1) if 1 <= w < k), key=lambda w: _light(k, w, epsilon0))


def _light(k: int, w: int, epsilon0: float) -> float:
    weight = exp(epsilon0) * w
    own = weight / (weight + k - w)
    other = (w - own) / (k - 1)
    return other * (1 - other) / (own - other) ** 2


@make_local.shuffle
def make(crowd: Crowd, promise: Promise, *, k: int, word_bits: int = 64) -> Parts:
    """Make subset selection, shuffled: the largest epsilon0 that n users allow.

    >>> make(n=10_000, k=16, epsilon=1.0, delta=1e-6).guarantee.epsilon
    1.0
    """
    whole("k", k, at_least=2)
    parts = fit(
        make_local,
        crowd,
        promise,
        shape=lambda epsilon0: _best_size(k, epsilon0),
        k=k,
        word_bits=word_bits,
    )
    w = _best_size(k, parts.device.epsilon0)
    if w > _LARGEST_SET:
        raise UnsupportedError(
            f"n={crowd.n} users allow only sets of {w} of the k={k} categories, which is too many "
            f"for the exact law: at most {_LARGEST_SET}"
        )
    return parts


SPEC = register(make_local, make, hints=LATE)
