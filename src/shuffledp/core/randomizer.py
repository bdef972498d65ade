"""Concepts 1 and 2: the randomizer R : X -> Y*, which a person's device runs, and the shuffler S, which forgets whose
messages are whose.

A randomizer never draws randomness. `encode` is a pure function of the inputs and of a *tape*:
`words_per_input` uniform words of `word_bits` bits for each person. So its law is exactly rational,
it is *declared* as `pmf`, and a test runs `encode` over every tape of a few bits and compares the
two as fractions. Production tapes come from `SecureWords`.

`Messages` have owners and `Shuffled` has none, and analyzers accept nothing else: feeding one unshuffled data is a type
error. A shuffled list is equivalent to its multiset of messages.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffledp.core.arrays import Codes, Words
from shuffledp.core.domain import Domain, read_places, round_places, rounding_words
from shuffledp.core.errors import MismatchError, ParameterError

Message: TypeAlias = int | tuple[int, ...]
"""One message: an integer, or a tuple of integers."""

Law: TypeAlias = dict[tuple[Message, ...], Fraction]
"""Probability of each tuple of messages that one user may send; the values sum to exactly 1."""


class WordSource(Protocol):
    """Where uniform words come from: `SecureWords`, or `SeededWords` in tests and papers."""

    def words(self, count: int, bits: int = 64) -> Words:
        """Return the next `count` uniform words of `bits` bits."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Messages:
    """Messages that still have an owner, so only the shuffler may see them.

    `payload[i]` is a message (a number, or a row of numbers) sent by user `owner[i]`; a user may
    send none or several. `users` is the number of users, which is public.
    """

    payload: NDArray[Any]
    owner: NDArray[np.integer[Any]] | range
    users: int

    def __post_init__(self) -> None:
        if len(self.owner) != len(self.payload):
            raise MismatchError(f"{len(self.payload)} messages with {len(self.owner)} owners")

    @classmethod
    def one_each(cls, payload: NDArray[Any]) -> "Messages":
        """User i sends the one message `payload[i]`.

        >>> Messages.one_each(np.array([3, 1])).users
        2
        """
        return cls(payload=payload, owner=range(len(payload)), users=len(payload))

    @classmethod
    def join(cls, parts: Sequence["Messages"], starts: Sequence[int] | None = None) -> "Messages":
        """Return what the same users send in several parts; the start of a part is added to its messages.

        >>> Messages.join([Messages.one_each(np.array([3, 1])), Messages.one_each(np.array([0, 0]))], (0, 10)).payload
        array([ 3,  1, 10, 10])
        """
        payloads = [part.payload for part in parts]
        if starts is not None:
            payloads = [payload + start for payload, start in zip(payloads, starts, strict=True)]
        return cls(
            payload=np.concatenate(payloads),
            owner=np.concatenate([np.asarray(part.owner) for part in parts]),
            users=parts[0].users,
        )

    def of(self, user: int) -> tuple[Message, ...]:
        """Return what one user sends, in order.

        >>> Messages.one_each(np.array([[1, 0], [1, 1]])).of(0)
        ((1, 0),)
        """
        rows = self.payload[np.asarray(self.owner) == user].tolist()
        return tuple(tuple(map(int, row)) if isinstance(row, list) else int(row) for row in rows)


@runtime_checkable
class Randomizer(Protocol):
    """R : X -> Y*, with public parameters as fields."""

    @property
    def domain(self) -> Domain:
        """Where the inputs come from."""

    @property
    def epsilon0(self) -> float:
        """The local privacy that the law certifies on its own (infinite if none)."""

    @property
    def word_bits(self) -> int:
        """Bits in one word of the tape: 64, or as few as a test can enumerate."""

    @property
    def words_per_input(self) -> int:
        """Words of the tape that one input consumes."""

    def encode(self, inputs: Codes, words: Words) -> Messages:
        """Return the messages for inputs[n] and words[n, words_per_input]. Pure."""

    def pmf(self, x: int) -> Law:
        """Return the exact law of the messages of a user whose code is x."""


def join_laws(laws: Sequence[Law], starts: Sequence[int] | None = None) -> Law:
    """Return the law of what a user sends in several independent parts; starts are those of `Messages.join`.

    >>> coin = {(0,): Fraction(1, 2), (1,): Fraction(1, 2)}
    >>> join_laws([coin, coin], (0, 2))[1, 2]
    Fraction(1, 4)
    """
    moves = (0,) * len(laws) if starts is None else starts
    joint: Law = {}
    for together in product(*(law.items() for law in laws)):
        sent = tuple(
            message + move if isinstance(message, int) else message
            for (messages, _), move in zip(together, moves, strict=True)
            for message in messages
        )
        mass = math.prod((mass for _, mass in together), start=Fraction(1))
        joint[sent] = joint.get(sent, Fraction(0)) + mass
    return joint


def check_randomizer(name: str, value: Any, requirement: str) -> Randomizer:
    """Refuse what lacks something that every randomizer has.

    >>> check_randomizer("randomizer", 3, "must be a randomizer")
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: randomizer=3 must be a randomizer
    """
    try:
        _ = value.domain, value.epsilon0, value.word_bits, value.words_per_input
        _ = value.encode, value.pmf
    except AttributeError:
        raise ParameterError(name, value, requirement) from None
    randomizer: Randomizer = value
    return randomizer


def randomize(randomizer: Randomizer, values: ArrayLike, rng: WordSource) -> Messages:
    """Return what the devices of users with these values send.

    >>> from shuffledp import SeededWords, protocols
    >>> krr = protocols.krr.KRR(k=4, epsilon0=3.0)
    >>> randomize(krr, [0, 1, 2, 3], SeededWords(7)).payload
    array([0, 1, 2, 3])
    """
    places = read_places(randomizer.domain, values)
    width = tape_width(randomizer)
    words = rng.words(len(places) * width, randomizer.word_bits).reshape(len(places), width)
    return encode_places(randomizer, places, words)


def tape_width(randomizer: Randomizer) -> int:
    """Words that one person takes: those of the randomizer, and one for rounding if values are real."""
    return randomizer.words_per_input + rounding_words(randomizer.domain)


def encode_places(randomizer: Randomizer, places: Codes, words: Words) -> Messages:
    """Return what people at places[n] of the domain send, with words[n, tape_width]: rounded, then randomized.

    >>> from shuffledp import Reals, protocols
    >>> half = protocols.duchi.Duchi(domain=Reals(lower=0.0, upper=1.0, steps=1), epsilon0=9.0)
    >>> tape = np.array([[2**63, 0], [2**63, 2**63]], dtype=np.uint64)  # up, then down
    >>> encode_places(half, half.domain.places([0.5, 0.5]), tape).payload.tolist()
    [1, 0]
    """
    width = randomizer.words_per_input
    codes = round_places(randomizer.domain, places, words[:, width:], randomizer.word_bits)
    return randomizer.encode(codes, words[:, :width])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shuffled:
    """Messages without owners; `users` people sent them."""

    payload: NDArray[Any]
    users: int


def shuffle(messages: Messages, rng: WordSource) -> Shuffled:
    """Return a uniformly random permutation of all messages.

    The messages are put in the order of independent 64-bit keys. Distinct i.i.d. keys make every
    order equally likely; should two keys be equal, all are drawn again, so the law is exact.

    >>> from shuffledp import SeededWords
    >>> sorted(shuffle(Messages.one_each(np.array([5, 6, 7])), SeededWords(1)).payload.tolist())
    [5, 6, 7]
    """
    while True:
        keys = rng.words(len(messages.payload))
        order = np.argsort(keys)
        ranked = keys[order]
        if not (ranked[1:] == ranked[:-1]).any():
            return Shuffled(payload=messages.payload[order], users=messages.users)


def forget(messages: Messages) -> Shuffled:
    """Drop the owners without moving anything: for a tally made at once, in the same process.

    A tally does not depend on the order (a contract test says so for every analyzer), so an engine
    that keeps nothing but the tally need not permute first. Never use it for messages that are
    stored or sent: their order would tell who sent them.

    >>> forget(Messages.one_each(np.array([5, 6]))).users
    2
    """
    return Shuffled(payload=messages.payload, users=messages.users)
