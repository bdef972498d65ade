"""Generated data, to try things on: nobody's secrets, and the same for everybody.

The people are drawn from a stated distribution with a fixed seed, so that every reader of the
tutorial sees the same truth. (The *noise* of a demo is a different matter: it is secure.)
"""

import csv
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np

from shuffledp.core.arrays import Bools, Codes, Counts
from shuffledp.core.domain import Categories, Integers
from shuffledp.core.validate import whole
from shuffledp.numerics.entropy import SeededWords
from shuffledp.numerics.tape import table

__all__ = ["Sample", "SurveySample", "TripSample", "commuters", "survey", "trips"]

_SEED = 1965  # the year of Warner's randomized response
_WORD_BITS = 64

_COMMUTES: tuple[tuple[str, Fraction], ...] = (
    ("car", Fraction(380, 1000)),
    ("bicycle", Fraction(170, 1000)),
    ("bus", Fraction(132, 1000)),
    ("train", Fraction(98, 1000)),
    ("on foot", Fraction(84, 1000)),
    ("tram", Fraction(61, 1000)),
    ("at home", Fraction(42, 1000)),
    ("motorcycle", Fraction(21, 1000)),
    ("scooter", Fraction(9, 1000)),
    ("ferry", Fraction(3, 1000)),
)

_LONGEST = 120
_MINUTES = {  # the shortest way, and the longest
    "car": (5, 75),
    "bicycle": (3, 45),
    "bus": (10, 80),
    "train": (20, 120),
    "on foot": (1, 35),
    "tram": (8, 55),
    "at home": (0, 0),
    "motorcycle": (5, 60),
    "scooter": (5, 40),
    "ferry": (25, 95),
}
_MOST_TRIPS, _DAYS, _FARTHEST = 150, 90, 40
_HOME_FEW, _HOME_MORE = 10, 45  # percent with no way at all, and what a way of two hours adds


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """A column of categories: one code per person."""

    title: str
    domain: Categories
    codes: Codes

    @property
    def counts(self) -> Counts:
        """The true histogram.

        >>> commuters(1000).counts.sum()
        np.int64(1000)
        """
        return np.bincount(self.codes, minlength=self.domain.k)


def commuters(n: int = 100_000) -> Sample:
    """Return how n people get to work: ten ways, from the car (38 percent) to the ferry (0.3 percent).

    The first people of a larger sample are the people of a smaller one.

    >>> people = commuters(5)
    >>> people.title
    'How 5 people get to work'
    >>> [people.domain.labels[code] for code in people.codes]
    ['car', 'train', 'bicycle', 'tram', 'bicycle']
    """
    whole("n", n, at_least=1)
    names = tuple(name for name, _ in _COMMUTES)
    words = SeededWords(_SEED).words(n, _WORD_BITS)
    return Sample(
        title=f"How {n:,} people get to work",
        domain=Categories(k=len(names), names=names),
        codes=table(words, _shares(), _WORD_BITS),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SurveySample:
    """Three answers of each person: a category, a number, a yes or no."""

    way: Sample
    """How they get to work."""
    minutes: Counts
    """How long that takes, 0 .. 120."""
    home: Bools
    """Whether they would work at home more often."""

    @property
    def minutes_domain(self) -> Integers:
        """The public range of `minutes`."""
        return Integers(lower=0, upper=_LONGEST)

    def write_csv(self, path: str | Path) -> Path:
        """Write one row per person, with the columns way, minutes and home (1 for yes).

        >>> path = survey(2).write_csv(Path(getfixture("tmp_path")) / "people.csv")
        >>> print(path.read_text(), end="")
        way,minutes,home
        car,36,0
        train,32,0
        """
        ways = [self.way.domain.labels[code] for code in self.way.codes]
        people = zip(ways, self.minutes.tolist(), self.home.astype(int).tolist(), strict=True)
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("way", "minutes", "home"))
            writer.writerows(people)
        return Path(path)


def survey(n: int = 1_000_000) -> SurveySample:
    """Return what n people say about their way to work: `commuters`, how long it takes, and a wish.

    The minutes depend on the way (trains take longest), and the wish to work at home on the minutes:
    10 percent of those with no way, 55 percent of those with two hours. The first people of a larger
    survey are the people of a smaller one.

    >>> people = survey(5)
    >>> people.minutes, people.home
    (array([36, 32, 18, 22, 28]), array([False, False, False, False, False]))
    """
    way = commuters(n)
    first = np.array([_MINUTES[name][0] for name in way.domain.labels])
    last = np.array([_MINUTES[name][1] for name in way.domain.labels])
    dice = SeededWords(_SEED + 1).words(2 * n, 32).reshape(n, 2).astype(np.int64)
    # Two dice: the middle is likelier than the ends.
    minutes = first[way.codes] + (dice.sum(axis=1) * (last - first + 1)[way.codes] >> 33)
    percent = _HOME_FEW + _HOME_MORE * minutes / _LONGEST
    home = SeededWords(_SEED + 2).words(n, 32) < percent / 100 * 2**32
    return SurveySample(way=way, minutes=minutes, home=home)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TripSample:
    """Trips of riders, a row each: some have one, a few have more than a hundred."""

    rider: Counts
    """Who it was, from 1 on."""
    day: Counts
    """On which day, 1 .. 90."""
    way: Sample
    km: Counts
    """How far, 1 .. 40."""
    late: Bools

    def write_csv(self, path: str | Path) -> Path:
        """Write one row per trip, in the order of the days.

        >>> path = trips(3).write_csv(Path(getfixture("tmp_path")) / "trips.csv")
        >>> print(path.read_text().splitlines()[0])
        rider,day,way,km,late
        """
        ways = np.array(self.way.domain.labels)[self.way.codes]
        columns = (self.rider, self.day, ways, self.km, self.late.astype(int))
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("rider", "day", "way", "km", "late"))
            writer.writerows(zip(*(column.tolist() for column in columns), strict=True))
        return Path(path)


def trips(riders: int = 1000) -> TripSample:
    """Make up trips of some riders in ninety days; how many they make is uneven: 1 divided by a uniform number, up to
    150.

    >>> found = trips(1000)
    >>> len(found.rider), len(np.unique(found.rider)), int(np.bincount(found.rider).max())
    (5662, 1000, 150)
    """
    whole("riders", riders, at_least=1)
    uniform = (SeededWords(_SEED + 3).words(riders, 32).astype(np.float64) + 1) / 2**32
    rows = np.minimum(np.floor(1 / uniform), _MOST_TRIPS).astype(np.int64)
    rider = np.repeat(np.arange(1, riders + 1), rows)
    dice = SeededWords(_SEED + 4).words(3 * len(rider), 32).reshape(len(rider), 3).astype(np.int64)
    day = 1 + (dice[:, 0] * _DAYS >> 32)
    order = np.argsort(day, kind="stable")
    way = commuters(len(rider))
    km = 1 + ((dice[:, 1] >> 16) * (dice[:, 2] >> 16) * _FARTHEST >> 32)
    late = SeededWords(_SEED + 5).words(len(rider), 32) < (0.05 + km / 200) * 2**32
    return TripSample(rider=rider[order], day=day[order], way=way, km=km[order], late=late[order])


def _shares() -> tuple[int, ...]:
    ends = [0]
    upto = Fraction(0)
    for _, probability in _COMMUTES:
        upto += probability
        ends.append(int(upto * 2**_WORD_BITS))
    return tuple(high - low for low, high in pairwise(ends))
