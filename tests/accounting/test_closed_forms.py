"""The history table: published values, conditions, and consistency with the numeric bound."""

import inspect
import math

import mpmath as mp
import pytest

from shuffledp.accounting import closed_forms
from shuffledp.accounting.clones import clones_2023
from shuffledp.accounting.closed_forms import CLOSED_FORMS, Covers
from shuffledp.core.errors import ParameterError, UnsupportedError

GRID = [
    (epsilon0, n, delta)
    for epsilon0 in (0.01, 0.3, 1.0, 2.0, 4.0, 8.0)
    for n in (20, 200, 1_000, 10**4, 10**6, 10**9, 10**12)
    for delta in (1e-2 / 3, 1e-6, 1e-12)
]
GUARANTEES = [form for form in CLOSED_FORMS if form.covers is not Covers.APPROXIMATION]


@pytest.mark.parametrize("form", GUARANTEES, ids=lambda form: form.name)
def test_a_guarantee_is_never_below_the_numeric_bound(form):
    answered = 0
    for epsilon0, n, delta in GRID:
        try:
            epsilon = form.epsilon(epsilon0=epsilon0, n=n, delta=delta)
        except UnsupportedError:
            continue
        answered += 1
        assert epsilon >= 0.9999 * clones_2023(epsilon0=epsilon0, n=n).epsilon(delta)
    assert answered >= 10


@pytest.mark.parametrize(
    ("n", "epsilon0", "plain", "script"),
    [
        (10**3, 0.5, 0.2726, 0.3348),
        (10**3, 1.0, 0.5662, 0.6495),
        (10**4, 1.0, None, 0.2333),
        (10**4, 2.0, 0.501, None),
        (10**5, 2.0, None, 0.1906),
        (10**6, 1.0, None, 0.0238),
        (10**6, 4.0, 0.201, None),
        (10**6, 8.0, 1.003, None),
        (10**7, 1.0, None, 0.00752),
    ],
)
def test_values_of_feldman_2021(n, epsilon0, plain, script):
    for expected, formula in (
        (plain, closed_forms.feldman_2021),
        (script, closed_forms.feldman_2021_script),
    ):
        if expected is not None:
            found = formula(epsilon0=epsilon0, n=n, delta=1e-6)
            assert found == pytest.approx(expected, rel=0, abs=0.6 * 10 ** -len(str(expected)[2:]))


def test_the_script_prints_more_than_the_theorem():
    for epsilon0, n, delta in GRID:
        if epsilon0 <= math.log(n / (16 * math.log(4 / delta))):
            arguments = {"epsilon0": epsilon0, "n": n, "delta": delta}
            plain = closed_forms.feldman_2021(**arguments)
            assert plain < closed_forms.feldman_2021_script(**arguments)
            assert plain < closed_forms.doona(**arguments)


def test_the_approximations_tend_to_what_they_approximate():
    small = {"epsilon0": 1e-4, "n": 10**6, "delta": 1e-6}
    assert closed_forms.doona_small(**small) == pytest.approx(closed_forms.doona(**small), rel=1e-3)
    large = {"epsilon0": 9.0, "n": 10**9, "delta": 1e-6}
    plain = closed_forms.feldman_2021(**large)
    assert closed_forms.doona_large(**large) == pytest.approx(plain, rel=5e-3)
    assert closed_forms.doona_large_simple(**large) == pytest.approx(plain, rel=0.1)
    # Below the theorem: an approximation is not a guarantee.
    assert closed_forms.doona_large(**large) < plain


def test_cheu_inverts_the_published_choice_of_lambda():
    n, delta = 10**5, 1e-6
    L = math.log(4 / delta)
    for epsilon in (0.05, 0.1, 0.15, 0.3, 1.0):
        if epsilon >= math.sqrt(192 * L / n):
            blanket = 64 * L / epsilon**2
        else:
            blanket = n - epsilon * n**1.5 / math.sqrt(432 * L)
        epsilon0 = math.log(2 * n / blanket - 1)
        found = closed_forms.cheu_2019(epsilon0=epsilon0 * (1 - 1e-9), n=n, delta=delta)
        assert found == pytest.approx(epsilon, rel=1e-6)


def test_balle_bounds_are_bounds_of_delta():
    """At the returned epsilon the numeric divergence is below delta; Bennett beats Hoeffding here."""
    for epsilon0, n in ((0.5, 1000), (1.0, 10**4), (3.0, 10**6)):
        hoeffding, bennett = (
            formula(epsilon0=epsilon0, n=n, delta=1e-6)
            for formula in (closed_forms.balle_2019_hoeffding, closed_forms.balle_2019_bennett)
        )
        assert bennett <= hoeffding <= epsilon0
        assert clones_2023(epsilon0=epsilon0, n=n).delta(bennett) < 1e-6


def test_balle_says_epsilon0_where_it_gains_nothing():
    assert closed_forms.balle_2019_hoeffding(epsilon0=4.0, n=1000, delta=1e-6) == 4.0


@pytest.mark.parametrize(
    ("formula", "arguments", "text"),
    [
        (closed_forms.feldman_2021, (4.0, 1000, 1e-6), r"ln\(n / \(16 ln\(2/delta\)\)\)"),
        (closed_forms.feldman_2021_script, (4.0, 1000, 1e-6), r"ln\(n / \(16 ln\(4/delta\)\)\)"),
        (closed_forms.feldman_2021_script, (1.46, 1000, 1e-6), r"16 ln\(4/delta\)"),
        (closed_forms.doona, (4.0, 1000, 1e-6), "needs epsilon0 <="),
        (closed_forms.doona_small, (1.1, 10**6, 1e-6), "epsilon0 <= 1, got 1.1"),
        (closed_forms.doona_large, (0.9, 10**6, 1e-6), "epsilon0 >= 1, got 0.9"),
        (closed_forms.doona_large_simple, (0.9, 10**6, 1e-6), "epsilon0 >= 1"),
        (closed_forms.erlingsson_2019, (0.5, 10**6, 1e-6), "epsilon0 < 1/2"),
        (closed_forms.erlingsson_2019, (0.4, 999, 1e-6), "n >= 1000"),
        (closed_forms.erlingsson_2019, (0.4, 10**6, 0.01), "delta < 1/100"),
        (closed_forms.cheu_2019, (1.0, 200, 1e-6), "n >= 14"),
        (closed_forms.cheu_2019, (8.0, 10**5, 1e-6), "at most 1"),
        (closed_forms.balle_2019_bennett, (300.0, 10**5, 1e-6), "epsilon0 <= 200"),
    ],
)
def test_outside_a_condition_nothing_is_returned(formula, arguments, text):
    epsilon0, n, delta = arguments
    with pytest.raises(UnsupportedError, match=text):
        formula(epsilon0=epsilon0, n=n, delta=delta)


def test_the_edge_of_the_condition_is_inside():
    n, delta = 1000, 1e-6
    edge = math.log(n / (16 * math.log(2 / delta)))
    assert closed_forms.feldman_2021(epsilon0=edge, n=n, delta=delta) > 0


@pytest.mark.parametrize("form", CLOSED_FORMS, ids=lambda form: form.name)
@pytest.mark.parametrize("wrong", [{"epsilon0": 0.0}, {"n": 0}, {"delta": 0.0}, {"delta": 1.0}])
def test_parameters_are_checked(form, wrong):
    with pytest.raises(ParameterError):
        form.epsilon(**({"epsilon0": 1.0, "n": 10**6, "delta": 1e-6} | wrong))


def test_every_function_is_in_the_table():
    names = [form.name for form in CLOSED_FORMS]
    functions = {
        name
        for name, each in vars(closed_forms).items()
        if inspect.isfunction(each) and each.__module__ == closed_forms.__name__ and name[0] != "_"
    }
    assert set(names) == functions
    assert len(names) == len(functions)
    assert all(getattr(closed_forms, form.name) is form.epsilon for form in CLOSED_FORMS)


def hoeffding(epsilon0, epsilon, n):
    """delta as the docstring of `balle_2019_hoeffding` states it, in 40 digits."""
    p, E = mp.e ** mp.mpf(epsilon0), mp.e ** mp.mpf(epsilon)
    c, B, gamma = E - 1, (p - 1) * (E + 1), 1 / p
    power = (1 - gamma + gamma * mp.exp(-2 * c**2 / B**2)) ** n
    return B**2 / (4 * c * gamma * n) * power


def bennett(epsilon0, epsilon, n):
    p, E = mp.e ** mp.mpf(epsilon0), mp.e ** mp.mpf(epsilon)
    c, T, gamma = E - 1, p - E, 1 / p
    s, r = (1 + E**2) * (p + 1) - 4 * E, (1 + E**2) * p - 2 * E
    V = min(E * (p - 1) ** 2 + (E - 1) ** 2, s**2 / (4 * r))
    u = c * T / V
    phi = (1 + u) * mp.log(1 + u) - u
    power = (1 - gamma + gamma * mp.exp(-V * phi / T**2)) ** n
    return T / (gamma * n * mp.log(1 + u)) * power


@pytest.mark.parametrize(
    ("formula", "stated"),
    [(closed_forms.balle_2019_hoeffding, hoeffding), (closed_forms.balle_2019_bennett, bennett)],
)
def test_the_delta_of_the_blanket_is_the_one_asked_for(formula, stated):
    """At the returned epsilon the stated delta is small enough, and a thousandth below it is not."""
    answered = 0
    with mp.workdps(40):
        for epsilon0, n, delta in GRID:
            epsilon = formula(epsilon0=epsilon0, n=n, delta=delta)
            if epsilon >= epsilon0:
                continue
            answered += 1
            assert stated(epsilon0, epsilon, n) <= delta
            assert stated(epsilon0, epsilon * 0.999, n) > delta
    assert answered > 50
