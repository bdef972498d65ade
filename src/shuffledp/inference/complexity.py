"""How many people a question needs: the theorem's order, and the number itself.

The order of a theorem says how n grows, not what n is: constants are left out. So every answer has both,
the order as a formula with its value at constant 1, and the n found by evaluating the error of the
protocol that would run.

**Learning.** The number is for the *uniform* distribution, which has the largest sampling error of all and, up to a
constant, the largest error after projection; what is measured is the expected distance between the projected
estimate and the population's p. Without privacy the expectation has a closed form. Otherwise it is simulated: exact
counts are drawn, noise with the law of the protocol is added, and the projection is measured. Nothing here is
anybody's data, so the simulation takes its words from a fixed seed, and the answer is the same each time.

**Testing** has a module of its own (`testing_complexity`).

References: Diakonikolas, Hardt, Schmidt 2015 (central); Acharya, Sun, Zhang 2019 (local); Feldman, McMillan,
Talwar 2021, "Hiding among the clones" (shuffle, with one message).

**Counting.** How many people a count or a histogram needs for an error of at most alpha n, except with probability beta.

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
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from shuffledp.core.analyzer import Estimate, NormalError
from shuffledp.core.arrays import Floats
from shuffledp.core.domain import Bits, Categories
from shuffledp.core.errors import ParameterError, ShuffledpError, UnsupportedError
from shuffledp.core.privacy import Model
from shuffledp.core.protocol import HONEST, Mechanism, ShuffleProtocol, honest_users
from shuffledp.core.validate import fraction_of_one, positive, whole
from shuffledp.engine.local import run_counts
from shuffledp.inference.learning import MODELS, Source, find_source
from shuffledp.inference.testing_complexity import Order, SampleComplexity, identity_n, uniformity_n
from shuffledp.mechanisms import geometric
from shuffledp.numerics.entropy import SeededWords
from shuffledp.numerics.masses import binomial_masses
from shuffledp.numerics.rounding import find_first
from shuffledp.planner.choice import order_candidates
from shuffledp.planner.question import Candidate, Limits, Problem
from shuffledp.planner.rows import worst_bin, worst_case
from shuffledp.protocols.count_min import CountMinAnalyzer
from shuffledp.protocols.zsum import ZsumAnalyzer
from shuffledp.protocols.zsum_histogram import ZsumHistogramAnalyzer
from shuffledp.tasks import Count, Histogram

_LARGEST_COUNTED = 10**10
_CLOSE = 1.002  # the ratio at which a search stops
_CURATED = 1.3
"""How far from a curator's n the usual winners may be to be taken at once."""
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
        share = self._share(chosen, n)
        method = "the law of the noise" if chosen.model is not Model.CENTRAL else "exact"
        return self._tell(chosen.name, order, n, low, share, method)

    def _choose(self, protocol: str | None, start: float) -> tuple[int, int, Candidate]:
        """Find how many are enough, how many too few, and with which protocol."""
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
            if best[0] <= _CURATED * floor:
                break
        if best is None:
            raise UnsupportedError("no protocol fits: " + "; ".join(reasons))
        return best

    def _floor(self) -> float:
        """Return the n that a curator's discrete Laplace noise needs: a protocol near that need not be compared with others."""
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
        """Yield the candidates of the model and of those it includes."""
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
        """Return the radius as a share of n; infinite where the candidate is not available."""
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
        """Return (too few, enough), close together."""

        def is_enough(n: int) -> bool:
            return self._share(candidate, n) <= self.alpha

        return _bisect(is_enough, max(2, math.ceil(start)))


def _bisect(is_enough: Callable[[int], bool], start: int) -> tuple[int, int]:
    low, high, step = 0, start, 2.0
    while not is_enough(high):
        low, high = high, math.ceil(high * step)
        if high > _LARGEST_COUNTED:
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
    """State what theory says is *sufficient*, as an order; k is 1 for a count.

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


_LARGEST_N = 10**12
_SEED = 2021
_NEAR = 3.0
"""Standard errors on either side of n."""
_STEPS = 25
_FAR = 0.1
"""How far apart two log(n) must be to tell how fast the error falls."""


def sample_complexity(
    task: str,
    k: int | None = None,
    alpha: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    model: str = "shuffle",
    **options: Any,
) -> SampleComplexity:
    """Find how many people are *sufficient* for `task` in a model, with the protocols of this library.

    | task | alpha | options |
    |---|---|---|
    | "learn" | the expected distance from the true distribution over k categories | see `learning_n` |
    | "uniformity_test" | the distance from uniform to detect, among k categories | see `uniformity_n` |
    | "identity_test" | the distance from the law `q` to detect | see `identity_n` |
    | "count" | the error as a share of n, except with probability `beta` | see `count_n` |
    | "histogram" | the same for all k bins at once | see `histogram_n` |

    >>> local, shuffle = (
    ...     sample_complexity("histogram", k=64, alpha=0.05, beta=0.05, epsilon=1.0, delta=1e-6, model=model).n
    ...     for model in ("local", "shuffle")
    ... )
    >>> local > 50 * shuffle
    True
    >>> found = sample_complexity("learn", k=10, alpha=0.1, model="none")
    >>> found.n, found.method
    (145, 'exact')
    """
    answers: dict[str, Callable[..., SampleComplexity]] = {
        "learn": learning_n,
        "uniformity_test": uniformity_n,
        "identity_test": identity_n,
        "count": count_n,
        "histogram": histogram_n,
    }
    if task not in answers:
        raise ParameterError("task", task, f"must be one of {', '.join(answers)}")
    if alpha is None:
        raise ParameterError("alpha", None, "must be given")
    asked: dict[str, Any] = {"alpha": alpha, "epsilon": epsilon, "delta": delta, "model": model}
    if k is not None:
        asked["k"] = k
    elif task in ("learn", "uniformity_test", "histogram"):
        raise ParameterError("k", None, f"must be given for {task!r}")
    return answers[task](**asked, **options)


def learning_n(
    *,
    k: int,
    alpha: float,
    epsilon: float | None = None,
    delta: float | None = None,
    model: str = "shuffle",
    protocol: str | None = None,
    honest: float = HONEST,
    max_messages: float | None = None,
    runs: int | None = None,
) -> SampleComplexity:
    """Return the smallest n with an expected distance of at most alpha, for the uniform distribution.

    Without `max_messages`, users of the shuffle model may send as many messages as they like. `runs` is
    the number of simulated collections at each n that is tried; by default enough that n is known to about one
    percent. (A distance over many categories varies less, so fewer are enough.)

    Only protocols count whose tally can be simulated without the messages: in the local model `krr` and
    `hadamard`, while `learn` may take `subset_selection`, which needs fewer people (2 to 50 percent).

    >>> learning_n(k=10, alpha=0.1, model="none").n
    145
    """
    Categories(k=k)
    _check_alpha(k, alpha)
    times = min(2000, max(40, 40_000 // k)) if runs is None else whole("runs", runs, at_least=20)
    if model not in MODELS:
        raise ParameterError("model", model, f"must be one of {', '.join(MODELS)}")
    if max_messages is not None and positive("max_messages", max_messages) < 1:
        raise ParameterError("max_messages", max_messages, "must be >= 1")

    def find(name: str | None, n: int) -> Source:
        return find_source(
            n=n,
            k=k,
            epsilon=epsilon,
            delta=delta,
            model=model,
            protocol=name,
            honest=honest,
            max_messages=max_messages,
            only=_has_no_simulation,
        )

    if model == "none":
        find(protocol, 1)  # refuses a protocol that this model does not have
        result = _search_exactly(k, alpha)
    else:
        least = _find_least(honest) if model == "shuffle" else 1
        result = _simulate(find, protocol, k, alpha, times, least)
    theory = learning_order(
        k=k, alpha=alpha, epsilon=epsilon, delta=delta, model=model, protocol=result.protocol
    )
    return SampleComplexity(task="learn", model=model, theory=theory, **asdict(result))


def _check_alpha(k: int, alpha: float) -> None:
    fraction_of_one("alpha", alpha)
    if alpha >= 1 - 1 / k:
        raise ParameterError(
            "alpha",
            alpha,
            f"must be < 1 - 1/k = {1 - 1 / k:.4g}: every answer is that close to uniform",
        )


def learning_order(
    *,
    k: int,
    alpha: float,
    epsilon: float | None = None,
    delta: float | None = None,
    model: str = "shuffle",
    protocol: str | None = None,
) -> Order:
    """State what theory says about n, as an order; constants are 1, so it is not a number of people.

    >>> print(learning_order(k=100, alpha=0.1, epsilon=1.0, model="central"))
    k / alpha^2 + k / (alpha epsilon) = 1.1e+04 (an order, constants 1; Diakonikolas, Hardt, Schmidt 2015)
    """
    sampling = k / alpha**2
    if model == "none":
        return Order(formula="k / alpha^2", value=sampling, reference="folklore")
    if epsilon is None:
        raise ParameterError("epsilon", None, f"must be given in the {model} model")
    if model == "local":
        return _local_order(k, alpha, epsilon)
    if model == "central" or protocol == "correlated_histogram":
        reference = "Diakonikolas, Hardt, Schmidt 2015"
        if model == "shuffle":
            reference = "discrete Laplace noise in every bin, as in the central model"
        return Order(
            formula="k / alpha^2 + k / (alpha epsilon)",
            value=sampling + k / (alpha * epsilon),
            reference=reference,
        )
    if delta is None:
        raise ParameterError("delta", None, "must be given in the shuffle model")
    return Order(
        formula="k / alpha^2 + k sqrt(ln(1/delta)) / (alpha epsilon)",
        value=sampling + k * math.sqrt(-math.log(delta)) / (alpha * epsilon),
        reference="Feldman, McMillan, Talwar 2021",
    )


def _local_order(k: int, alpha: float, epsilon: float) -> Order:
    # The first term leads for small epsilon, where it is k^2 / (alpha epsilon)^2; the second for
    # epsilon between 1 and ln k; the last beyond.
    terms = (math.expm1(epsilon) ** -2 + math.exp(-epsilon)) * k**2 + k
    return Order(
        formula="k^2 / (alpha^2 (e^epsilon - 1)^2) + k^2 / (alpha^2 e^epsilon) + k / alpha^2",
        value=terms / alpha**2,
        reference="Acharya, Sun, Zhang 2019",
    )


def expected_empirical_tv(n: int, k: int) -> float:
    """Return the expected distance between the frequencies of n people and the uniform distribution they come from.

    k / (2 n) times E|B - n/k|, B ~ Bin(n, 1/k), by de Moivre's formula for the mean absolute deviation:
    E|B - n q| = 2 v Pr[B = v] (1 - q), v = floor(n q) + 1.

    >>> round(expected_empirical_tv(1, 4), 9), round(expected_empirical_tv(1577, 100), 6)
    (0.75, 0.099999)
    """
    v = n // k + 1
    mass = float(binomial_masses(np.array(float(v)), n, 1 / k))
    return k / n * v * (1 - 1 / k) * mass


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    n: int
    lower: int
    upper: int
    method: str
    measured: float
    protocol: str


def _search_exactly(k: int, alpha: float) -> _Found:
    low, high = 0, 1
    while expected_empirical_tv(high, k) > alpha:
        low, high = high, 2 * high
        if high > _LARGEST_N:
            raise UnsupportedError(f"alpha={alpha!r} needs more than {_LARGEST_N:.0e} people")
    n = find_first(lambda n: expected_empirical_tv(n, k) <= alpha, low, high)
    measured = expected_empirical_tv(n, k)
    return _Found(
        n=n, lower=n - 1, upper=n, method="exact", measured=measured, protocol="empirical"
    )


def _simulate(
    find: Callable[[str | None, int], Source],
    protocol: str | None,
    k: int,
    alpha: float,
    runs: int,
    least: int,
) -> _Found:
    start, name = _first_guess(find, protocol, k, alpha, least)
    at = _search(lambda n: _measure(find(name, n), k, runs, n), start, alpha, least)
    return _Found(
        n=at.n,
        lower=max(least, math.floor(at.n * (1 - _NEAR * at.doubt))),
        upper=math.ceil(at.n * (1 + _NEAR * at.doubt)),
        method=f"simulated, {runs} runs, standard error {at.error:.2g}",
        measured=at.mean,
        protocol=name,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    """The error measured at n, and by what share of n its standard error may move the answer."""

    n: int
    mean: float
    error: float
    slope: float

    @property
    def doubt(self) -> float:
        # The error falls at least like the root of n.
        return self.error / self.mean / 0.5


def _search(
    measure: Callable[[int], tuple[float, float]], start: int, alpha: float, least: int
) -> _Point:
    """Take Newton steps on logarithms, until the error is at most alpha, and by two standard errors at most.

    Steps that leave what is already bracketed are replaced by halving: errors are measured, so they do not
    fall from every n to the next.
    """
    n, before = start, None
    too_few, enough = least - 1, None
    for _ in range(_STEPS):
        mean, error = measure(n)
        here = before = _Point(n=n, mean=mean, error=error, slope=_slope(before, n, mean))
        if alpha - 2 * error <= mean <= alpha:
            return here
        if mean > alpha:
            too_few = max(too_few, n)
        elif enough is None or n < enough.n:
            enough = here
        if enough is not None and enough.n - too_few <= max(1.0, enough.doubt * enough.n):
            return enough
        n = _choose_next(here, alpha, too_few, enough)
    raise UnsupportedError(f"no n was found for alpha={alpha!r}: try more runs")


def _choose_next(here: _Point, alpha: float, too_few: int, enough: _Point | None) -> int:
    # Aim at the middle of what is accepted.
    aim = max(alpha - here.error, alpha / 2)
    wanted = math.ceil(here.n * math.pow(here.mean / aim, -1 / here.slope))
    if enough is None:
        return max(wanted, too_few + 1)
    return wanted if too_few < wanted < enough.n else (too_few + enough.n) // 2


def _slope(before: _Point | None, n: int, mean: float) -> float:
    """Estimate how fast the error falls, d log(error) / d log(n): between -1 (noise) and -1/2 (sampling)."""
    if before is None:
        return -0.7
    step = math.log(n / before.n)
    if abs(step) < _FAR:
        return before.slope
    return min(-0.3, max(-1.2, math.log(mean / before.mean) / step))


def _has_no_simulation(protocol: ShuffleProtocol) -> str | None:
    return None if protocol.dealt else "its tally cannot be simulated"


def _find_least(honest: float) -> int:
    """Return the smallest n that has an honest user."""
    honest_users(10**9, honest)  # refuses what is no fraction
    return math.ceil(1 / honest)


def _first_guess(
    find: Callable[[str | None, int], Source],
    protocol: str | None,
    k: int,
    alpha: float,
    least: int,
) -> tuple[int, str]:
    """Return where normal errors with the best protocol's variance would have the distance alpha, and its name."""
    n = max(least, math.ceil(k / alpha**2))
    name = find(protocol, n).name
    for _ in range(2):  # which protocol is best may depend on n
        n = _normal_n(partial(find, name), n, k, alpha, least)
        best = find(protocol, n).name
        if best == name:
            break
        name = best
    return n, name


def _normal_n(made: Callable[[int], Source], start: int, k: int, alpha: float, least: int) -> int:
    n = start
    for _ in range(8):
        variance = made(n).accuracy(n).variance / k + n / k * (1 - 1 / k)
        ratio = k * math.sqrt(variance / (2 * math.pi)) / n / alpha
        if abs(math.log(ratio)) < 0.02:
            break
        n = max(least, round(n * math.pow(ratio, 1 / 0.75)))
        if n > _LARGEST_N:
            raise UnsupportedError(f"alpha={alpha!r} needs more than {_LARGEST_N:.0e} people")
    return n


def _measure(chosen: Source, k: int, runs: int, n: int) -> tuple[float, float]:
    """Return the mean distance of simulated collections, and its standard error."""
    words, people = SeededWords(_SEED), np.random.default_rng(_SEED)
    uniform = np.full(k, 1 / k)
    distances = np.empty(runs)
    for i in range(runs):
        counts = people.multinomial(n, uniform)
        projected = _project(chosen.simulate(counts, words) / n)
        distances[i] = np.abs(projected - uniform).sum() / 2
    return float(distances.mean()), float(distances.std(ddof=1) / math.sqrt(runs))


def _project(value: Floats) -> Floats:
    answer = Estimate(value=value, error=NormalError(stderr=0.0), limits=(0.0, 1.0))
    return np.asarray(answer.simplex().value)
