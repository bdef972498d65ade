"""What a protocol may offer beyond a randomizer and an analyzer: every optional capability, a line each.

The author declares them with the parts, `Parts(device, analyzer, deal=device.deal, ...)`, and whoever needs one asks
`protocol.offers`. Nothing is ever looked for on a device or an analyzer: what is not declared is not there, and the
second sentence of each line says what happens then. docs/howto/add-a-protocol.md has the same table.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Annotated, Any, Protocol, get_type_hints

from shuffledp.core.analyzer import Estimate, Step, Tally, Value
from shuffledp.core.arrays import Codes, Counts, Floats
from shuffledp.core.privacy import Profile
from shuffledp.core.randomizer import MessageCode, WordSource


class Stream(Protocol):
    """Deals the tally of a domain that nobody can list, some codes at a time."""

    def deal_words(self, codes: Codes, times: Counts, source: WordSource) -> Counts:
        """Draw what the messages of times[i] people with each of these codes add to the tally, without their noise."""

    def deal_noise(self, n: int, source: WordSource) -> Counts:
        """Draw what the noise of n people adds to the tally."""


class Sight(Protocol):
    """The chance that a word is found."""

    def find_count(self, probability: float) -> int:
        """Return the smallest count that is found with this probability."""

    def draw_curve(self) -> list[tuple[int, float]]:
        """Return counts, and the probability that a word with that count is found."""


@dataclass(frozen=True, slots=True)
class Line:
    """What a capability offers, and what happens without it."""

    what: str
    without: str = field(kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a protocol offers; None: it does not.

    >>> from shuffledp import protocols
    >>> protocols.krr.make_local(k=4, epsilon=1.0).offers.deal is not None
    True
    """

    deal: Annotated[
        Callable[[Counts, WordSource], Tally] | None,
        Line(
            "the tally of inputs[x] people of each code x at once, exactly",
            without="every device runs: slow on files",
        ),
    ] = None
    stream: Annotated[
        Stream | None,
        Line(
            "the same for domains too large to list, some codes at a time",
            without="every device runs",
        ),
    ] = None
    code: Annotated[
        MessageCode | None,
        Line("messages as bytes, all of one size", without="it is not collected live"),
    ] = None
    blankets: Annotated[
        Callable[[], tuple[Any, ...]] | None,
        Line(
            "what the laws of all inputs have in common", without="read from `pmf` up to 64 inputs"
        ),
    ] = None
    curve: Annotated[
        Callable[[int], tuple[Profile, float] | None] | None,
        Line(
            "the privacy curve of ideal noise, and its distance from ours",
            without="`delta` is evaluated for each epsilon",
        ),
    ] = None
    moved: Annotated[
        Callable[[int, int], tuple[Profile, float] | None] | None,
        Line(
            "the privacy curve of one more value of a person, after others",
            without="several values count as a group",
        ),
    ] = None
    influence: Annotated[
        Callable[[], Fraction | float] | None,
        Line(
            "how far one message can move the answer, in people",
            without="`reach`, or no bound on liars",
        ),
    ] = None
    reach: Annotated[
        Callable[[int, int], Fraction] | None,
        Line(
            "how far so many messages can move the answer of n people",
            without="`influence`, or no bound on liars",
        ),
    ] = None
    offset: Annotated[
        Callable[[], tuple[Fraction, ...]] | None,
        Line("what a person adds to the answer before any message", without="nothing"),
    ] = None
    bias: Annotated[
        Callable[[Counts], Value] | None,
        Line("the exact mean error on a data set", without="the answer is unbiased"),
    ] = None
    bin_errors: Annotated[
        Callable[[Counts, int], Floats] | None,
        Line(
            "the squared error of each bin, by its count among n people",
            without="`variance` and `bias` are searched",
        ),
    ] = None
    foresee: Annotated[
        Callable[[Counts], Estimate] | None,
        Line(
            "the estimate to expect on a data set",
            without="a tally is made up that estimates the truth",
        ),
    ] = None
    predict: Annotated[
        Callable[[int], Sight] | None,
        Line(
            "how many of n people must have a word for it to be found",
            without="it does not look for words",
        ),
    ] = None
    estimate_stepwise: Annotated[
        Callable[[Tally, Step], Estimate] | None,
        Line("estimate, and say how far it has come", without="no progress is shown"),
    ] = None

    def declared(self) -> dict[str, Any]:
        """List the capabilities that are offered, by name."""
        every = ((each.name, getattr(self, each.name)) for each in fields(Capabilities))
        return {name: offered for name, offered in every if offered is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class CentralCapabilities:
    """What a mechanism of the central model offers beyond release and variance; None: it does not.

    >>> from shuffledp import mechanisms
    >>> mechanisms.geometric.make(epsilon=1.0, sensitivity=1).offers.unit
    1.0
    """

    unit: Annotated[
        float | None,
        Line(
            "what one unit is worth, if answers are whole units", without="answers are not rounded"
        ),
    ] = None
    bin_errors: Annotated[
        Callable[[Counts], Floats] | None,
        Line("the squared error of each bin, by its count", without="all bins have `variance`"),
    ] = None
    find_count: Annotated[
        Callable[[float], int] | None,
        Line(
            "the smallest count that is published with a given probability",
            without="every value has an answer",
        ),
    ] = None


def list_capabilities(of: type = Capabilities) -> dict[str, Line]:
    """Return every capability by name.

    >>> [*list_capabilities()][:3]
    ['deal', 'stream', 'code']
    """
    return {
        name: hint.__metadata__[0] for name, hint in get_type_hints(of, include_extras=True).items()
    }
