"""The exact audit against other computations of the same numbers, and where it refuses."""

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shuffledp as sdp
from accounting.channels import RATIOS, krr, random_channel
from contract.examples import enumerable, examples_of
from shuffledp.accounting.binary import BinaryResponse
from shuffledp.accounting.exact import local_delta, shuffled_delta
from shuffledp.audit import search
from shuffledp.audit.search import Box, CommonPart, ExactViews, Lattice, Sweep, share_out
from shuffledp.numerics.rounding import exp_bounds

weights = st.lists(st.integers(0, 6), min_size=3, max_size=3).filter(any)
SENDS = [(), ("a",), ("a", "b")]


def brute(laws, n, E):
    """All data sets, all messages of everybody: floats, no dynamic programming at all."""
    worst = 0.0
    for others in combinations_with_replacement(range(len(laws)), n - 1):
        views = []
        for x in range(len(laws)):
            view = Counter()
            for sent in product(*(laws[z].items() for z in (x, *others))):
                multiset = tuple(sorted(m for user, _ in sent for m in user))
                view[multiset] += math.prod(float(q) for _, q in sent)
            views.append(view)
        for a, b in permutations(views, 2):
            worst = max(worst, sum(max(0.0, p - E * b[o]) for o, p in a.items()))
    return worst


def channel_of(rows):
    return sdp.audit.channel(
        {
            x: {sent: Fraction(w, sum(row)) for sent, w in zip(SENDS, row, strict=True)}
            for x, row in enumerate(rows)
        }
    )


@settings(max_examples=40)
@given(
    st.lists(weights, min_size=2, max_size=3), st.integers(1, 4), st.sampled_from([0.0, 0.4, 1.1])
)
def test_exact_against_brute_force(rows, n, epsilon):
    """Users who send none, one or two messages."""
    made = channel_of(rows)
    found = sdp.audit.exact(made, n=n, epsilon=epsilon).delta
    assert found == pytest.approx(brute(made.laws, n, math.exp(epsilon)), rel=1e-9, abs=1e-12)


@settings(max_examples=60)
@given(
    st.lists(weights, min_size=2, max_size=4), st.integers(1, 6), st.sampled_from([0.0, 0.3, 1.5])
)
def test_floating_point_encloses_the_integers(rows, n, epsilon):
    """The sweep with its boxes, against every data set in integers."""
    laws = channel_of(rows).laws
    low, high = exp_bounds(epsilon)
    found = Sweep(Lattice(laws, n)).bounds(low, high)
    exact = ExactViews(laws, n)
    assert Fraction(found.lower) <= exact.delta(high)
    assert exact.delta(low) <= Fraction(found.upper)
    assert found.upper - found.lower <= 1e-9 * found.upper + 1e-12


@pytest.mark.parametrize("seed", range(12))
def test_single_messages_against_the_accountants_oracle(seed):
    rng = np.random.default_rng(seed)
    laws = random_channel(rng, RATIOS[seed % len(RATIOS)])
    ratio, n = Fraction(3, 2), 4
    made = sdp.audit.channel(dict(enumerate(laws)))
    assert sdp.audit.fraction(made, n=n, ratio=ratio) == shuffled_delta(laws, n, ratio)
    assert sdp.audit.fraction(made, ratio=ratio, view="local") == local_delta(laws, ratio)
    found = Sweep(Lattice(laws, n)).bounds(ratio, ratio)
    assert found.lower <= shuffled_delta(laws, n, ratio) <= found.upper


@pytest.mark.parametrize("spec", enumerable(), ids=lambda spec: spec.name)
def test_protocols_keep_their_promise(spec):
    parameters = examples_of(spec).shuffled_tiny[0]
    p = spec.make(**parameters)
    found = sdp.audit.exact(p, n=p.guarantee.honest, epsilon=p.guarantee.epsilon)
    assert found.confirms(p.guarantee.delta + 1e-12)


def test_binary_response_of_the_reference():
    """n = 100, f = 0.1: the accountant of binary response is another algorithm."""
    rr = sdp.audit.channel([["9/10", "1/10"], ["1/10", "9/10"]])
    other = BinaryResponse(n=100, flip=Fraction(1, 10))
    for epsilon in (0.1, 0.5, 1.0):
        ends = sdp.audit.bounds(rr, n=100, epsilon=epsilon)
        assert other.delta_lower(epsilon) <= ends.upper
        assert ends.lower <= other.delta(epsilon)
        assert other.delta(epsilon) == pytest.approx(ends.upper, rel=1e-8)


def test_the_worst_data_set_is_not_the_uniform_one():
    """At n = 25 another data set is worse than "all others equal": leaving out the search shows."""
    laws = krr(2, Fraction(19))
    low, high = exp_bounds(0.3)
    sweeper = Sweep(Lattice(laws, 25))
    uniform = sweeper.add(np.ones(1), (0, 0), (24, 0))
    scales = (1.0, math.exp(0.3))
    alone = max(sweeper.divergence(uniform, 24, pair, scales) for pair in ((0, 1), (1, 0)))
    assert sweeper.bounds(low, high).lower > 1.15 * alone


@pytest.mark.parametrize("kind", ["any", "symmetric"])
def test_four_messages(kind):
    """All data sets of n = 12 users, each evaluated by itself, against the search."""
    rows = [[5, 2, 1, 2], [1, 6, 2, 1], [2, 2, 5, 1], [1, 3, 3, 3]]
    laws = (
        krr(4, Fraction(4))
        if kind == "symmetric"
        else [{(y,): Fraction(w, 10) for y, w in enumerate(row)} for row in rows]
    )
    sweeper = Sweep(Lattice(laws, 12))
    E = math.exp(0.4)
    worst = 0.0
    for z in combinations_with_replacement(range(4), 11):
        law = sweeper.add(np.ones(1), (0,) * 4, tuple(z.count(x) for x in range(4)))
        for pair in permutations(range(4), 2):
            worst = max(worst, sweeper.divergence(law, 11, pair, (1.0, E)))
    found = sweeper.bounds(*exp_bounds(0.4))
    assert found.lower * (1 - 1e-12) <= worst <= found.upper * (1 + 1e-12)
    assert found.upper == pytest.approx(worst, rel=1e-9)


def test_bounds_of_a_box_hold_inside():
    """F(low), with and without the blanket, is at least F of every data set of the box."""
    laws = [{(y,): Fraction(w, 10) for y, w in enumerate(row)} for row in ([5, 4, 1], [3, 4, 3])]
    sweeper = Sweep(Lattice(laws, 9))
    pairs = [(0, 1), (1, 0)]
    looker = search._Search(sweeper, pairs, 1.2)
    looker.best = 2.0  # so that no bound is cut short
    for box in Box.whole(2, 8).halve():
        law = sweeper.add(np.ones(1), (0, 0), box.low)
        bounds = looker._look(box, law, dict.fromkeys(pairs, 1.0)).bounds
        for first in range(box.low[0], box.high[0] + 1):
            inside = sweeper.add(law, box.low, (first, 8 - first))
            for pair, bound in bounds.items():
                plain = sweeper.divergence(law, sum(box.low), pair, (1.0, 1.2))
                value = sweeper.divergence(inside, 8, pair, (1.0, 1.2))
                assert value <= bound < plain


@pytest.mark.parametrize("users", [1, 3, 4, 5, 30, 200])
@pytest.mark.parametrize("gamma", [0.0, 1e-9, 0.2, 1 / 3, 0.9, 1 - 1e-9, 1.0])
def test_blanket_shares_are_a_rounded_binomial(users, gamma):
    """Tails are at most the exact ones, in fractions, and hardly less."""
    shares = share_out(users, gamma)
    assert [b for b, _ in shares] == sorted({b for b, _ in shares})
    assert shares[0][0] == 0
    assert 1 <= sum(Fraction(share) for _, share in shares) < 1 + 1e-12
    p = Fraction(gamma)
    for place, (b, _) in enumerate(shares[1:], start=1):
        tail = 1 - sum(Fraction(share) for _, share in shares[:place])
        masses = (math.comb(users, k) * p**k * (1 - p) ** (users - k) for k in range(b, users + 1))
        exact = sum(masses)
        assert exact * (1 - Fraction(1, 10**11)) - Fraction(1, 10**15) <= tail <= exact


@pytest.mark.parametrize("parts", range(3, 40))
def test_the_blanket_is_rounded_down(parts):
    one = (Fraction(1, parts), Fraction(parts - 1, parts))
    gamma = 2 * one[0]
    found = CommonPart.of([one, one[::-1]]).gamma
    assert gamma * (1 - Fraction(1, 10**15)) < Fraction(found) <= gamma


@pytest.mark.parametrize("n", [1, 2, 4])
def test_laws_on_a_line_are_their_ends(n):
    """Five inputs between two: the oracle looks at all of them, in integers."""
    one, two = (
        (Fraction(1, 8), Fraction(5, 8), Fraction(2, 8)),
        (Fraction(4, 8), Fraction(1, 8), Fraction(3, 8)),
    )
    laws = [
        {(y,): a + t * (b - a) for y, (a, b) in enumerate(zip(one, two, strict=True))}
        for t in (Fraction(1, 3), Fraction(1), Fraction(1, 7), Fraction(0), Fraction(9, 10))
    ]
    assert Lattice(laws, n).inputs == 2
    assert ExactViews(laws, n).delta(Fraction(5, 4)) == shuffled_delta(laws, n, Fraction(5, 4))


def test_fewer_users_see_more():
    """A view of more users is a noisier view of fewer."""
    made = channel_of([[3, 2, 1], [1, 1, 4], [2, 2, 2]])
    deltas = [sdp.audit.exact(made, n=n, epsilon=0.2).delta for n in range(1, 7)]
    assert deltas == sorted(deltas, reverse=True)


def test_the_result_says_what_it_is():
    made = sdp.audit.channel([["3/4", "1/4"], ["1/4", "3/4"]])
    found = sdp.audit.exact(made, n=2, epsilon=math.log(2))
    assert isinstance(found, sdp.audit.ExactAudit)
    assert found.lower <= 3 / 16 <= found.delta
    assert (found.n, found.view, found.epsilon) == (2, "shuffled", math.log(2))
    assert found.confirms(0.1876)
    assert found.refutes(0.1874)
    assert not found.confirms(0.1874)
    assert not found.refutes(0.1876)
    assert str(found).startswith("delta = 0.1876 at epsilon = 0.693148: exact")
    assert "2 users, shuffled" in str(found)
    assert repr(found).startswith("ExactAudit(delta=0.1875")
    alone = sdp.audit.exact(made, epsilon=0.0, view="local")
    assert (alone.n, alone.delta) == (1, 0.5)
    assert "one user, local" in str(alone)


def test_what_rounding_leaves_open_is_neither_confirmed_nor_refuted():
    found = sdp.audit.ExactAudit(delta=0.2, lower=0.1, epsilon=1.0, view="shuffled", n=5)
    assert not found.confirms(0.15)
    assert not found.refutes(0.15)
    assert found.confirms(0.2)
    assert not found.refutes(0.1)


def test_an_imprecise_answer_is_refused(monkeypatch):
    monkeypatch.setattr(Sweep, "bounds", lambda *_: sdp.audit.Bounds(lower=0.1, upper=0.1000001))
    rr = sdp.audit.channel([["3/4", "1/4"], ["1/4", "3/4"]])
    with pytest.raises(sdp.UnsupportedError, match=r"only between 0\.1 and 0\.1000001"):
        sdp.audit.exact(rr, n=500, epsilon=0.1)
    assert sdp.audit.bounds(rr, n=500, epsilon=0.1).upper == 0.1000001


def test_ratios_beyond_every_float():
    tiny = Fraction(1, 10**400)
    pairs = {0: {(0, 0): 1 - tiny, (1, 1): tiny}, 1: {(0, 0): tiny, (1, 1): 1 - tiny}}
    assert sdp.audit.pure_ratio(sdp.audit.channel(pairs), n=1) == 10**400 - 1


def test_profile_is_the_curve():
    made = channel_of([[3, 2, 1], [1, 1, 4]])
    epsilons = [0.0, 0.3, 0.9, 3.0]
    curve = sdp.audit.profile(made, epsilons, n=5)
    assert curve.tolist() == [sdp.audit.exact(made, n=5, epsilon=e).delta for e in epsilons]
    assert (np.diff(curve) <= 0).all()


class TestViews:
    mirrored = sdp.audit.channel({0: {(0, 1): 1}, 1: {(1, 0): 1}})

    def test_local_is_in_order_and_the_others_are_not(self):
        assert sdp.audit.exact(self.mirrored, epsilon=3.0, view="local").delta == 1.0
        assert sdp.audit.exact(self.mirrored, epsilon=0.0, view="preshuffled").delta == 0.0
        assert sdp.audit.exact(self.mirrored, epsilon=0.0, n=4).delta == 0.0

    def test_preshuffled_is_shuffled_alone(self):
        made = channel_of([[3, 2, 1], [1, 1, 4]])
        alone = sdp.audit.exact(made, epsilon=0.2, n=1).delta
        assert alone == sdp.audit.exact(made, epsilon=0.2, view="preshuffled").delta

    def test_pure_epsilon(self):
        rr = sdp.audit.channel([["3/4", "1/4"], ["1/4", "3/4"]])
        assert sdp.audit.pure_ratio(rr, n=1000) == 3
        assert sdp.audit.pure_epsilon(rr, n=3) == pytest.approx(math.log(3), rel=1e-15)
        assert Fraction(math.nextafter(sdp.audit.pure_epsilon(rr, n=3), 0)) < Fraction(
            math.nextafter(math.log(3), 2)
        )
        assert sdp.audit.pure_epsilon(self.mirrored, view="local") == math.inf

    @settings(max_examples=25)
    @given(st.lists(weights, min_size=2, max_size=3), st.integers(1, 4))
    def test_pure_ratio_by_brute_force(self, rows, n):
        made = channel_of(rows)
        ratio = sdp.audit.pure_ratio(made, n=n)
        if ratio == math.inf:
            assert sdp.audit.fraction(made, n=n, ratio=10**15) > 0
            return
        assert sdp.audit.fraction(made, n=n, ratio=ratio) == 0
        if ratio > 1:
            below = 1 + (ratio - 1) * Fraction(999999, 1000000)
            assert sdp.audit.fraction(made, n=n, ratio=below) > 0

    def test_delta_is_zero_from_the_pure_epsilon_on(self):
        gap = sdp.audit.separations.gap_randomizer()
        epsilon = sdp.audit.pure_epsilon(gap, n=3)
        assert sdp.audit.exact(gap, n=3, epsilon=epsilon).delta == 0.0
        assert sdp.audit.exact(gap, n=3, epsilon=epsilon - 1e-6).delta > 0.0


class TestRefusals:
    rr = sdp.audit.channel([["3/4", "1/4"], ["1/4", "3/4"]])

    def test_too_many_views(self):
        wide = sdp.protocols.krr.KRR(k=12, epsilon0=1.0)
        with pytest.raises(
            sdp.UnsupportedError, match=r"of n=60 users can send .* different multisets"
        ):
            sdp.audit.exact(wide, n=60, epsilon=0.1)

    def test_too_many_views_of_several_messages(self):
        pairs = {(a, b): Fraction(1, 400) for a in range(20) for b in range(20)}
        several = sdp.audit.channel({0: pairs, 1: {(0, 0): 1}})
        with pytest.raises(sdp.UnsupportedError, match=r"of n=30 users can send .* all n up to"):
            sdp.audit.exact(several, n=30, epsilon=0.1)

    def test_too_many_data_sets(self):
        weights = [(i, i * i, 2000 - i) for i in range(1, 41)]
        some = sdp.audit.channel([[Fraction(w, sum(row)) for w in row] for row in weights])
        assert sdp.audit.exact(some, n=2, epsilon=0.0).delta > 0
        with pytest.raises(sdp.UnsupportedError, match="data sets with"):
            sdp.audit.exact(some, n=100, epsilon=0.0)

    def test_fractions_of_a_crowd(self):
        with pytest.raises(sdp.UnsupportedError, match=r"about \d.*e\+\d+ steps"):
            sdp.audit.fraction(self.rr, n=3000, ratio=2)

    def test_giving_up_in_the_middle(self, monkeypatch):
        monkeypatch.setattr(search, "LARGEST_SWEEP", 1000)
        with pytest.raises(sdp.UnsupportedError, match="gave up after"):
            sdp.audit.exact(self.rr, n=400, epsilon=0.1)

    @pytest.mark.parametrize(
        "wrong",
        [{"epsilon": -0.1}, {"n": 0}, {"n": None}, {"view": "central"}, {"epsilon": math.nan}],
    )
    def test_bad_parameters(self, wrong):
        with pytest.raises(sdp.ParameterError):
            sdp.audit.exact(self.rr, **({"n": 3, "epsilon": 0.5} | wrong))

    def test_huge_epsilon(self):
        leaking = sdp.audit.channel([["1/2", "1/2"], [1, 0]])
        assert sdp.audit.exact(leaking, n=2, epsilon=5000.0).delta == 0.5
        with pytest.raises(sdp.UnsupportedError, match="too large for floating point"):
            sdp.audit.exact(leaking, n=1500, epsilon=5000.0)
        with pytest.raises(sdp.ParameterError):
            sdp.audit.exact(leaking, n=2, epsilon=1e6)

    def test_not_a_randomizer(self):
        with pytest.raises(sdp.ParameterError, match="must be a randomizer"):
            sdp.audit.exact([[0.5, 0.5]], n=2, epsilon=0.1)

    def test_a_float_is_no_exact_ratio(self):
        with pytest.raises(sdp.ParameterError):
            sdp.audit.fraction(self.rr, n=2, ratio=2.0)
