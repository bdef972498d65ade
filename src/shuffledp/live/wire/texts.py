"""What a participant reads: the language and texts of a survey, and how each question is asked.

None of it changes what is sent.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from shuffledp import tasks
from shuffledp.core.errors import WireError
from shuffledp.live.wire.logo import MOST_BYTES, check_logo
from shuffledp.live.wire.strict import Fields

_LONGEST = 4_000  # characters of a text that is more than a line
_LONGEST_LOGO = 40 + 4 * MOST_BYTES // 3
_STEPS = 11  # of a scale, at most
_LANGUAGE = re.compile("[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?", re.ASCII)
_DIRECTIONS = ("ltr", "rtl")


class Kind(Enum):
    """How a question is asked."""

    YES_NO = "yes_no"
    CHOICE = "choice"
    """One of the labels."""
    SCALE = "scale"
    """One of the numbers from 1 on, with a text at both ends."""
    SEVERAL = "several"
    """Whether one of several choices applies; questions of the same `part_of` are shown as one."""
    NUMBER = "number"
    TEXT = "text"


def _kinds_of(task: str) -> tuple[Kind, ...]:
    known = tasks.TASKS.get(task)
    if known is None:  # a number by group
        return (Kind.NUMBER,)
    if known.yes_or_no:
        return Kind.YES_NO, Kind.SEVERAL
    if known.bins:
        return Kind.CHOICE, Kind.SCALE
    return (Kind.NUMBER,) if known.listed else (Kind.TEXT,)


def suggest_kind(task: str) -> Kind:
    """Return how questions of a task are asked if nothing else is said, and in format 1.

    >>> suggest_kind("count"), suggest_kind("mean_by_group")
    (<Kind.YES_NO: 'yes_no'>, <Kind.NUMBER: 'number'>)
    """
    return _kinds_of(task)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The question of which several are the choices."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How one question is asked.

    >>> Asking(kind=Kind.NUMBER, unit="km").to_dict()["unit"]
    'km'
    """

    kind: Kind
    description: str | None = None
    unit: str | None = None
    """Of a number."""
    skip: bool = False
    """Whether the last label is for those who prefer not to say: a category like any other."""
    ends: tuple[str, str] | None = None
    """What the first and the last step of a scale mean."""
    part_of: Part | None = None

    def to_dict(self) -> dict[str, Any]:
        """As it stands in the document."""
        part = self.part_of
        return {
            "kind": self.kind.value,
            "description": self.description,
            "unit": self.unit,
            "skip": self.skip,
            "ends": None if self.ends is None else list(self.ends),
            "part_of": None if part is None else {"name": part.name, "text": part.text},
        }


def read_asking(content: object, name: str, task: str, labels: Sequence[str] | None) -> Asking:
    """Return how a document asks a question, strictly; what it says must fit its task and its labels."""
    found = Fields("asked", content)
    said = found.text("kind", 20)
    if said not in [each.value for each in _kinds_of(task)]:
        kinds = " or ".join(each.value for each in _kinds_of(task))
        raise _bad(f"the {task} {name!r} is asked as {kinds}, not {said!r}")
    ends, part = found.take("ends"), found.take("part_of")
    asking = Asking(
        kind=Kind(said),
        description=found.optional_text("description", _LONGEST),
        unit=found.optional_text("unit", 40),
        skip=found.flag("skip"),
        ends=None if ends is None else _read_ends(ends),
        part_of=None if part is None else _read_part(Fields("part_of", part)),
    )
    found.finish()
    _check(asking, name, task, labels)
    return asking


def _read_ends(content: object) -> tuple[str, str]:
    if not isinstance(content, list) or len(content) != 2:
        raise _bad("ends must be two texts")
    first, last = (Fields("ends", {"text": each}).text("text", 200) for each in content)
    return first, last


def _read_part(found: Fields) -> Part:
    part = Part(name=found.name("name"), text=found.text("text"))
    found.finish()
    return part


def _check(asking: Asking, name: str, task: str, labels: Sequence[str] | None) -> None:
    kind = asking.kind
    if asking.unit is not None and kind is not Kind.NUMBER:
        raise _bad(f"{name!r} has a unit, and is no number")
    if asking.skip and (Kind.CHOICE not in _kinds_of(task) or labels is None or len(labels) < 3):
        raise _bad(f"{name!r} cannot be skipped: that is one of three or more categories")
    if (asking.ends is not None) != (kind is Kind.SCALE):
        raise _bad(f"{name!r} has ends if it is a scale, and only then")
    if (asking.part_of is not None) != (kind is Kind.SEVERAL):
        raise _bad(f"{name!r} is part of another question if several are chosen, and only then")
    if kind is Kind.SCALE:
        steps = list(labels or ())[: -1 if asking.skip else None]
        if len(steps) > _STEPS or steps != [str(1 + place) for place in range(len(steps))]:
            raise _bad(f"the labels of the scale {name!r} must be 1, 2, ... up to {_STEPS}")


def check_parts(parts: Sequence[Part | None]) -> None:
    """Refuse choices of one question that are not neighbours, are alone, or say different things of it."""
    seen: dict[str, list[int]] = {}
    for place, part in enumerate(parts):
        if part is not None:
            seen.setdefault(part.name, []).append(place)
    for name, places in seen.items():
        alike = len({parts[place] for place in places}) == 1
        if len(places) < 2 or places[-1] - places[0] + 1 != len(places) or not alike:
            raise _bad(f"the choices of {name!r} must be two or more, neighbours, with one text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """What stands around the questions, and in which language.

    >>> Texts(title="Eine Umfrage", language="de").direction
    'ltr'
    """

    title: str
    language: str = "en"
    direction: str = "ltr"
    welcome: str | None = None
    consent: str | None = None
    """What people agree to before they answer."""
    contact: str | None = None
    logo: str | None = None
    """A small picture, as `pack_logo` writes it."""

    def to_dict(self) -> dict[str, Any]:
        """As they stand in the document."""
        return {
            "title": self.title,
            "language": self.language,
            "direction": self.direction,
            "welcome": self.welcome,
            "consent": self.consent,
            "contact": self.contact,
            **({} if self.logo is None else {"logo": self.logo}),
        }


def read_texts(found: Fields) -> Texts:
    """Return the texts of a document, strictly."""
    texts = Texts(
        title=found.text("title"),
        language=found.text("language", 20),
        direction=found.text("direction", 3),
        welcome=found.optional_text("welcome", _LONGEST),
        consent=found.optional_text("consent", _LONGEST),
        contact=found.optional_text("contact", 500),
        logo=found.text("logo", _LONGEST_LOGO) if found.has("logo") else None,
    )
    found.finish()
    if texts.logo is not None:
        check_logo(texts.logo)
    if not _LANGUAGE.fullmatch(texts.language):
        raise _bad(f"the language {texts.language!r} must be a tag such as en, pt-BR or sr-Latn")
    if texts.direction not in _DIRECTIONS:
        raise _bad(f"the direction {texts.direction!r} must be ltr or rtl")
    return texts


def _bad(sentence: str) -> WireError:
    return WireError("document", sentence)
