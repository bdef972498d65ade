"""A uniform shuffle of more messages than fit in memory.

Every message goes to one of B files, chosen by a secure word of its own; then each file, which is
small enough, is permuted in memory, and they are handed out one after the other. A list in the order of
independent pairs (file, key) is in a uniformly random order, and that is what comes out.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from shuffledp.core.errors import MismatchError
from shuffledp.core.randomizer import Messages, WordSource
from shuffledp.core.shuffler import Shuffled, shuffle

__all__ = ["Spool", "buckets_for"]

_BUCKET_MESSAGES = 1 << 22  # each needs a key and a place, 16 bytes
_BUCKET_BYTES = 1 << 26
_MOST_BITS = 9  # so many open files are allowed everywhere


def buckets_for(messages: float, message_bytes: int) -> int:
    """Into how many files (as a power of two: its exponent) about so many messages go.

    >>> buckets_for(1e6, 8), buckets_for(1e9, 8)
    (0, 8)
    """
    wanted = max(messages / _BUCKET_MESSAGES, messages * message_bytes / _BUCKET_BYTES)
    bits = 0
    while bits < _MOST_BITS and (1 << bits) < wanted:
        bits += 1
    return bits


class Spool:
    """2^bits files in a folder; each message goes to one of them, wherever its word says.

    >>> from tempfile import TemporaryDirectory
    >>> from shuffledp import SecureWords
    >>> with TemporaryDirectory() as folder, Spool(Path(folder), 2, SecureWords()) as spool:
    ...     spool.put(np.arange(5))
    ...     shuffled = list(spool.shuffled(users=5))
    >>> sorted(np.concatenate([part.payload for part in shuffled]).tolist())
    [0, 1, 2, 3, 4]
    """

    __slots__ = ("_bits", "_files", "_like", "_rng", "_stack", "messages")

    def __init__(self, folder: Path, bits: int, rng: WordSource) -> None:
        self._bits = bits
        self._rng = rng
        self._stack = ExitStack()
        self._files: list[BinaryIO] = [
            self._stack.enter_context((folder / f"{number}.spool").open("w+b"))
            for number in range(1 << bits)
        ]
        self._like: NDArray[Any] | None = None
        self.messages = 0

    def __enter__(self) -> "Spool":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def put(self, payload: NDArray[Any]) -> None:
        """Add messages."""
        if self._like is None:
            self._like = payload[:0].copy()
        if (payload.dtype, payload.shape[1:]) != (self._like.dtype, self._like.shape[1:]):
            raise MismatchError("messages of one protocol have one type and width")
        self.messages += len(payload)
        for number, part in enumerate(self._split(payload)):
            self._files[number].write(np.ascontiguousarray(part).tobytes())

    def _split(self, payload: NDArray[Any]) -> list[NDArray[Any]]:
        if self._bits == 0:
            return [payload]
        chosen = self._rng.words(len(payload), self._bits).astype(np.uint16)
        order = np.argsort(chosen, kind="stable")
        ends = np.cumsum(np.bincount(chosen, minlength=len(self._files)))[:-1]
        return np.split(payload[order], ends)

    def shuffled(self, users: int) -> Iterator[Shuffled]:
        """All messages in a uniformly random order, one file after the other."""
        like = self._like
        if like is None:
            return
        for file in self._files:
            file.seek(0)
            flat = np.frombuffer(file.read(), dtype=like.dtype)
            payload = flat.reshape(-1, *like.shape[1:])
            whose = np.zeros(len(payload), dtype=np.uint8)  # nobody knows any more
            yield shuffle(Messages(payload=payload, owner=whose, users=users), self._rng)
