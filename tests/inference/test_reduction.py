"""The reduction from any law to the uniform one, as fractions, and the tests built on it."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import shuffledp as sdp
from shuffledp import ParameterError, SeededWords
from shuffledp.inference.reduction import Reduction, exact_law, list_reductions
from shuffledp.inference.uniformity import uniformity_test
from support import ALPHA

LAWS = st.lists(st.integers(0, 50), min_size=2, max_size=6).filter(any)
WEIGHTS = st.lists(st.integers(0, 50), min_size=6, max_size=6).filter(any)


def law_of(weights):
    return tuple(Fraction(w, sum(weights)) for w in weights)


def pushed(reduction, p):
    """The law of the cells if values have the law p."""
    rows = [reduction.law(x) for x in range(reduction.k)]
    return [sum(p[x] * rows[x][cell] for x in range(len(p))) for cell in range(reduction.cells)]


@given(LAWS)
def test_the_null_becomes_exactly_uniform(weights):
    reduction = Reduction(q=law_of(weights))
    assert pushed(reduction, reduction.q) == [Fraction(1, reduction.cells)] * reduction.cells
    for x in range(reduction.k):
        assert sum(reduction.law(x)) == 1


@given(LAWS, WEIGHTS)
def test_distance_shrinks_to_three_eighths_at_most(weights, others):
    q = law_of(weights)
    if not any(others[: len(q)]):
        return
    p = law_of(others[: len(q)])
    reduction = Reduction(q=q)
    before = sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2
    cells = pushed(reduction, p)
    after = sum(abs(mass - Fraction(1, reduction.cells)) for mass in cells) / 2
    assert after >= Fraction(3, 8) * before


@given(LAWS, WEIGHTS)
def test_every_candidate_keeps_what_it_says(weights, others):
    """The null becomes uniform, and a law as far as `kept` says, in exact numbers."""
    q = law_of(weights)
    for reduction in list_reductions(q):
        cells = reduction.cells
        assert pushed(reduction, q) == [Fraction(1, cells)] * cells
        assert Fraction(3, 8) <= reduction.kept <= 1
        if not any(others[: len(q)]):
            continue
        p = law_of(others[: len(q)])
        before = sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2
        after = sum(abs(mass - Fraction(1, cells)) for mass in pushed(reduction, p)) / 2
        assert after >= reduction.kept * before
        if reduction.kept == 1:
            assert after == before


def test_candidates():
    """Uniform laws have one; a zero needs mixing; fewer cells or a larger distance, never both worse."""
    assert [each.cells for each in list_reductions([0.2] * 5)] == [5]
    assert all(each.mix > 0 for each in list_reductions([0.5, 0.5, 0.0]))
    many = list_reductions([Fraction(1, 3), Fraction(31415, 100_000), Fraction(105_755, 300_000)])
    pairs = [(each.cells, each.kept) for each in many]
    assert pairs == sorted(pairs)
    assert len({kept for _, kept in pairs}) == len(pairs) > 1
    with pytest.raises(ParameterError, match="cells=3"):
        Reduction(q=(Fraction(1, 10), Fraction(9, 10)), mix=Fraction(0), cells=3)
    with pytest.raises(ParameterError, match="mix="):
        Reduction(q=(Fraction(1, 10), Fraction(9, 10)), mix=Fraction(1))


class Tape:
    """The words of one tape, and then the end."""

    def __init__(self, words):
        self.left = list(words)

    def words(self, count, bits=64):
        if count > len(self.left):
            raise StopIteration
        taken, self.left = self.left[:count], self.left[count:]
        return np.array(taken, dtype=np.uint8)


def test_sampler_by_enumeration():
    """Every tape of four words of 3 bits: the masses decided so far never pass the law."""
    reduction = Reduction(q=(Fraction(3, 4), Fraction(1, 4)))
    law = reduction.law(1)
    seen, undecided, depth, bits = [0] * reduction.cells, 0, 4, 3
    for words in product(range(1 << bits), repeat=depth):
        try:
            cell = int(reduction.apply(np.array([1]), Tape(words), bits)[0])
        except StopIteration:
            undecided += 1
            continue
        seen[cell] += 1
    total = 1 << (bits * depth)
    left = Fraction(undecided, total)
    assert left < Fraction(1, 2)
    for mass, count in zip(law, seen, strict=True):
        assert Fraction(count, total) <= mass <= Fraction(count, total) + left


def test_sampler_by_statistics():
    reduction = Reduction(q=(Fraction(7, 10), Fraction(1, 5), Fraction(1, 10), Fraction(0)))
    n = 200_000
    for x in range(4):
        cells = reduction.apply(np.full(n, x), SeededWords(x))
        seen = np.bincount(cells, minlength=reduction.cells)
        law = np.array([float(mass) for mass in reduction.law(x)])
        assert stats.chisquare(seen, n * law).pvalue > ALPHA
        wrong = np.roll(law, 1)
        assert stats.chisquare(seen, n * wrong).pvalue < ALPHA


def test_floats_are_taken_exactly_and_their_rounding_is_shared():
    assert exact_law([0.1] * 10) == (Fraction(1, 10),) * 10
    assert exact_law([0.1, 0.2, 0.7]) == (Fraction(1, 10), Fraction(1, 5), Fraction(7, 10))
    assert exact_law(np.array([0.16] * 5 + [0.1] * 2))[0] == Fraction(4, 25)
    assert exact_law(np.array([0.1, 0.2, 0.7], dtype=np.float32))[1] == Fraction(1, 5)
    assert list_reductions([0.1, 0.2, 0.7])[-1].kept == 1  # ten cells, nothing is lost
    assert exact_law(np.array([0.5, 0.5], dtype=np.float32)) == (Fraction(1, 2),) * 2
    assert exact_law([1, 0]) == (1, 0)
    thirds = np.full(7, 1 / 7, dtype=np.float32)
    assert float(thirds.astype(np.float64).sum()) - 1 > 1e-8
    assert exact_law(thirds) == (Fraction(1, 7),) * 7
    with pytest.raises(sdp.ParameterError, match="must sum to 1"):
        exact_law(np.array([0.5, 0.5001], dtype=np.float32))


@pytest.mark.parametrize(
    "q", [[0.5, 0.4], [1.0], [1.5, -0.5], [float("nan"), 1.0], ["a", "b"], [Fraction(1, 3)] * 2]
)
def test_no_laws(q):
    with pytest.raises(ParameterError, match="q="):
        exact_law(q)


def test_identity_is_tested_at_a_distance_that_the_cells_keep(monkeypatch):
    """There are laws that the map brings nearer than half: what is claimed of the cells must be below."""
    # Two values have just less than four cells each, so nearly a fourth of them goes to the spare ones.
    q = (Fraction(33, 400), Fraction(33, 400), Fraction(167, 400), Fraction(167, 400))
    alpha = q[0]
    reduction = Reduction(q=q)
    cells = pushed(reduction, (0, 2 * alpha, *q[2:]))
    kept = sum(abs(mass - Fraction(1, reduction.cells)) for mass in cells) / 2
    claimed = []

    def spy(values, **arguments):
        claimed.append(arguments["alpha"])
        return uniformity_test(values, **arguments)

    monkeypatch.setattr("shuffledp.inference.uniformity.uniformity_test", spy)
    monkeypatch.setattr("shuffledp.inference.uniformity.list_reductions", lambda _: (reduction,))
    sdp.identity_test(np.arange(400) % 4, q=q, alpha=float(alpha), model="none", rng=SeededWords(1))
    assert claimed[0] <= kept < alpha / 2


Q = (Fraction(1, 2), Fraction(1, 4), Fraction(1, 8), Fraction(1, 8))
PRIVACY = {"epsilon": 1.0, "delta": 1e-6, "honest": 1.0}


@pytest.mark.parametrize(
    ("model", "coin", "n"),
    [
        ("none", "private", 4000),
        ("central", "private", 4000),
        ("shuffle", "private", 20_000),
        ("shuffle", "public", 20_000),
    ],
)
def test_identity(model, coin, n):
    """Values of law q are accepted, uniform ones (at distance 1/4) rejected; error 1e-3 each."""
    rng = np.random.default_rng(1)
    options = {"q": Q, "alpha": 0.25, "model": model, "coin": coin, "error": 1e-3, **PRIVACY}
    right = rng.choice(4, size=n, p=[float(q) for q in Q])
    found = sdp.identity_test(right, rng=SeededWords(1), **options)
    assert found.accept
    assert (found.k, found.cells, found.alpha) == (4, 8, 0.25)
    wrong = rng.integers(4, size=n)
    assert not sdp.identity_test(wrong, rng=SeededWords(1), **options).accept
