"""Trees whose leaves are hashed: uncorrelated collisions, published errors, intervals that cover."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binom

import shuffledp as sdp
from shuffledp.accounting.exact import shuffled_delta
from shuffledp.accounting.moved_message import dummies
from shuffledp.core.analyzer import Tally
from shuffledp.numerics.rounding import exp_lower
from shuffledp.protocols import hashed_tree
from shuffledp.protocols.dummies_histogram import DummiesHistogram
from shuffledp.protocols.hashed_tree import HashedLevel
from shuffledp.protocols.tree import Tree
from shuffledp.testing import ALPHA, Examples, enumerate_law
from support import mean_estimate

EXAMPLES = Examples(
    hashed_tree.SPEC,
    shuffled=(
        {"n": 20_000, "lower": 0, "upper": 99, "epsilon": 1.0, "delta": 1e-6, "shape": [10, 10], "hash_bits": 5},
        {"n": 5000, "lower": -1.0, "upper": 1.0, "steps": 600, "epsilon": 1.0, "delta": 1e-5, "at": [0.5]},
    ),
)  # fmt: skip
TINY = HashedLevel(k=3, r=2, s=1, dummies=8, word_bits=5)
RUNS = 60


def test_the_sampler_follows_its_declared_law():
    for x in range(TINY.k):
        declared = {sent: mass for sent, mass in TINY.pmf(x).items() if mass}
        assert sum(declared.values()) == 1
        assert enumerate_law(TINY, x) == declared


@pytest.mark.parametrize(
    "level", [TINY, HashedLevel(k=7, r=3, s=2, dummies=8, word_bits=8)], ids=["k=3", "k=7"]
)
def test_collisions_with_two_others_are_independent(level):
    """Over all functions, exactly: a message of x supports y and z each with probability q, both with q^2."""
    codes = np.arange(level.k)
    seen = []
    for function in range(1 << 2 * level.r):
        a, b = (np.full(level.k, part, dtype=np.uint64) for part in divmod(function, 1 << level.r))
        seen.append(level._hash(a, b, codes))
    hashes = np.array(seen)  # [functions, k]
    for x, y, z in combinations(range(level.k), 3):
        like_y, like_z = hashes[:, x] == hashes[:, y], hashes[:, x] == hashes[:, z]
        assert Fraction(int(like_y.sum()), len(hashes)) == level.q
        assert Fraction(int((like_y & like_z).sum()), len(hashes)) == level.q**2


def test_supports_are_counted():
    level = HashedLevel(k=100, r=7, s=4, dummies=8)
    messages = np.random.default_rng(1).integers(0, 1 << level.message_bits, 500)
    expected = np.zeros(100, dtype=np.int64)
    for message in messages.tolist():
        expected[list(level.find_supported(message))] += 1
    np.testing.assert_array_equal(level.count(messages), expected)


@pytest.mark.parametrize("person", [0, 2])
def test_the_variance_is_unbiased(person):
    """Over all messages, exactly: the own leaf of a person has no collision with the own message."""
    p = hashed_tree.make(
        n=200, honest=1, lower=0, upper=3, epsilon=3.0, delta=0.1, task="variance", shape=(2, 2), hash_bits=1,
        word_bits=6,
    )  # fmt: skip
    assert mean_estimate(p, [person]) == pytest.approx(0, abs=1e-12)


def test_leaves_are_measured_without_bias():
    """Over all messages of one person, exactly: the own leaf holds one person, every other leaf none."""
    above = DummiesHistogram(k=2, surely=0, threshold=1, word_bits=5)
    tree = hashed_tree.HashedTree(
        domain=sdp.Integers(lower=0, upper=3),
        top=Tree(domain=sdp.Integers(lower=0, upper=1), shape=(2,), levels=(above,)),
        last=HashedLevel(k=4, r=2, s=1, dummies=8, word_bits=5),
    )
    for x in range(4):
        mean = np.zeros(4)
        for sent, mass in tree.last.pmf(x).items():
            counts = np.concatenate([np.zeros(2, dtype=np.int64), tree.last.count(np.array(sent))])
            mean += float(mass) * tree.measure(Tally(counts=counts, users=1))[-1]
        np.testing.assert_allclose(mean, np.arange(4) == x, atol=1e-12)


def test_the_guarantee_of_the_level_is_above_the_exact_one():
    level = HashedLevel(k=2, r=2, s=1, dummies=16, word_bits=5)
    laws = [level.pmf(x) for x in range(2)]
    for epsilon in (0.0, 0.7):
        exact = float(shuffled_delta(laws, 1, exp_lower(epsilon)))
        assert 0 < exact <= level.delta(1, epsilon)
    # The bound supposes that the two categories never share a value; half of the time they do.
    apart = float(shuffled_delta(laws, 1, exp_lower(0.0)))
    assert apart == pytest.approx(float(1 - level.q) * level.delta(1, 0.0))


def test_published_errors_and_messages():
    """2^16 cells: at most 52 ranks with at most 6 messages per person."""
    p = hashed_tree.make(n=10**6, lower=0, upper=2**16 - 1, epsilon=1.0, delta=1e-8, honest=1.0)
    assert np.sqrt(p.analyzer.variance(np.array([10**6]))) <= 52
    assert p.cost.messages_mean <= 6
    assert 0.9e-8 < p.guarantee.delta <= 1e-8


def run_many(shrink):
    p = hashed_tree.make(
        n=3000, lower=0, upper=255, epsilon=1.0, delta=1e-5, shape=[16, 16], hash_bits=5, task="cdf", at=[3, 40, 200]
    )  # fmt: skip
    values = np.minimum(np.random.default_rng(3).exponential(40, 3000).astype(np.int64), 255)
    values[:1000] = 7  # many in one cell: where collisions would be seen
    truth = np.array([np.mean(values <= point) for point in (3, 40, 200)])
    source, hits, errors = sdp.SeededWords(7), 0, []
    for _ in range(RUNS):
        estimate = sdp.run(p, values, source)
        low, high = estimate.interval(0.9)
        middle = np.asarray(estimate.value)
        errors.append(middle - truth)
        inside = (middle + shrink * (low - middle) <= truth) & (
            truth <= middle + shrink * (high - middle)
        )
        hits += inside.all()
    return hits, np.array(errors) / np.asarray(estimate.stderr)


def test_intervals_cover_and_errors_are_as_stated():
    hits, errors = run_many(1.0)
    assert hits >= binom.ppf(ALPHA, RUNS, 0.9)
    assert np.all(np.abs(errors.mean(axis=0)) < 6.2 / np.sqrt(RUNS))
    assert 0.5 < errors.std() < 1.4


def test_a_fifth_of_the_width_would_be_seen():
    """The mutant of the test above."""
    assert run_many(0.2)[0] < binom.ppf(ALPHA, RUNS, 0.9)


def test_messages_can_be_few():
    crowd, promise = (
        sdp.core.protocol.Crowd(n=10**5, honest=1.0),
        sdp.core.protocol.Promise(epsilon=1.0, delta=1e-8),
    )
    few, many = (hashed_tree.choose_tree(4096, crowd, promise, messages) for messages in (4.0, 8.0))
    assert len(few[0]) < len(many[0]) or few[1] < many[1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"shape": [256]}, "at least two levels"),
        ({"shape": [2, 2]}, "must have 256 leaves"),
        ({"hash_bits": 40}, "hash_bits=40 must be"),
        ({"shape": None}, "256 cells need no hashing: a tree sends"),
        ({"upper": 2}, "3 cells: hashed trees have 4 to"),
        ({"upper": 2**30}, "1,073,741,825 cells"),
        ({"at": [1.5]}, "at=1.5 must be > 0 and < 1"),
    ],
)
def test_bad_parameters_are_refused(change, said):
    given = {
        "n": 30_000,
        "lower": 0,
        "upper": 255,
        "epsilon": 1.0,
        "delta": 1e-5,
        "shape": [16, 16],
        "hash_bits": 5,
    }
    with pytest.raises((sdp.ParameterError, sdp.UnsupportedError), match=said):
        hashed_tree.make(**{**given, **change})


def test_one_bit_of_hash_is_private_and_none_is_refused():
    """With one bit, half of all dummies support both of two leaves, and hide neither."""
    level = HashedLevel(k=2, r=2, s=1, dummies=16, word_bits=5)
    laws = [level.pmf(x) for x in range(2)]
    supported = [level.find_supported(message) for message in range(1 << level.message_bits)]
    pair = Fraction(sum(len(each) == 1 for each in supported), len(supported))
    assert pair == Fraction(1, 2)
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        exact = float(shuffled_delta(laws, 1, exp_lower(epsilon)))
        assert exact <= level.delta(1, epsilon)
        assert level.delta(1, epsilon) == dummies(n=1, rho=level.rho, pair=pair).delta(epsilon)
    given = {"n": 500, "lower": 0, "upper": 3, "epsilon": 2.0, "delta": 1e-2, "shape": (2, 2)}
    made = hashed_tree.make(**given, hash_bits=1)
    assert made.parameters["hash_bits"] == 1
    counts = np.array([300, 100, 60, 40])
    answer = sdp.run_counts(made, counts, rng=sdp.SeededWords(2))
    assert answer.interval(0.999).low[0] <= 1
    with pytest.raises(sdp.ParameterError, match="hash_bits"):
        hashed_tree.make(**given, hash_bits=0)


def test_hashes_are_as_long_as_messages_allow(monkeypatch):
    """With messages to spare, a value has one bit less than the leaves' numbers, and fits with two elements of a field."""
    crowd = sdp.core.protocol.Crowd(n=10**6, honest=1.0)
    shapes, noise = [(4, 4)], {2: 50.0}
    assert hashed_tree._choose(iter(shapes), crowd, noise, 1e9) == ((4, 4), 3)
    for most, bits in ((12, 3), (11, 3), (10, 2), (9, 1)):
        monkeypatch.setattr(hashed_tree, "_MOST_BITS", most)
        assert hashed_tree._choose(iter(shapes), crowd, noise, 1e9) == ((4, 4), bits)
        assert HashedLevel(k=16, r=4, s=bits, dummies=1).message_bits <= most
