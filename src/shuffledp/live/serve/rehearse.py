"""The dress rehearsal: a survey from beginning to end on this machine, before it goes live.

Real servers on loopback, real stores and processes, simulated devices with made-up answers, some of them hostile.
Every message that was acknowledged is looked for in the batch that the analyzer got: one that is missing is lost, one
that is there twice is doubled.

Devices of the people of a file are simulated here, too: `send_people` sends their reports to servers that run, and
`try_survey` shows what a collection would publish, without any server.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from shuffledp.core.display import format_bracket, write_digits
from shuffledp.core.domain import PLACE_BITS, Bits, Categories, Reals
from shuffledp.core.errors import (
    DataError,
    MismatchError,
    ParameterError,
    UnsupportedError,
    WireError,
)
from shuffledp.core.privacy import round_up
from shuffledp.core.texts import Keys
from shuffledp.core.validate import number, whole
from shuffledp.live.analyzer import answer_question, count_messages
from shuffledp.live.design import choose_protocols, make_collection
from shuffledp.live.results import read_estimate
from shuffledp.live.serve.client import Operator, connect, send_upload
from shuffledp.live.serve.folders import Home, find_port, play_roles
from shuffledp.live.serve.pool import start_pool
from shuffledp.live.servers import add_noise
from shuffledp.live.wire.document import Collection
from shuffledp.live.wire.report import (
    MOST_REPORTS,
    encode_many,
    join_upload,
    seal_inner,
    seal_report,
)
from shuffledp.numerics.entropy import SecureWords

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from shuffledp.core.arrays import Bools, Codes, Floats
    from shuffledp.core.domain import Domain
    from shuffledp.core.randomizer import WordSource
    from shuffledp.core.texts import Texts
    from shuffledp.engine import Filter, OnInvalid, Paths
    from shuffledp.live.design import Settings
    from shuffledp.live.wire.document import Collection
    from shuffledp.live.wire.question import Question
    from shuffledp.questions import Survey

_PIECE = 1_000  # people whose reports are sealed at once
_FEW = 2_000  # sealed sooner than a pool has started
_worker: dict[str, Any] = {}


@dataclass(slots=True)
class Sent:
    """What was sent: reports that were acknowledged, and the others by reason."""

    accepted: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    inners: set[bytes] = field(default_factory=set)
    """The messages that were acknowledged, if they are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """The answers of everybody in a file, and what must be said about how they were read."""

    places: dict[str, Codes]
    """By question: a place for each person."""
    left_out: int = 0
    """How many people had an answer that is not in its domain, and were left out."""
    recoded: tuple[str, ...] = ()
    """What became of other values: for the operator alone, since these numbers are exact."""

    @property
    def people(self) -> int:
        """How many people answer."""
        return len(next(iter(self.places.values())))


def read_places(
    collection: Collection,
    paths: Paths,
    columns: Mapping[str, str] | None = None,
    *,
    where: Filter | str | None = None,
    on_invalid: OnInvalid | str = "error",
) -> Simulated:
    """Read everybody's answers from the columns of a file.

    A question's column has the question's name unless `columns` says otherwise; a number by group needs the column of
    the group, too, as NAME.group. `where` says whose rows are taken, and `on_invalid` what becomes of values that the
    question does not know. Whoever is left out of one question is left out of all: a report answers each.
    """
    said = columns or {}
    read = partial(_read_codes, paths, where=where, on_invalid=on_invalid)
    places: dict[str, Codes] = {}
    parts: list[_Read] = []
    for question in collection.questions:
        name = question.name
        own = said.get(name, name)
        if question.range is None:
            parts.append(read(own, _domain_of(question), words=question.labels))
            places[name] = parts[-1].codes
            continue
        if f"{name}.group" not in said:
            raise DataError(f"{name} is by group: say which column has it, {name}.group=COLUMN")
        assert question.labels is not None
        groups = Categories(k=len(question.labels), names=question.labels)
        lower, upper = question.range
        values = read(own, Reals(lower=lower, upper=upper, steps=1))
        grouped = read(said[f"{name}.group"], groups)
        parts += [values, grouped]
        _check_lengths([values.codes, grouped.codes])
        places[name] = question.join_places(grouped.codes, values.codes)
    _check_lengths(places.values())
    kept = np.logical_and.reduce([each.kept for each in parts])
    if not kept.any():
        raise DataError(
            "nobody is left who answers every question; without on_invalid, the first invalid one is named"
        )
    return Simulated(
        places={name: codes[kept] for name, codes in places.items()},
        left_out=int(np.count_nonzero(~kept)),
        recoded=tuple(each.recoded for each in parts if each.recoded is not None),
    )


def _check_lengths(columns: Iterable[Codes]) -> None:
    if len({len(each) for each in columns}) != 1:
        raise MismatchError("the columns of the questions have different lengths")


def _domain_of(question: Question) -> Domain:
    if question.kind.bins and question.labels is not None:
        return Categories(k=len(question.labels), names=question.labels)
    return question.protocol.randomizer.domain


class _Read(NamedTuple):
    codes: Codes
    kept: Bools
    recoded: str | None


def _read_codes(
    paths: Paths,
    name: str,
    domain: Any,
    *,
    where: Filter | str | None,
    on_invalid: OnInvalid | str,
    words: Sequence[str] | None = None,
) -> _Read:
    """Read the codes of a column; the `words` of a yes or no are read, too, as the question has them."""
    from shuffledp.engine.chunks import add_invalid, code_chunk
    from shuffledp.engine.codes import Coder, OnInvalid
    from shuffledp.engine.columns import open_column, read_chunks
    from shuffledp.questions.remarks import tell_recoded

    coder = Coder.for_part(domain, OnInvalid.read(on_invalid))
    chunks = read_chunks(open_column(paths, name, where=where))
    if isinstance(domain, Bits) and words is not None:
        chunks = (chunk._replace(array=_translate(chunk.array, words)) for chunk in chunks)
    try:
        parts = [code_chunk(coder, chunk) for chunk in chunks]
    except DataError as error:
        drop = " (or true or false); to go on: on_invalid unknown=drop"
        said = f" is neither {' nor '.join(words or ())}{drop}"
        raise DataError(str(error).replace(_WHICH, said)) from None
    if not parts:
        whose = "" if where is None else f" where {where}"
        raise DataError(f"column {name!r} is empty{whose}")
    recoded = tell_recoded(coder.on_invalid, add_invalid(part.invalid() for part in parts))
    return _Read(
        codes=np.concatenate([part.codes for part in parts]),
        kept=np.concatenate([part.valid for part in parts]),
        recoded=None if recoded is None else f"column {name!r}: {recoded}",
    )


_WHICH = " is neither true nor false (true_value says which one is yes)"
"""The advice for files, which is wrong here: the question itself has words for no and yes."""


def _translate(array: Any, words: Sequence[str]) -> Any:
    """Replace a question's own words by "no" and "yes"."""
    import pyarrow.compute as pc

    from shuffledp.engine.values import flatten, is_text

    texts = flatten(array)
    if not is_text(texts.type):
        return array
    trimmed = pc.utf8_trim_whitespace(texts)
    for word, plain in zip(words, ("no", "yes"), strict=True):
        texts = pc.if_else(pc.equal(trimmed, word), plain, texts)
    return texts


def try_survey(
    survey: Survey,
    settings: Settings,
    paths: Paths,
    columns: Mapping[str, str] | None = None,
    source: WordSource | None = None,
    *,
    where: Filter | str | None = None,
    on_invalid: OnInvalid | str = "error",
) -> tuple[Collection, dict[str, Any], Simulated]:
    """Try a plan before anybody is asked: what a collection would publish if the people of a file answered.

    Messages are randomized and counted, and the noise of the servers is drawn, as in the real one; nothing is sealed or
    sent. This machine sees every value. `where` and `on_invalid` are those of `read_places`.
    """
    words = SecureWords() if source is None else source
    collection = _plan(survey, settings)
    read = partial(read_places, paths=paths, columns=columns, where=where, on_invalid=on_invalid)
    people = read(collection).people
    collection = _plan(survey, replace(settings, people=people, min_batch=None))
    # Planned for as many people as there are, grids may be others.
    read_again = read(collection)
    plains = np.concatenate(encode_many(collection, read_again.places, words))
    tallies = count_messages(collection, plains).tallies
    if collection.by_servers:
        sealed = add_noise(collection.questions, tallies, people, words)  # the shuffler's dummies
        tallies = add_noise(collection.questions, sealed, people, words)
    sampled = collection.pledge.one_question and not collection.by_servers
    answers = {
        question.name: answer_question(question, tally, people if sampled else None)
        for question, tally in zip(collection.questions, tallies, strict=True)
    }
    return collection, {"window": 0, "questions": answers}, read_again


def _plan(survey: Survey, settings: Settings) -> Collection:
    return make_collection(choose_protocols(survey, settings), settings)[0]


def make_decreasing_law(question: Question) -> Floats:
    """Return a made-up law that decreases from the first code to the last, so that all bars differ."""
    domain = question.protocol.randomizer.domain
    if isinstance(domain, Bits):
        return np.array([0.7, 0.3])
    weights: Floats = 1 / np.arange(1, domain.size + 1)
    return weights / float(weights.sum())


def seal_people(
    collection: Collection, window: int, places: Mapping[str, Codes]
) -> list[list[bytes]]:
    """Return the sealed messages of each of these people, randomized with secure words."""
    plains = encode_many(collection, places, SecureWords())
    return [
        [seal_inner(collection, window, row[person].tobytes()) for row in plains]
        for person in range(len(plains[0]))
    ]


def _start(raw: bytes) -> None:
    _worker["collection"] = Collection.read(raw)


class _Here(nullcontext[None]):
    """Stands in for a pool, and works in this process."""

    def __init__(self, collection: Collection) -> None:
        super().__init__()
        _worker["collection"] = collection

    def map(self, call: Callable[..., Any], *arguments: Iterable[Any]) -> Iterator[Any]:
        """Do the calls one after the other."""
        return map(call, *arguments)


def _seal(window: int, places: dict[str, Codes]) -> list[tuple[list[bytes], bytes]]:
    collection = _worker["collection"]
    return [
        (inners, seal_report(collection, window, inners))
        for inners in seal_people(collection, window, places)
    ]


def _pieces(places: Mapping[str, Codes]) -> Iterator[dict[str, Codes]]:
    people = len(next(iter(places.values())))
    for start in range(0, people, _PIECE):
        yield {name: each[start : start + _PIECE] for name, each in places.items()}


def send_people(
    collection: Collection,
    window: int,
    places: Mapping[str, Codes],
    *,
    each: int = MOST_REPORTS,
    keep: bool = False,
    workers: int | None = None,
) -> Sent:
    """Send everybody's report, `each` of them in an upload: sealed by processes, sent by threads."""
    sent = Sent()
    people = len(next(iter(places.values())))
    pool = _Here(collection) if people <= _FEW else start_pool(workers, _start, collection.raw)
    with pool, connect(collection.url) as client, ThreadPoolExecutor(4) as senders:

        def upload(group: Sequence[tuple[list[bytes], bytes]]) -> list[str | None]:
            body = join_upload(collection, [report for _, report in group])
            for _ in range(200):
                try:
                    return send_upload(collection, body, len(group), client)
                except WireError as error:
                    if error.reason != "busy":
                        raise
            raise WireError("busy", "the shuffler takes no more")

        groups: list[Sequence[tuple[list[bytes], bytes]]] = []
        waiting = []
        pieces = list(_pieces(places))
        for sealed in pool.map(_seal, [window] * len(pieces), pieces):
            for start in range(0, len(sealed), each):
                groups.append(sealed[start : start + each])
                waiting.append(senders.submit(upload, groups[-1]))
        for group, future in zip(groups, waiting, strict=True):
            _note(sent, group, future.result(), keep)
    return sent


def _note(
    sent: Sent,
    group: Iterable[tuple[list[bytes], bytes]],
    outcomes: Sequence[str | None],
    keep: bool,
) -> None:
    for (inners, _), outcome in zip(group, outcomes, strict=True):
        if outcome is None:
            sent.accepted += 1
            if keep:
                sent.inners.update(inners)
        else:
            sent.rejected[outcome] += 1


_PATIENCE = 600.0
_WORDS = 50  # that are made up


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """The outcome of a rehearsal."""

    people: int
    accepted: int
    rejected: dict[str, int]
    lost: int
    doubled: int
    epsilon: float
    delta: float
    local_epsilon: float
    """Infinite: there is no floor."""
    noise: str
    """Who added it: devices or servers."""
    bytes_per_report: int
    seconds: float
    questions: dict[str, list[dict[str, Any]]]

    @property
    def fine(self) -> bool:
        """Whether nothing was lost and nothing doubled."""
        return self.lost == 0 and self.doubled == 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        return plain | ({} if math.isfinite(self.local_epsilon) else {"local_epsilon": "none"})

    def _tell_floor(self) -> str:
        if math.isinf(self.local_epsilon):
            return "no floor"
        return f"local epsilon = {round_up(self.local_epsilon, 6)}"

    def __str__(self) -> str:
        lines = [
            f"{self.people:,} people, {self.accepted:,} reports accepted, {self.lost:,} lost, "
            f"{self.doubled:,} doubled, in {self.seconds:g} seconds.",
            f"epsilon = {round_up(self.epsilon, 6)}, delta = {round_up(self.delta, 3)}, "
            f"{self._tell_floor()}, for one report of each device in one window; the {self.noise} add the noise; "
            f"{self.bytes_per_report} bytes per report.",
        ]
        lines += [f"Rejected, {reason}: {number:,}" for reason, number in self.rejected.items()]
        for name, rows in self.questions.items():
            lines += ["", f"{name[:24]:<24} {'truth':>12} {'estimate':>12}   interval"]
            lines += [
                f"  {row['label'][:22]:<22} {write_digits(row['truth'], 4):>12} {write_digits(row['value'], 4):>12}   "
                f"{' .. '.join(format_bracket(row['low'], row['high'], 4))}"
                for row in rows
            ]
        return "\n".join(lines)


def rehearse(
    survey: Survey,
    settings: Settings,
    *,
    people: int,
    hostile: float = 0.0,
    say: Callable[[str], object] = lambda _: None,
) -> Rehearsal:
    """Play a survey with made-up people, a share of them hostile; `say` is called with each step that begins."""
    whole("people", people, at_least=2)
    if not 0 <= number("hostile", hostile) <= 0.5:
        raise ParameterError("hostile", hostile, "must be from 0 to 0.5")
    began = time.monotonic()
    settings = replace(
        settings,
        people=people,
        url=f"http://127.0.0.1:{find_port()}",
        start=int(time.time()) - 1,
        seconds=86_400,
        windows=1,
        reports_per_device=1,
        tokens=False,
        keys=1,
    )
    if settings.batch > people * (1 - hostile):
        raise UnsupportedError(
            f"min_batch={settings.batch:,} needs more than {people:,} people: nothing would be published"
        )
    say("choosing the protocols")
    design = choose_protocols(survey, settings)
    collection, shuffler, analyzer = make_collection(design, settings)
    with TemporaryDirectory(prefix="shuffledp-rehearsal-") as folder:
        home = Home(Path(folder) / "survey")
        home.create(collection, shuffler, analyzer)
        return _play(home, collection, people, hostile, began, say)


def _play(
    home: Home,
    collection: Collection,
    people: int,
    hostile: float,
    began: float,
    say: Callable[[str], object],
) -> Rehearsal:
    port = find_port()
    bad = round(people * hostile)
    places = _make_up(collection, people - bad)
    say("starting a shuffler and an analyzer")
    with play_roles(home, port):
        say(f"{people:,} devices answer")
        sent = send_people(collection, 0, places, keep=True)
        refused = Counter(sent.rejected)
        if bad:
            refused += _be_hostile(collection, bad)
        Operator(home).close()
        say("the analyzer fetches the batch and counts")
        result = _wait_for(port)
    lost, doubled = _compare(home, sent.inners)
    refused += Counter(result["dropped"])
    return Rehearsal(
        people=people,
        accepted=sent.accepted,
        rejected=dict(sorted(refused.items())),
        lost=lost,
        doubled=doubled,
        epsilon=collection.pledge.epsilon,
        delta=collection.pledge.delta,
        local_epsilon=collection.pledge.local_epsilon,
        noise=collection.pledge.noise.value,
        bytes_per_report=collection.report_size,
        seconds=round(time.monotonic() - began, 2),
        questions={
            question.name: _compare_answers(question, places[question.name], result)
            for question in collection.questions
        },
    )


def _make_up(collection: Collection, people: int) -> dict[str, Codes]:
    """Make up answers of people, more of them among the first than among the last."""
    source = np.random.default_rng(int.from_bytes(os.urandom(8), "big"))
    places: dict[str, Codes] = {}
    for question in collection.questions:
        domain = question.protocol.randomizer.domain
        shares = source.beta(2.0, 4.0, people)
        numbers = np.rint(shares * (1 << PLACE_BITS)).astype(np.int64)
        if question.spelling is not None:
            places[question.name] = _make_up_words(question.spelling, people, source)
        elif isinstance(domain, Reals):
            places[question.name] = numbers
        elif question.by_tree:
            places[question.name] = np.floor(shares * domain.size).astype(np.int64)
        elif question.range is not None:
            groups = source.integers(0, domain.size // 2, people)
            places[question.name] = question.join_places(groups, numbers)
        else:
            places[question.name] = source.choice(
                domain.size, people, p=make_decreasing_law(question)
            )
    return places


def _make_up_words(spelling: Texts | Keys, people: int, source: np.random.Generator) -> Codes:
    """Make up words of random letters or digits: half of the people have the first, a quarter the second, and so on."""
    if isinstance(spelling, Keys):
        words = source.integers(0, spelling.size, _WORDS, dtype=np.uint64, endpoint=False)
        texts = [str(each) for each in words]
    else:
        letters = source.integers(
            ord("a"), ord("z") + 1, (_WORDS, spelling.max_length), dtype=np.uint8
        )
        texts = [row.tobytes().decode() for row in letters]
    which = np.minimum(source.geometric(0.5, people), _WORDS) - 1
    codes: Codes = spelling.codes(np.array(texts, dtype=object))[which]
    return codes


def _be_hostile(collection: Collection, reports: int) -> Counter[str]:
    """Send garbage, replays, and messages that no honest device sends; returns what is refused at once, by reason."""
    refused: Counter[str] = Counter()
    codes = {each.name: np.zeros(reports, dtype=np.int64) for each in collection.questions}
    people = seal_people(collection, 0, codes)
    junk = bytes([255]) * (1 + collection.message_size)
    with connect(collection.url) as client:
        for number_, inners in enumerate(people):
            good = seal_report(collection, 0, inners)
            kind = number_ % 5
            if kind == 0:
                body = join_upload(collection, [good[:-1] + bytes([good[-1] ^ 1])])
            elif kind == 1:
                body = join_upload(collection, [bytes([9]) + good[1:]])
            elif kind == 2:
                strange = [seal_inner(collection, 0, junk) for _ in inners]
                body = join_upload(collection, [seal_report(collection, 0, strange)])
            elif kind == 3:
                garbage = [os.urandom(len(each)) for each in inners]
                body = join_upload(collection, [seal_report(collection, 0, garbage)])
            else:
                body = join_upload(collection, [good])[:-3]
            for _ in range(2):  # everything twice: replays
                try:
                    outcomes = send_upload(collection, body, 1, client)
                except WireError as error:
                    outcomes = [error.reason]
            refused.update(each for each in outcomes if each is not None)
    return refused


def _wait_for(port: int) -> dict[str, Any]:
    end = time.monotonic() + _PATIENCE
    with connect(f"http://127.0.0.1:{port}") as client:
        while time.monotonic() < end:
            results: list[dict[str, Any]] = client.get("/results.json").json()["results"]
            if results:
                return results[0]
            states = client.get("/status").json()
            if "refused" in states["windows"].values():
                raise UnsupportedError("after dropping bad messages fewer than min_batch were left")
            time.sleep(0.1)
    raise UnsupportedError(f"the analyzer published nothing: {states['waiting']}")


def _compare(home: Home, acknowledged: set[bytes]) -> tuple[int, int]:
    """Count messages that were acknowledged and are not in the batch, and those that are there more than once."""
    batch = (home.analyzer / "batch-0.bin").read_bytes()
    size = home.collection().inner_size
    seen = Counter(batch[place : place + size] for place in range(0, len(batch), size))
    lost = sum(1 for inner in acknowledged if seen[inner] == 0)
    doubled = sum(1 for inner in acknowledged if seen[inner] > 1)
    return lost, doubled


def _compare_answers(
    question: Question, places: Codes, result: dict[str, Any]
) -> list[dict[str, Any]]:
    rows = result["questions"][question.name]["estimate"]
    published = read_estimate(question, result)
    truths = np.atleast_1d(question.asks.align(published, question.read_values(places)))
    shown = ("value", "low", "high")
    return [
        {"label": row["label"], "truth": truth, **{name: row[name] for name in shown}}
        for row, truth in zip(rows, truths.tolist(), strict=True)
    ]
