"""The binomial mechanism: calibration, the sampler on every tape, the published lemma."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from shuffledp import DataError, ParameterError, SeededWords, UnsupportedError
from shuffledp.accounting.noisy_count import BinomialCount
from shuffledp.mechanisms import binomial
from shuffledp.mechanisms.binomial import Calibration, _delta_paper


@pytest.mark.parametrize("n", [500, 10_000, 10**9])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.5, 1e-3), (3.0, 1e-10)])
def test_exact_calibration_is_certified_and_not_wasteful(n, epsilon, delta):
    mechanism = binomial.make(n=n, epsilon=epsilon, delta=delta)
    assert BinomialCount(n=n, gamma=mechanism.gamma).delta(epsilon) == mechanism.guarantee.delta
    assert delta * 0.9 < mechanism.guarantee.delta <= delta
    # Ripples of the true curve are a few percent of delta; 2 % less noise is not enough.
    assert BinomialCount(n=n, gamma=mechanism.gamma * Fraction(98, 100)).delta(epsilon) > delta


def test_many_coins_are_poisson():
    assert binomial.make(n=10**9, epsilon=1.0, delta=1e-6).variance() == pytest.approx(
        34.07, abs=0.01
    )


def test_paper_calibration_is_the_lemma():
    mechanism = binomial.make(n=100_000, epsilon=1.0, delta=1e-6, calibration="paper")
    alpha = math.tanh(0.5)
    x = alpha**2 * float(mechanism.gamma) * 100_000
    assert math.exp(-x / 8) + math.exp(-x / (8 + 2 * alpha)) == pytest.approx(1e-6, rel=1e-6)
    exact = BinomialCount(n=100_000, gamma=mechanism.gamma).delta(1.0)
    assert exact < 1e-6
    assert "lemma" in mechanism.guarantee.proof


def test_paper_lemma_condition_holds():
    """n alpha gamma >= 2; a delta below 1 needs more than that, so it never decides."""
    mechanism = binomial.make(n=10_000, epsilon=1.0, delta=0.999, calibration=Calibration.PAPER)
    assert float(10_000 * mechanism.gamma) >= 2 / math.tanh(0.5)
    assert mechanism.guarantee.delta <= 0.999
    assert _delta_paper(10_000, Fraction(1, 10_000), 1.0) == 1.0


@pytest.mark.parametrize("calibration", list(Calibration))
def test_too_few_coins(calibration):
    with pytest.raises(UnsupportedError, match="n=20 coins"):
        binomial.make(n=20, epsilon=0.5, delta=1e-9, calibration=calibration)


def test_the_paper_reaches_less_than_the_exact_calculation():
    binomial.make(n=1000, epsilon=0.5, delta=1e-6)
    with pytest.raises(UnsupportedError, match="paper"):
        binomial.make(n=1000, epsilon=0.5, delta=1e-6, calibration="paper")


@pytest.mark.parametrize("calibration", ["tight", None, 3])
def test_bad_calibration(calibration):
    with pytest.raises(ParameterError, match="calibration"):
        binomial.make(n=100, epsilon=1.0, delta=0.01, calibration=calibration)


class Tape:
    def __init__(self, words):
        self.all = np.array(words, dtype=np.uint8)

    def words(self, count, bits=64):
        assert count == len(self.all)
        return self.all


def test_sampler_follows_the_declared_law_on_every_tape():
    mechanism = binomial.make(n=3, epsilon=1.0, delta=0.5, word_bits=4)
    seen = Counter()
    for tape in itertools.product(range(16), repeat=3):
        answer = mechanism.release(1, Tape(tape))
        noise = Fraction(answer.value) - 1 + mechanism.noise.centre
        seen[noise] += 1
    declared = {Fraction(z): mechanism.noise.mass(z)[0] for z in range(4)}
    assert {z: Fraction(count, 16**3) for z, count in seen.items()} == declared


def test_accuracy_is_rounded_up():
    mechanism = binomial.make(n=1000, epsilon=1.0, delta=1e-4)
    low, high = mechanism.noise.range(Fraction(0.1))
    exact = max(high - mechanism.noise.centre, mechanism.noise.centre - low)
    assert exact <= Fraction(mechanism.accuracy(0.1)) < exact + Fraction(1, 10**12)


def test_few_bits_round_up():
    fine = binomial.make(n=1000, epsilon=1.0, delta=1e-4)
    coarse = binomial.make(n=1000, epsilon=1.0, delta=1e-4, word_bits=8)
    assert fine.gamma <= coarse.gamma < fine.gamma + Fraction(1, 256)
    assert coarse.guarantee.delta <= 1e-4


def test_all_chunks_are_counted():
    n = 3 * binomial._CHUNK + 17
    mechanism = binomial.make(n=n, epsilon=0.02, delta=1e-6)
    noise = mechanism.release(0, SeededWords(5)).value
    assert abs(noise) < 8 * math.sqrt(mechanism.variance())
    assert mechanism.noise.centre > 8 * math.sqrt(mechanism.variance())  # a lost chunk would show


@pytest.mark.parametrize("count", [-1, 1001, 1.5, [1, 2]])
def test_bad_counts(count):
    with pytest.raises(DataError):
        binomial.make(n=1000, epsilon=1.0, delta=1e-4).release(count, SeededWords(1))
