"""Several values of each person: guarantees against exact laws of small crowds, published levels, and rebuilding."""

import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

from shuffledp import UnsupportedError, protocols
from shuffledp.accounting.moved_message import dummies_after
from shuffledp.core.arrays import Floats
from shuffledp.core.errors import ParameterError
from shuffledp.core.protocol import Profile, ShuffleProtocol
from shuffledp.protocols.correlated_histogram import CorrelatedHistogram
from shuffledp.protocols.several_values import MovedValue

Counts = tuple[int, ...]


def add_noise(protocol: ShuffleProtocol, inputs: int) -> dict[Counts, float]:
    """The exact law of the noise in all bins that so many values make."""
    k = protocol.randomizer.domain.size
    one: dict[Counts, float] = {}
    for sent, mass in protocol.randomizer.pmf(0).items():
        counts = Counter(sent)
        counts[0] -= 1
        key = tuple(counts[message] for message in range(k))
        one[key] = one.get(key, 0.0) + float(mass)
    law = {(0,) * k: 1.0}
    for _ in range(inputs):
        grown: dict[Counts, float] = {}
        for (a, p), (b, q) in product(law.items(), one.items()):
            key = tuple(x + y for x, y in zip(a, b, strict=True))
            grown[key] = grown.get(key, 0.0) + p * q
        law = grown
    return law


def find_delta(
    noise: dict[Counts, float], one: Iterable[int], other: Iterable[int], epsilon: float
) -> float:
    """The exact delta at epsilon of somebody with these values against the others."""
    first, second = Counter(one), Counter(other)

    def mass(counts: Counts, values: Counter[int]) -> float:
        left = tuple(count - values[place] for place, count in enumerate(counts))
        return noise.get(left, 0.0)

    seen = {tuple(count + first[place] for place, count in enumerate(counts)) for counts in noise}
    terms = (mass(each, first) - math.exp(epsilon) * mass(each, second) for each in seen)
    return math.fsum(max(0.0, term) for term in terms)


APART = [((0, 1), (2, 3)), ((0, 1), (0, 2))]
ANY = [*APART, ((0, 0), (1, 1)), ((0, 0), (1, 2)), ((0, 1), (2, 2)), ((0, 0), (0, 1))]
"""Two values in four bins against two others: all cases, but for the names of the bins."""


@pytest.mark.parametrize(("apart", "cases"), [(True, APART), (False, ANY)])
def test_guarantees_are_at_least_the_exact_law_of_all_neighbours(
    apart: bool, cases: list[tuple[Counts, Counts]]
) -> None:
    asked = {"n": 2, "epsilon": 1.0, "delta": 0.75, "honest": 1.0, "values": 2, "apart": apart}
    options = {"k": 4, "word_bits": 2}
    made = protocols.make("several_values", inner="dummies_histogram", options=options, **asked)
    noise = add_noise(made, 4)
    for epsilon in (0.25, 0.5, 1.0, 2.0):
        exact = max(find_delta(noise, one, other, epsilon) for one, other in cases)
        assert 0 < exact <= made.accountant.delta(2, epsilon)
    assert made.accountant.delta(2, 1.0) <= 0.75


LOSS = 1e-3  # losses are rounded down to it, so that every delta here is a lower bound
MOVES = {
    "apart": [(1, 0), (1, 0), (0, 1), (0, 1)],
    "one stays": [(1, 0), (0, 1)],
    "same bins": [(2, 0), (0, 2)],
    "from one bin to two": [(2, 0), (0, 1), (0, 1)],
}
"""How many of somebody's two values are in each of the bins that change, before and after."""


def count_signs(protocol: ShuffleProtocol, size: int = 160) -> Floats:
    """The exact law of the +1 and -1 of the whole noise in one bin, as a table; what is beyond it is left out."""
    device = protocol.randomizer
    assert isinstance(device, CorrelatedHistogram)
    numbers, p = np.arange(size), math.exp(-device.star)
    noise = (1 - p) * p**numbers
    flood = stats.nbinom.pmf(numbers, device.r_flood, 1 - device.p_flood)
    law = np.zeros((size, size))
    for both, mass in enumerate(flood):
        law[both:, both:] += mass * np.outer(noise[: size - both], noise[: size - both])
    return law


def bound_delta(law: Floats, moves: list[tuple[int, int]], epsilon: float) -> float:
    """At least: bins are independent, so their losses add up."""
    masses, least = np.ones(1), 0
    for own, other in moves:
        here, there = np.zeros_like(law), np.zeros_like(law)
        here[own:], there[other:] = law[: len(law) - own], law[: len(law) - other]
        both = (here > 0) & (there > 0)
        losses = np.floor(np.log(here[both] / there[both]) / LOSS).astype(int)
        masses = np.convolve(masses, np.bincount(losses - losses.min(), weights=here[both]))
        least += int(losses.min())
    losses_seen = (least + np.arange(len(masses))) * LOSS
    return float(np.sum(masses * np.maximum(0.0, 1 - np.exp(epsilon - losses_seen))))


@pytest.mark.parametrize("apart", [True, False])
def test_correlated_noise_hides_all_values_of_a_person(apart: bool) -> None:
    """The law of the whole noise, enumerated: whichever two values become whichever others."""
    asked = {"n": 20, "epsilon": 1.0, "delta": 0.01, "honest": 1.0}
    given = {"inner": "correlated_histogram", "options": {"k": 4}, "values": 2, "apart": apart}
    made = protocols.make("several_values", **asked, **given)
    law = count_signs(made)
    assert 0.99 < law.sum() < 1
    for epsilon in (0.5, 1.0):
        claimed = made.accountant.delta(20, epsilon)
        for name, moves in MOVES.items():
            if not apart or name in ("apart", "one stays"):
                assert bound_delta(law, moves, epsilon) <= claimed
    assert bound_delta(law, MOVES["apart" if apart else "same bins"], 1.0) > 0.05 * 0.01
    one = protocols.make("correlated_histogram", k=4, **asked)  # a promise about one value
    assert bound_delta(count_signs(one), MOVES["apart" if apart else "same bins"], 1.0) > 2 * 0.01


def test_values_in_the_same_bin_need_more_than_values_apart() -> None:
    """One common bin for empty places would break the promise for values apart."""
    asked = {"n": 400, "epsilon": 1.0, "delta": 1e-3, "honest": 1.0, "values": 2}
    made = protocols.make(
        "several_values", inner="dummies_histogram", options={"k": 4}, apart=True, **asked
    )
    device = made.randomizer
    mean = float(device.rho * device.hit) * 800  # nearly Poisson in each bin
    tail = np.arange(60)
    masses = np.exp(tail * math.log(mean) - mean - np.array([math.lgamma(x + 1) for x in tail]))
    noise = {(int(a), int(b)): float(masses[a] * masses[b]) for a in tail for b in tail}
    assert find_delta(noise, (0, 0), (1, 1), 1.0) > 2 * made.guarantee.delta


def test_dummies_of_other_pairs_are_taken_off_the_exact_law() -> None:
    """Given the dummies of one pair, those of the next one are at least what the curve counts on."""
    n, rho, pair = 400, Fraction(1, 2), Fraction(1, 3)
    curve, distance = dummies_after(n=n, rho=rho, pair=pair, place=1)
    total = curve.total
    hit = float(rho * pair)
    taken = n - total.n
    beyond = math.fsum(
        math.comb(n, t) * hit**t * (1 - hit) ** (n - t) for t in range(taken + 1, n + 1)
    )
    assert 0 < beyond <= distance
    assert total.p == rho * pair / (1 - rho * pair)
    with pytest.raises(ParameterError, match="must leave bins"):
        dummies_after(n=n, rho=rho, pair=pair, place=3)


@pytest.mark.parametrize(
    ("inner", "values", "variance"),
    [
        ("dummies_histogram", 2, 109.35),
        ("dummies_histogram", 4, 211.0),
        ("correlated_histogram", 2, 39.3),
        ("correlated_histogram", 4, 157.9),
    ],
)
def test_the_error_is_that_of_as_many_histograms_together(
    inner: str, values: int, variance: float
) -> None:
    """T histograms of the same people at epsilon = 1, delta = 1e-8."""
    asked = {"n": 10**6, "epsilon": 1.0, "delta": 1e-8, "honest": 1.0, "values": values}
    made = protocols.make("several_values", inner=inner, options={"k": 64}, apart=True, **asked)
    inputs = np.zeros(64, dtype=np.int64)
    inputs[0] = 10**6 * values
    found = float(np.mean(made.analyzer.variance(inputs)))
    assert 0.8 * variance < found < 1.005 * variance
    assert made.guarantee.delta <= 1e-8
    assert made.guarantee.honest == 10**6


def test_fewer_honest_people_are_fewer_honest_values() -> None:
    asked = {"n": 1001, "epsilon": 1.0, "delta": 1e-6, "honest": 0.9, "values": 3}
    made = protocols.make("several_values", inner="dummies_histogram", options={"k": 9}, **asked)
    assert made.guarantee.honest == 900
    assert made.accountant.delta(800, 1.0) > made.guarantee.delta
    made.check_users(2700)
    with pytest.raises(Exception, match="needs the noise of at least 900 users"):
        made.check_users(2697)
    with pytest.raises(Exception, match="not 3 of each person"):
        made.check_users(2701)


@pytest.mark.parametrize(
    "given",
    [
        {
            "inner": "dummies_histogram",
            "options": {"k": 9},
            "apart": True,
            "n": 1000,
            "delta": 1e-6,
        },
        {"inner": "krr", "options": {"k": 9}, "n": 1000, "delta": 1e-4},
        {"inner": "krr", "options": {"k": 9}},
    ],
)
def test_name_and_parameters_make_it_again(given: dict[str, object]) -> None:
    made = protocols.make("several_values", epsilon=1.0, values=2, **given)
    again = protocols.make(made.name, **json.loads(json.dumps(made.parameters)))
    assert again.randomizer == made.randomizer
    assert again.guarantee == made.guarantee
    assert again.values == made.values == 2
    assert made.cost.messages_mean == pytest.approx(2 * made.randomizer.cost.messages_mean)


def test_the_local_model_adds_up_the_values() -> None:
    made = protocols.make("several_values", epsilon=3.0, values=3, inner="krr", options={"k": 4})
    assert 2.999 < made.guarantee.epsilon <= 3.0
    assert made.randomizer.epsilon0 <= 1.0
    with pytest.raises(UnsupportedError, match="not for the local model"):
        protocols.make(
            "several_values", epsilon=3.0, values=3, inner="dummies_histogram", options={"k": 4}
        )


def test_parts_of_a_survey_have_several_values_of_a_person() -> None:
    parts = [
        {"name": "seen", "protocol": "several_values", "values": 2, "inner": "dummies_histogram",
         "options": {"k": 9}, "apart": True, "epsilon": 0.4, "delta": 1e-7},
        {"name": "home", "protocol": "correlated_count", "epsilon": 0.4, "delta": 1e-7},
    ]  # fmt: skip
    made = protocols.make("bundle", n=1000, epsilon=1.0, delta=1e-6, parts=parts)
    assert made.guarantee.delta <= 1e-6
    widths = [part.randomizer.words_per_input for part in made.analyzer.parts]
    assert made.randomizer.words_per_input == 2 * 2 * -(-widths[0] // 2) + 2 * -(-widths[1] // 2)
    with pytest.raises(UnsupportedError, match="part by part"):
        made.randomizer.encode(np.zeros(1, dtype=np.int64), np.zeros((1, 99), dtype=np.uint64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Flat:
    """A curve that is the same at every epsilon."""

    level: float

    def delta(self, epsilon: float) -> float:
        return self.level

    def epsilon(self, delta: float) -> float:
        return 0.0


def test_what_a_curve_is_off_counts_for_both_neighbours() -> None:
    """At total variation d from the law of the curve, delta grows by (1 + e^epsilon) d."""
    inner = protocols.make("dummies_histogram", n=2000, k=4, epsilon=0.5, delta=1e-7)
    seen = []

    def move(honest: int, place: int) -> tuple[Profile, float]:
        seen.append((honest, place))
        return Flat(level=0.125), 2.0**-10

    made = replace(inner, offers=replace(inner.offers, moved=move))
    moved = MovedValue(inner=made, values=3, place=2)
    assert moved.delta(100, 0.0) == pytest.approx(0.125 + 2.0**-9, rel=1e-12)
    assert moved.delta(100, 1.0) == pytest.approx(0.125 + (1 + math.e) / 1024, rel=1e-12)
    assert moved.delta(100, 1.0) >= 0.125 + (1 + math.e) / 1024
    assert moved.delta(100, 1e6) == 1.0  # e^epsilon has no float
    assert set(seen) == {(300, 2)}
    nothing = MovedValue(
        inner=replace(inner, offers=replace(inner.offers, moved=lambda *_: None)), values=3, place=0
    )
    with pytest.raises(UnsupportedError, match="dummies_histogram knows no curve"):
        nothing.delta(100, 1.0)
