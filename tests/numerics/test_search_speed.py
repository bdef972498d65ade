"""Searches start near where they end, and look at few points: each of them may cost a second elsewhere."""

import math
from fractions import Fraction

import pytest

from shuffledp.accounting import (
    amplify,
    base,
    blanket,
    clones,
    compose,
    correlated,
    moved_message,
    noisy_count,
)
from shuffledp.accounting.binary import BinaryResponse
from shuffledp.numerics.rounding import find_largest_above, find_smallest, find_smallest_safe
from shuffledp.protocols import fake_users, split_and_mix, tree

EXCESS = {
    "a parabola": lambda x: 2 - x * x,
    "a logarithm": lambda x: -math.log(max(x, 1e-300) / 1.7),
    "a steep fall": lambda x: 1e6 * math.exp(-20 * x) - 1,
    "a slow fall": lambda x: 3 / (1 + x) - 1,
    "a step": lambda x: 1.0 if x < 1.3 else -1.0,
    "a fall to infinity": lambda x: math.inf if x < 1 else 1.9 - x,
    "a line": lambda x: 1.5 - x,
}
GUESSES = (1e-3, 0.5, 1.4, 1.5, 40.0)


def count(find, excess, **given):
    seen = []

    def look(x):
        seen.append(x)
        return excess(x)

    return find(look, **given), len(seen), seen


def measure(name):
    """How many points each search looks at, by guess."""
    excess, found = EXCESS[name], []
    for guess in GUESSES:
        safe, one, seen = count(find_smallest_safe, excess, safe=100.0, guess=guess)
        assert safe in (*seen, 100.0)
        assert excess(safe) <= 0 < excess(safe * (1 - 1.1e-6))
        above, two, seen = count(find_largest_above, excess, end=100.0, guess=guess)
        assert above in seen
        assert excess(above) > 0 >= excess(above * (1 + 1.1e-6))
        least, three, seen = count(find_smallest, excess, guess=guess, largest=1e6)
        assert least in seen
        assert excess(least) <= 0 < excess(least * (1 - 1.1e-6))
        found.append((one, two, three))
    return found


LOOKED = {
    "a parabola": [(21, 21, 13), (9, 9, 9), (10, 10, 8), (7, 7, 6), (16, 16, 15)],
    "a logarithm": [(16, 16, 10), (10, 10, 9), (7, 7, 7), (6, 6, 6), (16, 16, 15)],
    "a steep fall": [(30, 30, 17), (12, 12, 12), (12, 12, 11), (20, 20, 19), (19, 19, 18)],
    "a slow fall": [(13, 13, 11), (10, 10, 10), (8, 8, 8), (8, 8, 7), (12, 12, 11)],
    "a step": [(31, 31, 24), (24, 24, 25), (20, 20, 19), (23, 23, 22), (28, 28, 27)],
    "a fall to infinity": [(11, 11, 9), (9, 9, 6), (5, 5, 5), (5, 5, 5), (9, 9, 8)],
    "a line": [(9, 9, 7), (6, 6, 6), (4, 4, 4), (20, 20, 19), (9, 9, 8)],
}
"""Points by guess, as they were measured: of `find_smallest_safe`, `find_largest_above` and `find_smallest`."""


@pytest.mark.parametrize("name", EXCESS)
def test_searches_look_at_few_points(name):
    for found, allowed in zip(measure(name), LOOKED[name], strict=True):
        assert all(a <= b for a, b in zip(found, allowed, strict=True)), found


def near_gauss(mu, delta):
    return base.guess_epsilon(mu, delta), base.gaussian_epsilon(mu, delta)


def near_clones(epsilon0, n, delta):
    curve = clones.clones_2023(epsilon0=epsilon0, n=n)
    return clones._guess(epsilon0, n * curve.rho, delta), curve.epsilon(delta)


def near_blanket(epsilon0, n, delta):
    generic = (blanket.generic_blanket(epsilon0=epsilon0),)
    curve = blanket.BlanketProfile(blankets=generic, n=n, epsilon0=epsilon0)
    return blanket._guess(generic, n, delta), curve.epsilon(delta)


def near_mean(epsilon, delta):
    level = moved_message.independent_level(n=10**6, epsilon=epsilon, delta=delta)
    return moved_message._guess_mean(epsilon, delta), float(10**6 * level)


@pytest.mark.parametrize(
    ("look", "given", "within"),
    [
        (near_gauss, (0.05, 1e-6), 2e-3),
        (near_gauss, (0.2, 1e-8), 5e-3),
        (near_clones, (1.0, 10**4, 1e-6), 5e-4),
        (near_clones, (0.3, 1000, 1e-8), 3e-3),
        (near_clones, (3.0, 10**6, 1e-6), 5e-4),
        (near_blanket, (1.0, 10**4, 1e-6), 5e-4),
        (near_blanket, (0.3, 1000, 1e-8), 3e-3),
        (near_mean, (0.3, 1e-6), 2e-3),
        (near_mean, (1.0, 1e-6), 2e-3),
        (near_mean, (3.0, 1e-9), 1e-2),
        (near_mean, (5.0, 1e-6), 0.07),
        (near_mean, (20.0, 1e-6), 0.5),
    ],
)
def test_searches_start_near_their_end(look, given, within):
    guess, found = look(*given)
    assert guess == pytest.approx(found, rel=within)


@pytest.mark.parametrize(
    ("n", "q", "distance"), [(10**6, 2**35, 1e-10), (1000, 2**20, 1e-6), (100, 16, 1e-3)]
)
def test_the_leading_term_gives_the_number_of_shares(n, q, distance):
    assert split_and_mix._guess(n, q, math.log2(distance)) == split_and_mix.find_shares(
        n=n, q=q, distance=distance
    )


CALLS = {
    "a binomial level": (
        noisy_count.BinomialCount,
        "delta",
        lambda: noisy_count.binomial_level(n=1013, epsilon=1.0, delta=1e-6),
    ),
    "a binomial level of a shift": (
        noisy_count.BinomialCount,
        "delta",
        lambda: noisy_count.binomial_level(n=10**6 + 3, shift=9, epsilon=0.5, delta=1e-6),
    ),
    "independent bins": (
        moved_message.IndependentBins,
        "delta",
        lambda: moved_message.independent_level(n=1013, epsilon=0.9, delta=1e-6),
    ),
    "dummies": (
        moved_message.TwoBins,
        "delta",
        lambda: moved_message.dummies_level(n=1013, pair=Fraction(2, 30), epsilon=0.9, delta=1e-6),
    ),
    "clones": (
        clones.Clones,
        "deltas",
        lambda: clones.clones_2023(epsilon0=1.1, n=1013).epsilon(1e-6),
    ),
    "a blanket": (
        blanket.BlanketProfile,
        "deltas",
        lambda: blanket.BlanketProfile(
            blankets=(blanket.generic_blanket(epsilon0=1.1),), n=1013, epsilon0=1.1
        ).epsilon(1e-6),
    ),
    "a bit": (
        BinaryResponse,
        "delta",
        lambda: BinaryResponse(n=1013, flip=Fraction(1, 5)).epsilon(1e-6),
    ),
    "correlated noise": (
        correlated.CorrelatedNoise,
        "delta",
        lambda: correlated.CorrelatedNoise(
            epsilon_star=0.7, flood=correlated.NegativeBinomialFlood(r=12.0, p=0.91)
        ).epsilon(1e-4),
    ),
    "fake users": (
        blanket.Blanket,
        "delta",
        lambda: fake_users.make(n=1013, k=5, epsilon=1.0, delta=1e-6),
    ),
    "a composition": (
        compose._Total,
        "deltas",
        lambda: compose.compose([amplify.profile(epsilon0=1.0, n=1013, honest=1)] * 5, delta=1e-6),
    ),
    "a calibration": (
        clones.Clones,
        "deltas",
        lambda: amplify.calibrate(epsilon=0.3, n=1013, delta=1e-6),
    ),
    "a calibration for many": (
        clones.Clones,
        "deltas",
        lambda: amplify.calibrate(epsilon=0.1, n=100_003, delta=1e-6),
    ),
    "the smallest n": (
        clones.Clones,
        "deltas",
        lambda: amplify.smallest_n(epsilon0=1.0, epsilon=0.2, delta=1e-6),
    ),
    "parts with dummies": (
        moved_message.TwoBins,
        "delta",
        lambda: tree.joint_poisson_level(parts=2, epsilon=1.03, delta=1e-7),
    ),
}


def count_calls(monkeypatch, name):
    kind, method, look = CALLS[name]
    calls, true = [], getattr(kind, method)

    def watched(self, *given, **named):
        calls.append(given)
        return true(self, *given, **named)

    monkeypatch.setattr(kind, method, watched)
    look()
    return len(calls)


MOST = {
    "a binomial level": 8,
    "a binomial level of a shift": 10,
    "independent bins": 6,
    "dummies": 10,
    "clones": 2,
    "a blanket": 2,
    "a bit": 1,
    "correlated noise": 10,
    "fake users": 8,
    "a composition": 4,
    "a calibration": 6,
    "a calibration for many": 6,
    "the smallest n": 15,
    "parts with dummies": 7,
}
"""Calls, as they were measured."""


@pytest.mark.parametrize("name", CALLS)
def test_curves_are_asked_a_few_times(monkeypatch, name):
    assert 0 < count_calls(monkeypatch, name) <= MOST[name]
