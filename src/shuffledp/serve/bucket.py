"""How much one address may ask for: in memory only, forgotten at the end."""

from collections import OrderedDict

__all__ = ["Buckets"]

_MOST = 100_000
_OURSELVES = {"127.0.0.1", "::1", None}


class Buckets:
    """A bucket of `size` tokens per address, refilled with `rate` per second. This machine is not limited.

    >>> buckets = Buckets(rate=1.0, size=2.0)
    >>> [buckets.allow("192.0.2.1", now) for now in (0.0, 0.0, 0.0, 1.0)]
    [True, True, False, True]
    """

    __slots__ = ("_levels", "_rate", "_size")

    def __init__(self, rate: float = 20.0, size: float = 100.0) -> None:
        self._rate = rate
        self._size = size
        self._levels: OrderedDict[str | None, tuple[float, float]] = OrderedDict()

    def allow(self, address: str | None, now: float) -> bool:
        """Whether one more request is within the limit."""
        if address in _OURSELVES:
            return True
        level, before = self._levels.pop(address, (self._size, now))
        level = min(self._size, level + (now - before) * self._rate)
        self._levels[address] = (level - 1 if level >= 1 else level, now)
        if len(self._levels) > _MOST:
            self._levels.popitem(last=False)
        return level >= 1
