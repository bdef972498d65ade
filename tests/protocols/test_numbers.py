"""The numbers that calibrations, accountants and errors of protocols lead to stay as they are (see number_table.py).

figures.txt has what whole protocols state and answer; here are the branches that its examples do not meet.
"""

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from number_table import CLOSE, ROUGH, NumberTable
from shuffledp.core.analyzer import Tally
from shuffledp.core.domain import Cells, Integers, Reals
from shuffledp.core.errors import ShuffledpError
from shuffledp.core.protocol import Crowd, Look, Promise
from shuffledp.core.randomizer import forget, randomize
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
    spec,
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
from shuffledp.protocols.shared import assembly, frequency, joint, sums
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
    dummies_histogram,
    fake_users,
    frequency,
    gaussian,
    hadamard,
    hashed_tree,
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


def look_for(people, codes, wanted, *, bits, others=None, **given):
    """Everything that is said of words: of those that are found, and of some that are chosen before looking."""
    made = make("hashed_prefixes", n=people, bits=bits, seed=1, honest=1.0, **given)
    device, analyzer = made.randomizer, made.analyzer
    shares = np.array([people // 2 ** (place + 1) for place in range(len(codes))])
    rest = people - int(shares.sum())
    spread = np.arange(rest, dtype=np.uint64) % (others or rest) * 7919 % (1 << bits)
    held = device.deal_words(np.array(codes, dtype=np.uint64), shares, SeededWords(1))
    held = held + device.deal_words(spread, np.ones(rest, dtype=np.int64), SeededWords(2))
    tally = Tally(counts=held + device.deal_noise(people, SeededWords(3)), users=people)
    found, counted = analyzer.find(tally), analyzer.count(tally, wanted)
    said = analyzer.estimate(tally)
    return [
        [found.codes, found.values, found.seen, found.threshold],
        [counted.value, counted.stderr],
        [said.value, said.stderr, said.interval(0.9), said.limits],
        said.error.sight.find_count(0.5),
    ]


def look_locally(codes, wanted, **given):
    """The same without a shuffler: half of the people have the first word, a quarter the second one, ..."""
    made = make("local_prefixes", seed=1, **given)
    device, analyzer = made.randomizer, made.analyzer
    people = np.concatenate([np.repeat(code, 1500 >> place) for place, code in enumerate(codes)])
    tally = analyzer.tally(forget(randomize(device, people, SeededWords(1))))
    said, counted = analyzer.estimate(tally), analyzer.count(tally, wanted)
    return [
        [said.value, said.stderr, said.interval(0.9), said.limits, said.error.sight.find_count()],
        [counted.value, counted.stderr, counted.interval(0.9)],
        [float(label) for label in said.labels],
        [device.lengths, device.rows, device.buckets],
    ]


def hash_bins(people, **given):
    """Everything that is said of many categories, whose noise comes from the servers."""
    made = server_hashing.make_server_hashing(**given)
    device, analyzer = made.randomizer, made.analyzer
    codes = np.arange(people, dtype=np.int64) ** 2 % device.k
    sent = randomize(device, codes, SeededWords(1))
    found = analyzer.estimate(analyzer.tally(forget(sent)))
    inputs = np.bincount(codes, minlength=device.k)
    return [
        made.guarantee,
        [device.p, device.q, device.truthful, device.epsilon0, device.words_per_input, device.cost],
        [analyzer.gap, analyzer.added, analyzer.influence(), analyzer.variance(inputs)],
        [found.value, found.stderr, found.interval(0.9), found.limits],
        server_hashing.find_added(made),
    ]


def hints(name):
    """What the planner is told of a protocol."""
    told = spec(name).hints
    return [
        list(Look).index(told.look),
        told.any_size,
        told.levels,
        told.frugal is not None,
        [number for _, number in told.wins],
        told.least and told.least(Crowd(n=1000, honest=1.0), Promise(epsilon=1.0, delta=1e-6), k=5),
    ]


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
        "hash_bins": hash_bins,
        "hints": hints,
        "is_refused": is_refused,
        "look_for": look_for,
        "look_locally": look_locally,
        "make": make,
        "part": part,
        "personal": personal,
        "prefixes": prefixes,
        "promise": promise,
        "shares": shares,
    },
)


ROUGHLY = ('make("count_min"', "[zero_sum_flooding", "budgets(")


@pytest.mark.parametrize("expression", TABLE.read())
def test_number(expression):
    TABLE.check(expression, ROUGH if expression.startswith(ROUGHLY) else CLOSE)


if __name__ == "__main__":
    TABLE.write()
