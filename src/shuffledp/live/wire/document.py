"""The collection document: everything that is public, fixed before the first report.

It is JSON, and `collection_id` is the SHA-256 of its exact bytes: everybody holds the same bytes, and nobody
re-encodes them. Reading is strict, and checks all that needs no computation; `verify` recomputes the promise, which a
device does before it answers.

The logo of a survey is a small picture in the document, without anything but the picture. It is part of the document,
so its id stands for it: nobody can be shown another one, no page asks a server for it, and an exported page or one
without a connection has it. In return it must be small. PNG and JPEG are pictures and nothing else; an SVG may have
scripts. What cameras and editors write beside a picture (where it was taken, by whom) is left out.
"""

import base64
import binascii
import hashlib
import math
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from shuffledp.core.errors import DataError, ParameterError, WireError
from shuffledp.core.privacy import Guarantee, round_up
from shuffledp.core.randomizer import OVERHEAD, report_bytes
from shuffledp.live.wire.noise import MOST_DUMMIES
from shuffledp.live.wire.promise import NO_FLOOR, Noise, Pledge, add_floors, compute_guarantee
from shuffledp.live.wire.question import LONGEST, Question, read_questions
from shuffledp.live.wire.strict import Fields, as_decimal, read_decimal, read_json, write_canonical

SUITE = 1
"""DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM. 2 is reserved for a post-quantum hybrid."""
MOST_BYTES = 8_000
"""The most bytes of a logo; in the document every three of them take four."""
_LARGEST = 1_000  # pixels of a side: few bytes may be a picture that fills the memory
_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8"
_CHUNKS = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")
_FRAMES = (0xC0, 0xC1, 0xC2)
_TABLES = (0xC4, 0xDB, 0xDD)
_SCAN, _END = 0xDA, 0xD9
_ADOBE = 0xEE  # says how colours are coded


def pack_logo(raw: bytes) -> str:
    """Return a picture as it stands in a document, without what is not the picture.

    >>> dot = bytes.fromhex(
    ...     "89504e470d0a1a0a0000000d4948445200000001000000010800000000"
    ...     "3a7e9b550000000a49444154789c636000000002000148afa4710000000049454e44ae426082"
    ... )
    >>> unpack_logo(pack_logo(dot)) == dot
    True
    >>> pack_logo(b"<svg/>")
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: logo='6 bytes' must be a PNG or JPEG
    """
    try:
        kept = _clean(raw)
    except ValueError as error:
        raise ParameterError("logo", f"{len(raw):,} bytes", str(error)) from None
    kind = "png" if kept.startswith(_PNG) else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(kept).decode()}"


def unpack_logo(text: str) -> bytes:
    """Return the picture of a data address; ValueError if it is none."""
    for kind in ("png", "jpeg"):
        start = f"data:image/{kind};base64,"
        if text.startswith(start):
            try:
                return base64.b64decode(text.removeprefix(start), validate=True)
            except binascii.Error:
                break
    raise ValueError("must be a PNG or JPEG")


def check_logo(text: str) -> None:
    """Refuse what `pack_logo` would not have written; `WireError` with the reason "document"."""
    try:
        fine = pack_logo(unpack_logo(text)) == text
    except (ValueError, ParameterError) as error:
        raise WireError("document", f"its logo is not valid: {error}") from None
    if not fine:
        raise WireError("document", "its logo has more than a picture in it")


def _clean(raw: bytes) -> bytes:
    if raw.startswith(_PNG):
        kept = _PNG + b"".join(_keep_chunks(raw))
    elif raw.startswith(_JPEG):
        kept = _JPEG + b"".join(_keep_segments(raw)) + bytes((0xFF, _END))
    else:
        raise ValueError("must be a PNG or JPEG")
    if len(kept) > MOST_BYTES:
        raise ValueError(f"must be a picture of at most {MOST_BYTES:,} bytes: it has {len(kept):,}")
    return kept


def _check_size(width: int, height: int) -> None:
    if not (0 < width <= _LARGEST and 0 < height <= _LARGEST):
        raise ValueError(f"must have at most {_LARGEST:,} x {_LARGEST:,} pixels")


def _keep_chunks(raw: bytes) -> Iterator[bytes]:
    """Yield the chunks of a PNG that draw."""
    place, kind = len(_PNG), b""
    while kind != b"IEND":
        size = int.from_bytes(raw[place : place + 4])
        chunk, kind = raw[place : place + 12 + size], raw[place + 4 : place + 8]
        whole = len(chunk) == 12 + size and zlib.crc32(chunk[4:-4]) == int.from_bytes(chunk[-4:])
        if not whole or (place == len(_PNG)) != (kind == b"IHDR"):
            raise ValueError("must be a whole PNG")
        if kind == b"IHDR":
            _check_size(int.from_bytes(chunk[8:12]), int.from_bytes(chunk[12:16]))
        if kind in _CHUNKS:
            yield chunk
        place += len(chunk)


def _keep_segments(raw: bytes) -> Iterator[bytes]:
    """Yield the segments of a JPEG that draw, each scan with its data."""
    place, sized = len(_JPEG), False
    while raw[place : place + 1] == b"\xff" and (mark := raw[place + 1 : place + 2]):
        code = mark[0]
        if code == _END and sized:
            return
        end = place + 2 + int.from_bytes(raw[place + 2 : place + 4])
        if code in _FRAMES:
            _check_size(
                int.from_bytes(raw[place + 7 : place + 9]),
                int.from_bytes(raw[place + 5 : place + 7]),
            )
            sized = True
        if code == _SCAN:
            end = _find_scan_end(raw, end)
        if end > len(raw) or end < place + 4:
            break
        adobe = code == _ADOBE and raw[place + 4 : place + 9] == b"Adobe" and end - place == 16
        if code in (*_FRAMES, *_TABLES, _SCAN) or adobe:
            yield raw[place:end]
        place = end
    raise ValueError("must be a whole JPEG")


def _find_scan_end(raw: bytes, place: int) -> int:
    """Return where the next mark stands: in the data of a scan 0xFF is followed by 0, or restarts it."""
    while (place := raw.find(b"\xff", place)) >= 0 and place + 1 < len(raw):
        if raw[place + 1] != 0 and not 0xD0 <= raw[place + 1] <= 0xD7:
            return place
        place += 2
    raise ValueError("must be a whole JPEG")


ONE_OPERATOR = "/one-operator"
"""How an address ends if one operator plays all roles there: so every link says it, and every id depends on it."""
FORMATS = ("shuffledp collection 1", "shuffledp collection 2")
"""The formats that are read; the last one is written."""
LARGEST_FLOOR = 8.0
"""Beyond it (99.97 % right guesses) the floor of a report is meaningless, and the document must say whom people trust."""
_MOST_QUESTIONS = 64
_LATEST = 2**40
_LONGEST_LOGO = 40 + 4 * MOST_BYTES // 3
_LANGUAGE = re.compile("[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?", re.ASCII)
_DIRECTIONS = ("ltr", "rtl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """The texts around the questions, and their language: none of them changes what is sent.

    >>> Texts(title="Eine Umfrage", language="de").direction
    'ltr'
    """

    title: str
    language: str = "en"
    direction: str = "ltr"
    welcome: str | None = None
    consent: str | None = None
    """What people agree to before they answer."""
    contact: str | None = None
    logo: str | None = None
    """A small picture, as `pack_logo` writes it."""

    def to_dict(self) -> dict[str, Any]:
        """Return them as they stand in the document."""
        return {
            "title": self.title,
            "language": self.language,
            "direction": self.direction,
            "welcome": self.welcome,
            "consent": self.consent,
            "contact": self.contact,
            **({} if self.logo is None else {"logo": self.logo}),
        }


def _read_texts(fields: Fields) -> Texts:
    """Return the texts of a document, strictly."""
    texts = Texts(
        title=fields.text("title"),
        language=fields.text("language", 20),
        direction=fields.text("direction", 3),
        welcome=fields.optional_text("welcome", LONGEST),
        consent=fields.optional_text("consent", LONGEST),
        contact=fields.optional_text("contact", 500),
        logo=fields.text("logo", _LONGEST_LOGO) if fields.has("logo") else None,
    )
    fields.finish()
    if texts.logo is not None:
        check_logo(texts.logo)
    if not _LANGUAGE.fullmatch(texts.language):
        raise WireError(
            "document",
            f"the language {texts.language!r} must be a tag such as en, pt-BR or sr-Latn",
        )
    if texts.direction not in _DIRECTIONS:
        raise WireError("document", f"the direction {texts.direction!r} must be ltr or rtl")
    return texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """When reports are taken: `count` windows of `seconds` each from `start` (seconds since 1970) on."""

    start: int
    seconds: int
    count: int
    grace: int

    def opens(self, window: int) -> int:
        """Return when its first report may come."""
        return self.start + window * self.seconds

    def closes(self, window: int) -> int:
        """Return when its reports become too late: its end, and a grace period for those on the way."""
        return self.start + (window + 1) * self.seconds + self.grace

    def at(self, now: float) -> int | None:
        """Return the window of a moment; None outside of all.

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
        """Return the question of that name."""
        for each in self.questions:
            if each.name == name:
                return each
        names = ", ".join(each.name for each in self.questions)
        raise DataError(f"there is no question {name!r}; there are {names}")

    def key_for(self, window: int) -> ShufflerKey:
        """Return the shuffler's key for a window."""
        return next(key for key in self.shuffler_keys if key.first <= window <= key.last)

    @classmethod
    def read(cls, raw: bytes, expected_id: bytes | None = None) -> "Collection":
        """Return the collection that the bytes describe; if an id is given, they must have it."""
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
        collection = cls(
            raw=bytes(raw),
            texts=Texts(title=top.text("title"))
            if version == 1
            else _read_texts(Fields("texts", top.take("texts"))),
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
        if stated != (collection.slots, collection.message_size):
            raise WireError("document", "slots and message_size do not follow from its questions")
        _check_one_question(collection)
        _check_distinct_keys(collection)
        _check_noise(collection)
        return collection

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
        guarantee = compute_guarantee(self.questions, self.pledge)
        if guarantee.epsilon > self.pledge.epsilon:
            raise WireError(
                "promise",
                f"with min_batch={self.pledge.min_batch:,} epsilon is {round_up(guarantee.epsilon, 6)}, not "
                f"{self.pledge.epsilon}",
            )
        return guarantee


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
    """Return the document of a new collection, read back and verified: a promise that does not hold is refused.

    It has a `title`, or `texts` with one and more.
    """
    if Fraction(repr(pledge.delta)) * windows.count >= 1:
        raise ParameterError(
            "delta",
            pledge.delta,
            f"must be below 1/{windows.count:,}: the budget of all windows is their sum",
        )
    content: dict[str, Any] = {
        "format": FORMATS[-1],
        "texts": (texts or Texts(title=title)).to_dict(),
        "questions": [each.to_dict() for each in questions],
        "promise": {
            "epsilon": as_decimal(pledge.epsilon),
            "delta": as_decimal(pledge.delta),
            "honest": as_decimal(pledge.honest),
            "min_batch": pledge.min_batch,
            "local_epsilon": NO_FLOOR
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
        raise WireError("planned", "this version cannot use two shufflers in a row")
    return Fields("shuffler", shufflers[0])


def _read_pledge(fields: Fields, windows: Windows, version: int) -> Pledge:
    floor = fields.take("local_epsilon")
    none = version >= 2 and floor == NO_FLOOR
    pledge = Pledge(
        epsilon=fields.decimal("epsilon"),
        delta=fields.decimal("delta"),
        honest=fields.decimal("honest"),
        min_batch=fields.whole("min_batch", 2, 10**9),
        local_epsilon=math.inf if none else read_decimal("promise.local_epsilon", floor),
        reports_per_device=fields.whole("reports_per_device", 1, windows.count),
        composed=fields.flag("composed"),
        one_question=fields.flag("one_question"),
        noise=Noise.DEVICES if version == 1 else _read_noise(fields.text("noise", 20)),
        trust_the_shuffler=version >= 2 and fields.flag("trust_the_shuffler"),
    )
    fields.finish()
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


def _check_noise(collection: Collection) -> None:
    servers = collection.pledge.noise is Noise.SERVERS
    for each in collection.questions:
        if (each.noise is not None) != servers:
            raise WireError(
                "document",
                f"the question {each.name!r} has a law of the servers' noise if they add it, and only then",
            )
        parts = len(collection.questions) if collection.pledge.one_question else 1
        if servers and each.protocol.parameters["parts"] != parts:
            raise WireError(
                "document",
                f"the question {each.name!r} must be one of {parts} that a report answers",
            )
    if (
        servers
        and sum(each.noise.mean_total for each in collection.questions if each.noise) > MOST_DUMMIES
    ):
        raise WireError(
            "document", f"a server would add more than {MOST_DUMMIES:,} messages to a window"
        )
    if math.isinf(collection.pledge.local_epsilon) and not servers:
        raise WireError("document", "without a floor the noise must come from the servers")


def _read_windows(fields: Fields) -> Windows:
    windows = Windows(
        start=fields.whole("start", 0, _LATEST),
        seconds=fields.whole("seconds", 1, 10**9),
        count=fields.whole("count", 1, 10**5),
        grace=fields.whole("grace", 0, 10**7),
    )
    fields.finish()
    return windows


def _read_keys(entries: list[Any], windows: Windows) -> tuple[ShufflerKey, ...]:
    keys = []
    for each in entries:
        fields = Fields("key", each)
        keys.append(
            ShufflerKey(
                id=fields.whole("id", 0, 255),
                first=fields.whole("first", 0, windows.count - 1),
                last=fields.whole("last", 0, windows.count - 1),
                public=fields.key("public"),
            )
        )
        fields.finish()
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
    """Return the URL, if it is https, or http on this very machine, and has nothing else in it.

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


def _check_one_question(collection: Collection) -> None:
    if not collection.pledge.one_question:
        return
    if len(collection.questions) < 2 or not all(each.asks.sampled for each in collection.questions):
        raise WireError(
            "document",
            "one random question per report is for counts, histograms, and sums and means not by group",
        )
    if collection.pledge.composed and collection.pledge.reports_per_device > 1:
        raise WireError(
            "document", "one random question per report is not composed over several reports"
        )


def _check_distinct_keys(collection: Collection) -> None:
    keys = [key.public for key in collection.shuffler_keys]
    keys += [collection.shuffler_sign, collection.analyzer_public, collection.analyzer_sign]
    if len(set(keys)) < len(keys):
        raise WireError("document", "two of its keys are equal: each role needs its own")
