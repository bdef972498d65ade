"""The protocol to take, ready to run: one chooser for plans, for `sdp.count` and its like, and for runs.

The usual winners come first. One of them is taken at once if its error is within a quarter of what even a curator would
have with the honest users' noise, and it sends hardly more bits than the value itself has. Otherwise all are evaluated,
and among those with nearly the smallest error the one with the fewest bits is taken.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from enum import Enum

from shuffledp import protocols
from shuffledp.core.domain import Bits, Categories
from shuffledp.core.errors import ShuffledpError, UnsupportedError
from shuffledp.core.privacy import Model
from shuffledp.core.protocol import HONEST, Look, Mechanism, ShuffleProtocol
from shuffledp.core.task import Task
from shuffledp.core.validate import fraction_of_one
from shuffledp.planner.question import (
    MOST_VALUES,
    Candidate,
    Limits,
    Problem,
    candidates,
    curators,
    list_early,
)
from shuffledp.planner.rows import Row, evaluate, explain_all, measure
from shuffledp.tasks import Count, Histogram, Mean, Sum, Words

SAME = 1.25
"""Errors up to this many times the smallest count as equal."""
EQUAL = 1.01
"""The same for files, where bits cost nothing: what searches for the largest epsilon leave open."""
_SAME_SEARCHED = 1.002  # what the searches for epsilon and n leave open
_FEW_BITS = 4.0  # times the bits of the value itself


def count(
    *,
    n: int,
    epsilon: float,
    delta: float,
    honest: float = HONEST,
    max_messages: float | None = None,
) -> ShuffleProtocol:
    """Choose a protocol that counts how many of n people say yes.

    >>> count(n=1_000_000, epsilon=1.0, delta=1e-8).name
    'correlated_count'
    """
    task = Count(domain=Bits())
    return _choose_shuffled(task, n, epsilon, delta, honest, max_messages)


def histogram(
    *,
    n: int,
    k: int,
    epsilon: float,
    delta: float,
    honest: float = HONEST,
    max_messages: float | None = None,
) -> ShuffleProtocol:
    """Choose a protocol that counts how many of n people hold each of k categories.

    Beyond four million categories it is the hashed blanket: neither its error nor its messages grow with k.

    >>> histogram(n=1_000_000, k=1024, epsilon=1.0, delta=1e-8).name
    'correlated_histogram'
    >>> histogram(n=1_000_000, k=10**9, epsilon=1.0, delta=1e-8).name
    'hashed_histogram'
    """
    task = Histogram(domain=Categories(k=k))
    return _choose_shuffled(task, n, epsilon, delta, honest, max_messages)


def sum(
    *,
    n: int,
    lower: float,
    upper: float,
    epsilon: float,
    delta: float,
    steps: int | None = None,
    honest: float = HONEST,
    max_messages: float | None = None,
) -> ShuffleProtocol:
    """Choose a protocol that adds up n numbers in [lower, upper]: integers, or reals on `steps` steps.

    >>> sum(n=100_000, lower=0, upper=120, epsilon=1.0, delta=1e-8).name
    'split_and_mix'
    """
    task = Sum.declare({"lower": lower, "upper": upper, "steps": steps}).task
    return _choose_shuffled(task, n, epsilon, delta, honest, max_messages)


def mean(
    *,
    n: int,
    lower: float,
    upper: float,
    epsilon: float,
    delta: float,
    steps: int | None = None,
    honest: float = HONEST,
    max_messages: float | None = None,
) -> ShuffleProtocol:
    """Choose a protocol that averages n numbers in [lower, upper]: integers, or reals on `steps` steps.

    >>> mean(n=100_000, lower=0.0, upper=1.0, steps=1000, epsilon=1.0, delta=1e-8).task
    'mean'
    """
    task = Mean.declare({"lower": lower, "upper": upper, "steps": steps}).task
    return _choose_shuffled(task, n, epsilon, delta, honest, max_messages)


def words(
    *,
    n: int,
    epsilon: float,
    delta: float,
    alphabet: str | None = None,
    max_length: int | None = None,
    bits: int | None = None,
    honest: float = HONEST,
    max_messages: float | None = None,
) -> ShuffleProtocol:
    """Choose a protocol that finds the words that many of n people have, without a list of words.

    Words are texts of up to `max_length` bytes over an `alphabet` (letters, word, ascii or utf-8), or integers of up to
    64 `bits`.

    >>> protocol = words(n=100_000, alphabet="letters", max_length=12, epsilon=1.0, delta=1e-8)
    >>> protocol.name, protocol.analyzer.predict(100_000).find_count(0.95) < 250
    ('hashed_prefixes', True)
    """
    options = {"alphabet": alphabet, "max_length": max_length, "bits": bits}
    task = Words.declare(options).task
    return _choose_shuffled(task, n, epsilon, delta, honest, max_messages)


def _choose_shuffled(
    task: Task, n: int, epsilon: float, delta: float, honest: float, max_messages: float | None
) -> ShuffleProtocol:
    made = choose(task, n=n, epsilon=epsilon, delta=delta, honest=honest, max_messages=max_messages)
    assert isinstance(made, ShuffleProtocol)
    return made


def choose(
    task: Task,
    *,
    n: int,
    epsilon: float,
    delta: float = 0.0,
    honest: float = HONEST,
    model: Model | str = Model.SHUFFLE,
    protocol: str | None = None,
    max_messages: float | None = None,
    max_bits: float | None = None,
    for_file: bool = False,
) -> ShuffleProtocol | Mechanism:
    """Return the best protocol (or mechanism) of a model that answers exactly this task, or the one named.

    It is the row that `sdp.plan` chooses with the same limits, found without looking at the rest where it can be.
    For a file, whose people send nothing, it is `Plan.on_file`: the error decides, and not the bits. With a delta
    of 0 only protocols that need none are left.

    >>> choose(Count(domain=Bits()), n=1_000_000, epsilon=1.0, delta=1e-8).name
    'correlated_count'
    >>> choose(Count(domain=Bits()), n=1_000_000, epsilon=1.0, model="central").name
    'geometric'
    """
    limits = Limits.of(models=model, max_messages=max_messages, max_bits=max_bits)
    (trusted,) = limits.models
    if trusted is Model.SHUFFLE and delta:
        fraction_of_one("delta", delta)
    task = task.fit(n, epsilon)
    asked = Problem.of(_shrink(task), n=n, epsilon=epsilon, delta=delta, honest=honest)
    if protocol is not None:
        return _make(_find_named(protocol, trusted, task), task, asked, limits)
    rows: list[Row] = []

    def look(candidate: Candidate) -> Row:
        rows.append(evaluate(candidate, asked, limits))
        return rows[-1]

    if for_file and task == asked.task:
        best = pick_for_file(asked, trusted, look)
    else:
        best = choose_row(
            map(look, _list_fitting(task, trusted)), Aim.ERROR, enough=recognise(asked)
        )
    if best is None:
        none = f"the {trusted.value} model has none for {task.name}"
        reasons = explain_all(rows)
        raise UnsupportedError(f"no protocol fits: {reasons or none}")
    if task == asked.task:
        return best.make()
    return _make(_find_named(best.protocol, trusted, task), task, asked, limits)


def pick_for_file(asked: Problem, model: Model, look: Callable[[Candidate], Row]) -> Row | None:
    """Return the row of a model with the smallest error; `look` finds or makes the row of a candidate.

    Newcomers come first, then the usual winners, the most accurate of them before the others. One that is as good as a curator
    with the honest users' noise is taken at once. If none is, but the best is within a quarter of that, the other
    protocols are not looked at.
    """
    floor = _curator_error(asked)
    early = [each for each in list_early(asked.task) if each.model is model]
    new = [(row.error, row) for each in early if each.newcomer and (row := look(each)).available]
    errors = list(new)
    for each in reversed(early):
        if not each.newcomer and (row := look(each)).available:
            errors.append((row.error, row))
            if row.error <= EQUAL * floor:
                return _choose_by_error([*new, errors[-1]])
    if errors and min(error for error, _ in errors) <= SAME * floor:
        return _choose_by_error(errors)
    late = (each for each in _list_fitting(asked.task, model) if each.hints.look is Look.LATE)
    errors += [(row.error, row) for row in map(look, late) if row.available]
    return _choose_by_error(errors) if errors else None


def _choose_by_error(errors: list[tuple[float, Row]]) -> Row:
    """Choose the row with the smallest error: on a file messages cost nothing. Of equal ones, prefer one that is dealt."""
    most = EQUAL * min(error for error, _ in errors)
    equal = (each for each in errors if each[0] <= most)
    return min(equal, key=lambda each: (not each[1].dealt, each[0], _bits(each[1])))[1]


def _list_fitting(task: Task, model: Model) -> Iterable[Candidate]:
    """Return the candidates of the model; with very many bins only those whose cost does not grow with them."""
    many = task.listed and task.domain.size > MOST_VALUES and model is Model.SHUFFLE
    if model is Model.CENTRAL:
        return curators(task)
    fitting = (each for each in order_candidates(task) if each.model is model)
    return (each for each in fitting if each.hints.any_size) if many else fitting


def _shrink(task: Task) -> Task:
    """Return the same question with no more bins than the planner computes errors for."""
    if not task.bins or task.domain.size <= MOST_VALUES:
        return task
    return replace(task, domain=Categories(k=MOST_VALUES))  # type: ignore[type-var]


def _find_named(name: str, model: Model, task: Task) -> Candidate:
    known = list(candidates(task, [name]))
    if not known and model is not Model.CENTRAL:
        answers = protocols.spec(name).task
        raise UnsupportedError(f"{name} answers a {answers}, not a {task.name}")
    of_model = [each for each in known if each.model is model]
    if not of_model:
        raise UnsupportedError(f"{name} is not for a {task.name} in the {model.value} model")
    return of_model[0]


def _make(
    candidate: Candidate, task: Task, asked: Problem, limits: Limits
) -> ShuffleProtocol | Mechanism:
    """Return what the candidate's row of a plan stands for, made for the task itself."""
    if task == asked.task:
        row = evaluate(candidate, asked, limits)
        if not row.available:
            raise UnsupportedError(f"no protocol fits: {row.explain()}")
        return row.make()
    made: ShuffleProtocol | Mechanism = candidate.make(replace(asked, task=task))
    if isinstance(made, ShuffleProtocol):
        sent = made.cost.messages_mean
        reason = limits.excess(sent, sent * made.cost.bits_per_message)
        if reason is not None:
            raise UnsupportedError(f"no protocol fits: {candidate.name}: {reason}")
    return made


def smallest_error(
    asked: Problem,
    limits: Limits,
    *,
    protocol: str | None = None,
    refuse: Callable[[ShuffleProtocol], str | None] = lambda _: None,
) -> Row:
    """Return the row with the smallest RMSE among those within the limits that `refuse` does not rule out.

    >>> asked = Problem.of("histogram", n=1000, k=8, epsilon=1.0, delta=1e-6, honest=0.9)
    >>> smallest_error(asked, Limits.of(models="local")).protocol
    'subset_selection'
    """
    rows: list[Row] = []
    for each in order_candidates(asked.task):
        if each.model not in limits.models or protocol not in (None, each.name):
            continue
        row = evaluate(each, asked, limits)
        made = row.make() if row.available else None
        reason = refuse(made) if isinstance(made, ShuffleProtocol) else row.reason
        rows.append(replace(row, reason=reason))
    fine = [row for row in rows if row.available]
    if not fine:
        raise UnsupportedError(f"no protocol fits: {explain_all(rows)}")
    return min(fine, key=lambda row: math.inf if row.rmse is None else row.rmse)


def order_candidates(task: Task) -> Iterator[Candidate]:
    """Order candidates: newcomers and the usual winners first; amplified local protocols, rarely the best and slow to
    calibrate, last.

    >>> [each.name for each in order_candidates(Count(domain=Bits()))][:2]
    ['correlated_count', 'split_and_mix']
    """
    early = [each for each in list_early(task) if each.model is not Model.CENTRAL]
    yield from sorted(early, key=lambda each: not each.newcomer)
    rest = (each for each in candidates(task) if each not in early)
    yield from sorted(rest, key=lambda each: each.amplified)


def recognise(asked: Problem) -> Callable[[Row], bool]:
    """Return the test for a row so good that the others need not be tried.

    >>> asked = Problem.of("count", n=10_000, epsilon=1.0, delta=1e-6, honest=0.9)
    >>> good = Row(protocol="good", model=Model.SHUFFLE, rmse=1.5, bits_per_user=1.1)
    >>> recognise(asked)(good)
    True
    """
    floor = SAME * _curator_error(asked)

    def is_enough(row: Row) -> bool:
        if not row.available or row.model is not Model.SHUFFLE or row.bits_per_user is None:
            return False
        return row.error <= floor and row.bits_per_user <= _FEW_BITS * asked.raw_bits

    return is_enough


def curator_error(
    task: Task, *, n: int, epsilon: float, delta: float = 0.0, honest: float = HONEST
) -> float | None:
    """Return the RMSE of the answer that a trusted curator gives with delta = 0, counting on nobody.

    For means it is that of the mean.

    It needs neither `delta` nor `honest`, but for the question that was planned with them it has been measured already.
    None if no mechanism answers the task.

    >>> round(curator_error(Count(domain=Bits()), n=1000, epsilon=1.0), 3)
    1.357
    """
    asked = Problem.of(_shrink(task), n=n, epsilon=epsilon, delta=delta, honest=honest)
    errors = []
    for each in curators(asked.task):
        if not each.takes("delta"):
            with suppress(ShuffledpError):
                errors.append(measure(each, asked).rmse)
    return min(errors) / task.scale(n) if errors else None


def _curator_error(asked: Problem) -> float:
    """Return the error of a curator whose noise comes from users of whom only some are honest; 0 if unknown."""
    known = curators(asked.task)
    if not known:
        return 0.0
    try:
        error = measure(known[0], asked).judge(asked.crowd.n)
    except ShuffledpError:
        return 0.0
    return error / math.sqrt(asked.crowd.honest)


class Aim(Enum):
    """The quantity that the plan minimises."""

    ERROR = "error"
    EPSILON = "epsilon"
    USERS = "n"

    def merit(self, row: Row) -> float:
        """Return the number to minimise; infinite if there is none."""
        value = {Aim.ERROR: row.error, Aim.EPSILON: row.epsilon, Aim.USERS: row.n}[self]
        return math.inf if value is None else float(value)


def rank(rows: Iterable[Row], aim: Aim) -> tuple[Row, ...]:
    """Rank rows: available ones first, the best first (by RMSE, epsilon or n); with equal merit fewer bits first.

    >>> low, high = (Row(protocol=name, model=Model.LOCAL, rmse=error) for name, error in (("a", 1.0), ("b", 2.0)))
    >>> [row.protocol for row in rank([high, low], Aim.ERROR)]
    ['a', 'b']
    """
    return tuple(
        sorted(rows, key=lambda row: (not row.available, _exact_merit(row, aim), _bits(row)))
    )


def _exact_merit(row: Row, aim: Aim) -> float:
    """Return the RMSE, epsilon or n: nothing that is simulated. Two names for one law have the same."""
    merit = aim.merit(row) if aim is not Aim.ERROR or row.rmse is None else row.rmse
    return float(f"{merit:.12g}")


def _bits(row: Row) -> float:
    return math.inf if row.bits_per_user is None else row.bits_per_user


def choose_row(
    rows: Iterable[Row],
    aim: Aim,
    enough: Callable[[Row], bool] = lambda _: False,
) -> Row | None:
    """Return the first row that is enough; otherwise of those nearly the best the one with the fewest bits.

    Newcomers come first, and one of them is chosen if it is better than what would be enough.

    A curator is chosen only if nobody else is available.

    >>> few = Row(protocol="few", model=Model.SHUFFLE, rmse=1.2, bits_per_user=1.0)
    >>> many = Row(protocol="many", model=Model.SHUFFLE, rmse=1.0, bits_per_user=100.0)
    >>> curator = Row(protocol="curator", model=Model.CENTRAL, rmse=0.9, bits_per_user=1.0)
    >>> choose_row([few, many, curator], Aim.ERROR).protocol
    'few'
    >>> choose_row([curator], Aim.ERROR).protocol
    'curator'
    """
    available: list[Row] = []
    for row in rows:
        if aim is Aim.ERROR and not row.newcomer and enough(row):
            return _prefer([row, *(each for each in available if each.newcomer)], aim)
        available += [row] if row.available else []
    rivals = [row for row in available if row.model is not Model.CENTRAL] or available
    return _prefer(rivals, aim) if rivals else None


def _prefer(rivals: list[Row], aim: Aim) -> Row:
    """Choose the one with the fewest bits among those nearly the best."""
    most = (SAME if aim is Aim.ERROR else _SAME_SEARCHED) * min(map(aim.merit, rivals))
    nearly_best = (row for row in rivals if aim.merit(row) <= most)
    return min(nearly_best, key=lambda row: (_bits(row), _exact_merit(row, aim)))


def seed_functions(made: ShuffleProtocol, seed: int) -> ShuffleProtocol:
    """Let public functions, if there are any, follow from the seed as well: the answer is the same again.

    >>> from shuffledp.protocols import count_min
    >>> made = count_min.make(n=1000, k=9, epsilon=1.0, delta=1e-6)
    >>> seed_functions(made, 7).parameters["seed"] == seed_functions(made, 7).parameters["seed"]
    True
    """
    digest = hashlib.sha256(f"shuffledp functions {seed}".encode()).digest()
    chosen, inner = int.from_bytes(digest[:6], "big"), made.parameters.get("options", {})
    if "seed" in inner:  # of values of which a person has several
        again = {**made.parameters, "options": {**inner, "seed": chosen}}
        return protocols.make(made.name, **again)
    if "seed" not in made.parameters:
        return made
    return protocols.make(made.name, **{**made.parameters, "seed": chosen})
