"""One question of a survey: which protocol answers it, how large its error is, and how its bins are named.

Where people trust nobody, everybody answers everything, or everybody one random question. Answers to all questions share
epsilon: the largest relative error is smallest if everybody's shares are in proportion to the errors that equal shares
would have. One random question has all of epsilon, but fewer people answer it, and they are a sample of all. The planner
takes the way whose largest relative error is smaller.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from shuffledp.core.errors import UnsupportedError
from shuffledp.core.privacy import Model
from shuffledp.core.protocol import Mechanism, Promise, ShuffleProtocol
from shuffledp.core.task import Task
from shuffledp.mechanisms.several import CuratorQuestion, Several
from shuffledp.numerics.intervals.sample import sampling_variance
from shuffledp.planner import choose
from shuffledp.planner.question import Problem, curators
from shuffledp.planner.rows import measure, worst_case
from shuffledp.protocols import make
from shuffledp.protocols.one_question import SAMPLED, find_ends
from shuffledp.tasks import task_named
from shuffledp.tasks.groups import Grouped, spread_groups

if TYPE_CHECKING:
    from shuffledp.questions.question import Question
    from shuffledp.questions.survey import Survey


def choose_curators(survey: "Survey", tasks: Sequence[Task], n: int) -> Several:
    """Return the mechanism of a curator for each question, with its share of what is promised about all of them."""
    assert survey.epsilon is not None
    asked = [
        _ask_curator(survey, question, spread_groups(task), n)
        for question, task in zip(survey.questions, tasks, strict=True)
    ]
    return Several.of(asked, Promise(epsilon=survey.epsilon, delta=survey.delta))


def _ask_curator(survey: "Survey", question: "Question", task: Task, n: int) -> CuratorQuestion:
    named = None if question.protocol is None else [question.protocol]
    known = curators(task, named)

    def make(epsilon: float, delta: float) -> Mechanism:
        with survey.locate(question):
            made = choose(
                task,
                n=n,
                epsilon=epsilon,
                delta=delta,
                honest=1.0,
                model=Model.CENTRAL,
                protocol=question.protocol,
            )
        assert not isinstance(made, ShuffleProtocol)
        return made

    fails = bool(known) and all(each.takes("delta") for each in known)
    return CuratorQuestion(question.name, question.weight or 1.0, task.bins, fails, make)


def find_curator_error(task: Task, made: Mechanism, n: int) -> float:
    """Return the same as `find_error`, of a curator's mechanism for the task."""
    task, promise = spread_groups(task), made.guarantee
    asked = Problem.of(task, n=n, epsilon=promise.epsilon, delta=promise.delta, honest=1.0)
    (candidate,) = curators(task, [made.name])
    return measure(candidate, asked).rmse / task.scale(n)


def choose_part(
    survey: "Survey",
    question: "Question",
    task: Task,
    *,
    n: int,
    epsilon: float,
    protocol: str | None = None,
) -> ShuffleProtocol:
    """Return the best protocol for a question at this epsilon; the one that it names, or that is named here."""
    asked = spread_groups(task)
    made = survey.choose(question, asked, n=n, epsilon=epsilon, protocol=protocol)
    assert isinstance(made, ShuffleProtocol)
    return made


def describe_part(
    question: "Question", part: ShuffleProtocol, without: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the part of a bundle that answers a question, as JSON has it."""
    own = {name: value for name, value in part.parameters.items() if name not in without}
    return {"name": question.name, "protocol": part.name, **own}


def find_error(protocol: ShuffleProtocol, n: int) -> float:
    """Return the root of the mean squared error on the worst data, on the scale of the answer; of quantiles, in ranks.

    >>> from shuffledp import make
    >>> round(find_error(make("dummies_histogram", n=10_000, k=4, epsilon=1.0, delta=1e-6), 10_000), 1)
    6.9
    """
    bins, size = task_named(protocol.task).bins, protocol.randomizer.domain.size
    return math.sqrt(worst_case(protocol, n=n * protocol.values, size=size, bins=bins).mse)


_ROUNDS = 2  # of finding the shares
_LESS = 1 - 1e-9  # so that the shares, rounded, add up to no more than epsilon
_NO_SAMPLE = "{}, which one random question is not for: everybody answers everything."


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWay:
    """A way to ask several questions in the local model, and how it compares with the other one."""

    protocol: ShuffleProtocol
    tasks: tuple[Task, ...]
    """With the grids for this way."""
    errors: tuple[float, ...]
    """Relative to everybody or to the whole range, question by question."""
    shares: tuple[float, ...]
    """Shares of epsilon or, if everybody has one question, of the people."""
    one: bool
    """Whether everybody has one random question."""
    why: str = ""
    """What made it the better one."""

    def leave_out_each(self) -> list[float | None]:
        """Return what the other errors could be multiplied with: they have its share of epsilon, or of the people."""
        if len(self.tasks) == 1:
            return [None]
        return [math.sqrt(1 - share) if self.one else 1 - share for share in self.shares]


def choose_way(survey: "Survey", tasks: Sequence[Task], n: int) -> LocalWay:
    """Return the way with the smaller largest error, each times the weight that the user gave."""
    every = _ask_everything(survey, tasks, n)
    if len(tasks) == 1:
        return every
    try:
        one = _ask_one(survey, tasks, n)
    except UnsupportedError as error:
        return replace(every, why=_NO_SAMPLE.format(str(error)))
    weights = [question.weight or 1.0 for question in survey.questions]
    worst = [
        max(weight * error for weight, error in zip(weights, way.errors, strict=True))
        for way in (every, one)
    ]
    said = "the largest relative error is {:.2g} % if everybody answers everything, and {:.2g} % with one random question each"
    both = said.format(*(100 * each for each in worst))
    if worst[1] < worst[0]:
        why = f"Everybody answers one random question with all of epsilon: {both}."
        return replace(one, why=why)
    why = f"Everybody answers everything, and the answers share epsilon: {both}."
    return replace(every, why=why)


def _ask_everything(survey: "Survey", tasks: Sequence[Task], n: int) -> LocalWay:
    assert survey.epsilon is not None
    weighed = any(question.weight is not None for question in survey.questions)
    shares = [question.weight or 1.0 for question in survey.questions]
    for _ in range(1 if weighed else _ROUNDS):
        shares = [share / math.fsum(shares) for share in shares]
        budgets = [survey.epsilon * share * _LESS for share in shares]
        fitted = [_fit(*each, n) for each in zip(tasks, budgets, strict=True)]
        made = [
            choose_part(survey, question, task, n=n, epsilon=epsilon)
            for question, task, epsilon in zip(survey.questions, fitted, budgets, strict=True)
        ]
        errors = [_find_error(part, task, n, 1) for part, task in zip(made, fitted, strict=True)]
        used = shares
        if not weighed:  # an error is about proportional to 1 / epsilon
            shares = [share * error for share, error in zip(shares, errors, strict=True)]
    parts = [describe_part(*each) for each in zip(survey.questions, made, strict=True)]
    return LocalWay(
        protocol=make("bundle", epsilon=survey.epsilon, parts=parts),
        tasks=tuple(fitted),
        errors=tuple(errors),
        shares=tuple(used),
        one=False,
    )


def _ask_one(survey: "Survey", tasks: Sequence[Task], n: int) -> LocalWay:
    assert survey.epsilon is not None
    weights = {question.weight for question in survey.questions}
    if len(weights) > 1:
        raise UnsupportedError("questions have different weights")
    count, asked = len(tasks), max(2, n // len(tasks))
    fitted = [_fit(task, survey.epsilon, asked) for task in tasks]
    made = []
    for question, task in zip(survey.questions, fitted, strict=True):
        if task.values > 1:
            raise UnsupportedError(f"{question.name!r} has several values of a person")
        if isinstance(task, Grouped) and task.sums_up:
            raise UnsupportedError(f"{question.name!r} is a {task.inner} by group")
        part = choose_part(survey, question, task, n=asked, epsilon=survey.epsilon)
        if part.task not in SAMPLED:
            raise UnsupportedError(f"{question.name!r} asks for {question.task}")
        made.append(part)
    errors = [_find_error(part, task, n, count) for part, task in zip(made, fitted, strict=True)]
    parts = [
        describe_part(question, part, without=("epsilon",))
        for question, part in zip(survey.questions, made, strict=True)
    ]
    return LocalWay(
        protocol=make("one_question", epsilon=survey.epsilon, parts=parts),
        tasks=tuple(fitted),
        errors=tuple(errors),
        shares=(1 / count,) * count,
        one=True,
    )


def _fit(task: Task, epsilon: float, n: int) -> Task:
    """Fit the steps; pairs of answer and group already have their grid."""
    return task if isinstance(task, Grouped) else task.fit(n, epsilon)


def _find_error(part: ShuffleProtocol, task: Task, n: int, count: int) -> float:
    """Return the relative error on the worst data, if one in `count` of the people is asked."""
    asked = max(1, n // count)
    noise = find_error(part, asked) / task.relate(asked)
    if count == 1:
        return noise
    ends, bins = find_ends(part), part.randomizer.domain.size if task_named(part.task).bins else 0
    # The worst share is one half; of a histogram, the mean over bins of two halves.
    varied = float(sampling_variance(0.5, asked, n, ends)) * (2 / bins if bins else 1.0)
    reach = 1.0 if ends is None else ends[1] - ends[0]
    return math.hypot(noise, math.sqrt(varied) / reach)
