"""Concepts 1 and 2: the randomizer R : X -> Y*, which a person's device runs, and the shuffler S, which forgets whose
messages are whose.

A randomizer never draws randomness. `encode` is a pure function of the inputs and of a *tape*:
`words_per_input` uniform words of `word_bits` bits for each person. So its law is exactly rational,
it is *declared* as `pmf`, and a test runs `encode` over every tape of a few bits and compares the
two as fractions. Production tapes come from `SecureWords`.

`Messages` have owners and `Shuffled` has none, and analyzers accept nothing else: feeding one unshuffled data is a type
error. A shuffled list is equivalent to its multiset of messages.

A live collection carries messages as bytes, every message of a protocol in as many. The size follows from the public
parameters alone, never from the value, so that a ciphertext tells nothing. Whoever reads bytes reads them from
strangers: `decode_message` says of each message whether an honest device could have sent it, and one that could not
never spoils the others.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffledp.core.arrays import Bools, Codes, Words
from shuffledp.core.domain import Domain, read_places, round_places, rounding_words
from shuffledp.core.errors import DataError, MismatchError, ParameterError

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
        """Let user i send the one message `payload[i]`.

        >>> Messages.one_each(np.array([3, 1])).users
        2
        """
        return cls(payload=payload, owner=range(len(payload)), users=len(payload))

    @classmethod
    def join(cls, parts: Sequence["Messages"], starts: Sequence[int] | None = None) -> "Messages":
        """Join what the same users send in several parts; the start of a part is added to its messages.

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
        """Return the messages of one user, in order.

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
    """Run the devices of users with these values, and return their messages.

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
    """Count the words that one person takes: those of the randomizer, and one for rounding if values are real."""
    return randomizer.words_per_input + rounding_words(randomizer.domain)


def encode_places(randomizer: Randomizer, places: Codes, words: Words) -> Messages:
    """Round and randomize people at places[n] of the domain, with words[n, tape_width].

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
    """Permute all messages uniformly at random.

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


OVERHEAD = 48
"""Bytes that encryption adds: the encapsulated key (32) and the tag (16)."""

Octets: TypeAlias = NDArray[np.uint8]
"""Bytes, one message per row."""


class Decoded(NamedTuple):
    """The messages that an honest device could have sent, and which rows they are."""

    payload: NDArray[Any]
    accepted: Bools


class MessageCode(Protocol):
    """How the messages of one protocol become bytes, and back."""

    @property
    def size(self) -> int:
        """Bytes of a message, whatever it says."""

    def encode_message(self, payload: NDArray[Any]) -> Octets:
        """Encode payload[n] or payload[n, width] as octets[n, size]."""

    def decode_message(self, octets: Octets) -> Decoded:
        """Return the payload of the rows that are messages of the protocol."""


def report_bytes(slots: int, message_size: int, token: int = 0) -> int:
    """Count the bytes of a report in an upload: messages are encrypted one by one, then together.

    >>> report_bytes(slots=1, message_size=1)
    104
    """
    return 2 + OVERHEAD + 4 + token + slots * (1 + message_size + OVERHEAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberCode:
    """Whole numbers 0 .. size-1, big-endian; with several sizes, rows of such numbers one after the other.

    >>> pairs = NumberCode(sizes=(1000, 3), dtype="uint16", row=True)
    >>> octets = pairs.encode_message(np.array([[999, 2]], dtype=np.uint16))
    >>> octets.tobytes().hex(), pairs.decode_message(octets).payload.tolist()
    ('03e702', [[999, 2]])
    >>> NumberCode.of(5).decode_message(np.array([[4], [5]], dtype=np.uint8)).accepted
    array([ True, False])
    """

    sizes: tuple[int, ...]
    dtype: str = "int64"
    row: bool = False
    """Whether a message is a row of numbers, not a number."""

    @classmethod
    def of(cls, size: int) -> "NumberCode":
        """Return messages that are one number 0 .. size-1 each."""
        return cls(sizes=(size,))

    @property
    def _widths(self) -> tuple[int, ...]:
        return tuple(max(1, -(-(size - 1).bit_length() // 8)) for size in self.sizes)

    @property
    def size(self) -> int:
        return sum(self._widths)

    def encode_message(self, payload: NDArray[Any]) -> Octets:
        columns = payload.reshape(len(payload), math.prod(payload.shape[1:]))
        if columns.shape[1] != len(self.sizes):
            raise MismatchError(f"messages have {len(self.sizes)} numbers, not {columns.shape[1]}")
        parts = []
        for number, size, width in zip(columns.T, self.sizes, self._widths, strict=True):
            if len(number) and not 0 <= int(number.min()) <= int(number.max()) < size:
                raise DataError(f"a message is outside 0 .. {size - 1}")
            wide = number.astype(">u8", order="C").view(np.uint8).reshape(-1, 8)
            parts.append(wide[:, 8 - width :])
        return np.concatenate(parts, axis=1)

    def decode_message(self, octets: Octets) -> Decoded:
        columns, accepted, place = [], np.ones(len(octets), dtype=np.bool_), 0
        for size, width in zip(self.sizes, self._widths, strict=True):
            wide = np.zeros((len(octets), 8), dtype=np.uint8)
            wide[:, 8 - width :] = octets[:, place : place + width]
            number = wide.view(">u8").reshape(-1).astype(np.uint64)
            # Before the cast to the payload's type, into which a number of a stranger's 8 bytes may not fit.
            accepted &= number <= np.uint64(size - 1)
            columns.append(number)
            place += width
        kept = np.column_stack(columns)[accepted].astype(self.dtype)
        return Decoded(kept if self.row else kept[:, 0], accepted)


@dataclass(frozen=True, slots=True, kw_only=True)
class BitCode:
    """Vectors of k bits, the first bit highest; bits beyond k are 0.

    `ones` is how many ones a message may have, if not any number.

    >>> BitCode(k=3).encode_message(np.array([[True, False, True]])).tolist()
    [[160]]
    >>> BitCode(k=3).decode_message(np.array([[160], [161]], dtype=np.uint8)).accepted
    array([ True, False])
    """

    k: int
    ones: tuple[int, ...] | None = None

    @property
    def size(self) -> int:
        return -(-self.k // 8)

    def encode_message(self, payload: NDArray[Any]) -> Octets:
        if payload.ndim != 2 or payload.shape[1] != self.k:
            raise MismatchError(f"messages are vectors of {self.k} bits, not {payload.shape}")
        return np.packbits(payload.astype(np.bool_), axis=1)

    def decode_message(self, octets: Octets) -> Decoded:
        bits = np.unpackbits(octets, axis=1).astype(np.bool_)
        accepted: Bools = np.logical_not(bits[:, self.k :].any(axis=1))
        if self.ones is not None:
            accepted = np.logical_and(accepted, np.isin(bits.sum(axis=1), self.ones))
        return Decoded(bits[accepted, : self.k], accepted)
