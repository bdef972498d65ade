"""The numbers of bounds, intervals, tables and seeded draws stay as they are (see number_table.py)."""

import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from number_table import CLOSE, ROUGH, NumberTable
from shuffledp.core.analyzer import Estimate
from shuffledp.core.domain import Cells, Integers
from shuffledp.numerics import (
    dealing,
    entropy,
    galois,
    leaves,
    masses,
    rounding,
    tabulated,
    tape,
    tree_noise,
    trees,
)
from shuffledp.numerics.intervals import binomial, counts, laplace, sample

MODULES = (
    binomial,
    counts,
    dealing,
    entropy,
    galois,
    laplace,
    leaves,
    masses,
    rounding,
    sample,
    tabulated,
    tape,
    tree_noise,
    trees,
)


def make_leaves(noise, domain, shape, n=300, fall=0.0):
    """Leaves that fall from the first on, with noise: fewer than none in some."""
    place = np.arange(domain.size)
    share = np.exp(-fall * (place - place.mean()))
    values = n * share / share.sum() + 9.0 * np.sin(place * 1.7) - 0.3 * (place % 5)
    values[-1] += n - values.sum()
    return leaves.Leaves(domain=domain, shape=shape, values=values, n=n, noise=noise)


def ask(task, at, domain, noise, shape, level=0.9, n=300, fall=0.0):
    """Everything that is said of one question."""
    fitted, question = make_leaves(noise, domain, shape, n, fall), leaves.ask_leaves(task, at)
    answer = question.answer(fitted)
    return [
        answer.value,
        answer.limits,
        question.stderr(fitted),
        question.variance(fitted),
        question.relate(domain, 300),
        tuple(question.interval(fitted, level)),
    ]


def count(excess, find, **given):
    """What a search finds, and how often it looks."""
    looked = []

    def look(x):
        looked.append(x)
        return excess(x)

    return find(look, **given), len(looked)


def pair(value=1.0):
    """The weights of two nodes, one up and one down."""
    return trees.LevelWeights(
        values=np.array([[value, -value], [0.5, -0.25]]), counts=np.array([[1.0, 1.0], [1.0, 2.0]])
    )


SERVERS = tabulated.CutLaplaceSum(noise=tabulated.CutLaplace(rate=0.5, most=36), times=2)
ADDED = tree_noise.AddedNoise(noise=SERVERS)


def estimate(value, rate=Fraction(1, 2)):
    """A sum with Laplace noise."""
    law = laplace.DiscreteLaplaceError(noise=laplace.DiscreteLaplace(rate=rate), shape=())
    return Estimate(value=value, error=law, limits=(0.0, 1e3))


def bounded(value):
    """A sum whose noise is only bounded."""
    law = counts.BoundedError(
        stderr=1.0, most=(1.0, 0.0, 0.0), least=1.0, reach=0.001, limits=(-100.0, 100.0)
    )
    return Estimate(value=value, error=law, limits=(-100.0, 100.0))


def divide(top, rows, half, *ends):
    return sample.RatioError(top=top, rows=rows, half=half, ends=ends)


NAMES = {
    "LEVELS": tree_noise.IndependentLevels(
        levels=(tree_noise.GeometricNoise(rate=1.0), tree_noise.GeometricNoise(rate=0.7))
    ),
    "ONE_LEVEL": tree_noise.BinNoise(n=300, cells=10, p=0.75, q=0.25, added=ADDED),
    "ONE_EACH": tree_noise.OneLevelEach(n=300, shares=(0.25, 0.75), gain=0.8),
    "ADDED": ADDED,
    "PAIRED": tree_noise.AddedNoise(noise=SERVERS, paired=True),
    "BOUNDED": tree_noise.BoundedNoise(variance=2.0, most=1.5),
    "SERVERS": SERVERS,
    "LAPLACE": laplace.DiscreteLaplaceError(
        noise=laplace.DiscreteLaplace(rate=Fraction(1, 10)), shape=(2,)
    ),
    "RATIOS": [
        divide(estimate(-20.0), estimate(100.0), 1.0, 0.0, 10.0),
        divide(estimate(-20.0), estimate(100.0), 2.0, 0.0, 10.0),
        divide(estimate(90.0), estimate(100.0, Fraction(1, 3)), 1.0, -3.0, 10.0),
        divide(estimate(0.5), estimate(0.5, Fraction(1, 3)), 1.0, -3.0, 10.0),
        divide(bounded(20.0), bounded(60.0), 2.0, 0.0, 10.0),
        divide(bounded(-20.0), bounded(60.0), 0.5, 0.0, 10.0),
        divide(bounded(1.0), bounded(2.0), 1.0, 0.0, 10.0),
    ],
    "make_noise": lambda *levels: tree_noise.IndependentLevels(levels=levels),
    "words": lambda n, bits=64: entropy.SeededWords(1).words(n, bits),
}
TABLE = NumberTable(
    path=Path(__file__).with_name("numbers.json"),
    names={module.__name__.rpartition(".")[2]: module for module in MODULES}
    | NAMES
    | {
        "Cells": Cells,
        "D": Decimal,
        "F": Fraction,
        "Integers": Integers,
        "Seeded": entropy.SeededWords,
        "arange": np.arange,
        "array": np.array,
        "ask": ask,
        "count": count,
        "exp": math.exp,
        "inf": math.inf,
        "make_leaves": make_leaves,
        "pair": pair,
    },
)


ROUGHLY = ("make_noise(", "ask(", "PAIRED", "ONE_LEVEL", "ONE_EACH", "ADDED", "[counts.")


@pytest.mark.parametrize("expression", TABLE.read())
def test_number(expression):
    TABLE.check(expression, ROUGH if expression.startswith(ROUGHLY) else CLOSE)


if __name__ == "__main__":
    TABLE.write()
