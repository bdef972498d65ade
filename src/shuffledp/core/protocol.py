"""Concept 5, the protocol P = (R, A) with its guarantee: the unit that everything else takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shuffledp.core.analyzer import Analyzer
from shuffledp.core.privacy import Guarantee
from shuffledp.core.randomizer import Randomizer
from shuffledp.core.task import Question

__all__ = ["Cost", "Parameters", "ShuffleProtocol", "Spec"]

Parameters = Mapping[str, Any]
"""Plain numbers and strings, as they are written in JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one user sends."""

    messages_mean: float
    messages_max: int
    bits_per_message: int
    count_depends_on_value: bool
    """If so, the transport must hide how many messages each user sends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleProtocol:
    """P = (R, A) and what it promises; `name` and `parameters` rebuild it."""

    name: str
    parameters: Parameters
    question: Question
    randomizer: Randomizer
    analyzer: Analyzer
    guarantee: Guarantee
    cost: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A line of the registry: all that tests, docs, planner and command line need to know."""

    name: str
    title: str
    question: Question
    reference: str
    make_local: Callable[..., ShuffleProtocol]
    examples: tuple[Parameters, ...]
    """Ordinary parameters."""
    enumerable: tuple[Parameters, ...]
    """Parameters so small that a test can run every tape."""
