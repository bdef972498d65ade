"""What the protocols for sums share: from a sum of codes on the grid to the answer."""

from fractions import Fraction

from shuffledp.core.domain import Integers, Reals
from shuffledp.core.errors import ParameterError
from shuffledp.core.estimate import ErrorLaw, Estimate
from shuffledp.core.validate import whole

__all__ = ["number_domain", "reach", "scaled", "sum_task", "unit"]


def number_domain(lower: float, upper: float, steps: int | None) -> Integers | Reals:
    """Integers lower .. upper, or reals between them on a grid of so many steps.

    >>> number_domain(0, 120, None)
    Integers(lower=0, upper=120)
    """
    if steps is not None:
        return Reals(lower=lower, upper=upper, steps=steps)
    for name, end in (("lower", lower), ("upper", upper)):
        if isinstance(end, float):
            raise ParameterError(
                name, end, "must be an integer, unless `steps` makes a grid of reals"
            )
    low, high = (
        whole(name, end, at_least=-(2**53)) for name, end in (("lower", lower), ("upper", upper))
    )
    return Integers(lower=low, upper=high)


def reach(domain: Integers | Reals) -> int:
    """The largest code: how far one person moves the sum of the codes.

    >>> reach(Integers(lower=3, upper=10))
    7
    """
    return domain.size - 1


def unit(domain: Integers | Reals) -> Fraction:
    """The exact distance of two neighbouring values.

    >>> unit(Reals(lower=0.0, upper=1.0, steps=4))
    Fraction(1, 4)
    """
    return (Fraction(domain.upper) - Fraction(domain.lower)) / reach(domain)


def sum_task(name: str) -> str:
    """The name, if it is one of the two.

    >>> sum_task("count")
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: task='count' must be 'sum' or 'mean'
    """
    if name not in ("sum", "mean"):
        raise ParameterError("task", name, "must be 'sum' or 'mean'")
    return name


def scaled(
    domain: Integers | Reals, task: str, codes: Fraction, n: int, error: ErrorLaw
) -> Estimate:
    """The answer for n users whose codes are estimated to add up to `codes`."""
    share = Fraction(1, n) if task == "mean" else Fraction(1)
    lower, upper = n * Fraction(domain.lower), n * Fraction(domain.upper)
    return Estimate(
        value=float(share * (lower + unit(domain) * codes)),
        error=error,
        limits=(float(share * lower), float(share * upper)),
    )
