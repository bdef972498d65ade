"""The piecewise mean: a number near the value is more likely than one far from it.

Better than one bit in the worst case from epsilon = 1.29 on: a bit is too coarse for what may be told.
Reference: Wang, Xiao, Yang, Zhao, Hui, Shin, Shin, Yu 2019, "Collecting and analyzing
multidimensional data with local differential privacy".

Deviation: the paper draws a real number; here the number is one of finitely many, drawn by integer
thresholds, so that the law is exact. The variance is the paper's to within 1 % up to epsilon = 12;
near 20, where the ideal window is about as short as one output, it is up to half as large again.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np

from shuffledp.accounting.blanket import Blanket, two_level_blanket
from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.core.domain import Reals
from shuffledp.core.errors import ParameterError
from shuffledp.core.protocol import LATE, Parts
from shuffledp.core.randomizer import Law, Messages, WordSource
from shuffledp.core.validate import positive, whole
from shuffledp.numerics.dealing import deal
from shuffledp.protocols.shared.assembly import (
    OneNumber,
    local,
    refuse_epsilon0,
    register,
    shuffled,
)
from shuffledp.protocols.shared.sums import Affine, Quadratic, assemble_mean, growth, moment

_MAX_SPAN = 1 << 15  # the window's last start; so there are at most 2^16 outputs to count
_AT_ONCE = 1 << 22  # numbers in the windows of all codes that are dealt in one go
_WINDOW = 256  # a window this long is within 0.2 % of the ideal length


@dataclass(frozen=True, slots=True, kw_only=True)
class Piecewise(OneNumber):
    r"""One number y of 0 .. alphabet - 1, more likely inside a window that moves with the value.

    The window of code i = 0 .. G is the `window` numbers from i * stride on, and
    alphabet = window + G stride. Of the 2^word_bits words `low` send each number whatever the value
    is, `extra` more send each number in the window, and the few words left over send 0, 1, 2, ...
    one each, whatever the value is. So the likelihood ratio is at most
    (low + extra) / low <= e^epsilon0, exactly, and the expectation of y is exactly affine in i.
    With h = e^(epsilon0 / 2), the best window is one part in h + 1 of all numbers.

    >>> p = Piecewise(domain=Reals(lower=-1.0, upper=1.0, steps=2), epsilon0=2.0, word_bits=5)
    >>> p.stride, p.window, p.alphabet, p.low, p.extra
    (1, 1, 3, 4, 20)
    >>> p.pmf(0)
    {(0,): Fraction(3, 4), (1,): Fraction(1, 8), (2,): Fraction(1, 8)}
    >>> [str(p.decoder(y)) for y in range(3)]
    ['-3/5', '1', '13/5']
    """

    domain: Reals
    epsilon0: float
    word_bits: int = 64
    stride: int = field(init=False)
    window: int = field(init=False)
    low: int = field(init=False)
    extra: int = field(init=False)
    words_per_input: ClassVar[int] = 1

    def __post_init__(self) -> None:
        positive("epsilon0", self.epsilon0)
        whole("word_bits", self.word_bits, at_least=1, at_most=64)
        stride, window = self._window()
        outputs = window + self.domain.steps * stride
        low = -(-self._words // (outputs + window * (growth(self.epsilon0) - 1)))
        extra = (self._words - outputs * low) // window
        if extra < 1:
            raise refuse_epsilon0(self.epsilon0, self.word_bits, steps=self.domain.steps)
        for name, value in (("stride", stride), ("window", window), ("low", low), ("extra", extra)):
            object.__setattr__(self, name, value)

    def _window(self) -> tuple[int, int]:
        """Return the stride and the length of the window: about span / h, for a span as long as needed."""
        steps = self.domain.steps
        longest = min(_MAX_SPAN, self._words >> 4)  # short words cannot share among many outputs
        if steps > longest:
            raise ParameterError(
                "steps", steps, f"must be <= {longest} with words of {self.word_bits} bits"
            )
        h = growth(self.epsilon0 / 2)
        stride = min(int(-(-_WINDOW * h // steps)), longest // steps)
        return stride, max(1, round(steps * stride / h))

    @property
    def _words(self) -> int:
        return 1 << self.word_bits

    @property
    def alphabet(self) -> int:
        return self.window + self.domain.steps * self.stride

    @property
    def rest(self) -> int:
        """How many words are left over."""
        return self._words - self.alphabet * self.low - self.window * self.extra

    def encode(self, inputs: Codes, words: Words) -> Messages:
        word, kind = words[:, 0], words.dtype.type
        background, inside = kind(self.alphabet * self.low), kind(self.window * self.extra)
        beyond = word - background  # wraps around for the words that it is not used for
        near = inputs * self.stride + (beyond // kind(self.extra)).astype(np.int64)
        moved = np.where(beyond < inside, near, (beyond - inside).astype(np.int64))
        anywhere = (word // kind(self.low)).astype(np.int64)
        return Messages.one_each(np.where(word < background, anywhere, moved))

    def pmf(self, x: int) -> Law:
        first = x * self.stride
        near = range(first, first + self.window)
        return {(y,): Fraction(self._share(y, near), self._words) for y in range(self.alphabet)}

    def deal(self, inputs: Counts, source: WordSource) -> Tally:
        """Deal by one walk for some codes at a time: the window is a code's own, all the rest is the same for all."""
        common = [self.low + 1] * self.rest + [self.low] * (self.alphabet - self.rest)
        counts, held = np.zeros(self.alphabet, dtype=np.int64), np.flatnonzero(inputs)
        for some in np.array_split(held, 1 + len(held) * self.window // _AT_ONCE):
            near, anywhere = deal(
                inputs[some], [[self.extra] * self.window], self.word_bits, source, common=common
            )
            counts += anywhere
            for x, own in zip(some.tolist(), near, strict=True):
                counts[x * self.stride : x * self.stride + self.window] += own
        return Tally(counts=counts, users=int(inputs.sum()))

    def blankets(self) -> tuple[Blanket, ...]:
        """Return what all values' laws have in common, for the accountant of the shuffled view.

        The worst pair is the two ends of the domain, whose windows overlap least.
        """
        low = Fraction(self.low, self._words)
        common = max(0, self.window - self.domain.steps * self.stride)
        one = self.window - common
        rest = self.alphabet - 2 * one - common
        return (
            two_level_blanket(
                ratio=1 + Fraction(self.extra, self.low),
                one=one * low,
                both=common * low,
                neither=rest * low + Fraction(self.rest, self._words),
            ),
        )

    def _share(self, y: int, near: range) -> int:
        return self.low + self.extra * (y in near) + (y < self.rest)

    @property
    def decoder(self) -> Affine:
        # 2^bits E[y | i] = offset + divisor i
        offset = (
            self.low * _powers(self.alphabet, 1)
            + self.extra * _powers(self.window, 1)
            + _powers(self.rest, 1)
        )
        divisor = self.extra * self.window * self.stride
        return Affine(scale=self._words, offset=offset, divisor=divisor, last=self.alphabet - 1)

    @property
    def _square(self) -> Quadratic:
        """E[y^2 | i]."""
        constant = (
            self.low * _powers(self.alphabet, 2)
            + self.extra * _powers(self.window, 2)
            + _powers(self.rest, 2)
        )
        linear = 2 * self.extra * self.stride * _powers(self.window, 1)
        square = self.extra * self.window * self.stride**2
        return Quadratic(
            constant=Fraction(constant, self._words),
            linear=Fraction(linear, self._words),
            square=Fraction(square, self._words),
        )

    @property
    def code_variance(self) -> Quadratic:
        return self._square.decode(self.decoder)

    def noise(self, counts: Counts) -> Fraction:
        """Return an unbiased estimate of the variance, moved into the range where it is known to lie.

        E[y^2 | i] is quadratic in i, so the sum of the squared codes has an unbiased estimate too,
        and with it the variance, a quadratic in the codes. With few users it can come out smaller
        or larger than any data could make it: n users have at least n times the smallest and at
        most n times the largest variance of any code, and the estimate is moved there.
        """
        n = moment(counts, 0)
        smallest, largest = self.code_variance.range(self.domain.steps)
        return min(max(self._unbiased_noise(counts), n * smallest), n * largest)

    def _unbiased_noise(self, counts: Counts) -> Fraction:
        n, second, variance = moment(counts, 0), self._square, self.code_variance
        codes = self.decoder.total(counts)
        squares = (moment(counts, 2) - n * second.constant - second.linear * codes) / second.square
        return n * variance.constant + variance.linear * codes + variance.square * squares


def _powers(count: int, power: int) -> int:
    """Return 0^power + 1^power + ... + (count - 1)^power, for power 1 or 2."""
    pairs = count * (count - 1)
    return pairs // 2 if power == 1 else pairs * (2 * count - 1) // 6


@local(
    name="piecewise", task="mean", title="piecewise mean", reference="Wang, Xiao, Yang et al. 2019"
)
def make_local(
    *,
    lower: float,
    upper: float,
    steps: int,
    epsilon: float,
    task: str = "mean",
    word_bits: int = 64,
) -> Parts:
    """Make a mean (or, with task="sum", the sum) of numbers in [lower, upper], rounded to a grid of at most 2^15 steps.

    Integers are numbers too: a grid with steps of 1 holds them exactly.

    >>> from shuffledp import SeededWords, run
    >>> ages = make_local(lower=0, upper=120, steps=120, epsilon=3.0)
    >>> answer = run(ages, [20, 40, 60] * 50_000, SeededWords(1))
    >>> round(answer.value, 1), round(answer.stderr, 1)
    (40.0, 0.1)
    """
    ends = {"lower": lower, "upper": upper, "steps": steps}
    return assemble_mean(Piecewise, task, epsilon=epsilon, word_bits=word_bits, **ends)


make = shuffled(make_local)
SPEC = register(make_local, make, hints=LATE)
