"""A tally with the protocol that it belongs to, what its answers mean, and how all of that is kept as JSON.

A tally is the analyzer's integers: it holds no message and no order, tallies of disjoint groups add,
and the estimate follows from it. Whoever holds the file can estimate, and nothing more.

It is of numbered bins of numbered parts. For surveys and questions by group a form says what each part was asked, what
its bins are called, and which bins belong to which group, so that whoever holds the file needs nothing else.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from shuffledp.core import __version__
from shuffledp.core.analyzer import Estimate, Tally
from shuffledp.core.display import MOMENTS
from shuffledp.core.domain import Answers, Bits, Categories, Cells, Domain, Integers, Reals
from shuffledp.core.errors import (
    DataError,
    MismatchError,
    ParameterError,
    ShuffledpError,
    UnsupportedError,
)
from shuffledp.core.privacy import Guarantee
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import forget
from shuffledp.core.task import Task
from shuffledp.core.validate import whole
from shuffledp.engine.output import write_text
from shuffledp.numerics.entropy import SecureWords
from shuffledp.protocols import make
from shuffledp.protocols.bundle import BundleAnalyzer
from shuffledp.protocols.one_question import OneQuestionAnalyzer
from shuffledp.tasks import task_named
from shuffledp.tasks.groups import GROUPED, Grouped, leave_out

_KIND = "shuffledp tally"


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
    at: tuple[float, ...] = ()
    """Which quantiles of the groups."""
    hidden: int = 0
    """How many of the last groups, or bins, are not shown: those of people, or places, without a value."""
    moments: str | None = None
    """What dates are counted in, days or seconds since 1970-01-01; None: there are none."""
    of_rows: bool = False
    """Whether it counts rows, of which a person may have several."""

    @classmethod
    def of(
        cls,
        name: str,
        kind: str,
        task: Task,
        protocol: ShuffleProtocol,
        by: str | None = None,
        hidden: int = 0,
    ) -> "Reading":
        """Return how the answer of a protocol for this task is read."""
        bins: Domain | None = None
        groups, at = None, tuple[float, ...]()
        if isinstance(task, Grouped):
            (bins, groups), at = task.domain.parts, task.at
        elif isinstance(protocol.randomizer.domain, Categories):
            bins = task.domain
        assert groups is None or isinstance(groups, Categories)
        more: dict[str, Any] = {"by": by, "bins": bins, "groups": groups, "at": at}
        return cls(name=name, task=kind, notes=task.remarks(), hidden=hidden, **more)

    @property
    def _grouped(self) -> Grouped | None:
        if self.groups is None or self.bins is None:
            return None
        return Grouped(domain=Answers(parts=(self.bins, self.groups)), inner=self.task, at=self.at)

    def read(self, estimate: Estimate) -> Estimate:
        """Return the answer to the question."""
        answer, parts = estimate, self.groups or self.bins
        if self._grouped is not None:
            answer = self._grouped.convert(estimate)
        elif self.bins is not None:
            answer = estimate.label(self.bins)
        if not self.hidden or parts is None:
            return answer
        return leave_out(answer, parts.size, self.hidden)

    def check(self, protocol: ShuffleProtocol) -> None:
        """Refuse a reading of another protocol."""
        size = protocol.randomizer.domain.size
        own = self.bins if self._grouped is None else self._grouped.domain
        if own is not None and own.size != size:
            raise MismatchError(f"{own.size} bins of {self.name!r} do not fit its protocol")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; `read_dict` reads them."""
        return {
            "name": self.name,
            "task": self.task,
            "by": self.by,
            "bins": None if self.bins is None else _write_domain(self.bins),
            "groups": None if self.groups is None else list(self.groups.labels),
            "notes": list(self.notes),
            **({"at": list(self.at)} if self.at else {}),
            **({"hidden": self.hidden} if self.hidden else {}),
            **({} if self.moments is None else {"moments": self.moments}),
            **({"of_rows": True} if self.of_rows else {}),
        }

    @classmethod
    def read_dict(cls, content: Mapping[str, Any]) -> "Reading":
        """Read what `to_dict` wrote.

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
            at=tuple(map(float, content.get("at", ()))),
            hidden=whole("hidden", content.get("hidden", 0), at_least=0),
            moments=_read_moments(content.get("moments")),
            of_rows=_read_flag("of_rows", content.get("of_rows", False)),
        )


def _read_moments(name: str | None) -> str | None:
    if name is not None and name not in MOMENTS:
        raise ParameterError("moments", name, f"must be one of {', '.join(MOMENTS)}")
    return name


def _read_flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ParameterError(name, value, "must be true or false")
    return value


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
        case Cells(lower=lower, upper=upper, cells=cells):
            return {"kind": "cells", "lower": lower, "upper": upper, "cells": cells}
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
        case "cells":
            return Cells(**given)
        case "categories":
            return _read_names(given["k"], given["names"])
        case kind:
            raise ParameterError("kind", kind, "must be bits, integers, reals, cells or categories")


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The questions that a protocol answers: one, or those of a survey.

    >>> Form(readings=(Reading(name="pet", task="count"),)).to_dict()["title"]
    """

    readings: tuple[Reading, ...]
    title: str | None = None
    """What the survey is called; None: it is one question."""
    unit: str = "row"
    """Whose messages they are: of one "person" with all their rows, or of one "row"."""

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
        """Return plain values for JSON; `read_dict` reads them."""
        questions = [each.to_dict() for each in self.readings]
        return {"title": self.title, "unit": self.unit, "questions": questions}

    @classmethod
    def read_dict(cls, content: Any) -> "Form":
        """Read what `to_dict` wrote.

        >>> Form.read_dict({})
        Traceback (most recent call last):
        shuffledp.core.errors.DataError: it does not say what was asked
        """
        try:
            readings = tuple(Reading.read_dict(each) for each in content["questions"])
            unit = content.get("unit", "row")
            if unit not in ("person", "row"):
                raise ParameterError("unit", unit, "must be person or row")
            return cls(readings=readings, title=content["title"], unit=unit)
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError("it does not say what was asked") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """A tally and its protocol; collections of the same protocol add.

    >>> from shuffledp import protocols
    >>> p = protocols.krr.make_local(k=2, epsilon=1.0)
    >>> monday = Collected(protocol=p, tally=Tally(counts=np.array([3, 1]), users=4))
    >>> (monday + monday).tally.users
    8
    """

    protocol: ShuffleProtocol
    tally: Tally
    labels: tuple[str, ...] | None = None
    """The declared names of the categories, if they have any."""
    form: Form | None = None
    """What was asked, if it was a survey or a question by group."""
    shuffles: tuple[int, ...] = ()
    """How many people each shuffle had; () where all of them were in one."""
    honest: float | None = None
    """The share of the people of each shuffle that is assumed honest; None: as planned."""
    not_private: tuple[str, ...] = ()
    """What no noise protects, in words."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "shuffles", self.shuffles or (self.tally.users,))
        if sum(self.shuffles) != self.tally.users or min(self.shuffles) < 0:
            raise ParameterError(
                "shuffles", self.shuffles, f"must add up to the {self.tally.users:,} people"
            )

    @property
    def in_force(self) -> ShuffleProtocol:
        """The protocol, with the guarantee for the people of the smallest shuffle.

        Whoever holds the files sees every shuffle by itself: the people of another one hide nobody.

        >>> from shuffledp import protocols
        >>> p = protocols.rr.make(n=1000, epsilon=1.0, delta=1e-6)
        >>> place = Collected(protocol=p, tally=Tally(counts=np.array([500, 500]), users=1000))
        >>> (place + place).in_force.guarantee.epsilon == p.guarantee.epsilon
        True
        """
        return self.protocol.with_people(min(self.shuffles), self.honest)

    @property
    def guarantee_of_sum(self) -> Guarantee | None:
        """What is promised against readers of nothing but the sum of several shuffles; None where that is no more."""
        if len(self.shuffles) < 2 or self.protocol.users is None:
            return None
        return self.protocol.with_people(self.tally.users, self.honest).guarantee

    @property
    def estimate(self) -> Estimate:
        """The answer, with the declared names; of a survey, all answers in one row."""
        inputs = replace(self.tally, users=self.tally.users * self.protocol.values)
        estimate = self.protocol.analyzer.estimate(inputs)
        if self.form is not None and self.form.title is None:
            return self.form.readings[0].read(estimate)
        if self.labels is None:
            return estimate
        return estimate.label(Categories(k=len(self.labels), names=self.labels))

    def __add__(self, other: "Collected") -> "Collected":
        if not isinstance(other, Collected):
            return NotImplemented
        if (self.protocol, self.labels) != (other.protocol, other.labels):
            raise MismatchError("tallies of different protocols or categories do not add")
        if self.form != other.form:
            raise MismatchError("tallies of different questions do not add")
        return replace(
            self,
            tally=self.tally + other.tally,
            shuffles=self.shuffles + other.shuffles,
            not_private=tuple(dict.fromkeys(self.not_private + other.not_private)),
        )


def write_tally(collected: Collected, path: str | Path) -> Path:
    """Keep a tally as JSON; refuses to overwrite.

    >>> from tempfile import TemporaryDirectory
    >>> from shuffledp import protocols
    >>> p = protocols.krr.make_local(k=2, epsilon=1.0)
    >>> tally = Tally(counts=np.array([3, 1]), users=4)
    >>> with TemporaryDirectory() as folder:
    ...     path = write_tally(Collected(protocol=p, tally=tally), f"{folder}/tally.json")
    ...     read_tally(path).tally.counts
    array([3, 1])
    """
    content = {
        "kind": _KIND,
        **describe(collected.protocol, collected.labels, collected.form, collected.not_private),
        "users": collected.tally.users,
        "shuffles": list(collected.shuffles),
        "counts": collected.tally.counts.tolist(),
    }
    return write_text(path, json.dumps(content) + "\n")


def read_tallies(paths: Sequence[str | Path]) -> Collected:
    """Add up the tallies in these files, which are of disjoint groups; refuse a file that is named twice."""
    if len({Path(path).resolve() for path in paths}) < len(paths):
        raise UnsupportedError("a tally is named twice: the same people would count twice")
    first, *others = map(read_tally, paths)
    return reduce(add, others, first)


def read_tally(path: str | Path) -> Collected:
    """Read a tally that `write_tally` wrote."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"there is no file {path}") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise DataError(f"{path} is not a tally: it is not JSON (`tally` writes them)") from error
    if not isinstance(content, dict) or content.get("kind") != _KIND:
        raise DataError(f"{path} is not a tally of shuffledp")
    protocol, labels, form = restore(content, str(path))
    counts, users, shuffles = _read_numbers(content, path)
    try:
        tally = Tally(counts=np.array(counts, dtype=np.int64), users=users)
        collected = Collected(
            protocol=protocol,
            tally=tally,
            labels=labels,
            form=form,
            shuffles=tuple(shuffles),
            not_private=read_not_private(content, str(path)),
        )
    except (OverflowError, ShuffledpError) as error:
        raise DataError(f"{path} is damaged: {error}") from error
    if tally.counts.shape != _measure_shape(protocol):
        raise DataError(f"{path} has {len(counts)} counts, which do not fit its protocol")
    return collected


def _read_numbers(content: Mapping[str, Any], path: str | Path) -> tuple[list[int], int, list[int]]:
    """Return the counts, the people, and the people of each shuffle."""
    if "shuffles" not in content:
        raise DataError(
            f"{path} does not say how many people each shuffle had, so its guarantee is not known: tally the "
            "messages again"
        )
    counts, users, shuffles = content.get("counts"), content.get("users"), content["shuffles"]
    if (
        not isinstance(counts, list)
        or not isinstance(users, int)
        or not isinstance(shuffles, list)
        or not shuffles
        or not all(map(_is_whole, [*counts, users, *shuffles]))
    ):
        raise DataError(f"{path} is damaged: users, shuffles and counts must be whole numbers")
    if 0 in (users, *shuffles):
        raise DataError(f"{path} has the tally of a shuffle without people: leave it out")
    return counts, users, shuffles


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _measure_shape(protocol: ShuffleProtocol) -> tuple[int, ...]:
    """Return the shape of a protocol's tallies, as a first user shows it."""
    if isinstance(protocol.analyzer, BundleAnalyzer | OneQuestionAnalyzer):
        return (protocol.analyzer.size,)
    randomizer = protocol.randomizer
    words = SecureWords().words(randomizer.words_per_input, randomizer.word_bits)
    messages = randomizer.encode(np.zeros(1, dtype=np.int64), words.reshape(1, -1))
    return protocol.analyzer.tally(forget(messages)).counts.shape


def describe(
    protocol: ShuffleProtocol,
    labels: tuple[str, ...] | None,
    form: Form | None = None,
    not_private: Sequence[str] = (),
) -> dict[str, Any]:
    """Return what a file says about its protocol, as JSON has it.

    >>> from shuffledp import protocols
    >>> describe(protocols.krr.make_local(k=2, epsilon=1.0), None)["protocol"]
    'krr'
    """
    return {
        "version": __version__,
        "protocol": protocol.name,
        "parameters": dict(protocol.parameters),
        "law": _hash_law(protocol),
        "labels": None if labels is None else list(labels),
        **({} if form is None else {"form": form.to_dict()}),
        **({"not_private": list(not_private)} if not_private else {}),
    }


def read_not_private(content: Mapping[str, Any], path: str) -> tuple[str, ...]:
    """Read what no noise protects, as `describe` wrote it down.

    >>> read_not_private({"not_private": ["the noise is seeded"]}, "tally.json")
    ('the noise is seeded',)
    """
    said = content.get("not_private", [])
    if not isinstance(said, list) or not all(isinstance(each, str) for each in said):
        raise DataError(f"{path} is damaged: not_private must be a list of sentences")
    return tuple(said)


def _hash_law(protocol: ShuffleProtocol) -> str:
    """Return a fingerprint of the randomizer: another version might calibrate it in another way."""
    return hashlib.sha256(repr(protocol.randomizer).encode()).hexdigest()[:16]


def restore(
    content: Mapping[str, Any], path: str
) -> tuple[ShuffleProtocol, tuple[str, ...] | None, Form | None]:
    """Return the protocol, the labels and the form that `describe` wrote down."""
    name, parameters, labels = (content.get(key) for key in ("protocol", "parameters", "labels"))
    if not isinstance(name, str) or not isinstance(parameters, dict):
        raise DataError(f"{path} does not say which protocol it belongs to")
    try:
        protocol = make(name, **parameters)
        names = None if labels is None else _check_names(protocol, labels)
    except (ShuffledpError, TypeError, AttributeError) as error:
        raise DataError(f"{path} describes no protocol of this version: {error}") from error
    if content.get("law") != _hash_law(protocol):
        raise MismatchError(
            f"{path} was made by version {content.get('version')!r}, whose {name} has another law"
        )
    try:
        form = Form.read_dict(content["form"]).check(protocol) if "form" in content else None
    except ShuffledpError as error:
        raise DataError(f"{path} is damaged: {error}") from error
    return protocol, names, form


def _check_names(protocol: ShuffleProtocol, labels: list[str]) -> tuple[str, ...] | None:
    names = Categories(k=len(labels), names=tuple(labels)).names
    if protocol.randomizer.domain.size != len(labels):
        raise MismatchError(f"{len(labels)} labels do not fit its categories")
    return names
