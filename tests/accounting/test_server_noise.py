"""Reports among a server's dummies: every bound against the exact law of what somebody sees, enumerated.

Whoever looks knows the answers of all others, and the messages of those who collude; what they see is the law of
the tally, as fractions. n is up to 4, k up to 3, L up to 3. No bound is below the truth, and the plain ones are equal to it.
"""

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import combinations_with_replacement, product

import pytest

from shuffledp.accounting.server_noise import AmongDummies, Moved, bound_delta, calibrate_noise
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.numerics.rounding import exp_bounds, exp_lower, exp_upper
from shuffledp.numerics.tabulated import CutLaplace
from shuffledp.protocols.krr import KRR

Seen = dict[tuple[int, ...], int]
"""How many of the equally likely cases show each tally; all laws of one view have as many cases."""
EPSILONS = (0.0, 0.3, 0.7, 1.0, 1.4, 2.0, 3.0)


def count_cases(law: Mapping[tuple[int, ...], Fraction]) -> Seen:
    """A law of dyadic masses as cases."""
    cases = math.lcm(*(mass.denominator for mass in law.values()))
    return {seen: int(mass * cases) for seen, mass in law.items()}


def add(a: Seen, b: Seen) -> Seen:
    """The law of the sum of two independent tallies."""
    found: Seen = {}
    for (x, cases), (y, others) in product(a.items(), b.items()):
        both = tuple(i + j for i, j in zip(x, y, strict=True))
        found[both] = found.get(both, 0) + cases * others
    return found


def add_all(laws: Iterable[Seen], k: int) -> Seen:
    total: Seen = {(0,) * k: 1}
    for law in laws:
        total = add(total, law)
    return total


def person(x: int, k: int, floor: KRR | None) -> Seen:
    """The tally of one person's message."""
    chances = {(x,): Fraction(1)} if floor is None else floor.pmf(x)
    law = {tuple(int(y == b) for b in range(k)): mass for (y,), mass in chances.items()}
    cases = 1 if floor is None else 1 << floor.word_bits
    return {seen: int(mass * cases) for seen, mass in law.items()}


def bins_noise(law: CutLaplace, k: int) -> Seen:
    one = count_cases({(z,): mass for z, mass in law.pmf().items()})
    return {
        tuple(law.most + z for (z,), _ in each): math.prod(cases for _, cases in each)
        for each in product(one.items(), repeat=k)
    }


def count_noise(law: CutLaplace) -> Seen:
    return count_cases({(law.most - z, law.most + z): mass for z, mass in law.pmf().items()})


def diverge(p: Seen, q: Seen, epsilon: float) -> tuple[Fraction, Fraction]:
    """The divergence, between two fractions: e^epsilon is irrational."""
    cases, ends = sum(p.values()), []
    assert cases == sum(q.values())
    for growth in (exp_upper(epsilon), exp_lower(epsilon)):
        times, over = growth.denominator, growth.numerator
        left = (times * own - over * q.get(seen, 0) for seen, own in p.items())
        ends.append(Fraction(sum(each for each in left if each > 0), times * cases))
    return ends[0], ends[1]


LAWS = [
    CutLaplace(rate=rate, most=most, word_bits=16) for rate, most in [(0.5, 1), (0.7, 2), (1.0, 3)]
]
FLOORS = {
    k: [None, KRR(k=k, epsilon0=1.0, word_bits=6), KRR(k=k, epsilon0=2.5, word_bits=6)]
    for k in (2, 3)
}


def open_curve(law: CutLaplace, moves: int, floor: KRR | None) -> AmongDummies:
    if floor is None:
        return AmongDummies(noise=law, moves=moves)
    return AmongDummies(noise=law, moves=moves, p=floor.p, q=floor.q)


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("k", [2, 3])
def test_bins_for_every_crowd_of_up_to_four(law: CutLaplace, k: int) -> None:
    """The analyzer with the shuffler's dummies, and the shuffler with the analyzer's noise: the same law.

    Others collude (their messages are known, and subtracted) or are honest (theirs are noise, if there is a floor).
    With none left it is the shuffler that dropped all but one.
    """
    noise = bins_noise(law, k)
    for floor in FLOORS[k]:
        curve = open_curve(law, 2, floor)
        crowds = [()] if floor is None else crowds_of(k)
        for others in crowds:
            rest = add(noise, add_all((person(x, k, floor) for x in others), k))
            views = [add(rest, person(x, k, floor)) for x in range(k)]
            for x, y in product(range(k), repeat=2):
                for epsilon in EPSILONS:
                    least, most = diverge(views[x], views[y], epsilon)
                    assert least <= curve.delta(epsilon)
                    if not others and x != y and (floor is None or k == 2):
                        # The table's ratios differ a little from bin to bin, and the largest is taken.
                        assert curve.delta(epsilon) <= float(most) + 1e-7
    assert AmongDummies(noise=law, moves=2).delta(3.0) == float(2 * law.edge - law.edge**2)


def crowds_of(k: int) -> list[tuple[int, ...]]:
    return [
        each
        for n in range(4 if k == 2 else 3)
        for each in combinations_with_replacement(range(k), n)
    ]


def test_without_a_floor_other_people_are_constants() -> None:
    """Whoever the others are and whatever they send, several messages in one bin included: the tally moves, no more."""
    law, k = LAWS[1], 3
    noise = bins_noise(law, k)
    alone = [add(noise, person(x, k, None)) for x in range(k)]
    for others in combinations_with_replacement(range(k), 3):
        stuffed = add_all((person(x, k, None) for x in others), k)
        moved = [add(add(noise, stuffed), person(x, k, None)) for x in range(k)]
        for x, y in product(range(k), repeat=2):
            assert diverge(alone[x], alone[y], 0.9) == diverge(moved[x], moved[y], 0.9)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_counts_have_one_draw_and_half_the_loss(law: CutLaplace) -> None:
    for floor in FLOORS[2]:
        curve = open_curve(law, 1, floor)
        for others in crowds_of(2) if floor is not None else [()]:
            rest = add(count_noise(law), add_all((person(x, 2, floor) for x in others), 2))
            views = [add(rest, person(x, 2, floor)) for x in (0, 1)]
            for x, y in ((0, 1), (1, 0)):
                for epsilon in EPSILONS:
                    assert diverge(views[x], views[y], epsilon)[0] <= curve.delta(epsilon)
    assert AmongDummies(noise=law, moves=1).delta(3.0) == float(law.edge)


def test_one_draw_for_three_bins_would_tell_the_total() -> None:
    """A yes/no that can be skipped is three bins: with one draw for yes and no, their sum would be exact."""
    law = LAWS[2]
    noise = {(*two, 0): cases for two, cases in count_noise(law).items()}
    yes, skipped = (add(noise, person(x, 3, None)) for x in (0, 2))
    assert diverge(yes, skipped, 3.0)[0] == 1


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_both_noises_together_are_at_least_as_good_as_either(law: CutLaplace) -> None:
    one = bins_noise(law, 2)
    both = add(one, one)
    for epsilon in EPSILONS:
        public, either = (
            max(
                diverge(
                    add(noise, person(x, 2, None)), add(noise, person(1 - x, 2, None)), epsilon
                )[0]
                for x in (0, 1)
            )
            for noise in (both, one)
        )
        assert public <= either <= AmongDummies(noise=law, moves=2).delta(epsilon)


@pytest.mark.parametrize("floor", [None, 1.5])
def test_one_random_question_has_the_largest_of_the_curves(floor: float | None) -> None:
    """Two questions, of two and of three bins; a report has one message, for a random one of them."""
    laws = [CutLaplace(rate=0.7, most=1, word_bits=4), CutLaplace(rate=0.5, most=1, word_bits=4)]
    sizes = (2, 3)
    devices = [None if floor is None else KRR(k=k, epsilon0=floor, word_bits=6) for k in sizes]
    first, second = (bins_noise(law, k) for law, k in zip(laws, sizes, strict=True))
    noise = {(*a, *b): i * j for (a, i), (b, j) in product(first.items(), second.items())}

    def report(answers: tuple[int, ...]) -> Seen:
        own = [person(x, k, device) for x, k, device in zip(answers, sizes, devices, strict=True)]
        seen = {(*tally, 0, 0, 0): cases for tally, cases in own[0].items()}
        return seen | {(0, 0, *tally): cases for tally, cases in own[1].items()}

    everything = list(product(range(2), range(3)))
    views = {each: add(noise, report(each)) for each in everything}
    curves = [open_curve(law, 2, device) for law, device in zip(laws, devices, strict=True)]
    for epsilon in (0.3, 1.0, 1.4):
        largest = max(curve.delta(epsilon) for curve in curves)
        for one, other in product(everything, repeat=2):
            assert diverge(views[one], views[other], epsilon)[0] <= largest


@pytest.mark.parametrize(
    ("parts", "rates"),
    [
        ((2, 1), (0.7, 0.7)),
        ((2, 2), (0.5, 0.5)),
        ((2, 1), (0.5, 0.8)),
        ((1, 1, 1), (0.7, 0.7, 0.7)),
    ],
)
@pytest.mark.parametrize("floored", [False, True])
def test_several_questions_and_several_windows(
    parts: tuple[int, ...], rates: tuple[float, ...], floored: bool
) -> None:
    """Every question has its own dummies; the loss of a report is the sum."""
    laws = [CutLaplace(rate=rate, most=2, word_bits=4) for rate in rates]
    device = KRR(k=2, epsilon0=1.5, word_bits=6) if floored else None
    pairs = []
    for moves, law in zip(parts, laws, strict=True):
        noise = count_noise(law) if moves == 1 else bins_noise(law, 2)
        pairs.append([add(noise, person(x, 2, device)) for x in (0, 1)])
    views = [
        {
            sum((seen for seen, _ in each), ()): math.prod(cases for _, cases in each)
            for each in product(*(pair[x].items() for pair in pairs))
        }
        for x in (0, 1)
    ]
    asked = [
        Moved(moves=moves) if device is None else Moved(moves=moves, p=device.p, q=device.q)
        for moves in parts
    ]
    for epsilon in (0.2, 0.7, 1.0, 1.5, 2.5):
        bound = bound_delta(asked, laws, epsilon=epsilon, near=1e-2)
        for x in (0, 1):
            assert diverge(views[x], views[1 - x], epsilon)[0] <= bound
    twice = bound_delta(asked[:1], laws[:1], epsilon=1.0, near=1e-2, times=2)
    assert twice == bound_delta(asked[:1] * 2, laws[:1] * 2, epsilon=1.0, near=1e-2)


@pytest.mark.parametrize(
    ("moves", "epsilon", "delta", "rate", "most", "spread"),
    [(2, 1.0, 1e-8, 0.5, 36, 3.96), (1, 1.0, 1e-8, 1.0, 18, 1.92)],
)
def test_published_laws(
    moves: int, epsilon: float, delta: float, rate: float, most: int, spread: float
) -> None:
    (law,) = calibrate_noise([Moved(moves=moves)], epsilon=epsilon, delta=delta)
    assert (law.rate, law.most) == (rate, most)
    assert round(math.sqrt(2 * law.variance), 2) == spread
    curve = AmongDummies(noise=law, moves=moves)
    assert (
        curve.delta(epsilon)
        <= delta
        < AmongDummies(noise=CutLaplace(rate=rate, most=most - 1), moves=moves).delta(epsilon)
    )


def test_a_floor_of_three_and_five_categories() -> None:
    device = KRR(k=5, epsilon0=3.0)
    part = Moved(moves=2, p=device.p, q=device.q)
    (law,) = calibrate_noise([part], epsilon=1.0, delta=1e-6)
    rare = [
        math.sqrt(n * device.q * (1 - device.q) + 2 * law.variance) / (device.p - device.q)
        for n in (30, 80, 300, 1_000, 10_000)
    ]
    assert [round(each, 1) for each in rare] == [4.6, 5.0, 6.2, 9.1, 25.6]


@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize("floor", [None, 2.5])
@pytest.mark.parametrize("moves", [(2,), (2, 1), (1, 1, 1), (2, 2, 2, 2)])
def test_calibrated_laws_keep_the_promise(
    moves: tuple[int, ...], floor: float | None, times: int
) -> None:
    device = None if floor is None else KRR(k=2, epsilon0=floor)
    parts = [
        Moved(moves=each) if device is None else Moved(moves=each, p=device.p, q=device.q)
        for each in moves
    ]
    laws = calibrate_noise(parts, epsilon=1.0, delta=1e-6, times=times)
    assert bound_delta(parts, laws, epsilon=1.0, near=1e-6, times=times) <= 1e-6
    louder = [CutLaplace(rate=law.rate * 1.02, most=law.most) for law in laws]
    assert bound_delta(parts, louder, epsilon=1.0, near=1e-6, times=times) > 1e-6


def test_questions_of_equal_weight_have_the_same_law() -> None:
    """A count would need a shorter one: its ends are those of the bins, so that the sum of the noise is known exactly."""
    parts = [Moved(moves=1), Moved(moves=2), Moved(moves=1)]
    laws = calibrate_noise(parts, epsilon=1.0, delta=1e-8)
    assert len({(law.rate, law.most) for law in laws}) == 1
    alone = calibrate_noise([Moved(moves=2)], epsilon=0.5, delta=1e-8 / 3)[0]
    assert (laws[0].rate, laws[0].most) == (alone.rate, alone.most)
    heavy, light = calibrate_noise(
        [Moved(moves=2, weight=3), Moved(moves=1)], epsilon=1.0, delta=1e-8
    )
    assert heavy.rate > light.rate
    assert heavy.most < light.most


def test_noise_for_a_large_delta_has_at_least_one_step() -> None:
    (law,) = calibrate_noise([Moved(moves=2)], epsilon=1.0, delta=0.9)
    assert law.most == 1


def test_many_windows_cost_less_than_their_sum() -> None:
    (law,) = calibrate_noise([Moved(moves=2)], epsilon=1.0, delta=1e-8, times=52)
    assert law.rate > 1.9 * 1.0 / (2 * 52)


def test_what_needs_no_dummies_or_has_no_curve_is_refused() -> None:
    device = KRR(k=3, epsilon0=0.9)
    with pytest.raises(UnsupportedError, match=r"local epsilon of 0\.9 keeps epsilon=1"):
        calibrate_noise([Moved(moves=2, p=device.p, q=device.q)], epsilon=1.0, delta=1e-6)
    with pytest.raises(ParameterError, match="moves=3 must be 1 or 2 with a floor"):
        AmongDummies(noise=LAWS[0], moves=3, p=device.p, q=device.q)
    with pytest.raises(ParameterError, match="must be >= 0 and below p"):
        Moved(moves=2, p=Fraction(1, 4), q=Fraction(1, 2))
    with pytest.raises(UnsupportedError, match="needs more than 65,536 dummies"):
        calibrate_noise([Moved(moves=2)], epsilon=1e-4, delta=1e-6)


def test_curves_fall_and_are_inverted_safely() -> None:
    curve = AmongDummies(noise=CutLaplace(rate=0.5, most=36), moves=2)
    assert curve.epsilon(1e-8) == 1.0 == curve.pure
    assert curve.delta(curve.epsilon(0.01)) <= 0.01
    with pytest.raises(UnsupportedError):
        curve.epsilon(1e-9)
    device = KRR(k=5, epsilon0=3.0)
    floored = AmongDummies(noise=CutLaplace(rate=0.5, most=36), moves=2, p=device.p, q=device.q)
    deltas = [floored.delta(epsilon) for epsilon in EPSILONS]
    assert deltas == sorted(deltas, reverse=True)
    assert all(own <= curve.delta(epsilon) for own, epsilon in zip(deltas, EPSILONS, strict=True))


def test_a_floor_just_above_epsilon_leaves_something():
    """p / q and e^epsilon agree in 49 digits: delta is above 0, and is said to be."""
    odds = exp_bounds(1.0, 80)[1]
    bins = AmongDummies(
        noise=CutLaplace(rate=1.0, most=1), moves=2, p=odds / (1 + odds), q=1 / (1 + odds)
    )
    assert bins.delta(1.0) > 0
