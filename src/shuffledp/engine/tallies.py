"""A tally with the protocol that it belongs to, and how both are kept as JSON.

A tally is the analyzer's integers: it holds no message and no order, tallies of disjoint groups add,
and the estimate follows from it. Whoever holds the file can estimate, and nothing more.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from shuffledp.core.analyzer import Tally
from shuffledp.core.domain import Categories
from shuffledp.core.errors import DataError, MismatchError, ShuffledpError
from shuffledp.core.estimate import Estimate
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.shuffler import forget
from shuffledp.core.version import __version__
from shuffledp.engine.output import write_text
from shuffledp.engine.readings import Form
from shuffledp.numerics.entropy import SecureWords
from shuffledp.protocols import make
from shuffledp.protocols.bundle import BundleAnalyzer
from shuffledp.protocols.one_question import OneQuestionAnalyzer

__all__ = ["Collected", "describe", "read_tally", "restore", "write_tally"]

_KIND = "shuffledp tally"


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

    @property
    def estimate(self) -> Estimate:
        """The answer, with the declared names; of a survey, all answers in one row."""
        estimate = self.protocol.analyzer.estimate(self.tally)
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
        return replace(self, tally=self.tally + other.tally)


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
        **describe(collected.protocol, collected.labels, collected.form),
        "users": collected.tally.users,
        "counts": collected.tally.counts.tolist(),
    }
    return write_text(path, json.dumps(content) + "\n")


def read_tally(path: str | Path) -> Collected:
    """A tally that `write_tally` wrote."""
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
    counts, users = content.get("counts"), content.get("users")
    if not isinstance(users, int) or not isinstance(counts, list) or not all(map(_whole, counts)):
        raise DataError(f"{path} is damaged: users and counts must be whole numbers")
    try:
        tally = Tally(counts=np.array(counts, dtype=np.int64), users=users)
    except (OverflowError, ShuffledpError) as error:
        raise DataError(f"{path} is damaged: {error}") from error
    if tally.counts.shape != _shape(protocol):
        raise DataError(f"{path} has {len(counts)} counts, which do not fit its protocol")
    return Collected(protocol=protocol, tally=tally, labels=labels, form=form)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shape(protocol: ShuffleProtocol) -> tuple[int, ...]:
    """The shape of a protocol's tallies, as a first user shows it."""
    if isinstance(protocol.analyzer, BundleAnalyzer | OneQuestionAnalyzer):
        return (protocol.analyzer.size,)
    randomizer = protocol.randomizer
    words = SecureWords().words(randomizer.words_per_input, randomizer.word_bits)
    messages = randomizer.encode(np.zeros(1, dtype=np.int64), words.reshape(1, -1))
    return protocol.analyzer.tally(forget(messages)).counts.shape


def describe(
    protocol: ShuffleProtocol, labels: tuple[str, ...] | None, form: Form | None = None
) -> dict[str, Any]:
    """What a file says about its protocol, as JSON has it.

    >>> from shuffledp import protocols
    >>> describe(protocols.krr.make_local(k=2, epsilon=1.0), None)["protocol"]
    'krr'
    """
    return {
        "version": __version__,
        "protocol": protocol.name,
        "parameters": dict(protocol.parameters),
        "law": _law(protocol),
        "labels": None if labels is None else list(labels),
        **({} if form is None else {"form": form.to_dict()}),
    }


def _law(protocol: ShuffleProtocol) -> str:
    """A fingerprint of the randomizer: another version might calibrate it in another way."""
    return hashlib.sha256(repr(protocol.randomizer).encode()).hexdigest()[:16]


def restore(
    content: Mapping[str, Any], path: str
) -> tuple[ShuffleProtocol, tuple[str, ...] | None, Form | None]:
    """The protocol, the labels and the form that `describe` wrote down."""
    name, parameters, labels = (content.get(key) for key in ("protocol", "parameters", "labels"))
    if not isinstance(name, str) or not isinstance(parameters, dict):
        raise DataError(f"{path} does not say which protocol it belongs to")
    try:
        protocol = make(name, **parameters)
        names = None if labels is None else _names(protocol, labels)
    except (ShuffledpError, TypeError, AttributeError) as error:
        raise DataError(f"{path} describes no protocol of this version: {error}") from error
    if content.get("law") != _law(protocol):
        raise MismatchError(
            f"{path} was made by version {content.get('version')!r}, whose {name} has another law"
        )
    try:
        form = Form.read_dict(content["form"]).check(protocol) if "form" in content else None
    except ShuffledpError as error:
        raise DataError(f"{path} is damaged: {error}") from error
    return protocol, names, form


def _names(protocol: ShuffleProtocol, labels: list[str]) -> tuple[str, ...] | None:
    names = Categories(k=len(labels), names=tuple(labels)).names
    if protocol.randomizer.domain.size != len(labels):
        raise MismatchError(f"{len(labels)} labels do not fit its categories")
    return names
