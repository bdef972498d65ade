"""How many users a test needs: both errors at that n, by fresh seeds, and the growth in k."""

import math
import re
from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats

import shuffledp as sdp
from shuffledp import ParameterError, SeededWords, UnsupportedError
from shuffledp.inference.complexity import sample_complexity
from shuffledp.inference.testers import METHODS, make_tester
from shuffledp.inference.testing_complexity import uniformity_order
from shuffledp.inference.uniformity import find_threshold, plan_vote
from support import ALPHA

EVERY = [(model, coin, method) for (model, coin), names in METHODS.items() for method in names]
K, TV = 16, 0.25
PRIVACY = {"epsilon": 1.0, "delta": 1e-6}


def needed(model, coin, method, k=K, alpha=TV, **changed):
    return sample_complexity(
        "uniformity_test", k, alpha, model=model, coin=coin, method=method, **{**PRIVACY, **changed}
    )


def misses(n, question, seed, runs):
    """(false alarms, misses) of `runs` simulated tests each, the threshold of each drawn anew."""
    model, coin, method = question
    made = make_tester(n=n, k=K, model=model, coin=coin, method=method, honest=0.9, **PRIVACY)
    ballot, rng = plan_vote(1 / 3), np.random.default_rng(seed)
    null, far = made.null(runs, rng), made.far(TV, runs, rng)
    batches = 10
    limits = [find_threshold(made.null(ballot.runs, rng), ballot.rank) for _ in range(batches)]
    limits = np.repeat(limits, runs // batches)
    return int((null > limits).sum()), int((far <= limits).sum())


# Each search calibrates a randomizer for some twenty numbers of users.
LONG = {("shuffle", "private", "amplified"), ("shuffle", "public", "hashed")}
SOME_SLOW = [
    pytest.param(one, marks=pytest.mark.slow if one in LONG else (), id="-".join(one))
    for one in EVERY
]


@pytest.mark.parametrize("question", SOME_SLOW)
def test_both_errors_at_the_n_returned(question):
    """Counted again with fresh seeds: at most one in three, of both kinds; a third of the users is too few."""
    found = needed(*question)
    runs = 1000
    alarms, missed = misses(found.n, question, seed=77, runs=runs)
    assert alarms / runs <= 1 / 3
    assert missed / runs <= 1 / 3
    _, missed = misses(max(16, found.n // 3), question, seed=77, runs=runs)
    assert stats.binomtest(missed, runs, 1 / 3, alternative="greater").pvalue < ALPHA
    assert found.lower <= found.n <= found.upper
    assert found.measured <= 1 / 3
    assert found.protocol == f"{question[2]}, {question[1]} coin"


@pytest.mark.slow
def test_both_errors_of_the_real_test():
    """The whole path, from values to verdict, with the values of a law at distance alpha."""
    n = needed("shuffle", "public", "direct", k=64).n
    runs, wrong = 90, [0, 0]
    for seed in range(runs):
        draw = np.random.default_rng(seed)
        options = {"k": 64, "alpha": TV, "coin": "public", "public_seed": seed, **PRIVACY}
        law = draw.permutation(np.repeat([1 - 2 * TV, 1 + 2 * TV], 32) / 64)
        for kind, p in enumerate((None, law)):
            values = draw.choice(64, size=n, p=p)
            accept = sdp.uniformity_test(values, rng=SeededWords(seed), **options).accept
            wrong[kind] += accept == (kind == 1)
    assert stats.binomtest(wrong[0], runs, 1 / 3, alternative="greater").pvalue > ALPHA
    assert stats.binomtest(wrong[1], runs, 1 / 3, alternative="greater").pvalue > ALPHA
    assert max(wrong) / runs <= 1 / 3 + 3 * math.sqrt(2 / 9 / runs)


def slope(ks, **question):
    ns = [sample_complexity("uniformity_test", k, honest=1.0, **question).n for k in ks]
    return np.polyfit(np.log(ks), np.log(ns), 1)[0]


@pytest.mark.parametrize(
    ("ks", "question", "exponent"),
    [
        ((64, 1024), {"alpha": 0.25, "model": "none"}, 1 / 2),
        pytest.param(
            (64, 1024),
            {"alpha": 0.5, "epsilon": 0.25, "delta": 1e-6},
            3 / 4,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            (1024, 8192),
            {"alpha": 0.25, **PRIVACY, "coin": "public", "method": "direct"},
            2 / 3,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            (64, 1024),
            {"alpha": 0.25, "epsilon": 1.0, "model": "local"},
            3 / 2,
            marks=pytest.mark.slow,
        ),
        ((64, 4096), {"alpha": 0.25, "epsilon": 1.0, "model": "local", "coin": "public"}, 1),
    ],
)
def test_growth_in_k(ks, question, exponent):
    assert slope(ks, **question) == pytest.approx(exponent, abs=0.1)


@pytest.mark.parametrize("question", EVERY, ids="-".join)
def test_orders_are_theirs(question):
    """The formula as text, evaluated, is the value."""
    model, coin, method = question
    order = uniformity_order(
        k=100, alpha=0.2, epsilon=0.5, delta=1e-4, model=model, coin=coin, method=method
    )
    # A space between two factors is a product.
    text = re.sub(r"(?<=[\w)]) (?=[\w(])", " * ", order.formula.replace("^", "**"))
    names = {"k": 100, "alpha": 0.2, "epsilon": 0.5, "delta": 1e-4, "e": math.e, "log": math.log}
    assert eval(text, names) == pytest.approx(order.value)  # noqa: S307  (our own formulas)


def test_small_errors_need_more_users_and_keep_them():
    once = needed("none", "private", None)
    rarely = needed("none", "private", None, error=0.01)
    never = needed("none", "private", None, error=1e-6)
    assert once.n < rarely.n < never.n
    assert never.n % 5 == 0  # five groups vote
    assert never.measured <= 1e-6
    assert rarely.measured <= 0.01


def test_the_same_question_gets_the_same_answer():
    assert needed("none", "private", None) == needed("none", "private", "collisions")


def test_the_method_is_the_one_that_needs_the_fewest():
    asked = {"k": 16, "alpha": 0.4, **PRIVACY, "honest": 1.0}
    each = {
        name: sample_complexity("uniformity_test", method=name, **asked).n
        for name in ("direct", "correlated")
    }
    found = sample_complexity("uniformity_test", **asked)
    assert found.n == min(each.values())
    assert found.protocol == "correlated, private coin"


COINS = [
    {"k": 16, "alpha": 0.3, "epsilon": 2.0, "model": "local"},
    {"k": 16, "alpha": 0.4, **PRIVACY, "honest": 1.0},
]
LONGER = [
    {"k": 256, "alpha": 0.25, "epsilon": 2.0, "model": "local"},
    {"k": 64, "alpha": 0.25, "epsilon": 4.0, "model": "local"},
    {"k": 256, "alpha": 0.1, **PRIVACY, "honest": 1.0},
    {"k": 128, "alpha": 0.4, "epsilon": 0.3, "delta": 1e-6, "honest": 0.9},
]


@pytest.mark.parametrize(
    "asked", [*COINS, *(pytest.param(each, marks=pytest.mark.slow) for each in LONGER)]
)
def test_a_public_coin_needs_no_more_people(asked):
    """Whoever has a coin may ignore it."""
    private, public = (
        sample_complexity("uniformity_test", coin=coin, **asked).n for coin in ("private", "public")
    )
    assert public <= private


def test_two_names_of_one_tester_have_one_answer():
    """They are found by different searches, and simulated with the same seeds."""
    asked = {"k": 16, "alpha": 0.25, "epsilon": 2.0, "model": "local"}
    private = sample_complexity("uniformity_test", coin="private", method="hadamard", **asked)
    public = sample_complexity("uniformity_test", coin="public", method="private_hadamard", **asked)
    assert (private.n, private.lower, private.upper) == (public.n, public.lower, public.upper)


def find_by_hand(asked, name, runs, seed):
    """The crossing by many runs on a fine lattice: an independent fit, quadratic, unweighted."""
    ballot, law = plan_vote(1 / 3), NormalDist()
    centre = sample_complexity("uniformity_test", **asked).n
    places = np.linspace(-0.2, 0.2, 9)
    heights = []
    for place in places:
        n = round(centre * math.exp(place))
        options = {key: value for key, value in asked.items() if key not in ("k", "alpha")}
        made = make_tester(n=n, method=name, k=asked["k"], **options)
        rng = np.random.default_rng([seed, n])
        null, far = made.null(runs, rng), made.far(asked["alpha"], runs, rng)
        limit = find_threshold(null, math.floor(ballot.level * (runs + 1)))
        heights.append(law.inv_cdf((far <= limit).mean()))
    fit = np.polyfit(heights, places, 2)
    return centre * math.exp(np.polyval(fit, law.inv_cdf(7 / 24)))


INTERVALS = [
    ({"k": 16, "alpha": 0.25, "model": "none", "coin": "private"}, "collisions"),
    ({"k": 16, "alpha": 0.25, "model": "local", "coin": "private", "epsilon": 2.0}, "hadamard"),
    (
        {"k": 16, "alpha": 0.25, "model": "shuffle", "coin": "private", "honest": 1.0, **PRIVACY},
        "correlated",
    ),
]


def covered(asked, name, times, runs):
    truth = find_by_hand(asked, name, runs, seed=9)
    found = [
        sample_complexity("uniformity_test", method=name, seed=seed, **asked)
        for seed in range(1000, 1000 + times)
    ]
    return sum(each.lower <= truth <= each.upper for each in found), found


@pytest.mark.parametrize(("asked", "name"), INTERVALS[:1])
def test_a_few_intervals_hold(asked, name):
    hits, found = covered(asked, name, times=12, runs=10_000)
    assert hits >= 10
    assert max(each.upper for each in found) < 1.6 * min(each.lower for each in found)


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "name"), INTERVALS)
def test_intervals_hold(asked, name):
    """200 fresh seeds: at least 95 % contain the value of 40,000 runs at each n."""
    hits, _ = covered(asked, name, times=200, runs=40_000)
    assert hits >= 190


def test_identity_to_a_uniform_law_is_uniformity():
    options = {"alpha": 0.25, **PRIVACY}
    uniform = sample_complexity("uniformity_test", k=16, **options)
    same = sample_complexity("identity_test", q=[1 / 16] * 16, **options)
    assert (same.n, same.protocol) == (uniform.n, uniform.protocol)


def test_identity_to_a_law_of_small_denominators_is_uniformity_on_the_cells():
    options = {"alpha": 0.3, "model": "none"}
    on_cells = sample_complexity("uniformity_test", k=8, **options)
    assert (
        sample_complexity("identity_test", q=[0.5, 0.25, 0.125, 0.125], **options).n == on_cells.n
    )


def test_identity_takes_the_map_that_needs_fewer():
    """A hundredth against the rest: 100 cells that keep everything, or 12 that keep less than half."""
    found = sample_complexity("identity_test", q=[0.01, 0.99], alpha=0.3, model="none")
    grain = sample_complexity("uniformity_test", k=100, alpha=0.3, model="none")
    mixed = sample_complexity("uniformity_test", k=12, alpha=0.3 * 4 / 9, model="none")
    assert found.n < min(grain.n, mixed.n)  # something between the two
    with pytest.raises(ParameterError, match="k=3"):
        sample_complexity("identity_test", k=3, q=[0.01, 0.99], alpha=0.3, model="none")


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"alpha": 0.0}, ParameterError),
        ({"k": 1}, ParameterError),
        ({"error": 0.7}, ParameterError),
        ({"epsilon": -1.0}, ParameterError),
        ({"model": "central", "coin": "public"}, UnsupportedError),
        ({"method": "guess"}, ParameterError),
    ],
)
def test_bad_questions(changed, error):
    with pytest.raises(error):
        needed(**{"model": "shuffle", "coin": "private", "method": None, **changed})
