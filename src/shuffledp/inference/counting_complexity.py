"""How many people a count or a histogram needs for an error of at most alpha n, except with probability beta.

A count or bin has an error that hardly depends on n behind a shuffler, and grows like sqrt(n) without one. As a share of
the people it falls, and the sample complexity is the n from which on it is at most alpha: for a histogram in all k bins
at once. The truth is the count among these people; nothing is said about a population.

The radius of each protocol comes from the law of its noise: exactly for a curator and for zsum, and otherwise as half
the width of its interval at level 1 - beta (beta / k for each of k bins), where the noise is at its mean. n is searched
to within a fifth of a percent, and the error is met at the n returned.

**A setting that includes another is never worse.** A curator may simulate a shuffler, and a shuffler may do nothing: the
central model also has the protocols of the shuffle model (if there is a delta), and both have those of the local model.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np

from shuffledp.core.domain import Bits, Categories
from shuffledp.core.errors import ParameterError, ShuffledpError, UnsupportedError
from shuffledp.core.mechanism import Mechanism
from shuffledp.core.privacy import Model
from shuffledp.core.protocol import HONEST, ShuffleProtocol
from shuffledp.core.validate import fraction_of_one, positive, whole
from shuffledp.engine.local import run_counts
from shuffledp.inference.learning import MODELS
from shuffledp.inference.needs import Order, SampleComplexity
from shuffledp.mechanisms import geometric
from shuffledp.numerics.entropy import SeededWords
from shuffledp.planner.choice import order_candidates
from shuffledp.planner.question import Candidate, Limits, Problem
from shuffledp.planner.worst import worst_bin, worst_case
from shuffledp.protocols.count_min import CountMinAnalyzer
from shuffledp.protocols.zsum import ZsumAnalyzer
from shuffledp.protocols.zsum_histogram import ZsumHistogramAnalyzer
from shuffledp.tasks import Count, Histogram

__all__ = ["count_n", "counting_order", "histogram_n"]

_LARGEST_N = 10**10
_CLOSE = 1.002  # the ratio at which a search stops
_NEAR = 1.3
"""How far from a curator's n the usual winners may be to be taken at once."""
_SEED = 2021
_MOST_BINS = 1 << 16


def count_n(
    *,
    alpha: float,
    beta: float = 0.05,
    epsilon: float | None = None,
    delta: float | None = None,
    model: str = "shuffle",
    protocol: str | None = None,
    honest: float = HONEST,
    max_messages: float | None = None,
) -> SampleComplexity:
    """Return the smallest n for which a count is within alpha n, except with probability beta.

    >>> local, shuffle = (count_n(alpha=0.01, epsilon=1.0, delta=1e-8, model=model).n for model in ("local", "shuffle"))
    >>> 35_000 < local < 36_000, 290 < shuffle < 500
    (True, True)
    """
    task = Count(domain=Bits())
    search = _Search(task, alpha, beta, epsilon, delta, model, honest, max_messages)
    return search.answer(protocol)


def histogram_n(
    *,
    k: int,
    alpha: float,
    beta: float = 0.05,
    epsilon: float | None = None,
    delta: float | None = None,
    model: str = "shuffle",
    protocol: str | None = None,
    honest: float = HONEST,
    max_messages: float | None = None,
) -> SampleComplexity:
    """Return the smallest n for which all k bins at once are within alpha n, except with probability beta.

    >>> asked = {"alpha": 0.05, "epsilon": 1.0, "delta": 1e-6}
    >>> found = {k: histogram_n(k=k, protocol="zsum_histogram", **asked).n for k in (16, 1024)}
    >>> found[1024] <= 1.1 * found[16]
    True
    """
    if whole("k", k, at_least=2) > _MOST_BINS:
        raise UnsupportedError(f"k={k} is more than the {_MOST_BINS:,} bins that are computed")
    task = Histogram(domain=Categories(k=k))
    search = _Search(task, alpha, beta, epsilon, delta, model, honest, max_messages)
    return search.answer(protocol)


class _Search:
    """The question, and what each candidate makes of it."""

    def __init__(
        self,
        task: Count | Histogram,
        alpha: float,
        beta: float,
        epsilon: float | None,
        delta: float | None,
        model: str,
        honest: float,
        max_messages: float | None,
    ) -> None:
        self.task, self.model = task, model
        self.alpha, self.beta = fraction_of_one("alpha", alpha), fraction_of_one("beta", beta)
        if model not in MODELS:
            raise ParameterError("model", model, f"must be one of {', '.join(MODELS)}")
        self.epsilon = 1.0 if model == "none" else positive("epsilon", epsilon)
        if model == "shuffle" and delta is None:
            raise ParameterError("delta", None, "must be given in the shuffle model")
        self.delta = 0.0 if not delta else fraction_of_one("delta", delta)
        self.honest = honest
        self.limits = Limits.of(models="shuffle", max_messages=max_messages)
        self.bins = task.domain.size if task.bins else 1

    def answer(self, protocol: str | None) -> SampleComplexity:
        order = counting_order(
            k=self.bins,
            alpha=self.alpha,
            beta=self.beta,
            epsilon=self.epsilon,
            delta=self.delta,
            model=self.model,
        )
        if self.model == "none":
            return self._tell("exact", order, 1, 1, 0.0, "exact")
        n, low, chosen = self._choose(protocol, order.value)
        found = self._share(chosen, n)
        method = "the law of the noise" if chosen.model is not Model.CENTRAL else "exact"
        return self._tell(chosen.name, order, n, low, found, method)

    def _choose(self, protocol: str | None, start: float) -> tuple[int, int, Candidate]:
        """Return how many are enough, how many too few, and with which protocol."""
        able = [each for each in self._list() if protocol in (None, each.name)]
        if not able:
            raise ParameterError("protocol", protocol, f"must be one for a {self.task.name}")
        floor = self._floor() if protocol is None else 0.0
        best: tuple[int, int, Candidate] | None = None
        reasons = []
        for each in able:
            if best is not None and self._share(each, best[0]) > self.alpha:
                continue  # it needs more than the best
            try:
                low, high = self._find(each, start if best is None else best[0])
            except UnsupportedError as error:
                reasons.append(f"{each.name}: {error}")
                continue
            if best is None or high < best[0]:
                best = (high, low, each)
            if best[0] <= _NEAR * floor:
                break
        if best is None:
            raise UnsupportedError("no protocol fits: " + "; ".join(reasons))
        return best

    def _floor(self) -> float:
        """What discrete Laplace noise of a curator needs: whoever is near that needs no comparison with the others."""
        mechanism = geometric.make(
            epsilon=self.epsilon, sensitivity=2 if self.task.bins else 1, k=self.bins
        )
        return mechanism.accuracy(self.beta) / self.alpha

    def _tell(
        self, name: str, order: Order, n: int, lower: int, measured: float, method: str
    ) -> SampleComplexity:
        return SampleComplexity(
            task=self.task.name,
            model=self.model,
            protocol=name,
            theory=order,
            n=n,
            lower=lower,
            upper=n,
            method=method,
            measured=measured,
        )

    def _list(self) -> Iterator[Candidate]:
        """Of the model and of those it includes."""
        included = {
            "local": (Model.LOCAL,),
            "shuffle": (Model.SHUFFLE, Model.LOCAL),
            "central": (Model.CENTRAL, Model.SHUFFLE, Model.LOCAL),
        }[self.model]
        every = [each for each in order_candidates(self.task) if each.model in included]
        if self.model != "central":
            return iter(every)
        return iter(sorted(every, key=lambda each: included.index(each.model)))

    def _share(self, candidate: Candidate, n: int) -> float:
        """Return the radius as a share of n; infinite where the candidate is not to be had."""
        # A curator need not count on anybody's honesty when he plays the others.
        honest = 1.0 if self.model == "central" else self.honest
        delta = 0.0 if candidate.model is Model.LOCAL else self.delta
        try:
            asked = Problem.of(self.task, n=n, epsilon=self.epsilon, delta=delta, honest=honest)
            made = candidate.make(asked)
            return self._radius(made, n) / n
        except ShuffledpError:
            return math.inf

    def _radius(self, made: ShuffleProtocol | Mechanism, n: int) -> float:
        if not isinstance(made, ShuffleProtocol):
            return made.accuracy(self.beta)
        cost = made.cost
        if self.model == "shuffle":
            sent = cost.messages_mean
            reason = self.limits.excess(sent, sent * cost.bits_per_message)
            if reason is not None:
                raise UnsupportedError(reason)
        if isinstance(made.analyzer, CountMinAnalyzer):
            raise UnsupportedError("its error is that of a public hash function")
        if isinstance(made.analyzer, ZsumAnalyzer):
            return float(made.analyzer.accuracy(n, self.beta))
        if isinstance(made.analyzer, ZsumHistogramAnalyzer):
            return float(made.analyzer.accuracy_of_all(n, self.beta))
        if not self.task.bins:
            half = np.array([n - n // 2, n // 2])
            estimate = run_counts(made, half, SeededWords(_SEED))
            low, high = (float(end) for end in estimate.interval(1 - self.beta))
            return (high - low) / 2
        worst = worst_case(made, n=n, size=self.bins, bins=True)
        return worst_bin(made, worst.inputs, 1 - self.beta)

    def _find(self, candidate: Candidate, start: float) -> tuple[int, int]:
        """(too few, enough), close together."""

        def is_enough(n: int) -> bool:
            return self._share(candidate, n) <= self.alpha

        return _bisect(is_enough, max(2, math.ceil(start)))


def _bisect(is_enough: Callable[[int], bool], start: int) -> tuple[int, int]:
    low, high, step = 0, start, 2.0
    while not is_enough(high):
        low, high = high, math.ceil(high * step)
        if high > _LARGEST_N:
            raise UnsupportedError(f"not even n={low} people are enough")
        step = min(step**1.5, 100.0)
    step = 2.0
    while low == 0 and high > 1:
        candidate = max(1, math.floor(high / step))
        low, high = (0, candidate) if is_enough(candidate) else (candidate, high)
        step = min(step**1.5, 100.0)
        if high == 1:
            break
    while high - low > 1 and high > _CLOSE * low:
        middle = max(low + 1, min(high - 1, math.ceil(math.sqrt(low * high))))
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return low, high


def counting_order(
    *, k: int, alpha: float, beta: float, epsilon: float, delta: float, model: str
) -> Order:
    """Return what theory says is *sufficient*, as an order; k is 1 for a count.

    >>> print(counting_order(k=1, alpha=0.01, beta=0.05, epsilon=1.0, delta=0.0, model="local"))
    ln(k/beta) (e^epsilon + 1)^2 / (alpha^2 (e^epsilon - 1)^2) = 1.403e+05 (an order, constants 1; Warner 1965; Bassily, Smith 2015)
    """
    if model == "none":
        return Order(formula="1", value=1.0, reference="nothing is random")
    log = math.log(k / beta)
    if model == "local":
        return Order(
            formula="ln(k/beta) (e^epsilon + 1)^2 / (alpha^2 (e^epsilon - 1)^2)",
            value=log / (alpha * math.tanh(epsilon / 2)) ** 2,
            reference="Warner 1965; Bassily, Smith 2015",
        )
    laplace = log / (alpha * epsilon)
    flat = math.inf if not delta else math.log(1 / delta) / (alpha * epsilon)
    if k == 1 or laplace <= flat:
        return Order(
            formula="ln(k/beta) / (alpha epsilon)",
            value=laplace,
            reference="discrete Laplace noise in every bin",
        )
    return Order(
        formula="ln(1/delta) / (alpha epsilon)",
        value=flat,
        reference="Balcer, Cheu 2020, with the noise of the exact law; whatever k is",
    )
