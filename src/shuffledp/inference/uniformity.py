"""Are these values uniform? Tests with an exact false-alarm rate, in every model of privacy.

The values are independent draws from an unknown law p on k categories. Accept if p is uniform, reject if
its total variation distance from uniform is alpha or more, each with an error of at most `error`.

The threshold is not that of a limit theorem. The test simulates N crowds of uniform values through the
same protocol, and its p-value is (1 + the number of simulated statistics that are at least as large) /
(1 + N). If p is uniform, the observed statistic and the N simulated ones are exchangeable, so the p-value is
at most c with probability at most c, for every n, k and N. The coins of the simulation are not private: they
know nothing of the data.

A Monte-Carlo test with N simulations cannot have a p-value below 1 / (N + 1). So a very small error is
reached by a vote: an odd number of independent groups of users, each tested at a moderate level. If at
most `level` of the groups reject falsely, more than half of m groups do so with probability at most
Pr[Bin(m, level) > m / 2], which falls exponentially in m; likewise for missing a law that is far.

References: Paninski 2008, "A coincidence-based test for uniformity given very sparsely sampled discrete
data"; Acharya, Canonne, Freitag, Sun, Tyagi 2021, "Inference under information constraints III: local
privacy constraints"; Canonne, Lyu 2022, "Uniformity testing in the shuffle model: simpler, better, faster".

**Several columns** of the same people are each tested against a known law, under one guarantee. Every device maps each of
its T values to cells and sends all of them among uniform dummies: a bundle of T histograms. The privacy losses of the
parts are independent, and add up; the noise is the least whose *composed* curve keeps the promise, which is far less than
that of T tests with epsilon / T each.

Each test has the false-alarm rate error / T. So if all laws are the ones tested, all of them are accepted except with
probability `error`, however the columns depend on each other; and the columns that are rejected are named.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.arrays import Codes, Floats
from shuffledp.core.domain import Categories
from shuffledp.core.errors import DataError, ParameterError, UnsupportedError
from shuffledp.core.notebook import list_facts, say, stack
from shuffledp.core.privacy import Guarantee, Model, round_up
from shuffledp.core.protocol import HONEST, ShuffleProtocol, honest_users
from shuffledp.core.randomizer import WordSource
from shuffledp.core.validate import fraction_of_one, number, whole
from shuffledp.inference.reduction import (
    Reduction,
    list_reductions,
    public_words,
    split_into_groups,
)
from shuffledp.inference.robust import count_honest, protect_members
from shuffledp.inference.testers import (
    Tester,
    check_question,
    count_lowered,
    list_methods,
    make_tester,
)
from shuffledp.numerics.entropy import SecureWords
from shuffledp.numerics.rounding import float_below
from shuffledp.protocols import bundle

MARGIN = 7 / 8
"""Both kinds of error are planned at this share of the stated one, so that counted frequencies keep it, too."""
_LEAST_LEVEL = 1e-3
_FEWEST_RUNS = 999
_RUNS_PER_LEVEL = 20
_POWER_RUNS = 400
_CHOICE_RUNS = 100
_CHOICE_SEED = 2022


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformityTest:
    """The verdict of a test, and what it promised.

    It rejects exactly if `statistic > threshold`, which is the same as `p_value <= level`. If a
    very small error is asked for, several groups of users vote: then the statistic is the number of
    groups that reject.
    """

    accept: bool
    statistic: float
    threshold: float
    p_value: float
    level: float
    """The false-alarm rate of the test, at most `error`; a little less leaves room for chance."""
    error: float
    """What was promised: an upper bound of the false-alarm rate."""
    power: float
    """Simulated: how likely the test rejects the laws at distance alpha that are hardest to see."""
    n: int
    k: int
    alpha: float
    model: str
    coin: str
    method: str
    guarantee: Guarantee | None
    """What every user is promised; None: nothing (model "none").

    `guarantee.honest` counts honest users among all n. Of groups that vote, each is a shuffle of its own, drawn at
    random: its noise is enough for fewer honest members than its share, and the probability of fewer still is in
    delta (`inference.count_honest`). That is over the draw of the groups, so nobody may become dishonest because of
    it; with one group the promise holds for every public seed. Where a method has groups (halving, hashed), devices draw them, and all are one
    shuffle.
    """
    public_seed: int | None = None
    """The seed from which devices and analyzer derive parts and groups; None with a private coin."""
    groups: int = 1
    """How many groups of users there were in all, each collected on its own."""
    cells: int = 0
    """On how many cells uniformity was tested: k, or those of the reduction from another law."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and None: what `shuffledp test --json` prints."""
        promise = self.guarantee
        named = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            **named,
            "epsilon": None if promise is None else promise.epsilon,
            "delta": None if promise is None else promise.delta,
            "guarantee": None if promise is None else promise.to_dict(),
        }

    def describe(self) -> str:
        """Return the verdict and what it means, in a few lines.

        >>> print(uniformity_test([0, 0, 0, 1] * 500, k=2, alpha=0.2, model="none", error=0.01).describe())
        Rejected: values like these would be rare if the law were the one tested (p-value 0.000438).
        False alarms have probability at most 0.01; a law at distance 0.2 or more is rejected with probability about 1 (simulated).
        collisions: nothing is promised to anybody.
        """
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        verdict = "Accepted" if self.accept else "Rejected"
        why = "would not be unusual" if self.accept else "would be rare"
        promised = "nothing is promised to anybody" if self.guarantee is None else self.guarantee
        return [
            f"{verdict}: values like these {why} if the law were the one tested (p-value {round_up(self.p_value, 3)}).",
            f"False alarms have probability at most {round_up(self.error, 3)}; a law at distance {self.alpha:g} or "
            f"more is rejected with probability about {self.power:.3g} (simulated).",
            f"{self.method}: {promised}.",
        ]

    def _repr_html_(self) -> str:
        """Return how notebooks show it."""
        facts = [
            ("statistic", f"{self.statistic:.6g}, rejected above {self.threshold:.6g}"),
            ("p-value", f"{round_up(self.p_value, 3)}, rejected up to {self.level:.3g}"),
            ("people, categories", f"{self.n:,}, {self.k:,}"),
            ("model", f"{self.model}, {self.coin} coin, {self.method}"),
        ]
        verdict, *others = self._lines()
        return stack(say(verdict, bold=True), list_facts(facts), *map(say, others))

    def __str__(self) -> str:
        verdict = "accept" if self.accept else "reject"
        return (
            f"{verdict}: statistic {self.statistic:.6g}, threshold {self.threshold:.6g}, "
            f"p-value {round_up(self.p_value, 3)} (level {self.level:.3g}), power {self.power:.3g} "
            f"at distance {self.alpha:g}; {self.model}, {self.coin} coin, {self.method}"
        )


def uniformity_test(
    values: ArrayLike,
    *,
    k: int,
    alpha: float,
    epsilon: float | None = None,
    delta: float | None = None,
    model: str = "shuffle",
    coin: str = "private",
    method: str | None = None,
    error: float = 0.05,
    rng: WordSource | None = None,
    public_seed: int | None = None,
    honest: float = HONEST,
) -> UniformityTest:
    """Test whether values 0 .. k-1, independent draws from one law, are uniform.

    | model | coin | methods |
    |---|---|---|
    | none | private | collisions |
    | central | private | distance (one noisy number), counts (k noisy counts) |
    | local | private | hadamard |
    | local | public | hashed (L parts, Hadamard response), halving (two parts, randomized response) |
    | shuffle | private | direct (values and dummies), amplified (Hadamard), correlated (more messages, less noise) |
    | shuffle | private | pure (delta = 0, for some thousand users, if asked for) |
    | shuffle | public | direct (Canonne and Lyu), amplified (halving), hashed (L parts, Hadamard), correlated (parts) |

    A public coin also has the methods of a private one, as "private_direct" and so on. Without a `method` the one is
    taken that sees laws at distance alpha best with that many users: it depends on n, k and the promise alone.

    The local and central methods are pure and do not use `delta`; without privacy `epsilon` is not used
    either. A public coin needs a seed that was chosen without looking at the data;
    one is drawn if none is given, and the result names it.

    `honest` is a share of all users. No guarantee rests on every group having that share: groups that vote (a small
    `error` makes them) count on fewer, and the others are one shuffle.

    >>> from shuffledp import SeededWords
    >>> values = np.arange(40_000) % 16
    >>> test = uniformity_test(values, k=16, alpha=0.2, epsilon=1.0, delta=1e-6, rng=SeededWords(1))
    >>> test.accept, test.method, test.guarantee.epsilon
    (True, 'correlated', 1.0)
    >>> uniformity_test(values // 2, k=16, alpha=0.2, epsilon=1.0, delta=1e-6, rng=SeededWords(1)).accept
    False
    """
    whole("k", k, at_least=2)
    codes = Categories(k=k).codes(values).astype(np.int64, copy=False)
    count_lowered(k, number("alpha", alpha))
    ballot = plan_vote(check_error(error))
    asked = check_question(
        model=model, coin=coin, method=method, epsilon=epsilon, delta=delta, honest=honest
    )
    source = SecureWords() if rng is None else rng
    seed = _seed(coin, public_seed, source)
    public = source if seed is None else public_words(seed)
    n = len(codes)
    alone = ballot.voters == 1
    members = [np.arange(n)] if alone else split_into_groups(n, ballot.voters, public)
    smallest = min(map(len, members))
    asked["method"] = choose_method(n=smallest, of=n, k=k, alpha=alpha, ballot=ballot, asked=asked)
    testers = {
        size: make_tester(n=size, k=k, **share_promise(asked, people=size, n=n))
        for size in sorted({len(m) for m in members})
    }
    verdicts = [_verdict(testers[len(m)], codes[m], ballot, public, source) for m in members]
    largest = testers[max(testers)]
    limit = next(
        one.threshold for one, m in zip(verdicts, members, strict=True) if len(m) == largest.n
    )
    power = _power(largest, alpha, limit, ballot, source)
    return _result(
        verdicts,
        ballot,
        error=float(error),
        power=power,
        n=len(codes),
        k=k,
        alpha=float(alpha),
        model=model,
        coin=coin,
        method=largest.method,
        guarantee=_promise_all(testers.values(), asked, n),
        public_seed=seed,
        groups=ballot.voters * largest.groups,
        cells=k,
    )


def identity_test(
    values: ArrayLike,
    *,
    q: Iterable[object],
    alpha: float,
    epsilon: float | None = None,
    delta: float | None = None,
    model: str = "shuffle",
    coin: str = "private",
    method: str | None = None,
    error: float = 0.05,
    rng: WordSource | None = None,
    public_seed: int | None = None,
    honest: float = HONEST,
) -> UniformityTest:
    """Test whether values 0 .. k-1 have the known law q: fractions, or floats that sum to 1.

    Each device maps its value to a cell, such that the law q becomes exactly uniform; then the cells are tested. If q
    has a small common denominator, the cells keep every distance, and for a uniform q this is the uniformity test.
    Otherwise they keep 3/8 of it or more. Of several maps the one is taken with which the test sees most. The power
    is that at the worst law of the cells, which a law of values may not reach.

    >>> from shuffledp import SeededWords
    >>> values = np.repeat([0, 1, 2], [20_000, 10_000, 10_000])
    >>> found = identity_test(values, q=[0.5, 0.25, 0.25], alpha=0.3, epsilon=1.0, delta=1e-6, error=0.01,
    ...                       rng=SeededWords(1))
    >>> found.accept, found.k, found.cells
    (True, 3, 4)
    """
    maps = list_reductions(q)
    codes = Categories(k=maps[0].k).codes(values)
    if not 0 < number("alpha", alpha) <= 1:
        raise ParameterError("alpha", alpha, "must be > 0 and <= 1")
    asked = check_question(
        model=model, coin=coin, method=method, epsilon=epsilon, delta=delta, honest=honest
    )
    reduction = choose_reduction(
        maps, n=len(codes), alpha=float(alpha), ballot=plan_vote(check_error(error)), asked=asked
    )
    return judge_cells(
        codes,
        reduction,
        alpha=float(alpha),
        epsilon=epsilon,
        delta=delta,
        model=model,
        coin=coin,
        method=method,
        error=error,
        rng=SecureWords() if rng is None else rng,
        public_seed=public_seed,
        honest=honest,
    )


def judge_cells(
    codes: Codes, reduction: Reduction, *, alpha: float, rng: WordSource, **options: Any
) -> UniformityTest:
    """Test the law of a map by the uniformity of its cells; the options are those of `uniformity_test`.

    >>> from shuffledp import SeededWords
    >>> half = Reduction(q=(Fraction(1, 2), Fraction(1, 2)), mix=Fraction(0), cells=2)
    >>> judge_cells(np.arange(900) % 2, half, alpha=0.3, rng=SeededWords(1), model="none").accept
    True
    """
    far = float_below(reduction.kept * Fraction(alpha))
    cells = reduction.apply(codes, rng)
    result = uniformity_test(cells, k=reduction.cells, alpha=far, rng=rng, **options)
    return replace(result, k=reduction.k, alpha=alpha, cells=reduction.cells)


def choose_reduction(
    maps: Sequence[Reduction], *, n: int, alpha: float, ballot: "Vote", asked: dict[str, Any]
) -> Reduction:
    """Return the map whose cells tell laws at distance alpha best from q with n users; it knows nothing of the data.

    >>> asked = check_question(model="none", coin="private", method=None, epsilon=None, delta=None, honest=1.0)
    >>> maps = list_reductions([0.01, 0.99])
    >>> choose_reduction(maps, n=1000, alpha=0.3, ballot=plan_vote(1 / 3), asked=asked).cells
    100
    """
    able = [each for each in maps if each.kept * Fraction(alpha) <= 1 - Fraction(1, each.cells)]
    if len(able) <= 1:
        return (able or maps)[0]
    size = max(2, n // ballot.voters)
    seen: dict[int, float] = {}
    for place, each in enumerate(able):
        far = float_below(each.kept * Fraction(alpha))
        try:
            chosen = choose_method(
                n=size, of=n, k=each.cells, alpha=far, ballot=ballot, asked=asked
            )
            promised = share_promise({**asked, "method": chosen}, people=size, n=n)
            tester = make_tester(n=size, k=each.cells, **promised)
        except UnsupportedError:
            continue
        generator = np.random.default_rng([_CHOICE_SEED, n, each.cells])
        seen[place] = separate(tester, far, ballot.level, _CHOICE_RUNS, generator)
    return able[max(range(len(able)), key=lambda place: seen.get(place, -math.inf))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """m groups; each rejects if its Monte-Carlo p-value of `runs` simulations is at most `level`.

    >>> once = plan_vote(1 / 3)
    >>> once.voters, once.runs, round(once.level, 4)
    (1, 999, 0.291)
    """

    voters: int
    runs: int
    level: float
    """Exact: Pr[p-value <= level] <= level, a multiple of 1 / (runs + 1)."""
    total: float
    """The level of the whole test."""

    @property
    def rank(self) -> int:
        """A group rejects if its statistic is above the rank-th largest simulated one."""
        return round(self.level * (self.runs + 1))

    def p_value(self, rejections: int) -> float:
        """Return the probability that so many groups, or more, reject if all values are uniform."""
        return binomial_tail(self.voters, self.level, rejections)

    def miss(self, miss: float) -> float:
        """Return the probability that the vote accepts if each group accepts with probability `miss`."""
        needed = self.needed
        return 1 - binomial_tail(self.voters, 1 - miss, needed)

    @property
    def needed(self) -> int:
        """How many groups must reject."""
        counts = range(1, self.voters + 1)
        return next(count for count in counts if self.p_value(count) <= self.total)


def plan_vote(error: float) -> Vote:
    """Return the fewest groups whose levels are not below one in a thousand.

    >>> plan_vote(1e-6).voters, plan_vote(1e-6).needed, plan_vote(1e-6).p_value(3) <= 1e-6
    (5, 3, True)
    """
    total = MARGIN * error
    voters, level = 1, total
    while level < _LEAST_LEVEL:
        voters += 2
        level = _largest_level(voters, total)
    runs = max(_FEWEST_RUNS, math.ceil(_RUNS_PER_LEVEL / level))
    rank = math.floor(level * (runs + 1))
    return Vote(voters=voters, runs=runs, level=rank / (runs + 1), total=total)


def _largest_level(voters: int, total: float) -> float:
    low, high = 0.0, 0.5
    for _ in range(60):
        middle = (low + high) / 2
        if binomial_tail(voters, middle, (voters + 1) // 2) <= total:
            low = middle
        else:
            high = middle
    return low


def binomial_tail(n: int, p: float, at_least: int) -> float:
    """Return Pr[Bin(n, p) >= at_least].

    >>> binomial_tail(3, 0.5, 2)
    0.5
    """
    terms = (math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(at_least, n + 1))
    return min(1.0, math.fsum(terms))


def monte_carlo_p(observed: float, simulated: Floats) -> float:
    """Return (1 + the number simulated that are at least as large) / (1 + all of them).

    If nothing is to be seen the observed statistic and the simulated ones are exchangeable, so the
    probability of a value of at most c is at most c, for any number of simulations and any law.

    >>> monte_carlo_p(3.0, np.array([1.0, 3.0, 5.0]))
    0.75
    """
    return (1 + int(np.count_nonzero(simulated >= observed))) / (1 + len(simulated))


def find_threshold(simulated: Floats, rank: int) -> float:
    """Return the rank-th largest: the Monte-Carlo p-value is at most rank / (runs + 1) exactly above it.

    >>> find_threshold(np.array([1.0, 3.0, 5.0]), 1)
    5.0
    """
    return float(np.partition(simulated, -rank)[-rank])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    statistic: float
    threshold: float
    p_value: float


def _verdict(
    tester: Tester, codes: Codes, ballot: Vote, public: WordSource, rng: WordSource
) -> _Verdict:
    observed = tester.observe(codes, public, rng)
    simulated = tester.null(ballot.runs, generator_of(rng))
    return _Verdict(
        statistic=observed,
        threshold=find_threshold(simulated, ballot.rank),
        p_value=monte_carlo_p(observed, simulated),
    )


def _result(verdicts: list[_Verdict], ballot: Vote, **fields: Any) -> UniformityTest:
    if ballot.voters == 1:
        only = verdicts[0]
        statistic, limit, p_value = only.statistic, only.threshold, only.p_value
    else:
        rejections = sum(one.statistic > one.threshold for one in verdicts)
        statistic, limit = float(rejections), float(ballot.needed - 1)
        p_value = ballot.p_value(rejections)
    return UniformityTest(
        accept=statistic <= limit,
        statistic=statistic,
        threshold=limit,
        p_value=p_value,
        level=ballot.level if ballot.voters == 1 else ballot.p_value(ballot.needed),
        **fields,
    )


def choose_method(
    *, n: int, of: int, k: int, alpha: float, ballot: Vote, asked: dict[str, Any]
) -> str:
    """Return the method named, or the one whose statistic tells laws at distance alpha best from uniform with n users.

    They are compared by a few simulated crowds that know nothing of the data.

    >>> asked = check_question(model="local", coin="public", method=None, epsilon=1, delta=None, honest=1.0)
    >>> choose_method(n=20_000, of=20_000, k=64, alpha=0.25, ballot=plan_vote(1 / 3), asked=asked)
    'hashed'
    """
    if asked["method"] is not None:
        return str(asked["method"])
    names = list_methods(asked["model"], asked["coin"], k)
    if len(names) == 1:
        return names[0]
    seen: dict[str, float] = {}
    reasons = []
    for name in names:
        try:
            tester = make_tester(
                n=n, k=k, **share_promise({**asked, "method": name}, people=n, n=of)
            )
        except UnsupportedError as error:
            reasons.append(f"{name}: {error}")
            continue
        generator = np.random.default_rng([_CHOICE_SEED, n, k])
        seen[name] = separate(tester, alpha, ballot.level, _CHOICE_RUNS, generator)
    if not seen:
        raise UnsupportedError("no method fits: " + "; ".join(reasons))
    return max(names, key=lambda name: seen.get(name, -math.inf))


def separate(
    tester: Tester, alpha: float, level: float, runs: int, generator: np.random.Generator
) -> float:
    """Return how many standard deviations above the threshold the statistic of far laws lies, as if it were normal.

    >>> tester = make_tester(n=200, k=16, model="none", coin="private", method="collisions")
    >>> 3 < separate(tester, 0.3, 0.3, 200, np.random.default_rng(1)) < 6
    True
    """
    null, far = tester.null(runs, generator), tester.far(alpha, runs, generator)
    limit = null.mean() + NormalDist().inv_cdf(1 - level) * null.std()
    return float((far.mean() - limit) / max(far.std(), 1e-9))


def share_promise(asked: dict[str, Any], *, people: int, n: int) -> dict[str, Any]:
    """Return the promise that the tester of a random group of this many of n people must keep.

    Behind a shuffler the noise must be enough for the honest people that the group has but for half of delta.

    >>> asked = {"model": "shuffle", "method": "direct", "delta": 1e-6, "honest": 0.9}
    >>> group = share_promise(asked, people=4_000, n=20_000)
    >>> group["delta"], 0.84 < group["honest"] < 0.9
    (5e-07, True)
    """
    if asked["model"] != "shuffle" or people == n or asked["honest"] == 1:
        return asked
    if asked["delta"] == 0:
        raise UnsupportedError(
            "groups that vote need delta > 0: a group may have hardly any honest members"
        )
    chance = asked["delta"] / 2
    few = count_honest(people, n, honest=honest_users(n, asked["honest"]), chance=chance)
    return {**asked, "delta": asked["delta"] - chance, "honest": few / people}


def _promise_all(testers: Iterable[Tester], asked: dict[str, Any], n: int) -> Guarantee | None:
    """Return what everybody is promised, whichever group they are in."""
    every = [(each.n, each.observer.guarantee) for each in testers]
    (people, first), *_ = every
    if first is None or first.model is not Model.SHUFFLE or people == n:
        return first
    stated = [guarantee for _, guarantee in every if guarantee is not None]
    group = replace(
        first,
        epsilon=max(each.epsilon for each in stated),
        delta=max(each.delta for each in stated),
        honest=max(each.honest for each in stated),
    )
    if asked["honest"] == 1:
        return replace(group, honest=n)
    return protect_members(
        group, n=n, honest=honest_users(n, asked["honest"]), chance=asked["delta"] / 2
    )


def _power(tester: Tester, alpha: float, limit: float, ballot: Vote, rng: WordSource) -> float:
    """Estimate the power; the threshold of a group comes from simulations alone, so it can be reused."""
    seen = tester.far(alpha, _POWER_RUNS, generator_of(rng)) > limit
    return 1 - ballot.miss(1 - float(seen.mean()))


def generator_of(rng: WordSource) -> np.random.Generator:
    """Return NumPy's generator, for simulations alone, keyed with 256 bits of a word source.

    >>> from shuffledp import SeededWords
    >>> int(generator_of(SeededWords(1)).integers(10)) < 10
    True
    """
    return np.random.Generator(np.random.PCG64([int(word) for word in rng.words(4)]))


def check_error(error: float) -> float:
    """Return a stated error above 0 and at most 1/2.

    >>> check_error(0.6)
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: error=0.6 must be <= 1/2: a coin does as well
    """
    checked = fraction_of_one("error", error)
    if checked > 0.5:
        raise ParameterError("error", error, "must be <= 1/2: a coin does as well")
    return checked


def _seed(coin: str, public_seed: int | None, rng: WordSource) -> int | None:
    if coin == "private":
        if public_seed is not None:
            raise ParameterError("public_seed", public_seed, "must be None with a private coin")
        return None
    if public_seed is None:
        return int(rng.words(1)[0])
    return whole("public_seed", public_seed, at_least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityTests:
    """What the tests of several columns found together."""

    tests: Mapping[str, UniformityTest]
    """The test of each column; its `guarantee` is what it would promise alone."""
    error: float
    """How likely any column is rejected, at most, if all of them have the laws tested."""
    guarantee: Guarantee
    """What every user is promised for all columns together."""

    @property
    def accept(self) -> bool:
        """Whether all columns are accepted."""
        return not self.rejected

    @property
    def rejected(self) -> tuple[str, ...]:
        """The columns that do not have the law tested."""
        return tuple(name for name, test in self.tests.items() if not test.accept)


def identity_tests(
    columns: Mapping[str, ArrayLike],
    *,
    laws: Mapping[str, Iterable[object]],
    alpha: float,
    epsilon: float,
    delta: float,
    error: float = 0.05,
    rng: WordSource | None = None,
    honest: float = HONEST,
) -> IdentityTests:
    """Test whether each column, values 0 .. k-1 of the same people, has the law of its name; shuffle model.

    A column whose law is at distance alpha or more is to be found; `tests[name].power` says how likely that is.

    >>> import numpy as np
    >>> from shuffledp import SeededWords
    >>> way, home = np.repeat([0, 1, 2], [20_000, 10_000, 10_000]), np.arange(40_000) % 10 // 9
    >>> found = identity_tests({"way": way, "home": home}, laws={"way": [0.5, 0.25, 0.25], "home": [0.5, 0.5]},
    ...                        alpha=0.3, epsilon=1.0, delta=1e-6, error=0.01, rng=SeededWords(1))
    >>> found.rejected, found.guarantee.epsilon
    (('home',), 1.0)
    """
    if not columns or set(columns) != set(laws):
        raise ParameterError("laws", sorted(laws), f"must be one for each of {sorted(columns)}")
    share = check_error(error) / len(columns)
    if plan_vote(share).voters > 1:  # each group would need noise of its own
        raise ParameterError("error", error, f"must be larger for {len(columns)} columns")
    maps = {name: list_reductions(laws[name]) for name in columns}
    codes = {name: Categories(k=maps[name][0].k).codes(columns[name]) for name in columns}
    sizes = {len(each) for each in codes.values()}
    if len(sizes) > 1:
        raise DataError(f"columns must be of the same people, not of {sorted(sizes)}")
    n = sizes.pop()
    asked = check_question(
        model="shuffle",
        coin="private",
        method="direct",
        epsilon=epsilon,
        delta=delta,
        honest=honest,
    )
    reductions = {
        name: choose_reduction(each, n=n, alpha=alpha, ballot=plan_vote(share), asked=asked)
        for name, each in maps.items()
    }
    cells = {name: each.cells for name, each in reductions.items()}
    joint = make_bundle(cells, n=n, epsilon=epsilon, delta=delta, honest=honest)
    source = SecureWords() if rng is None else rng
    tests = {
        part["name"]: judge_cells(
            codes[part["name"]],
            reductions[part["name"]],
            alpha=float(alpha),
            epsilon=part["epsilon"],
            delta=part["delta"],
            method="direct",
            error=share,
            rng=source,
            honest=honest,
        )
        for part in joint.parameters["parts"]
    }
    return IdentityTests(tests=tests, error=float(error), guarantee=joint.guarantee)


def make_bundle(
    cells: Mapping[str, int], *, n: int, epsilon: float, delta: float, honest: float
) -> ShuffleProtocol:
    """Make histograms of these sizes with uniform dummies; its parameters have the budget of each.

    >>> made = make_bundle({"a": 12, "b": 18}, n=10_000, epsilon=1.0, delta=1e-6, honest=1.0)
    >>> [0.5 < part["epsilon"] < 1 for part in made.parameters["parts"]]
    [True, True]
    """
    parts = [
        {"name": name, "protocol": "dummies_histogram", "k": size} for name, size in cells.items()
    ]
    return bundle.make(n=n, epsilon=epsilon, delta=delta, honest=honest, parts=parts)
