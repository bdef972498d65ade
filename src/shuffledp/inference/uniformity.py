"""Are these values uniform? Tests with an exact false-alarm rate, in every model of privacy.

The values are independent draws from an unknown law p on k categories. Accept if p is uniform, reject if
its total variation distance from uniform is alpha or more, each with an error of at most `error`.

The threshold is not that of a limit theorem. The test simulates N crowds of uniform values through the
same protocol, and its p-value is (1 + the number of simulated statistics that are at least as large) /
(1 + N). If p is uniform, the observed statistic and the N simulated ones are exchangeable, so the p-value is
at most c with probability at most c, for every n, k and N. The coins of the simulation are not private: they
know nothing of the data.

References: Paninski 2008, "A coincidence-based test for uniformity given very sparsely sampled discrete
data"; Acharya, Canonne, Freitag, Sun, Tyagi 2021, "Inference under information constraints III: local
privacy constraints"; Canonne, Lyu 2022, "Uniformity testing in the shuffle model: simpler, better, faster".
"""
# ruff: noqa: PT028  (the names of these functions start with test_, but they are no tests of pytest)

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.arrays import Codes
from shuffledp.core.domain import Categories
from shuffledp.core.errors import ParameterError
from shuffledp.core.privacy import Guarantee
from shuffledp.core.protocol import HONEST
from shuffledp.core.randomizer import WordSource
from shuffledp.core.validate import fraction_of_one, number, positive, whole
from shuffledp.inference.alternatives import lowered
from shuffledp.inference.coins import groups, public_words
from shuffledp.inference.reduction import Reduction
from shuffledp.inference.testers import Tester, chosen_method, make_tester
from shuffledp.inference.votes import Vote, monte_carlo_p, threshold, vote
from shuffledp.numerics.entropy import SecureWords

__all__ = [
    "UniformityTest",
    "check_error",
    "check_question",
    "generator_of",
    "test_identity",
    "test_uniform",
]

_POWER_RUNS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformityTest:
    """What a test found, and what it promised.

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
    """What every user is promised, whatever the public seed is; None: nothing (model "none").

    With several groups (votes, halving, hashed) each group is a shuffle of its own, and
    `guarantee.honest` counts the honest users that *each* group needs. Groups are drawn at random: that
    nine tenths of all users are honest makes it likely, but not certain, that nine tenths of each are.
    """
    public_seed: int | None = None
    """From which devices and analyzer derive parts and groups; None with a private coin."""
    groups: int = 1
    """How many groups of users there were in all, each collected on its own."""
    cells: int = 0
    """On how many cells uniformity was tested: k, or those of the reduction from another law."""

    def __str__(self) -> str:
        verdict = "accept" if self.accept else "reject"
        return (
            f"{verdict}: statistic {self.statistic:.6g}, threshold {self.threshold:.6g}, "
            f"p-value {self.p_value:.3g} (level {self.level:.3g}), power {self.power:.3g} "
            f"at distance {self.alpha:g}; {self.model}, {self.coin} coin, {self.method}"
        )


def test_uniform(
    values: ArrayLike,
    *,
    k: int,
    alpha: float,
    epsilon: float | None = None,
    delta: float | None = None,
    model: str = "shuffle",
    coin: str = "private",
    method: str | None = None,
    error: float = 1 / 3,
    rng: WordSource | None = None,
    public_seed: int | None = None,
    honest: float = HONEST,
) -> UniformityTest:
    """Test whether values 0 .. k-1, independent draws from one law, are uniform.

    | model | coin | methods, the default first |
    |---|---|---|
    | none | private | collisions |
    | central | private | distance (one noisy number), counts (k noisy counts) |
    | local | private | hadamard |
    | local | public | hashed (L parts, Hadamard response), halving (two parts, randomized response) |
    | shuffle | private | direct (values and dummies), amplified (Hadamard), correlated (more messages, less noise) |
    | shuffle | public | direct (Canonne and Lyu), amplified (halving), hashed (L parts, Hadamard) |

    The local and central methods are pure and do not use `delta`; without privacy `epsilon` is not used
    either. A public coin needs a seed that was chosen without looking at the data;
    one is drawn if none is given, and the result names it.

    `honest` is a share of each group where there are several (a small `error` makes groups that vote;
    halving and hashed split the users, too). The promise of the shuffle model needs so many honest users
    *within each group*, not only among all; groups are drawn at random, so a share of all is no proof of it.

    >>> from shuffledp import SeededWords
    >>> values = np.arange(40_000) % 16
    >>> found = test_uniform(values, k=16, alpha=0.2, epsilon=1.0, delta=1e-6, rng=SeededWords(1))
    >>> found.accept, found.method, found.guarantee.epsilon
    (True, 'direct', 1.0)
    >>> test_uniform(values // 2, k=16, alpha=0.2, epsilon=1.0, delta=1e-6, rng=SeededWords(1)).accept
    False
    """
    whole("k", k, at_least=2)
    codes = Categories(k=k).codes(values).astype(np.int64, copy=False)
    lowered(k, number("alpha", alpha))
    ballot = vote(check_error(error))
    asked = check_question(
        model=model, coin=coin, method=method, epsilon=epsilon, delta=delta, honest=honest
    )
    source = SecureWords() if rng is None else rng
    seed = _seed(coin, public_seed, source)
    public = source if seed is None else public_words(seed)
    members = _voters(len(codes), ballot.voters, public)
    testers = {
        size: make_tester(n=size, k=k, **asked) for size in sorted({len(m) for m in members})
    }
    found = [_verdict(testers[len(m)], codes[m], ballot, public, source) for m in members]
    largest = testers[max(testers)]
    limit = next(
        one.threshold for one, m in zip(found, members, strict=True) if len(m) == largest.n
    )
    power = _power(largest, alpha, limit, ballot, source)
    return _result(
        found,
        ballot,
        error=float(error),
        power=power,
        n=len(codes),
        k=k,
        alpha=float(alpha),
        model=model,
        coin=coin,
        method=largest.method,
        guarantee=largest.collection.guarantee,
        public_seed=seed,
        groups=ballot.voters * largest.groups,
        cells=k,
    )


def test_identity(
    values: ArrayLike,
    *,
    q: Iterable[object],
    alpha: float,
    epsilon: float | None = None,
    delta: float | None = None,
    model: str = "shuffle",
    coin: str = "private",
    method: str | None = None,
    error: float = 1 / 3,
    rng: WordSource | None = None,
    public_seed: int | None = None,
    honest: float = HONEST,
) -> UniformityTest:
    """Test whether values 0 .. k-1 have the known law q: fractions, or floats that sum to 1.

    Each device maps its value to one of 6 k cells, such that the law q becomes exactly uniform and a law
    at distance alpha from q is at distance 3 alpha / 8 or more; then the cells are tested. The power is
    that at the worst law of the cells, which a law of values may not reach.

    >>> from shuffledp import SeededWords
    >>> values = np.repeat([0, 1, 2], [20_000, 10_000, 10_000])
    >>> found = test_identity(values, q=[0.5, 0.25, 0.25], alpha=0.3, epsilon=1.0, delta=1e-6,
    ...                       rng=SeededWords(1))
    >>> found.accept, found.k, found.cells
    (True, 3, 18)
    """
    reduction = Reduction(q=tuple(q))  # type: ignore[arg-type]
    codes = Categories(k=reduction.k).codes(values)
    if not 0 < number("alpha", alpha) <= 1:
        raise ParameterError("alpha", alpha, "must be > 0 and <= 1")
    source = SecureWords() if rng is None else rng
    found = test_uniform(
        reduction.apply(codes, source),
        k=reduction.cells,
        alpha=3 * alpha / 8,
        epsilon=epsilon,
        delta=delta,
        model=model,
        coin=coin,
        method=method,
        error=error,
        rng=source,
        public_seed=public_seed,
        honest=honest,
    )
    return replace(found, k=reduction.k, alpha=float(alpha), cells=reduction.cells)


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
        threshold=threshold(simulated, ballot.rank),
        p_value=monte_carlo_p(observed, simulated),
    )


def _result(found: list[_Verdict], ballot: Vote, **fields: Any) -> UniformityTest:
    if ballot.voters == 1:
        only = found[0]
        statistic, limit, p_value = only.statistic, only.threshold, only.p_value
    else:
        rejections = sum(one.statistic > one.threshold for one in found)
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


def _power(tester: Tester, alpha: float, limit: float, ballot: Vote, rng: WordSource) -> float:
    """The threshold of a group comes from simulations alone, so it can be used again."""
    seen = tester.far(alpha, _POWER_RUNS, generator_of(rng)) > limit
    return 1 - ballot.miss(1 - float(seen.mean()))


def generator_of(rng: WordSource) -> np.random.Generator:
    """NumPy's generator, for simulations alone, keyed with 256 bits of a word source.

    >>> from shuffledp import SeededWords
    >>> int(generator_of(SeededWords(1)).integers(10)) < 10
    True
    """
    return np.random.Generator(np.random.PCG64([int(word) for word in rng.words(4)]))


def check_question(
    *,
    model: str,
    coin: str,
    method: str | None,
    epsilon: float | None,
    delta: float | None,
    honest: float,
) -> dict[str, Any]:
    """The checked parameters of `make_tester`, apart from n and k.

    >>> check_question(model="local", coin="public", method=None, epsilon=1, delta=None, honest=1.0)
    {'model': 'local', 'coin': 'public', 'method': 'hashed', 'epsilon': 1.0}
    """
    name = chosen_method(model, coin, method)
    asked: dict[str, Any] = {"model": model, "coin": coin, "method": name}
    if model != "none":
        asked["epsilon"] = positive("epsilon", epsilon)
    if model == "shuffle":
        asked["delta"] = fraction_of_one("delta", delta)
        share = number("honest", honest)
        if not 0 < share <= 1:
            raise ParameterError("honest", honest, "must be > 0 and <= 1")
        asked["honest"] = share
    return asked


def check_error(error: float) -> float:
    """A stated error above 0 and at most 1/2.

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


def _voters(n: int, number_of: int, public: WordSource) -> list[Codes]:
    return [np.arange(n)] if number_of == 1 else groups(n, number_of, public)
