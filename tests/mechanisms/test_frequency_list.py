"""Private frequency lists: the law of all partitions, its ratio, and draws from exactly this law."""

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

import shuffledp as sdp
from shuffledp.mechanisms.frequency_list import FrequencyList, _Tables
from shuffledp.numerics.rounding import exp_upper
from support import ALPHA

F = Fraction


def partitions(n, most=None):
    most = n if most is None else most
    if n == 0:
        return [()]
    return [(u, *rest) for u in range(min(n, most), 0, -1) for rest in partitions(n - u, u)]


def neighbours(f):
    """All lists after one person has changed the value."""
    found = set()
    for i in range(len(f)):
        for j in range(len(f) + 1):
            moved = [*f, 0]
            moved[i] -= 1
            moved[j] += 1
            found.add(tuple(sorted((x for x in moved if x), reverse=True)))
    return found


def test_the_sensitivity_is_two():
    for f in partitions(6):
        for g in neighbours(f):
            pairs = itertools.zip_longest(f, g, fillvalue=0)
            assert sum(abs(a - b) for a, b in pairs) <= 2


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_ratio_between_all_neighbours(epsilon):
    mechanism = FrequencyList(n=4, epsilon=epsilon)
    limit, largest = exp_upper(epsilon) * (1 + F(1, 10**40)), F(0)
    for f in partitions(4):
        law = mechanism.law(f)
        assert abs(sum(law.values()) - 1) < F(1, 10**40)
        for g in neighbours(f):
            other = mechanism.law(g)
            largest = max(largest, *(law[each] / other[each] for each in law))
    assert exp_upper(epsilon / 2) < largest <= limit


def test_twice_the_rate_would_be_too_much():
    law, other = (FrequencyList(n=4, epsilon=4.0).law(f) for f in ((4,), (3, 1)))
    assert max(law[each] / other[each] for each in law) > exp_upper(2.0)


@pytest.mark.parametrize("f", [(3,), (2, 1), (1, 1, 1)])
def test_the_tables_enclose_the_law(f):
    """Products of the chances of every place, from both sides."""
    mechanism = FrequencyList(n=3, epsilon=1.0)
    tables = _Tables(mechanism._read(f), mechanism.rate, 3)
    for each, q in mechanism.law(f).items():
        low = high = F(1)
        most = 3
        for place, u in enumerate(each):
            lows, highs = tables.lows[place][: most + 1], tables.highs[place][: most + 1]
            low *= F(lows[u], lows[u] + sum(highs) - highs[u])
            high *= F(highs[u], highs[u] + sum(lows) - lows[u])
            most = u
        assert low * (1 - F(1, 10**40)) <= q <= high * (1 + F(1, 10**40))
        assert high - low < F(1, 10**40)


@pytest.mark.parametrize("bits", [64, 1])
def test_draws_have_the_law(bits):
    """Also when a word of one bit hardly ever decides; a mutant at half the rate is told apart."""
    mechanism, runs, rng = FrequencyList(n=3, epsilon=2.0), 3000, sdp.SeededWords(21)
    drawn = Counter(tuple(mechanism.release([2, 1], rng, bits).tolist()) for _ in range(runs))
    law = mechanism.law([2, 1])
    assert set(drawn) <= set(law)
    for each, q in law.items():
        assert binom.cdf(drawn[each], runs, float(q)) > ALPHA
        assert binom.sf(drawn[each] - 1, runs, float(q)) > ALPHA
    mutant = FrequencyList(n=3, epsilon=1.0).law([2, 1])
    assert binom.sf(drawn[2, 1, 0] - 1, runs, float(mutant[2, 1, 0])) < ALPHA


def test_more_bits_are_fetched_when_needed():
    tables = _Tables([5, 0, 0, 0, 0], F(1), 5)
    before = tables.scale
    for _ in range(200):
        tables.draw(0, 5, sdp.SeededWords(3), 1)
    tables._fill(2 * before)
    assert tables.scale == 2 * before


def test_the_answer_is_a_list_in_order():
    f = [50, 20, 10, 10, 5, 1, 1, 1, 1, 1]
    found = FrequencyList(n=100, epsilon=1.0).release(f, sdp.SeededWords(5))
    assert found.shape == (100,)
    assert (np.diff(found) <= 0).all()
    assert np.abs(found[:10] - f).sum() < 80
    assert FrequencyList(n=100, epsilon=1.0).guarantee.delta == 0


@pytest.mark.parametrize("bad", [[], [1.5, 2], [3, 3], [12, -2], [[10]], "10", [True] * 10])
def test_bad_frequencies(bad):
    with pytest.raises(sdp.DataError):
        FrequencyList(n=10, epsilon=1.0).release(bad, sdp.SeededWords(1))


@pytest.mark.parametrize(
    "changed", [{"n": 0}, {"n": 1001}, {"epsilon": 0.0}, {"epsilon": float("nan")}]
)
def test_bad_parameters(changed):
    with pytest.raises(sdp.ParameterError):
        FrequencyList(**({"n": 10, "epsilon": 1.0} | changed))


class TestErrors:
    @pytest.mark.parametrize("epsilon", [1.0, 4.0])
    @pytest.mark.parametrize("n", [3, 5])
    def test_bounds_hold_for_every_list_place_and_error(self, n, epsilon):
        """Exact laws of all lists; a bound with one factor less fails."""
        mechanism, broken = FrequencyList(n=n, epsilon=epsilon), 0
        for f in partitions(n):
            exact = mechanism._read(f)
            law = mechanism.law(f)
            for i, t in itertools.product(range(n), range(1, n + 1)):
                above = float(sum(q for g, q in law.items() if g[i] >= exact[i] + t))
                below = float(sum(q for g, q in law.items() if g[i] <= exact[i] - t))
                assert above <= mechanism._bound_tails(n - i)[t]
                assert below <= mechanism._bound_tails(i + 1)[t]
                broken += t > 1 and above > mechanism._bound_tails(n - i)[t] / 4
        assert broken  # the bound is of the right size

    def test_intervals_and_standard_errors_on_the_exact_law(self):
        n, level = 5, 0.8
        mechanism = FrequencyList(n=n, epsilon=6.0)
        for f in partitions(n):
            exact, law = np.array(mechanism._read(f)), mechanism.law(f)
            covered, squares = np.zeros(n), np.zeros(n)
            for g, q in law.items():
                estimate = mechanism.estimate(np.maximum(g, 1))  # zeros are not listed
                low, high = estimate.error.interval(np.array(g, dtype=float), level)
                covered += float(q) * ((low <= exact) & (exact <= high))
                squares += float(q) * (np.array(g) - exact) ** 2
                assert (low <= high).all()
            assert (covered >= level).all()
            assert (np.sqrt(squares) <= estimate.stderr).all()

    def test_no_place_is_one_too_many(self):
        """How often more values are called certain than there are: on the exact law, for all lists."""
        mechanism, level, worst = FrequencyList(n=6, epsilon=8.0), 0.9, 0.0
        for f in partitions(6):
            wrong = sum(
                q for g, q in mechanism.law(f).items() if mechanism.count_certain(g, level) > len(f)
            )
            worst = max(worst, float(wrong))
        assert 0.001 < worst <= 1 - level

    def test_three_species_are_three(self):
        mechanism, rng = FrequencyList(n=150, epsilon=1.0), sdp.SeededWords(7)
        found = mechanism.release([50, 50, 50], rng)
        assert np.count_nonzero(found) > 3
        assert mechanism.count_certain(found, 0.95) == 3

    def test_tails_keep_their_digits(self):
        """Where 1 - product would round to 0."""
        exact = 1 - np.prod([1 - np.exp(-np.longdouble(k)) for k in range(40, 60)])
        assert FrequencyList(n=50, epsilon=4.0)._bound_tails(20)[40] == pytest.approx(
            float(np.exp(-40.0) / (1 - np.exp(-1.0))), rel=1e-6
        )
        assert exact < 1e-16

    @pytest.mark.parametrize("level", [0, 1, float("nan")])
    def test_bad_levels(self, level):
        with pytest.raises(sdp.ParameterError, match="level"):
            FrequencyList(n=3, epsilon=1.0).count_certain([3], level)


def test_an_estimate_names_the_places_that_somebody_holds_and_knows_its_limits():
    answer = FrequencyList(n=9, epsilon=2.0).estimate([5, 3, 1, 0, 0])
    assert np.asarray(answer.value).tolist() == [5.0, 3.0, 1.0]
    assert answer.labels == ("1", "2", "3")
    assert answer.limits == (0.0, 9.0)
