"""Errata about smooth noise, zsum and its histogram."""

import math
from fractions import Fraction

import numpy as np

import shuffledp as sdp
from shuffledp.accounting.moved_message import IndependentBins, independent_level
from shuffledp.accounting.noisy_count import BinomialCount, binomial_level

from .registry import Finding, erratum


def masses(n: int, gamma: float):
    from scipy.stats import binom

    return binom.pmf(np.arange(n + 1), n, gamma)


def smooth_delta(law, shift: int, threshold: float) -> float:
    """Pr[D(Y) / D(Y + shift) >= threshold], Y ~ D on 0 .. len(law) - 1."""
    moved = np.zeros_like(law)
    if shift >= 0:
        moved[: len(law) - shift] = law[shift:]
    else:
        moved[-shift:] = law[:shift]
    return float(law[law >= threshold * moved].sum())


@erratum(
    1,
    "N1, N4",
    says="Bin(n, gamma) is smooth for shifts k up to alpha gamma / 2.",
    truth="Up to n alpha gamma / 2, with alpha < 1. As printed, no shift k >= 1 is allowed.",
)
def condition_of_the_lemma():
    """Exact smoothness of Bin(1000, 0.1) at all shifts up to n alpha gamma / 2, against the lemma's delta."""
    n, gamma, alpha = 1000, 0.1, 0.3
    epsilon = math.log((1 + alpha) / (1 - alpha))
    bound = math.exp(-(alpha**2) * gamma * n / 8) + math.exp(
        -(alpha**2) * gamma * n / (8 + 2 * alpha)
    )
    largest, law = int(n * alpha * gamma / 2), masses(n, gamma)
    shifts = [s for k in range(1, largest + 1) for s in (k, -k)]
    exact = max(smooth_delta(law, s, math.exp(abs(s) * epsilon)) for s in shifts)
    printed = max(a / 100 * g / 200 for a in range(100) for g in range(101))
    return Finding(
        right=largest >= 1 and exact <= bound,
        wrong=printed >= 1,
        measured=f"{largest} shifts are allowed, exact delta {exact:.1e} <= {bound:.2f}; printed: k <= {printed:.2f}",
    )


@erratum(
    2,
    "N1, N4",
    says="epsilon/sqrt(5) >= alpha = tanh(epsilon/2) on [0, 1], with 5 the smallest integer for which alpha > 0.",
    truth="The other way round: alpha >= epsilon/sqrt(5), and 5 is the smallest integer c for which alpha - epsilon/sqrt(c) "
    "stays positive up to epsilon = 1. It holds up to epsilon = 1.204.",
)
def square_root_of_five():
    """The sign of tanh(epsilon/2) - epsilon/sqrt(c) on a grid of (0, 1], for c = 1, 2, ..."""
    grid = np.linspace(1e-3, 1, 1000)
    alpha = np.tanh(grid / 2)
    smallest = next(c for c in range(1, 10) if np.all(alpha > grid / math.sqrt(c)))
    low, high = 1.0, 2.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (
            (middle, high) if math.tanh(middle / 2) > middle / math.sqrt(5) else (low, middle)
        )
    return Finding(
        right=smallest == 5 and abs(low - 1.204) < 1e-3,
        wrong=bool(np.all(grid / math.sqrt(5) >= alpha)),
        measured=f"smallest c = {smallest}; {math.tanh(0.5):.4f} > {1 / math.sqrt(5):.4f} at epsilon = 1; valid up to {low:.3f}",
    )


@erratum(
    3,
    "N1, N4",
    says="Smoothness is an event E of a window [Y, Y + k'], and Pr[E < e^(|k'| epsilon)] > 1 - delta.",
    truth="E is the ratio of two point masses, a random variable; the complement of 'at most delta' is 'at least 1 - delta'; "
    "k' is an integer.",
)
def complement_of_smoothness():
    """Bin(4, 1/2), shift 1: the probability that the ratio is below 4, with delta its exact complement."""
    law = [Fraction(math.comb(4, y), 16) for y in range(5)] + [Fraction(0)]
    below = sum((law[y] for y in range(5) if law[y] < 4 * law[y + 1]), Fraction(0))
    delta = 1 - below
    return Finding(
        right=below >= 1 - delta and delta == Fraction(5, 16),
        wrong=below > 1 - delta,
        measured=f"Pr[ratio >= 4] = {delta}, Pr[ratio < 4] = {below}: equal to 1 - delta, not above it",
    )


@erratum(
    4,
    "N1, N4",
    says="Adding noise from an (epsilon, delta, 1)-smooth law is DP.",
    truth="It is (epsilon, delta)-DP, with exactly these parameters, for x in Z^n: without the delta it is false.",
)
def parameters_of_the_lemma():
    """Exact divergence of a count with Bin(100, 0.3) at epsilon = 0.5, against its exact smoothness delta."""
    law, epsilon = masses(100, 0.3), 0.5
    smooth = max(smooth_delta(law, shift, math.exp(epsilon)) for shift in (1, -1))
    exact = BinomialCount(n=100, gamma=Fraction(3, 10)).delta(epsilon)
    return Finding(
        right=0 < exact <= smooth,
        wrong=exact == 0,
        measured=f"exact delta {exact:.2e}, at most the smoothness {smooth:.2e}, and not 0",
    )


@erratum(
    5,
    "N1, N4",
    says="epsilon and delta are in [0, 1], and n = 100 ln(2/delta)/epsilon^2.",
    truth="Both are above 0 (epsilon = 0 divides by zero), and n must be at least as large, so that gamma <= 1/2.",
)
def range_of_parameters():
    """Make zsum with the published noise at epsilon = 0, just below, at, and at ten times the bound on n."""
    bound = math.ceil(100 * math.log(2 / 1e-6))
    made = {n: _made(n=n, epsilon=1.0) for n in (bound - 1, bound, 10 * bound)}
    gammas = [float(made[n].randomizer.gamma) for n in (bound, 10 * bound) if made[n]]
    return Finding(
        right=made[bound - 1] is None and len(gammas) == 2 and max(gammas) <= 0.5,
        wrong=_made(n=bound, epsilon=0.0) is not None or made[10 * bound] is None,
        measured=f"n = {bound}: gamma = {gammas[0]:.4f}; n = {10 * bound}: {gammas[1]:.4f}; n = {bound - 1} and epsilon = 0 are refused",
    )


def _made(*, n: int, epsilon: float):
    try:
        return sdp.protocols.zsum.make(
            n=n, epsilon=epsilon, delta=1e-6, honest=1.0, calibration="paper"
        )
    except (sdp.UnsupportedError, sdp.ParameterError):
        return None


@erratum(
    6,
    "N1, N4",
    says="For beta > delta^25 the error is at most alpha with probability 1 - beta; alpha is not defined, or an order.",
    truth="With alpha = 108 ln(2/delta)/(epsilon^2 n) that is so for every epsilon <= 1, as exp(-50 h) <= delta^25 for h = (1 + t) ln(1 + t) - t >= "
    "1/2 at 1 + t = 2.16. With 100 in place of 108 it is not: that radius fails with probability at most "
    "(delta/2)^(19.3/epsilon^2), and more often than delta^25 at epsilon = 1.",
)
def radius_of_zsum():
    """Exact probability of an error above 100 and 108 ln(2/delta)/epsilon^2 at epsilon = 1, delta = 10^-4, n = 10^6, against delta^25."""
    n, delta = 10**6, 1e-4
    analyzer = sdp.protocols.zsum.make(
        n=n, epsilon=1.0, delta=delta, honest=1.0, calibration="paper"
    ).analyzer
    short, long = (analyzer.failure(n, c * math.log(2 / delta)) for c in (100, 108))
    bound = (delta / 2) ** (50 * (2 * math.log(2) - 1))
    t = 1.16
    return Finding(
        right=long <= delta**25 and short <= bound and (1 + t) * math.log(1 + t) - t >= 0.5,
        wrong=short <= delta**25,
        measured=f"fails with probability 10^{math.log10(short):.1f} and 10^{math.log10(long):.1f}; delta^25 = 10^-100",
    )


@erratum(
    7,
    "N1, N4",
    says="The cells of the binary histogram have values in {0, 1}.",
    truth="The inputs are bits; a cell is a count between 0 and n.",
)
def cells_are_counts():
    """The true answer of the counting task for five people with four ones."""
    truth = sdp.tasks.Count(domain=sdp.Bits()).truth([1, 1, 0, 1, 1])
    return Finding(right=truth == 4, wrong=truth in (0, 1), measured=f"the cell is {truth:g}")


@erratum(
    8,
    "N4",
    says="The histogram is 2(epsilon, delta)-private.",
    truth="(2 epsilon, 2 delta), both doubled. The exact joint analysis gives (epsilon, delta) with less than half the noise "
    "that composition needs.",
)
def two_bins_change():
    """The exact delta of two bins, each with noise for (1, 1e-6), at epsilon = 1 and 2; and the noise of both analyses."""
    n, epsilon, delta = 10_000, 1.0, 1e-6
    pair = IndependentBins(n=n, gamma=binomial_level(n=n, epsilon=epsilon, delta=delta))
    joint = float(n * independent_level(n=n, epsilon=epsilon, delta=delta))
    composed = float(n * binomial_level(n=n, epsilon=epsilon / 2, delta=delta / 2))
    return Finding(
        right=pair.delta(2 * epsilon) <= 2 * delta and joint < composed / 2,
        wrong=pair.delta(epsilon) <= 2 * delta,
        measured=f"delta {pair.delta(2.0):.1e} at 2 epsilon, {pair.delta(1.0):.1e} at epsilon; noise {joint:.1f} instead of {composed:.1f}",
    )


@erratum(
    9,
    "N4",
    says="The union over the non-empty bins fails with probability <= beta/n = beta, for errors <= alpha; d + 1 messages.",
    truth="For errors above alpha: each of at most n bins fails with probability beta/n, together n beta/n = beta. "
    "d + 1 is the largest number of messages; the mean is about d (1 - gamma) + 1.",
)
def union_over_bins():
    """1 - (1 - beta/n)^n as a fraction, between beta/n and beta; and the declared messages of a dense histogram."""
    n, beta = 50, Fraction(1, 20)
    union = 1 - (1 - beta / n) ** n
    cost = sdp.protocols.zsum_histogram.make(n=1000, k=16, epsilon=1.0, delta=1e-6, honest=1.0).cost
    return Finding(
        right=beta / n < union <= beta and cost.messages_max == 17 and cost.messages_mean < 17,
        wrong=union <= beta / n,
        measured=f"beta/n = {float(beta / n):.4f} < {float(union):.4f} <= beta = {float(beta):.4f}; "
        f"at most {cost.messages_max} messages, {cost.messages_mean:.2f} on average",
    )


@erratum(
    35,
    "N4",
    says="'No error guarantee'; 'at most 2 bits', 'd + 1 bits'.",
    truth="A guarantee of zero error. And these are messages: in the histogram each has ceil(log2 d) bits.",
)
def zero_error_and_messages():
    """Every outcome of zsum for six zeros; and the declared bits of a histogram of 1,000 bins."""
    made = sdp.protocols.zsum.make(n=6, epsilon=1.0, delta=0.2, honest=1.0, word_bits=8)
    from shuffledp.core.analyzer import Tally

    answers = {
        made.analyzer.estimate(Tally(counts=np.array([ones]), users=6)).value for ones in range(7)
    }
    cost = sdp.protocols.zsum_histogram.make(
        n=1000, k=1000, epsilon=1.0, delta=1e-6, honest=1.0
    ).cost
    bits = cost.messages_max * cost.bits_per_message
    return Finding(
        right=answers == {0.0} and cost.bits_per_message == 10,
        wrong=bits == 1001,
        measured=f"answers {sorted(answers)}; up to {cost.messages_max} messages of {cost.bits_per_message} bits are {bits} bits",
    )


@erratum(
    38,
    "N1, N4",
    says="Smoothness is asked of all k' in [-k, k]; sums of a histogram are 1-sensitive.",
    truth="k' = 0 must be left out: there the ratio is 1 >= e^0, always. And each bin is 1-sensitive, the histogram has l1 sensitivity 2 "
    "under replacement.",
)
def shift_of_zero():
    """Pr[D(Y)/D(Y + k') >= e^(|k'| epsilon)] for Bin(1000, 0.1) at k' = 0 and k' = 1, epsilon = 0.6."""
    law = masses(1000, 0.1)
    zero, one = smooth_delta(law, 0, 1.0), smooth_delta(law, 1, math.exp(0.6))
    return Finding(
        right=zero > 1 - 1e-12 and one < 1e-2,
        wrong=zero < 1e-2,
        measured=f"{zero:.3f} at k' = 0, {one:.1e} at k' = 1",
    )


@erratum(
    43,
    "N4",
    says="Every bin at once is within alpha for the same beta > delta^25 as one bin.",
    truth="The argument lets each bin in use fail with probability beta/n, so it needs beta/n > delta^25. Counting only the bins that "
    "have a share above alpha, at most 1/alpha of them, alpha beta > delta^25 is enough.",
)
def condition_of_the_union():
    """The exact radii of one bin and of all bins at beta = delta^25 and at n delta^25: epsilon = 1, delta = 1/4, n = 10^5."""
    n, delta = 10**5, 0.25
    rule = sdp.protocols.zsum_histogram.make(
        n=n, k=n, epsilon=2.0, delta=2 * delta, honest=1.0, calibration="paper"
    ).analyzer
    beta = delta**25
    one, union = rule.accuracy(n, beta), rule.accuracy(n, beta / n)
    every = rule.accuracy_of_all(n, beta)
    return Finding(
        right=one < every <= union and rule.accuracy_of_all(n, n * beta) <= one,
        wrong=every <= one,
        measured=f"one bin {one}, all bins {every}, by the union {union}; at n delta^25 all bins {rule.accuracy_of_all(n, n * beta)}",
    )


@erratum(
    44,
    "N4",
    says="The analyzer of the histogram ends with 'if c* > 1 return c* - p, else 0', after the binary analyzer of every bin.",
    truth="That line is the binary analyzer's own, copied once too often: c* is not defined there. Applied to the frequencies that the bins "
    "have already got, none of which exceeds 1, it would answer 0 everywhere.",
)
def rule_of_the_histogram():
    """The answers of a histogram of 3,000 and 7,000 people, once and with the rule applied again, as frequencies."""
    n = 10_000
    made = sdp.protocols.zsum_histogram.make(n=n, k=3, epsilon=1.0, delta=1e-6, honest=1.0)
    once = made.analyzer.foresee(np.array([3_000, 7_000, 0])).value / n
    p = 1 - float(made.randomizer.gamma)
    twice = np.where(once > 1, once - p, 0.0)
    truth = np.array([0.0, 0.3, 0.7])
    return Finding(
        right=bool(np.abs(np.sort(once) - truth).max() < 0.01),
        wrong=bool(np.abs(np.sort(twice) - truth).max() < 0.01),
        measured=f"once {np.sort(once).round(3).tolist()}, twice {np.sort(twice).tolist()}",
    )
