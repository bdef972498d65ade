"""Uniformity with delta = 0: the simulation is that of the protocol, its promise is pure, and it works."""

import numpy as np
import pytest
from scipy import stats

import shuffledp as sdp
from shuffledp.inference.testers import make_tester
from shuffledp.inference.uniformity import find_threshold, plan_vote
from support import ALPHA

ASKED = {"model": "shuffle", "coin": "private", "method": "pure", "epsilon": 2.0, "honest": 1.0}


@pytest.fixture(scope="module")
def tester():
    return make_tester(n=400, k=4, **ASKED)


def test_the_promise_is_pure_and_twice_that_of_a_cell(tester):
    guarantee = tester.observer.guarantee
    assert (guarantee.epsilon, guarantee.delta) == (2.0, 0.0)
    assert tester.observer.protocol.guarantee.epsilon == 1.0
    assert "two cells" in guarantee.proof


def test_the_simulation_has_the_law_of_the_protocol(tester):
    """Both statistics of crowds with the same law of values; a mutant with half of the noise is told apart."""
    runs, generator, words = 300, np.random.default_rng(3), sdp.SeededWords(4)
    p = np.array([0.4, 0.3, 0.2, 0.1])
    simulated = tester.observer.simulate(p, 400, runs, generator)
    observed = np.array(
        [tester.observer.observe(generator.choice(4, size=400, p=p), words) for _ in range(runs)]
    )
    for cell in range(4):
        assert stats.ks_2samp(simulated[:, cell], observed[:, cell]).pvalue > ALPHA
    exact = stats.multinomial.rvs(400, p, size=runs, random_state=5)
    noise, mutant = simulated.std(axis=0), exact.std(axis=0)
    expected = np.sqrt(400 * p * (1 - p) + tester.observer.randomizer.variance(400))
    np.testing.assert_allclose(noise, expected, rtol=0.25)
    assert (mutant < expected).all()


def test_estimates_are_unbiased(tester):
    simulated = tester.observer.simulate(np.full(4, 0.25), 400, 20_000, np.random.default_rng(6))
    spread = simulated.std(axis=0) / np.sqrt(20_000)
    assert (np.abs(simulated.mean(axis=0) - 100) < 6.5 * spread).all()
    np.testing.assert_allclose(
        simulated.var(axis=0), 75 + tester.observer.randomizer.variance(400), rtol=0.08
    )


def test_both_errors():
    tester, ballot = make_tester(n=1000, k=8, **ASKED), plan_vote(1 / 3)
    generator = np.random.default_rng(7)
    limit = find_threshold(tester.null(ballot.runs, generator), ballot.rank)
    alarms = int((tester.null(2000, generator) > limit).sum())
    missed = int((tester.far(0.4, 2000, generator) <= limit).sum())
    assert stats.binomtest(alarms, 2000, 1 / 3, alternative="greater").pvalue > ALPHA
    assert stats.binomtest(missed, 2000, 1 / 3, alternative="less").pvalue < ALPHA


def test_the_whole_path():
    uniform, skewed = np.arange(1000) % 8, np.arange(1000) % 4
    asked = {"k": 8, "alpha": 0.4, "epsilon": 2.0, "method": "pure", "honest": 1.0}
    found = sdp.uniformity_test(uniform, **asked, rng=sdp.SeededWords(1))
    assert found.accept
    assert (found.method, found.guarantee.delta, found.guarantee.epsilon) == ("pure", 0.0, 2.0)
    assert not sdp.uniformity_test(skewed, **asked, rng=sdp.SeededWords(1)).accept


def test_only_who_asks_gets_it():
    with pytest.raises(sdp.ParameterError, match="delta"):
        sdp.uniformity_test([0, 1] * 50, k=2, alpha=0.4, epsilon=1.0)
    with pytest.raises(sdp.ParameterError, match="must be one of direct"):
        sdp.uniformity_test([0, 1] * 50, k=2, alpha=0.4, epsilon=1.0, delta=1e-6, method="purer")
    with pytest.raises(sdp.UnsupportedError, match="pure privacy"):
        make_tester(n=50_000, k=4, **ASKED)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_two_cells_are_the_product_of_one(n):
    """Exact enumeration: the ratio of a moved value is at most the square of that of one count."""
    device = sdp.protocols.pure_count.PureCount(noise=(1, 2, 2, 1), word_bits=4)
    laws = {}
    for x in (0, 1):
        law = {}
        for left, p in device.pmf(int(x == 0)).items():
            for right, q in device.pmf(int(x == 1)).items():
                sent = tuple(sorted([("left", y) for y in left] + [("right", y) for y in right]))
                law[sent] = law.get(sent, 0) + p * q
        laws[x] = law
    both = sdp.audit.pure_ratio(sdp.audit.channel(laws), n=n)
    one = sdp.audit.pure_ratio(device, n=n)
    assert one < both <= one**2
