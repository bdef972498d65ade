"""Dates go in as dates and come back as dates, in every format and for every question."""

import json
from datetime import date, datetime, timedelta

import numpy as np
import pytest

import shuffledp as sdp
from support import first

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")

FIRST = date(2012, 1, 1)
DAYS = [
    FIRST + timedelta(days=int(each)) for each in np.random.default_rng(5).integers(0, 366, 900)
]
TIMES = [datetime.combine(each, datetime.min.time()) + timedelta(hours=15) for each in DAYS]
PROMISE = {"epsilon": 60.0, "model": "central", "rng": sdp.SeededWords(1)}
_START = date(1970, 1, 1).toordinal()
YEAR = {"lower": "2012-01-01", "upper": "2012-12-31"}


@pytest.fixture(scope="module", params=first(["csv", "parquet", "times", "pandas", "jsonl"], 3))
def people(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    values = TIMES if request.param == "times" else DAYS
    table = pa.table({"day": pa.array(values)})
    if request.param == "csv":
        table.to_pandas().to_csv(folder / "p.csv", index=False)
        return str(folder / "p.csv")
    if request.param == "jsonl":
        path = folder / "p.jsonl"
        path.write_text("".join(json.dumps({"day": str(each)}) + "\n" for each in DAYS))
        return str(path)
    if request.param == "pandas":
        return pd.DataFrame({"day": pd.to_datetime(pd.Series(DAYS))})
    import pyarrow.parquet as pq

    pq.write_table(table, folder / "p.parquet")
    return str(folder / "p.parquet")


def ask(people, task, **given):
    return sdp.ask(people, task, column="day", **PROMISE, **given)


@pytest.mark.parametrize(
    "year",
    [
        YEAR,
        {"lower": FIRST, "upper": date(2012, 12, 31)},
        {"lower": pd.Timestamp("2012-01-01"), "upper": pd.Timestamp("2012-12-31")},
        {"lower": np.datetime64("2012-01-01"), "upper": np.datetime64("2012-12-31")},
    ],
)
def test_a_mean_is_a_date_whatever_the_ends_are(people, year):
    answer = ask(people, "mean", **year)
    assert answer.n == 900, "the last day is in the range, with all of its hours"
    exact = FIRST + timedelta(days=sum((day - FIRST).days for day in DAYS) / 900)
    (row,) = answer.to_dict()["estimate"]
    assert abs(date.fromisoformat(row["value"]) - exact) <= timedelta(days=1)
    assert row["value"] in str(answer)
    assert row["low"] <= row["value"] <= row["high"]
    assert answer.to_pandas()["value"].iloc[0].year == 2012


def test_quantiles_are_dates(people):
    answer = ask(people, "quantiles", **YEAR, at=[0.25, 0.5])
    found = [date.fromisoformat(row["value"]) for row in answer.to_dict()["estimate"]]
    exact = [sorted(DAYS)[place] for place in (224, 449)]
    assert all(abs(a - b) <= timedelta(days=3) for a, b in zip(found, exact, strict=True))


def test_bins_are_named_by_dates(people):
    answer = ask(people, "bins", edges="2012-01-01,2012-07-01,2012-12-31")
    rows = answer.to_dict()["estimate"]
    labels = [row["label"] for row in rows]
    assert labels == ["2012-01-01 to 2012-07-01", "2012-07-01 to 2012-12-31"]
    early = sum(day < date(2012, 7, 1) for day in DAYS)
    assert [round(row["value"]) for row in rows] == [early, 900 - early]


def test_days_and_points_are_dates(people):
    days = ask(people, "histogram", **YEAR).to_dict()["estimate"]
    assert (days[0]["label"], days[-1]["label"]) == ("2012-01-01", "2012-12-31")
    assert round(days[9]["value"]) == DAYS.count(date(2012, 1, 10))
    (point,) = ask(people, "cdf", **YEAR, at="2012-07-01").to_dict()["estimate"]
    assert point["label"] == "<= 2012-07-01"


def test_pictures_have_dates(people, tmp_path):
    answer = ask(people, "mean", **YEAR)
    page = answer.plot(tmp_path / "m.html").read_text()
    assert answer.to_dict()["estimate"][0]["value"] in page
    drawn = answer.plot(tmp_path / "m.svg").read_text()
    assert "2012-0" in drawn


def test_surveys_read_and_write_dates(people):
    edges = ["2012-01-01", "2012-07-01", "2013-01-01"]
    asked = {
        "mean": {"task": "mean", **YEAR},
        "median": {"task": "median", **YEAR},
        "halves": {"task": "bins", "edges": edges},
        "cdf": {"task": "cdf", "at": ["2012-06-30", "2012-12-31"], **YEAR},
    }
    questions = {name: {"column": "day", **each} for name, each in asked.items()}
    survey = sdp.Survey.read({"epsilon": 60.0, "delta": 1e-6, "questions": questions})
    data = sdp.Files(people) if isinstance(people, str) else people
    answer = sdp.ask(data, survey, rng=sdp.SeededWords(1))
    wanted = sorted(DAYS)
    (mean,) = answer["mean"].to_dict()["estimate"]
    assert abs(date.fromisoformat(mean["value"]) - wanted[450]).days < 15
    (median,) = answer["median"].to_dict()["estimate"]
    assert abs(date.fromisoformat(median["value"]) - wanted[450]).days < 15
    assert "2012-07-01 to 2013-01-01" in str(answer)
    assert [row.label for row in answer["cdf"].picture.rows] == ["<= 2012-06-30", "<= 2012-12-31"]
    assert f"{answer['cdf'].picture.curve.ends[1]}" == "2012-12-31"
    assert "The intervals are about these 900 people" in str(answer)


def test_days_by_group_are_dates(tmp_path):
    table = {"day": ["2012-01-01", "2012-01-02"] * 300, "way": ["car", "bus", "bus"] * 200}
    asked = {"by": "way", "groups": ["car", "bus"], "lower": "2012-01-01", "upper": "2012-01-02"}
    answer = sdp.ask(table, "histogram", column="day", **asked, **PROMISE)
    labels = [row.label for row in answer.picture.rows]
    assert labels == [f"{way}, 2012-01-0{day}" for way in ("car", "bus") for day in (1, 2)]


def test_curves_have_dates_below(people, tmp_path):
    points = {"at": ["2012-03-31", "2012-06-30", "2012-09-30"]}
    answer = ask(people, "cdf", **YEAR, **points)
    assert f"{answer.picture.curve.ends[0]}" == "2012-01-01"
    drawn = answer.plot(tmp_path / "a.svg").read_text()
    assert "The median is between 2012-" in drawn


def test_hints_about_moments():
    moments = ["2012-01-01 10:00:00"] * 100
    with pytest.raises(sdp.DataError, match="it has a time of day: `bins` counts moments"):
        sdp.ask(moments, "histogram", categories=["2012-01-01", "2012-01-02"], **PROMISE)
    with pytest.raises(sdp.DataError, match="it is a date: ends may be dates"):
        sdp.ask(moments, "mean", lower=0, upper=10, **PROMISE)


def test_ends_of_two_kinds_are_refused():
    with pytest.raises(sdp.UnsupportedError, match="must be all dates"):
        sdp.ask(["2012-01-01"] * 9, "mean", **PROMISE, lower="2012-01-01", upper=20000)


def test_dates_come_back_from_messages(tmp_path):
    """Randomized, tallied and estimated apart: dates are dates, in a survey and alone, as values and as names of bins."""
    days = [f"2024-03-{1 + place % 30:02d}" for place in range(3000)]
    text = 'epsilon = 9.0\ndelta = 1e-6\n[questions.when]\ntask = "mean"\ncolumn = "day"\n'
    text += 'lower = "2024-03-01"\nupper = "2024-03-31"\n[questions.thirds]\ntask = "bins"\n'
    text += 'column = "day"\nedges = ["2024-03-01", "2024-03-11", "2024-04-01"]\n'
    survey = sdp.Survey.loads(text)
    sent = survey.prepare({"day": days}, rng=sdp.SeededWords(1)).randomize(tmp_path / "m.parquet")
    answer = sdp.SurveyAnswer.of(sdp.tally_file(sent.path))
    (row,) = answer["when"].to_dict()["estimate"]
    assert row["value"] in ("2024-03-15", "2024-03-16")
    names = [row["label"] for row in answer["thirds"].to_dict()["estimate"]]
    assert names == ["2024-03-01 to 2024-03-11", "2024-03-11 to 2024-04-01"]
    one = sdp.Question(
        name="day",
        task="mean",
        column="day",
        options={"lower": "2024-03-01", "upper": "2024-03-31"},
    )
    asked = sdp.Survey.of(one, epsilon=9.0, delta=1e-6)
    alone = asked.prepare({"day": days}, rng=sdp.SeededWords(1), sent=True)
    found = sdp.Answer.of(sdp.tally_file(alone.randomize(tmp_path / "n.parquet").path))
    assert found.to_dict()["estimate"][0]["value"] in ("2024-03-15", "2024-03-16")


@pytest.mark.parametrize(
    ("given", "at", "said"),
    [
        (DAYS, ["2012-02-01", "2012-03-01"], "2012-02-01 to 2012-03-01"),
        ([each % 100 for each in range(900)], [30, 60.5], "30 to 60.5"),
    ],
    ids=["dates", "numbers"],
)
def test_a_range_says_which_one(tmp_path, given, at, said):
    ends = YEAR if given is DAYS else {"lower": 0, "upper": 99}
    answer = sdp.ask(given, "range", **PROMISE, **ends, at=at)
    assert [row["label"] for row in answer.to_dict()["estimate"]] == [said]
    assert answer.title == f"range {said} of values, 900 people"
    shown = answer.plot(tmp_path / "range.svg").read_text()
    assert f"<!-- {said}: " in shown
    one = sdp.Question(name="x", task="range", column="x", options={**ends, "at": at})
    survey = sdp.Survey.of(one, epsilon=9.0, delta=1e-6)
    sent = survey.prepare({"x": given}, sent=True).randomize(tmp_path / "m.parquet")
    assert sdp.Answer.of(sdp.tally_file(sent.path)).picture.rows[0].label == said


def test_days_that_are_out_of_range_are_named_as_days(tmp_path):
    path = tmp_path / "days.csv"
    path.write_text("day\n" + "2012-02-01 08:30\n" * 9 + "2011-12-31\n" * 9)
    said = r"value '2011-12-31' in row 10 of .* is outside the domain 2012-01-01 \.\. 2012-12-31; to go on"
    for data in (path, sdp.Files(path)):
        with pytest.raises(sdp.DataError, match=said):
            sdp.ask(data, "mean", column="day", **PROMISE, **YEAR)
    path.write_text("day\n31/12/2012\n12/31/2012\n")
    with pytest.raises(
        sdp.DataError, match=r"value '12/31/2012' in row 2 of .* is not a date \(dates are"
    ):
        sdp.ask(sdp.Files(path, dates="dmy"), "mean", column="day", **PROMISE, **YEAR)


def test_times_of_day_are_said_to_be_left_out():
    noon = [datetime(2012, 6, 1, 12), datetime(2012, 6, 2, 12)] * 450
    left_out = "Dates count as whole days: times of day are left out."
    errors = "As numbers, dates are days since 1970-01-01; errors are in days."
    assert [*sdp.ask(noon, "mean", **PROMISE, **YEAR).notes[:2]] == [left_out, errors]
    edges = ["2012-01-01", "2012-06-02", "2013-01-01"]
    binned = sdp.ask(noon, "bins", edges=edges, **PROMISE)
    assert left_out in binned.notes
    assert errors not in binned.notes


def test_intervals_of_days_are_rounded_outwards():
    half = [date(2012, 6, 1), date(2012, 6, 2)] * 450
    answer = sdp.ask(half, "mean", **PROMISE, **YEAR)
    low, high = answer.estimate.interval(0.95)
    shown = answer.to_dict()["estimate"][0]
    before, after = (
        date.fromisoformat(shown[name]).toordinal() - _START for name in ("low", "high")
    )
    assert before <= low <= high <= after < high + 1
    assert "2012-06-01 .. 2012-06-02" in str(answer)
