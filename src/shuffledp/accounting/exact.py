"""The oracle: the exact privacy of a small shuffled protocol, in rational arithmetic.

For any finite randomizer, given by its laws R_0, R_1, ... (one `Law` per input), and any e^epsilon
that is a fraction, `shuffled_delta` returns the smallest delta for which n users are
(epsilon, delta)-DP under replace-one neighbours:

    max over x, x', z_2 .. z_n of   sum_o ( Pr[view(x, z) = o] - e^epsilon Pr[view(x', z) = o] )_+

Nothing is bounded, rounded or sampled: every view is a multiset of messages, and all of them are
listed. That takes exponential work, so large questions are refused; every other accountant is
tested against this one.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, permutations

from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.randomizer import Law, Message
from shuffledp.core.validate import whole

LARGEST_WORK = 20_000_000
"""Elementary steps that `shuffled_delta` agrees to take: some seconds."""

_Weights = dict[int, int]
"""An unnormalised law of a multiset: {multiset written as one number: integer weight}."""


def shuffled_delta(laws: Sequence[Law], n: int, ratio: Fraction | int) -> Fraction:
    """Return the exact delta of n users at e^epsilon = ratio: the worst pair of neighbouring data sets.

    Two users of binary randomized response with e^epsilon0 = 3, at epsilon = ln 2:

    >>> keep, lie = Fraction(3, 4), Fraction(1, 4)
    >>> shuffled_delta([{(0,): keep, (1,): lie}, {(0,): lie, (1,): keep}], 2, 2)
    Fraction(3, 16)
    """
    views = _Views(laws, n)
    work = views.work()
    if work > LARGEST_WORK:
        raise UnsupportedError(
            f"exact enumeration of n={n} users with {len(laws)} inputs and {views.sends} different "
            f"messages takes about {work:.1e} steps, more than {LARGEST_WORK:.0e}"
        )
    return max(views.delta(others, _ratio(ratio)) for others in views.data_sets())


def data_set_delta(
    laws: Sequence[Law], others: Sequence[int], pair: tuple[int, int], ratio: Fraction | int
) -> Fraction:
    """Return the divergence of target input pair[0] against pair[1] when the others hold `others`.

    >>> keep, lie = Fraction(3, 4), Fraction(1, 4)
    >>> data_set_delta([{(0,): keep, (1,): lie}, {(0,): lie, (1,): keep}], [0], (0, 1), 2)
    Fraction(3, 16)
    """
    views = _Views(laws, len(others) + 1)
    first, second = (views.view(tuple(sorted(others)), x) for x in pair)
    return views.divergence(first, second, _ratio(ratio))


def local_delta(laws: Sequence[Law], ratio: Fraction | int) -> Fraction:
    """Return the exact delta of one user whose messages are seen in order, at e^epsilon0 = ratio.

    >>> keep, lie = Fraction(3, 4), Fraction(1, 4)
    >>> local_delta([{(0,): keep, (1,): lie}, {(0,): lie, (1,): keep}], 2)
    Fraction(1, 4)
    """
    _check(laws)
    E, zero = _ratio(ratio), Fraction(0)
    return max(
        sum((max(zero, q - E * b.get(y, zero)) for y, q in a.items()), zero)
        for a, b in permutations(laws, 2)
    )


def local_ratio(laws: Sequence[Law]) -> Fraction | float:
    """Return the exact e^epsilon0: the largest likelihood ratio, infinite if a message gives an input away.

    >>> local_ratio([{(0,): Fraction(3, 4), (1,): Fraction(1, 4)}, {(0,): Fraction(1)}])
    inf
    """
    _check(laws)
    outputs = set().union(*laws)
    columns = [[law.get(y, Fraction(0)) for law in laws] for y in outputs]
    columns = [column for column in columns if max(column) > 0]
    if any(min(column) == 0 for column in columns):
        return math.inf
    return max(max(column) / min(column) for column in columns)


class _Views:
    """The laws of the multisets that n users send.

    A multiset over m messages is written as one number in a base that no count reaches, so the
    union of two multisets is a sum. Probabilities are integers over denominator^n.
    """

    def __init__(self, laws: Sequence[Law], n: int) -> None:
        _check(laws)
        self.n = whole("n", n, at_least=1)
        self.denominator = math.lcm(*(q.denominator for law in laws for q in law.values()))
        longest = max(len(sent) for law in laws for sent in law)
        symbols = sorted({message for law in laws for sent in law for message in sent}, key=repr)
        base = self.n * longest + 1
        digit = {message: base**place for place, message in enumerate(symbols)}
        self.laws = [self._weights(law, digit) for law in laws]
        self.sends = len(set().union(*self.laws))
        # Data sets share their first users, so the laws of all beginnings are kept.
        self.sums = cache(self._sums)

    def _weights(self, law: Law, digit: dict[Message, int]) -> _Weights:
        weights: _Weights = {}
        for sent, q in law.items():
            key = sum(digit[message] for message in sent)
            if q:
                weights[key] = weights.get(key, 0) + int(q * self.denominator)
        return weights

    def work(self) -> int:
        """Count the steps of the enumeration: data sets of the others, times views, times what one adds."""
        inputs = len(self.laws)
        data_sets = math.comb(self.n - 2 + inputs, inputs - 1)
        views = math.comb(self.n + self.sends - 1, self.sends - 1)
        return data_sets * views * (sum(map(len, self.laws)) + inputs * (inputs - 1))

    def data_sets(self) -> Iterator[tuple[int, ...]]:
        """Return what the others may hold, as sorted tuples."""
        return combinations_with_replacement(range(len(self.laws)), self.n - 1)

    def _sums(self, inputs: tuple[int, ...]) -> _Weights:
        if not inputs:
            return {0: 1}
        return _convolve(self.sums(inputs[:-1]), self.laws[inputs[-1]])

    def view(self, others: tuple[int, ...], target: int) -> _Weights:
        return _convolve(self.sums(others), self.laws[target])

    def delta(self, others: tuple[int, ...], E: Fraction) -> Fraction:
        """Return the worst pair of target inputs, both directions."""
        views = [self.view(others, x) for x in range(len(self.laws))]
        return max(self.divergence(a, b, E) for a, b in permutations(views, 2))

    def divergence(self, a: _Weights, b: _Weights, E: Fraction) -> Fraction:
        up, down = E.numerator, E.denominator
        gain = sum(max(0, down * weight - up * b.get(key, 0)) for key, weight in a.items())
        return Fraction(gain, down * self.denominator**self.n)


def _convolve(a: _Weights, b: _Weights) -> _Weights:
    result: _Weights = {}
    for left, weight in a.items():
        for right, factor in b.items():
            key = left + right
            result[key] = result.get(key, 0) + weight * factor
    return result


def _check(laws: Sequence[Law]) -> None:
    whole("the number of laws", len(laws), at_least=2)
    for law in laws:
        if any(q < 0 for q in law.values()) or sum(law.values()) != 1:
            raise ParameterError("law", law, "must have probabilities that sum to exactly 1")


def _ratio(ratio: Fraction | int) -> Fraction:
    if ratio < 1 or isinstance(ratio, float):
        raise ParameterError("ratio", ratio, "must be a fraction >= 1, e^epsilon exactly")
    return Fraction(ratio)
