"""Groups, compositions, neighbours: never below exact enumeration of small channels."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import shuffledp as sdp
from accounting.channels import RATIOS, random_channel
from shuffledp.accounting.exact import local_delta
from shuffledp.accounting.rules import compose_advanced, compose_basic, group_privacy, replace_one

F = Fraction
MODEL = sdp.Model.CENTRAL


def guarantee(epsilon, delta=0.0, **more):
    return sdp.Guarantee(epsilon=epsilon, delta=delta, model=MODEL, proof="a test", **more)


def divergence(a, b, E) -> Fraction:
    return sum((max(F(0), q - E * b.get(y, F(0))) for y, q in a.items()), F(0))


def together(*laws):
    """The law of independent messages."""
    found = {}
    for sent in product(*(law.items() for law in laws)):
        key = tuple(y for y, _ in sent)
        found[key] = found.get(key, F(0)) + math.prod((q for _, q in sent), start=F(1))
    return found


def channels(count, seed=11):
    rng = np.random.default_rng(seed)
    for index in range(count):
        p = RATIOS[index % len(RATIOS)]
        yield random_channel(rng, p), 1 + (p - 1) * F(int(rng.integers(1, 20)), 20)


def test_composition_and_groups_of_random_channels():
    """Two people at once, each with a message of her own, are also two answers about one person."""
    for laws, E in channels(200):
        alone = guarantee(math.log(E), float(local_delta(laws, E)))
        both = together(laws[0], laws[0]), together(laws[1], laws[1])
        exact = float(divergence(*both, E * E))
        assert exact <= group_privacy(alone, 2).delta * (1 + 1e-12)
        assert exact <= compose_basic([alone, alone]).delta * (1 + 1e-12)


def test_the_delta_of_a_group_is_tight():
    """A chain of neighbours that reaches delta (1 + e^epsilon), so that 2 delta would be wrong."""
    near, middle, far = (
        dict(zip("abcd", (F(w, 20) for w in weights), strict=True))
        for weights in ((2, 3, 9, 6), (0, 2, 6, 12), (0, 0, 4, 16))
    )
    E = F(3, 2)
    assert divergence(near, middle, E) == divergence(middle, far, E) == F(1, 10)
    assert divergence(near, far, E * E) == F(1, 4)
    assert group_privacy(guarantee(math.log(1.5), 0.1), 2).delta == pytest.approx(0.25)


def test_post_processing_never_helps():
    rng = np.random.default_rng(12)
    for laws, E in channels(200):
        outputs = sorted(set().union(*laws))
        to = {y: (int(rng.integers(0, 2)),) for y in outputs}
        mapped = []
        for law in laws:
            image = {}
            for y, q in law.items():
                image[to[y]] = image.get(to[y], F(0)) + q
            mapped.append(image)
        assert local_delta(mapped, E) <= local_delta(laws, E)


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("rounds", [1, 10, 100])
def test_advanced_composition_covers_randomized_response(epsilon, rounds):
    """The worst pair: k answers of randomized response, whose loss is a binomial."""
    from scipy.stats import binom

    found = compose_advanced(guarantee(epsilon), rounds=rounds, slack=1e-5)
    ones, p = np.arange(rounds + 1), 1 / (1 + math.exp(-epsilon))
    first, second = binom.pmf(ones, rounds, p), binom.pmf(ones, rounds, 1 - p)
    exact = np.maximum(first - math.exp(found.epsilon) * second, 0).sum()
    assert exact <= found.delta + 1e-15
    assert found.epsilon <= rounds * epsilon * (1 + 1e-12)


def test_advanced_composition_is_not_far_off():
    found = compose_advanced(guarantee(0.1, 1e-9), rounds=64, slack=1e-6)
    curve = sdp.profile(epsilon0=0.1, n=1, honest=1)
    exact = sdp.compose([curve] * 64, delta=1e-6)
    assert exact < found.epsilon < 1.3 * exact
    assert found.delta == pytest.approx(64e-9 + 1e-6)


def test_numbers():
    assert group_privacy(guarantee(0.0, 1e-6), 3).delta == pytest.approx(3e-6)
    five = group_privacy(guarantee(1.0), 5)
    assert (five.epsilon, five.delta) == (pytest.approx(5.0), 0.0)
    assert five.proof == "group privacy for 5 people, each protected by a test"
    assert group_privacy(guarantee(1.0, 1e-9), 10_000).delta == 1.0
    assert group_privacy(guarantee(1.0, 1e-9), 1) == guarantee(1.0, 1e-9)


def test_neighbours():
    adding = guarantee(1.0, 1e-6, neighbours=sdp.Neighbours.ADD_REMOVE)
    replaced = replace_one(adding)
    assert replaced.neighbours is sdp.Neighbours.REPLACE_ONE
    assert replaced.epsilon == pytest.approx(2.0)
    assert replaced.delta == pytest.approx((1 + math.e) * 1e-6)
    assert replace_one(replaced) == replaced


def test_arguments_are_checked():
    with pytest.raises(sdp.ParameterError, match="people=0 must be >= 1"):
        group_privacy(guarantee(1.0), 0)
    with pytest.raises(sdp.ParameterError, match="at least one"):
        compose_basic([])
    with pytest.raises(sdp.ParameterError, match="one model and one kind"):
        compose_basic([guarantee(1.0), guarantee(1.0, neighbours=sdp.Neighbours.ADD_REMOVE)])
    with pytest.raises(sdp.ParameterError, match="slack"):
        compose_advanced(guarantee(1.0), rounds=2, slack=0.0)


def test_a_composition_needs_the_honest_of_all():
    """One of two answers was promised with 900 honest people: so is the composition, in whatever order."""
    few = guarantee(0.5, 1e-8, honest=100)
    many = guarantee(0.5, 1e-8, honest=900)
    assert compose_basic([few, many]).honest == compose_basic([many, few]).honest == 900
