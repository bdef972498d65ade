"""Where draws, tables and searches end: the last question that is answered, the first that is refused, and dtypes."""

import math
from fractions import Fraction

import numpy as np
import pytest

from shuffledp.core.domain import Integers
from shuffledp.core.errors import ParameterError, ShuffledpError, UnsupportedError
from shuffledp.numerics import dealing, entropy, galois, leaves, masses, rounding, tabulated, tape
from shuffledp.numerics.entropy import SeededWords
from shuffledp.numerics.intervals import laplace

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)
DEGREES = (*range(2, 25), 32)


def geometric(rate):
    return entropy.draw_geometric(rate, 2, SeededWords(1))


INSIDE = {
    "one bit": lambda: SeededWords(1).words(3, 1),
    "64 bits": lambda: SeededWords(1).words(3, 64),
    "no words": lambda: SeededWords(1).words(0),
    "seed 0": lambda: SeededWords(0).words(1),
    "smallest rate": lambda: geometric(Fraction(1, 2**50)),
    "no draws": lambda: entropy.draw_geometric(HALF, 0, SeededWords(1)),
    "e^0": lambda: entropy.draw_bernoulli_exp(Fraction(0), 1, SeededWords(1)),
    "exponents of 0": lambda: entropy.Choice(exponents=(Fraction(0),)).draw(1, SeededWords(1)),
    "threshold of nothing": lambda: tape.bernoulli(np.arange(4, dtype=np.uint8), 0, 2),
    "threshold of everything": lambda: tape.bernoulli(np.arange(4, dtype=np.uint8), 4, 2),
    "as many values as words": lambda: tape.uniform(np.arange(4, dtype=np.uint8), 4, 2),
    "one value": lambda: tape.uniform(np.arange(4, dtype=np.uint8), 1, 2),
    "shares of 0": lambda: tape.table(np.arange(4, dtype=np.uint8), (0, 4, 0), 2),
    "one step": lambda: tabulated.CutLaplace(rate=1.0, most=1),
    "two bits": lambda: tabulated.CutLaplace(rate=1.0, most=1, word_bits=2),
    "most people": lambda: dealing.deal([2**61, 2**61], [[2]], 1, SeededWords(1)),
    "nobody": lambda: dealing.deal([0], [[2]], 1, SeededWords(1)),
    "one cell": lambda: dealing.deal_uniform(3, 1, 1, SeededWords(1)),
    "a cell for each word": lambda: dealing.deal_uniform(3, 2, 1, SeededWords(1)),
    "all words": lambda: dealing.binomials([3], [2], 1, SeededWords(1)),
    "largest e^x": lambda: rounding.exp_bounds(20_000),
    "most trials": lambda: masses.bound_mass(np.array([5.0]), 2**50, 0.5),
    "far below": lambda: masses.bound_normal_mills(np.array([-10.0])),
    "most cells": lambda: leaves.read_question(0, 2**22 - 1, None, "quantiles", None),
    "two cells": lambda: leaves.read_cells(0, 1, 2),
    "points at the ends": lambda: leaves.read_points("cdf", (0, 9), Integers(lower=0, upper=9)),
    "a range of one": lambda: leaves.read_points("range", (3, 3), Integers(lower=0, upper=9)),
    "level": lambda: laplace.DifferenceError(
        noise=laplace.Difference(r=1.0, p=0.5), shape=(), distance=0.0249
    ).interval(1.0, 0.95),
    "exact interval": lambda: laplace.SharedNoiseError(
        rate=Fraction(1, 2000), shape=HALF, step=1.0
    ).exact_interval(1.0, 0.95),
    "exact interval of one": lambda: laplace.SharedNoiseError(
        rate=Fraction(1, 10**6), shape=Fraction(1), step=1.0
    ).exact_interval(1.0, 0.95),
    "logarithmic": lambda: tabulated.logarithmic(Fraction(999, 1000), 16),
    "long": lambda: tabulated.negative_binomial(THIRD, Fraction(9_999, 10_000), 16),
}
OUTSIDE = {
    "no bits": (ParameterError, "bits=0", lambda: SeededWords(1).words(3, 0)),
    "65 bits": (ParameterError, "bits=65", lambda: SeededWords(1).words(3, 65)),
    "fewer than no words": (ParameterError, "count=-1", lambda: SeededWords(1).words(-1)),
    "negative seed": (ParameterError, "seed=-1", lambda: SeededWords(-1)),
    "label": (ParameterError, "label", lambda: entropy.RunKey().words(3)),
    "smaller rate": (ParameterError, r"2\^-50", lambda: geometric(Fraction(1, 2**50 + 1))),
    "rate of a float": (ParameterError, "must be a Fraction", lambda: geometric(0.5)),
    "negative exponent": (
        ParameterError,
        "x=",
        lambda: entropy.draw_bernoulli_exp(Fraction(-1), 1, SeededWords(1)),
    ),
    "no exponents": (ParameterError, "exponents", lambda: entropy.Choice(exponents=())),
    "negative exponents": (
        ParameterError,
        "exponents",
        lambda: entropy.Choice(exponents=(HALF, -HALF)),
    ),
    "threshold below 0": (
        ParameterError,
        "threshold=-1",
        lambda: tape.bernoulli(np.arange(4, dtype=np.uint8), -1, 2),
    ),
    "threshold above all": (
        ParameterError,
        "threshold=5",
        lambda: tape.bernoulli(np.arange(4, dtype=np.uint8), 5, 2),
    ),
    "more values than words": (
        ParameterError,
        "k=5",
        lambda: tape.uniform(np.arange(4, dtype=np.uint8), 5, 2),
    ),
    "no values": (ParameterError, "k=0", lambda: tape.uniform_share(0, 2)),
    "negative shares": (ParameterError, "shares", lambda: tape.table_law((5, -1), 2)),
    "shares below 1": (ParameterError, "shares", lambda: tape.table_law((1, 2), 2)),
    "no steps": (ParameterError, "most=0", lambda: tabulated.CutLaplace(rate=1.0, most=0)),
    "too many steps": (
        ParameterError,
        "most=65537",
        lambda: tabulated.CutLaplace(rate=1.0, most=2**16 + 1),
    ),
    "words of 65 bits": (
        ParameterError,
        "word_bits=65",
        lambda: tabulated.CutLaplace(rate=1.0, most=2, word_bits=65),
    ),
    "too few words": (
        ParameterError,
        "word_bits=1 must be more",
        lambda: tabulated.CutLaplace(rate=0.5, most=2, word_bits=1),
    ),
    "too many people": (
        ParameterError,
        "2.62",
        lambda: dealing.deal([2**61, 2**61 + 1], [[2]], 1, SeededWords(1)),
    ),
    "fewer than nobody": (
        ParameterError,
        ">= 0",
        lambda: dealing.deal([-1], [[2]], 1, SeededWords(1)),
    ),
    "half a person": (
        ParameterError,
        "whole numbers",
        lambda: dealing.deal([0.5], [[2]], 1, SeededWords(1)),
    ),
    "people in rows": (
        ParameterError,
        "one row",
        lambda: dealing.deal([[1]], [[2]], 1, SeededWords(1)),
    ),
    "no cells": (ParameterError, "cells=0", lambda: dealing.deal_uniform(3, 0, 1, SeededWords(1))),
    "too many cells": (
        ParameterError,
        "cells=3",
        lambda: dealing.deal_uniform(3, 3, 1, SeededWords(1)),
    ),
    "dealt by no bits": (
        ParameterError,
        "bits=0",
        lambda: dealing.deal([1], [[1]], 0, SeededWords(1)),
    ),
    "dealt by 65 bits": (
        ParameterError,
        "bits=65",
        lambda: dealing.deal([1], [[2**65]], 65, SeededWords(1)),
    ),
    "not all words": (
        ParameterError,
        "sum to 2.1",
        lambda: dealing.deal([1], [[1]], 1, SeededWords(1)),
    ),
    "negative cells": (
        ParameterError,
        "-1",
        lambda: dealing.deal([1], [[3, -1]], 1, SeededWords(1)),
    ),
    "rows of other codes": (
        ParameterError,
        "1 or 3 rows",
        lambda: dealing.deal([1, 1, 1], [[2], [2]], 1, SeededWords(1)),
    ),
    "rows of other lengths": (
        ParameterError,
        "equal length",
        lambda: dealing.deal([1, 1], [[2], [1, 1]], 1, SeededWords(1)),
    ),
    "thresholds": (
        ParameterError,
        "2.1 per count",
        lambda: dealing.binomials([3], [3], 1, SeededWords(1)),
    ),
    "negative thresholds": (
        ParameterError,
        "2.1 per count",
        lambda: dealing.binomials([3], [-1], 1, SeededWords(1)),
    ),
    "too few thresholds": (
        ParameterError,
        "per count",
        lambda: dealing.binomials([3, 3], [1], 1, SeededWords(1)),
    ),
    "larger e^x": (
        OverflowError,
        "too large",
        lambda: rounding.exp_bounds(Fraction(20_000_001, 1000)),
    ),
    "more trials": (
        UnsupportedError,
        "no certified tails",
        lambda: masses.bound_mass(np.array([5.0]), 2**50 + 1, 0.5),
    ),
    "farther below": (
        UnsupportedError,
        "not certified",
        lambda: masses.bound_normal_mills(np.array([-10.001, 1.0])),
    ),
    "degree": (ParameterError, "r=25 must be one of 2, 3, ", lambda: galois.check_degree(25)),
    "more cells": (
        UnsupportedError,
        "4,194,305 cells are too many: trees have up to 4,194,304",
        lambda: leaves.read_question(0, 2**22, None, "quantiles", None),
    ),
    "one cell of reals": (ParameterError, "steps=1", lambda: leaves.read_cells(0, 1, 1)),
    "task": (
        ParameterError,
        "must be one of quantiles",
        lambda: leaves.read_points("mode", None, Integers(lower=0, upper=9)),
    ),
    "no points": (
        ParameterError,
        "at least one",
        lambda: leaves.read_points("cdf", (), Integers(lower=0, upper=9)),
    ),
    **{
        f"{task} at {at}": (
            ParameterError,
            "at=",
            lambda task=task, at=at: leaves.read_points(task, at, Integers(lower=0, upper=9)),
        )
        for task, at in (
            ("quantiles", (0.0,)),
            ("quantiles", (1.0,)),
            ("cdf", (-0.1,)),
            ("cdf", (3, 9.1)),
            ("range", (3,)),
            ("range", (3, 4, 5)),
            ("range", (4, 3)),
            ("range", (-1, 3)),
            ("range", None),
        )
    },
    "levels": (
        UnsupportedError,
        "too close to 1",
        lambda: laplace.DifferenceError(
            noise=laplace.Difference(r=1.0, p=0.5), shape=(), distance=0.025001
        ).interval(1.0, 0.95),
    ),
    "no exact interval": (
        UnsupportedError,
        "use interval",
        lambda: laplace.SharedNoiseError(
            rate=Fraction(1, 2048), shape=HALF, step=1.0
        ).exact_interval(1.0, 0.95),
    ),
    "no exact interval of rounded values": (
        UnsupportedError,
        "use interval",
        lambda: laplace.SharedNoiseError(
            rate=Fraction(1, 10**6), shape=Fraction(1), step=1.0, rounded=1
        ).exact_interval(1.0, 0.95),
    ),
    "too much noise of one user": (
        UnsupportedError,
        "too few users",
        lambda: tabulated.poisson(Fraction(10**6), 16),
    ),
    "too long": (
        UnsupportedError,
        "too long for a table",
        lambda: tabulated.logarithmic(1 - Fraction(1, 10**9), 64),
    ),
    "too long a share": (
        UnsupportedError,
        "too long for a table",
        lambda: tabulated.negative_binomial(Fraction(1, 10**9), 1 - Fraction(1, 10**9), 64),
    ),
}


@pytest.mark.parametrize("name", INSIDE)
def test_answered(name):
    INSIDE[name]()


@pytest.mark.parametrize("name", OUTSIDE)
def test_refused(name):
    kind, message, ask = OUTSIDE[name]
    assert issubclass(kind, ShuffledpError | OverflowError)
    with pytest.raises(kind, match=message):
        ask()


def test_noise_that_is_too_wide_for_an_exact_interval(monkeypatch):
    noise = laplace.Difference(r=1.0, p=0.99)
    monkeypatch.setattr(laplace, "_LONGEST", 4096)
    assert noise.radius(0.05) == 298
    monkeypatch.setattr(laplace, "_LONGEST", 2047)
    with pytest.raises(UnsupportedError, match="too wide for an exact interval"):
        noise.radius(0.05)


COUNTS, WORDS = np.dtype(np.int64), np.dtype(np.uint64)
TABLE = tabulated.poisson(Fraction(3), 16)
KINDS = {
    "geometric": (COUNTS, lambda: entropy.draw_geometric(HALF, 3, SeededWords(1))),
    "laplace": (COUNTS, lambda: entropy.draw_discrete_laplace(HALF, 3, SeededWords(1))),
    "bernoulli": (
        np.dtype(bool),
        lambda: entropy.draw_bernoulli(entropy.ExpMinus(HALF), 3, SeededWords(1)),
    ),
    "choice": (COUNTS, lambda: entropy.Choice(exponents=(HALF, HALF)).draw(3, SeededWords(1))),
    "cut laplace": (
        COUNTS,
        lambda: tabulated.CutLaplace(rate=0.5, most=9).draw(3, SeededWords(1)),
    ),
    "two words": (
        COUNTS,
        lambda: tape.TwoWordGeometric(rate=1.0, bits=64).draw(np.ones((3, 2), dtype=np.uint64)),
    ),
    "values": (COUNTS, lambda: TABLE.draw(SeededWords(1).words(3, 16).reshape(3, 1))[1]),
    "dealt values": (COUNTS, lambda: TABLE.deal(9, SeededWords(1))),
    "one word": (
        COUNTS,
        lambda: tabulated.Tabulated(
            bits=1, threshold=1, first=1, shares=(2,), size=HALF, distance=0.0
        ).draw(np.zeros((3, 1), dtype=np.uint8))[1],
    ),
    "events": (
        COUNTS,
        lambda: tabulated.Events.of(cells=3, share=HALF, p=0.5, bits=4, most=2).deal(
            9, SeededWords(1)
        ),
    ),
    "cells of events": (
        COUNTS,
        lambda: tabulated.Events.of(cells=3, share=HALF, p=0.5, bits=4, most=2).draw(
            np.zeros((3, 6), dtype=np.uint8)
        )[1],
    ),
    "binomials": (COUNTS, lambda: dealing.binomials([3], [1], 1, SeededWords(1))),
    "dealt": (COUNTS, lambda: dealing.deal([9], [[1, 1]], 1, SeededWords(1)).own),
    "dealt evenly": (COUNTS, lambda: dealing.deal_uniform(9, 2, 3, SeededWords(1))[0]),
    "words": (WORDS, lambda: SeededWords(1).words(3)),
    "bytes": (np.dtype(np.uint8), lambda: SeededWords(1).words(3, 8)),
    "9 bits": (np.dtype(np.uint16), lambda: SeededWords(1).words(3, 9)),
    "17 bits": (np.dtype(np.uint32), lambda: SeededWords(1).words(3, 17)),
    "33 bits": (WORDS, lambda: SeededWords(1).words(3, 33)),
    "multiplied": (
        np.dtype(np.uint8),
        lambda: galois.multiply(np.ones(3, dtype=np.uint8), np.arange(3), 4, 4),
    ),
    "linear": (
        np.dtype(np.uint8),
        lambda: galois.apply_linear(np.ones(3, dtype=np.uint8), np.arange(3)),
    ),
    "cubics": (
        np.dtype(np.uint8),
        lambda: galois.cubics(((1, 2, 3, 4),), np.arange(3), 4, 4),
    ),
    "solutions": (
        COUNTS,
        lambda: next(galois.solutions([np.array([1])], np.array([1]), 1)),
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_what_is_drawn_has_its_dtype(name):
    dtype, draw = KINDS[name]
    assert draw().dtype == dtype


@pytest.mark.parametrize("r", DEGREES)
def test_every_field_has_its_polynomial(r):
    """z^(2^r) = z, and no smaller power of two of z divides r: so z^r + ... is irreducible."""
    word = np.uint64 if r > 16 else np.uint32
    z = np.array([2], dtype=word)
    squares = [z]
    for _ in range(r):
        squares.append(galois.multiply(squares[-1], squares[-1].astype(np.int64), 1 << r, r))
    assert squares[r][0] == 2
    assert all(squares[k][0] != 2 for k in range(1, r) if r % k == 0)
    assert galois.double(np.array([1 << r - 1], dtype=word), r)[0] == galois.POLYNOMIALS[r] - (
        1 << r
    )


@pytest.mark.parametrize("bound", [masses.bound_mass, masses.bound_at_most])
@pytest.mark.parametrize("p", [THIRD, Fraction(2, 3), Fraction(1, 7 * 10**6)])
def test_a_fraction_is_between_its_floats(bound, p):
    """The enclosure is that of both floats together, not of one of them."""
    N, k = 10**12, np.floor(10**12 * float(p) + np.array([-3e6, -10.0, 0.0, 10.0, 3e6]).clip(-9e4))
    small = min(p, 1 - p)
    pairs = [(end, 1 - end) for end in (rounding.float_below(small), rounding.float_above(small))]
    inner = {
        masses.bound_mass: masses._bound_mass,
        masses.bound_at_most: masses._bound_at_most,
    }[bound]
    ends = [inner(k, np.full(5, float(N)), *(pair if 2 * p <= 1 else pair[::-1])) for pair in pairs]
    low, high = bound(k, N, p)
    assert (low == np.minimum(ends[0][0], ends[1][0])).all()
    most = np.maximum(ends[0][1], ends[1][1])
    assert (high >= most).all()
    assert (high <= most * (1 + 6 * rounding.UNIT)).all()
    assert math.isfinite(high.sum())
