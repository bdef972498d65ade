"""Personal levels of randomized response: never below enumeration, unbiased, and what gives a sender away."""

import math
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise, permutations, product

import numpy as np
import pytest
from scipy.stats import norm

import shuffledp as sdp
from shuffledp.accounting.exact import data_set_delta
from shuffledp.core.randomizer import randomize
from shuffledp.protocols.levels import HiddenLevel, Levels, estimate_hidden, estimate_visible
from support import ALPHA, first

F = Fraction


def exact_delta(laws, chosen: tuple[int, ...], E: Fraction) -> Fraction:
    """The worst case of the first person; laws[level][value]; `chosen` are the levels of all."""
    k = len(laws[0])
    flat = [law for level in laws for law in level]
    worst = F(0)
    for values in product(range(k), repeat=len(chosen) - 1):
        others = [level * k + x for level, x in zip(chosen[1:], values, strict=True)]
        for a, b in permutations(range(k), 2):
            pair = (chosen[0] * k + a, chosen[0] * k + b)
            worst = max(worst, data_set_delta(flat, others, pair, E))
    return worst


def sweep(seed: int, cases: int, change=lambda mean: mean) -> float:
    """The largest exact delta over the bound."""
    rng = np.random.default_rng(seed)
    worst = 0.0
    for _ in range(cases):
        k, n = int(rng.integers(2, 4)), int(rng.integers(2, 5))
        if k == 3:
            n = min(n, 3)
        epsilons = rng.choice([0.4, 1.0, 2.0, 3.0], size=2, replace=False).tolist()
        chosen = tuple(rng.integers(0, 2, n).tolist())
        people = {epsilons[level]: chosen.count(level) for level in set(chosen)}
        levels = Levels(k=k, people=people, word_bits=8)
        mine = epsilons[chosen[0]]
        epsilon = float(rng.uniform(0, 0.7)) * mine
        E = F(math.exp(epsilon)) * (1 + F(1, 10**14))
        devices = [sdp.protocols.krr.KRR(k=k, epsilon0=each, word_bits=8) for each in epsilons]
        laws = [[device.pmf(x) for x in range(k)] for device in devices]
        curve = levels.hide_level(mine)
        bound = HiddenLevel(device=curve.device, others=n - 1, mean=change(curve.mean)).delta(
            epsilon
        )
        worst = max(worst, float(exact_delta(laws, chosen, E)) / max(bound, 1e-300))
    return worst


@pytest.mark.parametrize("cases", first([200, 1000]))
def test_many_small_crowds(cases):
    assert 0.8 < sweep(seed=5, cases=cases) <= 1


def test_counting_on_more_uniform_messages_would_be_wrong():
    assert sweep(seed=5, cases=200, change=lambda mean: mean + F(9, 10)) > 1


def test_hoeffdings_comparison():
    """Pr[M <= c] <= Pr[Bin(N, mu / N) <= c] for c <= mu - 1, exactly; one step further it fails."""
    rng, broken = np.random.default_rng(6), 0
    for _ in range(1000):
        N = int(rng.integers(1, 7))
        p = [F(int(x), 10) for x in rng.integers(0, 11, N)]
        law = [F(1)]
        for q in p:
            law = [
                (law[i] if i < len(law) else 0) * (1 - q) + (law[i - 1] * q if i else 0)
                for i in range(len(law) + 1)
            ]
        mean, share = sum(p), sum(p) / N
        binomial = [math.comb(N, c) * share**c * (1 - share) ** (N - c) for c in range(N + 1)]
        for c in range(N + 1):
            first, second = sum(law[: c + 1]), sum(binomial[: c + 1])
            if c <= mean - 1:
                assert first <= second
            broken += first > second
    assert broken > 100


def test_the_divergence_is_not_convex_in_the_number_of_messages():
    """Why Hoeffding's inequality for convex functions does not apply."""
    curve = HiddenLevel(device=sdp.protocols.krr.KRR(k=2, epsilon0=1.0), others=9, mean=F(5))
    D = [curve._bound_given(m, 0.0) for m in range(6)]
    assert all(a >= b * (1 - 1e-12) for a, b in pairwise(D))
    assert any(D[m - 1] + D[m + 1] < 2 * D[m] * (1 - 1e-6) for m in range(1, 5))


class TestCurves:
    def test_one_level_is_nearly_the_blanket(self):
        levels = Levels(k=4, people={2.0: 10_000})
        alone = sdp.amplify(randomizer=levels.device(2.0), n=10_000, delta=1e-6, honest=1).epsilon
        hidden = levels.hide(1e-6)[2.0]
        assert alone <= hidden.epsilon < 1.01 * alone
        assert levels.show(1e-6)[2.0].epsilon == pytest.approx(alone, rel=1e-5)
        assert hidden.honest == 10_000

    def test_the_bold_hide_among_the_cautious(self):
        levels = Levels(k=4, people={0.5: 2_000, 2.0: 8_000})
        hidden, shown = levels.hide(1e-6), levels.show(1e-6)
        assert all(hidden[each].epsilon < shown[each].epsilon for each in levels.people)
        assert hidden[0.5].epsilon < hidden[2.0].epsilon

    def test_more_people_help(self):
        few = Levels(k=3, people={1.0: 100, 2.0: 100}).hide_level(2.0)
        more = Levels(k=3, people={1.0: 150, 2.0: 100}).hide_level(2.0)
        for epsilon in (0.0, 0.3, 1.0):
            assert more.delta(epsilon) <= few.delta(epsilon)
        assert few.delta(2.0) == 0

    def test_alone_it_is_the_local_guarantee(self):
        curve = Levels(k=2, people={1.0: 1}).hide_level(1.0)
        p, E = math.e, math.exp(0.3)
        assert curve.delta(0.3) == pytest.approx((p - E) / (p + 1), rel=1e-9)

    @pytest.mark.parametrize(
        ("people", "message"),
        [({}, "at least one level"), ({1.0: 0}, "must be >= 1"), ({-1.0: 5}, "epsilon0")],
    )
    def test_levels_are_checked(self, people, message):
        with pytest.raises(sdp.ParameterError, match=message):
            Levels(k=2, people=people)

    def test_an_unknown_level_is_refused(self):
        with pytest.raises(sdp.ParameterError, match=r"epsilon0=3.0 must be one of \[1.0\]"):
            Levels(k=2, people={1.0: 5}).hide_level(3.0)


def test_estimates_are_exactly_unbiased():
    """Over all assignments of levels to people and all messages, by enumeration."""
    levels = Levels(k=2, people={0.5: 1, 2.0: 2}, word_bits=6)
    values = (0, 0, 1)
    devices = {each: levels.device(each) for each in levels.people}
    hidden, visible = np.zeros(2), np.zeros(2)
    assignments = sorted(set(permutations((0.5, 2.0, 2.0))))
    for chosen in assignments:
        for sent in product((0, 1), repeat=3):
            p = math.prod(
                float(devices[each].pmf(x)[(y,)])
                for each, x, y in zip(chosen, values, sent, strict=True)
            ) / len(assignments)
            told = {
                each: np.bincount(
                    [y for e, y in zip(chosen, sent, strict=True) if e == each], minlength=2
                )
                for each in levels.people
            }
            hidden += p * estimate_hidden(sum(told.values()), levels)
            visible += p * estimate_visible(told, levels)
    np.testing.assert_allclose(hidden, [2, 1], atol=1e-12)
    np.testing.assert_allclose(visible, [2, 1], atol=1e-12)


def test_levels_that_depend_on_the_value_bias_the_pooled_estimate():
    """Everybody with a one is cautious: the mutant that the condition excludes."""
    levels, rng = Levels(k=2, people={0.5: 5_000, 3.0: 5_000}), sdp.SeededWords(8)
    told = {
        each: np.bincount(
            randomize(levels.device(each), np.full(5_000, x), rng).payload, minlength=2
        )
        for each, x in ((0.5, 1), (3.0, 0))
    }
    found = estimate_hidden(told[0.5] + told[3.0], levels)
    kept = 1 - 2 / (np.exp([0.5, 3.0]) + 1)
    spread = 10_000 / (5_000 * kept.sum()) * math.sqrt(10_000 / 4)
    assert abs(found[1] - 5_000) > norm.isf(ALPHA) * spread


def test_a_number_on_the_message_amplifies_nothing():
    keep, lie = F(3, 4), F(1, 4)
    mine = [{((1, 0),): keep, ((1, 1),): lie}, {((1, 0),): lie, ((1, 1),): keep}]
    other = {((2, 0),): keep, ((2, 1),): lie}
    for n in (0, 1, 5):
        assert data_set_delta([*mine, other], [2] * n, (0, 1), 2) == F(1, 4)
    same = [{(0,): keep, (1,): lie}, {(0,): lie, (1,): keep}]
    assert max(
        data_set_delta(same, z, (0, 1), 2) for z in combinations_with_replacement((0, 1), 5)
    ) < F(1, 4)
