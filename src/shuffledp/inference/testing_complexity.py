"""How many people a test needs: found by simulated crowds, as a crossing that is fitted.

The false-alarm rate is exact at every n. What n decides is how often a law at distance alpha is missed. It is measured on
the laws that are hardest to see, with fresh public coins for every run. The answer is the n at which the misses are 7/8 of
the stated error: the rest is room for chance, so that whoever counts errors again at this n finds at most the stated ones.

**The crossing.** A count of misses at one n says little, and a search that compares such counts wanders. So a rough
search, by means and standard deviations, finds where the crossing is; misses are counted at several n around it; and
the normal quantile of their share, which is nearly linear in log n, is fitted to all of them. Its standard error follows
from the counts, and is raised where they scatter more than counts do. `lower` and `upper` are three standard errors away.

**The method.** Without one, those of the model and coin are compared: first roughly, and those that are close by their
fitted n. A public coin has the methods of a private one as well, so it never needs more people.

An answer to "how many people?" has both the theorem's order and the number itself.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np

from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.protocol import HONEST
from shuffledp.core.validate import number, whole
from shuffledp.inference.reduction import Reduction, list_reductions
from shuffledp.inference.testers import check_question, count_lowered, list_methods, make_tester
from shuffledp.inference.uniformity import (
    MARGIN,
    Vote,
    check_error,
    find_threshold,
    plan_vote,
    separate,
    share_promise,
)
from shuffledp.numerics.rounding import find_first, float_below


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


_LARGEST_N = 10**12
_SEED = 2021
_ROUGH_RUNS = 150
_ROUGH = 1.06  # the ratio at which the rough search stops
_CLOSE = 0.35
"""Standard deviations by which a method may fall short at the best rough n, and still be measured."""
_POINTS = 8  # steps from the first to the last n at which misses are counted
_STEP = 0.07  # in log n
_RUNS, _FEWER = 2_000, 1_000  # at each point; fewer of more than 1,024 categories
_NEAR = 3.0  # standard errors on either side of n
_TRIES = 8
_FEW = 12  # people up to whom every n is a point
_LOCAL = "Acharya, Canonne, Freitag, Sun, Tyagi 2021"
_SHUFFLE = "Canonne, Lyu 2022"


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
    seed: int = _SEED,
) -> SampleComplexity:
    """Return the smallest n at which `uniformity_test` with these parameters keeps both errors.

    The same question always gets the same answer, unless another `seed` is given for the simulation.

    >>> found = uniformity_n(k=16, alpha=0.25, model="none")
    >>> found.lower <= found.n <= found.upper < 60, found.measured <= 1 / 3
    (True, True)
    """
    whole("k", k, at_least=2)
    count_lowered(k, number("alpha", alpha))
    ballot = plan_vote(check_error(error))
    asked = check_question(
        model=model, coin=coin, method=method, epsilon=epsilon, delta=delta, honest=honest
    )
    search = _Search(k=k, alpha=alpha, ballot=ballot, asked=asked, most=MARGIN * error, seed=seed)
    return search.answer("uniformity_test", search.find())


def identity_n(
    *,
    q: Iterable[object],
    alpha: float,
    k: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    model: str = "shuffle",
    coin: str = "private",
    method: str | None = None,
    error: float = 1 / 3,
    honest: float = HONEST,
    seed: int = _SEED,
) -> SampleComplexity:
    """Return the smallest n at which `identity_test` with these parameters keeps both errors.

    >>> uniform = identity_n(q=[0.25] * 4, alpha=0.3, model="none")
    >>> uniform.n == uniformity_n(k=4, alpha=0.3, model="none").n
    True
    """
    maps = list_reductions(q)
    if k not in (None, maps[0].k):
        raise ParameterError("k", k, f"must be the length of q, {maps[0].k}, or None")
    if not 0 < number("alpha", alpha) <= 1:
        raise ParameterError("alpha", alpha, "must be > 0 and <= 1")
    ballot = plan_vote(check_error(error))
    asked = check_question(
        model=model, coin=coin, method=method, epsilon=epsilon, delta=delta, honest=honest
    )
    searches = [
        _Search(
            k=each.cells,
            alpha=float_below(each.kept * Fraction(float(alpha))),
            ballot=ballot,
            asked=asked,
            most=MARGIN * error,
            seed=seed,
        )
        for each in _list_able(maps, alpha)
    ]
    best = min(((search.find(), search) for search in searches), key=lambda each: each[0].n)
    return best[1].answer("identity_test", best[0])


def _list_able(maps: Iterable[Reduction], alpha: float) -> list[Reduction]:
    """Return the maps whose cells can be that far from uniform."""
    able = [
        each for each in maps if each.kept * Fraction(float(alpha)) <= 1 - Fraction(1, each.cells)
    ]
    return able or list(maps)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Crossing:
    """The number of users at which one group misses as often as it may."""

    method: str
    n: int
    """People in a group."""
    doubt: float
    """The standard error of log n."""
    miss: float
    runs: int


class _Search:
    """How often the laws at distance alpha are missed by one group, as a function of its users."""

    def __init__(
        self, *, k: int, alpha: float, ballot: Vote, asked: dict[str, Any], most: float, seed: int
    ) -> None:
        self.k, self.alpha, self.ballot, self.asked, self.seed = k, alpha, ballot, asked, seed
        self.most = _largest_miss(ballot, most)
        self.wanted = -NormalDist().inv_cdf(self.most)

    def find(self) -> _Crossing:
        """Return the method that needs the fewest people, and how many."""
        if self.asked["method"] is not None:
            return self._cross(self.asked["method"], self._roughly(self.asked["method"], None))
        rough: dict[str, int] = {}
        reasons = []
        for name in list_methods(self.asked["model"], self.asked["coin"], self.k):
            best = min(rough.values(), default=None)
            if best is not None and self._separate(name, best) < self.wanted - _CLOSE:
                continue
            try:
                rough[name] = self._roughly(name, best)
            except UnsupportedError as error:
                reasons.append(f"{name}: {error}")
        if not rough:
            raise UnsupportedError("no method fits: " + "; ".join(reasons))
        best = min(rough.values())
        close = [name for name in rough if self._separate(name, best) >= self.wanted - _CLOSE]
        return min((self._cross(name, rough[name]) for name in close), key=lambda each: each.n)

    def answer(self, task: str, crossing: _Crossing) -> SampleComplexity:
        """Put the crossing into the form that callers see."""
        voters, far = self.ballot.voters, _NEAR * crossing.doubt
        return SampleComplexity(
            task=task,
            model=self.asked["model"],
            protocol=f"{crossing.method}, {self.asked['coin']} coin",
            theory=uniformity_order(
                k=self.k,
                alpha=self.alpha,
                epsilon=self.asked.get("epsilon", math.inf),
                delta=self.asked.get("delta", 0.0),
                model=self.asked["model"],
                coin=self.asked["coin"],
                method=crossing.method,
            ),
            n=voters * crossing.n,
            lower=voters * max(1, math.floor(crossing.n * math.exp(-far))),
            upper=voters * math.ceil(crossing.n * math.exp(far)),
            method=f"simulated, {crossing.runs} runs, standard error {crossing.doubt:.2g} of n",
            measured=self.ballot.miss(crossing.miss),
        )

    def _make(self, name: str, n: int) -> Any:
        group = share_promise({**self.asked, "method": name}, people=n, n=n * self.ballot.voters)
        return make_tester(n=n, k=self.k, **group)

    def _generator(self, n: int, runs: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, n, self.k, runs])

    def _separate(self, name: str, n: int) -> float:
        try:
            tester = self._make(name, n)
        except UnsupportedError:  # n is too small for the guarantee
            return -math.inf
        generator = self._generator(n, _ROUGH_RUNS)
        return separate(tester, self.alpha, self.ballot.level, _ROUGH_RUNS, generator)

    def _roughly(self, name: str, start: int | None) -> int:
        if start is None:
            order = uniformity_order(
                k=self.k,
                alpha=self.alpha,
                epsilon=self.asked.get("epsilon", math.inf),
                delta=self.asked.get("delta", 0.0),
                model=self.asked["model"],
                coin=self.asked["coin"],
                method=name,
            )
            start = max(2, math.ceil(order.value))
        return _find_crossing(lambda n: self._separate(name, n) >= self.wanted, start)

    def _miss(self, name: str, n: int, runs: int) -> float | None:
        """Return the share of far laws that are accepted; None if so few users cannot be promised anything."""
        try:
            tester = self._make(name, n)
        except UnsupportedError:
            return None
        generator = self._generator(n, runs)
        null, far = tester.null(runs, generator), tester.far(self.alpha, runs, generator)
        limit = find_threshold(null, math.floor(self.ballot.level * (runs + 1)))
        return float((far <= limit).mean())

    def _cross(self, name: str, rough: int) -> _Crossing:
        """Count misses around the crossing, and fit a line through their normal quantiles.

        The points are on a lattice, and the range is moved until the crossing is in its middle. So where the search
        began does not matter, and two names of one tester get one answer.
        """
        runs = max(_RUNS if self.k <= 1024 else _FEWER, 2 * self.ballot.runs)
        known: dict[int, float | None] = {}
        middle, seen = round(math.log(rough) / _STEP), list[int]()
        while True:
            points = _list_points(middle)
            for n in points:
                if n not in known:
                    known[n] = self._miss(name, n, runs)
            counted = {n: known[n] for n in points}
            fitted = _fit(counted, runs, self.most, self.ballot.level)
            if fitted is None:  # whatever can be promised is enough
                least = self._find_least(name, points)
                miss = self._miss(name, least, runs)
                assert miss is not None
                return _Crossing(method=name, n=least, doubt=0.0, miss=miss, runs=runs)
            place, doubt = fitted
            wanted = round(max(min(place / _STEP, middle + _POINTS), middle - _POINTS))
            if wanted == middle or len(seen) > _TRIES:
                break
            # Of two ranges that point at each other the lower one is taken.
            if wanted in seen and middle < wanted:
                break
            seen.append(middle)
            middle = max(wanted, 1)
        n = max(2, math.ceil(math.exp(place) - 1e-9))
        return _Crossing(method=name, n=n, doubt=doubt, miss=self.most, runs=runs * len(points))

    def _find_least(self, name: str, points: list[int]) -> int:
        """Return the smallest n that can be promised anything, near these."""

        def is_able(n: int) -> bool:
            try:
                self._make(name, n)
            except UnsupportedError:
                return False
            return True

        return find_first(is_able, 1, max(points))


def _list_points(middle: int) -> list[int]:
    """List numbers of users around e^(middle step), evenly spaced on a logarithmic scale; each n once where there are
    few.
    """
    centre = math.exp(middle * _STEP)
    if centre <= _FEW:
        return list(range(max(2, round(centre) - 4), round(centre) + 5))
    places = range(middle - _POINTS // 2, middle + _POINTS // 2 + 1)
    return sorted({max(2, round(math.exp(place * _STEP))) for place in places})


def _fit(
    counted: dict[int, float | None], runs: int, most: float, level: float
) -> tuple[float, float] | None:
    """Return log(n) of the crossing and its standard error; None if every n that is possible is enough.

    The share of misses varies by its own count, and by that of the false alarms, which set the threshold.
    """
    able = {n: miss for n, miss in counted.items() if miss is not None}
    if not able:
        raise UnsupportedError(f"no n up to {max(counted)} can be promised anything")
    if len(able) < len(counted) and max(able.values()) <= most:
        return None
    law = NormalDist()
    X = np.log(np.array(sorted(able), dtype=np.float64))
    if len(X) < 3:
        raise UnsupportedError(f"too few numbers of users up to {max(able)} to fit")
    shares = [min(1 - 1 / runs, max(1 / runs, able[n])) for n in sorted(able)]
    Y = np.array([law.inv_cdf(share) for share in shares])
    spread = [(share * (1 - share) + level * (1 - level)) / runs for share in shares]
    W = np.array([law.pdf(y) ** 2 / variance for y, variance in zip(Y, spread, strict=True)])
    mean, height = float((W * X).sum() / W.sum()), float((W * Y).sum() / W.sum())
    width = float((W * (X - mean) ** 2).sum())
    slope = min(float((W * (X - mean) * Y).sum()) / width, -0.2)  # misses fall with n
    rest = Y - height - slope * (X - mean)
    scatter = max(1.0, float((W * rest**2).sum()) / (len(X) - 2))
    place = mean + (law.inv_cdf(most) - height) / slope
    # A statistic of few values goes up and down with n, and the line misses it: no average over points helps there.
    doubt = scatter * math.sqrt(1 / float(W.sum()) + (place - mean) ** 2 / width) / -slope
    return place, doubt


def _largest_miss(ballot: Vote, error: float) -> float:
    """Return how often a group may miss if the vote is to miss with probability at most `error`."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if ballot.miss(middle) <= error else (low, middle)
    return low


def _find_crossing(enough: Callable[[int], bool], start: int) -> int:
    """Return a number that is enough, at most 6 % above one that is not: outward from start, then halving."""
    step = 1.6
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
    while high - low > 1 and high > _ROUGH * low:
        middle = max(low + 1, min(high - 1, math.ceil(math.sqrt(low * high))))
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


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
    """Return the order of the method: a sum of terms, each of which is the largest for some parameters.

    >>> print(uniformity_order(k=256, alpha=0.1, epsilon=1.0, delta=1e-6, model="none",
    ...                     coin="private", method="collisions"))
    k^(1/2) / alpha^2 = 1600 (an order, constants 1; Paninski 2008)
    """
    orders = _terms(k, alpha, epsilon, delta)
    plain = method.removeprefix("private_")
    name = f"{model}, {coin if plain == method else 'private'}, {plain}"
    if name not in orders:
        raise ParameterError("method", method, f"has no order for {model}, {coin} coin")
    formula, value, reference = orders[name]
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
        "shuffle, public, correlated": (
            "(k^2 / (alpha^4 epsilon^2))^(1/3) + k^(1/2) / (alpha epsilon) + k^(1/2) / alpha^2",
            (k**2 / (alpha**4 * epsilon**2)) ** (1 / 3) + math.sqrt(k) / (alpha * epsilon) + free,
            "the variance of the noise",
        ),
        "shuffle, public, amplified": (
            "(k log(1/delta))^(1/2) / (alpha epsilon) + k / alpha^2",
            math.sqrt(k * log) / (alpha * epsilon) + k / alpha**2,
            f"{_LOCAL}, after amplification",
        ),
    }
