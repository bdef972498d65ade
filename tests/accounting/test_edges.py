"""Where curves and routines end: what is refused, what is stated at the ends, and the exact limits of theorems."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

import shuffledp as sdp
from shuffledp.accounting import closed_forms, moved_message, rules, server_noise
from shuffledp.accounting.amplify import amplify_lower, find_flip
from shuffledp.accounting.blanket import (
    BlanketProfile,
    LeadingBlanket,
    _compare_tails,
    generic_blanket,
)
from shuffledp.accounting.closed_forms import CLOSED_FORMS
from shuffledp.accounting.compose import CurveTable, compose_curve, compose_delta
from shuffledp.accounting.correlated import CorrelatedNoise, NegativeBinomialFlood, ThinnedNoise
from shuffledp.accounting.explain import _factor
from shuffledp.accounting.moved_message import BinomialTotal, PoissonTotal
from shuffledp.accounting.server_noise import Moved
from shuffledp.core.privacy import Profile
from shuffledp.core.protocol import Promise
from shuffledp.protocols import correlated_count, krr, rr

FLOOD = NegativeBinomialFlood(r=12.0, p=0.9)
REFUSED = {
    "a lower bound far beyond": (
        lambda: amplify_lower(randomizer=krr.make_local(k=2, epsilon=201.0), n=10, delta=0.1),
        "above 200",
    ),
    "a comparison of nothing": (lambda: closed_forms.BoundComparison(n=10), "not both"),
    "a comparison of both": (
        lambda: closed_forms.BoundComparison(
            n=10, epsilon0=1.0, randomizer=rr.make_local(epsilon=1)
        ),
        "not both",
    ),
    "a share above 1": (
        lambda: ThinnedNoise(epsilon_star=1.0, share=1.5, flood=FLOOD),
        "share=1.5 must be <= 1",
    ),
    "a poisson number that is too large": (lambda: PoissonTotal(mean=1.1e12), "10\\^12"),
    "a certain hit twice": (lambda: BinomialTotal(n=3, p=Fraction(3, 2)), "p="),
    "too few tries": (
        lambda: moved_message.dummies_after(n=5, rho=Fraction(1), pair=Fraction(1, 10), place=5),
        "5 tries are too few for 6 pairs",
    ),
    "exact sums of endless noise": (
        lambda: ThinnedNoise(epsilon_star=1e-6, share=0.5, flood=FLOOD).delta(1e-6),
        "too small for the exact sum",
    ),
    "a correlated count of a tiny epsilon": (
        lambda: correlated_count.make(n=1000, epsilon=1e-12, delta=1e-6),
        "too small",
    ),
    "published constants beyond their theorem": (
        lambda: correlated_count.make(n=1000, epsilon=1.2, delta=1e-6, calibration="paper"),
        "published constants",
    ),
    "dummies below a floor": (
        lambda: server_noise._find_law(
            Moved(moves=1, p=Fraction(3, 4), q=Fraction(1, 4)), Fraction(12, 10), 1e-9
        ),
        "keeps the 1.2 of a question without any dummies",
    ),
    "nothing told for a question": (
        lambda: server_noise._find_law(Moved(moves=1), Fraction(1, 10**400), 1e-9),
        "too small",
    ),
    "very many dummies": (
        lambda: server_noise._find_law(Moved(moves=1), Fraction(1, 10**6), 1e-9),
        "65,536 dummies",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_why(name):
    call, why = REFUSED[name]
    with pytest.raises((sdp.ParameterError, sdp.UnsupportedError), match=why):
        call()


FORMS = {form.name: form.epsilon for form in CLOSED_FORMS}
LIMITS = [  # name, what fits just so, what does not any more
    ("erlingsson_2019", {"epsilon0": 0.4, "n": 1000, "delta": 1e-3}, {"n": 999}),
    ("erlingsson_2019", {"epsilon0": 0.4999, "n": 1000, "delta": 1e-3}, {"epsilon0": 0.5}),
    ("erlingsson_2019", {"epsilon0": 0.4, "n": 1000, "delta": 0.00999}, {"delta": 0.01}),
    ("doona_small", {"epsilon0": 1.0, "n": 10**6, "delta": 1e-6}, {"epsilon0": 1.0000001}),
    ("doona_large", {"epsilon0": 1.0, "n": 10**6, "delta": 1e-6}, {"epsilon0": 0.9999999}),
    ("balle_2019_hoeffding", {"epsilon0": 200.0, "n": 10, "delta": 1e-6}, {"epsilon0": 200.1}),
    ("balle_2019_bennett", {"epsilon0": 200.0, "n": 10, "delta": 1e-6}, {"epsilon0": 200.1}),
    ("cheu_2019", {"epsilon0": 0.02, "n": 213, "delta": 1e-6}, {"n": 212}),
    *(
        (name, {"epsilon0": 1.0, "n": n, "delta": 1e-6}, {"n": n - 1})
        for name, n in (
            ("feldman_2021", 632),
            ("feldman_2021_script", 662),
            ("doona", 632),
            ("doona_small", 632),
            ("doona_large", 632),
            ("doona_large_simple", 632),
        )
    ),
]


@pytest.mark.parametrize(("name", "fits", "change"), LIMITS)
def test_theorems_end_where_they_say(name, fits, change):
    assert 0 < FORMS[name](**fits) <= fits["epsilon0"] * 400
    with pytest.raises(sdp.UnsupportedError, match=f"{name} needs"):
        FORMS[name](**(fits | change))


def test_cheu_says_nothing_above_one():
    """The proof of the theorem needs a result of at most 1."""
    at = {"epsilon0": 1.0, "delta": 1e-6}
    L = math.log(4 / 1e-6)
    least = math.tanh(0.5) ** 2 * 432 * L
    assert FORMS["cheu_2019"](n=math.ceil(least) + 1, **at) <= 1
    with pytest.raises(sdp.UnsupportedError, match="at most 1"):
        FORMS["cheu_2019"](n=math.floor(least) - 1, **at)


def test_curves_at_their_ends():
    generic = generic_blanket(epsilon0=1.0)
    one = BlanketProfile(blankets=(generic,), n=10, epsilon0=1.0)
    for curve in (one, LeadingBlanket(blankets=(generic, generic), n=10, epsilon0=1.0)):
        assert curve.delta(1.0) == 0.0
        assert curve.delta(0.999) >= 0.0
    thinned = ThinnedNoise(epsilon_star=0.7, share=0.5, flood=FLOOD)
    assert thinned.bound_losing(-0.1) == 1.0
    assert thinned.bound_gaining(-0.1) == 1.0
    assert thinned.bound_gaining(thinned.pure) == 0.0
    assert CorrelatedNoise(epsilon_star=0.7, flood=FLOOD).bound_gaining(0.7) == 0.0
    assert CurveTable(grid=np.array([0.0, 1.0]), deltas=np.array([0.0])).mu() == 0.0


@pytest.mark.parametrize(("n", "p"), [(5, 0.9), (40, 0.5), (1000, 0.01), (10**6, 1e-7)])
def test_hits_are_hardly_ever_more_than_their_bound(n, p):
    most = moved_message._bound_hits(n, p)
    assert 0 < most <= n
    assert binom.sf(most, n, p) <= 2.0**-100
    assert most == n or binom.sf(most // 2, n, p) > 2.0**-100  # and it is no idle bound


class Nothing(Profile):
    """A curve of a release that tells nothing."""

    def __init__(self, distance=0.0):
        self.distance = distance

    def __hash__(self):
        return hash(self.distance)

    def __eq__(self, other):
        return self.distance == other.distance

    def delta(self, epsilon):
        return self.distance

    def epsilon(self, delta):
        return 0.0


def test_nothing_composes_to_nothing():
    assert compose_delta([Nothing()] * 3, epsilon=0.5, near=1e-6) == 0.0
    assert compose_delta([Nothing(1e-12)] * 3, epsilon=0.5, near=1e-6) == pytest.approx(3e-12)


def test_factors_that_are_no_protection():
    assert _factor(300.5) == "more than 10^130, which is no protection"
    assert len(_factor(300.0)) > 130
    assert (_factor(0.0099), _factor(0.01)) == ("1.010", "1.02")


def test_the_flip_of_a_randomizer():
    device = rr.make_local(epsilon=1.0, word_bits=5)
    assert find_flip(device) == min(device.randomizer.pmf(0).values())
    assert find_flip(krr.make_local(k=3, epsilon=1.0)) is None


@pytest.mark.parametrize(
    ("first", "second", "exceeds"),
    [
        ((1.0, -1.0), (1.0, -1.0), 0.0),
        ((1.0, -1.0), (2.0, -2.0), 0.5),
        ((2.0, -2.0), (1.0, -1.0), 0.0),
        ((0.5, 0.3), (0.8, 0.0), 0.15),
    ],
)
def test_tails_of_gains_are_compared_at_the_worst_place(first, second, exceeds):
    mass = np.array([0.5, 0.5])
    found = _compare_tails(mass, np.array(first), np.array(second))
    assert found == pytest.approx(exceeds, abs=1e-15)


def test_one_release_has_it_all_and_none_has_nothing():
    promise = Promise(epsilon=1.5, delta=1e-6)
    assert rules.share(promise, [rules.Release(3, True)]) == 0.5
    with pytest.raises(sdp.ParameterError, match="questions=0 must be >= 1"):
        rules.share(promise, [])
    for compose in (compose_delta, compose_curve):
        with pytest.raises(sdp.ParameterError, match="at least one privacy curve"):
            compose([], near=1e-6, **({"epsilon": 1.0} if compose is compose_delta else {}))
