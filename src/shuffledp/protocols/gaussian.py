r"""Gaussian noise as a device: what federated learning adds to a bounded number, on a grid, with an exact law.

A value of the grid 0 .. G (G steps) is sent as y = x + z, z a discrete Gaussian that is symmetric and falls with
|z|. So that its law is exact, z comes from a table of words: share(z) of the 2^bits words, the discrete Gaussian's
mass rounded down, and what is left over at z = 0. One more word for every number that anybody may send makes the law
pure as well: no message is impossible for anyone. The law is known to the last word, and so are

- its local guarantees: `epsilon0` with delta = 0, and for any smaller one the exact `delta0(epsilon0)`;
- its guarantee behind a shuffler: the privacy blanket of this very law, `sdp.amplify(randomizer=...)`.

The second is far better than what `sdp.amplify(epsilon0=..., delta0=...)` says of all randomizers with such a pair.

**The worst pair of values is that of the two ends**, for the local guarantee: with f(v) = share(v) + 1 and
values d apart, delta0 is the sum of (f(v) - E f(v - d))_+, where only v < d/2 counts, and there f(v - d) falls with d.
For the shuffled view the same is computed for all pairs, not claimed (`accounting.blanket.LeadingBlanket`).

The planner does not offer it: at the same guarantee one message of `piecewise` or `rounded_sum` has a smaller
error. It is here for those whose devices add Gaussian noise already. Reference: Canonne, Kamath, Steinke 2020, "The
discrete Gaussian for differential privacy".
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import ClassVar

import numpy as np

from shuffledp.accounting.blanket import Blanket
from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.core.domain import Reals
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.protocol import HONEST, Promise, honest_users
from shuffledp.core.randomizer import Law, Messages, WordSource
from shuffledp.core.validate import non_negative, positive, whole
from shuffledp.numerics.dealing import deal
from shuffledp.numerics.rounding import exp_lower, float_above, log_upper
from shuffledp.numerics.tape import table
from shuffledp.protocols.shared.assembly import OneNumber
from shuffledp.protocols.shared.sums import Affine, MeanAnalyzer, Quadratic

_LONGEST = 1 << 12  # the largest noise of the table, in steps
_MOST_STEPS = 32  # all pairs of values are compared for the shuffled view
_TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianNoise(OneNumber):
    """The value plus Gaussian noise of standard deviation sigma (in the unit of the values), on the grid of the values.

    >>> from shuffledp import amplify
    >>> device = GaussianNoise(domain=Reals(lower=0.0, upper=1.0, steps=4), sigma=2.0)
    >>> round(device.epsilon0, 2), f"{device.delta0(2.0):.0e}"
    (4.24, '9e-06')
    >>> round(amplify(randomizer=device, n=10_000, delta=1e-6, honest=1).epsilon, 4)
    0.0204
    """

    domain: Reals
    sigma: float
    word_bits: int = 64
    shares: tuple[int, ...] = field(init=False, repr=False)
    """How many words draw the noise 0, 1, ...; -z has as many as z."""
    words_per_input: ClassVar[int] = 1

    def __post_init__(self) -> None:
        positive("sigma", self.sigma)
        whole("word_bits", self.word_bits, at_least=1, at_most=64)
        whole("steps", self.domain.steps, at_least=1, at_most=_MOST_STEPS)
        scale = Fraction(self.sigma) * self.domain.steps
        scale /= Fraction(self.domain.upper) - Fraction(self.domain.lower)
        object.__setattr__(self, "shares", _share_out(scale, self.domain.steps, self.word_bits))

    @property
    def reach(self) -> int:
        """The largest noise, in steps."""
        return len(self.shares) - 1

    @property
    def alphabet(self) -> int:
        return self.domain.steps + 2 * self.reach + 1

    @property
    def _words(self) -> int:
        return 1 << self.word_bits

    @property
    def _noise(self) -> tuple[int, ...]:
        """The shares of -reach .. reach."""
        return (*self.shares[:0:-1], *self.shares)

    def _share(self, z: int) -> int:
        """Return how many words send x + z: those that draw the noise z, and the one that sends each number to all."""
        return 1 + (self.shares[abs(z)] if abs(z) <= self.reach else 0)

    def encode(self, inputs: Codes, words: Words) -> Messages:
        word = words[:, 0]
        drawn = table(word, (self.alphabet, *self._noise), self.word_bits)
        anything = drawn == 0
        moved = inputs + drawn - 1  # reach is added, so that the smallest number is 0
        return Messages.one_each(np.where(anything, word.astype(np.int64), moved))

    def pmf(self, x: int) -> Law:
        return {
            (y,): Fraction(self._share(y - self.reach - x), self._words)
            for y in range(self.alphabet)
        }

    def deal(self, inputs: Counts, source: WordSource) -> Tally:
        """Deal by one walk for all values: their noise is a value's own, one word for each number is everybody's."""
        held = np.flatnonzero(inputs)
        noise, counts = deal(
            inputs[held], [self._noise], self.word_bits, source, common=[1] * self.alphabet
        )
        counts = counts.copy()
        for x, own in zip(held.tolist(), noise, strict=True):
            counts[x : x + len(own)] += own
        return Tally(counts=counts, users=int(inputs.sum()))

    @property
    def epsilon0(self) -> float:
        """The local guarantee with delta = 0; values at the ends and numbers far out decide."""
        steps = self.domain.steps
        return log_upper(
            max(
                Fraction(self._share(z), self._share(abs(z) + steps)) for z in range(self.reach + 1)
            )
        )

    def delta0(self, epsilon0: float) -> float:
        """Return the delta of one message at a smaller epsilon0: exact, and rounded up.

        >>> device = GaussianNoise(domain=Reals(lower=0.0, upper=1.0, steps=1), sigma=1.0, word_bits=6)
        >>> device.pmf(0)[(device.reach,)], device.delta0(device.epsilon0)
        (Fraction(25, 64), 0.0)
        >>> device.delta0(0.0)  # the total variation
        0.375
        """
        non_negative("epsilon0", epsilon0)
        E, steps = exp_lower(epsilon0), self.domain.steps
        more = (self._share(v) * E.denominator - E.numerator * self._share(v - steps)
                for v in range(-self.reach, self.reach + 1))  # fmt: skip
        over = sum(excess for excess in more if excess > 0)
        return float_above(Fraction(over, E.denominator << self.word_bits))

    def blankets(self) -> tuple[Blanket, ...]:
        """List the blankets of the two ends first, then of all other pairs; a pair and its mirror image are alike."""
        steps, size = self.domain.steps, self.alphabet
        laws = [[self._share(y - self.reach - x) for y in range(size)] for x in range(steps + 1)]
        common = [min(both) for both in zip(laws[0], laws[-1], strict=True)]
        pairs = sorted(combinations(range(steps + 1), 2), key=lambda pair: pair[0] - pair[1])
        words = self._words
        return tuple(
            Blanket(
                mass=tuple(w / words for w in common),
                first=tuple(a / w for a, w in zip(laws[x], common, strict=True)),
                second=tuple(b / w for b, w in zip(laws[other], common, strict=True)),
            )
            for x, other in pairs
        )

    @property
    def analyzer(self) -> MeanAnalyzer:
        """The mean of the values, unbiased, with its error.

        >>> from shuffledp import SeededWords, shuffle
        >>> from shuffledp.core.randomizer import randomize
        >>> device, source = GaussianNoise(domain=Reals(lower=0, upper=10, steps=8), sigma=5.0), SeededWords(1)
        >>> sent = shuffle(randomize(device, [2.0, 4.5] * 20_000, source), source)
        >>> answer = device.analyzer.estimate(device.analyzer.tally(sent))
        >>> abs(answer.value - 3.25) < 0.1, round(answer.stderr, 3)
        (True, 0.025)
        """
        return MeanAnalyzer(oracle=self)

    @property
    def decoder(self) -> Affine:
        # 2^bits E[y | x] = (0 + ... + alphabet - 1) + (2^bits - alphabet) (x + reach)
        size = self.alphabet
        divisor = self._words - size
        offset = size * (size - 1) // 2 + divisor * self.reach
        return Affine(scale=self._words, offset=offset, divisor=divisor, last=self.alphabet - 1)

    @property
    def code_variance(self) -> Quadratic:
        # With kept = 1 - alphabet / 2^bits, E[y^2 | x] = anything + spread + kept (x + reach)^2.
        size, words, reach = self.alphabet, self._words, self.reach
        kept = 1 - Fraction(size, words)
        anything = Fraction(size * (size - 1) * (2 * size - 1) // 6, words)
        spread = Fraction(2 * sum(share * z * z for z, share in enumerate(self.shares)), words)
        second = Quadratic(
            constant=anything + spread + kept * reach**2, linear=2 * kept * reach, square=kept
        )
        return second.decode(self.decoder)

    def noise(self, counts: Counts) -> Fraction:
        """Return the largest variance that any values could have; it is nearly the same for all."""
        return int(counts.sum()) * self.code_variance.range(self.domain.steps)[1]


@lru_cache(maxsize=64)
def _share_out(scale: Fraction, steps: int, bits: int) -> tuple[int, ...]:
    """Share out words for the noise 0, 1, ..., of standard deviation about `scale` steps; all but one word for each
    number.
    """
    words = 1 << bits
    rate = 1 / (2 * scale * scale)
    weights: list[Fraction] = []
    total = Fraction(0)
    for z in range(_LONGEST):
        weight = exp_lower(-rate * z * z)
        if z and weight * words < total:
            break
        weights.append(weight)
        total += weight if z == 0 else 2 * weight
    else:
        raise UnsupportedError(f"sigma is {float(scale):g} steps, too long for a table")
    left = words - (steps + 2 * len(weights) - 1)
    if left < words // 2:
        raise ParameterError(
            "word_bits", bits, "must be larger: there are too few words for so much noise"
        )
    shares = [int(left * weight / total) for weight in weights]
    return (left - 2 * sum(shares[1:]), *shares[1:])


def calibrate_noise(
    *, n: int, epsilon: float, delta: float, domain: Reals, honest: float = HONEST
) -> GaussianNoise:
    """Find the least Gaussian noise, to 0.1 %, with which n shuffled messages are (epsilon, delta)-private.

    >>> device = calibrate_noise(n=1_000, epsilon=1.0, delta=1e-5, domain=Reals(lower=0, upper=1, steps=2))
    >>> 0.6 < device.sigma < 0.8
    True
    """
    from shuffledp.accounting.amplify import profile

    promise, trusted = Promise(epsilon=epsilon, delta=delta), honest_users(n, honest)
    width = domain.upper - domain.lower

    def make(log_sigma: float) -> GaussianNoise:
        return GaussianNoise(domain=domain, sigma=width * math.exp(log_sigma))

    def holds(log_sigma: float) -> bool:
        curve = profile(randomizer=make(log_sigma), n=trusted, honest=1, bound="blanket")
        return curve.delta(promise.epsilon) <= promise.delta

    low, high = math.log(1 / 16), math.log(1 / 8)
    while not holds(high):
        if high > math.log(32):
            raise UnsupportedError(f"{n} people cannot hide one of them with Gaussian noise")
        low, high = high, high + math.log(2)
    while high - low > _TOLERANCE:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return make(high)
