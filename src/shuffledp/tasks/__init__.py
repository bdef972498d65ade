"""The questions: what they ask for, who answers them, the true answer, the loss, and how answers look.

Every protocol answers one of them, so comparing protocols is comparing losses on one task. A task is one
class, here or in another package; `register` makes it known to planner, command line and survey files.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.analyzer import Estimate, Value
from shuffledp.core.arrays import Floats
from shuffledp.core.display import Picture
from shuffledp.core.domain import Answers
from shuffledp.core.errors import MismatchError, ParameterError, UnsupportedError
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.task import Column, Declared, Option, Task
from shuffledp.tasks.groups import GROUPED, Grouped, GroupError
from shuffledp.tasks.histogram import Distribution, Histogram, Uniformity, Words
from shuffledp.tasks.numbers import Bin, Cdf, Median, Quantiles, Range, Std, Variance
from shuffledp.tasks.totals import Count, Mean, Sum, mean_square

__all__ = [
    "GROUPED",
    "TASKS",
    "Bin",
    "Cdf",
    "Count",
    "Declared",
    "Distribution",
    "Histogram",
    "Mean",
    "Median",
    "Option",
    "Quantiles",
    "Questions",
    "Range",
    "Std",
    "Sum",
    "Task",
    "Uniformity",
    "Variance",
    "Words",
    "register",
    "show_answer",
    "task_for",
    "task_named",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions(Task):
    """Several questions at once; the answer is their answers, one after the other.

    >>> from shuffledp import Bits
    >>> both = Questions(domain=Answers(parts=(Bits(), Bits())), parts=(Count(domain=Bits()),) * 2)
    >>> both.truth(([True, True], [False, True]))
    array([2., 1.])
    """

    name = "survey"
    title = "several questions to the same people"
    elsewhere = "sdp.ask with an sdp.Survey"
    answer = total = "an answer"

    domain: Answers
    parts: tuple[Task, ...] = ()

    @classmethod
    def declare(cls, options: Mapping[str, Any], column: Column | None = None) -> Declared:
        raise UnsupportedError("a survey is declared by its questions: see sdp.Survey")

    def arguments(self) -> Mapping[str, Any]:
        return {}

    def sensitivity(self, n: int) -> float:
        return sum(part.sensitivity(n) for part in self.parts)

    def truth(self, values: ArrayLike) -> Floats:
        columns = self.domain.split(self.domain.codes(values))
        truths = [
            part.truth(part.domain.values(codes).astype(np.int64))
            if float(part.domain.values(np.zeros(1, dtype=np.int64))[0]).is_integer()
            else part.truth(part.domain.values(codes))
            for part, codes in zip(self.parts, columns, strict=True)
        ]
        return np.concatenate(
            [np.atleast_1d(np.asarray(each, dtype=np.float64)) for each in truths]
        )

    def loss(self, estimate: Value, truth: Value) -> float:
        return mean_square(estimate, truth)


_NEAR = 0.75  # how alike a misspelt name is
_SYNONYMS = {
    "average": "mean",
    "avg": "mean",
    "percentile": "quantiles",
    "sd": "std",
    "stdev": "std",
    "var": "variance",
    "heavy_hitters": "words",
    "learn": "sdp.learn (shuffledp learn)",
    "percentiles": "quantiles",
    "test": "sdp.uniformity_test (shuffledp test)",
    "total": "sum",
}
_TASKS: dict[str, type[Task]] = {}
TASKS: Mapping[str, type[Task]] = MappingProxyType(_TASKS)
"""Every registered task by its name."""


def register(task: type[Task]) -> type[Task]:
    """Make a task known under its name; also a decorator. Registering it again changes nothing.

    >>> register(Count) is Count is TASKS["count"]
    True
    """
    known = _TASKS.setdefault(task.name, task)
    if known is not task:
        raise MismatchError(f"the name {task.name!r} is taken by {known.__qualname__}")
    return task


for _task in (
    Count,
    Sum,
    Mean,
    Histogram,
    Median,
    Quantiles,
    Range,
    Cdf,
    Variance,
    Std,
    Bin,
    Words,
    Distribution,
    Uniformity,
    Questions,
):
    register(_task)


def task_named(name: str) -> type[Task]:
    """Return the task of that name.

    >>> task_named("mean").title
    "the average of everybody's numbers"
    >>> task_named("percentiles")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: task='percentiles' must be one of count, sum, ...: did you mean quantiles?
    """
    if name not in TASKS:
        known = [each for each, task in TASKS.items() if task.elsewhere is None]
        near = get_close_matches(str(name), known, 1, _NEAR)
        meant = _SYNONYMS.get(name) or (near[0] if near else None)
        guess = "" if meant is None else f": did you mean {meant}?"
        raise ParameterError("task", name, f"must be one of {', '.join(known)}{guess}")
    return TASKS[name]


def show_answer(task: str, estimate: Estimate, level: float) -> Picture:
    """Describe what to draw of the answer to a question, which may have been asked by group.

    >>> from shuffledp import protocols, run
    >>> estimate = run(protocols.rr.make_local(epsilon=1.0), [True, False])
    >>> show_answer("count", estimate, 0.95).limits
    (0.0, 2.0)
    """
    chosen = Grouped if isinstance(estimate.error, GroupError) else task_named(task)
    return chosen.show(estimate, level)


def task_for(protocol: ShuffleProtocol) -> Task:
    """Return the question that a protocol answers.

    >>> from shuffledp import SeededWords, protocols, run
    >>> protocol = protocols.duchi.make_local(lower=0, upper=10, steps=10, epsilon=1.0)
    >>> task, ages = task_for(protocol), [3, 5, 7] * 1000
    >>> task.loss(run(protocol, ages, SeededWords(2)).value, task.truth(ages)) < 0.5
    True
    """
    domain = protocol.randomizer.domain
    if isinstance(domain, Answers):
        from shuffledp.protocols import bundle

        parts = tuple(task_for(part) for _, part in bundle.questions(protocol))
        return Questions(domain=domain, parts=parts)
    points = protocol.parameters.get("at")
    asked: dict[str, Any] = {} if not points else {"at": tuple(points)}
    return task_named(protocol.task)(domain=domain, **asked)
