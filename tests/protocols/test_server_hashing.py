"""Hashed answers among a server's messages: the law of the device, unbiased counts, their variance, and coverage."""

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from shuffledp import SeededWords, randomize
from shuffledp.accounting.server_noise import Scattered, open_curve
from shuffledp.core.analyzer import Tally
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.randomizer import Shuffled
from shuffledp.protocols import server_hashing
from shuffledp.protocols.server_hashing import (
    AmongHashed,
    HashedBin,
    choose_hashing,
    find_added,
    make_server_hashing,
)
from shuffledp.protocols.server_noise import find_noise, make_server_noise
from support import enumerated_law

DEVICES = [
    HashedBin(k=3, r=2, s=1, width=1, word_bits=4),
    HashedBin(k=4, r=2, s=2, width=3, word_bits=4),
    HashedBin(k=3, r=2, s=1, width=1, floor=1.0, word_bits=4),
    HashedBin(k=4, r=2, s=2, width=3, floor=2.0, word_bits=4),
]

NAMES = ["plain", "wide", "plain with a floor", "wide with a floor"]


@pytest.mark.parametrize("device", DEVICES, ids=NAMES)
def test_every_tape_makes_the_declared_message(device: HashedBin) -> None:
    """Some draws of a width of 3 are rejected; those messages are uniform."""
    for x in range(device.k):
        law = device.pmf(x)
        assert enumerated_law(device, x) == law
        for y in range(device.k):
            hit = sum(mass for (sent,), mass in law.items() if y in device.find_supported(sent))
            assert hit == (device.p if y == x else device.q)


@pytest.mark.parametrize("device", DEVICES[2:], ids=NAMES[2:])
def test_the_floor_holds_and_is_not_idle(device: HashedBin) -> None:
    laws = [device.pmf(x) for x in range(device.k)]
    worst = max(one[sent] / other[sent] for one in laws for other in laws for sent in one)
    assert device.floor is not None
    assert device.floor * 0.85 < math.log(worst) <= device.floor
    assert worst == device.find_moved().p / device.find_moved().q
    assert device.find_moved().floor <= device.floor
    wide = HashedBin(k=9000, r=32, s=9, width=39, floor=3.0)
    assert 3.0 - 1e-12 < wide.find_moved().floor <= 3.0


@cache
def tallies(device: HashedBin, x: int | None) -> tuple[tuple[tuple[int, ...], Fraction], ...]:
    """The law of what a person's message, or a uniform one, supports."""
    size = 1 << device.r + device.s
    uniform = {
        ((number & (1 << device.r) - 1, number >> device.r),): Fraction(1, size)
        for number in range(size)
    }
    found: dict[tuple[int, ...], Fraction] = {}
    for (sent,), mass in (uniform if x is None else device.pmf(x)).items():
        seen = tuple(int(y in device.find_supported(sent)) for y in range(device.k))
        found[seen] = found.get(seen, Fraction(0)) + mass
    return tuple(found.items())


def enumerate_tallies(
    analyzer: AmongHashed, people: tuple[int, ...]
) -> dict[tuple[int, ...], Fraction]:
    """The law of the tally of people[x] people of each code, with both servers' messages."""
    device = analyzer.device
    nothing = (0,) * device.k
    law = {nothing: Fraction(1)}
    senders = [x for x, times in enumerate(people) for _ in range(times)]
    for x in [*senders, *[None] * (2 * analyzer.messages)]:
        own = dict(tallies(device, x))
        if x is not None and analyzer.parts > 1:
            own = {seen: mass / analyzer.parts for seen, mass in own.items()}
            own[nothing] = own.get(nothing, Fraction(0)) + 1 - Fraction(1, analyzer.parts)
        grown: dict[tuple[int, ...], Fraction] = {}
        for seen, mass in law.items():
            for more, chance in own.items():
                both = tuple(a + b for a, b in zip(seen, more, strict=True))
                grown[both] = grown.get(both, Fraction(0)) + mass * chance
        law = grown
    return law


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("device", DEVICES, ids=NAMES)
def test_counts_are_unbiased_with_the_declared_variance_and_intervals_cover(
    device: HashedBin, parts: int
) -> None:
    analyzer = AmongHashed(device=device, messages=3, parts=parts)
    people = (2, 1, 0, 1)[: device.k]
    truth = np.array(people, dtype=float)
    law = enumerate_tallies(analyzer, people)
    assert sum(law.values()) == 1
    masses = np.array([float(mass) for mass in law.values()])
    counts = np.array(list(law))
    found = analyzer.estimate(Tally(counts=counts.ravel(), users=sum(people)))
    value = np.asarray(found.value).reshape(counts.shape)
    low, high = (np.asarray(end).reshape(counts.shape) for end in found.exact_interval(0.9))
    mean, spread = masses @ value, masses @ np.square(value - truth)
    covered = masses @ ((low <= truth) & (truth <= high))
    np.testing.assert_allclose(mean, truth, atol=1e-12)
    np.testing.assert_allclose(analyzer.variance(np.array(people)), spread, rtol=1e-12)
    assert covered.min() >= 0.9


@pytest.mark.parametrize(("k", "people"), [(5_000, 20_000), (100_000, 10_000)])
def test_the_error_of_many_categories_is_the_formula(k: int, people: int) -> None:
    """2 mu + n / b, whatever the number of categories is; 95 % intervals cover."""
    made = make_server_hashing(k=k, r=32, s=13, width=32, messages=15_900)
    device, analyzer, source = made.randomizer, made.analyzer, SeededWords(4)
    assert isinstance(device, HashedBin)
    assert isinstance(analyzer, AmongHashed)
    codes = np.arange(people) ** 2 % k
    truth = np.bincount(codes, minlength=k)
    sent = [randomize(device, codes, source).payload]
    sent += [device.hashing.scatter(source.words(analyzer.messages, 64)) for _ in range(2)]
    found = analyzer.estimate(
        Tally(
            counts=analyzer.tally(Shuffled(payload=np.concatenate(sent), users=people)).counts,
            users=people,
        )
    )
    error = math.sqrt(np.mean((np.asarray(found.value) - truth) ** 2))
    level = float(Scattered(messages=15_900, support=device.q).variance)
    assert math.isclose(error, math.sqrt(2 * level + people / 256), rel_tol=0.04)
    low, high = found.interval(0.95)
    assert np.mean((np.asarray(low) <= truth) & (truth <= np.asarray(high))) > 0.94


def test_a_lie_moves_a_category_by_one_person_or_by_more_with_a_floor() -> None:
    for device in DEVICES:
        analyzer = AmongHashed(device=device, messages=3)
        most = max(
            max(analyzer.weights((a, v)))
            for a in range(1 << device.r)
            for v in range(1 << device.s)
        )
        assert most == analyzer.influence() == 1 / (device.p - device.q)


def test_the_hashing_supports_hardly_more_than_asked() -> None:
    for support in (0.5, 0.4, 1 / 64, 1 / 3221, 1e-5):
        found = choose_hashing(10_000, support)
        assert support <= found.q <= support * 1.04


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ParameterError, match="word_bits=32 must be"):
        HashedBin(k=4, r=32, s=9, width=1, word_bits=32)
    with pytest.raises(UnsupportedError, match="leaves nothing"):
        HashedBin(k=4, r=2, s=2, width=1, floor=1e-6, word_bits=8)
    with pytest.raises(UnsupportedError, match="messages"):
        HashedBin(k=4, r=16, s=9, width=1).pmf(0)
    with pytest.raises(ParameterError, match="messages=0"):
        AmongHashed(device=DEVICES[0], messages=0)
    assert find_added(make_server_hashing(k=9, r=4, s=2, width=1, messages=70))[0].support == 0.25


@pytest.mark.parametrize("device", DEVICES, ids=NAMES)
def test_what_a_report_moves_has_the_weight_of_its_question(device: HashedBin) -> None:
    moved = device.find_moved(2.5)
    assert (moved.moves, moved.weight, moved.support) == (2, 2.5, device.q)
    told = device.truthful if device.floor is not None else 1
    assert moved.p - moved.q == told
    assert moved.q == (0 if device.floor is None else (1 - told) * device.q)
    assert device.epsilon0 == (math.inf if device.floor is None else device.floor)
    assert device.words_per_input == (2 if device.floor is None else 3)


def test_words_have_64_bits_at_most_and_the_bits_of_a_message_at_least() -> None:
    assert HashedBin(k=4, r=2, s=2, width=1).word_bits == 64
    assert HashedBin(k=4, r=2, s=2, width=1, word_bits=4).blanket == 0
    for word_bits in (3, 65):
        with pytest.raises(ParameterError, match=f"word_bits={word_bits} must be"):
            HashedBin(k=4, r=2, s=2, width=1, word_bits=word_bits)


def test_a_law_has_as_many_messages_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    device = HashedBin(k=4, r=2, s=2, width=1)
    monkeypatch.setattr(server_hashing, "_LAW_MAX", 16)
    assert sum(device.pmf(0).values()) == 1
    monkeypatch.setattr(server_hashing, "_LAW_MAX", 15)
    with pytest.raises(UnsupportedError, match=r"the law has 2\^4 messages"):
        device.pmf(0)


def test_a_high_floor_makes_a_message_uniform_hardly_ever() -> None:
    """Where rejected draws are uniform often enough, no coin is needed, and there is none."""
    rejecting = HashedBin(k=4, r=2, s=2, width=3, floor=4.0, word_bits=4)
    assert rejecting.blanket == 0
    assert rejecting.truthful == Fraction(15, 16)
    assert enumerated_law(rejecting, 1) == rejecting.pmf(1)
    assert rejecting.find_moved().floor <= 4.0


def test_a_protocol_says_what_it_was_made_of() -> None:
    made = make_server_hashing(k=9, r=4, s=2, width=1, messages=70, epsilon=2.0, parts=3)
    given = {
        "task": "histogram",
        "epsilon": 2.0,
        "k": 9,
        "parts": 3,
        "messages": 70,
        "r": 4,
        "s": 2,
        "width": 1,
    }
    assert made.parameters == given
    assert made.name == "server_noise"
    device, analyzer = made.randomizer, made.analyzer
    assert isinstance(device, HashedBin)
    assert isinstance(analyzer, AmongHashed)
    assert (device.floor, analyzer.parts, analyzer.messages) == (2.0, 3, 70)
    assert made.cost.bits_per_message == 6
    assert made.offers.code == device.code
    assert made.offers.influence is not None
    assert made.offers.influence() == analyzer.influence() == 3 / (device.p - device.q)
    noise = Scattered(messages=70, support=Fraction(1, 4))
    assert find_added(made) == (device.find_moved(), noise)
    assert made.guarantee.delta == open_curve(device.find_moved(), noise).delta(1.0) > 0
    assert made.guarantee.epsilon == 1.0
    assert made.guarantee_if(honest=0.5).delta == made.guarantee.delta
    assert "epsilon" not in make_server_hashing(k=9, r=4, s=2, width=1, messages=70).parameters
    with pytest.raises(ParameterError, match="parts=0"):
        AmongHashed(device=DEVICES[0], messages=1, parts=0)
    plain = make_server_noise(task="histogram", k=5, rate=0.5, most=36)
    assert find_added(plain) == find_noise(plain)


def test_more_than_half_of_the_categories_are_never_supported() -> None:
    found = choose_hashing(10_000, 0.9)
    assert found.q == Fraction(1, 2)
    assert choose_hashing(10_000, 0.25).width == 32
