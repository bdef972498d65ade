"""Errata about the survey of private means and randomized response."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np

import shuffledp as sdp
from shuffledp.accounting.exact import local_ratio
from shuffledp.planner.growth import exponent
from shuffledp.planner.local_bound import local_lower_bound

from .registry import Finding, erratum

N, GAMMA, ONES = 10_000, 0.25, 3_000  # randomized response that keeps a bit with probability 3/4


def spread(n: int, epsilon: float = 1.0) -> float:
    """Root mean squared error of the sum of n bits in the local model."""
    analyzer = sdp.protocols.rr.make_local(epsilon=epsilon).analyzer
    return math.sqrt(analyzer.variance(np.array([n, 0])))


def exceeds(radius: float) -> float:
    """Exact Pr[|S^ - S| > radius] for N people with ONES ones."""
    from scipy.stats import binom

    keep, lie = 0.5 + GAMMA, 0.5 - GAMMA
    law = np.convolve(
        binom.pmf(np.arange(ONES + 1), ONES, keep),
        binom.pmf(np.arange(N - ONES + 1), N - ONES, lie),
    )
    errors = (np.arange(N + 1) - lie * N) / (2 * GAMMA) - ONES
    return float(law[np.abs(errors) > radius].sum())


@erratum(
    20,
    "N3",
    says="Upper bounds: central O(1/epsilon), local O(1/sqrt(n)).",
    truth="The first is the error of the sum, the second of the mean. Sum: O(1/epsilon) and O(sqrt(n)/epsilon); mean: O(1/(epsilon n)) and "
    "O(1/(epsilon sqrt(n))).",
)
def scales_of_the_table():
    """Exact local errors of the sum and of the mean at n = 10^4 and 10^6, and at epsilon = 0.1 and 0.2."""
    few, many = spread(10**4), spread(10**6)
    in_epsilon = spread(10**4, 0.1) / spread(10**4, 0.2)
    return Finding(
        right=abs(many / few - 10) < 0.01 and abs(in_epsilon - 2) < 0.02,
        wrong=many < few,
        measured=f"sum: {few:.1f} and {many:.1f}; mean: {few / 1e4:.1e} and {many / 1e6:.1e}; half of epsilon doubles it",
    )


@erratum(
    21,
    "N3",
    says="Privacy blanket: error O(1/epsilon) with O(log(n/delta)) messages.",
    truth="That result is from a later paper on several messages, and needs O(1 + ln(1/delta)/ln(n)). The blanket protocol sends one message and has "
    "a mean squared error of order n^(1/3).",
)
def blanket_row():
    """Exact squared errors of the single-message real sum at n = 10^5 .. 10^7; shares of split and mix at n = 10^3 and 10^6."""
    users = (10**5, 10**6, 10**7)
    grid = {"lower": 0.0, "upper": 1.0, "steps": 1000, "delta": 1e-6, "epsilon": 1.0, "honest": 1.0}
    errors = []
    for n in users:
        made = sdp.protocols.rounded_sum.make(n=n, **grid)
        errors.append(float(made.analyzer.variance(np.full(1001, n // 1001))))
    slope = exponent(users, errors)
    shares = [
        sdp.protocols.split_and_mix.make(n=n, **grid).randomizer.shares for n in (10**3, 10**6)
    ]
    return Finding(
        right=abs(slope - 1 / 3) < 0.04 and shares[1] < shares[0],
        wrong=abs(slope) < 0.04 or shares[1] > shares[0],
        measured=f"exponent of n {slope:.3f}; {shares[0]} shares at n = 10^3, {shares[1]} at 10^6",
    )


@erratum(
    22,
    "N3",
    says="Vanishing communication: O(log^2(1/delta)/n) messages; Omega(sqrt(log(1/delta))) as an upper bound; 'almost central' is empty.",
    truth="*One plus* that many messages; the second is a lower bound for one message; 'almost central' has 1 + o(1) times the error of discrete "
    "Laplace noise with 1 + o(1) messages.",
)
def vanishing_messages():
    """Declared messages and exact error of correlated noise at n = 10^4, 10^5, 10^6."""
    made = [
        sdp.protocols.correlated_count.make(n=n, epsilon=1.0, delta=1e-6, honest=1.0)
        for n in (10**4, 10**5, 10**6)
    ]
    sent = [each.cost.messages_mean for each in made]
    error = math.sqrt(made[-1].analyzer.variance(np.array([10**6, 0])))
    curator = math.sqrt(sdp.mechanisms.geometric.make(epsilon=1.0, sensitivity=1).variance())
    shrinks = [(a - 1) / (b - 1) for a, b in pairwise(sent)]
    return Finding(
        right=all(8 < s < 12 for s in shrinks) and error < 1.2 * curator,
        wrong=min(sent) < 1,
        measured=f"{sent[0]:.4f}, {sent[1]:.5f}, {sent[2]:.6f} messages; error {error / curator:.2f} times the central one",
    )


@erratum(
    23,
    "N3",
    says="The geometric mechanism is optimal; we cannot do better.",
    truth="For one count, pure DP and consumers who post-process. Not for other sensitivities, several queries, or approximate DP.",
)
def optimum_of_geometric():
    """Answer exactly with probability delta = 0.1, else with geometric noise: exact delta at epsilon = 1, and variance."""
    epsilon, delta = 1.0, 0.1
    z = np.arange(-60, 61)
    noise = math.tanh(epsilon / 2) * np.exp(-epsilon * np.abs(z))
    mixed = (1 - delta) * noise + delta * (z == 0)
    spent = float(np.maximum(mixed[1:] - math.exp(epsilon) * mixed[:-1], 0).sum())
    better = float((mixed * z**2).sum() / (noise * z**2).sum())
    return Finding(
        right=spent <= delta and better < 1,
        wrong=better >= 1,
        measured=f"(1, {spent:.3f})-DP with {better:.2f} of the variance",
    )


@erratum(
    24,
    "N3",
    says="E[f^] = (E[k] - 0.5 N - N gamma)/(2 gamma) = k, with k for two things.",
    truth="-(0.5 - gamma) N is -0.5 N *plus* gamma N; with the minus sign the estimate is off by N.",
)
def sign_of_gamma():
    """Both expectations, as fractions, for 3,000 ones among 10,000 people and gamma = 1/4."""
    gamma, n = Fraction(1, 4), N
    mean = (Fraction(1, 2) + gamma) * ONES + (Fraction(1, 2) - gamma) * (n - ONES)
    right, wrong = ((mean - Fraction(n, 2) + sign * gamma * n) / (2 * gamma) for sign in (1, -1))
    return Finding(
        right=right == ONES,
        wrong=wrong == ONES,
        measured=f"{right} with the plus, {wrong} with the minus",
    )


@erratum(
    25,
    "N3",
    says="Privacy of randomized response is trivially achieved.",
    truth="It has a value: epsilon = ln((1/2 + gamma)/(1/2 - gamma)).",
)
def privacy_of_response():
    """The exact likelihood ratio of randomized response with gamma = 1/4."""
    keep, lie = Fraction(3, 4), Fraction(1, 4)
    ratio = local_ratio([{(0,): keep, (1,): lie}, {(0,): lie, (1,): keep}])
    return Finding(
        right=abs(math.log(ratio) - math.log((0.5 + GAMMA) / (0.5 - GAMMA))) < 1e-12,
        wrong=ratio == 1,
        measured=f"e^epsilon = {ratio}, epsilon = {math.log(ratio):.4f}",
    )


@erratum(
    26,
    "N3",
    says="Pr[|f^ - E f^| >= t] <= 2 exp(-2 n t^2), so t = sqrt(ln(1/delta)/(2n)) for the sum.",
    truth="For the sum 2 exp(-8 gamma^2 t^2/n), and ln(2/beta): t = sqrt(n ln(2/beta)/(8 gamma^2)), of order sqrt(n)/gamma. delta is not the "
    "failure probability, and n and N are the same.",
)
def scale_of_hoeffding():
    """Exact probability that the sum leaves each radius: n = 10,000, beta = 0.05, gamma = 1/4."""
    beta = 0.05
    printed = math.sqrt(math.log(1 / beta) / (2 * N))
    radius = math.sqrt(N * math.log(2 / beta) / (8 * GAMMA**2))
    left, kept = exceeds(printed), exceeds(radius)
    return Finding(
        right=kept <= beta,
        wrong=left <= beta,
        measured=f"{printed:.3f} is left with probability {left:.2f}, {radius:.0f} with probability {kept:.3f}",
    )


@erratum(
    27,
    "N3",
    says="O(1/sqrt(n)) is the least error.",
    truth="A lower bound is Omega, and depends on epsilon: Omega(1/(epsilon sqrt(n))).",
)
def least_error():
    """The computed lower bound for every local protocol at n = 10^5, 10^7 and epsilon = 0.1, 0.2, beside the exact error."""
    few, many = (local_lower_bound(epsilon=0.1, n=n) / n for n in (10**5, 10**7))
    other = local_lower_bound(epsilon=0.2, n=10**7) / 10**7
    exact = spread(10**7, 0.1) / 10**7
    return Finding(
        right=0 < many < exact and abs(few / many - 10) < 0.5 and abs(many / other - 2) < 0.05,
        wrong=abs(many / other - 1) < 0.05,
        measured=f"{few:.4f} at n = 10^5, {many:.6f} at 10^7 (randomized response: {exact:.6f}); half of it at twice epsilon",
    )
