"""Uniformity tests: exact false alarms, the same laws as the protocols, every model, both errors."""

import re

import numpy as np
import pytest
from scipy import stats

import shuffledp as sdp
from shuffledp import DataError, ParameterError, SeededWords, UnsupportedError
from shuffledp.core.arrays import Floats
from shuffledp.inference.observers import Reports, Tagged, multinomials
from shuffledp.inference.reduction import public_words
from shuffledp.inference.testers import METHODS, make_tester
from shuffledp.inference.uniformity import binomial_tail, find_threshold, monte_carlo_p, plan_vote
from support import ALPHA

EVERY = [(model, coin, method) for (model, coin), names in METHODS.items() for method in names]
PRIVACY = {"epsilon": 1.0, "delta": 1e-6, "honest": 1.0}
ENOUGH = {"none": 400, "central": 800, "local": 20_000, "shuffle": 4000}
"""Users for k = 16; enough for alpha = 1/4 in most models."""


def built(model, coin, method, n, k=16):
    return make_tester(n=n, k=k, model=model, coin=coin, method=method, **PRIVACY)


def words(n, k, seed):
    return np.random.default_rng(seed).integers(k, size=n)


class TestSimulation:
    """`Observer.simulate` has the law of the protocol's own `simulate`."""

    @pytest.mark.parametrize(
        "question",
        [
            pytest.param(one, marks=pytest.mark.slow if one[2] == "correlated" else ())
            for one in EVERY
            if one[0] in ("local", "shuffle")
        ],
    )
    def test_same_law_as_the_protocol(self, question):
        n, runs = 60, 1500
        made = make_tester(
            n=n
            if question[2] not in ("halving", "amplified") or question[1] == "private"
            else 8 * n,
            k=4,
            model=question[0],
            coin=question[1],
            method=question[2],
            epsilon=1.0,
            delta=0.01,
            honest=1.0,
        )
        observer = made.observer
        p = np.arange(1, observer.cells + 1) / np.arange(1, observer.cells + 1).sum()
        if isinstance(observer, Tagged):
            pytest.skip("what tagged reports are is tested below")
        ours = observer.simulate(p, n, runs, np.random.default_rng(5))
        theirs = protocol_runs(observer, p, n, runs)
        assert same_law(ours[:, 0], theirs[:, 0])
        assert same_law((ours**2).sum(axis=1), (theirs**2).sum(axis=1))
        mutant = protocol_runs(observer, p, n - 20, runs)
        assert not same_law(ours[:, -1], mutant[:, -1])

    @pytest.mark.parametrize("method", ["distance", "counts"])
    def test_same_law_as_the_mechanism(self, method):
        """The exact sampler of the noise against its simulation, through the whole observation."""
        made = built("central", "private", method, n=30, k=4)
        p = np.array([0.1, 0.2, 0.3, 0.4])
        runs = 1500
        ours = made.observer.simulate(p, 30, runs, np.random.default_rng(5))
        rng, draw = SeededWords(3), np.random.default_rng(6)
        theirs = np.array(
            [made.observer.observe(draw.choice(4, size=30, p=p), rng) for _ in range(runs)]
        )
        assert same_law(ours[:, 0], theirs[:, 0])
        assert not same_law(ours[:, 0] + 10, theirs[:, 0])

    def test_few_draws_in_many_cells(self):
        """Another sampler, the same law: cell by cell, for one law and for one law in each run."""
        n, cells, runs = 9, 20, 20_000
        p = np.arange(cells) / np.arange(cells).sum()
        for law in (p, np.tile(p, (runs, 1))):
            counts = multinomials(np.random.default_rng(3), n, law, runs)
            assert (counts.sum(axis=1) == n).all()
            assert (counts[:, 0] == 0).all()
            assert stats.chisquare(counts.sum(axis=0)[1:], runs * n * p[1:]).pvalue > ALPHA
            seen = np.bincount(counts[:, -1], minlength=n + 1)[:4]
            law_of_last = stats.binom.pmf(np.arange(4), n, p[-1])
            rest = runs - seen.sum(), runs * (1 - law_of_last.sum())
            assert stats.chisquare([*seen, rest[0]], [*runs * law_of_last, rest[1]]).pvalue > ALPHA

    @pytest.mark.parametrize(("method", "groups"), [("hashed", 1), ("amplified", 8)])
    def test_observed_is_what_is_simulated(self, method, groups):
        """The real path, value by value, against the simulated null: a chi-square of the p-values."""
        made = make_tester(
            n=200,
            k=9,
            model="shuffle",
            coin="public",
            method=method,
            epsilon=2.0,
            delta=0.01,
            honest=1,
        )
        assert made.groups == groups
        seen = np.array(
            [
                made.observe(words(200, 9, seed), public_words(seed), SeededWords(seed))
                for seed in range(300)
            ]
        )
        assert same_law(seen, made.null(3000, np.random.default_rng(1)))


def protocol_runs(observer, p: Floats, n: int, runs: int) -> Floats:
    """What `deal` of the randomizer makes of multinomial data."""
    rng, data = SeededWords(4), np.random.default_rng(9)
    rows = []
    for _ in range(runs):
        tally = observer.protocol.randomizer.deal(data.multinomial(n, p), rng).counts
        signed = len(tally) == 2 * observer.cells and not isinstance(observer, Reports)
        rows.append(tally[1::2] - tally[::2] if signed else tally)
    return np.array(rows, dtype=np.float64)


def same_law(one: Floats, other: Floats) -> bool:
    """Kolmogorov and Smirnov's two-sample test, conservative where there are ties."""
    return bool(stats.ks_2samp(one, other, method="asymp").pvalue >= ALPHA)


class TestMonteCarlo:
    def test_false_alarms_by_enumeration(self):
        """All orders of four exchangeable statistics, with ties: Pr[p <= c] <= c for every c."""
        for pool in [(1, 2, 3, 4), (1, 1, 2, 3), (2, 2, 2, 2), (1, 3, 3, 3)]:
            values = []
            for first in range(4):
                others = np.array([pool[i] for i in range(4) if i != first], dtype=float)
                values.append(monte_carlo_p(float(pool[first]), others))
            for c in (0.25, 0.5, 0.75, 1.0):
                assert sum(value <= c for value in values) / 4 <= c

    def test_threshold_and_p_value_say_the_same(self):
        simulated = np.random.default_rng(1).integers(50, size=99).astype(float)
        for rank in (1, 10, 33):
            limit = find_threshold(simulated, rank)
            for observed in range(-1, 52):
                small = monte_carlo_p(float(observed), simulated) <= rank / 100
                assert small == (observed > limit)

    @pytest.mark.parametrize("error", [0.5, 1 / 3, 0.05, 1e-3, 1e-6, 1e-12])
    def test_votes_keep_the_error(self, error):
        ballot = plan_vote(error)
        assert ballot.p_value(ballot.needed) <= error
        assert ballot.needed == (ballot.voters + 1) // 2
        assert ballot.level >= 0.9e-3
        assert ballot.rank == pytest.approx(ballot.level * (ballot.runs + 1))
        assert stats.binom.sf(ballot.needed - 1, ballot.voters, ballot.level) == pytest.approx(
            ballot.p_value(ballot.needed)
        )

    def test_tail(self):
        assert binomial_tail(10, 0.3, 4) == pytest.approx(stats.binom.sf(3, 10, 0.3))


class TestBothErrors:
    @pytest.mark.parametrize("question", EVERY, ids="-".join)
    def test_false_alarms_are_at_most_what_is_promised(self, question):
        """The whole real path, fresh crowds and fresh seeds; skewed values are noticed."""
        n, runs = ENOUGH[question[0]] // 2, 50
        made = built(*question, n=n)
        ballot = plan_vote(1 / 3)
        alarms = noticed = 0
        for seed in range(runs):
            limit = find_threshold(made.null(ballot.runs, np.random.default_rng(seed)), ballot.rank)
            values, coins = words(n, 16, seed), SeededWords(1000 + seed)
            alarms += made.observe(values, public_words(seed), coins) > limit
            noticed += made.observe(values // 4, public_words(seed), coins) > limit
        assert stats.binomtest(alarms, runs, 1 / 3, alternative="greater").pvalue > ALPHA
        assert stats.binomtest(noticed, runs, 1 / 3, alternative="greater").pvalue < ALPHA

    @pytest.mark.parametrize("question", EVERY, ids="-".join)
    def test_far_laws_are_rejected(self, question):
        """All users in half of the categories: total variation distance 1/2."""
        model, coin, method = question
        n = 4 * ENOUGH[model]
        options = {"public_seed": 11} if coin == "public" else {}
        found = sdp.uniformity_test(
            words(n, 16, 3) // 2,
            k=16,
            alpha=0.5,
            model=model,
            coin=coin,
            method=method,
            rng=SeededWords(5),
            error=0.05,
            **PRIVACY,
            **options,
        )
        assert not found.accept
        assert found.p_value <= found.level <= 0.05
        assert found.statistic > found.threshold
        assert found.method == method
        assert (found.guarantee is None) == (model == "none")
        if found.guarantee is not None:
            assert found.guarantee.epsilon <= 1.0
            assert found.guarantee.delta <= 1e-6


class TestResult:
    def test_tiny_errors(self):
        """Five groups vote: uniform values are accepted, far ones rejected, at one in a million."""
        options = {"k": 8, "alpha": 0.4, "error": 1e-6, "rng": SeededWords(1), **PRIVACY}
        near = sdp.uniformity_test(words(20_000, 8, 1), **options)
        assert near.accept
        assert near.level <= 1e-6
        assert near.groups == 5
        far = sdp.uniformity_test(words(20_000, 8, 1) // 2, **options)
        assert not far.accept
        assert far.p_value <= 1e-6
        assert far.statistic >= 3 > far.threshold
        assert far.power > 0.999

    def test_sorted_values_are_no_alarm(self):
        """Groups are drawn at random, so the order of the column says nothing."""
        values = np.sort(words(40_000, 8, 2))
        found = sdp.uniformity_test(
            values, k=8, alpha=0.3, error=1e-6, rng=SeededWords(2), **PRIVACY
        )
        assert found.accept

    def test_public_seed_is_named_and_repeats_the_test(self):
        values = words(3000, 256, 1)
        options = {"k": 256, "alpha": 0.25, "coin": "public", "method": "direct", **PRIVACY}
        one = sdp.uniformity_test(values, rng=SeededWords(1), public_seed=5, **options)
        two = sdp.uniformity_test(values, rng=SeededWords(1), public_seed=5, **options)
        other = sdp.uniformity_test(values, rng=SeededWords(1), public_seed=6, **options)
        assert one == two
        assert one.statistic != other.statistic
        drawn = sdp.uniformity_test(values, **options)
        assert isinstance(drawn.public_seed, int)

    def test_no_group_needs_its_share_of_honest_people(self):
        """With 10 % of everybody dishonest a given eighth falls short of 90 % with probability 0.48."""
        n = 20_000
        assert stats.hypergeom.cdf(2249, n, 18_000, 2_500) == pytest.approx(0.48, abs=0.01)
        found = sdp.uniformity_test(
            words(n, 64, 1),
            k=64,
            alpha=0.25,
            coin="public",
            method="amplified",
            epsilon=1.0,
            delta=1e-6,
            rng=SeededWords(1),
        )
        assert found.groups == 8
        assert found.guarantee.honest == 18_000
        assert found.guarantee.delta <= 1e-6
        assert "draws its group" in found.guarantee.proof

    def test_voting_groups_count_on_fewer_than_their_share(self):
        """Each is a shuffle of its own: what a random group may lack is in delta."""
        options = {"error": 1e-6, "rng": SeededWords(1), **PRIVACY, "honest": 0.9}
        found = sdp.uniformity_test(words(20_000, 8, 1), k=8, alpha=0.4, **options)
        assert found.groups == 5
        assert found.guarantee.honest == 18_000
        assert found.guarantee.delta <= 1e-6
        counted = int(
            re.search(r"with ([\d,]+) honest people in a group", found.guarantee.proof)[1].replace(
                ",", ""
            )
        )
        # One honest member is whoever is protected; that the group has fewer is not likelier than half of delta.
        assert stats.hypergeom.cdf(counted - 2, 19_999, 17_999, 3_999) <= 5e-7
        assert counted < 3_600
        everybody = sdp.uniformity_test(
            words(20_000, 8, 1), k=8, alpha=0.4, **{**options, "honest": 1.0}
        )
        assert everybody.guarantee.honest == 20_000

    def test_pure_groups_cannot_vote(self):
        with pytest.raises(UnsupportedError, match="delta > 0"):
            sdp.uniformity_test(
                words(5_000, 8, 1),
                k=8,
                alpha=0.4,
                epsilon=1.0,
                delta=0.0,
                error=1e-6,
                method="pure",
            )

    def test_shown(self):
        found = sdp.uniformity_test(
            words(400, 16, 1), k=16, alpha=0.3, model="none", rng=SeededWords(1)
        )
        assert str(found).startswith("accept: statistic ")

    @pytest.mark.parametrize(
        ("changed", "error", "message"),
        [
            ({"k": 1}, ParameterError, "k=1"),
            ({"alpha": 0.0}, ParameterError, "alpha=0.0"),
            ({"alpha": 0.99}, ParameterError, "alpha=0.99"),
            ({"epsilon": None}, ParameterError, "epsilon=None"),
            ({"delta": None}, ParameterError, "delta=None"),
            ({"error": 0.6}, ParameterError, "error=0.6"),
            ({"model": "cloud"}, ParameterError, "model='cloud'"),
            ({"coin": "golden"}, ParameterError, "coin='golden'"),
            ({"method": "guess"}, ParameterError, "method='guess'"),
            ({"model": "central", "coin": "public"}, UnsupportedError, "not use a public coin"),
            ({"public_seed": 3}, ParameterError, "private coin"),
            ({"honest": 0.0}, ParameterError, "honest=0.0"),
            ({"values": [0, 16]}, DataError, "16 at position 1"),
            ({"values": [3]}, UnsupportedError, "n=1"),
        ],
    )
    def test_bad_input(self, changed, error, message):
        asked = {"values": words(2000, 16, 1), "k": 16, "alpha": 0.3, **PRIVACY, **changed}
        with pytest.raises(error, match=message):
            sdp.uniformity_test(asked.pop("values"), **asked)
