"""Probabilities are at most 1, and at least 0, also where the bound of them is loose or everything is told."""

from fractions import Fraction

import numpy as np
import pytest

from shuffledp.accounting import (
    amplify,
    base,
    binary,
    blanket,
    clones,
    compose,
    correlated,
    moved_message,
    noisy_count,
    server_noise,
)
from shuffledp.numerics.tabulated import CutLaplace

ALL = Fraction(1, 10**40)
FEW = correlated.NegativeBinomialFlood(r=1e-9, p=0.5)
GENERIC = blanket.generic_blanket(epsilon0=60.0)
CURVES = {
    "bits": lambda: binary.BinaryResponse(n=1, flip=ALL),
    "clones": lambda: clones.clones_2023(epsilon0=60.0, n=1),
    "clones of 2021": lambda: clones.clones_2021(epsilon0=60.0, n=1),
    "approximate clones": lambda: clones.ApproximateClones(epsilon0=60.0, delta0=0.999, n=1),
    "blanket": lambda: blanket.BlanketProfile(blankets=(GENERIC,), n=1, epsilon0=60.0),
    "any": lambda: amplify.profile(epsilon0=60.0, n=1, honest=1),
    "correlated": lambda: correlated.CorrelatedNoise(epsilon_star=60.0, flood=FEW),
    "thinned": lambda: correlated.ThinnedNoise(epsilon_star=60.0, share=0.5, flood=FEW),
    "pair": lambda: correlated.CorrelatedPair(
        noise=correlated.CorrelatedNoise(epsilon_star=60.0, flood=FEW)
    ),
    "dummies": lambda: server_noise.AmongDummies(noise=CutLaplace(rate=60.0, most=1), moves=2),
    "scattered": lambda: server_noise.AmongScattered(
        noise=server_noise.Scattered(messages=1, support=ALL), p=Fraction(1), q=Fraction(0)
    ),
    "independent bins": lambda: moved_message.IndependentBins(n=1, gamma=ALL),
    "tries": lambda: moved_message.dummies(n=1, rho=ALL, pair=ALL),
    "poisson": lambda: moved_message.TwoBins(total=moved_message.PoissonTotal(mean=1e-300)),
    "count": lambda: noisy_count.BinomialCount(n=1, gamma=ALL, shift=9),
}


@pytest.mark.parametrize("name", CURVES)
def test_where_all_is_told_delta_is_nearly_1_and_not_more(name):
    curve = CURVES[name]()
    for epsilon in (0.0, 1e-9, 0.5):
        assert 0.3 < curve.delta(epsilon) <= 1.0
    if hasattr(curve, "deltas"):
        found = curve.deltas(np.array([0.0, 1e-9, 0.5]))
        assert np.all((found > 0.3) & (found <= 1.0))


def test_several_rounds_and_generators_tell_at_most_all():
    sure = CURVES["clones"]()
    assert 0.999 < compose.compose_delta([sure] * 3, epsilon=0.1, near=0.5, points=64) <= 1.0
    assert 100 < compose.compose([sure] * 3, delta=0.5) <= 180.0
    assert compose.compose_delta([sure], epsilon=0.1, near=0.5) <= 1.0
    assert base.bound_generator(10**12, 10**6, 700.0) == 1
