"""Where noisy counts of k categories come from, in each model: what `learn` needs to know of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from shuffledp.core.arrays import Codes, Counts, Floats
from shuffledp.core.domain import Categories
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.estimate import Estimate, NormalError
from shuffledp.core.privacy import Guarantee
from shuffledp.core.protocol import HONEST, ShuffleProtocol, Spec
from shuffledp.core.randomizer import WordSource
from shuffledp.core.validate import fraction_of_one, positive
from shuffledp.engine.memory import run
from shuffledp.inference._accuracy import Accuracy, EqualNoise
from shuffledp.inference._spread import spread_of
from shuffledp.mechanisms.geometric import Geometric
from shuffledp.numerics.draws import NumpyDraws, deal_tally, is_dealt
from shuffledp.protocols import PROTOCOLS, registered, spec
from shuffledp.protocols.correlated_histogram import CorrelatedHistogram

__all__ = ["MODELS", "Request", "Source", "source"]

MODELS = ("none", "central", "local", "shuffle")

_REFUSED = {
    "zsum_histogram": "its answer is biased for small counts, so there is no unbiased estimate to keep",
    "count_min": "its error is that of a public hash function, and does not vanish with n",
}
_LOCAL = ("krr", "subset_selection", "hadamard")
_SHUFFLED = ("correlated_histogram", "dummies_histogram", "hashed_histogram", *_LOCAL)
_OPTIONS: dict[str, tuple[dict[str, float], ...]] = {
    # The most accurate first: a wider gap costs accuracy and saves messages.
    "correlated_histogram": tuple({"gap": gap} for gap in (0.1, 0.2, 0.3, 0.4, 0.5)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked for."""

    n: int
    k: int
    epsilon: float | None
    delta: float | None
    model: str
    protocol: str | None = None
    honest: float = HONEST
    max_messages: float | None = None

    def private(self) -> float:
        """epsilon, which every model but "none" needs."""
        if self.epsilon is None:
            raise ParameterError("epsilon", None, f"must be given in the {self.model} model")
        return positive("epsilon", self.epsilon)


class Source(Protocol):
    """Counts of k categories, exact or noisy."""

    @property
    def name(self) -> str:
        """The protocol or mechanism."""

    @property
    def guarantee(self) -> Guarantee | None:
        """What is promised; None if nothing is."""

    def accuracy(self, n: int) -> Accuracy:
        """How far off the distribution of n people will be."""

    def release(self, codes: Codes, rng: WordSource) -> Estimate:
        """The counts of these people's categories."""

    def simulate(self, counts: Counts, rng: WordSource) -> Floats:
        """Noisy counts for known exact ones: for planning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Empirical:
    """The exact counts. Nothing is private."""

    k: int

    @property
    def name(self) -> str:
        return "empirical"

    @property
    def guarantee(self) -> None:
        return None

    def accuracy(self, n: int) -> Accuracy:
        return Accuracy(n=n, k=self.k, variance=0.0, spread=1.0)

    def release(self, codes: Codes, rng: WordSource) -> Estimate:
        value: Floats = np.bincount(codes, minlength=self.k).astype(np.float64)
        error = NormalError(stderr=np.zeros(self.k))
        return Estimate(value=value, error=error, limits=(0.0, float(len(codes))))

    def simulate(self, counts: Counts, rng: WordSource) -> Floats:
        return counts.astype(np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Central:
    """A trusted curator adds discrete Laplace noise to every count."""

    mechanism: Geometric

    @property
    def name(self) -> str:
        return self.mechanism.name

    @property
    def guarantee(self) -> Guarantee:
        return self.mechanism.guarantee

    def accuracy(self, n: int) -> Accuracy:
        k = self.mechanism.k
        noise = EqualNoise(k=k, r=1.0, p=float(np.exp(-float(self.mechanism.noise.rate))))
        return Accuracy(n=n, k=k, variance=k * self.mechanism.variance(), noise=noise)

    def release(self, codes: Codes, rng: WordSource) -> Estimate:
        return self.mechanism.release(np.bincount(codes, minlength=self.mechanism.k), rng)

    def simulate(self, counts: Counts, rng: WordSource) -> Floats:
        return np.asarray(self.mechanism.release(counts, rng).value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """Everybody's device sends messages, shuffled or not."""

    protocol: ShuffleProtocol

    @property
    def name(self) -> str:
        return self.protocol.name

    @property
    def guarantee(self) -> Guarantee:
        return self.protocol.guarantee

    def accuracy(self, n: int) -> Accuracy:
        randomizer = self.protocol.randomizer
        k = randomizer.domain.size
        noise = None
        if isinstance(randomizer, CorrelatedHistogram):
            shares = randomizer.noise
            noise = EqualNoise(
                k=k, r=float(n * shares.share), p=shares.p, distance=shares.distance(n, 2 * k)
            )
        return Accuracy(
            n=n, k=k, variance=self.variance(n), spread=spread_of(self.protocol), noise=noise
        )

    def variance(self, n: int) -> float:
        """The variance of all bins together: the largest of all data sets of n people.

        It is a sum over people, so it is largest if everybody has the category whose messages vary most.
        That is category 0: in most protocols all are alike, and in Hadamard response no block is larger
        than the first.
        """
        inputs = np.zeros(self.protocol.randomizer.domain.size, dtype=np.int64)
        inputs[0] = n
        return float(np.sum(self.protocol.analyzer.variance(inputs)))

    def release(self, codes: Codes, rng: WordSource) -> Estimate:
        return run(self.protocol, codes, rng)

    def simulate(self, counts: Counts, rng: WordSource) -> Floats:
        randomizer = self.protocol.randomizer
        if not is_dealt(randomizer):
            raise UnsupportedError(f"{self.name} has no simulation of its tally")
        if isinstance(randomizer, CorrelatedHistogram):
            # The flood has as many of each sign, so the estimate is the same without it.
            noise = randomizer.noise.simulate(int(counts.sum()), NumpyDraws(rng))
            return (counts + noise[1::2] - noise[::2]).astype(np.float64)
        tally = deal_tally(randomizer, counts, rng)
        return np.asarray(self.protocol.analyzer.estimate(tally).value)


def source(request: Request, only: Callable[[ShuffleProtocol], bool] = lambda _: True) -> Source:
    """The source of the model: the one named, or the best.

    The best has the smallest variance over all bins, for the data set where it is largest, among those
    that exist at these parameters, send at most `max_messages` messages on average and pass `only`.
    """
    if request.model == "none":
        _only_name(request, "empirical")
        return Empirical(k=Categories(k=request.k).k)
    if request.model == "central":
        _only_name(request, "geometric")
        return Central(mechanism=Geometric(epsilon=request.private(), sensitivity=2, k=request.k))
    if request.model not in MODELS:
        raise ParameterError("model", request.model, f"must be one of {', '.join(MODELS)}")
    return _best(request, only)


def _only_name(request: Request, name: str) -> None:
    if request.protocol not in (None, name):
        raise ParameterError(
            "protocol", request.protocol, f"must be {name!r} or None in the model {request.model!r}"
        )


def _best(request: Request, only: Callable[[ShuffleProtocol], bool]) -> Reported:
    found: list[tuple[float, Reported]] = []
    reasons: list[str] = []
    for name in _names(request):
        made = _affordable(request, name, reasons)
        if made is not None and only(made.protocol):
            found.append((made.variance(request.n), made))
        elif made is not None:
            reasons.append(f"{name}: its tally cannot be simulated")
    if not found:
        raise UnsupportedError("no protocol fits: " + "; ".join(reasons))
    return min(found, key=lambda pair: pair[0])[1]


def _names(request: Request) -> tuple[str, ...]:
    if request.protocol is not None:
        _check(request.protocol, request.model)
        return (request.protocol,)
    others = (each.name for each in registered()[len(PROTOCOLS) :] if _serves(each, request.model))
    return (*(_LOCAL if request.model == "local" else _SHUFFLED), *others)


def _affordable(request: Request, name: str, reasons: list[str]) -> Reported | None:
    """The protocol with the first of its options that fits, or None and a reason more."""
    options = _OPTIONS.get(name, ({},)) if request.model == "shuffle" else ({},)
    for each in options:
        try:
            made = _made(request, name, each)
        except UnsupportedError as error:
            reasons.append(f"{name}: {error}")
            continue
        messages = made.cost.messages_mean
        if request.max_messages is None or messages <= request.max_messages:
            return Reported(protocol=made)
        reasons.append(f"{name}: {messages:.3g} messages per user")
    return None


def _check(name: str, model: str) -> None:
    if name in _REFUSED:
        raise UnsupportedError(f"{name} cannot learn a distribution: {_REFUSED[name]}")
    able = [
        each.name for each in registered() if each.name not in _REFUSED and _serves(each, model)
    ]
    if name not in able:
        raise ParameterError(
            "protocol", name, f"must be one of {', '.join(able)} in the model {model!r}"
        )


def _serves(candidate: Spec, model: str) -> bool:
    maker = candidate.make_local if model == "local" else candidate.make
    return candidate.task == "histogram" and maker is not None


def _made(request: Request, name: str, options: Mapping[str, Any]) -> ShuffleProtocol:
    epsilon, chosen = request.private(), spec(name)
    if request.model == "local":
        assert chosen.make_local is not None
        return chosen.make_local(k=request.k, epsilon=epsilon)
    assert chosen.make is not None
    if request.delta is None:
        raise ParameterError("delta", None, "must be given in the shuffle model")
    return chosen.make(
        n=request.n,
        k=request.k,
        epsilon=epsilon,
        delta=fraction_of_one("delta", request.delta),
        honest=request.honest,
        **options,
    )
