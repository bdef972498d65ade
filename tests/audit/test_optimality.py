"""The geometric mechanism against every private mechanism there is, by linear programs."""

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.audit import geometric_loss, least_loss

LOSSES = {
    "absolute": lambda count, answer: abs(count - answer),
    "square": lambda count, answer: (count - answer) ** 2,
    "right or wrong": lambda count, answer: float(count != answer),
    "lopsided": lambda count, answer: max(answer - count, 3 * (count - answer)),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_nothing_is_better_whatever_the_prior(loss, epsilon):
    generator = np.random.default_rng(5)
    for n in (1, 3, 6):
        prior = generator.dirichlet(np.ones(n + 1)).tolist()
        asked = {"epsilon": epsilon, "prior": prior, "loss": loss}
        assert geometric_loss(**asked) == pytest.approx(least_loss(**asked), abs=1e-9)


def test_more_noise_than_needed_is_noticed():
    asked = {"prior": [0.2] * 5, "loss": LOSSES["absolute"]}
    best = least_loss(epsilon=1.0, **asked)
    assert geometric_loss(epsilon=0.9, **asked) > 1.03 * best
    assert geometric_loss(epsilon=1.1, **asked) < 0.97 * best  # and less of it would not be private


@pytest.mark.parametrize("prior", [[1.0], [0.5, 0.6], [1.5, -0.5], [1 / 40] * 40])
def test_what_is_refused(prior):
    with pytest.raises(sdp.ParameterError, match="prior"):
        least_loss(epsilon=1.0, prior=prior, loss=LOSSES["square"])
