"""Ranges from 10 to 10^12, for every question about numbers: an answer within seconds, and no cliff in its error."""

import time

import numpy as np
import pytest

import shuffledp as sdp

N, SECONDS = 2_000, 10.0
SHARES = np.random.default_rng(4).random(N) ** 2
DISTRIBUTED = ("quantiles", "range", "cdf", "std", "variance")
TASKS = (*DISTRIBUTED, "sum", "mean")


def ask(task, upper, model="shuffle", **more):
    """The answer about integers, and the seconds of processor time that it took with its interval."""
    given = {"epsilon": 1.0, "rng": sdp.SeededWords(1), "model": model, **more}
    if model == "shuffle":
        given["delta"] = 1e-6
    if task == "range":
        given["at"] = [0, upper // 4]
    values = (SHARES * upper).astype(np.int64)
    start = time.process_time()
    answer = sdp.ask(values, task, lower=0, upper=upper, **given)
    answer.estimate.interval(0.95)
    return answer, time.process_time() - start


def scale_error(answer, task, upper):
    """The standard error as a share of the range, or of the people."""
    unit = {"range": N, "cdf": 1.0, "variance": upper**2, "sum": upper * N}.get(task, upper)
    return float(np.max(np.asarray(answer.estimate.stderr))) / unit


def check(task, exponents, model="shuffle"):
    errors = []
    for exponent in exponents:
        answer, seconds = ask(task, 10**exponent, model)
        assert seconds < SECONDS, f"{task} of 0 .. 10^{exponent} took {seconds:.1f} s"
        seeds = (
            range(2, 10) if model == "central" else ()
        )  # the error of one quantile follows its draw
        again = [ask(task, 10**exponent, model, rng=sdp.SeededWords(seed))[0] for seed in seeds]
        errors.append(np.mean([scale_error(each, task, 10**exponent) for each in (answer, *again)]))
    for place in range(1, len(errors)):
        decades = exponents[place] - exponents[place - 1]
        assert errors[place] <= 2 ** min(decades, 2) * errors[place - 1], f"{task}: {errors}"


@pytest.mark.parametrize("task", TASKS)
def test_wide_integers_are_answered_in_seconds_without_a_cliff(task):
    check(task, (4, 6) if task in ("std", "variance") else (4, 6, 12))


@pytest.mark.parametrize("model", ["central", "local"])
@pytest.mark.parametrize("task", ["quantiles", "mean"])
def test_wide_integers_in_the_other_models(task, model):
    check(task, (4, 12) if model == "central" else (4, 6, 12), model)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["shuffle", "central", "local"])
@pytest.mark.parametrize("task", TASKS)
def test_every_power_of_ten(task, model):
    check(task, range(4, 13), model)
    for exponent in (1, 2, 3):
        assert ask(task, 10**exponent, model)[1] < SECONDS


def test_the_grid_of_wide_integers_is_named():
    answer, _ = ask("quantiles", 500_000)
    assert any("65,536 public cells" in note for note in answer.notes)
    assert answer.protocol.name == "tree"


def test_integers_that_fit_keep_their_own_cells():
    assert float(ask("quantiles", 50_000)[0].estimate.value[0]).is_integer()


def test_a_declared_column_of_wide_integers_has_a_mean(tmp_path):
    """Parquet says that these are integers, so there is no other way to ask for reals than `steps`."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    values = (SHARES * 10**9).astype(np.int64)
    pq.write_table(pa.table({"income": values}), tmp_path / "people.parquet")
    answer = sdp.ask(
        str(tmp_path / "people.parquet"),
        "mean",
        column="income",
        lower=0,
        upper=10**9,
        epsilon=1.0,
        delta=1e-6,
        rng=sdp.SeededWords(1),
    )
    assert abs(answer.estimate.value - values.mean()) < 8 * answer.estimate.stderr
    assert any("public grid" in note for note in answer.notes)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["shuffle", "central"])
@pytest.mark.parametrize("k", [10, 10**3, 10**6])
def test_histograms_of_up_to_a_million_categories(k, model):
    delta = {"delta": 1e-6} if model == "shuffle" else {}
    values = (np.random.default_rng(4).random(10_000) ** 2 * k).astype(np.int64)
    start = time.process_time()
    answer = sdp.ask(values, "histogram", k=k, epsilon=1.0, model=model, **delta)
    answer.estimate.interval(0.95)
    assert time.process_time() - start < SECONDS
