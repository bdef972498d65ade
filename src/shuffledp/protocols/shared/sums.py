"""What the protocols for sums and means share: a public scale of values, and the answer from a sum of codes.

The local protocols for a mean decode one message each, exactly and without bias. A value on the grid of `Reals` is its
code i = 0 .. G (G steps). From one message y each protocol makes an estimate v(y) of the code, affine in y and exactly
unbiased because the expectation of y is exactly affine in i. With unit = (upper - lower) / G and n users

    estimate = lower + unit * (v(y_1) + ... + v(y_n)) / n           (unbiased)
    variance = unit^2 * (Var[v | i_1] + ... + Var[v | i_n]) / n^2   (exact)

and Var[v | i] is a quadratic polynomial in i. All of it is arithmetic on fractions: only the final
answer is rounded to a float.

A real value between two points is rounded to one of them at random, f of a step above the lower one. With a
variance V(i) = ... + c i^2 given the code, that makes the variance V(z) + (1 + c) f (1 - f) at the value z itself:
as the analyzer cannot know f, it adds (1 + c) / 4. For one bit, c is -1: rounding costs nothing.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from shuffledp.core.analyzer import (
    Analyzer,
    ErrorLaw,
    Estimate,
    ScaledError,
    Tally,
    Value,
    message_tally,
)
from shuffledp.core.arrays import Counts
from shuffledp.core.domain import PLACE_BITS, Integers, Reals, rounding_words
from shuffledp.core.errors import DataError, ParameterError
from shuffledp.core.protocol import Parts
from shuffledp.core.randomizer import Message, Shuffled
from shuffledp.core.validate import whole
from shuffledp.numerics import intervals
from shuffledp.numerics.rounding import exp_lower

_AVERAGES = {"sum": False, "mean": True}  # what these protocols answer


def is_average(task: str) -> bool:
    """Return whether the sum is divided by n; refuses a task that is no sum.

    >>> is_average("sum"), is_average("mean")
    (False, True)
    """
    if task not in _AVERAGES:
        raise ParameterError("task", task, "must be 'sum' or 'mean'")
    return _AVERAGES[task]


def read_scale(
    lower: float, upper: float, steps: int | None, task: str
) -> tuple[Integers | Reals, str]:
    """Read integers lower .. upper, or reals between them on a grid of `steps` steps; and the task.

    >>> read_scale(0, 120, None, "mean")
    (Integers(lower=0, upper=120), 'mean')
    >>> read_scale(0, 1, None, "count")
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: task='count' must be 'sum' or 'mean'
    """
    is_average(task)
    if steps is not None:
        return Reals(lower=lower, upper=upper, steps=steps), task
    for name, end in (("lower", lower), ("upper", upper)):
        if isinstance(end, float):
            raise ParameterError(
                name, end, "must be an integer, unless `steps` makes a grid of reals"
            )
    low, high = (
        whole(name, end, at_least=-(2**53)) for name, end in (("lower", lower), ("upper", upper))
    )
    return Integers(lower=low, upper=high), task


def reach(domain: Integers | Reals) -> int:
    """Return the largest code: how far one person moves the sum of the codes.

    >>> reach(Integers(lower=3, upper=10))
    7
    """
    return domain.size - 1


def unit(domain: Integers | Reals) -> Fraction:
    """Return the exact distance between neighbouring values.

    >>> unit(Reals(lower=0.0, upper=1.0, steps=4))
    Fraction(1, 4)
    """
    return (Fraction(domain.upper) - Fraction(domain.lower)) / reach(domain)


def add_codes(inputs: Counts) -> int:
    """Return the sum of the codes of inputs[x] people of each code x.

    >>> add_codes(np.array([5, 1, 2]))
    5
    """
    seen = np.flatnonzero(inputs)
    if len(inputs) * int(inputs.sum()) < 1 << 62:
        return int(seen @ inputs[seen])
    return sum(x * count for x, count in zip(seen.tolist(), inputs[seen].tolist(), strict=True))


def step(domain: Integers | Reals, task: str, n: int) -> Fraction:
    """Return how much the answer grows if the sum of n codes grows by one.

    >>> step(Integers(lower=0, upper=9), "mean", 4)
    Fraction(1, 4)
    """
    return unit(domain) / n if is_average(task) else unit(domain)


def count_rounded(domain: Integers | Reals, n: int) -> int:
    """Return how many of n values were rounded at random to the grid: all, if they are real.

    >>> count_rounded(Reals(lower=0.0, upper=1.0, steps=4), 100), count_rounded(Integers(lower=0, upper=4), 100)
    (100, 0)
    """
    return n * rounding_words(domain)


def bound_bias(domain: Integers | Reals, task: str, n: int) -> float:
    """Return how far the answer is off at most because real values have 41 binary digits.

    A place is off by half a unit and some rounding of floats, and once more next to a point of the grid.
    """
    if not rounding_words(domain):
        return 0.0
    return 1.02 * 2.0**-PLACE_BITS * float(reach(domain) * step(domain, task, n)) * n


def answer(
    domain: Integers | Reals, task: str, codes: Fraction, n: int, error: ErrorLaw
) -> Estimate:
    """Return the sum or mean of n people whose codes are estimated to add up to `codes`."""
    share = Fraction(1, n) if is_average(task) else Fraction(1)
    lower, upper = n * Fraction(domain.lower), n * Fraction(domain.upper)
    return Estimate(
        value=float(share * (lower + unit(domain) * codes)),
        error=error,
        limits=(float(share * lower), float(share * upper)),
    )


def read_mean_task(task: str, analyzer: Analyzer) -> Analyzer:
    """Return the analyzer of a mean itself, or one that answers with the sum.

    >>> read_mean_task("count", None)
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: task='count' must be 'sum' or 'mean'
    """
    return analyzer if is_average(task) else Total(mean=analyzer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """The sum, from an analyzer of the mean: how many people there are is public."""

    mean: Analyzer

    def tally(self, shuffled: Shuffled) -> Tally:
        return self.mean.tally(shuffled)

    def estimate(self, tally: Tally) -> Estimate:
        n, mean = tally.people(), self.mean.estimate(tally)
        low, high = mean.limits
        error = ScaledError(error=mean.error, times=n)
        return Estimate(value=n * mean.value, error=error, limits=(n * low, n * high))

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        return self.mean.weights(message)

    def variance(self, inputs: Counts) -> Value:
        return int(inputs.sum()) ** 2 * self.mean.variance(inputs)


_LARGEST = 100.0


def growth(epsilon: float) -> Fraction:
    """Return a fraction at most e^epsilon, and within one part in 10^48 of it up to epsilon = 100.

    Beyond that it stays at e^100: with words of 64 bits no probability can use more.

    >>> round(float(growth(1.0)), 12), growth(1e9) == growth(100.0)
    (2.718281828459, True)
    """
    return exp_lower(min(epsilon, _LARGEST))


def moment(counts: Counts, power: int) -> int:
    """Return the sum of counts[y] y^power, in integers that cannot overflow.

    >>> moment(np.array([5, 1, 2]), 2)
    9
    """
    seen = np.flatnonzero(counts != 0)  # ten times as fast as of the counts themselves
    return sum(
        count * y**power for y, count in zip(seen.tolist(), counts[seen].tolist(), strict=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Affine:
    """v(y) = (scale y - offset) / divisor for messages y = 0 .. last, in integers: a `Decoder`.

    >>> Affine(scale=4, offset=1, divisor=2, last=1).total(np.array([3, 1]))
    Fraction(0, 1)
    """

    scale: int
    offset: int
    divisor: int
    last: int

    def __call__(self, y: int) -> Fraction:
        return Fraction(self.scale * y - self.offset, self.divisor)

    def total(self, counts: Counts) -> Fraction:
        """Return the sum of v(y) over counts[y] messages y."""
        first = self.scale * moment(counts, 1) - self.offset * moment(counts, 0)
        return Fraction(first, self.divisor)

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """The smallest and the largest value."""
        return self(0), self(self.last)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quadratic:
    """constant + linear i + square i^2, exactly.

    >>> bump = Quadratic(constant=Fraction(0), linear=Fraction(4), square=Fraction(-1))
    >>> bump(1), bump.range(3), bump.total(np.array([7, 1, 1, 0]))
    (Fraction(3, 1), (Fraction(0, 1), Fraction(4, 1)), Fraction(7, 1))
    """

    constant: Fraction
    linear: Fraction
    square: Fraction

    def __call__(self, i: int | Fraction) -> Fraction:
        return self.constant + i * (self.linear + i * self.square)

    def total(self, counts: Counts) -> Fraction:
        """Return the sum over counts[i] users of code i."""
        zeroth, first, second = (moment(counts, power) for power in range(3))
        return self.constant * zeroth + self.linear * first + self.square * second

    def range(self, last: int) -> tuple[Fraction, Fraction]:
        """Return the smallest and the largest value for real i from 0 to last."""
        points = [Fraction(0), Fraction(last)]
        if self.square:
            points.append(min(max(-self.linear / (2 * self.square), points[0]), points[1]))
        values = [self(point) for point in points]
        return min(values), max(values)

    def cap(self, last: int) -> "Quadratic":
        """Return the smallest concave function that is at least this one from 0 to last.

        By Jensen's inequality the mean over some people is at most this function of their mean code.

        >>> Quadratic(constant=Fraction(1), linear=Fraction(-2), square=Fraction(1)).cap(2)
        Quadratic(constant=Fraction(1, 1), linear=Fraction(0, 1), square=Fraction(0, 1))
        """
        if self.square <= 0:
            return self
        slope = (self(last) - self(0)) / last
        return Quadratic(constant=self.constant, linear=slope, square=Fraction(0))

    def decode(self, decoder: Affine) -> "Quadratic":
        """Return the variance of what is decoded, if this is E[y^2 | i] of a message y whose mean is affine in i."""
        # (E[y^2 | i] - E[y | i]^2) / slope^2 with E[y | i] = start + slope i
        start = Fraction(decoder.offset, decoder.scale)
        slope = Fraction(decoder.divisor, decoder.scale)
        return Quadratic(
            constant=(self.constant - start**2) / slope**2,
            linear=(self.linear - 2 * start * slope) / slope**2,
            square=self.square / slope**2 - 1,
        )

    def raise_by(self, constant: Fraction) -> "Quadratic":
        """Return the same law plus a constant."""
        return replace(self, constant=self.constant + constant)

    def mix(self, weight: Fraction, other: "Quadratic") -> "Quadratic":
        """Return weight * self + (1 - weight) * other."""
        return Quadratic(
            constant=weight * self.constant + (1 - weight) * other.constant,
            linear=weight * self.linear + (1 - weight) * other.linear,
            square=weight * self.square + (1 - weight) * other.square,
        )


def bound_error(
    *,
    stderr: float,
    most: Quadratic,
    least: Fraction,
    reach: Fraction,
    n: int,
    worth: float,
    limits: tuple[float, float],
    bias: float,
) -> "intervals.BoundedError":
    """Return the error of an answer in which n codes, each estimated without bias, are worth `worth` apiece.

    A code i is estimated with a variance between `least` and `most`(i), concave, and is never off by more than
    `reach`. The interval covers at least its level, over all data with the same answer.

    >>> fair = Quadratic(constant=Fraction(1), linear=Fraction(0), square=Fraction(0))
    >>> error = bound_error(stderr=0.01, most=fair, least=Fraction(1), reach=Fraction(1), n=10_000, worth=1e-4,
    ...                     limits=(0.0, 1.0), bias=0.0)
    >>> [round(end, 4) for end in error.interval(0.5, 0.95)]
    [0.4793, 0.5207]
    """
    # With x = worth * (sum of the codes), the variance is at most worth^2 n most(x / (worth n)).
    a, b, c = (float(one) for one in (n * most.constant, most.linear, most.square / n))
    return intervals.BoundedError(
        stderr=stderr,
        most=(worth * worth * a, worth * b, c),
        least=worth * worth * n * float(least),
        reach=worth * float(reach),
        limits=limits,
        origin=limits[0],
        bias=bias,
    )


class Decoder(Protocol):
    """What messages say about the codes of their senders."""

    def __call__(self, y: int, /) -> Fraction:
        """Return an unbiased estimate of the sender's code."""

    def total(self, counts: Counts) -> Fraction:
        """Return the sum of the estimates over counts[y] messages y."""

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """The smallest and the largest estimate."""


class MeanOracle(Protocol):
    """A randomizer that sends one integer, from which a code can be estimated without bias."""

    @property
    def domain(self) -> Reals:
        """The grid of values."""

    @property
    def alphabet(self) -> int:
        """Messages are 0 .. alphabet - 1."""

    @property
    def code_variance(self) -> Quadratic:
        """Exact variance of what is decoded for a user of code i."""

    @property
    def decoder(self) -> Decoder:
        """Unbiased estimates from messages."""

    def noise(self, counts: Counts) -> Fraction:
        """Return the variance of the total, estimated or bounded from the counts alone; above 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanAnalyzer:
    """Counts the messages and adds up what they decode to.

    `estimate` answers the mean; `weights` is what a message adds to the *sum* of the values, and
    `variance` is that of the estimate, the mean: it falls like 1/n.
    """

    oracle: MeanOracle

    def influence(self) -> Fraction:
        """Return by how many people one message can move the sum: a person moves it by the whole range."""
        smallest, largest = self.oracle.decoder.ends
        return (largest - smallest) / self.oracle.domain.steps

    def tally(self, shuffled: Shuffled) -> Tally:
        return message_tally(shuffled, self.oracle.alphabet)

    def estimate(self, tally: Tally) -> Estimate:
        n, domain = tally.people(), self.oracle.domain
        messages = moment(tally.counts, 0)
        total = messages * Fraction(domain.lower) + unit(domain) * self.oracle.decoder.total(
            tally.counts
        )
        variance = self.oracle.noise(tally.counts) + n * self._rounding
        stderr = float(unit(domain)) * math.sqrt(variance) / n
        limits = (domain.lower, domain.upper)
        error = self._bound_error(stderr, n, limits)
        return Estimate(value=float(total / n), error=error, limits=limits)

    def _bound_error(
        self, stderr: float, n: int, limits: tuple[float, float]
    ) -> "intervals.BoundedError | intervals.OneBitError":
        oracle, last = self.oracle, self.oracle.domain.steps
        smallest, largest = oracle.decoder.ends
        if oracle.alphabet == 2:
            # A one decodes to `largest`, a zero to `smallest`, and the mean of that is the code.
            chances = [float((code - smallest) / (largest - smallest)) for code in (0, last)]
            bias = bound_bias(oracle.domain, "mean", n)
            return intervals.OneBitError(
                stderr=stderr, n=n, chances=(chances[0], chances[1]), limits=limits, bias=bias
            )
        return bound_error(
            stderr=stderr,
            most=oracle.code_variance.cap(last).raise_by(self._rounding),
            least=oracle.code_variance.range(last)[0],
            reach=max(largest, last - smallest),
            n=n,
            worth=float(unit(oracle.domain)) / n,
            limits=limits,
            bias=bound_bias(oracle.domain, "mean", n),
        )

    @property
    def _rounding(self) -> Fraction:
        """What rounding to the grid adds to the variance of a code at most."""
        return max(1 + self.oracle.code_variance.square, Fraction(0)) / 4

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        assert isinstance(message, int)
        domain = self.oracle.domain
        return (Fraction(domain.lower) + unit(domain) * self.oracle.decoder(message),)

    def variance(self, inputs: Counts) -> float:
        n = moment(inputs, 0)
        if n < 1:
            raise DataError("there are no inputs: at least one user is needed")
        of_total = self.oracle.code_variance.total(inputs)
        return float(unit(self.oracle.domain) ** 2 * of_total / n**2)


def assemble_mean(
    device: Callable[..., Any], task: str, *, epsilon: float, word_bits: int, **ends: Any
) -> Parts:
    """Assemble a mean (or a sum, by the task) that this kind of device answers, on the grid between the ends.

    >>> from shuffledp.protocols.duchi import Duchi
    >>> assemble_mean(Duchi, "sum", epsilon=1.0, word_bits=64, lower=0, upper=1, steps=1).task
    'sum'
    """
    made = device(domain=Reals(**ends), epsilon0=epsilon, word_bits=word_bits)
    mean = MeanAnalyzer(oracle=made)
    return Parts(
        made,
        read_mean_task(task, mean),
        task=task,
        deal=made.deal,
        code=made.code,
        blankets=made.blankets,
        influence=mean.influence,
    )
