r"""Answers among a server's messages: everybody sends one bin, and the servers add what the crowd cannot.

A device sends the category, the yes or no, the cell, or the point of a coarse grid that its number was rounded to at random:
as it is, or by k-ary randomized response (the floor). The shuffler adds L + Z_b messages to each bin b and the analyzer as many
to its tally, Z of `numerics.tabulated`; both are subtracted on average. With N_b messages of n people, p and q those of
randomized response (1 and 0 without), S_b the sum of both Z,

    count_b = (N_b - 2 L - n q) / (p - q)                                          (unbiased)
    variance = (c_b p (1 - p) + (n - c_b) q (1 - q) + 2 Var[Z]) / (p - q)^2         (exact)

A report that answers one random question of T sends each with probability 1 / T: p and q become p / T and q / T.

Numbers: mean = mid + sum_j (v_j - mid) count_j / n over the points v_j of the grid, mid its middle, which halves the noise.
It is unbiased and may leave the range. Quantiles and their like: the counts of cells, as the leaves of a tree of one level.
The guarantee (`accounting.server_noise`) is that of either server's noise
alone, and counts on nobody else's honesty.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from shuffledp.accounting.server_noise import AmongDummies, Moved
from shuffledp.core.analyzer import Estimate, Interval, Tally, Value, message_tally
from shuffledp.core.arrays import Codes, Counts, Floats, Words
from shuffledp.core.capabilities import Capabilities
from shuffledp.core.domain import Bits, Categories, Cells, Domain, Integers, Reals
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.privacy import Guarantee, Model
from shuffledp.core.protocol import ShuffleProtocol, Spec, Unconditional
from shuffledp.core.randomizer import Law, Message, Messages, Shuffled, WordSource
from shuffledp.core.task import say_of
from shuffledp.core.validate import level as valid_level
from shuffledp.core.validate import whole
from shuffledp.numerics.intervals import TwoBinomialsError
from shuffledp.numerics.intervals.binomial import bound_deviation
from shuffledp.numerics.leaves import TASKS as ABOUT_CELLS
from shuffledp.numerics.leaves import LeafQuestion, read_question
from shuffledp.numerics.tabulated import CutLaplace, CutLaplaceSum
from shuffledp.numerics.tree_noise import AddedNoise, BinNoise, IndependentLevels, TreeNoise
from shuffledp.protocols.krr import KRR
from shuffledp.protocols.one_question import SAMPLED, Sampled
from shuffledp.protocols.shared.assembly import OneNumber
from shuffledp.protocols.tree import TreeAnalyzer

NAME = "server_noise"
"""What a document calls it."""
SERVERS = 2
"""The shuffler and the analyzer add noise, each enough by itself."""
_COUNTED = Sampled()
_PROOF = "the exact law of the messages that each server adds, by itself"


@dataclass(frozen=True, slots=True, kw_only=True)
class OneBin(OneNumber):
    """The bin of the value as it is, or by k-ary randomized response.

    >>> OneBin(domain=Categories(k=3)).pmf(2), OneBin(domain=Categories(k=3)).words_per_input
    ({(2,): Fraction(1, 1)}, 0)
    >>> OneBin(domain=Bits(), response=KRR(k=2, epsilon0=1.0, word_bits=4), word_bits=4).pmf(0)
    {(0,): Fraction(11, 16), (1,): Fraction(5, 16)}
    """

    domain: Domain
    response: KRR | None = None
    """None: there is no floor."""
    word_bits: int = 64

    def __post_init__(self) -> None:
        whole("word_bits", self.word_bits, at_least=1, at_most=64)
        own = self.response
        if own is not None and (own.k, own.word_bits) != (self.domain.size, self.word_bits):
            raise ParameterError(
                "response", own, f"must have {self.domain.size} bins and as many bits"
            )

    @property
    def alphabet(self) -> int:
        return self.domain.size

    @property
    def epsilon0(self) -> float:
        return math.inf if self.response is None else self.response.epsilon0

    @property
    def words_per_input(self) -> int:
        return 0 if self.response is None else 1

    @property
    def p(self) -> Fraction:
        """The exact probability of the person's own bin."""
        return Fraction(1) if self.response is None else self.response.p

    @property
    def q(self) -> Fraction:
        """The exact probability of a given other bin."""
        return Fraction(0) if self.response is None else self.response.q

    def encode(self, inputs: Codes, words: Words) -> Messages:
        if self.response is None:
            return Messages.one_each(inputs.astype(np.int64))
        return self.response.encode(inputs, words)

    def pmf(self, x: int) -> Law:
        return {(x,): Fraction(1)} if self.response is None else self.response.pmf(x)

    def deal(self, inputs: Counts, source: WordSource) -> Counts:
        """Return the tally of inputs[x] people of each code, before any server adds to it."""
        return inputs.copy() if self.response is None else self.response.deal(inputs, source).counts


@dataclass(frozen=True, slots=True, kw_only=True)
class AmongMessages:
    """Removes what the servers added on average, and the bias of randomized response.

    A tally has the messages of all people and what both servers added; `users` are the people, as the shuffler counted.

    >>> law = CutLaplace(rate=0.5, most=36)
    >>> bins = AmongMessages(device=OneBin(domain=Categories(k=2)), noise=law)
    >>> found = bins.estimate(Tally(counts=np.array([72 + 30, 72 + 49]), users=80))
    >>> found.value, np.round(found.stderr, 2), found.interval(0.95).low
    (array([30., 49.]), array([3.96, 3.96]), array([22., 41.]))
    """

    device: OneBin
    noise: CutLaplace
    kind: Sampled = _COUNTED
    """Whether numbers are added up, and divided by how many they are; otherwise people are counted."""
    paired: bool = False
    """Whether two bins have one draw: their total is fixed."""
    parts: int = 1
    """How many questions there are of which a report answers one at random."""

    def __post_init__(self) -> None:
        whole("parts", self.parts, at_least=1)
        if self.paired and self.device.alphabet != 2:
            raise ParameterError("paired", self.paired, "must be two bins")

    @property
    def added(self) -> CutLaplaceSum:
        """What both servers add to a bin, less its mean."""
        return CutLaplaceSum(noise=self.noise, times=SERVERS)

    @property
    def p(self) -> Fraction:
        """The probability that a report has the person's own bin."""
        return self.device.p / self.parts

    @property
    def q(self) -> Fraction:
        """The probability that a report has a given other bin."""
        return self.device.q / self.parts

    @property
    def gap(self) -> Fraction:
        """What is left of a bin's people on average: p - q."""
        return self.p - self.q

    @property
    def _counts_yes(self) -> bool:
        return isinstance(self.device.domain, Bits)

    @property
    def values(self) -> Floats:
        """The points of a grid of numbers."""
        points: Floats = np.asarray(
            self.device.domain.values(np.arange(self.device.alphabet)), dtype=np.float64
        )
        return points

    @property
    def _weights(self) -> Floats:
        """The weights of the bins in a mean, relative to the middle of the range."""
        values = self.values
        weights: Floats = values - (values[0] + values[-1]) / 2
        return weights

    def influence(self) -> Fraction:
        """Return by how many people one message can move a bin, or the answer: 1 / (p - q)."""
        return 1 / self.gap

    def tally(self, shuffled: Shuffled) -> Tally:
        return message_tally(shuffled, self.device.alphabet)

    def draw(self, source: WordSource) -> Counts:
        """Return what one server adds: the law of `live.wire.noise`."""
        if not self.paired:
            return self.noise.most + self.noise.draw(self.device.alphabet, source)
        z = int(self.noise.draw(1, source)[0])
        return self.noise.most + np.array([-z, z])

    def deal(self, inputs: Counts, source: WordSource) -> Tally:
        """Return the tally of inputs[x] people with what both servers add; everybody answers every question."""
        if self.parts > 1:
            raise UnsupportedError("people who answer one question of several are not dealt")
        counts = self.device.deal(inputs, source)
        for _ in range(SERVERS):
            counts = counts + self.draw(source)
        return Tally(counts=counts, users=int(inputs.sum()))

    def observe(self, tally: Tally) -> Counts:
        """Return the tally less what the servers add on average."""
        sent: Counts = tally.counts - SERVERS * self.noise.most
        return sent

    def count_people(self, tally: Tally) -> Floats:
        """Return how many people are in each bin, without bias."""
        expected = np.float64(tally.people() * self.q)
        people: Floats = (self.observe(tally) - expected) / np.float64(self.gap)
        return people

    def estimate(self, tally: Tally) -> Estimate:
        n, counts = tally.people(), self.count_people(tally)
        if self.kind.adds:
            return self._estimate_number(n, counts)
        seen, value, domain = self.observe(tally), counts, self.device.domain
        if self._counts_yes:
            yes, many = float(counts[1]), int(seen[1])
            error = self._error(n, many, yes)
            return Estimate(value=yes, error=error, limits=(0.0, float(n)))
        error = self._error(n, seen, value)
        labels = domain.labels if len(value) == domain.size else None  # or it is of some bins only
        return Estimate(value=value, error=error, limits=(0.0, float(n)), labels=labels)

    def _error(self, n: int, seen: Counts | int, value: Value) -> TwoBinomialsError:
        return TwoBinomialsError(
            observed=seen,
            n=n,
            p=float(self.p),
            q=float(self.q),
            value=value,
            added=self.added,
            apart=True,
        )

    def _estimate_number(self, n: int, counts: Floats) -> Estimate:
        values = self.values
        middle = (values[0] + values[-1]) / 2
        scale = 1 if self.kind.average else n
        mean = middle + float(self._weights @ counts) / n
        return Estimate(
            value=scale * mean,
            error=GridError(analyzer=self, counts=np.clip(counts, 0.0, n), n=n),
            limits=(scale * float(values[0]), scale * float(values[-1])),
        )

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        """Return what one message adds to the counts of the bins."""
        assert isinstance(message, int)
        return tuple(Fraction(int(message == j)) / self.gap for j in range(self.device.alphabet))

    def variance(self, inputs: Counts) -> Value:
        """Compute the variance: exactly, except that rounding to the grid is counted at its largest."""
        n, own = float(inputs.sum()), inputs.astype(np.float64)
        p, q, gap = float(self.p), float(self.q), float(self.gap)
        noise = self.added.variance
        if self.kind.adds:
            variance = self.spread(own, rounded=True)
            return variance / n**2 if self.kind.average else variance
        spread: Floats = (own * p * (1 - p) + (n - own) * q * (1 - q) + noise) / gap**2
        return float(spread[1]) if self._counts_yes else spread

    def spread(self, people: Floats, *, rounded: bool) -> float:
        """Return the variance of the sum of numbers of people[x] people at each point, and of rounding them at most."""
        w, p, q, gap = self._weights, float(self.p), float(self.q), float(self.gap)
        total, squares = w.sum(), np.square(w)
        mean = (p - q) * w + q * total
        second = (p - q) * squares + q * squares.sum()
        noise = self.added.variance * ((w[1] - w[0]) ** 2 if self.paired else squares.sum())
        step = float(w[1] - w[0])
        coarse = people.sum() * step**2 / 4 if rounded else 0.0
        return float(people @ (second - mean**2) + noise) / gap**2 + coarse


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GridError:
    """The error of a mean or sum of numbers on a grid: noise of the servers, of randomized response, and rounding.

    Intervals follow from moments (Chernoff) of the worst data, and cover with at least their level.
    """

    analyzer: AmongMessages
    counts: Floats
    """About how many people are at each point: for the standard error."""
    n: int

    @property
    def _scale(self) -> float:
        return 1.0 / self.n if self.analyzer.kind.average else 1.0

    @property
    def stderr(self) -> float:
        people = self.counts * (self.n / max(float(self.counts.sum()), 1.0))
        return self._scale * math.sqrt(self.analyzer.spread(people, rounded=True))

    def interval(self, value: Value, level: float) -> Interval:
        tail = (1 - valid_level(level)) / 2
        w = self.analyzer._weights
        rounded = np.array([self.n * float(w[1] - w[0]) ** 2])
        up, down = (
            self._scale * float(bound_deviation(_Moments(error=self), sign * w, tail, rounded)[0])
            for sign in (1.0, -1.0)
        )
        return Interval(float(value) - up, float(value) + down)

    exact_interval = interval

    def log_moment(self, weights: Floats) -> Floats:
        """Bound ln E[e^(w . Z)] from above for each row w of weights, Z the errors of the counts of the points.

        The servers' part is exact. A person adds at most the largest of what a person at one of the points adds.
        """
        analyzer, gap = self.analyzer, float(self.analyzer.gap)
        s = weights / gap
        if analyzer.paired:
            moments = analyzer.added.log_moments(s[..., 1] - s[..., 0])
        else:
            moments = analyzer.added.log_moments(s).sum(axis=-1)
        p, q = float(analyzer.p), float(analyzer.q)
        if p == 1 and q == 0:
            return np.asarray(moments, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            grown = np.expm1(s)
            means = (p - q) * s + q * s.sum(axis=-1, keepdims=True)
            each = np.log1p((p - q) * grown + q * grown.sum(axis=-1, keepdims=True)) - means
        largest = np.nan_to_num(each, nan=np.inf).max(axis=-1)
        return np.asarray(moments + self.n * (largest + 1e-12), dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Moments:
    """`GridError` as the moments of bins."""

    error: GridError

    @property
    def stderr(self) -> Value:
        analyzer = self.error.analyzer
        return math.sqrt(analyzer.added.variance) / float(analyzer.gap)

    @property
    def distance(self) -> float:
        """The law is exact."""
        return 0.0

    def log_moment(self, weights: Floats) -> Floats:
        return self.error.log_moment(weights)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellsTree:
    """The cells of a number as a tree of one level, with the servers' noise in each, and that of the floor."""

    analyzer: AmongMessages
    domain: Integers | Cells

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.domain.size,)

    def tally(self, shuffled: Shuffled) -> Tally:
        """Return how often each cell was sent."""
        return self.analyzer.tally(shuffled)

    def measure(self, tally: Tally) -> list[Floats]:
        """Return the counts of the cells, without bias."""
        return [self.analyzer.count_people(tally)]

    def find_noise(self, n: int) -> TreeNoise:
        """Return what the servers add, which does not depend on n, and what the floor does to n people."""
        own = self.analyzer
        added = AddedNoise(noise=own.added, paired=own.paired)
        if own.device.response is None:
            return IndependentLevels(levels=(added,))
        return BinNoise(n=n, cells=self.domain.size, p=float(own.p), q=float(own.q), added=added)

    def find_influence(self, ranks: int) -> float:
        """Bound how far one message moves a rank: one person, or 1 / (p - q) people with a floor."""
        return ranks * float(self.analyzer.influence())


def make_server_noise(
    *,
    task: str,
    rate: float,
    most: int,
    epsilon: float | None = None,
    k: int | None = None,
    lower: float | None = None,
    upper: float | None = None,
    steps: int | None = None,
    at: Sequence[float] | None = None,
    parts: int = 1,
) -> ShuffleProtocol:
    """Return the protocol of a question whose noise comes from the servers; `epsilon` is the floor, if there is one.

    >>> five = make_server_noise(task="histogram", k=5, rate=0.5, most=36)
    >>> f"{five.guarantee.epsilon:g} {five.guarantee.delta:.3g}", five.guarantee.honest
    ('1 7.46e-09', 1)
    """
    given: dict[str, Any] = {"task": task, "epsilon": epsilon, "k": k, "lower": lower}
    given |= {"upper": upper, "steps": steps, "at": None if at is None else list(at)}
    given |= {"parts": parts}
    known = {name: value for name, value in given.items() if value is not None}
    domain, question = _read_bins(task, known)
    response = None if epsilon is None else KRR(k=domain.size, epsilon0=epsilon)
    device = OneBin(domain=domain, response=response)
    noise, paired = CutLaplace(rate=rate, most=most), domain.size == 2
    kind = SAMPLED.get(task, _COUNTED)
    own = AmongMessages(device=device, kind=kind, noise=noise, paired=paired, parts=parts)
    guarantee = _guarantee(noise, find_moved(device))
    common: dict[str, Any] = {
        "name": NAME,
        "parameters": {**known, "rate": rate, "most": most},
        "task": task,
        "randomizer": device,
        "guarantee": guarantee,
        "accountant": Unconditional(always=guarantee),
    }
    if question is None:
        offers = Capabilities(code=device.code, deal=own.deal, influence=own.influence)
        return ShuffleProtocol(analyzer=own, offers=offers, **common)
    assert isinstance(domain, Integers | Cells)
    if parts > 1:
        raise UnsupportedError(
            f"{task} with noise of the servers is answered by everybody, not as one random question of {parts}: "
            "write one_question = false"
        )
    cells = TreeAnalyzer(tree=CellsTree(analyzer=own, domain=domain), question=question)
    offers = Capabilities(
        code=device.code, deal=own.deal, influence=cells.influence, foresee=cells.foresee
    )
    return ShuffleProtocol(analyzer=cells, offers=offers, **common)


_Bins = tuple[Domain, LeafQuestion | None]


def _read_bins(task: str, given: Mapping[str, Any]) -> _Bins:
    """Return the bins of a task, and what is asked about them if they are cells."""
    if task not in _READERS:
        raise UnsupportedError(
            f"task={task!r} cannot have noise of the servers: one message must be one bin, as of {', '.join(TASKS)}"
        )
    return _READERS[task](task, given)


def _demand(task: str, given: Mapping[str, Any], *names: str) -> tuple[Any, ...]:
    for name in names:
        if name not in given:
            raise ParameterError(name, None, f"must be given for {say_of(task)}")
    return tuple(given[name] for name in names)


def _read_categories(task: str, given: Mapping[str, Any]) -> _Bins:
    (k,) = _demand(task, given, "k")
    return Categories(k=k), None


def _read_grid(task: str, given: Mapping[str, Any]) -> _Bins:
    lower, upper, steps = _demand(task, given, "lower", "upper", "steps")
    return Reals(lower=lower, upper=upper, steps=steps), None


def _read_cells(task: str, given: Mapping[str, Any]) -> _Bins:
    lower, upper = _demand(task, given, "lower", "upper")
    return read_question(lower, upper, given.get("steps"), task, given.get("at"))


_READERS: Mapping[str, Callable[[str, Mapping[str, Any]], _Bins]] = {
    "count": lambda _task, _given: (Bits(), None),
    "histogram": _read_categories,
    "mean": _read_grid,
    "sum": _read_grid,
    **dict.fromkeys(ABOUT_CELLS, _read_cells),
}
TASKS = tuple(_READERS)
"""What may be asked: where one message is one bin."""


def find_moved(device: OneBin, weight: float = 1.0) -> Moved:
    """Return what one report changes among the messages of this device."""
    return Moved(moves=1 if device.alphabet == 2 else 2, p=device.p, q=device.q, weight=weight)


def find_noise(protocol: ShuffleProtocol) -> tuple[Moved, CutLaplace]:
    """Return what one report changes in the bins of a protocol made here, and the law of what a server adds to each.

    >>> find_noise(make_server_noise(task="count", rate=1.0, most=18))[0].moves
    1
    """
    device, given = protocol.randomizer, protocol.parameters
    assert isinstance(device, OneBin)  # as of all that are made here
    return find_moved(device), CutLaplace(rate=given["rate"], most=given["most"])


@lru_cache(maxsize=256)
def _guarantee(noise: CutLaplace, moved: Moved) -> Guarantee:
    curve = AmongDummies(noise=noise, moves=moved.moves, p=moved.p, q=moved.q)
    return Guarantee(
        epsilon=curve.pure,
        delta=curve.delta(curve.pure),
        model=Model.SHUFFLE,
        proof=_PROOF,
    )


SPEC = Spec(
    name=NAME,
    title="one bin among messages of the servers",
    task="histogram",
    reference="Ghosh, Roughgarden, Sundararajan 2009",
)
