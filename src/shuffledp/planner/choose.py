"""The protocol to take: the planner's choice among those of the shuffle model, ready to run.

Protocols are tried until one is good enough that the rest need no look: an error within a quarter of
what even a curator would make of the honest users' noise, in hardly more bits than the value itself has.
Otherwise all are evaluated, and the choice is that of `sdp.plan` (fewest bits among nearly the best errors).
"""

import math
from collections.abc import Iterator

from shuffledp.core.domain import Bits, Categories
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.privacy import Model
from shuffledp.core.protocol import HONEST, ShuffleProtocol
from shuffledp.core.task import Task
from shuffledp.core.validate import fraction_of_one
from shuffledp.planner.candidates import Candidate, candidates
from shuffledp.planner.evaluate import evaluate
from shuffledp.planner.question import MOST_VALUES, Asked, Limits
from shuffledp.planner.rank import SAME, Aim, choose
from shuffledp.planner.row import Row
from shuffledp.protocols import hashed_histogram
from shuffledp.tasks import Count, Histogram, Mean, Sum

__all__ = ["count", "histogram", "mean", "sum"]

MAX_MESSAGES = 8.0
"""How many messages a user may send on average, unless stated otherwise."""
_FEW_BITS = 4.0  # times the bits of the value itself


def count(
    *,
    n: int,
    epsilon: float,
    delta: float,
    honest: float = HONEST,
    max_messages: float = MAX_MESSAGES,
) -> ShuffleProtocol:
    """A protocol that counts how many of n people say yes.

    >>> count(n=1_000_000, epsilon=1.0, delta=1e-8).name
    'correlated_count'
    """
    return chosen(
        Count(domain=Bits()),
        n=n,
        epsilon=epsilon,
        delta=delta,
        honest=honest,
        max_messages=max_messages,
    )


def histogram(
    *,
    n: int,
    k: int,
    epsilon: float,
    delta: float,
    honest: float = HONEST,
    max_messages: float = MAX_MESSAGES,
) -> ShuffleProtocol:
    """A protocol that counts how many of n people hold each of k categories.

    Beyond four million categories it is the hashed blanket: neither its error nor its messages grow with k.

    >>> histogram(n=1_000_000, k=1024, epsilon=1.0, delta=1e-8).name
    'correlated_histogram'
    >>> histogram(n=1_000_000, k=10**9, epsilon=1.0, delta=1e-8).name
    'hashed_histogram'
    """
    return chosen(
        Histogram(domain=Categories(k=k)),
        n=n,
        epsilon=epsilon,
        delta=delta,
        honest=honest,
        max_messages=max_messages,
    )


def sum(
    *,
    n: int,
    lower: float,
    upper: float,
    epsilon: float,
    delta: float,
    steps: int | None = None,
    honest: float = HONEST,
    max_messages: float = MAX_MESSAGES,
) -> ShuffleProtocol:
    """A protocol that adds up n numbers in [lower, upper]: integers, or reals on `steps` steps.

    >>> sum(n=100_000, lower=0, upper=120, epsilon=1.0, delta=1e-8).name
    'split_and_mix'
    """
    return chosen(
        Sum.declare({"lower": lower, "upper": upper, "steps": steps}).task,
        n=n,
        epsilon=epsilon,
        delta=delta,
        honest=honest,
        max_messages=max_messages,
    )


def mean(
    *,
    n: int,
    lower: float,
    upper: float,
    epsilon: float,
    delta: float,
    steps: int | None = None,
    honest: float = HONEST,
    max_messages: float = MAX_MESSAGES,
) -> ShuffleProtocol:
    """A protocol that averages n numbers in [lower, upper]: integers, or reals on `steps` steps.

    >>> mean(n=100_000, lower=0.0, upper=1.0, steps=1000, epsilon=1.0, delta=1e-8).task
    'mean'
    """
    return chosen(
        Mean.declare({"lower": lower, "upper": upper, "steps": steps}).task,
        n=n,
        epsilon=epsilon,
        delta=delta,
        honest=honest,
        max_messages=max_messages,
    )


def chosen(
    task: Task,
    *,
    n: int,
    epsilon: float,
    delta: float,
    honest: float = HONEST,
    max_messages: float = MAX_MESSAGES,
) -> ShuffleProtocol:
    """The protocol of the shuffle model that the planner takes for a task.

    >>> chosen(Count(domain=Bits()), n=1_000_000, epsilon=1.0, delta=1e-8).name
    'correlated_count'
    """
    fraction_of_one("delta", delta)
    limits = Limits.of(max_messages=max_messages, max_bits=None, trust=("shuffle",))
    asked = Asked.of(shrunk(task), n=n, epsilon=epsilon, delta=delta, honest=honest)
    if task.domain.size > MOST_VALUES:
        return _hashed(asked, task.domain.size, limits)
    return _chosen(asked, limits)


def shrunk(task: Task) -> Task:
    """The same question with no more bins than the planner computes errors for: the choice is the same.

    >>> shrunk(Histogram(domain=Categories(k=10**9))).domain.size == MOST_VALUES
    True
    """
    if not task.bins or task.domain.size <= MOST_VALUES:
        return task
    return type(task)(domain=Categories(k=MOST_VALUES))


def _chosen(asked: Asked, limits: Limits) -> ShuffleProtocol:
    rows: list[Row] = []
    enough = SAME * _curator(asked)
    for candidate in _shuffled(asked):
        row = evaluate(candidate, asked, limits)
        rows.append(row)
        if _is_enough(row, asked, enough):
            return _protocol(row)
    found = choose(rows, Aim.ERROR)
    if found is None:
        reasons = "; ".join(f"{row.protocol}: {row.reason}" for row in rows)
        raise UnsupportedError(f"no protocol fits: {reasons}")
    return _protocol(found)


def _shuffled(asked: Asked) -> Iterator[Candidate]:
    """Those of the shuffle model that answer the question as it was put.

    Amplified local ones are rarely the best and take longest to calibrate: they come last.
    """
    found = [
        each for each in candidates(asked) if each.model is Model.SHUFFLE and each.fits(asked.task)
    ]
    yield from sorted(found, key=lambda each: each.amplified)


def _curator(asked: Asked) -> float:
    """The error of a curator whose noise comes from users of whom only some are honest."""
    central = next(each for each in candidates(asked) if each.model is Model.CENTRAL)
    trust = Limits.of(max_messages=None, max_bits=None, trust=("central",))
    rmse = evaluate(central, asked, trust).rmse
    return 0.0 if rmse is None else rmse / math.sqrt(asked.honest)


def _is_enough(row: Row, asked: Asked, enough: float) -> bool:
    if not row.available or row.rmse is None or row.bits_per_user is None:
        return False
    return row.rmse <= enough and row.bits_per_user <= _FEW_BITS * asked.raw_bits


def _protocol(row: Row) -> ShuffleProtocol:
    made = row.make()
    assert isinstance(made, ShuffleProtocol)
    return made


def _hashed(asked: Asked, k: int, limits: Limits) -> ShuffleProtocol:
    made = hashed_histogram.make(
        n=asked.n, k=k, epsilon=asked.epsilon, delta=asked.delta, honest=asked.honest
    )
    if limits.max_messages is not None and made.cost.messages_mean > limits.max_messages:
        raise UnsupportedError(
            f"no protocol fits: hashed_histogram: {made.cost.messages_mean:.3g} messages per user"
        )
    return made
