"""What a role did and could not do: a line of JSON for each event, without people in it.

Starts, seals, expiries, failures and their end; refusals as counts, every ten minutes at most, because the moment of a
single one may be the moment at which somebody took part.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

__all__ = ["Health", "Journal", "measure_uptime"]

_OFTEN = 600.0  # seconds between two lines about refusals
_HELD = 10.0  # seconds for which a failure is told, at least


def measure_uptime() -> float:
    """Seconds since the machine was started, sleep included where the system counts it."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


def _write_line(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


class Journal:
    """The log of a role.

    >>> lines = []
    >>> Journal("shuffler", write=lines.append, clock=lambda: 0.0).note("seal", window=3, reports=1200)
    >>> lines
    ['{"time": "1970-01-01T00:00:00Z", "role": "shuffler", "event": "seal", "window": 3, "reports": 1200}']
    """

    def __init__(
        self,
        role: str,
        *,
        write: Callable[[str], object] = _write_line,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._role = role
        self._write = write
        self._clock = clock
        self._refused: Counter[str] = Counter()
        self._told = -_OFTEN

    def note(self, event: str, **facts: object) -> None:
        """Write a line. A log that cannot be written is no reason to stop."""
        moment = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="seconds")
        line = {"time": moment.replace("+00:00", "Z"), "role": self._role, "event": event, **facts}
        try:
            self._write(json.dumps(line))
        except OSError:
            return

    def note_refusals(self, refused: Mapping[str, int], uptime: float) -> None:
        """Write how many more there are by reason than in the last such line, if it is time for one."""
        more = {reason: n - self._refused[reason] for reason, n in sorted(refused.items())}
        more = {reason: n for reason, n in more.items() if n}
        if more and uptime - self._told >= _OFTEN:
            self._refused, self._told = Counter(refused), uptime
            self.note("refused", reasons=more)


class Health:
    """What is wrong now, by kind: clock, damage, store, seal.

    >>> health = Health(Journal("shuffler", write=lambda line: None))
    >>> health.fail("store", "the disk is full", uptime=0.0)
    >>> health.sentence
    'the disk is full'
    >>> health.mend("store", uptime=1.0)       # held for a while: uploads may fail though a small write did not
    >>> health.mend("store", uptime=60.0)
    >>> health.sentence is None
    True
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._wrong: dict[str, tuple[str, float]] = {}
        self.failures: Counter[str] = Counter()
        """How often something failed, by kind, since the start."""

    def fail(self, kind: str, sentence: str, *, uptime: float) -> None:
        """Something is wrong; the log is told once."""
        self.failures[kind] += 1
        if kind not in self._wrong:
            self._journal.note("failing", kind=kind, reason=sentence)
        self._wrong[kind] = (sentence, uptime)

    def mend(self, kind: str, *, uptime: float) -> None:
        """It works again."""
        if kind in self._wrong and (kind != "store" or uptime - self._wrong[kind][1] >= _HELD):
            del self._wrong[kind]
            self._journal.note("mended", kind=kind)

    @property
    def kinds(self) -> tuple[str, ...]:
        """What is wrong, in a word each."""
        return tuple(sorted(self._wrong))

    @property
    def sentence(self) -> str | None:
        """What is wrong, for the operator; None if nothing is."""
        said = [self._wrong[kind][0] for kind in self.kinds]
        return "; ".join(said) or None
