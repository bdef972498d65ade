"""What can go wrong, as one tree.

```
ShuffledpError
├── ParameterError    a parameter that no theorem covers: name, value, requirement   (also a ValueError)
├── DataError         values that are not in the declared domain                     (also a ValueError)
│   └── PositionError one of them, and its position
├── UnsupportedError  a fair question that this object, or its theorem, does not answer
├── MismatchError     things that do not belong together, e.g. tallies of two protocols
├── PluginError       an installed package whose protocol cannot be used
├── WireError         bytes of a live collection that are not what they should be: a reason, and a sentence
└── LedgerError       a budget ledger that cannot be read, or does not fit what is asked
    └── BudgetError   a release that would exceed the budget
```

Catch `ShuffledpError` to catch them all. Nothing is clipped, dropped or replaced on the way to an
error: the caller's data and the word source are as they were.
"""

_LONGEST = 200


def show_value(value: object) -> str:
    """Return a value as an error message shows it: not all of it if it is long.

    >>> len(show_value("x" * 10_000_000))
    199
    """
    whole = repr(value)
    if len(whole) <= _LONGEST:
        return whole
    half = (_LONGEST - 5) // 2
    return f"{whole[:half]} ... {whole[-half:]}"[:_LONGEST]


def tell_value(value: object, place: str = "") -> str:
    """Say which value an error is about, and where it stands.

    >>> tell_value(7, "in row 3"), tell_value(None, "in row 3"), tell_value(None)
    ('value 7 in row 3', 'the value in row 3', 'a value')
    """
    if value is None:
        return f"the value {place}" if place else "a value"
    return f"value {show_value(value)} {place}".rstrip()


class ShuffledpError(Exception):
    """The root of every error that shuffledp raises on purpose."""


class ParameterError(ShuffledpError, ValueError):
    """A parameter outside its range.

    >>> raise ParameterError("epsilon0", -1.0, "must be > 0")
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: epsilon0=-1.0 must be > 0
    """

    def __init__(self, name: str, value: object, requirement: str) -> None:
        missing = value is None and requirement.startswith("must be given")
        super().__init__(
            f"{name} {requirement}" if missing else f"{name}={show_value(value)} {requirement}"
        )
        self.name = name
        self.value = value
        self.requirement = requirement

    def __reduce__(self) -> tuple[type["ParameterError"], tuple[str, object, str]]:
        return type(self), (self.name, self.value, self.requirement)


class DataError(ShuffledpError, ValueError):
    """Values that are not in the declared public domain."""


class PositionError(DataError):
    """One value that is not in the domain, and where it stands.

    >>> raise PositionError("blue", 4, "is none of the categories").move(100)
    Traceback (most recent call last):
    shuffledp.core.errors.PositionError: value 'blue' at position 104 is none of the categories
    """

    def __init__(self, value: object, position: int, complaint: str) -> None:
        super().__init__(f"{tell_value(value, f'at position {position}')} {complaint}")
        self.value = value
        self.position = position
        self.complaint = complaint

    def __reduce__(self) -> tuple[type["PositionError"], tuple[object, int, str]]:
        return type(self), (self.value, self.position, self.complaint)

    def move(self, by: int) -> "PositionError":
        """Return the same error seen from a column in which this one's part starts at `by`."""
        return PositionError(self.value, self.position + by, self.complaint)


class UnsupportedError(ShuffledpError):
    """Outside the regime of the theorem, or not offered by this object. Never a silent fallback."""


class MismatchError(ShuffledpError):
    """Two things that do not belong together."""


class PluginError(ShuffledpError):
    """An installed package offers a protocol that cannot be loaded, or has the name of another."""


class WireError(ShuffledpError):
    """Bytes from elsewhere that break the rules of a live collection.

    `reason` is one of the short words that replies and metrics use.

    >>> raise WireError("malformed", "the upload has 7 bytes, not 32 and whole reports")
    Traceback (most recent call last):
    shuffledp.core.errors.WireError: malformed: the upload has 7 bytes, not 32 and whole reports
    """

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(f"{reason}: {sentence}")
        self.reason = reason
        self.sentence = sentence

    def __reduce__(self) -> tuple[type["WireError"], tuple[str, str]]:
        return type(self), (self.reason, self.sentence)


class LedgerError(ShuffledpError):
    """A budget ledger that cannot be read, or does not fit what is asked."""


class BudgetError(LedgerError):
    """A release that would exceed the budget: it was neither charged nor made."""
