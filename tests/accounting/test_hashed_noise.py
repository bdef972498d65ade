"""Hashed reports among a server's uniform messages: the bound against the exact law of what somebody sees, enumerated.

What is seen is how often each message (a function and a value) occurs, or the published tally. Families have up to 16
messages, k is up to 4, n up to 3, and a server adds up to 5.
"""

import math
from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from accounting.test_server_noise import Seen, add, add_all, count_cases, diverge
from shuffledp import SeededWords
from shuffledp.accounting.server_noise import (
    AmongScattered,
    Moved,
    Scattered,
    bound_delta,
    calibrate_noise,
    open_curve,
)
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.numerics.galois import multiply
from shuffledp.numerics.rounding import exp_upper
from shuffledp.numerics.tabulated import CutLaplace
from shuffledp.protocols.server_hashing import HashedBin

EPSILONS = (0.0, 0.7, 1.4)
CASES = [  # k, r, s, width, M
    (3, 2, 1, 1, 4),
    (4, 2, 2, 1, 3),
    (3, 2, 2, 3, 3),
    (2, 2, 1, 1, 5),
]


def build(k: int, r: int, s: int, width: int, floor: float | None) -> HashedBin:
    return HashedBin(k=k, r=r, s=s, width=width, floor=floor, word_bits=6)


def number(device: HashedBin, message: object) -> int:
    a, v = message  # type: ignore[misc]
    return int(a) | int(v) << device.r


def person(device: HashedBin, x: int) -> Seen:
    """How often each message occurs in one person's report."""
    size = 1 << device.hashing.bits
    law = {
        tuple(int(each == number(device, sent)) for each in range(size)): mass
        for (sent,), mass in device.pmf(x).items()
    }
    cases = device.width << 12 + device.hashing.bits  # words of the floor, and of the width
    assert all((mass * cases).denominator == 1 for mass in law.values())
    return {seen: int(mass * cases) for seen, mass in law.items()}


@cache
def uniform(size: int, messages: int) -> tuple[tuple[tuple[int, ...], int], ...]:
    """How often each of `size` messages occurs among so many uniform ones."""
    found: Seen = {}
    for drawn in combinations_with_replacement(range(size), messages):
        times = Counter(drawn)
        seen = tuple(times[each] for each in range(size))
        found[seen] = math.factorial(messages) // math.prod(map(math.factorial, times.values()))
    return tuple(found.items())


def open_noise(device: HashedBin, messages: int) -> Seen:
    return dict(uniform(1 << device.hashing.bits, messages))


def publish(device: HashedBin, law: Seen) -> Seen:
    """The law of the tally of the messages."""
    supported = {
        each: device.find_supported((each & (1 << device.r) - 1, each >> device.r))
        for each in range(1 << device.hashing.bits)
    }
    found: Seen = {}
    for seen, cases in law.items():
        tally = tuple(
            sum(times for each, times in enumerate(seen) if x in supported[each])
            for x in range(device.k)
        )
        found[tally] = found.get(tally, 0) + cases
    return found


@pytest.mark.parametrize("floor", [None, 1.0, 2.5])
@pytest.mark.parametrize(("k", "r", "s", "width", "messages"), CASES)
def test_no_view_of_a_hashed_report_tells_more_than_the_curve(
    k: int, r: int, s: int, width: int, messages: int, floor: float | None
) -> None:
    """The analyzer among the shuffler's messages; the shuffler that dropped all others, with the published tally."""
    device = build(k, r, s, width, floor)
    curve = open_curve(device.find_moved(), Scattered(messages=messages, support=device.q))
    noise = open_noise(device, messages)
    views = [add(noise, person(device, x)) for x in range(k)]
    tallies = [publish(device, view) for view in views]
    for x, y in product(range(k), repeat=2):
        for epsilon in EPSILONS:
            bound = Fraction(curve.delta(epsilon))
            seen = diverge(views[x], views[y], epsilon)[0]
            assert seen <= bound
            assert diverge(tallies[x], tallies[y], epsilon)[0] <= seen
            if x != y and not epsilon and floor is None:
                # What is not told apart: messages that support both categories.
                assert seen >= bound * (1 - device.q) * device.truthful * Fraction(999, 1000)


@pytest.mark.parametrize("floor", [None, 1.0])
def test_other_people_only_hide_more(floor: float | None) -> None:
    """Whoever they are; and colluders, whose messages are known, are constants that change nothing."""
    device, messages = build(3, 2, 1, 1, floor), 2
    curve = open_curve(device.find_moved(), Scattered(messages=messages, support=device.q))
    noise = open_noise(device, messages)
    alone = [add(noise, person(device, x)) for x in range(3)]
    for others in [(0,), (2,), (0, 1)]:
        rest = add_all((person(device, x) for x in others), 8)
        crowd = [add(rest, view) for view in alone]
        for x, y in product(range(3), repeat=2):
            for epsilon in (0.0, 0.7, 1.4):
                hidden = diverge(crowd[x], crowd[y], epsilon)[0]
                assert hidden <= diverge(alone[x], alone[y], epsilon)[1] <= Fraction(2)
                assert hidden <= Fraction(curve.delta(epsilon))
    known: Seen = {(0, 2, 0, 0, 0, 1, 0, 0): 1}
    assert diverge(*(add(known, alone[x]) for x in (0, 1)), 0.7) == diverge(*alone[:2], 0.7)


def test_both_servers_messages_are_at_least_as_good_as_one_servers() -> None:
    device = build(3, 2, 1, 1, None)
    one, two = (open_noise(device, messages) for messages in (2, 4))
    for epsilon in EPSILONS:
        public, either = (
            diverge(add(noise, person(device, 0)), add(noise, person(device, 1)), epsilon)[0]
            for noise in (two, one)
        )
        assert public <= either


def test_noise_for_each_category_would_not_hide_a_hashed_message() -> None:
    """Why the analyzer adds messages and not numbers: among many categories the pattern of one message stands out.

    The attacker looks for the message whose categories are up by one, and says which of two answers it supports. With
    noise in each category that keeps (1, 1e-8) for a message of one bin, delta at 1 is above 0.4.
    """
    device, law = HashedBin(k=1024, r=10, s=2, width=1), CutLaplace(rate=0.5, most=36)
    a, v = (each.ravel() for each in np.meshgrid(np.arange(1 << 10), np.arange(1 << 2)))
    values = np.array(
        [multiply(a.astype(np.uint16), np.full(len(a), x), 1024, 10) for x in range(1024)]
    )
    supports = (values >> 8 == v).astype(np.float32)  # [category, message]
    source, times = SeededWords(1), 100
    said = []
    for x in (5, 6):
        sent = device.encode(
            np.full(times, x), source.words(2 * times, 64).reshape(times, 2)
        ).payload
        shown = supports[:, sent[:, 1].astype(int) * 1024 + sent[:, 0]].T
        shown = shown + law.draw(1024 * times, source).reshape(times, 1024)
        likely = (shown @ supports - supports.sum(axis=0) / 2).argmax(axis=1)
        said.append(np.mean((supports[5] > supports[6])[likely]))
    assert said[0] - math.e * said[1] > 0.4


def test_several_questions_are_composed_and_each_window_has_messages_of_its_own() -> None:
    """A hashed answer and a count in one report; and the same hashed answer twice."""
    device, count = build(2, 2, 1, 1, None), CutLaplace(rate=0.7, most=1, word_bits=8)
    hashed = Scattered(messages=3, support=device.q)
    first = [add(open_noise(device, 3), person(device, x)) for x in (0, 1)]
    yes = [
        count_cases({(1 - z + (x == 0), 1 + z + (x == 1)): mass for z, mass in count.pmf().items()})
        for x in (0, 1)
    ]
    both = [
        {(*a, *b): i * j for (a, i), (b, j) in product(one.items(), other.items())}
        for one, other in zip(first, yes, strict=True)
    ]
    twice = [
        {(*a, *b): i * j for (a, i), (b, j) in product(one.items(), repeat=2)} for one in first
    ]
    parts = [device.find_moved(), Moved(moves=1)]
    for epsilon in (0.3, 1.0, 2.0):
        bound = bound_delta(parts, [hashed, count], epsilon=epsilon, near=0.1)
        assert diverge(both[0], both[1], epsilon)[0] <= Fraction(bound)
        bound = bound_delta(parts[:1], [hashed], epsilon=epsilon, near=0.1, times=2)
        assert diverge(twice[0], twice[1], epsilon)[0] <= Fraction(bound)


@pytest.mark.parametrize("support", [Fraction(1, 2), Fraction(1, 64), Fraction(43, 1 << 17)])
def test_the_fewest_messages_are_found(support: Fraction) -> None:
    part = Moved(moves=2, support=support)
    (law,) = calibrate_noise([part], epsilon=1.0, delta=1e-8)
    assert isinstance(law, Scattered)
    assert open_curve(part, law).delta(1.0) <= 1e-8
    fewer = Scattered(messages=math.floor(law.messages * 0.995) - 1, support=support)
    assert open_curve(part, fewer).delta(1.0) > 1e-8
    assert 60 < float(law.variance) < 64.5


def test_a_floor_needs_fewer_messages_and_a_low_one_none() -> None:
    device = HashedBin(k=9000, r=32, s=9, width=39, floor=3.0)
    (law,) = calibrate_noise([device.find_moved()], epsilon=1.0, delta=1e-8)
    (more,) = calibrate_noise([Moved(moves=2, support=device.q)], epsilon=1.0, delta=1e-8)
    assert isinstance(law, Scattered)
    assert isinstance(more, Scattered)
    assert law.messages < more.messages
    assert open_curve(device.find_moved(), law).delta(1.0) <= 1e-8
    low = HashedBin(k=9000, r=32, s=9, width=39, floor=0.9)
    assert AmongScattered(noise=law, p=low.p, q=(1 - low.truthful) * low.q).delta(0.9) == 0
    with pytest.raises(UnsupportedError, match="without any dummies"):
        calibrate_noise([low.find_moved()], epsilon=1.0, delta=1e-8)


def test_laws_that_do_not_belong_to_their_message_are_refused() -> None:
    half, third = Fraction(1, 2), Fraction(1, 3)
    with pytest.raises(ParameterError, match="must be that of the message"):
        open_curve(Moved(moves=2, support=half), Scattered(messages=9, support=third))
    with pytest.raises(ParameterError, match="of two moves"):
        Moved(moves=1, support=half)
    with pytest.raises(ParameterError, match="support"):
        Scattered(messages=9, support=Fraction(1))


@pytest.mark.parametrize("epsilon", [0.1, 0.25, 0.5, 0.75, 1.0])
def test_the_loss_behind_a_floor_is_rounded_down(epsilon):
    among = AmongScattered(
        noise=Scattered(messages=9, support=Fraction(1, 2)), p=Fraction(3, 4), q=Fraction(1, 4)
    )
    left, loss = among._shift(epsilon)
    E = exp_upper(epsilon)
    assert left >= among.p - E * among.q
    assert exp_upper(loss) <= (E * among.p - among.q) / (among.p - E * among.q)
