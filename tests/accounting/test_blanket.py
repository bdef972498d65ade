"""The privacy blanket: invariants, vectors, agreement of its evaluations, and the exact oracle."""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from accounting.channels import RATIOS, extremal_channel, krr, random_channel
from shuffledp.accounting import positive_part as module
from shuffledp.accounting.amplify import profile
from shuffledp.accounting.base import find_deltas
from shuffledp.accounting.blanket import (
    Blanket,
    BlanketProfile,
    _round_excess,
    generic_blanket,
    law_blankets,
)
from shuffledp.accounting.clones import clones_2023
from shuffledp.accounting.exact import local_ratio, shuffled_delta
from shuffledp.core.domain import Categories
from shuffledp.core.errors import ParameterError
from shuffledp.core.randomizer import Law
from shuffledp.numerics.rounding import UNIT, exp_upper
from shuffledp.protocols.krr import KRR

F = Fraction


@dataclass(frozen=True)
class Table:
    """A randomizer that is nothing but its laws."""

    laws: list[Law]

    @property
    def domain(self) -> Categories:
        return Categories(k=len(self.laws))

    def pmf(self, x: int) -> Law:
        return self.laws[x]


def exact_sum(blanket: Blanket, epsilon: float, n: int) -> float:
    """E[(G_1 + ... + G_n)_+] / n by listing how often each atom comes up."""
    masses = [*blanket.mass, 1 - blanket.gamma]
    E = math.exp(epsilon)
    gains = [a - E * b for a, b in zip(blanket.first, blanket.second, strict=True)] + [0.0]

    def expand(atom: int, left: int, weight: float, total: float) -> float:
        if atom == len(masses) - 1:
            return weight * masses[atom] ** left * max(0.0, total)
        return math.fsum(
            expand(
                atom + 1,
                left - c,
                weight * math.comb(left, c) * masses[atom] ** c,
                total + c * gains[atom],
            )
            for c in range(left + 1)
        )

    return expand(0, n, 1.0, 0.0) / n


def table_delta(laws: list[Law], n: int, E: Fraction) -> float:
    return max(b.delta(math.log(E), n) for b in law_blankets(Table(laws)))


def with_zeros(rng: np.random.Generator) -> list[Law]:
    """A channel where some inputs never send some messages: no finite epsilon0."""
    inputs, outputs = int(rng.integers(2, 4)), int(rng.integers(2, 5))
    laws = []
    for _ in range(inputs):
        row = rng.integers(0, 6, outputs) * (rng.random(outputs) < 0.7)
        row[int(rng.integers(outputs))] += 1
        laws.append({(y,): F(int(c), int(row.sum())) for y, c in enumerate(row)})
    return laws


@pytest.mark.parametrize("epsilon0", [0.01, 1.0, 4.0, 12.0])
def test_invariants_of_the_law_of_gains(epsilon0):
    largest = math.tanh(epsilon0 / 2)
    for tv in (None, largest, largest / 2, largest / 1000):
        blanket = generic_blanket(epsilon0=epsilon0, total_variation=tv)
        assert blanket.gamma <= 1
        for epsilon in (0.0, epsilon0 / 3, epsilon0):
            mean = math.fsum(
                w * g for w, g in zip(blanket.mass, blanket.gains(epsilon), strict=True)
            )
            assert mean == pytest.approx(1 - math.exp(epsilon), rel=1e-9, abs=1e-12)


def test_a_blanket_that_is_no_law_is_refused():
    with pytest.raises(ParameterError, match="mass"):
        Blanket(mass=(0.7, 0.6), first=(1.0, 1.0), second=(1.0, 1.0))
    with pytest.raises(ParameterError, match="first"):
        Blanket(mass=(0.5,), first=(1.0,), second=(2.0,))
    with pytest.raises(ParameterError, match="total_variation"):
        generic_blanket(epsilon0=1.0, total_variation=0.5)


@pytest.mark.parametrize(
    ("n", "k", "epsilon0", "epsilon", "delta"),
    [(60, 3, 1.5, 0.5, 2.94051249855e-3), (40, 5, 2.0, 0.8, 8.11889048115e-3)],
)
def test_vectors_of_k_ary_randomized_response(n, k, epsilon0, epsilon, delta):
    (blanket,) = law_blankets(KRR(k=k, epsilon0=epsilon0))
    assert exact_sum(blanket, epsilon, n) == pytest.approx(delta, rel=1e-10)
    found = blanket.delta(epsilon, n)
    assert delta <= found <= 1.002 * delta


@pytest.mark.parametrize(("n", "epsilon"), [(10**3, 0.27278), (10**6, 0.0065967)])
def test_ten_ary_randomized_response(n, epsilon):
    profile = BlanketProfile(blankets=law_blankets(KRR(k=10, epsilon0=2.0)), n=n, epsilon0=2.0)
    assert profile.epsilon(1e-6) == pytest.approx(epsilon, rel=1e-3)


@pytest.mark.parametrize("n", [10**3, 10**5, 10**7, 10**9, 10**12])
@pytest.mark.parametrize("epsilon0", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-6, 1e-20])
def test_the_two_point_law_agrees_with_the_clones(n, epsilon0, delta):
    profile = BlanketProfile(blankets=(generic_blanket(epsilon0=epsilon0),), n=n, epsilon0=epsilon0)
    clones = clones_2023(epsilon0=epsilon0, n=n)
    assert profile.epsilon(delta) == pytest.approx(clones.epsilon(delta), rel=1e-3)
    assert profile.delta(profile.epsilon(delta)) <= delta
    assert profile.delta(clones.epsilon(delta)) >= clones.delta_lower(clones.epsilon(delta))


@pytest.mark.parametrize("n", [10**5, 10**7])
@pytest.mark.parametrize("name", ["two points", "three points", "10-RR"])
def test_fourier_and_normal_agree(n, name):
    blanket = {
        "two points": generic_blanket(epsilon0=1.0),
        "three points": generic_blanket(epsilon0=1.0, total_variation=0.2),
        "10-RR": law_blankets(KRR(k=10, epsilon0=2.0))[0],
    }[name]
    sd = math.sqrt(float(np.dot(blanket.mass, blanket.gains(0.0) ** 2)) / n)
    for deviation in (1.0, 4.0, 7.0):
        w, g = np.array(blanket.mass), blanket.gains(deviation * sd)
        tilt = module._Tilt.solve(w[None], g[None], n, 1)
        main, error = module._bound_by_normal(tilt.take(0))
        split = module._bound_by_fourier(tilt)[0][0] / main - 1
        # Splitting atoms adds variance; that grows delta by its deviation^2-th multiple.
        assert -error / main <= split <= error / main + module._ADDED_VARIANCE * deviation**2
        # and an error of delta moves epsilon by its deviation^2-th part: here less than 0.1 %.
        assert abs(split) <= 1e-3 * deviation**2


def test_many_epsilons_are_as_good_as_one():
    """A row whose tilt is found early waits for the others."""
    krr = KRR(k=10, epsilon0=4.391542087193253)
    profile = BlanketProfile(blankets=krr.blankets(), n=6940, epsilon0=krr.epsilon0)
    epsilons = np.array([0.0, 0.3, 1.04424768, 1.04714166, 1.06276911, 1.21904367, 4.0, 4.5])
    each = [profile.delta(epsilon) for epsilon in epsilons.tolist()]
    assert profile.deltas(epsilons).tolist() == pytest.approx(each, rel=1e-9)
    assert each == sorted(each, reverse=True)


@pytest.mark.parametrize(
    "curve",
    [
        clones_2023(epsilon0=1.0, n=10**6),
        BlanketProfile(blankets=(generic_blanket(epsilon0=1.0),), n=10**6, epsilon0=1.0),
    ],
)
def test_curves_that_find_many_deltas_are_asked_for_all_at_once(curve, monkeypatch):
    """A composition asks for hundreds of points: one by one they would take most of its time."""
    asked = []
    deltas = type(curve).deltas
    monkeypatch.setattr(
        type(curve),
        "deltas",
        lambda self, points: asked.append(len(points)) or deltas(self, points),
    )
    find_deltas(curve, np.linspace(0.001, 0.5, 50))
    assert asked == [50]


def test_upper_bound_of_the_exact_sum():
    rng = np.random.default_rng(11)
    for index in range(150):
        laws = random_channel(rng, RATIOS[index % len(RATIOS)])
        blanket = law_blankets(Table(laws))[0]
        epsilon = float(rng.random()) * math.log(float(local_ratio(laws)))
        n = int(rng.integers(1, 7))
        exact = exact_sum(blanket, epsilon, n)
        found = blanket.delta(epsilon, n)
        assert found >= exact * (1 - 1e-9)
        assert found <= exact * 1.01 + 1e-9


def test_upper_bound_of_the_shuffled_view():
    rng = np.random.default_rng(12)
    for index in range(400):
        p = RATIOS[index % len(RATIOS)]
        laws = random_channel(rng, p) if index % 2 else extremal_channel(rng, p)
        n = int(rng.integers(1, 5))
        E = 1 + (p - 1) * F(int(rng.integers(0, 30)), 30)
        assert float(shuffled_delta(laws, n, E)) <= table_delta(laws, n, E)


def test_upper_bound_where_messages_give_inputs_away():
    rng = np.random.default_rng(13)
    bare = 0
    for _ in range(400):
        laws = with_zeros(rng)
        n = int(rng.integers(1, 5))
        E = 1 + F(int(rng.integers(0, 30)), 10)
        bare += any(blanket.bare for blanket in law_blankets(Table(laws)))
        assert float(shuffled_delta(laws, n, E)) <= table_delta(laws, n, E)
    assert bare > 100


def test_dropping_the_bare_atoms_would_be_wrong():
    laws = [{(0,): F(1, 2), (1,): F(1, 2)}, {(1,): F(1, 2), (2,): F(1, 2)}]
    blanket = law_blankets(Table(laws))[0]
    assert blanket.bare == ((0.0, 0.5), (0.5, 0.0))
    assert table_delta(laws, 3, F(2)) >= shuffled_delta(laws, 3, F(2)) >= F(1, 2)


def test_no_common_message_at_all():
    laws = [{(0,): F(1)}, {(1,): F(1)}]
    assert table_delta(laws, 3, F(2)) == 1.0


def total_variation(laws: list[Law]) -> Fraction:
    return max(
        sum((max(F(0), q - b.get(y, F(0))) for y, q in a.items()), F(0))
        for a, b in permutations(laws, 2)
    )


@pytest.mark.parametrize("epsilon0", [20.0, 27.5, 28.0, 40.0, 300.0])
def test_a_total_variation_counts_however_large_epsilon0_is(epsilon0):
    """Of one person it is known: tv (p - E) / (p - 1). What is left for the third atom is below 1 / p."""
    tv, ahead = 0.01, 1.0
    blanket = generic_blanket(epsilon0=epsilon0, total_variation=tv)
    known = tv * -math.expm1(-ahead) / -math.expm1(-epsilon0)
    for n in (1, 1000):
        assert known * (1 - 1e-14) <= blanket.delta(epsilon0 - ahead, n) <= known * (1 + 1e-9)
    curve = profile(epsilon0=epsilon0, total_variation=tv, n=1000)
    assert curve.epsilon(1.001 * tv) == 0.0


def test_the_refined_blanket_dominates_channels_of_that_total_variation():
    rng = np.random.default_rng(14)
    closest = 0.0
    for index in range(500):
        p = RATIOS[index % len(RATIOS)]
        laws = random_channel(rng, p) if index % 2 else extremal_channel(rng, p)
        p, tv = local_ratio(laws), total_variation(laws)
        if tv == 0:
            continue
        n = int(rng.integers(1, 5))
        E = 1 + (p - 1) * F(int(rng.integers(0, 30)), 30)
        blanket = generic_blanket(epsilon0=math.log(p), total_variation=float(tv))
        bound = blanket.delta(math.log(E), n)
        exact = float(shuffled_delta(laws, n, E))
        assert exact <= bound * (1 + 1e-9)
        assert bound <= generic_blanket(epsilon0=math.log(p)).delta(math.log(E), n) * 1.01
        closest = max(closest, exact / bound)
    assert closest > 0.9


def test_the_refined_blanket_of_a_smaller_total_variation_would_be_wrong():
    p, n = F(3), 3
    tv = float(total_variation(krr(2, p)))
    blanket = generic_blanket(epsilon0=math.log(p), total_variation=0.9 * tv)
    deltas = [shuffled_delta(krr(2, p), n, 1 + (p - 1) * F(i, 30)) for i in range(1, 30)]
    bounds = [blanket.delta(math.log(1 + 2 * i / 30), n) for i in range(1, 30)]
    assert any(float(d) > b for d, b in zip(deltas, bounds, strict=True))


def test_both_directions():
    laws = [{(0,): F(1, 2), (1,): F(1, 2)}, {(0,): F(9, 10), (1,): F(1, 10)}]
    there, back = law_blankets(Table(laws))
    for epsilon in (0.3, 0.65):
        assert there.swap().delta(epsilon, 5) == pytest.approx(back.delta(epsilon, 5), rel=1e-3)
    # No message is e^0.65 times as likely under the second law: one direction alone is exposed.
    assert there.delta(0.65, 5) > 0 == back.delta(0.65, 5)


@pytest.mark.parametrize("epsilon0", [0.01, 1.0, 12.0])
@pytest.mark.parametrize("n", [1, 2, 50, 3000, 10**6, 10**12])
def test_the_returned_epsilon_is_safe(n, epsilon0):
    blanket = generic_blanket(epsilon0=epsilon0, total_variation=math.tanh(epsilon0 / 2) / 3)
    profile = BlanketProfile(blankets=(blanket,), n=n, epsilon0=epsilon0)
    for delta in (1e-2, 1e-6, 1e-30, 1e-300):
        epsilon = profile.epsilon(delta)
        assert 0 <= epsilon <= epsilon0
        assert profile.delta(epsilon) <= delta


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("share", [0.5, 0.99, 0.9995, 0.99999])
def test_up_to_the_local_epsilon_the_curve_is_above_the_exact_one(n, share):
    """Just below epsilon0 delta is small and not 0."""
    device = KRR(k=3, epsilon0=1.0, word_bits=16)
    laws = [device.pmf(x) for x in range(3)]
    epsilon = share * math.log(local_ratio(laws))
    profile = BlanketProfile(blankets=device.blankets(), n=n, epsilon0=1.0)
    exact = shuffled_delta(laws, n, exp_upper(epsilon))
    assert 0 < exact <= Fraction(profile.delta(epsilon))


def test_nearly_all_of_the_view_is_told_apart_at_most_by_what_is_left():
    """Tiny deltas agree with those of the clones, which are computed in another way."""
    for delta in (1e-150, 1e-290):
        curve = BlanketProfile(blankets=(generic_blanket(epsilon0=1.0),), n=10**5, epsilon0=1.0)
        clones = clones_2023(epsilon0=1.0, n=10**5)
        assert curve.epsilon(delta) == pytest.approx(clones.epsilon(delta), rel=1e-3)
        assert curve.delta(curve.epsilon(delta)) >= clones.delta_lower(curve.epsilon(delta))


def test_more_masses_round_more():
    """What is added for rounding grows with the sums that are rounded, and with what they add."""
    few, many = (Blanket(mass=(0.5 / k,) * k, first=(2.0,) * k, second=(2.0,) * k) for k in (2, 64))
    small, large = (_round_excess(each, 1.0) for each in (few, many))
    assert large > small > 2 * 128 * UNIT * (1 + math.e)
    assert _round_excess(few, 2.0) > small
