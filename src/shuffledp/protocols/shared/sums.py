"""What the protocols for sums share: a public scale of values, and the answer from a sum of codes."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shuffledp.core.analyzer import Analyzer, Tally
from shuffledp.core.arrays import Counts
from shuffledp.core.domain import PLACE_BITS, Integers, Reals, rounding_words
from shuffledp.core.errors import ParameterError
from shuffledp.core.estimate import ErrorLaw, Estimate, ScaledError, Value
from shuffledp.core.randomizer import Message, Shuffled
from shuffledp.core.validate import whole

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
    """Integers lower .. upper, or reals between them on a grid of `steps` steps; and the task.

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
        n, found = tally.people(), self.mean.estimate(tally)
        low, high = found.limits
        error = ScaledError(error=found.error, times=n)
        return Estimate(value=n * found.value, error=error, limits=(n * low, n * high))

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        return self.mean.weights(message)

    def variance(self, inputs: Counts) -> Value:
        return int(inputs.sum()) ** 2 * self.mean.variance(inputs)
