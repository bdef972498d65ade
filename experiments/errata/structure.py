"""Errata about pure shuffle privacy, several messages, and what the shuffler hides."""

import math
from fractions import Fraction
from itertools import permutations

import shuffledp as sdp
from shuffledp.accounting.exact import data_set_delta, local_delta, local_ratio, shuffled_delta

from .registry import Finding, erratum

SWAP = [{(0, 1): Fraction(1)}, {(1, 0): Fraction(1)}]  # x -> (x, 1 - x)


def gap_laws():
    """R^gap: 0 sends four uniform bits, 1 a uniform one of the ten strings with a weight other than 2."""
    strings = [tuple(map(int, f"{i:04b}")) for i in range(16)]
    return [
        {s: Fraction(1, 16) for s in strings},
        {s: Fraction(1, 10) for s in strings if sum(s) != 2},
    ]


def gap_ratio(n: int) -> Fraction:
    """The exact e^epsilon of n shuffled R^gap: only the number of ones is seen."""
    weights = [[Fraction(math.comb(4, w), 16) for w in range(5)]]
    weights.append([Fraction(0) if w == 2 else Fraction(math.comb(4, w), 10) for w in range(5)])
    worst = Fraction(1)
    for ones in range(n):
        others = [Fraction(1)]
        for x in [1] * ones + [0] * (n - 1 - ones):
            others = _convolve(others, weights[x])
        pair = [_convolve(others, weights[x]) for x in (0, 1)]
        worst = max(worst, *(max(a / b, b / a) for a, b in zip(*pair, strict=True)))
    return worst


def _convolve(a, b):
    total = [Fraction(0)] * (len(a) + len(b) - 1)
    for i, p in enumerate(a):
        for j, q in enumerate(b):
            total[i + j] += p * q
    return total


@erratum(
    10,
    "N4",
    says="A single-message shuffle protocol has a *central* DP randomizer; the unchanged users contribute Pr[R(x') in Y]^(n-1); "
    "it works because messages are single bits.",
    truth="A *locally* private randomizer. The others hold x, so their factor is Pr[R(x) in Y]^(n-1); what counts is one message, "
    "of any size, and the two protocols are equal in distribution.",
)
def factor_of_the_others():
    """The exact probability that three users (x', x, x) of 3-ary randomized response all send x."""
    law = sdp.protocols.krr.KRR(k=3, epsilon0=1.0, word_bits=6).pmf
    keep, lie, n = law(0)[(0,)], law(1)[(0,)], 3
    # At ratio 1 the divergence of (x, x, x) from (x', x, x) on the event "all send x" is this difference.
    view = keep**n - lie * keep ** (n - 1)
    total = data_set_delta([law(x) for x in range(3)], [0, 0], (0, 1), 1)
    event = _all_zero([law(1), law(0), law(0)])
    return Finding(
        right=event == lie * keep ** (n - 1) and 0 < view <= total,
        wrong=event == lie**n,
        measured=f"{event} = R(x')(Y) R(x)(Y)^2, not R(x')(Y)^3 = {lie**n}",
    )


def _all_zero(laws):
    """Pr[everybody sends 0], by listing all outcomes."""
    outcomes = [((), Fraction(1))]
    for law in laws:
        outcomes = [(sent + y, p * q) for sent, p in outcomes for y, q in law.items()]
    return sum((p for sent, p in outcomes if set(sent) == {0}), Fraction(0))


@erratum(
    11,
    "N4",
    says="Near-central shuffle protocols contradict the equivalence with the local model; R^gap has perfect shuffle privacy.",
    truth="No contradiction: the equivalence is for pure DP and one message, the new protocols are approximate with several. The "
    "privacy of shuffled R^gap is finite: e^epsilon = 5/2 for two users; its strings must be given a law, on {0,1}^(4n).",
)
def no_contradiction():
    """The exact e^epsilon of shuffled R^gap for n = 2, 3, 4; and a near-central protocol's delta and messages."""
    ratios = [gap_ratio(n) for n in (2, 3, 4)]
    near = sdp.protocols.correlated_count.make(n=10**6, epsilon=1.0, delta=1e-6, honest=1.0)
    approximate = near.guarantee.delta > 0 and near.cost.messages_max > 1
    return Finding(
        right=ratios == [Fraction(5, 2), Fraction(125, 64), Fraction(8, 5)] and approximate,
        wrong=min(ratios) == 1,
        measured="e^epsilon = "
        + ", ".join(map(str, ratios))
        + f"; near-central: delta = {near.guarantee.delta:.0e}, "
        f"{near.cost.messages_mean:.4f} messages",
    )


@erratum(
    14,
    "N2",
    says="The randomizer of the shuffle model is R : X -> Y; privacy is about seeing the same permutation.",
    truth="R : X -> Y*, a list of messages, or the multi-message model cannot be stated; and privacy is about the multiset of messages.",
)
def lists_of_messages():
    """Exact delta at epsilon = 0 of two users who send x and 1 - x, and of two who send x alone."""
    both, alone = (
        shuffled_delta(SWAP, 2, 1),
        shuffled_delta([{(0,): Fraction(1)}, {(1,): Fraction(1)}], 2, 1),
    )
    return Finding(
        right=both == 0 and local_delta(SWAP, 1) == 1,
        wrong=alone == both,
        measured=f"delta = {both} with both messages (in order: {local_delta(SWAP, 1)}), {alone} with one",
    )


@erratum(
    37,
    "all",
    says="Nothing about how many messages a user sends.",
    truth="The transport must hide it wherever it depends on the value, or the number alone gives values away.",
)
def hidden_numbers():
    """The likelihood ratio of the number of messages of one user of sparse zsum."""
    made = sdp.protocols.zsum_sparse.make(n=10_000, epsilon=1.0, delta=1e-6, honest=1.0)
    numbers = [{(len(sent),): q for sent, q in made.randomizer.pmf(x).items()} for x in (0, 1)]
    ratio, seen = local_ratio(numbers), float(local_delta(numbers, 1))
    return Finding(
        right=ratio == math.inf and made.cost.count_depends_on_value,
        wrong=ratio == 1,
        measured=f"ratio {ratio}: a look at the number tells the bit apart with advantage {seen:.3f}",
    )


@erratum(
    40,
    "N4",
    says="If the answer c~ is 0 the count is 0; Y is an element of the range; R(X) in (8); R^gap is not DP at all.",
    truth="If the *count* is 0 the answer is 0, not the other way round; Y is an event, and (8) is about R(x); R^gap fails *pure* DP "
    "only: it is (ln 2, 3/8)-DP.",
)
def answers_of_zero():
    """Pr[zsum answers 0] for counts 0 and 5 of 200; and the exact local delta of R^gap at e^epsilon = 2."""
    from scipy.stats import binom

    gamma = float(
        sdp.protocols.zsum.make(n=200, epsilon=1.0, delta=1e-6, honest=1.0).randomizer.gamma
    )
    none, five = (float(binom.sf(count - 1, 200, gamma)) for count in (0, 5))  # 0 if N >= S
    delta = local_delta(gap_laws(), 2)
    return Finding(
        right=none == 1 and delta == Fraction(3, 8),
        wrong=five == 0 or delta == 1,
        measured=f"0 is the answer with probability {none:g} at count 0 and {five:.3f} at count 5; R^gap: delta = {delta}",
    )


@erratum(
    42,
    "N4",
    says="Step (7): the shuffle is uniformly random, so no order is likelier than another, and Pr[(S o R)(X) in Y^n] = Pr[R(X) in Y^n].",
    truth="The reason is that the event Y^n is the same in every order: if all messages are in Y, so they are shuffled. For an event that "
    "depends on the order the two probabilities differ, however uniform the shuffle.",
)
def invariant_events():
    """Exact probabilities of (Y, Y, Y) and of (Y, Y, not Y), shuffled and not, for three users of randomized response."""
    law = sdp.protocols.rr.RR(epsilon0=1.0, word_bits=6).pmf
    users = [law(1), law(1), law(0)]
    event, ordered = (lambda sent: set(sent) == {1}), (lambda sent: sent == (1, 1, 0))
    same = _probability(users, event), _probability(users, event, shuffle=True)
    other = _probability(users, ordered), _probability(users, ordered, shuffle=True)
    return Finding(
        right=same[0] == same[1] and other[0] != other[1],
        wrong=other[0] == other[1],
        measured=f"Y^3: {same[0]} and {same[1]}; in that order: {other[0]} and {other[1]}",
    )


def _probability(laws, event, shuffle=False):
    """Pr[event], by listing all outcomes, in the users' order or in every order."""
    outcomes = [((), Fraction(1))]
    for law in laws:
        outcomes = [(sent + y, p * q) for sent, p in outcomes for y, q in law.items()]
    if shuffle:
        orders = list(permutations(range(len(laws))))
        outcomes = [
            (tuple(sent[i] for i in order), p / len(orders))
            for sent, p in outcomes
            for order in orders
        ]
    return sum((p for sent, p in outcomes if event(sent)), Fraction(0))
