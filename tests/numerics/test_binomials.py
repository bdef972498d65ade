"""Windows of binomial masses against 50 digits."""

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from shuffledp.numerics.binomials import Binomials

mpmath.mp.dps = 50


@pytest.mark.parametrize("trials", [0, 1, 17, 1000, 10**7, 10**12])
@pytest.mark.parametrize("odds", [1e-12, 0.01, 0.6, 1.0, 7.0, 1e9])
def test_masses(trials, odds):
    law = Binomials(trials=np.array([float(trials)]), odds=np.array([odds]))
    at = law.mode
    found = law.masses(at, 6, 6)[:, 0]
    for i, value in enumerate(found):
        k = int(at[0]) + i - 6
        if not 0 <= k <= trials:
            assert value == 0
            continue
        exact = mpmath.exp(
            mpmath.loggamma(trials + 1)
            - mpmath.loggamma(k + 1)
            - mpmath.loggamma(trials - k + 1)
            + k * mpmath.log(odds)
            - trials * mpmath.log1p(mpmath.mpf(odds))
        )
        assert abs(value / exact - 1) < 1e-12


def test_what_is_beyond_a_window():
    law = Binomials(trials=np.array([400.0]), odds=np.array([0.25]))
    at = np.array([120.0])
    bound = law.beyond(at, binom.pmf(at, 400, 0.2), 1)[0]
    assert binom.sf(120, 400, 0.2) <= bound <= 1.2 * binom.sf(120, 400, 0.2)
    at = np.array([40.0])
    bound = law.beyond(at, binom.pmf(at, 400, 0.2), -1)[0]
    assert binom.cdf(39, 400, 0.2) <= bound <= 1.2 * binom.cdf(39, 400, 0.2)
