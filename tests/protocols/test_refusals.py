"""What devices, analyzers and makers refuse beyond ranges of numbers (those are in tests/contract/ranges.txt)."""

import math
from fractions import Fraction

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp import protocols
from shuffledp.core.analyzer import Tally
from shuffledp.core.protocol import Crowd, Promise
from shuffledp.core.texts import Keys
from shuffledp.protocols import bundle, krr, split_and_mix, tree
from shuffledp.protocols.dummies_histogram import DummiesHistogram
from shuffledp.protocols.hashed_prefixes.device import HashedPart, HashedPrefixes
from shuffledp.protocols.hashed_tree import _Layout
from shuffledp.protocols.server_noise import make_server_noise
from shuffledp.protocols.shared.joint import PartSpec
from shuffledp.protocols.split_and_mix.noise import NoiseShare, sampled_delta

CROWD, PROMISE = Crowd(n=1000, honest=1.0), Promise(epsilon=1.0, delta=1e-6)
FOUR = DummiesHistogram(k=4, surely=1, threshold=0, word_bits=2)
COARSE = DummiesHistogram(k=4, surely=1, threshold=0, word_bits=3)
PART = HashedPart(levels=((1, 1), (2, 1)), buckets=2, noise=FOUR)
WIDE = HashedPart(levels=((1, 1),), buckets=4, noise=FOUR)
PAIR = bundle.make(
    n=1000,
    epsilon=1.0,
    delta=1e-5,
    parts=[
        {"name": "a", "protocol": "dummies_histogram", "k": 3},
        {"name": "b", "protocol": "dummies_histogram", "k": 2},
    ],
)
LAYOUT = _Layout(domain=sdp.Integers(lower=0, upper=15), shape=(4, 4), hash_bits=2, word_bits=64)
ONE = Tally(counts=np.zeros(3, dtype=np.int64), users=3)

REFUSED = {
    "an unknown protocol": (lambda: protocols.make("kkr", k=3, epsilon=1.0), "protocol='kkr'"),
    "an unknown parameter": (
        lambda: protocols.make("krr", k=3, epsilon=1.0, wide=4),
        "wide=4 is not a parameter of krr",
    ),
    "people in the local model": (
        lambda: protocols.make("local_tree", n=10, lower=0, upper=7, epsilon=1.0),
        "local_tree is for the local model",
    ),
    "nobody in the shuffle model": (
        lambda: protocols.make("dummies_histogram", k=3, epsilon=1.0),
        "dummies_histogram is for the shuffle model: give n",
    ),
    "a part of the local model": (
        lambda: PartSpec(
            name="a", protocol="local_tree", parameters={}, epsilon=1.0, delta=1e-6
        ).make(CROWD),
        "a: local_tree is not for the shuffle model",
    ),
    "a bundle of nothing": (lambda: bundle.BundleDevice(devices=()), "must be at least one"),
    "a tally too few": (lambda: PAIR.analyzer.join([ONE]), "the same people"),
    "tallies of different people": (
        lambda: PAIR.analyzer.join([ONE, Tally(counts=ONE.counts[:2], users=4)]),
        "the same people",
    ),
    "a tally of something else": (lambda: PAIR.analyzer.split(ONE), "5 counts was expected, not 3"),
    "no bundle": (lambda: bundle.questions(krr.make_local(k=3, epsilon=1.0)), "must be a bundle"),
    "rows without bits": (
        lambda: HashedPart(levels=((0, 2),), buckets=2, noise=FOUR),
        "pairs of bits and rows, each >= 1",
    ),
    "bits without rows": (
        lambda: HashedPart(levels=((2, 0), (1, 2)), buckets=2, noise=FOUR),
        "pairs of bits and rows, each >= 1",
    ),
    "three rows": (
        lambda: HashedPart(levels=((2, 3),), buckets=2, noise=FOUR),
        "rows=3 of a part must be a power of two",
    ),
    "three buckets": (
        lambda: HashedPart(levels=((2, 2),), buckets=3, noise=FOUR),
        "buckets=3 must be a power of two",
    ),
    "noise in other cells": (
        lambda: HashedPart(levels=((2, 2),), buckets=4, noise=FOUR),
        "must be over 8 cells",
    ),
    "no parts": (
        lambda: HashedPrefixes(domain=Keys(bits=2), parts=(), seed=1),
        "must be at least one, of the same buckets",
    ),
    "parts of other buckets": (
        lambda: HashedPrefixes(domain=Keys(bits=2), parts=(PART, WIDE), seed=1),
        "must be at least one, of the same buckets",
    ),
    "parts of other words": (
        lambda: HashedPrefixes(
            domain=Keys(bits=2),
            parts=(PART, HashedPart(levels=((1, 2),), buckets=2, noise=COARSE)),
            seed=1,
        ),
        "words of the same bits",
    ),
    "a tree without levels": (lambda: tree.read_shape(()), "at least one level"),
    "a level of one branch": (lambda: tree.read_shape((2, 1)), "shape=1 must be >= 2"),
    "levels without an epsilon": (
        lambda: tree.make_levels(CROWD, PROMISE, (2, 2), [0.5], 64),
        "one epsilon for each of 2",
    ),
    "levels of a hashed tree without an epsilon": (
        lambda: LAYOUT.spend(CROWD, PROMISE, [0.5]),
        "one epsilon for each of 2",
    ),
    "words too short for nodes": (
        lambda: tree._fit_levels(CROWD, PROMISE, (4, 5), 4),
        "word_bits=4 must be enough for 20 nodes",
    ),
    "dealing people who answer one question of several": (
        lambda: make_server_noise(
            task="histogram", k=3, rate=1.0, most=9, parts=2, epsilon=None
        ).analyzer.deal(np.ones(3, dtype=np.int64), sdp.SeededWords(1)),
        "not dealt",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_why(name):
    call, why = REFUSED[name]
    with pytest.raises(sdp.core.errors.ShuffledpError, match=why):
        call()


WITHOUT_WEIGHTS = {
    "hashed_prefixes": {"n": 1000, "bits": 6, "epsilon": 1.0, "delta": 1e-6},
    "local_prefixes": {"bits": 6, "epsilon": 1.0},
    "split_and_mix": {"n": 100, "lower": 0, "upper": 1, "epsilon": 1.0, "delta": 1e-6},
}


@pytest.mark.parametrize("name", WITHOUT_WEIGHTS)
def test_single_messages_have_no_weight_where_only_all_of_them_mean_something(name):
    made = protocols.make(name, **WITHOUT_WEIGHTS[name])
    with pytest.raises(sdp.UnsupportedError, match=r"weight|meaning"):
        made.analyzer.weights(0)


def test_a_huge_epsilon_is_no_promise():
    share = NoiseShare(rate=Fraction(1, 10), parts=10)
    assert sampled_delta(epsilon=701.0, reach=1, share=share, honest=10) == 1.0
    assert sampled_delta(epsilon=20.0, reach=1, share=share, honest=10) < 1.0
    assert split_and_mix.secure_sum_delta(epsilon=701.0, delta0=0.0, log2_tv=-2000.0) == 1.0
    near = split_and_mix.secure_sum_delta(epsilon=700.0, delta0=0.0, log2_tv=-1020.0)
    assert near == pytest.approx((1 + math.exp(700)) * 2.0**-1020, rel=1e-12)


def test_levels_with_an_epsilon_of_their_own_keep_it():
    made = tree.make_levels(CROWD, PROMISE, (2, 3), [0.5, 0.8], 64)
    assert [device.k for device in made] == [2, 6]
    for device, epsilon in zip(made, (0.5, 0.8), strict=True):
        assert 0.9e-6 < device.delta(1000, epsilon) <= 1e-6
    hashed = LAYOUT.spend(CROWD, PROMISE, [0.5, 0.8])
    assert hashed.top.levels == tree.make_levels(CROWD, PROMISE, (4,), [0.5], 64)
    assert 0.5e-6 < hashed.last.delta(1000, 0.8) <= 1e-6
