"""Events that tell two sets of outcomes apart: a score of an outcome, and a threshold.

Scores are learned from one half of the samples. The event is then fixed, and counted in the other half:
so its probabilities there are those of an event that was chosen beforehand.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from shuffledp.core.arrays import Bools, Floats

__all__ = ["Event", "Score", "candidates"]

Score: TypeAlias = Callable[[Floats], Floats]
"""A number for each row of outcomes."""

_MOST_COLUMNS = 24
_MOST_THRESHOLDS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """{score >= threshold}, or {score <= threshold} where `sign` is -1.

    >>> Event(name="x", score=lambda rows: rows[:, 0], sign=-1, threshold=2.0).happens(np.array([[1.0], [3.0]]))
    array([ True, False])
    """

    name: str
    score: Score
    sign: int
    threshold: float

    def happens(self, rows: Floats) -> Bools:
        """Which outcomes it contains."""
        values = self.score(rows)
        return values >= self.threshold if self.sign > 0 else values <= self.threshold

    def __str__(self) -> str:
        return f"{self.name} {'>=' if self.sign > 0 else '<='} {self.threshold:.6g}"


def candidates(data: Floats, neighbour: Floats, score: Score | None) -> list[tuple[str, Score]]:
    """Scores that may tell the two apart, learned from these rows.

    >>> [name for name, _ in candidates(np.array([[0.0], [1.0]] * 9), np.array([[1.0]] * 9), None)]
    ['log-likelihood ratio', 'column 0']
    """
    found: list[tuple[str, Score]] = [] if score is None else [("the given score", score)]
    ratio = _likelihood(data, neighbour)
    if ratio is not None:
        found.append(("log-likelihood ratio", ratio))
    spread = np.sqrt((data.var(axis=0) + neighbour.var(axis=0)) / 2)
    apart = np.abs(data.mean(axis=0) - neighbour.mean(axis=0))
    varying = np.flatnonzero((spread > 0) | (apart > 0))
    strength = apart[varying] / np.maximum(spread[varying], 1e-9)
    best = varying[np.argsort(-strength)[:_MOST_COLUMNS]]
    found += [(f"column {column}", _column(int(column))) for column in best]
    if len(varying) > 1:
        found.append(("linear discriminant", _linear(data, neighbour, spread)))
    return found


def thresholds(values: Floats) -> Floats:
    """Some values of a score, spread over those that occur.

    >>> thresholds(np.array([3.0, 1.0, 3.0]))
    array([1., 3.])
    """
    distinct = np.unique(values)
    if len(distinct) <= _MOST_THRESHOLDS:
        return distinct
    places = np.linspace(0, len(distinct) - 1, _MOST_THRESHOLDS).astype(np.intp)
    return distinct[places]


def _column(column: int) -> Score:
    return lambda rows: rows[:, column]


def _linear(data: Floats, neighbour: Floats, spread: Floats) -> Score:
    """The best direction if columns were independent."""
    weights = (data.mean(axis=0) - neighbour.mean(axis=0)) / np.maximum(spread, 1e-9) ** 2
    return lambda rows: rows @ weights


def _likelihood(data: Floats, neighbour: Floats) -> Score | None:
    """ln of the ratio of the frequencies of each outcome; None if hardly any occurs twice."""
    multipliers = _multipliers(data.shape[1])
    a, b = _labels(data, multipliers), _labels(neighbour, multipliers)
    labels, place = np.unique(np.concatenate([a, b]), return_inverse=True)
    if len(labels) * 4 > len(place):
        return None
    first = np.bincount(place[: len(a)], minlength=len(labels))
    second = np.bincount(place[len(a) :], minlength=len(labels))
    ratios = np.log((first + 0.5) / (len(a) + 1.0)) - np.log((second + 0.5) / (len(b) + 1.0))

    def score(rows: Floats) -> Floats:
        wanted = _labels(rows, multipliers)
        near = np.minimum(np.searchsorted(labels, wanted), len(labels) - 1)
        return np.where(labels[near] == wanted, ratios[near], 0.0)

    return score


def _multipliers(columns: int) -> NDArray[np.uint64]:
    powers = [pow(0x9E3779B97F4A7C15, place + 1, 1 << 64) | 1 for place in range(columns)]
    return np.array(powers, dtype=np.uint64)


def _labels(rows: Floats, multipliers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Equal rows get equal labels; adding 0.0 makes -0.0 and 0.0 one."""
    if rows.shape[1] == 1:
        plain: NDArray[np.uint64] = (rows[:, 0] + 0.0).view(np.uint64)
        return plain
    labels = np.zeros(len(rows), dtype=np.uint64)
    for column, multiplier in zip((rows + 0.0).T, multipliers, strict=True):
        bits = np.ascontiguousarray(column).view(np.uint64)
        labels += (bits ^ (bits >> np.uint64(29))) * multiplier
    return labels
