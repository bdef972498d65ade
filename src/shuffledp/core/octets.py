"""Messages as bytes: how a live collection carries them, every message of a protocol in as many bytes.

The size follows from the public parameters alone, never from the value, so that a ciphertext tells nothing.
Whoever reads bytes reads them from strangers: `decode_message` says of each message whether an honest
device could have sent it, and one that could not never spoils the others.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shuffledp.core.arrays import Bools
from shuffledp.core.errors import DataError, MismatchError

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
    """Bytes of a report in an upload: messages encrypted one by one, then together.

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
        """Messages that are one number 0 .. size-1 each."""
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
