"""Testers: which parts of the categories, how many groups of users, and how each group is observed.

Every tester has one form. Users are split into groups; each group gets a public random partition of the
k categories into nearly equal parts (or none: the parts are the categories); a user's device replaces
the value by its part, and an `Observer` sees the parts. The statistics of the groups add up. Behind a shuffler each
device draws its group, and all groups are one shuffle: no guarantee rests on how many people of a group are honest.

Whoever has a public coin may ignore it: the methods of a public coin include those of a private one, as "private_...".

A random partition into L parts keeps, on average, (1 - 1/L) k / (k - 1) of the squared distance from uniform, in
L cells instead of k: it pays where noise in every cell is what hurts.

What a tester must see are laws at total variation distance alpha from uniform. Hardest to see are those where m of
the k categories are made less likely by alpha / m each, the others more likely by alpha / (k - m) each: among all laws
at that distance these have the least squared distance, alpha^2 (1/m + 1/(k - m)), at best 4 alpha^2 / k, for m = k / 2
(Paninski 2008, "A coincidence-based test for uniformity given very sparsely sampled discrete data"). A probability
cannot fall below 0, so m >= alpha k.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from shuffledp.accounting.base import bound_generator
from shuffledp.accounting.moved_message import poisson_level
from shuffledp.core.arrays import Codes, Counts, Floats
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.protocol import HONEST, ShuffleProtocol, honest_users
from shuffledp.core.randomizer import WordSource
from shuffledp.core.validate import fraction_of_one, number, positive
from shuffledp.inference.observers import (
    Correlated,
    Dummies,
    Exact,
    HadamardMessages,
    ManyDummies,
    NoisyCounts,
    NoisyDeviation,
    Observer,
    PureCells,
    Reports,
    RRMessages,
    Tagged,
)
from shuffledp.inference.reduction import part_sizes, partition, split_into_groups
from shuffledp.mechanisms import geometric
from shuffledp.numerics.rounding import float_above
from shuffledp.protocols import (
    correlated_histogram,
    dummies_histogram,
    hadamard,
    krr,
    pure_count,
    rr,
)

_FEWEST = 8
"""Degrees of freedom of all public partitions together: with fewer a partition too often misses everything."""
_TAGGED_WORDS = 8
"""More words than any device here reads, the one of its group included."""
_ROOM = 1 << 22  # numbers held at once in a simulation
_MANY = 1 << 14
"""Categories from which on a simulation knows how many cells hold how much, and no single cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tester:
    """A statistic of n users that is large if their values are not uniform on k categories.

    >>> tester = make_tester(n=1000, k=16, model="none", coin="private", method="collisions")
    >>> tester.parts, len(tester.null(5, np.random.default_rng(1)))
    (16, 5)
    """

    model: str
    coin: str
    method: str
    k: int
    n: int
    groups: int
    observer: Observer

    @property
    def parts(self) -> int:
        return self.observer.cells

    @property
    def _uniform(self) -> Floats:
        """The probability of each part if the categories are equally likely."""
        return _share(self.k, self.parts)

    @property
    def _sizes(self) -> Counts:
        return part_sizes(self.n, self.groups)

    def observe(self, values: Codes, public: WordSource, rng: WordSource) -> float:
        """Return the statistic of these values: parts and groups from `public`, noise from `rng`."""
        if isinstance(self.observer, Tagged):
            maps = np.stack([partition(self.k, self.parts, public) for _ in range(self.groups)])
            group = self.observer.draw(len(values), rng)
            seen = self.observer.observe(np.stack([group, maps[group, values]], axis=1), rng)
            return float(self.observer.statistic(seen, self._uniform, len(values)))
        total = 0.0
        for group in self._members(public):
            mine = values[group]
            if self.parts < self.k:
                mine = partition(self.k, self.parts, public)[mine]
            seen = self.observer.observe(mine, rng)
            total += float(self.observer.statistic(seen, self._uniform, len(mine)))
        return total

    def _members(self, public: WordSource) -> list[Codes]:
        if self.groups == 1:
            return [np.arange(self.n)]
        return split_into_groups(self.n, self.groups, public)

    def null(self, runs: int, generator: np.random.Generator) -> Floats:
        """Return the statistic of `runs` simulated crowds whose values are uniform.

        Its law is the same for every public seed, as all parts have the same sizes.
        """
        return self._simulate(runs, generator, lambda _: self._uniform)

    def far(self, alpha: float, runs: int, generator: np.random.Generator) -> Floats:
        """Return the same for values from a random one of the nearest laws at distance alpha, public coins fresh."""
        if isinstance(self.observer, ManyDummies):  # to which all cells are the same
            law = _lower_some(self.k, alpha)
            return self._simulate(runs, generator, lambda _: law)
        sizes = part_sizes(self.k, self.parts)
        return self._simulate(
            runs, generator, lambda rows: draw_alternatives(sizes, alpha, rows, generator)
        )

    def _simulate(
        self, runs: int, generator: np.random.Generator, law: Callable[[int], Floats]
    ) -> Floats:
        pieces = []
        width = 1 if isinstance(self.observer, ManyDummies) else self.groups * self.parts
        for rows in _chunks(runs, width):
            total = np.zeros(rows)
            if isinstance(self.observer, Tagged):
                laws = np.stack([law(rows) for _ in range(self.groups)])
                seen = self.observer.simulate(laws, self.n, rows, generator)
                pieces.append(self.observer.statistic(seen, self._uniform, self.n))
                continue
            for n in self._sizes.tolist():
                seen = self.observer.simulate(law(rows), n, rows, generator)
                total += self.observer.statistic(seen, self._uniform, n)
            pieces.append(total)
        return np.concatenate(pieces)


@lru_cache(maxsize=4)
def _share(k: int, parts: int) -> Floats:
    shares: Floats = part_sizes(k, parts) / k
    shares.setflags(write=False)
    return shares


def _chunks(runs: int, width: int) -> Iterator[int]:
    step = max(1, _ROOM // (4 * width))
    for start in range(0, runs, step):
        yield min(step, runs - start)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The parameters that a tester is made for, already checked."""

    n: int
    k: int
    epsilon: float
    delta: float
    honest: float

    @property
    def promise(self) -> dict[str, float]:
        """What makers behind a shuffler take, besides n."""
        return {"epsilon": self.epsilon, "delta": self.delta, "honest": self.honest}

    @property
    def tagged_promise(self) -> dict[str, float]:
        """The same for a report that travels with its group: the words of the group cost a little of delta."""
        if 2 * self.added > self.delta:
            raise UnsupportedError(f"delta={self.delta!r} is below what the words of a group add")
        return {**self.promise, "delta": (self.delta - self.added) * (1 - 2**-50)}

    @property
    def added(self) -> float:
        """An upper bound on what the words of everybody's group add to delta."""
        return float_above(bound_generator(self.n, _TAGGED_WORDS, self.epsilon))

    def group(self, number: int) -> int:
        """Return the size of the smallest of `number` groups."""
        users = self.n // number
        if users < 2:
            raise UnsupportedError(f"n={self.n} users are too few for {number} groups of two")
        return users


_Plan = tuple[int, Observer]
"""The number of groups, and how each is observed."""


def _collisions(want: _Wanted) -> _Plan:
    return 1, Exact(cells=want.k)


def _plan_deviation(want: _Wanted) -> _Plan:
    reach = 2 * min(want.n, want.k)
    mechanism = geometric.make(epsilon=want.epsilon, sensitivity=reach)
    return 1, NoisyDeviation(cells=want.k, mechanism=mechanism)


def _plan_counts(want: _Wanted) -> _Plan:
    return 1, NoisyCounts(mechanism=geometric.make(epsilon=want.epsilon, sensitivity=2, k=want.k))


def _plan_local_hadamard(want: _Wanted) -> _Plan:
    return 1, _reports(hadamard.make_local(k=want.k, epsilon=want.epsilon))


def _plan_local_halving(want: _Wanted) -> _Plan:
    return _FEWEST, _reports(rr.make_local(epsilon=want.epsilon))


def _plan_local_hashed(want: _Wanted) -> _Plan:
    """Plan about e^epsilon parts, so that a report says about as much as it may."""
    parts = _power(math.exp(min(want.epsilon, 60.0)) / 4, want.k)
    if parts == 2:
        return _plan_local_halving(want)
    return _groups(parts, want.k), _reports(hadamard.make_local(k=parts, epsilon=want.epsilon))


def _plan_direct(want: _Wanted) -> _Plan:
    dense = _dummies(want, want.k)
    return 1, ManyDummies(dense=dense) if want.k >= _MANY else dense


def _plan_correlated(want: _Wanted) -> _Plan:
    protocol = correlated_histogram.make(n=want.n, k=want.k, **want.promise)
    randomizer = protocol.randomizer
    assert isinstance(randomizer, correlated_histogram.CorrelatedHistogram)
    return 1, Correlated(protocol=protocol, randomizer=randomizer)


def _plan_pure(want: _Wanted) -> _Plan:
    protocol = pure_count.make(n=want.n, epsilon=want.epsilon / 2, honest=want.honest)
    randomizer = protocol.randomizer
    assert isinstance(randomizer, pure_count.PureCount)
    return 1, PureCells(cells=want.k, protocol=protocol, randomizer=randomizer)


def _plan_amplified_hadamard(want: _Wanted) -> _Plan:
    return 1, _reports(hadamard.make(n=want.n, k=want.k, **want.promise))


def _plan_amplified_halving(want: _Wanted) -> _Plan:
    # Randomized response with the bound of its blanket, which holds with the tags; that of a bit alone would not.
    protocol = krr.make(n=want.n, k=2, **want.tagged_promise)
    randomizer = protocol.randomizer
    assert isinstance(randomizer, krr.KRR)
    messages = RRMessages(randomizer=randomizer)
    return _FEWEST, Tagged(protocol=protocol, messages=messages, groups=_FEWEST, added=want.added)


def _plan_amplified_hashed(want: _Wanted) -> _Plan:
    parts = _power(want.n / _noise(want), want.k)
    if parts == 2:
        return _plan_amplified_halving(want)
    if parts == want.k:
        return _plan_amplified_hadamard(want)
    number = 1 << (_groups(parts, want.k) - 1).bit_length()
    if number == 1:
        return 1, _reports(hadamard.make(n=want.n, k=parts, **want.promise))
    protocol = hadamard.make(n=want.n, k=parts, **want.tagged_promise)
    randomizer = protocol.randomizer
    assert isinstance(randomizer, hadamard.HadamardResponse)
    messages = HadamardMessages(randomizer=randomizer)
    return number, Tagged(protocol=protocol, messages=messages, groups=number, added=want.added)


def _plan_direct_parts(want: _Wanted) -> _Plan:
    """Split into L parts.

    n / L users and `noise` messages fall into each part; L pays most where n / L = noise.
    """
    wanted = want.n / _noise(want)
    if want.k < 2 * _FEWEST or wanted > want.k / math.sqrt(2):
        return _plan_direct(want)
    parts = max(_FEWEST, min(math.floor(wanted), want.k // 2))
    return 1, _dummies(want, parts)


def _plan_correlated_parts(want: _Wanted) -> _Plan:
    """Return the same with the noise of discrete Laplace laws, of variance about 8 / epsilon^2 in each part."""
    wanted = want.n * want.epsilon**2 / 8
    if want.k < 2 * _FEWEST or wanted > want.k / math.sqrt(2):
        return _plan_correlated(want)
    parts = max(_FEWEST, min(math.floor(wanted), want.k // 2))
    return _plan_correlated(replace(want, k=parts))


def _noise(want: _Wanted) -> float:
    """Return roughly the number of noise messages that all n users send into a cell."""
    users = honest_users(want.n, want.honest)
    return poisson_level(epsilon=want.epsilon, delta=want.delta) * want.n / users


def _power(about: float, k: int) -> int:
    """Return the power of two nearest to `about` in ratio, at least 2; k if it comes that close."""
    parts: int = 2 ** max(1, round(math.log2(about)))
    return k if parts > k / math.sqrt(2) else parts


def _groups(parts: int, k: int) -> int:
    """Choose enough partitions for `_FEWEST` degrees of freedom; one if nothing is merged."""
    return 1 if parts == k else -(-_FEWEST // (parts - 1))


def _dummies(want: _Wanted, cells: int) -> Dummies:
    protocol = dummies_histogram.make(n=want.n, k=cells, **want.promise)
    randomizer = protocol.randomizer
    assert isinstance(randomizer, dummies_histogram.DummiesHistogram)
    return Dummies(protocol=protocol, randomizer=randomizer)


def _reports(protocol: ShuffleProtocol) -> Reports:
    randomizer = protocol.randomizer
    if isinstance(randomizer, rr.RR):
        return Reports(protocol=protocol, messages=RRMessages(randomizer=randomizer))
    assert isinstance(randomizer, hadamard.HadamardResponse)
    return Reports(protocol=protocol, messages=HadamardMessages(randomizer=randomizer))


_PRIVATE: dict[str, dict[str, Callable[[_Wanted], _Plan]]] = {
    "none": {"collisions": _collisions},
    "central": {"distance": _plan_deviation, "counts": _plan_counts},
    "local": {"hadamard": _plan_local_hadamard},
    "shuffle": {
        "direct": _plan_direct,
        "amplified": _plan_amplified_hadamard,
        "correlated": _plan_correlated,
    },
}
_PUBLIC: dict[str, dict[str, Callable[[_Wanted], _Plan]]] = {
    "local": {"hashed": _plan_local_hashed, "halving": _plan_local_halving},
    "shuffle": {
        "direct": _plan_direct_parts,
        "amplified": _plan_amplified_halving,
        "hashed": _plan_amplified_hashed,
        "correlated": _plan_correlated_parts,
    },
}
METHODS: dict[tuple[str, str], dict[str, Callable[[_Wanted], _Plan]]] = {
    **{(model, "private"): plans for model, plans in _PRIVATE.items()},
    **{
        (model, "public"): plans | {f"private_{name}": p for name, p in _PRIVATE[model].items()}
        for model, plans in _PUBLIC.items()
    },
}
"""(model, coin): the methods by name. Without a name the one that needs the fewest people is taken."""


PURE: dict[tuple[str, str], dict[str, Callable[[_Wanted], _Plan]]] = {
    ("shuffle", "private"): {"pure": _plan_pure}
}
"""Methods with delta = 0 where the model needs none; they are for some thousand users, so nothing chooses them by itself."""


def method_names(model: str, coin: str) -> tuple[str, ...]:
    """Return the methods of a model and a coin.

    >>> method_names("local", "public")
    ('hashed', 'halving', 'private_hadamard')
    """
    models = sorted({name for name, _ in METHODS})
    if model not in models:
        raise ParameterError("model", model, f"must be one of {', '.join(models)}")
    if coin not in ("private", "public"):
        raise ParameterError("coin", coin, "must be 'private' or 'public'")
    if (model, coin) not in METHODS:
        raise UnsupportedError(f"model {model!r} does not use a public coin: set coin='private'")
    return tuple(METHODS[model, coin])


def check_method(model: str, coin: str, method: str | None) -> str | None:
    """Return the method, if it exists; None if none is named.

    >>> check_method("local", "public", None), check_method("local", "public", "halving")
    (None, 'halving')
    """
    names = method_names(model, coin)
    if method is None or method in names or method in PURE.get((model, coin), {}):
        return method
    raise ParameterError(
        "method", method, f"must be one of {', '.join(names)} for {model}, {coin} coin"
    )


def check_question(
    *,
    model: str,
    coin: str,
    method: str | None,
    epsilon: float | None,
    delta: float | None,
    honest: float,
) -> dict[str, Any]:
    """Return the checked parameters of `make_tester`, apart from n and k.

    >>> check_question(model="local", coin="public", method=None, epsilon=1, delta=None, honest=1.0)
    {'model': 'local', 'coin': 'public', 'method': None, 'epsilon': 1.0}
    """
    name = check_method(model, coin, method)
    asked: dict[str, Any] = {"model": model, "coin": coin, "method": name}
    if model != "none":
        asked["epsilon"] = positive("epsilon", epsilon)
    if model == "shuffle":
        pure = name in PURE.get((model, coin), {}) and not delta
        asked["delta"] = 0.0 if pure else fraction_of_one("delta", delta)
        share = number("honest", honest)
        if not 0 < share <= 1:
            raise ParameterError("honest", honest, "must be > 0 and <= 1")
        asked["honest"] = share
    return asked


def list_methods(model: str, coin: str, k: int) -> tuple[str, ...]:
    """Return the methods that are compared if none is named; of very many categories only those that count cells.

    >>> list_methods("shuffle", "public", 10**6)
    ('direct', 'private_direct')
    """
    names = method_names(model, coin)
    if k < _MANY or model != "shuffle":
        return names
    return tuple(name for name in names if name.removeprefix("private_") == "direct")


def make_tester(
    *,
    n: int,
    k: int,
    model: str,
    coin: str,
    method: str,
    epsilon: float = math.inf,
    delta: float = 0.0,
    honest: float = HONEST,
) -> Tester:
    """Return the tester of that name for n users; the parameters must have been checked.

    >>> asked = {"model": "shuffle", "coin": "public", "epsilon": 1.0, "delta": 1e-6, "honest": 1}
    >>> make_tester(n=10**5, k=4096, method="direct", **asked).parts
    2048
    """
    chosen = check_method(model, coin, method)
    assert chosen is not None
    if n < 2:
        raise UnsupportedError(f"n={n} users are too few: collisions need two")
    want = _Wanted(n=n, k=k, epsilon=epsilon, delta=delta, honest=honest)
    plans = METHODS[model, coin] | PURE.get((model, coin), {})
    number, observer = plans[chosen](want)
    want.group(number)
    return Tester(model=model, coin=coin, method=chosen, k=k, n=n, groups=number, observer=observer)


def count_lowered(k: int, alpha: float) -> int:
    """Return m, the number of categories that are made less likely.

    >>> count_lowered(10, 0.1), count_lowered(10, 0.75)
    (5, 8)
    """
    m = max(k // 2, math.ceil(Fraction(repr(float(alpha))) * k))
    if not alpha > 0 or m > k - 1:
        raise ParameterError("alpha", alpha, f"must be > 0 and <= 1 - 1/k, k={k}")
    return m


def draw_alternatives(
    sizes: Counts, alpha: float, runs: int, generator: np.random.Generator
) -> Floats:
    """Draw p[runs, parts] of random parts of these sizes, for a random set of lowered categories.

    A fixed set and random parts, or random both: the law is the same.

    >>> draw_alternatives(np.array([1, 1]), 0.25, 3, np.random.default_rng(1)).sum(axis=1)
    array([1., 1., 1.])
    """
    k = int(sizes.sum())
    if len(sizes) == k:
        rows = np.broadcast_to(_lower_some(k, alpha), (runs, k))
        return generator.permuted(rows.copy(), axis=1)
    m, down, up = _lower(k, alpha)
    low = generator.multivariate_hypergeometric(sizes, m, size=runs, method="marginals")
    parts: Floats = low * down + (sizes - low) * up
    return np.maximum(parts, 0.0)  # rounding may leave a part that is all down below 0


def _lower(k: int, alpha: float) -> tuple[int, float, float]:
    """Return how many categories are lowered, and how likely they and the others are then."""
    m = count_lowered(k, alpha)
    return m, 1 / k - alpha / m, 1 / k + alpha / (k - m)


def _lower_some(k: int, alpha: float) -> Floats:
    m, down, up = _lower(k, alpha)
    return np.where(np.arange(k) < m, down, up)
