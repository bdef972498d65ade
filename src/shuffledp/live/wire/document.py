"""The collection document: everything that is public, fixed before the first report.

It is JSON, and `collection_id` is the SHA-256 of its exact bytes: everybody holds the same bytes, nobody writes
them anew. Reading it is strict, and reading it checks all that needs no computation; `verify` recomputes the
promise, which a device does before it answers.
"""

import hashlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from typing import Any

from shuffledp.core.errors import DataError, UnsupportedError, WireError
from shuffledp.core.octets import OVERHEAD, report_bytes
from shuffledp.core.privacy import Guarantee, Model, round_up
from shuffledp.core.protocol import ShuffleProtocol, honest_users
from shuffledp.live.wire.hpke import SUITE
from shuffledp.live.wire.noise import MOST_DUMMIES
from shuffledp.live.wire.question import CHOICE_BITS, Question, read_questions
from shuffledp.live.wire.strict import Fields, as_decimal, read_decimal, read_json, write_canonical
from shuffledp.live.wire.texts import Texts, read_texts
from shuffledp.numerics.rounding import float_above, float_below
from shuffledp.protocols.one_question import SAMPLED

__all__ = [
    "FORMATS",
    "LARGEST_FLOOR",
    "MOST_ANSWERS",
    "ONE_OPERATOR",
    "Collection",
    "Noise",
    "Pledge",
    "ShufflerKey",
    "Windows",
    "add_floors",
    "compute_guarantee",
    "read_url",
    "set_served_aside",
    "write_document",
]

ONE_OPERATOR = "/one-operator"
"""How an address ends if one operator plays all roles there: every link says it, and every id depends on it."""
FORMATS = ("shuffledp collection 1", "shuffledp collection 2")
"""Which are read; the last one is written."""
LARGEST_FLOOR = 8.0
"""Beyond it (99.97 % right guesses) the floor of a report is meaningless, and the document must say whom people trust."""
MOST_ANSWERS = 366
"""Of a device in a composed promise: every device recomputes it, in a second or two."""
_MOST_QUESTIONS = 64
_NO_FLOOR = "none"
_LATEST = 2**40
_LARGEST_EPSILON = 30.0  # of a promise that is computed


class Noise(Enum):
    """Who adds the noise that hides one answer among the others."""

    DEVICES = "devices"
    """Each device, all by itself."""
    SERVERS = "servers"
    """The shuffler adds messages, the analyzer adds to its tally; devices may add a floor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pledge:
    """What is promised to every participant, and under which conditions."""

    epsilon: float
    delta: float
    honest: float
    """The share of the reports of a batch that is assumed to come from honest devices."""
    min_batch: int
    """No batch with fewer reports is ever opened."""
    local_epsilon: float
    """What is left for a whole report if everybody else conspires; infinite: nothing."""
    reports_per_device: int = 1
    """Over the life of the collection."""
    composed: bool = True
    """Whether epsilon and delta are for all reports of a device together, not for each of them."""
    one_question: bool = False
    """Whether a report answers one random question with the whole floor, not all questions with a part each."""
    noise: Noise = Noise.DEVICES
    trust_the_shuffler: bool = False
    """Whether people are told that shuffler and analyzer together could read answers: no floor, or hardly one."""

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, for people: no floor is "none".

        >>> Pledge(epsilon=1, delta=1e-8, honest=0.9, min_batch=9, local_epsilon=math.inf).to_dict()["local_epsilon"]
        'none'
        """
        floor = self.local_epsilon if math.isfinite(self.local_epsilon) else _NO_FLOOR
        return {**asdict(self), "local_epsilon": floor, "noise": self.noise.value}

    @property
    def floor(self) -> float:
        """What is left for a person if everybody else conspires: all reports of a device add up.

        >>> Pledge(
        ...     epsilon=1, delta=1e-8, honest=0.9, min_batch=9, local_epsilon=1.5, reports_per_device=7
        ... ).floor
        10.5
        """
        if math.isinf(self.local_epsilon):
            return math.inf
        return float_above(Fraction(self.local_epsilon) * self.reports_per_device)

    @property
    def guess(self) -> float:
        """How often somebody who was undecided guesses a yes or no right, at most, if everybody else conspires.

        >>> round(Pledge(epsilon=1, delta=1e-8, honest=0.9, min_batch=9, local_epsilon=3.0).guess, 3)
        0.953
        """
        return min(1.0, (1 + 1e-15) / (1 + math.exp(-self.floor)))

    def describe_floor(self) -> str:
        """Say what the floor is, and what it means for somebody's guess; numbers are rounded up.

        The number 1.1 is stored as a little more, so seven of them are above 7.7:

        >>> Pledge(
        ...     epsilon=1, delta=1e-8, honest=0.9, min_batch=9, local_epsilon=1.1, reports_per_device=7
        ... ).describe_floor()
        'local epsilon = 1.1 for each of 7 reports, 7.70001 together: somebody who was undecided guesses a yes or no right \
in at most 99.96 % of cases'
        """
        if math.isinf(self.local_epsilon):
            return "nothing: there is no floor, and the messages are the answers"
        each = f"local epsilon = {round_up(self.local_epsilon, 6)}"
        if self.reports_per_device > 1:
            each += f" for each of {self.reports_per_device:,} reports, {round_up(self.floor, 6)} together"
        return (
            f"{each}: somebody who was undecided guesses a yes or no right in at most "
            f"{_round_percent_up(self.guess)} % of cases"
        )


def _round_percent_up(share: float) -> str:
    """The share as a percentage that is not below it, with as many digits as tell it from 100.

    >>> [_round_percent_up(share) for share in (0.9354, 0.99946, 1 - 1e-9)]
    ['93.6', '99.95', '100']
    """
    for digits in range(1, 5):
        percent = math.ceil(share * 10 ** (digits + 2)) / 10**digits
        if percent < 100:
            return f"{percent:.{digits}f}"
    return "100"


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """When reports are taken: `count` windows of `seconds` each from `start` (seconds since 1970) on."""

    start: int
    seconds: int
    count: int
    grace: int

    def opens(self, window: int) -> int:
        """When its first report may come."""
        return self.start + window * self.seconds

    def closes(self, window: int) -> int:
        """When its reports become too late: its end, and a grace period for those on the way."""
        return self.start + (window + 1) * self.seconds + self.grace

    def at(self, now: float) -> int | None:
        """The window of a moment; None outside of all.

        >>> days = Windows(start=1000, seconds=100, count=2, grace=10)
        >>> days.at(1100), days.at(999), days.at(1200), days.closes(1)
        (1, None, None, 1210)
        """
        window = math.floor((now - self.start) / self.seconds)
        return window if 0 <= window < self.count else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShufflerKey:
    """A key of the shuffler, and the windows it is for."""

    id: int
    first: int
    last: int
    public: bytes


@dataclass(frozen=True, kw_only=True)
class Collection:
    """A collection as everybody sees it. Made by `Collection.read` alone: the bytes are the collection."""

    raw: bytes
    texts: Texts
    questions: tuple[Question, ...]
    pledge: Pledge
    windows: Windows
    url: str
    shuffler_keys: tuple[ShufflerKey, ...]
    shuffler_sign: bytes
    analyzer_public: bytes
    analyzer_sign: bytes
    tokens: bool

    @cached_property
    def id(self) -> bytes:
        """SHA-256 of the bytes."""
        return hashlib.sha256(self.raw).digest()

    @property
    def title(self) -> str:
        """What it is called."""
        return self.texts.title

    @property
    def slots(self) -> int:
        """Messages in a report."""
        return 1 if self.pledge.one_question else len(self.questions)

    @cached_property
    def message_size(self) -> int:
        """Bytes of the longest message: all are padded to it."""
        return max(question.code.size for question in self.questions)

    @cached_property
    def dummies(self) -> tuple[int, int]:
        """The fewest and the most messages that an honest shuffler adds to a window."""
        laws = [each.noise for each in self.questions if each.noise is not None]
        return sum(law.totals[0] for law in laws), sum(law.totals[1] for law in laws)

    @property
    def by_servers(self) -> bool:
        """Whether the servers add the noise."""
        return self.pledge.noise is Noise.SERVERS

    @property
    def inner_size(self) -> int:
        """Bytes of one message, encrypted for the analyzer."""
        return 1 + self.message_size + OVERHEAD

    @property
    def report_size(self) -> int:
        """Bytes of a report in an upload: the same whatever the answers are."""
        return report_bytes(self.slots, self.message_size, token=32 if self.tokens else 0)

    @property
    def development(self) -> bool:
        """Whether one operator plays all roles: the shuffler is on this very machine, or its address says so."""
        return not self.url.startswith("https://") or self.url.endswith(ONE_OPERATOR)

    @property
    def link(self) -> str:
        """Where to get the document, and the id that it must have."""
        return f"{self.url}/collections/{self.id.hex()}#{self.id.hex()}"

    @property
    def page(self) -> str:
        """Where a person answers in a browser, if the shuffler serves the page."""
        return f"{self.url}/c/{self.id.hex()}#{self.id.hex()}"

    def question(self, name: str) -> Question:
        """The question of that name."""
        for each in self.questions:
            if each.name == name:
                return each
        names = ", ".join(each.name for each in self.questions)
        raise DataError(f"there is no question {name!r}; there are {names}")

    def key_for(self, window: int) -> ShufflerKey:
        """The shuffler's key for a window."""
        return next(key for key in self.shuffler_keys if key.first <= window <= key.last)

    @classmethod
    def read(cls, raw: bytes, expected_id: bytes | None = None) -> "Collection":
        """The collection that the bytes describe; if an id is given, they must have it."""
        if expected_id is not None and hashlib.sha256(raw).digest() != expected_id:
            raise WireError("document", "its hash is not the id of the collection")
        top = Fields("document", read_json(raw))
        said = top.take("format")
        if said not in FORMATS:
            raise WireError("document", f"its format is none of {', '.join(FORMATS)}")
        version = 1 + FORMATS.index(said)
        top.whole("suite", SUITE, SUITE)
        windows = _read_windows(Fields("windows", top.take("windows")))
        shuffler = _take_shuffler(top, version)
        analyzer = Fields("analyzer", top.take("analyzer"))
        found = cls(
            raw=bytes(raw),
            texts=Texts(title=top.text("title"))
            if version == 1
            else read_texts(Fields("texts", top.take("texts"))),
            questions=read_questions(top.items("questions", _MOST_QUESTIONS), version),
            pledge=_read_pledge(Fields("promise", top.take("promise")), windows, version),
            windows=windows,
            url=read_url(shuffler.text("url")),
            shuffler_keys=_read_keys(shuffler.items("keys", 256), windows),
            shuffler_sign=shuffler.key("sign"),
            analyzer_public=analyzer.key("public"),
            analyzer_sign=analyzer.key("sign"),
            tokens=top.flag("tokens"),
        )
        stated = top.whole("slots", 1, 255), top.whole("message_size", 1, 65_535)
        for each in (top, shuffler, analyzer):
            each.finish()
        if stated != (found.slots, found.message_size):
            raise WireError("document", "slots and message_size do not follow from its questions")
        _check_one_question(found)
        _check_distinct_keys(found)
        _check_noise(found)
        return found

    def verify(self) -> Guarantee:
        """Recompute what is promised; `WireError` with the reason "promise" if it does not hold."""
        # No tolerance: what a document states was rounded up when it was written.
        floor = add_floors(self.questions, one=self.pledge.one_question)
        if floor > self.pledge.local_epsilon:
            raise WireError(
                "promise",
                f"the answers of a report are {round_up(floor, 6)}-private together, not local_epsilon="
                f"{self.pledge.local_epsilon}",
            )
        found = compute_guarantee(self.questions, self.pledge)
        if found.epsilon > self.pledge.epsilon:
            raise WireError(
                "promise",
                f"with min_batch={self.pledge.min_batch:,} epsilon is {round_up(found.epsilon, 6)}, not "
                f"{self.pledge.epsilon}",
            )
        return found


def add_floors(questions: Sequence[Question], *, one: bool = False) -> float:
    """What is left of privacy for a whole report if the shuffler tells who sent what, rounded up.

    With `one` random question in a report, which does not depend on the answers, it is the largest of them.

    >>> from shuffledp import protocols
    >>> made = protocols.rr.make_local(epsilon=0.1)
    >>> asked = Question(name="pet", text="?", task="count", protocol=made, labels=("no", "yes"))
    >>> add_floors([asked] * 3) > 0.3
    True
    """
    if one or any(math.isinf(each.epsilon0) for each in questions):
        return max(each.epsilon0 for each in questions)
    return float_above(sum((Fraction(each.epsilon0) for each in questions), Fraction(0)))


def compute_guarantee(questions: Sequence[Question], pledge: Pledge) -> Guarantee:
    """The epsilon, at the promised delta, of a batch of min_batch reports; composed if the pledge is.

    Where the servers add the noise it is that of any batch, whoever is honest.
    """
    protocols = tuple(each.protocol for each in questions)
    times = pledge.reports_per_device if pledge.composed else 1
    if times * len(questions) > MOST_ANSWERS:
        raise UnsupportedError(
            f"{times:,} reports of {len(questions)} questions are more than {MOST_ANSWERS} answers to compose: promise "
            "each report by itself (composed = false), or take fewer"
        )
    honest = honest_users(pledge.min_batch, pledge.honest)
    words = sum(each.width for each in questions)
    if pledge.one_question:
        if times > 1:
            raise UnsupportedError(
                "several reports of one random question each are promised report by report, not composed"
            )
        if pledge.noise is Noise.DEVICES:
            return _compute_one(protocols, 1 + words, honest, pledge.delta)
    if pledge.noise is Noise.SERVERS:
        return _compute_served(protocols, words + 1, times, pledge)
    return _compute(protocols, words, times, honest, pledge.delta)


@lru_cache(maxsize=256)
def _compute(
    protocols: tuple[ShuffleProtocol, ...], words: int, times: int, honest: int, delta: float
) -> Guarantee:
    from shuffledp.accounting.amplify import profile
    from shuffledp.accounting.compose import compose

    curves = [profile(randomizer=each, n=honest, honest=1.0) for each in protocols]
    alone = len(curves) * times == 1

    @cache
    def reach(left: float) -> float:
        if alone:
            return curves[0].best(left).epsilon
        # Each of a curve's bounds is a curve of its own, and one takes a fraction of the time of all.
        best = [
            min((bound.curve for bound in each.bounds), key=lambda one: one.epsilon(left))
            for each in curves
        ]
        return compose([*best] * times, delta=left)

    most = float_above(
        times * sum((Fraction(each.randomizer.epsilon0) for each in protocols), Fraction(0))
    )
    left = _set_generator_aside(words * times, honest, delta, most, reach)
    if alone:
        return replace(curves[0].best(left), delta=delta)
    return Guarantee(
        epsilon=reach(left),
        delta=delta,
        model=Model.SHUFFLE,
        proof="composition of the amplified answers' privacy curves",
        honest=honest,
    )


@lru_cache(maxsize=256)
def _compute_one(
    protocols: tuple[ShuffleProtocol, ...], words: int, honest: int, delta: float
) -> Guarantee:
    """The guarantee of a report with one random question: people hide among those who answer the same one.

    Which question it is does not depend on the answers. Given it, at least `others` of the other honest people have
    the same one, except with a probability that is part of delta; more of them never hurt.
    """
    from shuffledp.accounting.amplify import profile
    from shuffledp.numerics.tails import binomial_at_most

    most = max(each.randomizer.epsilon0 for each in protocols)
    left = _set_generator_aside(words, honest, delta, most)
    missed = left / 100
    share = Fraction((1 << CHOICE_BITS) // len(protocols), 1 << CHOICE_BITS)
    low, high = 0, honest  # binomial_at_most(low - 1) <= missed < binomial_at_most(high - 1)
    while high - low > 1:
        middle = (low + high) // 2
        if binomial_at_most(middle - 1, honest - 1, share) <= missed:
            low = middle
        else:
            high = middle
    spare = float_below(Fraction(left) - Fraction(missed))
    curves = [profile(randomizer=each, n=1 + low, honest=1.0) for each in protocols]
    worst = max((each.best(spare) for each in curves), key=lambda found: found.epsilon)
    return replace(worst, delta=delta, honest=honest)


@lru_cache(maxsize=256)
def _compute_served(
    protocols: tuple[ShuffleProtocol, ...], words: int, times: int, pledge: Pledge
) -> Guarantee:
    """The guarantee of either server's noise alone: the promised epsilon if it holds, or the smallest that does."""
    from shuffledp.accounting.server_noise import bound_delta
    from shuffledp.numerics.search import find_smallest
    from shuffledp.protocols.server_noise import find_noise

    found = [find_noise(each) for each in protocols]
    left = set_served_aside(
        sum(each.randomizer.domain.size for each in protocols), words * times, pledge
    )

    def excess(epsilon: float) -> float:
        if pledge.one_question:
            deltas = [
                bound_delta([moved], [law], epsilon=epsilon, near=left) for moved, law in found
            ]
            return max(deltas) - left
        parts, laws = [moved for moved, _ in found], [law for _, law in found]
        return bound_delta(parts, laws, epsilon=epsilon, near=left, times=times) - left

    epsilon: float | None = pledge.epsilon
    if excess(pledge.epsilon) > 0:
        epsilon = find_smallest(excess, guess=pledge.epsilon, largest=_LARGEST_EPSILON)
    if epsilon is None:
        raise UnsupportedError(f"the servers' noise keeps no promise with delta={pledge.delta}")
    return Guarantee(
        epsilon=epsilon,
        delta=pledge.delta,
        model=Model.SHUFFLE,
        proof="the exact law of the messages that either server adds",
    )


def set_served_aside(bins: int, words: int, pledge: Pledge) -> float:
    """What is left of delta for uniform words of one server, with two for each bin, and of one device."""
    from shuffledp.accounting.generator import bound_generator

    times = pledge.reports_per_device if pledge.composed else 1
    added = bound_generator(1, 2 * bins * times, pledge.epsilon)
    added += bound_generator(1, words, pledge.epsilon)
    left = Fraction(pledge.delta) - added
    if 2 * left < Fraction(pledge.delta):
        raise UnsupportedError(f"delta={pledge.delta} is too small for the words of a server")
    return float_below(left)


def _set_generator_aside(
    words: int,
    honest: int,
    delta: float,
    most: float,
    reach: Callable[[float], float] | None = None,
) -> float:
    """What is left of delta for uniform words: those of the honest devices come from a generator.

    It adds (1 + e^epsilon) times its advantage to the delta at epsilon. The epsilon that we state is at most what the
    reports have without a shuffler, `most`. Many reports have a lot without one, and together with the others' hardly
    anything: then half of delta is set aside, and `reach` says which epsilon the other half gives, which is the one
    that we state.
    """
    from shuffledp.accounting.generator import bound_generator

    left = Fraction(delta) - bound_generator(honest, words, most)
    if 2 * left >= Fraction(delta):
        return float_below(left)
    half = float_below(Fraction(delta) / 2)
    if reach is None or Fraction(half) < bound_generator(honest, words, reach(half)):
        raise UnsupportedError(f"delta={delta} is too small for the words of {honest:,} devices")
    return half


def write_document(
    *,
    title: str = "",
    texts: Texts | None = None,
    questions: Sequence[Question],
    pledge: Pledge,
    windows: Windows,
    url: str,
    shuffler_keys: Sequence[ShufflerKey],
    shuffler_sign: bytes,
    analyzer_public: bytes,
    analyzer_sign: bytes,
    tokens: bool = False,
) -> Collection:
    """The document of a new collection, read back and verified: a promise that does not hold is refused.

    It has a `title`, or `texts` with one and more.
    """
    content: dict[str, Any] = {
        "format": FORMATS[-1],
        "texts": (texts or Texts(title=title)).to_dict(),
        "questions": [each.to_dict() for each in questions],
        "promise": {
            "epsilon": as_decimal(pledge.epsilon),
            "delta": as_decimal(pledge.delta),
            "honest": as_decimal(pledge.honest),
            "min_batch": pledge.min_batch,
            "local_epsilon": _NO_FLOOR
            if math.isinf(pledge.local_epsilon)
            else as_decimal(pledge.local_epsilon),
            "trust_the_shuffler": pledge.trust_the_shuffler,
            "noise": pledge.noise.value,
            "reports_per_device": pledge.reports_per_device,
            "composed": pledge.composed,
            "one_question": pledge.one_question,
        },
        "windows": asdict(windows),
        "shufflers": [
            {
                "url": url,
                "keys": [{**asdict(key), "public": key.public.hex()} for key in shuffler_keys],
                "sign": shuffler_sign.hex(),
            }
        ],
        "analyzer": {"public": analyzer_public.hex(), "sign": analyzer_sign.hex()},
        "tokens": tokens,
        "suite": SUITE,
        "slots": 1 if pledge.one_question else len(questions),
        "message_size": max(each.code.size for each in questions),
    }
    collection = Collection.read(write_canonical(content))
    collection.verify()
    return collection


def _take_shuffler(top: Fields, version: int) -> Fields:
    if version == 1:
        return Fields("shuffler", top.take("shuffler"))
    shufflers = top.items("shufflers", 2)
    if len(shufflers) > 1:
        raise WireError("planned", "two shufflers in a row are more than this version can use")
    return Fields("shuffler", shufflers[0])


def _read_pledge(found: Fields, windows: Windows, version: int) -> Pledge:
    floor = found.take("local_epsilon")
    none = version >= 2 and floor == _NO_FLOOR
    pledge = Pledge(
        epsilon=found.decimal("epsilon"),
        delta=found.decimal("delta"),
        honest=found.decimal("honest"),
        min_batch=found.whole("min_batch", 2, 10**9),
        local_epsilon=math.inf if none else read_decimal("promise.local_epsilon", floor),
        reports_per_device=found.whole("reports_per_device", 1, windows.count),
        composed=found.flag("composed"),
        one_question=found.flag("one_question"),
        noise=Noise.DEVICES if version == 1 else _read_noise(found.text("noise", 20)),
        trust_the_shuffler=version >= 2 and found.flag("trust_the_shuffler"),
    )
    found.finish()
    if not 0 < pledge.epsilon <= 100 or not (none or 0 < pledge.local_epsilon <= 100):
        raise WireError("document", "epsilon and local_epsilon must be above 0 and at most 100")
    if not 1e-100 <= pledge.delta < 1 or not 0 < pledge.honest <= 1:
        raise WireError("document", "delta must be from 1e-100 to 1, honest above 0 and at most 1")
    if pledge.honest * pledge.min_batch < 1:
        raise WireError("document", "honest * min_batch must be at least 1")
    if version >= 2 and pledge.local_epsilon > LARGEST_FLOOR and not pledge.trust_the_shuffler:
        raise WireError(
            "document", f"a floor above {LARGEST_FLOOR:g}, or none, needs trust_the_shuffler"
        )
    return pledge


def _read_noise(said: str) -> Noise:
    if said not in [each.value for each in Noise]:
        raise WireError("document", f"promise.noise={said!r} must be devices or servers")
    return Noise(said)


def _check_noise(found: Collection) -> None:
    servers = found.pledge.noise is Noise.SERVERS
    for each in found.questions:
        if (each.noise is not None) != servers:
            raise WireError(
                "document",
                f"the question {each.name!r} has a law of the servers' noise if they add it, and only then",
            )
        parts = len(found.questions) if found.pledge.one_question else 1
        if servers and each.protocol.parameters["parts"] != parts:
            raise WireError(
                "document",
                f"the question {each.name!r} must be one of {parts} that a report answers",
            )
    if (
        servers
        and sum(each.noise.mean_total for each in found.questions if each.noise) > MOST_DUMMIES
    ):
        raise WireError(
            "document", f"a server would add more than {MOST_DUMMIES:,} messages to a window"
        )
    if math.isinf(found.pledge.local_epsilon) and not servers:
        raise WireError("document", "without a floor the noise must come from the servers")


def _read_windows(found: Fields) -> Windows:
    windows = Windows(
        start=found.whole("start", 0, _LATEST),
        seconds=found.whole("seconds", 1, 10**9),
        count=found.whole("count", 1, 10**5),
        grace=found.whole("grace", 0, 10**7),
    )
    found.finish()
    return windows


def _read_keys(entries: list[Any], windows: Windows) -> tuple[ShufflerKey, ...]:
    keys = []
    for each in entries:
        found = Fields("key", each)
        keys.append(
            ShufflerKey(
                id=found.whole("id", 0, 255),
                first=found.whole("first", 0, windows.count - 1),
                last=found.whole("last", 0, windows.count - 1),
                public=found.key("public"),
            )
        )
        found.finish()
    ends = [-1, *(key.last for key in keys)]
    in_order = all(
        key.id == place and key.first == ends[place] + 1 and key.last >= key.first
        for place, key in enumerate(keys)
    )
    if not in_order or ends[-1] != windows.count - 1:
        raise WireError("document", "the shuffler's keys must cover each window once, in order")
    return tuple(keys)


_URL = re.compile(
    r"(https|http)://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[1-9][0-9]{0,4})?(/[!-~]*)?", re.ASCII
)
_HERE = ("127.0.0.1", "localhost", "[::1]")


def read_url(text: str) -> str:
    """The URL, if it is https, or http on this very machine, and has nothing else in it.

    >>> read_url("https://survey.example:8443/a")
    'https://survey.example:8443/a'
    """
    form = _URL.fullmatch(text)
    plain = form is not None and not text.endswith("/") and not re.search("[?#@]", text)
    port = int(form[3][1:]) if form is not None and form[3] else 1
    secure = form is not None and (form[1] == "https" or form[2] in _HERE)
    if not plain or not secure or port > 65_535:
        raise WireError(
            "document",
            f"the URL {text!r} must be https (http only on this machine), without user, query, "
            "fragment or a slash at the end",
        )
    return text


def _check_one_question(found: Collection) -> None:
    if not found.pledge.one_question:
        return
    if len(found.questions) < 2 or any(each.task not in SAMPLED for each in found.questions):
        raise WireError("document", f"one question of several is for {', '.join(SAMPLED)}")
    if found.pledge.composed and found.pledge.reports_per_device > 1:
        raise WireError("document", "one question of several is not composed over several reports")


def _check_distinct_keys(found: Collection) -> None:
    keys = [key.public for key in found.shuffler_keys]
    keys += [found.shuffler_sign, found.analyzer_public, found.analyzer_sign]
    if len(set(keys)) < len(keys):
        raise WireError("document", "two of its keys are equal: each role needs its own")
