"""Questions about the distribution of a number, from options to answers."""

import numpy as np
import pandas as pd
import pytest

import shuffledp as sdp
from shuffledp.core.domain import Bins, Cells
from shuffledp.tasks import Quantiles, task_named

VALUES = np.random.default_rng(1).gamma(2.0, 15.0, 30_000).clip(0, 240)
GIVEN = {"lower": 0, "upper": 240, "epsilon": 1, "delta": 1e-6}


@pytest.mark.parametrize(
    ("task", "more"),
    [
        ("quantiles", {"at": [0.25, 0.5, 0.95]}),
        ("range", {"at": [20, 60]}),
        ("cdf", {"at": [10, 50, 100]}),
        ("variance", {}),
        ("std", {}),
    ],
)
@pytest.mark.parametrize("real", [True, False], ids=["reals", "integers"])
def test_answers_are_near_the_truth(task, more, real):
    values = VALUES if real else VALUES.astype(np.int64)
    answer = sdp.ask(values, task, **GIVEN, **more, rng=sdp.SeededWords(3))
    domain = answer.protocol.randomizer.domain
    question = task_named(task)(domain=domain, at=more.get("at"))
    truth = np.atleast_1d(question.truth(values))
    low, high = (np.atleast_1d(end) for end in answer.estimate.interval(1 - 1e-9))
    width = 240 / 256 if real else 0.0  # of a cell: a range or a share is of whole cells
    slack = {"range": 30_000 * 0.03, "cdf": 0.03, "variance": 240 * width, "std": width}.get(
        task, width
    )
    assert np.all(low - slack * real <= truth)
    assert np.all(truth <= high + slack * real)
    assert answer.to_dict()["estimate"][0]["label"]


def test_bins_have_names_and_counts():
    answer = sdp.ask(
        VALUES, "bins", edges=[0, 20, 50, 240], epsilon=1, delta=1e-6, rng=sdp.SeededWords(1)
    )
    assert answer.estimate.labels == ("0 to 20", "20 to 50", "50 to 240")
    truth = np.histogram(VALUES, [0, 20, 50, 240])[0]
    assert np.all(np.abs(answer.estimate.value - truth) < 8 * answer.estimate.stderr)


def test_reals_get_cells_for_their_number():
    few, many = (
        Quantiles.declare({"lower": 0.0, "upper": 0.5}).task.fit(n, 1.0) for n in (500, 10**8)
    )
    assert few.domain == Cells(lower=0.0, upper=0.5, cells=32)
    assert many.domain.cells == 4096
    assert "public cells" in many.remarks()[0]


def test_integers_are_their_own_cells():
    task = Quantiles.declare({"lower": 0, "upper": 240}).task
    assert task.domain == sdp.Integers(lower=0, upper=240)
    assert task.at == (0.5,)


@pytest.mark.parametrize(
    ("task", "given", "said"),
    [
        ("quantiles", {}, "quantiles need both `lower` and `upper`"),
        ("quantiles", {"lower": 5, "upper": 5}, "upper=5 must be > lower=5"),
        ("quantiles", {"lower": 0, "upper": 9, "at": "0.5,2"}, "at=2.0 must be > 0 and < 1"),
        (
            "quantiles",
            {"lower": 0, "upper": 9, "at": "half"},
            "at='half' must be a list of numbers",
        ),
        ("range", {"lower": 0, "upper": 9}, "a range needs its two ends"),
        ("variance", {"lower": 0, "upper": 9, "at": [1]}, "a variance takes no at"),
        ("bins", {}, "bins need their `edges`"),
        ("bins", {"edges": [3, 2, 1]}, "must increase"),
        ("bins", {"edges": [1, 2]}, "at least three"),
    ],
)
def test_bad_options_are_refused(task, given, said):
    with pytest.raises(sdp.ShuffledpError, match=said):
        task_named(task).declare(given)


@pytest.mark.parametrize("model", ["shuffle", "central", "local"])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"at": [0.0]}, "at=0.0 must be > 0 and < 1"),
        ({"at": [0.5, 1.2]}, "at=1.2 must be > 0 and < 1"),
        ({"at": [float("nan")]}, "at=nan must be finite"),
        ({"lower": 240, "upper": 0}, "upper=0 must be > lower=240"),
        ({"lower": float("nan")}, "lower=nan must be finite"),
        ({"steps": 2**30}, "1,073,741,824 cells are too many: .* messages; there may be 4,194,304"),
    ],
)
def test_bad_questions_are_one_sentence_in_every_model(change, said, model):
    given = {**GIVEN, "model": model, **change}
    if model != "shuffle":
        del given["delta"]
    with pytest.raises(sdp.ShuffledpError, match=said) as refused:
        sdp.ask([1, 2, 3] * 100, "quantiles", **given)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("task", "more"),
    [
        ("quantiles", {"at": [0.2, 0.5]}),
        ("range", {"at": [40, 70]}),
        ("cdf", {"at": [40]}),
        ("std", {}),
    ],
)
@pytest.mark.parametrize("model", ["shuffle", "central"])
def test_integers_are_integers_wherever_they_lie(task, more, model, tmp_path):
    """Text, too: in cells of reals a share of at most 40 would leave out those on the edge, at 40."""
    ages = [10, 40, 40, 70] * 500
    table = pd.DataFrame({"age": ages})
    table.to_csv(tmp_path / "a.csv", index=False)
    table.to_parquet(tmp_path / "a.parquet")
    given = {"lower": 0, "upper": 100, "epsilon": 1, "model": model, **more}
    if model == "shuffle":
        given["delta"] = 1e-6
    several = [tmp_path / "a.csv", tmp_path / "a.parquet", table, ages, list(map(str, ages))]
    answers = [
        sdp.ask(
            data,
            task,
            column=None if isinstance(data, list) else "age",
            rng=sdp.SeededWords(5),
            engine="memory" if isinstance(data, list | pd.DataFrame) else "duckdb",
            **given,
        ).estimate
        for data in several
    ]
    for answer in answers:
        np.testing.assert_array_equal(answer.value, answers[0].value)
        np.testing.assert_array_equal(answer.interval(0.95), answers[0].interval(0.95))
    if task == "cdf":
        assert abs(answers[0].value[0] - 0.75) < 0.1


def test_text_is_what_its_ends_say(tmp_path):
    """Never what its values are: those are somebody's. A plan reads the ends in the same way."""
    path = tmp_path / "a.csv"
    path.write_text("x\n" + "1\n2.5\n" * 500)
    given = {**GIVEN, "rng": sdp.SeededWords(1)}
    with pytest.raises(sdp.DataError, match=r"is not an integer .* such as 0.0, or give `steps`"):
        sdp.ask(path, "quantiles", **given)
    for change in ({"upper": 240.0}, {"steps": 30}):
        found = sdp.ask(path, "quantiles", **{**given, **change}).protocol.randomizer.domain
        assert isinstance(found, Cells)
        asked = Quantiles.declare({"lower": 0, "upper": 240, **change}).task
        assert asked.fit(1000, 1.0).domain == found


@pytest.mark.parametrize("at", [["2024-01-03"], "2024-01-03"])  # the command line gives text
def test_dates_in_text_are_days(at, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("day\n" + "2024-01-02\n2024-01-03\n2024-01-03\n2024-01-05\n" * 500)
    ends = {"lower": "2024-01-01", "upper": "2024-01-31"}
    answer = sdp.ask(path, "cdf", at=at, model="central", epsilon=1, **ends)
    assert abs(answer.estimate.value[0] - 0.75) < 0.1


def test_nobody_in_particular():
    """NaN is no value, and one person has no crowd; without a shuffler one person may answer."""
    with pytest.raises(sdp.DataError, match="value nan at position 2 is not a number"):
        sdp.ask(np.array([1.0, 2.0, np.nan]), "quantiles", **GIVEN)
    with pytest.raises(sdp.DataError, match="the value at position 2 is missing"):
        sdp.ask([1.0, 2.0, np.nan], "quantiles", **GIVEN)
    with pytest.raises(sdp.ShuffledpError, match="n=1 must be larger"):
        sdp.ask([3], "quantiles", **GIVEN)
    alone = sdp.ask([3], "quantiles", lower=0, upper=240, epsilon=1, model="local")
    assert 0 <= alone.estimate.value[0] <= 240


@pytest.mark.parametrize("bad", [np.nan, -0.1, 120.5])
def test_values_outside_are_refused(bad):
    for domain in (Cells(lower=0.0, upper=120.0, cells=8), Bins(edges=(0, 18, 120))):
        with pytest.raises(sdp.DataError, match="position 1"):
            domain.codes([3.0, bad])


def test_plan_ranks_the_tree():
    plan = sdp.plan("quantiles", n=10**5, epsilon=1.0, delta=1e-8, lower=0, upper=240)
    assert plan.chosen.protocol == "tree"
    assert 15 < plan.chosen.rmse < 30
