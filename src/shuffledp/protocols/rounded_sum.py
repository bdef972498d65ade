r"""Rounded sums: one short message per user.

A value is rounded at random, without bias, to one of the levels 0 .. k; then, with probability gamma, it is
replaced by a uniform level. So the message is k-ary randomized response over k + 1 symbols, applied to
the rounded value. With gamma about (k + 1) mu / n, mu noise messages at each level hide one person's.

    mean squared error of the sum of values in [0, 1], at most about
        n / (4 k^2)  +  n gamma / 3,        smallest for k near (1.5 n / mu)^(1/3)

Few levels round coarsely, many need more noise: no protocol with one message does better than the
order n^(1/3) that this gives.

**Privacy.** Tell the attacker which level everybody's value was rounded to in the worst case: given the
levels, the view is that of shuffled randomized response on neighbouring data sets. The law for a value
is a mixture of the laws for two levels, and the hockey-stick divergence is jointly convex, so it is at
most the largest one between two levels: the blanket of randomized response holds for all values.

Reference: Balle, Bell, Gascon, Nissim 2019, "The privacy blanket of the shuffle model".
Deviations: gamma is calibrated by evaluating the blanket (`calibration="paper"` takes the published
max(14 (k+1) ln(2/delta) / ((n-1) epsilon^2), 27 (k+1) / ((n-1) epsilon)), for epsilon <= 1 and gamma < 1),
and k minimises the error for the gamma that is used.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from shuffledp.accounting.blanket import Blanket, BlanketProfile, two_level_blanket
from shuffledp.core.analyzer import Tally, message_tally
from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.core.domain import Integers, Reals
from shuffledp.core.errors import DataError, ParameterError
from shuffledp.core.estimate import Estimate, NormalError
from shuffledp.core.privacy import Guarantee, Model
from shuffledp.core.protocol import HONEST, Calibration, Cost, ShuffleProtocol, Spec, honest_users
from shuffledp.core.randomizer import Law, Message, Messages
from shuffledp.core.shuffler import Shuffled
from shuffledp.core.validate import fraction_of_one, positive, whole
from shuffledp.numerics.draws import Draws
from shuffledp.protocols._levels import Levels, fits, largest_kept
from shuffledp.protocols._sums import number_domain, reach, scaled, sum_task, unit
from shuffledp.protocols.mean import Affine, Quadratic, moment

__all__ = ["SPEC", "RoundedResponse", "RoundedSum", "RoundedSumAccountant", "make"]

_MOST_LEVELS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedResponse:
    """Code i of 0 .. G, rounded at random to levels 0 .. k, through randomized response.

    Each level is sent by `share` of the 2^word_bits words whatever the value is. The `kept` words left over
    send the level below or above i k / G, in exactly the proportion that makes the expectation right:
    `kept` is a multiple of the denominator of k / G. gamma is rounded up until that is so.

    >>> device = RoundedResponse(
    ...     domain=Reals(lower=0.0, upper=1.0, steps=4), levels=2, gamma=Fraction(1, 4), word_bits=5
    ... )
    >>> device.pmf(1)
    {(0,): Fraction(7, 16), (1,): Fraction(7, 16), (2,): Fraction(1, 8)}
    """

    domain: Integers | Reals
    levels: int
    gamma: Fraction
    word_bits: int = 64
    kept: int = field(init=False)
    share: int = field(init=False)

    def __post_init__(self) -> None:
        whole("levels", self.levels, at_least=1, at_most=min(reach(self.domain), _MOST_LEVELS))
        whole("word_bits", self.word_bits, at_least=1, at_most=64)
        if not 0 < self.gamma < 1:
            raise ParameterError("gamma", self.gamma, "must be > 0 and < 1")
        words, symbols = 1 << self.word_bits, self.levels + 1
        most = words - symbols * math.ceil(self.gamma * words / symbols)
        kept = largest_kept(most, self._denominator, symbols, words)
        if kept is None:
            raise ParameterError(
                "levels",
                self.levels,
                f"cannot be combined with {reach(self.domain)} steps and words of "
                f"{self.word_bits} bits: nothing of the value would be left",
            )
        object.__setattr__(self, "kept", kept)
        object.__setattr__(self, "share", (words - kept) // symbols)

    @property
    def _denominator(self) -> int:
        """That of k / G in lowest terms."""
        return reach(self.domain) // math.gcd(reach(self.domain), self.levels)

    @property
    def words_per_input(self) -> int:
        return 1

    @property
    def epsilon0(self) -> float:
        """The logarithm of the largest likelihood ratio, rounded up."""
        return (math.log(self.share + self.kept) - math.log(self.share)) * (1 + 1e-12) + 1e-13

    @property
    def q(self) -> Fraction:
        """Exact probability of a level that is not that of the value."""
        return Fraction(self.share, 1 << self.word_bits)

    @property
    def b(self) -> Fraction:
        """Exact probability that the rounded value is sent for its own sake: 1 - gamma."""
        return Fraction(self.kept, 1 << self.word_bits)

    def encode(self, inputs: Codes, words: Words) -> Messages:
        size = np.uint64(reach(self.domain))
        scaled_codes = inputs.astype(np.uint64) * np.uint64(self.levels)
        low = scaled_codes // size
        # The fractional part, in units of 1 / denominator.
        part = (scaled_codes - low * size) // np.uint64(reach(self.domain) // self._denominator)
        word = words[:, 0].astype(np.uint64, copy=False)
        lies = (self.levels + 1) * self.share
        rounded = low + (word - np.uint64(lies) < part * np.uint64(self.kept // self._denominator))
        sent = np.where(word < np.uint64(lies), word // np.uint64(self.share), rounded)
        return Messages.one_each(sent.astype(np.int64))

    def pmf(self, x: int) -> Law:
        low, up = self._rounded(x)
        law: Law = {(y,): self.q for y in range(self.levels + 1)}
        law[(low,)] += self.b * (1 - up)
        if up:
            law[(low + 1,)] += self.b * up
        return law

    def _rounded(self, x: int) -> tuple[int, Fraction]:
        """The level below, and the probability of the one above it."""
        low, rest = divmod(x * self.levels, reach(self.domain))
        return low, Fraction(rest, reach(self.domain))

    def blankets(self) -> tuple[Blanket, ...]:
        """That of randomized response over the levels; see the module for why it holds."""
        ratio = Fraction(self.share + self.kept, self.share)
        rest = (self.levels - 1) * self.q
        return (two_level_blanket(ratio=ratio, one=self.q, both=Fraction(0), neither=rest),)

    def simulate(self, inputs: Counts, draws: Draws) -> Tally:
        """Those who lie are spread evenly, those who do not are rounded code by code."""
        kept = draws.binomials(inputs, float(self.b))
        symbols = self.levels + 1
        counts = draws.multinomial(int((inputs - kept).sum()), np.full(symbols, 1 / symbols))
        for x in np.flatnonzero(kept).tolist():
            low, up = self._rounded(x)
            ups = draws.binomial(int(kept[x]), float(up)) if up else 0
            counts[low] += kept[x] - ups
            if ups:
                counts[low + 1] += ups
        return Tally(counts=counts, users=int(inputs.sum()))

    @property
    def decoder(self) -> Affine:
        """The unbiased estimate of a code from one message."""
        words, steps = 1 << self.word_bits, reach(self.domain)
        bias = self.share * self.levels * (self.levels + 1) // 2
        return Affine(scale=words * steps, offset=bias * steps, divisor=self.kept * self.levels)

    @property
    def level_variance(self) -> Quadratic:
        """Variance of the message of a value z = i k / G, less what rounding adds to it."""
        k, q, b = self.levels, self.q, self.b
        mean = q * k * (k + 1) / 2
        square = q * k * (k + 1) * (2 * k + 1) / 6
        return Quadratic(constant=square - mean**2, linear=-2 * mean * b, square=b - b * b)

    @property
    def worst_rounding(self) -> Fraction:
        """The largest up (1 - up) of any code."""
        half = Fraction(self._denominator // 2, self._denominator)
        return half * (1 - half)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedSum:
    """Adds up what the messages decode to.

    The variance depends on where between two levels the values lie, which no message tells: the
    standard error takes the worst case, so intervals cover with at least their level.
    """

    device: RoundedResponse
    task: str

    def tally(self, shuffled: Shuffled) -> Tally:
        return message_tally(shuffled, self.device.levels + 1)

    def estimate(self, tally: Tally) -> Estimate:
        n = tally.users
        if n < 1:
            raise DataError("the tally is of no users: at least one is needed")
        stderr = self._unit(n) * math.sqrt(self._message_variance(tally))
        total = self.device.decoder.total(tally.counts)
        return scaled(self.device.domain, self.task, total, n, NormalError(stderr=stderr))

    def _message_variance(self, tally: Tally) -> float:
        """The variance of the sum of the messages: S2 - sum (E y)^2, the latter from S1 and S2."""
        device, n = self.device, moment(tally.counts, 0)
        first, second = moment(tally.counts, 1), moment(tally.counts, 2)
        k, b = device.levels, device.b
        mean = device.q * k * (k + 1) / 2
        square = device.q * k * (k + 1) * (2 * k + 1) / 6
        variance = second - n * mean**2 - 2 * mean * (first - n * mean) - b * (second - n * square)
        least = n * device.level_variance.range(k)[0]
        return float(max(variance + b * b * n * device.worst_rounding, least))

    def _unit(self, n: int) -> float:
        """What one step of the sum of the messages is in the answer."""
        device = self.device
        width = Fraction(device.domain.upper) - Fraction(device.domain.lower)
        step = width / (device.b * device.levels)
        return float(step / n if self.task == "mean" else step)

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        assert isinstance(message, int)
        domain = self.device.domain
        return (Fraction(domain.lower) + unit(domain) * self.device.decoder(message),)

    def variance(self, inputs: Counts) -> float:
        device = self.device
        seen = np.flatnonzero(inputs)
        z = seen * (device.levels / reach(device.domain))
        rest = seen * device.levels % reach(device.domain) / reach(device.domain)
        law = device.level_variance
        smooth = float(law.constant) + z * (float(law.linear) + z * float(law.square))
        of_sum = float(inputs[seen] @ (smooth + float(device.b) * rest * (1 - rest)))
        return self._unit(int(inputs.sum())) ** 2 * of_sum


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedSumAccountant:
    """delta of the blanket at a fixed epsilon."""

    epsilon: float
    device: RoundedResponse

    def guarantee(self, honest: int) -> Guarantee:
        return Guarantee(
            epsilon=self.epsilon,
            delta=_delta(self.device, honest, self.epsilon),
            model=Model.SHUFFLE,
            proof=(
                "privacy blanket of randomized response over the levels, Balle, Bell, Gascon, "
                "Nissim 2019, evaluated numerically"
            ),
            honest=honest,
        )


def _delta(device: RoundedResponse, honest: int, epsilon: float) -> float:
    curve = BlanketProfile(blankets=device.blankets(), n=honest, epsilon0=device.epsilon0)
    return min(1.0, curve.delta(epsilon))


def make(
    *,
    n: int,
    epsilon: float,
    delta: float,
    lower: float,
    upper: float,
    steps: int | None = None,
    levels: int | None = None,
    task: str = "sum",
    honest: float = HONEST,
    calibration: Calibration | str = Calibration.EXACT,
    word_bits: int = 64,
) -> ShuffleProtocol:
    """The sum (or the mean) of integers lower .. upper, or of reals on a grid of `steps` steps.

    `levels` is k, the best one unless given.

    >>> from shuffledp import SeededWords, run
    >>> p = make(n=10_000, epsilon=1.0, delta=1e-6, lower=0.0, upper=1.0, steps=1000)
    >>> p.randomizer.levels, p.cost.messages_max, p.cost.bits_per_message
    (7, 1, 3)
    >>> answer = run(p, [0.2, 0.4] * 5000, SeededWords(1))
    >>> round(answer.value), round(answer.stderr, 1)
    (2983, 10.6)
    """
    n = whole("n", n, at_least=1)
    wanted, rule = sum_task(task), Calibration.read(calibration)
    trusted = honest_users(n, honest)
    positive("epsilon", epsilon)
    fraction_of_one("delta", delta)
    domain = number_domain(lower, upper, steps)
    search = Levels(
        n=trusted,
        epsilon=epsilon,
        delta=delta,
        possible=lambda k: fits(reach(domain), k, word_bits),
        most=min(reach(domain), _MOST_LEVELS),
    )
    if levels is not None:
        whole("levels", levels, at_least=1, at_most=search.most)
    find = search.exact if rule is Calibration.EXACT else search.published
    k, gamma = find(levels)
    device = RoundedResponse(domain=domain, levels=k, gamma=gamma, word_bits=word_bits)
    accountant = RoundedSumAccountant(epsilon=epsilon, device=device)
    return ShuffleProtocol(
        name=SPEC.name,
        parameters={
            "n": n,
            "epsilon": epsilon,
            "delta": delta,
            "lower": lower,
            "upper": upper,
            "steps": steps,
            "levels": levels,
            "task": task,
            "honest": honest,
            "calibration": rule.value,
            "word_bits": word_bits,
        },
        task=wanted,
        randomizer=device,
        analyzer=RoundedSum(device=device, task=wanted),
        guarantee=accountant.guarantee(trusted),
        cost=Cost(
            messages_mean=1.0,
            messages_max=1,
            bits_per_message=device.levels.bit_length(),
            count_depends_on_value=False,
        ),
        accountant=accountant,
        users=n,
        local_floor=Guarantee(
            epsilon=device.epsilon0,
            delta=0.0,
            model=Model.LOCAL,
            proof=f"the likelihood ratio of the exact law of {SPEC.name}",
        ),
    )


SPEC = Spec(
    name="rounded_sum",
    title="Rounded randomized response",
    task="sum",
    reference="Balle, Bell, Gascon, Nissim 2019",
    make=make,
)
