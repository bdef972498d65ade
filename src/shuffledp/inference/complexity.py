"""How many people a question needs: the theorem's order, and the number itself.

The order of a theorem says how n grows, not what n is: constants are left out. So every answer has both,
the order as a formula with its value at constant 1, and the n found by evaluating the error of the
protocol that would run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from shuffledp.core.errors import ParameterError

__all__ = ["Order", "SampleComplexity", "sample_complexity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What theory says about n, up to constants.

    >>> print(Order(formula="k / alpha^2", value=1000.0, reference="folklore"))
    k / alpha^2 = 1000 (an order, constants 1; folklore)
    """

    formula: str
    value: float
    """The formula with every constant set to 1: how n grows, not what n is."""
    reference: str

    def __str__(self) -> str:
        return f"{self.formula} = {self.value:.4g} (an order, constants 1; {self.reference})"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleComplexity:
    """The number of people that a question needs, in theory and as found.

    >>> order = Order(formula="k / alpha^2", value=1000.0, reference="folklore")
    >>> found = SampleComplexity(task="learn", model="none", protocol="empirical", theory=order,
    ...                          n=620, lower=619, upper=620, method="exact", measured=0.0999)
    >>> print(found)
    learn, none (empirical): n = 620, between 619 and 620, exact; theory: k / alpha^2 = 1000 (an order, constants 1; folklore)
    """

    task: str
    model: str
    protocol: str
    theory: Order
    n: int
    """The smallest number of people found to be enough."""
    lower: int
    """So many are too few: exactly, as counted (a test), or three standard errors below n (learning)."""
    upper: int
    """So many are enough: exactly, as counted (a test), or three standard errors above n (learning)."""
    method: str
    """How the error at each n was found: "exact", or "simulated, ..." with its standard error."""
    measured: float
    """The error at n."""

    def __str__(self) -> str:
        return (
            f"{self.task}, {self.model} ({self.protocol}): n = {self.n:,}, between {self.lower:,} "
            f"and {self.upper:,}, {self.method}; theory: {self.theory}"
        )


# Each task: the module and the function there that answers, imported when it is asked.
_TASKS = {
    "learn": ("learn_complexity", "learning_n"),
    "test_uniform": ("testing_complexity", "uniformity_n"),
}


def sample_complexity(
    task: str,
    k: int,
    alpha: float,
    epsilon: float | None = None,
    delta: float | None = None,
    model: str = "shuffle",
    **options: Any,
) -> SampleComplexity:
    """How many people `task` ("learn", "test_uniform") over k categories needs for a distance alpha.

    `options` are those of the task, such as `protocol`: see `learn_complexity.learning_n`
    and `testing_complexity.uniformity_n`.

    >>> found = sample_complexity("learn", k=10, alpha=0.1, model="none")
    >>> found.n, found.method
    (145, 'exact')
    """
    if task not in _TASKS:
        raise ParameterError("task", task, f"must be one of {', '.join(_TASKS)}")
    module, name = _TASKS[task]
    answer: Callable[..., SampleComplexity] = getattr(
        import_module(f"shuffledp.inference.{module}"), name
    )
    return answer(k=k, alpha=alpha, epsilon=epsilon, delta=delta, model=model, **options)
