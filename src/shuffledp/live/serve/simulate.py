"""Many simulated devices on one machine: everybody of a file, or of a rehearsal, sends a report."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp.core.domain import Bits, Categories, Reals
from shuffledp.core.errors import DataError, MismatchError, WireError
from shuffledp.live.analyzer import answer_question, count_messages
from shuffledp.live.design import make_collection
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

    from shuffledp.core.arrays import Codes, Floats
    from shuffledp.core.domain import Domain
    from shuffledp.core.randomizer import WordSource
    from shuffledp.engine import Paths
    from shuffledp.live.design import SurveyFile
    from shuffledp.live.wire.question import Question

__all__ = [
    "Sent",
    "make_decreasing_law",
    "read_places",
    "seal_people",
    "send_people",
    "try_survey",
]

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


def read_places(
    collection: Collection, paths: Paths, columns: Mapping[str, str] | None = None
) -> dict[str, Codes]:
    """Everybody's answers from the columns of a file.

    The column of a question has its name if not said; a number by group needs the column of the group, too, which is
    said as that of NAME.group.
    """
    said = columns or {}
    found: dict[str, Codes] = {}
    for question in collection.questions:
        name = question.name
        own = said.get(name, name)
        if question.range is None:
            found[name] = _read_codes(paths, own, _domain_of(question))
            continue
        if f"{name}.group" not in said:
            raise DataError(f"{name} is by group: say which column has it, {name}.group=COLUMN")
        assert question.labels is not None
        groups = Categories(k=len(question.labels), names=question.labels)
        lower, upper = question.range
        values = _read_codes(paths, own, Reals(lower=lower, upper=upper, steps=1))
        group_codes = _read_codes(paths, said[f"{name}.group"], groups)
        _check_lengths([values, group_codes])
        found[name] = question.join_places(group_codes, values)
    _check_lengths(found.values())
    return found


def _check_lengths(columns: Iterable[Codes]) -> None:
    if len({len(each) for each in columns}) != 1:
        raise MismatchError("the columns of the questions have different lengths")


def _domain_of(question: Question) -> Domain:
    if question.kind.bins and question.labels is not None:
        return Categories(k=len(question.labels), names=question.labels)
    return question.protocol.randomizer.domain


def _read_codes(paths: Paths, name: str, domain: Any) -> Codes:
    from shuffledp.engine.chunks import code_chunk
    from shuffledp.engine.codes import Coder, OnInvalid
    from shuffledp.engine.columns import open_column, read_chunks

    coder = Coder(domain=domain, on_invalid=OnInvalid.ERROR)
    try:
        parts = [code_chunk(coder, chunk).codes for chunk in read_chunks(open_column(paths, name))]
    except DataError as error:  # devices send what is valid, and have no other way to go on
        raise DataError(str(error).partition("; to go on")[0]) from error
    if not parts:
        raise DataError(f"column {name!r} is empty")
    return np.concatenate(parts)


def try_survey(
    survey: SurveyFile,
    paths: Paths,
    columns: Mapping[str, str] | None = None,
    source: WordSource | None = None,
) -> tuple[Collection, dict[str, Any]]:
    """What a collection would publish if the people of a file answered: a plan, tried before anybody is asked.

    Messages are randomized and counted, and the noise of the servers is drawn, as in the real one; nothing is sealed or
    sent. This machine sees every value.
    """
    words = SecureWords() if source is None else source
    collection = _plan(survey)
    people = len(next(iter(read_places(collection, paths, columns).values())))
    settings = replace(survey.settings, people=people, min_batch=None)
    collection = _plan(replace(survey, settings=settings))
    # Planned for as many people as there are, grids may be others.
    places = read_places(collection, paths, columns)
    plains = np.concatenate(encode_many(collection, places, words))
    tallies = count_messages(collection, plains).tallies
    if collection.by_servers:
        sealed = add_noise(collection.questions, tallies, people, words)  # the shuffler's dummies
        tallies = add_noise(collection.questions, sealed, people, words)
    sampled = collection.pledge.one_question and not collection.by_servers
    answers = {
        question.name: answer_question(question, tally, people if sampled else None)
        for question, tally in zip(collection.questions, tallies, strict=True)
    }
    return collection, {"window": 0, "questions": answers}


def _plan(survey: SurveyFile) -> Collection:
    return make_collection(survey.choose_protocols(), survey.settings)[0]


def make_decreasing_law(question: Question) -> Floats:
    """A made-up law of its codes that falls off from the first to the last, so that every bar is different."""
    domain = question.protocol.randomizer.domain
    if isinstance(domain, Bits):
        return np.array([0.7, 0.3])
    weights: Floats = 1 / np.arange(1, domain.size + 1)
    return weights / float(weights.sum())


def seal_people(
    collection: Collection, window: int, places: Mapping[str, Codes]
) -> list[list[bytes]]:
    """The sealed messages of each of these people, randomized with secure words."""
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
        """One after the other."""
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
    """Everybody's report, `each` of them in an upload: sealed by processes, sent by threads."""
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
