"""The central model on a column: exact answers, one noisy release, charged like every other."""

import json
import re
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import shuffledp as sdp
from shuffledp.core.domain import PLACE_BITS
from shuffledp.engine import find_engine, release_column, take_column
from support import ALPHA

BITS = [True] * 30 + [False] * 70
AGES = list(range(10, 60)) * 2
SHARES = np.random.default_rng(5).random(997)
ANIMALS = ["cat"] * 60 + ["dog"] * 39 + ["eel"]
ASKED = {
    "count": (BITS, {}, 30.0),
    "sum": (AGES, {"lower": 10, "upper": 59}, float(sum(AGES))),
    "mean": (AGES, {"lower": 10, "upper": 59}, sum(AGES) / 100),
    "histogram": (ANIMALS, {"categories": ["cat", "dog", "eel"]}, [60.0, 39.0, 1.0]),
    "quantiles": (AGES, {"lower": 10, "upper": 59, "at": [0.25, 0.5]}, [22.0, 34.0]),
    "range": (AGES, {"lower": 10, "upper": 59, "at": [20, 29]}, 20.0),
    "cdf": (AGES, {"lower": 10, "upper": 59, "at": [19, 39]}, [0.2, 0.6]),
    "variance": (AGES, {"lower": 10, "upper": 59}, np.var(AGES)),
    "std": (AGES, {"lower": 10, "upper": 59}, np.std(AGES)),
    "bins": (AGES, {"edges": [0, 20, 60]}, [20.0, 80.0]),
}
REACH = {
    "count": 1.0, "sum": 49.0, "mean": 0.49, "histogram": 2.0, "quantiles": 9.0, "range": 40.0,
    "cdf": 0.4, "variance": 400.0, "std": 20.0, "bins": 2.0,
}  # fmt: skip
LARGE = 90.0  # an epsilon with little noise: more than 30 / 90 of the reach once in 10^13 draws


@pytest.mark.parametrize("task", ASKED)
@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_the_exact_answer_is_what_the_noise_is_added_to(task, engine):
    data, options, truth = ASKED[task]
    answer = sdp.ask(data, task, epsilon=LARGE, model="central", engine=engine, **options)
    assert answer.estimate.value == pytest.approx(truth, abs=30 / LARGE * REACH[task])
    assert answer.guarantee.model is sdp.Model.CENTRAL
    assert answer.guarantee.delta == 0
    assert answer.n == len(data)


@pytest.mark.parametrize("task", ["sum", "mean"])
def test_reals_are_added_up_without_a_grid(task):
    """Places are off by at most 2^-41 of the range each; a grid for shuffling would be off by much more."""
    domain = sdp.Reals(lower=0.0, upper=1.0, steps=4)
    exact = sum(map(Fraction, SHARES.tolist()))
    total = Fraction(sum(domain.places(SHARES).tolist()), 1 << PLACE_BITS)
    assert abs(total - exact) <= Fraction(len(SHARES), 1 << PLACE_BITS)
    answer = sdp.ask(SHARES, task, epsilon=LARGE, model="central", lower=0.0, upper=1.0)
    scale = 1 if task == "sum" else len(SHARES)
    assert scale * answer.estimate.value == pytest.approx(float(exact), abs=30 / LARGE)


@pytest.mark.parametrize("lower", [-3.0, 2.5])
def test_reals_are_counted_from_their_lower_end(lower):
    values = lower + 4 * SHARES
    answer = sdp.ask(values, "sum", epsilon=LARGE, model="central", lower=lower, upper=lower + 4)
    assert answer.estimate.value == pytest.approx(values.sum(), abs=4 * 30 / LARGE)


def test_the_noise_has_the_declared_law():
    """The answers of a count are the truth plus discrete Laplace noise, by a chi-squared test."""
    mechanism = sdp.mechanisms.geometric.make(epsilon=1.0, sensitivity=1)
    count, people = sdp.tasks.Count(domain=sdp.Bits()), take_column(BITS)
    engine, rng = find_engine("memory"), sdp.SeededWords(3)

    def noise():
        run = release_column(mechanism, count, people, engine=engine, rng=rng)
        return int(run.estimate.value) - 30

    found = np.array([noise() for _ in range(600)])
    cells = np.arange(-3, 4)
    a = np.exp(-1.0)
    law = (1 - a) / (1 + a) * a ** np.abs(cells)
    expected = len(found) * np.append(law, 1 - law.sum())

    def p_value(drawn):
        seen = [int((drawn == z).sum()) for z in cells]
        return stats.chisquare([*seen, len(drawn) - sum(seen)], expected).pvalue

    assert p_value(found) > ALPHA
    assert p_value(found + 1) < ALPHA  # a mutant: shifted by one


def test_the_interval_and_the_limits_are_those_of_the_answer():
    answer = sdp.ask(AGES, "mean", epsilon=1.0, model="central", lower=10, upper=59)
    assert answer.estimate.limits == (10.0, 59.0)
    low, high = answer.estimate.interval(0.95)
    radius = 49 / 100 * np.log(20)  # of a Laplace of scale (upper - lower) / (n epsilon)
    assert (high - low) / 2 == pytest.approx(radius, rel=1e-4)
    bins = sdp.ask(ANIMALS, "histogram", epsilon=1.0, model="central", **ASKED["histogram"][1])
    assert bins.estimate.labels == ("cat", "dog", "eel")
    assert bins.estimate.limits == (0.0, 100.0)


def test_named_mechanisms_and_a_delta():
    data, options, _ = ASKED["histogram"]
    answer = sdp.ask(
        data, "histogram", epsilon=4.0, delta=1e-4, model="central", protocol="stability_histogram", **options
    )  # fmt: skip
    assert set(answer.estimate.labels) <= {"cat", "dog"}
    assert answer.guarantee.delta == 1e-4
    with pytest.raises(sdp.UnsupportedError, match=r"binomial .*delta"):
        sdp.ask(BITS, "count", epsilon=1.0, model="central", protocol="binomial")


@pytest.mark.parametrize("wrong", [{"honest": 0.5}, {"max_messages": 3.0}])
def test_what_a_curator_does_not_take(wrong):
    with pytest.raises(sdp.UnsupportedError, match="the central model takes no"):
        sdp.ask(BITS, "count", epsilon=1.0, model="central", **wrong)


def test_who_is_left_out():
    ages = [30, None, 200, 40] * 25
    answer = sdp.ask(
        ages, "sum", epsilon=LARGE, model="central", lower=0, upper=100, on_invalid="drop"
    )
    assert (answer.n, answer.rows) == (50, 100)
    assert answer.estimate.value == pytest.approx(25 * 70, abs=30 / LARGE * 100)


def test_what_the_shuffle_model_says_about_it():
    shuffle = sdp.ask(BITS, "count", epsilon=1.0, delta=1e-4)
    central = sdp.ask(BITS, "count", epsilon=1.0, model="central")
    said = "It would be off by about 1.36 (RMSE)"
    assert said in str(shuffle)
    assert "If they trust this machine, use the central model" in str(shuffle)
    assert "rehearsal" not in str(central)
    assert "rehearsal" not in str(sdp.ask(BITS, "count", epsilon=1.0, model="local"))
    assert "computed the exact answer and added the noise" in central.explain()
    assert "The machine that holds everybody's values" in central.explain()


def test_the_error_of_a_curator_is_in_the_unit_of_the_question():
    common = {"epsilon": 1.0, "delta": 1e-4, "lower": 10, "upper": 59}
    groups = {"by": "home", "groups": ["a", "b"]}
    table = pa.table({"age": AGES, "home": ["a", "b"] * (len(AGES) // 2)})
    assert re.search(
        r"off by about [\d.]+ ranks \(RMSE\)", str(sdp.ask(AGES, "quantiles", **common))
    )
    assert "off by about" not in str(sdp.ask(AGES, "variance", **common))
    for task, compared in (("mean", False), ("sum", False), ("histogram", True)):
        answer = sdp.ask(table, task, column="age", **groups, **common)
        assert ("off by about" in str(answer)) is compared


@pytest.mark.parametrize("task", ASKED)
def test_the_command_line_with_a_ledger(task, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from shuffledp.cli import app

    monkeypatch.chdir(tmp_path)
    data, options, _ = ASKED[task]
    (tmp_path / "x.csv").write_text("x\n" + "\n".join(map(str, data)) + "\n")
    words = ["run", task, "x.csv", "--epsilon", "1", "--model", "central", "--json"]
    for name, value in options.items():
        words += [f"--{name}", ",".join(map(str, value)) if isinstance(value, list) else str(value)]
    ledger = ["--ledger", "l.json", "--budget-epsilon", "1", "--budget-delta", "0"]
    first = CliRunner().invoke(app, [*words, *ledger])
    assert first.exit_code == 0, first.output
    found = json.loads(first.stdout.splitlines()[0])
    assert found["guarantee"]["model"] == "central"
    assert found["delta"] == 0
    assert CliRunner().invoke(app, [*words, "--ledger", "l.json"]).exit_code == 3


def test_messages_are_refused(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from shuffledp.cli import app

    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text("x\n1\n0\n")
    words = ["randomize", "x.csv", "--task", "count", "--epsilon", "1", "--model", "central"]
    result = CliRunner().invoke(app, [*words, "--out", "m.parquet"])
    assert result.exit_code == 2
    assert "'central' is not one of 'shuffle'" in result.stderr
