"""One random question for each person, instead of all of them.

Where people trust nobody, several answers of one person share epsilon: with T questions each has epsilon / T. A person
who answers one question, drawn at random and whatever the answers are, spends all of epsilon on it. Fewer people answer
each question, and they are a sample: a share p has the variance p (1 - p) (T - 1) / n on top of the noise. With
epsilon = 3 and six yes-or-no questions a share is off by 1.26 / sqrt(n) at most, and by 1.98 / sqrt(n) if everybody
answers everything.

Which question a report is about does not depend on the answers, so it may be seen: each message has its number.
Privacy: given the question, the likelihood ratio is that of its own protocol, so epsilon0 is the largest of them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shuffledp.core.analyzer import Estimate, Interval, Tally, Value
from shuffledp.core.arrays import Codes, Counts, Floats, Words
from shuffledp.core.domain import Answers, Bits, Integers, Reals
from shuffledp.core.errors import DataError, UnsupportedError
from shuffledp.core.protocol import Cost, Device, Parts, ShuffleProtocol, Spec
from shuffledp.core.randomizer import Law, Message, Messages, Shuffled
from shuffledp.numerics.intervals.sample import bound_sampling, sampling_variance
from shuffledp.numerics.tape import uniform, uniform_law
from shuffledp.protocols.bundle import (
    BundleAnalyzer,
    BundleDevice,
    count_numbers,
    join_estimates,
    make_local_parts,
    tag_message,
    tag_rows,
)
from shuffledp.protocols.shared.assembly import local, register


class Sampled(NamedTuple):
    """How the answer about a sample becomes one about everybody."""

    adds: bool = False
    """Whether numbers are added up; otherwise people are counted."""
    average: bool = False
    """Whether the answer does not grow with the number of people."""


SAMPLED: Mapping[str, Sampled] = {
    "count": Sampled(),
    "histogram": Sampled(),
    "mean": Sampled(adds=True, average=True),
    "sum": Sampled(adds=True),
}
"""Tasks of protocols whose answer about a sample is an answer about everybody."""


def _find_kind(protocol: ShuffleProtocol) -> Sampled:
    return SAMPLED.get(protocol.task, Sampled())


@dataclass(frozen=True, slots=True, kw_only=True)
class OneQuestionDevice:
    """The first word chooses a question, and its device reads the next ones.

    >>> from shuffledp.protocols.krr import KRR
    >>> either = OneQuestionDevice(devices=(KRR(k=2, epsilon0=9.0), KRR(k=3, epsilon0=9.0)))
    >>> tape = np.array([[0, 2**64 - 1], [2**64 - 1, 2**64 - 1]], dtype=np.uint64)
    >>> either.encode(np.array([1, 4]), tape).payload
    array([[0, 1],
           [1, 2]])
    """

    devices: tuple[Device, ...]

    @property
    def _all(self) -> BundleDevice:
        return BundleDevice(devices=self.devices)

    @property
    def domain(self) -> Answers:
        return self._all.domain

    @property
    def epsilon0(self) -> float:
        return max(device.epsilon0 for device in self.devices)

    @property
    def word_bits(self) -> int:
        return self._all.word_bits

    @property
    def words_per_input(self) -> int:
        return 1 + max(device.words_per_input for device in self.devices)

    @property
    def cost(self) -> Cost:
        costs: list[Cost] = [device.cost for device in self.devices]
        mean = math.fsum(cost.messages_mean for cost in costs) / len(costs)
        return Cost(
            messages_mean=mean,
            messages_max=max(cost.messages_max for cost in costs),
            bits_per_message=max(cost.bits_per_message for cost in costs)
            + (len(costs) - 1).bit_length(),
            count_depends_on_value=any(cost.count_depends_on_value for cost in costs),
        )

    def choose(self, words: Words) -> Codes:
        """Return the question of each person, by one word each; the last one also takes what is left of the words."""
        chosen = uniform(words, len(self.devices), self.word_bits).astype(np.int64)
        question: Codes = np.minimum(chosen, len(self.devices) - 1)
        return question

    @property
    def width(self) -> int:
        """The most numbers that a message has, without that of its question."""
        return max(map(count_numbers, self.devices))

    def encode(self, inputs: Codes, words: Words) -> Messages:
        chosen, columns, width = self.choose(words[:, 0]), self.domain.split(inputs), self.width
        rows, owners = [], []
        for part, (device, codes) in enumerate(zip(self.devices, columns, strict=True)):
            own = np.flatnonzero(chosen == part)
            sent = device.encode(codes[own], self._all.own_words(device, words[own], 1))
            rows.append(tag_rows(sent.payload, part, width))
            owners.append(own[np.asarray(sent.owner, dtype=np.int64)])
        payload, owner = np.concatenate(rows), np.concatenate(owners)
        return Messages(payload=payload, owner=owner, users=len(inputs))

    def pmf(self, x: int) -> Law:
        codes = self.domain.split(np.array([x], dtype=np.int64))
        shares = uniform_law(len(self.devices), self.word_bits)
        left = shares.get(None, Fraction(0))
        law: Law = {}
        for part, (device, code) in enumerate(zip(self.devices, codes, strict=True)):
            share = shares[part] + (left if part == len(self.devices) - 1 else 0)
            for messages, mass in device.pmf(int(code[0])).items():
                tagged = tuple(tag_message(each, part, self.width) for each in messages)
                law[tagged] = law.get(tagged, Fraction(0)) + share * mass
        return law


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampledError:
    """The error of an answer about `people`, of whom `sampled` were asked: noise, and that they are a sample.

    Half of the error probability is for the noise, with the interval of the protocol itself, half for the sample, whose
    part is certified (`numerics.intervals.sample`).
    """

    own: Estimate
    """About those who were asked."""
    sampled: int
    people: int
    average: bool
    ends: tuple[float, float] | None

    @property
    def _units(self) -> tuple[float, float]:
        """What to divide the answer about the sample by for a share or mean, and what to multiply that by for everybody."""
        return (1.0, 1.0) if self.average else (float(self.sampled), float(self.people))

    @property
    def stderr(self) -> Value:
        unit, total = self._units
        share = np.asarray(self.own.value, dtype=np.float64) / unit
        spread = sampling_variance(share, self.sampled, self.people, self.ends)
        errors: Floats = total * np.sqrt((np.asarray(self.own.stderr) / unit) ** 2 + spread)
        return errors if errors.ndim else float(errors)

    def interval(self, value: Value, level: float) -> Interval:
        outside = (1 - level) / 2
        return self._widen(self.own.interval(1 - outside), outside)

    def exact_interval(self, value: Value, level: float) -> Interval:
        """Return the exact interval, if the protocol has one: the part of the sample always covers."""
        outside = (1 - level) / 2
        return self._widen(self.own.exact_interval(1 - outside), outside)

    def _widen(self, own: Interval, outside: float) -> Interval:
        unit, total = self._units
        low, high = (np.asarray(end) / unit for end in own)
        ends = bound_sampling(low, high, self.sampled, self.people, outside, self.ends)
        scaled = [total * each for each in ends]
        return Interval(*(each if each.ndim else float(each) for each in scaled))


def scale_up(estimate: Estimate, protocol: ShuffleProtocol, sampled: int, people: int) -> Estimate:
    """Return what an estimate about `sampled` people says about all `people` whom they were drawn from.

    >>> from shuffledp import protocols, run
    >>> rr = protocols.rr.make_local(epsilon=20.0)
    >>> found = scale_up(run(rr, [True, False] * 50), rr, 100, 1000)
    >>> round(found.value), round(found.stderr)
    (500, 47)
    """
    average = _find_kind(protocol).average
    factor = 1.0 if average else people / sampled
    scaled = np.asarray(estimate.value, dtype=np.float64) * factor
    return replace(
        estimate,
        value=scaled if scaled.ndim else float(scaled),
        error=SampledError(
            own=estimate,
            sampled=sampled,
            people=people,
            average=average,
            ends=find_ends(protocol),
        ),
        limits=(estimate.limits[0] * factor, estimate.limits[1] * factor),
    )


def find_ends(protocol: ShuffleProtocol) -> tuple[float, float] | None:
    """Return the ends of the numbers that are added up or averaged; None if people are counted.

    >>> from shuffledp import protocols
    >>> find_ends(protocols.rr.make_local(epsilon=1.0))
    """
    domain = protocol.randomizer.domain
    if not _find_kind(protocol).adds or not isinstance(domain, Integers | Reals):
        return None
    return float(domain.lower), float(domain.upper)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneQuestionAnalyzer:
    """Sorts the messages by question. The tally begins with how many people answered each, then has their tallies."""

    bundle: BundleAnalyzer

    @property
    def names(self) -> tuple[str, ...]:
        """What the questions are called."""
        return self.bundle.names

    @property
    def parts(self) -> tuple[ShuffleProtocol, ...]:
        """The protocol of each question."""
        return self.bundle.parts

    def tally(self, shuffled: Shuffled) -> Tally:
        payloads = self.bundle.sort(shuffled.payload)
        people = [len(payload) for payload in payloads]
        if sum(people) != shuffled.users:
            raise DataError(f"{sum(people)} messages of {shuffled.users} people: each sends one")
        return self.join(
            [
                part.analyzer.tally(Shuffled(payload=payload, users=len(payload)))
                for part, payload in zip(self.parts, payloads, strict=True)
            ]
        )

    @property
    def size(self) -> int:
        """How many counts a tally has."""
        return len(self.parts) + self.bundle.size

    def tag(self, part: int, payload: NDArray[Any]) -> NDArray[np.int64]:
        """Tag messages about one question, each with its number in front."""
        return self.bundle.tag(part, payload)

    def sort(self, payload: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Return the messages about each question."""
        return self.bundle.sort(payload)

    def join(self, tallies: Sequence[Tally]) -> Tally:
        """Return the tally of all questions, each of the people who answered it."""
        people = [tally.users for tally in tallies]
        counts = np.concatenate([people, *(tally.counts.ravel() for tally in tallies)])
        return Tally(counts=counts, users=sum(people))

    def split(self, tally: Tally) -> tuple[Tally, ...]:
        """Return the tally of each question, of those who answered it."""
        people = tally.counts[: len(self.parts)].tolist()
        rest = replace(tally, counts=tally.counts[len(self.parts) :])
        return tuple(
            replace(own, users=users)
            for own, users in zip(self.bundle.split(rest), people, strict=True)
        )

    def estimates(self, tally: Tally) -> tuple[Estimate, ...]:
        """Return the answer to each question, about everybody."""
        people = tally.people()
        return tuple(
            scale_up(part.analyzer.estimate(own), part, own.people(), people)
            for part, own in zip(self.parts, self.split(tally), strict=True)
        )

    def estimate(self, tally: Tally) -> Estimate:
        """Return all answers in one row; `estimates` keeps them apart."""
        return join_estimates(self.names, self.estimates(tally))

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        """Return the weights as if every question were answered by exactly its share of the people."""
        return tuple(len(self.parts) * each for each in self.bundle.weights(message))

    def variance(self, inputs: Counts) -> Floats:
        """Estimate the variance, with the share of the people that is expected; `inputs` counts joint codes."""
        sampled = max(1, int(inputs.sum()) // len(self.parts))
        domain = Answers(parts=tuple(part.randomizer.domain for part in self.parts))
        codes = domain.split(np.arange(len(inputs)))
        variances = []
        for part, own in zip(self.parts, codes, strict=True):
            counts = np.bincount(own, weights=inputs, minlength=part.randomizer.domain.size)
            variances.append(foresee_variance(part, np.rint(counts).astype(np.int64), sampled))
        return np.concatenate([np.atleast_1d(each) for each in variances])


def foresee_variance(protocol: ShuffleProtocol, inputs: Counts, sampled: int) -> Floats:
    """Foresee the variance of noise and sample if `sampled` of inputs[code] people are asked.

    >>> from shuffledp import protocols
    >>> rr = protocols.rr.make_local(epsilon=20.0)
    >>> round(float(foresee_variance(rr, np.array([500, 500]), 100)) ** 0.5)
    47
    """
    people = max(1, int(inputs.sum()))
    part = sampled / people
    own = np.asarray(protocol.analyzer.variance(np.rint(inputs * part).astype(np.int64)))
    shares: Floats = inputs / people
    if isinstance(protocol.randomizer.domain, Bits):
        shares = shares[1]
    ends = find_ends(protocol)
    # A mean is bounded alike, whatever it is.
    spread = sampling_variance(shares if ends is None else 0.0, sampled, people, ends)
    found: Floats = (
        own + spread if _find_kind(protocol).average else own / part**2 + people**2 * spread
    )
    return found


@local(
    name="one_question",
    task="survey",
    title="one random question for each person",
    reference="Serfling 1974",
)
def make_local(*, epsilon: float, parts: Sequence[Mapping[str, Any]]) -> Parts:
    """Ask several questions of the same people, each of whom answers one; parts are as for `bundle`, without
    epsilons.

    >>> two = make_local(epsilon=1.0, parts=[
    ...     {"name": "way", "protocol": "krr", "k": 5}, {"name": "home", "protocol": "rr"}])
    >>> 0.9999 < two.guarantee.epsilon <= 1.0001, two.cost.messages_max
    (True, 1)
    """
    names, made = make_local_parts([{**part, "epsilon": epsilon} for part in parts])
    for name, part in zip(names, made, strict=True):
        if part.task not in SAMPLED or part.cost.messages_max != 1:
            raise UnsupportedError(
                f"{name}: one random question is for {', '.join(SAMPLED)} with one message"
            )
    device = OneQuestionDevice(devices=tuple(part.randomizer for part in made))
    return Parts(device, OneQuestionAnalyzer(bundle=BundleAnalyzer(names=names, parts=made)))


SPEC: Spec = register(make_local)
