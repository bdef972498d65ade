"""One question of a survey: which protocol answers it, how large its error is, and how its bins are named."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp import protocols
from shuffledp.core.cells import Bins
from shuffledp.core.display import MOMENTS
from shuffledp.core.domain import Categories, Domain, Integers
from shuffledp.core.estimate import Estimate, NormalError
from shuffledp.core.mechanism import Mechanism
from shuffledp.core.privacy import Model
from shuffledp.core.protocol import Promise, ShuffleProtocol
from shuffledp.core.task import Task
from shuffledp.mechanisms.several import Asked, Several
from shuffledp.planner import choose
from shuffledp.planner.question import Problem, curators
from shuffledp.planner.rows import measure, worst_case
from shuffledp.tasks import Cdf, Histogram, task_named
from shuffledp.tasks.groups import Grouped, spread_groups

if TYPE_CHECKING:
    from shuffledp.questions.question import Question
    from shuffledp.questions.survey import Survey


def choose_curators(survey: "Survey", tasks: Sequence[Task], n: int) -> Several:
    """The mechanism of a trusted curator for each question, with its share of what is promised about all of them."""
    assert survey.epsilon is not None
    asked = [
        _ask_curator(survey, question, spread_groups(task), n)
        for question, task in zip(survey.questions, tasks, strict=True)
    ]
    return Several.of(asked, Promise(epsilon=survey.epsilon, delta=survey.delta))


def _ask_curator(survey: "Survey", question: "Question", task: Task, n: int) -> Asked:
    named = None if question.protocol is None else [question.protocol]
    known = [*curators(task, named)]

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
    return Asked(question.name, question.weight or 1.0, task.bins, fails, make)


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
    with survey.locate(question):
        made = choose(
            spread_groups(task),
            n=n,
            epsilon=epsilon,
            delta=survey.delta,
            honest=survey.honest,
            model=survey.model,
            protocol=protocol or question.protocol,
        )
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


def name_bins(protocol: ShuffleProtocol, declared: Domain) -> Domain:
    """Return the bins by name: messages carry the names of categories, not the ends of a range."""
    domain = protocol.match_domain(declared)
    if isinstance(protocol.randomizer.domain, Categories) and isinstance(domain, Integers):
        return Categories(k=domain.size, names=domain.labels)
    return domain


def seed_functions(made: ShuffleProtocol, seed: int) -> ShuffleProtocol:
    """Let public functions, if there are any, follow from the seed as well: the answer is the same again."""
    digest = hashlib.sha256(f"shuffledp functions {seed}".encode()).digest()
    chosen, inner = int.from_bytes(digest[:6], "big"), made.parameters.get("options", {})
    if "seed" in inner:  # of values of which a person has several
        again = {**made.parameters, "options": {**inner, "seed": chosen}}
        return protocols.make(made.name, **again)
    if "seed" not in made.parameters:
        return made
    return protocols.make(made.name, **{**made.parameters, "seed": chosen})


def date_labels(estimate: Estimate, question: Task, unit: str | None) -> Estimate:
    """The estimate, with dates in the labels of what is asked for at dates: bins, days, points of a cdf; by group, too.

    >>> from shuffledp import Integers
    >>> from shuffledp.core.estimate import NormalError
    >>> from shuffledp.tasks import Histogram
    >>> days = Histogram(domain=Integers(lower=15889, upper=15890))
    >>> counted = Estimate(value=np.array([3.0, 4.0]), error=NormalError(stderr=1.0), limits=(0, 7), labels=("15889", "15890"))
    >>> date_labels(counted, days, "days").labels
    ('2013-07-03', '2013-07-04')
    """
    if unit is None or estimate.labels is None:
        return estimate
    write, domain, bins = MOMENTS[unit], question.domain, question.bins
    groups: tuple[str, ...] = ("",)
    if isinstance(question, Grouped):
        bins, (domain, named) = question.asked.bins, question.domain.parts
        groups = tuple(f"{group}, " for group in named.labels)
    if isinstance(domain, Bins):
        own = [f"{write(low)} to {write(high)}" for low, high in pairwise(domain.edges)]
    elif bins and isinstance(domain, Integers):
        own = [f"{write(day)}" for day in range(domain.lower, domain.upper + 1)]
    elif isinstance(question, Cdf):
        own = [f"<= {write(point)}" for point in question.at or ()]
    else:
        return estimate
    labels = tuple(group + each for group in groups for each in own)
    return replace(estimate, labels=labels) if len(labels) == len(estimate.labels) else estimate


def date_bins(bins: Domain | None, question: Task, unit: str | None) -> Domain | None:
    """Return the bins of a question, with dates for names where they are bins of dates."""
    asked = question.asked if isinstance(question, Grouped) else type(question)
    if bins is None or unit is None or not asked.bins or not isinstance(bins, Bins | Integers):
        return bins
    plain = Estimate(
        value=np.zeros(bins.size), error=NormalError(stderr=0.0), limits=(0, 0), labels=bins.labels
    )
    return Categories(k=bins.size, names=date_labels(plain, Histogram(domain=bins), unit).labels)
