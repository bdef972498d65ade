"""What refusals say, in full: the value that was given, what is wanted, and what to do instead."""

from fractions import Fraction

import numpy as np
import pytest

from shuffledp import protocols
from shuffledp.accounting import clones, compose, exact
from shuffledp.accounting.amplify import profile
from shuffledp.core.analyzer import Estimate, NormalError, Tally, bit_tally
from shuffledp.core.errors import ShuffledpError
from shuffledp.core.randomizer import BitCode, Shuffled
from shuffledp.ledger.budget import replay
from shuffledp.mechanisms.binomial import Binomial
from shuffledp.mechanisms.selection import Exponential
from shuffledp.numerics.dealing import deal
from shuffledp.numerics.entropy import SeededWords
from shuffledp.protocols import zsum
from shuffledp.protocols.fake_users import FakeUsers
from shuffledp.protocols.local_hashing import LocalHashing
from shuffledp.protocols.server_hashing import HashedBin
from shuffledp.protocols.subset_selection import SubsetSelection

PROMISE = {"epsilon": 1.0, "delta": 1e-6}
PART = {"name": "a", "protocol": "dummies_histogram", "k": 3}
ENDLESS = Estimate(value=np.zeros(2), error=NormalError(stderr=1.0), limits=(0.0, np.inf))
NUMBER = Estimate(value=1.0, error=NormalError(stderr=1.0), limits=(-np.inf, np.inf))
WIDE = np.zeros((3, 4), dtype=np.int64)


def tally(randomizer, payload):
    return randomizer.tally(Shuffled(payload=payload, users=1))


def budget(**more):
    return {"dataset": "x", "event": "budget", "epsilon": 1.0, "delta": 0.0} | more


def law(name, **parameters):
    return protocols.make(name, epsilon=1.0, **parameters).randomizer.pmf(0)


SAID = [
    (lambda: ENDLESS.simplex(), "no public total is known here: give it, simplex(total)"),
    (
        lambda: NUMBER.simplex(),
        "simplex() is for histograms; this estimate is one number",
    ),
    (lambda: NUMBER.clip(), "no public range is known here: give it, clip((low, high))"),
    (
        lambda: Tally(counts=WIDE, users=1) + Tally(counts=WIDE[0], users=1),
        "tallies of shapes (3, 4) and (4,) do not add: they come from protocols with different parameters",
    ),
    (
        lambda: bit_tally(Shuffled(payload=WIDE, users=3), 5),
        "messages are vectors of 5 bits, not an array of shape (3, 4) and type int64",
    ),
    (
        lambda: BitCode(k=5).encode_message(WIDE),
        "messages are vectors of 5 bits, not (3, 4)",
    ),
    (
        lambda: deal([1, 2], [[3], [1], [2]], 2, SeededWords(1)),
        "own=3 must be 1 or 2 rows of equal length",
    ),
    (
        lambda: deal([1, 2], [[3, 1], [4]], 2, SeededWords(1)),
        "own=2 must be 1 or 2 rows of equal length",
    ),
    (
        lambda: deal([1], [[2]], 2, SeededWords(1), common=[1]),
        "own=(2,) must sum to 2^2 with the common shares",
    ),
    (
        lambda: clones.ApproximateClones(epsilon0=1.0, delta0=1e-3, n=100).epsilon(1e-4),
        "delta=0.0001 is below delta0=0.001: with that probability a message alone may give everything away",
    ),
    (
        lambda: compose.compose([profile(epsilon0=1.0, n=100, honest=1)], delta=1e-101),
        "delta=1e-101 is below 1e-100, where sums of losses take too long: use compose_renyi",
    ),
    (
        lambda: exact.shuffled_delta([{(i,): Fraction(1, 9) for i in range(9)}] * 3, 60, 2),
        "exact enumeration of n=60 users with 3 inputs and 9 different messages takes about 4.5e+14 steps, "
        "more than 2e+07",
    ),
    (
        lambda: Binomial(n=10, epsilon=0.1, delta=1e-6),
        "n=10 coins with gamma <= 1/2 do not reach epsilon=0.1, delta=1e-06 (exact calibration)",
    ),
    (
        lambda: Exponential(epsilon=1.0, sensitivity=1.0, k=2).probabilities(["a", "b"]),
        "utilities must be numbers, but have type <U1",
    ),
    (
        lambda: replay([budget(reserve=0.0, alpha=2.0), {"dataset": "x", "event": "gift"}]),
        "event 2 makes no sense: LedgerError(\"unknown kind 'gift'\")",
    ),
    (
        lambda: replay([{"dataset": "x", "event": "charge"}]),
        "event 1 makes no sense: LedgerError('it belongs to a data set that has no budget')",
    ),
    (
        lambda: zsum.paper_gamma(n=10**6, epsilon=1.5, delta=1e-6, bits=64),
        "the theorem is for epsilon <= 1, not epsilon=1.5",
    ),
    (
        lambda: protocols.make(
            "zsum_histogram", n=10**6, k=4, epsilon=2.5, delta=1e-6, calibration="paper"
        ),
        "the theorem is for epsilon <= 2, not epsilon=2.5",
    ),
    (
        lambda: protocols.make(
            "unary_sum", n=10**4, lower=0, upper=9, **PROMISE, calibration="paper"
        ),
        "no constants are published for this variant: calibration='exact'",
    ),
    (
        lambda: protocols.make("unary_sum", n=3, lower=0, upper=900, ones=900, **PROMISE),
        "n=2 honest users would need more than 4096 coins each for ones=900: fewer ones, or more users",
    ),
    (
        lambda: protocols.make(
            "tree", n=10, lower=0, upper=2**20 - 1, shape=[1024, 1024], **PROMISE
        ),
        "n=10 users are too few for 1,048,576 cells: each would send 8,778,040 messages",
    ),
    (
        lambda: protocols.make("tree", n=10**5, lower=0, upper=3, **PROMISE).analyzer.weights(0),
        "a fitted tree has no weights of single messages",
    ),
    (
        lambda: protocols.make("count_min", n=10**5, k=100, **PROMISE).analyzer.weights(0),
        "count_min is unbiased over its public functions, not for given ones",
    ),
    (
        lambda: protocols.make("bundle", n=1000, **PROMISE, parts=[PART, PART]),
        "parts=('a', 'a') must have distinct names",
    ),
    (
        lambda: protocols.make("bundle", n=1000, **PROMISE, parts=[]),
        "parts=[] must be a list of at least one part",
    ),
    (
        lambda: LocalHashing(k=4, g=2, epsilon0=1.0, word_bits=5),
        "word_bits=5 must be 4, 6, 8, ..., 32 or 64",
    ),
    (
        lambda: tally(LocalHashing(k=4, g=2, epsilon0=1.0), WIDE),
        "messages are rows (a, b, y) of integers, not an array of shape (3, 4) and type int64",
    ),
    (
        lambda: tally(
            protocols.make("hadamard_blanket", n=10**5, k=8, **PROMISE).randomizer, WIDE[:, :1]
        ),
        "messages are rows of tau=11 columns, not an array of shape (3, 1) and type int64",
    ),
    (lambda: law("symmetric_unary", k=17), "the law of k=17 bits has 2^17 messages"),
    (
        lambda: SubsetSelection(k=40, w=20, epsilon0=1.0).pmf(0),
        "the law of k=40 has C(40, 20) messages",
    ),
    (
        lambda: LocalHashing(k=4, g=2, epsilon0=1.0, word_bits=18).pmf(0),
        "the law has 2^18 hash functions",
    ),
    (
        lambda: FakeUsers(k=6, fake=2, flips=1).pmf(0),
        "the law of 3 vectors of k=6 bits has 2^18 entries",
    ),
    (lambda: HashedBin(k=2**10, r=10, s=7, width=1).pmf(0), "the law has 2^17 messages"),
]


@pytest.mark.parametrize(
    ("act", "said"), SAID, ids=lambda each: each if isinstance(each, str) else ""
)
def test_a_refusal_says_what_is_wanted(act, said):
    with pytest.raises(ShuffledpError) as caught:
        act()
    assert str(caught.value) == said
