"""Is the mean squared error of a protocol the variance that its analyzer declares?"""

import numpy as np
from scipy.stats import chi2

from shuffledp.core.randomizer import forget
from shuffledp.numerics.entropy import SeededWords
from support import ALPHA


def squared_errors(randomizer, protocol, codes, *, runs, seed):
    """(estimate - truth)^2 / declared variance: terms[runs, bins], of mean 1 if all is right.

    `randomizer` makes the messages and `protocol` reads them, so a mutant can stand in for the
    protocol's own randomizer.
    """
    n, width = len(codes), randomizer.words_per_input
    inputs = np.bincount(codes, minlength=randomizer.domain.size)
    truth = inputs if protocol.task == "histogram" else float(codes.sum())
    variance, analyzer, rng = (
        protocol.analyzer.variance(inputs),
        protocol.analyzer,
        SeededWords(seed),
    )
    terms = []
    for _ in range(runs):
        words = rng.words(n * width, randomizer.word_bits).reshape(n, width)
        messages = randomizer.encode(codes, words)
        estimate = analyzer.estimate(analyzer.tally(forget(messages)))
        terms.append(np.atleast_1d((estimate.value - truth) ** 2 / variance))
    return np.array(terms)


def is_the_variance(terms):
    """Whether the sum of squares is inside the chi-square law's 1 - ALPHA range.

    The terms are squares of sums over many users: close to normal, and bins of one run are
    independent (unary encodings) or so weakly correlated that it does not matter.
    """
    total, count = terms.sum(), terms.size
    return chi2.ppf(ALPHA / 2, count) < total < chi2.isf(ALPHA / 2, count)


def resolution(terms):
    """The relative error of the variance that the test is sure to notice."""
    return chi2.isf(ALPHA / 2, terms.size) / terms.size - 1
