"""The statements agree, with the numbers that are known from elsewhere; a false one does not."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

import shuffledp as sdp
from shuffledp.audit import separations
from shuffledp.audit.separations import STATEMENTS, Statement, lemma_delta, smooth_delta


@pytest.mark.parametrize("check", STATEMENTS, ids=lambda check: check.__name__)
def test_statement_agrees_and_has_a_table(check):
    found = check()
    assert isinstance(found, Statement)
    assert found.agrees, found.measured
    assert len({len(column) for column in found.columns.values()}) == 1


def test_gap_values_of_the_reference():
    found = separations.gap_is_finite(largest_n=20)
    assert found.columns["n"] == tuple(range(2, 21))
    assert found.columns["ratio"] == (
        Fraction(5, 2),
        Fraction(125, 64),
        *(Fraction(8, 5),) * 17,
    )
    assert [float(tv) for tv in found.columns["total variation"][:3]] == pytest.approx(
        [0.240, 0.140, 0.084], abs=5e-4
    )
    assert found.columns["epsilon"][0] == pytest.approx(math.log(5 / 2), rel=1e-15)


def test_gap_by_its_totals_alone():
    """The law of the number of ones by convolution of weights 0 .. 4, without messages."""
    laws = ([1, 4, 6, 4, 1], [1, 4, 0, 4, 1])
    rows = [np.array([Fraction(w, sum(law)) for w in law], dtype=object) for law in laws]
    worst = Fraction(0)
    for ones in range(3):
        others = np.array([Fraction(1)], dtype=object)
        for x in [1] * ones + [0] * (2 - ones):
            others = np.convolve(others, rows[x])
        views = [np.convolve(others, row) for row in rows]
        worst = max(worst, *(views[0] / views[1]), *(views[1] / views[0]))
    assert worst == Fraction(125, 64)


def test_two_messages_are_where_the_first_statement_ends():
    """Its conclusion fails for (x, 1 - x), so the check can fail."""
    pair = separations.mirrored_randomizer()
    assert sdp.audit.pure_ratio(pair, n=3) == 1
    assert sdp.audit.pure_ratio(pair, view="local") == math.inf


def test_random_randomizers_are_diverse():
    columns = separations.pure_single_message_is_local().columns
    assert set(columns["n"]) == {2, 3, 4}
    assert set(columns["inputs"]) == set(columns["messages"]) == {2, 3}
    assert math.inf in columns["local ratio"]
    assert sum(ratio != math.inf for ratio in columns["local ratio"]) >= 10


def test_conversion_notices_an_analyzer_that_does_not_shuffle():
    randomizer = sdp.audit.channel([["3/4", "1/4"], ["1/4", "3/4"]])
    shuffled = separations.shuffled_output_law(randomizer, (0, 1))
    in_order = {
        (a, b): randomizer.pmf(0)[(a,)] * randomizer.pmf(1)[(b,)] for a in (0, 1) for b in (0, 1)
    }
    assert separations.local_output_law(randomizer, (0, 1)) == shuffled
    assert in_order != shuffled


def scipy_smooth(n, gamma, alpha, k):
    y = np.arange(n + 1)
    log = binom.logpmf(y, n, gamma)
    epsilon = math.log((1 + alpha) / (1 - alpha))
    worst = 0.0
    for step in [*range(-k, 0), *range(1, k + 1)]:
        moved = np.full(n + 1, -np.inf)
        inside = (y + step >= 0) & (y + step <= n)
        moved[inside] = log[y[inside] + step]
        worst = max(worst, np.exp(log)[log - moved >= abs(step) * epsilon].sum())
    return worst


@pytest.mark.parametrize(
    ("n", "gamma", "alpha", "k"),
    [(1000, 0.1, 0.3, 12), (1000, 0.1, 0.3, 15), (60, 0.5, 0.35, 4), (9, 0.25, 0.75, 3)],
)
def test_smoothness_against_scipy(n, gamma, alpha, k):
    exact = smooth_delta(n, Fraction(str(gamma)), Fraction(str(alpha)), k)
    assert float(exact) == pytest.approx(scipy_smooth(n, gamma, alpha, k), rel=1e-9)


def test_smoothness_value_of_the_reference():
    """n = 1000, gamma = .1, alpha = .3, |k'| <= 12: exact 1.3e-5, the lemma 0.68."""
    gamma, alpha = Fraction(1, 10), Fraction(3, 10)
    assert float(smooth_delta(1000, gamma, alpha, 12)) == pytest.approx(1.3e-5, rel=0.02)
    assert lemma_delta(1000, gamma, alpha) == pytest.approx(0.68, rel=0.01)


def test_the_lemma_needs_its_condition_on_k():
    """Far beyond n alpha gamma / 2 the exact delta is above the lemma's."""
    gamma, alpha = Fraction(1, 10), Fraction(1, 2)
    allowed = math.floor(2000 * gamma * alpha / 2)
    assert smooth_delta(2000, gamma, alpha, allowed) < lemma_delta(2000, gamma, alpha)
    assert smooth_delta(2000, gamma, alpha, 5 * allowed) > lemma_delta(2000, gamma, alpha)


def test_noise_factors_of_the_reference():
    found = [separations.noise_factor(epsilon, 1e-6) for epsilon in (0.1, 0.5, 1.0)]
    assert found == pytest.approx([51, 32, 21], abs=0.6)


def test_the_square_root_of_5():
    step = separations.square_root_step()
    assert step.columns["epsilon"][0] == 0
    assert step.columns["epsilon"][-1] == 1
    assert step.columns["alpha - epsilon/sqrt(5)"][-1] == pytest.approx(0.4621 - 0.4472, abs=1e-4)
    assert max(step.columns["alpha - epsilon/sqrt(4)"]) == 0


@pytest.mark.parametrize(
    ("gamma", "alpha"), [(Fraction(0), Fraction(1, 2)), (Fraction(1, 2), Fraction(1))]
)
def test_outside_the_lemma(gamma, alpha):
    with pytest.raises(sdp.ParameterError):
        lemma_delta(10, gamma, alpha)
