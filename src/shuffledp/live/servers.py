"""Plans whose noise comes from the servers: which bins each question has, and the law of what is added to them.

A message is one bin: a category, a yes or no, a cell, or a point of a coarse grid of numbers. The number of
points is the one with the smallest error, and the number of cells the one with the shortest interval: few people get
few. All questions of a report share the promise, in which a count takes half as much as bins do, and the floor, if
there is one. If a report answers one random question, that question has all of both.

A histogram whose categories would need more messages than a server may add is hashed (`protocols.server_hashing`).
Messages that support few categories have the smallest error, but need the most dummies.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from shuffledp.accounting.server_noise import (
    AddedLaw,
    Moved,
    Scattered,
    bound_delta,
    calibrate_noise,
)
from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Counts
from shuffledp.core.domain import Cells, Domain, Integers
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import Shuffled, WordSource
from shuffledp.core.task import Task
from shuffledp.live.wire.noise import MOST_DUMMIES, Added, Dummies, DummyKind, HashedDummies
from shuffledp.live.wire.promise import Pledge, set_served_aside
from shuffledp.live.wire.question import Question as WireQuestion
from shuffledp.numerics.leaves import ask_leaves
from shuffledp.numerics.tabulated import CutLaplace
from shuffledp.protocols.server_hashing import (
    TASK,
    AmongHashed,
    HashedBin,
    choose_hashing,
    find_added,
    make_server_hashing,
)
from shuffledp.protocols.server_noise import make_server_noise
from shuffledp.questions import Question

_Asked: TypeAlias = Sequence[tuple[Question, Task]]
"""The questions of a survey, with what devices are asked."""

_POINTS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64)
_CELLS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
_WORTH = 0.75  # integers share cells if intervals are shorter by that
_HOPELESS = 1.5  # times the shortest interval: finer cells are longer yet
_USELESS = 0.5  # of everybody, or of the range, as a standard error
_LEVEL = 0.95
_BELOW = 1 - 1e-12  # so that floors that are rounded up do not add up to more
_OF_HASHING = ("r", "s", "width")
_FEW = 64  # categories: hashing would need as many dummies as they do
_START = 1 / 1024  # of all categories that a message supports, to find how many dummies must
_MORE = (1.0005, 1.002, 1.008)  # times as many: the law is not quite Poisson's
_SPARE = 1.01  # so that they fit
_FINER = 1.1  # from one share that is tried to the next
_ENOUGH = 1.01  # times the smallest standard error: fewer dummies are worth it


def serve_questions(
    questions: Sequence[Question], tasks: Sequence[Task], pledge: Pledge, people: int
) -> tuple[ShuffleProtocol, ...]:
    """Return the protocol of each question, with the noise that keeps the promise, or `UnsupportedError`.

    The pledge says what the floor is (infinite: there is none), and whether a report answers one random question.
    """
    asked: _Asked = list(zip(questions, tasks, strict=True))
    for question, task in asked:
        _check(question, task)
    one, floor = pledge.one_question, pledge.local_epsilon
    weights = [question.weight or 1.0 for question in questions]
    total = math.fsum(weights)
    floors: list[float | None] = [
        None if math.isinf(floor) else floor if one else floor * weight / total * _BELOW
        for weight in weights
    ]
    parts = len(asked) if one else 1
    times = pledge.reports_per_device if pledge.composed else 1
    # What each question may have of the promise, if all had two numbers that change: to choose grids by.
    shares = [1.0 if one else weight / total / times for weight in weights]
    given = [
        _choose_bins(task, epsilon0, people, pledge.epsilon * share, pledge.delta * share, parts)
        for task, epsilon0, share in zip(tasks, floors, shares, strict=True)
    ]
    able = _list_hashable(asked, given)
    made = _add_laws(asked, given, pledge)
    if able and math.isfinite(floor):  # of many categories it also errs less with a floor
        hashed = _hash_some(given, able)
        tried = _fit_hashing(asked, hashed, pledge, people)
        if _count(tried) <= MOST_DUMMIES and _err(tried, able, people) < _err(made, able, people):
            return tried
    while _count(made) > MOST_DUMMIES:
        given = _hash_largest(asked, given, made)
        made = _fit_hashing(asked, given, pledge, people)
    return made


def _list_hashable(asked: _Asked, given: Sequence[dict[str, Any]]) -> list[int]:
    """Return the places of the histograms that have enough categories for hashing to help."""
    return [
        place
        for place, ((_, task), bins) in enumerate(zip(asked, given, strict=True))
        if task.document_name == bins["task"] == TASK and bins["k"] > _FEW and "s" not in bins
    ]


def _err(made: Sequence[ShuffleProtocol], places: Sequence[int], people: int) -> float:
    """Return the largest variance of some of the histograms."""
    spread = (
        made[place].analyzer.variance(_spread(people, made[place].randomizer.domain.size))
        for place in places
    )
    return max(float(np.max(each)) for each in spread)


def _add_laws(
    asked: _Asked, given: Sequence[dict[str, Any]], pledge: Pledge
) -> tuple[ShuffleProtocol, ...]:
    """Return the protocols with the laws that keep the promise."""
    moved, left, times = _read_promise(asked, given, pledge)
    if pledge.one_question:
        laws = [calibrate_noise([each], epsilon=pledge.epsilon, delta=left)[0] for each in moved]
    else:
        laws = list(calibrate_noise(moved, epsilon=pledge.epsilon, delta=left, times=times))
    return tuple(_make(own, law) for own, law in zip(given, laws, strict=True))


def _read_promise(
    asked: _Asked, given: Sequence[dict[str, Any]], pledge: Pledge
) -> tuple[list[Moved], float, int]:
    """Return what each answer changes, what of delta is left for uniform words, and how often a device answers."""
    times = pledge.reports_per_device if pledge.composed else 1
    words = sum(
        MOST_DUMMIES if "s" in own else 2 * _make(own, _ANY).randomizer.domain.size for own in given
    )
    left = set_served_aside(words, (1 + 3 * len(asked)) * times, pledge)
    moved = [
        _move(own, question.weight or 1.0) for (question, _), own in zip(asked, given, strict=True)
    ]
    return moved, left, times


def _count(made: Sequence[ShuffleProtocol]) -> int:
    return sum(describe_dummies(each).mean_total for each in made)


def _hash_largest(
    asked: _Asked,
    given: Sequence[dict[str, Any]],
    made: Sequence[ShuffleProtocol],
) -> list[dict[str, Any]]:
    """Hash the histogram with the most dummies of those that are not hashed yet, or raise `UnsupportedError`."""
    able = _list_hashable(asked, given)
    if not able:
        raise _refuse(asked, [describe_dummies(each) for each in made])
    chosen = max(able, key=lambda place: describe_dummies(made[place]).mean_total)
    return _hash_some(given, [chosen])


def _hash_some(given: Sequence[dict[str, Any]], places: Sequence[int]) -> list[dict[str, Any]]:
    return [_hash(own, _START) if place in places else own for place, own in enumerate(given)]


def _hash(given: dict[str, Any], support: float) -> dict[str, Any]:
    """Return the parameters with the hashing whose messages support about this share of the categories."""
    hashing = choose_hashing(given["k"], support)
    return {**given, "r": hashing.r, "s": hashing.s, "width": hashing.width}


def _fit_hashing(
    asked: _Asked,
    given: list[dict[str, Any]],
    pledge: Pledge,
    people: int,
) -> tuple[ShuffleProtocol, ...]:
    """Return the protocols whose hashed messages support as few categories as the limit of dummies allows.

    How many messages must support a category hardly depends on how many there are. So they are found for some
    share first, and divided by the one that has the smallest error.
    """
    made = _add_laws(asked, given, pledge)
    hashed = [place for place, own in enumerate(given) if "s" in own]
    room = MOST_DUMMIES - _count([each for place, each in enumerate(made) if place not in hashed])
    if room <= 0:
        return made  # one more has to be hashed
    for place in hashed:
        analyzer = made[place].analyzer
        assert isinstance(analyzer, AmongHashed)
        given[place] = _hash(given[place], _choose_support(analyzer, people, room / len(hashed)))
    return _move_laws(asked, given, made, pledge) or _add_laws(asked, given, pledge)


def _move_laws(
    asked: _Asked,
    given: Sequence[dict[str, Any]],
    made: Sequence[ShuffleProtocol],
    pledge: Pledge,
) -> tuple[ShuffleProtocol, ...] | None:
    """Return the protocols with about as many messages that support a category as before, if that keeps the promise.

    It is much faster than to look for the fewest again, where several answers are composed.
    """
    moved, left, times = _read_promise(asked, given, pledge)
    if pledge.one_question or times * len(asked) == 1:
        return None
    before = [find_added(each)[1] for each in made]
    for more in _MORE:
        laws = [_scale(law, part, more) for law, part in zip(before, moved, strict=True)]
        delta = bound_delta(moved, laws, epsilon=pledge.epsilon, near=left, times=times)
        if delta <= left:
            return tuple(_make(own, law) for own, law in zip(given, laws, strict=True))
    return None


def _scale(law: AddedLaw, part: Moved, more: float) -> AddedLaw:
    if part.support is None or isinstance(law, CutLaplace):
        return law
    wanted = more * float(law.variance / (part.support * (1 - part.support)))
    return Scattered(messages=math.ceil(wanted), support=part.support)


def _choose_support(analyzer: AmongHashed, people: int, room: float) -> float:
    """Return the largest share whose standard error is at most 1 % above the smallest, within `room` for dummies."""
    own = float(analyzer.device.q)
    level = analyzer.messages * own * (1 - own)
    least = min(level / room * _SPARE, 0.5)
    count = math.ceil(math.log(0.5 / least) / math.log(_FINER))
    errors: dict[float, float] = {}
    for support in [least * (0.5 / least) ** (step / max(count, 1)) for step in range(count + 1)]:
        hashing = choose_hashing(analyzer.device.k, support)
        q = float(hashing.q)
        floor = analyzer.device.floor
        device = HashedBin(k=hashing.k, r=hashing.r, s=hashing.s, width=hashing.width, floor=floor)
        tried = AmongHashed(
            device=device, messages=math.ceil(level / (q * (1 - q))), parts=analyzer.parts
        )
        errors[support] = math.sqrt(tried.spread(0.0, float(people)))
    best = min(errors.values())
    return max(support for support, error in errors.items() if error <= _ENOUGH * best)


_ANY = CutLaplace(rate=1.0, most=1)


def _check(question: Question, task: Task) -> None:
    if not task.listed:
        raise UnsupportedError(
            f"question {question.name!r}: words cannot have noise of the servers, since nobody can list their bins: "
            'write noise = "devices"'
        )
    if question.protocol is not None:
        raise UnsupportedError(
            f"question {question.name!r}: protocol = {question.protocol!r} is for noise of the devices; with that of the "
            "servers a message is one bin"
        )


def _refuse(asked: _Asked, laws: Sequence[Added]) -> UnsupportedError:
    total = sum(law.mean_total for law in laws)
    law, name = max(
        ((law, question.name) for law, (question, _) in zip(laws, asked, strict=True)),
        key=lambda pair: pair[0].mean_total,
    )
    return UnsupportedError(
        f"each server would add {total:,} messages to a window, more than {MOST_DUMMIES:,}, even if all histograms of "
        f"more than {_FEW} categories are hashed: {law.mean_total:,} of them to question {name!r}. Ask fewer questions, or "
        'for fewer cells or reports of a device, or write noise = "devices", with a floor (local_epsilon = 3)'
    )


def _make(given: dict[str, Any], law: AddedLaw) -> ShuffleProtocol:
    if isinstance(law, CutLaplace):
        own = {name: value for name, value in given.items() if name not in _OF_HASHING}
        return make_server_noise(**own, rate=law.rate, most=law.most)
    own = {name: value for name, value in given.items() if name != "task"}
    return make_server_hashing(**own, messages=law.messages)


def _move(given: dict[str, Any], weight: float) -> Moved:
    law = _ANY if "s" not in given else Scattered(messages=1, support=Fraction(1, 2))
    return replace(find_added(_make(given, law))[0], weight=weight)


def _choose_bins(
    task: Task,
    epsilon0: float | None,
    people: int,
    epsilon: float,
    delta: float,
    parts: int,
) -> dict[str, Any]:
    """Return the parameters of the protocol without its noise."""
    common = {"epsilon": epsilon0, "parts": parts}
    arguments = task.arguments()
    if task.yes_or_no:
        return {"task": "count", **common}
    if task.adds:
        ends = {"lower": float(arguments["lower"]), "upper": float(arguments["upper"])}
        number = {"task": task.document_name, **ends, **common}
        steps = min(
            (points - 1 for points in _POINTS),
            key=lambda steps: _foresee({**number, "steps": steps}, people, epsilon, delta),
        )
        return {**number, "steps": steps}
    if Cells in task.live:
        cells = {name: arguments[name] for name in ("lower", "upper", "at")}
        known = {name: each for name, each in cells.items() if each is not None}
        question = {"task": task.document_name, **known, **common}
        return _choose_cells(question, task.domain, people, epsilon, delta)
    return {"task": "histogram", "k": task.domain.size, **common}


def _choose_cells(
    given: dict[str, Any], domain: Domain, people: int, epsilon: float, delta: float
) -> dict[str, Any]:
    """Return the parameters with the cells that make the shortest interval: few have little noise, many are narrow."""
    coarse = [{**given, "steps": steps} for steps in _CELLS if steps < domain.size]
    own = {**given, "steps": domain.size} if isinstance(domain, Cells) else given
    tried = [*coarse, own] if domain.size <= _CELLS[-1] else coarse
    best, shortest = tried[0], math.inf
    for each in tried:
        length = _measure_cells(each, people, epsilon, delta)
        worth = _WORTH if each is given else 1.0
        if worth * length <= shortest and length < math.inf:
            best, shortest = each, length
        if length > _HOPELESS * shortest and each is not tried[-1]:
            break
    return best


def _measure_cells(given: dict[str, Any], people: int, epsilon: float, delta: float) -> float:
    """Return the mean length of the answer's intervals if people are spread evenly.

    Infinite where the floor alone is enough, or the noise is so large that every interval is as long as can be.
    """
    made = _fit(given, epsilon, delta)
    if made is None:
        return math.inf
    domain = made.randomizer.domain
    assert isinstance(domain, Integers | Cells)  # as that of all questions about cells
    assert made.offers.foresee is not None
    counts = _spread(people, domain.size)
    error = math.sqrt(float(np.max(made.analyzer.variance(counts))))
    if error > _USELESS * ask_leaves(given["task"]).relate(domain, people):
        return math.inf
    low, high = made.offers.foresee(counts).exact_interval(_LEVEL)
    return float(np.mean(np.asarray(high) - np.asarray(low)))


def _fit(given: dict[str, Any], epsilon: float, delta: float) -> ShuffleProtocol | None:
    """Return the protocol of a question with this promise of its own; None where the floor alone keeps it."""
    moved = _move(given, 1.0)
    if moved.floor <= epsilon:
        return None
    return _make(given, calibrate_noise([moved], epsilon=epsilon, delta=delta)[0])


def _spread(people: int, size: int) -> Counts:
    counts = np.full(size, people // size, dtype=np.int64)
    counts[: people - int(counts.sum())] += 1
    return counts


def _foresee(given: dict[str, Any], people: int, epsilon: float, delta: float) -> float:
    """Return a number's variance on this grid if answers are mixed; infinite where the floor alone is enough."""
    made = _fit(given, epsilon, delta)
    if made is None:
        return math.inf
    return float(np.max(made.analyzer.variance(_spread(people, made.randomizer.domain.size))))


def describe_dummies(protocol: ShuffleProtocol) -> Added:
    """Return the law of what each server adds to the bins of this protocol.

    >>> describe_dummies(make_server_noise(task="count", rate=1.0, most=18)).mean_total
    36
    """
    moved, law = find_added(protocol)
    if isinstance(law, Scattered):
        given = protocol.parameters
        hashing = {name: given[name] for name in _OF_HASHING}
        return HashedDummies(messages=law.messages, **hashing)
    kind = DummyKind.COUNT if moved.moves == 1 else DummyKind.BINS
    bins = protocol.randomizer.domain.size
    return Dummies(kind=kind, bins=bins, rate=law.rate, most=law.most)


def add_noise(
    questions: Sequence[WireQuestion], tallies: Sequence[Tally], reports: int, source: WordSource
) -> tuple[Tally, ...]:
    """Add the analyzer's own noise to the tallies of so many reports: only these may leave it, or be stored.

    `tallies` have the messages of people and the shuffler's dummies. Call it once for a window, for ever: two draws for
    the same reports would tell more than either.
    """
    noisy = []
    for question, tally in zip(questions, tallies, strict=True):
        assert question.noise is not None  # as of all questions of such a collection
        own = question.noise.make(source)
        added = question.protocol.analyzer.tally(Shuffled(payload=own, users=len(own)))
        noisy.append(Tally(counts=tally.counts + added.counts, users=reports))
    return tuple(noisy)
