"""What counting and histograms with correlated noise share: calibration, guarantee, small laws."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Protocol, TypeVar

from shuffledp.accounting.correlated import (
    CorrelatedNoise,
    NegativeBinomialFlood,
    ThinnedNoise,
    add_shares,
    flood_level,
    published_flood,
)
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.privacy import Profile
from shuffledp.core.protocol import Calibration, Crowd, NoisyDevice, Promise
from shuffledp.core.randomizer import Law
from shuffledp.numerics.rounding import exp_lower, shorten
from shuffledp.numerics.tabulated import NOTHING, VectorLaw, add_laws

__all__ = [
    "GAP",
    "PROOF",
    "CorrelatedDevice",
    "bound_delta",
    "calibrate",
    "message_law",
    "open_curve",
]

GAP = 0.1
"""The part of epsilon that is spent on the flood, unless stated otherwise."""

PROOF = (
    "the exact divergence of the sampled noise, Ghazi, Kumar, Manurangsi, Pagh 2020 "
    "(correlated noise; accounting/correlated)"
)
_SMALL_TAPE = 20
_MOST_SUMS = 3_000_000
_LEAST_STAR = 5e-5  # e^-star to the millionth, the longest table, is then not yet 2^-72
_LEAST_DELTA = 1e-60


class CorrelatedDevice(NoisyDevice, Protocol):
    """The noise of one user."""

    @property
    def star(self) -> float:
        """The rate of the noise that stays in the answer."""

    @property
    def p_flood(self) -> float:
        """The p of the flood."""

    @property
    def noise_share(self) -> Fraction:
        """One user's r of each of the two noises of a bin: their sum is Geom(e^-star) at r = 1."""

    @property
    def flood_share(self) -> Fraction:
        """One user's r of the flood of a bin."""

    @property
    def neighbours(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What one user adds to the message counts with one value and with another."""

    def distance(self, users: int) -> float:
        """At least the distance between the sampled and the ideal noise of the bins concerned."""

    def noise_law(self) -> VectorLaw:
        """The exact law of one user's noise."""


def bound_delta(
    device: CorrelatedDevice,
    honest: int,
    epsilon: float,
    curve: Callable[[CorrelatedNoise | ThinnedNoise], Profile],
) -> float:
    """At least the delta at epsilon of what the honest users send.

    `curve` is that of the bins which one person's change concerns, for ideal noise. The distance between the
    ideal and the sampled noise is added, (1 + e^epsilon) times. For a tape of a few bits the divergence is
    computed from the sampled law itself.
    """
    noise = _find_noise(device, honest, _below(honest * device.flood_share))
    try:
        bound = min(1.0, curve(noise).delta(epsilon) + _overhead(device, honest, epsilon))
    except UnsupportedError:  # too little noise for an exact sum in reasonable time
        bound = 1.0
    return min(bound, _enumerate(device, honest, epsilon)) if _is_small(device) else bound


def open_curve(
    device: CorrelatedDevice,
    honest: int,
    curve: Callable[[CorrelatedNoise | ThinnedNoise], Profile],
) -> tuple[Profile, float] | None:
    """The curve for ideal noise, and the distance to the sampled noise; None for a tape of a few bits.

    Less flood is less privacy, so a shorter number serves for it, and other bins have the same curve.
    """
    if _is_small(device):
        return None
    r = shorten(_below(honest * device.flood_share))
    return curve(_find_noise(device, honest, r)), device.distance(honest) * (1 + 1e-12)


def _find_noise(
    device: CorrelatedDevice, honest: int, r_flood: float
) -> CorrelatedNoise | ThinnedNoise:
    share = honest * device.noise_share
    return add_shares(
        epsilon_star=device.star,
        share=1.0 if share >= 1 else _below(share),
        flood=NegativeBinomialFlood(r=r_flood, p=device.p_flood),
    )


def _below(x: Fraction) -> float:
    return math.nextafter(float(x), 0.0)


def _overhead(device: CorrelatedDevice, honest: int, epsilon: float) -> float:
    """What the distance between the ideal and the sampled noise adds to delta."""
    apart = device.distance(honest) * (1 + 1e-12)
    return (1 + math.exp(min(epsilon, 700.0))) * apart


def _is_small(device: CorrelatedDevice) -> bool:
    """Whether the tape is so short that the sampled law is computed itself."""
    return device.word_bits * device.words_per_input <= _SMALL_TAPE


def _enumerate(device: CorrelatedDevice, honest: int, epsilon: float) -> float:
    law = device.noise_law()
    if len(law) ** honest > _MOST_SUMS:
        return 1.0
    total = law
    for _ in range(honest - 1):
        total = add_laws(total, law)
    one, other = (_shift(total, unit) for unit in device.neighbours)
    ratio = exp_lower(epsilon)
    return float(max(_divergence(one, other, ratio), _divergence(other, one, ratio)))


_Device = TypeVar("_Device", bound=CorrelatedDevice)


def calibrate(
    build: Callable[[NegativeBinomialFlood], _Device],
    crowd: Crowd,
    promise: Promise,
    *,
    star: float,
    losing: float,
    calibration: Calibration,
) -> _Device:
    """The device with (nearly) the smallest flood that is certified, or the published one.

    The noise uses `star` of epsilon, the bin that loses a person `losing`.
    """
    if calibration is Calibration.PAPER:
        return build(_publish(promise, star, losing))
    epsilon, delta, target = promise.epsilon, promise.delta, shorten(promise.delta)
    if star < _LEAST_STAR:
        raise UnsupportedError(
            f"epsilon={epsilon!r} is too small: the noise is too long for a table"
        )
    if delta < _LEAST_DELTA:
        raise UnsupportedError(f"delta={delta!r} is out of reach of tables of 64-bit words")
    # The tables are a little off and the search is for the ideal noise: aim lower until it fits.
    for _ in range(20):
        device = build(flood_level(epsilon=losing, epsilon_star=star, delta=target))
        certified = device.delta(crowd.trusted, epsilon)
        if certified <= delta:
            return device
        target *= (1 - 1e-9) * (delta / certified) ** 3
        hopeless = _overhead(device, crowd.trusted, epsilon) >= delta and not _is_small(device)
        if hopeless or target < 1e-9 * delta:
            break
    raise UnsupportedError(f"delta={delta!r} is out of reach with words of {device.word_bits} bits")


def _publish(promise: Promise, star: float, losing: float) -> NegativeBinomialFlood:
    # The gap as a fraction of the epsilon of the bin that loses, which is what the theorem is about.
    gap = 1 - star / losing
    if losing > 1 or promise.delta >= 0.5 or gap > 0.5:
        raise UnsupportedError(
            f"epsilon={promise.epsilon!r}, delta={promise.delta!r}: the published constants are for "
            "one bin with epsilon <= 1, delta < 1/2, gap <= 1/2; use calibration='exact'"
        )
    return published_flood(epsilon=losing, gap=gap, delta=promise.delta)


def message_law(noise: VectorLaw, unit: tuple[int, ...]) -> Law:
    """The law of the messages of a user who adds `unit` to the counts of the noise.

    >>> message_law({(0, 2): Fraction(1)}, (1, 0))
    {(0, 1, 1): Fraction(1, 1)}
    """
    law: Law = {}
    for counts, mass in _shift(noise, unit).items():
        sent = tuple(message for message, count in enumerate(counts) for _ in range(count))
        law[sent] = mass
    return law


def _shift(law: VectorLaw, unit: tuple[int, ...]) -> VectorLaw:
    return {tuple(map(int.__add__, counts, unit)): mass for counts, mass in law.items()}


def _divergence(a: VectorLaw, b: VectorLaw, ratio: Fraction) -> Fraction:
    return sum(
        (max(NOTHING, mass - ratio * b.get(counts, NOTHING)) for counts, mass in a.items()), NOTHING
    )
