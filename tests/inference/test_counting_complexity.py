"""How many people counts and histograms need: the error counted again at that n, the growth in k, who may do what."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import shuffledp as sdp
from shuffledp import ParameterError, SeededWords, UnsupportedError
from shuffledp.inference.complexity import sample_complexity
from support import ALPHA

PRIVACY = {"epsilon": 1.0, "delta": 1e-6}
BETA = 0.1


def fails(protocol, truth, alpha, runs):
    """How often some error exceeds alpha n, in simulated collections."""
    rng, n = SeededWords(5), int(np.sum(truth))
    count = 0
    for _ in range(runs):
        value = np.asarray(sdp.run_counts(protocol, truth, rng).value)
        exact = truth if value.ndim else truth[1]
        count += bool((np.abs(value - exact) > alpha * n + 1e-9).any())
    return count


@pytest.mark.parametrize("model", ["local", "shuffle"])
@pytest.mark.parametrize("name", [None, "rr"])
def test_counts_keep_the_error_at_the_n_returned(model, name):
    alpha, runs = 0.05, 600
    options = {
        "alpha": alpha,
        "beta": BETA,
        **PRIVACY,
        "model": model,
        "protocol": name,
        "honest": 1.0,
    }
    found = sample_complexity("count", **options)

    def make(n):
        if model == "local":
            return sdp.protocols.rr.make_local(epsilon=1.0)
        return sdp.make(found.protocol, n=n, honest=1.0, **PRIVACY)

    for share in (0.0, 0.5, 1.0):
        ones = round(share * found.n)
        wrong = fails(make(found.n), np.array([found.n - ones, ones]), alpha, runs)
        assert stats.binomtest(wrong, runs, BETA, alternative="greater").pvalue > ALPHA
    few = found.n // 2
    wrong = fails(make(few), np.array([few - few // 2, few // 2]), alpha, runs)
    assert stats.binomtest(wrong, runs, BETA, alternative="greater").pvalue < ALPHA


@pytest.mark.parametrize(
    ("model", "name"),
    [("local", "krr"), ("local", None), ("shuffle", None), ("shuffle", "zsum_histogram")],
)
def test_histograms_keep_the_error_in_all_bins(model, name):
    alpha, k, runs = 0.1, 8, 400
    options = {"alpha": alpha, "beta": BETA, "k": k, **PRIVACY, "model": model, "protocol": name}
    found = sample_complexity("histogram", **options, honest=1.0)
    spec = {} if model == "local" else {"n": found.n, "delta": 1e-6, "honest": 1.0}
    maker = sdp.protocols.spec(found.protocol)
    make = maker.make_local if model == "local" else maker.make
    protocol = make(k=k, epsilon=1.0, **spec)
    for truth in (np.full(k, found.n // k), np.array([found.n] + [0] * (k - 1))):
        truth[0] += found.n - truth.sum()
        wrong = fails(protocol, truth, alpha, runs)
        assert stats.binomtest(wrong, runs, BETA, alternative="greater").pvalue > ALPHA


def test_a_curator_is_exact():
    """The smallest n with Pr[|Z| > alpha n] <= beta, by hand."""
    found = sample_complexity("count", alpha=0.01, beta=0.05, epsilon=1.0, model="central")
    p = np.exp(-1.0)
    tail = lambda r: 2 * p ** (r + 1) / (1 + p)  # noqa: E731  (of discrete Laplace noise)
    radius = next(r for r in range(100) if tail(r) <= 0.05)
    assert found.n == radius * 100
    assert found.protocol == "geometric"


def test_the_gap_of_the_notes():
    """Locally n grows with log k; with zsum it does not grow at all; and the gap at k = 1,024 is large."""
    asked = {"alpha": 0.05, "beta": 0.05, **PRIVACY, "honest": 1.0}
    local = [sample_complexity("histogram", k=k, model="local", **asked).n for k in (16, 1024)]
    flat = [
        sample_complexity("histogram", k=k, protocol="zsum_histogram", **asked).n
        for k in (32, 1024)  # more than the 1/alpha bins that can hold more than a share alpha
    ]
    best = sample_complexity("histogram", k=1024, **asked).n
    assert 1.5 < local[1] / local[0] < np.log(1024 / 0.05) / np.log(16 / 0.05) * 1.2
    assert flat[0] == flat[1]
    assert local[1] > 50 * best


def test_without_privacy_one_is_enough():
    assert sample_complexity("count", alpha=0.01, model="none").n == 1


@pytest.mark.slow
@pytest.mark.parametrize("task", ["count", "histogram"])
@pytest.mark.parametrize("alpha", [0.02, 0.2])
@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_whoever_may_more_needs_no_more(task, alpha, epsilon):
    """none <= central <= shuffle <= local, and more messages or honest people never hurt."""
    own = {"k": 6} if task == "histogram" else {}
    asked = {"alpha": alpha, "epsilon": epsilon, "delta": 1e-5, **own}
    models = [
        sample_complexity(task, model=m, **asked).n for m in ("none", "central", "shuffle", "local")
    ]
    assert models == sorted(models)
    honest = [sample_complexity(task, honest=share, **asked).n for share in (1.0, 0.5)]
    assert honest == sorted(honest)
    sent = [sample_complexity(task, max_messages=most, **asked).n for most in (None, 1.0)]
    assert sent == sorted(sent)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"alpha": 0.0}, ParameterError, "alpha=0.0"),
        ({"alpha": None}, ParameterError, "alpha must be given"),
        ({"beta": 1.0}, ParameterError, "beta=1.0"),
        ({"delta": None}, ParameterError, "delta must be given"),
        ({"epsilon": None}, ParameterError, "epsilon"),
        ({"model": "cloud"}, ParameterError, "model='cloud'"),
        ({"protocol": "krr"}, ParameterError, "protocol='krr'"),
        ({"task": "histogram"}, ParameterError, "k must be given"),
        ({"task": "histogram", "k": 10**6}, UnsupportedError, "k=1000000"),
        ({"task": "median"}, ParameterError, "task='median'"),
    ],
)
def test_bad_questions(changed, error, message):
    asked = {"task": "count", "alpha": 0.1, **PRIVACY, **changed}
    with pytest.raises(error, match=message):
        sample_complexity(**asked)


def test_shares_are_fractions_of_the_people():
    """At the n returned the radius is at most alpha n, and one less than `lower` it is not."""
    asked = {"alpha": 0.03, "beta": 0.01, **PRIVACY, "protocol": "zsum", "honest": 1.0}
    found = sample_complexity("count", **asked)
    radius = [
        sdp.protocols.zsum.make(n=n, honest=1.0, **PRIVACY).analyzer.accuracy(n, 0.01)
        for n in (found.n, found.lower)
    ]
    assert radius[0] <= Fraction("0.03") * found.n
    assert radius[1] > Fraction("0.03") * found.lower
