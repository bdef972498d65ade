"""Every registered randomizer at the words of production: what it sends has its declared law.

Words of a few bits are enumerated by the contract tests. Here words have all their bits, and what 10,000 people
send is compared with the declared law by the chi-squared test. Laws that are too long to be written down are
compared by a label of what a person sends, whose law is short.
"""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction

import pytest

from contract.examples import examples_of
from shuffledp import protocols
from shuffledp.core.domain import Integers
from shuffledp.protocols.correlated_histogram import CorrelatedHistogram
from shuffledp.protocols.split_and_mix import SplitAndMix
from shuffledp.protocols.split_and_mix.noise import NoiseShare
from shuffledp.protocols.zero_sum_flooding import ZeroSumFlooding
from support import encode_many, fits

PEOPLE = 10_000
WIDE = 32
"""Bits: the devices for many categories take words of 32 by default, all others of 64."""


@dataclass(frozen=True, kw_only=True)
class Sends:
    """What people send, as labels, and the law of the labels."""

    device: object

    def label(self, x, messages):
        """The label of one person of code x: the messages up to their order."""
        return tuple(sorted(messages))

    def law(self, x):
        law = Counter()
        for sent, mass in self.device.pmf(x).items():
            law[tuple(sorted(sent))] += mass
        return law

    def agree(self, x, seed, judged_as=None):
        """Whether people of code x send what the law of that code (or of another one) says."""
        code = x if judged_as is None else judged_as
        sent = defaultdict(list)
        found = encode_many(self.device, x, PEOPLE, seed)
        for owner, message in zip(found.owner, found.payload.tolist(), strict=True):
            sent[int(owner)].append(tuple(message) if isinstance(message, list) else message)
        counts = Counter(self.label(code, sent[person]) for person in range(PEOPLE))
        law = self.law(code)
        keys = [key for key, mass in law.items() if mass]
        return counts.keys() <= set(keys) and fits(
            [counts[key] for key in keys], [law[key] for key in keys]
        )


class Hashed(Sends):
    """Local hashing: 2 bits of both parameters of the function, and whether the bucket is the true one."""

    def label(self, x, messages):
        ((a, b, bucket),) = messages
        top = self.device.r - 2
        return a >> top, b >> top, int(self.device._values(a, b)[x]) == bucket

    def law(self, x):
        p = self.device.p
        kinds = [(a, b, kept) for a in range(4) for b in range(4) for kept in (True, False)]
        return {kind: (p if kind[2] else 1 - p) / 16 for kind in kinds}


class Supporting(Sends):
    """Hashed blanket: how many messages a person sends, and how many of them support x."""

    def label(self, x, messages):
        return len(messages), sum(x in self.device.find_supported(each) for each in messages)

    def law(self, x):
        device, law = self.device, Counter()
        surely, share = divmod(device.rho, 1)
        for dummies, chance in ((int(surely), 1 - share), (int(surely) + 1, share)):
            for some in range(dummies + 1):
                many = (
                    math.comb(dummies, some) * device.q**some * (1 - device.q) ** (dummies - some)
                )
                law[1 + dummies, some + 1] += chance * many * device.p
                law[1 + dummies, some] += chance * many * (1 - device.p)
        return law


class Net(Sends):
    """Zero-sum flooding: what the messages add up to, in which the flood cancels."""

    def label(self, x, messages):
        return sum(messages)

    def law(self, x):
        law = Counter()
        for (minus, plus), mass in self.device.noise.law().items():
            law[x + plus - minus] += mass
        return law


class Flood(Sends):
    """Zero-sum flooding: the messages that neither a person's own nor noise can be."""

    def label(self, x, messages):
        return tuple(sorted(each for each in messages if abs(each) > 1 and each != x))

    def law(self, x):
        flood, law = self.device.flood, Counter()
        assert flood.number.largest == 1
        some = float(flood.number.law()[1])
        law[()] = 1 - some * float(flood.landing) * len(flood.cells)
        for parts, size in zip(flood.cells, flood.sizes, strict=True):
            for times in range(1, 80):
                mass = -math.expm1(-size.rate) * math.exp(-size.rate * (times - 1))
                law[self.label(x, parts * times)] += some * float(flood.landing) * mass
        return law


def default_width(case):
    """The device of an example for short words, with the words of production."""
    given = {name: value for name, value in case.parameters.items() if name != "word_bits"}
    maker = case.spec.make_local if case.model.value == "local" else case.spec.make
    return maker(**given).randomizer


def cases_of(spec):
    examples = examples_of(spec)
    return [next(examples.cases(group), None) for group in ("local_tiny", "shuffled_tiny")]


FLOODS = ZeroSumFlooding(
    domain=Integers(lower=0, upper=3), star=1.6, budget=6.0, level=2.0, sharers=4, most_events=1
)
# Laws that are too long, or noise that no few people could make.
OTHERWISE = {
    "local_hashing": lambda case: [Hashed(device=default_width(case))],
    "hashed_histogram": lambda case: [Supporting(device=default_width(case))],
    "correlated_histogram": lambda _: [
        Sends(
            device=CorrelatedHistogram(
                k=2, star=2.0, r_flood=0.5, p_flood=0.1, sharers=4, most_events=1
            )
        )
    ],
    "split_and_mix": lambda _: [
        Sends(
            device=SplitAndMix(
                domain=Integers(lower=3, upper=4),
                noise=NoiseShare(rate=Fraction(2), parts=2),
                bits=2,
                shares=2,
            )
        )
    ],
    "zero_sum_flooding": lambda _: [Net(device=FLOODS), Flood(device=FLOODS)],
}


def sends_of(spec):
    for case in filter(None, cases_of(spec)):
        own = OTHERWISE.get(spec.name)
        yield from [Sends(device=default_width(case))] if own is None else own(case)


@pytest.mark.parametrize("spec", protocols.PROTOCOLS, ids=lambda spec: spec.name)
def test_what_is_sent_has_its_declared_law(spec):
    for sends in sends_of(spec):
        assert sends.device.word_bits >= WIDE
        for x in (0, sends.device.domain.size - 1):
            assert sends.agree(x, seed=1 + x)


@pytest.mark.parametrize("spec", protocols.PROTOCOLS, ids=lambda spec: spec.name)
def test_another_law_is_noticed(spec):
    """The twin: what people of one code send, judged as if they had another."""
    for sends in sends_of(spec):
        assert not sends.agree(sends.device.domain.size - 1, seed=1, judged_as=0)
