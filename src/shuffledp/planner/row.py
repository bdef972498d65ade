"""One line of a plan: a protocol or a mechanism, its exact error, its cost, and what it promises."""

import math
from dataclasses import dataclass, field
from typing import Any

from shuffledp.core.errors import UnsupportedError
from shuffledp.core.mechanism import Mechanism
from shuffledp.core.privacy import Guarantee, Model
from shuffledp.core.protocol import ShuffleProtocol

__all__ = ["Row"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A protocol (or a mechanism of the central model) as an answer to the question.

    `rmse` is the root of the exact mean squared error on the data set that is worst for this protocol,
    on the scale of the count or the sum (also for means: divide by n); for a histogram the root of its
    mean over the bins. Values are those of the domain: what rounding reals to the grid adds is
    `Plan.rounding`. `worst_bin` is for histograms: with probability about 95 % no bin is off by more, on
    that same data set.

    >>> from shuffledp import plan
    >>> row = plan("count", n=10_000, epsilon=1.0, delta=1e-6).chosen
    >>> row.protocol, row.model.value, round(row.rmse, 2), row.make().name
    ('correlated_count', 'shuffle', 1.6, 'correlated_count')
    """

    protocol: str
    model: Model
    reason: str | None = None
    """Why it is not available; None if it is."""
    rmse: float | None = None
    worst_bin: float | None = None
    messages_per_user: float | None = None
    bits_per_user: float | None = None
    total_bytes: int | None = None
    """What all users send together."""
    guarantee: Guarantee | None = None
    local_floor: Guarantee | None = None
    """What is left if the shuffler tells who sent what; None: nothing."""
    answers: str | None = None
    """The question that the protocol itself answers: a mean times n is a sum."""
    n: int | None = None
    """For how many users it was made."""
    made: ShuffleProtocol | Mechanism | None = field(default=None, repr=False, compare=False)

    @property
    def available(self) -> bool:
        """Whether it exists at these numbers and within these limits."""
        return self.reason is None

    @property
    def epsilon(self) -> float | None:
        """Of the guarantee; None where there is none."""
        return None if self.guarantee is None else self.guarantee.epsilon

    def make(self) -> ShuffleProtocol | Mechanism:
        """The protocol or mechanism itself, or `UnsupportedError` with the reason.

        >>> from shuffledp import plan
        >>> plan("count", n=10_000, epsilon=1.0, delta=1e-6).rows[0].make().name
        'geometric'
        """
        if self.reason is not None or self.made is None:
            raise UnsupportedError(f"{self.protocol} is not available: {self.reason}")
        return self.made

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings; None where there is no (finite) number.

        >>> Row(protocol="rr", model=Model.LOCAL, rmse=math.inf).to_dict()["rmse"] is None
        True
        """
        promise, floor = self.guarantee, self.local_floor
        return {
            "protocol": self.protocol,
            "model": self.model.value,
            "available": self.available,
            "reason": self.reason,
            "rmse": _finite(self.rmse),
            "worst_bin": _finite(self.worst_bin),
            "messages_per_user": _finite(self.messages_per_user),
            "bits_per_user": _finite(self.bits_per_user),
            "total_bytes": self.total_bytes,
            "epsilon": None if promise is None else promise.epsilon,
            "delta": None if promise is None else promise.delta,
            "proof": None if promise is None else promise.proof,
            "local_floor": None if floor is None else _finite(floor.epsilon),
            "answers": None if self.answers is None else self.answers,
            "n": self.n,
        }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
