"""One random question in each report: the people who answered it are a sample of all, and errors say so.

With m of n reports about a question, a share or mean of the m estimates that of the n; counts and sums are n times
as much. Half of the error probability is for the noise, with the interval of the protocol itself, half for the sample
(`numerics.intervals.sample`).
"""

import math

import numpy as np

from shuffledp.core.arrays import Counts, Floats
from shuffledp.core.display import Number, list_numbers
from shuffledp.core.estimate import Estimate
from shuffledp.numerics.intervals.sample import bound_sampling, sampling_variance
from shuffledp.wire.question import Question

__all__ = ["foresee_variance", "scale_up"]


def foresee_variance(question: Question, counts: Counts, sampled: int) -> Floats:
    """The variance of the answer if `sampled` of the counts[code] people answer: noise and sampling error."""
    people = int(counts.sum())
    part = sampled / people
    own = np.asarray(question.protocol.analyzer.variance(np.round(counts * part).astype(np.int64)))
    average = question.task == "mean"
    shares: Floats = counts / people
    if question.task == "count":
        shares = shares[1]
    if question.ends is not None:
        shares = np.zeros(())  # a mean is bounded alike, whatever it is
    spread = sampling_variance(shares, sampled, people, question.ends)
    found: Floats = own + spread if average else own / part**2 + people**2 * spread
    return found


def scale_up(
    question: Question, estimate: Estimate, sampled: int, people: int, level: float
) -> list[Number]:
    """What an estimate about `sampled` people says about all `people` whom they were drawn from."""
    outside = (1 - level) / 2
    rows = list_numbers(estimate, 1 - outside, label=question.task)
    total = 1.0 if question.task == "mean" else float(people)
    unit = 1.0 if question.task == "mean" else float(sampled)
    found = []
    for row in rows:
        value, low, high = (each / unit for each in (row.value, row.low, row.high))
        ends = bound_sampling(low, high, sampled, people, outside, question.ends)
        spread = float(sampling_variance(value, sampled, people, question.ends))
        stderr = math.sqrt((row.stderr / unit) ** 2 + spread)
        least, most = (total * float(end) for end in ends)
        found.append(Number(row.label, total * value, total * stderr, least, most))
    return found
