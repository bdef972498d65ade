"""How much work a stranger's document may cause: a promise is recomputed within a limit, or not believed."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from shuffledp.core.errors import WireError
from shuffledp.core.privacy import Guarantee
from shuffledp.live.wire.document import Collection

__all__ = ["MOST_SECONDS", "check_promise", "limit_effort"]

MOST_SECONDS = 1.8
"""CPU time that a device spends on recomputing a promise; together with reading the document it is less than two."""
_OFTEN = 16  # calls between two looks at the time


class _SpentError(BaseException):
    """Nobody who handles errors of a computation handles this one."""


@contextmanager
def limit_effort(seconds: float) -> Iterator[None]:
    """Stop what runs here, in this thread, after so many seconds of CPU time.

    The interpreter tells of every call, so this works in any thread and needs no signal. A single call into compiled
    code is not interrupted; those of the accounting take milliseconds.

    >>> with limit_effort(0.01):
    ...     while True:
    ...         abs(-1)
    Traceback (most recent call last):
    ...
    shuffledp.core.errors.WireError: effort: it takes more than 0.01 seconds of CPU time
    """
    end = time.thread_time() + seconds
    calls = 0

    def look(_: FrameType, __: str, ___: object) -> None:
        nonlocal calls
        calls += 1
        if calls % _OFTEN == 0 and time.thread_time() > end:
            raise _SpentError

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield
    except _SpentError:
        raise WireError("effort", f"it takes more than {seconds:g} seconds of CPU time") from None
    finally:
        sys.setprofile(before)


def check_promise(collection: Collection) -> Guarantee:
    """Recompute what a document promises; `WireError` if it does not hold, or would take too long to find out."""
    try:
        with limit_effort(MOST_SECONDS):
            return collection.verify()
    except WireError as error:
        if error.reason != "effort":
            raise
        raise WireError(
            "promise",
            f"recomputing it takes more than {MOST_SECONDS:g} seconds of CPU time: ask fewer different questions, or "
            "promise each report by itself (composed = false)",
        ) from None
