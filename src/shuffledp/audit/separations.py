"""Statements about the local and the shuffle model, as programs that check them.

Each function returns a `Statement`: what is claimed, what was found, the numbers as columns of a table,
and whether they agree. All but the smoothness lemma's own formula is computed in exact fractions.

Reference: Balcer, Cheu 2020, "Separating local and shuffled differential privacy via histograms"; for
the binomial Ghazi, Golowich, Kumar, Pagh, Velingker 2021, "On the power of multiple anonymous messages".

**How good can a private count be?** `least_loss` is the least expected loss of any epsilon-private mechanism.

A mechanism that answers counts 0 .. n by one of 0 .. n is a stochastic matrix, and epsilon-privacy of neighbouring
counts is linear in it. So the least mean loss, for whoever has a prior belief about the count, is a linear program.
The two-sided geometric mechanism, cut to 0 .. n and then read by each user as suits their own belief and loss,
attains it, whatever the belief is, and for every loss that grows with the error.

Reference: Ghosh, Roughgarden, Sundararajan 2009, "Universally utility-maximizing privacy mechanisms".
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, permutations, product
from typing import Any

import numpy as np

from shuffledp.accounting.exact import local_ratio
from shuffledp.accounting.noisy_count import binomial_level
from shuffledp.audit.enumeration import Channel, channel, fraction, pure_epsilon, pure_ratio
from shuffledp.audit.search import ExactViews
from shuffledp.core.arrays import Floats
from shuffledp.core.errors import ParameterError
from shuffledp.core.randomizer import Law
from shuffledp.core.validate import positive, whole
from shuffledp.numerics.entropy import SeededWords


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A claim, the numbers that were found, and whether they agree.

    >>> mirrored_pair().agrees
    True
    """

    name: str
    claim: str
    measured: str
    agrees: bool
    columns: Mapping[str, tuple[Any, ...]]
    """A table, column by column: all of one length."""


def pure_single_message_is_local(*, trials: int = 40, seed: int = 1) -> Statement:
    """Check that with one message each and delta = 0 shuffling gains nothing: the protocol is a local one.

    If the shuffled view of single messages is epsilon-DP, so is the randomizer: on the data sets
    (x, .., x) and (x', x, .., x) the event "all messages are y" has the likelihood ratio of y itself.
    An analyzer can shuffle what it receives, so (R, shuffle then analyze) is a local protocol with
    the same output law. Both are checked on random rational randomizers, as fractions.

    >>> pure_single_message_is_local(trials=5).agrees
    True
    """
    rng = SeededWords(seed)
    rows: list[tuple[Any, ...]] = []
    for _ in range(whole("trials", trials, at_least=1)):
        randomizer = random_randomizer(rng)
        n = 2 + _draw_below(rng, 3)
        # By enumeration of all views, not by the shortcut that this theorem allows.
        shuffled = ExactViews(randomizer.laws, n).ratio()
        local = local_ratio(randomizer.laws)
        inputs = tuple(_draw_below(rng, len(randomizer.laws)) for _ in range(n))
        same = shuffled_output_law(randomizer, inputs) == local_output_law(randomizer, inputs)
        rows.append((n, len(randomizer.laws), len(randomizer.messages), local, shuffled, same))
    equal = sum(row[3] == row[4] for row in rows)
    laws = sum(row[5] for row in rows)
    names = ("n", "inputs", "messages", "local ratio", "shuffled ratio", "same output law")
    return Statement(
        name="pure, single message",
        claim="a single-message protocol with delta = 0 after shuffling is a local protocol",
        measured=f"e^epsilon of R and of the shuffled view are equal for {equal} of {trials} random "
        f"randomizers; the converted local protocol has the same output law for {laws}",
        agrees=equal == laws == trials,
        columns=_make_columns(names, rows),
    )


def mirrored_pair(*, largest_n: int = 6) -> Statement:
    """Check that the two messages (x, 1 - x) show nothing after shuffling, and everything before.

    >>> print(mirrored_pair(largest_n=3).measured)
    shuffled epsilon 0 for n = 1 .. 3; pre-shuffled epsilon 0; local epsilon infinite, local delta 1 even at e^epsilon = 10^9
    """
    pair = mirrored_randomizer()
    users = range(1, whole("largest_n", largest_n, at_least=1) + 1)
    shuffled = [pure_ratio(pair, n=n) for n in users]
    before = pure_ratio(pair, view="preshuffled")
    local = pure_ratio(pair, view="local")
    delta = fraction(pair, ratio=10**9, view="local")
    private = all(ratio == 1 for ratio in shuffled)
    epsilon = "0" if private else f"{math.log(max(shuffled)):.4g}"
    return Statement(
        name="mirrored pair",
        claim="(x, 1 - x) is 0-private shuffled and pre-shuffled, and not locally private at any epsilon",
        measured=f"shuffled epsilon {epsilon} for n = 1 .. {largest_n}; pre-shuffled epsilon "
        f"{math.log(before):.4g}; local epsilon {'infinite' if local == math.inf else 'finite'}, "
        f"local delta {delta} even at e^epsilon = 10^9",
        agrees=private and before == 1 and local == math.inf and delta == 1,
        columns={"n": tuple(users), "shuffled ratio": tuple(shuffled)},
    )


def gap_is_finite(*, largest_n: int = 20) -> Statement:
    """Check that R_gap is not private even pre-shuffled, and yet its shuffled view has a finite epsilon.

    >>> gap_is_finite(largest_n=4).columns["ratio"]
    (Fraction(5, 2), Fraction(125, 64), Fraction(8, 5))
    """
    gap = gap_randomizer()
    users = range(2, whole("largest_n", largest_n, at_least=2) + 1)
    ratios = [pure_ratio(gap, n=n) for n in users]
    alone = pure_ratio(gap, view="preshuffled")
    finite = all(isinstance(ratio, Fraction) for ratio in ratios)
    shown = ", ".join(f"{ratio}" for ratio in dict.fromkeys(ratios))
    return Statement(
        name="gap",
        claim="R_gap is not private even pre-shuffled, but has a finite epsilon shuffled, for n >= 2",
        measured=f"pre-shuffled epsilon {'infinite' if alone == math.inf else 'finite'}; "
        f"e^epsilon for n = 2 .. {largest_n}: {shown}",
        agrees=finite and alone == math.inf,
        columns={
            "n": tuple(users),
            "ratio": tuple(ratios),
            "epsilon": tuple(pure_epsilon(gap, n=n) for n in users),
            "total variation": tuple(fraction(gap, n=n, ratio=1) for n in users),
        },
    )


_SMOOTH = (
    (1000, Fraction(1, 10), Fraction(3, 10)),
    (1000, Fraction(1, 2), Fraction(1, 5)),
    (400, Fraction(1, 4), Fraction(1, 2)),
    (2000, Fraction(1, 10), Fraction(1, 2)),
    (5000, Fraction(1, 10), Fraction(2, 5)),
)
"""n, gamma, alpha."""

_TARGETS = ((0.1, 1e-6), (0.5, 1e-6), (1.0, 1e-6), (0.5, 1e-10), (1.0, 1e-10))


def binomial_is_smooth() -> Statement:
    """Check that Bin(n, gamma) is (epsilon, delta, k)-smooth as the lemma says, and far better than it says.

    epsilon = ln((1 + alpha) / (1 - alpha)), k = floor(n alpha gamma / 2), delta = exp(-alpha^2 gamma n / 8) +
    exp(-alpha^2 gamma n / (8 + 2 alpha)), against the exact delta for the same epsilon and k. Then how much
    noise it costs: n gamma from the lemma's consequence 50 ln(2 / delta) / epsilon^2 over the n gamma that a
    count needs.

    >>> found = binomial_is_smooth()
    >>> found.agrees, f"{found.columns['exact delta'][0]:.2e}", f"{found.columns['lemma delta'][0]:.2f}"
    (True, '2.24e-05', '0.68')
    """
    rows: list[tuple[Any, ...]] = []
    for n, gamma, alpha in _SMOOTH:
        k = math.floor(n * alpha * gamma / 2)
        true, claimed = float(smooth_delta(n, gamma, alpha, k)), lemma_delta(n, gamma, alpha)
        epsilon = 2 * math.atanh(alpha)
        rows.append((n, gamma, alpha, k, epsilon, claimed, true, claimed / true))
    names = ("n", "gamma", "alpha", "k", "epsilon", "lemma delta", "exact delta", "looseness")
    factors = [noise_factor(epsilon, delta) for epsilon, delta in _TARGETS]
    loosest = max(row[-1] for row in rows)
    return Statement(
        name="binomial smoothness",
        claim="Bin(n, gamma) is (epsilon, delta, k)-smooth for k <= n alpha gamma / 2",
        measured=f"exact delta below the lemma's in all {len(rows)} cases, by up to {loosest:.1e}; "
        f"the noise that follows from it is {min(factors):.0f} to {max(factors):.0f} times too much",
        agrees=all(row[6] <= row[5] for row in rows),
        columns=_make_columns(names, rows),
    )


def noise_factor(epsilon: float, delta: float, n: int = 1_000_000) -> float:
    """Return 50 ln(2 / delta) / epsilon^2, over the mean of the binomial noise that one count needs exactly.

    >>> round(noise_factor(1.0, 1e-6), 1)
    21.3
    """
    needed = float(n * binomial_level(n=n, epsilon=epsilon, delta=delta))
    return 50 * math.log(2 / delta) / epsilon**2 / needed


def square_root_step(*, points: int = 101) -> Statement:
    """Check that alpha = tanh(epsilon / 2) is at least epsilon / sqrt(5) on [0, 1], and never epsilon / sqrt(4).

    tanh is concave on [0, inf), so tanh(epsilon / 2) - epsilon / sqrt(c) is concave and 0 at 0: it is >= 0 on
    [0, 1] exactly if it is at 1, that is, for c >= 1 / tanh(1/2)^2 = 4.683. tanh(y) < y rules out c = 4.

    >>> print(square_root_step().measured)
    smallest c is 4.683, so 5 is the smallest integer; at epsilon = 1 alpha - 1/sqrt(5) = +0.0149 and alpha - 1/sqrt(4) = -0.0379; sqrt(5) works up to epsilon = 1.204
    """
    steps = whole("points", points, at_least=2) - 1
    grid = tuple(i / steps for i in range(steps + 1))
    alpha = tuple(math.tanh(x / 2) for x in grid)
    five = tuple(a - x / math.sqrt(5) for a, x in zip(alpha, grid, strict=True))
    four = tuple(a - x / math.sqrt(4) for a, x in zip(alpha, grid, strict=True))
    smallest = math.tanh(0.5) ** -2
    return Statement(
        name="square root of 5",
        claim="tanh(epsilon / 2) >= epsilon / sqrt(5) for 0 <= epsilon <= 1, but not epsilon / sqrt(4)",
        measured=f"smallest c is {smallest:.3f}, so 5 is the smallest integer; at epsilon = 1 "
        f"alpha - 1/sqrt(5) = {five[-1]:+.4f} and alpha - 1/sqrt(4) = {four[-1]:+.4f}; "
        f"sqrt(5) works up to epsilon = {_find_crossing(5):.3f}",
        agrees=4 < smallest <= 5 and min(five[1:]) > 0 and max(four[1:]) < 0,
        columns={
            "epsilon": grid,
            "alpha": alpha,
            "alpha - epsilon/sqrt(5)": five,
            "alpha - epsilon/sqrt(4)": four,
        },
    )


STATEMENTS = (
    pure_single_message_is_local,
    mirrored_pair,
    gap_is_finite,
    binomial_is_smooth,
    square_root_step,
)
"""All of them, in the order of the page."""


def mirrored_randomizer() -> Channel:
    """Return the channel in which x sends the two messages x and 1 - x, in this order.

    >>> mirrored_randomizer().pmf(1)
    {(1, 0): Fraction(1, 1)}
    """
    return channel({x: {(x, 1 - x): 1} for x in (0, 1)})


def gap_randomizer() -> Channel:
    """Return a channel: 0 sends four uniform bits, 1 a uniform one of the ten strings without exactly two ones.

    >>> len(gap_randomizer().pmf(0)), len(gap_randomizer().pmf(1))
    (16, 10)
    """
    strings = list(product((0, 1), repeat=4))
    unequal = [bits for bits in strings if sum(bits) != 2]
    both = enumerate((strings, unequal))
    return channel({x: dict.fromkeys(some, Fraction(1, len(some))) for x, some in both})


def random_randomizer(rng: SeededWords) -> Channel:
    """Draw a channel: 2 or 3 inputs, 2 or 3 single messages, small random weights; some probabilities are 0.

    >>> random_randomizer(SeededWords(3)).epsilon0 > 0
    True
    """
    inputs, outputs = 2 + _draw_below(rng, 2), 2 + _draw_below(rng, 2)
    rows = []
    for _ in range(inputs):
        weights = [_draw_below(rng, 8) for _ in range(outputs)]
        weights[_draw_below(rng, outputs)] += 1  # not all of them 0
        rows.append([Fraction(weight, sum(weights)) for weight in weights])
    return channel(rows)


def shuffled_output_law(randomizer: Channel, inputs: tuple[int, ...]) -> Law:
    """Return the law of the shuffled list: that of the multiset, spread evenly over its orders.

    >>> shuffled_output_law(mirrored_randomizer(), (0,))
    {(0, 1): Fraction(1, 2), (1, 0): Fraction(1, 2)}
    """
    multisets: dict[tuple[Any, ...], Fraction] = {(): Fraction(1)}
    for x in inputs:
        longer: dict[tuple[Any, ...], Fraction] = {}
        for (seen, p), (sent, q) in product(multisets.items(), randomizer.laws[x].items()):
            key = tuple(sorted((*seen, *sent)))
            longer[key] = longer.get(key, Fraction(0)) + p * q
        multisets = longer
    law: Law = {}
    for multiset, p in sorted(multisets.items()):
        orders = sorted(set(permutations(multiset)))
        law.update({order: p / len(orders) for order in orders})
    return law


def local_output_law(randomizer: Channel, inputs: tuple[int, ...]) -> Law:
    """Return the law of what a local analyzer has after it shuffled the messages that it received, in order.

    Every list of messages, then every permutation of it.

    >>> local_output_law(mirrored_randomizer(), (0,)) == shuffled_output_law(mirrored_randomizer(), (0,))
    True
    """
    law: Law = {}
    for sent in product(*(randomizer.laws[x].items() for x in inputs)):
        messages = tuple(message for user, _ in sent for message in user)
        p = math.prod((q for _, q in sent), start=Fraction(1)) / math.factorial(len(messages))
        for order in permutations(messages):
            law[order] = law.get(order, Fraction(0)) + p
    return law


# Smooth noise: how likely is it that a step changes the probability of what was drawn by much? A law D on the
# integers is (epsilon, delta, k)-smooth if for every integer k' with 1 <= |k'| <= k
#
#     Pr over Y ~ D of [ D(Y) / D(Y + k') >= e^(|k'| epsilon) ] <= delta.
#
# If alpha is rational, so is e^epsilon = (1 + alpha) / (1 - alpha) and everything else, and the smallest delta of a
# binomial is computed exactly.


def lemma_delta(n: int, gamma: Fraction, alpha: Fraction) -> float:
    """Return what the lemma grants for k <= n alpha gamma / 2.

    It is exp(-alpha^2 gamma n / 8) + exp(-alpha^2 gamma n / (8 + 2 alpha)).

    >>> round(lemma_delta(1000, Fraction(1, 10), Fraction(3, 10)), 4)
    0.6758
    """
    _check_smooth(n, gamma, alpha)
    power = float(alpha**2 * gamma * n)
    return math.exp(-power / 8) + math.exp(-power / (8 + 2 * float(alpha)))


def smooth_delta(n: int, gamma: Fraction, alpha: Fraction, k: int) -> Fraction:
    """Return the smallest delta for which Bin(n, gamma) is (ln((1 + alpha) / (1 - alpha)), delta, k)-smooth, exactly.

    >>> smooth_delta(2, Fraction(1, 2), Fraction(1, 3), 1)
    Fraction(3, 4)
    """
    _check_smooth(n, gamma, alpha)
    masses = _weigh(n, gamma)
    # A step to the left is a step to the right in a mirror. Tails are the weight of y and all beyond it, for each y.
    sides = [
        (towards, list(accumulate(reversed(towards)))[::-1]) for towards in (masses, masses[::-1])
    ]
    ratio = (1 + alpha) / (1 - alpha)
    worst = 0
    for size in range(1, k + 1):
        for towards, tails in sides:
            worst = max(worst, tails[_find_first(towards, size, ratio**size)])
    return Fraction(worst, sum(masses))


def _draw_below(rng: SeededWords, k: int) -> int:
    return int(rng.words(1)[0] % k)


def _make_columns(
    names: tuple[str, ...], rows: list[tuple[Any, ...]]
) -> dict[str, tuple[Any, ...]]:
    return dict(zip(names, zip(*rows, strict=True), strict=True))


def _find_crossing(c: int) -> float:
    """Return where tanh(epsilon / 2) = epsilon / sqrt(c), above 0."""
    low, high = 0.5, 4.0
    for _ in range(60):
        middle = (low + high) / 2
        above = math.tanh(middle / 2) > middle / math.sqrt(c)
        low, high = (middle, high) if above else (low, middle)
    return low


def _weigh(n: int, gamma: Fraction) -> list[int]:
    """Return C(n, y) gamma^y (1 - gamma)^(n - y), over a common denominator."""
    yes, no = gamma.numerator, gamma.denominator - gamma.numerator
    masses = [no**n]
    for y in range(n):
        masses.append(masses[-1] * ((n - y) * yes) // ((y + 1) * no))  # divides without rest
    return masses


def _find_first(masses: list[int], size: int, ratio: Fraction) -> int:
    """Return the first y with D(y) >= ratio D(y + size); it is so for all beyond.

    D is log-concave, so D(y) / D(y + size) grows with y, and halving finds it. In the last `size`
    places D(y + size) is 0.
    """
    low, high = 0, max(0, len(masses) - size)
    while low < high:
        y = (low + high) // 2
        if masses[y] * ratio.denominator >= ratio.numerator * masses[y + size]:
            high = y
        else:
            low = y + 1
    return low


def _check_smooth(n: int, gamma: Fraction, alpha: Fraction) -> None:
    whole("n", n, at_least=1)
    if not 0 < gamma <= Fraction(1, 2):
        raise ParameterError("gamma", gamma, "must be a Fraction > 0 and <= 1/2")
    if not 0 < alpha < 1:
        raise ParameterError("alpha", alpha, "must be a Fraction > 0 and < 1")


Loss = Callable[[int, int], float]
"""loss(count, answer): the loss of an answer, given the true count."""

_LARGEST = 30  # n: the program has (n + 1)^2 unknowns
_SUMS_TO_ONE = 1e-9


def least_loss(*, epsilon: float, prior: Sequence[float], loss: Loss) -> float:
    """Return the least mean loss of any epsilon-private answer to a count 0 .. n, for this prior over the count.

    >>> round(least_loss(epsilon=1.0, prior=[0.25] * 4, loss=lambda count, answer: abs(count - answer)), 6)
    0.520549
    """
    size, wanted = _check(prior), _average_loss(prior, loss)
    E = math.exp(positive("epsilon", epsilon))
    limits = []
    for count in range(size - 1):
        for one, other in ((count, count + 1), (count + 1, count)):
            for answer in range(size):
                limit = np.zeros((size, size))
                limit[one, answer], limit[other, answer] = 1.0, -E
                limits.append(limit.ravel())
    from scipy.optimize import linprog

    program = linprog(
        wanted.ravel(),
        A_ub=np.array(limits),
        b_ub=np.zeros(len(limits)),
        A_eq=np.kron(np.eye(size), np.ones(size)),
        b_eq=np.ones(size),
    )
    assert program.fun is not None  # answering at random is always allowed
    return float(program.fun)


def geometric_loss(*, epsilon: float, prior: Sequence[float], loss: Loss) -> float:
    """Return the mean loss of the geometric mechanism, cut to 0 .. n, for a user who makes the best of what it says.

    >>> round(geometric_loss(epsilon=1.0, prior=[0.25] * 4, loss=lambda count, answer: abs(count - answer)), 6)
    0.520549
    """
    size, wanted = _check(prior), _average_loss(prior, loss)
    q = math.exp(-positive("epsilon", epsilon))
    answers = np.arange(size)
    law = q ** np.abs(answers[:, None] - answers)  # [count, answer]
    ends = (answers == 0) | (answers == size - 1)
    law = law * np.where(ends, 1 / (1 + q), (1 - q) / (1 + q))
    return float((law.T @ wanted).min(axis=1).sum())


def _check(prior: Sequence[float]) -> int:
    total = math.fsum(prior)
    if not 2 <= len(prior) <= _LARGEST + 1:
        raise ParameterError("prior", len(prior), f"must have 2 to {_LARGEST + 1} numbers")
    if min(prior) < 0 or abs(total - 1) > _SUMS_TO_ONE:
        raise ParameterError("prior", total, "must be >= 0 and sum to 1")
    return len(prior)


def _average_loss(prior: Sequence[float], loss: Loss) -> Floats:
    size = len(prior)
    return np.array(
        [[prior[count] * loss(count, answer) for answer in range(size)] for count in range(size)]
    )
