"""How many people are needed to learn a distribution over k categories to total variation alpha.

The number is for the *uniform* distribution, which has the largest sampling error of all and, up to a
constant, the largest error after projection; what is measured is the expected distance between the
projected estimate and the population's p.

Without privacy the expectation has a closed form. Otherwise it is simulated: exact counts are drawn,
noise with the law of the protocol is added, and the projection is measured. Nothing here is anybody's data,
so the simulation takes its words from a fixed seed, and the answer is the same each time.

References: Diakonikolas, Hardt, Schmidt 2015 (central); Acharya, Sun, Zhang 2019 (local); Feldman, McMillan,
Talwar 2021, "Hiding among the clones" (shuffle, with one message).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.core.domain import Categories
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.estimate import Estimate, NormalError
from shuffledp.core.protocol import HONEST, ShuffleProtocol, honest_users
from shuffledp.core.validate import fraction_of_one, positive, whole
from shuffledp.inference._sources import MODELS, Request, Source, source
from shuffledp.inference.complexity import Order, SampleComplexity
from shuffledp.numerics.draws import NumpyDraws, is_dealt
from shuffledp.numerics.entropy import SeededWords
from shuffledp.numerics.masses import binomial

__all__ = ["expected_empirical_tv", "learning_n", "learning_order"]

_LARGEST_N = 10**12
_SEED = 2021
_NEAR = 3.0
"""Standard errors on either side of n."""
_STEPS = 25
_FAR = 0.1
"""How far apart two log(n) must be to tell how fast the error falls."""


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
    the number of simulated collections at each n that is tried; by default so many that n is known to about one
    percent. (A distance over many categories varies less, so fewer are enough.)

    Only protocols count whose tally can be simulated without the messages: in the local model `krr` and
    `hadamard`, while `learn` may take `subset_selection`, which needs fewer people (2 to 50 percent).

    >>> learning_n(k=10, alpha=0.1, model="none").n
    145
    """
    Categories(k=k)
    _check(k, alpha)
    times = min(2000, max(40, 40_000 // k)) if runs is None else whole("runs", runs, at_least=20)
    if model not in MODELS:
        raise ParameterError("model", model, f"must be one of {', '.join(MODELS)}")
    if max_messages is not None and positive("max_messages", max_messages) < 1:
        raise ParameterError("max_messages", max_messages, "must be >= 1")

    def request(n: int, name: str | None) -> Request:
        return Request(
            n=n,
            k=k,
            epsilon=epsilon,
            delta=delta,
            model=model,
            protocol=name,
            honest=honest,
            max_messages=max_messages,
        )

    found = _exact(k, alpha) if model == "none" else _simulated(request, protocol, k, alpha, times)
    if model == "none":
        source(request(1, protocol))  # refuses a protocol that this model does not have
    theory = learning_order(
        k=k, alpha=alpha, epsilon=epsilon, delta=delta, model=model, protocol=found.protocol
    )
    return SampleComplexity(
        task="learn",
        model=model,
        protocol=found.protocol,
        theory=theory,
        n=found.n,
        lower=found.lower,
        upper=found.upper,
        method=found.method,
        measured=found.measured,
    )


def _check(k: int, alpha: float) -> None:
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
    mass = float(binomial(np.array(float(v)), n, 1 / k))
    return k / n * v * (1 - 1 / k) * mass


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    n: int
    lower: int
    upper: int
    method: str
    measured: float
    protocol: str


def _exact(k: int, alpha: float) -> _Found:
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


def _simulated(
    request: Callable[[int, str | None], Request],
    protocol: str | None,
    k: int,
    alpha: float,
    runs: int,
) -> _Found:
    def made(name: str | None, n: int) -> Source:
        return source(request(n, name), only=_has_simulation)

    least = _least(request(1, protocol))
    start, name = _first_guess(made, protocol, k, alpha, least)
    measure = partial(_measured, partial(made, name), k, runs)
    at = _search(measure, start, alpha, least)
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
        n = _next(here, alpha, too_few, enough)
    raise UnsupportedError(f"no n was found for alpha={alpha!r}: try more runs")


def _next(here: _Point, alpha: float, too_few: int, enough: _Point | None) -> int:
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


def _has_simulation(protocol: ShuffleProtocol) -> bool:
    return is_dealt(protocol.randomizer)


def _least(request: Request) -> int:
    """The smallest n that has an honest user."""
    if request.model != "shuffle":
        return 1
    honest_users(10**9, request.honest)  # refuses what is no fraction
    return math.ceil(1 / request.honest)


def _first_guess(
    made: Callable[[str | None, int], Source],
    protocol: str | None,
    k: int,
    alpha: float,
    least: int,
) -> tuple[int, str]:
    """Where normal errors with the best protocol's variance would have the distance alpha, and its name."""
    n = max(least, math.ceil(k / alpha**2))
    name = made(protocol, n).name
    for _ in range(2):  # which protocol is best may depend on n
        n = _normal_n(partial(made, name), n, k, alpha, least)
        best = made(protocol, n).name
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


def _measured(made: Callable[[int], Source], k: int, runs: int, n: int) -> tuple[float, float]:
    """The mean distance of so many simulated collections, and its standard error."""
    chosen = made(n)
    words = SeededWords(_SEED)
    draws = NumpyDraws(words)
    uniform = np.full(k, 1 / k)
    distances = np.empty(runs)
    for i in range(runs):
        counts = draws.multinomial(n, uniform)
        projected = _projected(chosen.simulate(counts, words) / n)
        distances[i] = np.abs(projected - uniform).sum() / 2
    return float(distances.mean()), float(distances.std(ddof=1) / math.sqrt(runs))


def _projected(value: Floats) -> Floats:
    answer = Estimate(value=value, error=NormalError(stderr=0.0), limits=(0.0, 1.0))
    return np.asarray(answer.simplex().value)
