"""Gaussian noise as a device: its law by enumeration, its local and shuffled guarantees, and its mean."""

import math
from fractions import Fraction

import numpy as np
import pytest

import shuffledp as sdp
from mean_support import law_moments
from shuffledp.accounting.blanket import Blanket, BlanketProfile, LeadingBlanket
from shuffledp.accounting.exact import local_delta, local_ratio, shuffled_delta
from shuffledp.core.randomizer import forget, randomize
from shuffledp.protocols.gaussian import GaussianNoise, calibrate_noise


def device(steps=4, sigma=2.0, word_bits=64):
    return GaussianNoise(
        domain=sdp.Reals(lower=0.0, upper=1.0, steps=steps), sigma=sigma, word_bits=word_bits
    )


def laws(made):
    return [made.pmf(x) for x in range(made.domain.size)]


SMALL = [(1, 1.0, 6), (2, 0.6, 7), (2, 1.0, 8), (3, 0.4, 8), (4, 0.3, 7), (1, 0.5, 10)]


@pytest.mark.parametrize(("steps", "sigma", "bits"), SMALL)
def test_every_tape_gives_the_declared_law(steps, sigma, bits):
    made = device(steps, sigma, bits)
    kind = np.uint8 if bits <= 8 else np.uint16
    tape = np.arange(1 << bits, dtype=kind)[:, None]
    for x in range(steps + 1):
        sent = made.encode(np.full(1 << bits, x), tape).payload
        counts = np.bincount(sent, minlength=made.alphabet)
        assert {(y,): Fraction(int(c), 1 << bits) for y, c in enumerate(counts)} == made.pmf(x)


@pytest.mark.parametrize(("steps", "sigma", "bits"), [*SMALL, (8, 0.7, 64), (4, 2.0, 64)])
def test_the_mean_is_unbiased_and_its_variance_exact(steps, sigma, bits):
    made = device(steps, sigma, bits)
    for x in range(steps + 1):
        assert sum(made.pmf(x).values()) == 1
        assert law_moments(made, x) == (x, made.code_variance(x))


def test_the_variance_is_that_of_the_noise():
    for sigma in (0.3, 1.0, 4.0):
        made = device(8, sigma)
        assert float(made.code_variance(3)) / 64 == pytest.approx(sigma**2, rel=1e-9)


@pytest.mark.parametrize(("steps", "sigma", "bits"), [*SMALL, (3, 2.0, 64)])
def test_local_guarantees_are_exact(steps, sigma, bits):
    made = device(steps, sigma, bits)
    ratio = local_ratio(laws(made))
    assert math.exp(made.epsilon0) == pytest.approx(float(ratio))
    assert Fraction(made.epsilon0) >= Fraction(math.log(ratio)) * (1 - Fraction(1, 10**14))
    assert made.delta0(made.epsilon0) == 0
    for E in (Fraction(1), Fraction(5, 4), Fraction(3), Fraction(9)):
        exact = local_delta(laws(made), E)
        stated = made.delta0(math.nextafter(math.log(E), 0))
        assert exact <= Fraction(stated)
        assert stated == pytest.approx(float(exact), abs=1e-12)


def test_the_ideal_local_delta_is_that_of_the_gaussian_mechanism():
    """Phi(1/(2 s) - e s) - e^e Phi(-1/(2 s) - e s), for noise of s times the range."""
    from scipy.special import ndtr

    for sigma in (0.5, 1.0, 3.0):
        for epsilon in (0.0, 0.5, 1.5):
            ideal = ndtr(0.5 / sigma - epsilon * sigma) - math.exp(epsilon) * ndtr(
                -0.5 / sigma - epsilon * sigma
            )
            assert device(32, sigma).delta0(epsilon) == pytest.approx(ideal, rel=0.02, abs=1e-9)


def random_tables(count):
    """Small devices with random noise tables, symmetric and falling."""
    generator = np.random.default_rng(19)
    for _ in range(count):
        made = device(int(generator.integers(1, 4)), 0.5, 6)
        object.__setattr__(made, "shares", _fall(generator, made.domain.steps))
        yield made, int(generator.integers(2, 4)), 1 + Fraction(int(generator.integers(0, 30)), 20)


def _fall(generator, steps):
    sides = np.sort(generator.integers(0, 8, int(generator.integers(1, 3))))[::-1]
    words = 64 - (steps + 2 * len(sides) + 1)
    return (words - 2 * int(sides.sum()), *map(int, sides))


def test_no_exact_delta_is_above_the_blanket():
    """Over random tables, with two and three people: all data sets, all pairs of values, in fractions."""
    close = 0.0
    for made, n, E in random_tables(120):
        exact = shuffled_delta(laws(made), n, E)
        curve = BlanketProfile(blankets=made.blankets(), n=n, epsilon0=made.epsilon0)
        bound = curve.delta(max(0.0, math.log(E) * (1 - 1e-15)))
        assert float(exact) <= bound * (1 + 1e-12)
        many = made.blankets()
        if len(many) > 1:
            leading = LeadingBlanket(blankets=many, n=n, epsilon0=made.epsilon0)
            assert bound <= leading.delta(max(0.0, math.log(E) * (1 - 1e-15)))
        close = max(close, float(exact) / bound)
    assert close > 0.5  # a bound that is always far off would say nothing


@pytest.mark.parametrize(("sigma", "epsilon"), [(0.5, 1.0), (1.0, 0.0), (1.0, 0.3)])
def test_the_ends_are_the_worst_pair_and_others_cost_a_comparison(sigma, epsilon):
    blankets = device(3, sigma).blankets()
    assert len(blankets) == 6
    one, all_of_them = (
        LeadingBlanket(blankets=some, n=200, epsilon0=60.0).delta(epsilon)
        for some in (blankets[:2], blankets)
    )
    each = [blanket.delta(epsilon, 200) for blanket in blankets]
    assert max(each) == each[0]
    assert each[0] <= one == all_of_them <= each[0] * (1 + 2e-6) + 2e-13


def test_a_lead_that_is_not_the_worst_is_noticed():
    """The order of the blankets is not trusted."""
    blankets = device(2, 1.0).blankets()
    wrong = LeadingBlanket(blankets=blankets[::-1], n=200, epsilon0=60.0)
    assert blankets[-1].delta(0.3, 200) < 0.5 * blankets[0].delta(0.3, 200) <= wrong.delta(0.3)


def test_blankets_of_other_masses_are_not_compared():
    first = device(1, 1.0).blankets()[0]
    other = device(1, 2.0).blankets()[0]
    bare = Blanket(mass=(0.5,), first=(1.0,), second=(1.0,), bare=((0.5, 0.5),))
    for some in ((first,), (first, other), (bare, bare)):
        with pytest.raises(sdp.ParameterError, match="same masses"):
            LeadingBlanket(blankets=some, n=10, epsilon0=1.0)


def test_the_own_law_beats_every_pair():
    """(epsilon0, delta0) forgets how rare large losses are."""
    made = device(4, 2.0)
    own = sdp.amplify(randomizer=made, n=10_000, delta=1e-6, honest=1).epsilon
    for epsilon0 in (2.4, 3.0, made.epsilon0):
        pair = sdp.amplify(
            epsilon0=epsilon0, delta0=made.delta0(epsilon0), n=10_000, delta=1e-6, honest=1
        )
        assert own < pair.epsilon / 3


def test_mutant_noise_that_is_smaller_than_stated_is_seen():
    """The blanket of a device whose noise is a tenth smaller says so."""
    right, wrong = (
        sdp.profile(randomizer=device(1, sigma), n=2_000, honest=1).delta(0.1)
        for sigma in (2.0, 1.8)
    )
    assert wrong > 1.5 * right


def test_dealt_and_encoded_people_have_the_same_tally():
    made = device(2, 1.0, 6)
    dealt = made.deal(np.array([40_000, 0, 20_000]), sdp.SeededWords(3))
    sent = randomize(made, np.repeat([0.0, 1.0], [40_000, 20_000]), sdp.SeededWords(4))
    encoded = made.analyzer.tally(forget(sent))
    assert dealt.users == encoded.users == 60_000
    expected = np.array(
        [40_000 * float(made.pmf(0)[(y,)]) + 20_000 * float(made.pmf(2)[(y,)])
         for y in range(made.alphabet)]
    )  # fmt: skip
    for tally in (dealt, encoded):
        assert tally.counts.sum() == 60_000
        assert (np.abs(tally.counts - expected) < 6.5 * np.sqrt(expected)).all()


def test_the_mean_of_real_numbers_is_in_its_interval():
    made = device(8, 1.0)
    values = np.linspace(0.1, 0.5, 30_000)
    source = sdp.SeededWords(7)
    found = made.analyzer.estimate(made.analyzer.tally(forget(randomize(made, values, source))))
    low, high = found.interval(0.999)
    assert low < values.mean() < high
    assert found.stderr == pytest.approx(1.0 / math.sqrt(30_000), rel=0.01)


def test_calibrated_noise_keeps_its_promise_and_little_less_does_not():
    made = calibrate_noise(
        n=500, epsilon=1.0, delta=1e-4, domain=sdp.Reals(lower=-1, upper=1, steps=1), honest=1
    )
    less = GaussianNoise(domain=made.domain, sigma=made.sigma * 0.995)
    right, wrong = (
        sdp.profile(randomizer=each, n=500, honest=1).delta(1.0) for each in (made, less)
    )
    assert right <= 1e-4 < wrong


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sigma": 0.0}, "sigma=0.0 must be > 0"),
        ({"steps": 33}, "steps=33 must be <= 32"),
        ({"sigma": 1000.0}, "too long for a table"),
        ({"sigma": 9.0, "word_bits": 5}, "word_bits=5 must be larger"),
        ({"word_bits": 0}, "word_bits=0 must be >= 1"),
        ({"word_bits": 65}, "word_bits=65 must be <= 64"),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises(sdp.ShuffledpError, match=message):
        device(**given)


def test_two_people_cannot_hide():
    with pytest.raises(sdp.UnsupportedError, match="cannot hide"):
        calibrate_noise(n=2, epsilon=1e-4, delta=1e-9, domain=device(1).domain, honest=1)


def test_noise_is_calibrated_for_the_honest():
    """The others may send no noise at all: what 20 honest people need is what 100 people get."""
    domain, wanted = sdp.Reals(lower=0, upper=1, steps=1), {"epsilon": 1.0, "delta": 1e-2}
    made = calibrate_noise(n=100, honest=0.2, domain=domain, **wanted)
    assert made == calibrate_noise(n=20, honest=1.0, domain=domain, **wanted)
    assert made != calibrate_noise(n=100, honest=1.0, domain=domain, **wanted)
    assert sdp.profile(randomizer=made, n=100, honest=0.2, bound="blanket").delta(1.0) <= 1e-2
