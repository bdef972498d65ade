"""How many people a question needs: the theorem's order, and the number itself.

The order of a theorem says how n grows, not what n is: constants are left out. So every answer has both,
the order as a formula with its value at constant 1, and the n found by evaluating the error of the
protocol that would run.

**Learning.** The number is for the *uniform* distribution, which has the largest sampling error of all and, up to a
constant, the largest error after projection; what is measured is the expected distance between the projected
estimate and the population's p. Without privacy the expectation has a closed form. Otherwise it is simulated: exact
counts are drawn, noise with the law of the protocol is added, and the projection is measured. Nothing here is
anybody's data, so the simulation takes its words from a fixed seed, and the answer is the same each time.

**Testing.** The false-alarm rate is exact at every n. What n decides is how often a law at distance alpha is missed. It
is measured on the laws that are hardest to see, with fresh public coins for every run, and n is the smallest found at
which the misses stay below 7/8 of the stated error: the rest is room for chance, so that whoever counts errors again at
this n finds at most the stated ones.

References: Diakonikolas, Hardt, Schmidt 2015 (central); Acharya, Sun, Zhang 2019 (local); Feldman, McMillan,
Talwar 2021, "Hiding among the clones" (shuffle, with one message).
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.core.domain import Categories
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.estimate import Estimate, NormalError
from shuffledp.core.protocol import HONEST, ShuffleProtocol, honest_users
from shuffledp.core.validate import fraction_of_one, number, positive, whole
from shuffledp.inference.learning import MODELS, Source, find_source
from shuffledp.inference.testers import count_lowered, make_tester
from shuffledp.inference.uniformity import (
    MARGIN,
    Vote,
    check_error,
    check_question,
    find_threshold,
    plan_vote,
)
from shuffledp.numerics.entropy import SeededWords
from shuffledp.numerics.masses import binomial_masses

__all__ = [
    "Order",
    "SampleComplexity",
    "expected_empirical_tv",
    "learning_n",
    "learning_order",
    "sample_complexity",
    "uniformity_n",
    "uniformity_order",
]

_LARGEST_N = 10**12
_SEED = 2021
_NEAR = 3.0
"""Standard errors on either side of n."""
_STEPS = 25
_FAR = 0.1
"""How far apart two log(n) must be to tell how fast the error falls."""
_ROUGH_RUNS = 150
_FINE_RUNS = 2000
_ROUGH, _FINE = 1.06, 1.02  # ratios at which the two searches for a test's n stop
_LOCAL = "Acharya, Canonne, Freitag, Sun, Tyagi 2021"
_SHUFFLE = "Canonne, Lyu 2022"


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
    """Too few people: exactly, as counted (a test), or three standard errors below n (learning)."""
    upper: int
    """Enough people: exactly, as counted (a test), or three standard errors above n (learning)."""
    method: str
    """How the error at each n was found: "exact", or "simulated, ..." with its standard error."""
    measured: float
    """The error at n."""

    def __str__(self) -> str:
        return (
            f"{self.task}, {self.model} ({self.protocol}): n = {self.n:,}, between {self.lower:,} "
            f"and {self.upper:,}, {self.method}; theory: {self.theory}"
        )


def sample_complexity(
    task: str,
    k: int,
    alpha: float,
    epsilon: float | None = None,
    delta: float | None = None,
    model: str = "shuffle",
    **options: Any,
) -> SampleComplexity:
    """How many people `task` ("learn", "uniformity_test") over k categories needs for a distance alpha.

    `options` are those of the task, such as `protocol`: see `learning_n` and `uniformity_n`.

    >>> found = sample_complexity("learn", k=10, alpha=0.1, model="none")
    >>> found.n, found.method
    (145, 'exact')
    """
    answers: dict[str, Callable[..., SampleComplexity]] = {
        "learn": learning_n,
        "uniformity_test": uniformity_n,
    }
    if task not in answers:
        raise ParameterError("task", task, f"must be one of {', '.join(answers)}")
    return answers[task](k=k, alpha=alpha, epsilon=epsilon, delta=delta, model=model, **options)


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
    """The smallest n with an expected distance of at most alpha, for the uniform distribution.

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
        found = _search_exactly(k, alpha)
    else:
        least = _find_least(honest) if model == "shuffle" else 1
        found = _simulate(find, protocol, k, alpha, times, least)
    theory = learning_order(
        k=k, alpha=alpha, epsilon=epsilon, delta=delta, model=model, protocol=found.protocol
    )
    return SampleComplexity(task="learn", model=model, theory=theory, **asdict(found))


def _check_alpha(k: int, alpha: float) -> None:
    fraction_of_one("alpha", alpha)
    if alpha >= 1 - 1 / k:
        raise ParameterError(
            "alpha",
            alpha,
            f"must be < 1 - 1/k = {1 - 1 / k:.4g}: every answer is so close to uniform",
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
    """What theory says about n, as an order; constants are 1, so it is not a number of people.

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
    """The expected distance between the frequencies of n people and the uniform distribution they come from.

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
    while high - low > 1:
        middle = (low + high) // 2
        if expected_empirical_tv(middle, k) > alpha:
            low = middle
        else:
            high = middle
    measured = expected_empirical_tv(high, k)
    return _Found(
        n=high, lower=low, upper=high, method="exact", measured=measured, protocol="empirical"
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
    """Newton steps on logarithms, until the error is at most alpha, and by two standard errors at most.

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
    """How fast the error falls, d log(error) / d log(n): between -1 (noise) and -1/2 (sampling)."""
    if before is None:
        return -0.7
    step = math.log(n / before.n)
    if abs(step) < _FAR:
        return before.slope
    return min(-0.3, max(-1.2, math.log(mean / before.mean) / step))


def _has_no_simulation(protocol: ShuffleProtocol) -> str | None:
    return None if protocol.dealt else "its tally cannot be simulated"


def _find_least(honest: float) -> int:
    """The smallest n that has an honest user."""
    honest_users(10**9, honest)  # refuses what is no fraction
    return math.ceil(1 / honest)


def _first_guess(
    find: Callable[[str | None, int], Source],
    protocol: str | None,
    k: int,
    alpha: float,
    least: int,
) -> tuple[int, str]:
    """Where normal errors with the best protocol's variance would have the distance alpha, and its name."""
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
    """The mean distance of simulated collections, and its standard error."""
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


def uniformity_n(
    *,
    k: int,
    alpha: float,
    epsilon: float | None = None,
    delta: float | None = None,
    model: str = "shuffle",
    coin: str = "private",
    method: str | None = None,
    error: float = 1 / 3,
    honest: float = HONEST,
) -> SampleComplexity:
    """The smallest n at which `uniformity_test` with these parameters keeps both errors.

    The same question always gets the same answer: the simulation is keyed by n and k.

    >>> found = uniformity_n(k=16, alpha=0.25, model="none")
    >>> found.lower < found.n <= 60, found.measured <= 1 / 3
    (True, True)
    """
    whole("k", k, at_least=2)
    count_lowered(k, number("alpha", alpha))
    ballot = plan_vote(check_error(error))
    asked = check_question(
        model=model, coin=coin, method=method, epsilon=epsilon, delta=delta, honest=honest
    )
    name = asked["method"]
    order = uniformity_order(
        k=k,
        alpha=alpha,
        epsilon=asked.get("epsilon", math.inf),
        delta=asked.get("delta", 0.0),
        model=model,
        coin=coin,
        method=name,
    )
    question = _Question(k=k, alpha=alpha, ballot=ballot, asked=asked)
    most = _largest_miss(ballot, MARGIN * error)
    start = max(2, math.ceil(order.value))
    rough = _find_crossing(lambda n: question.rough(n) <= most, start, 2.0, _ROUGH)[1]
    low, high = _find_crossing(lambda n: question.fine(n) <= most, rough, 1.03, _FINE)
    runs = question.fine_runs
    return SampleComplexity(
        task="uniformity_test",
        model=model,
        protocol=f"{name}, {coin} coin",
        theory=order,
        n=ballot.voters * high,
        lower=ballot.voters * low,
        upper=ballot.voters * high,
        method=f"simulated, {runs} runs, standard error {math.sqrt(most * (1 - most) / runs):.2g}",
        measured=ballot.miss(question.fine(high)),
    )


class _Question:
    """How often the laws at distance alpha are missed by one group, as a function of its users."""

    def __init__(self, *, k: int, alpha: float, ballot: Vote, asked: dict[str, Any]) -> None:
        self.k, self.alpha, self.ballot, self.asked = k, alpha, ballot, asked
        self.fine_runs = max(_FINE_RUNS, 2 * ballot.runs)
        self._known: dict[int, float] = {}

    def rough(self, n: int) -> float:
        """By mean and standard deviation of a few runs, as if both laws were normal."""
        sampled = self._sample(n, _ROUGH_RUNS)
        if sampled is None:
            return 1.0
        null, far = sampled
        limit = null.mean() + NormalDist().inv_cdf(1 - self.ballot.level) * null.std()
        return NormalDist(far.mean(), max(far.std(), 1e-9)).cdf(limit)

    def fine(self, n: int) -> float:
        """Counted."""
        if n not in self._known:
            sampled = self._sample(n, self.fine_runs)
            if sampled is None:
                return 1.0
            null, far = sampled
            limit = find_threshold(null, math.floor(self.ballot.level * (len(null) + 1)))
            self._known[n] = float((far <= limit).mean())
        return self._known[n]

    def _sample(self, n: int, runs: int) -> Any:
        try:
            tester = make_tester(n=n, k=self.k, **self.asked)
        except UnsupportedError:  # n is too small for the guarantee
            return None
        generator = np.random.default_rng([n, self.k, runs])
        return tester.null(runs, generator), tester.far(self.alpha, runs, generator)


def _largest_miss(ballot: Vote, error: float) -> float:
    """How often a group may miss if the vote is to miss with probability at most `error`."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if ballot.miss(middle) <= error else (low, middle)
    return low


def _find_crossing(
    enough: Callable[[int], bool], start: int, step: float, ratio: float
) -> tuple[int, int]:
    """(too few, enough), a factor `ratio` apart or neighbours: outward from start, then halving."""
    low, high = (1, start) if enough(start) else (start, 0)
    while high == 0:
        candidate = max(low + 1, math.ceil(low * step))
        if candidate > _LARGEST_N:
            raise UnsupportedError(f"even n={low} users are too few")
        low, high = (low, candidate) if enough(candidate) else (candidate, 0)
        step = step**1.5
    while low == 1 and high > 2:
        candidate = max(2, math.floor(high / step))
        low, high = (1, candidate) if enough(candidate) else (candidate, high)
        step = step**1.5
        if high == 2:
            break
    while high - low > 1 and high > ratio * low:
        middle = max(low + 1, min(high - 1, math.ceil(math.sqrt(low * high))))
        low, high = (low, middle) if enough(middle) else (middle, high)
    return low, high


def uniformity_order(
    *,
    k: int,
    alpha: float,
    epsilon: float,
    delta: float,
    model: str,
    coin: str,
    method: str,
) -> Order:
    """The order of the method; a sum of terms, each of which leads somewhere.

    >>> print(uniformity_order(k=256, alpha=0.1, epsilon=1.0, delta=1e-6, model="none",
    ...                     coin="private", method="collisions"))
    k^(1/2) / alpha^2 = 1600 (an order, constants 1; Paninski 2008)
    """
    found = _terms(k, alpha, epsilon, delta)
    name = f"{model}, {coin}, {method}"
    if name not in found:
        raise ParameterError("method", method, f"has no order for {model}, {coin} coin")
    formula, value, reference = found[name]
    return Order(formula=formula, value=value, reference=reference)


def _terms(k: int, alpha: float, epsilon: float, delta: float) -> dict[str, tuple[str, float, str]]:
    free = math.sqrt(k) / alpha**2
    growth = math.expm1(min(epsilon, 300.0))
    return {
        "none, private, collisions": ("k^(1/2) / alpha^2", free, "Paninski 2008"),
        "central, private, distance": (
            "k^(1/2) / alpha^2 + k^(1/2) / (alpha epsilon^(1/2)) + k^(1/3) / (alpha^4 epsilon^2)^(1/3)"
            " + 1 / (alpha epsilon)",
            free
            + math.sqrt(k / epsilon) / alpha
            + (k / (alpha**4 * epsilon**2)) ** (1 / 3)
            + 1 / (alpha * epsilon),
            "Acharya, Sun, Zhang 2018",
        ),
        "central, private, counts": (
            "k^(1/2) / alpha^2 + k^(3/4) / (alpha epsilon)",
            free + k**0.75 / (alpha * epsilon),
            "the variance of the noise",
        ),
        "local, private, hadamard": (
            "k^(3/2) / (alpha^2 (e^epsilon - 1)^2) + k^(3/2) / (alpha^2 e^epsilon) + k^(1/2) / alpha^2",
            k**1.5 / alpha**2 * (1 / growth**2 + 1 / (1 + growth)) + free,
            _LOCAL,
        ),
        "local, public, hashed": (
            "k / (alpha^2 (e^epsilon - 1)^2) + k / (alpha^2 e^(epsilon/2)) + k^(1/2) / alpha^2",
            k / alpha**2 * (1 / growth**2 + 1 / math.sqrt(1 + growth)) + free,
            _LOCAL,
        ),
        "local, public, halving": (
            "k / (alpha^2 (e^epsilon - 1)^2) + k / alpha^2",
            k / alpha**2 * (1 / growth**2 + 1),
            _LOCAL,
        ),
        **_shuffled(k, alpha, epsilon, math.log(1 / delta) if delta else math.inf),
    }


def _shuffled(
    k: int, alpha: float, epsilon: float, log: float
) -> dict[str, tuple[str, float, str]]:
    free = math.sqrt(k) / alpha**2
    private = (
        "k^(3/4) log(1/delta)^(1/2) / (alpha epsilon) + k^(1/2) / alpha^2",
        k**0.75 * math.sqrt(log) / (alpha * epsilon) + free,
        _SHUFFLE,
    )
    laplace = (
        "k^(3/4) / (alpha epsilon) + k^(1/2) / alpha^2",
        k**0.75 / (alpha * epsilon) + free,
        "the variance of the noise",
    )
    public = (
        "(k^2 log(1/delta) / (alpha^4 epsilon^2))^(1/3) + (k log(1/delta))^(1/2) / (alpha epsilon)"
        " + k^(1/2) / alpha^2",
        (k**2 * log / (alpha**4 * epsilon**2)) ** (1 / 3)
        + math.sqrt(k * log) / (alpha * epsilon)
        + free,
        _SHUFFLE,
    )
    return {
        "shuffle, private, direct": private,
        "shuffle, private, amplified": private,
        "shuffle, private, correlated": laplace,
        "shuffle, private, pure": laplace,
        "shuffle, public, direct": public,
        "shuffle, public, hashed": public,
        "shuffle, public, amplified": (
            "(k log(1/delta))^(1/2) / (alpha epsilon) + k / alpha^2",
            math.sqrt(k * log) / (alpha * epsilon) + k / alpha**2,
            f"{_LOCAL}, after amplification",
        ),
    }
