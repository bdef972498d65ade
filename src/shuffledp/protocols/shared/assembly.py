"""From a device and an analyzer to a protocol: all that an author need not write.

`@local` and `@shuffle` decorate a function that returns `Parts`. What they make of it is a maker: it
checks n, epsilon, delta and honest, records the arguments (so that name and parameters rebuild the
protocol), and derives guarantee, accountant and local floor. `shuffled(make_local)` is the maker of the
same protocol behind a shuffler, at the largest epsilon0 that its own accountant allows.

Devices and their accountants know laws of uniform words. What the generator's words add to delta
(`accounting.base`) is set aside before a protocol is built, and is part of every delta above 0.

    @local(name="krr", task="histogram", title="k-ary randomized response", reference="...")
    def make_local(*, k: int, epsilon: float, word_bits: int = 64) -> Parts:
        device = KRR(k=k, epsilon0=epsilon, word_bits=word_bits)
        return Parts(device, FrequencyAnalyzer(oracle=device))

    make = shuffled(make_local)
    SPEC = register(make_local, make)
"""

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import cache, partial, update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec

import numpy as np

from shuffledp.accounting.base import SMALLEST_DELTA, Computational, bound_generator
from shuffledp.core.domain import Categories
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.privacy import Guarantee, Model, round_up
from shuffledp.core.protocol import (
    HONEST,
    Accountant,
    Calibration,
    Cost,
    Crowd,
    Hints,
    NoiseAccountant,
    Parts,
    Promise,
    ShuffleProtocol,
    Spec,
    Unconditional,
)
from shuffledp.core.randomizer import NumberCode, tape_width
from shuffledp.core.validate import fraction_of_one
from shuffledp.numerics.rounding import find_largest_above, float_above, float_below

if TYPE_CHECKING:  # the bounds of amplification are loaded by those who need them
    from shuffledp.accounting.amplify import ShuffledProfile
    from shuffledp.accounting.binary import BinaryResponse

P = ParamSpec("P")


class OfCategories(ABC):
    """The base of devices of people who hold one of k categories."""

    __slots__ = ()
    k: int

    @property
    def domain(self) -> Categories:
        """The categories."""
        return Categories(k=self.k)


class OneNumber(ABC):
    """The base of devices that send one number 0 .. alphabet - 1, which determines their cost and bytes."""

    __slots__ = ()

    @property
    @abstractmethod
    def alphabet(self) -> int:
        """How many different messages there are."""

    @property
    def cost(self) -> Cost:
        return Cost.fixed((self.alphabet - 1).bit_length())

    @property
    def code(self) -> NumberCode:
        return NumberCode.of(self.alphabet)


class LocalMaker(Generic[P]):
    """Makes the protocol of the local model: its guarantee is what the device's own law certifies."""

    def __init__(self, about: Spec, build: Callable[P, Parts]) -> None:
        self.about = about
        self._build = build
        self._signature = inspect.signature(build)
        self.parameters = _list_needed(self._signature)
        self.options = {
            name: needed for name, needed in self.parameters.items() if name != "epsilon"
        }
        update_wrapper(self, build)

    def build(self, crowd: Crowd, promise: Promise, **own: Any) -> ShuffleProtocol:
        """Return the protocol that promises epsilon, whoever else takes part."""
        return self(epsilon=promise.epsilon, **own)  # type: ignore[arg-type, call-arg]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> ShuffleProtocol:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = {name: _make_plain(value) for name, value in bound.arguments.items()}
        parts = self._build(**given)  # type: ignore[call-arg]
        guarantee = _floor(self.about, parts)
        return ShuffleProtocol(
            name=self.about.name,
            parameters=_record(given, parts),
            task=parts.task or self.about.task,
            randomizer=parts.device,
            analyzer=parts.analyzer,
            guarantee=guarantee,
            accountant=Unconditional(always=guarantee),
            values=parts.values,
            local_floor=guarantee,
            offers=parts.offers,
        )

    def shuffle(self, build: Callable[Concatenate[Crowd, Promise, ...], Parts]) -> "ShuffleMaker":
        """Decorate the maker of the same protocol behind a shuffler, where `shuffled` is not enough."""
        return ShuffleMaker(self.about, build, pure=False)


class ShuffleMaker:
    """Makes the protocol of the shuffle model: n, epsilon, delta and honest are checked here, once."""

    def __init__(self, about: Spec, build: Callable[..., Parts], *, pure: bool) -> None:
        self.about = about
        self._build = build
        self._pure = pure
        own = list(inspect.signature(build).parameters.values())[2:]
        self._own = inspect.Signature(own)
        self.options = _list_needed(self._own)
        update_wrapper(self, build)
        self.__signature__ = self._public_signature(own)
        self.parameters = _list_needed(self.__signature__)

    def __call__(self, **arguments: Any) -> ShuffleProtocol:
        given = _bind(self.__signature__, arguments)
        crowd = Crowd(n=given["n"], honest=given["honest"])
        promise = Promise(epsilon=given["epsilon"], delta=given.get("delta", 0.0))
        return self._assemble(crowd, promise, {name: given[name] for name in self.options}, given)

    def build(self, crowd: Crowd, promise: Promise, **own: Any) -> ShuffleProtocol:
        """Return the protocol for these people; a pure one keeps more than a promise with a delta."""
        given = _bind(self._own, own)
        first = {"n": crowd.n, "epsilon": promise.epsilon, "delta": promise.delta}
        stated = {**first, **given, "honest": crowd.honest}
        if self._pure:
            promise = replace(promise, delta=0.0)
            del stated["delta"]
        return self._assemble(crowd, promise, given, stated)

    def _assemble(
        self, crowd: Crowd, promise: Promise, own: dict[str, Any], stated: Mapping[str, Any]
    ) -> ShuffleProtocol:
        if not self._pure:
            fraction_of_one("delta", promise.delta)
        if "calibration" in own:
            own = {**own, "calibration": Calibration.read(own["calibration"])}
        parts, left, words = _set_aside(
            lambda rest: self._build(crowd, rest, **own), crowd, promise
        )
        ideal, reached = _account(parts, crowd, promise, left)
        accountant = Computational(ideal=ideal, words_per_input=words, crowd=crowd)
        guarantee = accountant.weaken(reached, crowd.trusted)
        if reached.delta == left.delta:  # nothing is left over: state the number that was asked for
            guarantee = replace(guarantee, delta=promise.delta)
        alone = math.isfinite(parts.device.epsilon0)
        return ShuffleProtocol(
            name=self.about.name,
            parameters=_record(stated, parts),
            task=parts.task or self.about.task,
            randomizer=parts.device,
            analyzer=parts.analyzer,
            guarantee=guarantee,
            accountant=accountant,
            users=crowd.n,
            values=parts.values,
            local_floor=_floor(self.about, parts) if alone else None,
            offers=parts.offers,
        )

    def _public_signature(self, own: list[inspect.Parameter]) -> inspect.Signature:
        def keyword(name: str, annotation: str, default: Any) -> inspect.Parameter:
            kind = inspect.Parameter.KEYWORD_ONLY
            return inspect.Parameter(name, kind, default=default, annotation=annotation)

        needed = inspect.Parameter.empty
        first = [keyword("n", "int", needed), keyword("epsilon", "float", needed)]
        if not self._pure:
            first.append(keyword("delta", "float", needed))
        return inspect.Signature(
            [*first, *own, keyword("honest", "float", HONEST)],
            return_annotation="ShuffleProtocol",
        )


def _list_needed(signature: inspect.Signature) -> dict[str, bool]:
    """Return the parameters by name, and whether each of them must be given."""
    needed = inspect.Parameter.empty
    return {name: each.default is needed for name, each in signature.parameters.items()}


def _bind(signature: inspect.Signature, given: Mapping[str, Any]) -> dict[str, Any]:
    bound = signature.bind(**given)
    bound.apply_defaults()
    return {name: _make_plain(value) for name, value in bound.arguments.items()}


def local(
    *, name: str, task: str, title: str, reference: str
) -> Callable[[Callable[P, Parts]], LocalMaker[P]]:
    """Decorate a function of epsilon and the protocol's own parameters."""
    about = Spec(name=name, title=title, task=task, reference=reference)
    return lambda build: LocalMaker(about, build)


def shuffle(
    *, name: str, task: str, title: str, reference: str, pure: bool = False
) -> Callable[[Callable[Concatenate[Crowd, Promise, ...], Parts]], ShuffleMaker]:
    """Decorate a function of crowd, promise and the protocol's own parameters.

    `pure` makers have no delta: what they promise holds with delta = 0.
    """
    about = Spec(name=name, title=title, task=task, reference=reference)
    return lambda build: ShuffleMaker(about, build, pure=pure)


def shuffled(
    make_local: LocalMaker[P],
    shape: Callable[..., int] | None = None,
    draw: Mapping[str, Callable[[], Any]] | None = None,
) -> ShuffleMaker:
    """Return the maker of a local protocol behind a shuffler.

    `shape` is for devices whose alphabet changes with epsilon0: `shape(epsilon0, **own)` says how (the
    number of blocks, the size of the sets) for the protocol's own parameters. `draw` is for parameters that
    are drawn unless given: once, whatever epsilon0 is.
    """
    parameters = inspect.signature(make_local).parameters.values()
    own = [each for each in parameters if each.name != "epsilon"]

    def build(crowd: Crowd, promise: Promise, **given: Any) -> Parts:
        at = None if shape is None else partial(shape, **given)
        drawn = {name: one() for name, one in (draw or {}).items() if given[name] is None}
        parts = fit(make_local, crowd, promise, shape=at, **{**given, **drawn})
        return replace(parts, resolved={**parts.resolved, **drawn})

    build.__module__ = make_local.__module__
    build.__name__ = build.__qualname__ = "make"
    about = make_local.about
    build.__doc__ = f"{about.title}, shuffled: the largest epsilon0 that n users allow."
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    first = [inspect.Parameter(name, kind) for name in ("crowd", "promise")]
    build.__signature__ = inspect.Signature([*first, *own])  # type: ignore[attr-defined]
    return ShuffleMaker(about, build, pure=False)


def register(*makers: LocalMaker[Any] | ShuffleMaker, hints: Hints | None = None) -> Spec:
    """Return the line of the registry for a protocol's makers: one of the local, one of the shuffle model, or both.

    `hints` are for the planner. A protocol without hints is always tried.

    >>> from shuffledp.protocols import krr
    >>> register(krr.make_local, krr.make).title
    'k-ary randomized response'
    """
    made = makers[0].about if hints is None else replace(makers[0].about, hints=hints)
    for each in makers:
        local_model = isinstance(each, LocalMaker)
        made = replace(made, make_local=each) if local_model else replace(made, make=each)
    return made


def refuse_epsilon0(epsilon0: float, word_bits: int, **shape: int) -> ParameterError:
    """Return the error of a device whose words are too short for a message that says so little of the value.

    >>> str(refuse_epsilon0(0.1, 2, k=4))
    'epsilon0=0.1 must be larger: with k=4 and words of 2 bits nothing of the value would be left'
    """
    parts = [*(f"{name}={value}" for name, value in shape.items()), f"words of {word_bits} bits"]
    requirement = f"must be larger: with {' and '.join(parts)} nothing of the value would be left"
    return ParameterError("epsilon0", epsilon0, requirement)


def _make_plain(value: Any) -> Any:
    """Return Python's own number for one of NumPy's, which could overflow, and which JSON cannot write."""
    return value.item() if isinstance(value, np.generic) else value


def _record(given: Mapping[str, Any], parts: Parts) -> dict[str, Any]:
    stated = {**given, **parts.resolved}
    return {name: each.value if isinstance(each, Enum) else each for name, each in stated.items()}


def _floor(about: Spec, parts: Parts) -> Guarantee:
    return Guarantee(
        epsilon=_add_values(parts),
        delta=0.0,
        model=Model.LOCAL,
        proof=f"the likelihood ratio of the exact law of {about.name}",
    )


def _add_values(parts: Parts) -> float:
    """Return the local epsilon of all values of a person together."""
    if parts.values == 1:
        return parts.device.epsilon0
    return float_above(parts.values * Fraction(parts.device.epsilon0))


def _count_words(parts: Parts) -> int:
    """Return how many words a person takes; several values have blocks of the cipher of their own."""
    width = tape_width(parts.device)
    return width if parts.values == 1 else 2 * parts.values * -(-width // 2)


def _account(
    parts: Parts, crowd: Crowd, promise: Promise, left: Promise
) -> tuple[Accountant, Guarantee]:
    """Return the accountant of uniform words and their guarantee, if it keeps what is `left` of the promise."""
    ideal = parts.accountant
    if ideal is None:
        ideal = NoiseAccountant(device=parts.device, epsilon=left.epsilon, curve=parts.curve)  # type: ignore[arg-type]
    reached = ideal.guarantee(crowd.trusted)
    if reached.epsilon > left.epsilon or reached.delta > left.delta:
        raise UnsupportedError(
            f"epsilon={promise.epsilon} and delta={promise.delta} do not hold with "
            f"{crowd.trusted} honest users: delta would be {reached.delta:.3g}"
        )
    return ideal, reached


def _set_aside(
    build: Callable[[Promise], Parts], crowd: Crowd, promise: Promise
) -> tuple[Parts, Promise, int]:
    """Return the parts for what the generator leaves of delta, that promise, and how many words a person takes."""
    if promise.delta == 0:  # a pure promise has nothing to leave
        parts = build(promise)
        return parts, promise, _count_words(parts)
    wanted = Fraction(promise.delta)
    # Where it costs nothing that is seen, so many words are counted at first that most devices are made once.
    ample = bound_generator(crowd.n, _AMPLE, promise.epsilon) <= wanted * _UNSEEN
    words = _AMPLE if ample else 1  # a device reads at least one
    while True:
        added = bound_generator(crowd.n, words, promise.epsilon)
        if 2 * added > wanted and promise.epsilon > _HUGE:
            # The generator's term grows with e^epsilon, and a smaller epsilon keeps the promise, too.
            promise = replace(promise, epsilon=_HUGE)
            continue
        if 2 * added > wanted:
            raise UnsupportedError(
                f"delta={promise.delta} must be >= {round_up(2 * float_above(added), 2)}, twice what the words of "
                f"{crowd.n} people add"
            )
        rest = replace(promise, delta=float_below(wanted - added))
        parts = build(rest)
        words = _count_words(parts)
        if bound_generator(crowd.n, words, promise.epsilon) <= wanted - Fraction(rest.delta):
            return parts, rest, words


@dataclass(frozen=True, slots=True, kw_only=True)
class Amplified:
    """The accountant of one shuffled message per user: amplification at a fixed delta.

    `stated` is what the calibration promised, for the number of honest users that it counted on.
    """

    protocol: ShuffleProtocol
    stated: Guarantee

    def guarantee(self, honest: int) -> Guarantee:
        if honest == self.stated.honest:
            return self.stated
        return _curve(self.protocol, honest).best(self.stated.delta)

    def delta(self, honest: int, epsilon: float) -> float:
        return min(1.0, _curve(self.protocol, honest).delta(epsilon))


def fit(
    make_local: LocalMaker[Any],
    crowd: Crowd,
    promise: Promise,
    *,
    shape: Callable[[float], int] | None = None,
    **own: Any,
) -> Parts:
    """Return the local protocol at the largest epsilon0 whose shuffled messages keep the promise.

    With a `shape` that changes, the safe epsilon0 can be several intervals, one for each shape.
    """
    from shuffledp.accounting.amplify import calibrate
    from shuffledp.accounting.binary import BinaryResponse

    users, epsilon, delta = crowd.trusted, promise.epsilon, promise.delta

    @cache
    def at(epsilon0: float) -> ShuffleProtocol:
        return make_local(epsilon=epsilon0, **own)

    # What holds for every local randomizer holds for this one.
    least = calibrate(n=users, epsilon=epsilon, delta=delta, honest=1)

    @cache
    def reach(epsilon0: float) -> tuple[float, str]:
        curve = _curve(at(epsilon0), users)
        return _find_best(curve if epsilon0 <= least else _keep_own(curve), epsilon)

    def spare(epsilon0: float) -> float:
        return math.log(delta / max(reach(epsilon0)[0], SMALLEST_DELTA))

    def response(epsilon0: float) -> BinaryResponse | None:
        curve = _curve(at(epsilon0), users).bounds[0].curve
        return curve if isinstance(curve, BinaryResponse) else None

    epsilon0 = _largest_of_bits(spare, least, response, epsilon, delta) or _find_largest(
        spare, least
    )
    if shape is not None:
        epsilon0 = _beyond(spare, epsilon0, shape)
    return _certify(at(epsilon0), crowd, promise, reach(epsilon0))


def certify(protocol: ShuffleProtocol, crowd: Crowd, promise: Promise) -> Parts:
    """Return a local protocol with the guarantee of its shuffled messages, checked for its exact law."""
    curve = _curve(protocol, crowd.trusted)
    return _certify(protocol, crowd, promise, _find_best(curve, promise.epsilon))


def _certify(
    protocol: ShuffleProtocol, crowd: Crowd, promise: Promise, reached: tuple[float, str]
) -> Parts:
    """Return the local protocol with the guarantee that `_find_best` reached; refuse one that is too weak."""
    delta, proof = reached
    stated = Guarantee(
        epsilon=promise.epsilon,
        delta=max(delta, promise.delta),
        model=Model.SHUFFLE,
        proof=proof,
        honest=crowd.trusted,
    )
    return Parts(
        protocol.randomizer,
        protocol.analyzer,
        accountant=Amplified(protocol=protocol, stated=stated),
        task=protocol.task,
        **protocol.offers.declared(),
    )


def _find_best(curve: "ShuffledProfile", epsilon: float) -> tuple[float, str]:
    """Return the best delta at epsilon, and its proof."""
    return min((bound.curve.delta(epsilon), bound.proof) for bound in curve.bounds)


def _keep_own(curve: "ShuffledProfile") -> "ShuffledProfile":
    """Return the bounds from the randomizer's own law: the generic ones add nothing above the `least` epsilon0."""
    own = tuple(bound for bound in curve.bounds if not bound.name.startswith("clones"))
    return replace(curve, bounds=own) if own else curve


def _curve(protocol: ShuffleProtocol, honest: int) -> "ShuffledProfile":
    from shuffledp.accounting.amplify import profile

    curve = profile(randomizer=protocol, n=honest, honest=1)
    binary = tuple(bound for bound in curve.bounds if bound.name == "binary")
    # Where the exact accountant of a bit applies, the others cost time and give nothing more.
    return replace(curve, bounds=binary) if binary else curve


def _find_largest(spare: Callable[[float], float], least: float) -> float:
    """Find nearly the largest safe epsilon0 from `least` on, which is safe."""
    return find_largest_above(
        lambda epsilon0: 1.0 if epsilon0 <= least else spare(epsilon0),
        end=_LARGEST_EPSILON0,
        guess=least + 0.1,
        tolerance=_TOLERANCE,
        floor=least,
    )


def _largest_of_bits(
    spare: Callable[[float], float],
    least: float,
    response: "Callable[[float], BinaryResponse | None]",
    epsilon: float,
    delta: float,
) -> float | None:
    """Return the same for binary randomized response, whose bounds are costly: its worst data sets say where to look.

    None if this is not one, or if nothing safe was found soon.
    """
    from shuffledp.accounting.binary import gaussian_epsilon0

    first = response(least)
    if first is None:
        return None
    epsilon0 = max(gaussian_epsilon0(n=first.n, epsilon=epsilon, delta=delta), least)
    for _ in range(_TRIES):
        here = response(epsilon0)
        if here is None:
            return None
        further = here.improve_epsilon0(epsilon, delta)
        if spare(epsilon0) > 0 and further <= epsilon0 * (1 + _TOLERANCE):
            return epsilon0
        epsilon0 = max(further * (1 - _TOLERANCE / 4), least)
    return None


def _beyond(
    spare: Callable[[float], float], epsilon0: float, shape: Callable[[float], int]
) -> float:
    """Look above epsilon0, where the shape changes and the messages may become private again."""
    start, failures = epsilon0, 0
    for step in range(_STEPS):
        low, high = start + step * _STEP, start + (step + 1) * _STEP
        if shape(low) == shape(high):
            continue
        candidate = _first_of(shape, low, high)
        if spare(candidate) > 0:
            epsilon0, failures = max(epsilon0, _find_largest(spare, candidate)), 0
            continue
        failures += 1
        if failures == _FAILURES:
            break
    return epsilon0


def _first_of(shape: Callable[[float], int], low: float, high: float) -> float:
    """Find about the smallest epsilon0 from low to high that has the shape of `high`: the most private one."""
    wanted = shape(high)
    for _ in range(8):
        middle = (low + high) / 2
        low, high = (low, middle) if shape(middle) == wanted else (middle, high)
    return high


_LARGEST_EPSILON0 = 60.0
_HUGE = 20.0  # the noise of any larger epsilon is as good as none
_AMPLE, _UNSEEN = 1024, Fraction(1, 10**9)  # words of a person, and a part of delta
_TOLERANCE = 1e-4
_TRIES = 6
_STEP, _STEPS = 0.02, 50  # shapes change when e^epsilon0 doubles, or more often
_FAILURES = 5  # in a row: with ever less noise it will not get better
