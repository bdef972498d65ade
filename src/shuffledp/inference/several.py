"""Several columns of the same people, each tested against a known law, under one guarantee.

Every device maps each of its T values to cells (`inference.reduction`) and sends all of them among uniform dummies: a
bundle of T histograms. The privacy losses of the parts are independent, and add up; the noise is the least whose
*composed* curve keeps the promise, which is far less than that of T tests with epsilon / T each.

Each test has the false-alarm rate error / T. So if all laws are the ones tested, all of them are accepted except with
probability `error`, however the columns depend on each other; and the columns that are rejected are named.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from numpy.typing import ArrayLike

from shuffledp.core.domain import Categories
from shuffledp.core.errors import DataError, ParameterError
from shuffledp.core.privacy import Guarantee
from shuffledp.core.protocol import HONEST, ShuffleProtocol
from shuffledp.core.randomizer import WordSource
from shuffledp.inference.reduction import list_reductions
from shuffledp.inference.uniformity import (
    UniformityTest,
    check_error,
    check_question,
    choose_reduction,
    judge_cells,
    plan_vote,
)
from shuffledp.numerics.entropy import SecureWords
from shuffledp.protocols import bundle


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
