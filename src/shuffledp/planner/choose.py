"""A good shuffle protocol for a task, by a simple rule.

For each task the protocols are tried in the order of their error, best first; the first one that
exists at these parameters and whose users send at most `max_messages` messages on average is taken.

* count: correlated noise (nearly the central error in about one message), then split-and-mix (the
  central error in a handful), then one randomized bit.
* histogram: correlated noise per bin, then uniform dummies, then the hashed blanket (any number of
  categories in about two messages), then one message of k-ary randomized response.
* sum and mean: split-and-mix, then unary, then a single rounded message.
"""

from collections.abc import Sequence
from typing import Any

from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.validate import fraction_of_one, number, positive, whole
from shuffledp.protocols import spec

__all__ = ["count", "histogram", "mean", "sum"]

_LARGEST_EPSILON = 100.0
MAX_MESSAGES = 8.0
"""How many messages a user may send on average, unless stated otherwise."""


def count(
    *, n: int, epsilon: float, delta: float, honest: float = 0.9, max_messages: float = MAX_MESSAGES
) -> ShuffleProtocol:
    """A protocol that counts how many of n people say yes.

    >>> count(n=1_000_000, epsilon=1.0, delta=1e-8).name
    'correlated_count'
    """
    common = _common(n, epsilon, delta, honest)
    bits = {"lower": 0, "upper": 1}
    return _first_affordable(
        [("correlated_count", common), ("split_and_mix", {**common, **bits}), ("rr", common)],
        max_messages,
    )


def histogram(
    *,
    n: int,
    k: int,
    epsilon: float,
    delta: float,
    honest: float = 0.9,
    max_messages: float = MAX_MESSAGES,
) -> ShuffleProtocol:
    """A protocol that counts how many of n people hold each of k categories.

    >>> histogram(n=1_000_000, k=1024, epsilon=1.0, delta=1e-8).name
    'correlated_histogram'
    """
    common = {**_common(n, epsilon, delta, honest), "k": whole("k", k, at_least=2)}
    names = ("correlated_histogram", "dummies_histogram", "hashed_histogram", "krr")
    return _first_affordable([(name, common) for name in names], max_messages)


def sum(
    *,
    n: int,
    lower: float,
    upper: float,
    epsilon: float,
    delta: float,
    steps: int | None = None,
    honest: float = 0.9,
    max_messages: float = MAX_MESSAGES,
) -> ShuffleProtocol:
    """A protocol that adds up n numbers in [lower, upper]: integers, or reals on `steps` steps.

    >>> sum(n=100_000, lower=0, upper=120, epsilon=1.0, delta=1e-8).name
    'split_and_mix'
    """
    return _number(locals(), "sum")


def mean(
    *,
    n: int,
    lower: float,
    upper: float,
    epsilon: float,
    delta: float,
    steps: int | None = None,
    honest: float = 0.9,
    max_messages: float = MAX_MESSAGES,
) -> ShuffleProtocol:
    """A protocol that averages n numbers in [lower, upper]: integers, or reals on `steps` steps.

    >>> mean(n=100_000, lower=0.0, upper=1.0, steps=1000, epsilon=1.0, delta=1e-8).question.value
    'mean'
    """
    return _number(locals(), "mean")


def _number(arguments: dict[str, Any], question: str) -> ShuffleProtocol:
    n, epsilon, delta, honest = (arguments[name] for name in ("n", "epsilon", "delta", "honest"))
    numbers = {name: arguments[name] for name in ("lower", "upper", "steps")}
    common = {**_common(n, epsilon, delta, honest), **numbers, "question": question}
    max_messages = arguments["max_messages"]
    names = ("split_and_mix", "unary_sum", "rounded_sum")
    return _first_affordable([(name, common) for name in names], max_messages)


def _common(n: int, epsilon: float, delta: float, honest: float) -> dict[str, Any]:
    """The parameters of every protocol, checked, as Python's own numbers."""
    checked = positive("epsilon", epsilon)
    if checked > _LARGEST_EPSILON:
        raise ParameterError(
            "epsilon", epsilon, f"must be <= {_LARGEST_EPSILON:g}: beyond is no privacy"
        )
    return {
        "n": whole("n", n, at_least=1),
        "epsilon": checked,
        "delta": fraction_of_one("delta", delta),
        "honest": number("honest", honest),
    }


def _first_affordable(
    candidates: Sequence[tuple[str, dict[str, Any]]], max_messages: float
) -> ShuffleProtocol:
    limit = positive("max_messages", max_messages)
    if limit < 1:
        raise ParameterError("max_messages", max_messages, "must be >= 1")
    reasons = []
    for name, parameters in candidates:
        maker = spec(name).make
        assert maker is not None
        try:
            protocol = maker(**parameters)
        except UnsupportedError as error:
            reasons.append(f"{name}: {error}")
            continue
        if protocol.cost.messages_mean <= limit:
            return protocol
        reasons.append(f"{name}: {protocol.cost.messages_mean:.3g} messages per user")
    raise UnsupportedError("no protocol fits: " + "; ".join(reasons))
