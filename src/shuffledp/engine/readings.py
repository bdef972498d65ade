"""What the answers of a protocol mean: kept beside messages and tallies of surveys and of questions by group.

A tally is of numbered bins of numbered parts. A form says what each part was asked, what its bins are called, and
which bins belong to which group, so that whoever holds the file needs nothing else to read the answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shuffledp.core.answers import Answers
from shuffledp.core.domain import Bits, Categories, Domain, Integers, Reals
from shuffledp.core.errors import DataError, MismatchError, ParameterError
from shuffledp.core.estimate import Estimate
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.task import Task
from shuffledp.protocols.bundle import BundleAnalyzer
from shuffledp.protocols.one_question import OneQuestionAnalyzer
from shuffledp.tasks import task_named
from shuffledp.tasks.groups import GROUPED, Grouped

__all__ = ["Form", "Reading"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the answer of one protocol is read: as the answer to which question, with which names.

    >>> pets = Categories(k=2, names=("cat", "dog"))
    >>> Reading(name="pet", task="histogram", bins=pets).to_dict()["bins"]
    {'kind': 'categories', 'k': 2, 'names': ['cat', 'dog']}
    """

    name: str
    task: str
    by: str | None = None
    """The column of the groups."""
    bins: Domain | None = None
    """What is counted, if it is: the bins have its names. By group, the answers of one person."""
    groups: Categories | None = None
    """The groups: then what is counted are pairs of answer and group."""
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, name: str, kind: str, task: Task, protocol: ShuffleProtocol, by: str | None = None
    ) -> "Reading":
        """How the answer of a protocol for this task is read."""
        bins: Domain | None = None
        groups = None
        if isinstance(task, Grouped):
            bins, groups = task.domain.parts
        elif isinstance(protocol.randomizer.domain, Categories):
            bins = task.domain
        assert groups is None or isinstance(groups, Categories)
        return cls(name=name, task=kind, by=by, bins=bins, groups=groups, notes=task.remarks())

    @property
    def _grouped(self) -> Grouped | None:
        if self.groups is None or self.bins is None:
            return None
        return Grouped(domain=Answers(parts=(self.bins, self.groups)), inner=self.task)

    def read(self, estimate: Estimate) -> Estimate:
        """The answer to the question."""
        if self._grouped is not None:
            return self._grouped.convert(estimate)
        return estimate if self.bins is None else estimate.label(self.bins)

    def check(self, protocol: ShuffleProtocol) -> None:
        """Refuse a reading of another protocol."""
        size = protocol.randomizer.domain.size
        own = self.bins if self._grouped is None else self._grouped.domain
        if own is not None and own.size != size:
            raise MismatchError(f"{own.size} bins of {self.name!r} do not fit its protocol")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `read_dict` reads them."""
        return {
            "name": self.name,
            "task": self.task,
            "by": self.by,
            "bins": None if self.bins is None else _write_domain(self.bins),
            "groups": None if self.groups is None else list(self.groups.labels),
            "notes": list(self.notes),
        }

    @classmethod
    def read_dict(cls, content: Mapping[str, Any]) -> "Reading":
        """What `to_dict` wrote.

        >>> Reading.read_dict(Reading(name="pet", task="count").to_dict()).task
        'count'
        """
        task, bins, groups = content["task"], content["bins"], content["groups"]
        task_named(task)
        if groups is not None and task not in GROUPED:
            raise ParameterError("task", task, f"must be one of {', '.join(GROUPED)}, by group")
        return cls(
            name=str(content["name"]),
            task=task,
            by=content["by"],
            bins=None if bins is None else _read_domain(bins),
            groups=None if groups is None else _read_names(len(groups), groups),
            notes=tuple(map(str, content["notes"])),
        )


def _read_names(k: int, names: Sequence[str] | None) -> Categories:
    return Categories(k=k, names=None if names is None else tuple(map(str, names)))


def _write_domain(domain: Domain) -> dict[str, Any]:
    match domain:
        case Bits():
            return {"kind": "bits"}
        case Integers(lower=lower, upper=upper):
            return {"kind": "integers", "lower": lower, "upper": upper}
        case Reals(lower=lower, upper=upper, steps=steps):
            return {"kind": "reals", "lower": lower, "upper": upper, "steps": steps}
        case Categories(k=k, names=None):
            return {"kind": "categories", "k": k, "names": None}
        case _:
            return {"kind": "categories", "k": domain.size, "names": list(domain.labels)}


def _read_domain(content: Mapping[str, Any]) -> Domain:
    given = dict(content)
    match given.pop("kind"):
        case "bits":
            return Bits(**given)
        case "integers":
            return Integers(**given)
        case "reals":
            return Reals(**given)
        case "categories":
            return _read_names(given["k"], given["names"])
        case kind:
            raise ParameterError("kind", kind, "must be bits, integers, reals or categories")


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The questions that a protocol answers: one, or those of a survey.

    >>> Form(readings=(Reading(name="pet", task="count"),)).to_dict()["title"]
    """

    readings: tuple[Reading, ...]
    title: str | None = None
    """What the survey is called; None: it is one question."""

    def check(self, protocol: ShuffleProtocol) -> "Form":
        """Refuse a form of another protocol."""
        parts: tuple[ShuffleProtocol, ...] = (protocol,)
        if isinstance(protocol.analyzer, BundleAnalyzer | OneQuestionAnalyzer):
            parts = protocol.analyzer.parts
            if protocol.analyzer.names != tuple(each.name for each in self.readings):
                raise MismatchError("the questions are not those of its protocol")
        if len(parts) != len(self.readings):
            raise MismatchError(f"{len(self.readings)} questions do not fit its protocol")
        for reading, part in zip(self.readings, parts, strict=True):
            reading.check(part)
        return self

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `read_dict` reads them."""
        return {"title": self.title, "questions": [each.to_dict() for each in self.readings]}

    @classmethod
    def read_dict(cls, content: Any) -> "Form":
        """What `to_dict` wrote.

        >>> Form.read_dict({})
        Traceback (most recent call last):
        shuffledp.core.errors.DataError: it does not say what was asked
        """
        try:
            readings = tuple(Reading.read_dict(each) for each in content["questions"])
            return cls(readings=readings, title=content["title"])
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError("it does not say what was asked") from error
