"""The task behind uniformity testing: a distance, and verdicts that are right or wrong."""

import numpy as np
import pytest

from shuffledp import Categories, MismatchError, ParameterError
from shuffledp.tasks import Uniformity

TASK = Uniformity(domain=Categories(k=3), alpha=0.2)


def test_truth_is_the_total_variation_distance():
    assert TASK.truth([0, 1, 2] * 7) == 0.0  # exactly, though 1/3 is no float
    assert TASK.truth([1, 1, 1]) == pytest.approx(2 / 3)
    values = np.random.default_rng(1).integers(3, size=1000)
    shares = np.bincount(values, minlength=3) / 1000
    assert TASK.truth(values) == pytest.approx(np.abs(shares - 1 / 3).sum() / 2)


@pytest.mark.parametrize(
    ("verdict", "distance", "loss"),
    [(1, 0.0, 0), (0, 0.0, 1), (1, 0.1, 0), (0, 0.1, 0), (1, 0.2, 1), (0, 0.2, 0), (1, 0.9, 1)],
)
def test_loss(verdict, distance, loss):
    assert TASK.loss(float(verdict), distance) == loss


def test_without_alpha_every_distance_counts():
    strict = Uniformity(domain=Categories(k=3))
    assert strict.loss(1.0, 1e-9) == 1.0
    assert strict.loss(1.0, 0.0) == 0.0


def test_bad_verdicts_and_alphas():
    with pytest.raises(MismatchError, match="verdict"):
        TASK.loss(0.5, 0.1)
    with pytest.raises(MismatchError, match="one number"):
        TASK.loss(1.0, np.array([0.1, 0.2]))
    with pytest.raises(ParameterError, match="alpha=1"):
        Uniformity(domain=Categories(k=3), alpha=1)
