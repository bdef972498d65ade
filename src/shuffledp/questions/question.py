"""One question about people: the task, the column, for which groups, and how exact the answer should be."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from shuffledp.core.analyzer import Estimate, NormalError
from shuffledp.core.display import MOMENTS
from shuffledp.core.domain import Bins, Categories, Domain, Integers
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.task import Declared, Task, read_moment, say_of
from shuffledp.core.validate import fraction_of_one, positive
from shuffledp.engine.codes import OnInvalid
from shuffledp.engine.columns import Column
from shuffledp.engine.people import Of, People
from shuffledp.planner.question import find_planned
from shuffledp.tasks import Cdf, Histogram
from shuffledp.tasks.groups import Grouped
from shuffledp.tasks.totals import read_ends

PRESENT = "counted"
"""What the groups of people who have a value, and of those who have none, are by."""

AUTO = "auto"
"""What is said in place of an end that nobody knows."""
_FARTHEST = 2.0**63  # the end of the largest band of magnitudes
_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoBounds:
    """Which ends of a range a first release estimates, and which share of the budget it may spend."""

    ends: tuple[str, ...]
    share: float = _SHARE

    def __post_init__(self) -> None:
        fraction_of_one("bounds_share", self.share)


def take_auto(
    options: Mapping[str, Any], share: float | None = None
) -> tuple[dict[str, Any], AutoBounds | None]:
    """Split options into those that are declared, and the ends that are to be estimated; None: there are none.

    >>> take_auto({"lower": 0, "upper": "auto"})
    ({'lower': 0}, AutoBounds(ends=('upper',), share=0.1))
    """
    ends = tuple(name for name in ("lower", "upper") if _is_auto(options.get(name)))
    if not ends:
        if share is not None:
            raise UnsupportedError(
                "bounds_share needs lower='auto' or upper='auto': it is the share spent on estimating them"
            )
        return dict(options), None
    declared = {name: value for name, value in options.items() if name not in ends}
    return declared, AutoBounds(ends=ends, share=_SHARE if share is None else share)


def _is_auto(value: object) -> bool:
    return isinstance(value, str) and value == AUTO


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question: the task, the column, its options, and for which groups.

    >>> Question(name="home", task="count", column="home").weight is None
    True
    """

    name: str
    task: str
    column: str | None
    """None: the only column that there is."""
    options: Mapping[str, Any] = field(default_factory=dict)
    by: str | None = None
    """The column of the groups."""
    groups: tuple[str, ...] | None = None
    """The groups; None: the categories of another question about the column `by`, or yes and no."""
    weight: float | None = None
    error: float | None = None
    """The root mean squared error that is wanted, relative to everybody or to the whole range."""
    protocol: str | None = None
    on_invalid: OnInvalid | None = None
    """None: as the survey says."""
    optional: bool = False
    """Whether people may leave it out: whoever has no answer stays, and counts as nothing."""
    text: str | None = None
    """What people are asked, in words."""
    asked: Mapping[str, Any] | None = None
    """How people's own devices ask it (`live`): kind, description, unit, ...; files need none of it."""
    population: bool = False
    """Whether the people are a random sample of a population, whose shares are wanted."""
    auto: AutoBounds | None = None
    """Which ends of its range are estimated first; None: all that it needs are declared."""

    people: People | None = None
    """Whom rows are about, and what becomes of somebody's rows; None: each row is taken to be one person."""
    declared: Declared | None = field(default=None, compare=False, repr=False)
    """The question about people, once their rows are reduced; None: as the options say."""
    hidden: int = 0
    """How many of the last groups are not shown: people without a value are in a group of their own."""
    kind: type[Task] = field(init=False, repr=False, compare=False)
    """The class of the task."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", find_planned(self.task))
        options, auto = take_auto(self.options)
        if auto is not None:
            object.__setattr__(self, "options", options)
            object.__setattr__(self, "auto", self.auto or auto)
        self.kind.read_options(self.options)
        if self.auto is not None:
            self._check_auto(self.auto)
        if self.on_invalid is not None:
            object.__setattr__(self, "on_invalid", OnInvalid.read(self.on_invalid))
        if self.weight is not None:
            positive("weight", self.weight)
        if self.error is not None:
            fraction_of_one("error", self.error)
            if self.weight is not None:
                raise UnsupportedError(
                    "error already sets how exact the answer is: leave out weight"
                )
        self._check_ends()
        self._check_groups()
        if self.population and (self.by is not None or not self.kind.counts or self.of_rows):
            raise UnsupportedError(
                "`population` is only for the shares of a count, histogram or bins of people, not by group: how other "
                "answers spread in a population is not known"
            )

    @property
    def of_rows(self) -> bool:
        """Whether it is about rows, of which a person may have several."""
        return self.people is not None and self.people.of is Of.ROWS

    def _check_auto(self, auto: AutoBounds) -> None:
        """Refuse, before anything is spent, options that are wrong whatever bounds are found."""
        known = {option.name for option in self.kind.options}
        if not {"lower", "upper"} <= known or self.kind.bins:
            raise ParameterError(
                auto.ends[0], AUTO, f"is not for {say_of(self.task)}: it is for a range of numbers"
            )
        read_ends(self.task, self.kind.read_options(self.trial))
        self.kind.declare(self.trial)

    def _check_ends(self) -> None:
        """Refuse one end without the other: whoever plans would have to make it up."""
        if self.kind.adds and len({"lower", "upper"} & set(self.trial)) == 1:
            read_ends(self.task, self.kind.read_options(self.trial))

    @property
    def trial(self) -> dict[str, Any]:
        """The options, with the farthest ends there may be in place of those that are to be estimated."""
        far = {"lower": -_FARTHEST, "upper": _FARTHEST}
        ends = () if self.auto is None else self.auto.ends
        return {**self.options, **{name: far[name] for name in ends}}

    def _check_groups(self) -> None:
        if self.groups is not None and self.by is None:
            raise UnsupportedError("groups needs by: the column that says who is in which group")
        if self.groups is not None and len(self.groups) < 2:
            raise ParameterError("groups", list(self.groups), "must be at least two")

    @property
    def shown_by(self) -> str | None:
        """The column of the groups, for readers of the answer."""
        # Two groups: who has a value, and who has none.
        alone = self.groups is not None and len(self.groups) == 2
        if self.by is None or (self.hidden and alone):
            return None
        # The suffix tells people's values apart where several are made of one column.
        return self.by.removesuffix(f" ({self.name})")

    @property
    def from_data(self) -> bool:
        """Whether the categories are those that occur, which no epsilon covers."""
        return bool(self.options.get("categories_from_data"))

    def require_declared(self) -> None:
        """Refuse categories that are those in the data: surveys declare theirs."""
        if self.from_data:
            raise UnsupportedError(
                "categories_from_data releases which categories occur, and no epsilon covers that: a survey "
                "declares its categories"
            )

    def measure(self, column: Column) -> Column:
        """Return the column, with dates as numbers if the ends of the question are dates."""
        if column.reduced:  # its rows were read already
            return column
        ends = [self.options.get(name) for name in ("lower", "upper")]
        edges = self.options.get("edges") or []
        ends += edges.split(",") if isinstance(edges, str) else edges
        given = [end for end in ends if end is not None]
        units = {moment[1] for moment in map(read_moment, given) if moment is not None}
        if not units:
            return column
        if len(units) > 1 or not all(map(read_moment, given)):
            raise UnsupportedError(
                "lower, upper and edges must be all dates, or all dates with a time"
            )
        return replace(column, moments=units.pop())

    def find_groups(self, grouping: Column | None) -> Categories | None:
        """Return the groups that were declared, or yes and no for a column of that type; None: neither."""
        if self.groups is not None:
            return Categories(k=len(self.groups), names=self.groups)
        if grouping is not None and grouping.boolean:
            return Categories(k=2, names=("false", "true"))
        return None


def name_bins(protocol: ShuffleProtocol, declared: Domain) -> Domain:
    """Return the bins by name: messages carry the names of categories, not the ends of a range."""
    domain = protocol.match_domain(declared)
    if isinstance(protocol.randomizer.domain, Categories) and isinstance(domain, Integers):
        return Categories(k=domain.size, names=domain.labels)
    return domain


def date_labels(estimate: Estimate, question: Task, unit: str | None) -> Estimate:
    """Return the estimate with dates in the labels of bins, days and points of a cdf; by group, too.

    >>> from shuffledp import Integers
    >>> from shuffledp.core.analyzer import NormalError
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
