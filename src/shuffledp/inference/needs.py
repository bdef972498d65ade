"""What an answer to "how many people?" says: the theorem's order, and the number itself."""

from dataclasses import dataclass

__all__ = ["Order", "SampleComplexity"]


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
    """Too few people, if n is exact; otherwise three standard errors below n."""
    upper: int
    """Enough people, if n is exact; otherwise three standard errors above n."""
    method: str
    """How the error at each n was found: "exact", or "simulated, ..." with its standard error."""
    measured: float
    """The error at n."""

    def __str__(self) -> str:
        return (
            f"{self.task}, {self.model} ({self.protocol}): n = {self.n:,}, between {self.lower:,} "
            f"and {self.upper:,}, {self.method}; theory: {self.theory}"
        )
