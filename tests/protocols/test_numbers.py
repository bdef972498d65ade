"""The numbers that calibrations, accountants and errors of protocols lead to stay as they are (see number_table.py).

figures.txt has what whole protocols state and answer; here are the branches that its examples do not meet.
"""

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from number_table import NumberTable
from shuffledp.core.analyzer import Tally
from shuffledp.core.domain import Cells, Integers, Reals
from shuffledp.core.errors import ShuffledpError
from shuffledp.core.protocol import Crowd, Promise
from shuffledp.numerics.entropy import SeededWords
from shuffledp.protocols import (
    bundle,
    correlated_count,
    correlated_histogram,
    count_min,
    duchi,
    dummies_histogram,
    fake_users,
    gaussian,
    hadamard,
    hashed_tree,
    krr,
    levels,
    local_hashing,
    local_prefixes,
    local_tree,
    make,
    one_question,
    piecewise,
    pure_count,
    rounded_sum,
    rr,
    server_hashing,
    server_noise,
    several_values,
    sparse_histogram,
    split_and_mix,
    subset_selection,
    tree,
    unary_sum,
    zero_sum_flooding,
    zsum,
    zsum_histogram,
)
from shuffledp.protocols import hashed_prefixes as prefixes
from shuffledp.protocols.hashed_prefixes import decoder, design
from shuffledp.protocols.shared import assembly, dummied, frequency, hashing, joint, sums
from shuffledp.protocols.split_and_mix import noise as shares

MODULES = (
    assembly,
    bundle,
    correlated_count,
    correlated_histogram,
    count_min,
    decoder,
    design,
    duchi,
    dummied,
    dummies_histogram,
    fake_users,
    frequency,
    gaussian,
    hadamard,
    hashed_tree,
    hashing,
    joint,
    krr,
    levels,
    local_hashing,
    local_prefixes,
    local_tree,
    one_question,
    piecewise,
    prefixes,
    pure_count,
    rounded_sum,
    rr,
    server_hashing,
    server_noise,
    several_values,
    shares,
    sparse_histogram,
    split_and_mix,
    subset_selection,
    sums,
    tree,
    unary_sum,
    zero_sum_flooding,
    zsum,
    zsum_histogram,
)


CLOSE = 1e-8
"""Relative: other versions of SciPy round differently where a search begins."""


def promise(epsilon, delta):
    return Promise(epsilon=epsilon, delta=delta)


def crowd(n, honest=1.0):
    return Crowd(n=n, honest=honest)


def cut(domain, sigma, bits=64):
    """Gaussian noise as a device."""
    return gaussian.GaussianNoise(domain=domain, sigma=sigma, word_bits=bits)


def personal(**people):
    """Levels of k-ary randomized response: k, and people by level."""
    k = people.pop("k")
    return levels.Levels(k=k, people={float(name[1:]) / 10: n for name, n in people.items()})


def part(name, **given):
    """A part of a survey with several questions."""
    own = {key: given.pop(key) for key in ("weight", "epsilon", "delta") if key in given}
    return joint.PartSpec(name=name, protocol=name, parameters=given, **own)


def budgets(found):
    return [[each.epsilon, each.delta] for each, _ in found]


def counts_of(protocol, step=3):
    """People of all codes, not evenly."""
    size = protocol.randomizer.domain.size
    return (np.arange(size, dtype=np.int64) * step) % 11 + 2


def deal(protocol, seed=1):
    return protocol.offers.deal(counts_of(protocol), SeededWords(seed))


def answer(protocol, seed=1, level=0.9):
    """An answer with its errors."""
    found = protocol.analyzer.estimate(deal(protocol, seed))
    return [found.value, found.stderr, found.interval(level), found.limits]


def is_refused(make):
    try:
        make()
    except ShuffledpError:
        return 1
    return 0


TABLE = NumberTable(
    path=Path(__file__).with_name("numbers.json"),
    names={module.__name__.rpartition(".")[2]: module for module in MODULES}
    | {
        "Cells": Cells,
        "F": Fraction,
        "Integers": Integers,
        "Reals": Reals,
        "Seeded": SeededWords,
        "Tally": Tally,
        "answer": answer,
        "arange": np.arange,
        "array": np.array,
        "budgets": budgets,
        "counts_of": counts_of,
        "crowd": crowd,
        "cut": cut,
        "deal": deal,
        "inf": math.inf,
        "is_refused": is_refused,
        "make": make,
        "part": part,
        "personal": personal,
        "prefixes": prefixes,
        "promise": promise,
        "shares": shares,
    },
)


@pytest.mark.parametrize("expression", TABLE.read())
def test_number(expression):
    TABLE.check(expression, CLOSE)


if __name__ == "__main__":
    TABLE.write()
