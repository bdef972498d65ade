"""One question of a collection: its words, its protocol, and the way from an answer to a message.

An answer has a *place*: for a category or a word its code, for a tree the index of its cell, for a real number its
distance from the lower end in units of 2^-41 of the range, and for a number by group both the group and that distance.
A place and some words of a tape make a message.

For a sum or mean by group the device rounds the number to one of the two ends of its range, at random, so that its
expectation is right, and sends the pair of group and end by a protocol for histograms. The noise comes later, so
rounding costs no privacy.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp import tasks
from shuffledp.core.arrays import Codes, Words
from shuffledp.core.domain import PLACE_BITS, Bits, Categories, Cells, Integers, Reals, read_places
from shuffledp.core.errors import DataError, ShuffledpError, WireError
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import MessageCode, encode_places, tape_width
from shuffledp.core.task import Task
from shuffledp.core.texts import ALPHABETS, Keys, Texts
from shuffledp.live.wire.noise import Added, DummyKind, HashedDummies, read_dummies
from shuffledp.live.wire.strict import Fields, as_decimal, read_decimal
from shuffledp.tasks import task_named
from shuffledp.tasks.groups import BY_GROUP, Grouped

CHOICE_BITS = 64
"""The bits of the word that chooses the question if a report answers only one."""
LONGEST = 4_000
"""Characters of a text that is more than a line."""
_STEPS = 11  # of a scale, at most
_MOST_LABELS = 10_000
_MOST_GROUPS = 1_000
_MOST_POINTS = 100  # of a list of parameters
_PLACES = (1 << PLACE_BITS) + 1  # of a number
SERVED = "server_noise"
"""The protocol of questions whose noise comes from the servers."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_OF_NOISE = (
    "rate",
    "most",
    "messages",
    "r",
    "s",
    "width",
)  # parameters that stand in the law of the noise


def carry(protocol: ShuffleProtocol) -> MessageCode:
    """Say how a live collection carries the messages of a protocol, or why it cannot.

    >>> from shuffledp import protocols
    >>> carry(protocols.krr.make_local(k=300, epsilon=1.0)).size
    2
    >>> carry(protocols.zsum.make(n=1000, epsilon=1.0, delta=1e-6))
    Traceback (most recent call last):
    shuffledp.core.errors.DataError: zsum cannot be collected live: how many messages a device sends depends on its value, and whoever counts them learns of it
    """
    cost, device = protocol.cost, protocol.randomizer
    if cost.count_depends_on_value:
        reason = "how many messages a device sends depends on its value, and whoever counts them learns of it"
    elif cost.messages_mean != cost.messages_max:
        reason = "devices send different numbers of messages, so reports would have different sizes"
    elif not math.isfinite(device.epsilon0) and protocol.name != SERVED:
        reason = "it has no local floor: whoever floods the collection or runs the shuffler would read the answers"
    elif cost.messages_max != 1 or protocol.offers.code is None:
        reason = "its messages have no bytes yet"
    else:
        return protocol.offers.code
    raise DataError(f"{protocol.name} cannot be collected live: {reason}")


def describe_law(randomizer: object) -> dict[str, Any]:
    """Return every number of the device, thresholds included, as strings: what a client in any language runs.

    >>> from shuffledp import protocols
    >>> describe_law(protocols.krr.KRR(k=4, epsilon0=1.0))
    {'type': 'KRR', 'k': '4', 'epsilon0': '1.0', 'word_bits': '64', 'share': '3225924259609386020'}
    """
    return {"type": type(randomizer).__name__, **_describe_fields(randomizer)}


def _describe_fields(thing: Any) -> dict[str, Any]:
    described: dict[str, Any] = {}
    for each in fields(thing):
        value = getattr(thing, each.name)
        nested = is_dataclass(value) and not isinstance(value, type)
        described[each.name] = describe_law(value) if nested else _describe_number(value)
    return described


def _describe_number(value: object) -> str | list[Any] | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return [_describe_number(each) for each in value]
    if isinstance(value, float):
        return as_decimal(value)
    if isinstance(value, int | Fraction):
        return str(value)
    raise DataError(f"{value!r} cannot stand in a document")


class Kind(Enum):
    """How a question is asked."""

    YES_NO = "yes_no"
    CHOICE = "choice"
    """One of the labels."""
    SCALE = "scale"
    """One of the numbers from 1 on, with a text at both ends."""
    SEVERAL = "several"
    """Whether one of several choices applies; questions of the same `part_of` are shown as one."""
    NUMBER = "number"
    TEXT = "text"


def _kinds_of(task: str) -> tuple[Kind, ...]:
    known = tasks.TASKS.get(task)
    if known is None:  # a number by group
        return (Kind.NUMBER,)
    if known.yes_or_no:
        return Kind.YES_NO, Kind.SEVERAL
    if known.bins:
        return Kind.CHOICE, Kind.SCALE
    return (Kind.NUMBER,) if known.listed else (Kind.TEXT,)


def suggest_kind(task: str) -> Kind:
    """Return how questions of a task are asked if nothing else is said, and in format 1.

    >>> suggest_kind("count"), suggest_kind("mean_by_group")
    (<Kind.YES_NO: 'yes_no'>, <Kind.NUMBER: 'number'>)
    """
    return _kinds_of(task)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A question that is shown once, and whose choices are several questions of the document."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How one question is asked.

    >>> Asking(kind=Kind.NUMBER, unit="km").to_dict()["unit"]
    'km'
    """

    kind: Kind
    description: str | None = None
    unit: str | None = None
    """The unit of a number."""
    skip: bool = False
    """Whether the last label is for those who prefer not to say: a category like any other."""
    ends: tuple[str, str] | None = None
    """What the first and the last step of a scale mean."""
    part_of: Part | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as it stands in the document."""
        part = self.part_of
        return {
            "kind": self.kind.value,
            "description": self.description,
            "unit": self.unit,
            "skip": self.skip,
            "ends": None if self.ends is None else list(self.ends),
            "part_of": None if part is None else {"name": part.name, "text": part.text},
        }


def read_asking(content: object, name: str, task: str, labels: Sequence[str] | None) -> Asking:
    """Read how a document asks a question, strictly; what it says must fit its task and its labels."""
    fields = Fields("asked", content)
    said = fields.text("kind", 20)
    if said not in [each.value for each in _kinds_of(task)]:
        kinds = " or ".join(each.value for each in _kinds_of(task))
        raise WireError("document", f"the {task} {name!r} is asked as {kinds}, not {said!r}")
    ends, part = fields.take("ends"), fields.take("part_of")
    asking = Asking(
        kind=Kind(said),
        description=fields.optional_text("description", LONGEST),
        unit=fields.optional_text("unit", 40),
        skip=fields.flag("skip"),
        ends=None if ends is None else _read_ends(ends),
        part_of=None if part is None else _read_part(Fields("part_of", part)),
    )
    fields.finish()
    _check_asking(asking, name, task, labels)
    return asking


def _read_ends(content: object) -> tuple[str, str]:
    if not isinstance(content, list) or len(content) != 2:
        raise WireError("document", "ends must be two texts")
    first, last = (Fields("ends", {"text": each}).text("text", 200) for each in content)
    return first, last


def _read_part(fields: Fields) -> Part:
    part = Part(name=fields.name("name"), text=fields.text("text"))
    fields.finish()
    return part


def _check_asking(asking: Asking, name: str, task: str, labels: Sequence[str] | None) -> None:
    kind = asking.kind
    if asking.unit is not None and kind is not Kind.NUMBER:
        raise WireError("document", f"{name!r} has a unit, but is not a number")
    if asking.skip and (Kind.CHOICE not in _kinds_of(task) or labels is None or len(labels) < 3):
        raise WireError(
            "document", f"{name!r} cannot be skipped: that is one of three or more categories"
        )
    if (asking.ends is not None) != (kind is Kind.SCALE):
        raise WireError("document", f"{name!r} has ends if it is a scale, and only then")
    if (asking.part_of is not None) != (kind is Kind.SEVERAL):
        raise WireError(
            "document", f"{name!r} is part of another question if several are chosen, and only then"
        )
    if kind is Kind.SCALE:
        steps = list(labels or ())[: -1 if asking.skip else None]
        if len(steps) > _STEPS or steps != [str(1 + place) for place in range(len(steps))]:
            raise WireError(
                "document", f"the labels of the scale {name!r} must be 1, 2, ... up to {_STEPS}"
            )


def _check_parts(parts: Sequence[Part | None]) -> None:
    """Refuse choices of one question that are not neighbours, are alone, or say different things of it."""
    seen: dict[str, list[int]] = {}
    for place, part in enumerate(parts):
        if part is not None:
            seen.setdefault(part.name, []).append(place)
    for name, places in seen.items():
        alike = len({parts[place] for place in places}) == 1
        if len(places) < 2 or places[-1] - places[0] + 1 != len(places) or not alike:
            raise WireError(
                "document",
                f"the choices of {name!r} must be two or more, neighbours, with one text",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question: its words, the protocol that answers it, and what its codes mean to a participant."""

    name: str
    text: str
    task: str
    protocol: ShuffleProtocol
    labels: tuple[str, ...] | None = None
    """What a participant chooses among; None for numbers."""
    range: tuple[float, float] | None = None
    """The ends of a number by group; the groups are the labels."""
    asking: Asking | None = None
    """How it is asked; None: as its task usually is."""
    noise: Added | None = None
    """What each server adds to the messages of a window; None: the devices' noise is all there is."""

    @property
    def kind(self) -> type[Task]:
        """The class of the task: by group, of what is asked about each group."""
        return BY_GROUP.get(self.task) or task_named(self.task)

    @property
    def by_tree(self) -> bool:
        """Whether answers are numbers in the cells of a tree."""
        return Cells in self.kind.live

    @property
    def averages(self) -> bool:
        """Whether everybody's numbers are added up and divided by how many they are."""
        return self.kind.adds and self.kind.average

    @property
    def asked(self) -> Asking:
        """How it is asked."""
        return self.asking or Asking(kind=suggest_kind(self.task))

    def place_of(self, answer: object) -> int:
        """Return the place of an answer, or say in a `DataError` what would be one; by group it is "GROUP: NUMBER".

        >>> from shuffledp import protocols
        >>> made = protocols.krr.make_local(k=2, epsilon=1.0)
        >>> pet = Question(name="pet", text="?", task="histogram", protocol=made, labels=("cat", "dog"))
        >>> pet.place_of("dog")
        1
        """
        if self.range is not None:
            group, value = self._split(str(answer))
            return group * _PLACES + int(
                self._ends.places([self._number(value.strip(), self._ends)])[0]
            )
        if self.labels is not None:
            shown = str(answer)
            if shown in self.labels:
                return self.labels.index(shown)
            if self.kind.yes_or_no and shown.lower() in _YES:  # in whichever language it is asked
                return _YES.index(shown.lower()) % 2
            raise DataError(f"{self.name}={answer!r} must be one of {', '.join(self.labels[:20])}")
        if self.spelling is not None:
            codes, faults = self.spelling.read([answer])
            if faults[0]:
                raise DataError(f"{self.name}={answer!r} {self.spelling.complain(int(faults[0]))}")
            return int(codes[0])
        domain = self.protocol.randomizer.domain
        assert isinstance(domain, Integers | Reals | Cells)
        number = self._number(answer, domain)
        whole = isinstance(domain, Integers) and number.is_integer()
        return int(read_places(domain, [int(number) if whole else number])[0])

    @property
    def spelling(self) -> Texts | Keys | None:
        """The spelling of answers that are words; None if they are not."""
        domain = self.protocol.randomizer.domain
        return domain if isinstance(domain, Texts | Keys) else None

    def _number(self, answer: object, domain: Integers | Reals | Cells) -> float:
        try:
            if isinstance(answer, str) and not _NUMBER.fullmatch(answer.strip()):
                raise ValueError(answer)  # Python's numbers may have 1_000 and ٣
            number = float(answer)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise DataError(f"{self.name}={answer!r} must be a number") from None
        if not domain.lower <= number <= domain.upper:
            ends = f"from {domain.lower:.12g} to {domain.upper:.12g}"
            raise DataError(f"{self.name}={answer!r} must be {ends}")
        return number

    def _split(self, answer: str) -> tuple[int, str]:
        """Return the group that the answer begins with (the longest, if several), and the rest."""
        assert self.labels is not None
        fitting = [each for each in self.labels if answer.startswith(f"{each}:")]
        if not fitting:
            shown = ", ".join(self.labels[:20])
            raise DataError(
                f"{self.name}={answer!r} must be GROUP: NUMBER, with one of the groups {shown}"
            )
        group = max(fitting, key=len)
        return self.labels.index(group), answer[len(group) + 1 :]

    @property
    def asks(self) -> Task:
        """The task itself: the true answer, and how the estimate of the protocol is read."""
        if self.range is not None:
            assert self.labels is not None
            groups = Categories(k=len(self.labels), names=self.labels)
            return Grouped.at_ends(self.kind, self.range, groups)
        points = self.protocol.parameters.get("at")
        own: dict[str, Any] = {} if not points else {"at": tuple(points)}
        return self.kind(domain=self.protocol.randomizer.domain, **own)

    @property
    def _ends(self) -> Reals:
        """The grid of a number by group: its two ends."""
        assert self.range is not None
        return Reals(lower=self.range[0], upper=self.range[1], steps=1)

    def read_values(self, places: Codes) -> Any:
        """Return the answers at these places, as the task takes them; by group, the numbers and the groups."""
        if self.range is not None:
            groups, numbers = self.split_places(places)
            return self._ends.locate(numbers), groups
        if self.spelling is not None:
            return self.spelling.spell(places)
        domain = self.protocol.randomizer.domain
        if isinstance(domain, Reals):
            return domain.locate(places)
        values = domain.values(places)
        return values if isinstance(domain, Cells) else values.astype(np.int64)

    def join_places(self, groups: Codes, places: Codes) -> Codes:
        """Return the places of numbers by group, from the codes of the groups and the places of the numbers."""
        return groups * _PLACES + places

    def split_places(self, places: Codes) -> tuple[Codes, Codes]:
        """Return the codes of the groups, and the places of the numbers."""
        groups, numbers = np.divmod(places, _PLACES)
        return groups, numbers

    @property
    def width(self) -> int:
        """Words of the tape that one answer takes: those of the device, and one for rounding."""
        return tape_width(self.protocol.randomizer) + (self.range is not None)

    def randomize(self, places: Codes, words: Words) -> NDArray[Any]:
        """Randomize people at places[n], with words[n, width]."""
        device = self.protocol.randomizer
        if self.range is None:
            return encode_places(device, places, words).payload
        groups, numbers = self.split_places(places)
        ends = self._ends.round(numbers, words[:, -1], device.word_bits)
        return device.encode(2 * groups + ends, words[:, :-1]).payload

    @property
    def ends(self) -> tuple[float, float] | None:
        """The two ends between which numbers lie; None if answers are not numbers."""
        domain = self.protocol.randomizer.domain
        if isinstance(domain, Reals | Integers | Cells):
            return float(domain.lower), float(domain.upper)
        return self.range

    @property
    def code(self) -> MessageCode:
        """Its messages as bytes."""
        return carry(self.protocol)

    @property
    def epsilon0(self) -> float:
        """What is left of privacy for this answer alone if the shuffler tells who sent what."""
        return self.protocol.randomizer.epsilon0

    def to_dict(self) -> dict[str, Any]:
        """Return the question as it stands in the document."""
        left_out = ("task", *(() if self.noise is None else _OF_NOISE))
        return {
            "name": self.name,
            "text": self.text,
            "task": self.task,
            "labels": None if self.labels is None else list(self.labels),
            "protocol": self.protocol.name,
            "parameters": {
                name: _write_parameter(value)
                for name, value in self.protocol.parameters.items()
                if name not in left_out and value is not None
            },
            "law": describe_law(self.protocol.randomizer),
            **({} if self.range is None else {"range": _write_range(*self.range)}),
            "asked": self.asked.to_dict(),
            "noise": None if self.noise is None else self.noise.to_dict(),
        }


def _write_parameter(value: Any) -> Any:
    if isinstance(value, list):
        return [_write_parameter(each) for each in value]
    return value if isinstance(value, int | str) else as_decimal(value)


def _write_range(lower: float, upper: float) -> dict[str, str]:
    return {"lower": as_decimal(lower), "upper": as_decimal(upper)}


_YES = ("no", "yes", "false", "true", "0", "1")


def read_questions(entries: list[Any], version: int) -> tuple[Question, ...]:
    """Read the questions of a document of that format, strictly."""
    questions = tuple(_read_question(each, version) for each in entries)
    names = [each.name for each in questions]
    if len(set(names)) < len(names):
        raise WireError("document", "two questions have the same name")
    _check_parts([each.asked.part_of for each in questions])
    return questions


def _read_question(content: object, version: int) -> Question:
    fields = Fields("question", content)
    name = fields.name("name")
    text, task = fields.text("text"), fields.text("task", 40)
    labels = _read_labels(fields.take("labels"))
    said = fields.take("noise") if version >= 2 else None
    noise = None if said is None else read_dummies(said)
    protocol = _read_protocol(fields.text("protocol", 60), task, fields.take("parameters"), noise)
    law = fields.take("law")
    ends = _read_range(Fields("range", fields.take("range"))) if task in BY_GROUP else None
    asking = None
    if version >= 2:
        asking = read_asking(fields.take("asked"), name, task, labels)
        asking = None if asking == Asking(kind=suggest_kind(task)) else asking
    fields.finish()
    if law != describe_law(protocol.randomizer):
        raise WireError("document", f"the law of {name!r} is not that of its protocol here")
    _check_labels(name, task, labels, protocol)
    if isinstance(protocol.randomizer.domain, Bits):
        _check_yes(name, labels or (), version)
    return Question(
        name=name,
        text=text,
        task=task,
        protocol=protocol,
        labels=labels,
        range=ends,
        asking=asking,
        noise=noise,
    )


def _check_yes(name: str, labels: Sequence[str], version: int) -> None:
    """Check that a count has a word for no and one for yes: those of format 1, or of any language."""
    crossed = [word for place, word in enumerate(labels) if word.lower() in _YES[1 - place :: 2]]
    if crossed or (version == 1 and tuple(labels) != ("no", "yes")):
        raise WireError("document", f"the labels of the count {name!r} must be no and yes")


def _read_range(fields: Fields) -> tuple[float, float]:
    lower, upper = fields.decimal("lower"), fields.decimal("upper")
    fields.finish()
    try:
        Reals(lower=lower, upper=upper, steps=1)
    except ShuffledpError as error:
        raise WireError("document", f"the range of a number: {error}") from None
    return lower, upper


def _read_labels(content: object) -> tuple[str, ...] | None:
    if content is None:
        return None
    if not isinstance(content, list) or not 2 <= len(content) <= _MOST_LABELS:
        raise WireError("document", f"labels must be null or 2 to {_MOST_LABELS:,} texts")
    for each in content:
        if not isinstance(each, str) or not each.strip() or len(each) > 200:
            raise WireError("document", "labels must be texts of 1 to 200 characters")
    if len(set(content)) < len(content):
        raise WireError("document", "two labels are the same")
    return tuple(content)


def _list_domains(task: str) -> tuple[type, ...]:
    """Return where the answers to a task of a document may lie; () if devices cannot answer it."""
    if task in BY_GROUP:
        return (Categories,)
    known = tasks.TASKS.get(task)
    return () if known is None or known.live_name is not None else known.live


def _check_labels(
    name: str, task: str, labels: tuple[str, ...] | None, protocol: ShuffleProtocol
) -> None:
    domain = protocol.randomizer.domain
    if not isinstance(domain, _list_domains(task)):
        raise WireError("document", f"{protocol.name} does not answer the {task} {name!r}")
    wanted = domain.size if isinstance(domain, Bits | Categories) else None
    have = None if labels is None else len(labels)
    if task in BY_GROUP:  # a group at the lower and at the upper end
        have = 2 * (have or 0) if (have or 0) <= _MOST_GROUPS else 0
    if have != wanted:
        raise WireError("document", f"the labels of {name!r} do not fit {domain}")


def _read_protocol(
    name: str, task: str, parameters: object, noise: Added | None
) -> ShuffleProtocol:
    given = dict(_read_parameters(parameters))
    if "n" in given:
        raise WireError("document", "a protocol is given by its local parameters, without n")
    if (name == SERVED) != (noise is not None):
        raise WireError(
            "document", f"{SERVED} is the protocol of noise of the servers, and only of it"
        )
    try:
        protocol = (
            _make_protocol(name, task, given) if noise is None else _serve(task, given, noise)
        )
        carry(protocol)
    except (ShuffledpError, TypeError, OverflowError, MemoryError) as error:
        raise WireError("document", f"no protocol of this version: {error}") from error
    return protocol


def _make_protocol(name: str, task: str, given: dict[str, Any]) -> ShuffleProtocol:
    from shuffledp.protocols import make, spec

    maker = spec(name).make_local
    takes_task = maker is not None and "task" in maker.options  # such as those of means and trees
    return make(name, **given, **({"task": task} if takes_task else {}))


def _serve(task: str, given: dict[str, Any], noise: Added) -> ShuffleProtocol:
    """Make the protocol whose bins get this noise of the servers."""
    from shuffledp.protocols.server_hashing import TASK, make_server_hashing
    from shuffledp.protocols.server_noise import make_server_noise

    bins = Grouped.answered_by[0] if task in BY_GROUP else task
    if isinstance(noise, HashedDummies):
        if task != TASK:
            raise DataError(f"hashed noise is for histograms, not for {task}")
        own = {"r": noise.r, "s": noise.s, "width": noise.width, "messages": noise.messages}
        return make_server_hashing(**own, **given)
    made = make_server_noise(task=bins, rate=noise.rate, most=noise.most, **given)
    size = made.randomizer.domain.size
    if noise.bins != size or (noise.kind is DummyKind.COUNT) != (size == 2):
        raise DataError(
            f"noise for {noise.bins} bins, as of a {noise.kind.value}, does not fit {size}"
        )
    return made


_BOUNDS = {"k": _MOST_LABELS, "steps": 1 << 20, "word_bits": 64, "shape": 1 << 22}
_BOUNDS |= {
    "parts": 64,
    "bits": 64,
    "max_length": 64,
    "lengths": 64,
    "rows": 1 << 16,
    "buckets": 1 << 16,
}


def _read_parameters(parameters: object) -> Mapping[str, Any]:
    if not isinstance(parameters, dict) or len(parameters) > 10:
        raise WireError("document", "parameters must be an object with at most 10 fields")
    return {name: _read_parameter(name, value) for name, value in parameters.items()}


def _read_parameter(name: str, value: object) -> Any:
    if name == "alphabet":
        if not isinstance(value, str) or value not in ALPHABETS:
            raise WireError("document", f"alphabet must be one of {', '.join(ALPHABETS)}")
        return value
    if isinstance(value, list):
        if not 1 <= len(value) <= _MOST_POINTS:
            raise WireError("document", f"{name} must be 1 to {_MOST_POINTS} numbers")
        return [_read_number(name, each) for each in value]
    return _read_number(name, value)


def _read_number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int):
        return read_decimal(name, value)
    if name in _BOUNDS and value > _BOUNDS[name]:
        raise WireError("document", f"{name}={value} must be at most {_BOUNDS[name]}")
    return value
