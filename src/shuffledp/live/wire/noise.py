"""The noise that servers add to one question: its law, as the document carries it.

The shuffler seals N_b messages that say b, for every bin b, and the analyzer adds as much to its tally before anything leaves
it: both draw from the same law, independently, once for every window. `bins`: N_b = L + Z_b, independent by bin. `count`:
one draw Z, L + Z times yes and L - Z times no, so that their total is fixed. Z is discrete Laplace, cut at L
(`numerics.tabulated`). The analyzer subtracts L for each server.

`hashed`: of too many categories to add messages to each, a message is a hash function and a value, and a server adds M
uniform ones: `protocols.server_hashing` says what they are worth. The analyzer adds its own before it counts.

One message that moves from a bin to another is hidden with (2 a, 2 f - f^2), in a count with (a, f), f the mass of Z = L: for
either server's noise alone, whatever all other people do.
"""

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.core.errors import DataError, ParameterError, ShuffledpError, WireError
from shuffledp.core.randomizer import WordSource
from shuffledp.core.validate import whole
from shuffledp.live.wire.strict import Fields, as_decimal
from shuffledp.numerics.galois import LinearHashing
from shuffledp.numerics.tabulated import MOST_STEPS, CutLaplace

HASHED = "hashed"
"""The kind of noise whose messages are hashed."""

MOST_DUMMIES = 200_000
"""Messages that a shuffler adds to a window, on average, for all questions together."""
_MOST_BINS = 1 << 16


class DummyKind(Enum):
    """How the numbers of dummies in a question's bins depend on each other."""

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
    def words(self) -> int:
        """How many words a server draws for a window, at most."""
        return 2 * self.bins

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
        """The exact variance of what one server adds to a bin."""
        return self.noise.variance

    @property
    def epsilon(self) -> Fraction:
        """The exact epsilon of one message that moves, at `delta`: 2 a, or a for a count."""
        return Fraction(self.rate) * (1 if self.kind is DummyKind.COUNT else 2)

    @property
    def delta(self) -> Fraction:
        """The exact delta of one message that moves, at `epsilon`: 2 f - f^2, or f for a count."""
        edge = self.noise.edge
        return edge if self.kind is DummyKind.COUNT else 2 * edge - edge**2

    def read(self, words: Words) -> Counts:
        """Read how many messages each bin gets from words[draws, 2].

        >>> Dummies(kind=DummyKind.COUNT, bins=2, rate=1.0, most=1, word_bits=1).read(
        ...     np.array([[1, 1]], dtype=np.uint8)
        ... )
        array([0, 2])
        """
        z = self.noise.read(words)
        return self.most + (np.array([-z[0], z[0]]) if self.kind is DummyKind.COUNT else z)

    def draw(self, source: WordSource) -> Counts:
        """Draw how many messages each bin gets: anew at every call, so call it once for a window.

        >>> from shuffledp import SeededWords
        >>> Dummies(kind=DummyKind.BINS, bins=5, rate=0.5, most=36).draw(SeededWords(1))
        array([37, 31, 31, 37, 40])
        """
        words = source.words(2 * self.draws, self.word_bits).reshape(self.draws, 2)
        return self.read(words)

    def pmf(self) -> dict[tuple[int, ...], Fraction]:
        """Return the exact law of `draw`, for few bins."""
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
        """Return the dummies themselves: every bin as often as counts[bins] says, as a device's payload.

        >>> Dummies(kind=DummyKind.BINS, bins=2, rate=0.5, most=2).messages(np.array([1, 3]))
        array([0, 1, 1, 1])
        """
        if len(counts) != self.bins or (counts < 0).any():
            raise DataError(f"counts={counts.tolist()} must be {self.bins} numbers >= 0")
        return np.repeat(np.arange(self.bins), counts)

    def make(self, source: WordSource) -> Codes:
        """Make the messages that one server adds: others at every call, so call it once for a window."""
        return self.messages(self.draw(source))

    def to_dict(self) -> dict[str, Any]:
        """Return it as it stands in the document.

        >>> Dummies(kind=DummyKind.BINS, bins=5, rate=0.5, most=36).to_dict()
        {'kind': 'bins', 'bins': 5, 'rate': '0.5', 'most': 36}
        """
        return {
            "kind": self.kind.value,
            "bins": self.bins,
            "rate": as_decimal(self.rate),
            "most": self.most,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class HashedDummies:
    """What one server adds to a question of many categories: a number of messages, each uniform in a hash family.

    >>> law = HashedDummies(messages=64_000, r=32, s=10, width=1)
    >>> law.totals, law.mean_total, float(law.support)
    ((64000, 64000), 64000, 0.0009765625)
    """

    messages: int
    r: int
    """A function is one of 2^r."""
    s: int
    """Its values are 0 .. 2^s - 1."""
    width: int
    """A message supports the categories whose value differs from its own by less, as XOR."""

    def __post_init__(self) -> None:
        whole("messages", self.messages, at_least=1)
        _ = self._hashing

    @property
    def _hashing(self) -> LinearHashing:
        """The hash family, of any number of categories."""
        return LinearHashing(k=2, r=self.r, s=self.s, width=self.width)

    @property
    def support(self) -> Fraction:
        """The share of all messages that support a category."""
        return self._hashing.q

    @property
    def words(self) -> int:
        """How many words a server draws for a window."""
        return self.messages

    @property
    def totals(self) -> tuple[int, int]:
        """The fewest and the most messages that an honest server adds in all: their number is fixed."""
        return self.messages, self.messages

    @property
    def mean_total(self) -> int:
        """How many messages a server adds."""
        return self.messages

    def make(self, source: WordSource) -> Words:
        """Make the messages that one server adds, (a, v) in rows: others at every call, so call it once for a window.

        >>> from shuffledp import SeededWords
        >>> HashedDummies(messages=3, r=8, s=4, width=1).make(SeededWords(1)).shape
        (3, 2)
        """
        return self.read(source.words(self.messages, 64))

    def read(self, words: Words) -> Words:
        """Return the message of each word: the function is its low r bits, the value the s bits above."""
        return self._hashing.scatter(words)

    def to_dict(self) -> dict[str, Any]:
        """Return it as it stands in the document.

        >>> HashedDummies(messages=64_000, r=32, s=10, width=1).to_dict()
        {'kind': 'hashed', 'messages': 64000, 'r': 32, 's': 10, 'width': 1}
        """
        own = {"messages": self.messages, "r": self.r, "s": self.s, "width": self.width}
        return {"kind": HASHED, **own}


Added: TypeAlias = Dummies | HashedDummies
"""What one server adds to a question."""


def read_dummies(content: object) -> Added:
    """Read the law that a document states, strictly.

    >>> read_dummies({"kind": "bins", "bins": 5, "rate": "0.5", "most": 36}).mean_total
    180
    """
    fields = Fields("noise", content)
    kind = fields.text("kind", 20)
    try:
        if kind == HASHED:
            return _read_hashed(fields)
        if kind not in [each.value for each in DummyKind]:
            raise WireError("document", f"noise.kind={kind!r} must be bins, count or hashed")
        bins, most = fields.whole("bins", 2, _MOST_BINS), fields.whole("most", 1, MOST_STEPS)
        rate = fields.decimal("rate")
        fields.finish()
        return Dummies(kind=DummyKind(kind), bins=bins, rate=rate, most=most)
    except WireError:  # one of the others, too, but with a reason already
        raise
    except ShuffledpError as error:
        raise WireError("document", f"the noise of a question: {error}") from None


def _read_hashed(fields: Fields) -> HashedDummies:
    law = HashedDummies(
        messages=fields.whole("messages", 1, MOST_DUMMIES),
        r=fields.whole("r", 2, 32),
        s=fields.whole("s", 1, 32),
        width=fields.whole("width", 1, 2**32 - 1),
    )
    fields.finish()
    return law
