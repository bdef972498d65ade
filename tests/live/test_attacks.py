"""Attacks on a live collection: they succeed as often as the table says, and no more."""

import math
from fractions import Fraction

import numpy as np
import pytest

import live_support as live
import shuffledp as sdp
from live.test_roles import open_analyzer, open_shuffler, upload
from shuffledp import protocols
from shuffledp.core.randomizer import Shuffled
from shuffledp.live.wire.report import encode_answers, open_inner, seal_inner
from shuffledp.numerics.rounding import exp_lower

COLLECTION = live.make_collection()


def right_guesses(randomizer, a, b):
    """The exact probability that the best guess between two values is right, from the declared law."""
    first, second = randomizer.pmf(a), randomizer.pmf(b)
    seen = first.keys() | second.keys()
    return sum((max(first.get(y, 0), second.get(y, 0)) for y in seen), Fraction(0)) / 2


TINY = [
    protocols.rr.make_local(epsilon=3.0),
    protocols.krr.make_local(k=4, epsilon=3.0),
    protocols.symmetric_unary.make_local(k=4, epsilon=3.0),
    protocols.optimized_unary.make_local(k=4, epsilon=3.0),
    protocols.hadamard.make_local(k=4, epsilon=3.0),
    protocols.subset_selection.make_local(k=4, epsilon=1.0),
    protocols.local_hashing.make_local(k=4, epsilon=3.0, word_bits=6),
    protocols.duchi.make_local(lower=0, upper=1, steps=4, epsilon=3.0),
    protocols.piecewise.make_local(lower=0, upper=1, steps=4, epsilon=3.0),
    protocols.hybrid.make_local(lower=0, upper=1, steps=4, epsilon=3.0),
]


@pytest.mark.parametrize("made", TINY, ids=lambda made: made.name)
def test_the_n_minus_1_attack_is_bounded_by_the_floor(made):
    """Whoever knows all other reports sees the victim's alone: every pair of values, exactly."""
    randomizer = made.randomizer
    bound = 1 - 1 / (1 + exp_lower(randomizer.epsilon0)) + Fraction(1, 10**30)
    size = randomizer.domain.size
    for a in range(size):
        for b in range(a):
            assert Fraction(1, 2) < right_guesses(randomizer, a, b) <= bound


def test_the_n_minus_1_attack_without_a_floor():
    """Why live collections have one: these protocols hide nobody from sybils."""
    for made in (
        protocols.zsum_sparse.make(n=1000, epsilon=1.0, delta=1e-8),
        protocols.dummies_histogram.make(n=1000, k=2, epsilon=1.0, delta=1e-8),
    ):
        assert right_guesses(made.randomizer, 0, 1) > 0.9
        with pytest.raises(sdp.DataError, match="cannot be collected live"):
            sdp.live.wire.carry(made)


def test_the_n_minus_1_attack_through_the_wire(tmp_path):
    """A shuffler that adds 19 reports of its own and hands the batch to its friend, the analyzer, learns one message."""
    shuffler = open_shuffler(tmp_path / "s")
    known = set()
    for _ in range(19):
        inners = [seal_inner(COLLECTION, 0, bytes([kind, 0])) for kind in range(2)]
        known |= set(inners)
        shuffler.receive(upload(inners), 1001.0)
    plains = encode_answers(COLLECTION, {"way": "bus", "home": True}, sdp.SeededWords(5))
    shuffler.receive(upload([seal_inner(COLLECTION, 0, plain) for plain in plains]), 1001.0)
    shuffler.tick(1110.0)
    batch, size = shuffler.batch(0).read_bytes(), COLLECTION.inner_size
    records = {batch[place : place + size] for place in range(0, len(batch), size)}
    victim = {open_inner(COLLECTION, 0, each, live.secret("inner")) for each in records - known}
    assert victim == set(plains)  # the randomized answers, never the answers
    assert COLLECTION.pledge.guess == pytest.approx(math.exp(3) / (1 + math.exp(3)))


def test_sybils_poison_a_count_by_their_influence_and_no_more():
    made = protocols.rr.make_local(epsilon=3.0)

    def estimate(ones, n=1000):
        payload = np.repeat([0, 1], [n - ones, ones])
        return made.analyzer.estimate(made.analyzer.tally(Shuffled(payload=payload, users=n))).value

    moved = estimate(350) - estimate(300)
    assert moved == pytest.approx(50 * float(made.analyzer.influence()))


@pytest.mark.parametrize("made", TINY, ids=lambda made: made.name)
def test_influence_is_the_largest_move_of_any_message(made):
    """From the exact weights of all messages; for means in units of the whole range, which is 1."""
    randomizer = made.randomizer
    messages = {y for x in range(randomizer.domain.size) for (y,) in randomizer.pmf(x)}
    weights = np.array(
        [[float(w) for w in made.analyzer.weights(y)] for y in sorted(messages, key=str)]
    )
    spread = float((weights.max(axis=0) - weights.min(axis=0)).max())
    assert spread <= float(made.analyzer.influence()) * (1 + 1e-12)
    assert spread > 0.5 * float(made.analyzer.influence())


def test_all_messages_of_a_report_for_one_question(tmp_path):
    """The analyzer cannot link messages: one report counts as often as it has slots, and the plan says so."""
    shuffler, analyzer = open_shuffler(tmp_path / "s"), open_analyzer(tmp_path / "a")
    for seed in range(25):
        shuffler.receive(upload(live.make_inners(COLLECTION, 0, seed)), 1001.0)
    twice = [seal_inner(COLLECTION, 0, b"\0\1") for _ in range(2)]
    shuffler.receive(upload(twice), 1001.0)
    shuffler.tick(1110.0)
    manifest, signature = shuffler.manifest(0, 1110.0)
    analyzer.take(manifest.raw, signature, lambda _: shuffler.batch(0).read_bytes())
    assert analyzer.advance(0) == "published"
    people = {name: q["people"] for name, q in analyzer.results()[0]["questions"].items()}
    assert people == {"way": 27, "home": 25}
