"""Dealt tallies: exactly the law of everybody's messages, on every road and at the width of production."""

import math
from dataclasses import fields, replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import chi2

import shuffledp as sdp
from contract.examples import all_examples
from shuffledp import protocols, run_counts
from shuffledp.core.domain import Integers, Reals
from shuffledp.core.randomizer import Shuffled
from shuffledp.core.texts import Keys
from shuffledp.numerics import dealing
from shuffledp.numerics.trees import aggregate
from shuffledp.protocols.correlated_count import CorrelatedCount
from shuffledp.protocols.correlated_histogram import CorrelatedHistogram
from shuffledp.protocols.duchi import Duchi
from shuffledp.protocols.dummies_histogram import DummiesHistogram
from shuffledp.protocols.fake_users import FakeUsers
from shuffledp.protocols.hadamard import HadamardResponse
from shuffledp.protocols.hadamard_blanket import HadamardBlanket
from shuffledp.protocols.hashed_histogram import HashedHistogram
from shuffledp.protocols.hashed_prefixes.device import HashedPart, HashedPrefixes
from shuffledp.protocols.hybrid import Hybrid
from shuffledp.protocols.krr import KRR
from shuffledp.protocols.piecewise import Piecewise
from shuffledp.protocols.pure_count import PureCount
from shuffledp.protocols.pure_histogram import PureHistogram
from shuffledp.protocols.rounded_sum import RoundedResponse
from shuffledp.protocols.rr import RR
from shuffledp.protocols.sparse_histogram import SparseHistogram
from shuffledp.protocols.split_and_mix import SplitAndMix
from shuffledp.protocols.split_and_mix.noise import NoiseShare
from shuffledp.protocols.tree import Tree
from shuffledp.protocols.unary import Unary
from shuffledp.protocols.unary_sum import UnaryDevice
from shuffledp.protocols.zero_sum_flooding import ZeroSumFlooding
from shuffledp.protocols.zsum import SparseZsumAnalyzer, Zsum
from shuffledp.protocols.zsum_histogram import ZsumHistogram
from shuffledp.testing import enumerate_outcomes
from support import ALPHA

CASES = {
    group: [case for examples in all_examples() for case in examples.cases(group)]
    for group in ("local_tiny", "shuffled_tiny", "shuffled")
}
TINY_CASES = CASES["local_tiny"] + CASES["shuffled_tiny"]
MOST = 7_000
"""Tapes: about two seconds."""
TINY = {"n": 3, "epsilon": 1.0, "delta": 0.3, "honest": 1.0}


@pytest.fixture
def _halved(monkeypatch):
    """Words are dealt by halving, however few the people are: what millions of people get."""
    monkeypatch.setattr(dealing, "_are_few", lambda _: False)


def is_dealt(case):
    return case.protocol.dealt


def deal_law(randomizer, data, size):
    inputs = np.bincount(data, minlength=size)
    return enumerate_outcomes(
        lambda source: tuple(randomizer.deal(inputs, source).counts.tolist()), most=MOST
    )


LINE_OF_2 = Reals(lower=0.0, upper=1.0, steps=2)
# Devices with words so short that every tape of two people can be run.
SHORT = {
    "krr": KRR(k=3, epsilon0=1.0, word_bits=4),
    "rr": RR(epsilon0=1.0, word_bits=3),
    "symmetric_unary": Unary.symmetric(k=2, epsilon0=3.0, word_bits=2),
    "optimized_unary": Unary.optimized(k=2, epsilon0=3.0, word_bits=2),
    "hadamard": HadamardResponse(k=3, epsilon0=1.0, word_bits=4),
    "hadamard in blocks": HadamardResponse(k=3, epsilon0=3.0, word_bits=4),
    "duchi": Duchi(domain=LINE_OF_2, epsilon0=1.0, word_bits=5),
    "piecewise": Piecewise(domain=LINE_OF_2, epsilon0=1.5, word_bits=5),
    "hybrid": Hybrid(domain=LINE_OF_2, epsilon0=2.0, word_bits=5),
    "zsum": Zsum(threshold=3, word_bits=3),
    "zsum_sparse": Zsum(threshold=5, word_bits=4),
    "correlated_count": CorrelatedCount(star=1.0, r_flood=0.5, p_flood=0.4, sharers=2, word_bits=1),
    "pure_count": PureCount(noise=(1, 3, 3, 1), word_bits=4),
    "pure_histogram": PureHistogram(k=2, count=PureCount(noise=(1, 1), word_bits=2)),
    "zsum_histogram": ZsumHistogram(k=2, silent=3, word_bits=2),
    "sparse_histogram": SparseHistogram(k=2, shares=(1, 2, 1), word_bits=2),
    "sparse_histogram, rejected words": SparseHistogram(k=3, shares=(2, 1, 1), word_bits=2),
    "dummies_histogram": DummiesHistogram(k=3, surely=1, threshold=1, word_bits=2),
    "correlated_histogram": CorrelatedHistogram(
        k=2, star=2.0, r_flood=0.5, p_flood=0.1, sharers=4, most_events=1, word_bits=2
    ),
    "count_min": replace(
        protocols.count_min.make(**TINY, k=2, rows=1, width=2, seed=1, word_bits=4).randomizer,
        threshold=2,
        word_bits=2,
    ),
    "fake_users": FakeUsers(k=2, fake=1, flips=1, word_bits=2),
    "split_and_mix": SplitAndMix(
        domain=Integers(lower=3, upper=4),
        noise=NoiseShare(rate=Fraction(1, 2), parts=2, word_bits=1),
        bits=1,
        shares=2,
    ),
    "unary_sum": UnaryDevice(
        domain=Reals(lower=-1.0, upper=2.0, steps=4), ones=2, coins=1, threshold=2, word_bits=2
    ),
    "tree": Tree(
        domain=Integers(lower=0, upper=3),
        shape=(2, 2),
        levels=(
            DummiesHistogram(k=2, surely=0, threshold=1, word_bits=2),
            DummiesHistogram(k=4, surely=0, threshold=1, word_bits=2),
        ),
    ),
    "hashed_prefixes": HashedPrefixes(
        domain=Keys(bits=1),
        parts=(
            HashedPart(
                levels=((1, 2),),
                buckets=2,
                noise=DummiesHistogram(k=4, surely=0, threshold=1, word_bits=2),
            ),
        ),
        seed=2,
    ),
    "rounded_sum": RoundedResponse(
        domain=Integers(lower=-1, upper=3), levels=2, gamma=Fraction(1, 2), word_bits=5
    ),
    "zero_sum_flooding": ZeroSumFlooding(
        domain=Integers(lower=0, upper=2),
        star=3.6,
        budget=8.4,
        level=6.1,
        sharers=2,
        most_events=1,
        word_bits=2,
    ),
}


DEALT = {name.split()[0].rstrip(",") for name in SHORT}
DEALT_CASES = [case for case in TINY_CASES if case.spec.name in DEALT]


@pytest.mark.parametrize("name", sorted({case.spec.name for case in TINY_CASES}))
def test_every_dealt_protocol_has_a_device_with_short_words(name):
    dealt = any(is_dealt(case) for case in TINY_CASES if case.spec.name == name)
    assert dealt == (name in DEALT or name in FEW)


@pytest.mark.usefixtures("_halved")
@pytest.mark.parametrize("case", [pytest.param(case, id=case.label) for case in DEALT_CASES])
def test_halved_words_have_the_law_of_the_messages(case):
    """The contract tests deal to few people, who draw a word each."""
    if not is_dealt(case):
        pytest.skip("everybody's messages are drawn")
    try:
        dealt = deal_law(case.protocol.randomizer, [0], case.size)
    except sdp.UnsupportedError:
        pytest.skip("too many tapes: its device is in SHORT")
    assert dealt == case.tally_law([0])


def message_law(device, analyzer, data):
    """The exact law of the tally, from the declared laws of everybody's messages."""
    law = {}
    template = randomize_codes(device).payload
    for sent in product(*(device.pmf(x).items() for x in data)):
        messages = [message for one, _ in sent for message in one]
        payload = np.array(messages, dtype=template.dtype).reshape(-1, *template.shape[1:])
        counts = analyzer.tally(Shuffled(payload=payload, users=len(data))).counts
        mass = math.prod((mass for _, mass in sent), start=Fraction(1))
        law[tuple(counts.tolist())] = law.get(tuple(counts.tolist()), 0) + mass
    return {counts: mass for counts, mass in law.items() if mass}


def randomize_codes(device):
    words = np.zeros((1, device.words_per_input), dtype=np.uint8)
    return device.encode(np.zeros(1, dtype=np.int64), words)


def analyzer_of(name, device):
    """That of an example of the protocol, with another device."""
    own = name.split()[0].rstrip(",")
    case = next(case for case in DEALT_CASES if case.spec.name == own and is_dealt(case))
    analyzer = case.protocol.analyzer
    (place,) = {"randomizer", "oracle", "users", "device", "tree"} & {
        f.name for f in fields(analyzer)
    }
    return replace(analyzer, **{place: device})


def check_two_people(name):
    device = SHORT[name]
    size = device.domain.size
    for data in ([0, size - 1], [0, 0]):
        assert deal_law(device, data, size) == message_law(device, analyzer_of(name, device), data)


LONG = ("fake_users", "hybrid", "tree")  # with a word for each bit there are 65,536 tapes or more


@pytest.mark.parametrize("name", [name for name in SHORT if name not in LONG])
def test_two_people_with_short_words(name):
    check_two_people(name)


@pytest.mark.usefixtures("_halved")
@pytest.mark.parametrize("name", SHORT)
def test_two_people_with_short_words_halved(name):
    check_two_people(name)


# Devices with few different messages.
FEW = {
    "hadamard_blanket": HadamardBlanket(k=2, tau=1, dummies=2, word_bits=2),
    "hadamard_blanket, two columns": HadamardBlanket(k=2, tau=2, dummies=1, word_bits=2),
    "hashed_histogram": HashedHistogram(k=3, r=2, s=1, width=1, dummies=4, word_bits=3),
    "hashed_histogram, rejected words": HashedHistogram(
        k=2, r=2, s=2, width=3, dummies=16, word_bits=4
    ),
}


@pytest.mark.parametrize("halve", [False, True])
@pytest.mark.parametrize(
    "name", [next(iter(FEW)), *(pytest.param(name, marks=pytest.mark.slow) for name in [*FEW][1:])]
)
def test_few_messages_are_dealt_with_the_law_of_the_messages(name, halve, monkeypatch):
    """One person, or two where there are not too many tapes; a few dummies less are noticed."""
    device = FEW[name]
    assert device.few
    if halve:
        monkeypatch.setattr(dealing, "_are_few", lambda _: False)
    for data in ([device.k - 1], [0, device.k - 1]):
        inputs = np.bincount(data, minlength=device.k)
        try:
            dealt = enumerate_outcomes(
                lambda source: tuple(device.deal_few(inputs, source).counts.tolist()),  # noqa: B023
                most=MOST,
            )
        except sdp.UnsupportedError:
            assert len(data) == 2
            return
        assert dealt == message_law(device, device, data)
        mutant = replace(device, dummies=device.dummies - 1 or 2)
        assert dealt != message_law(mutant, mutant, data)


def test_half_a_million_dummies_each_are_dealt_at_once():
    """What an epsilon of 0.001 takes of a thousand people: half a billion messages."""
    for name in ("hadamard_blanket", "hashed_histogram"):
        made = protocols.make(name, n=1000, k=3, epsilon=0.001, delta=1e-20)
        assert made.dealt
        assert made.cost.messages_mean > 5e5
        inputs = np.array([500, 300, 200])
        estimate = run_counts(made, inputs, sdp.SeededWords(5))
        assert np.all(abs(estimate.value - inputs) < 6 * np.sqrt(made.analyzer.variance(inputs)))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.label) for case in CASES["shuffled"]])
def test_estimates_of_dealt_tallies_are_near_the_truth(case):
    if not is_dealt(case):
        pytest.skip("everybody's messages are drawn")
    n, size = case.parameters["n"], case.size
    inputs = np.random.default_rng(1).multinomial(n, np.full(size, 1 / size))
    estimate = run_counts(case.protocol, inputs, sdp.SeededWords(5))
    low, high = estimate.interval(1 - 1e-12)
    if case.protocol.task == "histogram":
        assert np.all(np.asarray(low) <= inputs)
        assert np.all(np.asarray(high) >= inputs)


SHUFFLED = {"n": 20_000, "epsilon": 1.0, "delta": 1e-6, "honest": 1.0}
LINE = Reals(lower=0.0, upper=1.0, steps=10)


def more(field, factor):
    """Mutants: one parameter is off."""
    return lambda device: replace(device, **{field: int(getattr(device, field) * factor)})


def more_shares(device):
    none, *some = device.shares
    larger = [2 * share for share in some]
    return replace(device, shares=(none - sum(some), *larger))


# At the width of production: a protocol, and a device whose noise is not what the analyzer expects.
WIDE = {
    "rr": (lambda: protocols.rr.make_local(epsilon=1.0), lambda _: RR(epsilon0=0.7)),
    "krr": (lambda: protocols.krr.make_local(k=16, epsilon=2.0), lambda _: KRR(k=16, epsilon0=1.5)),
    "symmetric_unary": (
        lambda: protocols.symmetric_unary.make_local(k=16, epsilon=2.0, word_bits=64),
        lambda _: Unary.symmetric(k=16, epsilon0=1.5, word_bits=64),
    ),
    "optimized_unary": (
        lambda: protocols.optimized_unary.make_local(k=16, epsilon=2.0, word_bits=64),
        lambda _: Unary.optimized(k=16, epsilon0=1.5, word_bits=64),
    ),
    "hadamard": (
        lambda: protocols.hadamard.make_local(k=16, epsilon=1.0),
        lambda _: HadamardResponse(k=16, epsilon0=0.7),
    ),
    "duchi": (
        lambda: protocols.duchi.make_local(lower=0.0, upper=1.0, steps=10, epsilon=1.0),
        lambda _: Duchi(domain=LINE, epsilon0=0.7),
    ),
    "piecewise": (
        lambda: protocols.piecewise.make_local(lower=0.0, upper=1.0, steps=10, epsilon=3.0),
        lambda _: Piecewise(domain=LINE, epsilon0=2.8),
    ),
    "hybrid": (
        lambda: protocols.hybrid.make_local(lower=0.0, upper=1.0, steps=10, epsilon=3.0),
        lambda _: Hybrid(domain=LINE, epsilon0=2.8),
    ),
    "zsum_sparse": (lambda: protocols.zsum_sparse.make(**SHUFFLED), more("threshold", 1.5)),
    "zsum": (lambda: protocols.zsum.make(**SHUFFLED), more("threshold", 0.999)),
    "sparse_histogram": (lambda: protocols.sparse_histogram.make(**SHUFFLED, k=16), more_shares),
    "dummies_histogram": (
        lambda: protocols.dummies_histogram.make(**SHUFFLED, k=16),
        more("threshold", 1.5),
    ),
    "correlated_count": (
        lambda: protocols.correlated_count.make(**SHUFFLED),
        lambda device: replace(device, star=0.7 * device.star),
    ),
    "correlated_histogram": (
        lambda: protocols.correlated_histogram.make(**SHUFFLED, k=16),
        lambda device: replace(device, star=0.7 * device.star),
    ),
    "fake_users": (
        lambda: protocols.fake_users.make(**SHUFFLED, k=16, word_bits=64),
        more("flips", 1.5),
    ),
    "pure_count": (
        lambda: protocols.pure_count.make(n=200, epsilon=1.0, honest=1.0),
        lambda device: replace(device, noise=tuple(2 * share for share in device.noise)),
    ),
    "pure_histogram": (
        lambda: protocols.pure_histogram.make(n=200, k=3, epsilon=2.0, honest=1.0),
        lambda device: replace(
            device,
            count=replace(device.count, noise=tuple(2 * each for each in device.count.noise)),
        ),
    ),
}


def squared_errors(device, protocol, seed):
    """(estimate - truth)^2 / declared variance of many dealt tallies: of mean 1 if all is right."""
    size = device.domain.size
    n = protocol.users or 20_000
    # Uneven, so that a wrong epsilon is a bias, too.
    inputs = np.random.default_rng(1).multinomial(n, np.arange(1, size + 1) * 2 / size / (size + 1))
    analyzer = protocol.analyzer
    if protocol.name == "zsum":  # its own answer is cut at 0; the tally is the same
        analyzer = SparseZsumAnalyzer(randomizer=protocol.randomizer)
    if protocol.task == "histogram":
        truth = inputs
    else:
        truth = inputs @ device.domain.values(np.arange(size))
        truth = truth / n if protocol.task == "mean" else truth
    source, terms, variance = sdp.SeededWords(seed), [], analyzer.variance(inputs)
    for _ in range(2400 // (size if protocol.task == "histogram" else 12)):
        value = analyzer.estimate(device.deal(inputs, source)).value
        terms.append(np.atleast_1d((value - truth) ** 2 / variance))
    return np.concatenate(terms)


def is_right(terms):
    return chi2.ppf(ALPHA / 2, terms.size) < terms.sum() < chi2.isf(ALPHA / 2, terms.size)


ELSEWHERE = {"zsum_histogram", "count_min", "tree"}  # below
OWN = {"split_and_mix", "unary_sum", "rounded_sum", "zero_sum_flooding", "hashed_prefixes"}
"""In their own modules."""


def test_every_dealt_protocol_is_tried_at_64_bits():
    assert WIDE.keys() | ELSEWHERE | OWN == DEALT


@pytest.mark.parametrize("name", WIDE)
def test_dealt_at_64_bits_and_a_mutant(name):
    make, mutate = WIDE[name]
    protocol = make()
    assert protocol.randomizer.word_bits == 64
    assert is_right(squared_errors(protocol.randomizer, protocol, 11))
    assert not is_right(squared_errors(mutate(protocol.randomizer), protocol, 11))


def test_zsum_histogram_at_64_bits_and_a_mutant():
    """Its answers are cut at 0: the tally itself is looked at."""
    device = protocols.zsum_histogram.make(**SHUFFLED, k=16).randomizer
    inputs = np.full(16, 1250)

    def terms(dealing_device):
        source, gamma = sdp.SeededWords(12), float(device.gamma)
        tallies = [dealing_device.deal(inputs, source).counts for _ in range(150)]
        centred = np.array(tallies) - inputs - 20_000 * (1 - gamma)
        return (centred**2 / (20_000 * gamma * (1 - gamma))).ravel()

    assert is_right(terms(device))
    assert not is_right(terms(more("silent", 1.5)(device)))


def test_tree_at_64_bits_and_a_mutant():
    """Every node has the people below it and dummies."""
    device = protocols.tree.make(**SHUFFLED, lower=0, upper=15).randomizer
    assert device.word_bits == 64
    inputs = np.full(16, 1250)
    own = np.concatenate(aggregate(inputs, device.shape))
    moments = [
        [
            20_000 * float(sum(times * p * (1 - power * p) for times, p in level.noise))
            for power in (0, 1)
        ]
        for level in device.levels
        for _ in range(level.k)
    ]
    mean, variance = np.array(moments).T

    def terms(dealing_device):
        source = sdp.SeededWords(13)
        tallies = [dealing_device.deal(inputs, source).counts for _ in range(150)]
        return ((np.array(tallies) - own - mean) ** 2 / variance).ravel()

    assert is_right(terms(device))
    first, *others = device.levels
    louder = replace(first, threshold=int(first.threshold * 1.5))
    assert not is_right(terms(replace(device, levels=(louder, *others))))


def test_count_min_at_64_bits_and_a_mutant():
    """Given its functions, a cell has a count and dummies."""
    device = protocols.count_min.make(**SHUFFLED, k=40, rows=2, width=8, seed=1).randomizer
    inputs = np.full(40, 500)
    mean, variance = (
        sum(times * p * (1 - power * p) for times, p in device.row.noise) for power in (0, 1)
    )
    own = np.zeros(16, dtype=np.int64)
    for row in device.cells(np.arange(40)):
        np.add.at(own, row, inputs)

    def terms(dealing_device):
        source = sdp.SeededWords(13)
        tallies = [dealing_device.deal(inputs, source).counts for _ in range(150)]
        centred = np.array(tallies) - own - 20_000 * float(mean)
        return (centred**2 / (20_000 * float(variance))).ravel()

    assert is_right(terms(device))
    assert not is_right(terms(more("threshold", 1.5)(device)))
