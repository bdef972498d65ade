"""The law of whoever adds whole messages: exact shares, their ratios, and the draws of every pair of words."""

from collections import Counter
from fractions import Fraction
from itertools import pairwise

import pytest

from shuffledp.core.errors import ParameterError
from shuffledp.numerics.rounding import exp_bounds, exp_lower
from shuffledp.numerics.tabulated import MOST_STEPS, CutLaplace
from shuffledp.testing import all_tapes

SMALL = [(rate, most, bits) for rate in (0.5, 1.0, 2.0) for most in (1, 2, 3) for bits in (3, 4)]
LARGE = [(0.5, 36), (1.0, 18), (0.005, 3600), (3.0, 1), (0.25, 82)]


@pytest.mark.parametrize(("rate", "most", "bits"), SMALL)
def test_every_pair_of_words_draws_by_the_declared_law(rate: float, most: int, bits: int) -> None:
    law = CutLaplace(rate=rate, most=most, word_bits=bits)
    tapes = all_tapes(bits, 2)
    drawn = Counter(law.read(tapes).tolist())
    assert {z: Fraction(times, len(tapes)) for z, times in drawn.items()} == law.pmf()


@pytest.mark.parametrize(
    ("rate", "most", "bits"), SMALL + [(rate, most, 64) for rate, most in LARGE]
)
def test_neighbouring_masses_differ_by_at_most_the_rate(rate: float, most: int, bits: int) -> None:
    law = CutLaplace(rate=rate, most=most, word_bits=bits)
    assert sum(law.shares) == 1 << 2 * bits
    assert law.shares == law.shares[::-1]
    assert len(law.shares) == 2 * most + 1
    for one, other in pairwise(law.shares):
        assert max(one, other) <= exp_lower(rate) * min(one, other)
    assert law.edge == law.pmf()[most] == law.pmf()[-most]
    assert law.variance == sum(z * z * mass for z, mass in law.pmf().items())


@pytest.mark.parametrize(("rate", "most"), LARGE)
def test_the_mass_of_an_end_is_the_formula_of_the_ideal_law(rate: float, most: int) -> None:
    _, step = exp_bounds(-Fraction(rate))
    _, tail = exp_bounds(-Fraction(rate) * most)
    ideal = tail * (1 - step) / (1 + step - 2 * step * tail)
    edge = CutLaplace(rate=rate, most=most).edge
    assert abs(edge / ideal - 1) < Fraction(1, 10**20)


def test_few_bits_cannot_carry_long_laws() -> None:
    with pytest.raises(ParameterError, match="word_bits=1 must be more"):
        CutLaplace(rate=0.2, most=2, word_bits=1)
    with pytest.raises(ParameterError, match="rate=0"):
        CutLaplace(rate=0.0, most=2)


@pytest.mark.parametrize(
    "wrong",
    [{"most": 0}, {"most": MOST_STEPS + 1}, {"most": 1.5}, {"rate": 0.0}, {"word_bits": 65}],
)
def test_what_no_law_has_is_refused_by_name(wrong: dict[str, float]) -> None:
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        CutLaplace(**{"rate": 0.5, "most": 3, **wrong})
