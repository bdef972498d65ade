"""Hadamard blanket: exact overlaps, decoding, figures, accuracy."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from scipy.linalg import hadamard

import shuffledp as sdp
from mse import is_the_variance, resolution, squared_errors
from shuffledp.core.randomizer import Shuffled
from shuffledp.protocols import hashed_histogram
from shuffledp.protocols.hadamard_blanket import HadamardBlanket, make
from support import enumerated_law


@pytest.mark.parametrize(("k", "tau"), [(2, 1), (3, 2), (7, 2), (5, 3)])
def test_sets_have_exact_sizes_and_overlaps(k, tau):
    blanket = HadamardBlanket(k=k, tau=tau, dummies=1)
    messages = list(product(range(1 << blanket.column_bits), repeat=tau))
    supports = [blanket.find_supported(message) for message in messages]
    for x in range(k):
        assert Fraction(sum(x in one for one in supports), len(messages)) == blanket.q
    for x, y in combinations(range(k), 2):
        assert Fraction(sum({x, y} <= one for one in supports), len(messages)) == blanket.q**2


def test_support_is_that_of_the_matrix():
    blanket = HadamardBlanket(k=7, tau=1, dummies=1)
    matrix = hadamard(8)
    for y in range(8):
        assert blanket.find_supported((y,)) == set(np.flatnonzero(matrix[1:, y] == 1).tolist())


def test_law_of_two_columns():
    blanket = HadamardBlanket(k=3, tau=2, dummies=2, word_bits=3)
    for x in range(3):
        assert enumerated_law(blanket, x) == blanket.pmf(x)


@pytest.mark.parametrize(("k", "tau"), [(2, 1), (3, 4), (100, 3), (1000, 12)])
def test_equations_and_trial_agree(k, tau):
    blanket = HadamardBlanket(k=k, tau=tau, dummies=3 << 30)
    sent = sdp.randomize(blanket, np.arange(400) % k, sdp.SeededWords(1)).payload
    sent = np.concatenate([sent, np.zeros((1, tau), dtype=sent.dtype)])
    wanted = np.zeros(k, dtype=int)
    for message in sent.tolist():
        wanted[list(blanket.find_supported(tuple(message)))] += 1
    found = blanket.tally(Shuffled(payload=sent, users=400))
    np.testing.assert_array_equal(found.counts, wanted)


def test_dominated_by_hashing():
    """One message in 2^14 against one in 23 000, and five times as many bits."""
    arguments = {"n": 10**6, "k": 10**6, "epsilon": 1.0, "delta": 1e-6, "honest": 1.0}
    mine, other = make(**arguments), hashed_histogram.make(**arguments)
    counts = np.zeros(10**6, dtype=np.int64)
    counts[0] = 10**6
    errors = [np.sqrt(p.analyzer.variance(counts).max()) for p in (mine, other)]
    assert errors == pytest.approx([10.18, 9.25], abs=0.01)
    assert mine.cost.messages_mean == pytest.approx(1.70, abs=0.005)
    assert mine.cost.bits_per_message > 5 * other.cost.bits_per_message


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 2.0])
def test_published_number_of_dummies(epsilon):
    """36 ln(1/delta) / epsilon^2 dummies at 2^tau = n; the exact number is 6 to 19 times smaller."""
    n, delta = 2**20, 1e-6
    published = 36 * np.log(1 / delta) / epsilon**2
    p = make(n=n, k=4, epsilon=epsilon, delta=delta, honest=1.0, messages=1 + published / 5)
    noise = float(p.randomizer.rho) * n * float(p.randomizer.q)
    assert 6 < published / noise < 19


def test_variance_is_the_declared_one():
    p = make(n=3_000, k=60, epsilon=1.0, delta=1e-4, messages=2.6)
    codes = np.random.default_rng(1).integers(0, 30, 3_000)
    terms = squared_errors(p.randomizer, p, codes, runs=40, seed=5)
    assert is_the_variance(terms)
    assert resolution(terms) < 0.25
    # A mutant that sends half of the dummies is found out.
    fewer = replace(p.randomizer, dummies=p.randomizer.dummies // 2)
    assert not is_the_variance(squared_errors(fewer, p, codes, runs=40, seed=5))


def test_intervals_cover():
    p = make(n=20_000, k=60_000, epsilon=1.0, delta=1e-6, honest=1.0)
    values = np.random.default_rng(2).integers(0, 2_000, 20_000)
    truth = np.bincount(values, minlength=60_000)
    covered = []
    for seed in range(3):
        low, high = sdp.run(p, values, sdp.SeededWords(seed)).interval(0.95)
        covered.append(np.mean((low <= truth) & (truth <= high)))
    # Nearly all counts are 0, which an interval can miss on one side only.
    assert 0.97 < np.mean(covered) < 0.99


@pytest.mark.parametrize("payload", [[[4]], [[-1]], [[0, 0]], [1, 2], [[0.0]]], ids=str)
def test_foreign_messages(payload):
    blanket = HadamardBlanket(k=3, tau=1, dummies=1)
    with pytest.raises(sdp.DataError, match="message"):
        blanket.tally(Shuffled(payload=np.array(payload), users=1))


@pytest.mark.parametrize(
    ("name", "value"), [("k", 1), ("k", 2**28), ("word_bits", 1), ("word_bits", 9), ("messages", 1)]
)
def test_bad_parameters(name, value):
    arguments = {"n": 1000, "k": 1000, "epsilon": 1.0, "delta": 1e-3, name: value}
    with pytest.raises(sdp.ParameterError, match=name):
        make(**arguments)
