"""Several questions to the same people."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.analyzer import Value
from shuffledp.core.arrays import Floats
from shuffledp.core.domain import Answers
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.task import Column, Declared, Task
from shuffledp.tasks.totals import mean_square


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions(Task):
    """Several questions at once; the answer is their answers, one after the other.

    >>> from shuffledp import Bits
    >>> from shuffledp.tasks import Count
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
