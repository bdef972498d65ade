"""The blankets that protocols state are below their declared laws, and no pair is worse."""

import pytest

import shuffledp as sdp
from contract.examples import EXAMPLES
from shuffledp.accounting.blanket import Blanketed, law_blankets
from shuffledp.protocols import PROTOCOLS

LOCAL = [spec for spec in PROTOCOLS if spec.make_local]
SMALL = [
    pytest.param(spec, parameters, id=f"{spec.name}-{i}")
    for spec in PROTOCOLS
    for i, parameters in enumerate(EXAMPLES[spec.name].local_tiny)
]


@pytest.mark.parametrize(("spec", "parameters"), SMALL)
@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_stated_blanket_is_safe(spec, parameters, n):
    """Computed from the declared law, over all pairs and both directions, nothing is worse."""
    randomizer = spec.make_local(**parameters).randomizer
    assert isinstance(randomizer, Blanketed)
    (stated,) = randomizer.blankets()
    for epsilon in (0.1 * randomizer.epsilon0, 0.6 * randomizer.epsilon0):
        claimed = stated.delta(epsilon, n)
        for pair in law_blankets(randomizer):
            assert pair.delta(epsilon, n) <= claimed * (1 + 1e-5)


@pytest.mark.parametrize(("spec", "parameters"), SMALL)
def test_stated_ratio_is_the_local_one(spec, parameters):
    randomizer = spec.make_local(**parameters).randomizer
    (stated,) = randomizer.blankets()
    assert max(stated.first) <= 2.718281828459046**randomizer.epsilon0
    assert stated.gamma <= 1


@pytest.mark.parametrize("spec", LOCAL, ids=lambda spec: spec.name)
def test_ordinary_sizes_amplify(spec):
    randomizer = spec.make_local(**EXAMPLES[spec.name].local[-1]).randomizer
    guarantee = sdp.amplify(randomizer=randomizer, n=100_000, delta=1e-6)
    assert (
        guarantee.epsilon
        < sdp.amplify(epsilon0=randomizer.epsilon0, n=100_000, delta=1e-6).epsilon * 1.0001
    )
