"""How numbers and dates are spelt in text: with decimal commas, units around them, or the day first.

What a file's text means is declared, never guessed: `1.234` is a thousand or one and a bit, and `03/04/2024` is in March
or in April.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Any

from shuffledp.core.errors import ParameterError

_BETWEEN = "[. '\u00a0\u202f\u2019]"  # between the thousands of a number with a decimal comma
_THOUSANDS = rf"^\s*[-+]?[1-9][0-9]{{0,2}}(?:{_BETWEEN}[0-9]{{3}})+(?:,[0-9]+)?\s*$"
_COMMA = r"^(\s*[-+]?[0-9]*),([0-9]+(?:[eE][-+]?[0-9]+)?\s*)$"
_BARE = r"^[-+0-9.,'\s]*[0-9][-+0-9.,'\s]*(?:[eE][-+]?[0-9]+)?\s*$"
_MONTH = "(0?[1-9]|1[0-2])"
_DAY = "(0?[1-9]|[12][0-9]|3[01])"
_YEAR = "([0-9]{4})"
_TIME = r"(\s*$|[ T].*$)"
_ONE_DIGIT = r"^([0-9]{4}(?:-[0-9]{2})?)-([0-9])(-|\s*$|[ T])"
_UNITS = "%‰°'\u2019"  # and the signs of currencies
ORDERS = {
    "iso": ("", ""),
    "ymd": (rf"^\s*{_YEAR}[./-]{_MONTH}[./-]{_DAY}{_TIME}", r"\1-\2-\3\4"),
    "dmy": (rf"^\s*{_DAY}[./-]{_MONTH}[./-]{_YEAR}{_TIME}", r"\3-\2-\1\4"),
    "mdy": (rf"^\s*{_MONTH}[./-]{_DAY}[./-]{_YEAR}{_TIME}", r"\3-\1-\2\4"),
}
"""How a date is written: its pattern, and what makes 2024-12-31 of its three numbers."""
LIKE_DATE = "[0-9]{1,4}[./-][0-9]{1,2}[./-][0-9]{1,4}"
"""What looks like a date, in whichever order."""
OTHER_DATES = (
    "for files, `dates` declares other orders: ymd 2024/12/31, dmy 31.12.2024, mdy 12/31/2024"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """How the numbers and dates of a text are written.

    >>> import pyarrow as pa
    >>> Spelling(decimal=",", strip="€").respell(pa.array(["1.234,5 €", "a €", None])).to_pylist()
    ['1234.5', 'a €', None]
    >>> Spelling(dates="dmy").respell(pa.array(["31.12.2024", "1/2/2024 08:30", "1.2.24"])).to_pylist()
    ['2024-12-31', '2024-02-01 08:30', '1.2.24']
    >>> Spelling(dates="dmy").respell(pa.array(["12/31/2024"])).to_pylist()  # no 31st month
    ['12/31/2024']
    >>> Spelling(dates="ymd").respell(pa.array(["2024/1/2", "2024.12.31T08:30"])).to_pylist()
    ['2024-01-02', '2024-12-31T08:30']
    >>> Spelling(strip="-")
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: strip='-' must have no digits, signs, parentheses (a sign, too) or decimal mark: they are the number
    """

    decimal: str = "."
    """The decimal mark. With a comma 1.234,5 and 1 234,5 are 1234.5, wherever they stand."""
    strip: str = ""
    """Characters that are left out of numbers, such as $ or the commas of 1,234."""
    dates: str = "iso"
    """How dates are written: iso is 2024-12-31, ymd 2024/12/31, dmy 31.12.2024, and mdy 12/31/2024."""

    def __post_init__(self) -> None:
        if self.decimal not in (".", ","):
            raise ParameterError("decimal", self.decimal, "must be a point or a comma")
        if any(each.isdigit() or each in f"+-(){self.decimal}" for each in self.strip):
            wanted = "must have no digits, signs, parentheses (a sign, too) or decimal mark: they are the number"
            raise ParameterError("strip", self.strip, wanted)
        if self.dates not in ORDERS:
            raise ParameterError("dates", self.dates, f"must be one of {', '.join(ORDERS)}")

    @property
    def plain(self) -> bool:
        """Whether texts mean what they say everywhere."""
        return self == Spelling()

    def respell(self, texts: Any) -> Any:
        """Respell these texts, an Arrow array, with numbers as 1234.5 and dates as 2024-12-31."""
        if self.strip:
            texts = _strip(texts, self.strip)
        if self.decimal == ",":
            texts = _respell_decimals(texts)
        return texts if self.dates == "iso" else _respell_dates(texts, *ORDERS[self.dates])


def _strip(texts: Any, characters: str) -> Any:
    """Strip numbers of these characters; what is no number then stays as it is."""
    import pyarrow.compute as pc

    listed = "".join(rf"\x{{{ord(each):x}}}" for each in characters)
    bare = pc.replace_substring_regex(texts, f"[{listed}]", "")
    return pc.if_else(pc.match_substring_regex(bare, _BARE), bare, texts)


def _respell_decimals(texts: Any) -> Any:
    """Rewrite numbers with a decimal comma, and points or spaces between thousands, as Python writes them.

    >>> import pyarrow as pa
    >>> _respell_decimals(pa.array(["1,5", "-1.234,5", "12 000", "2.5", "a,b", "0,5e3", None])).to_pylist()
    ['1.5', '-1234.5', '12000', '2.5', 'a,b', '0.5e3', None]
    """
    import pyarrow.compute as pc

    grouped = pc.match_substring_regex(texts, _THOUSANDS)
    joined = pc.replace_substring_regex(texts, _BETWEEN, "")
    return pc.replace_substring_regex(
        pc.if_else(grouped, joined, texts), _COMMA, r"\1.\2", max_replacements=1
    )


def _respell_dates(texts: Any, pattern: str, order: str) -> Any:
    import pyarrow.compute as pc

    spelt = pc.replace_substring_regex(texts, pattern, order, max_replacements=1)
    for _ in range(2):  # the month, and the day
        spelt = pc.replace_substring_regex(spelt, _ONE_DIGIT, r"\1-0\2\3", max_replacements=1)
    return pc.if_else(pc.match_substring_regex(texts, pattern), spelt, texts)


def name_marks(text: str) -> str:
    """Return the characters beside a number that `strip` would leave out.

    What may be more than a unit (12:30, 18-24, <5, and a loss of (4.50)) is not left out: the number would be another.

    >>> name_marks("$1,234.50"), name_marks("12 %"), name_marks("1 234"), name_marks("4,78 €")
    ('$,', '%', ' ', '€')
    >>> name_marks("12:30"), name_marks("18-24"), name_marks("(4.50)")
    ('', '', '')
    """
    if not re.fullmatch(r"[^-+0-9]*[-+]?[^-+0-9]*[0-9][^-+]*", text):
        return ""
    own = "".join(dict.fromkeys(re.sub(r"[-+0-9.,\s]", "", text)))
    if not all(
        each.isalpha() or unicodedata.category(each) == "Sc" or each in _UNITS for each in own
    ):
        return ""
    commas = re.search(r"[0-9],[0-9]{3}[.,]", text)
    gap = re.search(r"[0-9] [0-9]", text)
    return own + ("," if commas else "") + (" " if gap else "")
