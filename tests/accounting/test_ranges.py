"""The ranges of what laws and bounds are given: the last value that is taken, and the whole error of the first that is not."""

from fractions import Fraction

import pytest

from shuffledp.accounting import (
    amplify,
    binary,
    blanket,
    clones,
    closed_forms,
    correlated,
    moved_message,
    noisy_count,
    pure_total,
    rules,
    server_noise,
)
from shuffledp.core.errors import ParameterError
from shuffledp.core.privacy import Guarantee, Model
from shuffledp.numerics.tabulated import MOST_STEPS, CutLaplace

F, HALF, TINY = Fraction, Fraction(1, 2), Fraction(1, 10**30)
CUT = CutLaplace(rate=0.5, most=36)
MOVED = server_noise.Moved(moves=2)
GENERIC = blanket.generic_blanket(epsilon0=1.0)
FLOOD = correlated.NegativeBinomialFlood(r=12.0, p=0.9)
ALONE = Guarantee(epsilon=0.5, delta=0.0, model=Model.CENTRAL, proof="some mechanism")


def row(make, name, requirement, *pairs):
    """A range: how values enter, and pairs of the last good and the first bad value."""
    return [(make, name, requirement, good, bad) for good, bad in pairs]


BITS = {"n": 5, "flip": F(1, 4)}
RANGES = [
    *row(lambda n: binary.BinaryResponse(n=n, flip=F(1, 4)), "n", "must be >= 1", (1, 0)),
    *row(
        lambda n: binary.BinaryResponse(n=n, flip=F(1, 4)),
        "n",
        "must be <= 4503599627370496",
        (2**52, 2**52 + 1),
    ),
    *row(
        lambda ones: binary.BinaryResponse(**BITS).directions_at(ones, 0, 0.1),
        "ones",
        "must be >= 0",
        (0, -1),
    ),
    *row(
        lambda ones: binary.BinaryResponse(**BITS).directions_at(ones, 0, 0.1),
        "ones",
        "must be <= 4",
        (4, 5),
    ),
    *row(
        lambda zeros: binary.BinaryResponse(**BITS).directions_at(1, zeros, 0.1),
        "zeros",
        "must be >= 0",
        (0, -1),
    ),
    *row(
        lambda zeros: binary.BinaryResponse(**BITS).directions_at(1, zeros, 0.1),
        "zeros",
        "must be <= 3",
        (3, 4),
    ),
    *row(
        lambda n: blanket.BlanketProfile(blankets=(GENERIC,), n=n, epsilon0=1.0),
        "n",
        "must be >= 1",
        (1, 0),
    ),
    *row(lambda n: clones.clones_2023(epsilon0=1.0, n=n), "n", "must be >= 1", (1, 0)),
    *row(
        lambda n: clones.ApproximateClones(epsilon0=1.0, delta0=1e-3, n=n),
        "n",
        "must be >= 1",
        (1, 0),
    ),
    *row(
        lambda n: closed_forms.balle_2019_hoeffding(epsilon0=1.0, n=n, delta=0.1),
        "n",
        "must be >= 1",
        (1, 0),
    ),
    *row(lambda n: moved_message.BinomialTotal(n=n, p=HALF), "n", "must be >= 1", (1, 0)),
    *row(
        lambda p: moved_message.BinomialTotal(n=3, p=p),
        "p",
        "must be > 0 and <= 1",
        (TINY, F(0)),
        (F(1), 1 + TINY),
    ),
    *row(
        lambda n: moved_message.IndependentBins(n=n, gamma=HALF),
        "n",
        "must be >= 1",
        (1, 0),
    ),
    *row(
        lambda n: moved_message.IndependentBins(n=n, gamma=HALF),
        "n",
        "must be <= 1000000000000",
        (10**12, 10**12 + 1),
    ),
    *row(
        lambda gamma: moved_message.IndependentBins(n=3, gamma=gamma),
        "gamma",
        "must be > 0 and < 1",
        (TINY, F(0)),
        (1 - TINY, F(1)),
    ),
    *row(
        lambda rho: moved_message.dummies(n=3, rho=rho, pair=F(1, 9)),
        "rho",
        "must be > 0",
        (TINY, F(0)),
    ),
    *row(
        lambda pair: moved_message.dummies(n=3, rho=F(2), pair=pair),
        "pair",
        "must be > 0 and <= 1",
        (TINY, F(0)),
        (F(1), 1 + TINY),
    ),
    *row(lambda n: moved_message.dummies(n=n, rho=F(1), pair=F(1, 9)), "n", "must be >= 1", (1, 0)),
    *row(
        lambda place: moved_message.dummies_after(n=9, rho=F(1), pair=F(1, 9), place=place),
        "place",
        "must be >= 0",
        (0, -1),
    ),
    *row(lambda mean: moved_message.PoissonTotal(mean=mean), "mean", "must be > 0", (1e-300, 0.0)),
    *row(
        lambda mean: moved_message.PoissonTotal(mean=mean),
        "mean",
        "must be <= 10^12",
        (1e12, 1e12 + 1),
    ),
    *row(lambda n: noisy_count.BinomialCount(n=n, gamma=HALF), "n", "must be >= 1", (1, 0)),
    *row(
        lambda n: noisy_count.BinomialCount(n=n, gamma=HALF),
        "n",
        "must be <= 4503599627370496",
        (2**52, 2**52 + 1),
    ),
    *row(
        lambda shift: noisy_count.BinomialCount(n=3, gamma=HALF, shift=shift),
        "shift",
        "must be >= 1",
        (1, 0),
    ),
    *row(
        lambda gamma: noisy_count.BinomialCount(n=3, gamma=gamma),
        "gamma",
        "must be > 0 and < 1",
        (TINY, F(0)),
        (1 - TINY, F(1)),
    ),
    *row(
        lambda shift: noisy_count.smoothness({0: HALF, 1: HALF}, 0.5, shift),
        "shift",
        "must be >= 1",
        (1, 0),
    ),
    *row(
        lambda epsilon: noisy_count.smoothness({0: HALF, 1: HALF}, epsilon),
        "epsilon",
        "must be >= 0",
        (0.0, -1e-300),
    ),
    *row(
        lambda gamma: noisy_count.binomial_smoothness(n=99, gamma=gamma, alpha=0.5),
        "gamma",
        "must be > 0 and <= 1/2",
        (0.5, 0.5000000000000001),
        (1e-300, 0.0),
    ),
    *row(
        lambda alpha: noisy_count.binomial_smoothness(n=99, gamma=0.5, alpha=alpha),
        "alpha",
        "must be > 0 and < 1",
        (1e-9, 0.0),
        (0.9999999999999999, 1.0),
    ),
    *row(
        lambda n: noisy_count.binomial_smoothness(n=n, gamma=0.5, alpha=0.5),
        "n",
        "must be >= 1",
        (1, 0),
    ),
    *row(
        lambda ones: pure_total.MirroredTotal(shares=(1, 2)).loss(ones, 1),
        "ones",
        "must be >= 0",
        (0, -1),
    ),
    *row(
        lambda zeros: pure_total.MirroredTotal(shares=(1, 2)).loss(1, zeros),
        "zeros",
        "must be >= 0",
        (0, -1),
    ),
    *row(lambda people: rules.group_privacy(ALONE, people), "people", "must be >= 1", (1, 0)),
    *row(
        lambda rounds: rules.compose_advanced(ALONE, rounds=rounds, slack=0.1),
        "rounds",
        "must be >= 1",
        (1, 0),
    ),
    *row(lambda moves: server_noise.Moved(moves=moves), "moves", "must be >= 1", (1, 0)),
    *row(lambda moves: server_noise.Moved(moves=moves), "moves", "must be <= 2", (2, 3)),
    *row(
        lambda weight: server_noise.Moved(moves=1, weight=weight),
        "weight",
        "must be > 0",
        (1e-300, 0.0),
    ),
    *row(
        lambda support: server_noise.Moved(moves=2, support=support),
        "support",
        "must be > 0 and < 1, of two moves",
        (TINY, F(0)),
        (1 - TINY, F(1)),
    ),
    *row(
        lambda q: server_noise.Moved(moves=2, p=HALF, q=q),
        "q",
        "must be >= 0 and below p <= 1",
        (F(0), -TINY),
        (HALF - TINY, HALF),
    ),
    *row(
        lambda moves: server_noise.AmongDummies(noise=CUT, moves=moves, p=HALF, q=F(1, 4)),
        "moves",
        "must be 1 or 2 with a floor",
        (2, 3),
    ),
    *row(
        lambda messages: server_noise.Scattered(messages=messages, support=HALF),
        "messages",
        "must be >= 1",
        (1, 0),
    ),
    *row(
        lambda support: server_noise.Scattered(messages=3, support=support),
        "support",
        "must be > 0 and < 1",
        (TINY, F(0)),
        (1 - TINY, F(1)),
    ),
    *row(
        lambda times: server_noise.bound_delta([MOVED], [CUT], epsilon=1.0, near=0.1, times=times),
        "times",
        "must be >= 1",
        (1, 0),
    ),
    *row(
        lambda times: server_noise.calibrate_noise([MOVED], epsilon=1.0, delta=0.1, times=times),
        "times",
        "must be >= 1",
        (1, 0),
    ),
    *row(lambda most: CutLaplace(rate=0.5, most=most), "most", "must be >= 1", (1, 0)),
    *row(
        lambda most: CutLaplace(rate=1e-3, most=most),
        "most",
        f"must be <= {MOST_STEPS}",
        (36, MOST_STEPS + 1),
    ),
    *row(
        lambda bits: CutLaplace(rate=0.5, most=1, word_bits=bits),
        "word_bits",
        "must be <= 64",
        (64, 65),
    ),
    *row(
        lambda epsilon0: clones.ApproximateClones(epsilon0=epsilon0, delta0=1e-3, n=9),
        "epsilon0",
        "must be > 0",
        (1e-300, 0.0),
    ),
    *row(
        lambda delta0: clones.ApproximateClones(epsilon0=1.0, delta0=delta0, n=9),
        "delta0",
        "must be >= 0 and < 1",
        (0.0, -1e-300),
        (0.9999999999999999, 1.0),
    ),
    *row(
        lambda epsilon0: clones.clones_2023(epsilon0=epsilon0, n=9),
        "epsilon0",
        "must be > 0",
        (1e-9, 0.0),
    ),
    *row(
        lambda star: correlated.CorrelatedNoise(epsilon_star=star, flood=FLOOD),
        "epsilon_star",
        "must be > 0",
        (1e-9, 0.0),
    ),
    *row(
        lambda star: correlated.ThinnedNoise(epsilon_star=star, share=0.5, flood=FLOOD),
        "epsilon_star",
        "must be > 0",
        (1e-9, 0.0),
    ),
    *row(
        lambda epsilon: amplify.calibrate(n=9, epsilon=epsilon, delta=0.0),
        "epsilon",
        "must be > 0",
        (1e-9, 0.0),
    ),
    *row(
        lambda epsilon: amplify.smallest_n(epsilon0=1.0, epsilon=epsilon, delta=0.1),
        "epsilon",
        "must be > 0",
        (1.0, 0.0),
    ),
    *row(
        lambda epsilon0: amplify.smallest_n(epsilon0=epsilon0, epsilon=1.0, delta=0.1),
        "epsilon0",
        "must be > 0",
        (1e-9, 0.0),
    ),
    *row(
        lambda epsilon: amplify.profile(epsilon0=1.0, n=9).delta(epsilon),
        "epsilon",
        "must be >= 0",
        (0.0, -1e-300),
    ),
    *row(
        lambda epsilon: binary.BinaryResponse(**BITS).delta(epsilon),
        "epsilon",
        "must be >= 0",
        (0.0, -1e-300),
    ),
    *row(
        lambda epsilon: server_noise.AmongDummies(noise=CUT, moves=1).delta(epsilon),
        "epsilon",
        "must be >= 0",
        (0.0, -1e-300),
    ),
    *row(
        lambda epsilon: correlated.CorrelatedNoise(epsilon_star=1.0, flood=FLOOD).delta(epsilon),
        "epsilon",
        "must be >= 0",
        (0.0, -1e-300),
    ),
    *row(
        lambda epsilon: moved_message.IndependentBins(n=9, gamma=HALF).delta(epsilon),
        "epsilon",
        "must be >= 0",
        (0.0, -1e-300),
    ),
    *row(
        lambda slack: rules.compose_advanced(ALONE, rounds=3, slack=slack),
        "slack",
        "must be > 0 and < 1",
        (1e-300, 0.0),
        (0.9999999999999999, 1.0),
    ),
    *row(
        lambda share: correlated.ThinnedNoise(epsilon_star=1.0, share=share, flood=FLOOD),
        "share",
        "must be > 0",
        (1e-9, 0.0),
    ),
]


@pytest.mark.parametrize("case", RANGES, ids=lambda case: f"{case[1]} {case[2]}, {case[4]}")
def test_a_range_ends_where_its_error_says(case):
    make, name, requirement, good, bad = case
    make(good)
    with pytest.raises(ParameterError) as caught:
        make(bad)
    assert str(caught.value) == f"{name}={bad!r} {requirement}"
