"""Where the time of a run goes: seconds by stage, if somebody wants to know."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

IMPORTS = "start and imports"
OPENING = "opening files"
GROUPING = "reading and grouping"  # one query does both
CALIBRATION = "calibration"
DEALING = "dealing"
ESTIMATION = "estimation"
DISPLAY = "display"

_watched: ContextVar[dict[str, float] | None] = ContextVar("watched", default=None)


@contextmanager
def watch() -> Iterator[dict[str, float]]:
    """Collect the seconds of all stages that end in this block.

    >>> with watch() as seconds:
    ...     with stage(DEALING):
    ...         pass
    ...     with stage(DEALING):
    ...         pass
    >>> list(seconds), seconds[DEALING] < 1
    (['dealing'], True)
    """
    seconds: dict[str, float] = {}
    token = _watched.set(seconds)
    try:
        yield seconds
    finally:
        _watched.reset(token)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """A stage of a run; it is timed only while somebody watches."""
    seconds = _watched.get()
    if seconds is None:
        yield
        return
    start = time.perf_counter()
    try:
        yield
    finally:
        seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start
