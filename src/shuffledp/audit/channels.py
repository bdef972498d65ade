"""Any randomizer, from its probabilities or from its code.

`channel` takes the probability of every tuple of messages; `enumerate_tape` takes a Python function and
runs it on every tape of a few bits. Both give a `Channel`: a `Randomizer` with an exact law, ready for
`shuffledp.audit.exact`, for the accountant, and, if its probabilities fit the tape, for `randomize`.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from shuffledp.accounting.exact import local_ratio
from shuffledp.audit.multisets import sort_items
from shuffledp.core.arrays import Codes, Words
from shuffledp.core.domain import Categories
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.randomizer import Law, Messages
from shuffledp.core.validate import whole
from shuffledp.numerics.rounding import log_upper
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
        found = {message for law in self.laws for sent in law for message in sent}
        return tuple(sort_items(found))

    def pmf(self, x: int) -> Law:
        return dict(self.laws[x])

    def encode(self, inputs: Codes, words: Words) -> Messages:
        """By inversion of the cumulative law: exact if all probabilities are multiples of 2^-word_bits."""
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
    """Cumulative sums rounded down: every share moves by less than one, and the total stays."""
    result: Law = {}
    upto, before = Fraction(0), 0
    for sent, q in law.items():
        upto += q
        end = math.floor(upto * grid)
        if end > before:
            result[sent] = Fraction(end - before, grid)
        before = end
    return result
