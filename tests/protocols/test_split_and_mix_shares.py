"""Split and mix: brute force at tiny sizes, exact component counts, and the proof's own steps."""

import math
from collections import Counter
from fractions import Fraction
from itertools import permutations, product

import mpmath
import numpy as np
import pytest

from shuffledp import ParameterError, UnsupportedError
from shuffledp.numerics.intervals.laplace import SharedNoise
from shuffledp.protocols import split_and_mix as module
from shuffledp.protocols.split_and_mix import (
    find_shares,
    log2_distance,
    published_shares,
    secure_sum_delta,
)


def exact_log(x):
    """ln of a Fraction, with 40 digits."""
    with mpmath.workdps(40):
        return mpmath.log(mpmath.mpf(x.numerator) / x.denominator)


def view(inputs, m, q):
    """The exact law of the multiset of messages, as counts of each group element."""
    law = Counter({(0,) * q: Fraction(1)})
    for x in inputs:
        own = Counter()
        for drawn in product(range(q), repeat=m - 1):
            messages = (*drawn, (x - sum(drawn)) % q)
            own[tuple(messages.count(v) for v in range(q))] += Fraction(1, q ** (m - 1))
        mixed = Counter()
        for (seen, a), (new, b) in product(law.items(), own.items()):
            mixed[tuple(map(sum, zip(seen, new, strict=True)))] += a * b
        law = mixed
    return law


def worst_distance(n, m, q):
    laws = {}
    for inputs in product(range(q), repeat=n):
        if tuple(sorted(inputs)) == inputs:
            laws.setdefault(sum(inputs) % q, []).append(view(inputs, m, q))
    return max(
        sum(abs(a[o] - b[o]) for o in set(a) | set(b)) / 2
        for same in laws.values()
        for a in same
        for b in same
    )


@pytest.mark.parametrize(
    ("n", "m", "q", "worst", "bound"),
    [
        (2, 3, 2, 0.2500, 0.577),
        (3, 4, 2, 0.0664, 0.272),
        (3, 5, 3, 0.0271, 0.136),
        (3, 6, 2, 0.0092, 0.045),
    ],
)
def test_brute_force(n, m, q, worst, bound):
    exact = worst_distance(n, m, q)
    assert float(exact) == pytest.approx(worst, abs=5e-5)
    found = 2 ** log2_distance(n=n, m=m, q=q)
    assert exact <= found
    assert found == pytest.approx(bound, abs=5e-4)


@pytest.mark.parametrize(("n", "m", "q"), [(2, 2, 3), (2, 4, 3), (4, 3, 2), (4, 4, 2)])
def test_brute_force_never_exceeds_the_bound(n, m, q):
    assert worst_distance(n, m, q) <= 2 ** log2_distance(n=n, m=m, q=q)


def components(n, M, matching):
    group = list(range(n))
    for out, into in enumerate(matching):
        a, b = group[out // M], group[into // M]
        group = [a if g == b else g for g in group]
    return len(set(group))


def exact_E(n, M, q):
    """n! [z^n] A(z)^q / (nM)!, A = sum (kM)! z^k / k!."""
    A = [Fraction(math.factorial(k * M), math.factorial(k)) for k in range(n + 1)]
    power = [Fraction(1)] + [Fraction(0)] * n
    for _ in range(q):
        power = [sum(power[i] * A[k - i] for i in range(k + 1)) for k in range(n + 1)]
    return power[n] * math.factorial(n) / math.factorial(n * M)


@pytest.mark.parametrize(("n", "M", "q"), [(2, 2, 2), (2, 3, 5), (3, 2, 3), (4, 1, 2), (6, 1, 3)])
def test_components_by_enumeration(n, M, q):
    stubs = n * M
    total = sum(q ** components(n, M, matching) for matching in permutations(range(stubs)))
    assert Fraction(total, math.factorial(stubs)) == exact_E(n, M, q)


@pytest.mark.parametrize("M", [1, 2, 3, 6])
@pytest.mark.parametrize("q", [2, 7, 64])
def test_the_recursion_is_an_upper_bound(M, q):
    log_E = module._table(M, q, 12)
    for n in range(1, 13):
        exact = exact_E(n, M, q)
        assert math.log(exact) <= log_E[n]
        if n > 1:
            excess = module._log_excess_full(n, M, q)
            assert math.log(exact / q - 1) <= excess
            if M == 6:  # two components cost q^2 - q, and the bound says q^2
                assert excess <= math.log(exact / q - 1) + math.log(q / (q - 1)) + 1e-2


@pytest.mark.parametrize("M", [2, 3, 5])
def test_steps_of_the_proof(M):
    """(a) and (b) of the module's text, as Fractions."""

    def g(N, j):
        return Fraction(math.comb(N, j), math.comb(N * M, j * M))

    def c(N, j):
        return Fraction(math.comb(N - 1, j), math.comb(N * M, j * M))

    for N in range(2, 25):
        log_g, error = module._log_g(N, M, N)
        assert error.max() < 1e-11
        for j in range(N + 1):
            assert abs(log_g[j] - exact_log(g(N, j))) <= error[j] + 1e-16
            if 0 < j < N:
                assert g(N, j) ** 2 <= g(N, j - 1) * g(N, j + 1)
                assert c(N + 1, j) <= c(N, j)
                assert (N + 1) * g(N + 1, j) <= N * g(N, j)
                assert c(N, N - j) == Fraction(j, N) * g(N, j)


class TestRounding:
    """What the module says of its rounding errors, against 40 digits."""

    def test_factorials(self):
        n = np.concatenate([np.arange(40), [1e3, 12_345, 999_983, 2e9, 1e13]]).astype(np.float64)
        found = module._log_factorial(n)
        with mpmath.workdps(40):
            for x, log in zip(n.tolist(), found.tolist(), strict=True):
                wrong = abs(log - mpmath.loggamma(mpmath.mpf(x) + 1))
                assert wrong <= 9 * 2**-53 * (x + 1) * mpmath.log(x + 2) + 4e-14

    @pytest.mark.parametrize(("N", "M", "top"), [(10**12, 7, 64), (10**6, 2, 3000), (500, 60, 499)])
    def test_ratios(self, N, M, top):
        log_g, error = module._log_g(N, M, top)
        with mpmath.workdps(40):

            def log_choose(a, b):
                return mpmath.loggamma(a + 1) - mpmath.loggamma(b + 1) - mpmath.loggamma(a - b + 1)

            for j in (1, 2, top // 2, top):
                exact = log_choose(mpmath.mpf(N), j) - log_choose(mpmath.mpf(N) * M, j * M)
                assert abs(log_g[j] - exact) <= error[j]
        assert error[64] < 1e-9

    @pytest.mark.parametrize(("n", "M", "q"), [(40, 5, 2**20), (80, 2, 97), (60, 9, 2**40)])
    def test_the_recursion(self, n, M, q):
        """(*) with 40 digits is just below the bound."""
        with mpmath.workdps(40):
            E = [mpmath.mpf(1)]
            for N in range(1, n + 1):
                c = [mpmath.mpf(math.comb(N - 1, j)) / math.comb(N * M, j * M) for j in range(1, N)]
                excess = mpmath.fdot(c, E[1:])
                E.append(q * (1 + excess))
            exact = mpmath.log(excess)
            assert exact <= module._log_excess_full(n, M, q) <= exact + 1e-9
            exact_tv = exact / 2 / mpmath.log(2)
            assert min(exact_tv, 0) <= log2_distance(n=n, m=M + 1, q=q)


@pytest.mark.parametrize(("M", "log2_q"), [(2, 12), (3, 20), (5, 35), (6, 40), (9, 64), (13, 100)])
def test_the_cap_covers_the_recursion(M, log2_q):
    """B from the generating function is above every E_j that the recursion gives."""
    q = 2**log2_q
    cap = module._Cap.find(M, q)
    log_E = module._table(M, q, 1900)
    assert cap.w < 1900
    assert log_E[cap.w + 1 :].max() <= cap.log_cap + math.log(q)
    log_v = [math.lgamma(j * M + 1) - math.lgamma(j + 1) for j in range(cap.w + 1)]
    for j in (1, cap.w // 2, cap.w):
        assert log_E[j] <= cap.exponent - log_v[j] - j * cap.log_z + 1e-4


@pytest.mark.parametrize(
    ("n", "M", "log2_q"), [(1500, 4, 20), (1999, 5, 30), (1999, 7, 50), (1200, 9, 64)]
)
def test_both_ways_agree(n, M, log2_q):
    full = module._log_excess_full(n, M, 2**log2_q)
    fast, _ = module._Cap.find(M, 2**log2_q).log_excess(n)
    assert full <= fast + 1e-6
    # The cap pays at most e^8 / n for E_N <= e^8 q instead of E_N ~ q.
    assert fast <= full + math.log1p(math.exp(8.1) / n)


@pytest.mark.parametrize(("n", "M", "log2_q"), [(130, 9, 11), (500, 9, 20), (1999, 9, 20)])
def test_small_tables_make_it_sharp(n, M, log2_q):
    full = module._log_excess_full(n, M, 2**log2_q)
    fast, sharp = module._Cap.find(M, 2**log2_q).log_excess(n)
    assert sharp
    assert full <= fast + 1e-6 <= full + 0.01


@pytest.mark.parametrize(
    ("n", "log2_q", "expected"),
    [
        (10**3, 20, (9, 10, 11)),
        (10**4, 25, (8, 9, 10)),
        (10**5, 30, (7, 8, 9)),
        (10**6, 35, (7, 7, 8)),
        (10**7, 40, (6, 7, 7)),
        (10**9, 50, (6, 6, 7)),
    ],
)
def test_shares(n, log2_q, expected):
    for distance, m in zip((1e-8, 1e-10, 1e-12), expected, strict=True):
        q = 2**log2_q
        assert find_shares(n=n, q=q, distance=distance) == m
        assert log2_distance(n=n, m=m, q=q) <= math.log2(distance)
        assert log2_distance(n=n, m=m - 1, q=q) > math.log2(distance)
        assert m <= published_shares(n=n, q=q, distance=distance) <= m + 3


def test_the_leading_term_alone_is_no_bound():
    """All users may be apart: at n = 1173 that outweighs everything although q n / C(nM, M) is small."""
    n, M, q = 1173, 13, 2**130
    leading = math.log(q) + float(module._log_g(n, M, 1)[0][1])
    assert leading / math.log(4) < -3.9
    all_apart = n * math.log(q) + n * math.lgamma(M + 1) - math.lgamma(n * M + 1) - math.log(q)
    full = module._log_excess_full(n, M, q)
    assert all_apart <= full
    assert full / math.log(4) == pytest.approx(304.686, abs=1e-3)
    assert log2_distance(n=n, m=M + 1, q=q) == 0.0


def test_monotone_and_extremes():
    values = [log2_distance(n=10**6, m=m, q=2**20) for m in range(3, 12)]
    assert values == sorted(values, reverse=True)
    assert log2_distance(n=10**12, m=6, q=2**64) < -40
    assert log2_distance(n=2, m=2, q=2) == 0.0
    assert log2_distance(n=10**9, m=3, q=2**64) == 0.0
    assert find_shares(n=2, q=2, distance=1e-3) > 8


def test_bad_parameters():
    for bad in ({"n": 1, "m": 3, "q": 2}, {"n": 5, "m": 1, "q": 2}, {"n": 5, "m": 3, "q": 1}):
        with pytest.raises(ParameterError):
            log2_distance(**bad)
    with pytest.raises(ParameterError, match="distance"):
        find_shares(n=10, q=2, distance=0.0)
    with pytest.raises(UnsupportedError, match="19"):
        published_shares(n=18, q=2, distance=0.1)
    with pytest.raises(ParameterError, match="delta0"):
        secure_sum_delta(delta0=-0.1, epsilon=1.0, log2_tv=-10.0)


def test_from_secure_sum_to_privacy():
    assert secure_sum_delta(delta0=1e-9, epsilon=0.5, log2_tv=-40.0) == pytest.approx(
        1e-9 + (1 + math.exp(0.5)) * 2**-40
    )
    assert secure_sum_delta(delta0=0.0, epsilon=1e4, log2_tv=-1000.0) == 1.0
    # A view within tv of laws with ratio e^epsilon, both ends moved by tv: the bound is attained.
    P, Q, tv, E = np.array([0.5, 0.5]), np.array([0.25, 0.75]), 0.1, 2.0
    moved_P, moved_Q = P + np.array([tv, -tv]), Q - np.array([tv, -tv])
    divergence = np.maximum(moved_P - E * moved_Q, 0).sum()
    assert divergence == pytest.approx((1 + E) * tv)
    assert divergence <= secure_sum_delta(delta0=0.0, epsilon=math.log(E), log2_tv=math.log2(tv))


@pytest.mark.parametrize(
    ("n", "q", "distance", "shares"),
    [(19, 2**20, 1e-6, 24), (100, 8, 1e-9, 15), (10**6, 2**35, 1e-10, 8), (10**9, 2, 0.5, 3)],
)
def test_published_shares_are_those_of_the_formula(n, q, distance, shares):
    """The smallest m >= 3 with m >= 2 + (2 sigma + log2 q) / log2(n / e), from 19 people on."""
    assert published_shares(n=n, q=q, distance=distance) == shares
    with pytest.raises(UnsupportedError, match=r"^n=18 is outside the theorem: n >= 19$"):
        published_shares(n=18, q=q, distance=distance)


@pytest.mark.parametrize("reach", [1, 64])
@pytest.mark.parametrize("honest", [0.5, 1.0])
def test_sums_do_not_wrap_around_and_the_modulus_is_the_smallest(honest, reach):
    """The modulus is above the largest sum and the noise on both sides of it: seen where that just passes a power of two."""

    def make(n):
        return module.make(
            n=n, lower=0, upper=reach, epsilon=1.0, delta=1e-6, wrap=1e-9, honest=honest
        ).randomizer

    n = 2**13 // reach
    first = make(n)
    noise = SharedNoise(rate=first.noise.rate, shape=Fraction(n, round(honest * n)))
    room = 2 * noise.radius(Fraction(1e-9))
    for people in (n, n - room // reach - 1):
        device = make(people)
        assert device.modulus > people * reach + room >= device.modulus // 2
