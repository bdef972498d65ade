"""JSON that has one meaning: what a device, a shuffler and an analyzer must read alike.

No key twice, no number but whole ones below 2^53 in size, no NaN, no text with control characters, no
nesting without end. Decimals are strings. Everything else is refused, in Python and elsewhere alike.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from shuffledp.core.errors import WireError

_LARGEST = 2**53
_DEEPEST = 8
MOST_BYTES = 1 << 20
"""The most bytes of a document."""
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]{0,15})(\.[0-9]{1,20})?(e-?[0-9]{1,3})?")
UNWANTED = (
    "0-1f 7f-9f ad 600-605 61c 6dd 70f 890-891 8e2 180e 200b-200f 2028-202e 2060-206f d800-f8ff fdd0-fdef feff "
    "fff9-fffb fffe-ffff 110bd 110cd 13430-1345f 1bca0-1bca3 1d173-1d17a 1fffe-1ffff 2fffe-2ffff 3fffe-3ffff "
    "4fffe-4ffff 5fffe-5ffff 6fffe-6ffff 7fffe-7ffff 8fffe-8ffff 9fffe-9ffff afffe-affff bfffe-bffff cfffe-cffff "
    "dfffe-e0fff efffe-10ffff"
)
"""Controls, marks of direction and other invisible or private characters: a list, because each version of Unicode, and
so of Python and of JavaScript, knows other ones. Letters that are new in Unicode are fine everywhere."""
_UNWANTED = re.compile(
    "["
    + "".join(
        "-".join(f"\\U{int(end, 16):08x}" for end in part.split("-")) for part in UNWANTED.split()
    )
    + "]"
)


def read_json(raw: bytes) -> dict[str, Any]:
    """Return the object that the bytes say, strictly.

    >>> read_json(b'{"a": 1}')
    {'a': 1}
    >>> read_json(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
    shuffledp.core.errors.WireError: document: the key 'a' is there twice
    """
    if len(raw) > MOST_BYTES:
        raise _bad(f"it has {len(raw):,} bytes, more than {MOST_BYTES:,}")
    try:
        content = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_pairs,
            parse_float=_refuse_number,
            parse_int=_read_whole,
            parse_constant=_refuse_number,
        )
    except UnicodeDecodeError:
        raise _bad("it is not UTF-8") from None
    except (ValueError, RecursionError):
        raise _bad("it is not JSON") from None
    if not isinstance(content, dict):
        raise _bad("it is not an object")
    _check(content, 0)
    return content


def _bad(sentence: str) -> WireError:
    return WireError("document", sentence)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for key, value in pairs:
        if key in content:
            raise _bad(f"the key {key!r} is there twice")
        content[key] = value
    return content


def _refuse_number(text: str) -> NoReturn:
    raise _bad(f"the number {text[:40]} is not a whole one: decimals are written as strings")


def _read_whole(text: str) -> int:
    if len(text) > 17 or abs(int(text)) >= _LARGEST:
        raise _bad(f"the number {text[:40]} is not below 2^53")
    return int(text)


def _check(value: Any, depth: int) -> None:
    if depth > _DEEPEST:
        raise _bad("it is nested too deeply")
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, list):
        for each in value:
            _check(each, depth + 1)
    elif isinstance(value, dict):
        for key, each in value.items():
            _check_text(key)
            _check(each, depth + 1)


def _check_text(text: str) -> None:
    # They can make a text look like another.
    if _UNWANTED.search(text):
        raise _bad(f"the text {text[:60]!r} has a control or invisible character")


def write_canonical(content: Mapping[str, Any]) -> bytes:
    """Return the bytes we write: keys in their order, no blanks. Readers never depend on it.

    >>> write_canonical({"b": [1, "x"], "a": None})
    b'{"b":[1,"x"],"a":null}'
    """
    raw = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    read_json(raw)
    return raw


def as_decimal(value: float) -> str:
    """Return the shortest decimal string that reads back as the number.

    >>> as_decimal(0.25), as_decimal(1e-8), as_decimal(1e16)
    ('0.25', '1e-8', '1e16')
    """
    return re.sub(r"e([+-])0*", lambda m: "e-" if m[1] == "-" else "e", repr(float(value)))


def read_decimal(name: str, text: object) -> float:
    """Return the number that a decimal string writes.

    >>> read_decimal("delta", "1e-8")
    1e-08
    >>> read_decimal("delta", "NaN")
    Traceback (most recent call last):
    shuffledp.core.errors.WireError: document: delta='NaN' must be a decimal in a string, such as "0.25"
    """
    if not isinstance(text, str) or not _DECIMAL.fullmatch(text):
        raise _bad(f'{name}={text!r} must be a decimal in a string, such as "0.25"')
    return float(text)


def read_hex(name: str, text: object, size: int) -> bytes:
    """Read `size` bytes, written as lowercase hexadecimal digits.

    >>> read_hex("key", "00ff", 2)
    b'\\x00\\xff'
    """
    if not isinstance(text, str) or not re.fullmatch(f"[0-9a-f]{{{2 * size}}}", text):
        raise _bad(f"{name} must be {2 * size} hexadecimal digits")
    return bytes.fromhex(text)


class Fields:
    """The fields of an object, each taken once by its type; `finish` refuses what is left.

    >>> fields = Fields("windows", {"count": 3})
    >>> fields.whole("count", 1, 10)
    3
    >>> fields.finish()
    """

    __slots__ = ("_left", "_where")

    def __init__(self, where: str, content: object) -> None:
        if not isinstance(content, dict):
            raise _bad(f"{where} must be an object")
        self._where = where
        self._left = dict(content)

    def has(self, name: str) -> bool:
        """Return whether it is there, and not taken yet."""
        return name in self._left

    def take(self, name: str) -> Any:
        """Return the value, whatever it is; it must be there."""
        if name not in self._left:
            raise _bad(f"{self._where} lacks {name!r}")
        return self._left.pop(name)

    def whole(self, name: str, low: int, high: int) -> int:
        """Take a whole number between the ends."""
        value = self.take(name)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise _bad(f"{self._where}.{name} must be a whole number from {low} to {high}")
        return value

    def text(self, name: str, longest: int = 500) -> str:
        """Take a text that is not empty and not too long."""
        value = self.take(name)
        if not isinstance(value, str) or not value.strip() or len(value) > longest:
            raise _bad(f"{self._where}.{name} must be a text of 1 to {longest} characters")
        return value

    def optional_text(self, name: str, longest: int = 500) -> str | None:
        """Take a text, or null."""
        if name in self._left and self._left[name] is None:
            return self.take(name)  # type: ignore[no-any-return]
        return self.text(name, longest)

    def name(self, name: str) -> str:
        """Take a name: letters, digits, _ and -, beginning with a letter."""
        value = self.text(name, 60)
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", value):
            raise _bad(f"the name {value!r} must be letters, digits, _ and -")
        return value

    def flag(self, name: str) -> bool:
        """Take true or false."""
        value = self.take(name)
        if not isinstance(value, bool):
            raise _bad(f"{self._where}.{name} must be true or false")
        return value

    def decimal(self, name: str) -> float:
        """Take a decimal in a string."""
        return read_decimal(f"{self._where}.{name}", self.take(name))

    def key(self, name: str) -> bytes:
        """Take 32 bytes in hexadecimal."""
        return read_hex(f"{self._where}.{name}", self.take(name), 32)

    def items(self, name: str, most: int) -> list[Any]:
        """Take a list with at least one entry."""
        value = self.take(name)
        if not isinstance(value, list) or not 1 <= len(value) <= most:
            raise _bad(f"{self._where}.{name} must be a list of 1 to {most} entries")
        return value

    def finish(self) -> None:
        """Refuse whatever was not taken."""
        if self._left:
            raise _bad(f"{self._where} has the unknown field {min(self._left)!r}")
