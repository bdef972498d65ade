"""One random question in each report: the people who answered it are a sample of all, and errors say so.

With m of n reports about a question, a share or mean of the m estimates that of the n; counts and sums are n times
as much. Half of the error probability is for the noise, with the interval of the protocol itself, half for the sample,
which is drawn without replacement: a mean is off by at most range sqrt((1 - (m - 1) / n) log(2 / alpha) / (2 m)),
except with probability alpha (Serfling 1974), and a share p by z sqrt(p (1 - p) (1 - m / n) / m) about, wider by
z^2 / (3 m) for its skewness.
"""

import math
from statistics import NormalDist

import numpy as np

from shuffledp.core.arrays import Counts, Floats
from shuffledp.core.display import Number, list_numbers
from shuffledp.core.estimate import Estimate
from shuffledp.wire.question import Question

__all__ = ["foresee_variance", "sampling_variance", "scale_up"]


def foresee_variance(question: Question, counts: Counts, sampled: int) -> Floats:
    """The variance of the answer if `sampled` of the counts[code] people answer: noise and sampling error."""
    people = int(counts.sum())
    part = sampled / people
    own = np.asarray(question.protocol.analyzer.variance(np.round(counts * part).astype(np.int64)))
    average = question.task == "mean"
    shares = counts / people
    if question.task == "count":
        shares = shares[1]
    more = np.vectorize(lambda share: sampling_variance(question, float(share), sampled, people))
    spread = more(0.0 if question.ends is not None else shares)
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
        radius = _find_radius(question, low, high, sampled, people, outside)
        spread = sampling_variance(question, value, sampled, people)
        stderr = math.sqrt((row.stderr / unit) ** 2 + spread)
        lower, upper = question.ends or (0.0, 1.0)
        ends = max(low - radius, lower), min(high + radius, upper)
        found.append(
            Number(row.label, total * value, total * stderr, total * ends[0], total * ends[1])
        )
    return found


def sampling_variance(question: Question, value: float, sampled: int, people: int) -> float:
    """How far the share or mean of a sample varies: at most, if it is a mean."""
    left = max(0.0, 1 - sampled / people) / sampled
    if question.ends is not None:
        return (question.ends[1] - question.ends[0]) ** 2 / 4 * left
    share = min(max(value, 0.0), 1.0)
    return share * (1 - share) * left


def _find_radius(
    question: Question, low: float, high: float, sampled: int, people: int, outside: float
) -> float:
    if question.ends is not None:
        reach = question.ends[1] - question.ends[0]
        kept = 1 - (sampled - 1) / people
        return reach * math.sqrt(max(kept, 0.0) * math.log(2 / outside) / (2 * sampled))
    z = -NormalDist().inv_cdf(outside / 2)
    widest = min(max(0.5, low), high)  # the share with the largest variance in the interval
    return z * math.sqrt(sampling_variance(question, widest, sampled, people)) + z * z / 3 / sampled
