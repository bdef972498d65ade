"""Whether the clock can be believed. A wrong one would end windows that have just begun, and delete their reports.

The clock is compared with two things that nobody sets: how long the machine has been running, and the last time in the
store. If it differs from them by more than is stated here, nothing is taken, sealed or deleted until it is right
again, or until the operator says that it is.
"""

from dataclasses import dataclass

__all__ = ["ABSENCE", "JUMP", "Watch"]

JUMP = 3600.0
"""Seconds by which the clock may differ from the time that has passed since the start."""
ABSENCE = 86_400.0
"""Seconds after the last time in the store at which a shuffler may start without asking."""
_DRIFT = 1e-3  # of an hour, say, four seconds


@dataclass(slots=True, kw_only=True)
class Watch:
    """A moment that is believed, and when it was, in seconds since the machine was started.

    >>> watch = Watch.start(1000.0, uptime=50.0, last=None)
    >>> watch.judge(1010.0, uptime=60.0)
    >>> watch.judge(9_000_000.0, uptime=61.0)
    'the clock is 104 days ahead of the time that has passed'
    >>> watch.judge(1012.0, uptime=62.0)
    """

    moment: float
    uptime: float
    ahead: float
    """By how much the clock may be ahead; it may be behind by `JUMP`."""

    @classmethod
    def start(cls, now: float, *, uptime: float, last: float | None) -> "Watch":
        """A watch for a shuffler that starts now; `last` is the last time in its store."""
        if last is None:
            return cls(moment=now, uptime=uptime, ahead=JUMP)
        return cls(moment=last, uptime=uptime, ahead=ABSENCE)

    def judge(self, now: float, *, uptime: float) -> str | None:
        """Why the clock cannot be believed; None if it can."""
        passed = uptime - self.uptime
        off, slack = now - self.moment - passed, _DRIFT * passed
        if off > self.ahead + slack:
            since = (
                "the last time in the store"
                if self.ahead == ABSENCE
                else "the time that has passed"
            )
            return f"the clock is {_say_time(off)} ahead of {since}"
        if off < -JUMP - slack:
            return f"the clock is {_say_time(-off)} behind the time that has passed"
        if self.ahead == ABSENCE:
            self.believe(now, uptime=uptime)
        return None

    def believe(self, now: float, *, uptime: float) -> None:
        """The clock is right: the operator says so, or there is no reason to doubt it."""
        self.moment, self.uptime, self.ahead = now, uptime, JUMP


def _say_time(seconds: float) -> str:
    """Hours or days, in words.

    >>> _say_time(7200.0), _say_time(60 * 7 * 86_400.0)
    ('2 hours', '420 days')
    """
    days = seconds / 86_400
    return f"{days:,.0f} days" if days >= 2 else f"{seconds / 3600:,.0f} hours"
