"""Which words many people have, without a list of words."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.analyzer import Estimate, Value
from shuffledp.core.arrays import Floats
from shuffledp.core.domain import Domain
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.task import Column, Declared, Option, Task
from shuffledp.core.texts import ALPHABETS, Keys, Texts

ALPHABET = Option(
    name="alphabet",
    kind=str,
    help="The alphabet of the words: " + ", ".join(ALPHABETS) + ".",
)
MAX_LENGTH = Option(
    name="max_length", kind=int, help="The longest word, in bytes of UTF-8 (letters are one byte)."
)
BITS = Option(
    name="bits", kind=int, help="Words are integers with this many bits, up to 64, not texts."
)

_NONE = "No word was found. That is an answer, too: a word that very many people have would most likely have been found."


@dataclass(frozen=True, slots=True, kw_only=True)
class Words(Task):
    """Words that many people have, the most frequent first, without a list of words.

    >>> task = Words.declare({"alphabet": "letters", "max_length": 5}).task
    >>> task.count(["cat", "Cat", "dog"])
    {'cat': 2, 'dog': 1}
    """

    name = "words"
    title = "which words many people have, without a list of words"
    options = (ALPHABET, MAX_LENGTH, BITS)
    answered_by = ("words",)
    people = True
    listed = False
    live = (Texts, Keys)
    answer = total = "the count of a word"
    judged = "of {total}, if other words collide with it no more often than on average"

    domain: Domain

    def __post_init__(self) -> None:
        if not isinstance(self.domain, Texts | Keys):
            raise ParameterError("domain", self.domain, "must be Texts or Keys")

    @property
    def spelling(self) -> Texts | Keys:
        """The domain by its type."""
        assert isinstance(self.domain, Texts | Keys)
        return self.domain

    @classmethod
    def declare(cls, options: Mapping[str, Any], column: Column | None = None) -> Declared:
        given = cls.read_options(options)
        if "bits" in given:
            if len(given) > 1:
                raise UnsupportedError("bits is for integers: leave out alphabet and max_length")
            return Declared(task=cls(domain=Keys(bits=given["bits"])))
        if not {"alphabet", "max_length"} <= set(given):
            raise UnsupportedError(
                "words need an `alphabet` and a `max_length`, or `bits` for integers, from public knowledge"
            )
        domain = Texts(alphabet=given["alphabet"], max_length=given["max_length"])
        return Declared(task=cls(domain=domain))

    def arguments(self) -> Mapping[str, Any]:
        domain = self.spelling
        if isinstance(domain, Keys):
            return {"bits": domain.bits}
        return {"alphabet": domain.alphabet, "max_length": domain.max_length}

    def sensitivity(self, n: int) -> float:
        return 2  # one word loses a person, another one gains one

    def count(self, values: ArrayLike) -> dict[str, int]:
        """Count the people who have each word, the most frequent first."""
        codes, times = np.unique(self.spelling.codes(values), return_counts=True)
        words = self.spelling.spell(codes)
        pairs = zip(words, times.tolist(), strict=True)
        return dict(Counter({word: n for word, n in pairs if word is not None}).most_common())

    def truth(self, values: ArrayLike) -> Floats:
        """Return the counts of all words, the most frequent first."""
        return np.array([*self.count(values).values()], dtype=np.float64)

    def align(self, estimate: Estimate, values: ArrayLike) -> Value:
        """Return the exact counts of the words that were found."""
        counts = self.count(values)
        return np.array([counts.get(word, 0) for word in estimate.labels or ()], dtype=np.float64)

    def loss(self, estimate: Value, truth: Value) -> float:
        """Return the mean squared error of the counts of the same words."""
        counts = np.asarray(estimate)
        return float(np.mean(np.square(counts - np.asarray(truth)))) if counts.size else 0.0

    @classmethod
    def tell(cls, estimate: Estimate) -> tuple[str, ...]:
        """Say how many people a word needs to be seen, and why counts near that number are rather too large."""
        none = () if np.size(estimate.value) else (_NONE,)
        seen = _read_sight(estimate)
        if seen is None:
            return none
        threshold, (half, most) = seen["threshold"], (seen["found_half"], seen["found_95"])
        return (
            *none,
            f"A word is reported if it stands out at every level of its prefixes, at the last one by {threshold:,.0f} "
            f"people: half of the words that {half:,} people have are found, and 95 % of those that {most:,} have. "
            "Words that are not listed may have as many people as that.",
            "Standard errors are those of a word chosen before looking. A word is listed because its count came out "
            "large, so counts near the threshold are rather too large; intervals count that in.",
        )

    @classmethod
    def details(cls, estimate: Estimate) -> Mapping[str, Any]:
        seen = _read_sight(estimate)
        return {} if seen is None else {"found": seen}


def _read_sight(estimate: Estimate) -> dict[str, Any] | None:
    """Return the threshold and the curve of detection, if the estimate has them."""
    from shuffledp.protocols.hashed_prefixes import WordsError

    error = estimate.error
    if not isinstance(error, WordsError):
        return None
    sight = error.sight
    return {
        "threshold": error.threshold,
        "found_half": sight.find_count(0.5),
        "found_95": sight.find_count(0.95),
        "curve": [list(point) for point in sight.draw_curve()],
    }
