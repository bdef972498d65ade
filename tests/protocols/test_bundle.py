"""Several protocols on the same people: the joint guarantee against exact enumeration."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.accounting.base import gaussian_epsilon
from shuffledp.accounting.compose import compose_delta
from shuffledp.accounting.exact import shuffled_delta
from shuffledp.core.protocol import Crowd, Promise
from shuffledp.engine.local import tally_counts
from shuffledp.numerics.rounding import exp_lower
from shuffledp.protocols import bundle
from shuffledp.protocols.shared import joint as joint_of
from shuffledp.testing import Contract, Examples

TWO = [
    {"name": "way", "protocol": "dummies_histogram", "k": 5},
    {"name": "home", "protocol": "correlated_count", "weight": 2.0},
]
TINY = [
    {"name": "a", "protocol": "rr", "word_bits": 5, "epsilon": 1.0, "delta": 0.1},
    {"name": "b", "protocol": "rr", "word_bits": 5, "epsilon": 1.0, "delta": 0.1},
]
MIXED = [
    {"name": "a", "protocol": "dummies_histogram", "k": 2, "word_bits": 4},
    {"name": "b", "protocol": "rr", "word_bits": 4},
]
GIVEN = [
    {"name": "a", "protocol": "hadamard_blanket", "k": 5, "epsilon": 0.4, "delta": 1e-7},
    {"name": "b", "protocol": "hashed_histogram", "k": 60, "epsilon": 0.4, "delta": 1e-7},
]
EXAMPLES = Examples(
    bundle.SPEC,
    shuffled=(
        {"n": 10_000, "epsilon": 1.0, "delta": 1e-6, "parts": TWO},
        {"n": 10_000, "epsilon": 1.0, "delta": 1e-6, "parts": GIVEN},
    ),
    shuffled_tiny=(
        {"n": 3, "epsilon": 1.5, "delta": 0.1, "honest": 1.0, "parts": TINY},
        {"n": 2, "epsilon": 1.0, "delta": 0.3, "honest": 1.0, "parts": MIXED},
    ),
)


class TestContract(Contract):
    examples = (EXAMPLES,)


def laws(protocol):
    return [protocol.randomizer.pmf(x) for x in range(protocol.randomizer.domain.size)]


@pytest.fixture(scope="module")
def tiny():
    return bundle.make(**EXAMPLES.shuffled_tiny[0])


def test_forgetting_a_part_would_be_seen(tiny):
    """The exact divergence of both parts is above what each part states: losses must be composed."""
    epsilon = tiny.guarantee.epsilon
    exact = float(shuffled_delta(laws(tiny), 3, exp_lower(epsilon)))
    alone = [part.accountant.delta(3, epsilon) for _, part in bundle.questions(tiny)]
    assert max(alone) < exact <= tiny.guarantee.delta * (1 + 1e-12)


def test_composition_is_not_far_off(tiny):
    """Each curve takes its worst pair and direction at every epsilon, which for three people costs a little."""
    for epsilon in (0.5, 1.0, 1.5):
        exact = float(shuffled_delta(laws(tiny), 3, exp_lower(epsilon)))
        claimed = tiny.accountant.delta(3, epsilon)
        assert exact <= claimed <= 1.5 * exact


@pytest.mark.parametrize(("parts", "mu"), [(2, 109.35), (4, 211.0)])
def test_smallest_dummies_of_several_histograms(parts, mu):
    """QUERIES section 2; a fixed number of dummies needs slightly fewer."""
    wanted = [{"name": str(i), "protocol": "dummies_histogram", "k": 64} for i in range(parts)]
    made = bundle.make(n=10**6, epsilon=1.0, delta=1e-8, honest=1.0, parts=wanted)
    device = made.randomizer.devices[0]
    found = float(device.rho * device.hit) * 10**6
    assert mu * 0.995 < found < mu * 1.005
    assert 0.95e-8 < made.accountant.delta(10**6, 1.0) <= made.guarantee.delta == 1e-8


def test_weights_share_the_budget():
    made = bundle.make(
        n=10**5,
        epsilon=1.0,
        delta=1e-6,
        parts=[
            {"name": "rough", "protocol": "dummies_histogram", "k": 4},
            {"name": "sharp", "protocol": "dummies_histogram", "k": 4, "weight": 3},
        ],
    )
    rough, sharp = (
        part.analyzer.variance(np.array([10**5, 0, 0, 0])) for _, part in bundle.questions(made)
    )
    assert 2.2 < np.sqrt(rough[0] / sharp[0]) < 3.5


def test_fewer_honest_people_weaken_it():
    made = bundle.make(n=10_000, epsilon=1.0, delta=1e-6, parts=TWO)
    assert made.guarantee.honest == 9000
    weaker = made.guarantee_if(honest=0.7)
    assert made.guarantee.delta < weaker.delta < 1
    assert made.with_people(8000).guarantee.delta > made.guarantee.delta


def test_one_part_is_the_protocol_itself():
    one = bundle.make(n=1000, epsilon=1.0, delta=1e-4, parts=[TWO[1]])
    alone = sdp.protocols.correlated_count.make(n=1000, epsilon=1.0, delta=1e-4)
    (device,) = one.randomizer.devices
    # What is set aside for the generator is rounded once more.
    assert device == replace(alone.randomizer, r_flood=device.r_flood, p_flood=device.p_flood)
    assert device.r_flood == pytest.approx(alone.randomizer.r_flood, rel=1e-12)
    assert device.p_flood == pytest.approx(alone.randomizer.p_flood, rel=1e-12)
    assert one.guarantee.epsilon == 1
    assert alone.guarantee.delta <= one.guarantee.delta <= 1e-4
    assert one.guarantee.delta == pytest.approx(1e-4, rel=1e-9)


def test_answers_come_back_by_part():
    made = bundle.make(n=4000, epsilon=1.0, delta=1e-4, parts=TWO)
    way, home = np.arange(4000) % 5, np.arange(4000) % 2
    found = made.analyzer.estimates(
        sdp.engine.local.tally(made, made.randomizer.domain.join((way, home)), sdp.SeededWords(1))
    )
    assert found[0].labels == ("0", "1", "2", "3", "4")
    assert np.all(np.abs(found[0].value - 800) < 7 * found[0].stderr)
    assert abs(found[1].value - 2000) < 7 * found[1].stderr


def test_messages_and_tallies_of_others_are_refused():
    made = bundle.make(n=4000, epsilon=1.0, delta=1e-4, parts=TWO)
    mine = [
        part.analyzer.tally(
            sdp.core.randomizer.Shuffled(payload=np.empty(0, dtype=np.int64), users=users)
        )
        for part, users in zip(made.analyzer.parts, (10, 11), strict=True)
    ]
    with pytest.raises(sdp.DataError, match="of the same people"):
        made.analyzer.join(mine)
    for tag in (-1, 2):
        strange = sdp.core.randomizer.Shuffled(payload=np.array([[tag, 0]]), users=1)
        with pytest.raises(sdp.DataError, match="of no part"):
            made.analyzer.tally(strange)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([], "at least one part"),
        ("krr", "list"),
        ([{"name": "a"}], "name and a protocol"),
        ([TWO[0], TWO[0]], "distinct names"),
        ([{**TWO[0], "weight": 0}], "weight=0 must be > 0"),
        ([{"name": "a", "protocol": "duchi"}, TWO[0]], "a: "),
    ],
)
def test_bad_parts_are_refused(parts, said):
    with pytest.raises((sdp.ParameterError, sdp.UnsupportedError), match=said):
        bundle.make(n=1000, epsilon=1.0, delta=1e-6, parts=parts)


def test_budgets_that_do_not_fit_are_refused():
    spent = [{**part, "epsilon": 1.0, "delta": 1e-6} for part in TWO]
    with pytest.raises(sdp.UnsupportedError, match="delta would be"):
        bundle.make(n=1000, epsilon=1.0, delta=1e-6, parts=spent)


def test_calibrated_parts_use_the_promise_up():
    crowd, promise = Crowd(n=10_000, honest=1.0), Promise(epsilon=1.0, delta=1e-6)
    made = joint_of.calibrate(crowd, promise, [joint_of.PartSpec.read(part) for part in TWO])
    joint = joint_of.Joint(parts=tuple(each.accountant for _, each in made), promise=promise)
    assert 0.9e-6 < joint.delta(10_000, 1.0) <= 1e-6


def test_parts_share_a_large_delta():
    """Each with all of it, they would break it together however small their epsilons are."""
    parts = [{**TWO[0], "name": name} for name in "ab"]
    made = bundle.make(n=1000, epsilon=0.1, delta=0.3, parts=parts, honest=1.0)
    assert made.guarantee.delta <= 0.3


def test_budgets_of_wide_gaussian_pairs():
    assert 400 < gaussian_epsilon(30.0, 0.3) < 30.0**2


def test_law_of_a_bundle_is_the_product():
    made = bundle.make(**EXAMPLES.shuffled_tiny[0])
    assert sum(made.randomizer.pmf(2).values()) == Fraction(1)


class TestSearch:
    """Budgets: as large as the promise allows, whatever the shape of the curves."""

    @staticmethod
    def make(protocol, parts):
        wanted = [{"name": str(i), "protocol": protocol, "k": 3 + i} for i in range(parts)]
        return bundle.make(n=10**5, epsilon=1.0, delta=1e-8, honest=1.0, parts=wanted)

    @pytest.mark.parametrize("protocol", ["dummies_histogram", "correlated_histogram"])
    def test_nothing_is_left_over(self, protocol):
        made = self.make(protocol, 3)
        assert 0.9e-8 < made.accountant.delta(10**5, 1.0) <= made.guarantee.delta == 1e-8

    def test_a_distance_to_ideal_noise_is_added_once_for_each_part(self):
        made = self.make("correlated_histogram", 2)
        parts = [part for _, part in bundle.questions(made)]
        joint = joint_of.Joint(
            parts=tuple(part.accountant.ideal for part in parts),
            promise=Promise(epsilon=1.0, delta=1e-8),
        )
        curves = [
            joint_of.PartCurve(accountant=part.accountant.ideal, honest=10**5) for part in parts
        ]
        apart = sum(part.randomizer.distance(10**5) for part in parts)
        assert apart > 0
        one_by_one = compose_delta(curves, epsilon=1.0, near=1e-8, points=96)
        found = joint.delta(10**5, 1.0)
        assert found >= (1 + np.e) * apart
        assert found == pytest.approx(one_by_one, rel=0.01)

    def test_distances_of_all_parts_are_paid_for_in_both_data_sets(self, monkeypatch):
        """Noise that is far off: (1 + e^epsilon) times the sum of the distances is all that counts."""
        parts = [part for _, part in bundle.questions(self.make("correlated_histogram", 2))]
        joint = joint_of.Joint(
            parts=tuple(part.accountant.ideal for part in parts),
            promise=Promise(epsilon=1.0, delta=1e-8),
        )
        real, far = joint_of._open_curve, iter([1e-3, 2e-3])
        monkeypatch.setattr(
            joint_of, "_open_curve", lambda part, honest: (real(part, honest)[0], next(far))
        )
        assert joint.delta(10**5, 1.0) == pytest.approx((1 + np.e) * 3e-3, rel=1e-4)

    def test_equal_noise_in_other_bins_is_one_curve(self):
        parts = [part for _, part in bundle.questions(self.make("correlated_histogram", 3))]
        assert len({part.randomizer.open_curve(10**5)[0] for part in parts}) == 1

    def test_refusals_end_the_search(self):
        def refuse(scale):
            raise sdp.UnsupportedError("not at all")

        with pytest.raises(sdp.UnsupportedError, match="not at all"):
            joint_of.search_scale(refuse, 0.2, -18.0)

    def test_the_first_refusal_is_told(self):
        """Later ones are about budgets that nobody asked for."""

        def refuse(scale):
            raise sdp.UnsupportedError(f"scale {scale} is too much")

        with pytest.raises(sdp.UnsupportedError, match=r"scale 0\.2 is"):
            joint_of.search_scale(refuse, 0.2, -18.0)

    @pytest.mark.parametrize("power", [-2.0, -1.0, -4.0, 0.3])
    def test_other_curves_than_gaussian_ones(self, power):
        """ln(delta) of any shape: the largest safe scale is found, and never an unsafe one."""
        goal = 0.137

        def at(scale):
            excess = abs(power) * np.log(scale / goal)
            if power > 0:  # a jump
                return joint_of.Tried((scale,), -40.0 if scale <= goal else -1.0, excess)
            return joint_of.Tried((scale,), -18.0 * (scale / goal) ** power, excess)

        (found,) = joint_of.search_scale(at, 0.2, -18.0)
        assert goal * (0.9 if power > 0 else 0.995) < found <= goal


def make_pair():
    return bundle.make_local(
        epsilon=3.0,
        parts=[
            {"name": "way", "protocol": "krr", "k": 3, "epsilon": 2.0},
            {"name": "home", "protocol": "rr", "epsilon": 1.0},
        ],
    )


def test_the_variance_counts_people_and_not_codes():
    """Many people share a joint code: the variance of each part is that of all of them."""
    pair, inputs = make_pair(), np.array([400, 0, 30, 1, 0, 70])
    way, home = (part.analyzer for _, part in bundle.questions(pair))
    codes = pair.randomizer.domain.split(np.repeat(np.arange(6), inputs))
    counts = [np.bincount(own, minlength=size) for own, size in zip(codes, (3, 2), strict=True)]
    expected = np.append(way.variance(counts[0]), home.variance(counts[1]))
    np.testing.assert_allclose(pair.analyzer.variance(inputs), expected, rtol=1e-12)


def test_exact_intervals_are_those_of_the_parts():
    """Of noise whose quoted interval trades one tail for the other, and whose exact one does not."""
    made = bundle.make(
        n=300,
        epsilon=1.0,
        delta=1e-3,
        honest=1.0,
        parts=[
            {"name": "way", "protocol": "dummies_histogram", "k": 3},
            {"name": "home", "protocol": "dummies_histogram", "k": 2},
        ],
    )
    codes = made.randomizer.domain.join((np.arange(300) % 3, np.arange(300) % 2))
    counts = np.bincount(codes, minlength=6)
    tally = tally_counts(made, counts, sdp.SeededWords(1))
    estimate = made.analyzer.estimate(tally)
    own = estimate.error.parts
    for level in (0.8, 0.95):
        for found, wanted in (
            (estimate.interval(level), [each.interval(level) for each in own]),
            (estimate.exact_interval(level), [each.exact_interval(level) for each in own]),
        ):
            np.testing.assert_array_equal(found.low, np.concatenate([each.low for each in wanted]))
            np.testing.assert_array_equal(
                found.high, np.concatenate([each.high for each in wanted])
            )
    levels = np.linspace(0.5, 0.99, 30)
    assert any(
        not np.array_equal(estimate.interval(each).low, estimate.exact_interval(each).low)
        for each in levels.tolist()
    )


@pytest.mark.parametrize("foreign", [2, -1, 256])
def test_bits_of_a_part_are_bits(foreign):
    """A number that is none would be cast to True, and count in a bin of its choice."""
    made = bundle.make_local(
        epsilon=2.0,
        parts=[
            {"name": "way", "protocol": "symmetric_unary", "k": 3, "epsilon": 1.0},
            {"name": "home", "protocol": "rr", "epsilon": 1.0},
        ],
    )
    good = np.array([[0, 1, 0, 1], [1, 1, 0, 0]])
    made.analyzer.tally(sdp.Shuffled(payload=good, users=1))
    bad = good.copy()
    bad[0, 2] = foreign
    with pytest.raises(sdp.DataError, match="bits"):
        made.analyzer.tally(sdp.Shuffled(payload=bad, users=1))


def test_a_message_of_a_bundle_has_the_mean_of_the_bits_and_the_number_of_its_part():
    """Rounded up: what is sent is never more than it says."""
    made = bundle.make(n=10_000, epsilon=1.0, delta=1e-6, parts=TWO)
    costs = [device.cost for device in made.randomizer.devices]
    bits = sum(cost.messages_mean * (cost.bits_per_message + 1) for cost in costs)
    assert {cost.bits_per_message for cost in costs} == {1, 3}
    each = bits / sum(cost.messages_mean for cost in costs)
    assert each <= made.cost.bits_per_message < each + 1
    assert made.cost.bits_per_message != each
