"""One random question for each person: its exact law, what it promises, and what the sample says about everybody."""

import itertools
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import shuffledp as sdp
from shuffledp.core.analyzer import NormalError, Tally
from shuffledp.core.randomizer import Shuffled
from shuffledp.numerics.intervals import TwoBinomialsError
from shuffledp.numerics.intervals.sample import sampling_variance
from shuffledp.protocols import bundle, make, one_question
from support import ALPHA

PARTS = [
    {"name": "home", "protocol": "rr"},
    {"name": "way", "protocol": "krr", "k": 3},
    {"name": "bus", "protocol": "rr"},
]


@pytest.fixture(scope="module")
def tiny():
    """Words of four bits: a choice of three leaves one word over."""
    parts = [{**part, "word_bits": 4} for part in PARTS]
    return make("one_question", epsilon=1.0, parts=parts)


def test_every_tape_follows_the_declared_law(tiny):
    device = tiny.randomizer
    tapes = itertools.product(range(16), repeat=device.words_per_input)
    words = np.random.default_rng(1).permutation(np.array(list(tapes), dtype=np.uint8))
    for x in range(device.domain.size):
        sent = device.encode(np.full(len(words), x), words)
        assert sent.owner.tolist() != sorted(sent.owner.tolist())  # sorted by question
        seen = Counter(sent.of(user) for user in range(len(words)))
        law = {messages: Fraction(times, len(words)) for messages, times in seen.items()}
        assert law == {messages: mass for messages, mass in device.pmf(x).items() if mass}


def test_the_loss_is_that_of_one_answer(tiny):
    laws = [tiny.randomizer.pmf(x) for x in range(tiny.randomizer.domain.size)]
    for one, other in itertools.permutations(laws, 2):
        for messages, mass in one.items():
            assert float(mass) <= math.exp(tiny.guarantee.epsilon) * float(other[messages]) * (
                1 + 1e-12
            )
    parts = [{**part, "epsilon": 1.0} for part in PARTS]
    assert bundle.make_local(epsilon=4.0, parts=parts).guarantee.epsilon > 2.99
    assert make("one_question", epsilon=1.0, parts=PARTS).guarantee.epsilon < 1.001


def test_there_and_back():
    protocol = make("one_question", epsilon=1.0, parts=PARTS)
    assert make(protocol.name, **protocol.parameters) == protocol
    assert protocol.cost.messages_max == 1


def test_the_answer_with_the_largest_epsilon_may_be_the_one_that_is_drawn():
    devices = tuple(sdp.protocols.rr.RR(epsilon0=each) for each in (1.0, 3.0, 2.0))
    assert one_question.OneQuestionDevice(devices=devices).epsilon0 == 3.0


def test_tallies_add_and_are_of_those_who_answered():
    protocol = make("one_question", epsilon=20.0, parts=PARTS)
    device, analyzer = protocol.randomizer, protocol.analyzer
    codes = device.domain.codes(([1] * 900, [2] * 900, [0] * 900))
    words = sdp.SeededWords(1).words(900 * device.words_per_input).reshape(900, -1)
    sent = device.encode(codes, words)
    tally = analyzer.tally(sdp.shuffle(sent, sdp.SeededWords(2)))
    asked = [own.users for own in analyzer.split(tally)]
    assert sum(asked) == 900
    assert min(asked) > 200
    home, way, bus = analyzer.estimates(tally + tally)
    assert home.value == pytest.approx(1800, rel=1e-5)
    np.testing.assert_allclose(way.value, [0, 0, 1800], atol=1e-3)
    assert bus.value == pytest.approx(0, abs=1e-3)
    assert analyzer.estimate(tally).labels[:2] == ("home", "way: 0")
    with pytest.raises(sdp.DataError, match="each sends one"):
        analyzer.tally(Shuffled(payload=sent.payload[1:], users=900))
    nobody = Tally(counts=np.zeros_like(tally.counts), users=5)
    with pytest.raises(sdp.DataError, match="no users"):
        analyzer.estimates(nobody)


def cover(ends=None, runs=300):
    """How many intervals at 0.9 hold the truth about 600 people, a quarter of whom are asked."""
    source, people, asked = np.random.default_rng(5), 600, 150
    if ends is None:
        protocol, values = make("rr", epsilon=12.0), np.arange(people) % 2 == 0
    else:
        protocol = make("duchi", lower=ends[0], upper=ends[1], steps=4, epsilon=12.0)
        values = np.where(np.arange(people) % 2 == 0, *ends).astype(float)
    truth = values.sum() if ends is None else values.mean()
    hits = 0
    for seed in range(runs):
        sample = source.permutation(values)[:asked]
        own = sdp.run(protocol, sample, rng=sdp.SeededWords(seed))
        low, high = one_question.scale_up(own, protocol, asked, people).interval(0.9)
        hits += low <= truth <= high
    return hits


def test_intervals_cover_everybody(monkeypatch):
    enough = stats.binom.ppf(ALPHA, 300, 0.9)
    assert cover() >= enough
    monkeypatch.setattr(one_question, "bound_sampling", lambda low, high, *_: (low, high))
    assert cover() < enough


def test_intervals_of_means_cover_everybody():
    assert cover((-1.0, 3.0), runs=60) >= stats.binom.ppf(ALPHA, 60, 0.9)


def find_coverage(epsilon, questions, people, holders, level):
    """How often an interval holds a count: every sample size, sample and noise is enumerated; what is cut misses."""
    rr = make("rr", epsilon=epsilon).randomizer
    p, q = float(rr.p), float(rr.q)
    sizes = np.arange(
        *(int(end) for end in stats.binom.ppf([1e-5, 1 - 1e-5], people, 1 / questions))
    )
    found = 0.0
    for size in sizes.tolist():
        have = np.arange(min(size, holders) + 1)
        noise = stats.binom.pmf(np.arange(size + 1)[:, None], have, p)
        others = stats.binom.pmf(np.arange(size + 1)[:, None], size - have, q)
        sent = np.array(
            [np.convolve(*each)[: size + 1] for each in zip(noise.T, others.T, strict=True)]
        )
        law = stats.hypergeom.pmf(have, people, holders, size) @ sent
        observed = np.flatnonzero(law > 1e-9)
        value = (observed - size * q) / (p - q)
        error = TwoBinomialsError(observed=observed, n=size, p=p, q=q, value=value)
        own = sdp.Estimate(value=value, error=error, limits=(0.0, float(size)))
        all_of_them = one_question.SampledError(
            own=own, sampled=size, people=people, average=False, ends=None
        )
        low, high = all_of_them.interval(value, level)
        hits = float(law[observed][(low <= holders) & (holders <= high)].sum())
        found += hits * float(stats.binom.pmf(size, people, 1 / questions))
    return found


RARE = [
    (8.0, 20, 1000, 36, 0.95),
    (8.0, 20, 1000, 30, 0.9),
    (6.0, 6, 120, 11, 0.95),
    (6.0, 6, 120, 18, 0.99),
]


@pytest.mark.parametrize(
    "cell",
    [
        *RARE,
        (8.0, 6, 120, 0, 0.9),
        (8.0, 6, 120, 117, 0.95),
        (8.0, 2, 60, 1, 0.99),
        (8.0, 2, 60, 30, 0.9),
        (1.0, 3, 90, 5, 0.9),
    ],
)
def test_intervals_of_rare_answers_cover(cell):
    assert find_coverage(*cell) >= cell[-1]


def widen_normally(low, high, sampled, people, outside, _ends):
    """A normal radius, with what is usual for the skewness: too little where a sample has nobody."""
    z = stats.norm.isf(outside / 2)
    widest = np.minimum(np.maximum(0.5, low), high)
    radius = z * np.sqrt(sampling_variance(widest, sampled, people)) + z * z / 3 / sampled
    return np.maximum(low - radius, 0), np.minimum(high + radius, 1)


@pytest.mark.parametrize("cell", RARE)
def test_a_normal_radius_does_not_cover_rare_answers(cell, monkeypatch):
    monkeypatch.setattr(one_question, "bound_sampling", widen_normally)
    assert find_coverage(*cell) < cell[-1]


def test_certified_intervals_are_those_of_protocols_that_have_one():
    rr = make("rr", epsilon=4.0)
    own = sdp.run(rr, [True, False] * 50, rng=sdp.SeededWords(1))
    found = one_question.scale_up(own, rr, 100, 400)
    assert found.exact_interval(0.9) == found.interval(0.9)
    normal = replace(own, error=NormalError(stderr=1.0))
    with pytest.raises(sdp.UnsupportedError, match="no exact interval"):
        one_question.scale_up(normal, rr, 100, 400).exact_interval(0.9)


def test_the_variance_is_that_of_noise_and_sample():
    protocol = make("one_question", epsilon=3.0, parts=[PARTS[0], PARTS[2]])
    inputs = np.array([500, 0, 0, 500])  # everybody answers both alike
    found = protocol.analyzer.variance(inputs)
    rr = protocol.analyzer.parts[0].analyzer
    expected = 4 * rr.variance(np.array([250, 250])) + 1000**2 * 0.25 * 0.5 / 500
    np.testing.assert_allclose(found, [expected] * 2)
    assert not protocol.analyzer.variance(np.zeros(4, dtype=np.int64)).any()  # nobody, no error


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (
            [{"name": "m", "protocol": "local_tree", "lower": 0, "upper": 9}],
            "one random question is for",
        ),
        ([{"name": "m", "protocol": "dummies_histogram", "k": 3}], "has a local protocol"),
        ([PARTS[0], PARTS[0]], "distinct names"),
        ([], "at least one part"),
    ],
)
def test_what_it_is_not_for(parts, said):
    with pytest.raises(sdp.ShuffledpError, match=said):
        make("one_question", epsilon=1.0, parts=parts)


def test_shares_of_a_bundle_add_up_to_no_more_than_epsilon():
    parts = [{**part, "epsilon": 0.5} for part in PARTS]
    with pytest.raises(sdp.UnsupportedError, match="what the parts add up to"):
        bundle.make_local(epsilon=1.4, parts=parts)
    with pytest.raises(sdp.UnsupportedError, match="and an epsilon"):
        bundle.make_local(epsilon=1.4, parts=PARTS)
