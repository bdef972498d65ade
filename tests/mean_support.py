"""A seeded comparison of a sampler for the mean with the law it declares."""

import math

import numpy as np
from scipy import stats

import shuffledp as sdp

RUNS, USERS = 2000, 200


def p_values(randomizer, x, encode=None, claimed=None):
    """(bias, mean squared error) of 2000 estimates from 200 users of code x, as two-sided tails.

    The error of one estimate, over its declared standard deviation, is a standardized sum of 200
    independent terms: normal. So their sum is normal and their sum of squares is chi-squared.
    A mutant comes with its own `encode`, or with the variance that it claims.
    """
    draw = encode or randomizer.encode
    variance = claimed or randomizer.code_variance(x)
    count = RUNS * USERS
    width = randomizer.words_per_input
    words = sdp.SeededWords(11).words(count * width, randomizer.word_bits).reshape(count, width)
    payload = draw(np.full(count, x), words).payload
    decoded = np.array([float(randomizer.decoder(y)) for y in range(randomizer.alphabet)])
    errors = decoded[payload].reshape(RUNS, USERS).mean(axis=1) - x
    scaled = errors / math.sqrt(variance / USERS)
    bias = 2 * stats.norm.sf(abs(scaled.sum()) / math.sqrt(RUNS))
    squares = float(scaled @ scaled)
    mse = 2 * min(stats.chi2.sf(squares, RUNS), stats.chi2.cdf(squares, RUNS))
    return bias, mse


def law_moments(randomizer, x):
    """Mean and variance of the decoded code, summed over the declared law."""
    mean = square = 0
    for (message,), mass in randomizer.pmf(x).items():
        code = randomizer.decoder(message)
        mean += mass * code
        square += mass * code * code
    return mean, square - mean * mean
