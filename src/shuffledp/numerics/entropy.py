"""Where the words come from.

All sources are keystreams of AES-256 in counter mode, which a CPU with AES instructions makes faster than
NumPy's own generators. `SecureWords` takes its key from the operating system and never repeats itself;
`RunKey` is a secret from which each part of a run derives words of its own, the same ones if it has to be
repeated; `SeededWords` derives its key from a number, for tests and papers. There is no default seed.

A source is a stream of bytes: the words do not depend on the sizes in which they are asked for.
Sources may be shared between threads.

**How far words can be told from uniform ones.** A secret stream is cut into spans of 2^18 blocks (4 MiB), and
span s is encrypted under a key of its own, HMAC-SHA256(secret, s). Replace step by step:

1. HMAC-SHA256 under a uniform secret by a random function. Then the keys of all spans are independent and
   uniform. (Labels of a `RunKey` and numbers of spans are different inputs.)
2. AES-256 under each of these keys by a random permutation.
3. Each permutation by a random function, whose outputs are uniform and independent. A permutation never
   repeats a block: for b blocks that shows with probability at most b (b - 1) / 2^129.

Steps 1 and 2 are the assumption that both primitives are as good as they look: that nothing beats guessing
keys, for which we grant 2^128 trials. Step 3 is a theorem, and the largest term. One key for b blocks would
cost b^2 / 2^129; with spans of B it is b B / 2^129. `prf_advantage` adds up everything.
"""

import hashlib
import hmac
import os
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from shuffledp.core.arrays import Words
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.validate import whole
from shuffledp.numerics.rounding import float_above

_CIPHER_BLOCK = 16
_SPAN_BLOCKS = 1 << 18  # rekeying costs about a percent of the time
SPAN_WORDS = 2 * _SPAN_BLOCKS
"""How many words of a secret stream share a key."""
_ENDLESS = 1 << 128
_TRIALS = Fraction(1 << 128, 1 << 256)  # guesses of a key, of all keys that there are
_LITTLE = {width: np.dtype(f"<u{width}") for width in (1, 2, 4, 8)}
_NATIVE = {width: np.dtype(f"=u{width}") for width in (1, 2, 4, 8)}
_ZEROS = memoryview(bytes(1 << 18))  # the keystream is the encryption of zeros


def prf_advantage(words: int) -> float:
    """Bound from above the advantage with which anybody tells that many secret words from uniform ones.

    For an adversary who may try 2^128 keys, if AES-256 and HMAC-SHA256 have no weakness: (1) one HMAC key and
    a collision of span keys, (2) one AES key per span, (3) blocks that never repeat within a span.

    A mechanism that is (epsilon, delta)-private with uniform words is (epsilon, delta + (1 + e^epsilon) a)-
    private with words of advantage a, against such an adversary: both probabilities move by at most a.

    >>> f"{prf_advantage(10**6):.1e}", f"{prf_advantage(10**10):.1e}"
    ('1.8e-28', '1.9e-24')
    """
    blocks = -(-whole("words", words, at_least=0) // 2)
    full, rest = divmod(blocks, _SPAN_BLOCKS)
    spans = full + (rest > 0)
    repeats = Fraction(full * _SPAN_BLOCKS**2 + rest**2, 1 << 129)
    derived = _TRIALS + Fraction(spans**2, 1 << 257)
    return float_above(repeats + spans * _TRIALS + derived)


class _Stream:
    """A keystream, read from byte number `position` on.

    Span number s takes the key `keys(s)`, and has that many blocks.
    """

    __slots__ = ("_encryptor", "_keys", "_left", "_lock", "_span", "position")

    def __init__(self, keys: Callable[[int], bytes], span_blocks: int, position: int = 0) -> None:
        self._keys = keys
        self._span = span_blocks * _CIPHER_BLOCK
        self._lock = threading.Lock()
        self._seek(position)

    def _seek(self, position: int) -> None:
        # Counter mode encrypts the numbers of the blocks, so any block is as near as the first.
        span, place = divmod(position, self._span)
        block, inside = divmod(place, _CIPHER_BLOCK)
        counter = modes.CTR(block.to_bytes(_CIPHER_BLOCK, "big"))
        self._encryptor = Cipher(algorithms.AES(self._keys(span)), counter).encryptor()
        self._encryptor.update(bytes(inside))
        self._left = self._span - place
        self.position = position

    def take(self, size: int) -> NDArray[np.uint8]:
        out = np.empty(size + _CIPHER_BLOCK - 1, dtype=np.uint8)  # update_into wants extra room
        room, done = out.data, 0
        with self._lock:
            while done < size:
                if not self._left:
                    self._seek(self.position)
                piece = min(size - done, self._left, len(_ZEROS))
                self._encryptor.update_into(_ZEROS[:piece], room[done:])
                done += piece
                self._left -= piece
                self.position += piece
        return out[:size]

    def skip(self, size: int) -> None:
        with self._lock:
            self._seek(self.position + size)

    def ahead(self, size: int) -> "_Stream":
        return _Stream(self._keys, self._span // _CIPHER_BLOCK, self.position + size)


def _secret_stream(secret: bytes) -> _Stream:
    return _Stream(
        lambda span: hmac.digest(secret, f"shuffledp span {span}".encode(), "sha256"), _SPAN_BLOCKS
    )


def _size(count: int, bits: int) -> int:
    """Return how many bytes of a stream that many words take."""
    return _check(count, bits) * _width(bits)


def _check(count: int, bits: int) -> int:
    # Words are drawn again and again, and nearly always these are ints in range.
    if type(count) is type(bits) is int and count >= 0 and 1 <= bits <= 64:
        return count
    whole("bits", bits, at_least=1, at_most=64)
    return whole("count", count, at_least=0)


def _width(bits: int) -> int:
    return 1 if bits <= 8 else 2 if bits <= 16 else 4 if bits <= 32 else 8


def _as_words(stream: _Stream, count: int, bits: int) -> Words:
    raw, width = stream.take(_size(count, bits)), _width(bits)
    words: NDArray[Any] = raw.view(_LITTLE[width]).astype(_NATIVE[width], copy=False)
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
        self._stream = _secret_stream(os.urandom(32))
        self._born = _process()

    def words(self, count: int, bits: int = 64) -> Words:
        """Return the next `count` uniform words of `bits` bits."""
        if self._born != _process():
            self._renew()
        return _as_words(self._stream, count, bits)

    def __reduce__(self) -> NoReturn:
        raise TypeError("SecureWords cannot be copied or pickled: two copies would share a stream")


class RunKey:
    """A secret of one run: each part of the run derives words of its own from it, by a label.

    Where a part may be computed twice (Spark repeats a partition that was lost), fresh words would make
    two randomizations of the same people, of which each gives something away. With derived words the
    repetition is the same to the last bit. So a label must name the part and what is drawn for it, and
    never stand for two different things.

    The key may be pickled, to be sent to the workers that do the parts. It is as secret as the data:
    whoever has it can subtract the noise.

    Words of different labels are as good as independent: see `prf_advantage` for what is assumed.

    >>> key = RunKey()
    >>> bool((key.words("partition 3").words(4) == key.words("partition 3").words(4)).all())
    True
    >>> bool((key.words("partition 3").words(4) == key.words("partition 4").words(4)).any())
    False
    >>> key
    RunKey(secret)
    """

    __slots__ = ("_secret",)

    def __init__(self) -> None:
        self._secret = os.urandom(32)

    def words(self, label: str) -> "DerivedWords":
        """Return the source of words for that part of the run."""
        if not isinstance(label, str):
            raise ParameterError("label", label, "must be a text")
        message = f"shuffledp label {label}".encode()
        return DerivedWords(hmac.digest(self._secret, message, "sha256"))

    def __repr__(self) -> str:
        return "RunKey(secret)"

    def __reduce__(self) -> tuple[Callable[[bytes], "RunKey"], tuple[bytes]]:
        return _restore_key, (self._secret,)


def _restore_key(secret: bytes) -> RunKey:
    key = RunKey()
    key._secret = secret
    return key


class DerivedWords:
    """The words that a `RunKey` has for one label.

    Two processes must not go on reading one stream, so after a fork the words have to be derived again.
    """

    __slots__ = ("_born", "_stream")

    def __init__(self, secret: bytes) -> None:
        self._stream = _secret_stream(secret)
        self._born = _process()

    def words(self, count: int, bits: int = 64) -> Words:
        """Return the next `count` uniform words of `bits` bits."""
        if self._born != _process():
            raise UnsupportedError(
                "derived words do not survive a fork: derive them in the new process"
            )
        return _as_words(self._stream, count, bits)

    def __reduce__(self) -> NoReturn:
        raise TypeError("DerivedWords cannot be copied or pickled: derive them again from the key")


class SeededWords:
    """Reproducible uniform words for tests and papers. Anybody who knows the seed undoes the noise.

    >>> SeededWords(7).words(2)
    array([12295609786813653991,  6715552757042428571], dtype=uint64)
    """

    __slots__ = ("_stream", "seed")

    def __init__(self, seed: int) -> None:
        self.seed = whole("seed", seed, at_least=0)
        key = hashlib.sha256(f"shuffledp words {seed}".encode()).digest()
        self._stream = _Stream(lambda _: key, _ENDLESS)

    def words(self, count: int, bits: int = 64) -> Words:
        """Return the next `count` uniform words of `bits` bits."""
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
        """Return a second source that starts `count` words of `bits` bits further on than this one.

        So workers that each take a part of the users need not wait for each other: whoever handles
        user r reads the words that are the user's, wherever the parts begin.

        >>> SeededWords(7).ahead(1).words(1)
        array([6715552757042428571], dtype=uint64)
        """
        further = SeededWords(self.seed)
        further._stream = self._stream.ahead(_size(count, bits))
        return further

    def __reduce__(self) -> tuple[Callable[[int, int], "SeededWords"], tuple[int, int]]:
        return _restore_seeded, (self.seed, self._stream.position)


def _restore_seeded(seed: int, position: int) -> SeededWords:
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
