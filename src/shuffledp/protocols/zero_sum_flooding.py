r"""Sums of integers or reals with nearly central accuracy, in (for enormous n) nearly one message.

A user sends the value x itself, 0 .. levels (nothing for 0), Z+ messages "+1" and Z- messages "-1", shares
NB(1/m, e^(-epsilon_star/levels)) of geometric noise, and a share of a flood of *multisets that add up to zero*:
{1, -1} and {i, -floor(i/2), -ceil(i/2)}. The analyzer adds all messages: the flood cancels, and with n = m users
the error is discrete Laplace(epsilon_star / levels), epsilon_star = (1 - gap) epsilon. The flood makes every value
look like a sum of ones (accounting/flooding), so that this noise is enough.

**Cost.** The flood of all users together does not depend on n, but is about levels log^2(levels) / (gap epsilon) times
some hundred: for 1000 levels, gap 0.1 and epsilon = 1 that is 1800 messages per user at n = 10^6 and 3 at
10^9. Below n = 10^8 or so `split_and_mix` is better in every respect; above, this one sends fewer bits.

Reference: Ghazi, Kumar, Manurangsi, Pagh, Sinha 2021, "Differentially private aggregation in the shuffle
model: almost central accuracy in almost a single message".

Deviations: the number of each multiset is not negative binomial but a Poisson number of geometric
numbers. It is as divisible, and its parts are drawn exactly from a few words, while a share of a negative
binomial with p so near 1 would take a table of millions of entries. Its privacy is proved and evaluated
numerically (basic composition over the multisets), so the published constants are not used; the flood is
smaller than theirs. Multisets that no value >= 0 needs are left out. Reals are rounded to the nearest
point of the grid, not at random.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from shuffledp.accounting.exact import shuffled_delta
from shuffledp.accounting.flooding import Flooding, thinned_delta
from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.core.domain import Integers, Reals
from shuffledp.core.errors import DataError, UnsupportedError
from shuffledp.core.estimate import Estimate
from shuffledp.core.privacy import Guarantee, Model
from shuffledp.core.protocol import HONEST, Cost, ShuffleProtocol, Spec, honest_users
from shuffledp.core.randomizer import Law, Message, Messages
from shuffledp.core.shuffler import Shuffled
from shuffledp.core.validate import fraction_of_one, positive, whole
from shuffledp.numerics.draws import Draws
from shuffledp.numerics.intervals import SharedNoiseError
from shuffledp.numerics.rounding import exp_lower
from shuffledp.protocols._correlated import NOTHING
from shuffledp.protocols._events import Events
from shuffledp.protocols._multisets import MultisetFlood
from shuffledp.protocols._sums import number_domain, reach, scaled, sum_task, unit
from shuffledp.protocols.correlated_count import GAP

__all__ = ["SPEC", "FloodingAccountant", "MessageSum", "ZeroSumFlooding", "make"]

_SMALL_TAPE = 20
_LARGEST_EPSILON = 12.0  # more is not used: the tables are not exact enough for it


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroSumFlooding:
    """The value, shares of both noises, and a share of the flood; messages are integers, not 0.

    >>> device = ZeroSumFlooding(
    ...     domain=Integers(lower=0, upper=10), star=0.9, budget=0.1, level=50.0, sharers=10**6
    ... )
    >>> device.words_per_input, device.distance(10**6) < 1e-12
    (30, True)
    """

    domain: Integers | Reals
    star: float
    budget: float
    """What of epsilon the flood may use."""
    level: float
    """The mean number of events of each multiset, of all sharers together."""
    sharers: int
    most_events: int | None = None
    """Where the two numbers of events are cut; None: where their mass is nothing to a word."""
    word_bits: int = 64
    noise: Events = field(init=False, repr=False)
    flood: MultisetFlood = field(init=False, repr=False)

    def __post_init__(self) -> None:
        m = whole("sharers", self.sharers, at_least=1)
        flooding = Flooding(levels=reach(self.domain), budget=self.budget)
        needed = len(flooding.cells).bit_length()
        bits = whole("word_bits", self.word_bits, at_least=needed, at_most=64)
        most = self.most_events
        if most is not None:
            whole("most_events", most, at_least=1)
        # Rounded up: more noise.
        p = math.exp(-positive("star", self.star) / reach(self.domain)) * (1 + 4 * 2.0**-53)
        noise = Events.of(cells=2, share=Fraction(1, m), p=p, bits=bits, most=most)
        share = Fraction(positive("level", self.level)) / m
        flood = MultisetFlood.of(flooding, share=share, bits=bits, most=most)
        object.__setattr__(self, "noise", noise)
        object.__setattr__(self, "flood", flood)

    @property
    def epsilon0(self) -> float:
        """Infinite: without the others' noise a message gives its sender away."""
        return math.inf

    @property
    def words_per_input(self) -> int:
        return self.noise.words + self.flood.words

    def distance(self, users: int) -> float:
        """At least that of all noise of so many users from the ideal law."""
        return self.noise.distance(users, 2) + self.flood.distance(users)

    def encode(self, inputs: Codes, words: Words) -> Messages:
        signed_user, signed_cell = self.noise.draw(words[:, : self.noise.words])
        flood_user, flood = self.flood.draw(words[:, self.noise.words :])
        sender = np.flatnonzero(inputs)
        return Messages(
            payload=np.concatenate([inputs[sender].astype(np.int64), 2 * signed_cell - 1, flood]),
            owner=np.concatenate([sender, signed_user, flood_user]),
            users=len(inputs),
        )

    def pmf(self, x: int) -> Law:
        """The law of what is sent up to its order, for words of a few bits."""
        own = (x,) if x else ()
        law: Law = {}
        flood = self.flood.law()
        for (minus, plus), mass in self.noise.law().items():
            signed = own + (-1,) * minus + (1,) * plus
            for drawn, other in flood.items():
                sent = tuple(sorted(signed + drawn))
                law[sent] = law.get(sent, NOTHING) + mass * other
        return law

    def simulate(self, inputs: Counts, draws: Draws) -> Tally:
        """The flood cancels: what is left is the sum of the codes and of both noises."""
        users = int(inputs.sum())
        codes = sum(x * int(inputs[x]) for x in np.flatnonzero(inputs).tolist())
        minus, plus = self.noise.simulate(users, draws).tolist()
        return Tally(counts=np.array([codes + plus - minus], dtype=np.int64), users=users)

    @property
    def cost(self) -> Cost:
        """For values other than 0; a 0 sends one message less."""
        noise = self.noise.number.largest * self.noise.size.largest
        return Cost(
            messages_mean=1 + 2 * float(self.noise.per_cell(1)) + self.flood.mean,
            messages_max=1 + noise + self.flood.most,
            bits_per_message=(2 * reach(self.domain) - 1).bit_length(),
            count_depends_on_value=True,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSum:
    r"""The sum of all messages; the tally is that one number.

        variance = 2 n E[noise^2 of one sign] unit^2    (exact; with n = m users 2 p / (1 - p)^2 unit^2)

    >>> protocol = make(n=10**6, epsilon=1.0, delta=1e-6, lower=0, upper=10, honest=1.0)
    >>> round(protocol.analyzer.variance(np.full(11, 10**6 / 11)) ** 0.5, 2)
    15.71
    """

    device: ZeroSumFlooding
    task: str

    def tally(self, shuffled: Shuffled) -> Tally:
        payload, levels = shuffled.payload, reach(self.device.domain)
        if payload.ndim != 1 or payload.dtype.kind not in "iu":
            raise DataError(
                f"messages are integers -{levels} .. {levels} without 0, not an array of shape "
                f"{payload.shape} and type {payload.dtype}"
            )
        signed = payload.astype(np.int64)
        if np.any((signed == 0) | (signed > levels) | (signed < -levels)):
            raise DataError(f"a message is 0 or outside -{levels} .. {levels}")
        return Tally(counts=np.array([signed.sum()], dtype=np.int64), users=shuffled.users)

    def estimate(self, tally: Tally) -> Estimate:
        n, domain, noise = tally.users, self.device.domain, self.device.noise
        if n < 1:
            raise DataError("the tally is of no users: at least one is needed")
        error = SharedNoiseError(
            rate=Fraction(self.device.star) / reach(domain),
            shape=n * noise.share,
            step=self._step(n),
        )
        return scaled(domain, self.task, Fraction(int(tally.counts[0])), n, error)

    def _step(self, n: int) -> float:
        return float(unit(self.device.domain)) / (n if self.task == "mean" else 1)

    @property
    def offset(self) -> tuple[Fraction, ...]:
        """Code 0 stands for `lower`."""
        return (Fraction(self.device.domain.lower),)

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        assert isinstance(message, int)
        return (message * unit(self.device.domain),)

    def variance(self, inputs: Counts) -> float:
        # Signs are independent and even, so products of two events' signs have mean 0.
        n = int(inputs.sum())
        return 2 * n * float(self.device.noise.per_cell(2)) * self._step(n) ** 2


@dataclass(frozen=True, slots=True, kw_only=True)
class FloodingAccountant:
    """delta at a fixed epsilon, for any number of honest users.

    The flood's delta, what is missing from the geometric noise if fewer users are honest, and
    (1 + e^epsilon) times the distance of the sampled noise from the ideal one. For a tape of a few
    bits the divergence is that of the sampled law itself.
    """

    epsilon: float
    device: ZeroSumFlooding

    def guarantee(self, honest: int) -> Guarantee:
        return Guarantee(
            epsilon=self.epsilon,
            delta=self.delta(honest),
            model=Model.SHUFFLE,
            proof=(
                "the value as a shift of the numbers of noise multisets, Ghazi, Kumar, Manurangsi, "
                "Pagh, Sinha 2021; divergences bounded numerically and composed (accounting/flooding)"
            ),
            honest=honest,
        )

    def delta(self, honest: int) -> float:
        """At least the true delta."""
        bound = min(1.0, self._bound(honest))
        return min(bound, self._direct(honest)) if self.small else bound

    @property
    def small(self) -> bool:
        """Whether the tape is so short that the sampled law is computed itself."""
        return self.device.word_bits * self.device.words_per_input <= _SMALL_TAPE

    def _direct(self, honest: int) -> float:
        laws = [self.device.pmf(x) for x in range(self.device.domain.size)]
        try:
            exact = shuffled_delta(laws, honest, exp_lower(self.epsilon))
        except UnsupportedError:
            return 1.0
        return float(exact) * (1 + 1e-15)

    def _bound(self, honest: int) -> float:
        device = self.device
        # Rounding the shares down raises delta.
        level = math.nextafter(float(honest * device.flood.share), 0.0)
        share = honest * device.noise.share
        missing = 0.0
        if share < 1:
            part = math.nextafter(float(share), 0.0)
            missing = thinned_delta(
                levels=reach(device.domain), epsilon_star=device.star, share=part
            )
        return device.flood.flooding.delta(level) + missing + self.overhead(honest)

    def overhead(self, honest: int) -> float:
        """What the distance between the ideal and the sampled noise adds to delta."""
        return (1 + math.exp(min(self.epsilon, 700.0))) * self.device.distance(honest)


def make(
    *,
    n: int,
    epsilon: float,
    delta: float,
    lower: float,
    upper: float,
    steps: int | None = None,
    task: str = "sum",
    honest: float = HONEST,
    gap: float = GAP,
    most_events: int | None = None,
    word_bits: int = 64,
) -> ShuffleProtocol:
    """The sum (or the mean) of integers lower .. upper, or of reals on a grid of `steps` steps.

    A larger `gap` means fewer messages, and an error larger by 1 / (1 - gap).

    >>> stars = make(n=1_000_000, epsilon=1.0, delta=1e-6, lower=0, upper=5, gap=0.3)
    >>> f"{stars.cost.messages_mean:.2f}", stars.guarantee.delta <= 1e-6
    ('1.13', True)
    """
    n = whole("n", n, at_least=1)
    wanted, sharers = sum_task(task), honest_users(n, honest)
    fraction_of_one("gap", gap)
    fraction_of_one("delta", delta)
    used = min(positive("epsilon", epsilon), _LARGEST_EPSILON)
    domain = number_domain(lower, upper, steps)
    budget = gap * used
    # Rounded so that both parts together stay within epsilon.
    star = (used - budget) * (1 - 1e-12)

    def accountant_of(level: float) -> FloodingAccountant:
        device = ZeroSumFlooding(
            domain=domain,
            star=star,
            budget=budget,
            level=level,
            sharers=sharers,
            most_events=most_events,
            word_bits=word_bits,
        )
        return FloodingAccountant(epsilon=used, device=device)

    level = Flooding(levels=reach(domain), budget=budget).level(delta * (1 - 1e-3))
    accountant = accountant_of(level)
    device, guarantee = accountant.device, accountant.guarantee(sharers)
    if guarantee.delta > delta:
        raise UnsupportedError(
            f"delta={delta!r} is out of reach with words of {word_bits} bits for n={n} users"
        )
    return ShuffleProtocol(
        name=SPEC.name,
        parameters={
            "n": n,
            "epsilon": epsilon,
            "delta": delta,
            "lower": lower,
            "upper": upper,
            "steps": steps,
            "task": task,
            "honest": honest,
            "gap": gap,
            "most_events": most_events,
            "word_bits": word_bits,
        },
        task=wanted,
        randomizer=device,
        analyzer=MessageSum(device=device, task=wanted),
        guarantee=guarantee,
        cost=device.cost,
        accountant=accountant,
        users=n,
    )


SPEC = Spec(
    name="zero_sum_flooding",
    title="Zero-sum flooding",
    task="sum",
    reference="Ghazi, Kumar, Manurangsi, Pagh, Sinha 2021",
    make=make,
)
