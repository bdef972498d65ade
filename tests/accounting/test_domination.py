"""The stronger pair dominates every epsilon0-local randomizer: thousands of exact comparisons."""

import math
from fractions import Fraction

import numpy as np
import pytest

from accounting.channels import RATIOS, extremal_channel, krr, random_channel
from shuffledp.accounting.clones import Clones, clones_2021, clones_2023
from shuffledp.accounting.exact import data_set_delta, local_ratio, shuffled_delta
from support import first

F = Fraction


def questions(p: Fraction, rng: np.random.Generator) -> Fraction:
    """Some e^epsilon between 1 and p."""
    return 1 + (p - 1) * F(int(rng.integers(0, 40)), 40)


def excess(laws, n: int, E: Fraction, make=clones_2023) -> float:
    """The exact delta over the bound: at most 1, if the bound is one."""
    p = local_ratio(laws)
    if p == 1 or p <= E:
        return 0.0
    # rounding epsilon0 up and epsilon down is on the bound's side
    bound = make(epsilon0=math.nextafter(math.log(p), 99), n=n).delta(max(0.0, math.log(E)))
    return float(shuffled_delta(laws, n, E)) / bound


def sweep(seed: int, channels: int) -> float:
    rng = np.random.default_rng(seed)
    worst = 0.0
    for index in range(channels):
        p = RATIOS[index % len(RATIOS)]
        laws = random_channel(rng, p) if index % 3 else extremal_channel(rng, p)
        n = int(rng.integers(2, 6 if len(laws) < 4 else 5))
        worst = max(worst, excess(laws, n, questions(p, rng)))
    return worst


@pytest.mark.parametrize("channels", first([1000, 3000]))
def test_thousands_of_random_channels(channels):
    worst = sweep(seed=20_220_524, channels=channels)
    assert 0.9 < worst <= 1  # never exceeded, and some channels come close


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_many_more_channels(seed):
    assert sweep(seed, channels=5000) <= 1


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("p", RATIOS)
def test_randomized_response_is_nearly_extremal(k, p):
    grid = [1 + (p - 1) * F(i, 20) for i in range(20)]
    ratios = [excess(krr(k, p), n, E) for n in (2, 3, 4, 5) for E in grid]
    assert max(ratios) <= 1
    assert max(ratios) > (0.999999 if k == 2 else 0.75)


@pytest.mark.parametrize("p", RATIOS)
def test_a_little_more_blanket_would_be_wrong(p):
    def mutant(*, epsilon0: float, n: int) -> Clones:
        return Clones(epsilon0=epsilon0, n=n, rho=1.001 * 2 / (math.exp(epsilon0) + 1))

    grid = [1 + (p - 1) * F(i, 20) for i in range(20)]
    assert max(excess(krr(2, p), n, E, mutant) for n in (2, 3, 4, 5) for E in grid) > 1


def test_the_older_pair_dominates_too():
    rng = np.random.default_rng(7)
    for index in range(300):
        p = RATIOS[index % len(RATIOS)]
        assert excess(random_channel(rng, p), 3, questions(p, rng), clones_2021) <= 1


def variation_ratio_delta(n: int, p: float, beta: float, r: float, E: float) -> float:
    """The pair that was published for total variation beta and clone probability r on either side.

    User 1 sends a 0 with probability p alpha, a 1 with probability alpha, else a 2, or the mirror
    image, alpha = beta / (p - 1); every other user sends a 0 or a 1 with probability r each, else a 2.
    Only the numbers of zeros and ones are seen.
    """
    alpha = beta / (p - 1)
    laws = [(p * alpha, alpha, 1 - (p + 1) * alpha), (alpha, p * alpha, 1 - (p + 1) * alpha)]

    def others(zeros: int, ones: int) -> float:
        if zeros < 0 or ones < 0 or zeros + ones > n - 1:
            return 0.0
        ways = math.comb(n - 1, zeros) * math.comb(n - 1 - zeros, ones)
        return ways * r ** (zeros + ones) * (1 - 2 * r) ** (n - 1 - zeros - ones)

    total = 0.0
    for zeros in range(n + 1):
        for ones in range(n + 1 - zeros):
            near = (others(zeros - 1, ones), others(zeros, ones - 1), others(zeros, ones))
            first, second = (sum(a * b for a, b in zip(law, near, strict=True)) for law in laws)
            total += max(0.0, first - E * second)
    return total


def test_the_published_variation_ratio_pair_is_below_the_truth():
    n, k, p, E = 6, 4, F(3), F(2)
    truth = data_set_delta(krr(k, p), [2] * (n - 1), (0, 1), E)
    assert truth == F(11, 864)
    # k-RR: total variation (p-1)/(p+k-1), and everybody sends a 0 or a 1 with probability 1/(p+k-1).
    published = variation_ratio_delta(n, 3.0, beta=2 / 6, r=1 / 6, E=2.0)
    assert published == pytest.approx(0.00984, abs=5e-6)
    assert published < truth
    assert (
        clones_2023(epsilon0=math.log(3), n=n).delta(math.log(2))
        >= shuffled_delta(krr(k, p), n, E)
        > truth
    )
