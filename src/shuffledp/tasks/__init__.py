"""The questions: what the true answer is on a data set, and how wrong an estimate is.

Every protocol answers one of them, so comparing protocols is comparing losses on one task.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.task import Task
from shuffledp.tasks.count import Count
from shuffledp.tasks.distribution import Distribution
from shuffledp.tasks.histogram import Histogram
from shuffledp.tasks.mean import Mean
from shuffledp.tasks.sum import Sum
from shuffledp.tasks.uniformity import Uniformity

__all__ = ["TASKS", "Count", "Distribution", "Histogram", "Mean", "Sum", "Uniformity", "task_for"]

TASKS: Mapping[str, Callable[..., Task]] = MappingProxyType(
    {
        "count": Count,
        "sum": Sum,
        "mean": Mean,
        "histogram": Histogram,
        "distribution": Distribution,
        "uniformity": Uniformity,
    }
)
"""The class of each question; each takes the domain."""


def task_for(protocol: ShuffleProtocol) -> Task:
    """The task that a protocol answers.

    >>> from shuffledp import SeededWords, protocols, run
    >>> protocol = protocols.duchi.make_local(lower=0, upper=10, steps=10, epsilon=1.0)
    >>> task, ages = task_for(protocol), [3, 5, 7] * 1000
    >>> task.loss(run(protocol, ages, SeededWords(2)).value, task.truth(ages)) < 0.5
    True
    """
    return TASKS[protocol.task](domain=protocol.randomizer.domain)
