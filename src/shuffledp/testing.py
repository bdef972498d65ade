"""The contract of every protocol, as tests that a package runs on its own protocols.

    from shuffledp.testing import Contract, Examples
    from my_package import SPEC

    class TestMine(Contract):
        examples = (
            Examples(
                SPEC,
                local=({"k": 16, "epsilon": 1.0},),
                local_tiny=({"k": 3, "epsilon": 1.0, "word_bits": 8},),
                shuffled=({"n": 10_000, "k": 16, "epsilon": 1.0, "delta": 1e-6},),
                shuffled_tiny=({"n": 3, "k": 3, "epsilon": 1.0, "delta": 0.1, "word_bits": 6},),
            ),
        )

pytest then runs each test once per example. Tiny examples have words of a few bits, so that a test can run
every tape: laws, unbiasedness, variances and divergences are compared as fractions. The argument of a test
says which examples it is for: `local` and `shuffled` ones, their tiny twins, or `ordinary` and `tiny` ones of
both models.

This is the only module that imports pytest; `import shuffledp` does not load it.
"""

import json
import math
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise, product
from typing import Any, ClassVar, TypeVar
from zlib import crc32

import numpy as np
import pytest
from numpy.typing import NDArray

from shuffledp.accounting.amplify import amplify
from shuffledp.accounting.blanket import Blanket, law_blankets
from shuffledp.accounting.exact import shuffled_delta
from shuffledp.core.arrays import Words
from shuffledp.core.domain import Answers, Cells, Domain, Reals, round_places
from shuffledp.core.errors import DataError, ParameterError, UnsupportedError
from shuffledp.core.privacy import Guarantee, Model
from shuffledp.core.protocol import HONEST, ShuffleProtocol, Spec, honest_users
from shuffledp.core.randomizer import (
    Law,
    Message,
    Messages,
    Randomizer,
    Shuffled,
    WordSource,
    forget,
    randomize,
    shuffle,
)
from shuffledp.engine.local import run, tally, tally_each
from shuffledp.numerics.entropy import SeededWords
from shuffledp.numerics.leaves import TASKS as LEAVES
from shuffledp.numerics.rounding import exp_lower
from shuffledp.numerics.tape import word_type
from shuffledp.protocols.bundle import questions
from shuffledp.tasks import task_for, task_named

__all__ = [
    "ALPHA",
    "AtOrdinarySize",
    "Blankets",
    "ByEnumeration",
    "Case",
    "Contract",
    "Examples",
    "ScriptedWords",
    "all_tapes",
    "draw_values",
    "enumerate_law",
    "enumerate_outcomes",
]

MOST_TAPES = 20_000
_MOST_TAPE_BITS = 20


def all_tapes(word_bits: int, words: int) -> Words:
    """Return every tape once: words[2^(word_bits * words), words].

    >>> all_tapes(2, 1).ravel()
    array([0, 1, 2, 3], dtype=uint8)
    """
    total = word_bits * words
    assert total <= _MOST_TAPE_BITS, f"{total} bits of tape are too many to enumerate"
    number = np.arange(1 << total, dtype=np.uint64)
    shifts = np.arange(words, dtype=np.uint64) * np.uint64(word_bits)
    mask = np.uint64((1 << word_bits) - 1)
    tapes: Words = ((number[:, None] >> shifts) & mask).astype(word_type(word_bits))
    return tapes


def enumerate_law(randomizer: Randomizer, x: int) -> Law:
    """Return the law of `encode` for one input, counted over every tape.

    >>> from shuffledp.protocols.krr import KRR
    >>> krr = KRR(k=3, epsilon0=1.0, word_bits=4)
    >>> enumerate_law(krr, 0) == krr.pmf(0)
    True
    """
    tapes = all_tapes(randomizer.word_bits, randomizer.words_per_input)
    messages = randomizer.encode(np.full(len(tapes), x), tapes)
    if isinstance(messages.owner, range):
        rows, counts = np.unique(messages.payload, axis=0, return_counts=True)
        return {
            (_make_message(row),): Fraction(int(c), len(tapes))
            for row, c in zip(rows.tolist(), counts, strict=True)
        }
    owner = np.asarray(messages.owner)
    order = np.argsort(owner, kind="stable")
    sent = [_make_message(row) for row in messages.payload[order].tolist()]
    ends = np.searchsorted(owner[order], np.arange(messages.users + 1))
    seen = Counter(tuple(sent[a:b]) for a, b in pairwise(ends))
    return {one: Fraction(count, len(tapes)) for one, count in seen.items()}


class ScriptedWords:
    """A source of words that answers from a script, and says when the script is at its end."""

    def __init__(self, script: Sequence[int]) -> None:
        self._script = list(script)
        self.bits = 0

    def words(self, count: int, bits: int = 64) -> Words:
        if count and not self._script:
            raise _EndOfScriptError(count * bits)
        number = self._script.pop(0) if count else 0
        self.bits += count * bits
        words = [number >> bits * i & ((1 << bits) - 1) for i in range(count)]
        return np.array(words, dtype=word_type(bits))


class _EndOfScriptError(Exception):
    """The next words could be any of this many bits."""

    def __init__(self, bits: int) -> None:
        self.bits = bits


Outcome = TypeVar("Outcome", bound=Hashable)


def enumerate_outcomes(
    run: Callable[[WordSource], Outcome], most: int = MOST_TAPES
) -> dict[Outcome, Fraction]:
    """Return the exact law of run(source): every tape once, each as long as it has to be.

    `UnsupportedError` if there are more than `most`.

    >>> enumerate_outcomes(lambda source: int(source.words(3, 1).sum()))[2]
    Fraction(3, 8)
    """
    counted = Counter[tuple[Outcome, int]]()
    tapes = 0
    scripts = deque[tuple[int, ...]]([()])
    while scripts:
        script = scripts.popleft()  # the shortest: whether there are too many is known soon
        source = ScriptedWords(script)
        try:
            outcome = run(source)
        except _EndOfScriptError as end:
            if tapes + len(scripts) + (1 << end.bits) > most:
                raise UnsupportedError("too many tapes to enumerate") from None
            scripts.extend((*script, number) for number in range(1 << end.bits))
            continue
        tapes += 1
        counted[outcome, source.bits] += 1
    law: dict[Outcome, Fraction] = {}
    for (outcome, bits), times in counted.items():
        law[outcome] = law.get(outcome, Fraction(0)) + Fraction(times, 1 << bits)
    return law


def _make_message(row: Any) -> Message:
    return tuple(map(int, row)) if isinstance(row, list) else int(row)


_FITTED = (*LEAVES, "words")  # their answers are not sums of weights of messages
ALPHA = 1e-9
"""False-alarm rate of each statistical comparison."""

_TAPES_OF_SEVERAL = 3_000  # people: one of them must be enumerable, more are welcome
_NEARLY = 1 + 1e-12

Parameters = Mapping[str, Any]
"""The arguments of a maker."""


@dataclass(frozen=True)
class Examples:
    """Parameters of `make_local` and of `make` of one protocol; the tiny ones are enumerated.

    >>> from shuffledp.protocols import krr
    >>> mine = Examples(krr.SPEC, local=({"k": 4, "epsilon": 1.0},))
    >>> [case.label for case in mine.cases("ordinary")]
    ['krr-local-0']
    """

    spec: Spec
    local: tuple[Parameters, ...] = ()
    local_tiny: tuple[Parameters, ...] = ()
    shuffled: tuple[Parameters, ...] = ()
    shuffled_tiny: tuple[Parameters, ...] = ()

    def cases(self, group: str) -> Iterator["Case"]:
        """Yield the cases of one group: local, local_tiny, shuffled, shuffled_tiny, ordinary or tiny."""
        for each in _GROUPS[group]:
            model = Model.LOCAL if each.startswith("local") else Model.SHUFFLE
            for i, parameters in enumerate(getattr(self, each)):
                label = f"{self.spec.name}-{model.value}-{i}"
                yield Case(spec=self.spec, model=model, parameters=parameters, label=label)


_GROUPS = {
    "local": ("local",),
    "local_tiny": ("local_tiny",),
    "shuffled": ("shuffled",),
    "shuffled_tiny": ("shuffled_tiny",),
    "ordinary": ("local", "shuffled"),
    "tiny": ("local_tiny", "shuffled_tiny"),
}

_MADE: dict[tuple[Callable[..., ShuffleProtocol], str], ShuffleProtocol] = {}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One protocol with the parameters of one example."""

    spec: Spec
    model: Model
    parameters: Parameters
    label: str

    @cached_property
    def protocol(self) -> ShuffleProtocol:
        """The protocol, made once for all cases with these parameters."""
        key = self._maker, repr(sorted(self.parameters.items()))
        if key not in _MADE:
            _MADE[key] = self.make()
        return _MADE[key]

    @property
    def _maker(self) -> Callable[..., ShuffleProtocol]:
        maker = self.spec.make_local if self.model is Model.LOCAL else self.spec.make
        assert maker is not None, f"{self.spec.name} has no maker for the {self.model.value} model"
        return maker

    def make(self, **changes: Any) -> ShuffleProtocol:
        """Return the protocol with some parameters changed."""
        return self._maker(**{**self.parameters, **changes})

    @property
    def size(self) -> int:
        """The number of codes."""
        return self.protocol.randomizer.domain.size

    def laws(self) -> list[Law]:
        """Return the declared law of each code."""
        return [self.protocol.randomizer.pmf(x) for x in range(self.size)]

    def values(self, n: int, seed: int = 0) -> NDArray[Any]:
        """Draw values of n people from the domain."""
        return draw_values(self.protocol.randomizer.domain, n, seed)

    def randomize(self, values: NDArray[Any], seed: int) -> Messages:
        """Randomize the values of some people."""
        return randomize(self.protocol.randomizer, values, SeededWords(seed))

    def send(self, n: int, seed: int) -> Messages:
        """Randomize n people with values of the domain."""
        return self.randomize(self.values(n), seed)

    def exact_delta(self, users: int, epsilon: float) -> float:
        """Return the divergence of the declared laws, over all neighbouring data sets of that many people."""
        # e^epsilon rounded down makes the divergence larger, never smaller.
        return float(shuffled_delta(self.laws(), users, exp_lower(epsilon)))

    def weigh(self, sent: Sequence[Message]) -> list[Fraction] | None:
        """Return what one user's messages add to the answer to the total; None if they have no weights."""
        analyzer, offset = self.protocol.analyzer, self.protocol.offers.offset
        total = (
            [Fraction(0)] * len(_find_truth(self.protocol, 0)) if offset is None else list(offset())
        )
        for message in sent:
            try:
                weights = analyzer.weights(message)
            except UnsupportedError:
                return None
            total = [a + b for a, b in zip(total, weights, strict=True)]
        return total

    def moments(self, x: int) -> tuple[list[Fraction], list[Fraction]] | None:
        """Return the mean and mean square of what a user of code x adds to the answer, over the declared law."""
        law = self.protocol.randomizer.pmf(x)
        rows = [weights for sent in law if (weights := self.weigh(sent)) is not None]
        if len(rows) < len(law):
            return None
        pairs = [[*zip(law.values(), each, strict=True)] for each in zip(*rows, strict=True)]
        first = [sum((m * w for m, w in each), Fraction(0)) for each in pairs]
        return first, [sum((m * w * w for m, w in each), Fraction(0)) for each in pairs]

    def tally_law(self, data: Sequence[int]) -> dict[tuple[int, ...], Fraction]:
        """Return the exact law of the tally of people with these codes, from the declared laws of their messages."""
        template, law = self.send(1, 1).payload, Counter[tuple[int, ...]]()
        for sent in product(*(self.protocol.randomizer.pmf(x).items() for x in data)):
            messages = [message for one, _ in sent for message in one]
            payload = np.array(messages, dtype=template.dtype).reshape(-1, *template.shape[1:])
            counts = self.protocol.analyzer.tally(Shuffled(payload=payload, users=len(data))).counts
            law[tuple(counts.tolist())] += math.prod(mass for _, mass in sent)  # type: ignore[assignment]
        return {counts: Fraction(mass) for counts, mass in law.items() if mass}


def _find_truth(protocol: ShuffleProtocol, x: int) -> list[Fraction]:
    """Return the answer to the total for one user of code x, exactly."""
    domain = protocol.randomizer.domain
    if isinstance(domain, Answers):
        codes = [int(code[0]) for code in domain.split(np.array([x]))]
        parts = zip(questions(protocol), codes, strict=True)
        return [number for (_, part), code in parts for number in _find_truth(part, code)]
    if task_named(protocol.task).bins:
        return [Fraction(int(j == x)) for j in range(domain.size)]
    if isinstance(domain, Reals):
        lower, upper = Fraction(domain.lower), Fraction(domain.upper)
        return [lower + x * (upper - lower) / domain.steps]
    return [Fraction(int(domain.values(np.array([x]))[0]))]


def draw_values(domain: Domain, n: int, seed: int = 0) -> NDArray[Any]:
    """Draw n values of a domain, each code as likely as any other.

    >>> from shuffledp import Integers
    >>> draw_values(Integers(lower=3, upper=4), 5)
    array([4, 4, 4, 3, 3])
    """
    codes = np.random.default_rng(seed).integers(0, domain.size, n)
    return _to_values(domain, codes)


def _to_values(domain: Domain, codes: NDArray[np.int64]) -> NDArray[Any]:
    values = domain.values(codes)
    return values if isinstance(domain, Reals | Cells) else values.astype(np.int64)


def _forget_order(law: Law) -> dict[tuple[Message, ...], Fraction]:
    """Sort each user's messages: the shuffler forgets their order, so laws are compared up to it."""
    result: Counter[tuple[Message, ...]] = Counter()
    for sent, mass in law.items():
        if mass:
            result[tuple(sorted(sent, key=repr))] += mass  # type: ignore[assignment]
    return dict(result)  # type: ignore[arg-type]


class _Suite:
    """Tests that are called with the cases that their argument names."""

    examples: ClassVar[tuple[Examples, ...]]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make one run of each test for each case; pytest calls this."""
        for group in _GROUPS:
            if group in metafunc.fixturenames:
                cases = [case for each in self.examples for case in each.cases(group)]
                metafunc.parametrize(group, cases, ids=[case.label for case in cases])


class ByEnumeration(_Suite):
    """Statements about fractions, for parameters so small that every tape can be run."""

    def test_sampler_follows_its_declared_law(self, tiny: Case) -> None:
        randomizer = tiny.protocol.randomizer
        for x, declared in enumerate(tiny.laws()):
            assert sum(declared.values()) == 1, f"the law of code {x} does not sum to 1"
            assert _forget_order(enumerate_law(randomizer, x)) == _forget_order(declared), (
                f"code {x}"
            )

    def test_real_values_are_rounded_at_random(self, tiny: Case) -> None:
        """Check that over every word the law is the declared one, and its mean the value, but for the bits of a word."""
        randomizer, domain = tiny.protocol.randomizer, tiny.protocol.randomizer.domain
        if not isinstance(domain, Reals):
            pytest.skip("its values are not real numbers")
        words = all_tapes(randomizer.word_bits, 1)
        fractions = [Fraction(i, 24) for i in range(25)]
        lower, width = Fraction(domain.lower), Fraction(domain.upper) - Fraction(domain.lower)
        places = domain.places([float(lower + each * width) for each in fractions])
        for fraction, place in zip(fractions, places.tolist(), strict=True):
            codes = round_places(domain, np.full(len(words), place), words, randomizer.word_bits)
            counted = Counter(codes.tolist())
            law = {code: Fraction(count, len(words)) for code, count in counted.items()}
            declared = domain.rounding_law(place, randomizer.word_bits)
            assert law == {code: mass for code, mass in declared.items() if mass}, f"place {place}"
            mean = sum(code * mass for code, mass in law.items())
            assert abs(mean - fraction * domain.steps) < Fraction(1.01 / len(words)), fraction

    def test_ratio_is_at_most_e_to_epsilon0(self, tiny: Case) -> None:
        randomizer, laws = tiny.protocol.randomizer, tiny.laws()
        if math.isinf(randomizer.epsilon0):
            pytest.skip("promises nothing without the others")
        limit = exp_lower(randomizer.epsilon0)
        for sent in set().union(*laws):
            masses = [law.get(sent, Fraction(0)) for law in laws]
            assert max(masses) <= limit * min(masses), f"messages {sent}"

    def test_estimator_is_unbiased_and_its_variance_exact(self, tiny: Case) -> None:
        """Check it for one person, and for x + 1 people of each code x; a mean of n has the n^2-th part of their variance."""
        analyzer, people = tiny.protocol.analyzer, np.arange(1, tiny.size + 1)
        total: NDArray[np.float64] = np.zeros(1)
        for x in range(tiny.size):
            moments = tiny.moments(x)
            if moments is None:
                fitted = tiny.protocol.task in _FITTED
                assert fitted or tiny.model is Model.SHUFFLE, "a local protocol adds up weights"
                pytest.skip("its messages have no weights; its own tests say what it does")
            mean, square = moments
            assert mean == _find_truth(tiny.protocol, x), f"code {x} is estimated with a bias"
            exact = np.array([float(s - m * m) for m, s in zip(mean, square, strict=True)])
            declared = analyzer.variance(np.eye(tiny.size, dtype=np.int64)[x])
            np.testing.assert_allclose(np.atleast_1d(declared), exact, rtol=1e-9, atol=1e-12)
            total = total + (x + 1) * exact
        over = float(people.sum()) ** 2 if task_named(tiny.protocol.task).average else 1.0
        several = np.atleast_1d(analyzer.variance(people))
        np.testing.assert_allclose(several, total / over, rtol=1e-9, atol=1e-12)

    def test_estimate_is_the_sum_of_the_weights(self, local_tiny: Case) -> None:
        randomizer, analyzer = local_tiny.protocol.randomizer, local_tiny.protocol.analyzer
        tapes = all_tapes(randomizer.word_bits, randomizer.words_per_input)
        some = tapes[np.random.default_rng(5).integers(0, len(tapes), 7)]
        messages = randomizer.encode(np.arange(7) % local_tiny.size, some)
        estimate = analyzer.estimate(analyzer.tally(forget(messages)))
        sent = [local_tiny.weigh(messages.of(user)) for user in range(7)]
        if None in sent and local_tiny.protocol.task in _FITTED:
            pytest.skip("a fit is not a sum of weights; it has tests of its own")
        total = np.array([float(sum(column)) for column in zip(*sent, strict=True)])
        people = 7 if task_named(local_tiny.protocol.task).average else 1
        np.testing.assert_allclose(np.atleast_1d(estimate.value), total / people)

    def test_dealt_tally_has_the_law_of_the_messages(self, tiny: Case) -> None:
        drawn, last = tiny.protocol.offers.deal, tiny.size - 1
        if drawn is None:
            pytest.skip("everybody's messages are drawn")
        for data in ([0], [0, 0], [0, last], [0, min(1, last), last]):
            inputs = np.bincount(data, minlength=tiny.size)

            def deal(source: WordSource, inputs: NDArray[np.int64] = inputs) -> tuple[int, ...]:
                return tuple(drawn(inputs, source).counts.tolist())

            try:
                most = MOST_TAPES if len(data) == 1 else _TAPES_OF_SEVERAL
                dealt = enumerate_outcomes(deal, most)
            except UnsupportedError:
                assert len(data) > 1, "fewer bits, please: not even one person can be enumerated"
                return
            assert dealt == tiny.tally_law(data), f"people with the codes {data}"

    def test_exact_divergence_is_within_the_guarantee(self, shuffled_tiny: Case) -> None:
        """Check all neighbouring data sets of the honest users, in both directions."""
        stated = shuffled_tiny.protocol.guarantee
        exact = shuffled_tiny.exact_delta(stated.honest, stated.epsilon)
        assert exact <= stated.delta * _NEARLY

    def test_exact_divergence_is_within_the_whole_curve(self, shuffled_tiny: Case) -> None:
        """Check that delta(honest, epsilon) holds at any epsilon, not only where it was calibrated."""
        protocol, users = shuffled_tiny.protocol, shuffled_tiny.parameters["n"]
        for epsilon in (0.0, 0.3 * protocol.guarantee.epsilon, 1.3 * protocol.guarantee.epsilon):
            claim = protocol.accountant.delta(users, epsilon)
            assert shuffled_tiny.exact_delta(users, epsilon) <= claim * _NEARLY
            assert claim <= 1

    @pytest.mark.parametrize("honest", [0.2, 0.9, 1.0])
    def test_noise_is_that_of_the_honest(self, shuffled_tiny: Case, honest: float) -> None:
        """Check that, whatever the share of honest people, their noise alone keeps the promise."""
        n = max(shuffled_tiny.parameters["n"], math.ceil(1 / honest))
        made = _make_honest(shuffled_tiny, n, honest)
        stated, laws = made.guarantee, [made.randomizer.pmf(x) for x in range(shuffled_tiny.size)]
        exact = float(shuffled_delta(laws, stated.honest, exp_lower(stated.epsilon)))
        assert exact <= stated.delta * _NEARLY

    def test_fewer_honest_users_are_accounted_for(self, shuffled_tiny: Case) -> None:
        n = shuffled_tiny.parameters["n"]
        for users in range(1, n):
            stated = shuffled_tiny.protocol.guarantee_if(honest=(users + 0.5) / n)
            assert stated.honest == users
            exact = shuffled_tiny.exact_delta(users, stated.epsilon)
            assert exact <= stated.delta * _NEARLY + 1e-300


class Blankets(_Suite):
    """The blankets that local protocols state are below their declared laws, and no pair is worse."""

    @pytest.mark.parametrize("n", [1, 2, 5, 40])
    def test_stated_blanket_is_safe(self, local_tiny: Case, n: int) -> None:
        """Check that nothing computed from the declared law, over all pairs and both directions, is worse."""
        randomizer, stated = local_tiny.protocol.randomizer, _find_blanket(local_tiny)
        for epsilon in (0.1 * randomizer.epsilon0, 0.6 * randomizer.epsilon0):
            claimed = stated.delta(epsilon, n)
            for pair in law_blankets(randomizer):
                assert pair.delta(epsilon, n) <= claimed * (1 + 1e-5)

    def test_stated_ratio_is_the_local_one(self, local_tiny: Case) -> None:
        epsilon0, stated = local_tiny.protocol.randomizer.epsilon0, _find_blanket(local_tiny)
        assert max(stated.first) <= math.exp(epsilon0) * (1 + 1e-15)
        assert stated.gamma <= 1

    def test_many_users_amplify(self, local: Case) -> None:
        _find_blanket(local)
        with_blanket = amplify(randomizer=local.protocol, n=100_000, delta=1e-6, honest=1).epsilon
        epsilon0 = local.protocol.randomizer.epsilon0
        any_other = amplify(epsilon0=epsilon0, n=100_000, delta=1e-6, honest=1).epsilon
        assert with_blanket < any_other * 1.0001


def _find_blanket(case: Case) -> Blanket:
    blankets = case.protocol.offers.blankets
    if blankets is None:
        pytest.skip("states no blanket: it is computed from the law")
    stated: Blanket
    (stated,) = blankets()
    return stated


class AtOrdinarySize(_Suite):
    """The behaviour of every protocol with ordinary parameters, valid and invalid."""

    def test_local_guarantee_is_what_was_asked_for(self, local: Case) -> None:
        protocol, epsilon = local.protocol, local.parameters["epsilon"]
        assert protocol.guarantee.epsilon == epsilon == protocol.randomizer.epsilon0
        assert protocol.guarantee.delta == 0
        assert protocol.guarantee.model is Model.LOCAL

    def test_shuffled_guarantee_is_what_was_asked_for(self, shuffled: Case) -> None:
        given, protocol = shuffled.parameters, shuffled.protocol
        _check_promise(shuffled, protocol.guarantee, given["n"], given.get("honest", HONEST))
        assert protocol.guarantee.model is Model.SHUFFLE
        assert protocol.users == given["n"]

    def test_guarantee_falls_apart_slowly(self, shuffled: Case) -> None:
        protocol = shuffled.protocol
        whole, half = protocol.guarantee_if(honest=1.0), protocol.guarantee_if(honest=0.5)
        assert half.epsilon >= whole.epsilon
        assert half.delta >= whole.delta * (1 - 1e-9)

    def test_local_floor_is_stated(self, ordinary: Case) -> None:
        floor = ordinary.protocol.local_floor
        assert floor is None or floor.model is Model.LOCAL

    def test_cost_is_what_is_sent(self, ordinary: Case) -> None:
        cost, messages = ordinary.protocol.cost, ordinary.send(2000, 8)
        each = np.bincount(np.asarray(messages.owner), minlength=2000)
        assert each.max() <= cost.messages_max
        spread = max(each.std(), 1.0) / math.sqrt(2000)
        # messages_mean is for the value that sends most.
        assert each.mean() <= cost.messages_mean + 7 * spread
        assert cost.bits_per_message >= 1

    def test_tallies_add(self, ordinary: Case) -> None:
        analyzer, messages = ordinary.protocol.analyzer, ordinary.send(600, 1)
        whole = analyzer.tally(forget(messages))
        owner = np.asarray(messages.owner)
        parts = []
        for first, end in ((0, 1), (1, 400), (400, 600)):
            mine = (owner >= first) & (owner < end)
            some = Messages(payload=messages.payload[mine], owner=owner[mine], users=end - first)
            parts.append(analyzer.tally(forget(some)))
        added = parts[0] + parts[1] + parts[2]
        np.testing.assert_array_equal(added.counts, whole.counts)
        assert added.users == whole.users == 600

    def test_order_does_not_matter(self, ordinary: Case) -> None:
        analyzer, messages = ordinary.protocol.analyzer, ordinary.send(300, 2)
        shuffled = shuffle(messages, SeededWords(12))
        assert isinstance(shuffled, Shuffled)
        np.testing.assert_array_equal(
            analyzer.tally(shuffled).counts, analyzer.tally(forget(messages)).counts
        )

    def test_engine_agrees_with_one_big_chunk(self, ordinary: Case) -> None:
        whole = ordinary.send(1500, 3)
        np.testing.assert_array_equal(
            tally_each(ordinary.protocol, ordinary.values(1500), SeededWords(3)).counts,
            ordinary.protocol.analyzer.tally(forget(whole)).counts,
        )

    def test_parameters_survive_json(self, ordinary: Case) -> None:
        protocol = ordinary.protocol
        assert protocol.name == ordinary.spec.name
        again = ordinary.make(**json.loads(json.dumps(dict(protocol.parameters))))
        assert again.randomizer == protocol.randomizer
        assert again.analyzer == protocol.analyzer
        assert again.guarantee == protocol.guarantee
        assert again.parameters == protocol.parameters

    def test_interval_is_around_the_value(self, local: Case) -> None:
        estimate = run(local.protocol, local.values(2000), SeededWords(4))
        low, high = estimate.interval(0.95)
        # The truth is in the public range: the value may be outside, its interval need not.
        nearest = estimate.clip().value
        assert np.all(np.asarray(low) <= nearest)
        assert np.all(np.asarray(high) >= nearest)
        assert np.all(np.asarray(low) < high)
        assert np.all(np.asarray(estimate.stderr) > 0)

    def test_estimate_is_near_the_truth(self, ordinary: Case) -> None:
        """Check the estimate, with fewer users than a shuffled guarantee needs: they are enough to see that it is right."""
        n = min(ordinary.parameters.get("n", 20_000), 20_000)
        _check_estimate(ordinary.protocol, ordinary.values(n))

    def test_more_and_fewer_people_than_planned(self, ordinary: Case) -> None:
        """Check that whatever depends on the number of people is taken from the tally, not from the plan."""
        n = min(ordinary.parameters.get("n", 2_000), 20_000)
        part = (0.4, 1.5)[crc32(ordinary.label.encode()) % 2]
        _check_estimate(ordinary.protocol, ordinary.values(round(part * n), seed=1))

    def test_few_honest_people(self, shuffled: Case) -> None:
        """Check that the honest alone keep the promise; the answer is right with everybody's noise."""
        n = shuffled.parameters["n"]
        made = _make_honest(shuffled, n, 0.2)
        _check_estimate(made, shuffled.values(min(n, 2_000), seed=2))

    def test_words_of_32_bits(self, ordinary: Case) -> None:
        """Check that devices with short words have a law of their own, and that the analyzer knows it."""
        if "word_bits" not in ordinary.protocol.parameters:
            pytest.skip("has no words of its own")
        try:
            made = ordinary.make(word_bits=32)
        except (ParameterError, UnsupportedError) as error:
            assert "word_bits" in str(error) or "delta" in str(error) or "epsilon" in str(error)  # noqa: PT017
            pytest.skip(f"needs longer words: {error}")
        assert made.randomizer.word_bits == 32
        _check_estimate(made, ordinary.values(2_000, seed=3))

    def test_one_user_is_enough(self, local: Case) -> None:
        estimate = run(local.protocol, local.values(1), SeededWords(5))
        assert np.all(np.isfinite(estimate.value))

    def test_inputs_are_not_changed(self, ordinary: Case) -> None:
        values = ordinary.values(100)
        before = values.copy()
        ordinary.randomize(values, 6)
        np.testing.assert_array_equal(values, before)

    def test_bad_epsilon_is_refused(self, ordinary: Case) -> None:
        _check_refusals(
            lambda epsilon: ordinary.make(epsilon=epsilon),
            (0, 0.0, -1.0, math.inf, math.nan, "1", None, True),
            (ParameterError, UnsupportedError),
            match="epsilon",
        )

    @pytest.mark.parametrize("name", ["delta", "honest", "n"])
    def test_bad_parameters_are_refused(self, shuffled: Case, name: str) -> None:
        if name not in shuffled.parameters and name != "honest":
            pytest.skip(f"has no {name}")
        _check_refusals(
            lambda value: shuffled.make(**{name: value}),
            (0, -1.0, math.inf, math.nan, "1", None),
            (ParameterError, UnsupportedError),
            match=name,
        )

    def test_bad_k_is_refused(self, ordinary: Case) -> None:
        if "k" not in ordinary.parameters:
            pytest.skip("has no k")
        _check_refusals(
            lambda k: ordinary.make(k=k), (1, 0, -3, 2.5, "2"), (ParameterError,), match="k="
        )

    def test_no_values_are_refused(self, ordinary: Case) -> None:
        with pytest.raises(DataError, match="empty"):
            ordinary.randomize(np.array([], dtype=np.int64), 1)

    @pytest.mark.parametrize("beyond", [True, False], ids=["above", "below"])
    def test_values_outside_the_domain_are_refused(self, ordinary: Case, beyond: bool) -> None:
        domain, values = ordinary.protocol.randomizer.domain, ordinary.values(10)
        outside = _to_values(domain, np.array([domain.size]))[0] if beyond else -1_000_000
        values[3] = outside
        with pytest.raises(DataError, match="position 3"):
            ordinary.randomize(values, 1)

    def test_wrong_kinds_of_values_are_refused(self, ordinary: Case) -> None:
        _check_refusals(
            lambda values: ordinary.randomize(np.array(values), 1),
            ([np.nan, 0.5], ["a", "b"], [0.5, np.inf], [[0, 0], [0, 0]]),
            (DataError,),
        )

    def test_tally_of_nobody(self, ordinary: Case) -> None:
        analyzer, payload = ordinary.protocol.analyzer, ordinary.send(3, 1).payload
        empty = analyzer.tally(Shuffled(payload=payload[:0], users=0))
        assert empty.users == 0
        assert not empty.counts.any()
        with pytest.raises(DataError, match="users"):
            analyzer.estimate(empty)

    def test_foreign_messages_are_refused(self, ordinary: Case) -> None:
        with pytest.raises(DataError, match="message"):
            ordinary.protocol.analyzer.tally(Shuffled(payload=np.zeros((3, 5, 7)), users=3))


def _check_promise(case: Case, stated: Guarantee, n: int, honest: float) -> None:
    assert stated.honest == honest_users(n, honest)
    assert stated.epsilon <= case.parameters["epsilon"] * _NEARLY
    assert stated.delta <= case.parameters.get("delta", 0.0) * _NEARLY


def _make_honest(case: Case, n: int, honest: float) -> ShuffleProtocol:
    """Return the protocol of n people of whom this share is honest, if it keeps the promise by their noise."""
    try:
        made = case.make(n=n, honest=honest)
    except UnsupportedError:
        pytest.skip("so few honest people cannot hide one of them")
    _check_promise(case, made.guarantee, n, honest)
    return made


def _check_estimate(protocol: ShuffleProtocol, values: NDArray[Any]) -> None:
    """Check that the estimate of people with these values is as near to the truth as it says."""
    estimate = protocol.analyzer.estimate(tally(protocol, values, SeededWords(4)))
    truth = task_for(protocol).align(estimate, values)
    low, high = estimate.interval(1 - 1e-12)
    assert np.all(np.asarray(low) <= np.asarray(truth) + 1e-9)
    assert np.all(np.asarray(high) >= np.asarray(truth) - 1e-9)
    assert np.shape(low) == np.shape(estimate.value) == np.shape(estimate.stderr)


def _check_refusals(
    take: Callable[[Any], object],
    values: Sequence[object],
    errors: tuple[type[Exception], ...],
    match: str | None = None,
) -> None:
    for value in values:
        with pytest.raises(errors, match=match):  # noqa: PT012
            take(value)
            pytest.fail(f"{value!r} is taken")


class Contract(ByEnumeration, Blankets, AtOrdinarySize):
    """Every test that a protocol of the shuffle or the local model must pass."""
