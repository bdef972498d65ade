"""What an erratum is: a number, what the note says, what is right, and a check that tells them apart."""

from collections.abc import Callable
from dataclasses import dataclass

ERRATA: dict[int, "Erratum"] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Both statements evaluated by the same computation."""

    right: bool
    """Does the corrected statement hold?"""
    wrong: bool
    """Does the statement of the note hold?"""
    measured: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Erratum:
    number: int
    notes: str
    says: str
    truth: str
    check: Callable[[], Finding]

    @property
    def title(self) -> str:
        return self.check.__name__.replace("_", " ").capitalize()

    @property
    def how(self) -> str:
        """The check in one line."""
        return (self.check.__doc__ or "").strip()


def erratum(number: int, notes: str, *, says: str, truth: str):
    """Register a check. Its docstring says what it computes."""

    def register(check: Callable[[], Finding]) -> Callable[[], Finding]:
        assert number not in ERRATA, number
        ERRATA[number] = Erratum(number=number, notes=notes, says=says, truth=truth, check=check)
        return check

    return register
