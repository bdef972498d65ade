"""Where the words come from, and exact draws from them.

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

**Exact draws of irrational probability.** A word decides almost always, further words when it does not. A uniform real
U in [0, 1) is read word by word. To draw Bernoulli(p) compare U with p: the first word leaves an interval of width
2^-bits for U, and unless p lies in that interval the comparison is decided. In the rare other case (about 2^-64) more
words are drawn, p is enclosed more narrowly, and so on. Nothing is rounded: the law is exactly p, and the loop ends
with probability 1. This is the idea of von Neumann and of Knuth and Yao 1976, "The complexity of nonuniform random
number generation", with words in place of bits.

p is given as an enclosure: a function from a number of digits to two fractions around p.

The time of a draw depends on the noise it makes (not on the data). Where an attacker can time single
draws, that is a side channel.
"""

import hashlib
import hmac
import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Any, NoReturn, TypeAlias

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from shuffledp.core.arrays import Bools, Counts, Words
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.randomizer import WordSource
from shuffledp.core.validate import whole
from shuffledp.numerics import tape
from shuffledp.numerics.rounding import exp_bounds, float_above

_CIPHER_BLOCK = 16
_SPAN_BLOCKS = 1 << 18  # rekeying costs about a percent of the time
SPAN_WORDS = 2 * _SPAN_BLOCKS
"""How many words of a secret stream share a key."""
_ENDLESS = 1 << 128
_TRIALS = Fraction(1 << 128, 1 << 256)  # guesses of a key, of all keys that there are
_LITTLE = {width: np.dtype(f"<u{width}") for width in (1, 2, 4, 8)}
_NATIVE = {width: np.dtype(f"=u{width}") for width in (1, 2, 4, 8)}
_ZEROS = memoryview(bytes(1 << 18))  # the keystream is the encryption of zeros

Enclosure: TypeAlias = Callable[[int], tuple[Fraction, Fraction]]
"""digits -> (low, high) with low <= p <= high and high - low < 10^(2 - digits)."""

SMALLEST_RATE = Fraction(1, 1 << 50)
"""Below this rate the noise would no longer fit into 64-bit integers with room to spare."""

_CHUNK = 1 << 16  # words at a time
_DIGITS_UNTIL = 8  # draw binary digits until e^(-rate 2^i) < e^-8; few draws need more
_STEP = Fraction(10_000)  # e^-x for larger x is a product of several
_LARGEST = 1 << 61


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
    """Return how many bytes of a stream this many words take."""
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


@dataclass(frozen=True, slots=True)
class ExpMinus:
    """The enclosure of e^-x, 0 <= x <= 20000.

    >>> low, high = ExpMinus(Fraction(1))(20)
    >>> round(float(low), 12), high - low < Fraction(1, 10**18)
    (0.367879441171, True)
    """

    x: Fraction

    def __call__(self, digits: int) -> tuple[Fraction, Fraction]:
        return exp_bounds(-self.x, digits)


@dataclass(frozen=True, slots=True)
class Logistic:
    """The enclosure of 1 / (1 + e^x): the probability of a binary digit of a geometric number.

    >>> Logistic(Fraction(0))(20)
    (Fraction(1, 2), Fraction(1, 2))
    """

    x: Fraction

    def __call__(self, digits: int) -> tuple[Fraction, Fraction]:
        low, high = exp_bounds(self.x, digits)
        return 1 / (1 + high), 1 / (1 + low)


def draw_bernoulli(p: Enclosure, count: int, rng: WordSource, bits: int = 64) -> Bools:
    """Draw `count` independent draws that are True with probability exactly p.

    >>> from shuffledp import SeededWords
    >>> int(draw_bernoulli(ExpMinus(Fraction(1)), 10_000, SeededWords(1)).sum())
    3579
    """
    words = rng.words(count, bits)
    below, above = _thresholds(p, bits)
    drawn = tape.bernoulli(words, below, bits)
    if above > below:
        undecided = tape.bernoulli(words, above, bits) ^ drawn
        for i in np.flatnonzero(undecided):
            drawn[i] = _decide(p, int(words[i]), rng, bits)
    return drawn


def _decide(p: Enclosure, word: int, rng: WordSource, bits: int) -> bool:
    number, width = word, bits
    while True:
        number = (number << bits) | int(rng.words(1, bits)[0])
        width += bits
        below, above = _thresholds(p, width)
        if number < below:
            return True
        if number >= above:
            return False


@lru_cache(maxsize=1024)
def _thresholds(p: Enclosure, width: int) -> tuple[int, int]:
    """Return the first `width` bits of U below the one number mean U < p, from the other on U >= p."""
    low, high = p(_digits(width))
    scale = 1 << width
    below, above = low * scale // 1, -(-high * scale // 1)
    return max(0, int(below)), min(scale, int(above))


def _digits(width: int) -> int:
    return width * 31 // 100 + 6  # log10(2) < 0.31, and some more


def draw_bernoulli_exp(x: Fraction, count: int, rng: WordSource, bits: int = 64) -> Bools:
    """Draw booleans that are true with probability exactly e^-x, for any x >= 0.

    >>> from shuffledp import SeededWords
    >>> draw_bernoulli_exp(Fraction(0), 3, SeededWords(1))
    array([ True,  True,  True])
    """
    if x < 0:
        raise ParameterError("x", x, "must be >= 0")
    alive = np.arange(count)
    while len(alive) and x > _STEP:
        alive = alive[draw_bernoulli(ExpMinus(_STEP), len(alive), rng, bits)]
        x -= _STEP
    if len(alive):
        alive = alive[draw_bernoulli(ExpMinus(x), len(alive), rng, bits)]
    drawn = np.zeros(count, dtype=np.bool_)
    drawn[alive] = True
    return drawn


def draw_geometric(rate: Fraction, count: int, rng: WordSource, bits: int = 64) -> Counts:
    """Draw G >= 0 with Pr[G = g] = (1 - a) a^g, a = e^-rate, exactly.

    The binary digits of G are independent, digit i is 1 with probability 1 / (1 + e^(rate 2^i)), and
    G // 2^i is again geometric, with rate 2^i times as large: draw the low digits one by one, and
    the rest, which is almost always 0, by its number of successes. Work grows with log(1 / rate).

    >>> from shuffledp import SeededWords
    >>> draw_geometric(Fraction(1, 2), 8, SeededWords(1))
    array([0, 4, 3, 0, 1, 2, 4, 4])
    """
    _check_rate(rate)
    whole("count", count, at_least=0)
    plan = _plan(rate, bits)
    step = max(1, _CHUNK // (len(plan.digits) + 1))
    drawn = np.empty(count, dtype=np.int64)
    for start in range(0, count, step):
        part = drawn[start : start + step]
        part[:] = _low_part(plan, len(part), rng, bits)
        _add_high_part(part, plan, rng, bits)
    return drawn


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Plan:
    """The digits that are drawn one by one, their thresholds, and the rate of the rest."""

    digits: tuple[Logistic, ...]
    below: Words  # [digits, 1]
    above: Words
    rest: Fraction


@lru_cache(maxsize=64)
def _plan(rate: Fraction, bits: int) -> _Plan:
    digits = []
    while rate < _DIGITS_UNTIL:
        digits.append(Logistic(rate))
        rate *= 2
    # All probabilities are below 1/2, so the thresholds fit into words.
    ends = [_thresholds(digit, bits) for digit in digits]
    table = np.array(ends, dtype=tape.word_type(bits)).reshape(-1, 2)
    return _Plan(digits=tuple(digits), below=table[:, :1], above=table[:, 1:], rest=rate)


def _low_part(plan: _Plan, count: int, rng: WordSource, bits: int) -> Counts:
    places = len(plan.digits)
    words = rng.words(places * count, bits).reshape(places, count)
    ones = words < plan.below
    undecided = (words < plan.above) ^ ones
    if undecided.any():
        for i, j in np.argwhere(undecided):
            ones[i, j] = _decide(plan.digits[i], int(words[i, j]), rng, bits)
    drawn = np.zeros(count, dtype=np.int64)
    for i, eight in enumerate(np.packbits(ones, axis=0, bitorder="little")):
        drawn += eight.astype(np.int64) << (8 * i)
    return drawn


def _add_high_part(drawn: Counts, plan: _Plan, rng: WordSource, bits: int) -> None:
    place, trials = len(plan.digits), 0
    alive = np.arange(len(drawn))
    while len(alive := alive[draw_bernoulli_exp(plan.rest, len(alive), rng, bits)]):
        trials += 1
        if trials << place > _LARGEST:
            raise OverflowError("a geometric draw does not fit into 64 bits")
        drawn[alive] += 1 << place


def _check_rate(rate: Fraction) -> None:
    if not isinstance(rate, Fraction):
        raise ParameterError("rate", rate, "must be a Fraction")
    if rate < SMALLEST_RATE:
        raise ParameterError("rate", float(rate), "must be >= 2^-50: the noise would be too large")


def draw_discrete_laplace(rate: Fraction, count: int, rng: WordSource) -> Counts:
    """Draw Z with Pr[Z = z] = (1 - a) / (1 + a) a^|z|, a = e^-rate, exactly.

    The difference of two independent geometric numbers.

    >>> from shuffledp import SeededWords
    >>> draw_discrete_laplace(Fraction(1, 2), 8, SeededWords(1))
    array([-1,  4,  1, -1,  1,  0,  3,  2])
    """
    return draw_geometric(rate, count, rng) - draw_geometric(rate, count, rng)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Position r with probability e^-x_r / sum_s e^-x_s, exactly, for x = `exponents` >= 0.

    By inversion: the first words of U against enclosures of the cumulative probabilities. Weights
    below e^-20000 of the largest are enclosed by (0, e^-20000), which is enough for all words that
    will ever be drawn.

    >>> from shuffledp import SeededWords
    >>> Choice(exponents=(Fraction(0), Fraction(1), Fraction(50))).draw(8, SeededWords(1))
    array([1, 1, 0, 1, 0, 1, 0, 1])
    """

    exponents: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        if not self.exponents or min(self.exponents) < 0:
            raise ParameterError("exponents", self.exponents, "must be some numbers >= 0")

    def bounds(self, width: int) -> list[tuple[Fraction, Fraction]]:
        """Return fractions around each probability, about 2^-width apart.

        >>> [(float(low), float(high)) for low, high in Choice(exponents=(Fraction(1),) * 2).bounds(60)]
        [(0.5, 0.5), (0.5, 0.5)]
        """
        lows, highs = self._weights(width)
        most, least = sum(highs), sum(lows)
        return [
            (Fraction(low, low + most - high), Fraction(high, high + least - low))
            for low, high in zip(lows, highs, strict=True)
        ]

    def draw(self, count: int, rng: WordSource, bits: int = 64) -> Counts:
        """Draw `count` independent positions."""
        starts, ends = self._cuts(bits)
        words = rng.words(count, bits)
        drawn = np.empty(count, dtype=np.int64)
        for i, word in enumerate(words.tolist()):
            position = find_position(word, starts, ends)
            drawn[i] = self._extend(word, rng, bits) if position is None else position
        return drawn

    def _extend(self, word: int, rng: WordSource, bits: int) -> int:
        number, width = word, bits
        while True:
            number = (number << bits) | int(rng.words(1, bits)[0])
            width += bits
            position = find_position(number, *self._cuts(width))
            if position is not None:
                return position

    def _weights(self, width: int) -> tuple[list[int], list[int]]:
        """Return integers around 2^scale e^-x_r; shifted, so that the largest weight is 1."""
        scale = width + len(self.exponents).bit_length() + 8
        least = min(self.exponents)
        around = {x: _scale(ExpMinus(x - least), scale) for x in set(self.exponents)}
        return [around[x][0] for x in self.exponents], [around[x][1] for x in self.exponents]

    def _cuts(self, width: int) -> tuple[list[int], list[int]]:
        return cut_weights(*self._weights(width), width)


def cut_weights(
    lows: Sequence[int], highs: Sequence[int], width: int
) -> tuple[list[int], list[int]]:
    """Return for each r: certainly "U is at or above C_r" from starts[r] on, "below" before ends[r].

    C_r is the cumulative share of weights that lie between `lows` and `highs`, U's first bits are a number
    below 2^width.

    >>> cut_weights([1, 1], [1, 1], 8)
    ([128, 256], [128, 256])
    """
    below_low, below_high = list(accumulate(lows)), list(accumulate(highs))
    rest_low = [below_low[-1] - low for low in below_low]
    rest_high = [below_high[-1] - high for high in below_high]
    ends = [(a << width) // (a + z) for a, z in zip(below_low, rest_high, strict=True)]
    starts = [-((-a << width) // (a + z)) for a, z in zip(below_high, rest_low, strict=True)]
    return starts, ends


def _scale(p: Enclosure, scale: int) -> tuple[int, int]:
    low, high = p(_digits(scale))
    return int(low * (1 << scale) // 1), int(-(-high * (1 << scale) // 1))


def find_position(number: int, starts: list[int], ends: list[int]) -> int | None:
    """Return the position that U's first bits decide on; None if they do not.

    >>> find_position(127, [128, 256], [128, 256]), find_position(128, [128, 256], [128, 256])
    (0, 1)
    """
    r = bisect_right(ends, number)  # the first r with number < ends[r]; the last end is 2^width
    return r if r == 0 or number >= starts[r - 1] else None
