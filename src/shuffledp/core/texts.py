"""Words that nobody has listed: texts up to a length over an alphabet, or integers of some bits, as 64-bit codes.

How a text is read, everywhere (files, memory, devices):

1. Spaces, tabs and line ends around it are taken off.
2. It is normalised (Unicode, UAX #15). `letters` and `word` know no case: compatibility characters become what they
   stand for (NFKC), then everything becomes lower case, so `Cat`, `CAT` and the full-width `Ｃａｔ` are one word. `ascii`
   and `utf-8` keep the case and are composed (NFC): `é` is one word, whether it was typed as one character or as two.
3. It is written in UTF-8. Its length is that of these bytes, so an `é` counts twice.

What is wrong with it is one of three things: there is nothing left (missing), a character is outside the alphabet
(unknown), or there are too many bytes (out of range; its nearest neighbour is what fits of it, whole characters only).

The code of a text is the number whose digits are its bytes' places in the alphabet, counted from 1, filled up with
zeros to the declared length. So codes are compared as texts are, and a number with a zero inside is no text.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffledp.core.arrays import Codes, Floats
from shuffledp.core.domain import column
from shuffledp.core.errors import DataError, ParameterError, PositionError, UnsupportedError
from shuffledp.core.validate import whole

FINE, MISSING, UNKNOWN, TOO_LONG = range(4)
"""What is wrong with a text: nothing; it is empty, has a character outside the alphabet, or is too long."""

_SPACES = " \t\r\n"
_BITS = 64

_Bytes: TypeAlias = NDArray[np.uint8]
Spelt: TypeAlias = NDArray[np.uint64]
"""Codes of words: all 64 bits may be used."""


class _Alphabet(NamedTuple):
    """The bytes of its words, how texts become such words, and what it is in plain words."""

    symbols: bytes
    form: Literal["NFC", "NFKC"]
    folds: bool
    about: str


ALPHABETS = {
    "letters": _Alphabet(
        bytes(range(ord("a"), ord("z") + 1)), "NFKC", True, "the letters a to z, in any case"
    ),
    "word": _Alphabet(
        b"abcdefghijklmnopqrstuvwxyz0123456789-_",
        "NFKC",
        True,
        "letters in any case, digits, - and _",
    ),
    "ascii": _Alphabet(bytes(range(32, 127)), "NFC", False, "printable ASCII, spaces included"),
    "utf-8": _Alphabet(bytes(range(1, 256)), "NFC", False, "any text, as bytes of UTF-8"),
}
"""The alphabets by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """Texts of 1 .. max_length bytes over an alphabet: `letters`, `word`, `ascii` or `utf-8`.

    >>> pets = Texts(alphabet="letters", max_length=12)
    >>> codes = pets.codes(["cat", " Cat ", "dog"])
    >>> bool(codes[0] == codes[1]), pets.spell(codes)
    (True, ['cat', 'cat', 'dog'])
    >>> pets.codes(["cat", "chat noir"])
    Traceback (most recent call last):
    shuffledp.core.errors.PositionError: value 'chat noir' at position 1 has a character outside the alphabet letters
    >>> Texts(alphabet="letters", max_length=14)
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: max_length=14 must be <= 13 for the alphabet letters: codes have 64 bits
    """

    alphabet: str
    max_length: int

    def __post_init__(self) -> None:
        if self.alphabet not in ALPHABETS:
            raise ParameterError(
                "alphabet", self.alphabet, f"must be one of {', '.join(ALPHABETS)}"
            )
        length = whole("max_length", self.max_length, at_least=1)
        object.__setattr__(self, "max_length", length)
        longest = next(m for m in range(_BITS, 0, -1) if self.base**m <= 1 << _BITS)
        if length > longest:
            raise ParameterError(
                "max_length",
                length,
                f"must be <= {longest} for the alphabet {self.alphabet}: codes have {_BITS} bits",
            )

    def __str__(self) -> str:
        about = ALPHABETS[self.alphabet].about
        return f"texts of up to {self.max_length} bytes ({about})"

    @property
    def base(self) -> int:
        """One more than there are symbols."""
        return 1 + len(ALPHABETS[self.alphabet].symbols)

    @property
    def size(self) -> int:
        """One more than the largest code that there may be."""
        return int(self.base**self.max_length)

    @property
    def bits(self) -> int:
        """The bits of the largest code."""
        return (self.size - 1).bit_length()

    @property
    def labels(self) -> tuple[str, ...]:
        raise UnsupportedError(f"{self} are too many to be listed: spell(codes) names some of them")

    def normalize(self, text: str) -> str:
        """Return the text as it is counted, before anything is refused or cut.

        >>> Texts(alphabet="word", max_length=8).normalize("ＷＬＡＮ-5 ")
        'wlan-5'
        """
        stripped = text.strip(_SPACES)
        _, form, folds, _ = ALPHABETS[self.alphabet]
        if not stripped.isascii():
            stripped = unicodedata.normalize(form, stripped)
        # What is left of compatibility characters may be spaces again.
        return (stripped.lower() if folds else stripped).strip(_SPACES)

    def read(self, texts: Sequence[Any]) -> tuple[Spelt, _Bytes]:
        """Return the code of each text, and what is wrong with it; too long a text has the code of what fits.

        >>> codes, faults = Texts(alphabet="letters", max_length=3).read(["cat", "cats", "", "c4t"])
        >>> faults, bool(codes[0] == codes[1])
        (array([0, 3, 1, 2], dtype=uint8), True)
        """
        faults = np.zeros(len(texts), dtype=np.uint8)
        kept: list[bytes] = []
        allowed = ALPHABETS[self.alphabet].symbols
        for place, text in enumerate(texts):
            word, faults[place] = self._read_one(text, allowed)
            kept.append(word)
        return self._pack(kept), faults

    def _read_one(self, text: object, allowed: bytes) -> tuple[bytes, int]:
        if text is None:
            return b"", MISSING
        if not isinstance(text, str):
            return b"", UNKNOWN
        try:
            word = self.normalize(text).encode()
        except UnicodeEncodeError:  # half of a surrogate pair
            return b"", UNKNOWN
        if not word:
            return b"", MISSING
        if word.translate(None, allowed):
            return b"", UNKNOWN
        if len(word) <= self.max_length:
            return word, FINE
        cut = word[: self.max_length].decode(errors="ignore").encode().rstrip(_SPACES.encode())
        return cut, TOO_LONG

    def _pack(self, words: list[bytes]) -> Spelt:
        """Return the codes of words that fit; that of no word at all is 0."""
        width = self.max_length
        digits = np.array(words, dtype=f"S{width}").view(np.uint8).reshape(len(words), width)
        places = self._digits()[digits]
        codes = np.zeros(len(words), dtype=np.uint64)
        for i in range(width):
            codes = codes * np.uint64(self.base) + places[:, i]
        return codes

    def _digits(self) -> Spelt:
        """Return the digit of each byte; 0 for bytes outside the alphabet."""
        table = np.zeros(256, dtype=np.uint64)
        symbols = np.frombuffer(ALPHABETS[self.alphabet].symbols, dtype=np.uint8)
        table[symbols] = np.arange(1, self.base, dtype=np.uint64)
        return table

    def codes(self, values: ArrayLike) -> Codes:
        array = column(values)
        if array.dtype.kind not in "UTO":
            raise DataError(f"words are texts, but the values have type {array.dtype}")
        return _accept(self, array.tolist())

    def complain(self, fault: int) -> str:
        """Say what is wrong, in words."""
        if fault == MISSING:
            return "is empty"
        if fault == UNKNOWN:
            return f"has a character outside the alphabet {self.alphabet}"
        return f"is longer than {self.max_length} bytes"

    def spell(self, codes: Codes) -> list[str | None]:
        """Return the word of each code; None where it is the code of no word.

        >>> Texts(alphabet="letters", max_length=2).spell(np.array([0, 1, 27, 28]))
        [None, None, 'a', 'aa']
        """
        left = np.asarray(codes).astype(np.uint64)
        symbols = b"\0" + ALPHABETS[self.alphabet].symbols
        table = np.frombuffer(symbols, dtype=np.uint8)
        letters = np.zeros((len(left), self.max_length), dtype=np.uint8)
        inside = left < np.uint64(self.size) if self.size < 1 << _BITS else np.ones(len(left), bool)
        for i in range(self.max_length - 1, -1, -1):
            letters[:, i] = table[(left % np.uint64(self.base)).astype(np.intp)]
            left = left // np.uint64(self.base)
        return [self._spell_one(row.tobytes(), ok) for row, ok in zip(letters, inside, strict=True)]

    def _spell_one(self, padded: bytes, inside: bool) -> str | None:
        word = padded.rstrip(b"\0")
        if not inside or not word or b"\0" in word:
            return None
        try:
            text = word.decode()
        except UnicodeDecodeError:
            return None
        # Nobody who follows the rules above sends any other spelling.
        return text if self.normalize(text) == text else None

    def values(self, codes: Codes) -> Floats:
        return codes.astype(np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Integers 0 .. 2^bits - 1, too many to be listed: numbers of products, hashes of names.

    >>> Keys(bits=64).codes([7, 2**64 - 1])
    array([                   7, 18446744073709551615], dtype=uint64)
    >>> Keys(bits=8).codes([256])
    Traceback (most recent call last):
    shuffledp.core.errors.PositionError: value 256 at position 0 is outside the domain 0 .. 255
    """

    bits: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "bits", whole("bits", self.bits, at_least=1, at_most=_BITS))

    def __str__(self) -> str:
        return f"integers of {self.bits} bits"

    @property
    def size(self) -> int:
        return 1 << self.bits

    @property
    def labels(self) -> tuple[str, ...]:
        raise UnsupportedError(f"{self} are too many to be listed: spell(codes) names some of them")

    def read(self, numbers: Sequence[Any]) -> tuple[Spelt, _Bytes]:
        """Return the code of each number, or of a text that spells it, and what is wrong with it.

        A number out of range has the code of the nearest end.

        >>> codes, faults = Keys(bits=8).read([7, "300", -1, "x", 2.5, None])
        >>> codes[:3], faults
        (array([  7, 255,   0], dtype=uint64), array([0, 3, 3, 2, 2, 1], dtype=uint8))
        """
        read = [self._read_one(number) for number in numbers]
        codes = np.array([code for code, _ in read], dtype=np.uint64)
        return codes, np.array([fault for _, fault in read], dtype=np.uint8)

    def _read_one(self, number: object) -> tuple[int, int]:
        if number is None:
            return 0, MISSING
        if isinstance(number, str):
            text = number.strip(_SPACES)
            digits = text.removeprefix("-")
            if not text:
                return 0, MISSING
            if not (digits.isascii() and digits.isdigit() and len(digits) <= 40):
                return 0, UNKNOWN
            number = int(text)
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        if isinstance(number, bool) or not isinstance(number, int):
            return 0, UNKNOWN
        nearest = min(max(number, 0), self.size - 1)
        return nearest, FINE if nearest == number else TOO_LONG

    def codes(self, values: ArrayLike) -> Codes:
        # NumPy takes a list of numbers up to 2^64 for floats.
        listed = isinstance(values, list | tuple)
        array = column(np.array(values, dtype=object) if listed else values)
        if array.dtype.kind not in "iuUTO":
            raise DataError(f"the domain is integers, but the values have type {array.dtype}")
        return _accept(self, array.tolist())

    def complain(self, fault: int) -> str:
        """Say what is wrong, in words."""
        if fault == MISSING:
            return "is missing"
        if fault == UNKNOWN:
            return "is not an integer"
        return f"is outside the domain 0 .. {self.size - 1}"

    def spell(self, codes: Codes) -> list[str | None]:
        """Return each code in digits.

        >>> Keys(bits=8).spell(np.array([255]))
        ['255']
        """
        numbers = np.asarray(codes).astype(np.uint64).tolist()
        return [str(number) if number < self.size else None for number in numbers]

    def values(self, codes: Codes) -> Floats:
        return codes.astype(np.float64)


def _accept(domain: Texts | Keys, values: list[Any]) -> Spelt:
    """Return the codes of the values; raise if anything is wrong with any of them."""
    codes, faults = domain.read(values)
    if faults.any():
        place = int(np.argmax(faults != FINE))
        raise PositionError(values[place], place, domain.complain(int(faults[place])))
    return codes
