"""The largest loss of a total: against exact fractions, published figures and mutants."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from shuffledp import ParameterError
from shuffledp.accounting import pure_total
from shuffledp.accounting.pure_total import MirroredTotal


def laplace(d, s, p, bits=64):
    """Shares of g0 of the pure-privacy count: d messages, decay s, probability p of noise."""
    mass = np.exp(-s * np.abs(np.arange(d + 1) - d / 2))
    half = [max(1, round(p * float(m) * 2**bits)) for m in (mass / mass.sum())[: (d + 1) // 2]]
    shares = [*half, *reversed(half)]
    shares[d // 2] += 2**bits - sum(shares)
    return tuple(shares)


def exact_loss(shares, ones, zeros):
    """The same by convolution of integers, and one logarithm."""
    h = [1]
    for law, count in ((shares, zeros), (shares[::-1], ones)):
        for _ in range(count):
            h = convolve(h, law)
    up, down = convolve(h, shares[::-1]), convolve(h, shares)
    worst = max(max(Fraction(a, b), Fraction(b, a)) for a, b in zip(up, down, strict=True))
    return math.log(worst)


def convolve(a, b):
    result = [0] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            result[i + j] += x * y
    return result


@pytest.mark.parametrize(
    ("ones", "zeros", "loss"), [(0, 5, 0.8620620992), (2, 3, 0.6676389249), (5, 0, 0.8620620992)]
)
def test_reference_values(ones, zeros, loss):
    total = MirroredTotal(shares=laplace(5, 0.7, 0.3))
    assert total.loss(ones, zeros) == pytest.approx(loss, abs=1e-9)


def test_all_equal_is_not_the_worst_case():
    total = MirroredTotal(shares=laplace(3, 0.853, 0.635))
    losses = [total.loss(k, 2 - k) for k in range(3)]
    assert losses[1] > max(losses[0], losses[2]) * 1.03
    assert total.largest_loss(3) >= losses[1]
    assert not total.stays_within((losses[0] + losses[1]) / 2, 3)
    assert total.stays_within(losses[1], 3)


@pytest.mark.parametrize(
    ("ones", "zeros"), [(0, 0), (1, 0), (3, 5), (0, 12), (0, 13), (9, 16), (2, 38)]
)
@pytest.mark.parametrize("law", [(3, 0.9, 0.2), (7, 0.9, 0.1), (5, 2.5, 0.02)])
def test_upper_bound_is_close_to_the_exact_loss(law, ones, zeros):
    """Both ways of computing it: one by one up to 12 others, tilted transforms beyond."""
    shares = laplace(*law, bits=20)
    exact = exact_loss(shares, ones, zeros)
    bound = MirroredTotal(shares=shares).loss(ones, zeros)
    assert exact <= bound <= exact * (1 + 1e-5) + 1e-9


def test_laws_without_shape():
    """Nothing in the computation asks for Laplace noise."""
    shares = (3, 1, 90, 1, 7, 2)
    total = MirroredTotal(shares=shares)
    for ones, zeros in ((0, 20), (10, 10), (20, 0)):
        exact = exact_loss(shares, ones, zeros)
        assert exact <= total.loss(ones, zeros) <= exact * (1 + 1e-5)


def test_loss_falls_in_both_arguments():
    total = MirroredTotal(shares=laplace(9, 0.9, 0.05))
    for ones, zeros in ((0, 20), (5, 30), (20, 20)):
        here = total.loss(ones, zeros)
        assert total.loss(ones + 1, zeros) <= here * (1 + 1e-5)
        assert total.loss(ones, zeros + 1) <= here * (1 + 1e-5)


def test_cells_cover_every_data_set():
    total = MirroredTotal(shares=laplace(9, 0.9, 0.06))
    every = max(total.loss(k, 49 - k) for k in range(50))
    assert every <= total.largest_loss(50) <= every * 1.011
    assert total.stays_within(every * 1.001, 50)
    assert not total.stays_within(every * 0.999, 50)


@pytest.mark.parametrize(
    ("n", "epsilon", "d", "s", "noisy"),
    [(100, 1.0, 15, 0.95, 2.5), (300, 2.0, 13, 1.8, 2.0)],
)
def test_published_parameters_are_pure(n, epsilon, d, s, noisy):
    assert MirroredTotal(shares=laplace(d, s, noisy / n)).stays_within(epsilon, n)


def test_too_little_noise_is_refused():
    assert not MirroredTotal(shares=laplace(15, 0.95, 2.3 / 100)).stays_within(1.0, 100)
    assert not MirroredTotal(shares=laplace(9, 0.95, 2.5 / 100)).stays_within(1.0, 100)


def test_unlikely_totals_count():
    """A mutant that looks at likely totals only would call this private."""
    shares = laplace(11, 0.9, 4 / 300)
    pair = pure_total._Tilted(g0=pure_total._logs(shares), ones=0, zeros=299)
    seen = pair._bound_losses(np.array([0.0]), pair._moments(np.array([0.0]))[1])
    likely = float(seen[np.isfinite(seen)].max())
    assert likely < 0.9 < 1.1 < MirroredTotal(shares=shares).loss(0, 299)


@pytest.mark.parametrize("N", [64, 1024, 1 << 17])
def test_roots_of_unity_are_within_four_units(N):
    """What the proof assumes of NumPy: the transform of a unit vector shows its roots."""
    k = np.arange(N // 2 + 1)
    for place in (1, 3, N // 2 - 1):
        found = np.fft.rfft(np.eye(1, N, place)[0])
        some = np.unique(np.concatenate([k[:40], k[-40:], np.random.default_rng(1).choice(k, 60)]))
        for frequency in some.tolist():
            with mpmath.workdps(30):
                exact = mpmath.expjpi(-2 * mpmath.mpf(place * frequency % N) / N)
                off = abs(mpmath.mpc(complex(found[frequency])) - exact)
            # The root itself, and what passing log2(N) levels adds.
            assert off <= (4 + 3.3 * math.log2(N)) * 2.0**-53
            if place == 1:
                assert off <= 4 * 2.0**-53


@pytest.mark.parametrize("N", [64, 4096])
def test_transforms_are_within_their_bound(N):
    rng = np.random.default_rng(2)
    q = rng.exponential(size=15)
    q /= q.sum()
    found = np.fft.rfft(q, N)
    with mpmath.workdps(30):
        for k in (0, 1, 5, N // 4, N // 2 - 1):
            exact = mpmath.fsum(
                mpmath.mpf(x) * mpmath.expjpi(-2 * mpmath.mpf(j * k % N) / N)
                for j, x in enumerate(q.tolist())
            )
            off = abs(mpmath.mpc(complex(found[k])) - exact)
            assert off <= pure_total._LEVEL * math.log2(N) * 2.0**-53


def test_convolved_probabilities_are_within_their_error():
    """Against integers: the sum of 30 users, tilted, at every total."""
    shares, ones, zeros = laplace(7, 0.9, 0.1, bits=20), 9, 20
    pair = pure_total._Tilted(g0=pure_total._logs(shares), ones=ones, zeros=zeros)
    h = [1]
    for law, count in ((shares, zeros), (shares[::-1], ones)):
        for _ in range(count):
            h = convolve(h, law)
    total, N = [Fraction(x, sum(shares) ** 30) for x in convolve(h, shares)], 256
    (q0, _), (q1, _) = pair.law(pair.g0, np.zeros(1)), pair.law(pair.g0[::-1], np.zeros(1))
    Q0, Q1 = np.fft.rfft(q0, N), np.fft.rfft(q1, N)
    found = np.fft.irfft(pure_total._powers(Q0, zeros, Q1, ones) * Q0, N)[0]
    error = float(pair._error(np.maximum(np.abs(Q0), np.abs(Q1)), N)[0])
    off = max(abs(float(Fraction(x) - y)) for x, y in zip(found.tolist(), total, strict=False))
    assert off <= error < 1e-11
    assert error < 2000 * off  # and it is no fantasy


@pytest.mark.parametrize("shares", [(), (3,), (1, 0, 2), (1, -1)])
def test_bad_shares(shares):
    with pytest.raises(ParameterError, match="shares"):
        MirroredTotal(shares=shares)


@pytest.mark.parametrize("N", [32, 64, 128])
def test_what_wraps_around_is_not_taken_for_a_small_loss(N):
    """Transforms that are too short for the law: every bound of a loss that they give is one."""
    shares, ones, zeros = laplace(7, 0.4, 0.8, bits=20), 9, 20
    pair = pure_total._Tilted(g0=pure_total._logs(shares), ones=ones, zeros=zeros)
    h = [1]
    for law, count in ((shares, zeros), (shares[::-1], ones)):
        for _ in range(count):
            h = convolve(h, law)
    up, down = convolve(h, shares[::-1]), convolve(h, shares)
    exact = np.array([abs(math.log(Fraction(a, b))) for a, b in zip(up, down, strict=True)])
    best = np.full(len(exact), math.inf)
    pair._look(np.linspace(-1.0, 1.0, 9), N, best)
    assert np.all(best >= exact)
    assert np.isfinite(best).any() == (N == 128)


def test_chernoffs_bound_is_one():
    """What may wrap around is at least what lies so far out, under every tilt."""
    shares, ones, zeros, N = laplace(3, 2.0, 0.02, bits=40), 60, 90, 64
    pair = pure_total._Tilted(g0=pure_total._logs(shares), ones=ones, zeros=zeros)
    thetas = np.linspace(-3.0, 3.0, 7)
    found = pair._bound_wrapping(thetas, N)
    reach = N / 2 - pair.d - 2
    centre = pair._moments(thetas)[0]
    for theta, mean, bound in zip(thetas, centre, found, strict=True):
        (q0, _), (q1, _) = (pair.law(g, np.array([theta])) for g in (pair.g0, pair.g0[::-1]))
        h = np.ones(1)
        for law, count in ((q0[0], zeros), (q1[0], ones)):
            for _ in range(count):
                h = np.convolve(h, law)
        far = np.abs(np.arange(len(h)) - mean) > reach
        assert h[far].sum() <= bound
    assert found.min() < 1e-9  # and not just 1


def test_transforms_are_as_short_as_the_law():
    """At a large epsilon hardly anybody sends noise: the total is like a Poisson number, and few places matter."""
    shares, users, reach = laplace(3, 0.7 * 10.3, 0.32 / 14289, bits=64), 14289, 1.3 * 10.3
    pair = pure_total._Tilted(g0=pure_total._logs(shares), ones=0, zeros=users - 1)
    thetas = np.linspace(-reach, reach, 14)
    spread = pair._moments(thetas)[1]
    narrow = spread < 40
    assert pair._lengths(thetas[narrow], spread[narrow]).max() <= 4096


def test_a_search_sees_what_a_proof_refuses():
    enough, little = laplace(9, 0.8, 0.3, bits=20), laplace(9, 0.8, 0.01, bits=20)
    assert MirroredTotal(shares=enough).seems_within(1.0, 30, 1.3)
    assert MirroredTotal(shares=enough).stays_within(1.05, 30)
    assert not MirroredTotal(shares=little).seems_within(1.0, 30, 1.3)
    assert not MirroredTotal(shares=little).stays_within(1.0, 30)
