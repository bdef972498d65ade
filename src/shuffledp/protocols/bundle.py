r"""Several protocols on the same people, under one guarantee.

A device runs T randomizers on T answers with independent words, and sends all their messages, each with the
number of its part in clear. What the shuffler shows are the T shuffled views side by side, independent given
the answers. Replacing a person changes all of that person's answers at once, so the privacy loss is a sum of T
independent losses. Each part enters by its own privacy curve, which bounds its loss over *all* pairs of values
and in both directions, at every epsilon; `accounting.compose` adds the losses up.

A tally is the parts' tallies one after the other, so tallies add; `estimates` gives one estimate for each part.

Budgets are found by `joint`.

Reference: Zhu, Dong, Wang 2022, "Optimal accounting of differential privacy via characteristic function".
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.core.analyzer import Estimate, Interval, Tally, Value
from shuffledp.core.arrays import Codes, Counts, Floats, Words
from shuffledp.core.domain import Answers, Categories, Columns
from shuffledp.core.errors import DataError, ParameterError, UnsupportedError
from shuffledp.core.protocol import (
    Cost,
    Crowd,
    Device,
    Parts,
    Promise,
    ShuffleProtocol,
    Spec,
)
from shuffledp.core.randomizer import Law, Message, Messages, Randomizer, Shuffled, join_laws
from shuffledp.numerics import tape
from shuffledp.numerics.rounding import float_above, shorten
from shuffledp.protocols.shared.assembly import local, register, shuffle
from shuffledp.protocols.shared.joint import Made, PartSpec, account, calibrate


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleDevice:
    """Runs one device for each answer, on one tape: the first part reads the first words.

    >>> from shuffledp.protocols.krr import KRR
    >>> both = BundleDevice(devices=(KRR(k=2, epsilon0=9.0), KRR(k=3, epsilon0=9.0)))
    >>> tape = np.full((1, 2), 2**64 - 1, dtype=np.uint64)
    >>> both.encode_columns((np.array([1]), np.array([2])), tape).payload
    array([[0, 1],
           [1, 2]])
    """

    devices: tuple[Device, ...]
    values: tuple[int, ...] = ()
    """How many values a person has in each part, if more than one: each of them is an input of that device."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "devices", tuple(self.devices))
        object.__setattr__(self, "values", self.values or (1,) * len(self.devices))
        if not self.devices:
            raise ParameterError("parts", self.devices, "must be at least one")

    @property
    def domain(self) -> Answers:
        return Answers(parts=tuple(device.domain for device in self.devices))

    @property
    def epsilon0(self) -> float:
        """Reports of one person that are seen with their sender add up."""
        each = [device.epsilon0 for device in self.devices]
        if not all(map(math.isfinite, each)):
            return math.inf
        times = zip(self.values, map(Fraction, each), strict=True)
        return float_above(sum((values * own for values, own in times), Fraction(0)))

    @property
    def word_bits(self) -> int:
        """The longest words of all parts; the others take the first bits of theirs."""
        return max(device.word_bits for device in self.devices)

    @property
    def words_per_input(self) -> int:
        widths = [device.words_per_input for device in self.devices]
        if max(self.values) == 1:
            return sum(widths)
        # Each value has blocks of the cipher of its own, of two words.
        return sum(v * 2 * -(-w // 2) for v, w in zip(self.values, widths, strict=True))

    @property
    def cost(self) -> Cost:
        """The messages of all parts; each has the number of its part in front."""
        costs: list[Cost] = [
            device.cost
            if values == 1
            else Cost.add([device.cost] * values, device.cost.bits_per_message)
            for device, values in zip(self.devices, self.values, strict=True)
        ]
        tag = (len(costs) - 1).bit_length()
        mean = math.fsum(cost.messages_mean for cost in costs)
        bits = math.fsum(cost.messages_mean * (cost.bits_per_message + tag) for cost in costs)
        return Cost.add(costs, max(1, math.ceil(bits / mean)))

    def encode(self, inputs: Codes, words: Words) -> Messages:
        return self.encode_columns(self.domain.split(inputs), words)

    def encode_columns(self, columns: Columns, words: Words) -> Messages:
        """Return what people with these answers send: a row (part, message, 0 ...) for each message."""
        if max(self.values) > 1:
            raise UnsupportedError("people with several values to a part send them part by part")
        sent = [
            device.encode(codes, self.own_words(device, words, start))
            for device, codes, start in zip(self.devices, columns, self._starts(), strict=True)
        ]
        width = max(map(_width, sent))
        rows = [tag_rows(each.payload, part, width) for part, each in enumerate(sent)]
        return Messages.join(
            [replace(each, payload=own) for each, own in zip(sent, rows, strict=True)]
        )

    def own_words(self, device: Randomizer, words: Words, start: int) -> Words:
        """Return what a device reads of the tape, from `start` on."""
        own = words[:, start : start + device.words_per_input]
        if device.word_bits == self.word_bits:
            return own
        first = own >> own.dtype.type(self.word_bits - device.word_bits)
        return first.astype(tape.word_type(device.word_bits))

    def _starts(self) -> list[int]:
        widths = [device.words_per_input for device in self.devices]
        return [0, *accumulate(widths[:-1])]

    def pmf(self, x: int) -> Law:
        codes = self.domain.split(np.array([x], dtype=np.int64))
        laws = [device.pmf(int(code[0])) for device, code in zip(self.devices, codes, strict=True)]
        width = max((len(_row(m)) for law in laws for sent in law for m in sent), default=1)
        return join_laws([_tag_law(law, part, width) for part, law in enumerate(laws)])


def _tag_law(law: Law, part: int, width: int) -> Law:
    return {tuple(tag_message(m, part, width) for m in sent): mass for sent, mass in law.items()}


def _width(messages: Messages) -> int:
    return 1 if messages.payload.ndim == 1 else int(messages.payload.shape[1])


def _row(message: Message) -> tuple[int, ...]:
    return (message,) if isinstance(message, int) else message


def tag_message(message: Message, part: int, width: int) -> tuple[int, ...]:
    """Return the row (part, message, 0 ...) of a message with up to `width` numbers.

    >>> tag_message(5, part=1, width=2)
    (1, 5, 0)
    """
    own = _row(message)
    return (part, *own, *(0,) * (width - len(own)))


def tag_rows(payload: NDArray[Any], part: int, width: int) -> NDArray[np.int64]:
    """Make rows (part, message, 0 ...); 64-bit words keep their bits.

    >>> tag_rows(np.array([5, 7]), part=1, width=2)
    array([[1, 5, 0],
           [1, 7, 0]])
    """
    rows = payload[:, None] if payload.ndim == 1 else payload
    rows = np.ascontiguousarray(rows)
    rows = rows.view(np.int64) if rows.dtype == np.uint64 else rows.astype(np.int64)
    tagged = np.zeros((len(rows), 1 + width), dtype=np.int64)
    tagged[:, 0] = part
    tagged[:, 1 : 1 + rows.shape[1]] = rows
    return tagged


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JointError:
    """The errors of several estimates, one after the other."""

    parts: tuple[Estimate, ...]

    @property
    def stderr(self) -> Value:
        return _concatenate([part.stderr for part in self.parts])

    def interval(self, value: Value, level: float) -> Interval:
        return _side_by_side([part.interval(level) for part in self.parts])

    def exact_interval(self, value: Value, level: float) -> Interval:
        return _side_by_side([part.exact_interval(level) for part in self.parts])


def _concatenate(values: Sequence[Value]) -> Floats:
    return np.concatenate([np.atleast_1d(np.asarray(value, dtype=np.float64)) for value in values])


def _side_by_side(intervals: Sequence[Interval]) -> Interval:
    return Interval(
        _concatenate([each.low for each in intervals]),
        _concatenate([each.high for each in intervals]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleAnalyzer:
    """Sorts the messages by part; the tally is the parts' tallies one after the other."""

    names: tuple[str, ...]
    parts: tuple[ShuffleProtocol, ...]
    shapes: tuple[tuple[int, ...], ...] = field(init=False)
    kinds: tuple[tuple[str, int | None], ...] = field(init=False)
    """The type of a part's messages, and their width; None: they are numbers."""

    def __post_init__(self) -> None:
        kinds, shapes = [], []
        for part in self.parts:
            payload = _first_messages(part.randomizer).payload
            kinds.append((payload.dtype.str, None if payload.ndim == 1 else payload.shape[1]))
            empty = part.analyzer.tally(Shuffled(payload=payload[:0], users=0))
            shapes.append(empty.counts.shape)
        object.__setattr__(self, "kinds", tuple(kinds))
        object.__setattr__(self, "shapes", tuple(shapes))

    def offset(self) -> tuple[Fraction, ...]:
        """Return what each user adds to the answers before any message."""
        offsets: list[Fraction] = []
        for part in self.parts:
            own = part.offers.offset
            offsets.extend((Fraction(0),) * _answers(part) if own is None else own())
        return tuple(offsets)

    @property
    def width(self) -> int:
        """The numbers of a message, that of its part included."""
        return 1 + max(1 if wide is None else wide for _, wide in self.kinds)

    @property
    def size(self) -> int:
        """How many counts a tally has."""
        return sum(map(math.prod, self.shapes))

    def tag(self, part: int, payload: NDArray[Any]) -> NDArray[np.int64]:
        """Tag messages of one part, each with the number of its part in front."""
        return tag_rows(payload, part, self.width - 1)

    def sort(self, payload: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Return the messages of each part, as it sent them."""
        if payload.ndim != 2 or payload.shape[1] != self.width or payload.dtype.kind not in "iu":
            raise DataError(
                f"messages are rows of {self.width} integers, the first of them the number of the part, not "
                f"an array of shape {payload.shape} and type {payload.dtype}"
            )
        tags = payload[:, 0]
        if len(tags) and not 0 <= int(tags.min()) <= int(tags.max()) < len(self.parts):
            raise DataError(f"a message is of no part 0 .. {len(self.parts) - 1}")
        rows = payload.astype(np.int64, copy=False)
        return tuple(_untag(rows[tags == i], *kind) for i, kind in enumerate(self.kinds))

    def tally(self, shuffled: Shuffled) -> Tally:
        return self.join(
            [
                part.analyzer.tally(Shuffled(payload=payload, users=shuffled.users * part.values))
                for part, payload in zip(self.parts, self.sort(shuffled.payload), strict=True)
            ]
        )

    def join(self, tallies: Sequence[Tally]) -> Tally:
        """Return the tally of all parts, each of the same people."""
        if len(tallies) != len(self.parts):
            raise DataError("every part must be of the same people")
        both = zip(self.parts, tallies, strict=True)
        users = {part.count_people(tally.users) for part, tally in both}
        if len(users) != 1:
            raise DataError("every part must be of the same people")
        counts = np.concatenate([tally.counts.ravel() for tally in tallies])
        return Tally(counts=counts, users=users.pop())

    def split(self, tally: Tally) -> tuple[Tally, ...]:
        """Return the tally of each part."""
        sizes = [math.prod(shape) for shape in self.shapes]
        if tally.counts.shape != (self.size,):
            raise DataError(f"a tally of {self.size} counts was expected, not {len(tally.counts)}")
        pieces = np.split(tally.counts, list(accumulate(sizes[:-1])))
        return tuple(
            Tally(counts=piece.reshape(shape), users=tally.users * part.values)
            for part, piece, shape in zip(self.parts, pieces, self.shapes, strict=True)
        )

    def estimates(self, tally: Tally) -> tuple[Estimate, ...]:
        """Return the answer of each part."""
        tally.people()
        return tuple(
            part.analyzer.estimate(own)
            for part, own in zip(self.parts, self.split(tally), strict=True)
        )

    def estimate(self, tally: Tally) -> Estimate:
        """Return all answers in one row; `estimates` keeps them apart."""
        return join_estimates(self.names, self.estimates(tally))

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        assert isinstance(message, tuple)
        tag, *rest = message
        weights: list[Fraction] = []
        for i, (part, (_, wide)) in enumerate(zip(self.parts, self.kinds, strict=True)):
            own: Message = rest[0] if wide is None else tuple(rest[:wide])
            zeros = (Fraction(0),) * _answers(part)
            weights.extend(part.analyzer.weights(own) if i == tag else zeros)
        return tuple(weights)

    def variance(self, inputs: Counts) -> Floats:
        """Return the variance; `inputs` counts joint codes."""
        domain = Answers(parts=tuple(part.randomizer.domain for part in self.parts))
        people = np.flatnonzero(inputs)
        marginals = (
            np.bincount(codes, weights=inputs[people], minlength=part.randomizer.domain.size)
            for part, codes in zip(self.parts, domain.split(people), strict=True)
        )
        return _concatenate(
            [
                part.analyzer.variance(np.rint(counts).astype(np.int64))
                for part, counts in zip(self.parts, marginals, strict=True)
            ]
        )


def join_estimates(names: Sequence[str], found: tuple[Estimate, ...]) -> Estimate:
    """Return all estimates in one row, with their names before their labels."""
    return Estimate(
        value=_concatenate([each.value for each in found]),
        error=JointError(parts=found),
        limits=(
            min(each.limits[0] for each in found),
            max(each.limits[1] for each in found),
        ),
        labels=tuple(
            name if each.labels is None else f"{name}: {label}"
            for name, each in zip(names, found, strict=True)
            for label in (each.labels or ("",) * np.size(each.value))
        ),
    )


def _answers(part: ShuffleProtocol) -> int:
    """Return how many numbers a part answers with, as far as messages have weights in them."""
    domain = part.randomizer.domain
    return domain.size if isinstance(domain, Categories) else 1


def count_numbers(randomizer: Randomizer) -> int:
    """Return how many numbers a message has.

    >>> from shuffledp.protocols.krr import KRR
    >>> count_numbers(KRR(k=2, epsilon0=1.0))
    1
    """
    return _width(_first_messages(randomizer))


def _first_messages(randomizer: Randomizer) -> Messages:
    words = np.zeros((1, randomizer.words_per_input), dtype=tape.word_type(randomizer.word_bits))
    return randomizer.encode(np.zeros(1, dtype=np.int64), words)


def _untag(rows: NDArray[np.int64], kind: str, wide: int | None) -> NDArray[Any]:
    own = rows[:, 1] if wide is None else rows[:, 1 : 1 + wide]
    if np.dtype(kind) == np.bool_ and not np.isin(own, (0, 1)).all():
        raise DataError("a message must be bits, but has other numbers")
    kept = np.ascontiguousarray(own)
    return kept.view(np.uint64) if np.dtype(kind) == np.uint64 else kept.astype(kind)


@lru_cache(maxsize=4)
def _calibrate_once(crowd: Crowd, promise: Promise, parts: str) -> Made:
    return calibrate(crowd, promise, [PartSpec.read(part) for part in json.loads(parts)])


@shuffle(
    name="bundle",
    task="survey",
    title="several protocols on the same people",
    reference="Zhu, Dong, Wang 2022",
)
def make(crowd: Crowd, promise: Promise, *, parts: Sequence[Mapping[str, Any]]) -> Parts:
    """Ask several questions of the same people; each part is {"name", "protocol", its own parameters, "weight"}.

    Parts without an epsilon of their own are calibrated together; with one they are taken as they are, and the
    promise is checked.

    >>> two = make(n=10_000, epsilon=1.0, delta=1e-6, parts=[
    ...     {"name": "way", "protocol": "dummies_histogram", "k": 5},
    ...     {"name": "home", "protocol": "correlated_count"}])
    >>> two.guarantee.delta <= 1e-6, [name for name, _ in questions(two)]
    (True, ['way', 'home'])
    """
    wanted = _read_parts(parts)
    names = tuple(part.name for part in wanted)
    if all(part.epsilon is not None for part in wanted):
        made: Made = tuple((part, part.make(crowd)) for part in wanted)
    elif len(wanted) == 1:
        made = calibrate(crowd, promise, wanted)
    else:
        # The words' generator takes a little of delta, which changes with the parts: not worth another search.
        delta = shorten(promise.delta)
        made = _calibrate_once(crowd, replace(promise, delta=delta), json.dumps(parts))
    protocols = tuple(protocol for _, protocol in made)
    device = _join_devices(protocols)
    analyzer = BundleAnalyzer(names=names, parts=protocols)
    return Parts(
        device,
        analyzer,
        offset=analyzer.offset,
        accountant=account(protocols, promise),
        resolved={"parts": [part.to_dict() for part, _ in made]},
    )


@local(
    name="bundle",
    task="survey",
    title="several protocols on the same people",
    reference="Zhu, Dong, Wang 2022",
)
def make_local(*, epsilon: float, parts: Sequence[Mapping[str, Any]]) -> Parts:
    """Make it without a shuffler: each part is {"name", "protocol", its own parameters, "epsilon"}.

    Their epsilons add up, to no more than epsilon.

    >>> two = make_local(epsilon=1.0, parts=[
    ...     {"name": "way", "protocol": "krr", "k": 5, "epsilon": 0.7},
    ...     {"name": "home", "protocol": "rr", "epsilon": 0.3}])
    >>> 0.9999 < two.guarantee.epsilon <= 1.0
    True
    """
    names, made = make_local_parts(parts)
    device = _join_devices(made)
    if device.epsilon0 > epsilon:
        raise UnsupportedError(
            f"epsilon={epsilon!r} is less than {device.epsilon0!r}, what the parts add up to"
        )
    analyzer = BundleAnalyzer(names=names, parts=made)
    return Parts(device, analyzer, offset=analyzer.offset)


def _join_devices(parts: Sequence[ShuffleProtocol]) -> BundleDevice:
    return BundleDevice(
        devices=tuple(part.randomizer for part in parts),
        values=tuple(part.values for part in parts),
    )


def make_local_parts(
    parts: Sequence[Mapping[str, Any]],
) -> tuple[tuple[str, ...], tuple[ShuffleProtocol, ...]]:
    """Return the names and the protocols of parts in the local model."""
    from shuffledp.protocols import spec

    made, names = [], []
    for part in _read_parts(parts):
        maker = spec(part.protocol).make_local
        if maker is None or part.epsilon is None:
            raise UnsupportedError(
                f"{part.name}: a part of the local model has a local protocol and an epsilon"
            )
        made.append(maker(epsilon=part.epsilon, **part.parameters))
        names.append(part.name)
    return tuple(names), tuple(made)


def _read_parts(parts: Sequence[Mapping[str, Any]]) -> list[PartSpec]:
    if not isinstance(parts, list | tuple) or not parts:
        raise ParameterError("parts", parts, "must be a list of at least one part")
    read = [PartSpec.read(part) for part in parts]
    names = tuple(part.name for part in read)
    if len(set(names)) < len(names):
        raise ParameterError("parts", names, "must have distinct names")
    return read


def questions(bundle: ShuffleProtocol) -> tuple[tuple[str, ShuffleProtocol], ...]:
    """Return the parts of a bundle by name; each of them with the guarantee it would have alone."""
    analyzer = bundle.analyzer
    if not isinstance(analyzer, BundleAnalyzer):
        raise ParameterError("bundle", bundle.name, "must be a bundle")
    return tuple(zip(analyzer.names, analyzer.parts, strict=True))


SPEC: Spec = register(make, make_local)
