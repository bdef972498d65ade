"""The dress rehearsal: a survey from beginning to end on this machine, before it goes live.

Real servers on loopback, real stores and processes, simulated devices with made-up answers, some of them hostile.
Every message that was acknowledged is looked for in the batch that the analyzer got: one that is missing is lost, one
that is there twice is doubled.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp.core.domain import PLACE_BITS, Reals
from shuffledp.core.errors import ParameterError, UnsupportedError, WireError
from shuffledp.core.privacy import round_up
from shuffledp.core.texts import Keys
from shuffledp.core.validate import number, whole
from shuffledp.live.design import choose_protocols, make_collection
from shuffledp.live.results import read_estimate
from shuffledp.live.serve.client import Operator, connect, send_upload
from shuffledp.live.serve.folders import Home, find_port, play_roles
from shuffledp.live.serve.simulate import make_decreasing_law, seal_people, send_people
from shuffledp.live.wire.report import join_upload, seal_inner, seal_report

if TYPE_CHECKING:
    from collections.abc import Callable

    from shuffledp.core.arrays import Codes
    from shuffledp.core.texts import Texts
    from shuffledp.live.design import Settings
    from shuffledp.live.wire.document import Collection
    from shuffledp.live.wire.question import Question
    from shuffledp.questions import Survey

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
            f"{self._tell_floor()}; the {self.noise} add the noise; {self.bytes_per_report} bytes per report.",
        ]
        lines += [f"Rejected, {reason}: {number:,}" for reason, number in self.rejected.items()]
        for name, rows in self.questions.items():
            lines += ["", f"{name[:24]:<24} {'truth':>12} {'estimate':>12}   interval"]
            lines += [
                f"  {row['label'][:22]:<22} {row['truth']:>12,.4g} {row['value']:>12,.4g}   "
                f"{row['low']:,.4g} .. {row['high']:,.4g}"
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
    """Play a survey with made-up people, a share of them hostile; `say` is told what begins."""
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
