"""The lower bound for local protocols: against enumeration, against what protocols reach, and said by plans."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

import shuffledp as sdp
from shuffledp import ParameterError
from shuffledp.planner import local_bound
from shuffledp.planner.local_bound import local_lower_bound
from support import every


def response(epsilon, n):
    """The exact error of randomized response, whatever the data."""
    return math.sqrt(n) / (2 * math.sinh(epsilon / 2))


def brute_force_risk(n, flip, points):
    """The average squared error of the best estimate from all n reports, over every data set and report; as fractions."""
    total = Fraction(0)
    for reports in product((0, 1), repeat=n):
        moments = [Fraction(0)] * 3
        for bits in product((0, 1), repeat=n):
            sent = Fraction(1)
            for x, b in zip(bits, reports, strict=True):
                sent *= 1 - flip if x == b else flip
            prior = sum(w * t ** sum(bits) * (1 - t) ** (n - sum(bits)) for t, w in points)
            for power in range(3):
                moments[power] += prior * sent * sum(bits) ** power
        mass, first, second = moments
        total += second - first**2 / mass
    return total


THIRDS = [
    (Fraction(0), Fraction(1, 4)),
    (Fraction(1, 3), Fraction(1, 4)),
    (Fraction(1), Fraction(1, 2)),
]


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_sum_over_points_is_the_enumerated_risk(monkeypatch, n):
    """Every data set and every report of n people, against the closed form in K."""
    flip = Fraction(1, 4)  # epsilon = ln 3
    weights = np.zeros(local_bound._GRID)
    places = {0: 0, Fraction(1, 3): (local_bound._GRID - 1) // 3, 1: local_bound._GRID - 1}
    for theta, weight in THIRDS:
        weights[places[theta]] = float(weight)
    monkeypatch.setattr(local_bound, "_choose_weights", lambda *_: weights)
    found = local_bound._bound_by_points(n, math.log(3))
    exact = float(brute_force_risk(n, flip, THIRDS))
    assert exact * (1 - 1e-7) < found <= exact


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.5, math.log(3), 3.0])
def test_van_trees_is_below_the_risk_of_its_prior(n, epsilon):
    """By numerical integration of the posterior moments, for every number of reports."""
    flip = 1 / (math.exp(epsilon) + 1)
    nodes = (np.arange(20_000) + 0.5) / 20_000
    prior = 2 * np.sin(np.pi * nodes) ** 2 / len(nodes)
    q = flip + nodes * (1 - 2 * flip)
    risk = 0.0
    for K in range(n + 1):
        mean, variance = local_bound._describe_count(np.array(float(K)), n, flip, nodes)
        joint = prior * stats.binom.pmf(K, n, q)
        centre = (joint * mean).sum() / joint.sum()
        risk += float((joint * (variance + (mean - centre) ** 2)).sum())
    ratio = 1 / (4 * math.sinh(epsilon / 2) ** 2)
    found = local_bound._bound_by_information(n, epsilon, ratio)
    assert found <= risk <= n * ratio


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 20.0])
def test_the_average_inverse_is_rounded_up_and_hardly(epsilon):
    flip = 1 / (math.exp(epsilon) + 1)

    def at(theta):
        q = flip + theta * (1 - 2 * flip)
        return 2 * math.sin(math.pi * theta) ** 2 / (q * (1 - q))

    exact = 2 * integrate.quad(at, 0, 0.5, epsabs=1e-12, limit=500)[0]
    assert exact <= local_bound._average_inverse(epsilon) <= 1.03 * exact


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 6.0])
@pytest.mark.parametrize("n", [1, 1000, 10**9])
def test_the_bound_by_information_is_rounded_down(n, epsilon):
    ratio, flip = 1 / (4 * math.sinh(epsilon / 2) ** 2), Fraction(1 / (math.exp(epsilon) + 1))
    spread, slope = flip * (1 - flip), Fraction(math.tanh(epsilon / 2) ** 2)
    largest, prior = Fraction(local_bound._average_inverse(epsilon)), Fraction(4 * math.pi**2)
    share = Fraction(ratio)
    exact = n * share - n * spread * share * largest * prior / (n * slope * largest + prior)
    found = Fraction(local_bound._bound_by_information(n, epsilon, ratio))
    assert exact * (1 - Fraction(1, 10**9)) - n * share / 10**9 < found
    assert found == 0 or found < exact - n * share / 10**12


def test_one_person_is_settled():
    """Alone, the smallest worst-case error is that of guessing f or 1 - f: sqrt(f (1 - f)), and the bound is that."""
    for epsilon in (0.1, 1.0, 3.0):
        flip = 1 / (math.exp(epsilon) + 1)
        bound = local_lower_bound(n=1, epsilon=epsilon)
        assert bound == pytest.approx(math.sqrt(flip * (1 - flip)), rel=1e-6)
        assert bound <= math.sqrt(flip * (1 - flip))


@given(st.floats(0.01, 8.0), st.integers(1, 10**7))
def test_it_is_below_what_protocols_reach(epsilon, n):
    bound = local_lower_bound(n=n, epsilon=epsilon)
    assert 0 < bound <= min(response(epsilon, n), n / 2)


def largest_error(n, epsilon, rounds=400):
    """The worst-case error of one explicit estimate from randomized response, over all counts."""
    flip = 1 / (math.exp(epsilon) + 1)
    T = np.arange(n + 1.0)
    law = np.array(
        [
            np.convolve(
                stats.binom.pmf(np.arange(t + 1), t, 1 - flip),
                stats.binom.pmf(np.arange(n - t + 1), n - t, flip),
            )
            for t in range(n + 1)
        ]
    )
    weights, least = np.sin(np.pi * (T + 0.5) / (n + 1)) ** 2, math.inf
    for _ in range(rounds):
        weights /= weights.sum()
        guess = (weights * T) @ law / (weights @ law)
        errors = (law * (T[:, None] - guess) ** 2).sum(axis=1)
        least = min(least, float(errors.max()))
        weights = weights * np.exp(4 * (errors - weights @ errors) / errors.max())
    return math.sqrt(least)


def test_better_estimates_than_the_unbiased_one_are_above_it_too():
    """Near n / 10 an estimate drawn to the middle is 1.05 times better than the unbiased one: no bound passes it."""
    best = largest_error(100, 1.0)
    assert local_lower_bound(n=100, epsilon=1.0) < best < response(1.0, 100) / 1.05


FAR = [
    (n, epsilon)
    for n in (100, 300, 1_000, 3_000, 10_000, 100_000, 10**6)
    for epsilon in (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0)
    if response(epsilon, n) < n / 10
]


@pytest.mark.parametrize(("n", "epsilon"), every(3, FAR))
def test_randomized_response_is_nearly_the_best(n, epsilon):
    """Within 1.05 where the error is below n / 15; at n / 10 within 1.09, of which 1.05 is its own fault."""
    ratio = response(epsilon, n) / local_lower_bound(n=n, epsilon=epsilon)
    assert ratio < (1.05 if response(epsilon, n) < n / 15 else 1.09)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 3.0])
@pytest.mark.parametrize(("times", "within"), [(22, 1.04), (24.1, 1.04), (45, 1.01)])
def test_how_near_it_is_said_to_be(epsilon, times, within):
    """What the page and the changelog state, with n so many times the error of randomized response."""
    n = math.ceil((times / (2 * math.sinh(epsilon / 2))) ** 2)
    assert n >= times * response(epsilon, n)
    assert response(epsilon, n) / within < local_lower_bound(n=n, epsilon=epsilon)


def test_the_value_of_the_prototype_is_passed():
    assert 42.5 < local_lower_bound(n=2_000, epsilon=1.0) < 42.91


def test_it_falls_with_epsilon_and_grows_with_n():
    falling = [local_lower_bound(n=500, epsilon=e) for e in (0.05, 0.2, 0.5, 1.0, 2.0, 5.0, 20.0)]
    assert falling == sorted(falling, reverse=True)
    growing = [local_lower_bound(n=n, epsilon=0.5) for n in (1, 3, 10, 100, 1_000, 10**5, 10**12)]
    assert growing == sorted(growing)
    assert local_lower_bound(n=10, epsilon=1000.0) == 0


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("n", [50, 1_000])
def test_no_local_row_of_a_plan_is_below(n, epsilon):
    """All local protocols for counts, sums and means that we have."""
    for task, options in (
        ("count", {}),
        ("sum", {"lower": -3, "upper": 7}),
        ("mean", {"lower": 0.0, "upper": 5.0, "steps": 100}),
    ):
        asked = sdp.plan(task, n=n, epsilon=epsilon, delta=0.0, models="local", **options)
        rows = [row for row in asked.rows if row.available]
        assert rows
        assert all(row.rmse >= asked.local_bound for row in rows)
        width = options.get("upper", 1) - options.get("lower", 0)
        scale = n if task == "mean" else 1
        alone = local_lower_bound(
            task,
            n=n,
            epsilon=epsilon,
            **({} if task == "count" else {"lower": 0.0, "upper": width}),
        )
        assert asked.local_bound == pytest.approx(alone * scale)


def test_a_plan_says_it():
    text = " ".join(str(sdp.plan("count", n=2_000, epsilon=1.0, delta=1e-6)).split())
    assert "No local protocol can do better than 42.52, whatever is sent" in text
    assert "No local" not in str(
        sdp.plan("count", n=2_000, epsilon=1.0, delta=1e-6, models="shuffle")
    )
    assert "No local" not in str(sdp.plan("histogram", n=2_000, k=4, epsilon=1.0, delta=1e-6))
    stated = sdp.plan("count", n=2_000, epsilon=1.0, delta=1e-6).to_dict()["local_bound"]
    assert 42.52 <= stated < 42.53


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"task": "histogram"}, "task='histogram'"),
        ({"n": 0}, "n=0"),
        ({"epsilon": 0.0}, "epsilon=0.0"),
        ({"task": "sum", "upper": -1.0}, "upper=-1.0"),
        ({"upper": 7.0}, "upper=7.0"),
    ],
)
def test_bad_questions(changed, message):
    with pytest.raises(ParameterError, match=message):
        local_lower_bound(**{"task": "count", "n": 10, "epsilon": 1.0, **changed})
