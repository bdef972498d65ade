"""What `amplify` and `calibrate` share: how many people, and which randomizer they run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated

import typer

import shuffledp as sdp

if TYPE_CHECKING:
    from shuffledp.accounting.amplify import ShuffledProfile
    from shuffledp.core.protocol import ShuffleProtocol, Spec
    from shuffledp.core.randomizer import Randomizer

__all__ = [
    "Chosen",
    "DeltaOption",
    "HonestOption",
    "JsonOption",
    "KOption",
    "LowerOption",
    "RandomizerOption",
    "StepsOption",
    "UpperOption",
    "UsersOption",
    "down",
    "method",
    "users",
]

UsersOption = Annotated[str, typer.Option("--n", help="How many people; 1e6 is a million.")]
DeltaOption = Annotated[float, typer.Option(help="The delta of the guarantee.")]
RandomizerOption = Annotated[
    str | None,
    typer.Option(help="A local protocol by name (krr, rr, hadamard, ...). Default: any."),
]
KOption = Annotated[int | None, typer.Option(help="Categories of the randomizer.")]
LowerOption = Annotated[float | None, typer.Option(help="Smallest value, for means.")]
UpperOption = Annotated[float | None, typer.Option(help="Largest value, for means.")]
StepsOption = Annotated[int | None, typer.Option(help="Steps of the grid, for means.")]
HonestOption = Annotated[float, typer.Option(help="The share of people who follow the protocol.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, nothing else.")]

_MOST_DIGITS = 30  # of a number of people: 1e999999999 must not fill the memory


def users(text: str, name: str = "n") -> int:
    """A whole number as people write it.

    >>> users("1e6"), users("2500000"), users("1_000")
    (1000000, 2500000, 1000)
    """
    wanted = f"must be a whole number such as 1e6, of at most {_MOST_DIGITS} digits"
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise sdp.ParameterError(name, text, wanted) from None
    if not value.is_finite() or value.adjusted() >= _MOST_DIGITS or value != int(value):
        raise sdp.ParameterError(name, text, wanted)
    return int(value)


def down(value: float) -> str:
    """Six digits, never more than the value.

    >>> down(9.6870419999)
    '9.68704'
    """
    return str(Context(prec=6, rounding=ROUND_FLOOR).create_decimal_from_float(value))


def method(curve: ShuffledProfile, answer: sdp.Guarantee) -> str:
    """The name of the bound that gave the answer; "local" if shuffling added nothing.

    >>> curve = sdp.profile(epsilon0=1.0, n=1000)
    >>> method(curve, curve.best(1e-6)), method(curve, curve.best(0.0))
    ('clones 2023', 'local')
    """
    names = (bound.name for bound in curve.bounds if bound.proof == answer.proof)
    return next(names, "local")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A registered protocol and its parameters, all but epsilon.

    >>> Chosen.of("krr", {"k": 16, "steps": None}).made(1.0).domain.size
    16
    >>> Chosen.of("krr", {"k": None, "steps": None})
    Traceback (most recent call last):
    shuffledp.core.errors.UnsupportedError: krr needs --k
    """

    name: str
    parameters: dict[str, float]

    @classmethod
    def of(cls, name: str | None, options: Mapping[str, float | None]) -> Chosen | None:
        """What the options describe; None if no randomizer is named."""
        given = {option: value for option, value in options.items() if value is not None}
        if name is None:
            if given:
                raise sdp.UnsupportedError(f"{_flags(given)} needs --randomizer")
            return None
        wanted = _parameters(sdp.protocols.spec(name))
        missing = [option for option in wanted if option not in given]
        if missing:
            raise sdp.UnsupportedError(f"{name} needs {_flags(missing)}")
        unused = [option for option in given if option not in wanted]
        if unused:
            raise sdp.UnsupportedError(f"{name} does not take {_flags(unused)}")
        return cls(name=name, parameters=given)

    def made(self, epsilon0: float) -> Randomizer:
        """The randomizer at this epsilon0."""
        maker = _maker(sdp.protocols.spec(self.name))
        return maker(**self.parameters, epsilon=epsilon0).randomizer


def _maker(spec: Spec) -> Callable[..., ShuffleProtocol]:
    """What makes the randomizer from its epsilon0: there must be a local protocol."""
    if spec.make_local is None:
        raise sdp.UnsupportedError(f"{spec.name} is not local: there is no epsilon0 to amplify")
    return spec.make_local


def _parameters(spec: Spec) -> list[str]:
    """The parameters that say what is asked, not how private or how exact."""
    return [
        name
        for name in inspect.signature(_maker(spec)).parameters
        if name not in ("epsilon", "word_bits")
    ]


def _flags(names: list[str] | dict[str, float]) -> str:
    return ", ".join(f"--{name}" for name in names)
