"""The exact audit: what an attacker learns from a view, with nothing assumed and nothing left out.

Three views of a finite randomizer R:

- local: the messages of one user, in order;
- preshuffled: the messages of one user, as a multiset;
- shuffled: the messages of n users, as a multiset.

`exact` is the smallest delta for which the view is (epsilon, delta)-DP under replace-one neighbours:

    max over x, x', z_2 .. z_n of   sum_o max(0, Pr[view(x, z) = o] - e^epsilon Pr[view(x', z) = o]),

over all inputs x, x' and *all* inputs z of the others. Small questions are answered in integers, larger
ones in floating point with both ends (`bounds`), and those beyond are refused with their cost.

**Any randomizer** can be audited, from its probabilities or from its code.

`channel` takes the probability of every tuple of messages; `enumerate_tape` takes a Python function and
runs it on every tape of a few bits. Both give a `Channel`: a `Randomizer` with an exact law, ready for
`shuffledp.audit.exact`, for the accountant, and, if its probabilities fit the tape, for `randomize`.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffledp.accounting.exact import local_delta, local_ratio
from shuffledp.audit.search import Bounds, ExactViews, Sweep, sort_items
from shuffledp.core.arrays import Codes, Floats, Words
from shuffledp.core.domain import Categories
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.notebook import list_facts, say, stack
from shuffledp.core.privacy import round_down, round_up
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import Law, Messages, Randomizer, check_randomizer
from shuffledp.core.validate import number, whole
from shuffledp.numerics.rounding import exp_bounds, float_above, float_below, log_upper
from shuffledp.numerics.tape import table

LARGEST_TAPE = 1 << 22
"""Tapes that `enumerate_tape` agrees to run, over all inputs."""


_Rows: TypeAlias = Mapping[Any, Mapping[Any, Any]] | Sequence[Sequence[Any]] | NDArray[Any]


@dataclass(frozen=True, kw_only=True)  # no slots: what follows from the laws is kept
class Channel:
    """A finite randomizer, given by its laws: laws[x] is what the input of code x sends.

    `inputs` are the names that its maker gave to the codes. Messages may be anything hashable;
    `encode` sends integers as they are, and anything else as its position in `messages`.

    >>> noisy = channel([["3/4", "1/4"], ["1/4", "3/4"]])
    >>> noisy.pmf(0)
    {(0,): Fraction(3, 4), (1,): Fraction(1, 4)}
    >>> round(noisy.epsilon0, 6)
    1.098612
    """

    inputs: tuple[Hashable, ...]
    laws: tuple[Law, ...]
    word_bits: int = 64

    @property
    def domain(self) -> Categories:
        named = all(isinstance(name, str) and name for name in self.inputs)
        names = cast("tuple[str, ...]", self.inputs) if named else None
        return Categories(k=len(self.inputs), names=names)

    @cached_property
    def epsilon0(self) -> float:
        """The local privacy, rounded up: ln of the largest likelihood ratio, infinite if none."""
        return log_upper(local_ratio(self.laws))

    @property
    def words_per_input(self) -> int:
        return 1

    @cached_property
    def messages(self) -> tuple[Any, ...]:
        """Every message that somebody may send, in order."""
        messages = {message for law in self.laws for sent in law for message in sent}
        return tuple(sort_items(messages))

    def pmf(self, x: int) -> Law:
        return dict(self.laws[x])

    def encode(self, inputs: Codes, words: Words) -> Messages:
        """Encode by inversion of the cumulative law: exact if all probabilities are multiples of 2^-word_bits."""
        sent = np.empty(len(inputs), dtype=np.int64)  # a position in `_outputs`
        for x, shares in enumerate(self._shares):
            here = np.asarray(inputs) == x
            sent[here] = table(words[here, 0], shares, self.word_bits)
        lengths = np.array([len(output) for output in self._outputs])
        ends = np.cumsum(lengths)
        sends = [message for output in self._outputs for message in output]
        if not self._plain:
            sends = [self.messages.index(message) for message in sends]
        flat = np.array(sends, dtype=np.int64)
        owner = np.repeat(np.arange(len(inputs)), lengths[sent])
        # The place of each message within its own user's tuple.
        place = np.arange(len(owner)) - np.repeat(
            np.cumsum(lengths[sent]) - lengths[sent], lengths[sent]
        )
        payload = flat[(ends - lengths)[sent][owner] + place]
        return Messages(payload=payload, owner=owner, users=len(inputs))

    def round(self, word_bits: int = 64) -> "Channel":
        """Return a channel whose probabilities are multiples of 2^-word_bits, each moved by less than one.

        It is another channel, with its own exact law, that `encode` can sample.

        >>> channel([["1/3", "2/3"], ["2/3", "1/3"]]).round(4).pmf(0)
        {(0,): Fraction(5, 16), (1,): Fraction(11, 16)}
        """
        bits = whole("word_bits", word_bits, at_least=1, at_most=64)
        laws = tuple(_round_law(law, 1 << bits) for law in self.laws)
        return Channel(inputs=self.inputs, laws=laws, word_bits=bits)

    @cached_property
    def _outputs(self) -> tuple[tuple[Any, ...], ...]:
        return tuple(dict.fromkeys(sent for law in self.laws for sent in law))

    @cached_property
    def _shares(self) -> tuple[tuple[int, ...], ...]:
        grid = 1 << self.word_bits
        if any((q * grid).denominator != 1 for law in self.laws for q in law.values()):
            raise UnsupportedError(
                f"words of {self.word_bits} bits cannot have these probabilities exactly: "
                "sample channel.round(), which has its own exact law"
            )
        return tuple(
            tuple(int(law.get(output, Fraction(0)) * grid) for output in self._outputs)
            for law in self.laws
        )

    @cached_property
    def _plain(self) -> bool:
        return all(type(m) is int and abs(m) < 1 << 62 for m in self.messages)


def channel(rows: _Rows) -> Channel:
    """Return a randomizer with these probabilities.

    `rows` is {input: {tuple of messages: probability}}, or a matrix with a row for each input and a
    column for each (single) message 0, 1, ... A message that is not a tuple stands for the tuple of it
    alone. Probabilities are fractions, integers, or strings such as "1/3" and "0.1"; floats only if
    each row, as the binary fractions that they are, sums to exactly 1.

    >>> mirrored = channel({0: {(0, 1): 1}, 1: {(1, 0): 1}})
    >>> mirrored.epsilon0
    inf
    >>> channel([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]])
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: row=0 sums to 1 - 1/36028797018963968, not to exactly 1: write its probabilities as Fraction or as strings such as '1/3'
    """
    given = rows if isinstance(rows, Mapping) else _name_columns(rows)
    if len(given) < 2:
        raise ParameterError("rows", list(given), "must have at least two inputs")
    laws = tuple(_read_law(name, law) for name, law in given.items())
    return Channel(inputs=tuple(given), laws=laws)


def enumerate_tape(
    function: Callable[[Any, tuple[int, ...]], Any],
    inputs: Iterable[Hashable],
    *,
    word_bits: int,
    words_per_input: int,
) -> Channel:
    """Return the exact law of function(x, words), counted over every tape.

    The tape is `words_per_input` words, uniform on 0 .. 2^word_bits - 1. The function must depend on
    nothing else. It returns a tuple or list of messages; anything else is taken for one message.

    >>> spun = enumerate_tape(lambda x, words: x if words[0] < 3 else 1 - x, [0, 1], word_bits=2, words_per_input=1)
    >>> spun.pmf(1)
    {(1,): Fraction(3, 4), (0,): Fraction(1, 4)}
    """
    names = tuple(inputs)
    bits = whole("word_bits", word_bits, at_least=1, at_most=64)
    width = whole("words_per_input", words_per_input, at_least=0)
    tapes = len(names) << bits * width if bits * width < 64 else math.inf
    if tapes > LARGEST_TAPE:
        raise UnsupportedError(
            f"{width} words of {bits} bits for {len(names)} inputs are {float(tapes):.3g} tapes, "
            f"more than {LARGEST_TAPE}"
        )
    rows = {x: _count_tapes(function, x, bits, width) for x in names}
    made = channel(rows)
    # A law on a grid finer than a word (several words per input) is not for `encode`.
    return Channel(inputs=made.inputs, laws=made.laws, word_bits=min(64, max(1, bits * width)))


def _count_tapes(
    function: Callable[[Any, tuple[int, ...]], Any], x: Hashable, bits: int, width: int
) -> dict[tuple[Any, ...], Fraction]:
    seen: dict[tuple[Any, ...], int] = {}
    for words in product(range(1 << bits), repeat=width):
        sent = function(x, words)
        key = tuple(sent) if isinstance(sent, tuple | list) else (sent,)
        seen[key] = seen.get(key, 0) + 1
    return {key: Fraction(count, 1 << bits * width) for key, count in seen.items()}


def _name_columns(rows: Any) -> dict[Hashable, dict[Any, Any]]:
    return {x: {(y,): q for y, q in enumerate(row)} for x, row in enumerate(rows)}


def _read_law(name: Hashable, row: Mapping[Any, Any]) -> Law:
    law: dict[Any, Fraction] = {}
    for sent, value in row.items():
        key = sent if isinstance(sent, tuple) else (sent,)
        probability = _read_probability(value)
        if probability:
            law[key] = law.get(key, Fraction(0)) + probability
    total = sum(law.values(), Fraction(0))
    if total != 1:
        shown = f"1 - {1 - total}" if total < 1 else f"1 + {total - 1}"
        raise ParameterError(
            "row",
            name,
            f"sums to {shown}, not to exactly 1: write its probabilities as Fraction or as "
            "strings such as '1/3'",
        )
    return law


def _read_probability(value: Any) -> Fraction:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, Fraction | int | str | float):
        raise ParameterError("probability", value, "must be a Fraction, int, float or str")
    try:
        result = Fraction(value)
    except (ValueError, OverflowError, ZeroDivisionError):
        raise ParameterError("probability", value, "must be a finite number") from None
    if not 0 <= result <= 1:
        raise ParameterError("probability", value, "must be >= 0 and <= 1")
    return result


def _round_law(law: Law, grid: int) -> Law:
    """Round cumulative sums down: every share moves by less than one, and the total stays."""
    result: Law = {}
    upto, before = Fraction(0), 0
    for sent, q in law.items():
        upto += q
        end = math.floor(upto * grid)
        if end > before:
            result[sent] = Fraction(end - before, grid)
        before = end
    return result


Audited: TypeAlias = Randomizer | ShuffleProtocol

_VIEWS = ("local", "preshuffled", "shuffled")
_QUICK = 1_000_000  # elementary steps that integers do in about a second
_MOST_INPUTS = 2048
_MOST_MESSAGES = 400  # of a person: two noises and a flood have the cube of that many entries
_RELATIVE, _ABSOLUTE = 1e-9, 1e-12
_LARGEST_EPSILON = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactAudit:
    """The exact delta of a view at epsilon, rounded up by at most a part in 10^9 (or by 10^-12).

    >>> print(ExactAudit(delta=0.0123456, lower=0.0123455, epsilon=0.5, view="shuffled", n=100))
    delta = 0.01235 at epsilon = 0.5: exact, the worst pair of neighbouring data sets of 100 users, shuffled
    """

    delta: float
    """An upper bound on the true delta."""
    lower: float
    """A lower bound on the true delta."""
    epsilon: float
    view: str
    n: int
    """How many users; 1 in the local and preshuffled view."""

    def confirms(self, delta: float) -> bool:
        """Return whether the view is (epsilon, delta)-DP for certain.

        >>> from shuffledp import audit, protocols
        >>> found = audit.exact(protocols.krr.KRR(k=3, epsilon0=1.0), n=10, epsilon=0.5)
        >>> found.confirms(0.1), found.refutes(0.1), found.refutes(0.001)
        (True, False, True)
        """
        return self.delta <= delta

    def refutes(self, delta: float) -> bool:
        """Return whether the view is not (epsilon, delta)-DP, for certain."""
        return self.lower > delta

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings: what `shuffledp audit --json` prints."""
        return asdict(self)

    def _repr_html_(self) -> str:
        """Return how notebooks show it."""
        facts = [
            ("epsilon", round_up(self.epsilon, 6)),
            ("delta, at most", round_up(self.delta, 10)),
            ("delta, at least", round_down(self.lower, 10)),
            ("view", f"{self.view}, {self.n:,} people"),
        ]
        return stack(
            say("exact audit: the worst neighbouring data sets", bold=True), list_facts(facts)
        )

    def __str__(self) -> str:
        users = f"{self.n:,} users" if self.n > 1 else "one user"
        return (
            f"delta = {round_up(self.delta, 4)} at epsilon = {round_up(self.epsilon, 6)}: exact, the worst pair of "
            f"neighbouring data sets of {users}, {self.view}"
        )


def exact(
    randomizer: Audited, *, epsilon: float, n: int | None = None, view: str = "shuffled"
) -> ExactAudit:
    """Return the exact delta of a view at epsilon: no theorem, no assumption, no sampling.

    n, the number of users, is for the shuffled view alone. The question is refused
    (`UnsupportedError`) if the answer would take too long, or cannot be had to a part in 10^9.
    Two users of binary randomized response with e^epsilon0 = 3, and the mirrored pair (x, 1 - x):

    >>> import math
    >>> from shuffledp import audit
    >>> noisy = audit.channel([["3/4", "1/4"], ["1/4", "3/4"]])
    >>> round(audit.exact(noisy, n=2, epsilon=math.log(2)).delta, 12)
    0.1875
    >>> mirrored = audit.channel({0: {(0, 1): 1}, 1: {(1, 0): 1}})
    >>> audit.exact(mirrored, n=10, epsilon=0.0).delta, audit.exact(mirrored, epsilon=5.0, view="local").delta
    (0.0, 1.0)
    """
    question = _Question(randomizer, n, view)
    asked = _check_epsilon(epsilon)
    (known,) = question.bounds([asked])
    if known.upper - known.lower <= max(_RELATIVE * known.upper, _ABSOLUTE):
        return ExactAudit(
            delta=known.upper, lower=known.lower, epsilon=asked, view=view, n=question.n
        )
    raise UnsupportedError(
        f"floating point knows this delta only between {known.lower!r} and {known.upper!r}: "
        "use audit.bounds, or audit.fraction for fewer users"
    )


def bounds(
    randomizer: Audited, *, epsilon: float, n: int | None = None, view: str = "shuffled"
) -> Bounds:
    """Return two ends between which the exact delta lies.

    >>> from shuffledp import audit, protocols
    >>> ends = audit.bounds(protocols.krr.KRR(k=2, epsilon0=1.0), n=100, epsilon=0.2)
    >>> ends.lower <= ends.upper < ends.lower + 1e-12
    True
    """
    return _Question(randomizer, n, view).bounds([_check_epsilon(epsilon)])[0]


def profile(
    randomizer: Audited, epsilons: ArrayLike, *, n: int | None = None, view: str = "shuffled"
) -> Floats:
    """Return the exact delta at each of several epsilons: the hockey-stick curve, rounded up.

    >>> from shuffledp import audit
    >>> noisy = audit.channel([["3/4", "1/4"], ["1/4", "3/4"]])
    >>> audit.profile(noisy, [0.0, 0.5, 2.0], n=3).round(4)
    array([0.3125, 0.19  , 0.    ])
    """
    asked = [_check_epsilon(value) for value in np.atleast_1d(np.asarray(epsilons)).tolist()]
    ends = _Question(randomizer, n, view).bounds(asked)
    return np.array([each.upper for each in ends])


def fraction(
    randomizer: Audited, *, ratio: Fraction | int, n: int | None = None, view: str = "shuffled"
) -> Fraction:
    """Return the exact delta as a fraction, at e^epsilon = ratio.

    >>> from shuffledp import audit
    >>> noisy = audit.channel([["3/4", "1/4"], ["1/4", "3/4"]])
    >>> audit.fraction(noisy, n=2, ratio=2)
    Fraction(3, 16)
    """
    if isinstance(ratio, float) or ratio < 1:
        raise ParameterError("ratio", ratio, "must be a fraction >= 1, e^epsilon exactly")
    return _Question(randomizer, n, view).fraction(Fraction(ratio))


def pure_ratio(
    randomizer: Audited, *, n: int | None = None, view: str = "shuffled"
) -> Fraction | float:
    """Return the largest likelihood ratio of a view, exactly; `math.inf` if a view rules an input out.

    Where everybody sends one message it is that of the randomizer itself, whatever n is (the view
    "all messages are y" has the ratio of y); this is how those are answered for any n.

    >>> from shuffledp import audit
    >>> audit.pure_ratio(audit.separations.gap_randomizer(), n=3)
    Fraction(125, 64)
    """
    return _Question(randomizer, n, view).ratio()


def pure_epsilon(randomizer: Audited, *, n: int | None = None, view: str = "shuffled") -> float:
    """Return the exact epsilon with delta = 0: ln of `pure_ratio`, rounded up; `math.inf` if there is none.

    >>> from shuffledp import audit
    >>> gap = audit.separations.gap_randomizer()
    >>> [audit.pure_epsilon(gap, n=n) for n in (1, 2, 3)]
    [inf, 0.9162907318741551, 0.6694306539426294]
    """
    return log_upper(pure_ratio(randomizer, n=n, view=view))


def read_laws(randomizer: Audited) -> list[Law]:
    """Return the declared law of each input.

    >>> from shuffledp import protocols
    >>> len(read_laws(protocols.krr.make_local(k=3, epsilon=1.0)))
    3
    """
    one = randomizer.randomizer if isinstance(randomizer, ShuffleProtocol) else randomizer
    one = check_randomizer("randomizer", one, "must be a randomizer, a channel or a protocol")
    if one.domain.size > _MOST_INPUTS:
        raise UnsupportedError(
            f"an exact audit of {one.domain.size:,} inputs compares {one.domain.size**2:.1e} pairs: "
            f"more than {_MOST_INPUTS:,} inputs are refused"
        )
    if isinstance(randomizer, ShuffleProtocol) and randomizer.cost.messages_max > _MOST_MESSAGES:
        raise UnsupportedError(
            f"a person may send up to {randomizer.cost.messages_max:,} messages by {randomizer.name}, and an exact "
            f"audit lists all that may be sent: more than {_MOST_MESSAGES} messages are refused. Sample instead"
        )
    return [one.pmf(x) for x in range(one.domain.size)]


class _Question:
    """One randomizer in one view."""

    def __init__(self, randomizer: Audited, n: int | None, view: str) -> None:
        if view not in _VIEWS:
            raise ParameterError("view", view, f"must be one of {', '.join(_VIEWS)}")
        if view == "shuffled" and n is None:
            raise ParameterError("n", n, "must be given: the shuffled view is that of n users")
        users = 1 if n is None else whole("n", n, at_least=1)
        self.laws = read_laws(randomizer)
        self.local = view == "local"
        self.n = users if view == "shuffled" else 1

    def bounds(self, epsilons: Sequence[float]) -> list[Bounds]:
        """Bound delta between two fractions, one on each side of e^epsilon, which is not a fraction itself."""
        ends = [exp_bounds(epsilon) for epsilon in epsilons]
        if self.local:
            exact_ends = [
                (local_delta(self.laws, low), local_delta(self.laws, high)) for low, high in ends
            ]
            return [_round_outwards(*each) for each in exact_ends]
        views = ExactViews(self.laws, self.n)
        if views.cost * len(epsilons) > _QUICK:
            sweep = Sweep(views.lattice)
            return [sweep.bounds(low, high) for low, high in ends]
        deltas = views.deltas([end for both in ends for end in both])
        return [_round_outwards(*each) for each in zip(deltas[::2], deltas[1::2], strict=True)]

    def fraction(self, ratio: Fraction) -> Fraction:
        if self.local:
            return local_delta(self.laws, ratio)
        return ExactViews(self.laws, self.n).delta(ratio)

    def ratio(self) -> Fraction | float:
        single = all(len(sent) == 1 for law in self.laws for sent in law)
        if self.local or single:
            return local_ratio(self.laws)
        return ExactViews(self.laws, self.n).ratio()


def _check_epsilon(value: object) -> float:
    epsilon = number("epsilon", value)
    if not 0 <= epsilon <= _LARGEST_EPSILON:
        raise ParameterError("epsilon", value, f"must be >= 0 and <= {_LARGEST_EPSILON:,}")
    return epsilon


def _round_outwards(upper: Fraction, lower: Fraction) -> Bounds:
    """Round outwards: floats on the outer side of two fractions."""
    return Bounds(lower=float_below(lower), upper=float_above(upper))
