"""The accountant's public face: what it accepts, what it promises, and that the ends are safe."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shuffledp as sdp
from contract.examples import examples_of
from shuffledp.accounting.base import find_epsilon
from shuffledp.accounting.blanket import law_blankets
from shuffledp.accounting.closed_forms import CLOSED_FORMS, BoundComparison
from shuffledp.core.domain import Categories
from shuffledp.numerics.rounding import exp_lower, exp_upper
from shuffledp.protocols import PROTOCOLS
from shuffledp.protocols.krr import KRR
from shuffledp.protocols.rr import RR
from support import every, first

CASES = [
    (epsilon0, n, delta)
    for epsilon0 in (0.1, 1.0, 3.0, 6.0)
    for n in (2, 100, 10_000, 10**6)
    for delta in (1e-3, 1e-6, 1e-12)
]
ORDINARY = {"k": 9, "lower": 0, "upper": 120, "steps": 60}
ORDINARY |= {"bits": 4, "seed": 1}  # of words

LOCAL = [spec for spec in PROTOCOLS if spec.make_local]


def made(spec, epsilon):
    """The randomizer of a registered protocol at ordinary parameters."""
    names = examples_of(spec).local[0].keys() - {"epsilon", "word_bits"}
    return spec.make_local(**{name: ORDINARY[name] for name in names}, epsilon=epsilon).randomizer


class TestArguments:
    @pytest.mark.parametrize("function", [sdp.amplify, sdp.amplify_lower])
    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"n": 0}, "n=0 must be >= 1"),
            ({"n": 1e6}, "n=1000000.0 must be an integer"),
            ({"n": True}, "n=True must be an integer"),
            ({"delta": -1e-9}, "delta=-1e-09 must be >= 0 and < 1"),
            ({"delta": 1.0}, "delta=1.0 must be >= 0 and < 1"),
            ({"delta": float("nan")}, "delta=nan must be finite"),
            ({"delta": 1e-301}, "delta=1e-301 must be 0, or at least 1e-300"),
            ({"epsilon0": 0.0}, "epsilon0=0.0 must be > 0"),
            ({"epsilon0": float("inf")}, "epsilon0=inf must be finite"),
            ({"epsilon0": "1"}, "epsilon0='1' must be a number"),
            ({"epsilon0": None}, "epsilon0 must be given, or a randomizer"),
            (
                {"randomizer": RR(epsilon0=1.0)},
                "epsilon0=1.0 must be left out: the randomizer has its own",
            ),
            ({"honest": 0.0}, "honest=0.0 must be > 0 and <= 1"),
            ({"honest": 1.1}, "honest=1.1 must be > 0 and <= 1"),
            ({"honest": 1e-3}, "honest=0.001 must leave at least one of n=100 users"),
        ],
    )
    def test_are_checked(self, function, changed, message):
        arguments = {"epsilon0": 1.0, "n": 100, "delta": 1e-6} | changed
        with pytest.raises(sdp.ParameterError) as error:
            function(**arguments)
        assert str(error.value).startswith(message)

    def test_an_unknown_bound_is_answered_with_those_that_apply(self):
        with pytest.raises(sdp.ParameterError, match=r"'clones 2021', 'clones 2023'$"):
            sdp.amplify(epsilon0=1.0, n=100, delta=1e-6, bound="blanket", honest=1)
        with pytest.raises(sdp.ParameterError, match="'blanket'"):
            sdp.amplify(
                randomizer=KRR(k=4, epsilon0=1.0), n=100, delta=1e-6, bound="binary", honest=1
            )

    @pytest.mark.parametrize("total_variation", [0.0, -0.1, 1.1, float("nan"), 0.47])
    def test_total_variation_must_be_possible(self, total_variation):
        """It is at most (p-1)/(p+1) = 0.462 for epsilon0 = 1."""
        with pytest.raises(sdp.ParameterError, match="total_variation"):
            sdp.amplify(epsilon0=1.0, n=100, delta=1e-6, total_variation=total_variation, honest=1)

    def test_a_lower_bound_needs_delta(self):
        with pytest.raises(sdp.ParameterError, match="delta=0 must be > 0"):
            sdp.amplify_lower(epsilon0=1.0, n=100, delta=0, honest=1)

    def test_a_curve_refuses_negative_epsilon(self):
        with pytest.raises(sdp.ParameterError, match=r"epsilon=-0\.1 must be >= 0"):
            sdp.profile(epsilon0=1.0, n=100, honest=1).delta(-0.1)


class TestGuarantee:
    def test_fields(self):
        found = sdp.amplify(epsilon0=1.0, n=1_000, delta=1e-6, honest=1)
        assert found.delta == 1e-6
        assert found.model is sdp.Model.SHUFFLE
        assert found.neighbours is sdp.Neighbours.REPLACE_ONE
        assert found.honest == 1_000
        assert "2023" in found.proof

    def test_prints_numbers_that_are_not_too_small(self):
        found = sdp.amplify(epsilon0=3.0, n=10**6, delta=1e-8, honest=1)
        shown = str(found).split(":")[0].replace(" ", "").split(",")
        values = dict(part.split("=") for part in shown)
        assert found.epsilon <= float(values["epsilon"]) <= found.epsilon * (1 + 1e-5)
        assert values["delta"] == "1e-08"

    def test_delta_0_is_the_local_guarantee(self):
        found = sdp.amplify(epsilon0=1.5, n=10**6, delta=0, honest=1)
        assert (found.epsilon, found.delta) == (1.5, 0.0)
        assert "not amplified" in found.proof

    def test_one_user_gets_the_local_guarantee_at_most(self):
        found = sdp.amplify(epsilon0=1.0, n=1, delta=1e-6, honest=1)
        assert 1 - 1e-5 <= found.epsilon <= 1.0  # (1, 0) is also (0.999999..., 1e-6)

    @pytest.mark.parametrize("honest", [0.25, 0.5, 0.9])
    def test_honest_users_are_the_only_ones_that_count(self, honest):
        some = sdp.amplify(epsilon0=1.0, n=1_000, delta=1e-6, honest=honest)
        alone = sdp.amplify(epsilon0=1.0, n=int(1_000 * honest), delta=1e-6, honest=1)
        assert some == alone
        lower = sdp.amplify_lower(epsilon0=1.0, n=1_000, delta=1e-6, honest=honest)
        assert lower == sdp.amplify_lower(epsilon0=1.0, n=int(1_000 * honest), delta=1e-6, honest=1)

    def test_a_part_of_an_honest_user_does_not_count(self):
        assert sdp.amplify(epsilon0=1.0, n=10, delta=1e-6, honest=0.59).honest == 5

    @pytest.mark.parametrize("name", ["clones 2021", "clones 2023", "blanket"])
    def test_a_bound_by_name(self, name):
        krr = KRR(k=8, epsilon0=1.0)
        curve = sdp.profile(randomizer=krr, n=1_000, bound=name, honest=1)
        assert [bound.name for bound in curve.bounds] == [name]
        best = sdp.amplify(randomizer=krr, n=1_000, delta=1e-6, honest=1)
        assert best.epsilon <= curve.epsilon(1e-6)

    def test_the_older_bound_is_there_when_asked_for_only(self):
        names = [bound.name for bound in sdp.profile(epsilon0=1.0, n=100, honest=1).bounds]
        assert names == ["clones 2023"]

    def test_published_values(self):
        """AMPLIFICATION table: epsilon at delta = 1e-6 of the two pairs, to the digits printed."""
        for n, epsilon0, newer, older in [
            (1_000, 0.5, 0.06269, 0.07052),
            (1_000, 1.0, 0.14867, 0.18241),
            (1_000, 4.0, 1.8529, 3.990),
            (10_000, 1.0, 0.04321, 0.05301),
            (100_000, 2.0, 0.03319, 0.04503),
            (10**6, 1.0, 0.003514, 0.004335),
            (10**7, 1.0, 0.000967, 0.001199),
        ]:
            found = partial(sdp.amplify, n=n, epsilon0=epsilon0, delta=1e-6, honest=1)
            assert found(bound="clones 2023").epsilon == pytest.approx(newer, rel=2e-3)
            assert found(bound="clones 2021").epsilon == pytest.approx(older, rel=2e-3)


class TestTotalVariation:
    def test_the_largest_possible_gives_nothing_new(self):
        """All mass on the two extreme atoms is the generic pair."""
        largest = np.tanh(0.5)
        refined = sdp.profile(
            epsilon0=1.0,
            n=1_000,
            total_variation=largest * (1 - 1e-12),
            bound="total variation",
            honest=1,
        )
        assert refined.epsilon(1e-6) == pytest.approx(0.14867, rel=2e-3)

    def test_a_smaller_one_helps(self):
        found = [
            sdp.amplify(epsilon0=1.0, n=10_000, delta=1e-6, total_variation=t, honest=1).epsilon
            for t in (0.05, 0.1, 0.2, 0.4)
        ]
        assert found == sorted(found)
        assert found[0] < 0.5 * sdp.amplify(epsilon0=1.0, n=10_000, delta=1e-6, honest=1).epsilon

    def test_covers_a_randomizer_of_that_total_variation(self):
        krr = KRR(k=16, epsilon0=1.0)
        distance = float(krr.p - krr.q)
        bare = sdp.profile(
            epsilon0=1.0, n=1_000, total_variation=distance, bound="total variation", honest=1
        ).epsilon(1e-6)
        assert sdp.amplify_lower(randomizer=krr, n=1_000, delta=1e-6, honest=1) <= bare
        assert sdp.amplify(randomizer=krr, n=1_000, delta=1e-6, honest=1).epsilon <= bare * (
            1 + 1e-3
        )


class TestRandomizers:
    @pytest.mark.parametrize("spec", LOCAL, ids=lambda spec: spec.name)
    @pytest.mark.parametrize("n", first([30, 20_000]))  # of many, the contract asks nearly the same
    def test_the_own_law_never_hurts_and_never_undercuts(self, spec, n):
        randomizer = made(spec, 1.0)
        found = sdp.amplify(randomizer=randomizer, n=n, delta=1e-6, honest=1).epsilon
        assert found <= sdp.amplify(epsilon0=1.0, n=n, delta=1e-6, honest=1).epsilon * (1 + 1e-9)
        if spec.name not in ("local_hashing", "local_prefixes"):  # their laws are too long to list
            assert sdp.amplify_lower(randomizer=randomizer, n=n, delta=1e-6, honest=1) <= found

    @pytest.mark.parametrize("name", ["krr", "hadamard", "subset_selection", "local_hashing"])
    def test_the_own_law_helps_with_many_categories(self, name):
        randomizer = made(sdp.protocols.spec(name), 1.0)
        found = sdp.amplify(randomizer=randomizer, n=20_000, delta=1e-6, honest=1)
        assert (
            found.epsilon < 0.95 * sdp.amplify(epsilon0=1.0, n=20_000, delta=1e-6, honest=1).epsilon
        )
        assert "blanket" in found.proof

    def test_ten_ary_response_is_nearly_exact(self):
        """AMPLIFICATION: by its blanket .27278 at n = 10^3, epsilon0 = 2; the data set .27264."""
        krr = KRR(k=10, epsilon0=2.0)
        assert sdp.amplify(randomizer=krr, n=1_000, delta=1e-6, honest=1).epsilon == pytest.approx(
            0.27278, rel=1e-3
        )
        assert sdp.amplify_lower(randomizer=krr, n=1_000, delta=1e-6, honest=1) == pytest.approx(
            0.27264, rel=2e-3
        )

    def test_binary_response_is_within_a_percent_of_its_data_set(self):
        rr = RR(epsilon0=1.0)
        found = sdp.amplify(randomizer=rr, n=10_000, delta=1e-6, honest=1)
        assert "binary" in found.proof
        lower = sdp.amplify_lower(randomizer=rr, n=10_000, delta=1e-6, honest=1)
        assert lower <= found.epsilon <= 1.01 * lower

    def test_a_stranger_with_a_small_domain_is_read_from_its_law(self):
        """No blanket but that of its law, and no flip: only `pmf` is asked."""
        krr = KRR(k=3, epsilon0=1.0)
        stranger = Stranger(krr)
        assert sdp.profile(randomizer=stranger, n=500, bound="blanket", honest=1).epsilon(
            1e-6
        ) == pytest.approx(
            sdp.profile(randomizer=krr, n=500, bound="blanket", honest=1).epsilon(1e-6)
        )

    def test_a_stranger_with_a_large_domain_gets_the_generic_bound(self):
        stranger = Stranger(KRR(k=100, epsilon0=1.0))
        names = [bound.name for bound in sdp.profile(randomizer=stranger, n=500, honest=1).bounds]
        assert names == ["clones 2023"]


class Mute:
    """A randomizer from elsewhere: only what the vocabulary asks for."""

    word_bits = 64
    words_per_input = 1

    def __init__(self, krr):
        self.epsilon0 = krr.epsilon0
        self.domain = Categories(k=krr.k)
        self.encode = krr.encode
        self.pmf = krr.pmf


class Stranger(Mute):
    """One that states the blankets of its law, if it is short."""

    def blankets(self):
        return law_blankets(self) if self.domain.size <= 64 else ()


class TestCurve:
    @given(
        epsilon0=st.floats(0.05, 8.0),
        n=st.integers(1, 10**9),
        log_delta=st.floats(-60, -0.5),
        share=st.floats(0.0, 1.0),
    )
    @settings(max_examples=60, deadline=None)
    def test_delta_and_epsilon_agree(self, epsilon0, n, log_delta, share):
        curve = sdp.profile(epsilon0=epsilon0, n=n, honest=1)
        delta = float(np.exp(log_delta))
        epsilon = curve.epsilon(delta)
        assert 0 <= epsilon <= epsilon0
        assert curve.delta(epsilon) <= delta
        below = share * epsilon
        assert curve.delta(below) >= curve.delta(epsilon) * (1 - 1e-3)
        if below < 0.99 * epsilon:
            assert curve.delta(below) > delta * (1 - 1e-3), "epsilon could have been smaller"

    @given(epsilon0=st.floats(0.05, 6.0), n=st.integers(1, 10**8), more=st.integers(1, 10**8))
    @settings(max_examples=40, deadline=None)
    def test_more_users_help(self, epsilon0, n, more):
        few, many = (
            sdp.amplify(epsilon0=epsilon0, n=m, delta=1e-6, honest=1).epsilon for m in (n, n + more)
        )
        assert many <= few * (1 + 1e-3)

    @given(epsilon0=st.floats(0.05, 6.0), factor=st.floats(1.0, 2.0), n=st.integers(1, 10**8))
    @settings(max_examples=40, deadline=None)
    def test_more_local_privacy_helps(self, epsilon0, factor, n):
        less, more = (
            sdp.amplify(epsilon0=e, n=n, delta=1e-6, honest=1).epsilon
            for e in (epsilon0, factor * epsilon0)
        )
        assert less <= more * (1 + 1e-3)

    def test_delta_at_epsilon0_is_0(self):
        assert sdp.profile(epsilon0=1.0, n=100, honest=1).delta(1.0) == 0


@pytest.mark.parametrize(("epsilon0", "n", "delta"), every(5, CASES))
def test_lower_is_below_upper(epsilon0, n, delta):
    lower = sdp.amplify_lower(epsilon0=epsilon0, n=n, delta=delta, honest=1)
    assert (
        0 <= lower <= sdp.amplify(epsilon0=epsilon0, n=n, delta=delta, honest=1).epsilon <= epsilon0
    )


def test_what_is_no_randomizer_or_beyond_floats_is_refused():
    with pytest.raises(sdp.ParameterError, match="'krr' must be a protocol or a randomizer"):
        sdp.amplify(randomizer="krr", n=10, delta=1e-6, honest=1)
    with pytest.raises(sdp.ParameterError, match=r"must be a protocol, or have blankets"):
        sdp.amplify(randomizer=Mute(KRR(k=4, epsilon0=1.0)), n=10, delta=1e-6, honest=1)
    with pytest.raises(sdp.ParameterError, match="must be <= 700"):
        sdp.amplify(epsilon0=800.0, n=1_000, delta=1e-8, honest=1)
    assert sdp.calibrate(epsilon=800.0, n=1_000, delta=1e-8, honest=1) == 800.0


class TestWhereEpsilonEndsAtZero:
    """A delta near the total variation of the view: the search ends, is monotone, and finds 0."""

    FACTORS = (0.1, 0.5, 0.9, 0.99, 0.9999, 1 - 1e-9, 1, 1 + 1e-9, 1.0001, 1.1, 2)

    @pytest.mark.parametrize(
        ("epsilon0", "n", "delta"), [(0.25, 5000, 0.0015), (6.0, 2000, 0.25), (6.0, 20_000, 0.08)]
    )
    def test_it_is_0(self, epsilon0, n, delta):
        assert sdp.amplify(epsilon0=epsilon0, n=n, delta=delta, honest=1).epsilon == 0

    @pytest.mark.parametrize("epsilon0", [0.01, 0.25, 1.0, 6.0, 12.0])
    @pytest.mark.parametrize("n", [1, 2, 50, 2000, 20_000, 10**6, 10**9])
    def test_any_randomizer(self, epsilon0, n):
        self.sweep(sdp.profile(epsilon0=epsilon0, n=n, honest=1))

    @pytest.mark.parametrize("randomizer", [RR(epsilon0=1.0), KRR(k=8, epsilon0=2.0)])
    @pytest.mark.parametrize("n", [2, 50, 5000])
    def test_its_own_law(self, randomizer, n):
        for bound in ("blanket", None):
            self.sweep(sdp.profile(randomizer=randomizer, n=n, bound=bound, honest=1))

    def sweep(self, curve):
        whole = curve.delta(0.0)
        found = []
        for factor in self.FACTORS:
            delta = min(factor * whole, 1 - 1e-9)
            epsilon = curve.epsilon(delta)
            assert curve.delta(epsilon) <= delta
            assert (epsilon == 0) == (delta >= whole)
            found.append(epsilon)
        assert all(b <= a * (1 + 2e-6) for a, b in pairwise(found))

    def test_a_curve_that_jumps_at_0_ends_the_search(self):
        """What kept `amplify` from returning: an upper bound at 0 that is coarser than just above."""
        asked = []

        def delta_at(epsilon):
            asked.append(epsilon)
            assert len(asked) < 60
            return 0.25 if epsilon == 0 else 0.2 * (1 - epsilon)

        assert 0 < find_epsilon(delta_at, 0.22, epsilon0=1.0, guess=0.5) <= 1e-11
        assert find_epsilon(delta_at, 0.25, epsilon0=1.0, guess=0.5) == 0


def test_the_curve_of_the_lower_bound_ends_where_there_is_none():
    curves, guesses = BoundComparison(epsilon0=1.0, n=10_000, honest=1).trace([1e-9, 1e-3, 0.9])
    (name,) = guesses - {form.name for form in CLOSED_FORMS}
    assert [delta for _, delta in curves[name]] == [1e-9, 1e-3]
    assert all(epsilon > 0 for epsilon, _ in curves[name])


@pytest.mark.parametrize(
    "law", [{"epsilon0": 1.0}, {"epsilon0": 4.0}, {"randomizer": KRR(k=2, epsilon0=1.0)}]
)
def test_curves_are_those_of_the_table(law):
    """Every bound that has an epsilon has a curve through it, and no other bound has one."""
    shuffled = BoundComparison(n=10_000, honest=1, **law)
    lines, (curves, guesses) = shuffled.compare(1e-6), shuffled.trace([1e-6])
    found = {line.name: line.epsilon for line in lines if line.epsilon is not None}
    found["data sets (lower)"] = found.pop("data sets")
    assert list(curves) == list(found)
    assert guesses == {
        "data sets (lower)",
        *(line.name for line in lines if line.kind == "approximation"),
    }
    numeric = {line.name for line in lines if line.numeric and line.kind == "upper"}
    for name, epsilon in found.items():
        if name in numeric:
            assert curves[name](epsilon) <= 1e-6 < curves[name](0.99 * epsilon)
        else:
            assert curves[name] == [(epsilon, 1e-6)]


@pytest.mark.parametrize("delta", [1e-6, 1e-10])
def test_the_best_bound_is_found_wherever_it_stands(delta):
    curve = sdp.profile(randomizer=KRR(k=16, epsilon0=2.0), n=1_000, honest=1)
    other_way = replace(curve, bounds=curve.bounds[::-1])
    assert len(curve.bounds) > 1
    assert curve.best(delta) == other_way.best(delta)
    assert curve.best(delta).epsilon == min(each.curve.epsilon(delta) for each in curve.bounds)


@pytest.mark.parametrize("epsilon0", [300.0, 356.0, 400.0, 700.0])
@pytest.mark.parametrize("known", [{"total_variation": 0.9}, {"check_in": 0.5}])
def test_products_beyond_the_floats_hide_nothing(epsilon0, known):
    """Nobody is hidden: a message is the truth unless one of ten lies, each with probability e^-epsilon0, or none is sent."""
    (told,) = known.values()
    curve = sdp.profile(epsilon0=epsilon0, n=10, honest=1, **known)
    for share in (0.5, 0.9, 0.99):
        lies = 10 * math.exp((share - 1) * epsilon0)
        assert curve.delta(share * epsilon0) >= told * (1 - lies) - 1e-9, share
    assert curve.epsilon(1e-6) > 0.99 * epsilon0


@pytest.mark.parametrize("epsilon0", [28.0, 100.0, 700.0])
@pytest.mark.parametrize("known", ["total_variation", "check_in"])
@pytest.mark.parametrize("part", [0.5, 1e-9, 1e-20])
def test_parts_of_what_nearly_everybody_tells(epsilon0, known, part):
    """Nobody hides behind blankets of e^-28 or less: delta is the total variation, or how many take part.

    Masses that leave the floats are neither 0 nor known to a few digits.
    """
    curve = sdp.profile(epsilon0=epsilon0, n=3, honest=1, **{known: part})
    for epsilon in (1.0, epsilon0 / 2):
        assert part * (1 - 1e-5) <= curve.delta(epsilon) <= part * (1 + 1e-13)
        if epsilon0 == 700.0:
            assert curve.delta(epsilon) >= part
    assert curve.delta(epsilon0 * (1 - 1e-9)) > 0


def test_masses_that_are_lost_are_rounded_to_the_safe_side():
    """A lie has a probability of 3e-324, which no float holds, and its likelihood ratio is nearly e^700."""
    epsilon0, epsilon, part = 700.0, 699.0, 3e-20
    p, E = exp_lower(epsilon0), exp_upper(epsilon)
    curve = sdp.profile(epsilon0=epsilon0, n=1, honest=1, check_in=part)
    assert Fraction(curve.delta(epsilon)) >= Fraction(part) * (p - E) / (p + 1)
