"""The hybrid mean: the paper's values, its parts, and where it is better than both of them."""

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from scipy import optimize

import shuffledp as sdp
from mean_support import law_moments, p_values
from shuffledp.core.randomizer import Messages
from shuffledp.protocols.duchi import Duchi
from shuffledp.protocols.hybrid import Hybrid, make_local
from support import ALPHA

EPSILONS = [0.62, 0.8, 1.0, 1.29, 2.0, 4.0, 8.0, 12.0]


def unit(steps, epsilon, word_bits=64):
    domain = sdp.Reals(lower=-1.0, upper=1.0, steps=steps)
    return Hybrid(domain=domain, epsilon0=epsilon, word_bits=word_bits)


def worst(part):
    return part.code_variance.range(part.domain.steps)[1]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_variance_is_the_papers_for_every_value(epsilon):
    hybrid = unit(100, epsilon)
    h = math.exp(epsilon / 2)
    one_bit, piecewise = ((h**2 + 1) / (h**2 - 1)) ** 2, (h + 3) / (3 * (h - 1) ** 2)
    ideal = (1 - 1 / h) * piecewise + one_bit / h
    for i in (0, 10, 50, 100):
        assert float(hybrid.code_variance(i)) / 50**2 == pytest.approx(ideal, rel=0.01)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_never_worse_than_its_parts_in_the_worst_case(epsilon):
    hybrid = unit(100, epsilon)
    assert worst(hybrid) <= min(worst(hybrid.duchi), worst(hybrid.piecewise)) * 1.001


def test_strictly_better_than_both_away_from_the_ends_of_the_range():
    hybrid = unit(100, 1.5)
    assert worst(hybrid) < 0.85 * min(worst(hybrid.duchi), worst(hybrid.piecewise))


def test_but_not_better_for_every_value():
    # The piecewise mean alone is better for data in the middle.
    hybrid = unit(100, 4.0)
    assert hybrid.piecewise.code_variance(50) < 0.7 * hybrid.code_variance(50)
    assert hybrid.duchi.code_variance(100) < 0.7 * hybrid.code_variance(100)


def test_crossover_is_where_the_parts_are_equally_good_in_the_middle():
    def advantage(epsilon):
        h = math.exp(epsilon / 2)
        return (h + 3) / (3 * (h - 1) ** 2) - ((h**2 + 1) / (h**2 - 1)) ** 2

    root = optimize.brentq(advantage, 0.1, 2.0)
    assert root == pytest.approx(0.61, abs=0.005)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 0.61])
def test_one_bit_alone_at_small_epsilon(epsilon):
    protocol = make_local(lower=-1.0, upper=1.0, steps=100, epsilon=epsilon)
    assert isinstance(protocol.randomizer, Duchi)
    assert protocol.name == "hybrid"
    assert protocol.cost.bits_per_message == 1
    with pytest.raises(sdp.ParameterError, match=r"epsilon0=.* must be > 0.61"):
        unit(100, epsilon)


def test_both_parts_above():
    protocol = make_local(lower=-1.0, upper=1.0, steps=100, epsilon=0.62)
    assert isinstance(protocol.randomizer, Hybrid)


def test_the_coin_tells_nothing():
    hybrid = unit(3, 2.0, word_bits=8)
    assert abs(float(hybrid.coin) - (1 - math.exp(-1))) < 2**-8
    M = hybrid.piecewise.alphabet
    for i in range(4):
        law = hybrid.pmf(i)
        assert sum(law[(y,)] for y in range(M)) == hybrid.coin


def test_both_parts_are_unbiased_at_full_word_size():
    hybrid = unit(20, 1.7)
    for i in (0, 7, 20):
        assert law_moments(hybrid, i) == (i, hybrid.code_variance(i))


def test_messages_of_the_two_parts_do_not_mix():
    hybrid = unit(20, 1.7)
    M = hybrid.piecewise.alphabet
    words = np.array([[0, 0], [0, 2**64 - 1], [2**64 - 1, 0], [2**64 - 1, 2**64 - 1]], np.uint64)
    sent = hybrid.encode(np.full(4, 5), words).payload
    assert sent[:2].max() < M
    assert sent[2:].tolist() == [M + 1, M]


@pytest.mark.parametrize(("steps", "word_bits"), [(2, 7), (3, 8), (100, 64)])
def test_noise_is_at_least_the_variance_of_any_data(steps, word_bits):
    hybrid = unit(steps, 2.0, word_bits)
    counts = np.zeros(hybrid.alphabet, dtype=np.int64)
    counts[[1, -1]] = 2, 1
    noise = hybrid.noise(counts)
    variances = [hybrid.code_variance(i) for i in range(steps + 1)]
    assert noise >= 3 * max(variances)
    if word_bits == 64:
        assert noise <= 3 * min(variances) * (1 + 1 / 500)


def test_errors():
    with pytest.raises(sdp.ParameterError, match=r"steps=32769 must be <= 32768"):
        make_local(lower=0.0, upper=1.0, steps=2**15 + 1, epsilon=1.0)
    with pytest.raises(sdp.ParameterError, match="word_bits"):
        unit(3, 1.0, word_bits=65)


def test_bias_and_error_are_as_declared():
    assert min(p_values(unit(10, 1.5), 9)) > ALPHA


def test_mutants_are_noticed():
    hybrid = unit(10, 1.5)
    M = hybrid.piecewise.alphabet

    def swapped_bits(inputs, words):
        payload = hybrid.encode(inputs, words).payload
        return Messages.one_each(np.where(payload >= M, 2 * M + 1 - payload, payload))

    bias, _ = p_values(hybrid, 9, encode=swapped_bits)
    assert bias < ALPHA
    _, mse = p_values(hybrid, 9, claimed=unit(10, 1.9).code_variance(9))
    assert mse < ALPHA
    # The same word for the coin and for the mechanism: a classical mistake.
    bias, mse = p_values(hybrid, 9, encode=lambda i, w: hybrid.encode(i, w[:, [0, 0]]))
    assert min(bias, mse) < ALPHA


def points(hybrid, i, j):
    """(mass, u, v) of every message, for the pair of codes (i, j): u and v are the two laws over w."""
    window, bit = hybrid.piecewise, hybrid.duchi
    words = 1 << hybrid.word_bits
    found = []
    for y in range(window.alphabet):
        ratios = [
            1 + Fraction(window.extra, window.low) * (0 <= y - code * window.stride < window.window)
            for code in (i, j)
        ]
        found.append((hybrid.coin * Fraction(window.low, words), *ratios))
    found.append((hybrid.coin * Fraction(window.rest, words), Fraction(1), Fraction(1)))
    for sent in (0, 1):
        ratios = [bit.pmf(code)[(sent,)] / bit.flip for code in (i, j)]
        found.append(((1 - hybrid.coin) * bit.flip, *ratios))
    return found


def excesses(atoms, E, places):
    return [sum(mass * max(u - E * v - t, 0) for mass, u, v in atoms) for t in places]


@pytest.mark.parametrize(("steps", "epsilon", "word_bits"), [(2, 1.0, 7), (3, 2.0, 8), (5, 1.5, 9)])
@pytest.mark.parametrize("E", [Fraction(1), Fraction(5, 4), Fraction(3)])
def test_the_two_ends_are_the_worst_pair(steps, epsilon, word_bits, E):
    """G of any pair is smaller in the convex order than G of the ends, and its atoms are the law."""
    hybrid = unit(steps, epsilon, word_bits)
    for worst in ((0, steps), (steps, 0)):
        ends = points(hybrid, *worst)
        for i, j in permutations(range(steps + 1), 2):
            atoms = points(hybrid, i, j)
            assert sum(mass * u for mass, u, _ in atoms) == 1
            assert sum(mass * v for mass, _, v in atoms) == 1
            places = {u - E * v for _, u, v in (*atoms, *ends)} | {Fraction(0)}
            pairs = zip(excesses(atoms, E, places), excesses(ends, E, places), strict=True)
            assert all(here <= there for here, there in pairs)
    # and the blanket that is stated is that of the ends
    (stated,) = hybrid.blankets()
    at = [sum(m for m, u, v in ends if (u > 1, v > 1) == kind) for kind in ((1, 0), (0, 1))]
    assert sum(stated.mass) == pytest.approx(float(sum(m for m, _, _ in ends)))
    assert stated.mass[0] + stated.mass[4] == pytest.approx(float(at[0]))
    assert stated.mass[1] + stated.mass[5] == pytest.approx(float(at[1]))


def test_neighbours_are_not_the_worst_pair():
    """The comparison above can fail: with the roles exchanged it does."""
    hybrid, E = unit(3, 2.0, 8), Fraction(5, 4)
    near, ends = points(hybrid, 1, 2), points(hybrid, 0, 3)
    places = {u - E * v for _, u, v in (*near, *ends)}
    pairs = zip(excesses(ends, E, places), excesses(near, E, places), strict=True)
    assert any(here > there for here, there in pairs)
