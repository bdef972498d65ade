"""How many users a test needs: both errors at that n, by fresh seeds, and the growth in k."""

import math
import re

import numpy as np
import pytest
from scipy import stats

import shuffledp as sdp
from shuffledp import ParameterError, SeededWords, UnsupportedError
from shuffledp.inference.complexity import sample_complexity, uniformity_order
from shuffledp.inference.testers import METHODS, make_tester
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
    assert found.lower < found.n == found.upper
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
        ((1024, 16384), {"alpha": 0.25, **PRIVACY, "coin": "public"}, 2 / 3),
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


def test_the_defaults_are_those_of_the_test():
    assert "direct, private coin" in str(sample_complexity("uniformity_test", 16, 0.4, 1.0, 1e-6))


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
