"""The binomial mechanism: a count plus n coins.

The release is count + Bin(n, gamma) - n gamma. This is the noise that n users can make together, each
with one coin, so it is the central twin of the shuffle model's counting protocols. gamma is a
multiple of 2^-word_bits, rounded up (more noise), and the guarantee is certified for that gamma.

Two calibrations:

- `exact`: the smallest gamma whose delta, computed from both tails of the law (accounting/noisy_count),
  is at most delta. Between the gammas where a threshold jumps delta is only nearly monotone (ripples
  of a few percent), so "smallest" is to within those; the gamma that is used is certified itself.
- `paper`: the published smoothness lemma. With alpha = tanh(epsilon / 2), Bin(n, gamma) is good for
  epsilon and delta >= exp(-alpha^2 gamma n / 8) + exp(-alpha^2 gamma n / (8 + 2 alpha)), provided that
  gamma <= 1/2 and 1 <= n alpha gamma / 2. True, and many times more noise than needed.

Reference: Ghazi, Golowich, Kumar, Pagh, Velingker 2021, "On the power of multiple anonymous messages".
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from numpy.typing import ArrayLike

from shuffledp.core.analyzer import Estimate
from shuffledp.core.capabilities import CentralCapabilities
from shuffledp.core.errors import DataError, UnsupportedError
from shuffledp.core.privacy import Guarantee, Model
from shuffledp.core.protocol import Calibration, MechanismSpec, Parameters
from shuffledp.core.randomizer import WordSource
from shuffledp.core.validate import fraction_of_one, positive, whole
from shuffledp.mechanisms import read_integers
from shuffledp.numerics import intervals, tape
from shuffledp.numerics.rounding import exp_lower, find_first, float_above

_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Binomial:
    """One count among n people, released with the noise of n coins.

    >>> from shuffledp import SeededWords
    >>> mechanism = Binomial(n=1000, epsilon=1.0, delta=1e-6)
    >>> f"{float(mechanism.gamma):.5f}", f"{mechanism.guarantee.delta:.4g}"
    ('0.03400', '1e-06')
    >>> answer = mechanism.release(300, SeededWords(1))
    >>> round(answer.value, 2), answer.interval(0.95)
    (298.0, Interval(low=286.0, high=309.0))
    """

    n: int
    epsilon: float
    delta: float
    calibration: Calibration = Calibration.EXACT
    word_bits: int = 64
    threshold: int = field(init=False)
    certified: float = field(init=False)
    """The delta of the noise that is sampled."""
    name: ClassVar[str] = "binomial"
    unit: ClassVar[float] = 1.0
    reach: ClassVar[int] = 1

    def __post_init__(self) -> None:
        whole("n", self.n, at_least=1, at_most=2**52)
        positive("epsilon", self.epsilon)
        fraction_of_one("delta", self.delta)
        whole("word_bits", self.word_bits, at_least=1, at_most=64)
        rule = _delta_exact if self.calibration is Calibration.EXACT else _delta_paper

        def delta_of(threshold: int) -> float:
            return rule(self.n, Fraction(threshold, 1 << self.word_bits), self.epsilon)

        # Up to gamma = 1/2: beyond, coins are less noisy again.
        threshold = _find_smallest(delta_of, self.delta, 1 << (self.word_bits - 1))
        if threshold is None:
            raise UnsupportedError(
                f"n={self.n} coins with gamma <= 1/2 do not reach epsilon={self.epsilon!r}, "
                f"delta={self.delta!r} ({self.calibration.value} calibration)"
            )
        object.__setattr__(self, "threshold", threshold)
        object.__setattr__(self, "certified", delta_of(threshold))

    @property
    def gamma(self) -> Fraction:
        """The exact probability of each coin."""
        return Fraction(self.threshold, 1 << self.word_bits)

    @property
    def noise(self) -> "intervals.BinomialLaw":
        return intervals.BinomialLaw(n=self.n, gamma=self.gamma)

    @property
    def parameters(self) -> Parameters:
        return {
            "n": self.n,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "calibration": self.calibration.value,
            "word_bits": self.word_bits,
        }

    @property
    def guarantee(self) -> Guarantee:
        exact = self.calibration is Calibration.EXACT
        return Guarantee(
            epsilon=self.epsilon,
            delta=self.certified,
            model=Model.CENTRAL,
            proof="both tails of the binomial law" if exact else "the binomial smoothness lemma",
        )

    def release(self, exact_answer: ArrayLike, rng: WordSource) -> Estimate:
        """Return the count, an integer between 0 and n, with noise."""
        count = int(read_integers(exact_answer, 1)[0])
        if not 0 <= count <= self.n:
            raise DataError(f"the count {count} must be within 0 .. n={self.n}")
        observed = count + self._heads(rng)
        return Estimate(
            value=float(observed - self.noise.centre),
            error=intervals.BinomialError(noise=self.noise, observed=observed),
            limits=(0.0, float(self.n)),
        )

    def _heads(self, rng: WordSource) -> int:
        heads = 0
        for start in range(0, self.n, _CHUNK):
            words = rng.words(min(_CHUNK, self.n - start), self.word_bits)
            heads += int(tape.bernoulli(words, self.threshold, self.word_bits).sum())
        return heads

    @property
    def offers(self) -> CentralCapabilities:
        return CentralCapabilities(unit=self.unit)

    def variance(self) -> float:
        """Return n gamma (1 - gamma), for the gamma that is sampled.

        >>> round(Binomial(n=1000, epsilon=1.0, delta=1e-6).variance(), 3)
        32.845
        """
        return self.noise.variance

    def accuracy(self, beta: float) -> float:
        """Return alpha: the answer is within alpha except with probability beta: beta / 2 for each side, by the exact
        law.

        >>> round(Binomial(n=1000, epsilon=1.0, delta=1e-6).accuracy(0.05), 2)
        12.0
        """
        low, high = self.noise.range(Fraction(fraction_of_one("beta", beta)))
        return float_above(max(high - self.noise.centre, self.noise.centre - low))


def _delta_exact(n: int, gamma: Fraction, epsilon: float) -> float:
    from shuffledp.accounting.noisy_count import BinomialCount

    return BinomialCount(n=n, gamma=gamma).delta(epsilon)


def _delta_paper(n: int, gamma: Fraction, epsilon: float) -> float:
    """Return the lemma's delta, or 1 where its condition on n alpha gamma does not hold."""
    E = exp_lower(min(epsilon, 700.0))
    alpha = (E - 1) / (E + 1)
    if n * alpha * gamma < 2:
        return 1.0
    x, a = float(alpha**2 * gamma * n), float(alpha)
    # The last factor is more than the rounding of both exponentials.
    return min(1.0, (math.exp(-x / 8) + math.exp(-x / (8 + 2 * a))) * (1 + 1e-10))


def _find_smallest(delta_of: Callable[[int], float], delta: float, largest: int) -> int | None:
    """Return the threshold where bisection ends: it passes, and one less does not."""
    if delta_of(largest) > delta:
        return None
    # What was tried and passed is safe even where delta is not monotone.
    return find_first(lambda threshold: delta_of(threshold) <= delta, 0, largest)


def make(
    *,
    n: int,
    epsilon: float,
    delta: float,
    calibration: Calibration | str = Calibration.EXACT,
    word_bits: int = 64,
) -> Binomial:
    """Return the mechanism for one count among n people.

    >>> round(make(n=10_000, epsilon=1.0, delta=1e-6).variance())
    34
    >>> round(make(n=10_000, epsilon=1.0, delta=1e-6, calibration="paper").variance())
    551
    """
    return Binomial(
        n=n,
        epsilon=epsilon,
        delta=delta,
        calibration=Calibration.read(calibration),
        word_bits=word_bits,
    )


SPEC = MechanismSpec(
    name="binomial",
    title="Binomial mechanism",
    tasks=("count",),
    reference="Ghazi, Golowich, Kumar, Pagh, Velingker 2021",
    make=make,
    options={"n": True, "delta": True},
)
