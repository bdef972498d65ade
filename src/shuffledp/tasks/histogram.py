"""How many people have each value, how the values are distributed, and whether they are uniform.

Or which words many people have, where nobody can list the values.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.analyzer import Estimate, Value
from shuffledp.core.arrays import Floats
from shuffledp.core.domain import Categories, Domain, Integers
from shuffledp.core.errors import DataError, MismatchError, ParameterError, UnsupportedError
from shuffledp.core.task import Column, Declared, Option, Task, say_of
from shuffledp.core.texts import ALPHABETS, Keys, Texts
from shuffledp.core.validate import below_one, number, whole
from shuffledp.numerics.rounding import float_above
from shuffledp.tasks.totals import LOWER, UPPER, is_whole, mean_square

BINS = (
    Option(
        name="categories",
        kind=tuple,
        help='The public categories, comma-separated: a,b,c. Quote one that contains a comma: a,"b, c".',
    ),
    Option(name="categories_file", kind=Path, help="The public categories, one per line."),
    Option(
        name="categories_from_data",
        kind=bool,
        help="Read the categories from the data: NOT private, and the result says so.",
    ),
    Option(name="k", kind=int, help="The number of categories, if they are the codes 0 .. k-1."),
    LOWER,
    UPPER,
)
"""What fixes the bins; `lower` and `upper` are for bins of one integer each."""

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

_MOST_BINS = 10_000_000  # that are listed one by one
_NONE = "No word was found. That is an answer, too: a word that very many people have would most likely have been found."


@dataclass(frozen=True, slots=True, kw_only=True)
class Binned(Task):
    """A question whose answer is one number for each value of the domain."""

    options: ClassVar[tuple[Option, ...]] = BINS
    bins = True

    domain: Domain

    @classmethod
    def declare(cls, options: Mapping[str, Any], column: Column | None = None) -> Declared:
        domain, not_private = declare_bins(cls.name, cls.read_options(options), column)
        return Declared(task=cls(domain=domain), not_private=not_private)

    def arguments(self) -> Mapping[str, Any]:
        return {"k": self.domain.size}


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram(Binned):
    """The number of people with each value of the domain; the loss is averaged over the bins.

    >>> task = Histogram(domain=Categories(k=3))
    >>> truth = task.truth([0, 2, 2, 2])
    >>> truth, task.loss(np.array([2.0, 0.0, 1.0]), truth)
    (array([1., 0., 3.]), 1.6666666666666667)
    >>> Histogram.declare({"categories": ["cat", "dog"]}).task.domain
    Categories(k=2, names=('cat', 'dog'))
    """

    name = "histogram"
    counts = True
    live = (Categories,)
    title = "how many people have each value"
    answered_by = ("histogram",)
    answer, total = "a bin", "a bin (root of the mean over bins)"

    values: int = 1
    """How many values each person has, all of them counted."""
    apart: bool = False
    """Whether the values of a person are all different."""

    def __post_init__(self) -> None:
        whole("values", self.values, at_least=1)
        if self.apart and self.values > self.domain.size:
            raise ParameterError("values", self.values, "must be at most the number of bins")

    def sensitivity(self, n: int) -> float:
        return 2 * self.values  # each leaves a bin and enters another

    def truth(self, values: ArrayLike) -> Floats:
        return np.bincount(self.domain.codes(values), minlength=self.domain.size).astype(np.float64)

    def loss(self, estimate: Value, truth: Value) -> float:
        check_bins(self.domain, estimate=estimate, truth=truth)
        return mean_square(estimate, truth)


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution(Binned):
    """The share of the people with each value of the domain; the loss is the total variation distance.

    The truth is about these people. What they say about the population that they were drawn from is
    off by the sampling error, too: see `sdp.learn`.

    >>> from shuffledp import Categories
    >>> task = Distribution(domain=Categories(k=3))
    >>> truth = task.truth([0, 2, 2, 2])
    >>> truth, task.loss(np.array([0.5, 0.25, 0.25]), truth)
    (array([0.25, 0.  , 0.75]), 0.5)
    """

    name = "distribution"
    title = "how the values are distributed"
    elsewhere = "sdp.learn (shuffledp learn)"
    answer, total = "a share", "a bin"
    average = True

    def sensitivity(self, n: int) -> float:
        return float_above(Fraction(2, n))

    def truth(self, values: ArrayLike) -> Floats:
        codes = self.domain.codes(values)
        return np.bincount(codes, minlength=self.domain.size) / np.float64(len(codes))

    def loss(self, estimate: Value, truth: Value) -> float:
        check_bins(self.domain, estimate=estimate, truth=truth)
        return float(np.abs(np.asarray(estimate) - np.asarray(truth)).sum() / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniformity(Task):
    """How far a law is from uniform; the loss of a verdict is 1 if it is wrong, and 0 otherwise.

    `truth` is the total variation distance of these values from uniform. A verdict is 1 (accept) or 0
    (reject), and is judged by the distance of the law that it is about: accepting is wrong from alpha
    on, rejecting is wrong at 0, and in between both are right.

    >>> from shuffledp import Categories
    >>> task = Uniformity(domain=Categories(k=4), alpha=0.25)
    >>> distance = task.truth([0, 0, 1, 2])
    >>> distance, task.loss(1.0, distance), task.loss(0.0, distance)
    (0.25, 1.0, 0.0)
    """

    name = "uniformity"
    title = "whether the values are uniform"
    options = (*BINS, Option(name="alpha", kind=float, help="The distance to tell from uniform."))
    elsewhere = "sdp.uniformity_test (shuffledp test)"
    answer = total = "the distance"

    domain: Domain
    alpha: float = 0.0
    """The smallest distance at which accepting is wrong; 0: at every distance above 0."""

    def __post_init__(self) -> None:
        below_one("alpha", self.alpha)

    @classmethod
    def declare(cls, options: Mapping[str, Any], column: Column | None = None) -> Declared:
        given = cls.read_options(options)
        domain, not_private = declare_bins(cls.name, given, column)
        task = cls(domain=domain, alpha=given.get("alpha", 0.0))
        return Declared(task=task, not_private=not_private)

    def arguments(self) -> Mapping[str, Any]:
        return {"k": self.domain.size}

    def sensitivity(self, n: int) -> float:
        return float_above(Fraction(1, n))  # half of what two shares move

    def truth(self, values: ArrayLike) -> float:
        codes, k = self.domain.codes(values), self.domain.size
        counts = np.bincount(codes, minlength=k)
        # In integers: equal counts have distance exactly 0.
        return float(np.abs(k * counts - len(codes)).sum()) / (2 * k * len(codes))

    def loss(self, estimate: Value, truth: Value) -> float:
        if np.shape(estimate) != () or float(estimate) not in (0.0, 1.0):
            raise MismatchError("the verdict must be 1 (accept) or 0 (reject)")
        if np.shape(truth) != ():
            raise MismatchError(f"the truth must be one number, but has shape {np.shape(truth)}")
        accepts, distance = float(estimate) == 1.0, float(truth)
        wrong = distance > 0 and distance >= self.alpha if accepts else distance == 0
        return float(wrong)


def check_bins(domain: Domain, **arrays: Value) -> None:
    """Refuse an estimate or a truth that has not one number for each bin.

    >>> check_bins(Categories(k=3), truth=np.zeros(2))
    Traceback (most recent call last):
    shuffledp.core.errors.MismatchError: the truth must have one number for each of the 3 bins, but has shape (2,)
    """
    for name, value in arrays.items():
        if np.shape(value) != (domain.size,):
            raise MismatchError(
                f"the {name} must have one number for each of the {domain.size} bins, "
                f"but has shape {np.shape(value)}"
            )


def declare_bins(
    task: str, given: Mapping[str, Any], column: Column | None
) -> tuple[Domain, tuple[str, ...]]:
    """Return the domain that the options of a task with bins describe, and what of it is not private.

    >>> declare_bins("histogram", {"lower": 1, "upper": 6}, None)
    (Integers(lower=1, upper=6), ())
    """
    _check_one_source(given)
    if "categories" in given:
        return _categories(given["categories"]), ()
    if "categories_file" in given:
        return _categories(_lines(given["categories_file"])), ()
    if "k" in given:
        return Categories(k=given["k"]), ()
    if "lower" in given:
        return _integers(given["lower"], given["upper"]), ()
    if "categories_from_data" in given and column is not None:
        return _from_data(column)
    raise UnsupportedError(
        f"{say_of(task, 'needs')} its categories from public knowledge: `categories`, `categories_file`, `k` for the "
        "codes 0 .. k-1, or `lower` and `upper` for integers. Reading them from the data leaks: that a rare "
        "value occurs at all tells that somebody has it, whatever noise its count gets. If that is "
        "acceptable, say categories_from_data"
    )


def _check_one_source(given: Mapping[str, Any]) -> None:
    if ("lower" in given) != ("upper" in given):
        raise UnsupportedError("lower and upper belong together")
    names = [option.name for option in BINS if option not in (LOWER, UPPER)]
    sources = [name for name in names if name in given]
    if len(sources) > 1:
        raise UnsupportedError(f"give one of {' and '.join(sources)}, not both")
    if sources and "lower" in given:
        raise UnsupportedError(f"give {sources[0]}, or lower and upper, not both")


def _integers(lower: float, upper: float) -> Integers:
    if not (is_whole(number("lower", lower)) and is_whole(number("upper", upper))):
        raise UnsupportedError("a histogram by lower and upper is of integers: give whole numbers")
    if upper - lower >= _MOST_BINS:
        raise ParameterError("upper", upper, f"must leave at most {_MOST_BINS:,} bins")
    return Integers(lower=int(lower), upper=int(upper))


def _from_data(column: Column) -> tuple[Categories, tuple[str, ...]]:
    names = column.categories()
    if len(names) == 1:
        raise DataError(f"column {column.name!r} has only one value: there is nothing to count")
    exposed = (
        f"the list of the {len(names):,} categories was read from the data: that each of them occurs "
        "is not protected"
    )
    return _categories(names), (exposed,)


def _lines(path: Path) -> list[str]:
    """Read one category per line; spaces around it do not count, nor do empty lines at the end."""
    try:
        lines = path.read_text(encoding="utf-8-sig").rstrip().splitlines()
        return [line.strip() for line in lines]
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not text in UTF-8") from error
    except OSError as error:
        raise DataError(f"categories_file {path} cannot be read: {error.strerror}") from error


def _categories(names: Sequence[str]) -> Categories:
    for place, name in enumerate(names, start=1):
        if not name.strip():
            raise ParameterError("categories", name, f"is empty (number {place})")
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ParameterError("categories", name, "is listed twice")
        seen.add(name)
    if len(names) < 2:
        raise ParameterError("categories", ",".join(names), "must be at least two")
    return Categories(k=len(names), names=tuple(names))


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
            f"people. This finds half of the words that {half:,} people have, and 95 % of those that {most:,} have: "
            "words that are not listed may have that many people, too.",
            "Standard errors are those of a word chosen before looking. A word is listed because its count came out "
            "large, so counts near the threshold tend to be too large; intervals allow for that.",
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
