"""Where the words come from.

Both sources are the keystream of AES-256 in counter mode, which a CPU with AES instructions makes
faster than NumPy's own generators. `SecureWords` takes its key from the operating system;
`SeededWords` derives it from a number, for tests and papers. There is no default seed.

A source is a stream of bytes: the words do not depend on the sizes in which they are asked for.
Sources may be shared between threads.
"""

import hashlib
import os
import threading
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from shuffledp.core.arrays import Words
from shuffledp.core.validate import whole

__all__ = ["SecureWords", "SeededWords"]

_CIPHER_BLOCK = 16
_ZEROS = memoryview(bytes(1 << 18))  # the keystream is the encryption of zeros


class _Stream:
    """The keystream of one key, read from byte number `position` on."""

    __slots__ = ("_encryptor", "_key", "_lock", "position")

    def __init__(self, key: bytes, position: int = 0) -> None:
        self._key = key
        self._lock = threading.Lock()
        self._seek(position)

    def _seek(self, position: int) -> None:
        # Counter mode encrypts the numbers of the blocks, so any block is as near as the first.
        block, inside = divmod(position, _CIPHER_BLOCK)
        counter = modes.CTR(block.to_bytes(_CIPHER_BLOCK, "big"))
        self._encryptor = Cipher(algorithms.AES(self._key), counter).encryptor()
        self._encryptor.update(bytes(inside))
        self.position = position

    def take(self, size: int) -> NDArray[np.uint8]:
        out = np.empty(size + _CIPHER_BLOCK - 1, dtype=np.uint8)  # update_into wants extra room
        room = out.data
        with self._lock:
            for start in range(0, size, len(_ZEROS)):
                self._encryptor.update_into(_ZEROS[: size - start], room[start:])
            self.position += size
        return out[:size]

    def skip(self, size: int) -> None:
        with self._lock:
            self._seek(self.position + size)

    def ahead(self, size: int) -> "_Stream":
        return _Stream(self._key, self.position + size)


def _size(count: int, bits: int) -> int:
    """How many bytes of a stream so many words take."""
    whole("count", count, at_least=0)
    return count * _width(bits)


def _width(bits: int) -> int:
    whole("bits", bits, at_least=1, at_most=64)
    return next(size for size in (1, 2, 4, 8) if 8 * size >= bits)


def _as_words(stream: _Stream, count: int, bits: int) -> Words:
    raw = stream.take(_size(count, bits))
    width = _width(bits)
    words: NDArray[Any] = np.frombuffer(raw, dtype=f"<u{width}", count=count)
    words = words.astype(f"=u{width}", copy=False)
    surplus = 8 * width - bits
    return words >> np.uint8(surplus) if surplus else words


class SecureWords:
    """Cryptographically secure uniform words, keyed by the operating system.

    After a fork the child takes a new key, so two processes never share a stream; for the same
    reason a source cannot be copied or pickled.

    >>> SecureWords().words(3).dtype
    dtype('uint64')
    """

    __slots__ = ("_born", "_stream")

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        # The stream first: another thread that finds the new `_born` must find the new stream, too.
        self._stream = _Stream(os.urandom(32))
        self._born = _process()

    def words(self, count: int, bits: int = 64) -> Words:
        """The next `count` uniform words of `bits` bits."""
        if self._born != _process():
            self._renew()
        return _as_words(self._stream, count, bits)

    def __reduce__(self) -> NoReturn:
        raise TypeError("SecureWords cannot be copied or pickled: two copies would share a stream")


class SeededWords:
    """Reproducible uniform words for tests and papers. Anybody who knows the seed undoes the noise.

    >>> SeededWords(7).words(2)
    array([12295609786813653991,  6715552757042428571], dtype=uint64)
    """

    __slots__ = ("_stream", "seed")

    def __init__(self, seed: int) -> None:
        self.seed = whole("seed", seed, at_least=0)
        self._stream = _Stream(hashlib.sha256(f"shuffledp words {seed}".encode()).digest())

    def words(self, count: int, bits: int = 64) -> Words:
        """The next `count` uniform words of `bits` bits."""
        return _as_words(self._stream, count, bits)

    def skip(self, count: int, bits: int = 64) -> None:
        """Pass over `count` words of `bits` bits, in no time however many they are.

        >>> source = SeededWords(7)
        >>> source.skip(1)
        >>> source.words(1)
        array([6715552757042428571], dtype=uint64)
        """
        self._stream.skip(_size(count, bits))

    def ahead(self, count: int, bits: int = 64) -> "SeededWords":
        """A second source that starts `count` words of `bits` bits further on than this one.

        So workers that each take a part of the users need not wait for each other: whoever handles
        user r reads the words that are the user's, wherever the parts begin.

        >>> SeededWords(7).ahead(1).words(1)
        array([6715552757042428571], dtype=uint64)
        """
        further = SeededWords(self.seed)
        further._stream = self._stream.ahead(_size(count, bits))
        return further

    def __reduce__(self) -> tuple[Callable[[int, int], "SeededWords"], tuple[int, int]]:
        return _restored, (self.seed, self._stream.position)


def _restored(seed: int, position: int) -> SeededWords:
    return SeededWords(seed).ahead(position, 8)


# A process number can be reused by a later process, a count of forks along the way cannot.
_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


def _process() -> tuple[int, int]:
    return os.getpid(), _forks
