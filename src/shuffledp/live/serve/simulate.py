"""Many simulated devices on one machine: everybody of a file, or of a rehearsal, sends a report."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from shuffledp.core.domain import Bits, Categories, Reals
from shuffledp.core.errors import DataError, MismatchError, WireError
from shuffledp.live.analyzer import count_messages
from shuffledp.live.design import choose_protocols, make_collection
from shuffledp.live.results import answer_question
from shuffledp.live.serve.client import connect, send_upload
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
    from shuffledp.engine import Filter, OnInvalid, Paths
    from shuffledp.live.design import Settings
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
    """What everybody of a file answers, and what must be said about how it was read."""

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

    The column of a question has its name if not said; a number by group needs the column of the group, too, which is
    said as that of NAME.group. `where` says whose rows are taken, and `on_invalid` what becomes of values that the
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
            "nobody is left who answers every question; without on_invalid, the first invalid value is named"
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
"""Of which devices know the answer: the question has words for no and yes."""


def _translate(array: Any, words: Sequence[str]) -> Any:
    """Put "no" and "yes" for a question's own words."""
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
    """Return what a collection would publish if the people of a file answered: a plan, tried before anybody is asked.

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
    """Return a made-up law of its codes that decreases from the first to the last, so that every bar is different."""
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
    """In place of a pool: this process."""

    def __init__(self, collection: Collection) -> None:
        super().__init__()
        _worker["collection"] = collection

    def map(self, call: Callable[..., Any], *arguments: Iterable[Any]) -> Iterator[Any]:
        """Do one after the other."""
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
