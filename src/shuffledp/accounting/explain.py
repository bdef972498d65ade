"""What was promised, to whom, in plain words."""

import math
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Context, Decimal

from shuffledp.accounting.base import bound_generator
from shuffledp.core.privacy import Guarantee, Model, round_up
from shuffledp.core.protocol import CentralMechanism, ShuffleProtocol
from shuffledp.core.randomizer import tape_width
from shuffledp.numerics.rounding import float_above

_ADDS_UP = (
    "What the result says about everybody, and so also about each person, such as that smoking is "
    "harmful: that is what it is for. Other releases about the same people add up with this one: keep a "
    "ledger. The raw data are only as safe as the place where they are stored."
)
_MANY = 1_000_000  # how many people a local protocol may have, to have a number


def explain(
    protocol: ShuffleProtocol | CentralMechanism,
    shuffles: Sequence[int] = (),
    promise: Guarantee | None = None,
) -> str:
    """Explain the promise of a protocol or mechanism to somebody who has to decide whether to take part.

    Paragraphs: the promise, who must be trusted, what is left without the shuffler, what n and
    delta mean, and what is not protected. Of several `shuffles` with that many people each, the
    protocol is the one for the smallest. If its answer is one of several releases, `promise` is that of all.

    >>> from shuffledp import protocols
    >>> print(explain(protocols.krr.make_local(k=3, epsilon=1.0)).splitlines()[0][:66])
    The promise. Whatever one person's value is, every possible result
    """
    promise = protocol.guarantee if promise is None else promise
    if not isinstance(protocol, ShuffleProtocol):
        return "\n\n".join([_promise(promise), _CURATOR, _say_exact(promise)])
    return "\n\n".join(
        [
            _promise(promise),
            _trust(protocol, apart=len(shuffles) > 1),
            _without_shuffler(protocol, promise),
            _numbers(protocol, promise, apart=len(shuffles) > 1),
            _not_protected(protocol, promise),
        ]
    )


_CURATOR = (
    "Who is trusted. The machine that holds everybody's values: it adds the noise to the exact answer. "
    "Nobody else has to follow any protocol, and nobody else is trusted. How many people take part, and "
    "who, is public: only the values are protected."
)


def _say_exact(promise: Guarantee) -> str:
    return (
        f"What is not protected. {_ADDS_UP} The proof: {promise.proof}. The noise is made of words of AES-256, and "
        "the promise holds against anybody who cannot break AES-256."
    )


def _promise(promise: Guarantee) -> str:
    text = (
        "The promise. Whatever one person's value is, every possible result is almost as likely as "
        f"if that person had any other value: within a factor of {_factor(promise.epsilon)} "
        f"(e^epsilon, epsilon = {round_up(promise.epsilon, 6)})"
    )
    if promise.delta:
        text += f", up to an extra probability of delta = {round_up(promise.delta, 3)}"
    return f"{text}. It holds for each person, whatever is known about all the others."


def _factor(epsilon: float) -> str:
    if epsilon > 300:
        return "more than 10^130, which is no protection"
    # Rounded up: the promise must not sound better than it is.
    digits = 3 if epsilon < 0.01 else 2
    return f"{math.ceil(math.exp(epsilon) * 10**digits) / 10**digits:,.{digits}f}"


def _trust(protocol: ShuffleProtocol, *, apart: bool) -> str:
    promise = protocol.guarantee
    if promise.model is Model.LOCAL:
        return (
            "Who is trusted. Nobody: each person's own device adds the noise, and the promise holds "
            "against whoever receives its message."
        )
    honest = f"{promise.honest:,}"
    of_all = "" if protocol.users is None else f" of the {protocol.users:,}"
    who = "people in the smallest shuffle" if apart else "people who take part"
    return (
        "Who is trusted. The shuffler is trusted to forget who sent what, and to show nobody the "
        f"messages with their senders. At least {honest}{of_all} {who} must follow the "
        "protocol: their noise hides everybody. Nobody else is trusted: not the analyzer, not the other people, not "
        "the readers of the result."
    )


def _without_shuffler(protocol: ShuffleProtocol, promise: Guarantee) -> str:
    if protocol.guarantee.model is Model.LOCAL:
        return "Without a shuffler. The promise is the same: it does not rest on one."
    floor = protocol.local_floor
    if floor is None or promise != protocol.guarantee:  # what other releases keep is not known here
        what = "this protocol promises" if floor is None else "these releases together promise"
        return (
            f"Without the shuffler. If it leaks who sent what, {what} nothing: the messages of one person can "
            "reveal that person's value."
        )
    return (
        "Without the shuffler. If it leaks who sent what, each person still has the local promise: "
        f"epsilon = {round_up(floor.epsilon, 6)}, a factor of {_factor(floor.epsilon)}."
    )


def _numbers(protocol: ShuffleProtocol, promise: Guarantee, *, apart: bool) -> str:
    parts = []
    if protocol.users is not None:
        planned = protocol.parameters.get("n", protocol.users)
        took_part = "the smallest shuffle had {:,}" if apart else "{:,} took part"
        came = f", and {took_part.format(protocol.users)}" if planned != protocol.users else ""
        parts.append(
            f"n = {planned:,} is the number of people that the noise was made for{came}. It is public, "
            "and so is who takes part: only the values are protected."
        )
    else:
        parts.append(
            "How many people take part, and who, is public: only the values are protected."
        )
    if promise.delta:
        parts.append(
            f"delta = {round_up(promise.delta, 3)} is a slack on top of the factor: the probability of "
            "anything that a result may show can exceed what the factor allows by up to delta, about "
            f"one in {_one_in(promise.delta)}. Keep it far below one in n."
        )
    return "The numbers. " + " ".join(parts)


def _one_in(delta: float) -> str:
    # Rounded down, like the factor up: the promise must not sound better than it is.
    context = Context(prec=1, rounding=ROUND_FLOOR)
    return f"{int(context.divide(Decimal(1), Decimal(repr(float(delta))))):,}"


def _not_protected(protocol: ShuffleProtocol, promise: Guarantee) -> str:
    counts = (
        " How many messages one person sends depends on the value, so the network must not show that "
        "number to anybody."
        if protocol.cost.count_depends_on_value
        else ""
    )
    return f"What is not protected. {_ADDS_UP}{counts} The proof: {promise.proof}. {_generator(protocol)}"


def _generator(protocol: ShuffleProtocol) -> str:
    promise, people = protocol.guarantee, protocol.users or _MANY
    added = bound_generator(people, tape_width(protocol.randomizer), promise.epsilon)
    text = "The noise is made of words of AES-256, and the promise holds against anybody who cannot break AES-256"
    size = round_up(float_above(added), 2)
    if promise.delta:
        return f"{text}: delta includes {size} for telling such words from uniform ones."
    of = "" if protocol.users else f" for {people:,} people"
    return f"{text}. Its numbers are those of uniform words; ours could add at most {size}{of}."
