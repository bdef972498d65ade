"""Optional questions: whoever leaves one out stays, counts as nothing, and tells nobody that they did."""

import datetime
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shuffledp as sdp
from shuffledp.live.design import choose_protocols, read_survey

DAYS = [datetime.date(2024, 1, day) for day in (1, 2, 3)]
TABLE = {
    "day": [*DAYS, None] * 100,
    "km": [1, 2, None, 7] * 100,
    "hours": [1.5, math.nan, 2.5, 7.25] * 100,
    "home": [True, None, False, True] * 100,
    "way": ["car", None, "bus", "bus"] * 100,
}
FIRST, LAST = "2024-01-01", "2024-01-03"
ASKED: dict[str, tuple[str, str, dict[str, Any], Any]] = {
    "count": ("count", "home", {}, 200),
    "sum": ("sum", "km", {"lower": 1, "upper": 6}, 900),
    "mean": ("mean", "km", {"lower": 0, "upper": 6}, 3.0),
    "mean of reals": ("mean", "hours", {"lower": 0.0, "upper": 8.0}, 3.75),
    "histogram": ("histogram", "way", {"categories": ["car", "bus"]}, [100, 200, 100]),
    "days": ("histogram", "day", {"lower": FIRST, "upper": LAST}, [100] * 4),
    "bins": ("bins", "km", {"edges": [0, 2, 8]}, [100, 200, 100]),
    "bins of days": ("bins", "day", {"edges": [FIRST, LAST, "2024-01-05"]}, [200, 100, 100]),
    "median": ("median", "km", {"lower": 0, "upper": 9}, 2),
    "range": ("range", "km", {"lower": 0, "upper": 7, "at": [2, 7]}, 200),
    "range of days": ("range", "day", {"lower": FIRST, "upper": LAST, "at": [FIRST, LAST]}, 300),
    "cdf": ("cdf", "km", {"lower": 0, "upper": 7, "at": [1, 7]}, [0.25, 0.75]),
    "cdf of reals": ("cdf", "hours", {"lower": 0.0, "upper": 8.0, "at": [2, 8]}, [0.25, 0.75]),
}
CLAMPED = ("sum", "mean")


def question(case: str, **more: Any) -> sdp.Question:
    task, column, options, _ = ASKED[case]
    more |= {"on_invalid": "clamp"} if case in CLAMPED else {}
    return sdp.Question(name=case, task=task, column=column, options=options, optional=True, **more)


def ask(survey: sdp.Survey, table: dict[str, Any] = TABLE) -> sdp.SurveyAnswer:
    return sdp.ask(pa.table(table), survey, model=survey.model, rng=sdp.SeededWords(1))


MODELS = [
    *((case, "central") for case in ASKED),
    *((case, "shuffle") for case in ("count", "mean", "days", "cdf")),
    *((case, "local") for case in ("sum", "histogram", "mean of reals", "range")),
]


@pytest.mark.parametrize(("case", "model"), MODELS)
def test_whoever_has_no_answer_counts_as_nothing(case: str, model: str) -> None:
    delta = 0.0 if model == "local" else 1e-6
    survey = sdp.Survey(epsilon=12.0, delta=delta, model=model, questions=(question(case),))
    answer = ask(survey)
    assert (answer.n, answer.not_private[1:]) == (400, ())
    truth = np.atleast_1d(np.asarray(ASKED[case][3], dtype=float))
    estimate = answer[case].estimate
    low, high = (np.atleast_1d(end) for end in estimate.interval(1 - 1e-9))
    assert np.all((low <= truth + 1e-9) & (truth <= high + 1e-9))
    if model == "central":
        assert np.atleast_1d(estimate.value) == pytest.approx(truth, rel=0.05)
    assert answer[case].task == ASKED[case][0]  # and not by group


def test_bins_of_dates_and_nobody_have_names() -> None:
    survey = sdp.Survey(
        epsilon=9.0, delta=1e-6, questions=(question("days"), question("bins of days"))
    )
    answer = ask(survey)
    assert answer["days"].estimate.labels == ("2024-01-01", "2024-01-02", "2024-01-03", "none")
    assert answer["bins of days"].estimate.labels == (
        "2024-01-01 to 2024-01-03",
        "2024-01-03 to 2024-01-05",
        "none",
    )


@pytest.mark.parametrize("case", ["count", "sum", "histogram", "range", "mean"])
def test_leaving_it_out_is_seen_by_nobody(case: str) -> None:
    """All that is public is the same, whether somebody answers or not."""
    survey = sdp.Survey(epsilon=1.0, delta=1e-6, questions=(question(case),))
    column = ASKED[case][1]
    fewer = {**TABLE, column: [None, *TABLE[column][1:]]}
    seen = []
    for table in (TABLE, fewer):
        record = ask(survey, table).to_dict()
        del record["questions"][case]["estimate"]
        seen.append(record)
    assert seen[0] == seen[1]


def test_only_a_missing_answer_may_be_left_out() -> None:
    survey = sdp.Survey(epsilon=1.0, delta=1e-6, questions=(question("histogram"),))
    with pytest.raises(sdp.DataError, match="'tram' at position 0 is none of the categories"):
        ask(survey, {**TABLE, "way": ["tram", *TABLE["way"][1:]]})


def test_what_is_beyond_the_ends_is_not_nothing() -> None:
    """A person at 9 of 0 .. 7 is moved to 7, into the range, and not to the cell of nobody."""
    survey = sdp.Survey(
        epsilon=90.0,
        delta=0.0,
        model="central",
        questions=(
            question("range", people=sdp.engine.People.read("who")),
            question("sum", people=sdp.engine.People.read("who")),
        ),
    )
    table = {"who": list(range(100)), "km": [9, None] * 25 + [-5, 0] * 25}
    answer = ask(survey, table)
    assert answer["range"].estimate.value == pytest.approx(25, abs=1)
    assert answer["sum"].estimate.value == pytest.approx(25 * 6 + 50 * 1, abs=2)


FILE = """epsilon = 9.0
delta = 1e-6
[questions.way]
task = "histogram"
categories = ["car", "bus"]
optional = true
[questions.home]
task = "count"
on_invalid = "drop"
"""


def test_a_survey_file_and_its_messages(tmp_path: Path) -> None:
    survey = sdp.Survey.loads(FILE)
    assert [each.optional for each in survey.questions] == [True, False]
    assert survey.plan(400).rows[0].task == "histogram"
    sent = survey.prepare(pa.table(TABLE), sent=True).randomize(tmp_path / "sent.parquet")
    answer = sdp.SurveyAnswer.of(sdp.tally_file(sent.path))
    assert (answer.n, answer["way"].estimate.labels) == (400, ("car", "bus", "none"))
    text = str(ask(survey))
    assert "way: whoever has no value is counted as 'none'." in text
    assert "home: whoever has no value counts as no." in text


def test_words_and_devices_refuse_it(tmp_path: Path) -> None:
    text = 'epsilon = 1.0\ndelta = 1e-6\n[questions.way]\ntask = "{}"\noptional = true\n'
    words = text.format("words") + 'alphabet = "letters"\nmax_length = 4\n'
    with pytest.raises(sdp.DataError, match=r"line 3.*words have no place for people without a"):
        ask(sdp.Survey.loads(words))
    place = tmp_path / "s.toml"
    place.write_text(text.format("count") + "[collection]\npeople = 1000\n")
    with pytest.raises(sdp.DataError, match="optional is for files"):
        choose_protocols(*read_survey(place))


def test_a_filter_beside_it_takes_the_same_rows_as_before() -> None:
    """Values that are missing are looked for after a filter by another column, which is none of the questions'."""
    asked = (question("sum"), sdp.Question(name="way", task="histogram", column="way", optional=True,
                                           options={"categories": ["car", "bus"]}))  # fmt: skip
    survey = sdp.Survey(epsilon=50.0, delta=0.0, questions=asked, model="central")
    found = sdp.ask(
        pa.table(TABLE), survey, model="central", where="hours < 3", rng=sdp.SeededWords(1)
    )
    kept = {
        name: [each for i, each in enumerate(values) if i % 4 in (0, 2)]
        for name, values in TABLE.items()
    }
    wanted = ask(survey, kept)
    assert (found.n, wanted.n) == (200, 200)
    for name in ("sum", "way"):
        assert found[name].estimate.value == pytest.approx(wanted[name].estimate.value)
    assert found["way"].estimate.value == pytest.approx([100, 100, 0], abs=2)
