"""What every number may be: ranges.txt says how devices, makers, mechanisms and accountants refuse all others.

`PYTHONPATH=tests python -m contract.test_ranges` writes the table anew.
"""

import json
import re
import sys
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from functools import cache, partial
from inspect import isclass, signature
from pathlib import Path

import pytest

from contract.examples import all_examples
from contract.test_mechanisms import ORDINARY
from live.server_support import make_collection
from live.wire.vectors import survey
from shuffledp import Guarantee, Model, SeededWords
from shuffledp.accounting import group_privacy
from shuffledp.accounting.binary import BinaryResponse
from shuffledp.accounting.blanket import BlanketProfile, generic_blanket
from shuffledp.accounting.clones import ApproximateClones, Clones
from shuffledp.accounting.closed_forms import CLOSED_FORMS
from shuffledp.accounting.correlated import NegativeBinomialFlood
from shuffledp.accounting.moved_message import (
    BinomialTotal,
    IndependentBins,
    dummies,
    dummies_after,
    dummies_level,
    independent_level,
)
from shuffledp.accounting.noisy_count import (
    BinomialCount,
    binomial_level,
    binomial_smoothness,
    smoothness,
)
from shuffledp.accounting.pure_total import MirroredTotal
from shuffledp.accounting.rules import compose_advanced
from shuffledp.accounting.server_noise import Moved, calibrate_noise
from shuffledp.core.errors import ShuffledpError, WireError
from shuffledp.core.protocol import Crowd
from shuffledp.core.texts import Keys
from shuffledp.live.wire.document import Collection
from shuffledp.live.wire.noise import Dummies, DummyKind
from shuffledp.mechanisms import MECHANISMS
from shuffledp.mechanisms.frequency_list import FrequencyList
from shuffledp.mechanisms.geometric import OneSided
from shuffledp.numerics.tabulated import CutLaplace
from shuffledp.protocols.split_and_mix import find_shares, log2_distance, published_shares
from shuffledp.protocols.split_and_mix.noise import ideal_delta

TABLE = Path(__file__).with_name("ranges.txt")
FAR = 2**70
NUMBERS = {
    int: {"far below": -FAR, "far above": FAR},
    float: {"-1": -1.0, "0": 0.0, "1": 1.0, "2": 2.0},
    Fraction: {"-1": Fraction(-1), "0": Fraction(0), "1": Fraction(1), "2": Fraction(2)},
}
PLAIN = (int, float, bool, Fraction)
VALID = "fine"
"""In the table: this number is not refused, or only together with others."""
SLOW = {"n", "fake", "most_events", "epsilon", "honest", "messages", "max_messages"}
"""Parameters of makers whose large values take long: only what is too small is tried."""
HALF, SOME = Fraction(1, 2), Guarantee(epsilon=1.0, delta=1e-9, model=Model.CENTRAL, proof="some")
COUNTED = {"n": 100, "gamma": HALF}
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
OTHERS = {
    "accounting BinaryResponse": (BinaryResponse, {"n": 10, "flip": Fraction(1, 4)}),
    "accounting BinaryResponse.delta_at": (
        BinaryResponse(n=10, flip=Fraction(1, 4)).delta_at,
        {"ones": 3, "zeros": 2, "epsilon": 0.5},
    ),
    "accounting BlanketProfile": (
        BlanketProfile,
        {"blankets": (generic_blanket(epsilon0=1.0),), "n": 10, "epsilon0": 1.0},
    ),
    "accounting Clones": (Clones, {"epsilon0": 1.0, "n": 10, "rho": 0.5}),
    "accounting ApproximateClones": (ApproximateClones, {"epsilon0": 1.0, "delta0": 0.1, "n": 10}),
    "accounting BinomialTotal": (BinomialTotal, {"n": 10, "p": HALF}),
    "accounting IndependentBins": (IndependentBins, COUNTED),
    "accounting dummies": (dummies, {"n": 10, "rho": HALF, "pair": HALF}),
    "accounting dummies_after": (
        dummies_after,
        {"n": 10, "rho": HALF, "pair": Fraction(1, 9), "place": 2},
    ),
    "accounting independent_level": (independent_level, BUDGET | {"n": 1000}),
    "accounting dummies_level": (dummies_level, BUDGET | {"n": 1000, "pair": Fraction(1, 99)}),
    "accounting BinomialCount": (BinomialCount, COUNTED | {"shift": 1}),
    "accounting binomial_level": (binomial_level, BUDGET | {"n": 1000}),
    "accounting MirroredTotal.loss": (
        MirroredTotal(shares=(1, 2)).loss,
        {"ones": 1, "zeros": 2},
    ),
    "accounting group_privacy": (group_privacy, {"guarantee": SOME, "people": 2}),
    "accounting compose_advanced": (
        compose_advanced,
        {"guarantee": SOME, "rounds": 2, "slack": 1e-6},
    ),
    "accounting Moved": (Moved, {"moves": 1, "p": Fraction(3, 4), "q": HALF, "weight": 1.0}),
    "accounting calibrate_noise": (
        calibrate_noise,
        {"parts": [Moved(moves=1)], "epsilon": 1.0, "delta": 1e-8, "times": 1},
    ),
    "accounting smoothness": (smoothness, {"law": {0: HALF, 1: HALF}, "epsilon": 1.0, "shift": 1}),
    "accounting binomial_smoothness": (binomial_smoothness, {"n": 99, "gamma": 0.1, "alpha": 0.3}),
    "accounting NegativeBinomialFlood": (NegativeBinomialFlood, {"r": 1.5, "p": 0.5}),
    "core Crowd": (Crowd, {"n": 10, "honest": 0.9}),
    "core Guarantee": (partial(replace, SOME), BUDGET),
    "core Keys": (Keys, {"bits": 3}),
    "live Dummies": (
        Dummies,
        {"kind": DummyKind.BINS, "bins": 5, "rate": 0.5, "most": 36, "word_bits": 64},
    ),
    "mechanisms OneSided": (OneSided, {"epsilon": 1.0, "sensitivity": 1, "k": 2}),
    "mechanisms FrequencyList": (FrequencyList, {"n": 10, "epsilon": 1.0}),
    "numerics CutLaplace": (CutLaplace, {"rate": 0.5, "most": 30, "word_bits": 64}),
    "numerics SeededWords": (SeededWords, {"seed": 3}),
    "numerics SeededWords.words": (SeededWords(1).words, {"count": 3, "bits": 64}),
    "protocols ideal_delta": (
        ideal_delta,
        {"epsilon": 1.0, "reach": 3, "rate": HALF, "shape": HALF},
    ),
    "protocols log2_distance": (log2_distance, {"n": 10, "m": 4, "q": 8}),
    "protocols published_shares": (published_shares, {"n": 100, "q": 8, "distance": 1e-9}),
    "protocols find_shares": (find_shares, {"n": 100, "q": 8, "distance": 1e-9}),
} | {
    f"accounting {each.name}": (each.epsilon, {"epsilon0": 0.1, "n": 10**6, "delta": 1e-6})
    for each in CLOSED_FORMS
}


def list_makers():
    for each in all_examples():
        seen = set()
        for case in (*each.cases("tiny"), *each.cases("ordinary")):
            if case.model not in seen:
                seen.add(case.model)
                yield f"{each.spec.name} {case.model.value}", case._maker, dict(case.parameters)
    for spec in MECHANISMS:
        yield f"{spec.name} central", spec.make, ORDINARY[spec.name][0]


MAKERS = {name: (make, given) for name, make, given in list_makers()}
DEVICES = {
    each.spec.name: case
    for each in all_examples()
    if each.spec.name
    != "tree"  # its levels are those of dummies_histogram, and take seconds to make
    for case in [next(iter(each.cases("tiny")), None) or next(iter(each.cases("ordinary")))]
}


def refuse(make, changes, name):
    """How this number is refused, without the number itself."""
    try:
        make(**changes)
    except ShuffledpError as error:
        value, said = changes[name], str(error)
        if abs(value) == FAR:
            said = said.replace(f"{value:,}", "...").replace(str(value), "...")
        said = said.replace(f"{name}={value!r} ", f"{name}=... ")
        return said.removeprefix(f"{name}=... ") if "..." in said else VALID
    except (TypeError, ValueError, ArithmeticError, MemoryError):
        return VALID
    return VALID


def probe(label, make, given, names, skip=frozenset()):
    """A line for each number: how it is refused."""
    for name in names:
        kind = type(given.get(name))
        if kind not in NUMBERS:
            continue
        tried = {
            label: value for label, value in NUMBERS[kind].items() if name not in skip or value <= 0
        }
        said = [
            f"{each}: {refuse(make, given | {name: value}, name)}" for each, value in tried.items()
        ]
        if not all(each.endswith(VALID) for each in said):
            yield f"{label}, {name} = {'; '.join(said)}"


def list_defaults(label, make):
    """A line with the numbers that nobody has to choose."""
    takes = signature(make).parameters.values()
    found = [f"{each.name}={each.default!r}" for each in takes if type(each.default) in PLAIN]
    return [f"{label}, defaults: {', '.join(found)}"] if found else []


def probe_maker(name):
    make, given = MAKERS[name]
    takes = signature(make).parameters
    given = {
        each: takes[each].default
        for each in takes
        if each in takes and takes[each].default not in (None, takes[each].empty)
    } | dict(given)
    label = f"make {name}"
    return [*list_defaults(label, make), *probe(label, make, given, sorted(given), SLOW)]


def parts_of(found, depth=3):
    if is_dataclass(found) and type(found).__module__.startswith("shuffledp."):
        yield found
        for each in fields(found) if depth else ():
            value = getattr(found, each.name)
            for part in value if isinstance(value, tuple) else (value,):
                yield from parts_of(part, depth - 1)


def probe_device(name):
    protocol, seen = DEVICES[name].protocol, set()
    found = []
    for part in (*parts_of(protocol.randomizer), *parts_of(protocol.analyzer)):
        kind = type(part)
        if kind in seen or kind.__module__.startswith("shuffledp.numerics"):
            continue
        seen.add(kind)
        given = {each.name: getattr(part, each.name) for each in fields(part) if each.init}
        label = f"{name} has {kind.__name__}"
        found += [*list_defaults(label, kind), *probe(label, kind, given, given)]
    return found


def probe_other(name):
    make, given = OTHERS[name]
    computed = {each for each in given if type(given[each]) is int}
    skip = set() if isclass(make) else computed
    return [*list_defaults(name, make), *probe(name, make, given, given, skip)]


def list_numbers(content, path=()):
    for step, each in content.items() if isinstance(content, dict) else enumerate(content):
        if isinstance(each, dict | list):
            yield from list_numbers(each, (*path, step))
        elif type(each) is int or (isinstance(each, str) and re.fullmatch(r"\d+\.\d+", each)):
            yield (*path, step), each


DOCUMENTS = {"shuffled": survey, "with noise of servers": make_collection}


def probe_document(name):
    """How a document is refused if one of its numbers is far away from what it was."""
    raw, found = DOCUMENTS[name]().raw, []
    far = 2**53 - 1
    for path, value in list_numbers(json.loads(raw)):
        said = []
        for tried in (-far, far) if type(value) is int else ("-1.0", "0.0", "1000000000.0"):
            content = inner = json.loads(raw)
            for step in path[:-1]:
                inner = inner[step]
            inner[path[-1]] = tried
            try:
                Collection.read(json.dumps(content).encode())
                said.append(VALID)
            except WireError as error:
                said.append(str(error).replace(str(tried), "..."))
        found.append(f"document {name}, {' '.join(map(str, path))} = {'; '.join(said)}")
    return found


@cache
def read_table():
    return TABLE.read_text(encoding="utf-8").splitlines()


def expect(start):
    return [line for line in read_table() if line.startswith(start)]


@pytest.mark.parametrize("name", MAKERS)
def test_what_makers_refuse(name):
    assert probe_maker(name) == expect(f"make {name}, ")


@pytest.mark.parametrize("name", DEVICES)
def test_what_devices_and_analyzers_refuse(name):
    assert probe_device(name) == expect(f"{name} has ")


@pytest.mark.parametrize("name", OTHERS)
def test_what_accountants_and_laws_refuse(name):
    assert probe_other(name) == expect(f"{name}, ")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_readers_of_documents_refuse(name):
    assert probe_document(name) == expect(f"document {name}, ")


def write_all():
    return [
        *(line for name in DOCUMENTS for line in probe_document(name)),
        *(line for name in MAKERS for line in probe_maker(name)),
        *(line for name in DEVICES for line in probe_device(name)),
        *(line for name in OTHERS for line in probe_other(name)),
    ]


ENDS = re.compile(r"(below|above): must be (>=|<=) (-?\d+)(?=;|$)")


def test_the_ends_are_valid_and_what_is_beyond_is_not():
    """For every range of a device: the last number that is allowed is not refused for itself."""
    looked = 0
    for name, case in DEVICES.items():
        for part in parts_of(case.protocol.randomizer):
            kind = type(part)
            given = {each.name: getattr(part, each.name) for each in fields(part) if each.init}
            for line in expect(f"{name} has {kind.__name__}, "):
                field = line.partition(", ")[2].partition(" = ")[0]
                for side, _, end in ENDS.findall(line):
                    out = -1 if side == "below" else 1
                    said = refuse(kind, given | {field: int(end) + out}, field)
                    assert said in line, line
                    assert not ENDS.search(
                        f"{side}: {refuse(kind, given | {field: int(end)}, field)}"
                    ), line
                    looked += 1
    assert looked > 100


if __name__ == "__main__":
    text = "\n".join(write_all()) + "\n"
    TABLE.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{len(text.splitlines())} lines\n")
