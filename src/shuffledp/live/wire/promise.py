"""What is promised to every participant, and the computation that checks it.

Where the devices add the noise, each answer has a privacy curve among those of the `honest` share of the reports, and
these curves are composed. Where the servers add it, only the exact law of what each of them adds counts. A part of
delta is set aside for the words of the generators."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

from shuffledp.core.errors import UnsupportedError
from shuffledp.core.privacy import Guarantee, Model, guess_right, round_percent_up, round_up
from shuffledp.core.protocol import ShuffleProtocol, honest_users
from shuffledp.live.wire.question import CHOICE_BITS, Question
from shuffledp.numerics.rounding import find_first, float_above, float_below

MOST_ANSWERS = 366
"""The most answers of a device in a composed promise: every device recomputes it, in a second or two."""
NO_FLOOR = "none"
"""What a document and a survey file say instead of a local epsilon, if there is no floor."""
_LARGEST_EPSILON = 30.0  # of a promise that is computed


class Noise(Enum):
    """Who adds the noise that hides one answer among the others."""

    DEVICES = "devices"
    """Each device, all by itself."""
    SERVERS = "servers"
    """The shuffler adds messages, the analyzer adds to its tally; devices may add a floor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pledge:
    """What is promised to every participant, and under which conditions."""

    epsilon: float
    delta: float
    honest: float
    """The share of the reports of a batch that is assumed to come from honest devices."""
    min_batch: int
    """No batch with fewer reports is ever opened."""
    local_epsilon: float
    """What is left for a whole report if everybody else conspires; infinite: nothing."""
    reports_per_device: int = 1
    """How many reports a device may send over the life of the collection."""
    composed: bool = True
    """Whether epsilon and delta are for all reports of a device together, not for each of them."""
    one_question: bool = False
    """Whether a report answers one random question with the whole floor, not all questions with a part each."""
    noise: Noise = Noise.DEVICES
    trust_the_shuffler: bool = False
    """Whether people are told that shuffler and analyzer together could read answers: no floor, or hardly one."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings, for people: no floor is "none".

        >>> Pledge(epsilon=1, delta=1e-8, honest=0.9, min_batch=9, local_epsilon=math.inf).to_dict()["local_epsilon"]
        'none'
        """
        floor = self.local_epsilon if math.isfinite(self.local_epsilon) else NO_FLOOR
        return {**asdict(self), "local_epsilon": floor, "noise": self.noise.value}

    @property
    def floor(self) -> float:
        """What is left for a person if everybody else conspires: all reports of a device add up.

        >>> Pledge(
        ...     epsilon=1, delta=1e-8, honest=0.9, min_batch=9, local_epsilon=1.5, reports_per_device=7
        ... ).floor
        10.5
        """
        if math.isinf(self.local_epsilon):
            return math.inf
        return float_above(Fraction(self.local_epsilon) * self.reports_per_device)

    @property
    def guess(self) -> float:
        """How often somebody who thought yes and no equally likely guesses right, at most, if everybody else
        conspires.

        >>> round(Pledge(epsilon=1, delta=1e-8, honest=0.9, min_batch=9, local_epsilon=3.0).guess, 3)
        0.953
        """
        return guess_right(self.floor)

    def describe_floor(self) -> str:
        """Say what the floor is, and what it means for somebody's guess; numbers are rounded up.

        The number 1.1 is stored as a little more, so seven of them are above 7.7:

        >>> Pledge(
        ...     epsilon=1, delta=1e-8, honest=0.9, min_batch=9, local_epsilon=1.1, reports_per_device=7
        ... ).describe_floor()
        'local epsilon = 1.1 for each of 7 reports, 7.70001 together: somebody who thought yes and no equally likely guesses right \
in at most 99.96 % of cases'
        """
        if math.isinf(self.local_epsilon):
            return "nothing: there is no floor, and the messages are the answers"
        each = f"local epsilon = {round_up(self.local_epsilon, 6)}"
        if self.reports_per_device > 1:
            each += f" for each of {self.reports_per_device:,} reports, {round_up(self.floor, 6)} together"
        return (
            f"{each}: somebody who thought yes and no equally likely guesses right in at most "
            f"{round_percent_up(self.guess)} % of cases"
        )


def add_floors(questions: Sequence[Question], *, one: bool = False) -> float:
    """Add up what is left of privacy for a whole report if the shuffler tells who sent what, rounded up.

    With `one` random question in a report, which does not depend on the answers, it is the largest of them.

    >>> from shuffledp import protocols
    >>> made = protocols.rr.make_local(epsilon=0.1)
    >>> asked = Question(name="pet", text="?", task="count", protocol=made, labels=("no", "yes"))
    >>> add_floors([asked] * 3) > 0.3
    True
    """
    if one or any(math.isinf(each.epsilon0) for each in questions):
        return max(each.epsilon0 for each in questions)
    return float_above(sum((Fraction(each.epsilon0) for each in questions), Fraction(0)))


def compute_guarantee(questions: Sequence[Question], pledge: Pledge) -> Guarantee:
    """Compute the epsilon, at the promised delta, of a batch of min_batch reports; composed if the pledge is.

    Where the servers add the noise it is that of any batch, whoever is honest.
    """
    protocols = tuple(each.protocol for each in questions)
    times = pledge.reports_per_device if pledge.composed else 1
    if times * len(questions) > MOST_ANSWERS:
        raise UnsupportedError(
            f"{times:,} reports of {len(questions)} questions are more than {MOST_ANSWERS} answers to compose: promise "
            "each report by itself (composed = false), or take fewer"
        )
    honest = honest_users(pledge.min_batch, pledge.honest)
    words = sum(each.width for each in questions)
    if pledge.one_question:
        if times > 1:
            raise UnsupportedError(
                "several reports of one random question each are promised report by report, not composed"
            )
        if pledge.noise is Noise.DEVICES:
            return _compute_one(protocols, 1 + words, honest, pledge.delta)
    if pledge.noise is Noise.SERVERS:
        server = sum(each.noise.words for each in questions if each.noise is not None)
        return _compute_served(protocols, words + 1, server, times, pledge)
    return _compute(protocols, words, times, honest, pledge.delta)


@lru_cache(maxsize=256)
def _compute(
    protocols: tuple[ShuffleProtocol, ...], words: int, times: int, honest: int, delta: float
) -> Guarantee:
    from shuffledp.accounting.amplify import profile
    from shuffledp.accounting.compose import compose

    curves = [profile(randomizer=each, n=honest, honest=1.0) for each in protocols]
    alone = len(curves) * times == 1

    @cache
    def reach(left: float) -> float:
        if alone:
            return curves[0].best(left).epsilon
        # Each of a curve's bounds is a curve of its own, and one takes a fraction of the time of all.
        best = [
            min((bound.curve for bound in each.bounds), key=lambda one: one.epsilon(left))
            for each in curves
        ]
        return compose([*best] * times, delta=left)

    most = float_above(
        times * sum((Fraction(each.randomizer.epsilon0) for each in protocols), Fraction(0))
    )
    left = _set_generator_aside(words * times, honest, delta, most, reach)
    if alone:
        return replace(curves[0].best(left), delta=delta)
    return Guarantee(
        epsilon=reach(left),
        delta=delta,
        model=Model.SHUFFLE,
        proof="composition of the amplified answers' privacy curves",
        honest=honest,
    )


@lru_cache(maxsize=256)
def _compute_one(
    protocols: tuple[ShuffleProtocol, ...], words: int, honest: int, delta: float
) -> Guarantee:
    """Compute the guarantee of a report with one random question: people hide among those who answer the same one.

    Which question it is does not depend on the answers. Given it, at least `others` of the other honest people have
    the same one, except with a probability that is part of delta; more of them never hurt.
    """
    from shuffledp.accounting.amplify import profile
    from shuffledp.numerics.masses import binomial_at_most

    most = max(each.randomizer.epsilon0 for each in protocols)
    left = _set_generator_aside(words, honest, delta, most)
    missed = left / 100
    share = Fraction((1 << CHOICE_BITS) // len(protocols), 1 << CHOICE_BITS)

    def is_too_likely(others: int) -> bool:  # that no more have the same question
        return binomial_at_most(others, honest - 1, share) > missed

    others = find_first(is_too_likely, -1, honest - 1)
    spare = float_below(Fraction(left) - Fraction(missed))
    curves = [profile(randomizer=each, n=1 + others, honest=1.0) for each in protocols]
    worst = max((each.best(spare) for each in curves), key=lambda bound: bound.epsilon)
    return replace(worst, delta=delta, honest=honest)


@lru_cache(maxsize=256)
def _compute_served(
    protocols: tuple[ShuffleProtocol, ...], words: int, server: int, times: int, pledge: Pledge
) -> Guarantee:
    """Compute the guarantee of either server's noise alone: the promised epsilon if it holds, or the smallest.

    `words` are those of one device, `server` those of a server for one window.
    """
    from shuffledp.accounting.server_noise import bound_delta
    from shuffledp.numerics.rounding import find_smallest
    from shuffledp.protocols.server_hashing import find_added

    pairs = [find_added(each) for each in protocols]
    left = set_served_aside(server, words * times, pledge)

    def excess(epsilon: float) -> float:
        if pledge.one_question:
            deltas = [
                bound_delta([moved], [law], epsilon=epsilon, near=left) for moved, law in pairs
            ]
            return max(deltas) - left
        parts, laws = [moved for moved, _ in pairs], [law for _, law in pairs]
        return bound_delta(parts, laws, epsilon=epsilon, near=left, times=times) - left

    epsilon: float | None = pledge.epsilon
    if excess(pledge.epsilon) > 0:
        epsilon = find_smallest(excess, guess=pledge.epsilon, largest=_LARGEST_EPSILON)
    if epsilon is None:
        raise UnsupportedError(f"the servers' noise keeps no promise with delta={pledge.delta}")
    return Guarantee(
        epsilon=epsilon,
        delta=pledge.delta,
        model=Model.SHUFFLE,
        proof="the exact law of the messages that either server adds",
    )


def set_served_aside(server: int, words: int, pledge: Pledge) -> float:
    """Return what is left of delta for uniform words: `server` of one server for a window, `words` of one device."""
    from shuffledp.accounting.base import bound_generator

    times = pledge.reports_per_device if pledge.composed else 1
    added = bound_generator(1, server * times, pledge.epsilon)
    added += bound_generator(1, words, pledge.epsilon)
    left = Fraction(pledge.delta) - added
    if 2 * left < Fraction(pledge.delta):
        raise UnsupportedError(f"delta={pledge.delta} is too small for the words of a server")
    return float_below(left)


def _set_generator_aside(
    words: int,
    honest: int,
    delta: float,
    most: float,
    reach: Callable[[float], float] | None = None,
) -> float:
    """Return what is left of delta for uniform words: those of the honest devices come from a generator.

    It adds (1 + e^epsilon) times its advantage to the delta at epsilon. The epsilon that we state is at most what the
    reports have without a shuffler, `most`. Many reports have a lot without one, and together with the others' hardly
    anything: then half of delta is set aside, and `reach` says which epsilon the other half gives, which is the one
    that we state.
    """
    from shuffledp.accounting.base import bound_generator

    left = Fraction(delta) - bound_generator(honest, words, most)
    if 2 * left >= Fraction(delta):
        return float_below(left)
    half = float_below(Fraction(delta) / 2)
    if reach is None or Fraction(half) < bound_generator(honest, words, reach(half)):
        raise UnsupportedError(f"delta={delta} is too small for the words of {honest:,} devices")
    return half
