"""Guarantees are those of the people who are there, however many the noise was made for."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import shuffledp as sdp


@pytest.mark.parametrize("people", [950, 1200])
@pytest.mark.parametrize("protocol", ["correlated_count", "split_and_mix", "rr"])
def test_a_request_made_for_others(protocol, people):
    """With 950 of 1,000 people the stated delta is what their noise gives, not what was planned."""
    question = sdp.Question(name="home", task="count", column=None, protocol=protocol)
    survey = sdp.Survey.of(question, epsilon=1.0, delta=1e-6)
    prepared = survey.prepare([True, False] * (people // 2), n=1000)
    answer = prepared.answer()
    assert answer.n == people
    assert answer.protocol.users == people
    there = prepared.protocol.with_people(people).guarantee
    assert answer.guarantee == there
    planned = prepared.protocol.guarantee
    assert answer.guarantee.honest == people * 9 // 10 != planned.honest
    if people < 1000:
        assert (there.epsilon, there.delta) > (planned.epsilon, planned.delta)
        assert there.delta > 1e-5 or there.epsilon > 1.0
        assert any("950 took part" in each for each in answer.warnings)


SURVEY = """epsilon = 2.0
delta = 1e-3
[questions.home]
task = "count"
[questions.way]
task = "{task}"
{options}
"""
PLAIN = SURVEY.format(task="histogram", options='categories = ["car", "bus"]')
GROUPED = SURVEY.format(
    task="count", options='column = "home"\nby = "way"\ngroups = ["car", "bus"]'
)


@pytest.mark.parametrize("text", [PLAIN, GROUPED], ids=["plain", "by group"])
@pytest.mark.parametrize("made_for", [95, 110])
def test_a_survey_made_for_others_is_not_answered(text, made_for):
    """Its plan promises what the noise of other people would give."""
    people = {"home": [True, False] * 50, "way": ["car", "bus"] * 50}
    prepared = sdp.Survey.loads(text).prepare(people, n=made_for, rng=sdp.SeededWords(1))
    with pytest.raises(sdp.DataError, match=f"100 answers, but {made_for} people take part"):
        prepared.answer()


@pytest.mark.parametrize("place", [0, 1])
def test_every_question_counts_its_people(place):
    """Also the last one: both columns are read."""
    people = {"home": [True, False] * 50, "way": ["car", "bus"] * 50}
    survey = sdp.Survey.loads(PLAIN)
    name = ("home", "way")[place]
    prepared = survey.prepare(people, rng=sdp.SeededWords(1))
    shorter = sdp.questions.open_data(people[name][:-2])
    parts = [
        replace(part, column=shorter) if part.question.name == name else part
        for part in prepared.parts
    ]
    prepared = replace(prepared, parts=tuple(parts))
    with pytest.raises(sdp.DataError, match="98 answers, but 100 people take part"):
        prepared.answer()


@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize(
    ("task", "options", "exact"),
    [
        ("median", {"lower": 0, "upper": 40}, lambda x: np.quantile(x, 0.5, method="inverted_cdf")),
        (
            "quantiles",
            {"lower": 0.0, "upper": 40.0, "at": [0.25, 0.75]},
            lambda x: np.quantile(x, [0.25, 0.75], method="inverted_cdf"),
        ),
        ("std", {"lower": 0, "upper": 40}, np.std),
        ("variance", {"lower": 0, "upper": 40}, np.var),
        (
            "bins",
            {"edges": [0, 10, 20, 41]},
            lambda x: [*np.histogram(x, [0, 10, 20, 41])[0], None],
        ),
    ],
)
def test_quantiles_spreads_and_bins_of_those_who_have_a_value(
    task, options, exact, dropped, tmp_path
):
    """Under a ledger nobody is left out of n: by a filter, or because there is no value."""
    source = np.random.default_rng(8)
    ages = source.binomial(40, 0.4, 3000).astype(float)
    asked = source.random(3000) < 0.6
    table = {
        "age": [age if kept or not dropped else None for age, kept in zip(ages, asked, strict=True)]
    }
    table["asked"] = ["yes" if each else "no" for each in asked]
    given = {"on_invalid": "drop"} if dropped else {"where": "asked = 'yes'"}
    answer = sdp.ask(
        pa.table(table),
        task,
        column="age",
        epsilon=4.0,
        model="central",
        ledger=tmp_path / "l.json",
        budget=sdp.ledger.Budget(epsilon=4.0, delta=0.0),
        **given,
        **options,
    )
    words = "the words of the filter (asked = 'yes'), which the answer and the ledger repeat"
    assert (answer.n, answer.not_private) == (3000, () if dropped else (words,))
    truth = np.atleast_1d(np.asarray(exact(ages[asked]), dtype=float))
    if task == "bins":
        truth[-1] = 3000 - asked.sum()
        assert answer.estimate.labels[-1] == "none"
    low, high = (np.atleast_1d(end) for end in answer.estimate.interval(1 - 1e-9))
    assert np.all((low <= truth) & (truth <= high))
    if task == "quantiles":
        assert [row.label for row in answer.picture.rows] == ["0.25", "0.75"]


def test_a_median_by_group_under_a_filter_names_the_groups(tmp_path):
    table = pa.table(
        {"age": [3, 5] * 500, "way": ["car", "bus"] * 500, "old": ["n", "y", "y", "y"] * 250}
    )
    given = {"lower": 0, "upper": 9, "by": "way", "groups": ["car", "bus"], "where": "old = 'y'"}
    answer = sdp.ask(
        table,
        "median",
        column="age",
        epsilon=9.0,
        model="central",
        ledger=tmp_path / "l.json",
        budget=sdp.ledger.Budget(epsilon=9.0, delta=0.0),
        **given,
    )
    assert [(row.label, row.value) for row in answer.picture.rows] == [("car", 3.0), ("bus", 5.0)]
    assert answer.by == "way"


def test_a_column_may_be_called_as_the_groups_of_those_who_count():
    table = {"age": [3, 5] * 50, "counted": ["car", "bus"] * 50}
    given = {"lower": 0, "upper": 9, "by": "counted", "groups": ["car", "bus"]}
    answer = sdp.ask(table, "median", column="age", epsilon=9.0, model="central", **given)
    assert answer.by == "counted"


def test_a_column_of_groups_may_be_called_as_it_likes(tmp_path):
    """Also as the groups of those who have a value are called within."""
    table = pa.table({"age": [3, 5] * 50, "counted": ["car", "bus"] * 50, "old": ["n", "y"] * 50})
    answer = sdp.ask(
        table,
        "mean",
        column="age",
        lower=0,
        upper=9,
        by="counted",
        groups=["car", "bus"],
        where="old = 'y'",
        epsilon=9.0,
        model="central",
        ledger=tmp_path / "l.json",
        budget=sdp.ledger.Budget(epsilon=9.0, delta=0.0),
    )
    assert (answer.by, answer.estimate.labels) == ("counted", ("car", "bus"))
