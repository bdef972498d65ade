"""The accountant: how long a fresh question takes, how that grows with n, and how far above the full sum an answer is.

No question is asked twice: every round has its own n, epsilon0 and delta, a little off those in the table. *Cold* is
the first question of a process, late imports included.
"""

import math
import statistics
from fractions import Fraction
from functools import partial

import numpy as np
from scipy.special import betainc
from scipy.stats import binom
from timing import Row, Took, best, measure, missing, quantity, seconds, show, time_call

import shuffledp as sdp
from shuffledp.accounting.base import find_deltas
from shuffledp.accounting.binary import BinaryResponse

USERS = tuple(10**power for power in range(3, 13))
LOCAL = (0.5, 1.0, 2.0, 4.0, 6.0)
DELTAS = (1e-6, 1e-10)
OWN = ("krr", "hadamard", "subset_selection", "local_hashing", "optimized_unary")
ROUNDS = 3
FLAT_FROM = 10**6
POINTS = 240  # of a curve that another library composes


def rows() -> list[Row]:
    return [*generic(), *accuracy(), *inverse(), *own_laws(), *composition(), *many_deltas()]


def other(question: int, n: int, *numbers: float) -> tuple[float, ...]:
    """A question of the same size that was not asked before: each number is off by up to a percent."""
    return (n - n * question // 400, *(number * (1 + question / 500) for number in numbers))


def slowest(took: dict[tuple[object, ...], Took], what: str, where: str, at_most: float) -> Row:
    """The slowest of a grid of questions; the baseline says which, the median, and how long the first took."""
    worst = max(took, key=lambda key: took[key].fresh)
    fresh = [1e3 * each.fresh for each in took.values()]
    return quantity(
        f"{what}, slowest of {len(took)} fresh questions, n to 10^12",
        baseline=f"{where.format(*worst)}; median {statistics.median(fresh):.3g} ms, "
        f"the first one cold {seconds(next(iter(took.values())).cold)}",
        ours=1e3 * took[worst].fresh,
        unit="ms",
        at_most=at_most,
    )


def generic() -> list[Row]:
    """One `amplify` for any randomizer, over the whole grid."""

    def ask(question: int, n: int, epsilon0: float, delta: float) -> object:
        n, epsilon0, delta = other(question, n, epsilon0, delta)
        return sdp.amplify(epsilon0=epsilon0, n=n, delta=delta, honest=1)

    took = {
        case: measure({"amplify": lambda i, case=case: ask(i, *case)}, ROUNDS)["amplify"]
        for case in ((n, *rest) for n in USERS for rest in ((e, d) for e in LOCAL for d in DELTAS))
    }
    fresh = {case: 1e3 * each.fresh for case, each in took.items()}
    medians = [
        statistics.median(fresh[case] for case in took if case[0] == n)
        for n in USERS
        if n >= FLAT_FROM
    ]
    where = "n = {:g}, epsilon0 = {:g}, delta = {:g}"
    return [
        slowest(took, "amplify", where, 2.0),
        quantity(
            "amplify: median of all cases",
            baseline="-", ours=statistics.median(fresh.values()), unit="ms", at_most=2.0,
        ),
        quantity(
            "amplify, n from 10^6 to 10^12: slowest median over fastest",
            baseline=f"{min(medians):.3g} ms", ours=max(medians) / min(medians), unit="times", at_most=2,
        ),
    ]  # fmt: skip


def full_sum(epsilon0: float, epsilon: float, n: int) -> float:
    """The divergence of the pair of 2023, every term of the outer binomial within 12 deviations."""
    p, E = math.exp(epsilon0), math.exp(epsilon)
    outer = binom(n - 1, 2 / (p + 1))
    reach = 12 * outer.std() + 30
    C = np.arange(max(0, int(outer.mean() - reach)), min(n - 1, int(outer.mean() + reach)) + 1)
    k = np.ceil((C + 1) * (p - E) / ((p - 1) * (E + 1))) - 1
    below = np.where(k >= 1, betainc(np.maximum(C - k + 1, 1e-9), np.maximum(k, 1e-9), 0.5), 0.0)
    inner = ((p - E) * binom.pmf(k, C, 0.5) - (p + 1) * (E - 1) * below) / (p + 1)
    return float(outer.pmf(C) @ np.maximum(inner, 0.0))


def full_epsilon(epsilon0: float, n: int, delta: float) -> float:
    low, high = 0.0, epsilon0
    for _ in range(44):
        middle = (low + high) / 2
        low, high = (middle, high) if full_sum(epsilon0, middle, n) > delta else (low, middle)
    return high


def accuracy() -> list[Row]:
    """The returned epsilon against that of the same bound without blocks."""
    ratios = [
        sdp.amplify(epsilon0=epsilon0, n=n, delta=delta, honest=1).epsilon
        / full_epsilon(epsilon0, n, delta)
        for n in (10**3, 10**4, 10**6)
        for epsilon0 in LOCAL
        for delta in DELTAS
    ]
    return [
        quantity(
            f"epsilon above the full sum, largest of {len(ratios)}",
            baseline=f"smallest: {100 * (min(ratios) - 1):.2g} %, never negative",
            ours=100 * (max(ratios) - 1), unit="%", at_most=0.1,
        )
    ]  # fmt: skip


def inverse() -> list[Row]:
    """One `calibrate` for any randomizer."""

    def ask(question: int, n: int, epsilon: float, delta: float) -> object:
        n, epsilon, delta = other(question, n, epsilon, delta)
        return sdp.calibrate(n=n, epsilon=epsilon, delta=delta, honest=1)

    took = {
        case: measure({"calibrate": lambda i, case=case: ask(i, *case)}, ROUNDS)["calibrate"]
        for case in ((n, e, d) for n in USERS[::3] for e in (0.1, 0.5, 1.0) for d in DELTAS)
    }
    where = "n = {:g}, epsilon = {:g}, delta = {:g}"
    return [slowest(took, "calibrate", where, 15.0)]


def own_laws() -> list[Row]:
    """One `amplify` from the randomizer's own law, and how much it wins."""
    generic = sdp.amplify(epsilon0=2.0, n=10**6, delta=1e-8, honest=1).epsilon
    found = []
    for name in OWN:

        def ask(question: int, n: int, delta: float, name: str = name) -> sdp.Guarantee:
            n, epsilon, delta = other(question, n, 2.0, delta)
            device = sdp.protocols.spec(name).make_local(k=16, epsilon=epsilon).randomizer
            return sdp.amplify(randomizer=device, n=n, delta=delta, honest=1)

        took = {
            case: measure({name: lambda i, case=case, ask=ask: ask(i, *case)}, ROUNDS)[name]
            for case in ((n, delta) for n in USERS[::3] for delta in DELTAS)
        }
        share = ask(0, 10**6, 1e-8).epsilon / generic
        where = f"epsilon is {share:.3f} of the generic one at n = 10^6; n = {{:g}}, delta = {{:g}}"
        found.append(slowest(took, f"amplify {name} k = 16, epsilon0 = 2", where, 5.0))
    return found


def composition() -> list[Row]:
    """The same curve composed by us, and by dp-accounting with as many points of it; and bits that are sent again."""
    try:
        from dp_accounting.pld import pld_pmf
        from dp_accounting.pld import privacy_loss_distribution as pld
    except ImportError:
        return [missing("composition against dp-accounting", "dp-accounting is not installed")]

    def connect(points: np.ndarray, step: float) -> pld.PrivacyLossDistribution:
        last = len(points) - 1
        mirrored = 1 - np.exp(-step * np.arange(last, 0, -1)) * (1 - points[:0:-1])
        every = np.concatenate([mirrored, points])
        pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, -last, last, every)
        return pld.PrivacyLossDistribution(pmf)

    found: list[Row] = []
    for times in (52, 365):
        curves = [
            sdp.profile(epsilon0=1.0 + i / 500, n=10**6 - i, honest=1) for i in range(ROUNDS + 1)
        ]
        listed = []
        for curve in curves:
            step = curve.epsilon(1e-9 / times) / POINTS
            listed.append((find_deltas(curve, step * np.arange(POINTS + 1)), step))
        answers: dict[str, float] = {}

        def ours(
            i: int, times: int = times, curves: list = curves, answers: dict = answers
        ) -> None:
            answers["ours"] = sdp.compose([curves[i]] * times, delta=1e-6)

        def theirs(
            i: int, times: int = times, listed: list = listed, answers: dict = answers
        ) -> None:
            composed = connect(*listed[i]).self_compose(times)
            answers["theirs"] = composed.get_epsilon_for_delta(1e-6)

        took = best({"theirs": theirs, "ours": ours}, ROUNDS)
        found.append(
            _compare(
                f"{times} releases composed, any randomizer, n = 10^6",
                took,
                f"dp-accounting, points given: epsilon {answers['theirs']:.6g}",
                f"epsilon {answers['ours']:.6g}",
            )
        )
        found.append(_compose_bits(times, pld))
    return found


def _compose_bits(times: int, pld: object) -> Row:
    """Binary randomized response, sent again and again without a shuffler: what dp-accounting has a name for."""
    answers: dict[str, float] = {}

    def ours(i: int) -> None:
        curve = sdp.profile(epsilon0=0.1 + i / 5000, n=1, honest=1)
        answers["ours"] = sdp.compose([curve] * times, delta=1e-6)

    def theirs(i: int) -> None:
        lie = 2 / (1 + math.exp(0.1 + i / 5000))  # how often the answer is a uniform bit
        one = pld.from_randomized_response(lie, 2)  # type: ignore[attr-defined]
        answers["theirs"] = one.self_compose(times).get_epsilon_for_delta(1e-6)

    took = best({"theirs": theirs, "ours": ours}, ROUNDS)
    return _compare(
        f"{times} releases of a bit, epsilon0 = 0.1",
        took,
        f"dp-accounting: epsilon {answers['theirs']:.6g}",
        f"epsilon {answers['ours']:.6g}",
    )


def _compare(what: str, took: dict[str, float], theirs: str, ours: str) -> Row:
    ratio = took["ours"] / took["theirs"]
    return Row(
        what=what,
        baseline=f"{theirs}, {seconds(took['theirs'])}",
        ours=f"{ours}, {seconds(took['ours'])}",
        ratio=f"{ratio:.2f}x",
        wanted="<= 3x",
        met=ratio <= 3,
    )


def many_deltas() -> list[Row]:
    """Shuffled bits: delta at epsilons that are far apart, which share little work; each question is asked once."""
    found = []
    for n in (10**4, 10**5, 10**6, 10**9):
        bits = BinaryResponse(n=n, flip=Fraction(1, 4))
        epsilons = np.geomspace(1e-3, 1.0, 25) * bits.epsilon0
        took = time_call(partial(bits.deltas, epsilons))
        what = (
            f"25 deltas of shuffled bits, n = {n:g}, flip = 1/4, epsilon from 0.001 to 1 epsilon0"
        )
        found.append(quantity(what, baseline="-", ours=took, unit="s", at_most=1.0))
    return found


if __name__ == "__main__":
    show(rows(), "The accountant")
