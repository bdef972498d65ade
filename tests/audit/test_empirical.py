"""The empirical audit stays under true claims and catches planted bugs; its limits are exact."""

import math

import numpy as np
import pytest
from scipy.stats import beta, binom

import shuffledp as sdp
from audit.mutants import Broken, clipped, no_noise, off_by_one, reused_word
from contract.examples import EXAMPLES
from shuffledp.accounting.binary import BinaryResponse
from shuffledp.audit import black_box
from shuffledp.protocols import PROTOCOLS
from support import ALPHA

SAMPLES = 40_000


def audited(randomizer, data, neighbour, *, delta=0.0, samples=SAMPLES, seed=11, view="shuffled"):
    return sdp.audit.empirical(
        randomizer,
        data,
        neighbour,
        delta=delta,
        samples=samples,
        confidence=1 - ALPHA,
        rng=sdp.SeededWords(seed),
        view=view,
    )


class TestMutants:
    """Each audit refutes the claim for the broken version, and not for the one that we ship."""

    def test_off_by_one_threshold(self):
        real = sdp.protocols.krr.KRR(k=3, epsilon0=1.0, word_bits=4)
        assert audited(Broken(real, off_by_one), [0], [1]).refutes(1.0)
        assert not audited(real, [0], [1]).refutes(1.0)

    def test_dropped_noise(self):
        p = sdp.protocols.zsum.make(n=40, epsilon=1.0, delta=0.01, honest=1.0)
        pair = [1] + [0] * 39, [0] * 40
        assert audited(Broken(p.randomizer, no_noise), *pair, delta=0.01).refutes(1.0)
        assert not audited(p.randomizer, *pair, delta=0.01).refutes(1.0)

    def test_reused_word(self):
        real = sdp.protocols.symmetric_unary.make_local(k=4, epsilon=1.0).randomizer
        assert audited(Broken(real, reused_word), [0], [1], view="local").refutes(1.0)
        assert not audited(real, [0], [1], view="local").refutes(1.0)

    def test_wrong_n(self):
        pair = [1] + [0] * 39, [0] * 40
        wrong, right = (
            sdp.protocols.zsum.make(n=n, epsilon=1.0, delta=0.01, honest=1.0).randomizer
            for n in (400, 40)
        )
        assert audited(wrong, *pair, delta=0.01).refutes(1.0)
        assert not audited(right, *pair, delta=0.01).refutes(1.0)

    def test_clipped_message(self):
        p = sdp.protocols.zsum.make(n=40, epsilon=1.0, delta=0.01, honest=1.0)
        pair = [1] * 40, [0] + [1] * 39
        assert audited(Broken(p.randomizer, clipped), *pair, delta=0.01).refutes(1.0)
        assert not audited(p.randomizer, *pair, delta=0.01).refutes(1.0)


def test_the_figure_that_was_promised():
    """k-RR that claims 1 and has 1.2 is caught with 99 % confidence by 10^6 samples; and by fewer."""
    krr = sdp.protocols.krr.KRR(k=16, epsilon0=1.2)
    found = sdp.audit.empirical(
        krr, [0], [1], delta=0.0, samples=200_000, confidence=0.99, rng=sdp.SeededWords(4)
    )
    assert found.refutes(1.0)
    assert not found.refutes(1.2)


@pytest.mark.parametrize("spec", [s for s in PROTOCOLS if s.make], ids=lambda spec: spec.name)
def test_protocols_stay_under_their_claim(spec):
    parameters = EXAMPLES[spec.name].shuffled_tiny[0]
    p = spec.make(**parameters)
    n, domain = parameters["n"], p.randomizer.domain
    ends = domain.values(np.array([0, domain.size - 1])).tolist()
    ends = ends if isinstance(domain, sdp.Reals) else [int(end) for end in ends]
    data, neighbour = [ends[0]] * n, [ends[1]] + [ends[0]] * (n - 1)
    found = audited(p, data, neighbour, delta=p.guarantee.delta, samples=2_000)
    assert not found.refutes(p.guarantee.epsilon), found


def test_lower_bound_is_close_to_the_truth():
    krr = sdp.protocols.krr.KRR(k=4, epsilon0=2.0)
    assert 1.9 < audited(krr, [0], [1], samples=400_000).epsilon < 2.0


def test_delta_is_paid_for():
    krr = sdp.protocols.krr.KRR(k=2, epsilon0=1.0)
    pure, approximate = (audited(krr, [0], [1], delta=delta).epsilon for delta in (0.0, 0.1))
    assert 0 < approximate < pure


def coverage(bound, probability, draws):
    """Exact probability that the limit for a binomial is on the right side of the truth."""
    hits = np.arange(draws + 1.0)
    return binom.pmf(hits, draws, probability)[bound(hits)].sum()


@pytest.mark.parametrize("p", [0.001, 0.03, 0.5, 0.97])
@pytest.mark.parametrize("draws", [7, 60, 500])
def test_clopper_pearson_covers(p, draws):
    def below(hits):
        return black_box._lower(hits, float(draws), 0.01) <= p

    def above(hits):
        return black_box._upper(hits, float(draws), 0.01) >= p

    assert coverage(below, p, draws) >= 0.99
    assert coverage(above, p, draws) >= 0.99


def test_clopper_pearson_is_the_textbook_one():
    assert black_box._lower(np.array([3.0]), 10.0, 0.05)[0] == pytest.approx(
        beta.ppf(0.05, 3, 8), rel=1e-8
    )


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.1), (0.2, 0.2), (0.02, 0.01)])
def test_odds_cover(p, q):
    """Over both counts, with the fair coin: the limit exceeds ln(p / q) in at most 5 % of all cases."""
    draws = 40
    wrong = 0.0
    for hits in range(draws + 1):
        first = np.arange(hits + 1.0)
        both = np.stack([first, hits - first], axis=1)
        off = black_box._log_odds(both, 0.05) > math.log(p / q)
        law = binom.pmf(first, hits, p / (p + q))
        wrong += binom.pmf(hits, draws, (p + q) / 2) * law[off].sum()
    assert wrong <= 0.05


def test_false_alarms_are_rare_for_a_private_box():
    """A box that ignores its data has epsilon 0: of 200 audits at 95 % few may claim more.

    The event is chosen on the other half of the samples; were it chosen and tested on the same
    samples, most would.
    """
    rng = np.random.default_rng(3)

    def box(data, _):
        return int(rng.integers(30))

    alarms = sum(
        sdp.audit.empirical(
            box, 0, 1, delta=0.0, samples=400, confidence=0.95, rng=sdp.SeededWords(seed)
        ).epsilon
        > 0
        for seed in range(200)
    )
    assert binom.sf(alarms - 1, 200, 0.05) > ALPHA


def test_snooping_would_be_noticed():
    """The same test, but with the selection's own bound: it does raise alarms."""
    rng = np.random.default_rng(3)
    alarms = 0
    for _ in range(60):
        halves = [rng.integers(30, size=(100, 1)).astype(float) for _ in range(2)]
        accused, event = black_box._best(
            *halves, None, lambda hits, _: black_box._log_odds(hits, 0.05)
        )
        hits = [float(event.happens(half).sum()) for half in halves]
        both = np.array([hits[::-1] if accused else hits])
        alarms += black_box._log_odds(both, 0.05)[0] > 0
    assert binom.sf(alarms - 1, 60, 0.05) < ALPHA


@pytest.mark.parametrize(
    "outcome",
    [
        lambda x: x,
        lambda x: "yes" if x else "no",
        lambda x: (x, 1 - x),
        lambda x: [x] * (x + 1),
        lambda x: np.array([x, 3]),
        lambda x: frozenset([x]),
        lambda x: sdp.core.analyzer.Tally(counts=np.array([x, 2]), users=1),
    ],
    ids=["number", "text", "tuple", "several lengths", "array", "hashable", "tally"],
)
def test_black_boxes_of_every_kind(outcome):
    """Truth with probability 9/10: epsilon = ln 9."""

    def box(data, rng):
        return outcome(data[0] ^ int(rng.words(1, 16)[0] < 6553))

    found = audited(box, [0], [1], samples=4_000)
    assert 1.2 < found.epsilon < math.log(9)


def test_given_score_is_used():
    """A continuous outcome of which only the fourth decimal tells."""

    def box(data, rng):
        return float(rng.words(1, 32)[0] // 16 * 16 + data[0])

    blind = audited(box, [0], [1], samples=2_000)
    seeing = sdp.audit.empirical(
        box,
        [0],
        [1],
        delta=0.0,
        samples=2_000,
        rng=sdp.SeededWords(2),
        score=lambda rows: rows[:, 0] % 16,
    )
    assert blind.epsilon < 0.5
    assert seeing.epsilon > 3
    assert "given score" in str(seeing)


def test_gaussian_estimate_is_near_the_truth_for_a_large_crowd():
    """Binary response of 60 users at delta = 1e-3, where so few samples certify much less."""
    krr = sdp.protocols.krr.KRR(k=2, epsilon0=1.5)
    pair = [0] * 30 + [1] * 30, [0] * 29 + [1] * 31
    asked = {"delta": 1e-3, "samples": SAMPLES}
    estimate = sdp.audit.empirical_gaussian(krr, *pair, **asked, rng=sdp.SeededWords(6))
    certified = sdp.audit.empirical(krr, *pair, **asked, rng=sdp.SeededWords(6))
    truth = BinaryResponse(n=60, flip=krr.q)
    assert certified.epsilon < estimate.epsilon
    assert truth.delta_at(30, 29, estimate.epsilon) > 1e-3
    assert truth.delta_at(30, 29, 2 * estimate.epsilon) < 1e-3
    assert estimate.assumption == "assumes Gaussian trade-off"


def test_gaussian_estimate_is_wrong_where_its_assumption_is():
    """One user of binary response is not Gaussian: the estimate exceeds the truth."""
    krr = sdp.protocols.krr.KRR(k=2, epsilon0=1.0)
    estimate = sdp.audit.empirical_gaussian(
        krr, [0], [1], delta=1e-9, samples=SAMPLES, rng=sdp.SeededWords(6)
    )
    assert estimate.epsilon > 1.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"delta": 1.0},
        {"delta": -0.1},
        {"samples": 1},
        {"confidence": 1.0},
        {"view": "central"},
    ],
)
def test_bad_parameters(wrong):
    krr = sdp.protocols.krr.KRR(k=2, epsilon0=1.0)
    right = {"delta": 0.0, "samples": 100, "rng": sdp.SeededWords(1)}
    with pytest.raises(sdp.ParameterError):
        sdp.audit.empirical(krr, [0], [1], **(right | wrong))


def test_not_a_black_box():
    with pytest.raises(sdp.ParameterError, match="must be a function"):
        sdp.audit.empirical(3, [0], [1], delta=0.0, samples=100)
    krr = sdp.protocols.krr.KRR(k=2, epsilon0=1.0)
    with pytest.raises(sdp.DataError, match="one user"):
        sdp.audit.empirical(krr, [0, 1], [1, 1], delta=0.0, samples=100, view="local")
    with pytest.raises(sdp.DataError, match="hashable"):
        sdp.audit.empirical(lambda *_: {}, [0], [1], delta=0.0, samples=100)


@pytest.mark.parametrize("neighbour", [[1, 2], [1, 1], [0], [0, 1, 1]])
def test_data_sets_that_are_no_neighbours_refute_nothing(neighbour):
    with pytest.raises(sdp.DataError, match="at most one differs"):
        sdp.audit.empirical(krr_of_three(), [0, 0], neighbour, delta=0.0, samples=100)


def test_a_neighbour_may_stand_in_another_order():
    found = sdp.audit.empirical(
        krr_of_three(), [0, 1], [1, 2], delta=0.0, samples=100, rng=sdp.SeededWords(1)
    )
    assert found.epsilon >= 0


def krr_of_three():
    return sdp.protocols.krr.KRR(k=3, epsilon0=1.0)
