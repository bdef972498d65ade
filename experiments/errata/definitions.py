"""Errata about definitions, sensitivity and the mechanisms of the central model."""

import math
from fractions import Fraction
from itertools import product

import numpy as np

import shuffledp as sdp
from shuffledp.accounting.exact import local_delta
from shuffledp.accounting.noisy_count import BinomialCount

from .registry import Finding, erratum


def histograms(n: int, d: int):
    """(histogram, histogram of a neighbour) for every data set and every replacement of one value."""
    for data in product(range(d), repeat=n):
        for new in range(d):
            if new != data[0]:
                pair = np.bincount(data, minlength=d), np.bincount((new, *data[1:]), minlength=d)
                yield pair


@erratum(
    12,
    "N1, N2, N4",
    says="(epsilon, delta)-DP means that with probability 1 - delta the ratio is at most e^epsilon.",
    truth="That implies (epsilon, delta)-DP, but does not follow from it; and for a fixed set T there is nothing random.",
)
def ratio_with_probability():
    """Poisson noise of mean 34.07 for a count: its exact delta at epsilon = 1, and Pr[ratio > e]."""
    from scipy.stats import poisson

    mean = 34.07
    # Nothing tells binomial noise of 2^52 trials from Poisson noise.
    delta = BinomialCount(n=2**52, gamma=Fraction(mean) / 2**52).delta(1.0)
    ratio = float(poisson.cdf(math.ceil(mean / math.e) - 1, mean))  # P(y)/P(y - 1) = mean/y
    return Finding(
        right=delta <= 1.01e-6 < ratio,
        wrong=ratio <= delta,
        measured=f"delta = {delta:.3g}, but the ratio exceeds e with probability {ratio:.3g}",
    )


@erratum(
    13,
    "N2",
    says="Probabilities are over x drawn from X^n, and the outputs are concentrated near each other.",
    truth="x and x' are fixed, and the probability is over the coins of the mechanism; its two output *distributions* are close.",
)
def coins_of_the_mechanism():
    """Publishing everything: Pr[output] for fixed neighbours, and averaged over random data, for all data of two bits."""
    data = list(product((0, 1), repeat=2))
    fixed = local_delta([{x: Fraction(1)} for x in data[:2]], 1)
    averaged = {x: Fraction(1, 4) for x in data}  # the same law for x and for x'
    gap = local_delta([averaged, averaged], 1)
    return Finding(
        right=fixed == 1,
        wrong=gap != 0,
        measured=f"delta = {fixed} for fixed x: no privacy; averaged over x it would be {gap}, as if perfectly private",
    )


@erratum(
    15,
    "N2",
    says="The sensitivity of neighbouring histograms is the largest difference in a cell; that of integer sums is the largest value.",
    truth="That is l-infinity; Laplace noise needs l1: 2 under replacement (1 if a person is added). For sums in [lower, upper] it is "
    "upper - lower under replacement, and the largest magnitude if a person is added.",
)
def sensitivities():
    """All replacements in data sets of three people in three bins; and of values 2 .. 5."""
    distances = [np.abs(a - b) for a, b in histograms(3, 3)]
    l1, largest = max(d.sum() for d in distances), max(d.max() for d in distances)
    width = max(abs(a - b) for a, b in product(range(2, 6), repeat=2))
    # Noise of rate epsilon / s in both cells that change: the loss is epsilon l1 / s.
    return Finding(
        right=l1 == 2 and largest == 1 and width == 3,
        wrong=l1 / largest <= 1 or width == 5,
        measured=f"l1 = {l1}, l-infinity = {largest}: noise for the latter loses {l1 / largest:g} epsilon; sums of 2..5 move by {width}",
    )


@erratum(
    16,
    "N2",
    says="Adding noise scales it by f(x), and the density is a Laplace random variable.",
    truth="It is shifted by f(x): the density at z is that of the noise at z - f(x), over that of f(x') in the denominator.",
)
def shifted_not_scaled():
    """The geometric mechanism on the answers 0 and 5 with the same words, eight times."""
    mechanism = sdp.mechanisms.geometric.make(epsilon=1.0, sensitivity=1)
    pairs = [
        [mechanism.release(answer, sdp.SeededWords(seed)).value for answer in (0, 5)]
        for seed in range(8)
    ]
    return Finding(
        right=all(b - a == 5 for a, b in pairs),
        wrong=all(b == 5 * a for a, b in pairs),
        measured=f"{[int(a) for a, _ in pairs]} becomes {[int(b) for _, b in pairs]}",
    )


@erratum(
    17,
    "N2",
    says="One-sided exponential noise gives similar bounds to Laplace noise.",
    truth="It is not epsilon-DP for any finite epsilon, only (epsilon, 1 - e^(-lambda Delta))-DP: outputs between the two answers give "
    "one of them away. Its variance is 1/lambda^2, half of Laplace noise's.",
)
def one_sided_noise():
    """One-sided geometric noise of rate 1 on the answers 0 and 1: exact delta at epsilon = 1, 5 and 50."""
    from scipy.stats import expon, laplace

    stay = -math.expm1(-1.0)
    # Answer 0 puts mass stay on 0, which answer 1 never reaches; elsewhere the ratio is e^1.
    law = stay * np.exp(-np.arange(60.0))
    moved = np.concatenate([[0.0], law[:-1]])
    deltas = [float(np.maximum(law - math.exp(e) * moved, 0).sum()) for e in (1.0, 5.0, 50.0)]
    ratio = laplace.var() / expon.var()
    return Finding(
        right=all(abs(d - stay) < 1e-12 for d in deltas) and ratio == 2,
        wrong=deltas[0] < 1e-12,
        measured=f"delta = {deltas[0]:.3f} at every epsilon, 1 - 1/e = {stay:.3f}; variances 1 and {ratio:g}",
    )


@erratum(
    18,
    "N2",
    says="The largest of k Laplace errors exceeds ln(k/beta) Delta/epsilon with probability beta; the accuracy theorem is empty.",
    truth="With probability at most beta, exactly 1 - (1 - beta/k)^k. That is the theorem.",
)
def tail_of_laplace():
    """The exact probability for k = 10, beta = 0.05, from the Laplace tail."""
    from scipy.stats import laplace

    k, beta = 10, 0.05
    one = 2 * float(laplace.sf(math.log(k / beta)))
    exact = 1 - (1 - one) ** k
    return Finding(
        right=exact < beta and abs(exact - (1 - (1 - beta / k) ** k)) < 1e-12,
        wrong=abs(exact - beta) < 1e-4,
        measured=f"{exact:.4f}, not 0.05",
    )


@erratum(
    19,
    "N2",
    says="With 30 against 29 votes noise is not viable; the exponential mechanism picks the right winner.",
    truth="At epsilon = 1 it does so only with probability 0.622. Adding noise and taking the largest does as well.",
)
def thirty_against_twenty_nine():
    """Exact probabilities of the winner: the exponential mechanism, and the largest after Laplace noise."""
    exponential = 1 / (1 + math.exp(-0.5))
    from scipy.integrate import quad
    from scipy.stats import laplace

    noisy = quad(
        lambda z: laplace.pdf(z, scale=2) * laplace.cdf(z + 1, scale=2),
        -60,
        60,
        points=(-1, 0),
        limit=200,
    )[0]
    return Finding(
        right=abs(exponential - 0.622) < 1e-3 and abs(noisy - exponential) < 0.01,
        wrong=exponential > 0.99,
        measured=f"{exponential:.3f} (exponential mechanism), {noisy:.3f} (noise and largest)",
    )


@erratum(
    33,
    "N3",
    says="Integer inputs cannot have continuous Laplace noise.",
    truth="They can, since rounding afterwards is post-processing. The discrete mechanism is preferred because it is exact, optimal for a count, and "
    "safe from floating-point attacks.",
)
def rounded_laplace():
    """The law of rounded Laplace noise on the answers 0 and 1 at epsilon = 1: its largest ratio."""
    from scipy.stats import laplace

    edges = np.arange(-30, 32) - 0.5
    law = [np.diff(laplace.cdf(edges - answer)) for answer in (0, 1)]
    ratio = float(max((law[0] / law[1])[5:30].max(), (law[1] / law[0])[5:30].max()))
    return Finding(
        right=ratio <= math.e * (1 + 1e-9),
        wrong=ratio > math.e * (1 + 1e-6),
        measured=f"largest ratio {ratio:.6f} <= e = {math.e:.6f}",
    )


@erratum(
    34,
    "N2",
    says="delta = o(1/n) is workable or efficient.",
    truth="It is needed for protection: with delta = 1/n a mechanism may publish somebody's record in the clear.",
)
def publish_one_record():
    """Publish the bit of a random one of five people, with the name: exact delta at epsilon = 0."""
    n = 5
    data, neighbour = (0,) * n, (1,) + (0,) * (n - 1)
    laws = [{(i, x): Fraction(1, n) for i, x in enumerate(values)} for values in (data, neighbour)]
    delta = local_delta(laws, 1)
    exposed = sum(laws[0].values())  # some record is always published
    return Finding(
        right=delta == Fraction(1, n) and exposed == 1,
        wrong=exposed == 0,
        measured=f"(0, {delta})-DP, and somebody is exposed with probability {exposed}",
    )


@erratum(
    39,
    "N2",
    says="Data sets in X^n are neighbours if their histograms have distance 1.",
    truth="Two conventions are mixed. With n fixed (replacement) the histograms of neighbours have l1 distance 2; distance 1 means one person "
    "more or less.",
)
def two_conventions():
    """All l1 distances of histograms after one replacement, for three people in three bins."""
    distances = {int(np.abs(a - b).sum()) for a, b in histograms(3, 3)}
    return Finding(
        right=distances == {2}, wrong=1 in distances, measured=f"distances {sorted(distances)}"
    )
