"""The empirical audit stays under true claims and catches planted bugs; its limits are exact."""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import beta, binom

import shuffledp as sdp
from audit.mutants import Broken, clipped, no_noise, off_by_one, reused_word
from contract.examples import enumerable, examples_of
from shuffledp.accounting.binary import BinaryResponse
from shuffledp.audit import black_box
from shuffledp.audit.outcomes import Draws, draw
from support import ALPHA, first

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


@pytest.mark.parametrize("spec", enumerable(), ids=lambda spec: spec.name)
def test_protocols_stay_under_their_claim(spec):
    parameters = examples_of(spec).shuffled_tiny[0]
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
    right = [bound(hits) for hits in range(draws + 1)]
    return binom.pmf(np.arange(draws + 1), draws, probability)[right].sum()


@pytest.mark.parametrize("p", [0.001, 0.03, 0.5, 0.97])
@pytest.mark.parametrize("draws", first([7, 60, 500], 2))
def test_clopper_pearson_covers(p, draws):
    def below(hits):
        return black_box._bound_below(hits, draws, 0.01) <= p

    def above(hits):
        return 1 - black_box._bound_below(draws - hits, draws, 0.01) >= p

    assert coverage(below, p, draws) >= 0.99
    assert coverage(above, p, draws) >= 0.99


@pytest.mark.parametrize("miss", [0.5, 0.05, 1e-3, 1e-9, 1e-200])
def test_clopper_pearson_is_the_textbook_one_rounded_down(miss):
    """Pr[at least this many hits] is `miss` at the limit: in exact fractions it is never more."""
    for hits, draws in ((1, 1), (1, 10), (3, 10), (10, 10), (60, 200), (199, 200)):
        limit = black_box._bound_below(hits, draws, miss)
        tail = sum(
            math.comb(draws, k) * limit**k * (1 - limit) ** (draws - k)
            for k in range(hits, draws + 1)
        )
        assert Fraction(miss) * (1 - Fraction(1, 10**8)) <= tail <= miss
        assert float(limit) == pytest.approx(beta.ppf(miss, hits, draws - hits + 1), rel=1e-8)
    assert black_box._bound_below(0, 10, miss) == 0


def test_a_wrong_guess_of_the_limit_is_corrected(monkeypatch):
    """The proof does not rely on SciPy: a guess that is too high comes down until its tail is certified."""
    right = black_box._bound_below(300, 1000, 0.01)
    for factor in (1.001, 1.2, 1.9):
        real = black_box._estimate_below
        with monkeypatch.context() as patch:
            patch.setattr(black_box, "_estimate_below", lambda *a, f=factor, r=real: f * r(*a))
            assert 0 < black_box._bound_below(300, 1000, 0.01) < right * (1 + Fraction(1, 10**9))
    with monkeypatch.context() as patch:
        patch.setattr(black_box, "_estimate_below", lambda *_: np.array([math.nan]))
        assert black_box._bound_below(300, 1000, 0.01) == 0


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.1), (0.2, 0.2), (0.02, 0.01)])
def test_odds_cover(p, q):
    """Over both counts, with the fair coin: the limit exceeds ln(p / q) in at most 5 % of all cases."""
    draws = 24
    wrong = 0.0
    for hits in range(draws + 1):
        first = range(hits + 1)
        off = [
            black_box._bound_odds(counts(each, hits - each), 0.05) > math.log(p / q)
            for each in first
        ]
        law = binom.pmf(np.arange(hits + 1), hits, p / (p + q))
        wrong += binom.pmf(hits, draws, (p + q) / 2) * law[off].sum()
    assert wrong <= 0.05


@pytest.mark.parametrize(
    ("p", "q", "delta"), first([(0.5, 0.1, 0.1), (0.3, 0.25, 0.01), (0.9, 0.5, 0.3)])
)
def test_ratios_cover(p, q, delta):
    """Two limits: the bound exceeds ln((p - delta) / q) in at most 10 % of all cases."""
    draws = 20
    truth = math.log((p - delta) / q)
    off = np.array(
        [
            [
                black_box._bound_ratio(counts(one, two, (draws, draws)), delta, 0.1) > truth
                for two in range(draws + 1)
            ]
            for one in range(draws + 1)
        ]
    )
    ways = np.arange(draws + 1)
    law = np.outer(binom.pmf(ways, draws, p), binom.pmf(ways, draws, q))
    assert law[off].sum() <= 0.1


def test_delta_is_taken_off_the_probability():
    """With this many draws both probabilities are almost known, and what is left is delta."""
    many = 10**8
    found = black_box._bound_ratio(counts(many // 2, many // 4, (many, many)), 0.2, 0.1)
    assert math.log(0.3 / 0.25) - 0.01 < found <= math.log(0.3 / 0.25)


@pytest.mark.parametrize("p", first([0.2, 0.5, 0.8]))
def test_each_limit_has_half_of_the_probability(p):
    """The other probability is 1/2 and almost known: what is left is the error of one limit, 5 %."""
    draws, many, ways = 50, 10**9, np.arange(51)
    law = binom.pmf(ways, draws, p)
    known = many // 2, many
    below, above = (
        [
            black_box._bound_ratio(counts(*hits, draws=tries), 0.0, 0.1) > truth
            for hits, tries in (
                (
                    ((k, known[0]), (draws, known[1]))
                    if first
                    else ((known[0], k), (known[1], draws))
                )
                for k in range(draws + 1)
            )
        ]
        for first, truth in ((True, math.log(p / 0.5)), (False, math.log(0.5 / p)))
    )
    assert law[below].sum() <= 0.05
    assert law[above].sum() <= 0.05


def counts(first, second, draws=(0, 0)):
    return black_box.CountedEvent(event="it", hits=(first, second), draws=draws)


class TestBoxesThatNeverLook:
    """epsilon = 0 whatever they keep between calls: they are refused, or found innocent."""

    @staticmethod
    def alarms(make_box, audits=30, samples=400):
        """How many of these audits, at 99 %, accuse the box; None if it is refused."""
        found = 0
        for seed in range(audits):
            try:
                audit = sdp.audit.empirical(
                    make_box(), [0], [1], delta=0.0, samples=samples, rng=sdp.SeededWords(seed)
                )
            except sdp.DataError:
                return None
            found += audit.epsilon > 0
        return found

    def test_generator_functions_are_refused(self):
        def box(data, rng):
            yield 1

        assert self.alarms(lambda: box) is None
        with pytest.raises(sdp.DataError, match="a generator, which has no value of its own"):
            sdp.audit.empirical(box, [0], [1], delta=0.0, samples=100)

    def test_iterators_are_refused(self):
        with pytest.raises(sdp.DataError, match="a list_iterator, which has no value of its own"):
            sdp.audit.empirical(lambda *_: iter([1, 2]), [0], [1], delta=0.0, samples=100)

    @pytest.mark.parametrize("period", [2, 3, 10, 97])
    def test_periodic(self, period):
        def make_box():
            calls = iter(range(10**9))
            return lambda *_: next(calls) % period

        found = self.alarms(make_box)
        assert found is None or binom.sf(found - 1, 30, 0.01) > ALPHA

    @pytest.mark.parametrize("growth", [1, 0.001])
    def test_drifting(self, growth):
        """The later, the larger: with all draws of `data` first, every audit would accuse it."""

        def make_box():
            calls = iter(range(10**9))
            return lambda *_: growth * next(calls)

        found = self.alarms(make_box)
        assert found is None or binom.sf(found - 1, 30, 0.01) > ALPHA

    def test_drifting_slowly_enough_to_pass(self):
        """So few samples that the drift is not refused: it is not accused either."""

        def make_box():
            rng, calls = np.random.default_rng(8), iter(range(10**9))
            return lambda *_: float(rng.normal() + next(calls) / 100)

        audits = 200
        found = self.alarms(make_box, audits=audits, samples=100)
        assert found is not None
        assert binom.sf(found - 1, audits, 0.01) > ALPHA

    def test_a_box_with_the_seed_of_the_audit(self):
        """Were the coins the first words of the source, the box would see them coming."""

        for passed_over in range(0, 40, 8):
            mine = iter(sdp.SeededWords(0).words(10_000, 1)[passed_over:].tolist())
            found = sdp.audit.empirical(
                lambda *_, bits=mine: next(bits),
                [0], [1], delta=0.0, samples=4000, rng=sdp.SeededWords(0),
            )  # fmt: skip
            assert not found.refutes(0.3)

    def test_draws_are_interleaved(self):
        seen = []

        def box(data, rng):
            seen.append(data[0])
            return int(rng.words(1, 1)[0])

        sdp.audit.empirical(box, [0], [1], delta=0.0, samples=1000, rng=sdp.SeededWords(1))
        half = np.array(seen[:500])
        changes = np.count_nonzero(half[1:] != half[:-1])
        assert binom.cdf(changes, 499, 0.5) > ALPHA
        assert binom.sf(changes - 1, 499, 0.5) > ALPHA

    @pytest.mark.parametrize("view", ["local", "shuffled"])
    def test_draws_of_a_randomizer_are_interleaved_too(self, view):
        """Without noise, each row shows whose it is."""
        clear = sdp.protocols.krr.KRR(k=3, epsilon0=40.0)
        found = draw(clear, view, [0], [1], 300, sdp.SeededWords(3))
        who = found.rows[:, 0] == (0 if view == "local" else 1)
        assert (who == found.coins).all()
        assert 100 < np.count_nonzero(who[1:] != who[:-1]) < 200


class TestDependentDraws:
    """A black box that keeps something between calls is refused where that shows."""

    @staticmethod
    def audit(box, samples=4000):
        return sdp.audit.empirical(
            box, [0], [1], delta=0.0, samples=samples, rng=sdp.SeededWords(1)
        )

    def test_noise_used_again(self):
        """New noise only every fifty calls."""
        kept = []

        def box(data, rng):
            if len(kept) % 50 == 0:
                kept.append(int(rng.words(1, 1)[0]))
            else:
                kept.append(kept[-1])
            return data[0] ^ kept[-1]

        with pytest.raises(sdp.DataError, match=r"not independent: .* depends on the draw before"):
            self.audit(box)

    def test_an_answer_too_late(self):
        last = [0]

        def box(data, rng):
            answer, last[0] = last[0], data[0]
            return answer

        with pytest.raises(sdp.DataError, match="the data set that was drawn before"):
            self.audit(box)

    def test_a_box_that_wears_out(self):
        calls = [0]

        def box(data, rng):
            calls[0] += 1
            noise = int(rng.words(1, 16)[0])
            return data[0] ^ (noise < 20_000 + 5 * calls[0])

        with pytest.raises(sdp.DataError, match="how many draws there were before"):
            self.audit(box, samples=8000)

    def test_bursts_of_the_event_alone(self):
        """Most outcomes are independent bits; what accuses comes in bursts."""
        calls = [0]

        def box(data, rng):
            calls[0] += 1
            bit, burst = int(rng.words(1, 1)[0]), calls[0] // 60 % 16 == 0
            return 9 if burst and data[0] == 0 else bit

        with pytest.raises(sdp.DataError, match="not independent"):
            self.audit(box)

    def test_what_a_box_does_to_its_data_stays_with_it(self):
        def box(data, rng):
            data.append(len(data))
            return len(data) + int(rng.words(1, 1)[0])

        given = [0]
        assert not self.audit(lambda data, rng: box(data, rng)).refutes(0.5)
        assert given == [0]
        array = np.array([0, 1])

        def spoil(data, rng):
            data[:] = 7
            return int(rng.words(1, 1)[0])

        sdp.audit.empirical(spoil, array, array, delta=0.0, samples=50, rng=sdp.SeededWords(1))
        assert array.tolist() == [0, 1]

    @pytest.mark.parametrize("hits", [(1, 1), (3, 4), (5, 2), (6, 6)])
    def test_runs_against_all_orders(self, hits):
        """The exact law of the number of runs, by writing down every order."""
        a, b = hits
        orders = []
        for chosen in combinations(range(a + b), a):
            order = np.zeros(a + b, dtype=bool)
            order[list(chosen)] = True
            orders.append(order)
        runs = np.array([1 + np.count_nonzero(each[1:] != each[:-1]) for each in orders])
        for order, found in zip(orders, runs, strict=True):
            low, high = np.mean(runs <= found), np.mean(runs >= found)
            assert black_box._doubt_runs(order) == pytest.approx(min(1, 2 * min(low, high)))

    def test_splits_against_all_orders(self):
        group = np.array([True, True, True, False, False, False, False])
        orders = []
        for chosen in combinations(range(7), 3):
            order = np.zeros(7, dtype=bool)
            order[list(chosen)] = True
            orders.append(order)
        shared = np.array([np.count_nonzero(each & group) for each in orders])
        for order, found in zip(orders, shared, strict=True):
            low, high = np.mean(shared <= found), np.mean(shared >= found)
            expected = pytest.approx(min(1, 2 * min(low, high)))
            assert black_box._doubt_split(order, group) == expected

    def test_independent_draws_are_hardly_ever_refused(self):
        """Over every sequence of ten fair draws: at a level of 5 %, at most 5 % each are refused."""
        sequences = (np.arange(1024)[:, None] >> np.arange(10)) & 1 > 0
        group = np.arange(10) >= 4
        for doubt in (black_box._doubt_runs, lambda hits: black_box._doubt_split(hits, group)):
            assert 0 < np.mean([doubt(each) <= 0.05 for each in sequences]) <= 0.05

    def test_nothing_to_compare(self):
        for hits in (np.zeros(5, dtype=bool), np.ones(5, dtype=bool), np.zeros(0, dtype=bool)):
            assert black_box._doubt_runs(hits) == 1.0
            assert black_box._doubt_split(hits, hits) == 1.0


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
        learned = Draws(
            rows=rng.integers(30, size=(200, 1)).astype(float), coins=np.arange(200) % 2 == 0
        )
        accused, event = black_box._choose_event(
            learned, None, lambda hits, _: black_box._estimate_odds(hits, 0.05)
        )
        hits = [int(side.sum()) for side in learned.split(event.happens(learned.rows))]
        alarms += black_box._bound_odds(counts(*(hits[::-1] if accused else hits)), 0.05) > 0
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


class TestScores:
    @staticmethod
    def audit(score, box=lambda _, rng: int(rng.words(1, 1)[0])):
        return sdp.audit.empirical(
            box, [0], [1], delta=0.0, samples=200, rng=sdp.SeededWords(2), score=score
        )

    @pytest.mark.parametrize(
        ("score", "what"),
        [
            (lambda _: 3, r"array of shape \(\) for 100 rows"),
            (lambda rows: rows, r"array of shape \(100, 1\) for 100 rows"),
            (lambda rows: rows[:5, 0], r"array of shape \(5,\) for 100 rows"),
            (lambda _: None, r"array of shape \(\) for 100 rows|not a number for each row"),
            (lambda _: "high", "'high', not a number for each row"),
            (lambda rows: ["high"] * len(rows), "not a number for each row"),
            (lambda _: [[1], [2, 3]], "not a number for each row"),
            (lambda rows: iter(rows[:, 0]), "not a number for each row"),
        ],
    )
    def test_what_is_no_score_is_refused(self, score, what):
        with pytest.raises(sdp.DataError, match=f"score returned .*{what}"):
            self.audit(score)

    @pytest.mark.parametrize(
        "score",
        [
            lambda rows: np.full(len(rows), math.nan),
            lambda rows: np.full(len(rows), math.inf),
            lambda rows: [True] * len(rows),
            lambda rows: np.where(rows[:, 0] > 0, math.nan, -math.inf),
            lambda rows: rows[:, 0].astype(int),
        ],
    )
    def test_strange_scores_are_harmless(self, score):
        assert self.audit(score).epsilon == 0

    def test_nan_is_the_lowest_score(self):
        found = black_box._check_score(lambda rows: np.where(rows[:, 0] > 0, math.nan, 3.0))
        assert found(np.array([[1.0], [0.0]])).tolist() == [-math.inf, 3.0]

    def test_a_score_cannot_see_whose_rows_they_are(self):
        """A score that counts its calls, or looks at where a row stands, accuses nobody."""
        calls = iter(range(10**6))
        for score in (
            lambda rows: np.full(len(rows), float(next(calls))),
            lambda rows: np.arange(len(rows), dtype=float),
            lambda rows: rows[:, 0] - rows[:, 0].mean(),
        ):
            try:
                found = self.audit(score, lambda _, rng: int(rng.words(1, 8)[0]))
            except sdp.DataError:
                continue
            assert found.epsilon == 0

    def test_errors_of_a_score_are_its_own(self):
        def score(rows):
            raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            self.audit(score)


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
def test_data_sets_that_are_not_neighbours_prove_nothing(neighbour):
    with pytest.raises(sdp.DataError, match=r"non-neighbouring data sets \(.*proves nothing"):
        sdp.audit.empirical(krr_of_three(), [0, 0], neighbour, delta=0.0, samples=100)


def test_a_neighbour_may_stand_in_another_order():
    found = sdp.audit.empirical(
        krr_of_three(), [0, 1], [1, 2], delta=0.0, samples=100, rng=sdp.SeededWords(1)
    )
    assert found.epsilon >= 0


def krr_of_three():
    return sdp.protocols.krr.KRR(k=3, epsilon0=1.0)
