r"""Counting with pure privacy, delta = 0: a bit hidden in d one-bit messages.

Almost everybody sends (d - 1) / 2 + x ones among d bits; a few send a number of ones drawn from a
truncated discrete Laplace law around d / 2, whatever x is. The sum of these few is the noise. All totals
must be nearly as likely with and without the protected user's bit, even the most unlikely ones: that
takes d of order log(n) / epsilon.
Reference: Ghazi, Golowich, Kumar, Manurangsi, Pagh, Velingker 2020, "Pure differentially private
summation from anonymous messages".

Deviations. The parameters are searched, where the paper has asymptotic ones, and the guarantee is
computed for the exact law of the sampler: see accounting/pure_total. The computation looks at every
total, so it is for some thousand users, not for millions.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shuffledp.accounting.pure_total import MirroredTotal
from shuffledp.core.analyzer import Estimate, Interval, Tally, Value, message_tally
from shuffledp.core.arrays import Codes, Counts, Floats, Words
from shuffledp.core.domain import Bits
from shuffledp.core.errors import MismatchError, ParameterError, UnsupportedError
from shuffledp.core.privacy import Guarantee, Model
from shuffledp.core.protocol import LATE, Cost, Crowd, Parts, Promise, pure_delta
from shuffledp.core.randomizer import Law, Message, Messages, Shuffled, WordSource
from shuffledp.core.validate import level as valid_level
from shuffledp.core.validate import whole
from shuffledp.numerics.dealing import deal
from shuffledp.numerics.intervals import BoundedError
from shuffledp.numerics.tape import table
from shuffledp.protocols.shared.assembly import register, shuffle

_Waves: TypeAlias = NDArray[np.complex128]

_PROOF = (
    "the largest loss over all totals and all data sets, evaluated numerically, of the protocol of "
    "Ghazi, Golowich, Kumar, Manurangsi, Pagh, Velingker 2020"
)
_LARGEST = 100_000  # users times messages: totals to be looked at, a second or so for each data set
_MOST = 151  # messages
_MOST_NOISE = 0.9
_AIM = 0.995  # the search is a little stricter than the proof that follows it
_TRIES = 20
_DECAYS = (0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0)  # of the noise, as parts of epsilon


@dataclass(frozen=True, slots=True, kw_only=True)
class PureCount:
    r"""z ones among d bits.

    Of the 2^word_bits words, noise[z] = noise[d - z] >= 1 send z ones whatever the bit x is, and all the
    others (d - 1) / 2 + x.

    >>> hidden = PureCount(noise=(1, 2, 2, 1), word_bits=4)
    >>> [str(mass) for mass in hidden.pmf(0).values()]
    ['1/16', '3/4', '1/8', '1/16']
    >>> hidden.pmf(1)[(1, 1, 0)]
    Fraction(3, 4)
    """

    noise: tuple[int, ...]
    word_bits: int = 64
    domain: ClassVar[Bits] = Bits()
    words_per_input: ClassVar[int] = 1

    def __post_init__(self) -> None:
        whole("word_bits", self.word_bits, at_least=1, at_most=64)
        if len(self.noise) % 2 or self.noise != self.noise[::-1] or min(self.noise) < 1:
            raise ParameterError(
                "noise", self.noise, "must be an even number of integers >= 1, the same backwards"
            )
        if sum(self.noise) >= 1 << self.word_bits:
            raise ParameterError("noise", self.noise, f"must sum to less than 2^{self.word_bits}")

    @property
    def d(self) -> int:
        """Messages of each user; an odd number."""
        return len(self.noise) - 1

    @property
    def rate(self) -> Fraction:
        """Exact probability of the noise."""
        return Fraction(sum(self.noise), 1 << self.word_bits)

    def variance(self, n: int) -> float:
        """Return n (p V + p (1 - p) / 4) / (1 - p)^2, exactly: p is the probability of noise and V its variance."""
        p = self.rate
        squares = sum(share * (2 * z - self.d) ** 2 for z, share in enumerate(self.noise))
        spread = Fraction(squares, 4 * sum(self.noise))
        return float(n * (p * spread + p * (1 - p) / 4) / (1 - p) ** 2)

    @property
    def total(self) -> MirroredTotal:
        """The law of the number of ones, for the accountant."""
        return MirroredTotal(shares=self._shares(0))

    @property
    def cost(self) -> Cost:
        return Cost.fixed(1, messages=self.d)

    @property
    def epsilon0(self) -> float:
        """ln of the ratio of the two likelihoods of (d - 1) / 2 ones, rounded up."""
        shares = self._shares(0)
        return math.log(Fraction(shares[self.d // 2], shares[self.d // 2 + 1])) * (1 + 2**-48)

    def _shares(self, x: int) -> tuple[int, ...]:
        """Return how many words send z ones."""
        shares = list(self.noise)
        shares[self.d // 2 + x] += (1 << self.word_bits) - sum(self.noise)
        return tuple(shares)

    def encode(self, inputs: Codes, words: Words) -> Messages:
        # Numbers 0 .. d of ones, then d + 1: no noise.
        left = (1 << self.word_bits) - sum(self.noise)
        drawn = table(words[:, 0], (*self.noise, left), self.word_bits)
        ones = np.where(drawn > self.d, self.d // 2 + inputs, drawn)
        sent = (np.arange(self.d) < ones[:, None]).view(np.uint8)  # [n, d]
        owner = np.repeat(np.arange(len(inputs)), self.d)
        return Messages(payload=sent.reshape(-1), owner=owner, users=len(inputs))

    def pmf(self, x: int) -> Law:
        words = 1 << self.word_bits
        return {
            (1,) * z + (0,) * (self.d - z): Fraction(share, words)
            for z, share in enumerate(self._shares(x))
        }

    def deal(self, inputs: Counts, source: WordSource) -> Tally:
        """Deal the words of all users: those that mean noise are the same for both bits, all others tell the truth."""
        users, left = int(inputs.sum()), (1 << self.word_bits) - sum(self.noise)
        truthful, fallen = deal(inputs, [[left]], self.word_bits, source, common=self.noise)
        ones = int(truthful.sum()) * (self.d // 2) + int(truthful[1, 0])
        ones += int(fallen @ np.arange(self.d + 1))
        return Tally(counts=np.array([users * self.d - ones, ones], dtype=np.int64), users=users)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PureCountError:
    """The law of the noise, for every number of holders, by a Fourier transform.

    Somebody who does not hold the bit turns a frequency by z, |z| <= 1, anybody else by its conjugate: their noise is
    the mirror image. It is the transform of a law, off by 8 log2(size) units of 2^-53 (see accounting/pure_total). A
    product of `users` of them is a power of the modulus and a multiple of the angle: off by as many times that, and by
    8 units of the modulus, 25 of the angle and 20 of its multiple, each time. A sum over the law is off by at most
    sqrt(size) times the largest error of its transform, and by the 8 log2(size) units of the transform back: less.
    """

    randomizer: PureCount
    users: int
    observed: int
    """Ones that were sent beyond (d - 1) / 2 for each user: the true count and the noise."""

    @property
    def stderr(self) -> float:
        return math.sqrt(self.randomizer.variance(self.users))

    def interval(self, value: Value, level: float) -> Interval:
        """Return every count whose two tails at the observed number are both above (1 - level) / 2."""
        tail, size = (1 - valid_level(level)) / 2, self._size
        error = (self.users + 1) * (8 * math.log2(size) + 64) * 2.0**-53 * math.sqrt(size)
        if tail < 20 * error:
            return self._bound_interval(value, level)
        moduli, angles = _turn(self.randomizer, size)
        moduli = moduli**self.users

        def tails(holders: int) -> tuple[float, float]:
            # Pr[ones <= observed] and Pr[ones >= observed].
            first, law = self._law(moduli, angles, size, holders)
            at = self.observed - holders - first  # the place of the noise
            return float(law[: max(at + 1, 0)].sum()), float(law[max(at, 0) :].sum())

        # The number of ones grows with the count, and the tails with it.
        counts, most = range(self.users + 1), self.users
        low = bisect_left(counts, True, key=lambda c: tails(c)[1] + error > tail)
        high = most - bisect_left(counts, True, key=lambda c: tails(most - c)[0] + error > tail)
        return Interval(float(min(low, most)), float(max(high, 0)))

    exact_interval = interval

    def _bound_interval(self, value: Value, level: float) -> Interval:
        """Return an interval for levels that are closer to 1 than the law's precision."""
        variance = self.randomizer.variance(self.users)
        bound = BoundedError(
            stderr=self.stderr,
            most=(variance, 0.0, 0.0),
            least=variance,
            reach=float((self.randomizer.d + 1) / (1 - self.randomizer.rate)),
            limits=(0.0, float(self.users)),
        )
        return bound.interval(value, level)

    @property
    def _size(self) -> int:
        """Points of a circle that holds all noise but for 2 e^-72 (Bernstein's inequality)."""
        d = self.randomizer.d
        reach = min(self.users * d, math.ceil(16 * self.stderr + 48 * d))
        return 1 << (2 * reach + 1).bit_length()

    def _law(self, moduli: Floats, angles: Floats, size: int, holders: int) -> tuple[int, Floats]:
        """Return the law of the noise from some integer on."""
        rate = float(self.randomizer.rate)
        waves: _Waves = moduli * np.exp(1j * (self.users - 2 * holders) * angles)
        # On a circle: it is cut open opposite the mean.
        first = round(rate * (self.users / 2 - holders)) - size // 2
        return first, np.maximum(np.roll(np.fft.irfft(waves, size), -first), 0.0)


@lru_cache(maxsize=8)
def _turn(randomizer: PureCount, size: int) -> tuple[Floats, Floats]:
    """Return modulus and angle of the transform of one person's noise, z - (d - 1) / 2 where x = 0, if there is any."""
    d, rate = randomizer.d, float(randomizer.rate)
    drawn = np.array(randomizer.noise, dtype=np.float64)
    law = np.zeros(size)
    law[np.arange(d + 1) - d // 2] = drawn * (rate / drawn.sum())
    law[0] += 1 - rate
    waves = np.fft.rfft(law)
    return np.abs(waves), np.angle(waves)


@dataclass(frozen=True, slots=True, kw_only=True)
class PureCountAnalyzer:
    r"""Counts the ones, and removes what the noise adds on average.

        estimate = (T - n ((1 - p)(d - 1) / 2 + p d / 2)) / (1 - p)          (unbiased; T ones were sent)
        variance = n (p V + p (1 - p) / 4) / (1 - p)^2                       (exact, whatever the data)

    p is the probability of noise and V its variance.

    >>> analyzer = PureCountAnalyzer(randomizer=PureCount(noise=(1, 2, 2, 1), word_bits=4))
    >>> round(analyzer.variance(np.array([3, 2])), 4)
    5.15
    """

    randomizer: PureCount

    def offset(self) -> tuple[Fraction, ...]:
        """Return what one user adds to the estimate before any message."""
        p, d = self.randomizer.rate, self.randomizer.d
        return (-((1 - p) * (d // 2) + p * Fraction(d, 2)) / (1 - p),)

    def influence(self) -> Fraction:
        """Return by how many people one message can move the count: 1 / (1 - p)."""
        return 1 / (1 - self.randomizer.rate)

    def tally(self, shuffled: Shuffled) -> Tally:
        return message_tally(shuffled, 2)

    def estimate(self, tally: Tally) -> Estimate:
        n, d, ones = tally.people(), self.randomizer.d, int(tally.counts[1])
        if int(tally.counts.sum()) != n * d:
            raise MismatchError(f"{n} users send {n * d} messages, not {int(tally.counts.sum())}")
        value = float(ones / (1 - self.randomizer.rate) + n * self.offset()[0])
        error = PureCountError(randomizer=self.randomizer, users=n, observed=ones - n * (d // 2))
        return Estimate(value=value, error=error, limits=(0.0, float(n)))

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        assert isinstance(message, int)
        return (message / (1 - self.randomizer.rate),)

    def variance(self, inputs: Counts) -> float:
        return self.randomizer.variance(int(inputs.sum()))


@dataclass(frozen=True, slots=True, kw_only=True)
class PureAccountant:
    """The largest loss with fewer users than the `stated` guarantee counts on; more of them only help."""

    randomizer: PureCount
    stated: Guarantee
    counts: int = 1
    """In how many counts a person's bit may change: their losses add."""

    @classmethod
    def of(
        cls, randomizer: PureCount, crowd: Crowd, promise: Promise, proof: str, counts: int = 1
    ) -> "PureAccountant":
        """Return the one that keeps this promise."""
        stated = Guarantee(
            epsilon=promise.epsilon,
            delta=0.0,
            model=Model.SHUFFLE,
            proof=proof,
            honest=crowd.trusted,
        )
        return cls(randomizer=randomizer, stated=stated, counts=counts)

    def guarantee(self, honest: int) -> Guarantee:
        epsilon = self.stated.epsilon
        if honest < self.stated.honest:
            epsilon = self.counts * self.randomizer.total.largest_loss(honest)
        return replace(self.stated, epsilon=epsilon, honest=honest)

    def delta(self, honest: int, epsilon: float) -> float:
        return pure_delta(self.guarantee(honest).epsilon, epsilon)


@shuffle(
    name="pure_count",
    task="count",
    title="pure-privacy count",
    reference="Ghazi, Golowich, Kumar, Manurangsi, Pagh, Velingker 2020",
    pure=True,
)
def make(crowd: Crowd, promise: Promise, *, word_bits: int = 64) -> Parts:
    """Make a count of people whose bit is one, with delta = 0.

    >>> p = make(n=100, epsilon=1.0, honest=1.0)
    >>> p.guarantee.epsilon, p.guarantee.delta
    (1.0, 0.0)
    >>> p.analyzer.variance(np.array([50, 50])) < 2.7**2
    True
    """
    whole("word_bits", word_bits, at_least=4, at_most=64)
    device = find_noise(promise.epsilon, crowd.trusted, word_bits)
    accountant = PureAccountant.of(device, crowd, promise, _PROOF)
    analyzer = PureCountAnalyzer(randomizer=device)
    return Parts(
        device,
        analyzer,
        accountant=accountant,
        deal=device.deal,
        influence=analyzer.influence,
        offset=analyzer.offset,
    )


@lru_cache(maxsize=64)  # seconds for a thousand users
def find_noise(epsilon: float, users: int, word_bits: int) -> PureCount:
    """Return the noise with the smallest error that the search finds, and more of it until it is proved."""
    chosen = _search(epsilon, users, word_bits)
    for _ in range(_TRIES):
        device = chosen.device
        if device is None:
            break
        if device.total.stays_within(epsilon, users):
            return device
        chosen = replace(chosen, p=1.02 * chosen.p)
    raise UnsupportedError(f"no parameters for epsilon={epsilon} and {users} honest users found")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """d messages, noise of decay s, drawn with probability p."""

    d: int
    s: float
    p: float
    word_bits: int

    @property
    def device(self) -> PureCount | None:
        """The device with this noise in integers; None if it would send hardly anything else."""
        half = np.exp(-self.s * (np.arange(self.d // 2, -1, -1) + 0.5))
        scale = self.p * 2.0**self.word_bits / (2 * half.sum())
        # At least one word for each number: all totals must be possible for both bits.
        shares = [max(1, math.ceil(scale * mass)) for mass in half.tolist()]
        noise = (*shares, *reversed(shares))
        if self.p > _MOST_NOISE or sum(noise) > _MOST_NOISE * (1 << self.word_bits):
            return None
        return PureCount(noise=noise, word_bits=self.word_bits)

    def is_safe(self, epsilon: float, users: int) -> bool:
        """Return whether the loss seems to be a little less than epsilon."""
        device = self.device
        return device is not None and device.total.seems_within(
            _AIM * epsilon, users, 1.3 * epsilon
        )

    def is_safe_far_out(self, epsilon: float) -> bool:
        """Return the same for unlikely totals alone."""
        device = self.device
        return device is not None and device.total.far_loss(1.3 * epsilon) <= _AIM * epsilon


def _search(epsilon: float, users: int, word_bits: int) -> _Candidate:
    """Search, for each decay, the fewest messages and then the least noise; of these the smallest error.

    An error 3 % larger is accepted if it saves messages.
    """
    safe: list[tuple[float, _Candidate]] = []
    for part in _DECAYS:
        candidate = _least_noise(part * epsilon, epsilon, users, word_bits)
        device = None if candidate is None else candidate.device
        if candidate is not None and device is not None:
            safe.append((math.sqrt(device.variance(users)), candidate))
    if not safe:
        raise UnsupportedError(
            f"n: {users} honest users cannot hide one of them at epsilon={epsilon} with pure privacy "
            f"and at most {_LARGEST} messages in all, beyond which nothing is proved"
        )
    least = min(error for error, _ in safe)
    return min((each for error, each in safe if error <= 1.03 * least), key=lambda each: each.d)


def _least_noise(s: float, epsilon: float, users: int, word_bits: int) -> _Candidate | None:
    fits = _fewest_messages(s, epsilon, users, word_bits)
    if fits is None:
        return None
    low, high = fits.p / 8, fits.p
    while not replace(fits, p=high).is_safe(epsilon, users):
        low, high = high, high * 1.5
        if high > _MOST_NOISE:
            return None
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        fine = replace(fits, p=middle).is_safe(epsilon, users)
        low, high = (low, middle) if fine else (middle, high)
    return replace(fits, p=high)


@lru_cache(maxsize=64)
def _fewest_messages(s: float, epsilon: float, users: int, word_bits: int) -> _Candidate | None:
    """Return the candidate of this decay with the fewest messages, and as much noise as usual."""
    # About 2.5 users who draw noise are needed at epsilon = 1, and as many more as it is smaller.
    usual = min(0.5, 2.5 / (min(epsilon, 1.0) * users))
    fits = [
        _Candidate(d=d, s=s, p=usual, word_bits=word_bits)
        for d in range(3, min(_MOST, _LARGEST // users) + 1, 2)
    ]
    # The more messages, the smoother the law far out; too many for the words are the last ones.
    place = bisect_left(
        fits, True, key=lambda each: each.device is None or each.is_safe_far_out(epsilon)
    )
    return fits[place] if place < len(fits) and fits[place].device is not None else None


def find_fewest(epsilon: float, users: int, word_bits: int) -> int:
    """Return how many messages of a user the search for noise looks at, at least; 0 if it finds none.

    >>> find_fewest(1.0, 100, 64), find_noise(1.0, 100, 64).d
    (9, 13)
    """
    fits = (_fewest_messages(part * epsilon, epsilon, users, word_bits) for part in _DECAYS)
    return min((each.d for each in fits if each is not None), default=0)


SPEC = register(make, hints=LATE)
