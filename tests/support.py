"""What the tests share."""

import itertools
import math
import os

import numpy as np
import pytest
from scipy.stats import chi2

from contract.examples import examples_of
from shuffledp.core.randomizer import Shuffled
from shuffledp.numerics.entropy import SeededWords
from shuffledp.testing import ALPHA, all_tapes, enumerate_law

__all__ = [
    "ALPHA",
    "all_tapes",
    "any_protocol",
    "encode_many",
    "enumerated_law",
    "every",
    "first",
    "fits",
    "mean_estimate",
    "need",
]

enumerated_law = enumerate_law


def first(cases, number=1):
    """Parameters of which the first are always tried, and the others by `make test-all`."""
    return [each if i < number else _later(each) for i, each in enumerate(cases)]


def every(step, cases):
    """Parameters of which every `step`-th is always tried, and the others by `make test-all`."""
    return [_later(each) if i % step else each for i, each in enumerate(cases)]


def _later(case):
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)


def need(found, what):
    """Skip where a program is missing; with SHUFFLEDP_TOOLS=required, as in `.ci/run`, fail."""
    if not found:
        required = os.environ.get("SHUFFLEDP_TOOLS") == "required"
        (pytest.fail if required else pytest.skip)(f"not tested here: there is no {what}")


def any_protocol(spec):
    """The first example of a registered protocol, local if it has one."""
    examples = examples_of(spec)
    if spec.make_local:
        return spec.make_local(**examples.local[0])
    return spec.make(**examples.shuffled[0])


def encode_many(randomizer, x, n, seed):
    """What n users of code x send, at the randomizer's own width of words."""
    width = randomizer.words_per_input
    words = SeededWords(seed).words(n * width, randomizer.word_bits).reshape(n, width)
    return randomizer.encode(np.full(n, x), words)


def fits(counts, law):
    """Whether counts of outcomes are within the chi-squared law's 1 - ALPHA range of their probabilities.

    Outcomes of which fewer than ten are expected are counted as one.
    """
    counts, expected = np.asarray(counts), np.array([float(mass) for mass in law]) * sum(counts)
    rare = expected < 10
    if rare.any():
        counts = np.append(counts[~rare], counts[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    if expected[-1] == 0:
        assert counts[-1] == 0
        counts, expected = counts[:-1], expected[:-1]
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return statistic < chi2.isf(ALPHA, len(counts) - 1)


def mean_estimate(protocol, people):
    """The mean of the estimate over all messages that a few people may send, weighted by the declared law."""
    laws, total = [protocol.randomizer.pmf(x).items() for x in people], 0.0
    for sent in itertools.product(*laws):
        payload = np.array([m for messages, _ in sent for m in messages], dtype=np.int64)
        tally = protocol.analyzer.tally(Shuffled(payload=payload, users=len(people)))
        chance = math.prod(float(mass) for _, mass in sent)
        total += chance * protocol.analyzer.estimate(tally).value
    return total
