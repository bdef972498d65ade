"""What every protocol and mechanism states and answers, in figures: figures.txt has them, and nobody changes one without seeing it.

The other tests of the contract say that a figure is valid: that delta is at least the true one, that an interval
covers. Many wrong figures are valid, too: a delta that is twice as large as it need be, a sample of another law, an
interval that is wider. A name, parameters and a seed give the same figures in every version and on every machine,
but for rounding.

`PYTHONPATH=tests python -m protocols.test_figures` writes the table anew: look at the difference, and say in the
changelog why it is there.
"""

import math
import re
import sys
from collections import Counter
from dataclasses import asdict, fields, is_dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from contract.examples import all_examples
from contract.test_mechanisms import ORDINARY, SUMS, some_answer
from shuffledp import SeededWords, protocols
from shuffledp.core.errors import ShuffledpError
from shuffledp.core.protocol import Promise
from shuffledp.core.randomizer import forget, randomize, tape_width
from shuffledp.mechanisms import MECHANISMS, spec
from shuffledp.mechanisms.several import CuratorQuestion, Several
from shuffledp.protocols.server_noise import make_server_noise
from shuffledp.testing import draw_values

TABLE = Path(__file__).with_name("figures.txt")
CLOSE = 1e-7
"""Relative: other processors and versions of NumPy and SciPy round differently."""
SEARCHED = 1e-4
"""Relative, of floors: they are where a search for epsilon0 ends, which one unit of rounding can move."""
ZERO = 1e-13
"""What rounding leaves of a bias of zero."""
LEVELS = (0.5, 0.99)
SHARES = (1.0, 0.9, 0.5)
MULTIPLES = (0.0, 0.5, 1.5)
FIRST = 3
"""So many numbers of a long row are in the table, and a sum of all of them with different weights."""
PEOPLE = 60
MOST_LISTED = 40
"""Codes of a domain whose laws are listed."""
MOST_ENTERED = 1 << 16
"""Codes of a domain that are counted one by one."""
MOST_DEALT = 1 << 12
"""Codes of a domain to which tallies are dealt."""
SHORT = 12
"""Bits of words whose laws are short."""
LARGEST = 1 << 40
"""Larger integers depend on the last bit of a real number."""
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?")


LINE = {"lower": -1.0, "upper": 3.0, "steps": 8}
SHUFFLED = {"n": 4_000, "epsilon": 1.0, "delta": 1e-5}
TWO = [
    {"name": "way", "protocol": "krr", "k": 3, "epsilon": 2.0},
    {"name": "home", "protocol": "rr", "epsilon": 1.0},
]
ONE_OF = [
    {"name": "way", "protocol": "krr", "k": 4},
    {"name": "home", "protocol": "rr"},
    {"name": "far", "protocol": "duchi", **LINE},
]
BOTH = [
    {"name": "way", "protocol": "dummies_histogram", "k": 5},
    {"name": "home", "protocol": "correlated_count", "weight": 2.0},
    {"name": "far", "protocol": "unary_sum", **LINE},
]
NOISE = {"rate": 0.4, "most": 45}
COMBINED = {
    "bundle": ({"epsilon": 3.0, "parts": TWO}, SHUFFLED | {"parts": BOTH}),
    "one_question": ({"epsilon": 1.5, "parts": ONE_OF},),
    "several_values": (
        {"epsilon": 3.0, "values": 3, "inner": "krr", "options": {"k": 4}},
        SHUFFLED | {"values": 2, "inner": "dummies_histogram", "options": {"k": 9}},
        SHUFFLED
        | {"values": 2, "inner": "correlated_histogram", "options": {"k": 9}, "apart": True},
    ),
}
SERVED = (
    {"task": "count", "epsilon": 1.5},
    {"task": "count", "parts": 3},
    {"task": "histogram", "k": 5},
    {"task": "histogram", "k": 5, "epsilon": 2.0, "parts": 2},
    {"task": "mean", **LINE},
    {"task": "mean", "parts": 2, "epsilon": 2.0, **LINE},
    {"task": "sum", "epsilon": 2.0, **LINE},
    {"task": "quantiles", "at": [0.25, 0.5], **LINE},
    {"task": "range", "at": [0.0, 2.0], "epsilon": 2.0, **LINE},
)


def list_cases():
    """Names, and how the protocol is made."""
    for each in all_examples():
        for group in ("local_tiny", "local", "shuffled_tiny", "shuffled"):
            for place, case in enumerate(each.cases(group)):
                yield f"{each.spec.name} {group} {place}", lambda case=case: case.protocol
    for name, given in COMBINED.items():
        for place, parameters in enumerate(given):
            yield (
                f"{name} combined {place}",
                lambda name=name, parameters=parameters: protocols.make(name, **parameters),
            )
    for place, given in enumerate(SERVED):
        yield f"server_noise {place}", lambda given=given: make_server_noise(**given, **NOISE)


CASES = dict(list_cases())
COMPOSED = (*(f"{name} combined" for name in COMBINED), "server_noise")
CURATORS = {
    f"{each.name} central {place}": (each, given)
    for each in MECHANISMS
    for place, given in enumerate(ORDINARY[each.name] + SUMS.get(each.name, ()))
}
WEIGHED = {
    "a count, and half as much for a histogram": ((1.0, False, False), (0.5, True, False)),
    "three with a delta of their own": ((1.0, False, True), (3.0, False, True), (1.0, True, True)),
    "one of two with a delta": ((1.0, True, False), (1.0, False, True)),
    "one": ((2.0, True, False),),
    "one with a delta": ((2.0, False, True),),
}
"""Questions to one curator: weight, whether it is a histogram, whether its mechanism fails."""


def say_number(value):
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, int | np.integer) and abs(int(value)) < LARGEST:
        return str(int(value))
    value = float(value)
    return f"{value:.9g}" if math.isfinite(value) else str(value)


def say_row(values):
    """A few numbers, how many there are, and a sum in which each has a weight of its own."""
    row = np.asarray(values)
    if row.ndim == 0:
        return say_number(row[()])
    flat = row.ravel()
    if len(flat) <= FIRST:
        return "[" + " ".join(map(say_number, flat.tolist())) + "]"
    with np.errstate(invalid="ignore"):
        weights = 1 + np.arange(len(flat)) * 7919 % 101 / 101
        total = float((flat.astype(np.float64) * weights).sum())
    some = " ".join(map(say_number, flat[:FIRST].tolist()))
    return f"[{some} .. of {'x'.join(map(str, row.shape))}: {say_number(total)}]"


def say(value):
    match value:
        case None | str() | bytes():
            return str(value)
        case int() | float() | np.number() | np.bool_() | Fraction():
            return say_number(value)
        case np.ndarray():
            return say_row(value)
        case dict():
            return ", ".join(f"{name}: {say(each)}" for name, each in value.items())
        case tuple() | list():
            plain = all(isinstance(each, int | float | Fraction | np.number) for each in value)
            if plain and value:
                return say_row(
                    np.array([float(each) if abs(each) > LARGEST else each for each in value])
                )
            shown = "; ".join(say(each) for each in value[:FIRST])
            return f"({shown}{' ..' if len(value) > FIRST else ''})"
    return type(value).__name__


def try_figure(compute):
    """What it says, or that it is refused."""
    try:
        return say(compute())
    except ShuffledpError as error:
        return type(error).__name__


def parts_of(found, depth=3):
    """A device or an analyzer and what it is made of."""
    if is_dataclass(found) and type(found).__module__.startswith("shuffledp."):
        yield found
        for each in fields(found) if depth else ():
            value = getattr(found, each.name)
            for part in value if isinstance(value, tuple) else (value,):
                yield from parts_of(part, depth - 1)


def list_stated(protocol):
    """What is said before anybody takes part."""
    guarantee, floor = protocol.guarantee, protocol.local_floor
    yield "task", lambda: protocol.task
    yield "offers", lambda: " ".join(protocol.offers.declared())
    yield "guarantee", lambda: [guarantee.epsilon, guarantee.delta, guarantee.honest]
    yield "proof", lambda: f"{guarantee.model.value}: {guarantee.proof}"
    yield "floor", lambda: None if floor is None else [floor.epsilon, floor.delta]
    yield "cost", lambda: asdict(protocol.cost)
    people = protocol.users or 10
    for share in SHARES:
        honest = max(1, math.floor(share * people))
        yield (
            f"if {honest} are honest",
            lambda honest=honest: [
                [
                    protocol.accountant.guarantee(honest).epsilon,
                    protocol.accountant.guarantee(honest).delta,
                ],
                [protocol.accountant.delta(honest, each * guarantee.epsilon) for each in MULTIPLES],
            ],
        )


def list_properties(protocol):
    """The numbers that devices and analyzers have."""
    seen = Counter()
    for part in (*parts_of(protocol.randomizer), *parts_of(protocol.analyzer)):
        kind = type(part)
        if seen[kind] or not kind.__module__.startswith("shuffledp.protocols"):
            continue
        seen[kind] += 1
        for name, each in sorted(vars(kind).items()):
            if isinstance(each, property) and not name.startswith("_"):
                try:
                    value = getattr(part, name)
                except ShuffledpError:
                    continue
                if isinstance(value, int | float | Fraction | np.ndarray | tuple):
                    yield f"{kind.__name__}.{name}", lambda value=value: value


def draw_counts(size):
    """Uneven numbers of people of each code."""
    counts = np.arange(size, dtype=np.int64) * 5 % 7
    counts[0] += PEOPLE
    counts[-1] += 3
    return counts


def list_offered(protocol):
    """What is computed without a sample."""
    offers = protocol.offers
    if protocol.randomizer.domain.size <= MOST_ENTERED:
        yield from list_for_people(protocol)
    if offers.influence:
        yield "influence", lambda: offers.influence()
    if offers.reach:
        yield "reach", lambda: [offers.reach(each, PEOPLE) for each in (1, 3)]
    if offers.offset:
        yield "offset", lambda: list(offers.offset())
    if offers.bin_errors:
        yield "bin errors", lambda: offers.bin_errors(np.array([0, 1, 7, PEOPLE]), PEOPLE)
    if offers.predict:
        sight = offers.predict(10_000)
        yield "found", lambda: [sight.find_count(each) for each in (0.1, 0.5, 0.99)]
        yield "curve of words", lambda: np.array(sight.draw_curve())
    yield from list_curves(protocol)


def list_for_people(protocol):
    """What is expected of people whose codes are known."""
    offers, inputs = protocol.offers, draw_counts(protocol.randomizer.domain.size)
    yield "variance", lambda: protocol.analyzer.variance(inputs)
    if offers.bias:
        yield "bias", lambda: offers.bias(inputs)
    if offers.foresee:
        yield from list_answer("foreseen", lambda: offers.foresee(inputs))


def list_curves(protocol):
    offers, honest = protocol.offers, protocol.guarantee.honest
    if offers.curve:
        yield "curve", lambda: say_curve(offers.curve(honest), protocol)
    if offers.moved:
        for after in (0, 1):
            yield (
                f"moved after {after}",
                lambda after=after: say_curve(offers.moved(honest, after), protocol),
            )


def say_curve(found, protocol):
    if found is None:
        return None
    profile, apart = found
    return [[apart], [profile.delta(each * protocol.guarantee.epsilon) for each in MULTIPLES]]


def list_answer(name, make):
    """An estimate, and what is said about its error."""
    try:
        answer = make()
    except ShuffledpError as error:
        refused = type(error).__name__
        yield name, lambda: refused
        return
    yield name, lambda: [np.asarray(answer.value), np.asarray(answer.stderr)]
    yield f"{name}, limits", lambda: [*map(np.asarray, answer.limits), answer.labels]
    for level in LEVELS:
        yield f"{name}, {level}", lambda level=level: [*map(np.asarray, answer.interval(level))]
    yield f"{name}, exact", lambda: [*map(np.asarray, answer.exact_interval(0.9))]


def list_sampled(protocol):
    """What devices send, and what is made of it, if their words come from a seed."""
    device, analyzer = protocol.randomizer, protocol.analyzer
    messages = randomize(device, draw_values(device.domain, PEOPLE), SeededWords(3))
    payload = np.ascontiguousarray(messages.payload)
    yield "words", lambda: [tape_width(device), device.word_bits]
    yield (
        "sent",
        lambda: [len(payload), crc32(np.asarray(messages.owner, dtype=np.int64).tobytes())],
    )
    yield "messages", lambda: payload if payload.dtype.fields is None else crc32(payload.tobytes())
    yield "type", lambda: str(payload.dtype)
    tally = analyzer.tally(forget(messages))
    yield "tally", lambda: tally.counts
    yield from list_answer("answer", lambda: analyzer.estimate(tally))
    dealt = try_dealing(protocol)
    if dealt is not None:
        yield "dealt", lambda: [dealt.counts, dealt.users]
        yield from list_answer("answer, dealt", lambda: analyzer.estimate(dealt))
    if device.word_bits <= SHORT and device.domain.size <= MOST_LISTED:
        yield "law of the first code", lambda: sort_law(device.pmf(0))
        yield "law of the last code", lambda: sort_law(device.pmf(device.domain.size - 1))


def try_dealing(protocol):
    """The tally of uneven numbers of people; None if devices must run."""
    size = protocol.randomizer.domain.size
    if protocol.offers.deal is None or size > MOST_DEALT:
        return None
    try:
        return protocol.offers.deal(draw_counts(size), SeededWords(4))
    except ShuffledpError:
        return None


def sort_law(law):
    """The chances of all messages, the largest first."""
    return np.sort([float(each) for each in law.values()])[::-1]


def list_figures(name):
    protocol = CASES[name]()
    yield from list_stated(protocol)
    yield from list_properties(protocol)
    yield from list_offered(protocol)
    yield from list_sampled(protocol)


def list_central(name):
    """What a mechanism states, and what it releases with words from a seed."""
    spec, given = CURATORS[name]
    made = spec.make(**given)
    guarantee = made.guarantee
    yield "guarantee", lambda: [guarantee.epsilon, guarantee.delta, guarantee.honest]
    yield "proof", lambda: f"{guarantee.model.value}: {guarantee.proof}"
    yield "parameters", lambda: dict(made.parameters)
    yield "accuracy", lambda: [made.accuracy(beta) for beta in (0.5, 0.05, 1e-9)]
    if not spec.tasks:
        yield from list_chosen(made)
        return
    offers = made.offers
    yield "variance", lambda: made.variance()
    if offers.unit:
        yield "unit", lambda: offers.unit
    if offers.bin_errors:
        yield "bin errors", lambda: offers.bin_errors(np.array([0, 1, 7, PEOPLE]))
    if offers.find_count:
        yield "found", lambda: [offers.find_count(each) for each in (0.1, 0.5, 0.99)]
    if name.split()[0] in SUMS:
        yield "masses", lambda: [float(made.noise.mass(z)[0]) for z in (0, 1, 5)]
    yield from list_answer("answer", lambda: made.release(some_answer(made), SeededWords(2)))


def list_chosen(selector):
    """The places of what is chosen among utilities that differ by a little, with 20 seeds, and how likely each is."""
    utilities = np.arange(selector.k) * 0.5 - 3
    yield (
        "chosen",
        lambda: np.array(
            [selector.select(utilities, SeededWords(seed)).index for seed in range(20)]
        ),
    )
    yield "label", lambda: selector.select(utilities, SeededWords(1)).label
    yield "chances", lambda: selector.probabilities(utilities)


def list_curators(name):
    """How questions to one curator share epsilon and delta."""
    asked = [
        CuratorQuestion(str(place), weight, histogram, fails, binomial if fails else counter)
        for place, (weight, histogram, fails) in enumerate(WEIGHED[name])
    ]
    made = Several.of(asked, Promise(epsilon=1.0, delta=1e-6))
    yield "parts", lambda: [[part.guarantee.epsilon, part.guarantee.delta] for part in made.parts]
    yield "shares", lambda: made.shares
    yield "guarantee", lambda: [made.guarantee.epsilon, made.guarantee.delta]
    yield "proof", lambda: made.guarantee.proof
    yield "left out", lambda: [each or 0.0 for each in made.leave_out_each()]
    yield "accuracy", lambda: [made.accuracy(beta) for beta in (0.5, 1e-9)]


def counter(epsilon, delta):
    return spec("geometric").make(epsilon=epsilon, sensitivity=1)


def binomial(epsilon, delta):
    return spec("binomial").make(n=100_000, epsilon=epsilon, delta=delta)


ALL = {
    **dict.fromkeys(CASES, list_figures),
    **dict.fromkeys(CURATORS, list_central),
    **dict.fromkeys(WEIGHED, list_curators),
}


def write_figures(name):
    return [f"{name} | {what} = {try_figure(make)}" for what, make in ALL[name](name)]


@cache
def read_table():
    return TABLE.read_text(encoding="utf-8").splitlines()


def expect(name):
    return [line for line in read_table() if line.startswith(f"{name} | ")]


def is_close(found, wanted):
    """Whether lines say the same, and their numbers are nearly the same."""
    if NUMBER.sub("#", found) != NUMBER.sub("#", wanted):
        return False
    pairs = zip(NUMBER.findall(found), NUMBER.findall(wanted), strict=True)
    room = SEARCHED if " | floor = " in found else CLOSE
    zero = ZERO if " | bias = " in found else 0.0
    return all(a == b or _are_close(a, b, room, zero) for a, b in pairs)


def _are_close(a, b, room, zero):
    real = any(sign in text for text in (a, b) for sign in ".e")
    return real and math.isclose(float(a), float(b), rel_tol=room, abs_tol=zero)


def check(name):
    found, wanted = write_figures(name), expect(name)
    assert len(found) == len(wanted)
    different = [(a, b) for a, b in zip(found, wanted, strict=True) if not is_close(a, b)]
    assert not different


@pytest.mark.parametrize("name", [name for name in CASES if "tiny" in name])
def test_figures_of_tiny_examples(name):
    check(name)


@pytest.mark.parametrize("name", [name for name in CASES if " local " in name])
def test_figures_without_a_shuffler(name):
    check(name)


@pytest.mark.parametrize("name", [name for name in CASES if " shuffled " in name])
def test_figures_behind_a_shuffler(name):
    check(name)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith(COMPOSED)])
def test_figures_of_combinations_and_of_noise_of_servers(name):
    check(name)


@pytest.mark.parametrize("name", [*CURATORS, *WEIGHED])
def test_figures_of_curators(name):
    check(name)


def test_every_figure_has_a_test():
    tiny = [name for name in CASES if "tiny" in name]
    named = [name for name in CASES if " local " in name or " shuffled " in name]
    rest = [name for name in CASES if name.startswith(COMPOSED)]
    assert sorted(tiny + named + rest) == sorted(CASES)
    assert {line.partition(" | ")[0] for line in read_table()} == set(ALL)


if __name__ == "__main__":
    lines = [line for name in ALL for line in write_figures(name)]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.stdout.write(f"{len(lines)} lines\n")
