"""The noise that servers add to one question: its law, as the document carries it.

The shuffler seals N_b messages that say b, for every bin b, and the analyzer adds as much to its tally before anything leaves
it: both draw from the same law, independently, once for every window. `bins`: N_b = L + Z_b, independent by bin. `count`:
one draw Z, L + Z times yes and L - Z times no, so that their total is fixed. Z is discrete Laplace, cut at L
(`numerics.cut_laplace`). The analyzer subtracts L for each server.

One message that moves from a bin to another is hidden with (2 a, 2 f - f^2), in a count with (a, f), f the mass of Z = L: for
either server's noise alone, whatever all other people do.
"""

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np

from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.core.errors import DataError, ParameterError, ShuffledpError, WireError
from shuffledp.core.randomizer import WordSource
from shuffledp.core.validate import whole
from shuffledp.live.wire.strict import Fields, as_decimal
from shuffledp.numerics.cut_laplace import MOST_STEPS, CutLaplace

__all__ = ["MOST_DUMMIES", "Dummies", "DummyKind", "read_dummies"]

MOST_DUMMIES = 200_000
"""Messages that a shuffler adds to a window, on average, for all questions together."""
_MOST_BINS = 1 << 16


class DummyKind(Enum):
    """How the numbers of dummies of a question's bins belong together."""

    BINS = "bins"
    """Each bin has a number of its own."""
    COUNT = "count"
    """Two bins, one draw: their total is fixed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dummies:
    """The law of what one server adds to a question.

    >>> law = Dummies(kind=DummyKind.BINS, bins=5, rate=0.5, most=36)
    >>> law.totals, law.mean_total, f"{float(law.delta):.2e}"
    ((0, 360), 180, '7.46e-09')
    >>> Dummies(kind=DummyKind.COUNT, bins=2, rate=1.0, most=18).totals
    (36, 36)
    """

    kind: DummyKind
    bins: int
    """Messages 0 .. bins-1, those that a device may send."""
    rate: float
    """a: neighbouring numbers of dummies differ in probability by a factor of at most e^a."""
    most: int
    """L: at most so many more, or fewer, than L messages for each bin."""
    word_bits: int = 64

    def __post_init__(self) -> None:
        whole("bins", self.bins, at_least=2, at_most=_MOST_BINS)
        if self.kind is DummyKind.COUNT and self.bins != 2:
            raise ParameterError("bins", self.bins, "must be 2 for a count")
        _ = self.noise

    @property
    def noise(self) -> CutLaplace:
        """The law of Z."""
        return CutLaplace(rate=self.rate, most=self.most, word_bits=self.word_bits)

    @property
    def draws(self) -> int:
        """How many Z are drawn; each takes two words."""
        return 1 if self.kind is DummyKind.COUNT else self.bins

    @property
    def totals(self) -> tuple[int, int]:
        """The fewest and the most messages that an honest server adds in all."""
        whole_of_it = 2 * self.bins * self.most
        return (whole_of_it // 2,) * 2 if self.kind is DummyKind.COUNT else (0, whole_of_it)

    @property
    def mean_total(self) -> int:
        """How many messages a server adds on average."""
        return self.bins * self.most

    @property
    def offset(self) -> int:
        """What one server adds to every bin on average, which is subtracted: L."""
        return self.most

    @property
    def variance(self) -> Fraction:
        """Of what one server adds to a bin, exactly."""
        return self.noise.variance

    @property
    def epsilon(self) -> Fraction:
        """Of one message that moves, at `delta`: 2 a, or a for a count; exact."""
        return Fraction(self.rate) * (1 if self.kind is DummyKind.COUNT else 2)

    @property
    def delta(self) -> Fraction:
        """Of one message that moves, at `epsilon`: 2 f - f^2, or f for a count; exact."""
        edge = self.noise.edge
        return edge if self.kind is DummyKind.COUNT else 2 * edge - edge**2

    def read(self, words: Words) -> Counts:
        """How many messages each bin gets, from words[draws, 2].

        >>> Dummies(kind=DummyKind.COUNT, bins=2, rate=1.0, most=1, word_bits=1).read(
        ...     np.array([[1, 1]], dtype=np.uint8)
        ... )
        array([0, 2])
        """
        z = self.noise.read(words)
        return self.most + (np.array([-z[0], z[0]]) if self.kind is DummyKind.COUNT else z)

    def draw(self, source: WordSource) -> Counts:
        """How many messages each bin gets: new ones at every call, so call it once for a window.

        >>> from shuffledp import SeededWords
        >>> Dummies(kind=DummyKind.BINS, bins=5, rate=0.5, most=36).draw(SeededWords(1))
        array([37, 31, 31, 37, 40])
        """
        words = source.words(2 * self.draws, self.word_bits).reshape(self.draws, 2)
        return self.read(words)

    def pmf(self) -> dict[tuple[int, ...], Fraction]:
        """The exact law of `draw`, for few bins."""
        one = self.noise.pmf()
        if self.kind is DummyKind.COUNT:
            return {(self.most - z, self.most + z): mass for z, mass in one.items()}
        law: dict[tuple[int, ...], Fraction] = {(): Fraction(1)}
        for _ in range(self.bins):
            law = {
                (*before, self.most + z): mass * own
                for before, mass in law.items()
                for z, own in one.items()
            }
        return law

    def messages(self, counts: Counts) -> Codes:
        """The dummies themselves: every bin as often as counts[bins] says, as a device's payload.

        >>> Dummies(kind=DummyKind.BINS, bins=2, rate=0.5, most=2).messages(np.array([1, 3]))
        array([0, 1, 1, 1])
        """
        if len(counts) != self.bins or (counts < 0).any():
            raise DataError(f"counts={counts.tolist()} must be {self.bins} numbers >= 0")
        return np.repeat(np.arange(self.bins), counts)

    def add(self, counts: Counts, source: WordSource) -> Counts:
        """The tally counts[bins] with one server's noise: what the analyzer does once, before anything leaves it."""
        if counts.shape != (self.bins,):
            raise DataError(f"a tally of shape {counts.shape} must have {self.bins} bins")
        return counts + self.draw(source)

    def to_dict(self) -> dict[str, Any]:
        """As it stands in the document.

        >>> Dummies(kind=DummyKind.BINS, bins=5, rate=0.5, most=36).to_dict()
        {'kind': 'bins', 'bins': 5, 'rate': '0.5', 'most': 36}
        """
        return {
            "kind": self.kind.value,
            "bins": self.bins,
            "rate": as_decimal(self.rate),
            "most": self.most,
        }


def read_dummies(content: object) -> Dummies:
    """The law that a document states, strictly.

    >>> read_dummies({"kind": "bins", "bins": 5, "rate": "0.5", "most": 36}).most
    36
    """
    found = Fields("noise", content)
    kind = found.text("kind", 20)
    if kind not in [each.value for each in DummyKind]:
        raise WireError("document", f"noise.kind={kind!r} must be bins or count")
    bins, most = found.whole("bins", 2, _MOST_BINS), found.whole("most", 1, MOST_STEPS)
    rate = found.decimal("rate")
    found.finish()
    try:
        return Dummies(kind=DummyKind(kind), bins=bins, rate=rate, most=most)
    except ShuffledpError as error:
        raise WireError("document", f"the noise of a question: {error}") from None
